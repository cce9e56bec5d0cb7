import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AIMessage, type ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import {
  Annotation,
  type BaseStore,
  entrypoint,
  getStore,
  InMemoryStore,
  type LangGraphRunnableConfig,
  MessagesAnnotation,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { JobStore, type Operation } from "../../../adapters/langgraph/store.ts";
import type { Json, JsonObject } from "../../../lib/mod.ts";
import { type TestService, testService } from "../../suite/kit.ts";

const Out = Annotation.Root({ out: Annotation<Json> });
type Use = (store: BaseStore, config: LangGraphRunnableConfig) => Promise<Json>;

/** Creates a graph of one node that uses its store. */
const createGraph = (use: Use, store?: BaseStore) =>
  new StateGraph(Out)
    .addNode("node", async (_state, config: LangGraphRunnableConfig) => ({
      out: await use(config.store as BaseStore, config),
    }))
    .addEdge(START, "node")
    .compile(store ? { store } : {});

const serve = (graph: Parameters<typeof langgraph>[0][string], extraOptions: object = {}): Promise<TestService> =>
  testService({ executor: langgraph({ graph }), ...extraOptions });

async function out({ service }: TestService, input: JsonObject = {}): Promise<Json> {
  const { result } = await service.runs.wait(null, { assistant_id: "graph", input });
  return ((await result) as { out: Json }).out;
}

const json = (value: unknown): Json => JSON.parse(JSON.stringify(value)) as Json;

describe("the store of a LangGraph graph", () => {
  it("is that of the service, in all its calls", async () => {
    const graph = createGraph(async (store) => {
      await store.put(["users", "ann"], "likes", { food: "pizza", n: 1 });
      await store.put(["users", "ann"], "seen", { n: 2 });
      await store.put(["users", "bob"], "likes", { food: "soup", n: 3 });
      await store.delete(["users", "ann"], "seen");
      const storedItem = await store.get(["users", "ann"], "likes");
      assert.ok(storedItem?.createdAt instanceof Date && storedItem.updatedAt instanceof Date);
      const matches = await store.search(["users"], { filter: { n: { $gt: 1 } } });
      return json({
        item: [storedItem.namespace, storedItem.key, storedItem.value],
        none: await store.get(["users", "ann"], "seen"),
        found: matches.map(({ namespace, key }) => [...namespace, key]),
        page: (await store.search(["users"], { limit: 1, offset: 1 })).length,
        namespaces: await store.listNamespaces({ prefix: ["users"], maxDepth: 1 }),
        suffix: await store.listNamespaces({ suffix: ["bob"] }),
        batch: (await store.batch([{ namespace: ["users", "bob"], key: "likes" }]))[0]?.value,
      });
    });
    await using kit = await serve(graph);
    assert.deepEqual(await out(kit), {
      item: [["users", "ann"], "likes", { food: "pizza", n: 1 }],
      none: null,
      found: [["users", "bob", "likes"]],
      page: 1,
      namespaces: [["users"]],
      suffix: [["users", "bob"]],
      batch: { food: "soup", n: 3 },
    });
    assert.deepEqual((await kit.service.store.get(["users", "ann"], "likes"))?.value, { food: "pizza", n: 1 });
  });

  it("keeps items from one thread to the next", async () => {
    const graph = createGraph(async (store) => {
      const count = ((await store.get(["runs"], "count"))?.value.count ?? 0) as number;
      await store.put(["runs"], "count", { count: count + 1 });
      return count;
    });
    await using kit = await serve(graph);
    assert.deepEqual([await out(kit), await out(kit), await out(kit)], [0, 1, 2]);
  });

  it("is available in getStore, edges, subgraphs, tools and tasks", async () => {
    const note = async (store: BaseStore | undefined, key: string): Promise<void> => {
      await store?.put(["notes"], key, { key });
    };
    const remember = tool(
      async ({ what }: { what: string }, config: { readonly store?: unknown }) => {
        await note(config.store as BaseStore, what);
        await note(getStore(), "getStore in a tool");
        return "noted";
      },
      {
        name: "remember",
        description: "Takes a note",
        schema: { type: "object", properties: { what: { type: "string" } }, required: ["what"] },
      },
    );
    const inner = new StateGraph(MessagesAnnotation)
      .addNode("deep", async () => {
        await note(getStore(), "subgraph");
        return {};
      })
      .addEdge(START, "deep")
      .compile();
    const calledGraph = new StateGraph(MessagesAnnotation)
      .addNode("deeper", async (_state, config: LangGraphRunnableConfig) => {
        await note(config.store, "called subgraph");
        return {};
      })
      .addEdge(START, "deeper")
      .compile();
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("ask", async (state, config) => {
        await calledGraph.invoke(state, config);
        const calls = [{ id: "c1", name: "remember", args: { what: "tool" } }];
        return { messages: [new AIMessage({ content: "", tool_calls: calls })] };
      })
      .addNode("tools", new ToolNode([remember]))
      .addNode("inner", inner)
      .addEdge(START, "ask")
      .addConditionalEdges("ask", async () => {
        await note(getStore(), "edge");
        return "tools";
      })
      .addEdge("tools", "inner")
      .compile();
    const remembered = task("remembered", async () => {
      await note(getStore(), "task");
      return true;
    });
    const functional = entrypoint("functional", async () => {
      await note(getStore(), "entrypoint");
      return { done: await remembered() };
    });
    await using kit = await testService({ executor: langgraph({ graph, functional }) });
    const { runs, store } = kit.service;
    const { result } = await runs.wait(null, { assistant_id: "graph", input: { messages: [] } });
    const { messages } = (await result) as unknown as { messages: ToolMessage[] };
    assert.equal(messages.at(-1)?.content, "noted");
    await (await runs.wait(null, { assistant_id: "functional", input: {} })).result;
    const notes = (await store.search(["notes"], { limit: 20 })).map(({ key }) => key).sort();
    const places = ["called subgraph", "edge", "entrypoint", "getStore in a tool", "subgraph", "task", "tool"];
    assert.deepEqual(notes, places);
  });

  it("calls the service without a queue in nodes, subgraphs, edges and tasks: no run waits for a timer", async () => {
    const queued: string[] = [];
    const look = (location: string, store: unknown): void => {
      if (!(store instanceof JobStore)) queued.push(location);
    };
    const inner = new StateGraph(Out)
      .addNode("deep", (_state, config: LangGraphRunnableConfig) => {
        look("subgraph", config.store);
        look("getStore in a subgraph", getStore());
        return {};
      })
      .addEdge(START, "deep")
      .compile();
    const graph = new StateGraph(Out)
      .addNode("node", (_state, runtime: LangGraphRunnableConfig) => {
        look("runtime", runtime.store);
        return {};
      })
      .addNode("inner", inner)
      .addConditionalEdges(START, (_state, config: LangGraphRunnableConfig) => {
        look("first edge", config.store);
        return "node";
      })
      .addConditionalEdges("node", () => {
        look("edge", getStore());
        return "inner";
      })
      .compile();
    const step = task("step", async () => look("task", getStore()));
    const functional = entrypoint("functional", async () => {
      look("entrypoint", getStore());
      await step();
      return {};
    });
    await using kit = await testService({ executor: langgraph({ graph, functional }) });
    for (const [assistant_id, stream_mode] of [
      ["graph", "values"],
      ["graph", "events"],
      ["functional", "values"],
    ] as const) {
      const { result } = await kit.service.runs.wait(null, { assistant_id, input: {}, stream_mode });
      assert.equal(((await result) as { __error__?: unknown }).__error__, undefined);
    }
    assert.deepEqual(queued, []);
  });

  it("is the graph's own if the graph was compiled with one", async () => {
    const graphStore = new InMemoryStore();
    const graph = createGraph(async (store) => {
      await store.put(["mine"], "k", { kept: true });
      return true;
    }, graphStore);
    await using kit = await serve(graph);
    assert.equal(await out(kit), true);
    assert.deepEqual((await graphStore.get(["mine"], "k"))?.value, { kept: true });
    assert.equal(await kit.service.store.get(["mine"], "k"), null);
  });

  it("is not left in the host's graph, whose own runs have none", async () => {
    const graph = createGraph(async (store) => store !== undefined);
    await using kit = await serve(graph);
    assert.equal(await out(kit), true);
    assert.equal((await graph.invoke({ out: null })).out, false);
  });

  it("searches by meaning, by the fields of the item", async () => {
    const graph = createGraph(async (store) => {
      await store.put(["a"], "cat", { text: "cat", note: "dog" }, ["text"]);
      await store.put(["a"], "dog", { text: "dog", note: "cat" }, ["text"]);
      await store.put(["a"], "off", { text: "cat" }, false);
      return json((await store.search(["a"], { query: "cat" })).map(({ key, score }) => [key, score]));
    });
    const embed = async (texts: readonly string[]) => texts.map((text) => (text.includes("cat") ? [1, 0] : [0, 1]));
    await using kit = await serve(graph, { store: { index: { dims: 2, embed } } });
    assert.deepEqual(await out(kit), [
      ["cat", 1],
      ["dog", 0],
    ]);
  });

  it("rejects invalid items with the reason as the node's error", async () => {
    const graph = createGraph(async (store) => {
      const reasons: string[] = [];
      const puts: [string[], string, Record<string, unknown>][] = [
        [["langgraph"], "k", {}],
        [["a.b"], "k", {}],
        [[], "k", {}],
        [["a"], "", {}],
        [["a"], "k", { n: Number.NaN }],
      ];
      for (const [namespace, key, value] of puts) {
        await store.put(namespace, key, value).catch((error: Error) => reasons.push(error.message));
      }
      return reasons;
    });
    await using kit = await serve(graph);
    assert.deepEqual(await out(kit), [
      "namespace.0: langgraph is reserved as the first label",
      "namespace.0: must not contain a dot",
      "namespace: must have 1 to 32 labels",
      "key: must not be empty",
      "value: must hold finite numbers only",
    ]);
  });

  it("returns as many items as requested", async () => {
    const graph = createGraph(async (store) => {
      const items = Array.from({ length: 1100 }, (_, n) => ({ namespace: [`n${n}`], key: "k", value: { n } }));
      await store.batch(items);
      const counts = [
        store.search([], { limit: 5000 }),
        store.search([], { limit: 1001 }),
        store.search([], { limit: 0 }),
        store.search([]),
        store.listNamespaces({ limit: 1050 }),
        store.listNamespaces({ limit: 5000, offset: 1090 }),
      ];
      return (await Promise.all(counts)).map(({ length }) => length);
    });
    await using kit = await serve(graph);
    assert.deepEqual(await out(kit), [1100, 1001, 0, 10, 1050, 10]);
  });
});

describe("a batch of store operations", () => {
  const serveEcho = (): Promise<TestService> => testService({ agents: { echo: async () => ({}) } });

  it("reads the items from before the batch, and writes all or none", async () => {
    await using kit = await serveEcho();
    const store = new JobStore(kit.service.store);
    await store.put(["a"], "k", { n: 1 });
    const results = await store.batch([
      { namespace: ["a"], key: "k", value: { n: 2 } },
      { namespace: ["a"], key: "k" },
      { namespace: ["a"], key: "l", value: { n: 3 } },
      { namespacePrefix: ["a"], filter: { n: 1 } },
      { namespace: ["a"], key: "none", value: null },
      { matchConditions: [{ matchType: "prefix", path: ["*"] }], maxDepth: 1, limit: 10, offset: 0 },
    ] as Operation[]);
    const values = results.map((result) => {
      if (Array.isArray(result)) return result.map((entry: { value?: unknown }) => entry.value ?? entry);
      return (result as { value?: unknown } | undefined)?.value;
    });
    assert.deepEqual(values, [undefined, { n: 1 }, undefined, [{ n: 1 }], undefined, [["a"]]]);
    assert.deepEqual(
      [(await store.get(["a"], "k"))?.value, (await store.get(["a"], "l"))?.value],
      [{ n: 2 }, { n: 3 }],
    );

    const wrong: Operation[] = [
      { namespace: ["a"], key: "k", value: { n: 4 } },
      { namespace: ["a."], key: "k", value: { n: 4 } },
    ];
    await assert.rejects(store.batch(wrong), /must not contain a dot/);
    assert.deepEqual((await store.get(["a"], "k"))?.value, { n: 2 });
    await store.batch([]);
    await store.start();
    await store.stop();
  });
});
