/** Checks the settings that the stand-alone server reads from its configuration file, and from the files that this names. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readConfig } from "../../../adapters/standalone/config.ts";
import { loadModules, loadSinks } from "../../../adapters/standalone/modules.ts";
import { root, start, waitForUrl } from "../../support/programs.ts";
import { createProject, FILES, graphs, serve } from "./config.harness.ts";

describe("a configuration file", () => {
  it("may insert variables with LangGraph's prefix into webhooks, if it is a langgraph.json", async () => {
    const variables = { LG_WEBHOOK_TOKEN: "a", SERVICE_WEBHOOK_TOKEN: "b", MY_TOKEN: "c" };
    const config = (name: string, webhooks: object = {}) => ({
      graphs,
      env: variables,
      webhooks: { headers: { authorization: `Bearer \${{ env.${name} }}` }, ...webhooks },
    });
    const outcome = async (file: string, content: object): Promise<string> => {
      using folder = createProject(content, file);
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
    using folder = createProject({
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
    const url = await waitForUrl(program);
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
    const answerContent = JSON.parse(
      (JSON.parse(values) as { messages: { content: string }[] }).messages.at(-1)?.content ?? "",
    );
    assert.deepEqual(
      [answerContent.configurable["x-locale"], answerContent.configurable["x-other"]],
      ["de", undefined],
    );
    assert.deepEqual(
      [answerContent.configurable.tone, answerContent.configurable.langgraph_auth_user_id],
      ["kind", "ann"],
    );
    assert.equal(answerContent.user.identity, "ann");
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
    const [status, foundItems] = await ask("/store/items/search", { method: "POST", body, headers: ann });
    assert.equal(status, 200, foundItems);
    assert.equal((JSON.parse(foundItems) as { items: { key: string }[] }).items[0]?.key, "long");
  });

  it("takes the exporter of traces as a switch, or with content", () => {
    const read = (otel: unknown) => {
      using folder = createProject({ graphs, traces: { content: "all", otel } });
      return readConfig(join(folder.path, "greenroom.json"));
    };
    for (const [otel, expected] of [
      [true, true],
      [false, false],
      [{}, { content: false }],
      [{ content: true }, { content: true }],
    ] as const) {
      const config = read(otel);
      assert.deepEqual([config.otel, config.problems, config.service.traces], [expected, [], { content: "all" }]);
    }
    for (const wrong of ["yes", null, [], { contents: true }, { content: 1 }])
      assert.deepEqual(read(wrong).problems, ['traces.otel: must be true, false or { "content": true }']);
  });

  it("takes redact and the sinks of traces from files", async () => {
    const source =
      "export const redact = () => undefined;\nexport const sink = { onSpanEnded() {} };\nexport const no = 1;\n";
    const createConfig = (traces: object) => {
      const folder = createProject({ graphs, traces });
      writeFileSync(join(folder.path, "src/traces.ts"), source);
      return { folder, config: readConfig(join(folder.path, "greenroom.json")) };
    };
    const path = (name: string): string => `./src/traces.ts:${name}`;
    const { folder, config } = createConfig({
      content: "all",
      redact: path("redact"),
      sinks: [path("sink"), path("no")],
    });
    using _folder = folder;
    assert.deepEqual([config.problems, config.service.traces], [[], { content: "all" }]);
    const { modules, problems } = await loadModules(config.modules);
    assert.deepEqual([typeof modules["traces.redact"], problems], ["function", []]);
    const loaded = await loadSinks(config.sinks);
    assert.deepEqual(loaded.problems, ["traces.sinks.1: no is not an object with onSpanStarted or onSpanEnded"]);
    assert.deepEqual(
      loaded.sinks.map((sink) => Object.keys(sink)),
      [["onSpanEnded"]],
    );
    const wrong = createConfig({ sinks: ["x"], redact: 1 });
    using _wrong = wrong.folder;
    assert.deepEqual(wrong.config.problems, [
      'traces.redact: not of the form "./file.ts:export"',
      'traces.sinks.0: not of the form "./file.ts:export"',
    ]);
  });

  it("is read as a langgraph.json by its content, whatever its name is", async () => {
    const graphSettings = { made: "./src/graphs.ts:make" };
    const isLangGraph = (name: string, content: object): boolean => {
      using folder = createProject({ graphs: graphSettings, ...content }, name);
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
    using folder = createProject(
      { graphs: graphSettings, dependencies: ["."], dockerfile_lines: [], ui: {} },
      "langgraph.prod.json",
    );
    const { unsupported, problems } = readConfig(join(folder.path, "langgraph.prod.json"));
    assert.deepEqual([unsupported, problems], [["dockerfile_lines", "ui"], []]);
  });

  it("accepts the same as langgraph.json, also an Auth object of the SDK, and names keys without effect", async () => {
    using folder = createProject(
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
    const url = await waitForUrl(program);
    assert.match(
      program.output(),
      /"unsupported keys without effect: dockerfile_lines, auth\.openapi, checkpointer\.serde, http\.mount_prefix, ui","file":"langgraph\.json"/,
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
      using folder = createProject({ graphs, ...config });
      const file = join(folder.path, "greenroom.json");
      const { problems, modules } = readConfig(file);
      const problemText = [...problems, ...(await loadModules(modules)).problems].join("\n");
      for (const part of says) assert.match(problemText, part);
      // Below a problem stand the place and the line, with more space in front.
      assert.equal(problemText.split("\n").filter((line) => !line.startsWith("    ")).length, says.length, problemText);
    }
  });

  it("lists all problems at once: its shape, the files that it names and the options, before a database is opened", async () => {
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
      using folder = createProject(config);
      await using program = start("server.ts", ["--port", "0"], { cwd: folder.path });
      assert.equal(await program.ended, 1);
      const problemKeys = [...program.output().matchAll(/^- greenroom\.json: ([^:]*): /gm)].map(([, key]) => key);
      assert.deepEqual(problemKeys.sort(), keys.sort(), program.output());
      assert.equal(existsSync(join(folder.path, ".greenroom")), false);
    }
  });
});

describe("docs/reference/configuration.md", () => {
  it("names every option", async () => {
    const text = readFileSync(join(root, "docs/reference/configuration.md"), "utf8");
    const { listOptionKeys: optionKeys } = await import("../../../lib/options.ts");
    for (const key of optionKeys()) assert.ok(text.includes(`\`${key}\``), key);
    for (const key of ["auth.path", "http.app", "onRunFinished"]) assert.ok(text.includes(`\`${key}\``), key);
  });
});
