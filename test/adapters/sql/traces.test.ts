/** Searches among many traces, on SQLite. */
import { nodeSqliteDriver } from "../../../adapters/sqlite/node.ts";
import { registerTraceSearchChecks } from "./traces.checks.ts";

registerTraceSearchChecks("SQLite", async () => nodeSqliteDriver(":memory:"));
