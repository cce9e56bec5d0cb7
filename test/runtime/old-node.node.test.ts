/** The command on a Node that lacks what newer ones have. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { root, temporaryFolder } from "./programs.ts";

describe("the stand-alone server on an old Node", () => {
  it("loads TypeScript agents all the same, and says which Node has SQLite", () => {
    using folder = temporaryFolder();
    const at = (path: string): string => join(folder.path, path);
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    const built = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json", "--outDir", at(".")], {
      cwd: root,
      encoding: "utf8",
    });
    assert.equal(built.status, 0, built.stdout);
    copyFileSync(join(root, "package.json"), at("package.json"));
    symlinkSync(join(root, "node_modules"), at("node_modules"), "junction");
    writeFileSync(at("agent.ts"), 'enum Word { Hello = "Hello" }\nexport const agent = (): Word => Word.Hello;\n');
    writeFileSync(at("greenroom.json"), JSON.stringify({ graphs: { a: "./agent.ts:other" } }));
    // What older ones lack, newer ones can be told to do without.
    const told = (flag: string): string => {
      const args = [flag, at("adapters/standalone/bin.js"), "--database", ":memory:"];
      const { NODE_COMPILE_CACHE: _, ...env } = process.env;
      const { status, stderr } = spawnSync(process.execPath, args, { cwd: folder.path, encoding: "utf8", env });
      assert.equal(status, 1);
      return stderr;
    };
    assert.equal(
      told("--no-experimental-strip-types"),
      "greenroom: greenroom.json: graphs.a: agent.ts has no export other; it exports agent\n",
    );
    assert.equal(
      told("--no-experimental-sqlite"),
      "greenroom: --database: this Node has no SQLite. Use Node 22.13 or newer, Bun or Deno\n",
    );
    // What Node has compiled, for the next start.
    assert.notDeepEqual(readdirSync(at("adapters/standalone/.compiled")), []);
  });
});
