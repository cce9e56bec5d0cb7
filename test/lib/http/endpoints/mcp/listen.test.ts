/** `subscriptions/listen` of MCP sends the states of tasks as notifications. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createHandler } from "../../../../../lib/http/handler.ts";
import type { JsonObject } from "../../../../../lib/json.ts";
import { fromFunctions } from "../../../../../lib/mod.ts";
import { keepAlive } from "../../../../support/alive.ts";
import { createGate } from "../../../../support/gate.ts";
import { startProcesses } from "../../../../support/shared-database.ts";
import { customWorld, owning } from "../../../auth/custom-auth.harness.ts";
import {
  AGENTS,
  type Ask,
  asker,
  call,
  createRequest,
  type Fetch,
  FORMS,
  mcpWorld,
  messagesIn,
  readText,
  session,
  TASKS,
} from "./mcp.harness.ts";

const BOTH = { capabilities: { ...FORMS, ...TASKS } };
const AT_ONCE = { http: { mcp: { task_after_ms: 0 } } };
const NONE = "00000000-0000-4000-8000-000000000000";

const created = async (ask: Ask, name: string, options: object = BOTH): Promise<string> =>
  (await ask("tools/call", call(name), { ...BOTH, ...options })).result.taskId as string;

const listening = async (fetch: Fetch, taskIds: readonly string[], options: object = BOTH): Promise<Response> =>
  await fetch(
    createRequest("http://h/mcp", "subscriptions/listen", { notifications: { taskIds: [...taskIds] } }, options),
  );

interface Heard {
  readonly method: string;
  readonly params: JsonObject;
  readonly result?: JsonObject;
}

/** Reads the next message without the members that all have. */
async function next(messages: AsyncGenerator<JsonObject, void>): Promise<Heard> {
  const { value } = await messages.next();
  const message = value as unknown as Heard;
  const meta = (message.params ?? message.result)._meta as JsonObject;
  assert.equal(meta["io.modelcontextprotocol/subscriptionId"], 1);
  return message;
}

/** Waits for the next notification of a task with this status. */
async function until(messages: AsyncGenerator<JsonObject, void>, status: string): Promise<JsonObject> {
  for (;;) {
    const { method, params } = await next(messages);
    assert.equal(method, "notifications/tasks");
    if (params.status === status) return params;
  }
}

describe("an MCP subscription", () => {
  keepAlive();

  it("reports tasks as tasks/get does until all have ended", async () => {
    await using it = await mcpWorld(AT_ONCE);
    const taskId = await created(it.ask, "refund");
    const response = await listening(it.test.fetch, [taskId, taskId]);
    assert.equal(response.headers.get("content-type"), "text/event-stream");
    const messages = messagesIn(response);
    const ack = await next(messages);
    assert.equal(ack.method, "notifications/subscriptions/acknowledged");
    assert.deepEqual(ack.params.notifications, { taskIds: [taskId] });
    const { _meta, ...taskStatus } = await until(messages, "input_required");
    const { resultType: _, _meta: _taskMeta, ...taskResult } = (await it.ask("tasks/get", { taskId }, BOTH)).result;
    const timeless = ({ lastUpdatedAt: _l, ttlMs: _t, ...task }: JsonObject): JsonObject => task;
    assert.deepEqual(timeless(taskStatus), timeless(taskResult));
    const [key = ""] = Object.keys(taskStatus.inputRequests as JsonObject);
    const inputResponses = { [key]: { action: "accept", content: { answer: "yes" } } };
    await it.ask("tasks/update", { taskId, inputResponses }, BOTH);
    const done = await until(messages, "completed");
    assert.equal(readText(done.result as JsonObject), 'Got "yes"');
    const { result } = await next(messages);
    assert.equal(result?.resultType, "complete");
    assert.equal((await messages.next()).done, true);
  });

  it("reports a task that was cancelled without a run", async () => {
    await using it = await mcpWorld(AT_ONCE);
    const taskId = await created(it.ask, "refund");
    const messages = messagesIn(await listening(it.test.fetch, [taskId]));
    await next(messages);
    await until(messages, "input_required");
    await it.ask("tasks/cancel", { taskId }, BOTH);
    await until(messages, "cancelled");
    assert.equal((await next(messages)).result?.resultType, "complete");
  });

  it("excludes unknown tasks and those of other users", async () => {
    await using it = await customWorld({
      agents: AGENTS,
      on: { "*": owning, "assistants:read": () => true, "assistants:search": () => true },
      ...AT_ONCE,
    });
    const as = (name: string) => ({ ...BOTH, headers: { authorization: `Bearer ${name}` } });
    const taskId = await created(asker(it.it.fetch), "refund", as("ann"));
    for (const ids of [[taskId], [NONE], ["x"], []]) {
      const messages = messagesIn(await listening(it.it.fetch, ids, as("bob")));
      assert.deepEqual((await next(messages)).params.notifications, { taskIds: [] });
      assert.equal((await next(messages)).result?.resultType, "complete");
    }
    const messages = messagesIn(await listening(it.it.fetch, [NONE, taskId], as("ann")));
    assert.deepEqual((await next(messages)).params.notifications, { taskIds: [taskId] });
    await until(messages, "input_required");
    // The thread gets another owner.
    const { thread_id } = await it.it.service.runs.get(null, taskId);
    await it.it.service.threads.update(thread_id, { metadata: { owner: "bob" } });
    assert.equal((await next(messages)).result?.resultType, "complete");
  });

  it("refuses invalid parameters", async () => {
    await using it = await mcpWorld(AT_ONCE);
    const ask = (notifications: JsonObject[string], options: object = BOTH) =>
      it.ask("subscriptions/listen", { notifications }, options);
    const lacking = await ask({ taskIds: [NONE] }, { capabilities: {} });
    assert.deepEqual(
      [lacking.status, lacking.error.code, lacking.error.data],
      [400, -32021, { requiredCapabilities: TASKS }],
    );
    for (const wrong of [null, 3, { taskIds: NONE }, { taskIds: Array(51).fill(NONE) }]) {
      assert.equal((await ask(wrong)).error.code, -32602);
    }
    const otherStream = await ask({ toolsListChanged: true }, { capabilities: {} });
    assert.match(otherStream.text, /"notifications":\{\}/);
    assert.equal(otherStream.result.resultType, "complete");
    assert.equal((await it.ask("subscriptions/listen", { notifications: {} })).error.code, -32601);
  });

  it("ends with a result when the server stops", async () => {
    await using it = await mcpWorld(AT_ONCE);
    const taskId = await created(it.ask, "refund");
    const messages = messagesIn(await listening(it.test.fetch, [taskId]));
    await next(messages);
    await until(messages, "input_required");
    const last = next(messages);
    await it.service.stop(0);
    assert.equal((await last).result?.resultType, "complete");
    assert.equal((await messages.next()).done, true);
  });

  it("aborts when the key is revoked, as an interrupted call does", async () => {
    await using it = await mcpWorld({ ...AT_ONCE, auth: { mode: "api_key" } });
    const { accounts } = it.service;
    const { key, row } = await accounts.createKey({ kind: "sk" });
    const headers = { "x-api-key": key };
    const client = await session(it.test.fetch, { headers });
    const { result } = await client.callWithQuestions(call("refund"));
    const taskId = await created(it.ask, "refund", { headers });
    const messages = messagesIn(await listening(it.test.fetch, [taskId], { ...BOTH, headers }));
    await next(messages);
    await until(messages, "input_required");
    const ends = [result, messages.next()];
    await accounts.revokeKey(row.id);
    for (const end of ends) await assert.rejects(end);
  });

  it("aborts when its caller loses the permission to read", async () => {
    let isAllowed = true;
    await using it = await customWorld({ agents: AGENTS, on: { "*": () => isAllowed }, ...AT_ONCE });
    const as = { ...BOTH, headers: { authorization: "Bearer ann" } };
    const taskId = await created(asker(it.it.fetch), "refund", as);
    const messages = messagesIn(await listening(it.it.fetch, [taskId], as));
    await next(messages);
    await until(messages, "input_required");
    isAllowed = false;
    await assert.rejects(messages.next());
  });

  for (const mode of ["normal", "lost"] as const)
    it(`reports tasks that another process executes; signals: ${mode}`, async () => {
      const { agent, reached, open } = createGate();
      const executor = () => fromFunctions({ waits: agent });
      const world = await startProcesses({ mode, concurrency: [1, 0], executor });
      const [first, second] = world.services.map((service) => createHandler(service)) as [Fetch, Fetch];
      await world.services[0]?.assistants.update("waits", { metadata: { mcp: { task: "always" } } });
      const taskId = await created(asker(first), "waits");
      await reached();
      const messages = messagesIn(await listening(second, [taskId]));
      await next(messages);
      open();
      let isDone = false;
      const done = until(messages, "completed").then((task) => {
        isDone = true;
        return task;
      });
      await world.until(() => isDone);
      assert.equal(readText((await done).result as JsonObject), "Through");
      await world.stop();
    });
});
