import assert from "node:assert/strict";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Client } from "@langchain/langgraph-sdk";
import { createTemporaryFolder, type Program, root, start, waitForUrl } from "../../support/programs.ts";

const agents = `
export async function* writer({ messages }) {
  for (const word of ["You ", "have ", "said ", String(messages.filter((m) => m.type === "human").length)]) yield word;
}
export function plain({ messages, context }) {
  return \`\${context.greeting ?? "Hello"}, \${messages.length}\`;
}
export const nothing = 5;
export async function* home() {
  yield process.env.FROM_ENV ?? "unset";
}
`;

const madeSource = `
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
const saying = (place) =>
  new StateGraph(MessagesAnnotation).addNode("say", () => ({ messages: [{ type: "ai", content: place }] })).addEdge(START, "say");
export const builder = saying("Nowhere");
export const make = (config) => saying(config.configurable.place).compile();
`;

/** Creates a folder with a configuration and its agents. */
function createProject(config: unknown, name = "greenroom.json"): ReturnType<typeof createTemporaryFolder> {
  const folder = createTemporaryFolder();
  mkdirSync(join(folder.path, "src"));
  writeFileSync(join(folder.path, "src/agents.ts"), agents);
  writeFileSync(join(folder.path, name), typeof config === "string" ? config : JSON.stringify(config));
  return folder;
}

const graphs = { writer: "./src/agents.ts:writer", plain: "./src/agents.ts:plain" };
const serve = (cwd: string, args: readonly string[] = [], env: Record<string, string> = {}): Program =>
  start("server.ts", ["--port", "0", ...args], { cwd, env });
const human = (content: string): Record<string, unknown> => ({ messages: [{ role: "user", content }] });
const contents = (values: unknown): string[] =>
  (values as { messages: { content: string }[] }).messages.map(({ content }) => content);

/** Sets headers that fetch does not let a caller set. */
const statusFor = (url: string, headers: Record<string, string>): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const pendingRequest = request(url, { headers }, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode));
    });
    pendingRequest.on("error", reject);
    pendingRequest.end();
  });

describe("the stand-alone server", () => {
  it("is killed, and continues the conversation after a restart", async () => {
    using folder = createProject({ graphs });
    const first = serve(folder.path);
    let assistant_id: string;
    let thread_id: string;
    {
      await using program = first;
      const url = await waitForUrl(program);
      assert.deepEqual(await (await fetch(`${url}/ok`)).json(), {
        ok: true,
        services: { worker: { ok: true }, database: { ok: true } },
      });
      assert.equal(
        (await (await fetch(`${url}/info`)).json()).version,
        JSON.parse(readFileSync(join(root, "package.json"), "utf8")).version,
      );
      const page = await fetch(`${url}/`);
      assert.equal(page.url, `${url}/studio/`);
      assert.match(await page.text(), /<title>Greenroom Studio<\/title>/);

      const client = new Client({ apiUrl: url });
      const created = await client.assistants.create({ graphId: "plain", context: { greeting: "One" } });
      assistant_id = created.assistant_id;
      await client.assistants.update(assistant_id, { context: { greeting: "Two" } });
      ({ thread_id } = await client.threads.create());
      const tokens: string[] = [];
      const input = human("first");
      for await (const { event, data } of client.runs.stream(thread_id, "writer", {
        input,
        streamMode: "messages-tuple",
      })) {
        if (event === "messages") tokens.push(String(data[0].content));
      }
      assert.deepEqual(tokens.filter(Boolean), ["You ", "have ", "said ", "1"]);
      assert.equal(await program.kill("SIGKILL"), "SIGKILL");
    }
    await using program = serve(folder.path);
    const client = new Client({ apiUrl: await waitForUrl(program) });
    const assistant = await client.assistants.get(assistant_id);
    assert.deepEqual([assistant.version, assistant.context], [2, { greeting: "Two" }]);
    const state = await client.threads.getState(thread_id);
    assert.deepEqual(contents(state.values), ["first", "You have said 1"]);
    assert.deepEqual(contents(await client.runs.wait(thread_id, "writer", { input: human("second") })), [
      "first",
      "You have said 1",
      "second",
      "You have said 2",
    ]);
    assert.equal(contents(await client.runs.wait(thread_id, assistant_id, { input: human("third") })).at(-1), "Two, 5");
  });

  it("stops on SIGTERM and SIGINT with exit code 0", async () => {
    using folder = createProject({ graphs });
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      await using program = serve(folder.path);
      const url = await waitForUrl(program);
      await (await fetch(`${url}/ok`)).text();
      assert.equal(await program.kill(signal), 0);
      await assert.rejects(fetch(`${url}/ok`));
    }
  });

  it("accepts the host names of this machine only, and sends no CORS headers to a foreign page", async () => {
    using folder = createProject({
      graphs,
      http: { cors: { allow_origins: ["https://app.example"] }, disable_webhooks: true },
    });
    await using program = serve(folder.path);
    const url = await waitForUrl(program);
    assert.equal(await statusFor(`${url}/ok`, { host: "evil.example" }), 421);
    assert.equal(await statusFor(`${url}/ok`, { host: `localhost:${new URL(url).port}` }), 200);
    const allowed = async (origin: string): Promise<string | null> =>
      (await fetch(`${url}/ok`, { headers: { origin } })).headers.get("access-control-allow-origin");
    assert.equal(await allowed("https://evil.example"), null);
    assert.equal(await allowed("https://app.example"), "https://app.example");
    assert.equal(await allowed("http://localhost:3000"), "http://localhost:3000");
  });

  it("reads variables if a flag is missing", async () => {
    using folder = createProject({ graphs }, "other.json");
    const env = {
      GREENROOM_CONFIG: "other.json",
      GREENROOM_DATABASE: "data/agents.db",
      GREENROOM_WORKERS: "2",
      GREENROOM_HOST: "localhost",
      GREENROOM_PORT: "0",
      GREENROOM_GRACE_MS: "2500",
    };
    await using program = start("server.ts", [], { cwd: folder.path, env });
    assert.match(await waitForUrl(program), /^http:\/\/localhost:\d+$/);
    assert.ok(readFileSync(join(folder.path, "data/agents.db")).length > 0);
    assert.equal(await program.kill("SIGTERM"), 0);
    assert.match(program.output(), /^Stopping: active runs have 2500 ms to end/m);
  });

  it("rejects a port that is in use", async () => {
    using folder = createProject({ graphs });
    const otherServer = createServer();
    await new Promise<void>((resolve) => otherServer.listen(0, "127.0.0.1", resolve));
    try {
      const { port } = otherServer.address() as { port: number };
      await using program = start("server.ts", ["--port", String(port)], { cwd: folder.path });
      assert.equal(await program.ended, 1);
      assert.match(program.output(), new RegExp(`Port ${port} is in use\\. Choose another`));
    } finally {
      await new Promise((resolve) => otherServer.close(resolve));
    }
  });

  it("chooses the next free port and reports it", async () => {
    using folder = createProject({ graphs });
    await using server = start("server.ts", ["--database", ":memory:"], { cwd: folder.path });
    const first = Number(new URL(await waitForUrl(server)).port);
    await using two = start("server.ts", ["--database", ":memory:"], { cwd: folder.path });
    const second = Number(new URL(await waitForUrl(two)).port);
    assert.ok(first >= 2024 && second > first, `${first}, ${second}`);
    assert.match(two.output(), new RegExp(`Port 2024 is taken, using ${second}`));
  });

  it("prints its help and its version, and suggests a similar command", async () => {
    using folder = createTemporaryFolder();
    const says = async (args: readonly string[], code: number): Promise<string> => {
      await using program = start("server.ts", args, { cwd: folder.path, env: { GREENROOM_PORT: "none" } });
      assert.equal(await program.ended, code, program.output());
      return program.output();
    };
    for (const args of [["-h"], ["--help"], ["help"]]) assert.match(await says(args, 0), /^greenroom: serve agents/);
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    for (const args of [["-v"], ["--version"], ["version"]]) assert.equal(await says(args, 0), `${version}\n`);
    assert.match(await says(["help", "keys"], 0), /^greenroom keys create /);
    assert.match(await says(["help", "kesy"], 1), /^greenroom: help: no such command kesy; did you mean keys\?\n$/);
    assert.match(await says(["keyz"], 1), /keyz: no such command; did you mean keys\?$/m);
    assert.match(await says(["keys", "craete"], 1), /^greenroom: keys: no command craete; did you mean create\?$/m);
    assert.match(await says(["keys", "create", "--usr=ann"], 1), /--usr: unknown option; did you mean --user\?\n$/);
    const mistyped = await says(["--prot", "1", "--elsewhere"], 1);
    assert.match(mistyped, /--prot: unknown option; did you mean --port\?$/m);
    assert.match(mistyped, /--elsewhere: unknown option; see --help$/m);
    // What was meant as a value is no other problem.
    assert.match(mistyped, /^greenroom: 3 problems:/);
  });

  it("names every invalid option", async () => {
    using folder = createProject({ graphs });
    const args = ["--prot=1", "--workers", "many", "--grace-ms", "soon", "--database", "mysql://db/x"];
    await using program = start("server.ts", args, { cwd: folder.path, env: { GREENROOM_PORT: "70000" } });
    assert.equal(await program.ended, 1);
    for (const part of [
      /--prot: unknown option/,
      /--workers: many/,
      /--grace-ms: soon/,
      /--database: no driver for mysql: databases/,
      /GREENROOM_PORT: 70000/,
    ]) {
      assert.match(program.output(), part);
    }
  });

  it("names the variable or the flag, whichever was set", async () => {
    using folder = createProject({ graphs });
    mkdirSync(join(folder.path, "adir"));
    const cases: readonly (readonly [option: string, value: string, says: RegExp])[] = [
      ["host", "0.0.0.0", /: the server has no authentication/],
      ["database", "adir", /: Cannot use the database adir: /],
      ["database", "mysql://db/x", /: no driver for mysql: /],
      ["public-base-url", "nowhere", /: must be an absolute http or https URL/],
    ];
    for (const [option, optionValue, says] of cases) {
      const variable = `GREENROOM_${option.toUpperCase().replaceAll("-", "_")}`;
      const ways: readonly (readonly [setting: string, args: readonly string[], env: Record<string, string>])[] = [
        [`--${option}`, [`--${option}`, optionValue], { [variable]: "" }],
        [variable, [], { [variable]: optionValue }],
      ];
      for (const [setting, args, env] of ways) {
        await using program = serve(folder.path, args, env);
        assert.equal(await program.ended, 1);
        assert.ok(program.output().startsWith(`greenroom: ${setting}: `), program.output());
        assert.match(program.output(), says);
        assert.doesNotMatch(program.output(), /^\s+at /m);
      }
    }
    for (const command of [
      ["keys", "list"],
      ["backup", "copy.db"],
    ]) {
      await using program = start("server.ts", command, { cwd: folder.path, env: { GREENROOM_DATABASE: "adir" } });
      assert.equal(await program.ended, 1);
      assert.match(program.output(), /^greenroom: GREENROOM_DATABASE: /);
    }
  });

  it("reports an unreachable libSQL server in one line, without a token", async () => {
    using folder = createProject({ graphs });
    const secret = "s3cret-w0rd";
    const unreachable =
      /Cannot use the database server \S+127\.0\.0\.1:9\S* \(.*\): check the address and that the server runs\.$/m;
    const cases: readonly (readonly [url: string, env: Record<string, string>, says: RegExp])[] = [
      ["http://127.0.0.1:9", { GREENROOM_DATABASE_TOKEN: secret }, unreachable],
      ["libsql://127.0.0.1:9?tls=0", {}, unreachable],
      [`ws://127.0.0.1:9?authToken=${secret}`, {}, unreachable],
      [
        `http://ann:${secret}@127.0.0.1:9`,
        {},
        /--database: contains a user name or password. .*GREENROOM_DATABASE_TOKEN/,
      ],
      ["http://127.0.0.1:9", { GREENROOM_DATABASE_TOKEN: `${secret} ` }, /^greenroom: GREENROOM_DATABASE_TOKEN: /],
    ];
    for (const [url, env, says] of cases) {
      for (const args of [[], ["keys", "list"]]) {
        await using program = start("server.ts", [...args, "--database", url], { cwd: folder.path, env });
        assert.equal(await program.ended, 1);
        assert.match(program.output(), says);
        assert.match(program.output(), /^greenroom: (?:--database|GREENROOM_DATABASE_TOKEN): [^\n]*\n$/);
        assert.ok(!program.output().includes(secret), program.output());
      }
    }
  });

  it("names every unknown key", async () => {
    const broken: readonly (readonly [config: unknown, ...says: RegExp[]])[] = [
      [
        {
          graphs: {
            a: "./missing.ts:a",
            b: "./src/agents.py:b",
            c: 5,
            d: { path: "./src/agents.ts:plain", kind: "x" },
          },
          graph: {},
        },
        /graphs\.a: no such file/,
        /graphs\.b: Python/,
        /graphs\.c: not of the form/,
        /graphs\.d\.kind: unknown key/,
        /graph: unknown key/,
      ],
      [
        {
          graphs,
          worker: { concurency: 4 },
          retention: { frames: 1 },
          auth: { mod: "none" },
          webhooks: { heders: {} },
        },
        /worker\.concurency: unknown option/,
        /retention\.frames: unknown option/,
        /auth\.mod: unknown option/,
        /webhooks\.heders: .*unknown_option/,
      ],
      [{ graphs: {} }, /graphs: no graph/],
      [
        {
          graphs,
          worker: { concurrency: "many", lease_ms: 1, run_timeout_ms: 0 },
          limits: { pending_per_thread: 0, pending: 1.5 },
          retention: { frames_ms: -1, stateless_ms: null, idempotency_ms: "1 day" },
        },
        /worker\.concurrency: must be a whole number from 0 to 10000/,
        /worker\.lease_ms: must be a whole number from 1000 /,
        /worker\.run_timeout_ms: must be/,
        /limits\.pending_per_thread: must be/,
        /limits\.pending: must be/,
        /retention\.frames_ms: must be/,
        /retention\.stateless_ms: must be/,
        /retention\.idempotency_ms: must be/,
      ],
      [{ graphs, limits: 5 }, /limits: must be an object/],
      [
        { graphs: { a: "./src/agents.ts:absent", b: "./src/agents.ts:nothing" } },
        /graphs\.a: agents\.ts has no export absent/,
        /graphs\.b: nothing is neither/,
      ],
      ["{", /cannot be read as JSON/],
    ];
    for (const [config, ...says] of broken) {
      using folder = createProject(config);
      await using program = serve(folder.path, ["--database", ":memory:"]);
      assert.equal(await program.ended, 1);
      for (const part of says) assert.match(program.output(), part);
      assert.doesNotMatch(program.output(), /^\s+at /m);
    }
    using empty = createTemporaryFolder();
    await using program = serve(empty.path);
    assert.equal(await program.ended, 1);
    assert.match(program.output(), /No greenroom\.json, greenroom\.config\.ts or langgraph\.json/);
    const least = /\{"graphs".*\}/.exec(program.output())?.[0] ?? "";
    assert.deepEqual(JSON.parse(least), { graphs: { agent: "./agent.ts:agent" } });
  });

  it("reads graphs, factories and env of a langgraph.json; it names the other keys", async () => {
    using folder = createProject(
      {
        node_version: "22",
        dependencies: ["."],
        env: "./settings.env",
        auth: { openapi: {} },
        ui: {},
        graphs: {
          home: "./src/agents.ts:home",
          approval: { path: "./src/approval.ts:graph" },
          made: "./src/made.ts:make",
          builder: "./src/made.ts:builder",
        },
      },
      "langgraph.json",
    );
    writeFileSync(join(folder.path, "settings.env"), "FROM_ENV=file\n");
    writeFileSync(join(folder.path, "src/made.ts"), madeSource);
    for (const file of ["approval.ts", "model.ts"])
      cpSync(join(root, "examples/demo", file), join(folder.path, "src", file));
    // The user's own installation, beside the configuration.
    symlinkSync(join(root, "node_modules"), join(folder.path, "node_modules"), "junction");
    await using program = serve(folder.path, ["--database", ":memory:"]);
    const client = new Client({ apiUrl: await waitForUrl(program) });
    assert.match(
      program.output(),
      /"message":"unsupported keys without effect: auth\.openapi, ui","file":"langgraph\.json"/,
    );
    assert.equal(contents(await client.runs.wait(null, "home", { input: human("?") })).at(-1), "file");
    const config = { configurable: { place: "Here" } };
    assert.equal(contents(await client.runs.wait(null, "made", { input: human("?"), config })).at(-1), "Here");
    assert.equal(contents(await client.runs.wait(null, "builder", { input: human("?") })).at(-1), "Nowhere");
    const { thread_id } = await client.threads.create();
    await client.runs.wait(thread_id, "approval", { input: human("Please refund 7 euros") });
    const { tasks } = await client.threads.getState(thread_id);
    assert.deepEqual(tasks[0]?.interrupts[0]?.value, { question: "Refund 7 euros?", answers: ["yes", "no"] });
    const result = await client.runs.wait(thread_id, "approval", { command: { resume: "yes" } });
    assert.equal(contents(result).at(-1), "Done: 7 euros are on their way.");
  });

  it("hosts a factory of a greenroom.json, and TypeScript that Node cannot strip", async () => {
    using folder = createProject({
      graphs: { made: { path: "./src/made.ts:make", factory: true }, modern: "./src/modern.ts:modern" },
    });
    writeFileSync(join(folder.path, "src/made.ts"), madeSource);
    const modern = 'enum Word { Yes = "yes" }\nexport async function* modern() { yield Word.Yes; }\n';
    writeFileSync(join(folder.path, "src/modern.ts"), modern);
    symlinkSync(join(root, "node_modules"), join(folder.path, "node_modules"), "junction");
    await using program = serve(folder.path, ["--database", ":memory:"]);
    const client = new Client({ apiUrl: await waitForUrl(program) });
    const config = { configurable: { place: "Here" } };
    assert.equal(contents(await client.runs.wait(null, "made", { input: human("?"), config })).at(-1), "Here");
    assert.equal(contents(await client.runs.wait(null, "modern", { input: human("?") })).at(-1), "yes");
  });
});
