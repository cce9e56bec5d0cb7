/**
 * Measures durable functions: empty steps, a long journal, events, streams, and thousands of suspended runs, on a SQLite file with
 * `synchronous=FULL`; then the same functions on Postgres, beside DBOS on the same server; then on a file beside Vercel's local world,
 * which keeps JSON files. Medians of five, after a warm-up.
 *
 *   bun bench/steps/run.mjs [--suspended 10000] [--peer 1000] [--only steps,load,event,stream,suspended,peer,files]      (or node)
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createApp } from "../../adapters/app.ts";

const PARTS = ["steps", "load", "event", "stream", "suspended", "peer", "files"];
const { values } = parseArgs({
  options: {
    suspended: { type: "string", default: "10000" },
    only: { type: "string", default: PARTS.join() },
    peer: { type: "string", default: "1000" },
  },
});
const only = values.only.split(",");
const ROUNDS = 5;
/** Those of the journal's limit but the ask, which has two. */
const ENTRIES = 9_950;

const folder = mkdtempSync(join(tmpdir(), "greenroom-bench-steps-"));
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const quantile = (list, share) => list.toSorted((a, b) => a - b)[Math.max(0, Math.ceil(share * list.length) - 1)];
const median = (list) => quantile(list, 0.5);
const now = () => performance.now();
const row = (name, value, goal = "") => console.log(`| ${name} | ${value} | ${goal} |`);
const ms = (value) => `${value.toFixed(value < 10 ? 2 : 0)} ms`;

/** The listeners for reports of the functions, by the key in their input. */
const listeners = new Map();
const notifyListener = (key, what) => listeners.get(key)?.(what);
const tokens = async function* () {
  for (let i = 0; i < 20; i++) yield `token ${i} `;
};

const agents = {
  async steps({ input, step }) {
    const times = [];
    for (let i = 0; i < input.count; i++) {
      await step(`step ${i}`, () => null);
      times.push(now());
    }
    notifyListener(input.key, times);
  },
  async load({ input, step, ask }) {
    const startedAt = now();
    for (let i = 0; i < input.count; i++) await step(`step ${i}`, () => null);
    notifyListener(input.key, [startedAt, now()]);
    for (let i = 0; i < 2 * ROUNDS; i++) await ask(`go on ${i}`, null);
  },
  async waiter({ input, wait }) {
    await wait("event");
    notifyListener(input.key, now());
  },
  async streamed({ step }) {
    await step("model", tokens);
  },
  async *yielded() {
    yield* tokens();
  },
  async sleeper({ input, sleep: until }) {
    await until("until", new Date(input.until));
    notifyListener("woken", now());
  },
  async *echo() {
    yield "hi";
  },
};
for (const name of Object.keys(agents)) agents[name] = { agent: agents[name], timeout_ms: 600_000 };

let keys = 0;
function listen() {
  const key = `k${++keys}`;
  return { key, heard: new Promise((resolve) => listeners.set(key, resolve)) };
}

const open = (database, worker = {}) => createApp({ database, agents, worker: { concurrency: 100, ...worker } });

/** The times of the ends of empty steps in one run, after its start. */
async function emptySteps({ service: { runs, threads } }, count) {
  const { key, heard } = listen();
  const { thread_id } = await threads.create();
  const from = now();
  await (await runs.wait(thread_id, { assistant_id: "steps", input: { count, key } })).result;
  return (await heard).map((at) => at - from);
}

async function stepsPart(app) {
  await emptySteps(app, 1000);
  const all = [];
  const ratios = [];
  for (let round = 0; round < ROUNDS; round++) {
    const times = await emptySteps(app, 1000);
    all.push(times.at(-1));
    ratios.push((times[999] - times[899]) / (times[199] - times[99]));
  }
  row("1,000 empty steps in one run", ms(median(all)), "2 s");
  row("the last 100 beside the second 100", `${median(ratios).toFixed(2)}x`, "1.2x");
}

async function loadPart({ service: { runs, threads } }) {
  const loads = {};
  const replays = [];
  for (const count of [1, ENTRIES]) {
    const { key } = listen();
    loads[count] = [];
    let heard = [];
    listeners.set(key, (times) => {
      heard = times;
    });
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, { assistant_id: "load", input: { count, key } })).result;
    for (let round = 0; round <= ROUNDS; round++) {
      const from = now();
      await (await runs.wait(thread_id, { assistant_id: "load", command: { resume: true } })).result;
      if (round === 0) continue;
      loads[count].push(heard[0] - from);
      if (count === ENTRIES) replays.push(heard[1] - heard[0]);
    }
  }
  row(
    `${ENTRIES} entries: to the start of the function, beside one entry`,
    ms(median(loads[ENTRIES]) - median(loads[1])),
    "100 ms",
  );
  row(`${ENTRIES} entries: replayed by the function`, ms(median(replays)));
}

async function eventPart({ service: { runs, threads } }) {
  const times = [];
  for (let round = 0; round < 110; round++) {
    const { key, heard } = listen();
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "waiter", input: { key } });
    while (!(await runs.get(thread_id, run_id)).waiting_for) await sleep(10);
    const from = now();
    await threads.send(thread_id, "event", { round });
    times.push((await heard) - from);
  }
  row("an event wakes its suspended call, p95", ms(quantile(times.slice(10), 0.95)), "50 ms");
}

async function streamPart({ service: { runs, threads } }) {
  const times = { yielded: [], streamed: [] };
  for (let round = 0; round < 120; round++) {
    for (const assistant_id of round % 2 ? ["yielded", "streamed"] : ["streamed", "yielded"]) {
      const { thread_id } = await threads.create();
      const from = now();
      const { frames } = await runs.stream(thread_id, { assistant_id, input: {}, stream_mode: "messages-tuple" });
      let first = 0;
      for await (const { event } of frames) if (event === "messages" && first === 0) first = now() - from;
      if (round >= 20) times[assistant_id].push(first);
    }
  }
  row("first token by `yield*`, median", ms(median(times.yielded)));
  row("first token through a streaming step, median", ms(median(times.streamed)), "as by `yield*`");
}

async function suspendedPart({ service: { runs, threads } }) {
  const all = Number(values.suspended);
  const DUE = Math.min(1000, all / 10);
  const BATCH = 50;
  const suspend = async (count, until) => {
    for (let createdCount = BATCH; createdCount <= count; createdCount += BATCH) {
      const some = Array.from({ length: BATCH }, () => ({ assistant_id: "sleeper", input: { until } }));
      const ids = (await runs.createBatch(some)).map((run) => run.run_id);
      // Some at a time: those that wait for a worker count towards `limits.pending`.
      if (createdCount % 500 === 0 || createdCount === count) await settle(ids, isSuspended);
    }
  };
  const quick = async () => {
    const { thread_id } = await threads.create();
    const from = now();
    await (await runs.wait(thread_id, { assistant_id: "echo", input: {} })).result;
    return now() - from;
  };
  const memory = () => {
    globalThis.Bun?.gc(true);
    return process.memoryUsage().rss / 2 ** 20;
  };
  const isSuspended = async (ids) => {
    const last = await runs.inspect(ids.at(-1));
    return last?.status === "pending" && last.started_at !== null;
  };
  const before = [];
  for (let i = 0; i < 20; i++) before.push(await quick());
  const hour = Date.now() + 3_600_000;
  const from = now();
  await suspend(all / 2, hour);
  const half = memory();
  await suspend(all / 2 - DUE, hour);
  row(`${all} suspended runs were made in`, `${((now() - from) / 1000).toFixed(0)} s`);
  row(`memory with ${all / 2}, and with ${all}`, `${half.toFixed(0)}, ${memory().toFixed(0)} MiB`, "flat");
  const wakeTime = Date.now() + 60_000;
  await suspend(DUE, wakeTime);
  const beside = [];
  for (let i = 0; i < 20; i++) beside.push(await quick());
  row("a run without steps: before, and beside them", `${ms(median(before))}, ${ms(median(beside))}`);
  let woken = 0;
  let last = 0;
  listeners.set("woken", () => {
    woken += 1;
    last = Date.now();
  });
  while (Date.now() < wakeTime) await sleep(wakeTime - Date.now());
  const used = process.cpuUsage();
  while (woken < DUE && Date.now() < wakeTime + 60_000) await sleep(50);
  const { user, system } = process.cpuUsage(used);
  row("CPU time of a wake-up", ms((user + system) / 1000 / DUE));
  row(`${woken} runs that fall due at once have run after`, ms(last - wakeTime), "5 s");
}

/** Waits until the newest of the runs is suspended. */
async function settle(ids, isSuspended) {
  while (!(await isSuspended(ids))) await sleep(50);
}

/** Steps of one call, and calls of one step, in a second. */
async function rates(empty, call, count = Number(values.peer)) {
  const all = Math.ceil(count * 0.4);
  await empty(count);
  const steps = [];
  const calls = [];
  for (let round = 0; round < ROUNDS; round++) {
    let from = now();
    await empty(count);
    steps.push((count * 1e3) / (now() - from));
    from = now();
    let remainingCalls = all;
    const loop = async () => {
      while (remainingCalls-- > 0) await call();
    };
    await Promise.all(Array.from({ length: 20 }, loop));
    calls.push((all * 1e3) / (now() - from));
  }
  return { steps: median(steps), calls: median(calls) };
}

async function peerPart() {
  const { startPostgres } = await import("../../test/support/postgres-server.ts");
  const server = await startPostgres({ own: true });
  try {
    const app = await open((await server.database()).url);
    const { runs } = app.service;
    const runOneStep = async () => (await runs.wait(null, { assistant_id: "steps", input: { count: 1 } })).result;
    const ours = await rates((count) => emptySteps(app, count), runOneStep);
    await app.stop();
    row(
      "Postgres: steps of a call, calls of one step, in a second",
      `${ours.steps.toFixed(0)}, ${ours.calls.toFixed(0)}`,
    );
    const { openDbos } = await import("./dbos.mjs");
    const dbos = await openDbos((await server.database()).url);
    const theirs = await rates(dbos.empty, dbos.call);
    await dbos.close();
    row(
      "DBOS on the same server: the same",
      `${theirs.steps.toFixed(0)}, ${theirs.calls.toFixed(0)}`,
      "at least equal",
    );
  } finally {
    await server.stop();
  }
}

/** Measures a tenth of the steps, because those of Vercel's become slower with each one before. */
async function filesPart() {
  const count = Math.ceil(Number(values.peer) / 10);
  const app = await open(join(folder, "files.db"));
  const { runs } = app.service;
  const runOneStep = async () => (await runs.wait(null, { assistant_id: "steps", input: { count: 1 } })).result;
  const ours = await rates((steps) => emptySteps(app, steps), runOneStep, count);
  await app.stop();
  row(
    `A file: ${count} steps of a call, calls of one step, in a second`,
    `${ours.steps.toFixed(0)}, ${ours.calls.toFixed(0)}`,
  );
  const { openWorkflow } = await import("./workflow.mjs");
  const workflow = await openWorkflow();
  const theirs = await rates(workflow.empty, workflow.call, count);
  workflow.close();
  row(
    "Vercel Workflow's local world: the same",
    `${theirs.steps.toFixed(0)}, ${theirs.calls.toFixed(0)}`,
    "at least equal",
  );
}

console.log("| durable functions | measured | goal |\n| --- | --- | --- |");
const parts = { steps: stepsPart, load: loadPart, event: eventPart, stream: streamPart, suspended: suspendedPart };
for (const [name, part] of Object.entries(parts)) {
  if (!only.includes(name)) continue;
  const app = await open(join(folder, `${name}.db`));
  await part(app);
  await app.stop();
}
if (only.includes("peer")) await peerPart();
if (only.includes("files")) await filesPart();
rmSync(folder, { recursive: true, force: true });
process.exit(0);
