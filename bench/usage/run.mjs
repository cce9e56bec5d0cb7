/**
 * Is usage exact, and does counting cost more than a sum over its table? Fills a SQLite file with synthetic traces, seals their
 * hours, adds late ones, and compares random queries with counting every trace one by one. Then it takes the time of queries over
 * full, sealed hours against a plain GROUP BY over the same rows. Ends with 1 when a count differs or the ratio is above the limit.
 *
 *   node bench/usage/run.mjs [--traces 10000000] [--queries 1000] [--seed 1] [--limit 1.5] [--file PATH]
 *
 * A trace takes about 150 bytes of disk and 12 of memory. The file is temporary unless PATH is given, which must not exist.
 */

import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { parseArgs } from "node:util";
import { sqlStorage } from "../../adapters/sql/mod.ts";
import { nodeSqliteDriver } from "../../adapters/sqlite/node.ts";
import { chooseStride, toStrideMs } from "../../lib/usage/report.ts";
import { addTraces } from "../../test/suite/traces.ts";
import { addLate, dice, FROM, generate, names, TO, WORKSPACES, workspaceName } from "./generate.mjs";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const LATE = 1000;
const COLUMN = { workspace: "workspace_id", project: "project_id", user: "user_id", api_key: "api_key" };
const GROUPS = Object.keys(COLUMN);

const { values } = parseArgs({
  options: {
    traces: { type: "string", default: "10000000" },
    queries: { type: "string", default: "1000" },
    seed: { type: "string", default: "1" },
    limit: { type: "string", default: "1.5" },
    file: { type: "string" },
  },
});
const [count, queries, seed, limit] = [values.traces, values.queries, values.seed, values.limit].map(Number);
if (![count, queries, seed].every((value) => Number.isSafeInteger(value) && value > 0) || !(limit > 0)) {
  console.error("--traces, --queries and --seed must be whole numbers above 0, --limit a number above 0");
  process.exit(2);
}
if (values.file && existsSync(values.file)) {
  console.error(`${values.file} exists already`);
  process.exit(2);
}

const below = dice(seed + 1);
const pick = (list) => list[below(list.length)];
const seconds = (since) => `${((performance.now() - since) / 1000).toFixed(1)} s`;

function store(path, traces) {
  const db = new DatabaseSync(path);
  db.exec("pragma synchronous = off; begin");
  const insert =
    db.prepare(`insert into traces (trace_id, deployment, workspace_id, project_id, user_id, api_key, started_at,
    counted) values (?, '', ?, ?, ?, ?, ?, 1)`);
  for (let i = 0; i < traces.length; i++) {
    const row = GROUPS.map((group) => names[group](traces, i));
    insert.run(`t${String(i).padStart(10, "0")}`, ...row, BigInt(traces.started_at[i]));
  }
  db.exec("commit");
  db.close();
}

function lateRows(traces, from) {
  return Array.from({ length: traces.length - from }, (_, n) => {
    const i = from + n;
    const [workspace_id, project_id, user_id, api_key] = GROUPS.map((group) => names[group](traces, i));
    const ids = { workspace_id, project_id, user_id, api_key };
    return { trace_id: `t${i}`, thread_id: null, ...ids, started_at: traces.started_at[i], counted: true };
  });
}

/** Counts every trace, one by one. */
function oneByOne(traces, query) {
  const selectedWorkspaces = new Uint8Array(WORKSPACES);
  for (let w = 0; w < WORKSPACES; w++) selectedWorkspaces[w] = query.workspace_ids.includes(workspaceName(w)) ? 1 : 0;
  const counts = new Map();
  const { started_at, workspace } = traces;
  for (let i = 0; i < traces.length; i++) {
    const at = started_at[i];
    if (at < query.start || at >= query.end || selectedWorkspaces[workspace[i]] === 0) continue;
    const key = `${Math.floor((at - query.origin) / query.stride_ms)} ${names[query.group_by](traces, i)}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}

function aQuery(onHours) {
  const range = pick([HOUR, 6 * HOUR, DAY, 7 * DAY, 31 * DAY, 93 * DAY, 366 * DAY]);
  const length = onHours ? (1 + below(range / HOUR)) * HOUR : 1 + below(range);
  const latest = Math.max(1, TO - FROM - length);
  const offset = onHours ? below(Math.ceil(latest / HOUR)) * HOUR : below(latest);
  const start = FROM + offset;
  const end = start + length;
  const stride = chooseStride(start, end);
  const unit = stride.hours > 0 ? HOUR : DAY;
  const from = below(WORKSPACES);
  const size = pick([1, 1, 10, WORKSPACES]);
  const workspace_ids = Array.from({ length: size }, (_, i) => workspaceName((from + i) % WORKSPACES));
  const origin = Math.floor(start / unit) * unit;
  return { workspace_ids, start, end, origin, stride_ms: toStrideMs(stride), group_by: pick(GROUPS) };
}

const plain = (query) => ({
  sql: `select (hour - cast(? as integer)) / cast(? as integer) as bucket, ${COLUMN[query.group_by]} as dimension,
      sum(traces) as traces
    from usage_hourly where workspace_id in (select value from json_each(?)) and hour >= ? and hour < ?
    group by 1, 2 order by 1, 2`,
  args: [query.origin, query.stride_ms, JSON.stringify(query.workspace_ids), query.start, query.end],
});

const folder = mkdtempSync(join(tmpdir(), "greenroom-usage-"));
const path = values.file ?? join(folder, "usage.db");
let failed = false;
try {
  let began = performance.now();
  const traces = generate(count, LATE, seed);
  const first = sqlStorage(nodeSqliteDriver(path));
  await first.migrate();
  await first.close();
  store(path, traces);
  console.log(`${count} traces of ${WORKSPACES} workspaces over a year stored in ${seconds(began)}`);

  const driver = nodeSqliteDriver(path);
  const storage = sqlStorage(driver);
  await storage.migrate();
  // All but the last day; then late ones, into sealed hours mostly.
  began = performance.now();
  while (await storage.sealUsage(TO - DAY));
  addLate(traces, LATE, seed + 2);
  await addTraces(storage, lateRows(traces, count));
  const [{ rows }] = await driver.read({ sql: "select count(*) as rows from usage_hourly", args: [] });
  console.log(`sealed in ${seconds(began)}: ${rows} sums, ${Math.round(statSync(path).size / 1e6)} MB in all`);

  began = performance.now();
  let differing = 0;
  for (let i = 0; i < queries; i++) {
    const query = aQuery(i % 4 === 0);
    const expected = oneByOne(traces, query);
    const counted = await storage.countUsage(query);
    const same =
      counted.length === expected.size &&
      counted.every((row) => expected.get(`${row.bucket} ${row.dimension}`) === row.traces);
    if (!same && differing++ < 5) console.log(`differs: ${JSON.stringify(query)}`);
  }
  console.log(`${queries} queries against counting one by one: ${differing} differ (${seconds(began)})`);

  const times = { ours: 0, plain: 0 };
  let compared = 0;
  for (let i = 0; i < Math.min(queries, 300); i++) {
    const query = aQuery(true);
    if (query.end > TO - DAY) continue;
    const turns = [
      ["ours", () => storage.countUsage(query)],
      ["plain", () => driver.read(plain(query))],
    ];
    // Who goes first reads the pages from disk: so both go once before, and take turns at being first.
    for (const [, call] of turns) await call();
    for (const [name, call] of i % 2 === 0 ? turns : turns.reverse()) {
      const start = performance.now();
      await call();
      times[name] += performance.now() - start;
    }
    compared++;
  }
  const ratio = times.ours / times.plain;
  const each = (ms) => `${(ms / compared).toFixed(2)} ms`;
  console.log(`${compared} queries over sealed hours: ${each(times.ours)} each, plain GROUP BY ${each(times.plain)}`);
  console.log(`ratio ${ratio.toFixed(2)}, limit ${limit}`);
  failed = differing > 0 || compared === 0 || ratio > limit;
  await storage.close();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = failed ? 1 : 0;
