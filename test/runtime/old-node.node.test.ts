/** What a Node that runs no TypeScript says of agents that are written in it. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { root, temporaryFolder } from "./programs.ts";

describe("the stand-alone server on a Node without TypeScript", () => {
  it("says so of TypeScript agents, and which Node runs them", () => {
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
    writeFileSync(at("agent.ts"), 'export const agent = () => "Hello";\n');
    writeFileSync(at("greenroom.json"), JSON.stringify({ graphs: { a: "./agent.ts:agent" } }));
    // What older ones lack, newer ones can be told to do without.
    const args = ["--no-experimental-strip-types", at("adapters/standalone/bin.js"), "--database", ":memory:"];
    const { status, stderr } = spawnSync(process.execPath, args, { cwd: folder.path, encoding: "utf8" });
    assert.equal(status, 1);
    assert.equal(
      stderr,
      `greenroom: greenroom.json: graphs.a: agent.ts cannot be loaded: This is Node ${process.versions.node}, which runs no ` +
        "TypeScript: use Node 22.18 or newer, or Bun (bunx --bun greenroom)\n",
    );
  });
});
