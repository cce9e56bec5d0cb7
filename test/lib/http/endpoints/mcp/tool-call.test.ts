/** MCP tool calls are runs: their results, interrupts, progress and ends. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../../../adapters/sqlite/node.ts";
import type { JsonObject } from "../../../../../lib/json.ts";
import type { Storage } from "../../../../../lib/storage/mod.ts";
import { keepAlive } from "../../../../support/alive.ts";
import { createGate } from "../../../../support/gate.ts";
import { until } from "../../../../support/until.ts";
import { customWorld } from "../../../auth/custom-auth.harness.ts";
import {
  AGENTS,
  answerable,
  answered,
  asker,
  asksTwice,
  call,
  createRequest,
  FORMS,
  mcpWorld,
  readAnswer,
  readRunId,
  readText,
  readThreadId,
} from "./mcp.harness.ts";

const MODERN = { capabilities: {} };

describe("an MCP tool call", () => {
  keepAlive();

  it("starts a run on a new thread, which expires", async () => {
    await using it = await mcpWorld({ retention: { mcp_ms: 60_000 } });
    const { result } = await it.ask("tools/call", call("echo"));
    const thread = await it.service.threads.get(readThreadId(result), { include: ["ttl"] });
    assert.deepEqual([thread.metadata.created_by, thread.metadata.mcp_tool], ["mcp", "echo"]);
    assert.equal(thread.ttl?.ttl_minutes, 1);
    const run = await it.service.runs.get(null, readRunId(result));
    assert.deepEqual([run.metadata.created_by, run.status, run.multitask_strategy], ["mcp", "success", "enqueue"]);
  });

  it("returns the reply or else the output, and the error of a failed agent as a result", async () => {
    await using it = await mcpWorld();
    const { _meta: _, ...values } = (await it.ask("tools/call", call("answers"))).result;
    assert.deepEqual(values.structuredContent, { answer: 42 });
    const { status, result } = await it.ask("tools/call", call("fails"), MODERN);
    assert.deepEqual(
      [status, result.isError, readText(result), result.resultType],
      [200, true, "It broke", "complete"],
    );
    assert.equal((await it.ask("tools/call", { name: "echo", arguments: [] })).error.code, -32602);
  });

  it("asks the client, and returns the same result for a repeated reply", async () => {
    await using it = await mcpWorld();
    const first = (await it.ask("tools/call", call("refund"), { capabilities: FORMS })).result;
    const [request] = Object.values(first.inputRequests as JsonObject);
    assert.deepEqual(request, {
      method: "elicitation/create",
      params: {
        ...{ mode: "form", message: "Refund 30 euros?" },
        requestedSchema: { type: "object", properties: { answer: { type: "string" } }, required: ["answer"] },
      },
    });
    const reply = call("refund", answered(first, { answer: "yes" }));
    const answers = await Promise.all([1, 2, 3].map(() => it.ask("tools/call", reply, { capabilities: FORMS })));
    for (const { result } of [...answers, await it.ask("tools/call", reply, { capabilities: FORMS })]) {
      assert.equal(readText(result), 'Got "yes"');
    }
    const runs = await it.service.runs.list(readThreadId(first));
    assert.equal(runs.length, 2);
    assert.equal(runs[0]?.metadata.task_id, runs[1]?.run_id);
  });

  it("asks again if input is missing or invalid, and keeps the interrupt if the person does not decide", async () => {
    await using it = await mcpWorld();
    const ask = (params: JsonObject) => it.ask("tools/call", call("refund", params), { capabilities: FORMS });
    const first = (await ask({})).result;
    const { requestState = "" } = first;
    const useless: JsonObject[] = [{}, { other: { action: "accept", content: {} } }];
    for (const inputResponses of useless) {
      const again = (await ask({ requestState, inputResponses })).result;
      assert.deepEqual(again.inputRequests, first.inputRequests);
    }
    const wrong = (await ask(answered(first, { answer: 3 }))).result;
    assert.equal(wrong.resultType, "input_required");
    const closed = (await ask(answered(first, {}, "cancel"))).result;
    assert.deepEqual([closed.isError, readText(closed).startsWith("The agent asks: Refund")], [true, true]);
    const declined = (await ask(answered(first, {}, "decline"))).result;
    assert.equal(readText(declined), 'Got {"action":"decline"}');
  });

  it("refuses a request state that is forged or of another call, caller or time", async () => {
    await using it = await customWorld({ agents: AGENTS, on: { "*": () => true } });
    const ask = asker(it.it.fetch);
    const as = (name: string) => ({ capabilities: FORMS, headers: { authorization: `Bearer ${name}` } });
    const first = (await ask("tools/call", call("refund"), as("ann"))).result;
    const reply = answered(first, { answer: "yes" });
    const state = String(reply.requestState);
    const wrong: [JsonObject, ReturnType<typeof as>][] = [
      [call("refund", reply), as("bob")],
      [call("approves", reply), as("ann")],
      [{ ...call("refund", reply), arguments: { message: "Other" } }, as("ann")],
      ...["", "x", `${state}A`, state.slice(0, -1), state.toUpperCase(), 3].map(
        (requestState): [JsonObject, ReturnType<typeof as>] => [call("refund", { ...reply, requestState }), as("ann")],
      ),
    ];
    for (const [params, caller] of wrong) {
      const { status, error } = await ask("tools/call", params, caller);
      assert.deepEqual([status, error.data], [200, { reason: "invalid_request_state" }], JSON.stringify(params));
    }
    await it.it.service.threads.delete(readThreadId(first));
    assert.equal((await ask("tools/call", call("refund", reply), as("ann"))).error.code, -32602);
  });

  it("answers no later interrupt with a repeated reply, although both have one key", async () => {
    await using it = await mcpWorld({
      agents: {
        async *twice({ command, interrupt, state }) {
          const question = { key: "sure", question: state.first === undefined ? "One?" : "Two?" };
          if (command?.resume === undefined) yield interrupt(question);
          else if (state.first === undefined) {
            yield { first: command.resume };
            yield interrupt({ key: "sure", question: "Two?" });
          } else yield `${state.first} ${command.resume}`;
        },
      },
    });
    const ask = (params: JsonObject) => it.ask("tools/call", call("twice", params), { capabilities: FORMS });
    const first = (await ask({})).result;
    const reply = answered(first, { answer: "a" });
    const second = (await ask(reply)).result;
    assert.deepEqual(Object.keys(second.inputRequests as JsonObject), ["sure"]);
    assert.notEqual(second.requestState, first.requestState);
    const repeated = (await ask(reply)).result;
    assert.deepEqual([repeated.resultType, repeated.requestState], ["input_required", second.requestState]);
    assert.equal(readText((await ask(answered(second, { answer: "b" }))).result), "a b");
  });

  it("answers no later interrupt while another client answers the first one", async () => {
    const storage = nodeSqlite(":memory:");
    let reads = 0;
    let [nth, answer] = [0, async (): Promise<void> => {}];
    const slow: Storage = {
      ...storage,
      async getThread(...args) {
        if (++reads === nth) await answer();
        return await storage.getThread(...args);
      },
    };
    await using it = await mcpWorld({
      agents: { twice: asksTwice({ key: "sure", question: "Sure?" }) },
      storage: slow,
    });
    const ask = (params: JsonObject) => it.ask("tools/call", call("twice", params), { capabilities: FORMS });
    // Among these reads is one after the newest run was read, and before its interrupts are.
    for (const read of [1, 2, 3, 4]) {
      const first = (await ask({})).result;
      const thread_id = readThreadId(first);
      answer = async () => {
        nth = 0;
        const request = { assistant_id: "twice", command: { resume: "person" } };
        await (await it.service.runs.wait(thread_id, request)).result;
      };
      [reads, nth] = [0, read];
      const { result } = await ask(answered(first, { answer: "client" }));
      nth = 0;
      const { status } = await it.service.threads.get(thread_id);
      const { length } = await it.service.runs.list(thread_id);
      assert.deepEqual([result.resultType, status, length], ["input_required", "interrupted", 2], `read ${read}`);
    }
  });

  it("returns a handle to clients without elicitation, which the model answers if the agent allows it", async () => {
    await using it = await mcpWorld({ executor: answerable(AGENTS) });
    const first = (await it.ask("tools/call", call("refund"))).result;
    const thread_id = readThreadId(first);
    const text = `The agent asks: Refund 30 euros? To answer, call refund again with {"thread_id": "${thread_id}", "resume": …}.`;
    assert.deepEqual([first.isError, readText(first)], [true, text]);
    const reply = (toolArguments: JsonObject, name = "refund") =>
      it.ask("tools/call", { name, arguments: toolArguments });
    const unknown = "00000000-0000-4000-8000-000000000000";
    for (const id of [unknown, "x", 3]) {
      const { result } = await reply({ thread_id: id, resume: "yes" });
      assert.deepEqual([result.isError, readText(result)], [true, `There is no conversation ${id}`]);
    }
    // A thread of another agent gets the response of an unknown thread.
    const foreign = (await reply({ thread_id, resume: "yes" }, "approves")).result;
    assert.equal(readText(foreign), `There is no conversation ${thread_id}`);
    assert.equal(readText((await reply({ resume: "yes" })).result).includes("needs thread_id"), true);
    assert.equal(readText((await reply({ thread_id, resume: "yes" })).result), 'Got "yes"');
    assert.equal(
      readText((await reply({ thread_id, resume: "yes" })).result),
      "No question is open in this conversation",
    );
  });

  it("asks a person for approval by a form with each decision", async () => {
    await using it = await mcpWorld();
    const decide = async (content: JsonObject, action = "accept") => {
      const first = (await it.ask("tools/call", call("approves"), { capabilities: FORMS })).result;
      const reply = call("approves", answered(first, content, action));
      return readText((await it.ask("tools/call", reply, { capabilities: FORMS })).result);
    };
    const got = (...decisions: JsonObject[]): string => `Got ${JSON.stringify({ decisions })}`;
    assert.equal(await decide({ decision: "approve" }), got({ type: "approve" }));
    assert.equal(await decide({ decision: "reject", message: "No" }), got({ type: "reject", message: "No" }));
    assert.equal(await decide({}, "decline"), got({ type: "reject" }));
    const edited = got({ type: "edit", editedAction: { name: "refund", args: { amount: 3 } } });
    assert.equal(await decide({ decision: "edit", args: '{"amount":3}' }), edited);
  });

  it("reports growing progress, and then its result", async () => {
    await using it = await mcpWorld({
      agents: {
        async *works({ emit }) {
          for (const progress of [1, 1, 2]) {
            emit({ progress, total: 2, message: `Step ${progress}` });
            yield { progress };
            await new Promise((resolve) => setTimeout(resolve, 300));
          }
          yield "Done";
        },
      },
    });
    const request = createRequest("http://h/mcp", "tools/call", call("works"), {
      ...MODERN,
      meta: { progressToken: "p1" },
    });
    const response = await it.test.fetch(request);
    assert.equal(response.headers.get("cache-control"), "no-cache, no-transform");
    const { text, result } = await readAnswer(response);
    const notes = [...text.matchAll(/^event: message\ndata: (.*)$/gm)].map(
      ([, data = ""]) => JSON.parse(data) as JsonObject,
    );
    assert.deepEqual(
      notes.slice(0, -1).map(({ method, params }) => [method, params]),
      [1, 2].map((progress) => [
        "notifications/progress",
        { progressToken: "p1", progress, total: 2, message: `Step ${progress}` },
      ]),
    );
    assert.equal(readText(result), "Done");
  });

  it("is cancelled when its client of 2026-07-28 disconnects, and by no other", async () => {
    const { agent, reached, open, reset } = createGate();
    await using it = await mcpWorld({ agents: { waits: agent } });
    const hangUp = async (options: object): Promise<string> => {
      const response = await it.test.fetch(createRequest("http://h/mcp", "tools/call", call("waits"), options));
      const reader = response.body?.getReader();
      const pulled = reader?.read();
      await reached();
      await reader?.cancel();
      await pulled;
      const { items } = await it.service.runs.search({ limit: 1 });
      return items[0]?.run_id ?? "";
    };
    const modern = await hangUp(MODERN);
    await until(async () => (await it.service.runs.get(null, modern)).status === "interrupted");
    reset();
    const legacy = await hangUp({});
    open();
    await until(async () => (await it.service.runs.get(null, legacy)).status === "success");
  });

  it("with progress is cancelled when its client disconnects", async () => {
    const { agent, reached } = createGate();
    await using it = await mcpWorld({ agents: { waits: agent } });
    const options = { ...MODERN, meta: { progressToken: 1 } };
    const response = await it.test.fetch(createRequest("http://h/mcp", "tools/call", call("waits"), options));
    const reader = response.body?.getReader();
    const pulled = reader?.read();
    await reached();
    await reader?.cancel();
    await pulled;
    const [{ run_id } = { run_id: "" }] = (await it.service.runs.search({ limit: 1 })).items;
    await until(async () => (await it.service.runs.get(null, run_id)).status === "interrupted");
  });

  it("reports that the run continues when the server stops", async () => {
    const { agent, reached } = createGate();
    await using it = await mcpWorld({ agents: { waits: agent } });
    const answer = it.ask("tools/call", call("waits"));
    await reached();
    await it.service.stop(0);
    const { result } = await answer;
    assert.deepEqual(
      [result.isError, readText(result).startsWith("The server is stopping. The run goes on")],
      [true, true],
    );
  });
});
