/** MCP clients of 2025-11-25 with elicitation: elicitations in the response stream, replies to any process, cancelled requests. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { langgraph } from "../../../../../adapters/langgraph/mod.ts";
import { createHandler } from "../../../../../lib/http/handler.ts";
import type { JsonObject } from "../../../../../lib/json.ts";
import { fromFunctions, type Service } from "../../../../../lib/mod.ts";
import { createParallelGraph } from "../../../../compat/mcp/agents.ts";
import { keepAlive } from "../../../../support/alive.ts";
import { createGate } from "../../../../support/gate.ts";
import { CLOSED, readShownThread } from "../../../../support/inbox.ts";
import { startProcesses } from "../../../../support/shared-database.ts";
import { customWorld } from "../../../auth/custom-auth.harness.ts";
import {
  AGENTS,
  call,
  mcpWorld,
  messagesIn,
  readAnswer,
  readText,
  readThreadId,
  replyTo,
  session,
} from "./mcp.harness.ts";

const YES = { answer: "yes" };
const yes = (question: JsonObject | undefined): JsonObject => replyTo(question ?? {}, YES);

describe("an MCP session", () => {
  it("stores the capabilities of the client in its id, and treats an invalid id as none", async () => {
    await using it = await mcpWorld();
    const { fetch } = it.test;
    const { id } = await session(fetch, {
      capabilities: { elicitation: { form: {}, own: "x" }, roots: {}, other: {} },
    });
    assert.match(id, /^[\w-]+$/);
    const [nonce, capabilities] = JSON.parse(atob(id.replaceAll("-", "+").replaceAll("_", "/")));
    assert.match(nonce, /^[0-9a-f-]{36}$/);
    assert.deepEqual(capabilities, { elicitation: { form: {} }, roots: {} });
    assert.notEqual((await session(fetch)).id, id);
    const wrong = ["", "x", `x${id}`, id.slice(0, -4), btoa("[]"), btoa('["x",{}]'), "A".repeat(10_000)];
    for (const reply of wrong) {
      const response = await (await session(fetch, { id: reply })).open("tools/call", call("refund"));
      assert.equal(response.headers.get("content-type"), "application/json", reply);
      assert.match(readText((await readAnswer(response)).result), /^The agent asks/);
    }
    for (const method of ["GET", "DELETE"]) {
      const headers = { "mcp-session-id": id };
      assert.equal((await fetch(new Request("http://h/mcp", { method, headers }))).status, 405);
    }
    const page = await fetch(
      new Request("http://h/mcp", { method: "GET", headers: { origin: "https://page.example" } }),
    );
    assert.match(page.headers.get("access-control-expose-headers") ?? "", /Mcp-Session-Id/);
  });

  it("requires elicitation of forms, and otherwise returns the handle", async () => {
    await using it = await mcpWorld();
    const { fetch } = it.test;
    const lacking: JsonObject[] = [{ roots: {} }, { elicitation: { url: {} } }];
    for (const capabilities of lacking) {
      const client = await session(fetch, { capabilities });
      const { result } = await readAnswer(await client.open("tools/call", call("refund")));
      assert.match(readText(result), /^The agent asks/);
    }
    // A batch has a single response.
    const { id } = await session(fetch);
    const headers = { "content-type": "application/json", accept: "*/*", "mcp-session-id": id };
    const body = JSON.stringify([{ jsonrpc: "2.0", id: 1, method: "tools/call", params: call("refund") }]);
    const answer = await fetch(new Request("http://h/mcp", { method: "POST", headers, body }));
    const [{ result }] = (await answer.json()) as [{ result: JsonObject }];
    assert.match(readText(result), /^The agent asks/);
  });
});

/** Resumes the run from outside MCP, as the inbox does. */
const answerAsPerson = async ({ runs }: Service, thread_id: string): Promise<void> => {
  await (await runs.wait(thread_id, { assistant_id: "refund", command: { resume: "later" } })).result;
};

describe("an MCP call with elicitation in its response stream", () => {
  keepAlive();

  it("continues once after the reply", async () => {
    await using it = await mcpWorld();
    const client = await session(it.test.fetch);
    const { questions, result } = await client.callWithQuestions(call("refund"));
    const [{ id, ...question } = { id: "" }] = questions;
    assert.deepEqual(question, {
      ...{ jsonrpc: "2.0", method: "elicitation/create" },
      params: {
        ...{ mode: "form", message: "Refund 30 euros?" },
        requestedSchema: { type: "object", properties: { answer: { type: "string" } }, required: ["answer"] },
      },
    });
    assert.match(String(id), /^elicit:[\w-]+\.0$/);
    const statuses = await Promise.all([1, 2, 3].map(() => client.send(yes(questions[0]))));
    assert.deepEqual(statuses, [202, 202, 202]);
    assert.equal(readText(await result), 'Got "yes"');
    assert.equal(await client.send(yes(questions[0])), 202);
    const runs = await it.service.runs.list(readThreadId(await result));
    assert.equal(runs.length, 2);
    assert.equal(runs[0]?.metadata.task_id, runs[1]?.run_id);
  });

  it("ignores a reply that is forged, late or of another session or user", async () => {
    await using it = await customWorld({ agents: AGENTS, on: { "*": () => true } });
    const { fetch, service } = it.it;
    const as = (name: string, id?: string) =>
      session(fetch, { headers: { authorization: `Bearer ${name}` }, ...(id === undefined ? {} : { id }) });
    const ann = await as("ann");
    const { questions, result } = await ann.callWithQuestions(call("refund"));
    const [question = {}] = questions;
    const id = String(question.id);
    const otherSessions = [await as("ann"), await as("bob"), await as("bob", ann.id), await as("ann", "")];
    for (const otherSession of otherSessions) assert.equal(await otherSession.send(yes(question)), 202);
    const wrong = [
      "elicit:",
      "elicit:x.0",
      id.replace(":", ":A"),
      id.replace(".0", ".00"),
      id.replace(".0", ".1"),
      id.replace(".0", ".999"),
      3,
    ];
    for (const forged of wrong) assert.equal(await ann.send(replyTo({ id: forged }, YES)), 202, String(forged));
    const { items } = await service.threads.search({ select: ["thread_id"] });
    const thread_id = String(items[0]?.thread_id);
    assert.equal((await service.runs.list(thread_id)).length, 1);
    await ann.send(yes(question));
    assert.equal(readText(await result), 'Got "yes"');
    await service.threads.delete(thread_id);
    assert.equal(await ann.send(yes(question)), 202);
  });

  it("authorizes again for the reply and while it waits", async () => {
    let isAllowed = true;
    await using it = await customWorld({ agents: AGENTS, on: { "*": () => isAllowed } });
    const ann = await session(it.it.fetch, { headers: { authorization: "Bearer ann" } });
    const { questions, result } = await ann.callWithQuestions(call("refund"));
    const { items } = await it.it.service.threads.search({ select: ["thread_id"] });
    const thread_id = String(items[0]?.thread_id);
    isAllowed = false;
    assert.equal(await ann.send(yes(questions[0])), 403);
    assert.equal(await ann.send({ method: "notifications/cancelled", params: { requestId: 1 } }), 403);
    await it.it.service.threads.update(thread_id, { metadata: { changed: true } });
    await assert.rejects(result);
    assert.equal((await it.it.service.runs.list(thread_id)).length, 1);
    isAllowed = true;
    assert.equal(await ann.send(yes(questions[0])), 202);
    assert.equal((await it.it.service.runs.list(thread_id)).length, 2);
  });

  it("accepts a reply of a megabyte", async () => {
    await using it = await mcpWorld();
    const client = await session(it.test.fetch);
    const { questions, result } = await client.callWithQuestions(call("refund"));
    const answer = "x".repeat(1_000_000);
    assert.equal(await client.send(replyTo(questions[0] ?? {}, { answer })), 202);
    assert.equal(readText(await result), `Got "${answer}"`);
  });

  it("passes a refusal to the agent, and returns the handle if the person does not decide", async () => {
    await using it = await mcpWorld();
    const client = await session(it.test.fetch);
    const declined = await client.callWithQuestions(call("refund"));
    await client.send(replyTo(declined.questions[0] ?? {}, null, "decline"));
    assert.equal(readText(await declined.result), 'Got {"action":"decline"}');
    const refused = await client.callWithQuestions(call("approves"));
    await client.send(replyTo(refused.questions[0] ?? {}, null, "decline"));
    assert.equal(readText(await refused.result), 'Got {"decisions":[{"type":"reject"}]}');
    const undecided: ((question: JsonObject) => JsonObject)[] = [
      (question) => replyTo(question, null, "cancel"),
      (question) => replyTo(question, { answer: 3 }),
      ({ id = null }) => ({ jsonrpc: "2.0", id, error: { code: -1, message: "No" } }),
      ({ id = null }) => ({ jsonrpc: "2.0", id, result: "x" }),
    ];
    for (const reply of undecided) {
      const { questions, result } = await client.callWithQuestions(call("refund"));
      const [question = {}] = questions;
      await client.send(reply(question));
      const thread_id = readThreadId(await result);
      assert.match(readText(await result), /^The agent asks: Refund 30 euros\? Only a person can answer/);
      // The call has its response by now, so only the handle can resume.
      await client.send(yes(question));
      await client.send({ method: "notifications/cancelled", params: { requestId: 1 } });
      assert.equal((await it.service.runs.list(thread_id)).length, 1);
      await answerAsPerson(it.service, thread_id);
      const again = call("refund", { arguments: { message: "Hi", thread_id } });
      assert.equal(readText((await it.ask("tools/call", again)).result), 'Got "later"');
    }
  });

  it("waits for the replies to all of its interrupts, in any order", async () => {
    const form = (key: string): JsonObject => ({
      ...{ key, message: key },
      requestedSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
    });
    const executor = langgraph({ both: createParallelGraph([form("one"), form("two")]) });
    await using it = await mcpWorld({ executor });
    const client = await session(it.test.fetch);
    const { questions, result } = await client.callWithQuestions({ name: "both", arguments: {} }, 2);
    const [first = {}, second = {}] = questions;
    await client.send(replyTo(second, { name: "Two" }));
    await client.send(replyTo(second, { name: "Again" }));
    await client.send(replyTo(first, { name: "One" }));
    const { answers } = (await result).structuredContent as { answers: JsonObject[] };
    assert.deepEqual(answers.map(({ name }) => name).sort(), ["One", "Two"]);
    const same = await client.callWithQuestions({ name: "both", arguments: {} }, 2);
    await Promise.all(same.questions.map((question) => client.send(replyTo(question, { name: "Same" }))));
    assert.equal((await it.service.runs.list(readThreadId(await same.result))).length, 2);
    // A process has stored the last reply, and crashed before it started the run.
    const crashed = await client.callWithQuestions({ name: "both", arguments: {} }, 2);
    const [thread] = (await it.service.threads.search({ limit: 1 })).items;
    const open = Object.values(thread?.interrupts ?? {}).flat() as { readonly id: string }[];
    const thread_id = String(thread?.thread_id);
    const [{ run_id } = { run_id: "" }] = await it.service.runs.list(thread_id);
    const stored = { run_id, value: { name: "Stored" } };
    const notes = open.map(({ id }): [string, JsonObject] => [`mcp_answer_${id}`, stored]);
    await it.service.threads.update(thread_id, { metadata: Object.fromEntries(notes) });
    const { answers: resumed } = (await crashed.result).structuredContent as { answers: JsonObject[] };
    assert.deepEqual(resumed, [{ name: "Stored" }, { name: "Stored" }]);
  });

  it("interrupts again, and reports the progress of each run", async () => {
    await using it = await mcpWorld({
      agents: {
        async *twice({ command, interrupt, state }) {
          if (command?.resume === undefined) yield interrupt("One?");
          else if (state.first === undefined) {
            yield { first: command.resume };
            yield interrupt("Two?");
          } else yield `${state.first} ${command.resume}`;
        },
      },
    });
    const client = await session(it.test.fetch);
    const params = call("twice", { _meta: { progressToken: "p" } });
    const replies = ["a", "b"];
    const interruptValues: unknown[] = [];
    const questions: JsonObject[] = [];
    const notes: number[] = [];
    for await (const message of messagesIn(await client.open("tools/call", params))) {
      const { method, params, result } = message as { method?: string; params: JsonObject; result?: JsonObject };
      if (method === "notifications/progress") notes.push(params.progress as number);
      else if (method !== undefined) {
        interruptValues.push(params.message);
        // A late reply to the first elicitation answers no other one.
        for (const earlier of questions) assert.equal(await client.send(replyTo(earlier, { answer: "late" })), 202);
        questions.push(message);
        await client.send(replyTo(message, { answer: replies.shift() ?? "" }));
      } else assert.equal(readText(result ?? {}), "a b");
    }
    assert.deepEqual(interruptValues, ["One?", "Two?"]);
    assert.deepEqual(notes, [...new Set(notes)].sort());
  });

  it("continues when a person answers elsewhere", async () => {
    await using it = await mcpWorld();
    const client = await session(it.test.fetch);
    const { questions, result } = await client.callWithQuestions(call("approves"));
    const { items } = await it.service.threads.search({ select: ["thread_id"] });
    const resume = { decisions: [{ type: "approve" }] };
    const thread_id = String(items[0]?.thread_id);
    await (await it.service.runs.wait(thread_id, { assistant_id: "approves", command: { resume } })).result;
    assert.match(readText(await result), /approve/);
    assert.equal(await client.send(replyTo(questions[0] ?? {}, { decision: "reject" })), 202);
    assert.equal((await it.service.runs.list(thread_id)).length, 2);
  });

  it("keeps its interrupt when the client disconnects and when the server stops", async () => {
    await using it = await mcpWorld();
    const client = await session(it.test.fetch);
    const response = await client.open("tools/call", call("refund"));
    const reader = response.body?.getReader();
    await reader?.read();
    await reader?.cancel();
    const { items } = await it.service.threads.search({ select: ["thread_id", "status"] });
    assert.equal(items[0]?.status, "interrupted");
    const thread_id = String(items[0]?.thread_id);
    await answerAsPerson(it.service, thread_id);
    const again = call("refund", { arguments: { message: "Hi", thread_id } });
    assert.equal(readText((await it.ask("tools/call", again)).result), 'Got "later"');
    const { result } = await client.callWithQuestions(call("refund"));
    await it.service.stop(0);
    assert.match(readText(await result), /^The agent asks: Refund 30 euros\? Only a person can answer/);
  });

  it("is cancelled only by its client, while it works and while it waits", async () => {
    const { agent, reached, open, reset } = createGate();
    await using it = await mcpWorld({ agents: { ...AGENTS, waits: agent } });
    const client = await session(it.test.fetch);
    const otherSession = await session(it.test.fetch);
    const cancel = (requestId: JsonObject[string]): JsonObject => ({
      method: "notifications/cancelled",
      params: { requestId, reason: "Timeout" },
    });
    const answer = client.open("tools/call", call("waits"), "one").then(readAnswer);
    await reached();
    for (const wrong of [1, "two", null, {}]) assert.equal(await client.send(cancel(wrong)), 202);
    assert.equal(await otherSession.send(cancel("one")), 202);
    assert.equal(await client.send({ method: "notifications/cancelled" }), 202);
    const { items } = await it.service.runs.search({ limit: 1 });
    assert.equal(items[0]?.status, "running");
    assert.equal(await client.send(cancel("one")), 202);
    const { result } = await answer;
    assert.deepEqual([result.isError, readText(result)], [true, "The call was cancelled"]);

    const messages = messagesIn(await client.open("tools/call", call("refund")));
    const question = (await messages.next()).value as JsonObject;
    const { items: threads } = await it.service.threads.search({ limit: 1, select: ["thread_id"] });
    const thread_id = String(threads[0]?.thread_id);
    assert.equal(await client.send(cancel(1)), 202);
    const last = (await messages.next()).value as JsonObject;
    assert.equal(readText(last.result as JsonObject), "The call was cancelled");
    await client.send(yes(question));
    assert.equal((await it.service.runs.list(thread_id)).length, 1);
    assert.deepEqual(await readShownThread(it.test.fetch, thread_id), CLOSED);

    // A later call in a conversation.
    reset();
    const first = await readAnswer(await client.open("tools/call", call("echo")));
    open();
    reset();
    const params = { name: "echo", arguments: { message: "More", thread_id: readThreadId(first.result) } };
    const second = await readAnswer(await client.open("tools/call", params, "last"));
    assert.equal(readText(second.result), "You said More");
    assert.equal(await client.send(cancel("last")), 202);
    const thread = await it.service.threads.get(readThreadId(first.result));
    assert.match(String(thread.metadata.mcp_request), /^[\w-]+\.[\w-]+$/);
  });

  for (const mode of ["normal", "lost"] as const)
    it(`accepts the reply and the cancellation at another process; signals: ${mode}`, async () => {
      const agents = { ...AGENTS, waits: createGate().agent };
      const world = await startProcesses({ mode, concurrency: [1, 0], executor: () => fromFunctions(agents) });
      const [first, second] = world.services.map((service) => createHandler(service)) as [typeof fetch, typeof fetch];
      const client = await session(first);
      const there = await session(second, { id: client.id });
      const settled = async <Value>(promise: Promise<Value>): Promise<Value> => {
        let isDone = false;
        promise.then(
          () => (isDone = true),
          () => (isDone = true),
        );
        await world.until(() => isDone);
        return await promise;
      };
      const { questions, result } = await settled(client.callWithQuestions(call("refund")));
      assert.equal(await settled(there.send(yes(questions[0]))), 202);
      assert.equal(readText(await settled(result)), 'Got "yes"');
      const undecided = await settled(client.callWithQuestions(call("refund")));
      await settled(there.send(replyTo(undecided.questions[0] ?? {}, null, "cancel")));
      assert.match(readText(await settled(undecided.result)), /^The agent asks/);
      const cancelled = await settled(client.callWithQuestions(call("refund")));
      await settled(there.send({ method: "notifications/cancelled", params: { requestId: 3 } }));
      assert.equal(readText(await settled(cancelled.result)), "The call was cancelled");
      const working = client.open("tools/call", call("waits"), "w").then(readAnswer);
      let status = "";
      while (status !== "running") {
        await world.pass(50);
        status = (await world.services[0]?.runs.search({ limit: 1 }))?.items[0]?.status ?? "";
      }
      await settled(there.send({ method: "notifications/cancelled", params: { requestId: "w" } }));
      assert.equal(readText((await settled(working)).result), "The call was cancelled");
      await world.stop();
    });
});
