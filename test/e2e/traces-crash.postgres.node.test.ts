/** Traces on Postgres after kill -9: a lease has to end before another process goes on. */
import { it } from "node:test";
import { startPostgres } from "../support/postgres-server.ts";
import { checkKilledModelCall, checkKilledStep, createSite } from "./traces-crash.harness.ts";

it("the trace of a run on Postgres that is killed has what was stored, and its attempts with their links", async () => {
  const server = await startPostgres({ fsync: false });
  try {
    for (const check of [checkKilledStep, checkKilledModelCall]) {
      const { url } = await server.database();
      using site = createSite(url);
      await check(site);
    }
  } finally {
    await server.stop();
  }
});
