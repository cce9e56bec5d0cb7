/** Checks the undocumented members of LangGraph that the adapter uses: the installed version has them, and another version need not. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { AIMessage } from "@langchain/core/messages";
import { entrypoint, MessagesAnnotation, START, StateGraph, StreamChannel, task } from "@langchain/langgraph";
import { uuid6 } from "@langchain/langgraph-checkpoint";
import type { Graph, Node, Runnable } from "../../../adapters/langgraph/graph.ts";
import {
  findCommandEdge,
  findInheritedConfig,
  isMessagesHandler,
  isPassthrough,
  isStreamChannel,
  readDefinitions,
  withCommandsOnly,
  withDirectCalls,
  withEdgeConfig,
  withoutStoreQueue,
  withTasks,
  withValidInput,
} from "../../../adapters/langgraph/langgraph-internals.ts";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { testService } from "../../suite/kit.ts";
import { createJob, createThread, run } from "./executor.harness.ts";

type Members = Readonly<Record<string, unknown>>;
type Config = { readonly configurable?: Members; readonly store?: unknown; readonly signal?: AbortSignal };
type Work = (state: Members, config: Config) => unknown;

const graph = new StateGraph(MessagesAnnotation)
  .addNode("work", () => ({ messages: [new AIMessage({ id: "reply", content: "done" })] }))
  .addNode("end", () => ({}))
  .addEdge(START, "work")
  .addConditionalEdges("work", () => "end", ["end"])
  .compile() as unknown as Graph & { readonly nodes: Readonly<Record<string, Node & { getWriters(): Runnable[] }>> };
const { work } = graph.nodes as { work: Node & { getWriters(): Runnable[]; getNode(): Runnable } };

/** LangGraph's saver as the other version uses it. */
interface Saver {
  getTuple(config: Config): Promise<{ readonly checkpoint: { readonly channel_values: Members } } | undefined>;
  put(config: Config, checkpoint: object, metadata: object, versions: object): Promise<Config>;
}

/** Creates a graph as of another version of LangGraph, which has documented members only. It runs one node after the other. */
function createOtherVersion(nodes: Readonly<Record<string, Work>>): never {
  const otherGraph = {
    lg_is_pregel: true,
    channels: {},
    nodes: Object.fromEntries(
      Object.entries(nodes).map(([name, invoke]) => [
        name,
        { bound: { invoke: async (state: Members, config: Config) => await invoke(state, config) }, writers: [] },
      ]),
    ),
    async *stream(
      this: { nodes: Record<string, { bound: { invoke: Work } }>; checkpointer: Saver },
      input: Members,
      options: Config,
    ) {
      let state = input;
      let at: Config = { configurable: { thread_id: options.configurable?.thread_id, checkpoint_ns: "" } };
      for (const [step, [name, { bound }]] of Object.entries(this.nodes).entries()) {
        state = { ...state, ...((await bound.invoke(state, { ...options, ...{ runName: name } })) as Members) };
        const versions = Object.fromEntries(Object.keys(state).map((channel) => [channel, step + 1]));
        const checkpoint = { v: 4, id: uuid6(step), ts: new Date().toISOString(), channel_values: state };
        const metadata = { source: "loop", step, parents: {} };
        at = await this.checkpointer.put(
          at,
          { ...checkpoint, channel_versions: versions, versions_seen: {} },
          metadata,
          versions,
        );
        yield ["values", state];
      }
    },
    async getState(this: { checkpointer: Saver }, config: Config) {
      const tuple = await this.checkpointer.getTuple(config);
      return { values: tuple?.checkpoint.channel_values ?? {}, next: [], tasks: [], config };
    },
  };
  return otherGraph as never;
}

describe("langgraph-internals.ts", () => {
  it("names the versions of LangGraph that the package supports and tests", () => {
    const root = join(import.meta.dirname, "../../..");
    const { peerDependencies, devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const text = readFileSync(join(root, "adapters/langgraph/langgraph-internals.ts"), "utf8");
    const [, lowest, newest] = /LangGraph (\S+) to (\S+) have/.exec(text) ?? [];
    const name = "@langchain/langgraph";
    assert.deepEqual([`^${lowest}`, newest], [peerDependencies[name], devDependencies[name]]);
  });
});

describe("the installed LangGraph", () => {
  it("has the members of a compiled graph that langgraph-internals.ts uses", async () => {
    const direct = withDirectCalls(work) as typeof work;
    assert.notEqual(direct, work, "getWriters and getNode of a node");
    assert.notEqual(direct.getNode(), work.getNode(), "steps of a sequence");
    const [writer] = work.getWriters() as (Runnable & { writes: { mapper?: { func: unknown; trace: unknown } }[] })[];
    assert.notEqual(direct.getWriters()[0]?.invoke, writer?.invoke, "writes and _write of a writer");
    const { mapper } = writer?.writes.find((write) => write.mapper) ?? {};
    assert.deepEqual([typeof mapper?.func, mapper?.trace], ["function", false], "func and trace of a mapper");
    const edges = work.writers.filter((edge) => withEdgeConfig(edge, () => {}) !== edge);
    assert.equal(edges.length, 2, "the name of conditional edges, and of the edge that follows commands");
    assert.equal(findCommandEdge(graph, "work"), edges[0], "branches of a builder");
    const { _defaults } = graph as unknown as { _defaults(config: object): unknown };
    assert.ok(Array.isArray(_defaults.call(graph, {})), "a list of _defaults");
    assert.ok("_defaults" in withoutStoreQueue(graph));
    const valid: string[] = [];
    const input = {};
    const validating = withValidInput(graph, input, () => valid.push("valid")) as unknown as {
      _validateInput(input: object): Promise<unknown>;
    };
    assert.deepEqual(valid, [], "_validateInput");
    const { state, registry } = readDefinitions(graph);
    assert.deepEqual(Object.keys(state.channels ?? {}), ["messages"], "_schemaDefinition of a builder");
    assert.notEqual(registry, undefined, "_metaRegistry of a builder");
    await validating._validateInput(input);
    assert.deepEqual(valid, ["valid"]);
    assert.ok(isPassthrough((graph.nodes.__start__ as Node).bound), "lc_name of a node without work");
    assert.ok(isStreamChannel(StreamChannel.local()), "_wire, _close and _fail of a stream channel");
  });

  it("has the members of a config that langgraph-internals.ts uses", async () => {
    const noted: Record<string, unknown> = {};
    const echo = task("echo", async (text: string) => {
      noted.inherited = findInheritedConfig();
      return text;
    });
    const flow = entrypoint("flow", async (text: string, config: Config) => {
      const wrapped = withTasks(config, (inner) => inner);
      noted.tasks = wrapped !== config;
      return await echo(text);
    });
    await flow.invoke("hello");
    assert.equal(noted.tasks, true, "__pregel_call");
    assert.equal(typeof noted.inherited, "object", "lc:child_config");
    const handlers: unknown[] = [];
    const model = new StateGraph(MessagesAnnotation)
      .addNode("listen", (_state, config) => {
        handlers.push(...((config as { callbacks?: { handlers?: object[] } }).callbacks?.handlers ?? []));
        return {};
      })
      .addEdge(START, "listen")
      .compile();
    for await (const _ of await model.stream({ messages: [] }, { streamMode: "messages" }));
    assert.ok((handlers as object[]).some(isMessagesHandler), "the name of the handler of mode messages");
  });
});

describe("the edge that follows commands", () => {
  it("runs for commands and lists, and not for a plain state", async () => {
    const edge = withCommandsOnly({ invoke: async () => "followed" });
    const results = await Promise.all(
      [{}, null, undefined, [], { lg_name: "Command" }, new Map()].map((value) => edge.invoke(value)),
    );
    assert.deepEqual(results, [{}, null, undefined, "followed", "followed", "followed"]);
  });
});

describe("a LangGraph without its undocumented members", () => {
  it("runs a graph, whose nodes have the store of the service and whose messages are counted", async () => {
    const usage_metadata = { input_tokens: 5, output_tokens: 7, total_tokens: 12 };
    const agent = createOtherVersion({
      first: async (_state, { store }) => {
        const items = store as { put(ns: string[], key: string, value: object): Promise<void> };
        await items.put(["notes"], "one", { text: "kept" });
        return { messages: [new AIMessage({ id: "a", content: "counted", usage_metadata })] };
      },
      second: ({ messages }) => ({ count: (messages as unknown[]).length }),
    });
    await using kit = await testService({ executor: langgraph({ agent }) });
    const { runs, threads, store, usage } = kit.service;
    const { thread_id } = await threads.create();
    const { run: created, result } = await runs.wait(thread_id, { assistant_id: "agent", input: { messages: [] } });
    assert.equal(((await result) as { count?: number }).count, 1);
    assert.deepEqual((await store.get(["notes"], "one"))?.value, { text: "kept" });
    const { tokens_in, tokens_out } = (await usage.traceUsage(created.run_id)) ?? assert.fail();
    assert.deepEqual([tokens_in, tokens_out], [5, 7]);
  });

  it("starts no node after a stop, and ends after the node that ignores it", async () => {
    const calls: string[] = [];
    const abort = new AbortController();
    const graph = createOtherVersion({
      deaf: async () => {
        abort.abort("cancelled");
        await new Promise<void>((resolve) => setTimeout(resolve, 20));
        calls.push("deaf");
        return {};
      },
      next: () => calls.push("next"),
    });
    await assert.rejects(run(langgraph({ graph }), createJob(createThread(), "graph", { input: {} }), abort.signal));
    assert.deepEqual(calls, ["deaf"]);
  });

  it("keeps its nodes, writers, edges, settings, tasks and handlers", async () => {
    const node = { bound: work.bound, writers: work.writers } as Node;
    assert.equal(withDirectCalls(node), node);
    const invoke = async (): Promise<string> => "its own";
    const writer = { name: "ChannelWrite<messages>", invoke };
    const direct = withDirectCalls({
      ...node,
      getWriters: () => [writer],
      getNode: () => writer,
    } as Node) as typeof work;
    assert.deepEqual([direct.getWriters()[0], direct.getNode()], [writer, writer]);
    const edge = { name: "<edge>", invoke };
    assert.equal(
      withEdgeConfig(edge, () => assert.fail()),
      edge,
    );
    const branch = { name: "<branch_run>", invoke, trace: true, func: () => assert.fail() };
    assert.equal(await withEdgeConfig(branch, () => {}).invoke({}), "its own");
    const nodes = { work: { ...node, writers: [branch, branch] } };
    assert.equal(findCommandEdge({ nodes } as unknown as Graph, "work"), undefined);
    assert.deepEqual(withoutStoreQueue({} as Graph), {});
    const settings = new Set(["settings"]);
    const { _defaults } = withoutStoreQueue({ _defaults: () => settings } as never) as { _defaults(): unknown };
    assert.equal(_defaults(), settings);
    const config = { configurable: { thread_id: "thread" } };
    assert.equal(
      withTasks(config, () => assert.fail()),
      config,
    );
    assert.equal(findInheritedConfig(), undefined);
    assert.equal(isMessagesHandler({}), false);
    assert.equal(isPassthrough({}), false);
    assert.equal(isStreamChannel({ [Symbol.for("langgraph.stream_channel")]: true }), false);
  });

  it("has no known schemas", async () => {
    const states = langgraph({ agent: createOtherVersion({}) }).state?.("agent") ?? assert.fail();
    const { input_schema, output_schema, state_schema, context_schema } =
      (await states.schemas?.("agent")) ?? assert.fail();
    assert.deepEqual([input_schema, output_schema, state_schema, context_schema], [null, null, null, null]);
  });

  it("receives the packets of a command with its input", () => {
    const valid: string[] = [];
    const otherGraph = {} as Graph;
    assert.equal(
      withValidInput(otherGraph, {}, () => valid.push("at once")),
      otherGraph,
    );
    assert.deepEqual(valid, ["at once"]);
  });
});
