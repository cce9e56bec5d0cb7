import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AIMessage, type BaseMessage, coerceMessageLikeToMessage } from "@langchain/core/messages";
import { Annotation, Command, END, interrupt, MessagesAnnotation, Send, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import type { Json, JsonObject, RunCreate, StateChange, ThreadState } from "../../../lib/mod.ts";
import { serviceInternals } from "../../../lib/service.ts";
import { type TestService, testService } from "../../suite/kit.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (current, update) => [...current, ...update], default: () => [] }),
  way: Annotation<string>,
  first: Annotation<string>,
  second: Annotation<string>,
});

/** Two nodes side by side that ask, then one that depends on `way`. */
const parallel = new StateGraph(State)
  .addNode("left", () => ({ first: interrupt("first?") as string, log: ["left"] }))
  .addNode("right", () => ({ second: interrupt("second?") as string, log: ["right"] }))
  .addNode("far", () => ({ log: ["far"] }))
  .addNode("near", () => ({ log: ["near"] }))
  .addEdge(START, "left")
  .addEdge(START, "right")
  .addConditionalEdges("left", ({ way }) => {
    if (way === "broken") throw new RangeError("no such way");
    return way === "far" ? "far" : "near";
  })
  .addEdge("right", END)
  .addEdge("far", END)
  .addEdge("near", END)
  .compile();

/** Sends a packet for each word. */
const packets = new StateGraph(State)
  .addNode("split", () => ({ log: ["split"] }))
  .addNode("word", ({ way }) => ({ log: [`word ${way}`] }))
  .addNode("jump", () => new Command({ goto: "word", update: { log: ["jump"] } }), { ends: ["word"] })
  .addEdge(START, "split")
  .addConditionalEdges("split", ({ way = "" }) => way.split(" ").map((word) => new Send("word", { way: word })), [
    "word",
  ])
  .addConditionalEdges("word", ({ way }) => (way === "jump" ? "jump" : END), ["jump", END])
  .compile();

const deepest = new StateGraph(State)
  .addNode("ask", () => ({ second: interrupt("deep?") as string, log: ["asked"] }))
  .addEdge(START, "ask")
  .addEdge("ask", END)
  .compile();
const middle = new StateGraph(State)
  .addNode("deepest", deepest)
  .addEdge(START, "deepest")
  .addEdge("deepest", END)
  .compile();
const nested = new StateGraph(State)
  .addNode("middle", middle)
  .addEdge(START, "middle")
  .addEdge("middle", END)
  .compile();

const steps = ["one", "two", "three"] as const;
const line = () =>
  new StateGraph(MessagesAnnotation)
    .addNode("one", () => ({ messages: [{ role: "assistant", content: "one" }] }))
    .addNode("two", () => ({ messages: [{ role: "assistant", content: "two" }] }))
    .addNode("three", () => ({ messages: [{ role: "assistant", content: "three" }] }))
    .addEdge(START, "one")
    .addEdge("one", "two")
    .addEdge("two", "three")
    .addEdge("three", END);

interface Harness extends TestService {
  run(request: Omit<RunCreate, "assistant_id">): Promise<JsonObject>;
  update(change: StateChange): Promise<ThreadState>;
  state(subgraphs?: boolean): Promise<ThreadState>;
  readonly thread_id: string;
}

async function createHarness(graph_id: string, environment: JsonObject | object = {}): Promise<Harness> {
  const executor = langgraph({ parallel, packets, nested, line: line(), made: () => line().compile() });
  const host = await testService({ executor, environment });
  const { threads, runs } = host.service;
  const { thread_id } = await threads.create({ metadata: { graph_id } });
  const state = (subgraphs = false): Promise<ThreadState> => threads.state(thread_id, { subgraphs });
  return {
    ...host,
    thread_id,
    state,
    run: async (request) =>
      (await (
        await runs.wait(thread_id, { ...request, assistant_id: graph_id })
      ).result) as JsonObject,
    async update(change) {
      const { checkpoint_id, checkpoint_ns } = await threads.updateState(thread_id, change);
      return await threads.stateAt(thread_id, { checkpoint_id, checkpoint_ns });
    },
  };
}

const readLog = ({ values }: Pick<ThreadState, "values">): Json => (values as JsonObject).log ?? null;
const assertRefused = (text: RegExp) => (error: { code?: string; message: string }) => {
  assert.deepEqual([error.code, text.test(error.message)], ["invalid", true], error.message);
  return true;
};

describe("a LangGraph state", () => {
  it("continues after the node that the update names", async () => {
    for (const graph of ["line", "made"]) {
      await using at = await createHarness(graph);
      for (const [index, node] of steps.entries()) {
        const state = await at.update({
          values: { messages: [{ role: "user", content: node, id: node }] },
          as_node: node,
        });
        assert.deepEqual(state.next, steps.slice(index + 1, index + 2));
        assert.equal(state.metadata?.step, index);
      }
      const back = await at.update({ values: { messages: [] }, as_node: "one" });
      assert.deepEqual(back.next, ["two"]);
      const { messages } = await at.run({ input: null });
      assert.deepEqual(
        (messages as JsonObject[]).map(({ content }) => content),
        [...steps, "two", "three"],
      );
    }
  });

  it("follows the edges that depend on it", async () => {
    await using at = await createHarness("parallel");
    assert.deepEqual((await at.update({ values: { way: "far" }, as_node: "left" })).next, ["far"]);
    assert.deepEqual((await at.update({ values: { way: "home" }, as_node: "left" })).next, ["near"]);
    const before = await at.state();
    await assert.rejects(at.update({ values: { way: "broken" }, as_node: "left" }), assertRefused(/no such way/));
    await assert.rejects(at.update({ values: { way: "x" }, as_node: "__end__" }), assertRefused(/__end__/));
    await assert.rejects(
      at.update({ values: [{ way: "x" }, { way: "y" }], as_node: "near" }),
      assertRefused(/way|one value/i),
    );
    await assert.rejects(at.update({ values: { log: 5 as never }, as_node: "near" }), assertRefused(/graph refuses/));
    assert.deepEqual(await at.state(), before);
    assert.deepEqual(readLog(await at.update({ values: [{ log: ["a"] }, { log: ["b"] }], as_node: "near" })), [
      "a",
      "b",
    ]);
  });

  it("begins with steps of several updates, packets and commands", async () => {
    await using at = await createHarness("packets");
    const { threads } = at.service;
    const opened = await threads.create({
      metadata: { graph_id: "packets" },
      supersteps: [
        { updates: [{ values: { way: "a b" }, as_node: "__start__" }] },
        { updates: [{ values: { log: ["split"] }, as_node: "split" }] },
        {
          updates: [
            { values: { log: ["a"] }, as_node: "word" },
            { values: { log: ["b"] }, as_node: "word" },
          ],
        },
      ],
    });
    const history = await threads.history(opened.thread_id);
    assert.deepEqual(
      history.map((state) => [state.next, readLog(state)]),
      [
        [[], ["split", "a", "b"]],
        [["word", "word"], ["split"]],
        [["split"], []],
      ],
    );
    const applyCommand = async (command: object): Promise<ThreadState> => {
      const supersteps = [{ updates: [{ as_node: "jump", command }] }];
      const { thread_id } = await threads.create({ metadata: { graph_id: "packets" }, supersteps });
      return await threads.state(thread_id);
    };
    assert.deepEqual((await applyCommand({ goto: "word" })).next, ["word"]);
    const sentState = await applyCommand({ goto: { node: "word", input: { way: "x" } }, update: { log: ["sent"] } });
    assert.deepEqual([sentState.next, readLog(sentState)], [["word"], ["sent"]]);
    await assert.rejects(applyCommand({ goto: "nobody" }), assertRefused(/nobody/));
    await assert.rejects(applyCommand({ goto: [{ node: "nobody", input: 1 }] }), assertRefused(/nobody/));
  });

  it("keeps the results of finished tasks of an interrupted step", async () => {
    await using at = await createHarness("parallel");
    await at.run({ input: {} });
    const [first, second] = (await at.state()).interrupts.toSorted((a, b) =>
      String(a.value).localeCompare(String(b.value)),
    );
    assert.ok(first && second);
    const half = await at.run({ command: { resume: { [first.id]: "1" } } });
    assert.deepEqual(
      (half.__interrupt__ as JsonObject[]).map(({ id }) => id),
      [second.id],
    );
    await at.update({ values: { log: ["note"] }, as_node: "right" });
    const state = await at.state();
    assert.deepEqual([(state.values as JsonObject).first, readLog(state)], ["1", ["left", "note"]]);
    // LangGraph takes the edges of the node that the update stands for, and no others.
    assert.deepEqual([state.next, state.interrupts], [[], []]);
    const values = await at.run({ input: {} });
    assert.deepEqual([values.first, (values.__interrupt__ as Json[]).length], ["1", 2]);
  });

  it("moves to the end by a command, in parallel tasks and from an earlier checkpoint", async () => {
    await using at = await createHarness("parallel");
    await at.run({ input: {} });
    const asking = await at.state();
    const end = { goto: "__end__", update: [["log", ["left it"]]] } as never;
    assert.deepEqual(await at.run({ command: end }), { log: ["left it"] });
    const current = await at.state();
    assert.deepEqual([current.next, current.tasks, readLog(current)], [[], [], ["left it"]]);
    assert.equal(current.parent_checkpoint?.checkpoint_id, asking.checkpoint?.checkpoint_id);
    await at.run({ input: {} });
    const checkpoint = { checkpoint_id: asking.checkpoint?.checkpoint_id ?? null };
    assert.deepEqual(await at.run({ command: { goto: ["__end__"] }, checkpoint }), { log: ["left it"] });
    assert.equal((await at.service.threads.get(at.thread_id)).status, "idle");
    const { thread_id } = await at.service.threads.create();
    const fresh = await at.service.runs.wait(thread_id, { assistant_id: "parallel", command: { goto: "__end__" } });
    assert.equal(typeof (await fresh.result), "object");
    assert.notEqual((await at.service.threads.get(thread_id)).status, "busy");
  });

  it("changes two subgraphs deep, and the parents show the change", async () => {
    await using at = await createHarness("nested");
    await at.run({ input: {} });
    const inner = (await at.state(true)).tasks[0]?.state?.tasks[0]?.state;
    assert.ok(inner);
    const { checkpoint_id, checkpoint_ns } = inner.checkpoint as { checkpoint_id: string; checkpoint_ns: string };
    assert.match(checkpoint_ns, /^middle:[^|]+\|deepest:/);
    const changed = await at.update({ values: { log: ["deep"] }, checkpoint: { checkpoint_ns, checkpoint_id } });
    assert.deepEqual(
      [changed.next, readLog(changed), changed.checkpoint?.checkpoint_ns],
      [["ask"], ["deep"], checkpoint_ns],
    );
    assert.ok(String(changed.checkpoint?.checkpoint_id) > checkpoint_id);
    // The question is about another state now: it is asked again.
    const again = await at.run({ command: { resume: "early" } });
    assert.equal((again.__interrupt__ as Json[]).length, 1);
    const values = await at.run({ command: { resume: "yes" } });
    assert.deepEqual([values.log, values.second], [["deep", "asked"], "yes"]);
    const elsewhere = { checkpoint_ns: `${checkpoint_ns}x` };
    await assert.rejects(at.update({ values: {}, checkpoint: elsewhere }), { code: "not_found" });
  });

  it("has the metadata of an update, and not that of a run", async () => {
    await using at = await createHarness("line");
    await at.run({ input: { messages: [] } });
    const { graph_id, assistant_id } = (await at.service.threads.get(at.thread_id)).metadata;
    for (const change of [
      { values: { messages: [] }, as_node: "one" },
      { as_node: "__end__" },
      {},
      { as_node: "__copy__" },
    ]) {
      const { metadata } = await at.update(change);
      const { source, step, parents, ...otherMetadata } = metadata as JsonObject;
      assert.deepEqual(otherMetadata, { graph_id, assistant_id, thread_id: at.thread_id });
      assert.deepEqual([typeof step, parents], ["number", {}]);
      assert.equal(source, change.as_node === "__copy__" ? "fork" : "update");
    }
  });

  it("has the newest id also if the clock of another machine is ahead", async () => {
    await using at = await createHarness("line");
    const { threads } = at.service;
    const ahead = "3f000000-0000-6000-8000-000000000000";
    const first = await at.update({ values: { messages: [] }, as_node: "one" });
    const { storage } = serviceInternals(at.service).options;
    const stored = await storage.getCheckpoint({ deployment: "default" }, at.thread_id, { ns: "" });
    assert.ok(stored);
    const { run_id: _run, writes: _writes, ...checkpoint } = stored;
    const progress = { checkpoints: [{ ...checkpoint, checkpoint_id: ahead, values: [] }], writes: [] };
    const state = { graph_id: "line", progress, head: ahead, expected_head: stored.checkpoint_id, scalars: {} };
    const now = serviceInternals(at.service).environment.now();
    assert.equal(await storage.writeState({ deployment: "default" }, at.thread_id, state, now), "written");
    for (const node of steps) {
      const newest = (await at.state()).checkpoint?.checkpoint_id;
      const next = await at.update({ values: { messages: [] }, as_node: node });
      assert.ok(String(next.checkpoint?.checkpoint_id) > String(newest));
      assert.equal(next.parent_checkpoint?.checkpoint_id, newest);
    }
    const history = await threads.history(at.thread_id);
    const ids = history.map((state) => String(state.checkpoint?.checkpoint_id));
    assert.deepEqual(ids, ids.toSorted().toReversed());
    assert.equal(ids.at(-1), first.checkpoint?.checkpoint_id);
  });

  it("has the changes that nodes, reducers and edges make in place to a long list of messages", async () => {
    let run = 0;
    const mark = (message: BaseMessage | undefined, by: string): void => {
      if (message) message.content = `${by} ${run}`;
    };
    const Talk = Annotation.Root({
      messages: Annotation<BaseMessage[]>({
        default: () => [],
        reducer(current, update) {
          mark(current[1], "reducer");
          return update.length > 0 ? [...current, ...update.map(coerceMessageLikeToMessage)] : current;
        },
      }),
    });
    const graph = new StateGraph(Talk)
      .addNode("first", ({ messages }) => {
        mark(messages[2], "first");
        return { messages: [new AIMessage({ content: "one", id: "one" })] };
      })
      .addNode("second", async ({ messages }) => {
        await new Promise((resolve) => setTimeout(resolve, 1));
        mark(messages[3], "second");
        return { messages: [] };
      })
      .addEdge(START, "first")
      .addEdge("first", "second")
      .addConditionalEdges("second", ({ messages }) => {
        mark(messages[4], "edge");
        return END;
      })
      .compile();
    const { service } = await testService({ executor: langgraph({ graph }) });
    const { thread_id } = await service.threads.create();
    const readContents = (values: unknown): string[] =>
      (values as { messages: { content: string }[] }).messages.slice(0, 5).map(({ content }) => content);
    const createHumanMessage = (i: number): JsonObject => ({ role: "user", content: `m${i}`, id: `h${i}` });
    for (const [from, count] of [
      [0, 20],
      [20, 2],
    ] as const) {
      run++;
      const input = { messages: Array.from({ length: count }, (_, i) => createHumanMessage(from + i)) as Json[] };
      const { result } = await service.runs.wait(thread_id, { assistant_id: "graph", input });
      const ended = readContents(await result);
      assert.deepEqual(ended, ["m0", `reducer ${run}`, `first ${run}`, `second ${run}`, `edge ${run}`]);
      assert.deepEqual(readContents((await service.threads.state(thread_id)).values), ended);
    }
  });
});
