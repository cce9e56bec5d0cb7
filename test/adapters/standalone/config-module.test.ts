/** A configuration in code: `greenroom.config.ts`, as the server, `greenroom dev` and the account commands load it. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readConfigModule } from "../../../adapters/standalone/config-module.ts";
import { ConfigError } from "../../../lib/mod.ts";
import { createTemporaryFolder, type Program, root, start, waitForUrl } from "../../support/programs.ts";

/** The module of a checkout that `greenroom/app` exports: a temporary folder has no package. */
const IMPORT = `import { defineConfig } from ${JSON.stringify(join(root, "adapters/define-config.ts"))};\n`;

/** Creates a folder with these files, in which packages of this checkout are found. */
function createProject(files: Readonly<Record<string, string>>): ReturnType<typeof createTemporaryFolder> {
  const folder = createTemporaryFolder();
  for (const [name, text] of Object.entries({ "package.json": '{ "type": "module" }', ...files }))
    writeFileSync(join(folder.path, name), text);
  symlinkSync(join(root, "node_modules"), join(folder.path, "node_modules"), "junction");
  return folder;
}

const serve = (cwd: string, ...args: readonly string[]): Program =>
  start("server.ts", [...args, "--port", "0", "--log-level", "error"], { cwd });

async function post(url: string, body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<unknown> {
  const response = await fetch(url, { method: "POST", body: JSON.stringify(body), headers });
  assert.equal(response.status, 200, url);
  return await response.json();
}

const SHOUT = "export const shout = (text: string): string => text.toUpperCase();\n";
const CONFIG = `${IMPORT}
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { shout } from "./shout.ts";

enum Greeting { Hello = "hello" }
const graph = new StateGraph(Annotation.Root({ topic: Annotation<string>() }))
  .addNode("write", ({ topic }) => ({ topic: shout(topic) }))
  .addEdge(START, "write");

export default defineConfig({
  agents: {
    echo: ({ messages }) => shout(\`\${Greeting.Hello} \${process.env.TONE} \${messages.at(-1)?.content}\`),
    graph,
    made: { graph: () => graph.compile(), max_attempts: 1 },
  },
  database: ":memory:",
  env: { TONE: "kind" },
  auth: { custom: { authenticate: () => "ann" } },
  limits: { pending: 7 },
  http: { app: { fetch: () => new Response("mine") } },
  store: { index: { dims: 2, embed: async (texts) => texts.map((text) => [text.length, 1]) } },
});
`;

describe("greenroom.config.ts", () => {
  it("is served with its functions, graphs, routes, variables, authentication and database", async () => {
    using folder = createProject({ "greenroom.config.ts": CONFIG, "shout.ts": SHOUT });
    await using program = serve(folder.path);
    const url = await waitForUrl(program);
    assert.match(program.output(), /^Graphs: echo, graph, made \(greenroom\.config\.ts\)$/m);
    assert.match(program.output(), /^Database: :memory:$/m);
    assert.equal(existsSync(join(folder.path, ".greenroom")), false);
    const input = { messages: [{ role: "user", content: "Hi" }] };
    const { messages } = (await post(`${url}/runs/wait`, { assistant_id: "echo", input })) as {
      messages: { content: string }[];
    };
    assert.equal(messages.at(-1)?.content, "HELLO KIND HI");
    for (const assistant_id of ["graph", "made"])
      assert.deepEqual(await post(`${url}/runs/wait`, { assistant_id, input: { topic: "cats" } }), { topic: "CATS" });
    assert.equal(await (await fetch(`${url}/mine`)).text(), "mine");
    const search = { namespace_prefix: [], query: "x" };
    assert.deepEqual(await post(`${url}/store/items/search`, search), { items: [] });
  });

  it("serves an agent of agent() with the settings beside it in place of its own", async () => {
    const config = `${IMPORT}
import { agent } from ${JSON.stringify(join(root, "lib/mod.ts"))};
import { z } from "zod";

const refund = agent(
  { input: z.object({ cents: z.number() }), description: "Refunds", max_attempts: 3 },
  ({ input, attempt }) => {
    if (input.cents === 0) throw new Error("failed in attempt " + attempt);
    return { paid: input.cents };
  },
);
export default defineConfig({
  agents: { refund: { agent: refund, description: "Pays back", max_attempts: 1 } },
  database: ":memory:",
});
`;
    using folder = createProject({ "greenroom.config.ts": config });
    await using program = serve(folder.path);
    const url = await waitForUrl(program);
    const [assistant] = (await post(`${url}/assistants/search`, {})) as readonly { readonly description: string }[];
    assert.equal(assistant?.description, "Pays back");
    const run = { assistant_id: "refund" };
    assert.deepEqual(await post(`${url}/runs/wait`, { ...run, input: { cents: 5 } }), { paid: 5 });
    const failed = await post(`${url}/runs/wait`, { ...run, input: { cents: 0 } });
    assert.deepEqual(failed, { __error__: { error: "Error", message: "failed in attempt 1" } });
    const body = JSON.stringify({ ...run, input: { cents: "5" } });
    const refused = await fetch(`${url}/runs/wait`, { method: "POST", body });
    assert.equal(refused.status, 422);
    const { detail } = (await refused.json()) as { readonly detail: readonly { readonly loc: readonly string[] }[] };
    assert.deepEqual(
      detail.map(({ loc }) => loc.join(".")),
      ["body.input.cents"],
    );
  });

  it("gives way to the flag that names a database", async () => {
    using folder = createProject({ "greenroom.config.ts": CONFIG, "shout.ts": SHOUT });
    await using program = serve(folder.path, "--database", "flag.db");
    await waitForUrl(program);
    assert.match(program.output(), /^Database: flag\.db$/m);
  });

  it("takes precedence over a langgraph.json", async () => {
    using folder = createProject({
      "greenroom.config.ts": 'export default { agents: { own: () => "x" }, database: ":memory:" };\n',
      "langgraph.json": '{ "graphs": { "other": "./none.ts" } }',
    });
    await using program = serve(folder.path);
    await waitForUrl(program);
    assert.match(program.output(), /^Graphs: own \(greenroom\.config\.ts\)$/m);
  });

  it("reports every problem with the name of the file and the key", async () => {
    using folder = createProject({
      "greenroom.config.ts": `export default {
        agents: { a: { agent: () => "x", max_atempts: 1 }, b: "agent.ts" },
        graphs: { a: "./a.ts" },
        limit: { pending: 1 },
        limits: { pendnig: 3 },
        auth: { path: "./auth.ts" },
        database: "mysql://host",
        env: 5,
        http: { app: 5, disable_thread: true },
        webhooks: { loopback: () => {} },
        worker: 4,
      };\n`,
    });
    await using program = serve(folder.path);
    assert.equal(await program.ended, 1);
    const problems = program
      .output()
      .split("\n")
      .flatMap((line) => /(greenroom\.config\.ts: .*)/.exec(line)?.[1] ?? []);
    const expected = [
      /^greenroom\.config\.ts: agents\.a\.max_atempts: unknown option; did you mean max_attempts\?$/,
      /^greenroom\.config\.ts: agents\.b: is neither a function nor a LangGraph\.js graph/,
      /^greenroom\.config\.ts: graphs: only a greenroom\.json has it\. Use agents$/,
      /^greenroom\.config\.ts: limit: unknown key; did you mean limits\?$/,
      /^greenroom\.config\.ts: limits\.pendnig: unknown option; did you mean pending\?$/,
      /^greenroom\.config\.ts: auth\.path: only a greenroom\.json has it\. Use auth\.custom$/,
      /^greenroom\.config\.ts: database: /,
      /^greenroom\.config\.ts: env: neither a file name nor an object of texts$/,
      /^greenroom\.config\.ts: http\.app: neither a function nor an object with fetch$/,
      /^greenroom\.config\.ts: http\.disable_thread: unknown option/,
      /^greenroom\.config\.ts: webhooks\.loopback: the server sets it$/,
      /^greenroom\.config\.ts: worker: must be an object$/,
    ];
    for (const pattern of expected)
      assert.equal(problems.filter((problem) => pattern.test(problem)).length, 1, `${pattern}\n${problems.join("\n")}`);
    assert.equal(problems.length, expected.length, problems.join("\n"));
  });

  it("accepts every key of a greenroom.json but graphs", async () => {
    const schema = JSON.parse(readFileSync(join(root, "greenroom.schema.json"), "utf8")) as { properties: object };
    const keys = Object.keys(schema.properties).filter((key) => key !== "graphs");
    assert.ok(keys.length > 15, keys.join());
    const members = keys.map((key) => `${JSON.stringify(key)}: {}`);
    using folder = createProject({ "greenroom.config.ts": `export default { ${members}, agents: {} };\n` });
    const { problems, service } = await readConfigModule(join(folder.path, "greenroom.config.ts"));
    assert.deepEqual(problems, []);
    assert.deepEqual(
      keys.filter((key) => key in service),
      keys.filter((key) => !["$schema", "env", "dependencies", "node_version"].includes(key)),
    );
  });

  const UNUSABLE: readonly (readonly [content: string, code: string, problem: RegExp])[] = [
    [
      "no default export",
      "export const config = {};\n",
      /has no export default; it exports config\. Write export default/,
    ],
    ["a function", "export default () => ({});\n", /the default export is a function, and no configuration\. Write/],
    ["a list", "export default [1];\n", /the default export is \[1\], and no configuration\. Write/],
    ["null", "export default null;\n", /the default export is null, and no configuration\. Write/],
    ["an error", '\nthrow new Error("no key");\n', /cannot be loaded: no key\n {4}at .*greenroom\.config\.ts:2/],
    ["a missing import", 'import "./nowhere.ts";\nexport default {};\n', /cannot be loaded: .*nowhere/],
    ["no TypeScript", "export default {{;\n", /cannot be loaded: /],
  ];
  for (const [content, code, problem] of UNUSABLE) {
    it(`is refused with its name if it has ${content}`, async () => {
      using folder = createProject({ "greenroom.config.ts": code });
      await assert.rejects(readConfigModule(join(folder.path, "greenroom.config.ts")), (error: unknown) => {
        assert.ok(error instanceof ConfigError);
        assert.match(error.problems[0] ?? "", /^greenroom\.config\.ts/);
        assert.match(error.problems[0] ?? "", problem);
        return error.problems.length === 1;
      });
    });
  }

  it("is refused if it does not exist", async () => {
    await assert.rejects(readConfigModule("/nowhere/greenroom.config.ts"), /greenroom\.config\.ts: no such file/);
  });

  it("is refused beside a greenroom.json, also by the commands and when one of them is named", async () => {
    using folder = createProject({
      "greenroom.config.ts": 'export default { agents: { a: () => "x" } };\n',
      "greenroom.json": '{ "graphs": { "a": "./a.ts" } }',
    });
    const expected = /greenroom\.json and greenroom\.config\.ts are both in (?:this folder|\S+): remove one of them/;
    const commands = [[], ["dev", "--no-open"], ["--config", join(folder.path, "greenroom.json")], ["keys", "list"]];
    for (const args of commands) {
      await using program = start("server.ts", args, { cwd: folder.path });
      assert.equal(await program.ended, 1, program.output());
      assert.match(program.output(), expected);
      assert.doesNotMatch(program.output(), /^ {4}at /m);
    }
  });

  it("names the database and the prefix of keys of the account commands", async () => {
    using folder = createProject({
      "greenroom.config.ts":
        'export default { agents: { a: () => "x" }, database: "own.db", auth: { key_prefix: "acme" } };\n',
    });
    await using created = start("server.ts", ["keys", "create"], { cwd: folder.path });
    assert.equal(await created.ended, 0, created.output());
    assert.match(created.output(), /^acme_sk_/m);
    assert.ok(existsSync(join(folder.path, "own.db")));
    assert.equal(existsSync(join(folder.path, ".greenroom")), false);
    await using backup = start("server.ts", ["backup", "copy.db"], { cwd: folder.path });
    assert.equal(await backup.ended, 0, backup.output());
    assert.ok(existsSync(join(folder.path, "copy.db")));
  });

  it("is loaded again by greenroom dev when it or a file that it imports changes", async () => {
    const config = (word: string): string =>
      `import { shout } from "./shout.ts";\nexport default { agents: { echo: () => shout("${word}") }, database: ":memory:" };\n`;
    using folder = createProject({ "greenroom.config.ts": config("one"), "shout.ts": SHOUT });
    await using program = serve(folder.path, "dev", "--no-open");
    const url = await waitForUrl(program);
    const ask = async (): Promise<string | undefined> => {
      const { messages } = (await post(`${url}/runs/wait`, { assistant_id: "echo" })) as {
        messages: { content: string }[];
      };
      return messages.at(-1)?.content;
    };
    assert.equal(await ask(), "ONE");
    await program.printed(/Watching 2 files/);
    writeFileSync(join(folder.path, "greenroom.config.ts"), config("two"));
    await program.printed(/Reloaded in \d+ ms: greenroom\.config\.ts/);
    assert.equal(await ask(), "TWO");
    writeFileSync(join(folder.path, "greenroom.config.ts"), "export default () => {};\n");
    await program.printed(/greenroom\.config\.ts: the default export is a function[\s\S]*The earlier agents stay/);
    assert.equal(await ask(), "TWO");
    writeFileSync(join(folder.path, "greenroom.config.ts"), config("three"));
    await program.printed(/Reloaded[\s\S]*Reloaded in \d+ ms: greenroom\.config\.ts/);
    assert.equal(await ask(), "THREE");
    writeFileSync(join(folder.path, "shout.ts"), SHOUT.replace("toUpperCase()", "concat('!')"));
    await program.printed(/Reloaded in \d+ ms: shout\.ts/);
    assert.equal(await ask(), "three!");
  });
});
