/** The command on a Node that lacks what newer ones have, and what it keeps of what Node has compiled. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { findRuntimeProblem, MIN_VERSIONS } from "../../adapters/standalone/runtime-version.ts";
import { createTemporaryFolder, root } from "../support/programs.ts";

const tooOld = (runtime: string): string =>
  `${runtime} is too old for Greenroom. Use Node 22.13 or newer, Bun 1.4 or newer, or Deno 2.9 or newer`;

describe("the built command", () => {
  const folder = createTemporaryFolder();
  const at = (path: string): string => join(folder.path, path);
  const compiled = at("adapters/standalone/.compiled");
  const { NODE_COMPILE_CACHE: _, ...env } = process.env;

  before(() => {
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    const args = [tsc, "-p", "tsconfig.build.json", "--outDir", at(".")];
    const built = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
    assert.equal(built.status, 0, built.stdout);
    copyFileSync(join(root, "package.json"), at("package.json"));
    symlinkSync(join(root, "node_modules"), at("node_modules"), "junction");
  });
  after(() => folder[Symbol.dispose]());

  it("loads TypeScript agents on an old Node, and names the versions with SQLite", () => {
    writeFileSync(at("agent.ts"), 'enum Word { Hello = "Hello" }\nexport const agent = (): Word => Word.Hello;\n');
    writeFileSync(at("greenroom.json"), JSON.stringify({ graphs: { a: "./agent.ts:other" } }));
    // What older ones lack, newer ones can be told to do without.
    const errorWithout = (flag: string): string => {
      const args = [flag, at("adapters/standalone/bin.js"), "--database", ":memory:"];
      const { status, stderr } = spawnSync(process.execPath, args, { cwd: folder.path, encoding: "utf8", env });
      assert.equal(status, 1);
      return stderr;
    };
    assert.equal(
      errorWithout("--no-experimental-strip-types"),
      "greenroom: greenroom.json: graphs.a: agent.ts has no export other; it exports agent\n",
    );
    assert.equal(
      errorWithout("--no-experimental-sqlite"),
      "greenroom: --database: this Node has no SQLite. Use Node 22.13 or newer, Bun or Deno\n",
    );
  });

  it("names the required versions on an older runtime before it loads anything else", () => {
    writeFileSync(
      at("older.cjs"),
      'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.19.2" } });\n',
    );
    const args = ["--require", at("older.cjs"), at("adapters/standalone/bin.js"), "--version"];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder.path, encoding: "utf8", env });
    assert.deepEqual([status, stdout, stderr], [1, "", `greenroom: ${tooOld("Node 20.19.2")}\n`]);
    const { engines } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { engines: object };
    assert.deepEqual(
      engines,
      Object.fromEntries(Object.entries(MIN_VERSIONS).map(([name, version]) => [name, `>=${version}`])),
    );
    assert.equal(findRuntimeProblem({ node: "24.3.0", bun: "1.3.9" }), tooOld("Bun 1.3.9"));
    assert.equal(findRuntimeProblem({ node: "24.3.0", deno: "2.8.1" }), tooOld("Deno 2.8.1"));
    assert.equal(findRuntimeProblem({ node: "22.12.0" }), tooOld("Node 22.12.0"));
    for (const versions of [
      { node: "22.13.0" },
      { node: "23.0.0" },
      { node: "20.0.0", bun: "1.4.0" },
      { deno: "3.0.0" },
    ])
      assert.equal(findRuntimeProblem(versions), undefined);
  });

  const printVersion = (program: string): void => {
    const args = [at("adapters/standalone/bin.js"), "--version"];
    const { status, stdout, stderr } = spawnSync(program, args, { cwd: folder.path, encoding: "utf8", env });
    assert.equal(status, 0, stderr);
    assert.match(stdout, /^\d+\.\d+\.\d+/);
  };

  it("caches compiled code of Node for the next start, and clears a large cache", () => {
    printVersion(process.execPath);
    const [version = ""] = readdirSync(compiled);
    assert.notDeepEqual(readdirSync(join(compiled, version)), []);
    const older = join(compiled, "v0.0.0-older", "module");
    mkdirSync(join(compiled, "v0.0.0-older"));
    writeFileSync(older, "");
    truncateSync(older, 1024 * 1024);
    printVersion(process.execPath);
    assert.ok(existsSync(older), "what is small stays");
    truncateSync(older, 64 * 1024 * 1024);
    printVersion(process.execPath);
    assert.equal(existsSync(compiled), false);
    printVersion(process.execPath);
    assert.deepEqual(readdirSync(compiled), [version]);
    assert.notDeepEqual(readdirSync(join(compiled, version)), []);
  });

  it("caches no compiled code of Bun", () => {
    rmSync(compiled, { recursive: true, force: true });
    printVersion("bun");
    assert.equal(existsSync(compiled), false);
  });
});
