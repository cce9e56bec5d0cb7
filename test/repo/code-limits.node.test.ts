/** The table of `npm run check`, the rules on imports, and the search for retired names notice what is planted for them. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { describe, it } from "node:test";
import { judgeFigures } from "../../scripts/check-code-limits.ts";
import { listStreamedRunFiles, measureCode } from "../../scripts/code-limits.ts";
import { findRetiredNames, findRetiredPhrases } from "../../scripts/find-retired-names.ts";
import { RETIRED_NAMES, RETIRED_PHRASES } from "../../scripts/retired-names.ts";
import { parseSource, readSources } from "../../scripts/sources.ts";

const CLEAN: Readonly<Record<string, string>> = {
  "README.md": "# Planted\n",
  "docs/architecture.md": "# Planted\n\n## One streamed run\n\n1. `lib/mod.ts` and `lib/mod.ts`\n",
  "lib/mod.ts": "export const createService = (): void => {};\n",
  "lib/http/handler.ts": "export {};\n",
  "server.ts": "export {};\n",
};

/** Writes a clean tree with these files in it. */
async function withTree<T>(files: Readonly<Record<string, string>>, use: (root: string) => Promise<T> | T): Promise<T> {
  const root = mkdtempSync(join(tmpdir(), "greenroom-limits-"));
  try {
    for (const [path, text] of Object.entries({ ...CLEAN, ...files })) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
    }
    return await use(root);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

const measureFigures = (files: Readonly<Record<string, string>>): Promise<Map<string, number>> =>
  withTree(files, async (root) => new Map((await measureCode(root)).map(({ title, value }) => [title, value])));

const lines = (count: number): string => "void 0;\n".repeat(count);

describe("the figures of the tree", () => {
  it("count injected code", async () => {
    const before = await measureFigures({ "lib/http/long.ts": lines(1_000) });
    const after = await measureFigures({
      "lib/http/long.ts": lines(991),
      "lib/http/a.ts": `// biome-ignore lint/complexity/useMaxParams: a reason\n// biome-ignore lint/style/noNestedTernary: a reason\n${lines(4)}`,
      "lib/http/b.ts":
        "// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a reason\n  // biome-ignore lint/complexity/noExcessiveLinesPerFunction: a reason\n",
      "lib/http/endpoints/a.ts": 'if (typeof value === "string") run();\n',
      "lib/storage/runs.ts": "export interface RunStorage { stop(): void; end(): void }\n",
      "adapters/langgraph/a.ts": "node.getWriters();\n",
      "adapters/langgraph/b.ts": "node._write();\n",
      "lib/runs/mod.ts": "storage.stop();\n",
      "README.md": "# Planted\n\nText\n",
      "lib/mod.ts": `export const createService = (): void => {};\nconsole.log("${"x".repeat(500)}");\n`,
    });
    const grown = Object.fromEntries([...after].map(([title, value]) => [title, value - (before.get(title) ?? 0)]));
    const { "Bytes of lib/mod.ts, minified, with its static imports": core = 0, ...otherFigures } = grown;
    assert.ok(core >= 500 && core < 650, `${core} bytes`);
    const { "Bytes of lib/mod.ts and createHandler, the same way": both = 0, ...counted } = otherFigures;
    assert.ok(both >= 500 && both < 650, `${both} bytes`);
    assert.deepEqual(counted, {
      "Per 1,000 lines: functions with a cognitive complexity above 15": 1,
      "Per 1,000 lines: nested ternaries": 1,
      "Per 1,000 lines: functions with more than four parameters": 1,
      "Per 1,000 lines: functions over 60 lines": 1,
      "Lines of code without comments, without the studio's page": 1,
      "Files of lib that one streamed run executes": 0,
      "`typeof` in the endpoints of agent protocols": 1,
      "Files that use undocumented members of LangGraph": 2,
      "Lines of our own checks of the code": 0,
      "Operations of Storage": 2,
      "Operations of Storage that nothing calls": 1,
      "Lines of README.md": 2,
    });
    assert.deepEqual(listStreamedRunFiles(CLEAN["docs/architecture.md"] as string), ["lib/mod.ts"]);
  });

  it("fail above a limit without a reason", () => {
    const figure = { title: "Rows", value: 5, limit: 2, locations: ["a.ts:5"] };
    assert.equal(judgeFigures([figure]).failed, 1);
    assert.deepEqual(judgeFigures([figure]).lines.slice(2), ["| Rows | 5 | 2 | FAILED |", "    a.ts:5"]);
    const excused = judgeFigures([{ ...figure, reason: "It is read once." }]);
    assert.deepEqual(
      [excused.failed, excused.lines.slice(2)],
      [0, ["| Rows | 5 | 2 | missed |", "    It is read once."]],
    );
    assert.deepEqual(judgeFigures([{ ...figure, value: 2 }]).lines.slice(2), ["| Rows | 2 | 2 | met |"]);
    assert.deepEqual(judgeFigures([{ title: "Rows", value: 5 }], true).failed, 0);
  });
});

describe("the rules on imports", () => {
  const PACKAGES = ["valibot", "itty-router", "@swc/core"];
  /** Returns the names of the rules that these files break, with the files. */
  function findBrokenRules(files: Readonly<Record<string, string>>): Promise<string[]> {
    return withTree(files, (root) => {
      cpSync(".dependency-cruiser.mjs", join(root, ".dependency-cruiser.mjs"));
      for (const name of PACKAGES) {
        mkdirSync(dirname(join(root, "node_modules", name)), { recursive: true });
        symlinkSync(resolve("node_modules", name), join(root, "node_modules", name));
      }
      const command = resolve("node_modules/dependency-cruiser/bin/dependency-cruiser.mjs");
      const folders = ["lib", "adapters", "server.ts"].filter((name) =>
        Object.keys({ ...CLEAN, ...files }).some((path) => path.startsWith(name)),
      );
      const args = [command, "--output-type", "json", "--preserve-symlinks", ...folders];
      const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
      assert.match(stdout, /^\{/, stderr);
      const { summary } = JSON.parse(stdout) as {
        summary: { violations: readonly { rule: { name: string }; from: string }[] };
      };
      return [...new Set(summary.violations.map(({ rule, from }) => `${rule.name}: ${from}`))].sort();
    });
  }

  it("report injected violations", async () => {
    const broken = await findBrokenRules({
      "lib/engine/worker.ts": 'import { readFileSync } from "node:fs";\nexport const read = readFileSync;\n',
      "lib/engine/reader.ts": 'import * as v from "valibot";\nexport const schema = v.string();\n',
      "lib/runs/mod.ts": 'export { handler } from "../http/handler.ts";\n',
      "lib/threads/state-changes.ts": 'export const later = import("../runs/mod.ts");\n',
      "lib/assistants/mod.ts": 'import type { read } from "../engine/worker.ts";\nexport type Read = typeof read;\n',
      "lib/functions/call.ts": 'export * from "../assistants/mod.ts";\n',
      "lib/storage/gone.ts": 'import "../elsewhere/mod.ts";\n',
      "adapters/sql/runs.ts": 'export * from "../../lib/engine/worker.ts";\n',
      "adapters/studio/page/a.ts": 'export * from "../../../lib/engine/worker.ts";\n',
      "adapters/studio/page/b.ts": 'export type * from "../../../lib/engine/worker.ts";\n',
      "adapters/sqlite/bun.ts": 'export * from "./a.ts";\n',
      "adapters/sqlite/a.ts": 'export type { x } from "./bun.ts";\n',
      "lib/mod.ts": 'export * from "./http/handler.ts";\n',
      "lib/http/handler.ts": 'import "./route-table.ts";\n',
      "lib/http/route-table.ts": 'import { Router } from "itty-router";\nexport const router = Router();\n',
    });
    assert.deepEqual(broken, [
      "layer-of-assistants: lib/assistants/mod.ts",
      "layer-of-runs: lib/runs/mod.ts",
      "layer-of-threads: lib/threads/state-changes.ts",
      "lib: lib/engine/reader.ts",
      "lib: lib/engine/worker.ts",
      "lib: lib/storage/gone.ts",
      "narrow-functions: lib/functions/call.ts",
      "no-circles: adapters/sqlite/a.ts",
      "not-found: lib/storage/gone.ts",
      "packages-of-the-core: lib/mod.ts",
      "sql: adapters/sql/runs.ts",
      "studio-page: adapters/studio/page/a.ts",
    ]);
  });
});

describe("retired names", () => {
  const findPlanted = (name: string, folderOrFile: string): string[] => {
    const path = folderOrFile.endsWith(".ts") ? folderOrFile : `${folderOrFile}/planted.ts`;
    const text = `// ${name}\nexport const all${name} = "${name}";\nexport const ${name} = { ${name}: 1 };\nclass C { #${name} = 1; }\n`;
    return findRetiredNames([parseSource(path, text)]);
  };

  it("are found as identifiers, and not in comments, strings or longer names", () => {
    for (const { name, only = ["lib/http"] } of RETIRED_NAMES)
      assert.equal(findPlanted(name, only[0] as string).filter((line) => line.includes(` ${name}: `)).length, 3, name);
  });

  it("are ignored where the word means something else", () => {
    const excepted = RETIRED_NAMES.flatMap(({ name, except = [] }) => except.map((path) => [name, path] as const));
    assert.ok(excepted.length > 0);
    for (const [name, path] of excepted)
      assert.deepEqual(
        findPlanted(name, path).filter((line) => line.includes(` ${name}: `)),
        [],
        name,
      );
  });
});

it("retired phrases are found in README, in docs and in texts of the code, not in its comments", async () => {
  const all = RETIRED_PHRASES.join(", ");
  const files = {
    "README.md": `# Planted\n\n${all} and thereof, untold.\n`,
    "docs/deep/page.md": `Broken over lines: may be\nhad. ${all}.`,
    "lib/http/text.ts": `// ${all}\nexport const text = "${all}" + \`Was told \${1} by nobody\`;\nexport const told = "told";\n`,
  };
  const phrases = await withTree(files, (root) => findRetiredPhrases(root, readSources(root)));
  const count = (path: string): number => phrases.filter((line) => line.startsWith(`${path}:`)).length;
  assert.equal(count("README.md"), RETIRED_PHRASES.length);
  assert.equal(count("docs/deep/page.md"), RETIRED_PHRASES.length + 1);
  assert.equal(count("lib/http/text.ts"), RETIRED_PHRASES.length + 2);
  assert.ok(phrases.includes("docs/deep/page.md:1 may be had"));
});
