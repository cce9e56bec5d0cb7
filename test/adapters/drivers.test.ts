import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { CamelCasePlugin, Kysely, SqliteDialect } from "kysely";
import { fromKysely } from "../../adapters/kysely.ts";
import { nodeSqliteDriver } from "../../adapters/node-sqlite.ts";
import type { SqlDriver, SqlRow, SqlStatement, SqlValue } from "../../adapters/sql/driver.ts";
import type { SqliteOptions } from "../../adapters/sql/sqlite-writer.ts";
import { StatementCache } from "../../adapters/sql/statement-cache.ts";
import { nodeSqliteShim } from "./kysely-shim.ts";

const onBun = "Bun" in globalThis;

interface Subject {
  readonly name: string;
  open(path: string, options?: SqliteOptions): SqlDriver | Promise<SqlDriver>;
}

/** Drivers that open and configure the file themselves. */
const embedded: Subject[] = [{ name: "node:sqlite", open: nodeSqliteDriver }];
const hosted: Subject[] = [
  {
    name: "kysely on its SqliteDialect",
    open: (path, options) =>
      hostOwned(
        new Kysely({
          dialect: new SqliteDialect({ database: nodeSqliteShim(new DatabaseSync(path)) }),
          plugins: [new CamelCasePlugin()],
        }),
        options,
      ),
  },
];
if (onBun) {
  const { bunSqliteDriver } = await import("../../adapters/bun-sqlite.ts");
  embedded.push({ name: "bun:sqlite", open: bunSqliteDriver });
  const [{ Database }, { BunSqliteDialect }] = await Promise.all([import("bun:sqlite"), import("kysely-bun-sqlite")]);
  hosted.push({
    name: "kysely on kysely-bun-sqlite",

    open(path, options) {
      const database = new Database(path);
      database.run("pragma foreign_keys = on");
      return hostOwned(new Kysely({ dialect: new BunSqliteDialect({ database }) }), options);
    },
  });
}

/** As a host does it: the instance is closed after the driver. */
// biome-ignore lint/suspicious/noExplicitAny: any host's tables
function hostOwned(db: Kysely<any>, options?: SqliteOptions): SqlDriver {
  const driver = fromKysely(db, { timer: options?.timer });
  return {
    ...driver,
    async close() {
      await driver.close();
      await db.destroy();
    },
  };
}

function statement(sql: string, ...args: SqlValue[]): SqlStatement {
  return { sql, args };
}

const insert = (id: number, body: SqlValue = null): SqlStatement =>
  statement("insert into item (item_id, body) values (?, ?)", id, body);
const allItems = statement("select item_id from item order by item_id");
const ids = (rows: readonly SqlRow[]): SqlValue[] => rows.map((row) => row.item_id as SqlValue);

/** Runs `test` on a fresh file with the table `item`, and clears up. */
async function withFile(
  subject: Subject,
  test: (driver: SqlDriver, path: string) => Promise<void>,
  options?: SqliteOptions,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "greenroom-driver-"));
  const path = join(folder, "a.db");
  try {
    const driver = await subject.open(path, options);
    try {
      await driver.batch([statement("create table item (item_id integer primary key, body)")]);
      await test(driver, path);
    } finally {
      await driver.close();
    }
  } finally {
    await rm(folder, { recursive: true });
  }
}

for (const subject of [...embedded, ...hosted]) {
  describe(`${subject.name}: any driver`, () => {
    it("gives each statement's rows, in order, as plain objects", () =>
      withFile(subject, async (driver) => {
        const results = await driver.batch([
          insert(1, "one"),
          statement("insert into item (item_id, body) values (2, 'two') returning item_id, body"),
          statement("update item set body = 'none' where item_id = 9 returning item_id"),
          statement("select count(*) as total from item"),
          statement("delete from item where item_id = 1"),
          statement("select count(*) as total from item"),
        ]);
        assert.deepStrictEqual(results, [[], [{ item_id: 2, body: "two" }], [], [{ total: 2 }], [], [{ total: 1 }]]);
      }));

    it("leaves nothing of a batch that fails", () =>
      withFile(subject, async (driver) => {
        await driver.batch([insert(1)]);
        await assert.rejects(driver.batch([insert(2), insert(3), insert(1)]), /UNIQUE/);
        assert.deepEqual(ids(await driver.read(allItems)), [1]);
      }));

    it("fails one bad batch among twenty alone", () =>
      withFile(subject, async (driver) => {
        const batches = Array.from({ length: 20 }, (_, i) =>
          driver.batch([insert(i), i === 7 ? insert(6) : statement("select 1 as one")]),
        );
        const settled = await Promise.allSettled(batches);
        assert.deepEqual(
          settled.map((result) => result.status),
          settled.map((_, i) => (i === 7 ? "rejected" : "fulfilled")),
        );
        const expected = Array.from({ length: 20 }, (_, i) => i).filter((i) => i !== 7);
        assert.deepEqual(ids(await driver.read(allItems)), expected);
      }));

    it("keeps the order of batches", () =>
      withFile(subject, async (driver) => {
        const results = await Promise.all(
          Array.from({ length: 100 }, (_, i) =>
            driver.batch([insert(100 - i), statement("select count(*) as total from item")]),
          ),
        );
        assert.deepEqual(
          results.map((rows) => rows[1]?.[0]?.total),
          Array.from({ length: 100 }, (_, i) => i + 1),
        );
      }));

    it("gives back the values it was given", () =>
      withFile(subject, async (driver) => {
        const values: SqlValue[] = [
          null,
          "",
          "naïve 🎭 text",
          JSON.stringify({ nul: "\0" }),
          0,
          -1,
          1.5,
          2 ** 31,
          Number.MAX_SAFE_INTEGER,
          Number.MIN_SAFE_INTEGER,
          1e300,
          new Uint8Array([0, 1, 255]),
          new Uint8Array([9, 1, 2, 9]).subarray(1, 3),
          new Uint8Array(0),
          "x".repeat(200_000),
        ];
        await driver.batch(values.map((value, i) => insert(i, value)));
        const rows = await driver.read(statement("select body from item order by item_id"));
        for (const [i, value] of values.entries()) {
          const body = rows[i]?.body;
          if (value instanceof Uint8Array) {
            assert.ok(body instanceof Uint8Array);
            assert.deepEqual([...body], [...value]);
          } else assert.equal(body, value);
        }
      }));

    it("reads what was committed, and not a batch that failed", () =>
      withFile(subject, async (driver) => {
        for (let i = 0; i < 20; i += 1) {
          await driver.batch([insert(i)]);
          assert.equal((await driver.read(allItems)).length, i + 1);
        }
        const failing = driver.batch([insert(50), insert(0)]);
        const seen = driver.read(allItems);
        await assert.rejects(failing);
        assert.equal((await seen).length, 20);
      }));

    it("goes on after a full disk once there is room", () =>
      withFile(subject, async (driver) => {
        const big = new Uint8Array(100_000);
        await driver.batch([insert(1, new Uint8Array(200_000))]);
        const pages = (await driver.read(statement("pragma page_count")))[0]?.page_count;
        await driver.batch([statement(`pragma max_page_count = ${pages}`)]);
        const settled = await Promise.allSettled([
          driver.batch([insert(2)]),
          driver.batch([insert(3), insert(4, big)]),
          driver.batch([insert(5)]),
          driver.batch([insert(2)]),
        ]);
        assert.deepEqual(
          settled.map((result) => result.status),
          ["fulfilled", "rejected", "fulfilled", "rejected"],
        );
        assert.match(String((settled[1] as PromiseRejectedResult).reason), /full/);
        assert.match(String((settled[3] as PromiseRejectedResult).reason), /UNIQUE/);
        assert.deepEqual(ids(await driver.read(allItems)), [1, 2, 5]);
        await driver.batch([statement("delete from item where item_id = 1")]);
        await driver.batch([insert(4, big)]);
        assert.deepEqual(ids(await driver.read(allItems)), [2, 4, 5]);
      }));

    it("waits for another connection's write lock without stopping the event loop", async () => {
      let other: DatabaseSync | undefined;
      let retries = 0;
      const options: SqliteOptions = {
        timer(ms, fn) {
          // Only waiting for the lock is of interest here; checkpoints come after a longer while.
          if (ms > 100) return () => {};
          retries += 1;
          if (retries === 3) other?.exec("commit");
          const id = setTimeout(fn, 0);
          return () => clearTimeout(id);
        },
      };
      await withFile(
        subject,
        async (driver, path) => {
          other = new DatabaseSync(path);
          other.exec("begin immediate");
          other.exec("insert into item (item_id) values (1)");
          await Promise.all([driver.batch([insert(2)]), driver.batch([insert(3)])]);
          assert.equal(retries, 3);
          assert.deepEqual(ids(await driver.read(allItems)), [1, 2, 3]);
          other.close();
        },
        options,
      );
    });

    it("gives up on the write lock after five seconds, and is well afterwards", async () => {
      let waited = 0;
      const options: SqliteOptions = {
        timer(ms, fn) {
          if (ms > 100) return () => {};
          waited += ms;
          const id = setTimeout(fn, 0);
          return () => clearTimeout(id);
        },
      };
      await withFile(
        subject,
        async (driver, path) => {
          const other = new DatabaseSync(path);
          other.exec("begin immediate");
          await assert.rejects(driver.batch([insert(1)]), /write lock/);
          assert.ok(waited >= 5_000 && waited < 5_100, `waited ${waited} ms`);
          other.exec("rollback");
          other.close();
          await driver.batch([insert(2)]);
          assert.deepEqual(ids(await driver.read(allItems)), [2]);
        },
        options,
      );
    });

    it("answers waiting batches before it closes, and refuses later ones", () =>
      withFile(subject, async (driver, path) => {
        const waiting = driver.batch([insert(1)]);
        await driver.close();
        await waiting;
        await assert.rejects(driver.batch([insert(2)]), /closed/);
        await assert.rejects(driver.read(allItems), /closed/);
        const other = new DatabaseSync(path);
        assert.equal(other.prepare("select count(*) as total from item").get()?.total, 1);
        other.close();
      }));
  });
}

for (const subject of embedded) {
  describe(`${subject.name}: embedded driver`, () => {
    it("commits what arrives in one turn together, 64 batches at most", async () => {
      const gate = holdableDefer();
      await withFile(
        subject,
        async (driver) => {
          gate.held = true;
          const answered: number[] = [];
          const batches = Array.from({ length: 65 }, (_, i) =>
            driver.batch([insert(i)]).then(() => void answered.push(i)),
          );
          assert.equal(gate.deferred.length, 1);
          gate.deferred.shift()?.();
          await Promise.all(batches.slice(0, 64));
          assert.equal(answered.length, 64);
          assert.equal((await driver.read(allItems)).length, 64);
          assert.equal(gate.deferred.length, 1);
          gate.deferred.shift()?.();
          await Promise.all(batches);
          gate.held = false;
        },
        { defer: gate.defer },
      );
    });

    it("keeps a group below four megabytes", async () => {
      const gate = holdableDefer();
      await withFile(
        subject,
        async (driver) => {
          gate.held = true;
          const big = new Uint8Array(3 * 1024 * 1024);
          const batches = [driver.batch([insert(1, big)]), driver.batch([insert(2, big)])];
          gate.deferred.shift()?.();
          await batches[0];
          assert.deepEqual(ids(await driver.read(allItems)), [1]);
          gate.deferred.shift()?.();
          await Promise.all(batches);
          gate.held = false;
        },
        { defer: gate.defer },
      );
    });

    it("sets every connection as durable as promised", () =>
      withFile(subject, async (driver) => {
        const value = async (name: string): Promise<[SqlValue, SqlValue]> => {
          const read = await driver.read(statement(`pragma ${name}`));
          const [written] = await driver.batch([statement(`pragma ${name}`)]);
          return [
            Object.values(read[0] as SqlRow)[0] as SqlValue,
            Object.values(written?.[0] as SqlRow)[0] as SqlValue,
          ];
        };
        assert.deepEqual(await value("journal_mode"), ["wal", "wal"]);
        assert.deepEqual(await value("synchronous"), [2, 2]);
        assert.deepEqual(await value("foreign_keys"), [1, 1]);
        assert.deepEqual(await value("trusted_schema"), [0, 0]);
        assert.deepEqual(await value("journal_size_limit"), [67108864, 67108864]);
        assert.equal((await value("busy_timeout"))[1], 0);
      }));

    it("refuses writes outside a batch", () =>
      withFile(subject, async (driver) => {
        await assert.rejects(driver.read(insert(1)), /readonly/);
      }));

    it("binds whole numbers as integers", () =>
      withFile(subject, async (driver) => {
        const rows = await driver.read(statement("select typeof(?) as a, 3 / ? as b, typeof(?) as c", 1, 2, 1.5));
        assert.deepEqual(rows, [{ a: "integer", b: 1, c: "real" }]);
      }));

    it("refuses values that are none", () =>
      withFile(subject, async (driver) => {
        for (const value of [{}, { "1": 5 }, [], new Date(0), undefined, true, 1n]) {
          await assert.rejects(driver.batch([statement("select ? as a", value as never)]), TypeError);
          await assert.rejects(driver.read(statement("select ? as a", value as never)), TypeError);
        }
      }));

    it("keeps text with U+0000 whole or refuses it", () =>
      withFile(subject, async (driver) => {
        const stored = driver.batch([insert(1, "a\0b")]);
        const refusal = await stored.then(
          () => null,
          (error: Error) => error.message,
        );
        if (refusal !== null) {
          assert.equal(subject.name, "node:sqlite");
          assert.match(refusal, /U\+0000/);
        }
        const expected = refusal === null ? [{ body: "a\0b" }] : [];
        assert.deepEqual(await driver.read(statement("select body from item")), expected);
      }));

    it("moves the log into the database when nothing is waiting", async () => {
      const timers: (() => void)[] = [];
      await withFile(
        subject,
        async (driver, path) => {
          await driver.batch([insert(1)]);
          await driver.batch([insert(2)]);
          const withoutLog = async (): Promise<number> => {
            await copyFile(path, `${path}.copy`);
            const copy = new DatabaseSync(`${path}.copy`);
            const total = copy.prepare("select count(*) as total from sqlite_schema").get()?.total;
            const items = total === 0 ? 0 : copy.prepare("select count(*) as total from item").get()?.total;
            copy.close();
            return Number(items);
          };
          assert.equal(await withoutLog(), 0);
          assert.equal(timers.length, 1);
          timers.shift()?.();
          assert.equal(await withoutLog(), 2);
          assert.equal(timers.length, 0);
          await driver.batch([insert(3)]);
          assert.equal(timers.length, 1);
        },
        {
          timer(_ms, fn) {
            timers.push(fn);
            return () => {};
          },
        },
      );
    });

    it("leaves one complete file when it closes", async () => {
      await withFile(subject, async (driver, path) => {
        await driver.batch([insert(1)]);
        assert.ok(existsSync(`${path}-wal`));
        await driver.close();
        assert.ok(!existsSync(`${path}-wal`));
        await driver.close();
      });
    });

    it("opens a folder's first database, and the same one again", async () => {
      const folder = await mkdtemp(join(tmpdir(), "greenroom-driver-"));
      try {
        const path = join(folder, "deep", "er", "a.db");
        const first = await subject.open(path);
        await first.batch([statement("create table item (item_id)"), statement("insert into item values (1)")]);
        await first.close();
        const second = await subject.open(path);
        assert.deepEqual(await second.read(allItems), [{ item_id: 1 }]);
        await second.close();
      } finally {
        await rm(folder, { recursive: true });
      }
    });

    it("keeps a :memory: database to itself", async () => {
      const [one, two] = [await subject.open(":memory:"), await subject.open(":memory:")];
      await one.batch([statement("create table item (item_id)"), statement("insert into item values (1)")]);
      assert.deepEqual(await one.read(allItems), [{ item_id: 1 }]);
      await assert.rejects(two.read(allItems), /no such table/);
      await one.close();
      await two.close();
    });

    it("refuses what is no database, and names it", async () => {
      const folder = await mkdtemp(join(tmpdir(), "greenroom-driver-"));
      try {
        const foreign = join(folder, "notes.txt");
        await writeFile(foreign, "not a database ".repeat(500));
        const damaged = join(folder, "damaged.db");
        const made = new DatabaseSync(damaged);
        made.exec("create table item (item_id)");
        made.close();
        const bytes = await readFile(damaged);
        await writeFile(damaged, bytes.fill(0xaa, 100, 4096));
        for (const path of [foreign, damaged]) {
          await assert.rejects(
            async () => await subject.open(path),
            (error: Error) => error.message.includes(path) && /damaged/.test(error.message),
          );
        }
        await mkdir(join(folder, "folder.db"));
        await assert.rejects(
          async () => await subject.open(join(folder, "folder.db")),
          (error: Error) => error.message.includes("folder.db") && /read and write/.test(error.message),
        );
      } finally {
        await rm(folder, { recursive: true });
      }
    });
  });
}

/** A `defer` that works by itself until it is held; from then on the test calls what was deferred. */
function holdableDefer(): {
  held: boolean;
  readonly deferred: (() => void)[];
  readonly defer: (fn: () => void) => void;
} {
  const gate = {
    held: false,
    deferred: [] as (() => void)[],
    defer(fn: () => void): void {
      if (gate.held) gate.deferred.push(fn);
      else setTimeout(fn, 0);
    },
  };
  return gate;
}

describe("fromKysely", () => {
  it("refuses a connection that does not enforce foreign keys", async () => {
    const database = nodeSqliteShim(new DatabaseSync(":memory:", { enableForeignKeyConstraints: false }));
    const driver = hostOwned(new Kysely({ dialect: new SqliteDialect({ database }) }));
    await assert.rejects(driver.batch([statement("create table item (item_id)")]), /pragma foreign_keys = on/);
    assert.deepEqual(await driver.read(statement("select name from sqlite_schema")), []);
    await driver.close();
  });
});

describe("StatementCache", () => {
  it("prepares a text once and lets the one go that was not used for longest", () => {
    const events: string[] = [];
    const cache = new StatementCache<string>(
      (sql) => {
        events.push(`+${sql}`);
        return sql;
      },
      (sql) => void events.push(`-${sql}`),
      2,
    );
    for (const sql of ["a", "b", "a", "c", "a", "b"]) assert.equal(cache.get(sql), sql);
    assert.deepEqual(events, ["+a", "+b", "+c", "-b", "+b", "-c"]);
    cache.clear();
    assert.deepEqual(events.slice(6).sort(), ["-a", "-b"]);
  });
});

if (onBun) {
  describe("bunKysely", () => {
    it("reports over the file and cannot write", async () => {
      const { bunKysely } = await import("../../adapters/kysely.ts");
      await withFile(embedded[0] as Subject, async (driver, path) => {
        await driver.batch([insert(1, "one")]);
        // biome-ignore lint/suspicious/noExplicitAny: a table of this test
        const db = bunKysely(path) as Kysely<any>;
        assert.deepEqual(await db.selectFrom("item").selectAll().execute(), [{ item_id: 1, body: "one" }]);
        await assert.rejects(db.insertInto("item").values({ item_id: 2 }).execute(), /readonly/);
        await db.destroy();
      });
    });
  });
}
