/** Everything that a Storage promises, on a Postgres server and on PGlite. */
import { after, before, describe } from "node:test";
import { PGlite } from "@electric-sql/pglite";
import { postgresDriver } from "../../adapters/postgres/mod.ts";
import { storageSuite } from "../suite/storage.ts";
import { brief, wholeOnNode } from "./efforts.ts";
import { Emptied } from "./emptied.ts";
import { pgliteOptions } from "./pglite.ts";
import { startPostgres, type TestPostgres } from "./postgres-server.ts";

describe("storage on Postgres", () => {
  let server: TestPostgres;
  let database: Emptied;
  before(async () => {
    server = await startPostgres({ fsync: false });
    database = new Emptied(postgresDriver((await server.database()).url));
  });
  after(async () => {
    await database.close();
    await server.stop();
  });
  storageSuite(wholeOnNode, () => database.open());
});

describe("storage on PGlite", () => {
  let db: PGlite;
  let database: Emptied;
  // Nothing of PGlite keeps a process alive while it works.
  let alive: ReturnType<typeof setInterval>;
  before(async () => {
    alive = setInterval(() => {}, 60_000);
    db = await PGlite.create();
    database = new Emptied(postgresDriver(pgliteOptions(db)));
  });
  after(async () => {
    clearInterval(alive);
    await database.close();
    await db.close();
  });
  storageSuite(brief, () => database.open());
});
