/** What clients rely on, on Postgres, PGlite and a host's Kysely: each driver with one SDK. */
import { DatabaseSync } from "node:sqlite";
import { after, before, describe, it } from "node:test";
import { PGlite } from "@electric-sql/pglite";
import { Kysely, SqliteDialect } from "kysely";
import { fromKysely } from "../../adapters/kysely.ts";
import { postgres } from "../../adapters/postgres.ts";
import { sqlStorage } from "../../adapters/sql/mod.ts";
import type { Storage } from "../../lib/storage.ts";
import { nodeSqliteShim } from "../adapters/kysely-shim.ts";
import { pgliteOptions } from "../adapters/pglite.ts";
import { startPostgres, type TestPostgres } from "../adapters/postgres-server.ts";
import { type Subject, sdkSuite, shortSuite } from "./sdk/mod.ts";
import { inProcess, overSocket, SDKS } from "./sdk/reach.ts";

/** Each test has the database to itself and a deployment of its own: an empty database for each would cost more than the tests. */
function placeAt(open: () => Storage): Subject["place"] {
  let count = 0;
  return () => ({ storage: open(), deployment: { name: `test-${++count}` } });
}

describe("Postgres", () => {
  let server: TestPostgres;
  let url = "";
  before(async () => {
    server = await startPostgres({ fsync: false });
    url = (await server.database()).url;
  });
  after(() => server.stop());
  const place = placeAt(() => postgres(url));
  sdkSuite({ describe, it }, "SDK 2.0.0 over a socket", { Sdk: SDKS["SDK 2.0.0"], open: overSocket, place });
});

describe("PGlite", () => {
  let db: PGlite;
  let alive: ReturnType<typeof setInterval>;
  before(async () => {
    alive = setInterval(() => {}, 60_000);
    db = await PGlite.create();
  });
  after(async () => {
    clearInterval(alive);
    await db.close();
  });
  // It is slow, and above its wrapper everything is as on a server.
  const place = placeAt(() => postgres(pgliteOptions(db)));
  shortSuite({ describe, it }, "SDK 1.12.4 in process", { Sdk: SDKS["SDK 1.12.4"], open: inProcess, place });
});

describe("Kysely", () => {
  const place: Subject["place"] = () => {
    const database = new DatabaseSync(":memory:");
    database.exec("pragma foreign_keys = on");
    return {
      storage: sqlStorage(
        fromKysely(new Kysely({ dialect: new SqliteDialect({ database: nodeSqliteShim(database) }) })),
      ),
    };
  };
  sdkSuite({ describe, it }, "SDK 1.12.4 in process", { Sdk: SDKS["SDK 1.12.4"], open: inProcess, place });
});
