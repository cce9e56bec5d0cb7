/** What the stand-alone server reads from its configuration file, and from the files that this names. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readConfig } from "../../../adapters/standalone/config.ts";
import { formatTextLine } from "../../../adapters/standalone/log.ts";
import { loadGraphs, loadModules } from "../../../adapters/standalone/modules.ts";
import { answerText, asker as askerOfA2a, say as message, taskOf } from "../../lib/http/endpoints/a2a/a2a.harness.ts";
import { asker as askerOfMcp, textOf, threadOf } from "../../lib/http/endpoints/mcp/mcp.harness.ts";
import { type Program, root, start, temporaryFolder, urlOf } from "../../support/programs.ts";

const FILES = {
  "agents.ts": `
export function seen({ config, context, user }) {
  return JSON.stringify({ configurable: config.configurable, context, user });
}
export function sleeps({ signal }) {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
}
export const asks = ({ command, interrupt }) =>
  command?.resume === undefined ? interrupt({ question: "Pay?", approval: true }) : "Got " + command.resume;
export function rests(job) {
  console.log("resting");
  return sleeps(job);
}
`,
  "graphs.ts": `
import { interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
const sleep = (_, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
export const builder = new StateGraph(MessagesAnnotation).addNode("sleep", sleep).addEdge(START, "sleep");
export const make = () => builder.compile();
const ask = () => ({ messages: [["ai", "Got " + interrupt({ question: "Pay?" })]] });
export const asks = new StateGraph(MessagesAnnotation).addNode("ask", ask).addEdge(START, "ask").compile();
`,
  "auth.ts": `
export const auth = {
  authenticate(request) {
    const [, name] = /^Bearer (\\w+)$/.exec(request.headers.get("authorization") ?? "") ?? [];
    if (!name) throw Object.assign(new Error("Who are you?"), { status: 401 });
    return name;
  },
};
export const odd = { authenticate: () => "x", on: { "threads:fly": () => true } };
export const none = 5;
`,
  "sdk-auth.ts": `
import { Auth } from "@langchain/langgraph-sdk/auth";
export const auth = new Auth().authenticate(() => "ann");
`,
  "embed.ts": `
export const embed = async (texts) => texts.map((text) => [text.length, 1]);
export const model = { embedDocuments: async (texts) => texts.map((text) => [text.length, texts.length]) };
export const none = { embed: 1 };
`,
  "app.ts": `
export const app = {
  greeting: "Hello from the application",
  fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/fails") throw new Error("it failed");
    return pathname === "/hello" || pathname === "/" ? new Response(this.greeting) : undefined;
  },
};
export default (request) => new Response(request.url);
export const none = "app";
`,
  "calls.ts": `
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { Client } from "@langchain/langgraph-sdk";
import { getLogger } from "@langchain/langgraph-sdk/logging";
const logger = getLogger();
logger.info("module loaded", { at: "start" });
async function call() {
  const { thread_id } = await new Client().threads.create();
  logger.info("thread made", { made: thread_id });
  return { said: thread_id };
}
export const graph = new StateGraph(Annotation.Root({ said: Annotation })).addNode("call", call).addEdge(START, "call").compile();
`,
  "hono.ts": `
import { Client } from "@langchain/langgraph-sdk";
import { Hono } from "hono";
export const app = new Hono();
app.use("*", async (c, next) => {
  c.header("x-app", "mine");
  await next();
});
app.get("/count", async (c) => c.text(String(await new Client().assistants.count())));
`,
  "broken.ts": "throw new Error('no such luck');\n",
};

/** A folder with a configuration and the files that it may name. */
function project(config: unknown, name = "greenroom.json"): ReturnType<typeof temporaryFolder> {
  const folder = temporaryFolder();
  mkdirSync(join(folder.path, "src"));
  for (const [file, text] of Object.entries(FILES)) writeFileSync(join(folder.path, "src", file), text);
  writeFileSync(join(folder.path, name), JSON.stringify(config));
  symlinkSync(join(root, "node_modules"), join(folder.path, "node_modules"), "junction");
  return folder;
}

const graphs = { seen: "./src/agents.ts:seen" };
const serve = (cwd: string): Program => start("server.ts", ["--port", "0", "--database", ":memory:"], { cwd });

describe("a configuration file", () => {
  it("may insert variables with LangGraph's prefix into webhooks, if it is a langgraph.json", async () => {
    const variables = { LG_WEBHOOK_TOKEN: "a", SERVICE_WEBHOOK_TOKEN: "b", MY_TOKEN: "c" };
    const config = (name: string, webhooks: object = {}) => ({
      graphs,
      env: variables,
      webhooks: { headers: { authorization: `Bearer \${{ env.${name} }}` }, ...webhooks },
    });
    const outcome = async (file: string, content: object): Promise<string> => {
      using folder = project(content, file);
      await using program = start("server.ts", ["--port", "0", "--database", ":memory:"], { cwd: folder.path });
      await Promise.race([program.printed(/Greenroom listening|greenroom: /), program.ended]);
      return program.output();
    };
    const listens = /Greenroom listening/;
    assert.match(await outcome("langgraph.json", config("LG_WEBHOOK_TOKEN")), listens);
    assert.match(await outcome("langgraph.json", config("SERVICE_WEBHOOK_TOKEN")), listens);
    assert.match(await outcome("greenroom.json", config("SERVICE_WEBHOOK_TOKEN")), listens);
    assert.match(
      await outcome("langgraph.json", config("MY_TOKEN")),
      /MY_TOKEN: its name does not start with LG_WEBHOOK_ or SERVICE_WEBHOOK_ \(webhooks\.env_prefix\)/,
    );
    assert.match(await outcome("langgraph.json", config("MY_TOKEN", { env_prefix: "MY_" })), listens);
    assert.match(
      await outcome("langgraph.json", config("LG_WEBHOOK_TOKEN", { env_prefix: "MY_" })),
      /does not start with MY_ \(webhooks\.env_prefix\)/,
    );
    assert.match(
      await outcome("greenroom.json", config("LG_WEBHOOK_TOKEN")),
      /does not start with SERVICE_WEBHOOK_ \(webhooks\.env_prefix\)/,
    );
  });

  it("takes authentication, embeddings and routes from files, and options by their names", async () => {
    using folder = project({
      graphs,
      auth: { path: "./src/auth.ts:auth", disable_studio_auth: true },
      store: { index: { dims: 2, embed: "./src/embed.ts:embed", fields: ["text"] }, ttl: { default_ttl: 60 } },
      checkpointer: { ttl: { strategy: "keep_latest", default_ttl: 43_200 } },
      crons: { enabled: false },
      http: {
        app: "./src/app.ts:app",
        cors: { allow_origins: ["https://app.example"], allow_credentials: true, max_age: 5 },
        configurable_headers: { includes: ["x-locale"] },
        disable_assistants: true,
      },
    });
    await using program = serve(folder.path);
    const url = await urlOf(program);
    const ask = async (path: string, init: RequestInit = {}): Promise<[number, string]> => {
      const response = await fetch(`${url}${path}`, init);
      return [response.status, await response.text()];
    };
    const ann = { authorization: "Bearer ann" };
    assert.deepEqual(await ask("/hello"), [200, "Hello from the application"]);
    assert.deepEqual(await ask("/"), [200, "Hello from the application"]);
    assert.equal((await ask("/threads", { method: "POST", body: "{}" }))[0], 401);
    assert.equal((await ask("/threads", { method: "POST", body: "{}", headers: ann }))[0], 200);
    assert.equal((await ask("/assistants/search", { method: "POST", body: "{}", headers: ann }))[0], 404);
    const [, values] = await ask("/runs/wait", {
      method: "POST",
      body: JSON.stringify({ assistant_id: "seen", input: {}, context: { tone: "kind" } }),
      headers: { ...ann, "x-locale": "de", "x-other": "no" },
    });
    const said = JSON.parse((JSON.parse(values) as { messages: { content: string }[] }).messages.at(-1)?.content ?? "");
    assert.deepEqual([said.configurable["x-locale"], said.configurable["x-other"]], ["de", undefined]);
    assert.deepEqual([said.configurable.tone, said.configurable.langgraph_auth_user_id], ["kind", "ann"]);
    assert.equal(said.user.identity, "ann");
    const preflight = await fetch(`${url}/threads`, {
      method: "OPTIONS",
      headers: { origin: "https://app.example", "access-control-request-method": "POST" },
    });
    assert.deepEqual(
      ["allow-origin", "allow-credentials", "max-age"].map((name) => preflight.headers.get(`access-control-${name}`)),
      ["https://app.example", "true", "5"],
    );
    for (const [key, text] of [
      ["short", "ab"],
      ["long", "abcdefgh"],
    ]) {
      const body = JSON.stringify({ namespace: ["notes"], key, value: { text } });
      assert.equal((await ask("/store/items", { method: "PUT", body, headers: ann }))[0], 204);
    }
    const body = JSON.stringify({ namespace_prefix: ["notes"], query: "abcdefg", limit: 1 });
    const [status, found] = await ask("/store/items/search", { method: "POST", body, headers: ann });
    assert.equal(status, 200, found);
    assert.equal((JSON.parse(found) as { items: { key: string }[] }).items[0]?.key, "long");
  });

  it("is read as a langgraph.json by its content, whatever its name is", async () => {
    const made = { made: "./src/graphs.ts:make" };
    const isLangGraph = (name: string, content: object): boolean => {
      using folder = project({ graphs: made, ...content }, name);
      const { graphs: entries, problems } = readConfig(join(folder.path, name));
      assert.deepEqual(problems, [], name);
      return entries[0]?.factory === true;
    };
    const schema = "https://langgra.ph/schema.json";
    for (const name of ["langgraph.prod.json", "prod.json", "greenroom.prod.json"]) {
      assert.ok(isLangGraph(name, { dependencies: ["."] }), name);
      assert.ok(isLangGraph(name, { node_version: "22" }), name);
      assert.ok(isLangGraph(name, { $schema: schema }), name);
      // Keys that only a greenroom.json has.
      assert.ok(!isLangGraph(name, { dependencies: ["."], worker: { concurrency: 1 } }), name);
      assert.ok(!isLangGraph(name, { node_version: "22", public_base_url: "http://127.0.0.1" }), name);
    }
    // The content does not show it.
    assert.ok(isLangGraph("langgraph.prod.json", {}));
    assert.ok(!isLangGraph("prod.json", {}));
    assert.ok(isLangGraph("langgraph.json", {}));
    assert.ok(!isLangGraph("greenroom.json", { node_version: "22" }));
    // A key of LangGraph that changes nothing here is named, and refuses nothing.
    using folder = project({ graphs: made, dependencies: ["."], dockerfile_lines: [], ui: {} }, "langgraph.prod.json");
    const { unsupported, problems } = readConfig(join(folder.path, "langgraph.prod.json"));
    assert.deepEqual([unsupported, problems], [["dockerfile_lines", "ui"], []]);
  });

  it("as langgraph.json takes the same, an Auth object of the SDK too, and names what has no effect", async () => {
    using folder = project(
      {
        node_version: "22",
        dependencies: ["."],
        dockerfile_lines: [],
        graphs: { seen: { path: graphs.seen, description: "sees" } },
        auth: { path: "./src/sdk-auth.ts:auth", openapi: {} },
        store: { index: { dims: 2, embed: "./src/embed.ts:model" }, ttl: { refresh_on_read: false } },
        checkpointer: { ttl: { default_ttl: 10, sweep_interval_minutes: 1 }, serde: {} },
        http: {
          app: "./src/app.ts",
          mount_prefix: "/x",
          disable_mcp: true,
          disable_operations: true,
          configurable_headers: { excludes: ["*"] },
        },
        ui: {},
      },
      "langgraph.json",
    );
    writeFileSync(
      join(folder.path, "src/agents.ts"),
      FILES["agents.ts"].replace("function seen", "async function* seen"),
    );
    await using program = serve(folder.path);
    const url = await urlOf(program);
    assert.match(
      program.output(),
      /"without effect here: dockerfile_lines, auth\.openapi, checkpointer\.serde, http\.mount_prefix, ui","file":"langgraph\.json"/,
    );
    assert.equal(await (await fetch(`${url}/anything`)).text(), `${url}/anything`);
    // Disabled routes are left to the application.
    for (const path of ["/mcp/", "/greenroom/runs"]) assert.equal(await (await fetch(url + path)).text(), url + path);
    assert.equal((await fetch(`${url}/threads`, { method: "POST", body: "{}" })).status, 200);
  });

  it("names every key that it cannot use, before anything starts", async () => {
    const broken: readonly (readonly [config: object, ...says: RegExp[]])[] = [
      [
        {
          auth: { path: "./src/nowhere.ts:auth" },
          store: { index: { embed: "openai:text-embedding-3-small" } },
          http: { app: 5 },
        },
        /auth\.path: no such file \.\/src\/nowhere\.ts/,
        /store\.index\.embed: not of the form "\.\/file\.ts:export"/,
        /http\.app: not of the form/,
      ],
      [{ auth: { path: "./src/auth.py:auth" } }, /auth\.path: Python/],
      [{ store: { index: { dims: 2 } } }, /store\.index\.embed: missing/],
      [
        {
          auth: { path: "./src/auth.ts:none" },
          store: { index: { dims: 2, embed: "./src/embed.ts:none" } },
          http: { app: "./src/app.ts:none" },
        },
        /auth\.path: none is not an Auth object/,
        /store\.index\.embed: none is not a function/,
        /http\.app: none is not a function/,
      ],
      [
        { auth: { path: "./src/broken.ts:auth" }, http: { app: "./src/app.ts:missing" } },
        /auth\.path: broken\.ts cannot be loaded: no such luck/,
        /http\.app: app\.ts has no export missing; it exports/,
      ],
    ];
    for (const [config, ...says] of broken) {
      using folder = project({ graphs, ...config });
      const file = join(folder.path, "greenroom.json");
      const { problems, modules } = readConfig(file);
      const told = [...problems, ...(await loadModules(modules)).problems].join("\n");
      for (const part of says) assert.match(told, part);
      // Below a problem stand the place and the line, with more space in front.
      assert.equal(told.split("\n").filter((line) => !line.startsWith("    ")).length, says.length, told);
    }
  });

  it("is told all at once: its own shape, the files it names and the options, before there is a database", async () => {
    const broken: readonly (readonly [config: object, ...keys: string[]])[] = [
      [{ graphs, nope: 1, checkpointer: { ttl: { strategy: "x" } } }, "nope", "checkpointer.ttl.strategy"],
      [
        { graphs: { a: "./src/agents.ts:absent" }, worker: { concurrency: "x" }, http: { app: "./src/app.ts:none" } },
        "graphs.a",
        "http.app",
        "worker.concurrency",
      ],
      [
        {
          graphs: { "a/b": "./nowhere.ts", c: 5 },
          auth: { path: "./src/auth.ts:none", mode: "custom" },
          limits: { pending: 0 },
        },
        "graphs.a/b",
        "graphs.c",
        "auth.path",
        "limits.pending",
        "graphs",
      ],
      [{ graphs: {}, auth: 5, usage: [], store: null }, "graphs", "auth", "usage", "store"],
    ];
    for (const [config, ...keys] of broken) {
      using folder = project(config);
      await using program = start("server.ts", ["--port", "0"], { cwd: folder.path });
      assert.equal(await program.ended, 1);
      const told = [...program.output().matchAll(/^- greenroom\.json: ([^:]*): /gm)].map(([, key]) => key);
      assert.deepEqual(told.sort(), keys.sort(), program.output());
      assert.equal(existsSync(join(folder.path, ".greenroom")), false);
    }
  });

  it("lets models answer the interrupts of the graphs that it names, and of no other", async () => {
    using folder = project({
      graphs: {
        closed: { path: "./src/agents.ts:asks" },
        open: { path: "./src/agents.ts:asks", mcp: { model_may_answer: true }, a2a: { caller_may_approve: true } },
        graph: { path: "./src/graphs.ts:asks", mcp: { model_may_answer: true } },
      },
    });
    await using program = serve(folder.path);
    const ask = askerOfMcp(fetch, `${await urlOf(program)}/mcp`);
    for (const [name, text] of [
      ["closed", /Only a person can answer/],
      ["open", /^Got yes$/],
      ["graph", /^Got yes$/],
    ] as const) {
      const { result } = await ask("tools/call", { name, arguments: { messages: [] } });
      const again = { name, arguments: { thread_id: threadOf(result), resume: "yes" } };
      assert.match(textOf((await ask("tools/call", again)).result), text);
    }
    const answers: string[] = [];
    for (const name of ["closed", "open"]) {
      const say = askerOfA2a(fetch, await urlOf(program));
      const { id: taskId, contextId } = taskOf(await say(name, "SendMessage", message("Hi")));
      const { error, ...answer } = await say(name, "SendMessage", message("yes", { taskId, contextId }));
      answers.push(error.code === undefined ? answerText(taskOf({ error, ...answer })) : String(error.code));
    }
    assert.deepEqual(answers, ["-32004", "Got yes"]);
    assert.equal(await program.kill("SIGTERM"), 0);
  });

  it("requires answers by id of the graphs that say so, and of no other", async () => {
    const asks = { path: "./src/agents.ts:asks" };
    using folder = project({ graphs: { any: asks, named: { ...asks, resume: "by_id" } } });
    await using program = serve(folder.path);
    const url = await urlOf(program);
    const post = async (path: string, body: object): Promise<{ status: number; text: string }> => {
      const headers = { "content-type": "application/json" };
      const response = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
      return { status: response.status, text: await response.text() };
    };
    for (const [assistant_id, expected] of [
      ["any", 200],
      ["named", 422],
    ] as const) {
      const { thread_id } = JSON.parse((await post("/threads", {})).text) as { thread_id: string };
      const wait = (body: object) => post(`/threads/${thread_id}/runs/wait`, { assistant_id, ...body });
      await wait({ input: {} });
      const { status, text } = await wait({ command: { resume: "yes" } });
      assert.equal(status, expected);
      if (expected === 422) assert.match(text, /takes answers by interrupt id only; open: [0-9a-f]{32}/);
    }
    assert.equal(await program.kill("SIGTERM"), 0);
  });

  it("says of a graph how often a run is tried, how long an attempt may take, and how long it may go on when it is stopped", async () => {
    const settings = { max_attempts: 1, timeout_ms: 300, abandon_ms: 200 };
    const paths = { plain: "./src/agents.ts:sleeps", builder: "./src/graphs.ts:builder", made: "./src/graphs.ts:make" };
    const config = {
      graphs: Object.fromEntries(Object.entries(paths).map(([id, path]) => [id, { path, ...settings }])),
    };
    for (const name of ["greenroom.json", "langgraph.json"]) {
      const made = { ...config.graphs.made, factory: true };
      using folder = project({ graphs: { ...config.graphs, made } }, name);
      const { graphs: entries, file } = readConfig(join(folder.path, name));
      const { executor, problems } = await loadGraphs(entries, file);
      assert.deepEqual(problems, []);
      const infos = executor
        .graphs()
        .map(({ graph_id, max_attempts, timeout_ms, abandon_ms }) => [graph_id, max_attempts, timeout_ms, abandon_ms]);
      assert.deepEqual(
        infos,
        Object.keys(paths).map((id) => [id, 1, 300, 200]),
      );
    }
    using folder = project({
      graphs: {
        ...config.graphs,
        made: { ...config.graphs.made, factory: true },
        once: { path: "./src/agents.ts:rests", max_attempts: 1 },
      },
    });
    interface Run {
      readonly run_id: string;
      readonly thread_id: string;
      readonly status: string;
    }
    const ask = async (url: string, body?: object): Promise<Run> => {
      const response = await fetch(url, body === undefined ? {} : { method: "POST", body: JSON.stringify(body) });
      return (await response.json()) as Run;
    };
    const startRun = (url: string, assistant_id: string): Promise<Run> => {
      const body = { assistant_id, input: { messages: "Hi" }, if_not_exists: "create" };
      return ask(`${url}/threads/${crypto.randomUUID()}/runs`, body);
    };
    const endOf = async (url: string, { thread_id, run_id }: Run): Promise<string> => {
      const at = `${url}/threads/${thread_id}/runs/${run_id}`;
      await (await fetch(`${at}/join`)).text();
      return (await ask(at)).status;
    };
    let cut: Run;
    {
      await using program = start("server.ts", ["--port", "0"], { cwd: folder.path });
      const url = await urlOf(program);
      for (const id of Object.keys(paths)) assert.equal(await endOf(url, await startRun(url, id)), "timeout", id);
      cut = await startRun(url, "once");
      await program.printed(/resting/);
      await program.kill("SIGKILL");
    }
    await using program = start("server.ts", ["--port", "0"], { cwd: folder.path });
    assert.equal(await endOf(await urlOf(program), cut), "error");
    assert.doesNotMatch(program.output(), /resting/);
  });

  it("serves agents that call the server, log and describe themselves, and runs an application's middleware", async () => {
    using folder = project(
      {
        graphs: { calls: { path: "./src/calls.ts:graph", description: "Calls the server" } },
        http: { app: "./src/hono.ts:app", middleware_order: "auth_first" },
        auth: { path: "./src/auth.ts:auth" },
      },
      "langgraph.json",
    );
    await using program = serve(folder.path);
    const url = await urlOf(program);
    await program.printed(/"message":"module loaded".*"at":"start"/);
    assert.doesNotMatch(program.output(), /without effect/);
    const headers = { authorization: "Bearer ann" };
    const ask = async (path: string, body?: object, sent: HeadersInit = headers): Promise<Response> =>
      await fetch(`${url}${path}`, {
        headers: sent,
        ...(body ? { method: "POST", body: JSON.stringify(body) } : {}),
      });
    const { said } = (await (await ask("/runs/wait", { assistant_id: "calls", input: {} })).json()) as { said: string };
    assert.equal((await ask(`/threads/${said}`)).status, 200);
    await program.printed(new RegExp(`"made":"${said}","run_id":"[^"]+","thread_id":"[^"]+"`));
    const assistant = (await (await ask("/assistants/calls")).json()) as { description: string };
    assert.equal(assistant.description, "Calls the server");
    const schemas = (await (await ask("/assistants/calls/schemas")).json()) as { state_schema: { properties: object } };
    assert.deepEqual(Object.keys(schemas.state_schema.properties), ["said"]);
    assert.equal((await ask("/info")).headers.get("x-app"), "mine");
    assert.equal((await ask("/threads", {}, {})).headers.get("x-app"), null);
    assert.equal(await (await ask("/count")).text(), "1");
    assert.equal((await ask("/count", undefined, {})).status, 500);
    assert.equal(await program.kill("SIGTERM"), 0);
  });

  it("is told which settings of a graph cannot be", () => {
    using folder = project({
      graphs: {
        a: {
          path: "./src/agents.ts:seen",
          max_attempts: 0,
          timeout_ms: "1 minute",
          abandon_ms: 1.5,
          factory: 1,
          attempts: 1,
          description: 1,
          resume: "by_name",
          mcp: { model_may_answer: "yes" },
          a2a: { caller_may_aprove: true },
        },
      },
    });
    assert.deepEqual(readConfig(join(folder.path, "greenroom.json")).problems, [
      "graphs.a.max_attempts: must be a whole number from 1 to 1000000000",
      "graphs.a.timeout_ms: must be a whole number from 1 to 2147483647",
      "graphs.a.abandon_ms: must be a whole number from 1 to 2147483647",
      "graphs.a.factory: must be true or false",
      "graphs.a.attempts: unknown key",
      "graphs.a.description: must be a text",
      "graphs.a.resume: must be one of by_id",
      "graphs.a.mcp.model_may_answer: must be true or false",
      "graphs.a.a2a.caller_may_aprove: unknown option; did you mean caller_may_approve?",
    ]);
  });

  it("has the log tell of a workspace or project that nothing had the name of", async () => {
    using folder = project({ graphs, deployment: { workspace: "Support", project: "Bots" } });
    const told = async (env: Record<string, string> = {}): Promise<readonly (readonly string[])[]> => {
      await using program = start("server.ts", ["--port", "0"], { cwd: folder.path, env });
      await urlOf(program);
      const ids = /^Organization \S+, workspace (\S+), project (\S+)$/m.exec(program.output()) ?? [];
      return [...program.output().matchAll(/^\{.*"level":"info".*\}$/gm)].map(([line]) => {
        const { message, name, workspace_id, project_id } = JSON.parse(line) as Record<string, string>;
        assert.equal(workspace_id ?? project_id, workspace_id ? ids[1] : ids[2]);
        return [String(message), String(name)];
      });
    };
    const workspace = "created a workspace: none had the name in deployment.workspace";
    const made = "created a project: none had the name in deployment.project";
    assert.deepEqual(await told(), [
      [workspace, "Support"],
      [made, "Bots"],
    ]);
    assert.deepEqual(await told(), []);
    const place = { workspace: "Support", project: "Bosts" };
    writeFileSync(join(folder.path, "greenroom.json"), JSON.stringify({ graphs, deployment: place }));
    assert.deepEqual(await told(), [[made, "Bosts"]]);
    // Those accounts are in memory.
    assert.deepEqual(await told({ GREENROOM_API_KEYS: "k".repeat(32) }), []);
  });

  it("has its options proven by the service, under their keys in the file", async () => {
    for (const [config, ...says] of [
      [
        {
          auth: { path: "./src/auth.ts:odd" },
          store: { ttl: { default_ttl: 0 }, index: { dims: 0, embed: "./src/embed.ts:embed", model: "x" } },
          checkpointer: { ttl: { strategy: "forget" } },
          crons: { often: true },
          http: {
            cors: { allow_origins: ["app.example"], allow_origin_regex: "(", allow_header: [] },
            configurable_headers: { include: ["x"] },
            disable_threads: "yes",
            disable_everything: true,
          },
        },
        /auth\.path\.on\.threads:fly: there is no such event/,
        /store\.ttl\.default_ttl: must be a number above 0/,
        /store\.index\.dims: must be/,
        /store\.index\.model: unknown option/,
        /checkpointer\.ttl\.strategy: must be one of/,
        /crons\.often: unknown option/,
        /http\.cors\.allow_origins: must be a list of origins/,
        /http\.cors\.allow_origin_regex: is not a valid regular expression/,
        /http\.cors\.allow_header: unknown option/,
        /http\.configurable_headers\.include: unknown option/,
        /http\.disable_threads: must be true or false/,
        /http\.disable_everything: unknown option/,
      ],
      [{ auth: { mode: "api_key", path: "./src/auth.ts:auth" } }, /auth\.mode: must be custom beside auth\.path/],
      [{ auth: { mode: "custom" } }, /auth\.path: mode custom needs it/],
      [{ onRunFinished: "x" }, /onRunFinished: unknown key/],
    ] as readonly (readonly [object, ...RegExp[]])[]) {
      using folder = project({ graphs, ...config });
      await using program = serve(folder.path);
      assert.equal(await program.ended, 1);
      for (const part of says) assert.match(program.output(), part);
      assert.doesNotMatch(program.output(), /^\s+at /m);
    }
  });
});

describe("the log of the stand-alone server", () => {
  it("is a line of JSON for each record where no terminal reads it", async () => {
    using folder = project({ graphs, http: { app: "./src/app.ts:app" } });
    await using program = serve(folder.path);
    const url = await urlOf(program);
    const response = await fetch(`${url}/fails`, { headers: { "x-request-id": "mine", "x-session-token": "canary" } });
    assert.equal(response.status, 500);
    await response.text();
    const [line] = await program.printed(/^\{.*"message":"A request failed".*\}$/m);
    const { time, error, ...record } = JSON.parse(line) as Record<string, unknown>;
    assert.ok(!Number.isNaN(Date.parse(String(time))));
    assert.deepEqual(record, { level: "error", message: "A request failed", method: "GET", request_id: "mine" });
    assert.equal((error as Error).message, "it failed");
    assert.ok(!program.output().includes("canary"));
  });

  it("is text at a terminal, and nothing that the terminal would obey", () => {
    const now = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
    assert.equal(
      formatTextLine(
        { level: "warn", message: "a lease was not renewed", run_id: "r", tries: 2, gone: undefined },
        now,
      ),
      "03:04:05.678 warn a lease was not renewed run_id=r tries=2",
    );
    assert.equal(
      formatTextLine({ level: "warn", message: "webhook delivery failed", status: 500, error: "bad_status" }, now),
      "03:04:05.678 warn webhook delivery failed status=500 error=bad_status",
    );
    const error = Object.assign(new Error("no"), { stack: "Error: no\u001b[2J\n    at x" });
    assert.equal(
      formatTextLine({ level: "error", message: "failed", thread_id: "a\r\nb", error }, now),
      "03:04:05.678 error failed thread_id=a\\x0d\\x0ab\n  Error: no\\x1b[2J\n      at x",
    );
  });
});

describe("docs/reference/configuration.md", () => {
  it("names every option that there is", async () => {
    const text = readFileSync(join(root, "docs/reference/configuration.md"), "utf8");
    const { listOptionKeys: optionKeys } = await import("../../../lib/options.ts");
    for (const key of optionKeys()) assert.ok(text.includes(`\`${key}\``), key);
    for (const key of ["auth.path", "http.app", "onRunFinished"]) assert.ok(text.includes(`\`${key}\``), key);
  });
});
