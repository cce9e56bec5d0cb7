import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AIMessage } from "@langchain/core/messages";
import { END, type LangGraphRunnableConfig, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { systemEnvironment } from "../../../lib/environment.ts";
import { LeaseLost } from "../../../lib/errors.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { createChatGraph, createHost, createStepsGraph, getEventData, Log, log } from "./execute.harness.ts";
import { createJob, run } from "./executor.harness.ts";

describe("langgraph: streams", () => {
  it("end with the final state, and the checkpoint that has it", async () => {
    const { run, state } = createHost(createStepsGraph().compile());
    const { events, state: last } = await run({ input: { log: ["in"] } });
    assert.deepEqual(events, []);
    assert.deepEqual(last.values, { log: ["in", "one", "two"] });
    assert.deepEqual([last.next, last.tasks], [[], []]);
    const stored = await state();
    assert.deepEqual(stored.values, last.values);
    assert.equal(stored.checkpoint?.checkpoint_id, last.checkpoint?.checkpoint_id);
  });

  it("have values and updates of each step", async () => {
    const { events } = await createHost(createStepsGraph().compile()).run({
      input: { log: ["in"] },
      modes: ["values", "updates"],
    });
    assert.deepEqual(getEventData(events, "values").map(log), [["in"], ["in", "one"], ["in", "one", "two"]]);
    assert.deepEqual(getEventData(events, "updates"), [{ one: { log: ["one"] } }, { two: { log: ["two"] } }]);
  });

  it("have tasks, checkpoints, debug and custom events", async () => {
    const graph = new StateGraph(Log)
      .addNode("one", (_state, config: LangGraphRunnableConfig) => {
        config.writer?.({ progress: 1 });
        return { log: ["one"] };
      })
      .addEdge(START, "one")
      .compile();
    const { events } = await createHost(graph).run({ input: {}, modes: ["tasks", "checkpoints", "debug", "custom"] });
    const [started, finished] = getEventData(events, "tasks") as JsonObject[];
    assert.equal(started?.name, "one");
    assert.deepEqual(started?.input, { log: [] });
    assert.deepEqual([finished?.id, finished?.result], [started?.id, { log: ["one"] }]);
    const checkpoints = getEventData(events, "checkpoints") as JsonObject[];
    assert.deepEqual(
      checkpoints.map(({ next }) => next),
      [["__start__"], ["one"], []],
    );
    const [first, second] = checkpoints as [JsonObject, JsonObject];
    assert.deepEqual(second.parent_checkpoint, first.checkpoint);
    assert.equal((first.metadata as JsonObject).source, "input");
    assert.deepEqual(
      getEventData(events, "debug").map((debugEvent) => (debugEvent as JsonObject).type),
      ["checkpoint", "checkpoint", "task", "task_result", "checkpoint"],
    );
    assert.deepEqual(getEventData(events, "custom"), [{ progress: 1 }]);
    assert.ok(!JSON.stringify(events).includes("__pregel_checkpointer"));
  });

  it("contain no secrets, and neither does the storage", async () => {
    const { run, thread } = createHost(createStepsGraph().compile());
    const { events } = await run({
      input: {},
      modes: ["tasks", "checkpoints", "debug", "events"],
      config: { configurable: { langgraph_auth_user: { token: "s3cret" }, langgraph_auth_user_id: "s3cret" } },
    });
    assert.ok(events.length > 0);
    assert.ok(!JSON.stringify(events).includes("s3cret"));
    assert.ok(!JSON.stringify(thread.checkpoints.puts).includes("s3cret"));
  });

  it("accept messages with role or type, and keep their ids", async () => {
    const { run } = createHost(createChatGraph());
    const { state } = await run({
      input: {
        messages: [
          { role: "user", content: "a", id: "A" },
          { type: "human", content: "b", id: "B" },
        ],
      },
    });
    const messages = (state.values as { messages: JsonObject[] }).messages;
    assert.deepEqual(messages.map(({ type, content, id }) => [type, content, id]).slice(0, 2), [
      ["human", "a", "A"],
      ["human", "b", "B"],
    ]);
    assert.equal(messages.length, 3);
    assert.deepEqual([messages[2]?.type, messages[2]?.content], ["ai", "Hello"]);
  });

  it("have tokens under the id that the message has in the state", async () => {
    const { run } = createHost(createChatGraph());
    const { events, state } = await run({
      input: { messages: [{ role: "user", content: "hi" }] },
      modes: ["messages-tuple"],
    });
    const chunks = getEventData(events, "messages-tuple") as [JsonObject, JsonObject][];
    const answer = (state.values as { messages: JsonObject[] }).messages[1];
    assert.equal(chunks.map(([chunk]) => chunk.content).join(""), "Hello");
    assert.deepEqual(new Set(chunks.map(([chunk]) => chunk.type)), new Set(["AIMessageChunk"]));
    assert.deepEqual(new Set(chunks.map(([chunk]) => chunk.id)), new Set([answer?.id]));
    const metadata = chunks[0]?.[1];
    assert.equal(metadata?.langgraph_node, "agent");
    for (const name of [
      "langgraph_step",
      "langgraph_checkpoint_ns",
      "run_id",
      "thread_id",
      "graph_id",
      "assistant_id",
    ]) {
      assert.ok(metadata?.[name] !== undefined, name);
    }
  });

  it("have all messages that one node returns without ids, also with mode messages", async () => {
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("two", () => ({ messages: [new AIMessage("a"), new AIMessage("b")] }))
      .addEdge(START, "two")
      .compile();
    const { events, state } = await createHost(graph).run({ input: { messages: [] }, modes: ["messages-tuple"] });
    const emittedMessages = getEventData(events, "messages-tuple").map((tuple) => (tuple as JsonObject[])[0]);
    const storedMessages = (state.values as { messages: JsonObject[] }).messages;
    assert.deepEqual(
      storedMessages.map(({ content }) => content),
      ["a", "b"],
    );
    assert.deepEqual(emittedMessages, storedMessages);
  });

  it("run the graph once if events and other modes are requested together", async () => {
    let calls = 0;
    const graph = new StateGraph(Log)
      .addNode("count", () => {
        calls++;
        return { log: ["counted"] };
      })
      .addEdge(START, "count")
      .compile();
    const { events, state } = await createHost(graph).run({
      input: { log: ["in"] },
      modes: ["events", "values", "updates"],
    });
    assert.equal(calls, 1);
    assert.deepEqual(getEventData(events, "values").map(log), [["in"], ["in", "counted"]]);
    assert.deepEqual(getEventData(events, "updates"), [{ count: { log: ["counted"] } }]);
    const kinds = getEventData(events, "events").map((event) => [
      (event as JsonObject).event,
      (event as JsonObject).name,
    ]);
    assert.deepEqual(kinds[0], ["on_chain_start", "LangGraph"]);
    assert.deepEqual(kinds.at(-1), ["on_chain_end", "LangGraph"]);
    assert.ok(kinds.some(([event, name]) => event === "on_chain_end" && name === "count"));
    assert.deepEqual(log(state.values), ["in", "counted"]);
  });

  it("name the namespace of subgraphs if requested", async () => {
    const child = new StateGraph(Log)
      .addNode("inner", () => ({ log: ["inner"] }))
      .addEdge(START, "inner")
      .compile();
    const graph = new StateGraph(Log).addNode("child", child).addEdge(START, "child").compile();
    const result = await createHost(graph).run({ input: {}, modes: ["updates"], subgraphs: true });
    const [inner, outer] = result.events;
    assert.equal(result.events.length, 2);
    assert.match(inner?.namespace?.join("|") ?? "", /^child:[0-9a-f-]{36}$/);
    assert.deepEqual(inner?.data, { inner: { log: ["inner"] } });
    assert.deepEqual(outer?.namespace, []);
    const hidden = await createHost(graph).run({ input: {}, modes: ["updates"] });
    assert.deepEqual(
      hidden.events.map(({ data }) => Object.keys(data as object)),
      [["child"]],
    );
  });

  it("name the graph, not the task, as the namespace of messages", async () => {
    const { events } = await createHost(
      new StateGraph(MessagesAnnotation).addNode("child", createChatGraph()).addEdge(START, "child"),
    ).run({
      input: { messages: [{ role: "user", content: "hi" }] },
      modes: ["messages-tuple"],
      subgraphs: true,
    });
    const chunks = events.filter(({ mode }) => mode === "messages-tuple");
    assert.ok(chunks.length > 0);
    for (const { namespace } of chunks) assert.match(namespace?.join("|") ?? "", /^child:[^|]+$/);
  });
});

describe("langgraph: the end of a run", () => {
  it("is the error of a node", async () => {
    class Odd extends Error {
      override name = "Odd";
    }
    const graph = new StateGraph(Log)
      .addNode("one", () => ({ log: ["one"] }))
      .addNode("bad", () => {
        throw new Odd("boom");
      })
      .addEdge(START, "one")
      .addEdge("one", "bad")
      .compile();
    const { run, state } = createHost(graph);
    await assert.rejects(run({ input: {} }), (error) => error instanceof Odd && error.message === "boom");
    const stored = await state();
    assert.deepEqual(log(stored.values), ["one"]);
    assert.deepEqual([stored.tasks[0]?.name, stored.tasks[0]?.error], ["bad", "boom"]);
  });

  it("is an error at the recursion limit", async () => {
    const graph = new StateGraph(Log)
      .addNode("loop", () => ({ log: ["x"] }))
      .addEdge(START, "loop")
      .addEdge("loop", "loop")
      .compile();
    const { run, state } = createHost(graph);
    await assert.rejects(run({ input: {}, config: { recursion_limit: 3, configurable: {} } }), {
      name: "GraphRecursionError",
    });
    assert.deepEqual(log((await state()).values), ["x", "x", "x"]);
  });

  it("comes when no reader is left", async () => {
    const calls: string[] = [];
    const graph = new StateGraph(Log)
      .addNode("one", () => ({ log: ["one"] }))
      .addNode("slow", (_state, config: LangGraphRunnableConfig) => {
        calls.push("slow");
        return new Promise<never>((_resolve, reject) => {
          config.signal?.addEventListener("abort", () => reject(new Error("stopped")));
        });
      })
      .addEdge(START, "one")
      .addEdge("one", "slow")
      .compile();
    const { executor, thread } = createHost(graph);
    for await (const event of executor.execute(
      createJob(thread, "graph", { input: {}, modes: ["updates"] }),
      new AbortController().signal,
      systemEnvironment(),
    )) {
      assert.equal(event.type, "stream");
      break;
    }
    assert.ok(calls.length <= 1);
  });

  for (const durability of ["async", "sync", "exit"] as const) {
    it(`is the original error of a lost lease (${durability})`, async () => {
      const graph = new StateGraph(Log)
        .addNode("lose", () => {
          thread.checkpoints.fails = lost;
          return { log: ["x"] };
        })
        .addNode("hang", (_state, config: LangGraphRunnableConfig) => {
          return new Promise((resolve) => config.signal?.addEventListener("abort", () => resolve({})));
        })
        .addEdge(START, "lose")
        .addConditionalEdges("lose", () => (durability === "exit" ? END : "hang"))
        .compile();
      const { executor, thread } = createHost(graph);
      const lost = new LeaseLost("run");
      await assert.rejects(
        run(executor, createJob(thread, "graph", { input: {}, durability })),
        (error) => error === lost,
      );
    });
  }
});
