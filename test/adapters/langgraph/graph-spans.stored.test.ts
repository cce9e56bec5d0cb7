/** The checks of stored traces, on SQLite. */
import { sqlStorage } from "../../../adapters/sql/mod.ts";
import { nodeSqliteDriver } from "../../../adapters/sqlite/node.ts";
import { registerTraceChecks } from "./graph-spans.checks.ts";

registerTraceChecks("SQLite", async () => {
  const driver = nodeSqliteDriver(":memory:");
  return { driver, storage: sqlStorage(driver) };
});
