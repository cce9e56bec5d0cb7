/** Runs the SDK suite on Postgres, PGlite and a host's Kysely: each driver with one SDK. */
import { DatabaseSync } from "node:sqlite";
import { after, before, describe, it } from "node:test";
import { PGlite } from "@electric-sql/pglite";
import { Kysely, SqliteDialect } from "kysely";
import { fromKysely } from "../../adapters/kysely/mod.ts";
import { postgres } from "../../adapters/postgres/mod.ts";
import { sqlStorage } from "../../adapters/sql/mod.ts";
import { pgliteOptions } from "../adapters/postgres/pglite.ts";
import { nodeSqliteShim } from "../adapters/sql/kysely-shim.ts";
import { startPostgres, type TestPostgres } from "../support/postgres-server.ts";
import { sdkSuite } from "./sdk/mod.ts";
import { inProcess, overSocket, SDKS } from "./sdk/reach.ts";
import { sharedStorage } from "./sdk/shared-storage.ts";

describe("Postgres", () => {
  let server: TestPostgres;
  let url = "";
  before(async () => {
    server = await startPostgres({ fsync: false });
    url = (await server.database()).url;
  });
  const { createStorageOptions, close } = sharedStorage(() => postgres(url));
  after(async () => {
    await close();
    await server.stop();
  });
  sdkSuite({ describe, it }, "SDK 2.0.0 over a socket", {
    Sdk: SDKS["SDK 2.0.0"],
    open: overSocket,
    createStorageOptions,
  });
});

describe("PGlite", () => {
  let db: PGlite;
  let alive: ReturnType<typeof setInterval>;
  before(async () => {
    alive = setInterval(() => {}, 60_000);
    db = await PGlite.create();
  });
  const { createStorageOptions, close } = sharedStorage(() => postgres(pgliteOptions(db)));
  after(async () => {
    clearInterval(alive);
    await close();
    await db.close();
  });
  sdkSuite({ describe, it }, "SDK 1.12.4 in process", {
    Sdk: SDKS["SDK 1.12.4"],
    open: inProcess,
    createStorageOptions,
  });
});

describe("Kysely", () => {
  const { createStorageOptions, close } = sharedStorage(() => {
    const database = new DatabaseSync(":memory:");
    database.exec("pragma foreign_keys = on");
    return sqlStorage(fromKysely(new Kysely({ dialect: new SqliteDialect({ database: nodeSqliteShim(database) }) })));
  });
  after(close);
  sdkSuite({ describe, it }, "SDK 1.12.4 in process", {
    Sdk: SDKS["SDK 1.12.4"],
    open: inProcess,
    createStorageOptions,
  });
});
