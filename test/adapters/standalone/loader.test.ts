/** Projects as users have them: how the stand-alone server loads their files, and where it finds their packages. */
import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { readConfig } from "../../../adapters/standalone/config.ts";
import { importFile } from "../../../adapters/standalone/loader.ts";
import { loadGraphs } from "../../../adapters/standalone/modules.ts";
import { createPackageResolver } from "../../../adapters/standalone/packages.ts";
import { createTemporaryFolder, root, runtime, start, waitForUrl } from "../../support/programs.ts";

const PROJECTS: Readonly<Record<string, readonly string[]>> = {
  template: ["agent"],
  commonjs: ["agent", "plain"],
  aliases: ["agent"],
};

/** Creates a folder with these files and the packages of this checkout. */
function createProject(files: Readonly<Record<string, string>>): ReturnType<typeof createTemporaryFolder> {
  const folder = createTemporaryFolder();
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder.path, name)), { recursive: true });
    writeFileSync(join(folder.path, name), text);
  }
  return folder;
}

describe("a project of LangGraph.js", () => {
  // Deno takes neither paths without extension nor plain CommonJS without flags.
  for (const [name, graphs] of Object.entries(runtime === "deno" ? {} : PROJECTS)) {
    it(`is served unchanged: ${name}`, async () => {
      const cwd = join(root, "test/projects", name);
      await using program = start("server.ts", ["--port", "0", "--database", ":memory:"], { cwd });
      const url = await waitForUrl(program);
      const post = async (path: string, body: unknown): Promise<Record<string, unknown>> => {
        const headers = { "content-type": "application/json" };
        const response = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
        return (await response.json()) as Record<string, unknown>;
      };
      for (const assistant_id of graphs) {
        const { thread_id } = await post("/threads", {});
        const wait = `/threads/${thread_id}/runs/wait`;
        await post(wait, { assistant_id, input: { messages: [{ role: "user", content: "Hello" }] } });
        const { messages } = await post(wait, { assistant_id, command: { resume: "air" } });
        assert.equal((messages as { content: string }[]).at(-1)?.content, "air.", program.output());
      }
      const missing = /env: there is no file \.env, so no variable is set/.test(program.output());
      assert.equal(missing, name !== "commonjs");
    });
  }

  it("may have env, dependencies and node_version in a greenroom.json too", () => {
    using folder = createProject({
      "greenroom.json": JSON.stringify({
        node_version: "22",
        dependencies: ["."],
        env: { PLACE: "here" },
        graphs: { agent: "./a.ts" },
      }),
      "a.ts": "",
    });
    const config = readConfig(join(folder.path, "greenroom.json"));
    assert.deepEqual([config.problems, config.unsupported, config.env], [[], [], { PLACE: "here" }]);
  });
});

describe("the files of a project", () => {
  it("wait for their shared imports, also for those that wait themselves", async () => {
    const reads = 'import { state } from "./slow.ts";\nexport const read = state;\n';
    using folder = createProject({
      "package.json": '{ "type": "module" }',
      "slow.ts": "await new Promise((done) => setTimeout(done, 5));\nexport const state = 1;\n",
      "a.ts": reads,
      "b.ts": reads,
      "both.ts":
        'const [a, b] = await Promise.all([import("./a.ts"), import("./b.ts")]);\nexport const both = [a.read, b.read];\n',
    });
    assert.deepEqual((await importFile(join(folder.path, "both.ts"))).both, [1, 1]);
  });

  it("fail again with their error, and name the file and its line", async () => {
    const fails =
      'interface Unused {\n  a: string;\n}\nexport const fails = (): never => {\n  throw new Error("no");\n};\n';
    using folder = createProject({
      "package.json": '{ "type": "module" }',
      "fails.ts": fails,
      "throws.ts": `await Promise.resolve();\nthrow new Error("not today");\n`,
      "again.ts":
        'export const again = async () => {\n  await import("./throws.ts").catch(() => {});\n  return import("./throws.ts");\n};\n',
      "lost.ts": 'import "./nowhere.ts";\n',
    });
    const { fails: call } = (await importFile(join(folder.path, "fails.ts"))) as { fails: () => never };
    assert.throws(call, (error: Error) => /fails\.ts:5:/.test(error.stack ?? ""));
    const { again } = (await importFile(join(folder.path, "again.ts"))) as { again: () => Promise<unknown> };
    await assert.rejects(again, /not today/);
    const entry = { file: join(folder.path, "lost.ts"), export: "x", graph_id: "lost", factory: false, settings: {} };
    const { problems } = await loadGraphs([entry], join(folder.path, "greenroom.json"));
    assert.equal(problems.length, 1);
    assert.match(problems[0] ?? "", /^graphs\.lost: lost\.ts cannot be loaded: .*nowhere/);
    assert.doesNotMatch(problems[0] ?? "", /Require stack/);
  });

  // What is required stays apart on Bun, and Deno has no require in such a file.
  if (runtime === "node")
    it("share one LangGraph, however they import it", async () => {
      using folder = createProject({
        "package.json": '{ "type": "commonjs" }',
        "graph.ts":
          'import { StateGraph } from "@langchain/langgraph";\nexport const own = StateGraph;\nexport const other = require("@langchain/langgraph").StateGraph;\n',
      });
      symlinkSync(join(root, "node_modules"), join(folder.path, "node_modules"), "junction");
      const { StateGraph } = await import("@langchain/langgraph");
      const { own: ownExport, other: otherExport } = await importFile(join(folder.path, "graph.ts"));
      assert.equal(ownExport, StateGraph);
      assert.equal(otherExport, StateGraph);
    });
});

describe("the packages of a graph", () => {
  const manifest = (key: string): string =>
    JSON.stringify({ type: "module", exports: { [key]: { import: "./index.js" } } });
  const files = {
    "apps/agent/node_modules/@langchain/langgraph/package.json": manifest("."),
    "apps/agent/node_modules/@langchain/langgraph/index.js": 'export const here = "langgraph";\n',
    "apps/agent/node_modules/@langchain/core/package.json": manifest("./messages"),
    "apps/agent/node_modules/@langchain/core/index.js": 'export const here = "core";\n',
    "apps/agent/package.json": "{}",
    "apps/agent/src/graph.ts": "",
  };

  it("are those beside its file, also if the configuration is in another folder", async () => {
    using folder = createProject(files);
    const resolve = await createPackageResolver(
      {},
      join(folder.path, "apps/agent/src/graph.ts"),
      join(folder.path, "langgraph.json"),
    );
    assert.equal(((await resolve("@langchain/langgraph")) as { here: string }).here, "langgraph");
    assert.equal(((await resolve("@langchain/core/messages")) as { here: string }).here, "core");
  });

  it("are checked at the start, and the error names the command that installs them", async () => {
    using folder = createProject({
      ...files,
      "apps/agent/node_modules/@langchain/core/index.js": 'throw new Error("half installed");\n',
    });
    const asking = createPackageResolver(
      {},
      join(folder.path, "apps/agent/src/graph.ts"),
      join(folder.path, "langgraph.json"),
    );
    await assert.rejects(asking, (error: Error) => {
      assert.match(error.message, /^@langchain\/core cannot be imported, which its runs need \(.*half installed/);
      assert.match(error.message, /in .*apps.agent: npm install @langchain\/core$/);
      return true;
    });
  });
});
