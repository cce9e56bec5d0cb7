import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import type { SqlDriver, SqlRow, SqlStatement } from "../../../adapters/sql/driver.ts";
import { sqlStorage } from "../../../adapters/sql/mod.ts";
import type { SqliteConnection } from "../../../adapters/sqlite/file.ts";
import { sqliteDriver } from "../../../adapters/sqlite/writer.ts";
import { ServiceError } from "../../../lib/errors.ts";
import { countThreads } from "../../suite/counts.ts";
import { createSqliteOpeners } from "../sqlite/threaded-drivers.ts";
import { openers, readIds, scope, toStatement, withFolder } from "./driver.harness.ts";

const table = toStatement("create table item (item_id integer primary key, body)");

const insert = (id: number, bytes: number): SqlStatement =>
  toStatement("insert into item (item_id, body) values (?, ?)", id, new Uint8Array(bytes).fill(id));

const allItems = toStatement("select item_id from item order by item_id");

// ---------------------------------------------------------------- full disks

/** A disk that can be filled up: a small file system where this process may mount one, else SQLite's own limit. */
interface Disk {
  readonly folder: string;
  /** Leaves about a megabyte to the database. */
  fill(driver: SqlDriver): Promise<void>;
  free(driver: SqlDriver): Promise<void>;
}

async function withDisk(test: (disk: Disk) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=3m", "tmpfs", folder]).status === 0;
    const ballast = join(folder, "ballast");
    const limit = async (driver: SqlDriver, pages: number): Promise<void> => {
      await driver.batch([toStatement(`pragma max_page_count = ${pages}`)]);
    };
    try {
      await test(
        mounted
          ? {
              folder,
              fill: () => writeFile(ballast, new Uint8Array(2 * 1024 * 1024)),
              free: async () => rmSync(ballast),
            }
          : { folder, fill: (driver) => limit(driver, 250), free: (driver) => limit(driver, 1_000_000) },
      );
    } finally {
      if (mounted) execFileSync("umount", ["-l", folder]);
    }
  });
}

for (const [name, open] of Object.entries({ ...openers, ...(await createSqliteOpeners()) })) {
  describe(`${name}: a full disk`, () => {
    it("fails each write that does not fit as a whole, loses no acknowledged write, and works again once there is room", () =>
      withDisk(async (disk) => {
        const path = join(disk.folder, "a.db");
        const checkpoints: (() => void)[] = [];
        const timer = (ms: number, fn: () => void): (() => void) => {
          if (ms > 100) checkpoints.push(fn);
          else setTimeout(fn, ms);
          return () => {};
        };
        const driver = open(path, { timer });
        await driver.batch([table]);
        await disk.fill(driver);
        const answered: number[] = [];
        let id = 0;
        let failed = 0;
        const group = async (): Promise<void> => {
          const batches = Array.from({ length: 5 }, () => {
            const [firstId, secondId] = [++id, ++id];
            return driver
              .batch([insert(firstId, 20_000), insert(secondId, 1)])
              .then(() => void answered.push(firstId, secondId));
          });
          for (const result of await Promise.allSettled(batches)) {
            if (result.status === "fulfilled") continue;
            failed += 1;
            assert.match(String(result.reason), /database or disk is full/);
          }
        };
        const proven = async (): Promise<void> =>
          assert.deepEqual(
            readIds(await driver.read(allItems)),
            [...answered].sort((a, b) => a - b),
          );
        for (let round = 0; round < 200 && failed < 20; round += 1) await group();
        assert.ok(failed >= 20 && answered.length > 0, `${failed} failed, ${answered.length} answered`);
        await proven();
        // The log cannot be moved now, and the next batches must not suffer from it.
        for (const checkpoint of checkpoints.splice(0)) checkpoint();
        await group();
        await proven();
        await disk.free(driver);
        const before = answered.length;
        await group();
        assert.equal(answered.length, before + 10);
        for (const checkpoint of checkpoints.splice(0)) checkpoint();
        await group();
        await proven();
        assert.deepEqual(await driver.read(toStatement("pragma integrity_check")), [{ integrity_check: "ok" }]);
        await driver.close();
        const again = open(path);
        assert.deepEqual(
          readIds(await again.read(allItems)),
          [...answered].sort((a, b) => a - b),
        );
        await again.close();
      }));

    it("is reported by the storage with a remedy", () =>
      withDisk(async (disk) => {
        const driver = open(join(disk.folder, "a.db"));
        const storage = sqlStorage(driver);
        await storage.migrate();
        await disk.fill(driver);
        const add = (n: number): Promise<unknown> => {
          const metadata = { n, body: "x".repeat(100_000) };
          return storage.createThread(scope, { thread_id: `t${n}`, metadata, config: {}, stateless: false }, n);
        };
        let openedCount = 0;
        await assert.rejects(
          async () => {
            for (; openedCount < 100; openedCount += 1) await add(openedCount);
          },
          (error) => error instanceof ServiceError && error.code === "storage_full",
        );
        assert.equal(await countThreads(storage, scope, {}), openedCount);
        assert.equal(storage.failure?.(), "The disk of the database is full");
        // What failed does not fit yet, though a small write may.
        await assert.rejects(storage.probe(1), { code: "storage_full" });
        assert.equal(storage.failure?.(), "The disk of the database is full");
        await disk.free(driver);
        await add(openedCount);
        await storage.probe(1);
        assert.equal(storage.failure?.(), null);
        assert.deepEqual(await driver.read(toStatement("select id from write_probes")), [{ id: 0 }]);
        await storage.close();
      }));
  });
}

// ----------------------------------------------------------------- I/O errors

/** Creates a driver whose statements fail by `fault`; with `ends`, the transaction is aborted too, as SQLite does it. */
function faultyDriver(path: string, fault: (sql: string) => "fails" | "ends" | undefined): SqlDriver {
  const connect = (file: string): SqliteConnection => {
    const database = new DatabaseSync(file);
    return {
      run({ sql, args }) {
        const effect = fault(sql);
        if (effect === "ends") database.exec("rollback");
        if (effect) throw new Error("disk I/O error");
        return database.prepare(sql).all(...args) as SqlRow[];
      },
      inTransaction: () => database.isTransaction ?? false,
      close: () => database.close(),
    };
  };
  return sqliteDriver(path, connect);
}

describe("the embedded driver: I/O errors", () => {
  for (const [moment, matches] of [
    ["the commit", /^commit/],
    ["a statement", /-- here/],
    ["the end of a batch", /^release/],
  ] as const) {
    for (const effect of ["fails", "ends"] as const) {
      it(`at ${moment} which ${effect}${effect === "ends" ? " the transaction" : ""}: every batch fails or takes effect, alone`, () =>
        withFolder(async (folder) => {
          let remaining = 0;
          const driver = faultyDriver(join(folder, "a.db"), (sql) => {
            if (!matches.test(sql) || remaining === 0) return undefined;
            remaining -= 1;
            return effect;
          });
          await driver.batch([table]);
          for (const errors of [1, 2, 7]) {
            remaining = errors;
            const [{ last }] = (await driver.read(
              toStatement("select coalesce(max(item_id), 0) as last from item"),
            )) as [{ last: number }];
            const expectedIds = Array.from({ length: 5 }, (_, i) => Number(last) + i + 1);
            const batches = expectedIds.map((id) =>
              driver.batch([toStatement("insert into item (item_id) values (?) -- here", id)]),
            );
            const settled = await Promise.allSettled(batches);
            remaining = 0;
            for (const result of settled) {
              if (result.status === "rejected") assert.match(String(result.reason), /disk I\/O error/);
            }
            const there = new Set(readIds(await driver.read(allItems)));
            assert.deepEqual(
              expectedIds.map((id) => there.has(id)),
              settled.map((result) => result.status === "fulfilled"),
            );
            await driver
              .batch([toStatement("insert into item (item_id) values (?)", expectedIds.at(-1) as number)])
              .catch(() => {});
          }
          await driver.close();
        }));
    }
  }

  it("a read that fails is an error, and the next one succeeds", () =>
    withFolder(async (folder) => {
      let failing = false;
      const driver = faultyDriver(join(folder, "a.db"), (sql) => (failing && /item/.test(sql) ? "fails" : undefined));
      await driver.batch([table, insert(1, 1)]);
      failing = true;
      await assert.rejects(driver.read(allItems), /disk I\/O error/);
      failing = false;
      assert.deepEqual(readIds(await driver.read(allItems)), [1]);
      await driver.close();
    }));
});
