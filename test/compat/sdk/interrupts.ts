/** Questions of agents, and subgraphs. */
import assert from "node:assert/strict";
import type { Checkpoint } from "langgraph-sdk-2";
import { isObject, type JsonObject } from "../../../lib/json.ts";
import {
  assertRefused,
  collect,
  createHumanInput,
  createThread,
  filterData,
  filterTuples,
  getInterrupts,
  getMessages,
  listEventNames,
  readContents,
  type Suite,
} from "./bench.ts";

export function interrupts({ describe, it, name, bench }: Suite): void {
  describe(`${name}: interrupts`, () => {
    it("of a function are answered by a command", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createThread(client);
      const interruptedValues = await client.runs.wait(id, "ask", { input: { topic: "x" } });
      const [question] = getInterrupts(interruptedValues);
      assert.deepEqual(question?.value, { question: "ok?" });
      const paused = await client.threads.get(id);
      assert.equal(paused.status, "interrupted");
      assert.deepEqual(Object.values(paused.interrupts).flat(), [question]);
      const state = await client.threads.getState(id);
      assert.deepEqual(state.next, ["ask"]);
      assert.deepEqual(
        state.tasks.flatMap((task) => task.interrupts),
        [question],
      );
      const [run] = await client.runs.list(id);
      assert.equal(run?.status, "success");
      const values = await client.runs.wait(id, "ask", { command: { resume: "sure" } });
      assert.deepEqual(values, { topic: "x", answer: "sure" });
      const done = await client.threads.get(id);
      assert.deepEqual([done.status, done.interrupts], ["idle", {}]);
    });

    it("of a graph before a tool call are answered by a command", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createThread(client);
      const streamMode = ["values", "updates", "messages-tuple"] as ["values", "updates", "messages-tuple"];
      const frames = await collect(
        client.runs.stream(id, "approval", { input: createHumanInput("book a seat"), streamMode }),
      );
      const interrupts = frames.filter((frame) => isObject(frame.data) && "__interrupt__" in frame.data);
      assert.deepEqual([...new Set(listEventNames(interrupts))].sort(), ["updates", "values"]);
      const [question] = getInterrupts(interrupts[0]?.data);
      assert.deepEqual(question?.value, { question: "Book seat 7A?", tool: "book" });
      assert.deepEqual(
        filterData(frames, "end").map(({ status }) => status),
        ["success"],
      );
      const paused = await client.threads.get(id);
      assert.equal(paused.status, "interrupted");
      assert.deepEqual(
        Object.values(paused.interrupts)
          .flat()
          .map((interrupt) => interrupt.id),
        [question?.id],
      );
      const state = await client.threads.getState(id);
      assert.deepEqual(state.next, ["approve"]);
      const call = getMessages(state.values).at(-1);
      assert.deepEqual(call?.tool_calls, [{ name: "book", args: { seat: "7A" }, id: "call-1", type: "tool_call" }]);
      const chunks = filterTuples(frames).map(([chunk]) => chunk);
      assert.deepEqual([...new Set(chunks.map((chunk) => chunk.id))], [call?.id]);

      const values = await client.runs.wait(id, "approval", { command: { resume: "yes" } });
      assert.deepEqual(readContents(values), [
        "book a seat",
        "One moment.",
        "seat 7A is booked",
        "Done: seat 7A is booked",
      ]);
      assert.deepEqual(
        getMessages(values).map((message) => message.type),
        ["human", "ai", "tool", "ai"],
      );
      assert.equal((await client.threads.get(id)).status, "idle");
    });

    it("are answered by a map of their ids", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createThread(client);
      const interruptedValues = await client.runs.wait(id, "questions", { input: {} });
      const open = getInterrupts(interruptedValues);
      assert.deepEqual(open.map(({ value }) => value).sort(), ["first?", "second?"]);
      const { interrupts } = await client.threads.get(id);
      assert.equal(Object.keys(interrupts).length, 2);
      const resume = Object.fromEntries(open.map((interrupt) => [interrupt.id, `answer to ${interrupt.value}`]));
      const values = await client.runs.wait(id, "questions", { command: { resume } });
      assert.deepEqual(values, { first: "answer to first?", second: "answer to second?" });
      assert.equal((await client.threads.get(id)).status, "idle");
    });

    it("stay pending if another one is answered", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createThread(client);
      const interruptedValues = await client.runs.wait(id, "questions", { input: {} });
      const [first, second] = getInterrupts(interruptedValues).toSorted((a, b) =>
        String(a.value).localeCompare(String(b.value)),
      );
      assert.ok(first && second);
      const half = (await client.runs.wait(id, "questions", {
        command: { resume: { [first.id]: "1" } },
      })) as unknown as JsonObject;
      assert.deepEqual(
        getInterrupts(half).map((open) => open.id),
        [second.id],
      );
      const { status, interrupts } = await client.threads.get(id);
      assert.equal(status, "interrupted");
      assert.deepEqual(
        Object.values(interrupts)
          .flat()
          .map((open) => open.id),
        [second.id],
      );
      const values = await client.runs.wait(id, "questions", { command: { resume: { [second.id]: "2" } } });
      assert.deepEqual(values, { first: "1", second: "2" });
    });

    it("ignore the unknown ids of a map of resume values", async () => {
      await using at = await bench();
      const { client } = at;
      const nobody = "0".repeat(32);
      const open = async (id: string, graph: string, input: JsonObject): Promise<string[]> =>
        getInterrupts(await client.runs.wait(id, graph, { input })).map((question) => question.id);
      const both = await createThread(client);
      const [firstId = "", secondId = ""] = await open(both, "questions", {});
      const answers = { [firstId]: "A", [secondId]: "B", nonsense: 1 };
      assert.deepEqual(
        Object.values(await client.runs.wait(both, "questions", { command: { resume: answers } })).toSorted(),
        ["A", "B"],
      );
      const half = await createThread(client);
      const [first = "", second = ""] = await open(half, "questions", {});
      const remainingValues = await client.runs.wait(half, "questions", {
        command: { resume: { [first]: "A", nonsense: 1 } },
      });
      assert.deepEqual(
        getInterrupts(remainingValues).map((question) => question.id),
        [second],
      );

      for (const strayId of ["other", nobody]) {
        const approval = await createThread(client);
        const [questionId = ""] = await open(approval, "approval", createHumanInput("book a seat"));
        const booked = await client.runs.wait(approval, "approval", {
          command: { resume: { [questionId]: "yes", [strayId]: 3 } },
        });
        assert.equal(readContents(booked).at(-1), "Done: seat 7A is booked");
        const inner = await createThread(client);
        const [question = ""] = await open(inner, "outer", { first: "given" });
        const resume = { [question]: "yes", [strayId]: 3 };
        const answered = await client.runs.wait(inner, "outer", { command: { resume } });
        assert.deepEqual(answered, { first: "given", second: "yes" });
        const ask = await createThread(client);
        const [ok = ""] = await open(ask, "ask", { topic: "x" });
        const answeredValues = await client.runs.wait(ask, "ask", {
          command: { resume: { [ok]: "yes", [strayId]: 3 } },
        });
        assert.deepEqual(answeredValues, { topic: "x", answer: "yes" });
      }

      // Nothing but ids that nobody has is a map too; with a key that cannot be an id it is an answer.
      for (const [graph, input] of [
        ["ask", { topic: "x" }],
        ["outer", { first: "given" }],
      ] as const) {
        const id = await createThread(client);
        const questionIds = await open(id, graph, input);
        assert.equal(questionIds.length, 1);
        const stray = client.runs.create(id, graph, { command: { resume: { [nobody]: 1 } } });
        await assertRefused(stray, 409, /no open interrupt that it answers/);
        const resume = { [nobody]: 1, seat: "7A" };
        const values = (await client.runs.wait(id, graph, { command: { resume } })) as unknown as JsonObject;
        assert.deepEqual(values.answer ?? values.second, resume);
      }
    });

    it("of a subgraph have their position", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createThread(client);
      await client.runs.wait(id, "outer", { input: { first: "given" } });
      const state = await client.threads.getState(id, undefined, { subgraphs: true });
      assert.deepEqual(state.next, ["inside"]);
      const [task] = state.tasks;
      assert.deepEqual(
        task?.interrupts.map(({ value }) => value),
        ["inner?"],
      );
      const inner = task?.state as unknown as { next: string[]; checkpoint: { checkpoint_ns: string } };
      assert.deepEqual(inner.next, ["question"]);
      assert.match(inner.checkpoint.checkpoint_ns, /^inside:/);
      const history = await client.threads.getHistory(id, {
        checkpoint: { checkpoint_ns: inner.checkpoint.checkpoint_ns },
      });
      assert.ok(history.length > 0);
      assert.ok(history.every((past) => past.checkpoint.checkpoint_ns === inner.checkpoint.checkpoint_ns));
      const values = await client.runs.wait(id, "outer", { command: { resume: "yes" } });
      assert.deepEqual(values, { first: "given", second: "yes" });
      assert.equal((await client.threads.get(id)).status, "idle");
    });

    it("are answered once for a named checkpoint", async () => {
      await using at = await bench();
      const { client } = at;
      const readCheckpoint = async (id: string): Promise<Omit<Checkpoint, "thread_id">> => {
        const { thread_id: _, ...checkpoint } = (await client.threads.getState(id)).checkpoint;
        return checkpoint;
      };
      const graph = await createThread(client);
      await client.runs.wait(graph, "approval", { input: createHumanInput("book a seat") });
      const values = await client.runs.wait(graph, "approval", {
        command: { resume: "yes" },
        checkpoint: await readCheckpoint(graph),
      });
      assert.equal(readContents(values).at(-1), "Done: seat 7A is booked");

      // A page that has not seen the first answer names the same checkpoint.
      for (const [name, input] of [
        ["ask", { topic: "x" }],
        ["approval", createHumanInput("book a seat")],
      ] as const) {
        const id = await createThread(client);
        await client.runs.wait(id, name, { input });
        const checkpoint = await readCheckpoint(id);
        const answered = await client.runs.wait(id, name, { command: { resume: "yes" }, checkpoint });
        const again = client.runs.create(id, name, { command: { resume: "no" }, checkpoint });
        await assertRefused(again, 409, /no open interrupt that it answers/);
        assert.deepEqual((await client.threads.getState(id)).values, answered);
        assert.equal((await client.threads.get(id)).status, "idle");
      }
    });

    it("accept false, 0 and an empty text as resume values", async () => {
      await using at = await bench();
      const { client } = at;
      for (const resume of [false, 0, "", { a: null }, ["x"]]) {
        const asking = await createThread(client);
        await client.runs.wait(asking, "ask", { input: {} });
        assert.deepEqual(await client.runs.wait(asking, "ask", { command: { resume } }), { answer: resume });
        const graph = await createThread(client);
        await client.runs.wait(graph, "outer", { input: { first: "given" } });
        assert.deepEqual(await client.runs.wait(graph, "outer", { command: { resume } }), {
          first: "given",
          second: resume,
        });
      }
    });

    it("may be answered by a command that updates the state and chooses the next node", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createThread(client);
      await client.runs.wait(id, "ask", { input: { topic: "x" } });
      const values = await client.runs.wait(id, "ask", { command: { update: { answer: "given" }, goto: "__end__" } });
      assert.deepEqual(values, { topic: "x", answer: "given" });
      assert.equal((await client.threads.get(id)).status, "idle");

      const graph = await createThread(client);
      await client.runs.wait(graph, "approval", { input: createHumanInput("book a seat") });
      const noted = (await client.runs.wait(graph, "approval", {
        command: { update: { note: "looked at" }, resume: "no" },
      })) as unknown as JsonObject;
      assert.equal(noted.note, "looked at");
      assert.equal(readContents(noted).at(-1), "Done: nothing was booked");
      const again = await client.runs.wait(graph, "approval", { command: { goto: "model" } });
      assert.equal(getMessages(again).length, getMessages(noted).length + 1);
    });

    it("of a breakpoint come after its node", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createThread(client);
      await client.runs.wait(id, "family", { input: { steps: ["start"] }, interruptAfter: ["child"] });
      assert.deepEqual((await client.threads.getState(id)).next, ["after"]);
      const values = await client.runs.wait(id, "family", { input: null });
      assert.deepEqual(values, { steps: ["start", "start", "inner", "last", "after"] });
    });
  });

  describe(`${name}: subgraphs`, () => {
    it("emit frames in their own namespace", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createThread(client);
      const streamMode = ["values", "updates"] as ["values", "updates"];
      const frames = await collect(
        client.runs.stream(id, "family", { input: { steps: ["start"] }, streamMode, streamSubgraphs: true }),
      );
      const eventNames = listEventNames(frames).map((event) => event.replace(/:[0-9a-f-]{36}$/, ":TASK"));
      assert.deepEqual(eventNames, [
        "metadata",
        "values",
        "values|child:TASK",
        "updates|child:TASK",
        "values|child:TASK",
        "updates|child:TASK",
        "values|child:TASK",
        "updates",
        "values",
        "updates",
        "values",
        "end",
      ]);
      const quiet = await collect(client.runs.stream(id, "family", { input: { steps: [] }, streamMode }));
      assert.ok(listEventNames(quiet).every((event) => !event.includes("|")));
      const plain = await collect(
        client.runs.stream(null, "agent", { input: createHumanInput("hi"), streamMode, streamSubgraphs: true }),
      );
      assert.deepEqual(listEventNames(plain), ["metadata", "values", "updates", "values", "end"]);
    });

    it("emit their start and end in mode lifecycle, also to readers that join", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createThread(client);
      // The SDK's types do not name the mode.
      const streamMode = ["values", "lifecycle"] as unknown as ["values"];
      const steps = { input: { steps: [] }, streamMode, streamResumable: true };
      const frames = await collect(client.runs.stream(id, "family", steps));
      const lives = frames.filter(({ event }) => event.startsWith("lifecycle"));
      assert.deepEqual(
        lives.map(({ event, data }) => [event.replace(/:[0-9a-f-]{36}$/, ":TASK"), (data as JsonObject).event]),
        [
          ["lifecycle|child:TASK", "started"],
          ["lifecycle|child:TASK", "completed"],
        ],
      );
      assert.deepEqual(
        lives.map(({ event, data }) => [event, ...((data as JsonObject).namespace as string[])].join()),
        lives.map(({ event }) => `${event},${event.slice("lifecycle|".length)}`),
      );
      assert.ok(listEventNames(frames).every((event) => event.startsWith("lifecycle|") || !event.includes("|")));
      const [run] = await client.runs.list(id);
      const joined = client.runs.joinStream(id, String(run?.run_id), {
        lastEventId: "-1",
        streamMode: "lifecycle" as "values",
      });
      assert.deepEqual(
        (await collect(joined)).filter(({ event }) => event !== "metadata" && event !== "end"),
        lives,
      );
      const none = await collect(client.runs.stream(null, "agent", { input: createHumanInput("hi"), streamMode }));
      assert.deepEqual(listEventNames(none), ["metadata", "values", "values", "end"]);
    });
  });
}
