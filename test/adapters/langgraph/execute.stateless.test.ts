import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DeltaValue, END, interrupt, START, StateGraph, StateSchema } from "@langchain/langgraph";
import type { JsonObject } from "../../../lib/json.ts";
import { createAskingGraph, createChatGraph, createHost, createStepsGraph, Log, log } from "./execute.harness.ts";

describe("langgraph: runs without durability", () => {
  const bare = { stateless: true, durability: "exit" } as const;

  it("write no checkpoint, and end with their state only", async () => {
    const { run, thread } = createHost(createChatGraph());
    const { state } = await run({ ...bare, input: { messages: ["Hi"] } });
    assert.deepEqual(
      ((state.values as JsonObject).messages as JsonObject[]).map(({ type, content }) => [type, content]),
      [
        ["human", "Hi"],
        ["ai", "Hello"],
      ],
    );
    assert.ok(!("checkpoint" in state));
    assert.deepEqual(thread.checkpoints.puts, []);
  });

  it("emit their interrupts, also those of subgraphs", async () => {
    const child = new StateGraph(Log)
      .addNode("inner", () => ({ log: [`inner ${interrupt("in?")}`] }))
      .addEdge(START, "inner")
      .compile();
    const nested = new StateGraph(Log).addNode("child", child).addEdge(START, "child").compile();
    for (const [graph, node, value] of [
      [createAskingGraph(), "ask", { question: "ok?" }],
      [nested, "child", "in?"],
    ] as const) {
      const { run, thread } = createHost(graph);
      const { state } = await run({ ...bare, input: { log: ["in"] } });
      assert.deepEqual([state.next, state.values], [[node], { log: ["in"] }]);
      assert.deepEqual(
        state.tasks.map((task) => task.interrupts.map((interrupt) => interrupt.value)),
        [[value]],
      );
      assert.ok(!("checkpoint" in state));
      assert.deepEqual(thread.checkpoints.puts, []);
    }
  });

  it("keep the state of a stateful subgraph within the run", async () => {
    const child = new StateGraph(Log)
      .addNode("inner", (state) => ({ log: [`inner ${state.log.length}`] }))
      .addEdge(START, "inner")
      .compile({ checkpointer: true });
    const graph = new StateGraph(Log)
      .addNode("child", child)
      .addEdge(START, "child")
      .addConditionalEdges("child", ({ log }) => (log.length < 4 ? "child" : END))
      .compile();
    const result = await createHost(graph).run({ input: {} });
    const { run, thread } = createHost(graph);
    const { state } = await run({ ...bare, input: {} });
    assert.deepEqual(state.values, result.state.values);
    // The second time it has its own first log and, from its input, the same again.
    assert.deepEqual(log(state.values), ["inner 0", "inner 0", "inner 0", "inner 2"]);
    assert.deepEqual(thread.checkpoints.puts, []);
  });

  it("combine the writes of channels that are stored as writes", async () => {
    const { z } = await import("zod");
    const items = new DeltaValue(z.array(z.string()).default([]), {
      inputSchema: z.array(z.string()),
      reducer: (state, writes) => [...state, ...writes.flat()],
      snapshotFrequency: 3,
    });
    const graph = new StateGraph(new StateSchema({ items }))
      .addNode("a", () => ({ items: ["a"] }))
      .addNode("ask", () => ({ items: [String(interrupt("?"))] }))
      .addEdge(START, "a")
      .addEdge("a", "ask")
      .compile();
    const { state } = await createHost(graph).run({ ...bare, input: { items: ["1"] } });
    assert.deepEqual([state.next, state.values], [["ask"], { items: ["1", "a"] }]);
  });

  it("write checkpoints if the request sets a durability, and read those of an earlier attempt", async () => {
    const { run, thread } = createHost(createStepsGraph().compile());
    const { state } = await run({ ...bare, durability: "async", input: {} });
    assert.equal(state.checkpoint?.checkpoint_id, thread.checkpoints.puts.at(-1)?.checkpoint_id);
    const again = await run({ ...bare, resumed: true });
    assert.deepEqual(again.state.values, state.values);
  });
});
