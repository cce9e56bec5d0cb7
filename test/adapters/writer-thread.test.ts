import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { openNode } from "../../adapters/sqlite/connections.ts";
import type { SqliteConnection } from "../../adapters/sqlite/file.ts";
import { createStatementCache } from "../../adapters/sqlite/statement-cache.ts";
import type { WriterThread } from "../../adapters/sqlite/thread.ts";
import { type SqliteWriter, sqliteDriver } from "../../adapters/sqlite/writer.ts";
import { threadOf } from "./threaded.ts";

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

const start = (path: string): Promise<WriterThread> => threadOf("node:sqlite", path);

describe("the writer of a SQLite file", () => {
  it("moves into a thread once where commits are slow, and loses nothing on the way", async () => {
    assert.equal(await threadsAfter("auto", 3, start), 1);
  });

  it("stays on the event loop where it is told to", async () => {
    assert.equal(await threadsAfter("inline", 3, start), 0);
  });

  it("stays on the event loop with one warning where no thread can be started", async () => {
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
