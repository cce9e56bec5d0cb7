/**
 * Do searches with filters cost more over many rows than over few? Fills two databases in memory, one with a thousand threads and
 * assistants, one with a hundred thousand, asks both the same through the handler, in turns, and compares the lower quartiles.
 * Ends with 1 when an answer is wrong or a ratio above its limit.
 *
 *   node bench/search/run.mjs [--rows 100000] [--against 1000] [--rounds 200]      (or bun)
 *
 * A hundred thousand rows take about 600 MB of memory.
 */
import { parseArgs } from "node:util";
import { createIndexEntries } from "../../adapters/sql/metadata-index.ts";
import { sqlStorage } from "../../adapters/sql/mod.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { pickScalars } from "../../lib/json.ts";
import { createService, fromFunctions } from "../../lib/mod.ts";

const { values } = parseArgs({
  options: {
    rows: { type: "string", default: "100000" },
    against: { type: "string", default: "1000" },
    rounds: { type: "string", default: "200" },
  },
});
const [rows, against, rounds] = [values.rows, values.against, values.rounds].map(Number);
if (
  ![rows, against, rounds].every((value) => Number.isSafeInteger(value) && value > 0) ||
  rows % 100 ||
  against % 100
) {
  console.error("--rows and --against must be multiples of 100, --rounds a whole number, all above 0");
  process.exit(2);
}

const open =
  "Bun" in globalThis
    ? (await import("../../adapters/sqlite/bun.ts")).bunSqliteDriver
    : (await import("../../adapters/sqlite/node.ts")).nodeSqliteDriver;

const METADATA = 1.5;
const VALUES = 20;
const id = (i) => `00000000-0000-4000-8000-${i.toString(16).padStart(12, "0")}`;

/** Ten rows of each owner and topic, a hundredth of all of each team and step, however many there are. */
const createMetadata = (i, count) => ({
  graph_id: "agent",
  owner: `user ${i % (count / 10)}`,
  team: `team ${i % 100}`,
  tags: [`tag ${i % (count / 10)}`, "all"],
});
const createValues = (i, count) => ({
  topic: `topic ${i % (count / 10)}`,
  step: i % 100,
  messages: [{ content: `text ${i}` }],
});

/** What is asked, how many rows it must find, and what it may cost; null: what grows with the rows that match. */
const QUERIES = [
  ["threads", { metadata: { owner: "user 7" } }, () => 10, METADATA],
  ["threads", { metadata: { owner: "nobody" } }, () => 0, METADATA],
  ["threads", { metadata: { owner: "user 7", graph_id: "agent" } }, () => 10, METADATA],
  ["threads", { metadata: { graph_id: "agent", owner: "nobody" } }, () => 0, METADATA],
  ["threads", { metadata: { tags: ["tag 7", "all"] } }, () => 10, METADATA],
  ["threads", { metadata: { owner: "user 7", tags: [] } }, () => 10, METADATA],
  ["threads", { metadata: { team: "team 7" } }, (count) => count / 100, null],
  ["threads", { metadata: { graph_id: "agent" } }, (count) => count, null],
  ["assistants", { metadata: { owner: "user 7" } }, () => 10, METADATA],
  ["assistants", { metadata: { owner: "nobody" } }, () => 0, METADATA],
  ["assistants", { metadata: { owner: "user 7", team: "team 7" } }, () => 10, METADATA],
  ["assistants", { metadata: { team: "team 7" } }, (count) => count / 100, null],
  ["threads", { values: { topic: "topic 7" } }, () => 10, VALUES],
  ["threads", { values: { topic: "nothing" } }, () => 0, VALUES],
  ["threads", { values: { topic: "topic 7", messages: [] } }, () => 10, VALUES],
  ["threads", { values: { step: 7 }, metadata: { owner: "user 7" } }, () => 10, VALUES],
  ["threads", { values: { step: 7 } }, (count) => count / 100, null],
];

/** Rows as the storage writes them, a thousand at a time. */
async function fill(driver, deployment, count) {
  const insert = (table, columns, rows) => ({
    sql: `insert into ${table} (${columns}) select ${columns.split(",").map((_, i) => `json_extract(value, '$[${i}]')`)}
      from json_each(?)`,
    args: [JSON.stringify(rows)],
  });
  const text = JSON.stringify;
  const labels = (kind, row, at, of) =>
    createIndexEntries(of).map(([path, value, exact]) => [
      deployment,
      kind,
      row,
      path,
      value,
      kind === "values" ? null : exact,
      at,
    ]);
  for (let first = 0; first < count; first += 1000) {
    const rows = Array.from({ length: Math.min(1000, count - first) }, (_, i) => {
      const values = createValues(first + i, count);
      const metadata = createMetadata(first + i, count);
      return { id: id(first + i), at: 1_700_000_000_000 + first + i, metadata, values, scalars: pickScalars(values) };
    });
    await driver.batch([
      insert(
        "threads",
        `deployment, thread_id, created_at, updated_at, state_updated_at, metadata, config, graph_id, status, head,
          interrupts, hidden, revision, run_count`,
        rows.map(({ id, at, metadata }) => {
          return [deployment, id, at, at, at, text(metadata), "{}", "agent", "idle", "c", "{}", 0, at, 0];
        }),
      ),
      insert(
        "checkpoints",
        "deployment, thread_id, ns, checkpoint_id, seq, type, data, metadata, versions, created_at",
        rows.map(({ id, at, values }) => {
          const versions = Object.fromEntries(Object.keys(values).map((channel) => [channel, "1"]));
          return [deployment, id, "", "c", 1, "json", "{}", '{"graph_id":"agent"}', text(versions), at];
        }),
      ),
      insert(
        "channel_values",
        "deployment, thread_id, ns, channel, version, type, data",
        rows.flatMap(({ id, values }) =>
          Object.entries(values).map(([channel, value]) => [deployment, id, "", channel, "1", "json", text(value)]),
        ),
      ),
      insert(
        "assistants",
        `deployment, assistant_id, graph_id, name, config, context, metadata, version, created_at, updated_at, revision`,
        rows.map(({ id, at, metadata }) => {
          return [deployment, id, "agent", "Agent", "{}", "{}", text(metadata), 1, at, at, at];
        }),
      ),
      insert(
        "labels",
        "deployment, kind, row_id, path_hash, value_hash, exact, created_at",
        rows.flatMap(({ id, at, metadata, scalars }) => [
          ...labels("thread", id, at, metadata),
          ...labels("values", id, at, scalars),
          ...labels("assistant", id, at, metadata),
        ]),
      ),
    ]);
  }
}

async function filled(count) {
  const driver = open(":memory:");
  const executor = fromFunctions({ async *agent() {} });
  const service = await createService({ storage: sqlStorage(driver), executor, environment: { log() {} } });
  await fill(driver, service.deployment.name, count);
  return { count, service, handler: createHandler(service) };
}

async function ask({ handler, count }, [noun, query, getExpectedCount]) {
  const began = performance.now();
  const answer = await handler(
    new Request(`http://greenroom/${noun}/search`, { method: "POST", body: JSON.stringify({ limit: 10, ...query }) }),
  );
  const rows = await answer.json();
  const took = performance.now() - began;
  const total = Number(answer.headers.get("x-pagination-total"));
  if (total !== getExpectedCount(count) || rows.length !== Math.min(10, total)) {
    throw new Error(
      `${noun} ${JSON.stringify(query)} found ${rows.length} of ${total}, not of ${getExpectedCount(count)}`,
    );
  }
  return took;
}

/** Returns the lower quartile, which other processes of the machine affect least. */
const quartile = (list) => list.toSorted((a, b) => a - b)[list.length >> 2];

const began = performance.now();
const [few, many] = [await filled(against), await filled(rows)];
console.log(`${against} and ${rows} threads and assistants in ${((performance.now() - began) / 1000).toFixed(1)} s\n`);
let failed = false;
const line = (cells) => console.log(`| ${cells.join(" | ")} |`);
line(["Query", `${against} rows`, `${rows} rows`, "Ratio", "Limit"]);
line(["---", "---", "---", "---", "---"]);
for (const query of QUERIES) {
  const [noun, filter, , limit] = query;
  const times = { few: [], many: [] };
  // What grows is asked less often: it takes long.
  const turns = limit === null ? Math.min(10, rounds) : rounds;
  for (let i = -3; i < turns; i++) {
    const [first, second] = i % 2 ? [few, many] : [many, few];
    const took = new Map([[first, await ask(first, query)]]);
    took.set(second, await ask(second, query));
    if (i < 0) continue;
    times.few.push(took.get(few));
    times.many.push(took.get(many));
  }
  const [a, b] = [quartile(times.few), quartile(times.many)];
  if (limit !== null && b > limit * a) failed = true;
  const cells = [`${noun} ${JSON.stringify(filter)}`, `${a.toFixed(2)} ms`, `${b.toFixed(2)} ms`, (b / a).toFixed(2)];
  line([...cells, limit ?? "none: more rows match"]);
}
await Promise.all([few, many].map(({ service }) => service.stop(0)));
process.exitCode = failed ? 1 : 0;
