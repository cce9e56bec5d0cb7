import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { libsqlDriver } from "../../../adapters/libsql/mod.ts";
import type { SqlDriver } from "../../../adapters/sql/driver.ts";
import { nodeSqliteDriver } from "../../../adapters/sqlite/node.ts";

const root = resolve(import.meta.dirname, "../../..");
const runtimeName = "Bun" in globalThis ? "bun" : "Deno" in globalThis ? "deno" : "node";
const env = { ...process.env, PATH: `${join(root, "node_modules/.bin")}${delimiter}${process.env.PATH}` };

/** Commands that run a program: this runtime, and the others where they are installed. */
const runtimes: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  Object.entries({ bun: ["bun"], deno: ["deno", "run", "-A", "--no-check"], node: ["node", "--no-warnings"] })
    .map(([name, [command, ...flags]]): [string, string[]] => [
      name,
      [name === runtimeName ? process.execPath : (command as string), ...flags],
    ])
    .filter(
      ([name, [command]]) => name === runtimeName || spawnSync(command as string, ["--version"], { env }).status === 0,
    ),
);

const openers: Record<string, (path: string) => SqlDriver> = {
  "node-sqlite": nodeSqliteDriver,
  libsql: (path) => libsqlDriver(`file:${path}`),
};
if (runtimeName === "bun") openers["bun-sqlite"] = (await import("../../../adapters/sqlite/bun.ts")).bunSqliteDriver;

interface Asker extends AsyncDisposable {
  /** Resolves once its last answer is this one. */
  answers(answer: boolean): Promise<void>;
  signal(name: NodeJS.Signals): void;
  readonly ended: Promise<void>;
}

/** Starts a process that asks repeatedly for the worker lock of `path`. */
function startAsker(runtime: string, path: string, kind: string): Asker {
  const [command = "", ...flags] = runtimes[runtime] as readonly string[];
  const inherited = Object.fromEntries(Object.entries(env).filter(([name]) => name !== "NODE_TEST_CONTEXT"));
  const file = join(root, "test/adapters/sqlite/worker-candidate.ts");
  const child = spawn(command, [...flags, file, path, kind], {
    cwd: root,
    env: inherited,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = new Promise<void>((done) => child.once("close", () => done()));
  let output = "";
  let look = (): void => {};
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (bytes: Uint8Array) => {
      output += new TextDecoder().decode(bytes);
      look();
    });
  }
  const signal = (name: NodeJS.Signals): void => {
    // Not child.kill: on Deno it takes the process for ended.
    if (child.exitCode === null && child.signalCode === null && child.pid) process.kill(child.pid, name);
  };
  return {
    ended,
    signal,
    answers: (answer) =>
      new Promise((resolve, reject) => {
        look = () => {
          if (output.trimEnd().endsWith(`worker: ${answer}`)) resolve();
        };
        look();
        ended.then(() => reject(new Error(`${runtime} ended before it answered ${answer}:\n${output}`)));
      }),
    async [Symbol.asyncDispose]() {
      signal("SIGKILL");
      await ended;
    },
  };
}

async function withFolder(test: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "greenroom-exclusive-"));
  try {
    await test(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const exclusive = (driver: SqlDriver): Promise<boolean> => (driver.acquireWorkerLock as () => Promise<boolean>)();

for (const [kind, open] of Object.entries(openers)) {
  describe(`${kind}: the worker lock`, () => {
    it("is held by one of two drivers in a process, until it is closed", () =>
      withFolder(async (folder) => {
        mkdirSync(join(folder, "real"));
        symlinkSync(join(folder, "real"), join(folder, "other name"));
        const first = open(join(folder, "real/a.db"));
        const second = open(join(folder, "other name/a.db"));
        assert.deepEqual(await Promise.all([exclusive(first), exclusive(first), exclusive(first)]), [true, true, true]);
        for (let i = 0; i < 20; i++) assert.equal(await exclusive(second), false);
        // Both go on serving requests.
        await first.batch([{ sql: "create table item (item_id)", args: [] }]);
        await second.batch([{ sql: "insert into item values (1)", args: [] }]);
        assert.equal((await first.read({ sql: "select * from item", args: [] })).length, 1);
        await first.close();
        await assert.rejects(exclusive(first), /closed/);
        assert.equal(await exclusive(second), true);
        await second.close();
      }));

    it("stays with the first driver if a second one is refused and closed", () =>
      withFolder(async (folder) => {
        const path = join(folder, "a.db");
        const holder = open(path);
        assert.equal(await exclusive(holder), true);
        for (let i = 0; i < 5; i++) {
          const otherStorage = open(path);
          assert.equal(await exclusive(otherStorage), false);
          await otherStorage.close();
        }
        await using outside = startAsker(runtimeName, path, kind);
        await outside.answers(false);
        await holder.close();
        await outside.answers(true);
      }));

    for (const runtime of Object.keys(runtimes)) {
      for (const driverName of ["node-sqlite", "libsql", ...(runtime === "bun" ? ["bun-sqlite"] : [])]) {
        it(`is not free while a process of ${runtime} with ${driverName} lives or is paused, and is free at once after it was killed`, () =>
          withFolder(async (folder) => {
            const path = join(folder, "a.db");
            await using holder = startAsker(runtime, path, driverName);
            await holder.answers(true);
            const driver = open(path);
            try {
              assert.equal(await exclusive(driver), false);
              holder.signal("SIGSTOP");
              assert.equal(await exclusive(driver), false);
              holder.signal("SIGCONT");
              assert.equal(await exclusive(driver), false);
              holder.signal("SIGKILL");
              await holder.ended;
              assert.equal(await exclusive(driver), true);
              await using late = startAsker(runtime, path, driverName);
              await late.answers(false);
            } finally {
              await driver.close();
            }
          }));
      }
    }

    it("is always held in memory", async () => {
      const drivers = [1, 2].map(() => (kind === "libsql" ? libsqlDriver(":memory:") : open(":memory:")));
      for (const driver of drivers) assert.equal(await exclusive(driver), true);
      for (const driver of drivers) await driver.close();
    });

    it("fails with an error that names the file if it cannot be held", () =>
      withFolder(async (folder) => {
        const path = join(folder, "a.db");
        mkdirSync(`${path}.worker`);
        const driver = open(path);
        await assert.rejects(exclusive(driver), (error: Error) => error.message.includes(`Cannot lock ${path}.worker`));
        rmSync(`${path}.worker`, { recursive: true });
        assert.equal(await exclusive(driver), true);
        await driver.close();
      }));
  });
}
