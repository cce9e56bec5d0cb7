/** A2A tasks are runs: messages, streams, interrupts, cancels and lists, in both versions of the protocol. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { JsonObject } from "../../../../../lib/json.ts";
import { type AgentFunction, fromFunctions } from "../../../../../lib/mod.ts";
import { testClock } from "../../../../suite/mod.ts";
import { createGate } from "../../../../support/gate.ts";
import { ASKING, CLOSED, readShownThread } from "../../../../support/inbox.ts";
import { customWorld, owning } from "../../../auth/custom-auth.harness.ts";
import {
  AGENTS,
  a2aWorld,
  answerText,
  asker,
  asks,
  joinTexts,
  plain,
  readState,
  readTask,
  type ShownTask,
  say,
} from "./a2a.harness.ts";

const NOBODY = "99999999-9999-4999-8999-999999999999";
const readCode = ({ error }: { readonly error: JsonObject }): unknown => error.code;
/** Finds the object at a path of members. */
const member = (of: JsonObject | undefined, ...names: string[]): JsonObject =>
  names.reduce((at, name) => at[name] as JsonObject, of ?? {});
const legacy = (text: string, messageFields: JsonObject = {}): JsonObject => ({
  message: { kind: "message", messageId: "old", role: "user", parts: [{ kind: "text", text }], ...messageFields },
});

describe("a message of A2A", () => {
  it("starts a run on the thread of its context, where the next message continues", async () => {
    await using it = await a2aWorld();
    const first = readTask(
      await it.ask("echo", "SendMessage", say("Hi", {}, { metadata: { trip: 7, task_id: "forged" } })),
    );
    assert.deepEqual([readState(first), answerText(first)], ["COMPLETED", "You said Hi"]);
    const run = await it.service.runs.get(first.contextId, first.id);
    const { created_by, trip, task_id } = run.metadata;
    assert.deepEqual([created_by, trip, task_id], ["a2a", 7, undefined]);
    const next = readTask(await it.ask("echo", "SendMessage", say("Again", { contextId: first.contextId })));
    assert.deepEqual([next.contextId, next.id === first.id], [first.contextId, false]);
    assert.deepEqual(
      next.history?.map(({ parts }) => joinTexts(parts)),
      ["Hi", "You said Hi", "Again", "You said Again"],
    );
    const ownTask = plain(await it.ask("echo", "GetTask", { id: next.id, historyScope: "task", historyLength: 1 }));
    assert.deepEqual(
      ownTask.history?.map(({ parts }) => joinTexts(parts)),
      ["You said Again"],
    );
    // An earlier task keeps its answer.
    assert.equal(answerText(plain(await it.ask("echo", "GetTask", { id: first.id }))), "You said Hi");
  });

  it("has its data beside the messages, and its files as content blocks", async () => {
    const inputs: JsonObject[] = [];
    const agents = {
      looks: ({ state }: { readonly state: JsonObject }) => {
        inputs.push(state);
        return "Seen";
      },
    };
    await using it = await a2aWorld({ agents });
    const parts: JsonObject[] = [
      { text: "Look" },
      { data: { locale: "en", messages: [] } },
      { raw: "aGk=", mediaType: "image/png", filename: "a.png" },
    ];
    await it.ask("looks", "SendMessage", say(parts, { messageId: "mine" }));
    const file = { kind: "file", file: { uri: "https://x.test/a.pdf", mimeType: "application/pdf" } };
    await it.ask("looks", "message/send", legacy("", { parts: [file] }));
    const [first, second] = inputs.map(({ messages, locale }) => [(messages as JsonObject[])[0], locale] as const);
    assert.deepEqual([first?.[0]?.id, first?.[1]], ["mine", "en"]);
    const image = {
      type: "image",
      mime_type: "image/png",
      metadata: { filename: "a.png" },
      source_type: "base64",
      data: "aGk=",
    };
    assert.deepEqual(first?.[0]?.content, [{ type: "text", text: "Look" }, image]);
    const pdf = { type: "file", mime_type: "application/pdf", source_type: "url", url: "https://x.test/a.pdf" };
    assert.deepEqual(second?.[0]?.content, [pdf]);
    // Files have their names in the history too.
    const { tasks } = (await it.ask("looks", "ListTasks", { historyLength: 10 })).result as unknown as {
      tasks: ShownTask[];
    };
    const messageParts = tasks.flatMap(({ history = [] }) => history).flatMap((message) => message.parts);
    assert.deepEqual(
      messageParts.filter(({ raw }) => raw),
      [{ raw: "aGk=", mediaType: "image/png", filename: "a.png" }],
    );
  });

  it("becomes a failed task if the agent fails", async () => {
    await using it = await a2aWorld();
    const task = readTask(await it.ask("fails", "SendMessage", say("Hi")));
    assert.deepEqual([readState(task), joinTexts(task.status.message?.parts)], ["FAILED", "It broke"]);
  });

  it("returns at once with `returnImmediately`, and its stream can be joined", async () => {
    const stops = createGate();
    await using it = await a2aWorld({ agents: { slow: stops.agent } });
    for (const [method, params] of [
      ["SendMessage", say("Hi", {}, { configuration: { returnImmediately: true } })],
      ["message/send", { ...legacy("Hi"), configuration: { blocking: false } }],
    ] as const) {
      stops.reset();
      const answer = await it.ask("slow", method, params);
      const task = method === "SendMessage" ? readTask(answer) : plain(answer);
      assert.match(task.status.state, /SUBMITTED|WORKING|submitted|working/);
      await stops.reached();
      assert.equal(readState(plain(await it.ask("slow", "GetTask", { id: task.id }))), "WORKING");
      const joined = it.ask("slow", "SubscribeToTask", { id: task.id });
      stops.open();
      const { events } = await joined;
      assert.equal(member(events[0], "task").id, task.id);
      assert.equal(member(events.at(-1), "statusUpdate", "status").state, "TASK_STATE_COMPLETED");
      assert.equal(readCode(await it.ask("slow", "SubscribeToTask", { id: task.id })), -32004);
    }
  });
});

describe("a stream of A2A", () => {
  it("begins with the task, streams one artifact, and ends with the status", async () => {
    const agents = {
      async *tells() {
        yield "Once ";
        yield "upon ";
        yield "a time";
      },
    };
    await using it = await a2aWorld({ agents });
    const { events } = await it.ask("tells", "SendStreamingMessage", say("Tell"));
    assert.deepEqual(Object.keys(events[0] ?? {}), ["task"]);
    const updates = events.flatMap(({ artifactUpdate }) => (artifactUpdate ? [artifactUpdate as JsonObject] : []));
    const texts = updates.map(({ artifact }) => joinTexts((artifact as JsonObject).parts as JsonObject[]));
    assert.equal(texts.join(""), "Once upon a time");
    assert.deepEqual(
      updates.map(({ append }) => append),
      updates.map((_, at) => at > 0),
    );
    assert.deepEqual(
      updates.map(({ lastChunk }) => lastChunk),
      updates.map((_, at) => at === updates.length - 1),
    );
    const states = events.flatMap(({ statusUpdate }) =>
      statusUpdate ? [(statusUpdate as unknown as ShownTask).status.state] : [],
    );
    assert.deepEqual(states, ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]);
  });

  it("has flat events in A2A 0.3, the last of which is final", async () => {
    await using it = await a2aWorld();
    const { events } = await it.ask("echo", "message/stream", legacy("Hi"));
    const kinds = events.map(({ kind, final = null }) => [kind, final]);
    assert.deepEqual(kinds[0], ["task", null]);
    assert.deepEqual(kinds.at(-1), ["status-update", true]);
    assert.deepEqual(events[0]?.status && (events[0].status as JsonObject).state, "submitted");
  });
});

describe("an interrupt of an A2A task", () => {
  it("is answered by text in the same task", async () => {
    await using it = await a2aWorld();
    const task = readTask(await it.ask("asks", "SendMessage", say("Weather?")));
    assert.equal(readState(task), "INPUT_REQUIRED");
    const [text, data] = task.status.message?.parts ?? [];
    assert.equal(text?.text, "Which city?");
    assert.equal(member(data, "data", "interrupt").value, "Which city?");
    const { contextId, id: taskId } = task;
    const { events } = await it.ask("asks", "tasks/resubscribe", { id: taskId });
    assert.deepEqual([events.length, member(events[0], "status").state], [1, "input-required"]);
    const done = readTask(await it.ask("asks", "SendMessage", say("Rome", { contextId, taskId })));
    assert.deepEqual([done.id, readState(done), answerText(done)], [taskId, "COMPLETED", 'Got "Rome"']);
    const ended = await it.ask("asks", "SendMessage", say("Oslo", { contextId, taskId }));
    assert.equal(readCode(ended), -32004);
    const { result } = await it.ask("asks", "ListTasks", { contextId });
    assert.deepEqual(
      (result.tasks as unknown as ShownTask[]).map(({ id }) => id),
      [taskId],
    );
  });

  it("that asks for an approval is answered by clients only if the agent allows it", async () => {
    const approvals: Readonly<Record<string, AgentFunction>> = {
      langchain: asks({ actionRequests: [{ name: "refund", args: {} }], reviewConfigs: [] }),
      python: asks({ action_requests: [{ name: "refund", args: {} }], review_configs: [] }),
      unnamed: asks({ action_requests: [{ action: "refund" }] }),
      inbox: asks({ action_request: { action: "refund", args: {} }, config: {} }),
      list: asks([{ action_request: { action: "refund", args: {} } }]),
      marked: asks({ question: "Refund?", approval: true }),
      durable: async ({ ask }) => `Got ${JSON.stringify(await ask("pay", { question: "Pay?", approval: true }))}`,
    };
    const names = Object.keys(approvals);
    await using closed = await a2aWorld({ executor: fromFunctions(approvals) });
    const allowed = names.map((name) => [name, { agent: approvals[name], a2a: { caller_may_approve: true } }]);
    await using open = await a2aWorld({ executor: fromFunctions(Object.fromEntries(allowed)) });
    for (const name of names) {
      for (const reply of ["yes", [{ data: { resume: "yes" } }], [{ data: { decisions: [{ type: "approve" }] } }]]) {
        for (const method of ["SendMessage", "SendStreamingMessage"]) {
          const { contextId, id: taskId } = readTask(await closed.ask(name, "SendMessage", say("Refund")));
          const { error } = await closed.ask(name, method, say(reply, { contextId, taskId }));
          assert.deepEqual(
            [error.code, error.message],
            [
              -32004,
              `Only a person can approve this, in the conversation ${contextId}. Get the task ${taskId} afterwards, or subscribe to it`,
            ],
            name,
          );
          const { length } = await closed.service.runs.list(contextId);
          assert.deepEqual([length, (await closed.service.threads.get(contextId)).status], [1, "interrupted"]);
        }
      }
      const { contextId, id: taskId } = readTask(await open.ask(name, "SendMessage", say("Refund")));
      const done = readTask(await open.ask(name, "SendMessage", say("yes", { contextId, taskId })));
      assert.equal(answerText(done), 'Got "yes"', name);
    }
    // Callers write the metadata of assistants.
    await closed.service.assistants.update("marked", { metadata: { a2a: { caller_may_approve: true } } });
    const { contextId, id: taskId } = readTask(await closed.ask("marked", "SendMessage", say("Refund")));
    assert.equal(readCode(await closed.ask("marked", "SendMessage", say("yes", { contextId, taskId }))), -32004);
  });

  it("is answered by data, which is the resume value unless it names an interrupt", async () => {
    const approves = { agent: AGENTS.approves as AgentFunction, a2a: { caller_may_approve: true } };
    await using it = await a2aWorld({ executor: fromFunctions({ approves }) });
    const decision = { decisions: [{ type: "approve" }] };
    for (const data of [decision, { resume: decision }, null]) {
      const task = readTask(await it.ask("approves", "SendMessage", say("Refund")));
      const parts = task.status.message?.parts ?? [];
      const interrupt = member(parts.at(-1), "data", "interrupt");
      const named = data ?? { resume: [{ id: interrupt.id ?? null, value: decision }] };
      const { contextId, id: taskId } = task;
      const done = readTask(await it.ask("approves", "SendMessage", say([{ data: named }], { contextId, taskId })));
      assert.equal(answerText(done), `Got ${JSON.stringify(decision)}`);
    }
    const { contextId, id: taskId } = readTask(await it.ask("approves", "SendMessage", say("Refund")));
    const wrong = [{ data: { resume: [{ id: "other", value: 1 }] } }];
    assert.equal(readCode(await it.ask("approves", "SendMessage", say(wrong, { contextId, taskId }))), -32602);
  });

  it("can be answered by others, and is dismissed if the context continues without a resume value", async () => {
    await using it = await a2aWorld();
    const task = readTask(await it.ask("asks", "SendMessage", say("Weather?")));
    await (await it.service.runs.wait(task.contextId, { assistant_id: "asks", command: { resume: "Rome" } })).result;
    assert.equal(answerText(plain(await it.ask("asks", "GetTask", { id: task.id }))), 'Got "Rome"');
    const two = readTask(await it.ask("asks", "SendMessage", say("Weather?")));
    await it.ask("asks", "SendMessage", say("Other", { contextId: two.contextId }));
    assert.equal(readState(plain(await it.ask("asks", "GetTask", { id: two.id }))), "CANCELED");
  });
});

describe("a task of A2A", () => {
  it("can be cancelled while it runs, waits or is interrupted, and not after its end", async () => {
    const stops = createGate();
    await using it = await a2aWorld({ agents: { ...AGENTS, slow: stops.agent } });
    const later = { configuration: { returnImmediately: true } };
    const running = readTask(await it.ask("slow", "SendMessage", say("One", {}, later)));
    await stops.reached();
    const queued = readTask(await it.ask("slow", "SendMessage", say("Two", { contextId: running.contextId }, later)));
    assert.equal(readState(queued), "SUBMITTED");
    assert.deepEqual(queued.history?.at(-1)?.parts, [{ text: "Two" }]);
    for (const { id } of [queued, running]) {
      assert.equal(readState(plain(await it.ask("slow", "CancelTask", { id }))), "CANCELED");
      assert.equal(readCode(await it.ask("slow", "CancelTask", { id })), -32002);
    }
    const task = readTask(await it.ask("asks", "SendMessage", say("Weather?")));
    assert.deepEqual(await readShownThread(it.test.fetch, task.contextId), ASKING);
    assert.equal(readState(plain(await it.ask("asks", "CancelTask", { id: task.id }))), "CANCELED");
    assert.deepEqual(await readShownThread(it.test.fetch, task.contextId), CLOSED);
    assert.equal(readCode(await it.ask("asks", "CancelTask", { id: task.id })), -32002);
    assert.equal(readCode(await it.ask("asks", "SendMessage", say("Rome", { taskId: task.id }))), -32004);
    const done = readTask(await it.ask("echo", "SendMessage", say("Hi")));
    assert.equal(readCode(await it.ask("echo", "CancelTask", { id: done.id })), -32002);
  });

  it("is listed by its agent, newest first, by context, state and page", async () => {
    await using it = await a2aWorld();
    const taskIds: string[] = [];
    for (const text of ["One", "Two", "Three"])
      taskIds.unshift(readTask(await it.ask("echo", "SendMessage", say(text))).id);
    await it.ask("asks", "SendMessage", say("Weather?"));
    const list = async (params: JsonObject, agent = "echo") => (await it.ask(agent, "ListTasks", params)).result;
    const readIds = ({ tasks }: JsonObject): string[] => (tasks as unknown as ShownTask[]).map(({ id }) => id);
    const all = await list({});
    assert.deepEqual([readIds(all), all.nextPageToken, all.totalSize], [taskIds, "", 3]);
    assert.ok((all.tasks as unknown as ShownTask[]).every(({ artifacts, history }) => !artifacts && !history));
    const first = await list({ pageSize: 2, includeArtifacts: true });
    assert.equal(answerText((first.tasks as unknown as ShownTask[])[0] as ShownTask), "You said Three");
    const secondPage = await list({ pageSize: 2, pageToken: first.nextPageToken ?? "" });
    assert.deepEqual([...readIds(first), ...readIds(secondPage)], taskIds);
    assert.equal(readIds(await list({ status: "TASK_STATE_INPUT_REQUIRED" }, "asks")).length, 1);
    assert.deepEqual(readIds(await list({ status: "TASK_STATE_COMPLETED" }, "asks")), []);
    assert.deepEqual(readIds(await list({ contextId: NOBODY })), []);
    assert.deepEqual(readIds(await list({ statusTimestampAfter: "2999-01-01T00:00:00Z" })), []);
    const bads: JsonObject[] = [
      { status: "done" },
      { pageSize: 101 },
      { pageToken: "x" },
      { statusTimestampAfter: "x" },
    ];
    for (const bad of bads) {
      assert.equal(readCode(await it.ask("echo", "ListTasks", bad)), -32602, JSON.stringify(bad));
    }
  });

  it("is listed first if its status changed last", async () => {
    const clock = testClock();
    const { now, timer } = clock;
    await using it = await a2aWorld({ environment: { log: () => {}, now, timer } });
    const taskIds: string[] = [];
    for (const text of ["One", "Two", "Three"]) {
      taskIds.push(readTask(await it.ask("asks", "SendMessage", say(text))).id);
      await clock.advance(1_000);
    }
    const [first = "", second = "", third = ""] = taskIds;
    const list = async (params: JsonObject = {}) =>
      ((await it.ask("asks", "ListTasks", params)).result.tasks as unknown as ShownTask[]).map(({ id }) => id);
    assert.deepEqual(await list(), [third, second, first]);
    await it.ask("asks", "SendMessage", say("Rome", { taskId: first }));
    assert.deepEqual(await list(), [first, third, second]);
    // Pages are sorted by the start of the tasks. The resume is no task of its own.
    assert.deepEqual(await list({ pageSize: 2 }), [third]);
  });

  it("of another caller or agent gets the response of an absent task", async () => {
    await using it = await customWorld({ agents: AGENTS, on: { "*": () => true, threads: owning } });
    const ask = asker(it.it.fetch);
    const as = (name: string) => ({ authorization: `Bearer ${name}` });
    const { id, contextId } = readTask(await ask("asks", "SendMessage", say("Hi"), as("ann")));
    const about = (task: string): [string, JsonObject][] => [
      ["GetTask", { id: task }],
      ["CancelTask", { id: task }],
      ["SubscribeToTask", { id: task }],
      ["SendMessage", say("Rome", { taskId: task })],
      ["SendStreamingMessage", say("Rome", { taskId: task })],
    ];
    const formatError = ({ status, error }: { status: number; error: JsonObject }, task: string) =>
      JSON.stringify([status, error]).replaceAll(task, "ID");
    for (const [at, [method, params]] of about(NOBODY).entries()) {
      const absent = formatError(await ask("asks", method, params, as("bob")), NOBODY);
      assert.match(absent, /-32001/);
      const [, same = {}] = about(id)[at] ?? [];
      assert.equal(formatError(await ask("asks", method, same, as("bob")), id), absent, method);
      assert.equal(formatError(await ask("echo", method, same, as("ann")), id), absent, method);
    }
    assert.deepEqual((await ask("asks", "ListTasks", {}, as("bob"))).result.tasks, []);
    assert.deepEqual((await ask("asks", "ListTasks", { contextId }, as("bob"))).result.tasks, []);
    const foreign = await ask("asks", "SendMessage", say("Hi", { contextId }), as("bob"));
    const otherAgent = await ask("echo", "SendMessage", say("Hi", { contextId }), as("ann"));
    assert.deepEqual([readCode(foreign), readCode(otherAgent)], [-32602, -32602]);
    assert.equal(foreign.error.message, otherAgent.error.message);
    // The task still waits for its own caller.
    assert.equal(readState(plain(await ask("asks", "GetTask", { id }, as("ann")))), "INPUT_REQUIRED");
  });
});
