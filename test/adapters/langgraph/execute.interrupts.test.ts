import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { entrypoint, interrupt, MemorySaver, Send, START, StateGraph, task } from "@langchain/langgraph";
import { createAskingGraph, createHost, createStepsGraph, getEventData, Log, log } from "./execute.harness.ts";
import { createJob, run } from "./executor.harness.ts";

const createTwiceAskingGraph = (log: string[] = []) =>
  new StateGraph(Log)
    .addNode("left", () => ({ log: [`left ${interrupt("left?")}`] }))
    .addNode("right", () => ({ log: [`right ${interrupt("right?")}`] }))
    .addNode("quiet", () => {
      log.push("quiet");
      return { log: ["quiet"] };
    })
    .addEdge(START, "left")
    .addEdge(START, "right")
    .addEdge(START, "quiet")
    .compile();

describe("langgraph: interrupts and commands", () => {
  it("stop the run, which continues with the resume value", async () => {
    const { run, state } = createHost(createAskingGraph());
    const stopped = await run({ input: {}, modes: ["values", "updates"] });
    const { next, tasks } = stopped.state;
    assert.deepEqual(next, ["ask"]);
    const [interrupted] = tasks[0]?.interrupts ?? [];
    assert.deepEqual(interrupted?.value, { question: "ok?" });
    assert.match(interrupted?.id ?? "", /^[0-9a-f]{32}$/);
    assert.deepEqual(getEventData(stopped.events, "updates"), [{ __interrupt__: [interrupted] }]);
    assert.deepEqual(getEventData(stopped.events, "values").at(-1), { __interrupt__: [interrupted] });
    const stored = await state();
    assert.deepEqual(stored.interrupts, [interrupted]);
    assert.deepEqual(stored.next, ["ask"]);

    const answered = await run({ command: { resume: "yes" } });
    assert.deepEqual(log(answered.state.values), ['answer "yes"', "after"]);
    assert.deepEqual(answered.state.next, []);
  });

  for (const answer of [false, null, 0, ""]) {
    it(`accept ${JSON.stringify(answer)} as a resume value`, async () => {
      const { run } = createHost(createAskingGraph());
      await run({ input: {} });
      const { state } = await run({ command: { resume: answer } });
      assert.deepEqual(log(state.values), [`answer ${JSON.stringify(answer)}`, "after"]);
    });
  }

  it("get several resume values by their ids", async () => {
    const { run } = createHost(createTwiceAskingGraph());
    const { state } = await run({ input: {} });
    const interrupts = state.tasks.flatMap((pending) => pending.interrupts);
    assert.equal(interrupts.length, 2);
    assert.deepEqual(log(state.values), ["quiet"]);
    const resume = Object.fromEntries(interrupts.map(({ id, value }) => [id, `to ${value}`]));
    const answered = await run({ command: { resume } });
    assert.deepEqual(log(answered.state.values), ["left to left?", "quiet", "right to right?"]);
  });

  it("do not run finished tasks again if the checkpoint of the request is the head", async () => {
    const calls: string[] = [];
    const { run } = createHost(createTwiceAskingGraph(calls));
    const { state } = await run({ input: {} });
    const resume = Object.fromEntries(state.tasks.flatMap((pending) => pending.interrupts).map(({ id }) => [id, "x"]));
    await run({ command: { resume }, from: state.checkpoint ?? null });
    assert.deepEqual(calls, ["quiet"]);
  });

  it("continue from a resume value that an earlier attempt stored", async () => {
    const { run, thread } = createHost(createAskingGraph());
    const { state } = await run({ input: {} });
    const at = state.checkpoint as { ns: string; checkpoint_id: string };
    const write = { channel: "__resume__", idx: -4, type: "json", data: '"stored"' };
    await thread.checkpoints.putWrites(at, "00000000-0000-0000-0000-000000000000", [write]);
    const { state: resumed } = await run({ attempt: 2, resumed: true, command: { resume: "again" } });
    assert.deepEqual(log(resumed.values), ['answer "stored"', "after"]);
  });

  it("continue from the newest checkpoint in a second attempt", async () => {
    let broken = true;
    const graph = new StateGraph(Log)
      .addNode("one", () => ({ log: ["one"] }))
      .addNode("two", () => {
        if (broken) throw new Error("broken");
        return { log: ["two"] };
      })
      .addEdge(START, "one")
      .addEdge("one", "two")
      .compile();
    const { executor, thread } = createHost(graph);
    const job = createJob(thread, "graph", { input: { log: ["in"] } });
    await assert.rejects(run(executor, job), /broken/);
    broken = false;
    const { state } = await run(executor, { ...job, attempt: 2, resumed: true });
    assert.deepEqual(log(state.values), ["in", "one", "two"]);
  });

  it("update the state and continue at the node of a command", async () => {
    const { run } = createHost(createStepsGraph().compile());
    await run({ input: { data: 1 } });
    const { state } = await run({ command: { update: { log: ["changed"] }, goto: ["told"] } });
    assert.deepEqual(log(state.values), ["one", "two", "changed", "told 1"]);
    const pairs = await run({ command: { update: [["log", ["pairs"]]], goto: ["__end__"] } });
    assert.deepEqual(log(pairs.state.values), ["one", "two", "changed", "told 1", "pairs"]);
  });

  it("send a node its own input", async () => {
    const { run } = createHost(createStepsGraph().compile());
    await run({ input: {} });
    const { state } = await run({ command: { goto: [{ node: "told", input: { data: "this" } }] } });
    assert.deepEqual(log(state.values), ["one", "two", "told this"]);
  });

  it("stop at static breakpoints and continue from them", async () => {
    for (const [changes, next] of [
      [{ interrupt_before: ["two"] }, ["two"]],
      [{ interrupt_after: ["one"] }, ["two"]],
      [{ interrupt_before: "*" }, ["one"]],
    ] as const) {
      const { run } = createHost(createStepsGraph().compile());
      const { state, events } = await run({ input: {}, modes: ["values"], ...changes });
      assert.deepEqual(state.next, next);
      assert.deepEqual(events.at(-1)?.data, { __interrupt__: [] });
      assert.deepEqual(log((await run()).state.values), ["one", "two"]);
    }
  });

  it("keep sends that wait at a breakpoint", async () => {
    const graph = new StateGraph(Log)
      .addNode("work", (state: typeof Log.State) => ({ log: [`work ${state.data}`] }))
      .addConditionalEdges(START, () => ["a", "b"].map((branch) => new Send("work", { data: branch })))
      .compile();
    const { run } = createHost(graph);
    const { state } = await run({ input: { log: ["in"] }, interrupt_before: ["work"] });
    assert.deepEqual(state.next, ["work", "work"]);
    assert.deepEqual(log((await run()).state.values), ["in", "work a", "work b"]);
  });

  it("stop inside a subgraph that was compiled with its own saver, and store all checkpoints in the service", async () => {
    const graphSaver = new MemorySaver();
    const child = new StateGraph(Log)
      .addNode("inner", () => ({ log: [`inner ${interrupt("in?")}`] }))
      .addEdge(START, "inner")
      .compile({ checkpointer: graphSaver });
    const graph = new StateGraph(Log)
      .addNode("child", child)
      .addEdge(START, "child")
      .compile({ checkpointer: graphSaver });
    const { run, executor, thread } = createHost(graph);
    const { state } = await run({ input: {} });
    assert.deepEqual(state.next, ["child"]);
    const at = { thread_id: thread.thread_id, ns: "" };
    const deep = await executor.state?.("graph")?.get(at, thread.checkpoints, { subgraphs: true });
    assert.deepEqual(deep?.tasks[0]?.state?.next, ["inner"]);
    const ns = deep?.tasks[0]?.state?.checkpoint?.checkpoint_ns as string;
    assert.match(ns, /^child:/);
    const inner = await executor.state?.("graph")?.get({ ...at, ns }, thread.checkpoints, { subgraphs: false });
    assert.deepEqual(inner?.next, ["inner"]);
    const answered = await run({ command: { resume: "yes" } });
    assert.deepEqual(log(answered.state.values), ["inner yes"]);
    assert.deepEqual(Object.keys(graphSaver.storage), []);
  });

  it("work in functional graphs", async () => {
    const double = task("double", async (value: number) => value * 2);
    const flow = entrypoint("flow", async (value: number) => (await double(value)) + (interrupt("add?") as number));
    const { run } = createHost(flow);
    const { state } = await run({ input: 4 });
    assert.equal(state.tasks[0]?.interrupts[0]?.value, "add?");
    assert.equal((await run({ command: { resume: 1 } })).state.values, 9);
  });
});
