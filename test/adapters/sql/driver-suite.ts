/** The tests that each `SqlDriver` with the SQLite dialect must pass. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { SqlDriver, SqlRow, SqlStatement, SqlValue } from "../../../adapters/sql/driver.ts";
import type { SqliteOptions } from "../../../adapters/sqlite/writer.ts";

export interface Subject {
  /** Calls `test` with a driver of a new database, which has the table `item`; `rival` is another connection to it. */
  use(
    test: (driver: SqlDriver, rival: () => Promise<OtherConnection>) => Promise<void>,
    options?: SqliteOptions,
  ): Promise<void>;
  /** It binds values itself: numbers keep their types, and what is no value is refused. */
  readonly binds: boolean;
  /** Its size can be limited, and a rival can hold the write lock. */
  readonly file: boolean;
  /** One process at a time executes on it. */
  readonly exclusive: boolean;
}

/** A connection in a write transaction of its own, which has inserted the item 1. */
export interface OtherConnection {
  end(how: "commit" | "rollback"): Promise<void>;
}

export function toStatement(sql: string, ...args: SqlValue[]): SqlStatement {
  return { sql, args };
}

export const table: SqlStatement = toStatement("create table item (item_id integer primary key, body)");
export const allItems: SqlStatement = toStatement("select item_id from item order by item_id");

export function insert(id: number, body: SqlValue = null): SqlStatement {
  return toStatement("insert into item (item_id, body) values (?, ?)", id, body);
}

export function readIds(rows: readonly SqlRow[]): SqlValue[] {
  return rows.map((row) => row.item_id as SqlValue);
}

/** Defines the tests. */
export function registerDriverSuite({ use, binds, file, exclusive }: Subject): void {
  const test = (name: string, body: Parameters<Subject["use"]>[0], options?: SqliteOptions): unknown =>
    it(name, () => use(body, options));

  test("returns each statement's rows, in order, as plain objects", async (driver) => {
    const results = await driver.batch([
      insert(1, "one"),
      toStatement("insert into item (item_id, body) values (2, 'two') returning item_id, body"),
      toStatement("update item set body = 'none' where item_id = 9 returning item_id"),
      toStatement("select count(*) as total from item"),
      toStatement("delete from item where item_id = 1"),
      toStatement("select count(*) as total from item"),
    ]);
    assert.deepStrictEqual(results, [[], [{ item_id: 2, body: "two" }], [], [{ total: 2 }], [], [{ total: 1 }]]);
    assert.deepStrictEqual(await driver.batch([]), []);
  });

  test("applies nothing of a batch that fails", async (driver) => {
    await driver.batch([insert(1)]);
    await assert.rejects(driver.batch([insert(2), insert(3), insert(1)]), /UNIQUE/);
    assert.deepEqual(readIds(await driver.read(allItems)), [1]);
  });

  test("fails one invalid batch among twenty alone", async (driver) => {
    const batches = Array.from({ length: 20 }, (_, i) =>
      driver.batch([insert(i), i === 7 ? insert(6) : toStatement("select 1 as one")]),
    );
    const settled = await Promise.allSettled(batches);
    assert.deepEqual(
      settled.map((result) => result.status),
      settled.map((_, i) => (i === 7 ? "rejected" : "fulfilled")),
    );
    const expected = Array.from({ length: 20 }, (_, i) => i).filter((i) => i !== 7);
    assert.deepEqual(readIds(await driver.read(allItems)), expected);
  });

  test("keeps the order of batches", async (driver) => {
    const count = toStatement("select count(*) as total from item");
    const results = await Promise.all(Array.from({ length: 50 }, (_, i) => driver.batch([insert(50 - i), count])));
    assert.deepEqual(
      results.map((rows) => rows[1]?.[0]?.total),
      Array.from({ length: 50 }, (_, i) => i + 1),
    );
  });

  test("returns values unchanged", async (driver) => {
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
    await driver.batch(values.map((sqlValue, i) => insert(i, sqlValue)));
    const rows = await driver.read(toStatement("select body, typeof(body) as type from item order by item_id"));
    for (const [i, sqlValue] of values.entries()) {
      const body = rows[i]?.body;
      if (sqlValue instanceof Uint8Array) {
        assert.ok(body instanceof Uint8Array);
        assert.deepEqual([...body], [...sqlValue]);
      } else assert.equal(body, sqlValue);
      if (binds) assert.equal(rows[i]?.type, getTypeName(sqlValue));
    }
  });

  if (binds) {
    test("binds integers as integers", async (driver) => {
      const sums = await driver.read(
        toStatement("select 3 / ? as half, typeof(?) as one, typeof(?) as b limit ?", 2, 1, 1.5, 1),
      );
      assert.deepStrictEqual(sums, [{ half: 1, one: "integer", b: "real" }]);
    });

    test("rejects invalid values", async (driver) => {
      for (const invalidValue of [{}, { "1": 5 }, [], new Date(0), undefined, true, 1n]) {
        const bad = toStatement("select ? as a", invalidValue as never);
        await assert.rejects(driver.batch([bad]), TypeError);
        await assert.rejects(driver.read(bad), TypeError);
      }
    });

    test("keeps text with U+0000 whole or rejects it", async (driver) => {
      const refusal = await driver.batch([insert(1, "a\0b")]).then(
        () => null,
        (error: Error) => error.message,
      );
      if (refusal !== null) assert.match(refusal, /U\+0000/);
      const expected = refusal === null ? [{ body: "a\0b" }] : [];
      assert.deepEqual(await driver.read(toStatement("select body from item")), expected);
    });
  }

  test("enforces foreign keys", async (driver) => {
    await driver.batch([
      toStatement("create table part (item_id integer not null references item (item_id) on delete cascade)"),
      insert(1),
      toStatement("insert into part values (1)"),
    ]);
    await assert.rejects(driver.batch([toStatement("insert into part values (2)")]), /FOREIGN KEY/);
    await driver.batch([toStatement("delete from item")]);
    assert.deepEqual(await driver.read(toStatement("select * from part")), []);
  });

  test("reads committed batches, and not a batch that failed", async (driver) => {
    for (let i = 0; i < 20; i += 1) {
      await driver.batch([insert(i)]);
      assert.equal((await driver.read(allItems)).length, i + 1);
    }
    const failing = driver.batch([insert(50), insert(0)]);
    const firstRead = driver.read(allItems);
    await assert.rejects(failing);
    assert.equal((await firstRead).length, 20);
  });

  test(exclusive ? "acquires the worker lock" : "has no worker lock and relies on leases", async (driver) => {
    assert.equal(await driver.acquireWorkerLock?.(), exclusive ? true : undefined);
  });

  if (file) {
    test("continues after a full disk once there is room", async (driver) => {
      const big = new Uint8Array(100_000);
      await driver.batch([insert(1, new Uint8Array(200_000))]);
      const pages = (await driver.read(toStatement("pragma page_count")))[0]?.page_count;
      await driver.batch([toStatement(`pragma max_page_count = ${pages}`)]);
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
      assert.deepEqual(readIds(await driver.read(allItems)), [1, 2, 5]);
      await driver.batch([toStatement("delete from item where item_id = 1")]);
      await driver.batch([insert(4, big)]);
      assert.deepEqual(readIds(await driver.read(allItems)), [2, 4, 5]);
    });

    it("waits for another connection's write lock without stopping the event loop", async () => {
      let retries = 0;
      let onRetry = async (): Promise<void> => {};
      const timer = createQuickTimers(() => {
        retries += 1;
        return onRetry();
      });
      await use(
        async (driver, rival) => {
          const otherDriver = await rival();
          onRetry = async () => {
            if (retries === 3) await otherDriver.end("commit");
          };
          await Promise.all([driver.batch([insert(2)]), driver.batch([insert(3)])]);
          assert.equal(retries, 3);
          assert.deepEqual(readIds(await driver.read(allItems)), [1, 2, 3]);
        },
        { timer },
      );
    });

    it("gives up on the write lock after five seconds, and works afterwards", async () => {
      let waited = 0;
      const timer = createQuickTimers(async (ms) => {
        waited += ms;
      });
      await use(
        async (driver, rival) => {
          const otherDriver = await rival();
          await assert.rejects(driver.batch([insert(1)]), /write lock/);
          assert.ok(waited >= 5_000 && waited < 5_100, `waited ${waited} ms`);
          await otherDriver.end("rollback");
          await driver.batch([insert(2)]);
          assert.deepEqual(readIds(await driver.read(allItems)), [2]);
        },
        { timer },
      );
    });
  }

  test("answers waiting batches before it closes, and rejects later ones", async (driver) => {
    const waiting = driver.batch([insert(1)]);
    await driver.close();
    await waiting;
    await assert.rejects(driver.batch([insert(2)]), /closed/);
    await assert.rejects(driver.read(allItems), /closed/);
    await driver.close();
  });
}

function getTypeName(value: SqlValue): string {
  if (value === null) return "null";
  if (typeof value === "string") return "text";
  return typeof value === "number" ? (Number.isSafeInteger(value) ? "integer" : "real") : "blob";
}

/** Returns timers that are due at once, after `first`. The timers of checkpoints, which take longer, are never due. */
function createQuickTimers(first: (ms: number) => Promise<void>): NonNullable<SqliteOptions["timer"]> {
  return (ms, fn) => {
    if (ms > 100) return () => {};
    const id = setTimeout(() => void first(ms).then(fn), 0);
    return () => clearTimeout(id);
  };
}
