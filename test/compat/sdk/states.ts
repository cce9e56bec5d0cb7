/** Changing states without a run: updates, branches, copies, pruning, threads that begin with a state and threads that end. */
import assert from "node:assert/strict";
import type { Checkpoint, Client, ThreadState } from "langgraph-sdk-2";
import { isObject, type Json, type JsonObject } from "../../../lib/json.ts";
import {
  ABSENT,
  assertRefused,
  type Bench,
  collect,
  createHumanInput,
  createThread,
  FAMILIES,
  getInterrupts,
  getMessages,
  readContents,
  readContentsOrNone,
  readMessagesOrNone,
  type Suite,
} from "./bench.ts";

const message = (content: string, id: string): JsonObject => ({ role: "user", content, id });
const getCheckpointId = (state: ThreadState): string => String(state.checkpoint.checkpoint_id);
const getSource = (state: ThreadState): unknown => (state.metadata as JsonObject).source;
const findParentId = (state: ThreadState): string | undefined => state.parent_checkpoint?.checkpoint_id ?? undefined;

/** Sends a request without the SDK, for calls that not every release of it sends. */
async function request(
  { send }: Bench,
  method: string,
  path: string,
  body?: unknown,
): Promise<{ readonly status: number; readonly body: Json }> {
  const response = await send(path, {
    method,
    headers: { "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === "" ? null : (JSON.parse(text) as Json) };
}

async function detail(answer: ReturnType<typeof request>, status: number, text: RegExp): Promise<void> {
  const { status: receivedStatus, body } = await answer;
  assert.equal(receivedStatus, status, JSON.stringify(body));
  assert.match(String((body as JsonObject).detail), text);
}

/** Creates a thread whose first message has the id `m1`, with its answer. */
async function createTalk(client: Client, graph: string): Promise<string> {
  const id = await createThread(client);
  await client.runs.wait(id, graph, { input: { messages: [message("hi", "m1")] } });
  return id;
}

export function states({ describe, it, name, bench }: Suite): void {
  for (const { kind, graph, node, wait } of FAMILIES) {
    describe(`${name}: a state of a ${kind}`, () => {
      it("changes as by a node, and the next run continues from it", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createTalk(client, graph);
        const before = await client.threads.getState(id);
        const updated = (await client.threads.updateState(id, {
          values: { messages: [message("edited", "m1")] },
          asNode: node,
        })) as unknown as { checkpoint: Checkpoint; configurable: Checkpoint };
        assert.deepEqual(Object.keys(updated.checkpoint), ["thread_id", "checkpoint_ns", "checkpoint_id"]);
        assert.deepEqual(updated.configurable, updated.checkpoint);
        const state = await client.threads.getState(id);
        assert.equal(getCheckpointId(state), updated.checkpoint.checkpoint_id);
        assert.ok(getCheckpointId(state) > getCheckpointId(before), "ids sort by age");
        assert.equal(findParentId(state), getCheckpointId(before));
        assert.deepEqual(readContents(state.values), ["edited", "You said: hi"]);
        assert.deepEqual(state.next, []);
        const about = state.metadata as JsonObject;
        const thread = await client.threads.get(id);
        const { graph_id, assistant_id } = thread.metadata as JsonObject;
        assert.deepEqual(
          [about.source, about.step, about.graph_id, about.assistant_id, about.thread_id],
          ["update", Number((before.metadata as JsonObject).step) + 1, graph_id, assistant_id, id],
        );
        assert.deepEqual(readContents(thread.values), ["edited", "You said: hi"]);
        const matches = await client.threads.search({ values: { messages: [{ id: "m1", content: "edited" }] } });
        assert.deepEqual(
          matches.map(({ thread_id }) => thread_id),
          [id],
        );
        const values = await client.runs.wait(id, graph, { input: createHumanInput("more") });
        assert.deepEqual(readContents(values), ["edited", "You said: hi", "more", "You said: more"]);
      });

      it("forks from an earlier checkpoint, and both branches are in the history", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createTalk(client, graph);
        const first = (await client.threads.getHistory(id)).find((state) => state.next.includes(node));
        assert.ok(first);
        for (const target of [{ checkpointId: getCheckpointId(first) }, { checkpoint: first.checkpoint }]) {
          await client.threads.updateState(id, {
            values: { messages: [message("instead", "m1")] },
            asNode: "__start__",
            ...target,
          });
          const state = await client.threads.getState(id);
          assert.equal(findParentId(state), getCheckpointId(first));
          assert.deepEqual([readContents(state.values), state.next], [["instead"], [node]]);
          const values = await client.runs.wait(id, graph, { input: null });
          assert.deepEqual(readContents(values), ["instead", "You said: instead"]);
        }
        const history = await client.threads.getHistory(id);
        assert.equal(history.filter((state) => findParentId(state) === getCheckpointId(first)).length, 3);
        assert.deepEqual(history.map(getCheckpointId).toSorted().toReversed(), history.map(getCheckpointId));
      });

      it("accepts lists of values, removals, and values without a node", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createTalk(client, graph);
        const answer = getMessages((await client.threads.getState(id)).values)[1]?.id;
        const values = [{ messages: [message("one", "m2")] }, { messages: [message("two", "m3")] }];
        await client.threads.updateState(id, { values: values as never, asNode: "__start__" });
        const state = await client.threads.getState(id);
        assert.deepEqual(readContents(state.values), ["hi", "You said: hi", "one", "two"]);
        assert.deepEqual(state.next, [node]);
        await client.threads.updateState(id, { values: { messages: [{ type: "remove", id: answer }] } });
        assert.deepEqual(readContents((await client.threads.getState(id)).values), ["hi", "one", "two"]);
        const removal = { messages: [{ type: "remove", id: "nobody" }] };
        await assertRefused(client.threads.updateState(id, { values: removal }), 422, /nobody/);
        await client.threads.updateState(id, { values: null as never, asNode: "__end__" });
        const ended = await client.threads.getState(id);
        assert.deepEqual([readContents(ended.values), ended.next], [["hi", "one", "two"], []]);
        await client.threads.updateState(id, { values: null as never, asNode: "__copy__" });
        const copy = await client.threads.getState(id);
        assert.deepEqual(
          [getSource(copy), copy.values, findParentId(copy)],
          ["fork", ended.values, findParentId(ended)],
        );
        await client.threads.updateState(id, { values: createHumanInput("input"), asNode: "__input__" });
        assert.equal(getSource(await client.threads.getState(id)), "input");
        assert.equal(readContents(await client.runs.wait(id, graph, { input: null })).at(-1), "You said: input");
      });

      it("is rejected if it is invalid", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const bare = await createThread(client);
        await assertRefused(client.threads.updateState(bare, { values: { a: 1 } }), 400, /no graph/);
        await assertRefused(client.threads.updateState(ABSENT, { values: { a: 1 } }), 404, /not found/);
        const named = await client.threads.create({ graphId: graph });
        await client.threads.updateState(named.thread_id, { values: createHumanInput("first") });
        const opened = await client.threads.getState(named.thread_id);
        assert.deepEqual([readContents(opened.values), opened.next], [["first"], [node]]);

        const id = await createTalk(client, graph);
        const before = await client.threads.getHistory(id);
        await assertRefused(client.threads.updateState(id, { values: {}, asNode: "nobody" }), 422, /nobody/);
        const checkpointId = "1f000000-0000-6000-8000-000000000000";
        await assertRefused(client.threads.updateState(id, { values: {}, checkpointId }), 404, /no checkpoint/);
        await detail(request(at, "POST", `/threads/${id}/state`, { values: 5 }), 422, /^values: /);
        assert.deepEqual(await client.threads.getHistory(id), before);

        const busy = await createThread(client);
        const run = await client.runs.create(busy, wait, { input: createHumanInput("text") });
        await gates.reached("text");
        await assertRefused(client.threads.updateState(busy, { values: {} }), 409, /already running a task/);
        const copied = await client.threads.copy(busy);
        assert.deepEqual([copied.status, await client.threads.getHistory(copied.thread_id)], ["idle", []]);
        assert.deepEqual((await request(at, "POST", "/threads/prune", { thread_ids: [busy] })).body, {
          pruned_count: 0,
        });
        gates.open("text");
        await client.runs.join(busy, run.run_id);
      });

      it("has the metadata of a patch on its newest checkpoint", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createTalk(client, graph);
        const { metadata } = await client.threads.getState(id);
        await client.threads.patchState(id, { color: "red", size: { w: 1 } });
        await client.threads.patchState(id, { size: { h: 2 } });
        const noted = (await client.threads.getState(id)).metadata as JsonObject;
        assert.deepEqual(noted, { ...(metadata as JsonObject), color: "red", size: { h: 2 } });
        const matches = await client.threads.getHistory(id, { metadata: { color: "red" } });
        assert.equal(matches.length, 1);
        await assertRefused(client.threads.patchState(await createThread(client), { a: 1 }), 404, /no state/);
        await assertRefused(client.threads.patchState(id, { graph_id: "x" }), 422, /metadata.graph_id/);
      });

      it("is copied with its history into a separate thread", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createTalk(client, graph);
        await client.threads.update(id, { metadata: { owner: "ann" } });
        const source = await client.threads.get(id);
        const copy = await client.threads.copy(id);
        assert.notEqual(copy.thread_id, id);
        assert.deepEqual([copy.status, copy.metadata, copy.values], ["idle", source.metadata, source.values]);
        assert.deepEqual(await client.threads.get(copy.thread_id), copy);
        const past = await client.threads.getHistory(id);
        const copyHistory = await client.threads.getHistory(copy.thread_id);
        assert.deepEqual(copyHistory.map(getCheckpointId), past.map(getCheckpointId));
        assert.deepEqual(
          copyHistory.map(({ values, next }) => [values, next]),
          past.map(({ values, next }) => [values, next]),
        );
        assert.ok(copyHistory.every(({ checkpoint }) => checkpoint.thread_id === copy.thread_id));
        assert.deepEqual(await client.runs.list(copy.thread_id), []);
        const values = await client.runs.wait(copy.thread_id, graph, { input: createHumanInput("more") });
        assert.equal(readContents(values).length, 4);
        assert.equal(readContents((await client.threads.getState(id)).values).length, 2);
        await client.threads.delete(id);
        assert.equal(readContents((await client.threads.getState(copy.thread_id)).values).length, 4);
        await assertRefused(client.threads.copy(ABSENT), 409, /not found/);
      });

      it("is pruned to its newest checkpoint, or deleted", async () => {
        await using at = await bench();
        const { client } = at;
        const [untouched, emptied] = [await createTalk(client, graph), await createTalk(client, graph)];
        await client.runs.wait(untouched, graph, { input: createHumanInput("more") });
        const newest = await client.threads.getState(untouched);
        const prune = async (body: object): Promise<Json> => (await request(at, "POST", "/threads/prune", body)).body;
        assert.deepEqual(await prune({ thread_ids: [untouched, ABSENT], strategy: "keep_latest" }), {
          pruned_count: 1,
        });
        const history = await client.threads.getHistory(untouched);
        assert.deepEqual(history.map(getCheckpointId), [getCheckpointId(newest)]);
        assert.deepEqual(history[0]?.values, newest.values);
        const values = await client.runs.wait(untouched, graph, { input: createHumanInput("last") });
        assert.equal(readContents(values).length, 6);
        assert.deepEqual(await prune({ thread_ids: [emptied, emptied] }), { pruned_count: 1 });
        await assertRefused(client.threads.get(emptied), 404, /not found/);
        assert.deepEqual(await prune({ thread_ids: [] }), { pruned_count: 0 });
      });

      it("is the first state of a new thread", async () => {
        await using at = await bench();
        const { client } = at;
        const supersteps = [
          { updates: [{ values: { messages: [message("one", "m1")] }, asNode: "__start__" }] },
          { updates: [{ values: { messages: [{ role: "assistant", content: "two", id: "m2" }] }, asNode: node }] },
        ];
        const thread = await client.threads.create({ graphId: graph, metadata: { owner: "ann" }, supersteps });
        assert.deepEqual(thread.metadata, { owner: "ann", graph_id: graph });
        assert.deepEqual(readContents(thread.values), ["one", "two"]);
        const history = await client.threads.getHistory(thread.thread_id);
        assert.deepEqual(
          history.map((state) => [readContents(state.values), state.next]),
          [
            [["one", "two"], []],
            [["one"], [node]],
          ],
        );
        const values = await client.runs.wait(thread.thread_id, graph, { input: createHumanInput("three") });
        assert.deepEqual(readContents(values), ["one", "two", "three", "You said: three"]);
        const before = await client.threads.count();
        const stranger = [{ updates: [{ values: {}, asNode: "nobody" }] }];
        await assertRefused(client.threads.create({ graphId: graph, supersteps: stranger }), 422, /nobody/);
        await assertRefused(client.threads.create({ graphId: "nothing", supersteps }), 422, /graph_id/);
        await assertRefused(client.threads.create({ supersteps }), 422, /graph_id/);
        const many = Array.from({ length: 101 }, () => supersteps[0] as (typeof supersteps)[0]);
        await assertRefused(client.threads.create({ graphId: graph, supersteps: many }), 422, /at most 100/);
        assert.equal(await client.threads.count(), before);
        const again = { threadId: thread.thread_id, graphId: graph, supersteps };
        await assertRefused(client.threads.create(again), 409, /exists/);
        const same = await client.threads.create({ ...again, ifExists: "do_nothing" });
        assert.equal(readContents(same.values).length, 4);
      });

      it("branches after an edited message, and after a regenerated answer", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createTalk(client, graph);
        const holding = (history: ThreadState[], messageId: string): ThreadState =>
          history.findLast((state) =>
            readMessagesOrNone(state.values).some((message) => message.id === messageId),
          ) as ThreadState;
        const from = (checkpoint: Checkpoint | null | undefined): Omit<Checkpoint, "thread_id"> => {
          assert.ok(checkpoint);
          const { thread_id: _, ...checkpointFields } = checkpoint;
          return checkpointFields;
        };
        const first = holding(await client.threads.getHistory(id), "m1");
        const edited = await client.runs.wait(id, graph, {
          input: { messages: [message("edited", "m1")] },
          checkpoint: from(first.parent_checkpoint),
        });
        assert.deepEqual(readContents(edited), ["edited", "You said: edited"]);
        const [, answer] = getMessages(edited);
        const answeredState = holding(await client.threads.getHistory(id), String(answer?.id));
        const again = await client.runs.wait(id, graph, { checkpoint: from(answeredState.parent_checkpoint) });
        assert.deepEqual(readContents(again), ["edited", "You said: edited"]);
        assert.notEqual(getMessages(again)[1]?.id, answer?.id);
        const history = await client.threads.getHistory(id, { limit: 50 });
        const leaves = history.filter(
          (state) => !history.some((candidate) => findParentId(candidate) === getCheckpointId(state)),
        );
        assert.deepEqual(leaves.map((state) => readContentsOrNone(state.values)[0]).toSorted(), [
          "edited",
          "edited",
          "hi",
        ]);
        assert.deepEqual((await client.threads.getState(id)).values, again);
      });
    });
  }

  describe(`${name}: the history of a thread`, () => {
    it("is read from a checkpoint on, by metadata, and in part", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createTalk(client, "chat");
      const history = await client.threads.getHistory(id);
      const [newest, middle, oldest] = history as [ThreadState, ThreadState, ThreadState];
      const before = { configurable: { checkpoint_id: getCheckpointId(newest) } };
      assert.deepEqual((await client.threads.getHistory(id, { before })).map(getCheckpointId), [
        getCheckpointId(middle),
        getCheckpointId(oldest),
      ]);
      const inputs = await client.threads.getHistory(id, { metadata: { source: "input" } });
      assert.deepEqual(inputs.map(getCheckpointId), [getCheckpointId(oldest)]);
      const { thread_id: _, ...checkpoint } = middle.checkpoint;
      assert.deepEqual((await client.threads.getHistory(id, { checkpoint })).map(getCheckpointId), [
        getCheckpointId(middle),
      ]);
      const page = await request(at, "GET", `/threads/${id}/history?limit=1&before=${getCheckpointId(newest)}`);
      assert.deepEqual((page.body as unknown as ThreadState[]).map(getCheckpointId), [getCheckpointId(middle)]);
      for (const body of [{ before: 5 }, { limit: 0 }, { limit: 1001 }, { metadata: [] }, { select: ["nothing"] }]) {
        assert.equal((await request(at, "POST", `/threads/${id}/history`, body)).status, 422, JSON.stringify(body));
      }
    });

    it("changes inside a subgraph, and the outer graph continues from it", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createThread(client);
      await client.runs.wait(id, "outer", { input: { first: "given" } });
      const outer = await client.threads.getState(id, undefined, { subgraphs: true });
      const inner = outer.tasks[0]?.state as unknown as ThreadState;
      const { checkpoint_ns } = inner.checkpoint;
      const updated = (await client.threads.updateState(id, {
        values: { first: "changed" },
        checkpoint: { checkpoint_ns } as Checkpoint,
      })) as unknown as { checkpoint: Checkpoint };
      assert.equal(updated.checkpoint.checkpoint_ns, checkpoint_ns);
      const now = await client.threads.getState(id, undefined, { subgraphs: true });
      assert.equal(getCheckpointId(now), getCheckpointId(outer));
      const within = now.tasks[0]?.state as unknown as ThreadState;
      assert.deepEqual(
        [within.values, getCheckpointId(within)],
        [{ first: "changed" }, updated.checkpoint.checkpoint_id],
      );
      // The question is about another state now: it is asked again.
      assert.equal(getInterrupts(await client.runs.wait(id, "outer", { command: { resume: "no" } })).length, 1);
      const values = await client.runs.wait(id, "outer", { command: { resume: "yes" } });
      assert.deepEqual(values, { first: "changed", second: "yes" });
      const nowhere = { checkpoint_ns: "nowhere:1" } as Checkpoint;
      await assertRefused(client.threads.updateState(id, { values: {}, checkpoint: nowhere }), 404, /nowhere/);
    });
  });

  describe(`${name}: a pending interrupt`, () => {
    it("may be changed before it is answered", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createThread(client);
      await client.runs.wait(id, "ask", { input: { topic: "x" } });
      await client.threads.updateState(id, { values: { note: "seen" } });
      const [open] = (await client.threads.getState(id)).tasks.flatMap((task) => task.interrupts);
      assert.ok(open?.id);
      const resume = { [open.id]: "yes" };
      assert.deepEqual(await client.runs.wait(id, "ask", { command: { resume } }), {
        topic: "x",
        note: "seen",
        answer: "yes",
      });
      const graph = await createThread(client);
      await client.runs.wait(graph, "approval", { input: createHumanInput("book a seat") });
      await client.threads.updateState(graph, { values: { note: "seen" } });
      assert.deepEqual((await client.threads.getState(graph)).next, ["approve"]);
      // The question is about another state now: it is asked again.
      assert.equal(getInterrupts(await client.runs.wait(graph, "approval", { command: { resume: "no" } })).length, 1);
      const done = await client.runs.wait(graph, "approval", { command: { resume: "yes" } });
      assert.equal((done as unknown as JsonObject).note, "seen");
      assert.equal(readContents(done).at(-1), "Done: seat 7A is booked");
    });

    it("has the same id in every response, and may be answered by it", async () => {
      await using at = await bench();
      const { client } = at;
      for (const [graph, questions] of [
        ["ask", 1],
        ["questions", 2],
        ["outer", 1],
      ] as const) {
        const id = await createThread(client);
        const streamMode = ["values", "updates"] as ["values", "updates"];
        const frames = await collect(client.runs.stream(id, graph, { input: {}, streamMode }));
        const emitted = frames.flatMap(({ data }) =>
          isObject(data) && "__interrupt__" in data ? [getInterrupts(data).map((open) => open.id)] : [],
        );
        const ids = [...new Set(emitted.flat())].toSorted();
        assert.equal(ids.length, questions);
        const [run] = await client.runs.list(id);
        const joined = getInterrupts(await client.runs.join(id, String(run?.run_id))).map((open) => open.id);
        const thread = Object.values((await client.threads.get(id)).interrupts).flat();
        for (const read of [1, 2]) {
          const { tasks } = await client.threads.getState(id);
          const of = (listed: readonly { readonly id?: string }[]): string[] =>
            listed.map((open) => String(open.id)).toSorted();
          assert.deepEqual(of(tasks.flatMap((task) => task.interrupts)), ids, `${graph}, read ${read}`);
          assert.deepEqual([joined.toSorted(), of(thread)], [ids, ids], graph);
        }
        const resume = Object.fromEntries(ids.map((open) => [open, `to ${open}`]));
        const values = (await client.runs.wait(id, graph, { command: { resume } })) as unknown as JsonObject;
        assert.deepEqual(Object.values(values).toSorted(), Object.values(resume).toSorted());
        assert.equal((await client.threads.get(id)).status, "idle");
      }
    });

    it("accepts no single resume value for several interrupts, and strict_resume none without an interrupt", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createThread(client);
      const asking = getInterrupts(await client.runs.wait(id, "questions", { input: {} }));
      const [firstId, secondId] = asking.map((open) => open.id) as [string, string];
      const nobody = "0".repeat(32);
      for (const resume of ["yes", null, true, ["a"], {}, { a: 1 }, { [nobody]: 1, a: 2 }]) {
        const call = client.runs.create(id, "questions", { command: { resume } });
        await assertRefused(call, 422, /^command.resume: 2 interrupts are open/);
      }
      const strict = (resume: Json): ReturnType<typeof request> =>
        request(at, "POST", `/threads/${id}/runs/wait`, {
          assistant_id: "questions",
          command: { resume },
          strict_resume: true,
        });
      await detail(strict({ [nobody]: 1 }), 409, /no open interrupt that it answers/);
      await detail(strict({ [firstId]: 1, [nobody]: 2 }), 422, /no open interrupt 0000/);
      await detail(strict({ [firstId]: 1, nonsense: 2 }), 422, /no open interrupt nonsense/);
      assert.equal((await client.runs.list(id)).length, 1);
      assert.equal((await client.threads.get(id)).status, "interrupted");
      const stray = client.runs.create(id, "questions", { command: { resume: { [nobody]: 1 } } });
      await assertRefused(stray, 409, /no open interrupt that it answers/);
      const answered = await strict({ [firstId]: "1", [secondId]: "2" });
      assert.deepEqual([answered.status, Object.values(answered.body as JsonObject).toSorted()], [200, ["1", "2"]]);
    });

    it("continues at the node of a command, and fails if there is no such node", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createThread(client);
      await client.runs.wait(id, "family", { input: { steps: ["start"] }, interruptBefore: ["after"] });
      const lengths: number[] = [];
      for (const goto of ["after", { node: "after", input: { steps: [] } }, ["after", { node: "after", input: {} }]]) {
        const values = (await client.runs.wait(id, "family", { command: { goto } as never })) as unknown as JsonObject;
        lengths.push((values.steps as Json[]).length);
      }
      // The first one also takes the step that was waited for.
      assert.deepEqual(lengths, [5, 6, 8]);
      for (const [graph, goto] of [
        ["family", "nobody"],
        ["family", { node: "nobody", input: {} }],
        ["family", ["after", "nobody"]],
        ["tell", "nobody"],
      ] as const) {
        const stray = await createThread(client);
        const { run_id } = await client.runs.create(stray, graph, { command: { goto } as never });
        const { __error__ } = (await client.runs.join(stray, run_id)) as unknown as { __error__: JsonObject };
        assert.match(String(__error__.message), /nobody/);
        assert.equal((await client.runs.get(stray, run_id)).status, "error");
        assert.equal((await client.threads.get(stray)).status, "error");
      }
      const ended = await createThread(client);
      await client.runs.wait(ended, "approval", { input: createHumanInput("book a seat") });
      const last = await client.runs.create(ended, "approval", {
        input: {},
        command: { goto: "__end__", update: { note: "left" } },
      });
      const joinedValues = (await client.runs.join(ended, last.run_id)) as unknown as JsonObject;
      assert.deepEqual([readContents(joinedValues), joinedValues.note], [["book a seat", "One moment."], "left"]);
      const state = await client.threads.getState(ended);
      assert.deepEqual([state.next, state.tasks, state.values], [[], [], joinedValues]);
      assert.equal((state.metadata as JsonObject).run_id, last.run_id);
      const { status, interrupts } = await client.threads.get(ended);
      assert.deepEqual([status, interrupts], ["idle", {}]);
      const nextValues = await client.runs.wait(ended, "approval", { input: createHumanInput("book another") });
      assert.equal(getInterrupts(nextValues).length, 1);
    });

    it("occurs before and after every node", async () => {
      await using at = await bench();
      const { client } = at;
      const stops = async (graph: string, when: object): Promise<string[][]> => {
        const id = await createThread(client);
        const passed: string[][] = [];
        await client.runs.wait(id, graph, { input: { steps: ["start"] }, ...when });
        for (let next = (await client.threads.getState(id)).next; next.length > 0; ) {
          passed.push(next);
          assert.equal((await client.threads.get(id)).status, "interrupted");
          await client.runs.wait(id, graph, { input: null, ...when });
          next = (await client.threads.getState(id)).next;
        }
        assert.equal((await client.threads.get(id)).status, "idle");
        return passed;
      };
      assert.deepEqual(await stops("family", { interruptBefore: "*" }), [["child"], ["after"]]);
      assert.deepEqual(await stops("family", { interruptAfter: "*" }), [["after"]]);
      assert.deepEqual(await stops("tell", { interruptBefore: "*" }), [["tell"]]);
      assert.deepEqual(await stops("tell", { interruptAfter: "*" }), []);
    });
  });

  describe(`${name}: extracted values of threads`, () => {
    it("are selected by paths", async () => {
      await using at = await bench();
      const id = await createTalk(at.client, "chat");
      const search = (body: object): ReturnType<typeof request> => request(at, "POST", "/threads/search", body);
      const extract = {
        last: "values.messages[-1].content",
        first: "values.messages[0].id",
        graph: "metadata.graph_id",
        open: "interrupts",
        none: "values.messages[7].content",
        deep: "config.configurable.nothing.at.all",
        list: "values.messages.length",
      };
      const extracted = {
        last: "You said: hi",
        first: "m1",
        graph: "chat",
        open: {},
        none: null,
        deep: null,
        list: null,
      };
      assert.deepEqual(await search({ extract, select: ["thread_id"] }), {
        status: 200,
        body: [{ thread_id: id, extracted }],
      });
      const [whole] = (await search({ extract, values: { messages: [{ id: "m1" }] } })).body as [JsonObject];
      assert.deepEqual([whole.extracted, readContents(whole.values)], [extracted, ["hi", "You said: hi"]]);
      for (const path of ["context.a", "thread_id", "", "valuesx", "values.", "values[a]", "values[0", "values..a"]) {
        await detail(search({ extract: { a: path } }), 422, /^extract.a: /);
      }
      await detail(search({ extract: { a: 5 } }), 422, /^extract: /);
      const eleven = Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`a${i}`, "values"]));
      await detail(search({ extract: eleven }), 422, /at most 10/);
      await detail(search({ select: ["nothing"] }), 422, /^select/);
      await detail(search({ sort_by: "nothing" }), 422, /^sort_by/);
    });
  });

  describe(`${name}: the lifetime of a thread`, () => {
    it("is returned if requested", async () => {
      await using at = await bench();
      const { client } = at;
      const lives = async (id: string): Promise<JsonObject> => {
        const { body } = await request(at, "GET", `/threads/${id}?include=ttl`);
        return (body as JsonObject).ttl as JsonObject;
      };
      const endsAfter = async (id: string, minutes: number): Promise<void> => {
        const { expires_at } = await lives(id);
        const { updated_at, state_updated_at } = await client.threads.get(id);
        const since = Math.max(Date.parse(updated_at), Date.parse(state_updated_at ?? updated_at));
        assert.equal(Date.parse(String(expires_at)) - since, minutes * 60_000);
      };
      const { thread_id } = await client.threads.create({ ttl: 1.5 });
      assert.equal("ttl" in (await client.threads.get(thread_id)), false);
      const { expires_at: _, ...lifetime } = await lives(thread_id);
      assert.deepEqual(lifetime, { strategy: "delete", ttl_minutes: 1.5 });
      await endsAfter(thread_id, 1.5);
      await client.threads.update(thread_id, { ttl: { ttl: 90, strategy: "keep_latest" as never } });
      assert.deepEqual((await lives(thread_id)).strategy, "keep_latest");
      await client.runs.wait(thread_id, "tell", { input: {} });
      await endsAfter(thread_id, 90);
      assert.equal(await lives(await createThread(client)), null);
      for (const path of ["/threads/search?include=ttl", "/threads/search"]) {
        const { body } = await request(at, "POST", path, {
          ids: [thread_id],
          select: ["status"],
          ...(path.includes("?") ? {} : { include: ["ttl"] }),
        });
        assert.deepEqual(body, [{ status: "idle", ttl: await lives(thread_id) }]);
      }
      for (const ttl of [0, -1, "5", { ttl: 0 }, { strategy: "delete" }, { ttl: 5, strategy: "burn" }, 1e300]) {
        await detail(request(at, "POST", "/threads", { ttl }), 422, /^ttl/);
        await detail(request(at, "PATCH", `/threads/${thread_id}`, { ttl }), 422, /^ttl/);
      }
      await detail(request(at, "GET", `/threads/${thread_id}?include=all`), 422, /^include/);
    });
  });
}
