/** `greenroom/app`: one call from a database and agents to a handler, on every runtime. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Annotation, END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { type App, type AppOptions, createApp } from "../../adapters/app.ts";
import { serve } from "../../adapters/node/mod.ts";
import { agent, ConfigError, type FunctionJob } from "../../lib/mod.ts";
import { createTemporaryFolder, runtime } from "../support/programs.ts";

const quiet = { environment: { log() {} } };
const echo = async function* ({ messages }: { readonly messages: readonly { content?: unknown }[] }) {
  yield `You said ${messages.at(-1)?.content}`;
};
const State = Annotation.Root({ ...MessagesAnnotation.spec, count: Annotation<number> });
const builder = new StateGraph(State)
  .addNode("counting", ({ messages }) => ({ count: messages.length }))
  .addEdge(START, "counting")
  .addEdge("counting", END);

const disposed = (app: App): AsyncDisposable => ({ [Symbol.asyncDispose]: () => app.stop(0) });

async function run({ fetch }: Pick<App, "fetch">, assistant_id: string, base = ""): Promise<Record<string, unknown>> {
  const body = JSON.stringify({ assistant_id, input: { messages: [{ role: "user", content: "Hello" }] } });
  const answer = await fetch(new Request(`http://localhost${base}/runs/wait`, { method: "POST", body }));
  return (await answer.json()) as Record<string, unknown>;
}
const readLastContent = ({ messages }: Record<string, unknown>): unknown =>
  (messages as { content: unknown }[]).at(-1)?.content;

async function findProblems(options: unknown): Promise<readonly string[]> {
  try {
    await (await createApp(options as AppOptions)).stop(0);
    return [];
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    return error.problems;
  }
}

describe(`createApp on ${runtime}`, () => {
  it("hosts functions, compiled graphs, builders and factories side by side", async () => {
    const app = await createApp({
      database: ":memory:",
      agents: {
        echo,
        described: { agent: echo, description: "Repeats", max_attempts: 1 },
        compiled: builder.compile(),
        builder,
        factory: { graph: async () => builder, timeout_ms: 60_000 },
        prebuilt: { graph: builder.compile(), description: "Counts" },
      },
      ...quiet,
    });
    await using _ = disposed(app);
    for (const name of ["echo", "described"]) assert.equal(readLastContent(await run(app, name)), "You said Hello");
    for (const name of ["compiled", "builder", "factory", "prebuilt"]) assert.equal((await run(app, name)).count, 1);
    const { items } = await app.service.assistants.search({});
    assert.deepEqual(items.flatMap(({ description }) => description ?? []).sort(), ["Counts", "Repeats"]);
  });

  it("fails a strict function that diverges from its journal", async () => {
    let order = ["find", "pay"];
    const agent = async function* ({ step, ask }: FunctionJob) {
      for (const name of order) await step(name, () => name);
      await ask("approve", "Pay?");
      yield "Paid.";
    };
    const app = await createApp({ database: ":memory:", agents: { agent: { agent, strict: true } }, ...quiet });
    await using _ = disposed(app);
    const { threads, runs } = app.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, { assistant_id: "agent", input: { messages: "Hi" } })).result;
    order = ["pay", "find"];
    const command = { resume: true };
    const { result } = await runs.wait(thread_id, { assistant_id: "agent", command });
    assert.equal(((await result) as { __error__: { error: string } }).__error__.error, "ReplayMismatch");
  });

  it("rejects a factory that was passed as an agent at the start if its code shows it, and names the remedy", async () => {
    const factories = {
      now: { agent: () => builder.compile(), max_attempts: 1 },
      later: async () => builder.compile({ checkpointer: false }),
      async chained() {
        return new StateGraph(State)
          .addNode("count", async () => ({ count: await Promise.resolve(1) }))
          .addEdge(START, "count")
          .compile();
      },
      async prebuilt() {
        await Promise.resolve();
        return await createReactAgent({ llm: (() => null) as never, tools: [] });
      },
    };
    await assert.rejects(createApp({ database: ":memory:", agents: factories as never, ...quiet }), (error: Error) => {
      const lines = error.message
        .split("\n")
        .filter((line) => line.includes("it is a factory. Write { graph: factory }"));
      assert.deepEqual(lines.map((line) => /agents\.(\w+)/.exec(line)?.[1]).sort(), Object.keys(factories).sort());
      return true;
    });
    const agents = {
      async calls() {
        const graph = builder.compile();
        return String((await graph.invoke({ count: 0 })).count);
      },
      async *yields() {
        yield String((await builder.compile().invoke({ count: 0 })).count);
        return builder.compile();
      },
      text: () => "return builder.compile()",
    };
    const app = await createApp({ database: ":memory:", agents, ...quiet });
    await app.stop();
  });

  it("names the remedy for another factory that was passed as an agent", async () => {
    const hidden = builder.compile();
    const unfinished = builder;
    const app = await createApp({
      database: ":memory:",
      agents: { now: { agent: () => hidden, max_attempts: 1 }, later: async () => hidden, builder: () => unfinished },
      ...quiet,
    });
    await using _ = disposed(app);
    for (const name of ["now", "later", "builder"]) {
      assert.match(JSON.stringify(await run(app, name)), /it is a factory\. Write \{ graph: factory \}/);
    }
  });

  it("creates a database file, and serves it on a port with a detached fetch", async () => {
    using folder = createTemporaryFolder();
    const database = join(folder.path, "agents.db");
    let thread_id: string;
    {
      const { fetch: handler, service, stop } = await createApp({ database, agents: { echo }, ...quiet });
      ({ thread_id } = await service.threads.create({ metadata: { kept: true } }));
      const server = await serve(handler, { port: 0 });
      assert.equal(server.url, `http://127.0.0.1:${server.port}`);
      assert.equal(
        readLastContent(await run({ fetch: (request) => fetchAt(server.url, request) }, "echo")),
        "You said Hello",
      );
      await server.close();
      await stop(0);
    }
    assert.ok(existsSync(database));
    const app = await createApp({ database, agents: { echo }, ...quiet });
    await using _ = disposed(app);
    assert.deepEqual((await app.service.threads.get(thread_id)).metadata, { kept: true });
  });

  it("opens libSQL by its URL", async () => {
    using folder = createTemporaryFolder();
    const database = { url: `file:${join(folder.path, "libsql.db")}` };
    const app = await createApp({ database, agents: { echo }, ...quiet });
    {
      await using _ = disposed(app);
      assert.equal(readLastContent(await run(app, "echo")), "You said Hello");
    }
    assert.ok(existsSync(join(folder.path, "libsql.db")));
  });

  it("passes the options of the handler and of the service in http on", async () => {
    const app = await createApp({
      database: ":memory:",
      agents: { echo },
      http: {
        prefix: "/agents",
        hosts: ["localhost"],
        app: () => new Response("own"),
        disable_store: true,
        cors: { allow_origins: ["https://a.example"] },
      },
      ...quiet,
    });
    await using _ = disposed(app);
    assert.equal(readLastContent(await run(app, "echo", "/agents")), "You said Hello");
    const get = (url: string): Promise<Response> => app.fetch(new Request(url));
    assert.equal(await (await get("http://localhost/agents/mine")).text(), "own");
    assert.equal((await get("http://other.example/agents/ok")).status, 421);
    assert.equal(await (await get("http://localhost/agents/store/items?key=a")).text(), "own");
  });

  it("lists every problem of its options at once, and opens no database", async () => {
    using folder = createTemporaryFolder();
    const file = join(folder.path, "never.db");
    assert.deepEqual(
      await findProblems({
        database: { url: file, token: "x", direct_url: 5, writer: "fast" },
        agents: {
          list: [],
          text: "echo",
          "a/b": echo,
          both: { agent: echo, graph: builder },
          drawn: { graph: builder, strict: true },
          slow: {
            agent: echo,
            timeout_ms: 0,
            retries: 2,
            description: 5,
            strict: "yes",
            mcp: true,
            a2a: { caller_may_approve: 1 },
          },
        },
        http: { prefix: "agents", app: 5, open_metrics: "yes", cors: { allow_origins: "*" }, nope: 1 },
        worker: { concurrency: -1 },
        storage: {},
        executor: {},
        surprise: true,
        onRunFinished: "log",
      }),
      [
        "database.token: unknown option; known: url, auth_token, direct_url, writer",
        "database.direct_url: must be a text",
        "database.writer: must be one of auto, inline, thread",
        "http.prefix: must be a path such as /agents",
        "http.app: must be a function, or an object with fetch",
        "http.open_metrics: must be true or false",
        "agents.list: Graph list is neither a LangGraph.js graph nor a function that returns one",
        "agents.text: is neither a function nor a LangGraph.js graph. Give a function, a graph, { agent: function } or { graph: graph or factory }",
        "agents.both: give agent or graph, not both",
        "agents.drawn.strict: unknown option; known: description, max_attempts, timeout_ms, abandon_ms, resume, mcp, a2a, graph",
        "agents.slow.timeout_ms: must be a whole number from 1 to 2147483647",
        "agents.slow.retries: unknown option",
        "agents.slow.description: must be a text",
        "agents.slow.strict: must be true or false",
        "agents.slow.mcp: must be an object",
        "agents.slow.a2a.caller_may_approve: must be true or false",
        "storage: unknown option. Use database",
        "executor: unknown option. Use agents",
        "worker.concurrency: must be a whole number from 0 to 10000",
        "surprise: unknown option",
        "onRunFinished: must be a function",
        "http.cors.allow_origins: must be a list of origins such as https://app.example, or *; for patterns see allow_origin_regex",
        "http.nope: unknown option",
        'agents: the graph id "a/b" cannot stand in a URL path',
      ],
    );
    assert.ok(!existsSync(file));
  });

  it("refuses what is no agent (W3) and misspelt settings (W35, W37), and opens no database", async () => {
    using folder = createTemporaryFolder();
    const file = join(folder.path, "never.db");
    const agents = {
      file: "agent.ts",
      called: { agent: echo, max_atempts: 1 },
      typed: { ...agent({ max_attempts: 1 }, echo), timeoutMs: 5 },
      drawn: { graph: builder, timeout: 1 },
      made: { graph: () => builder.compile(), mcp: { model_may_anwser: true } },
    };
    assert.deepEqual(await findProblems({ database: file, agents }), [
      "agents.file: is neither a function nor a LangGraph.js graph. Give a function, a graph, { agent: function } or { graph: graph or factory }",
      "agents.called.max_atempts: unknown option; did you mean max_attempts?",
      "agents.typed.timeoutMs: unknown option; did you mean timeout_ms?",
      "agents.drawn.timeout: unknown option; did you mean timeout_ms?",
      "agents.made.mcp.model_may_anwser: unknown option; did you mean model_may_answer?",
    ]);
    assert.ok(!existsSync(file));
  });

  it("names a database that it cannot open, and what is missing", async () => {
    using folder = createTemporaryFolder();
    const agents = { echo };
    assert.deepEqual(await findProblems({}), [
      'database: missing. Give a file path such as "agents.db", ":memory:", or a libSQL or postgres: URL',
      "agents: missing. Give at least one, for example { echo: async function* (job) { … } }",
    ]);
    assert.deepEqual(await findProblems({ database: "mysql://localhost/a", agents }), [
      "database: no driver for mysql: databases. Use a file path, :memory:, a libSQL or a postgres: URL",
    ]);
    assert.deepEqual(await findProblems({ database: "", agents }), [
      "database: has no URL. Give a file path, :memory: or a URL",
    ]);
    const [folderProblem = "", ...none] = await findProblems({ database: folder.path, agents });
    assert.match(folderProblem, /^database: /);
    assert.ok(folderProblem.includes(folder.path), folderProblem);
    assert.deepEqual(none, []);
    const [postgresProblem = ""] = await findProblems({ database: "postgres://u:secret@[nowhere/a", agents });
    assert.match(postgresProblem, /^database: /);
    assert.ok(!postgresProblem.includes("secret"));
  });
});

/** Sends the request to another origin. */
function fetchAt(origin: string, request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  return fetch(new Request(`${origin}${pathname}`, request));
}
