/** Functions that make a graph from a configuration, where the graph is read, changed and described. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { type FactoryConfig, langgraph } from "../../../adapters/langgraph/mod.ts";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { fromFunctions } from "../../../lib/mod.ts";
import { type TestService, testService } from "../../suite/kit.ts";

const State = Annotation.Root({ said: Annotation<string> });

/** A graph whose one node is named by the configuration; it asks a question. */
function make({ configurable }: FactoryConfig): object {
  const name = String(configurable.nodeName ?? "unnamed");
  return new StateGraph(State)
    .addNode(name, () => ({ said: interrupt("Yes?") as string }))
    .addEdge(START, name)
    .addEdge(name, END)
    .compile();
}

const createFactoryService = (configs: FactoryConfig[] = []): Promise<TestService> =>
  testService({
    executor: langgraph({
      made: (config) => {
        configs.push(config);
        return make(config) as never;
      },
    }),
  });

const names = async (kit: TestService, thread_id: string): Promise<unknown> => {
  const [newest] = await kit.service.threads.history(thread_id);
  const tasks = (await kit.service.threads.state(thread_id)).tasks.map(({ name }) => name);
  return { next: (await kit.service.threads.state(thread_id)).next, tasks, history: newest?.next };
};
const at = (name: string): object => ({ next: [name], tasks: [name], history: [name] });

async function temporaryFolder(): Promise<{ file(name: string): string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), "greenroom-factories-"));
  return { file: (name) => join(path, name), [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

describe("an agent of LangChain, which has its graph as a member", () => {
  it("is accepted alone, with settings and from a factory", async () => {
    const graph = new StateGraph(State)
      .addNode("say", () => ({ said: "yes" }))
      .addEdge(START, "say")
      .addEdge("say", END)
      .compile();
    // LangChain's agents are instances of a class, so their other members are no settings.
    class Agent {
      readonly graph = graph;
      readonly options = {};
      invoke(): never {
        assert.fail();
      }
    }
    const agent = new Agent();
    await using kit = await testService({
      executor: langgraph({ agent, set: { graph: agent, max_attempts: 1 }, made: () => agent }),
    });
    for (const assistant_id of ["agent", "set", "made"]) {
      const { result } = await kit.service.runs.wait(null, { assistant_id, input: { said: "" } });
      assert.deepEqual(await result, { said: "yes" });
    }
  });
});

describe("a graph factory", () => {
  for (const [where, message] of [
    ["config.configurable", { config: { configurable: { nodeName: "ask" } } }],
    ["context", { context: { nodeName: "ask" } }],
  ] as const) {
    it(`receives the run's ${where} where its state is read and changed`, async () => {
      await using kit = await createFactoryService();
      const { runs, threads } = kit.service;
      const { thread_id } = await threads.create();
      await (await runs.wait(thread_id, { assistant_id: "made", input: { said: "" }, ...message })).result;
      assert.deepEqual(await names(kit, thread_id), at("ask"));
      assert.deepEqual(Object.keys((await threads.get(thread_id)).interrupts).length, 1);
      await threads.updateState(thread_id, { values: { said: "by hand" }, as_node: "ask" });
      assert.deepEqual((await threads.get(thread_id)).values, { said: "by hand" });
      // That checkpoint is no run's.
      await threads.updateState(thread_id, { values: { said: "again" }, as_node: "ask" });
      assert.deepEqual((await threads.state(thread_id)).next, []);
    });
  }

  it("reads each checkpoint by the configuration of the run that wrote it", async () => {
    await using kit = await createFactoryService();
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    for (const nodeName of ["one", "two"]) {
      const config = { configurable: { nodeName } };
      await (await runs.wait(thread_id, { assistant_id: "made", input: { said: nodeName }, config })).result;
    }
    const next = (await threads.history(thread_id)).map((state) => state.next.join());
    assert.deepEqual(next.slice(0, 3), ["two", "__start__", "one"]);
  });

  it("receives the assistant's settings: also of a copied thread, and for the schemas of its graph", async () => {
    const configs: FactoryConfig[] = [];
    await using kit = await createFactoryService(configs);
    const { assistants, runs, threads } = kit.service;
    const { assistant_id } = await assistants.create({
      graph_id: "made",
      config: { configurable: { nodeName: "ask" } },
      context: { tone: "kind" },
    });
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, { assistant_id, input: { said: "" } })).result;
    assert.deepEqual(await names(kit, thread_id), at("ask"));
    const copy = await threads.copy(thread_id);
    assert.deepEqual(await names(kit, copy.thread_id), at("ask"));
    const drawn = await assistants.graph(assistant_id);
    assert.ok(drawn.nodes.some(({ id }) => id === "ask"));
    configs.length = 0;
    await assistants.schemas(assistant_id);
    await assistants.subgraphs(assistant_id);
    assert.deepEqual(
      configs.map(({ configurable, context }) => [configurable.nodeName, configurable.tone, context.tone]),
      [
        ["ask", "kind", "kind"],
        ["ask", "kind", "kind"],
      ],
    );
    const supersteps = [{ updates: [{ values: { said: "made" }, as_node: "ask" }] }];
    const opened = await threads.create({ metadata: { graph_id: "made", assistant_id }, supersteps });
    assert.deepEqual(opened.values, { said: "made" });
  });

  it("receives the user of the run", async () => {
    const configs: FactoryConfig[] = [];
    await using kit = await testService({
      executor: langgraph({
        made: (config) => {
          configs.push(config);
          return make(config) as never;
        },
      }),
      auth: { custom: { authenticate: () => "ann" } },
    });
    const send = (path: string, body?: object): Promise<Response> =>
      kit.fetch(`http://greenroom${path}`, body ? { method: "POST", body: JSON.stringify(body) } : {});
    const { thread_id } = (await (await send("/threads", {})).json()) as { thread_id: string };
    const config = { configurable: { nodeName: "ask", api_key: "mine" } };
    await (await send(`/threads/${thread_id}/runs/wait`, { assistant_id: "made", input: {}, config })).text();
    const run = configs[0] as FactoryConfig;
    configs.length = 0;
    await (await send(`/threads/${thread_id}/state`)).text();
    assert.deepEqual(configs[0], JSON.parse(JSON.stringify(run)));
    assert.equal(run.configurable.langgraph_auth_user_id, "ann");
  });

  it("keeps the current description of a configured graph on its default assistant", async () => {
    await using folder = await temporaryFolder();
    const open = (description?: string): Promise<TestService> => {
      const about = description === undefined ? {} : { description };
      const executor = fromFunctions({ plain: { ...about, agent: async () => "hi" } });
      return testService({ storage: nodeSqlite(folder.file("service.db")), executor });
    };
    const inputs: unknown[] = [];
    for (const description of [undefined, "Answers", "Answers", "Greets", undefined]) {
      await using kit = await open(description);
      const assistant = await kit.service.assistants.get("plain");
      inputs.push([assistant.description, assistant.version]);
    }
    assert.deepEqual(inputs, [
      [null, 1],
      ["Answers", 2],
      ["Answers", 2],
      ["Greets", 3],
      ["Greets", 3],
    ]);
  });
});
