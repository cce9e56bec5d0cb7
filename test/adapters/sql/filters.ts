/**
 * Holds random filters on metadata against an oracle, on databases in memory.
 *
 *   node test/adapters/sql/filters.ts [--filters 100000] [--seed 1] [--storage node-sqlite|bun-sqlite|libsql]
 *
 * Exit code 0: every search, count and listing gave what the oracle said.
 */
import { parseArgs } from "node:util";
import type { Storage } from "../../../lib/storage/mod.ts";
import { fuzzFilters } from "../../suite/storage/filter-oracle.ts";

const { values } = parseArgs({
  options: {
    filters: { type: "string", default: "100000" },
    seed: { type: "string", default: "1" },
    storage: { type: "string", default: "node-sqlite" },
  },
});
const OPENERS: Readonly<Record<string, () => Promise<Storage>>> = {
  "node-sqlite": async () => (await import("../../../adapters/sqlite/node.ts")).nodeSqlite(":memory:"),
  "bun-sqlite": async () => (await import("../../../adapters/sqlite/bun.ts")).bunSqlite(":memory:"),
  libsql: async () => (await import("../../../adapters/libsql/mod.ts")).libsql(":memory:"),
};
const filters = Number(values.filters);
const seed = Number(values.seed);
if (!Number.isSafeInteger(filters) || filters < 1 || !Number.isSafeInteger(seed)) {
  console.error("--filters and --seed: give whole numbers");
  process.exit(2);
}
const open = OPENERS[values.storage];
if (!open) {
  console.error(`--storage: one of ${Object.keys(OPENERS).join(", ")}`);
  process.exit(2);
}
/** A storage of its own for this many, so that rows are many different ones. */
const EACH = 5000;
const started = performance.now();
let matchCount = 0;
for (let done = 0; done < filters; done += EACH) {
  const storage = await open();
  await storage.migrate();
  matchCount += await fuzzFilters(storage, Math.min(EACH, filters - done), seed + done / EACH);
  await storage.close();
}
const seconds = ((performance.now() - started) / 1000).toFixed(1);
console.log(`${filters} filters, ${matchCount} rows found, all as the oracle says, ${seconds} s`);
