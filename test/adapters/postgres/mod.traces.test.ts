/** The checks of traces, on a Postgres server. */
import { after, before } from "node:test";
import { postgresDriver } from "../../../adapters/postgres/mod.ts";
import type { SqlDriver } from "../../../adapters/sql/driver.ts";
import { sqlStorage } from "../../../adapters/sql/mod.ts";
import { registerTraceRouteChecks } from "../../lib/http/routes/traces.harness.ts";
import { registerOddTraceChecks } from "../../lib/traces/odd-traces.harness.ts";
import { startPostgres, type TestPostgres } from "../../support/postgres-server.ts";
import { registerTraceChecks } from "../langgraph/graph-spans.checks.ts";
import { registerTraceSearchChecks } from "../sql/traces.checks.ts";

let server: TestPostgres;
before(async () => {
  server = await startPostgres({ fsync: false });
});
after(() => server.stop());

/** Creates the tables of the database that others are copies of. */
async function prepare(url: string): Promise<void> {
  const storage = sqlStorage(postgresDriver(url));
  await storage.migrate();
  await storage.close();
}

const open = async (): Promise<SqlDriver> => postgresDriver((await server.database(prepare)).url);

registerTraceChecks("Postgres", async () => {
  const driver = await open();
  return { driver, storage: sqlStorage(driver) };
});
registerTraceRouteChecks("Postgres", async () => {
  // Some checks set the clock of the service, so it must not use that of the database.
  const { now: _, ...driver } = await open();
  return sqlStorage(driver);
});
registerOddTraceChecks("Postgres", async () => sqlStorage(await open()));
registerTraceSearchChecks("Postgres", open);
