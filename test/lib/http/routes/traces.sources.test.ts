/** The sources of traces and who sees them, on SQLite. */
import { nodeSqlite } from "../../../../adapters/sqlite/node.ts";
import { registerTraceRouteChecks } from "./traces.harness.ts";

registerTraceRouteChecks("SQLite", async () => nodeSqlite(":memory:"));
