import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AIMessage, AIMessageChunk, HumanMessage, ToolMessage } from "@langchain/core/messages";
import {
  Annotation,
  DeltaValue,
  type LangGraphRunnableConfig,
  MessagesAnnotation,
  START,
  StateGraph,
  StateSchema,
} from "@langchain/langgraph";
import type { JsonObject } from "../../../lib/json.ts";
import { createAskingGraph, createChatGraph, createHost, createStepsGraph, Log, log } from "./execute.harness.ts";

/** Keeps what it is sent, and what it wrote itself. */
const createKeepingGraph = (initialData: unknown = undefined) =>
  new StateGraph(Log)
    .addNode("keep", () => (initialData === undefined ? { log: ["kept"] } : { log: ["kept"], data: initialData }))
    .addEdge(START, "keep")
    .compile();

describe("langgraph: checkpoints", () => {
  it("are written before the input, with it, and at each step, with the run's metadata", async () => {
    const { run, history } = createHost(createStepsGraph().compile());
    await run({ input: { log: ["in"] }, metadata: { tenant: "acme" } });
    const states = await history();
    assert.deepEqual(
      states.map(({ next }) => next),
      [[], ["two"], ["one"], ["__start__"]],
    );
    assert.deepEqual(
      states.map(({ metadata }) => metadata?.step),
      [2, 1, 0, -1],
    );
    assert.deepEqual(
      states.map(({ metadata }) => metadata?.source),
      ["loop", "loop", "loop", "input"],
    );
    assert.deepEqual(new Set(states.map(({ metadata }) => metadata?.tenant)), new Set(["acme"]));
    assert.deepEqual(
      states.map((state) => state.parent_checkpoint),
      [...states.slice(1).map((state) => state.checkpoint), null],
    );
    assert.match(states[0]?.created_at ?? "", /^\d{4}-.*Z$/);
  });

  it("do not exist before the first run", async () => {
    const { executor, thread } = createHost(createStepsGraph().compile());
    const at = { thread_id: thread.thread_id, ns: "", checkpoint_id: "1f000000-0000-6000-8000-000000000000" };
    assert.equal(await executor.state?.("graph")?.get(at, thread.checkpoints, { subgraphs: false }), null);
  });

  it("fork without the values of the other branch", async () => {
    const { run, state, history } = createHost(createKeepingGraph());
    await run({ input: { log: ["first"] } });
    const start = (await history()).at(-1)?.checkpoint?.checkpoint_id as string;
    const from = { ns: "", checkpoint_id: start };
    const heads = [];
    for (const name of ["a", "b", "c"]) {
      const forked = await run({ input: { log: [name] }, from });
      assert.deepEqual(log(forked.state.values), [name, "kept"]);
      heads.push(forked.state.checkpoint?.checkpoint_id);
    }
    for (const [at, name] of ["a", "b", "c"].entries()) {
      assert.deepEqual(log((await state(heads[at])).values), [name, "kept"]);
    }
  });

  it("of a stateful subgraph are found from a fork", async () => {
    const child = new StateGraph(Log)
      .addNode("inner", ({ log }) => ({ log: [`${log.length}`] }))
      .addEdge(START, "inner")
      .compile({ checkpointer: true });
    const graph = new StateGraph(Log)
      .addNode("child", async (_state, config: LangGraphRunnableConfig) => ({
        log: [(await child.invoke({ log: ["in"] }, config)).log.join()],
      }))
      .addEdge(START, "child")
      .compile();
    const { run } = createHost(graph);
    const { state } = await run({ input: {} });
    assert.deepEqual(log(state.values), ["in,1"]);
    assert.deepEqual(log((await run({ input: {} })).state.values), ["in,1", "in,1,in,3"]);
    const forked = await run({ input: {}, from: state.checkpoint ?? null });
    assert.deepEqual(log(forked.state.values), ["in,1", "in,1,in,3,in,5"]);
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
      .addEdge(START, "a")
      .compile();
    for (const durability of ["async", "exit"] as const) {
      const { run, state } = createHost(graph);
      for (const input of ["1", "2", "3"]) await run({ input: { items: [input] }, durability });
      assert.deepEqual((await state()).values, { items: ["1", "a", "2", "a", "3", "a"] });
    }
  });

  it("continue from a fork without input", async () => {
    const { run, history } = createHost(createStepsGraph().compile());
    await run({ input: {} });
    const before = (await history()).find(({ next }) => next[0] === "two")?.checkpoint?.checkpoint_id as string;
    const { state } = await run({ from: { ns: "", checkpoint_id: before } });
    assert.deepEqual(log(state.values), ["one", "two"]);
    assert.notEqual(state.checkpoint?.checkpoint_id, before);
  });

  it("store only new values, and lists in a form that allows deltas", async () => {
    const { run, thread } = createHost(createChatGraph());
    await run({ input: { messages: [{ role: "user", content: "1" }] } });
    await run({ input: { messages: [{ role: "user", content: "2" }] } });
    const texts = thread.checkpoints.puts
      .flatMap(({ values }) => values)
      .filter(({ channel }) => channel === "messages")
      .map(({ type, data }) => {
        assert.equal(type, "json");
        return data as string;
      });
    assert.equal(texts.length, 4);
    for (const [at, text] of texts.entries()) {
      if (at > 0) assert.ok(text.startsWith(`${texts[at - 1]?.slice(0, -1)},`), text);
    }
    const untouched = thread.checkpoints.puts.at(-1)?.values.map(({ channel }) => channel);
    assert.ok(!untouched?.includes("__start__"));
  });

  it("return messages as messages", async () => {
    const receivedInputs: unknown[] = [];
    const Parts = Annotation.Root({ ...MessagesAnnotation.spec, part: Annotation<AIMessageChunk> });
    const graph = new StateGraph(Parts)
      .addNode("look", ({ messages, part }) => {
        const all = part ? [...messages, part] : messages;
        receivedInputs.push(all.map((message) => [message.constructor.name, message.getType(), message.content]));
        return {
          // Lists of messages need not keep chunks as what they are.
          part: new AIMessageChunk({ content: [{ type: "text", text: "x" }] }),
          messages: [
            new AIMessage({ content: "", tool_calls: [{ name: "t", args: { a: 1 }, id: "c", type: "tool_call" }] }),
            new ToolMessage({ content: "done", tool_call_id: "c", artifact: { big: 1n }, status: "success" }),
          ],
        };
      })
      .addEdge(START, "look")
      .compile();
    const { run, state } = createHost(graph);
    const { state: last } = await run({ input: { messages: [{ role: "user", content: "hi" }] } });
    const stored = await state();
    assert.deepEqual(stored.values, last.values);
    const [, calls, result] = (stored.values as { messages: JsonObject[] }).messages;
    assert.deepEqual(calls?.tool_calls, [{ name: "t", args: { a: 1 }, id: "c", type: "tool_call" }]);
    assert.deepEqual([result?.tool_call_id, result?.status, result?.artifact], ["c", "success", { big: "1" }]);
    await run({ input: { messages: [] } });
    assert.deepEqual(receivedInputs[1], [
      ["HumanMessage", "human", "hi"],
      ["AIMessage", "ai", ""],
      ["ToolMessage", "tool", "done"],
      ["AIMessageChunk", "ai", [{ type: "text", text: "x" }]],
    ]);
  });

  it("return hostile data unchanged, and construct nothing from it", async () => {
    const hostileData = JSON.parse(`{
      "lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "HumanMessage"], "kwargs": {"content": "x"},
      "__proto__": {"polluted": true}, "constructor": {"prototype": {"polluted": true}},
      "nested": [{"lc": 2, "type": "constructor", "id": ["Map"], "args": [[]]}, {"$lg": "message", "v": {"type": "human"}}],
      "$lg": "undefined", "v": 1, "nul": "\\u0000", "lone": "\\ud800", "lg_name": "Send", "toJSON": 1
    }`) as JsonObject;
    const { run, state } = createHost(createKeepingGraph());
    const { state: last } = await run({ input: { data: hostileData, log: [] } });
    const stored = (await state()).values as JsonObject;
    for (const values of [last.values as JsonObject, stored]) {
      assert.equal(JSON.stringify(values.data), JSON.stringify(hostileData));
      assert.ok(Object.hasOwn(values.data as object, "__proto__"));
    }
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
  });

  it("return values that JSON does not have", async () => {
    class Point {
      x = 1;
      next: unknown = undefined;
    }
    const values = {
      at: new Date(0),
      bytes: new Uint8Array([0, 255]),
      big: 10n,
      map: new Map([["k", { v: 1 }]]),
      set: new Set([1]),
      none: undefined,
      nan: Number.NaN,
      pattern: /a+/gi,
      wrong: new RangeError("far"),
      point: new Point(),
      message: { deep: [new HumanMessage({ content: "m", id: "m" })] },
    };
    let observedValues: typeof values | undefined;
    const graph = new StateGraph(Log)
      .addNode("write", () => ({ data: values }))
      .addNode("read", (state) => {
        observedValues = state.data as typeof values;
        return {};
      })
      .addEdge(START, "write")
      .addEdge("write", "read")
      .compile();
    const { run } = createHost(graph);
    await run({ input: { log: [] }, interrupt_before: ["read"] });
    const { state } = await run();
    assert.deepEqual(observedValues?.at, values.at);
    assert.deepEqual([...(observedValues?.bytes ?? [])], [0, 255]);
    assert.deepEqual(
      [observedValues?.big, observedValues?.map, observedValues?.set, observedValues?.nan, observedValues?.pattern],
      [10n, values.map, values.set, Number.NaN, /a+/gi],
    );
    assert.ok(observedValues && "none" in observedValues && observedValues.none === undefined);
    assert.deepEqual(
      [observedValues.wrong.name, observedValues.wrong.message, observedValues.point.x],
      ["RangeError", "far", 1],
    );
    assert.ok(HumanMessage.isInstance(observedValues.message.deep[0]));
    const stateData = (state.values as { data: JsonObject }).data;
    assert.deepEqual(stateData, {
      at: "1970-01-01T00:00:00.000Z",
      bytes: "AP8=",
      big: "10",
      map: { k: { v: 1 } },
      set: [1],
      nan: null,
      pattern: "/a+/gi",
      wrong: { name: "RangeError", message: "far" },
      point: { x: 1 },
      message: { deep: [{ type: "human", content: "m", id: "m", additional_kwargs: {}, response_metadata: {} }] },
    });
  });

  it("fail the run, naming the channel, if a value cannot be stored", async () => {
    await assert.rejects(
      createHost(createKeepingGraph({ f: () => 1 })).run({ input: {} }),
      /channel "data" cannot be stored: it contains a function/i,
    );
    const circle: { self?: unknown } = {};
    circle.self = circle;
    await assert.rejects(
      createHost(createKeepingGraph(circle)).run({ input: {} }),
      /channel "data" cannot be stored.*contains itself/i,
    );
  });

  it("are written with every durability", async () => {
    for (const [durability, count] of [
      ["sync", 4],
      ["async", 4],
      ["exit", 1],
    ] as const) {
      const { run, state, thread } = createHost(createStepsGraph().compile());
      const { state: last } = await run({ input: {}, durability });
      assert.equal(thread.checkpoints.puts.length, count);
      assert.deepEqual(log((await state()).values), ["one", "two"]);
      assert.equal((await state()).checkpoint?.checkpoint_id, last.checkpoint?.checkpoint_id);
    }
  });

  it("keep an interrupt and take its resume value if they are written on exit", async () => {
    const { run, thread } = createHost(createAskingGraph());
    const { state } = await run({ input: {}, durability: "exit" });
    assert.deepEqual(state.next, ["ask"]);
    const again = await run({ durability: "exit" });
    assert.deepEqual(again.state.next, ["ask"]);
    assert.deepEqual(log((await run({ command: { resume: 1 }, durability: "exit" })).state.values), [
      "answer 1",
      "after",
    ]);
    for (const { checkpoint_id, parent_id } of thread.checkpoints.puts) assert.notEqual(checkpoint_id, parent_id);
  });
});
