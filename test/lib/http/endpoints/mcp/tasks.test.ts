/** MCP tasks: calls that clients poll, resumed by them or in the studio, in any process. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { createHandler } from "../../../../../lib/http/handler.ts";
import type { JsonObject } from "../../../../../lib/json.ts";
import { fromFunctions } from "../../../../../lib/mod.ts";
import { ASKING, CLOSED, readShownThread } from "../../../../support/inbox.ts";
import { startProcesses } from "../../../../support/shared-database.ts";
import { until } from "../../../../support/until.ts";
import { customWorld, owning } from "../../../auth/custom-auth.harness.ts";
import { AGENTS, type Ask, asker, asksTwice, call, FORMS, mcpWorld, readText, TASKS } from "./mcp.harness.ts";

const LIVE = { capabilities: TASKS };
const BOTH = { capabilities: { ...FORMS, ...TASKS } };
/** Every call becomes a task at once. */
const AT_ONCE = { http: { mcp: { task_after_ms: 0 } } };

const readResult = ({ result }: JsonObject): JsonObject => result as JsonObject;

/** Polls until the task has one of these states. */
async function polled(ask: Ask, taskId: string, ...states: string[]): Promise<JsonObject> {
  let task: JsonObject = {};
  await until(async () => {
    task = (await ask("tasks/get", { taskId }, BOTH)).result;
    return states.includes(task.status as string);
  }, `a task that is ${states}`);
  return task;
}

const waits = async ({ signal }: { signal: AbortSignal }): Promise<string> => {
  await wait(60_000, undefined, { signal });
  return "Never";
};
const created = async (ask: Ask, name: string, options: object = BOTH): Promise<JsonObject> => {
  const { result } = await ask("tools/call", call(name), options);
  assert.equal(result.resultType, "task");
  return result;
};

describe("an MCP task", () => {
  it("is created for a long call and not for a short one", async () => {
    await using it = await mcpWorld({ agents: { ...AGENTS, waits }, http: { mcp: { task_after_ms: 300 } } });
    const short = (await it.ask("tools/call", call("echo"), LIVE)).result;
    assert.deepEqual([short.resultType, readText(short)], ["complete", "You said Hi"]);
    const { _meta, taskId, createdAt, lastUpdatedAt, ttlMs, ...task } = await created(it.ask, "waits", LIVE);
    assert.deepEqual(task, { resultType: "task", status: "working", pollIntervalMs: 500 });
    assert.ok(Number.isInteger(ttlMs) && (ttlMs as number) >= 86_400_000 && (ttlMs as number) < 87_000_000);
    assert.ok(String(createdAt) <= String(lastUpdatedAt));
    assert.equal((await it.service.runs.get(null, taskId as string)).metadata.created_by, "mcp");
    assert.equal((await polled(it.ask, taskId as string, "working")).resultType, "complete");
  });

  it("contains the result, the agent's error, or why the run did not end", async () => {
    await using it = await mcpWorld({
      ...AT_ONCE,
      executor: fromFunctions({ ...AGENTS, late: { agent: waits, timeout_ms: 100 } }),
    });
    const ended = async (name: string) => {
      const { taskId } = await created(it.ask, name);
      const {
        taskId: _,
        createdAt: _c,
        lastUpdatedAt: _l,
        ttlMs: _t,
        pollIntervalMs: _p,
        _meta,
        ...task
      } = await polled(it.ask, taskId as string, "completed", "failed");
      return task;
    };
    assert.deepEqual(await ended("echo"), {
      ...{ status: "completed", resultType: "complete" },
      result: { resultType: "complete", content: [{ type: "text", text: "You said Hi" }] },
    });
    const failed = readResult(await ended("fails"));
    assert.deepEqual([failed.isError, readText(failed)], [true, "It broke"]);
    const message = "The run took longer than 100 ms";
    assert.deepEqual(await ended("late"), {
      ...{ status: "failed", resultType: "complete", statusMessage: message },
      error: { code: -32603, message },
    });
  });

  it("requires input, keeps the responses until all are there, and continues once", async () => {
    await using it = await mcpWorld(AT_ONCE);
    const { taskId } = await created(it.ask, "refund");
    const task = await polled(it.ask, taskId as string, "input_required");
    const [key = ""] = Object.keys(task.inputRequests as JsonObject);
    const update = (inputResponses: JsonObject) =>
      it.ask("tasks/update", { taskId: taskId as string, inputResponses }, BOTH);
    for (const useless of [
      {},
      { other: { action: "accept", content: { answer: "x" } } },
      { [key]: { action: "accept" } },
    ]) {
      const { result } = await update(useless as JsonObject);
      assert.deepEqual([result.resultType, Object.keys(result).length], ["complete", 2]);
    }
    assert.equal((await polled(it.ask, taskId as string, "input_required")).status, "input_required");
    const answers = [1, 2, 3].map((n) => update({ [key]: { action: "accept", content: { answer: `yes ${n}` } } }));
    await Promise.all(answers);
    const done = await polled(it.ask, taskId as string, "completed");
    assert.match(readText(readResult(done)), /^Got "yes \d"$/);
    const { thread_id } = await it.service.runs.get(null, taskId as string);
    assert.equal((await it.service.runs.list(thread_id)).length, 2);
    assert.equal((await it.ask("tasks/update", { taskId: taskId as string, inputResponses: 3 }, BOTH)).status, 400);
  });

  it("never reuses a key, so a repeated update answers no later interrupt", async () => {
    await using it = await mcpWorld({ ...AT_ONCE, agents: { twice: asksTwice({ key: "sure", question: "Sure?" }) } });
    const { taskId } = await created(it.ask, "twice");
    const readTaskIds = async (): Promise<string[]> =>
      Object.keys((await polled(it.ask, taskId as string, "input_required")).inputRequests as JsonObject);
    const [first = ""] = await readTaskIds();
    assert.equal(first, "sure");
    const update = (key: string, answer: string) =>
      it.ask(
        "tasks/update",
        { taskId: taskId as string, inputResponses: { [key]: { action: "accept", content: { answer } } } },
        BOTH,
      );
    await update(first, "a");
    await until(async () => (await readTaskIds())[0] !== first);
    await update(first, "again");
    const [second = ""] = await readTaskIds();
    await update(second, "b");
    assert.equal(readText(readResult(await polled(it.ask, taskId as string, "completed"))), "a b");
  });

  it("continues after a person has answered in the studio", async () => {
    await using it = await mcpWorld(AT_ONCE);
    const { taskId } = await created(it.ask, "approves", LIVE);
    await until(
      async () =>
        (await it.ask("tasks/get", { taskId: taskId as string }, LIVE)).result.statusMessage === "Waits for a person",
    );
    const { thread_id } = await it.service.runs.get(null, taskId as string);
    const resume = { decisions: [{ type: "approve" }] };
    await (await it.service.runs.wait(thread_id, { assistant_id: "approves", command: { resume } })).result;
    assert.match(readText(readResult(await polled(it.ask, taskId as string, "completed"))), /approve/);
    // A later turn of the conversation changes nothing.
    await (await it.service.runs.wait(thread_id, { assistant_id: "approves", input: { messages: "Again" } })).result;
    assert.match(readText(readResult(await polled(it.ask, taskId as string, "completed"))), /approve/);
  });

  it("is created for an interrupted call if the client has no elicitation", async () => {
    await using it = await mcpWorld();
    const { taskId } = await created(it.ask, "refund", LIVE);
    const task = await polled(it.ask, taskId as string, "input_required");
    assert.equal(Object.keys(task.inputRequests as JsonObject).length, 1);
    assert.equal((await it.ask("tools/call", call("refund"), BOTH)).result.resultType, "input_required");
  });

  it("can be cancelled while it works or is interrupted, and not after its end", async () => {
    await using it = await mcpWorld({ ...AT_ONCE, agents: { ...AGENTS, waits } });
    const cancel = async (taskId: string) => {
      const { result } = await it.ask("tasks/cancel", { taskId }, BOTH);
      assert.deepEqual([result.resultType, Object.keys(result).length], ["complete", 2]);
    };
    const working = (await created(it.ask, "waits")).taskId as string;
    await polled(it.ask, working, "working");
    await cancel(working);
    assert.equal((await polled(it.ask, working, "cancelled")).status, "cancelled");
    const asking = (await created(it.ask, "refund")).taskId as string;
    await polled(it.ask, asking, "input_required");
    const { thread_id } = await it.service.runs.get(null, asking);
    assert.deepEqual(await readShownThread(it.test.fetch, thread_id), ASKING);
    await cancel(asking);
    await polled(it.ask, asking, "cancelled");
    assert.deepEqual(await readShownThread(it.test.fetch, thread_id), CLOSED);
    const done = (await created(it.ask, "echo")).taskId as string;
    await polled(it.ask, done, "completed");
    await cancel(done);
    await polled(it.ask, done, "completed");
  });

  it("survives the connection of its client", async () => {
    await using it = await mcpWorld({ agents: { waits } });
    await it.service.assistants.update("waits", { metadata: { mcp: { task: "always" } } });
    const { taskId } = await created(it.ask, "waits", LIVE);
    assert.equal((await polled(it.ask, taskId as string, "working")).status, "working");
    await it.service.assistants.update("waits", { metadata: { mcp: { task: "required" } } });
    const refused = await it.ask("tools/call", call("waits"), { capabilities: {} });
    assert.deepEqual([refused.status, refused.error.data], [400, { requiredCapabilities: TASKS }]);
  });

  it("of another user gets the response of an absent task", async () => {
    await using it = await customWorld({
      agents: AGENTS,
      on: { "*": owning, "assistants:read": () => true, "assistants:search": () => true },
      ...AT_ONCE,
    });
    const as = (name: string): Ask => {
      const ask = asker(it.it.fetch);
      return (method, params, options = {}) =>
        ask(method, params, { ...options, headers: { authorization: `Bearer ${name}` } });
    };
    const { taskId } = await created(as("ann"), "refund");
    await polled(as("ann"), taskId as string, "input_required");
    const { run_id } = await it.it.service.runs.create(null, { assistant_id: "echo", input: {} });
    const { thread_id } = await it.it.service.runs.get(null, taskId as string);
    for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
      const answers = [];
      for (const id of [taskId as string, "00000000-0000-4000-8000-000000000000", "x", run_id]) {
        answers.push((await as("bob")(method, { taskId: id, inputResponses: {} }, BOTH)).text);
      }
      assert.equal(new Set(answers).size, 1, answers.join("\n"));
    }
    const foreign = await as("bob")("tools/call", { name: "refund", arguments: { thread_id, resume: "yes" } });
    assert.equal(readText(foreign.result), `There is no conversation ${thread_id}`);
    assert.equal((await polled(as("ann"), taskId as string, "input_required")).status, "input_required");
  });

  it("can be read in every process", async () => {
    const world = await startProcesses({ concurrency: [1, 0] });
    const [first, second] = world.services.map((service) => asker(createHandler(service))) as [Ask, Ask];
    await world.services[0]?.assistants.update("count", { metadata: { mcp: { task: "always" } } });
    const taskId = (await created(first, "count")).taskId as string;
    const readStatus = async (): Promise<unknown> => (await second("tasks/get", { taskId }, BOTH)).result.status;
    assert.equal(await readStatus(), "working");
    world.say("end");
    while ((await readStatus()) === "working") await world.pass(100);
    assert.equal(await readStatus(), "completed");
    await world.stop();
  });
});
