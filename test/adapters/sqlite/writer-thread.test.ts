import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { openNode } from "../../../adapters/sqlite/connections.ts";
import type { SqliteConnection } from "../../../adapters/sqlite/file.ts";
import { createStatementCache } from "../../../adapters/sqlite/statement-cache.ts";
import { type SqliteWriter, sqliteDriver } from "../../../adapters/sqlite/writer.ts";
import type { WriterThread } from "../../../adapters/sqlite/writer-thread.ts";
import { openThread } from "./threaded-drivers.ts";

const add = { sql: "insert into item values (?)", args: [1] };
const count = { sql: "select count(*) as n from item", args: [] };

/** Makes 60 commits that take so long each. Gives how many threads were started. */
async function threadsAfter(
  writer: SqliteWriter,
  commit_ms: number,
  start: (path: string) => Promise<WriterThread>,
): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "greenroom-writer-"));
  const path = join(folder, "a.db");
  const still = new Int32Array(new SharedArrayBuffer(4));
  const connect = (file: string): SqliteConnection => {
    const connection = openNode({ DatabaseSync }, createStatementCache, file);
    return {
      ...connection,
      run(statement) {
        if (statement.sql === "commit") Atomics.wait(still, 0, 0, commit_ms);
        return connection.run(statement);
      },
    };
  };
  let started = 0;
  const thread = (file: string): Promise<WriterThread> => {
    started += 1;
    return start(file);
  };
  const driver = sqliteDriver(path, connect, { writer, thread });
  try {
    await driver.batch([{ sql: "create table item (item_id)", args: [] }]);
    for (let n = 0; n < 60; n += 1) await driver.batch([add]);
    assert.deepEqual(await driver.read(count), [{ n: 60 }]);
    return started;
  } finally {
    await driver.close();
    rmSync(folder, { recursive: true });
  }
}

const start = (path: string): Promise<WriterThread> => openThread("node:sqlite", path);

describe("the writer of a SQLite file", () => {
  it("moves into a thread once commits are slow, and loses nothing", async () => {
    assert.equal(await threadsAfter("auto", 3, start), 1);
  });

  it("stays on the event loop with that option", async () => {
    assert.equal(await threadsAfter("inline", 3, start), 0);
  });

  it("stays on the event loop with one warning if no thread can be started", async () => {
    const { warn } = console;
    const warnings: string[] = [];
    console.warn = (line: string) => void warnings.push(line);
    try {
      assert.equal(await threadsAfter("auto", 3, async () => Promise.reject(new Error("no threads here"))), 1);
    } finally {
      console.warn = warn;
    }
    assert.equal(warnings.length, 1);
    assert.match(warnings[0] as string, /stay on the event loop.*no threads here/);
  });
});

/** What a process prints that writes in a thread, closes nothing and has nothing left to do. */
function unclosed(path: string): string {
  const url = (file: string): string =>
    JSON.stringify(new URL(`../../../adapters/sqlite/${file}`, import.meta.url).href);
  const program = `
    import { openNode } from ${url("connections.ts")};
    import { createStatementCache } from ${url("statement-cache.ts")};
    import { startThread } from ${url("writer-thread.ts")};
    import { sqliteDriver } from ${url("writer.ts")};
    import { DatabaseSync } from "node:sqlite";
    const thread = (file) => startThread("node:sqlite", openNode, file);
    const connect = (file) => openNode({ DatabaseSync }, createStatementCache, file);
    const driver = sqliteDriver(process.env.DATABASE, connect, { writer: "thread", thread });
    await driver.batch([{ sql: "create table item (item_id)", args: [] }]);
    for (let n = 0; n < 60; n += 1) await driver.batch([${JSON.stringify(add)}]);
    console.log(JSON.stringify(await driver.read(${JSON.stringify(count)})));`;
  const args = "Deno" in globalThis ? ["eval"] : "Bun" in globalThis ? ["--eval"] : ["--input-type=module", "--eval"];
  const { stdout, stderr } = spawnSync(process.execPath, [...args, program], {
    encoding: "utf8",
    env: { ...process.env, DATABASE: path },
    timeout: 60_000,
  });
  return `${stdout}${stderr.replace(/.*(ExperimentalWarning|--trace-warnings).*\n/g, "")}`;
}

describe("the thread of a SQLite file", () => {
  it("does not keep a process alive that did not close it", () => {
    const folder = mkdtempSync(join(tmpdir(), "greenroom-writer-"));
    try {
      assert.equal(unclosed(join(folder, "a.db")), '[{"n":60}]\n');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
