import assert from "node:assert/strict";
import { cp, mkdir, mkdtemp, readdir, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { HumanMessage } from "@langchain/core/messages";
import { END, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { systemEnvironment } from "../../../lib/environment.ts";
import type { GraphState } from "../../../lib/executor/contract.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { createHost, createStepsGraph, Log, log } from "./execute.harness.ts";
import { createJob, createThread, run } from "./executor.harness.ts";

const MODULES: Readonly<Record<string, string>> = {
  "@langchain/langgraph": "langgraph/dist/index.js",
  "@langchain/core/messages": "core/dist/messages/index.js",
  "@langchain/core/callbacks/manager": "core/dist/callbacks/manager.js",
};

/** The packages as another program's installation would have them. */
async function copyOfLangGraph(): Promise<AsyncDisposable & { load<Module>(specifier: string): Promise<Module> }> {
  const installed = join(import.meta.dirname, "../../../node_modules");
  const folder = await mkdtemp(join(tmpdir(), "greenroom-langgraph-"));
  const packages = join(folder, "node_modules");
  await mkdir(packages);
  for (const name of await readdir(installed)) {
    if (!name.startsWith(".") && name !== "@langchain") await symlink(join(installed, name), join(packages, name));
  }
  for (const name of ["core", "langgraph", "langgraph-checkpoint", "langgraph-sdk", "protocol"]) {
    const filter = (path: string): boolean => !/\.(map|cjs|cts)$/.test(path);
    await cp(join(installed, "@langchain", name), join(packages, "@langchain", name), { recursive: true, filter });
  }
  return {
    load: (specifier) => import(pathToFileURL(join(packages, "@langchain", MODULES[specifier] as string)).href),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}

describe("langgraph: graphs", () => {
  it("are not changed, and serve two executors at once", async () => {
    const graph = createStepsGraph().compile();
    const before = new Map(Object.entries(graph));
    const hosts = [createHost(graph), createHost(graph)];
    const ended = await Promise.all(
      hosts.map((each, at) => each.run({ input: { log: [`${at}`] }, modes: ["values"] })),
    );
    assert.deepEqual(
      ended.map(({ state }) => log(state.values)),
      [
        ["0", "one", "two"],
        ["1", "one", "two"],
      ],
    );
    assert.deepEqual(new Map(Object.entries(graph)), before);
    assert.equal(graph.checkpointer, undefined);
  });

  it("are accepted as builders, factories and entries", async () => {
    const configs: unknown[] = [];
    const executor = langgraph({
      builder: createStepsGraph(),
      factory: async (config) => {
        configs.push(config.configurable.model);
        return createStepsGraph().compile();
      },
      entry: { graph: createStepsGraph(), description: "two steps", max_attempts: 7, timeout_ms: 9, abandon_ms: 5 },
      agent: { graph: createStepsGraph().compile() },
    });
    assert.deepEqual(executor.graphs(), [
      { graph_id: "builder", resumes_on_retry: true, protocol_events: true },
      { graph_id: "factory", resumes_on_retry: true, protocol_events: true },
      {
        graph_id: "entry",
        resumes_on_retry: true,
        protocol_events: true,
        description: "two steps",
        max_attempts: 7,
        timeout_ms: 9,
        abandon_ms: 5,
      },
      { graph_id: "agent", resumes_on_retry: true, protocol_events: true },
    ]);
    for (const { graph_id } of executor.graphs()) {
      const job = createJob(createThread(), graph_id, { input: {}, config: { configurable: { model: "m" } } });
      assert.deepEqual(log((await run(executor, job)).state.values), ["one", "two"]);
    }
    assert.deepEqual(configs, ["m"]);
  });

  it("are rejected at once if they are no graphs", () => {
    assert.throws(() => langgraph({ wrong: { nodes: [] } as never }), /Graph wrong is neither/);
  });

  it("receive context, configuration and ids", async () => {
    let receivedConfig: LangGraphRunnableConfig | undefined;
    const graph = new StateGraph(Log)
      .addNode("look", (_state, config: LangGraphRunnableConfig) => {
        receivedConfig = config;
        return { log: [] };
      })
      .addEdge(START, "look")
      .compile();
    const { executor, thread } = createHost(graph);
    const job = createJob(thread, "graph", {
      input: {},
      context: { tone: "kind" },
      config: { configurable: { model: "m", checkpoint_id: "forged", __pregel_resuming: true }, tags: ["t"] },
    });
    await run(executor, job);
    assert.deepEqual(receivedConfig?.context, { tone: "kind" });
    const { model, thread_id, run_id, graph_id, assistant_id } = receivedConfig?.configurable ?? {};
    assert.deepEqual(
      { model, thread_id, run_id, graph_id, assistant_id },
      {
        model: "m",
        thread_id: thread.thread_id,
        run_id: job.run_id,
        graph_id: "graph",
        assistant_id: job.assistant_id,
      },
    );
    assert.ok(receivedConfig?.tags?.includes("t"));
    assert.equal(receivedConfig?.metadata?.run_id, job.run_id);
  });

  it("are drawn, with subgraphs if requested", async () => {
    const graph = new StateGraph(Log)
      .addNode("child", createStepsGraph().compile())
      .addEdge(START, "child")
      .addEdge("child", END)
      .compile();
    const state = createHost(graph).executor.state?.("graph") as GraphState;
    const drawn = await state.graph("graph", false);
    assert.deepEqual(
      drawn.nodes.map(({ id }) => id),
      ["__start__", "child", "__end__"],
    );
    assert.deepEqual(
      drawn.edges.map(({ source, target }) => [source, target]),
      [
        ["__start__", "child"],
        ["child", "__end__"],
      ],
    );
    const deep = await state.graph("graph", true);
    assert.ok(deep.nodes.some(({ id }) => id === "child:one"));
    assert.deepEqual(Object.keys(await state.subgraphs("graph", null, true)), ["child"]);
  });

  it("have a state schema if they declare one", async () => {
    const { z } = await import("zod");
    const graph = new StateGraph({ state: z.object({ count: z.number() }), context: z.object({ tone: z.string() }) })
      .addNode("one", () => ({}))
      .addEdge(START, "one")
      .compile();
    const states = createHost(graph).executor.state?.("graph") as GraphState;
    const { state_schema, input_schema, context_schema } = await states.schemas("graph");
    assert.deepEqual(Object.keys(state_schema?.properties as object), ["count"]);
    assert.deepEqual(Object.keys(input_schema?.properties as object), ["count"]);
    assert.deepEqual(Object.keys(context_schema?.properties as object), ["tone"]);
  });

  it("may come from another copy of LangGraph", async () => {
    await using copy = await copyOfLangGraph();
    const { Annotation, StateGraph } = await copy.load<typeof import("@langchain/langgraph")>("@langchain/langgraph");
    const { HumanMessage: CopiedMessage } =
      await copy.load<typeof import("@langchain/core/messages")>("@langchain/core/messages");
    assert.notEqual(CopiedMessage, HumanMessage);
    const observedNotes: unknown[] = [];
    const Shared = Annotation.Root({ kept: Annotation<unknown>, told: Annotation<unknown> });
    const graph = new StateGraph(Shared)
      .addNode("look", ({ kept }) => {
        observedNotes.push((kept as object | undefined)?.constructor);
        return { kept: new CopiedMessage("hi") };
      })
      .addNode("tell", ({ told }) => ({ told: `${told}!` }))
      .addEdge(START, "look")
      .addConditionalEdges("look", () => END, ["tell", END])
      .compile();
    const resolve = (specifier: string): Promise<unknown> => {
      // Only the graph determines which copy of LangGraph runs it.
      if (specifier === "@langchain/langgraph") throw new Error("Nothing of LangGraph is needed");
      return copy.load(specifier);
    };
    const executor = langgraph({ graph }, { resolve });
    const thread = createThread();
    for (const input of [{ told: "a" }, { told: "b" }]) await run(executor, createJob(thread, "graph", { input }));
    assert.deepEqual(observedNotes, [undefined, CopiedMessage]);
    const messageResult = await run(
      executor,
      createJob(thread, "graph", { command: { goto: [{ node: "tell", input: { told: "c" } }] } }),
    );
    assert.equal((messageResult.state.values as JsonObject).told, "c!");
    const updated = await executor
      .state?.("graph")
      ?.update?.(
        { thread_id: thread.thread_id, ns: "" },
        "graph",
        [[{ values: null, as_node: "look", command: { goto: [{ node: "tell", input: { told: "d" } }] } }]],
        thread.checkpoints,
        { metadata: {}, environment: systemEnvironment() },
      );
    assert.deepEqual(updated?.state.next, ["tell"]);
    const jobResult = await run(executor, createJob(thread, "graph"));
    assert.equal((jobResult.state.values as JsonObject).told, "d!");
  });
});
