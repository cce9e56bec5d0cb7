/**
 * Checks the frames of a LangGraph graph beyond its values: the lifecycle of its subgraphs, whole messages, and the run that an event is
 * part of.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { dispatchCustomEvent } from "@langchain/core/callbacks/dispatch";
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import {
  Annotation,
  interrupt,
  type LangGraphRunnableConfig,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { systemEnvironment } from "../../../lib/environment.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import { testService } from "../../suite/kit.ts";
import { createJob, createThread, type JobChanges, run, type StreamEvent } from "./executor.harness.ts";

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (current, update) => [...current, ...update], default: () => [] }),
});
type Body = (state: typeof Log.State, config: LangGraphRunnableConfig) => unknown;

/** Creates a graph of one node. */
const child = (body: Body, options = {}) =>
  new StateGraph(Log)
    .addNode("inner", body as never)
    .addEdge(START, "inner")
    .compile(options);

/** Creates a graph whose nodes run in parallel. */
function createParallelGraph(...nodes: readonly (Body | ReturnType<typeof child>)[]) {
  const graph = new StateGraph(Log) as unknown as {
    addNode(name: string, body: unknown): void;
    addEdge(from: string, to: string): void;
    compile(): ReturnType<typeof child>;
  };
  for (const [at, node] of nodes.entries()) {
    graph.addNode(`n${at}`, node);
    graph.addEdge(START, `n${at}`);
  }
  return graph.compile();
}

const createSayingNode =
  (text: string): Body =>
  () => ({ log: [text] });
const createThrowingNode: Body = () => {
  throw new Error("boom");
};

type Graph = Parameters<typeof langgraph>[0][string];

/** A thread, and runs of a graph on it; what they show is kept also where they fail. */
function createHost(graph: Graph) {
  const executor = langgraph({ graph });
  const thread = createThread();
  return async (changes: JobChanges): Promise<{ frames: StreamEvent[]; error?: unknown }> => {
    const frames: StreamEvent[] = [];
    try {
      for await (const event of executor.execute(
        createJob(thread, "graph", changes),
        new AbortController().signal,
        systemEnvironment(),
      )) {
        if (event.type === "stream") frames.push(event);
      }
      return { frames };
    } catch (error) {
      return { frames, error };
    }
  };
}

/** Names of tasks in the order they are met: their ids are a matter of chance. */
function createNamer(): (namespace: readonly string[] | undefined) => string {
  const ids: string[] = [];
  return (namespace = []) =>
    namespace
      .join("|")
      .replace(/[0-9a-f-]{36}/g, (id) =>
        String.fromCharCode(65 + (ids.includes(id) ? ids.indexOf(id) : ids.push(id) - 1)),
      );
}

/** Returns the frames of mode `lifecycle` as text, after checking the rules that apply to all of them. */
function formatLifecycle(events: readonly StreamEvent[]): string[] {
  const name = createNamer();
  const frames = events.filter(({ mode }) => mode === "lifecycle");
  return frames.map(({ namespace, data }) => {
    const { event, namespace: named, ...eventData } = data as JsonObject;
    assert.deepEqual(named, namespace);
    const suffix = Object.keys(eventData).length > 0 ? ` ${JSON.stringify(eventData)}` : "";
    return `${name(namespace)} ${event}${suffix}`;
  });
}

const modes = ["lifecycle"] as const;

describe("langgraph: lifecycle frames", () => {
  it("have each subgraph's start and end, without other frames of subgraphs", async () => {
    const { frames } = await createHost(createParallelGraph(createParallelGraph(child(createSayingNode("deep")))))({
      input: {},
      modes,
    });
    assert.deepEqual(formatLifecycle(frames), [
      "n0:A started",
      "n0:A|n0:B started",
      "n0:A|n0:B completed",
      "n0:A completed",
    ]);
    assert.equal(frames.length, 4);
    const alone = formatLifecycle(frames);
    const { frames: mixed } = await createHost(
      createParallelGraph(createParallelGraph(child(createSayingNode("deep")))),
    )({
      input: {},
      modes: [...modes, "events"],
    });
    assert.deepEqual(formatLifecycle(mixed), alone);
    assert.deepEqual(
      formatLifecycle((await createHost(createParallelGraph(createSayingNode("flat")))({ input: {}, modes })).frames),
      [],
    );
  });

  for (const subgraphs of [false, true]) {
    it(`change no other frame, subgraphs ${subgraphs ? "shown" : "hidden"}`, async () => {
      const requestedModes = [
        "values",
        "updates",
        "messages-tuple",
        "tasks",
        "checkpoints",
        "debug",
        "custom",
        "tools",
      ] as const;
      const inner = child(async (_state, config) => {
        config.writer?.({ at: "inner" });
        const reply = await new FakeListChatModel({ responses: ["Hi"] }).invoke("x", config);
        return { log: [String(reply.content)] };
      });
      const graph = createParallelGraph(inner);
      const kinds = async (extraModes: JobChanges["modes"] = []): Promise<string[]> => {
        const name = createNamer();
        const { frames } = await createHost(graph)({ input: {}, modes: [...requestedModes, ...extraModes], subgraphs });
        return frames
          .filter(({ mode }) => mode !== "lifecycle")
          .map((event) => `${event.mode} ${name(event.namespace)}`);
      };
      const usual = await kinds();
      assert.ok(usual.some((kind) => kind.startsWith("custom")) && usual.some((kind) => kind.startsWith("messages-")));
      assert.deepEqual(await kinds(["lifecycle"]), usual);

      const events = async (extraModes: JobChanges["modes"] = []): Promise<Json[]> => {
        const { frames } = await createHost(graph)({
          input: {},
          modes: ["events", "values", ...extraModes],
          subgraphs,
        });
        const all = frames.filter(({ mode }) => mode === "events").map(({ data }) => data as JsonObject);
        return all
          .map(({ event, name }) => [event, name] as Json)
          .filter((kind) => (kind as Json[])[1] !== "__start__");
      };
      assert.deepEqual(await events(["lifecycle"]), await events());
    });
  }

  it("name the failed subgraphs, and the error of the run", async () => {
    const { frames, error } = await createHost(createParallelGraph(createParallelGraph(child(createThrowingNode))))({
      input: {},
      modes,
    });
    assert.equal((error as Error).message, "boom");
    const why = '{"error":"boom"}';
    assert.deepEqual(formatLifecycle(frames), [
      "n0:A started",
      "n0:A|n0:B started",
      `n0:A|n0:B failed ${why}`,
      `n0:A failed ${why}`,
    ]);

    const slow = Promise.withResolvers<void>();
    const createLateGraph: Body = async () => {
      await slow.promise;
      return { log: ["late"] };
    };
    const both = await createHost(createParallelGraph(child(createThrowingNode), child(createLateGraph)))({
      input: {},
      modes,
    });
    slow.resolve();
    // The other one is aborted, with a frame or without one.
    const [earlier, last] = [formatLifecycle(both.frames).slice(0, 3), formatLifecycle(both.frames).slice(3)];
    assert.deepEqual(earlier, ["n0:A started", "n1:B started", `n0:A failed ${why}`]);
    assert.deepEqual([last.length, last[0]?.startsWith("n1:B failed")], [1, true]);

    // LangGraph streams the end of the first, and drops that with the error.
    const then = new StateGraph(Log)
      .addNode("good", child(createSayingNode("x")))
      .addNode("bad", createThrowingNode as never)
      .addEdge(START, "good")
      .addEdge("good", "bad");
    for (const durability of ["sync", "async", "exit"] as const) {
      const { frames, error } = await createHost(then)({ input: {}, modes, durability });
      assert.equal((error as Error).message, "boom");
      assert.deepEqual(formatLifecycle(frames), ["good:A started", "good:A completed"]);
    }
  });

  it("name a failed subgraph whose error the run catches", async () => {
    const inside = createParallelGraph(child(createThrowingNode));
    const createCatchingNode: Body = async (_state, config) => {
      await assert.rejects(inside.invoke({ log: [] }, config as never), /boom/);
      return { log: ["caught"] };
    };
    const { frames, error } = await createHost(createParallelGraph(createCatchingNode))({ input: {}, modes });
    assert.equal(error, undefined);
    assert.deepEqual(formatLifecycle(frames), [
      "n0:A started",
      "n0:A|n0:B started",
      'n0:A|n0:B failed {"error":"boom"}',
      "n0:A completed",
    ]);
  });

  it("name the subgraphs that wait for a resume value, and start them again with it", async () => {
    const graph = createParallelGraph(
      child(() => ({ log: [interrupt("q")] })),
      child(createSayingNode("fine")),
    );
    const go = createHost(graph);
    assert.deepEqual(formatLifecycle((await go({ input: {}, modes })).frames).toSorted(), [
      "n0:A interrupted",
      "n0:A started",
      "n1:B completed",
      "n1:B started",
    ]);
    const answered = await go({ command: { resume: "a" }, modes });
    assert.deepEqual(formatLifecycle(answered.frames), ["n0:A started", "n0:A completed"]);
  });

  it("end as interrupted at a breakpoint inside", async () => {
    const go = createHost(createParallelGraph(child(createSayingNode("x"), { interruptBefore: ["inner"] })));
    const stopped = await go({ input: {}, modes: ["lifecycle", "values"] });
    assert.deepEqual(formatLifecycle(stopped.frames), ["n0:A started", "n0:A interrupted"]);
    assert.deepEqual(stopped.frames.filter(({ mode }) => mode === "values").at(-1)?.data, { __interrupt__: [] });
    assert.deepEqual(formatLifecycle((await go({ modes })).frames), ["n0:A started", "n0:A completed"]);
  });

  it("distinguish the graphs that one node calls, and name their tool calls", async () => {
    const inside = child(createSayingNode("x"));
    const twice: Body = async (_state, config) => {
      for (const _ of [1, 2]) await inside.invoke({ log: [] }, config as never);
      return {};
    };
    assert.deepEqual(formatLifecycle((await createHost(createParallelGraph(twice))({ input: {}, modes })).frames), [
      "n0:A started",
      "n0:A|1 started",
      "n0:A|1 completed",
      "n0:A completed",
    ]);

    const calls = new StateGraph(Log)
      .addNode("model", () => ({}))
      .addNode("tools", inside)
      .addEdge(START, "model")
      .addConditionalEdges("model", (state) => [
        new Send("tools", { ...state, lg_tool_call: { name: "ask", args: {}, id: "call-1", type: "tool_call" } }),
        new Send("tools", { ...state, lg_tool_call: "not a call" }),
      ]);
    const { frames } = await createHost(calls)({ input: {}, modes });
    const call = '{"tool_call_id":"call-1"}';
    assert.deepEqual(formatLifecycle(frames).toSorted(), [
      `tools:A completed ${call}`,
      `tools:A started ${call}`,
      "tools:B completed",
      "tools:B started",
    ]);
  });

  it("start a graph that keeps its state again each time", async () => {
    const Count = Annotation.Root({ left: Annotation<number> });
    const keeps = new StateGraph(Count)
      .addNode("inner", ({ left: current }) => ({ left: current - 1 }))
      .addEdge(START, "inner")
      .compile({ checkpointer: true });
    const loop = new StateGraph(Count)
      .addNode("keeps", keeps)
      .addEdge(START, "keeps")
      .addConditionalEdges("keeps", ({ left: current }) => (current > 0 ? "keeps" : "__end__"));
    assert.deepEqual(formatLifecycle((await createHost(loop)({ input: { left: 2 }, modes })).frames), [
      "keeps started",
      "keeps completed",
      "keeps started",
      "keeps completed",
    ]);
  });
});

describe("langgraph: whole messages", () => {
  const model = (name: string): ((state: { messages: BaseMessage[] }) => Promise<{ messages: BaseMessage[] }>) => {
    const saidModel = new FakeListChatModel({ responses: [name] });
    return async ({ messages }) => ({ messages: [await saidModel.invoke(messages)] });
  };

  /** Returns the frames of mode `messages` as a service emits them: kind and namespace, with the text of whole messages. */
  async function readFrames(graph: Graph, subgraphs = false): Promise<string[]> {
    await using at = await testService({ executor: langgraph({ graph }) });
    const { frames } = await at.service.runs.stream(null, {
      assistant_id: "graph",
      input: { messages: [{ role: "user", content: "hi" }] },
      stream_mode: "messages",
      stream_subgraphs: subgraphs,
    });
    const name = createNamer();
    const texts: string[] = [];
    for await (const { event, data } of frames) {
      const [kind = "", ...namespace] = event.split("|");
      const text =
        kind === "messages/complete" ? ` ${(JSON.parse(data as unknown as string) as JsonObject[])[0]?.content}` : "";
      const line = `${[kind, ...(namespace.length > 0 ? [name(namespace)] : [])].join("|")}${text}`;
      if (texts.at(-1) !== line) texts.push(line);
    }
    return texts;
  }

  it("are complete before the next one begins", async () => {
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("first", model("one"))
      .addNode("second", model("two"))
      .addEdge(START, "first")
      .addEdge("first", "second");
    assert.deepEqual(await readFrames(graph), [
      "metadata",
      "messages/metadata",
      "messages/partial",
      "messages/complete one",
      "messages/metadata",
      "messages/partial",
      "messages/complete two",
      "end",
    ]);
  });

  it("are complete in the graph that emits them", async () => {
    const inside = new StateGraph(MessagesAnnotation).addNode("model", model("in")).addEdge(START, "model").compile();
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("mid", inside)
      .addNode("last", model("out"))
      .addEdge(START, "mid")
      .addEdge("mid", "last");
    const outside = ["messages/metadata", "messages/partial", "messages/complete out", "end"];
    assert.deepEqual(await readFrames(graph, true), [
      "metadata",
      "messages/metadata|mid:A",
      "messages/partial|mid:A",
      "messages/complete|mid:A in",
      ...outside,
    ]);
    assert.deepEqual(await readFrames(graph), [
      "metadata",
      "messages/metadata",
      "messages/partial",
      "messages/complete in",
      ...outside,
    ]);
  });

  it("are complete if the next node fails", async () => {
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("model", model("kept"))
      .addNode("fails", () => {
        throw new Error("boom");
      })
      .addEdge(START, "model")
      .addEdge("model", "fails");
    assert.deepEqual(await readFrames(graph), [
      "metadata",
      "messages/metadata",
      "messages/partial",
      "messages/complete kept",
      "error",
      "end",
    ]);
  });

  it("are complete as soon as their node is done, while another is active, in any channel", async () => {
    const State = Annotation.Root({ ...MessagesAnnotation.spec, note: Annotation<AIMessage> });
    const noted = Promise.withResolvers<void>();
    const asideModel = new FakeListChatModel({ responses: ["aside"] });
    const graph = new StateGraph(State)
      .addNode("quick", async (_state, config) => ({ note: (await asideModel.invoke("x", config)) as AIMessage }))
      .addNode("slow", async () => {
        await Promise.race([noted.promise, new Promise<void>((resolve) => setTimeout(resolve, 2000))]);
        return { messages: [new AIMessage("slow")] };
      })
      .addEdge(START, "quick")
      .addEdge(START, "slow");
    const frames: string[] = [];
    const job = createJob(createThread(), "graph", { input: { messages: [] }, modes: ["messages-tuple"] });
    for await (const event of langgraph({ graph }).execute(job, new AbortController().signal, systemEnvironment())) {
      if (event.type !== "stream") continue;
      frames.push(event.mode);
      if (event.mode === "messages") {
        assert.equal((event.data as JsonObject[])[0]?.content, "aside");
        noted.resolve();
      }
    }
    assert.deepEqual([...new Set(frames)], ["messages-tuple", "messages"]);
    assert.equal(frames.at(-1), "messages-tuple");
  });
});

describe("langgraph: frames of mode events", () => {
  it("name their parent runs, outermost first", async () => {
    const inside = child(async (_state, config) => {
      await dispatchCustomEvent("note", { at: 1 }, config);
      const reply = await new FakeListChatModel({ responses: ["Hi"] }).invoke("x", config);
      return { log: [String(reply.content)] };
    });
    const job = createJob(createThread(), "graph", { input: {}, modes: ["events"] });
    const { events } = await run(langgraph({ graph: createParallelGraph(inside) }), job);
    const all = events.map(({ data }) => data as JsonObject & { event: string; run_id: string; parent_ids: string[] });
    const started = new Map(
      all.filter(({ event }) => event.endsWith("_start")).map((started) => [started.run_id, started.name]),
    );
    assert.ok(all.every(({ parent_ids }) => Array.isArray(parent_ids)));
    for (const { event, run_id, parent_ids } of all) {
      assert.deepEqual(parent_ids.slice(0, 1), run_id === job.run_id ? [] : [job.run_id], event);
      assert.ok(!parent_ids.includes(run_id));
    }
    const chains = (kind: string): string[] =>
      all
        .filter(({ event }) => event === kind)
        .map(({ parent_ids }) => parent_ids.map((id) => started.get(id)).join(" > "));
    const model = ["LangGraph > n0 > LangGraph > inner"];
    assert.deepEqual(chains("on_chat_model_start"), model);
    assert.deepEqual(chains("on_chat_model_end"), model);
    assert.deepEqual([...new Set(chains("on_chat_model_stream"))], model);
    assert.equal(chains("on_custom_event").length, 1);
    assert.deepEqual(chains("on_chain_end").at(-1), "");
  });
});
