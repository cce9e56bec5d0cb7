import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { PGlite } from "@electric-sql/pglite";
import pg from "pg";
import { toLockKey } from "../../../adapters/postgres/locks.ts";
import { type PostgresOptions, type PostgresPool, postgresDriver } from "../../../adapters/postgres/mod.ts";
import type { SqlDriver, SqlStatement } from "../../../adapters/sql/driver.ts";
import { startPostgres, type TestPostgres } from "../../support/postgres-server.ts";
import { until } from "../../support/until.ts";
import { all, onNode } from "../sql/efforts.ts";
import { createNewest, createSteps } from "../sql/injected-migration.ts";
import { pgliteOptions } from "./pglite.ts";
import {
  allItems,
  createFailingStatement,
  dropTables,
  insert,
  readIds,
  readTryCount,
  registerPostgresSuite,
  tables,
  toStatement,
  withDriver,
} from "./postgres-suite.ts";

const onBun = "Bun" in globalThis;

let server: TestPostgres;
before(async () => {
  server = await startPostgres({ fsync: false });
});
after(() => server.stop());

/** Calls `test` with the tables empty: cheaper than a database for each. */
async function emptyDatabase(options: PostgresOptions, test: (driver: SqlDriver) => Promise<void>): Promise<void> {
  await withDriver(options, async (driver) => {
    await driver.batch([...dropTables, ...tables]);
    await test(driver);
  });
}

/** A driver of a database with the tables; all tests have the same. */
async function use(
  test: (driver: SqlDriver, url: string) => Promise<void>,
  options: Partial<PostgresOptions> = {},
): Promise<void> {
  addressPromise ??= server.database();
  const { url } = await addressPromise;
  await emptyDatabase({ url, ...options } as PostgresOptions, (driver) => test(driver, url));
}

let addressPromise: Promise<{ readonly url: string }> | undefined;

/** Runs the suite on one database. */
function suite(withOptions: (url: string, work: (options: PostgresOptions) => Promise<void>) => Promise<void>): void {
  registerPostgresSuite(async (test) => {
    addressPromise ??= server.database();
    await withOptions((await addressPromise).url, (options) => emptyDatabase(options, test));
  });
}

/** Runs the test with another client of the database. */
async function withRival(url: string, test: (rival: pg.Client) => Promise<void>): Promise<void> {
  const rival = new pg.Client({ connectionString: url });
  rival.on("error", () => {});
  await rival.connect();
  try {
    await test(rival);
  } finally {
    await rival.end();
  }
}

describe("Postgres by URL", () => {
  suite((url, work) => work({ url }));

  it("keeps repeated statements prepared", () =>
    use(
      async (driver) => {
        const names = toStatement("select count(*) as total from pg_prepared_statements where statement like '%as a'");
        for (let i = 0; i < 4; i += 1) await driver.batch([toStatement("select $1::text as a", "x")]);
        assert.deepEqual(await driver.read(names), [{ total: 1 }]);
      },
      { pool_size: 1 },
    ));

  it("continues if the tables changed under a prepared statement, or the server lost it", () =>
    use(
      async (driver, url) => {
        const all = toStatement("select * from item where item_id > $1", 0);
        await driver.batch([insert(1)]);
        for (let i = 0; i < 4; i += 1) assert.equal((await driver.read(all)).length, 1);
        await withRival(url, async (rival) => {
          await rival.query("alter table item add column more text");
        });
        assert.equal((await driver.read(all))[0]?.more, null);
        for (let i = 0; i < 4; i += 1) await driver.read(all);
        await driver.read(toStatement("deallocate all"));
        assert.equal((await driver.read(all)).length, 1);
        await driver.batch([insert(2), all]);
      },
      { pool_size: 1 },
    ));

  it("sends the statements of a batch at once", () =>
    use(async (driver) => {
      // Each is sent in a transaction that has failed already.
      const laterInserts = Array.from({ length: 50 }, (_, i) => insert(i));
      await assert.rejects(driver.batch([toStatement("select nonsense"), ...laterInserts]), /nonsense/);
      await driver.batch(laterInserts);
      assert.equal((await driver.read(allItems)).length, 50);
    }));

  it("commits the batches of one tick together, and repeats a failed one alone", () =>
    use(async (driver) => {
      const createNumberedStatements = (id: number): SqlStatement =>
        toStatement("insert into item (item_id) values ($1) returning pg_current_xact_id()::text as tx", id);
      const countTransactions = async (from: number, bad?: number): Promise<number> => {
        const batches = Array.from({ length: 8 }, (_, i) =>
          driver.batch(
            [createNumberedStatements(from + i), ...(i === bad ? [toStatement("select nonsense")] : [])],
            [`item:${i}`],
          ),
        );
        const settled = await Promise.allSettled(batches);
        assert.deepEqual(
          settled.flatMap(({ status }, i) => (status === "rejected" ? [i] : [])),
          bad === undefined ? [] : [bad],
        );
        return new Set(
          settled.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value[0]?.[0]?.tx] : [])),
        ).size;
      };
      await driver.batch([insert(0)]);
      assert.equal(await countTransactions(10), 1);
      assert.equal(await countTransactions(20, 3), 7);
      assert.equal((await driver.read(allItems)).length, 16);
    }));

  it("opens at most the configured number of connections, and one that listens", () =>
    use(async (_driver, url) => {
      const named = `${url}?application_name=counted`;
      await withDriver({ url: named, pool_size: 3 }, async (driver) => {
        await new Promise<void>((onGap) => {
          driver.signals?.subscribe({ onSignal() {}, onGap });
        });
        await Promise.all(
          Array.from({ length: 40 }, (_, i) => (i % 2 ? driver.batch([insert(i)]) : driver.read(allItems))),
        );
        const sessions = toStatement(
          "select count(*) as total from pg_stat_activity where application_name = 'counted'",
        );
        assert.deepEqual(await driver.read(sessions), [{ total: 4 }]);
      });
    }));

  it("reports a statement's error at once", () =>
    use(async (driver) => {
      await assert.rejects(driver.batch([toStatement("select $1::text, $2::text", "a")]), { code: "08P01" });
      await assert.rejects(driver.batch([createFailingStatement("53100", 9)]), { code: "53100" });
    }));
});

describe("Postgres without prepared statements, as behind a pooler", () => {
  suite((url, work) => work({ url, direct_url: url }));

  it("prepares no statements", () =>
    use(
      async (driver) => {
        for (let i = 0; i < 4; i += 1) await driver.batch([toStatement("select $1::text as a", "x")]);
        assert.deepEqual(await driver.read(toStatement("select name from pg_prepared_statements")), []);
      },
      { pool_size: 1, prepare: false },
    ));
});

describe("Postgres by a host's pool of pg", () => {
  for (const prepare of [false, true]) {
    describe(prepare ? "with prepared statements" : "as it is", () => {
      suite(async (url, work) => {
        const pool = new pg.Pool({ connectionString: url, max: 3 });
        pool.on("error", () => {});
        await work({ pool, prepare });
        assert.equal((await pool.query("select 1 as one")).rows[0].one, 1);
        await pool.end();
      });
    });
  }

  it("rejects a pool beside a URL", () => {
    const pool: PostgresPool = { connect: () => Promise.reject(new Error("unused")) };
    assert.throws(() => postgresDriver({ pool, url: "postgres://localhost/a" } as never), /pool: .* url/);
  });
});

// The same program on every runtime: `npm test` runs it on Node.
if (onNode || all) {
  describe("Postgres by PGlite", () => {
    let db: PGlite;
    before(async () => {
      db = await PGlite.create();
    });
    after(() => db.close());

    registerPostgresSuite(async (test) => {
      await emptyDatabase(pgliteOptions(db), test);
    });

    it("receives signals", async () => {
      await withDriver(pgliteOptions(db), async (driver) => {
        const heard = new Promise<unknown>((resolve) => {
          driver.signals?.subscribe({
            onSignal: (kind, id) => resolve([kind, id]),
            onGap: () => driver.signals?.publish("run", "a"),
          });
        });
        assert.deepEqual(await heard, ["run", "a"]);
      });
    });
  });
}

if (onBun) {
  describe("Postgres by Bun.SQL", () => {
    suite(async (url, work) => {
      const { SQL } = await import("bun");
      const sql = new SQL({ url, max: 3 });
      const pool: PostgresPool = {
        async connect() {
          const session = await sql.reserve();
          return {
            async query(text, values) {
              const result = await (values ? session.unsafe(text, values) : session.unsafe(text).simple());
              // Of several statements the last one.
              const last = Array.isArray(result[0]) ? result.at(-1) : result;
              const columns: readonly { name: string; type: number }[] = last.columns ?? [];
              const fields = columns.map(({ name, type }) => ({ name, dataTypeID: type }));
              return { rows: [...last], fields };
            },
            release: (broken) => (broken ? session.close() : session.release()),
          };
        },
      };
      await work({ pool });
      await sql.close();
    });
  });
}

describe("Locks of Postgres batches", () => {
  it("make batches of one name wait for each other, and batches without a name for none", () =>
    use(async (driver, url) => {
      await withRival(url, async (rival) => {
        const waitForLock = async (): Promise<number> => {
          const { rows } = await rival.query(
            "select count(*)::int as total from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())",
          );
          return rows[0].total;
        };
        await rival.query("select pg_advisory_lock(42)");
        const batch = async (name: string, touched?: string[], first = toStatement("select 1")): Promise<void> => {
          const second = toStatement("insert into item (item_id, body) values (nextval('tries'), $1)", name);
          await driver.batch([first, second], touched);
        };
        const order = async (): Promise<unknown[]> =>
          (await driver.read(toStatement("select body from item order by item_id"))).map((row) => row.body);
        const heldBatch = batch("held", ["thread:a"], toStatement("select pg_advisory_xact_lock(42)"));
        await until(async () => (await waitForLock()) === 1);
        const same = batch("same", ["thread:b", "thread:a"]);
        await until(async () => (await waitForLock()) === 2);
        await batch("other", ["thread:c"]);
        const whole = batch("whole");
        await until(async () => (await waitForLock()) === 3);
        const later = batch("later", ["thread:d"]);
        await until(async () => (await waitForLock()) === 4);
        assert.deepEqual(await order(), ["other"]);
        await rival.query("select pg_advisory_unlock(42)");
        await Promise.all([heldBatch, same, whole, later]);
        const names = await order();
        assert.deepEqual(names.slice(0, 2), ["other", "held"]);
        assert.deepEqual(names.slice(2).sort(), ["later", "same", "whole"]);
      });
    }));

  it("let a batch read what the one before it committed, in any process", () =>
    use(async (driver, url) => {
      await withDriver(url, async (two) => {
        const next = toStatement("insert into item (item_id) select coalesce(max(item_id), 0) + 1 from item");
        const drivers = [driver, two];
        await Promise.all(
          Array.from({ length: 60 }, (_, i) =>
            drivers[i % 2]?.batch([toStatement("select nextval('tries')"), next], i % 5 ? ["thread:a"] : undefined),
          ),
        );
        assert.deepEqual(readIds(await driver.read(allItems)).at(-1), 60);
        assert.equal(await readTryCount(driver), 60);
      });
    }));

  it("have equal keys in every process", () => {
    assert.equal(toLockKey(""), BigInt.asIntN(64, 0xcbf29ce484222325n));
    assert.equal(toLockKey("a"), BigInt.asIntN(64, 0xaf63dc4c8601ec8cn));
    assert.equal(toLockKey("foobar"), BigInt.asIntN(64, 0x85944171f73967e8n));
    assert.notEqual(toLockKey("ä"), toLockKey("a"));
  });
});

it("An empty Postgres database gets the schema that all steps make", async () => {
  const recordSchema = async (statements: readonly string[]): Promise<readonly unknown[]> => {
    const { url } = await server.database();
    const driver = postgresDriver({ url });
    const look = (sql: string) => driver.read({ sql, args: [] });
    try {
      await driver.batch(statements.map((sql) => ({ sql, args: [] })));
      return [
        await look(`select table_name, ordinal_position, column_name, data_type, collation_name, is_nullable, column_default
          from information_schema.columns where table_schema = current_schema() order by 1, 2`),
        await look(`select conrelid::regclass::text as "table", pg_get_constraintdef(oid) as text from pg_constraint
          where connamespace = current_schema()::regnamespace order by 1, 2`),
        await look(
          `select tablename, indexname, indexdef from pg_indexes where schemaname = current_schema() order by 1, 2`,
        ),
      ];
    } finally {
      await driver.close();
    }
  };
  const steps = await recordSchema(createSteps("postgres"));
  assert.ok((steps[0] as unknown[]).length > 200);
  assert.deepEqual(await recordSchema(createNewest("postgres")), steps);
});
