/** Everything that a Storage promises, on a Postgres server. */
import { after, before, describe } from "node:test";
import { postgresDriver } from "../../../adapters/postgres/mod.ts";
import { storageSuite } from "../../suite/storage.ts";
import { startPostgres, type TestPostgres } from "../../support/postgres-server.ts";
import { brief } from "../sql/efforts.ts";
import { Emptied } from "../sql/emptied-database.ts";

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
  storageSuite(brief, () => database.open());
});
