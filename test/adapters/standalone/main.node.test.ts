/** Checks the modules that a start loads. Only Node reports which of its modules are loaded. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { createTemporaryFolder, root } from "../../support/programs.ts";

const at = (path: string): string => JSON.stringify(pathToFileURL(join(root, path)).href);

/** Returns those of these modules of Node that are loaded after a program. */
function listLoadedModules(program: string, modules: readonly string[]): unknown {
  using folder = createTemporaryFolder();
  const file = join(folder.path, "program.mjs");
  const report = `console.log(JSON.stringify(${JSON.stringify(modules)}.filter((name) => process.moduleLoadList.includes("NativeModule " + name))));`;
  writeFileSync(file, `${program}\n${report}`);
  const { stdout, stderr } = spawnSync(process.execPath, [file], { encoding: "utf8" });
  assert.notEqual(stdout, "", stderr);
  return JSON.parse(stdout);
}

describe("a start", () => {
  it("loads no HTTP client before the first webhook", () => {
    const program = `import { createService, fromFunctions } from ${at("lib/mod.ts")};
      import { nodeSqlite } from ${at("adapters/sqlite/node.ts")};
      const executor = fromFunctions({ echo: () => "x" });
      await (await createService({ storage: nodeSqlite(":memory:"), executor })).stop(0);`;
    assert.deepEqual(listLoadedModules(program, ["https", "sqlite"]), ["sqlite"]);
  });

  it("of the command loads no other command", () => {
    // `dev` starts a browser.
    const program = `await import(${at("adapters/standalone/main.ts")});`;
    assert.deepEqual(listLoadedModules(program, ["child_process", "fs"]), ["fs"]);
  });
});
