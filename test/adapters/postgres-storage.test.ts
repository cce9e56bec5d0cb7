/** Everything that a Storage promises, on a Postgres server; on PGlite, which is slower, on Node alone. */
import { after, before, describe } from "node:test";
import { PGlite } from "@electric-sql/pglite";
import { type PostgresOptions, postgresDriver } from "../../adapters/postgres.ts";
import type { SqlDriver, SqlStatement } from "../../adapters/sql/driver.ts";
import { sqlStorage } from "../../adapters/sql/mod.ts";
import type { Storage } from "../../lib/storage.ts";
import { storageSuite } from "../suite/storage.ts";
import { oneSeed, seedsOf } from "./one-seed.ts";
import { pgliteOptions } from "./pglite.ts";
import { startPostgres, type TestPostgres } from "./postgres-server.ts";

/**
 * The suite on one database and its sessions. A database for each test would cost more than the tests, and so would new sessions, which
 * have no statement prepared: what one test has left is deleted before the next.
 */
class Emptied {
  readonly #driver: SqlDriver;
  readonly #plain = (sql: string): SqlStatement => ({ sql, args: [] });

  constructor(options: PostgresOptions) {
    this.#driver = postgresDriver(options);
  }

  async open(): Promise<Storage> {
    const tables = await this.#driver.read(
      this.#plain(
        "select tablename as name from pg_tables where schemaname = 'public' and tablename <> 'greenroom_schema'",
      ),
    );
    await this.#driver.batch([
      // In whatever order: nothing that refers to a row is left.
      this.#plain("set local session_replication_role = replica"),
      ...tables.map(({ name }) => this.#plain(`delete from ${name}`)),
    ]);
    return sqlStorage({ ...this.#driver, close: async () => {} });
  }

  async close(): Promise<void> {
    await this.#driver.close();
  }
}

describe("storage on Postgres", () => {
  let server: TestPostgres;
  let database: Emptied;
  before(async () => {
    server = await startPostgres({ fsync: false });
    database = new Emptied({ url: (await server.database()).url });
  });
  after(async () => {
    await database.close();
    await server.stop();
  });
  storageSuite(seedsOf, () => database.open());
});

if (!("Bun" in globalThis || "Deno" in globalThis)) {
  describe("storage on PGlite", () => {
    let db: PGlite;
    let database: Emptied;
    // Nothing of PGlite keeps a process alive while it works.
    let alive: ReturnType<typeof setInterval>;
    before(async () => {
      alive = setInterval(() => {}, 60_000);
      db = await PGlite.create();
      database = new Emptied(pgliteOptions(db));
    });
    after(async () => {
      clearInterval(alive);
      await database.close();
      await db.close();
    });
    storageSuite(oneSeed, () => database.open());
  });
}
