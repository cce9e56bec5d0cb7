/** The tests that each driver for Postgres must pass, with any client. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { type PostgresOptions, postgresDriver } from "../../../adapters/postgres/mod.ts";
import type { SqlDriver, SqlRow, SqlStatement, SqlValue } from "../../../adapters/sql/driver.ts";

/** Calls `test` with a driver of a new database, which has the table `item`. */
export type UsePostgres = (test: (driver: SqlDriver) => Promise<void>) => Promise<void>;

/** Calls `test` with a driver, and closes it. */
export async function withDriver(
  options: PostgresOptions | string,
  test: (driver: SqlDriver) => Promise<void>,
): Promise<void> {
  const driver = postgresDriver(options);
  try {
    await test(driver);
  } finally {
    await driver.close();
  }
}

export function toStatement(sql: string, ...args: SqlValue[]): SqlStatement {
  return { sql, args };
}

export const tables: readonly SqlStatement[] = [
  toStatement("create table item (item_id bigint primary key, body text, bytes bytea, size double precision)"),
  toStatement("create sequence tries"),
];

export const dropTables: readonly SqlStatement[] = [
  toStatement("drop table if exists item"),
  toStatement("drop sequence if exists tries"),
];

export const allItems: SqlStatement = toStatement("select item_id from item order by item_id");

export function insert(id: number, body: string | null = null): SqlStatement {
  return toStatement("insert into item (item_id, body) values ($1, $2)", id, body);
}

export function readIds(rows: readonly SqlRow[]): SqlValue[] {
  return rows.map((row) => row.item_id as SqlValue);
}

/** Fails with this SQLSTATE in all tries but the last of `tries`. */
export function createFailingStatement(state: string, tries: number): SqlStatement {
  return toStatement(
    `do $$ begin if nextval('tries') < ${tries} then raise exception 'provoked' using errcode = '${state}'; end if; end $$`,
  );
}

/** Returns the number of times that a batch with `failing` or `counted` was run. Call it at the end of a test. */
export async function readTryCount(driver: SqlDriver): Promise<SqlValue | undefined> {
  const [row] = await driver.read(
    toStatement("select case when is_called then last_value else 0 end as total from tries"),
  );
  return row?.total;
}

/** Defines the tests. */
export function registerPostgresSuite(use: UsePostgres): void {
  const test = (name: string, body: (driver: SqlDriver) => Promise<void>): unknown => it(name, () => use(body));

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
    assert.deepStrictEqual(await driver.batch([], []), []);
  });

  test("returns equal rows when a statement is repeated", async (driver) => {
    for (let i = 0; i < 8; i += 1) {
      const [, rows] = await driver.batch(
        [insert(i), toStatement("select body, $1::text as said from item where item_id = $2", "a", i)],
        ["a"],
      );
      assert.deepStrictEqual(rows, [{ body: null, said: "a" }]);
    }
  });

  test("applies nothing of a batch that fails", async (driver) => {
    await driver.batch([insert(1)]);
    await assert.rejects(driver.batch([insert(2), insert(3), insert(1)]), /unique/);
    await assert.rejects(driver.batch([insert(2), toStatement("select nonsense"), insert(3)]), /nonsense/);
    assert.deepEqual(readIds(await driver.read(allItems)), [1]);
    await driver.batch([insert(2)]);
  });

  test("fails one invalid batch among twenty alone", async (driver) => {
    const batches = Array.from({ length: 20 }, (_, i) =>
      driver.batch([insert(i), i === 7 ? toStatement("select nonsense") : toStatement("select 1 as one")]),
    );
    const settled = await Promise.allSettled(batches);
    assert.deepEqual(
      settled.map((result) => result.status),
      settled.map((_, i) => (i === 7 ? "rejected" : "fulfilled")),
    );
    const expected = Array.from({ length: 20 }, (_, i) => i).filter((i) => i !== 7);
    assert.deepEqual(readIds(await driver.read(allItems)), expected);
  });

  test("runs batches of one name one after the other", async (driver) => {
    const next = toStatement("insert into item (item_id) select coalesce(max(item_id), 0) + 1 from item");
    const count = toStatement("select nextval('tries')");
    await Promise.all(
      Array.from({ length: 30 }, (_, i) => driver.batch([count, next], i % 2 ? ["a", "b"] : ["b", "c"])),
    );
    assert.deepEqual((await driver.read(allItems)).length, 30);
    assert.equal(await readTryCount(driver), 30);
  });

  test("accepts any number of names, repeatedly", async (driver) => {
    const names = Array.from({ length: 500 }, (_, i) => `thread:${i % 450} 🎭 '; drop table item; --`);
    await driver.batch([insert(1)], names);
    await driver.batch([insert(2)], names.slice(0, 20));
    await driver.batch([insert(3)], []);
    assert.deepEqual(readIds(await driver.read(allItems)), [1, 2, 3]);
  });

  test("returns values unchanged", async (driver) => {
    const texts = ["", "naïve 🎭 text", JSON.stringify({ nul: "\0" }), "12", "t", "\\x00", "x".repeat(200_000), null];
    await driver.batch(texts.map((text, i) => insert(i, text)));
    const read = await driver.read(toStatement("select body from item order by item_id"));
    assert.deepEqual(
      read.map((row) => row.body),
      texts,
    );
    const numbers = [0, -1, 1.5, 2 ** 31, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, 1e300, 5e-324, 0.1];
    for (const number of numbers) {
      const [row] = await driver.read(
        toStatement("select $1::double precision as size, $2::text as text", number, number),
      );
      assert.deepEqual(row, { size: number, text: String(number) });
      if (!Number.isInteger(number) || Math.abs(number) > Number.MAX_SAFE_INTEGER) continue;
      const whole = toStatement("select $1::bigint as big, $1::numeric as any", number);
      assert.deepEqual((await driver.read(whole))[0], { big: number, any: number });
    }
    const bytes = [new Uint8Array([0, 1, 255]), new Uint8Array([9, 1, 2, 9]).subarray(1, 3), new Uint8Array(0)];
    bytes.push(new Uint8Array(100_000).fill(7));
    for (const byteValue of bytes) {
      const [rows] = await driver.batch([
        toStatement("insert into item (item_id, bytes) values (100, $1) returning bytes", byteValue),
        toStatement("delete from item where item_id = 100"),
      ]);
      const storedBytes = rows?.[0]?.bytes;
      assert.ok(storedBytes instanceof Uint8Array);
      assert.equal(storedBytes.constructor, Uint8Array);
      assert.deepEqual([...storedBytes], [...byteValue]);
    }
  });

  test("returns numbers for every kind of number, and 1 and 0 for true and false", async (driver) => {
    const [row] = await driver.read(
      toStatement(`select 1::smallint as a, 2 as b, 3::bigint as c, 4.5::numeric as d, 5.5::real as e, 6.25::double precision as f,
        true as g, false as h, null::bigint as i, count(*) as j, sum(2) as k, sum(3::bigint) as l, 'x' as m, 1 = 1 as n`),
    );
    const numbers = { a: 1, b: 2, c: 3, d: 4.5, e: 5.5, f: 6.25, g: 1, h: 0, i: null, j: 1, k: 2, l: 3, m: "x", n: 1 };
    assert.deepStrictEqual(row, numbers);
  });

  test("rejects integers that no number can represent, with the batch", async (driver) => {
    await assert.rejects(driver.read(toStatement("select 9007199254740993 as a")), RangeError);
    await assert.rejects(driver.batch([insert(1), toStatement("select 9007199254740993 as a")]), RangeError);
    assert.deepEqual(await driver.read(allItems), []);
  });

  test("rejects invalid values", async (driver) => {
    const none = [{}, { "1": 5 }, [], new Date(0), undefined, true, 1n, Number.NaN, Number.POSITIVE_INFINITY];
    for (const invalidValue of none) {
      const bad = toStatement("select $1::text as a", invalidValue as never);
      await assert.rejects(driver.batch([insert(1), bad]), TypeError);
      await assert.rejects(driver.read(bad), TypeError);
    }
    assert.deepEqual(await driver.read(allItems), []);
  });

  test("rejects text with U+0000, and replaces lone surrogates", async (driver) => {
    await assert.rejects(driver.batch([insert(1, "a\0b")]), /U\+0000/);
    await driver.batch([insert(2, "a\ud800b")]);
    assert.deepEqual(await driver.read(toStatement("select body from item")), [{ body: "a\ufffdb" }]);
  });

  test("reads committed batches, and not a batch that failed", async (driver) => {
    for (let i = 0; i < 20; i += 1) {
      await driver.batch([insert(i)], [`item:${i}`]);
      assert.equal((await driver.read(allItems)).length, i + 1);
    }
    const bad = driver.batch([insert(50), toStatement("select nonsense")]);
    const firstRead = driver.read(allItems);
    await assert.rejects(bad);
    assert.equal((await firstRead).length, 20);
  });

  test("repeats a batch after a conflict with another transaction", async (driver) => {
    let tries = 0;
    for (const state of ["40001", "40P01", "23505"]) {
      tries += 3;
      await driver.batch([insert(tries), createFailingStatement(state, tries)]);
      assert.equal(await readTryCount(driver), tries);
    }
    assert.deepEqual(readIds(await driver.read(allItems)), [3, 6, 9]);
  });

  test("gives up after five tries with the server's own error", async (driver) => {
    await assert.rejects(driver.batch([insert(1), createFailingStatement("23505", 99)]), /provoked/);
    assert.equal(await readTryCount(driver), 5);
    await assert.rejects(driver.batch([insert(1), createFailingStatement("53100", 99)]), /provoked/);
    assert.equal(await readTryCount(driver), 6);
    assert.deepEqual(await driver.read(allItems), []);
  });

  test("keeps one commit marker for each session that writes, and none if nothing was written", async (driver) => {
    const countMarkers = (): Promise<SqlRow[]> => driver.read(toStatement("select slot, token from greenroom_commits"));
    await driver.batch([toStatement("delete from greenroom_commits")]);
    const before = await countMarkers();
    assert.equal(before.length, 1);
    for (let i = 0; i < 5; i += 1) {
      await driver.batch([toStatement("update item set body = 'none' returning item_id"), allItems], ["item"]);
    }
    assert.deepEqual(await countMarkers(), before);
    await driver.batch([insert(1)], ["item"]);
    const after = await countMarkers();
    assert.deepEqual([after.length, after[0]?.slot], [1, before[0]?.slot]);
    assert.ok(Number(after[0]?.token) > Number(before[0]?.token));
  });

  test("reads the time of the database", async (driver) => {
    const [first = 0, second = 0] = [await driver.now?.(), await driver.now?.()];
    assert.ok(Number.isSafeInteger(first) && first <= second && first > Date.UTC(2020));
  });

  test("answers waiting batches before it closes, and rejects later ones", async (driver) => {
    const waiting = driver.batch([insert(1)]);
    await driver.close();
    await waiting;
    await assert.rejects(driver.batch([insert(2)]), /closed/);
    await assert.rejects(driver.read(allItems), /closed/);
    await driver.close();
  });
}
