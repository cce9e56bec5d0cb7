/** The checks of odd traces, on SQLite. */
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { registerOddTraceChecks } from "./odd-traces.harness.ts";

registerOddTraceChecks("SQLite", async () => nodeSqlite(":memory:"));
