/** Everything that a Storage promises, on a Postgres server; on PGlite, which is slower, on Node alone. */
import { after, before, describe, it } from "node:test";
import { PGlite } from "@electric-sql/pglite";
import { type PostgresOptions, postgresDriver } from "../../adapters/postgres.ts";
import { sqlStorage } from "../../adapters/sql/mod.ts";
import type { Storage } from "../../lib/storage.ts";
import { storageSuite } from "../suite/storage.ts";
import { pgliteOptions } from "./pglite.ts";
import { startPostgres, type TestPostgres } from "./postgres-server.ts";

/** A database of its own for each test would cost more than the tests: what one has left is deleted before the next. */
async function emptied(options: PostgresOptions): Promise<Storage> {
  const driver = postgresDriver(options);
  const tables = await driver.read({
    sql: "select tablename as name from pg_tables where schemaname = 'public' and tablename <> 'greenroom_schema'",
    args: [],
  });
  const names = tables.map(({ name }) => String(name)).join(", ");
  if (names !== "") await driver.batch([{ sql: `truncate ${names}`, args: [] }]);
  return sqlStorage(driver);
}

describe("storage on Postgres", () => {
  let server: TestPostgres;
  let url = "";
  before(async () => {
    server = await startPostgres({ fsync: false });
    url = (await server.database()).url;
  });
  after(() => server.stop());
  storageSuite({ describe, it }, () => emptied({ url }));
});

if (!("Bun" in globalThis || "Deno" in globalThis)) {
  describe("storage on PGlite", () => {
    let db: PGlite;
    // Nothing of PGlite keeps a process alive while it works.
    let alive: ReturnType<typeof setInterval>;
    before(async () => {
      alive = setInterval(() => {}, 60_000);
      db = await PGlite.create();
    });
    after(async () => {
      clearInterval(alive);
      await db.close();
    });
    storageSuite({ describe, it }, () => emptied(pgliteOptions(db)));
  });
}
