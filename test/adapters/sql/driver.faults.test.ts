import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, rmSync, statSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, open as openFile, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { libsqlDriver } from "../../../adapters/libsql/mod.ts";
import type { SqlDriver, SqlRow, SqlStatement, SqlValue } from "../../../adapters/sql/driver.ts";
import { sqlStorage } from "../../../adapters/sql/mod.ts";
import type { SqliteConnection } from "../../../adapters/sqlite/file.ts";
import { nodeSqliteDriver } from "../../../adapters/sqlite/node.ts";
import { type SqliteOptions, sqliteDriver } from "../../../adapters/sqlite/writer.ts";
import { ConfigError, ServiceError } from "../../../lib/errors.ts";
import type { Scope, Storage } from "../../../lib/storage/mod.ts";
import { countThreads } from "../../suite/counts.ts";
import { dice } from "../../suite/workload.ts";
import { sqliteOpeners } from "../sqlite/threaded-drivers.ts";
import { all } from "./efforts.ts";

type Open = (path: string, options?: SqliteOptions) => SqlDriver;

/** The commit's, as in the simulation. */
const seed = Number(process.env.GREENROOM_TEST_SEED ?? 1);

const openers: Record<string, Open> = {
  "node:sqlite": nodeSqliteDriver,
  libSQL: (path, options) => libsqlDriver({ url: `file:${path}`, timer: options?.timer }),
};
if ("Bun" in globalThis) openers["bun:sqlite"] = (await import("../../../adapters/sqlite/bun.ts")).bunSqliteDriver;

const statement = (sql: string, ...args: SqlValue[]): SqlStatement => ({ sql, args });
const table = statement("create table item (item_id integer primary key, body)");
const insert = (id: number, bytes: number): SqlStatement =>
  statement("insert into item (item_id, body) values (?, ?)", id, new Uint8Array(bytes).fill(id));
const allItems = statement("select item_id from item order by item_id");
const ids = (rows: readonly SqlRow[]): SqlValue[] => rows.map((row) => row.item_id as SqlValue);

async function inFolder(test: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "greenroom-faults-"));
  try {
    await test(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

// ---------------------------------------------------------------- full disks

/** A disk that can be filled up: a small file system where this process may mount one, else SQLite's own limit. */
interface Disk {
  readonly folder: string;
  /** Leaves about a megabyte to the database. */
  fill(driver: SqlDriver): Promise<void>;
  free(driver: SqlDriver): Promise<void>;
}

async function withDisk(test: (disk: Disk) => Promise<void>): Promise<void> {
  await inFolder(async (folder) => {
    const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=3m", "tmpfs", folder]).status === 0;
    const ballast = join(folder, "ballast");
    const limit = async (driver: SqlDriver, pages: number): Promise<void> => {
      await driver.batch([statement(`pragma max_page_count = ${pages}`)]);
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

for (const [name, open] of Object.entries({ ...openers, ...(await sqliteOpeners()) })) {
  describe(`${name}: a full disk`, () => {
    it("fails what does not fit as a whole, loses nothing that was answered, and goes on once there is room", () =>
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
            const [one, two] = [++id, ++id];
            return driver.batch([insert(one, 20_000), insert(two, 1)]).then(() => void answered.push(one, two));
          });
          for (const result of await Promise.allSettled(batches)) {
            if (result.status === "fulfilled") continue;
            failed += 1;
            assert.match(String(result.reason), /database or disk is full/);
          }
        };
        const proven = async (): Promise<void> =>
          assert.deepEqual(
            ids(await driver.read(allItems)),
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
        assert.deepEqual(await driver.read(statement("pragma integrity_check")), [{ integrity_check: "ok" }]);
        await driver.close();
        const again = open(path);
        assert.deepEqual(
          ids(await again.read(allItems)),
          [...answered].sort((a, b) => a - b),
        );
        await again.close();
      }));

    it("is told by the storage in words a caller can act on", () =>
      withDisk(async (disk) => {
        const driver = open(join(disk.folder, "a.db"));
        const storage = sqlStorage(driver);
        await storage.migrate();
        await disk.fill(driver);
        const add = (n: number): Promise<unknown> => {
          const metadata = { n, body: "x".repeat(100_000) };
          return storage.createThread(scope, { thread_id: `t${n}`, metadata, config: {}, stateless: false }, n);
        };
        let made = 0;
        await assert.rejects(
          async () => {
            for (; made < 100; made += 1) await add(made);
          },
          (error) => error instanceof ServiceError && error.code === "storage_full",
        );
        assert.equal(await countThreads(storage, scope, {}), made);
        assert.equal(storage.failure?.(), "The disk of the database is full");
        // What failed does not fit yet, though a small write may.
        await assert.rejects(storage.probe(1), { code: "storage_full" });
        assert.equal(storage.failure?.(), "The disk of the database is full");
        await disk.free(driver);
        await add(made);
        await storage.probe(1);
        assert.equal(storage.failure?.(), null);
        assert.deepEqual(await driver.read(statement("select id from write_probes")), [{ id: 0 }]);
        await storage.close();
      }));
  });
}

// ----------------------------------------------------------------- I/O errors

/** A driver whose statements fail as `fault` says; with `ends`, the transaction is gone then, as SQLite does it. */
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
        inFolder(async (folder) => {
          let left = 0;
          const driver = faultyDriver(join(folder, "a.db"), (sql) => {
            if (!matches.test(sql) || left === 0) return undefined;
            left -= 1;
            return effect;
          });
          await driver.batch([table]);
          for (const errors of [1, 2, 7]) {
            left = errors;
            const [{ last }] = (await driver.read(statement("select coalesce(max(item_id), 0) as last from item"))) as [
              { last: number },
            ];
            const wanted = Array.from({ length: 5 }, (_, i) => Number(last) + i + 1);
            const batches = wanted.map((id) =>
              driver.batch([statement("insert into item (item_id) values (?) -- here", id)]),
            );
            const settled = await Promise.allSettled(batches);
            left = 0;
            for (const result of settled) {
              if (result.status === "rejected") assert.match(String(result.reason), /disk I\/O error/);
            }
            const there = new Set(ids(await driver.read(allItems)));
            assert.deepEqual(
              wanted.map((id) => there.has(id)),
              settled.map((result) => result.status === "fulfilled"),
            );
            await driver
              .batch([statement("insert into item (item_id) values (?)", wanted.at(-1) as number)])
              .catch(() => {});
          }
          await driver.close();
        }));
    }
  }

  it("a read that fails is an error, and the next one answers", () =>
    inFolder(async (folder) => {
      let failing = false;
      const driver = faultyDriver(join(folder, "a.db"), (sql) => (failing && /item/.test(sql) ? "fails" : undefined));
      await driver.batch([table, insert(1, 1)]);
      failing = true;
      await assert.rejects(driver.read(allItems), /disk I\/O error/);
      failing = false;
      assert.deepEqual(ids(await driver.read(allItems)), [1]);
      await driver.close();
    }));
});

// --------------------------------------------------------------- damaged files

const scope: Scope = { deployment: "d" };
const THREADS = 12;

/** Threads with runs, checkpoints and frames: the same bytes every time. */
async function fill(storage: Storage): Promise<void> {
  await storage.migrate();
  const content = { graph_id: "g", name: "n", description: null, config: {}, context: {}, metadata: {} };
  const { assistant } = await storage.createAssistant(scope, { assistant_id: "a", ...content }, 1);
  for (let t = 0; t < THREADS; t += 1) {
    const ids = { run_id: `r${t}`, thread_id: `t${t}`, assistant_id: "a", graph_id: "g" };
    const outcome = await storage.createRun(scope, {
      run: {
        ...ids,
        metadata: {},
        kwargs: { text: "x".repeat(500) },
        multitask_strategy: "enqueue",
        stateless: false,
        resumable: true,
        created_at: 5,
      },
      expected: { assistant_revision: assistant.revision, thread_revision: null },
      create_thread: { thread_id: `t${t}`, metadata: { t }, config: {}, stateless: false },
      claim: { token: `k${t}`, lease_until: 100 },
      now: 5,
    });
    assert.ok(outcome.kind === "created" && outcome.claimed);
    for (let c = 0; c < 4; c += 1) {
      const data = JSON.stringify("hello ".repeat(c === 3 ? 2000 : 50));
      const values = [{ channel: "m", version: `${c}`, type: "json", data }];
      const checkpoint = { ns: "", checkpoint_id: `c${c}`, parent_id: null, payload: { type: "json", data: "{}" } };
      await storage.saveProgress(
        scope,
        outcome.claimed.lease,
        {
          checkpoints: [{ ...checkpoint, metadata: {}, versions: { m: `${c}` }, values, created_at: 6 }],
          writes: [],
          frames: { first_id: c + 1, list: [{ event: "e", data: `"${c}"` }] },
        },
        6,
      );
    }
  }
}

/** Everything that a client could read. */
async function everything(storage: Storage): Promise<{ readonly threads: number; readonly text: string }> {
  const page = { limit: 100, offset: 0, sort_order: "asc" } as const;
  const threads = await storage.searchThreads(scope, { ...page, sort_by: "thread_id" });
  const found: unknown[] = [threads, await storage.searchAssistants(scope, { ...page, sort_by: "name" })];
  for (let t = 0; t < THREADS; t += 1) {
    const thread_id = `t${t}`;
    found.push(await storage.getThread(scope, thread_id), await storage.listRuns(scope, thread_id, page));
    found.push(await storage.listCheckpoints(scope, thread_id, { limit: 100 }));
    found.push(await storage.readFrames(scope, `r${t}`, 0));
  }
  return { threads: threads.total, text: JSON.stringify(found) };
}

for (const [name, open] of Object.entries(openers)) {
  describe(`${name}: a damaged file`, () => {
    const started = async (path: string): Promise<Storage> => {
      const storage = sqlStorage(open(path));
      try {
        await storage.migrate();
        return storage;
      } catch (error) {
        await storage.close();
        throw error;
      }
    };

    const filled = async (folder: string): Promise<string> => {
      const path = join(folder, "whole.db");
      const storage = sqlStorage(open(path));
      await fill(storage);
      await storage.close();
      return path;
    };

    /** Start it, and be told of the damage and the remedy; the files stay as they are. */
    const refuses = async (path: string, message: RegExp): Promise<void> => {
      const files = [path, `${path}-wal`].filter((file) => existsSync(file) && statSync(file).isFile());
      const before = await Promise.all(files.map((file) => readFile(file)));
      await assert.rejects(started(path), (error: Error) => {
        assert.match(error.message, message);
        assert.match(
          error.message,
          /restore it from a backup|Restore both from a backup|choose another path|may read|or a backup/,
        );
        return true;
      });
      const after = await Promise.all(files.map((file) => readFile(file)));
      for (const [i, bytes] of before.entries())
        assert.ok(bytes.equals(after[i] as Uint8Array), `${files[i]} was changed`);
    };

    it("that is shorter, by a byte or by a page, is refused", () =>
      inFolder(async (folder) => {
        const whole = await filled(folder);
        const { size } = statSync(whole);
        for (const less of [1, 100, 4095, 4096, 4097, 40_960, size - 4096, size - 512]) {
          const path = join(folder, `less-${less}.db`);
          await copyFile(whole, path);
          await truncate(path, size - less);
          await refuses(path, /malformed|not a database/);
        }
      }));

    it("that is empty or gone beside its log is refused, and the log is kept", () =>
      inFolder(async (folder) => {
        const path = join(folder, "a.db");
        const storage = sqlStorage(open(path));
        await fill(storage);
        for (const [place, prepare] of [
          ["empty.db", (file: string) => writeFile(file, "")],
          ["gone.db", async () => {}],
        ] as const) {
          await prepare(join(folder, place));
          await copyFile(`${path}-wal`, join(folder, `${place}-wal`));
          await refuses(join(folder, place), /is (?:empty|missing), but .*-wal exists/);
        }
        // Here the database and its log are both there, as a process that was killed leaves them.
        await copyFile(path, join(folder, "killed.db"));
        await copyFile(`${path}-wal`, join(folder, "killed.db-wal"));
        const killed = await started(join(folder, "killed.db"));
        assert.equal((await everything(killed)).text, (await everything(storage)).text);
        await killed.close();
        await storage.close();
      }));

    it("that was in use and is empty now is refused", () =>
      inFolder(async (folder) => {
        const used = join(folder, "used.db");
        const storage = await started(used);
        assert.equal(await storage.becomeWorker(1), true);
        await storage.close();
        // Elsewhere: libSQL lets go of a file only when its connection is collected.
        const path = join(folder, "empty.db");
        await writeFile(path, "");
        await copyFile(`${used}.worker`, `${path}.worker`);
        await refuses(path, /is empty, but .*\.worker exists/);
        // Without any trace it is a new one.
        await rm(`${path}.worker`);
        const fresh = await started(path);
        await fresh.close();
      }));

    it("whose log fills up what is missing of it is whole", () =>
      inFolder(async (folder) => {
        const path = join(folder, "a.db");
        const storage = sqlStorage(open(path));
        await fill(storage);
        // A process was killed while it moved the log: the file has begun to grow.
        const half = join(folder, "half.db");
        await copyFile(path, half);
        await copyFile(`${path}-wal`, `${half}-wal`);
        const file = await openFile(half, "a");
        await file.write(new Uint8Array(4096 + 1000));
        await file.close();
        const again = await started(half);
        assert.equal((await everything(again)).text, (await everything(storage)).text);
        await again.close();
        await storage.close();
      }));

    it("whose first page is garbage, that is another program's or a folder, is refused", () =>
      inFolder(async (folder) => {
        const whole = await filled(folder);
        const bytes = await readFile(whole);
        const { below } = dice(1);
        const garbage = (from: number, to: number): Uint8Array =>
          bytes.map((byte, at) => (at >= from && at < to ? below(256) : byte));
        for (const [i, content] of [
          garbage(0, 4096),
          garbage(0, 100),
          garbage(100, 4096),
          "name,age\nAda,36\n".repeat(500),
          "x\n",
          new Uint8Array(4096),
        ].entries()) {
          const path = join(folder, `garbage-${i}.db`);
          await writeFile(path, content);
          await refuses(path, /not a database|malformed/);
        }
        await mkdir(join(folder, "folder.db"));
        await refuses(join(folder, "folder.db"), /Cannot use the database .*folder\.db/);
      }));

    it("of a newer version is refused", () =>
      inFolder(async (folder) => {
        const path = await filled(folder);
        const driver = open(path);
        await driver.batch([statement("insert into greenroom_versions (version) values (99)")]);
        await driver.close();
        await assert.rejects(
          started(path),
          (error) => error instanceof ConfigError && /version 99/.test(error.message),
        );
      }));

    // libSQL's own library ends the process over text that is no UTF-8.
    if (name !== "libSQL") {
      it("with any bit flipped never starts empty, and differs only where SQLite itself finds nothing", () =>
        inFolder(async (folder) => {
          const whole = await filled(folder);
          const bytes = await readFile(whole);
          const first = await started(whole);
          const expected = await everything(first);
          await first.close();
          const { below } = dice(8);
          const seen = { refused: 0, unreadable: 0, same: 0, different: 0 };
          for (let i = 0; i < 300; i += 1) {
            const at = i < 100 ? i : Math.floor(((i - 100 + 0.5) * bytes.length) / 200);
            const bit = 1 << below(8);
            // A third of the places for each commit; `npm run test:all` tries all of them.
            if (!all && (i + seed) % 3 !== 0) continue;
            const path = join(folder, `flip-${i}.db`);
            await writeFile(
              path,
              bytes.map((byte, place) => (place === at ? byte ^ bit : byte)),
            );
            const storage = await started(path).catch(() => undefined);
            if (!storage) seen.refused += 1;
            else {
              const found = await everything(storage).catch(() => undefined);
              await storage.close();
              if (!found) seen.unreadable += 1;
              else if (found.text === expected.text) seen.same += 1;
              else {
                seen.different += 1;
                assert.equal(found.threads, THREADS, `bit flip at ${at}`);
                const database = new DatabaseSync(path);
                // It knows nothing of the texts themselves, but for those that a constraint looks at. Two entries of a page for one
                // row are found by a check of the whole file alone, not by the reads of a start.
                const { quick_check } = database.prepare("pragma quick_check").get() as { quick_check: string };
                assert.match(
                  quick_check,
                  /^ok$|constraint failed|^NULL value|Multiple uses for byte/,
                  `bit flip at ${at}`,
                );
                database.close();
              }
            }
            for (const end of ["", "-wal", "-shm"]) await rm(path + end, { force: true });
          }
          assert.ok(seen.refused > (all ? 20 : 5), JSON.stringify(seen));
        }));
    }

    it("that is cut off under a living service is an error of its reads", () =>
      inFolder(async (folder) => {
        const path = await filled(folder);
        const storage = await started(path);
        await truncate(path, 8192);
        await assert.rejects(everything(storage), /malformed|disk I\/O error|not a database|were damaged/);
        await storage.close();
        await refuses(path, /malformed|was cut or overwritten/);
      }));
  });
}
