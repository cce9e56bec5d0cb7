/** Everything that a Storage promises, on PGlite. `npm run test:all` alone runs this: the driver is that of Postgres. */
import { after, before, describe } from "node:test";
import { PGlite } from "@electric-sql/pglite";
import { postgresDriver } from "../../../adapters/postgres/mod.ts";
import { storageSuite } from "../../suite/storage.ts";
import { brief } from "../sql/efforts.ts";
import { Emptied } from "../sql/emptied-database.ts";
import { pgliteOptions } from "./pglite.ts";

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
