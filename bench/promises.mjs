// What each promise costs a run on a thread: its statements, the bytes that they are given, and their time, one run after the other on a
// file. Then what the checks of a request and the spans of a run cost. Prints JSON. Ends with 1 if the commits, rows or spans of a run
// were not seen, for instance because another thread wrote them.
//   bun|node bench/promises.mjs FOLDER RUNS
import { join } from "node:path";
import process from "node:process";
import { FileWatch } from "../adapters/sqlite/file-watch.ts";
import { createHandler } from "../lib/http/handler.ts";
import { createService, fromFunctions, staticIdentity } from "../lib/mod.ts";
import { ContentKeeper } from "../lib/traces/content.ts";
import { resolveTraceSettings } from "../lib/traces/options.ts";
import { SpanRecorder } from "../lib/traces/span-recorder.ts";
import { quantiles } from "./load.mjs";

const [, , folder, count] = process.argv;
const runs = Number(count);
const onBun = "Bun" in globalThis;
const open = onBun
  ? (await import("../adapters/sqlite/bun.ts")).bunSqlite
  : (await import("../adapters/sqlite/node.ts")).nodeSqlite;

const COMMITS = "commits: acknowledged is on disk";
const ROWS = "one run per thread, leases: rows of thread and run";
const SPANS = "spans are kept";
const EVENTS = "events of the thread are kept";
const WATCH = "the file is watched";
/** What is not time of statements. */
const UNCOUNTED = new Set([COMMITS, WATCH]);
const PROMISES = [
  [COMMITS, /^(begin|commit)/],
  [ROWS, /^(insert into|update) (threads|runs)/],
  [EVENTS, /^insert into thread_events/],
  ["states are kept: checkpoints", /^(insert into|update|delete from) (channel_values|checkpoint)/],
  ["metadata can be searched: labels", /^(insert into|delete from) labels/],
  ["usage is counted", /^(insert into|update) (usage_hourly|traces)/],
  [SPANS, /^(insert into|update) run_trace/],
  ["states are read", /^(select|with)(.|\n)*(channel_values|checkpoint)/],
  ["other reads", /^(select|with)/],
];

let tally;
const add = (promise, bytes, us) => {
  if (!tally) return;
  tally[promise] ??= { statements: 0, bytes: 0, us: 0 };
  tally[promise].statements += 1;
  tally[promise].bytes += bytes;
  tally[promise].us += us;
};
const size = (value) => (typeof value === "string" ? value.length : (value?.byteLength ?? (value === null ? 0 : 8)));
/** Returns the promise of a statement, in which names may be quoted. */
function findPromise(sql) {
  const text = sql.trim().replaceAll('"', "");
  return PROMISES.find(([, pattern]) => pattern.test(text))?.[0] ?? "others";
}

/** Takes the time of each call of a method; `what` gives its promise and the bytes in its arguments. */
function watch(object, method, what) {
  const original = object[method];
  object[method] = function (...args) {
    const from = performance.now();
    try {
      return original.apply(this, args);
    } finally {
      const took = (performance.now() - from) * 1000;
      add(...what(args), took);
    }
  };
}
const { Database, DatabaseSync = Database } = await import(onBun ? "bun:sqlite" : "node:sqlite");
const { prepare } = DatabaseSync.prototype;
DatabaseSync.prototype.prepare = function (sql, ...args) {
  const prepared = prepare.call(this, sql, ...args);
  const promise = findPromise(sql);
  watch(prepared, "all", (args) => [promise, args.flat().reduce((sum, of) => sum + size(of), 0)]);
  return prepared;
};
for (const method of ["requireIntactLog", "requireUndamaged", "confirmCommit"])
  watch(FileWatch.prototype, method, () => [WATCH, 0]);

const request = { assistant_id: "echo", input: { messages: [{ role: "user", content: "hello" }] } };
/** The spans that a run of `calls` names, beside that of its attempt. */
const NAMED_SPANS = 11;
async function openService(path, extraOptions = {}) {
  return await createService({
    // A slow disk gets a thread otherwise, whose statements nobody sees here.
    storage: open(path, { writer: "inline" }),
    executor: fromFunctions({
      calls: async ({ span }) => {
        for (let i = 0; i < NAMED_SPANS; i += 1) await span(`tool ${i % 3}`, () => i, { kind: "tool" });
        return { messages: [{ type: "ai", content: "echo: hello" }] };
      },
      echo: () => ({ messages: [{ type: "ai", content: "echo: hello" }] }),
      long: async () => await new Promise((resolve) => setTimeout(resolve, 5_000)),
    }),
    environment: { log() {} },
    ...extraOptions,
  });
}

/** Returns the tally of `operation` for one call, measured over `times` calls. */
async function tallied(operation, times) {
  for (let i = 0; i < 200; i += 1) await operation(i);
  tally = {};
  const all = [];
  const before = process.cpuUsage();
  for (let i = 0; i < times; i += 1) {
    const from = performance.now();
    await operation(i);
    all.push((performance.now() - from) * 1000);
  }
  const { user, system } = process.cpuUsage(before);
  const finalTally = tally;
  tally = undefined;
  const each = Object.entries(finalTally).map(([promise, of]) => [
    promise,
    Object.fromEntries(Object.entries(of).map(([name, sum]) => [name, sum / times])),
  ]);
  return {
    promises: Object.fromEntries(each),
    us: all.reduce((sum, us) => sum + us, 0) / times,
    cpu_us: (user + system) / times,
  };
}

async function statements() {
  const service = await openService(join(folder, "promises.db"));
  const wait = async (thread_id) => (await service.runs.wait(thread_id, request)).result;
  const stateless = await tallied(() => wait(null), runs);
  const withSpans = await tallied(
    async () => (await service.runs.wait(null, { ...request, assistant_id: "calls" })).result,
    runs,
  );
  // A thread of its own for every ten runs: a long one costs more.
  let thread;
  const next = async (i) => {
    if (i % 10 === 0) thread = (await service.threads.create({})).thread_id;
    await wait(thread);
  };
  const onThread = await tallied(next, runs);
  const labelled = await tallied((i) => service.threads.create({ metadata: { owner: `u${i}`, team: "t" } }), runs);
  await service.stop(0);
  for (const run of [stateless, withSpans, onThread]) requireSeen(run);
  return {
    "a stateless run": stateless,
    [`a stateless run with ${NAMED_SPANS + 1} spans`]: withSpans,
    "a run on a thread (a tenth: a new one)": onThread,
    "a thread with two labels": labelled,
  };
}

/** Throws if what each run does was not seen: a table without it would show costs that are too low. */
function requireSeen({ promises }) {
  const missing = [COMMITS, ROWS, SPANS].filter((name) => !(promises[name]?.statements > 0));
  if (missing.length > 0)
    throw new Error(`No call was seen for: ${missing.join("; ")}. Statements are seen only in this thread.`);
}

/**
 * Measures the time that the statements of a run on a thread take with spans and without, in turns. The first write of a batch takes
 * longer than the same write would later, so the time of the statement for spans alone, which is the first one, says too much.
 */
async function compareStatements() {
  const services = {};
  for (const record of ["all", "none"])
    services[record] = await openService(join(folder, `spans ${record}.db`), { traces: { record } });
  const times = { all: new Map(), none: new Map() };
  for (let i = 0; i < 2 * runs; i += 1) {
    const record = i % 2 === 0 ? "all" : "none";
    const { thread_id } = await services[record].threads.create({});
    const { result } = await services[record].runs.wait(thread_id, request);
    await result;
    tally = {};
    await (await services[record].runs.wait(thread_id, request)).result;
    if (i >= runs / 2)
      for (const [promise, { us }] of Object.entries(tally))
        times[record].set(promise, [...(times[record].get(promise) ?? []), us]);
    tally = undefined;
  }
  for (const service of Object.values(services)) await service.stop(0);
  // Calls that hardly a run makes, such as a checkpoint of the log, are no part of a run.
  const isRare = ({ length }) => length < runs / 2;
  const sum = (record) =>
    [...times[record]].reduce(
      (all, [name, list]) => all + (UNCOUNTED.has(name) || isRare(list) ? 0 : quantiles(list).p50),
      0,
    );
  return { us: sum("all") - sum("none"), events_us: quantiles(times.all.get(EVENTS)).p50 };
}

/** Measures the time of a span in the recorder: its start, its end and its JSON, without a copy of a value. */
function measureSpan() {
  const counters = { spans: 0, dropped: 0, bytes: 0, redact_failed: 0, sink_failed: 0 };
  const keeper = new ContentKeeper({ ...resolveTraceSettings(), counters });
  const each = [];
  for (let round = 0; round < 40; round += 1) {
    const options = { claim: 1, attempt: 1, prefix: "5089828a", keeper, now: () => performance.now(), onChange() {} };
    const recorder = new SpanRecorder(options, { parent_id: "bf8d91bbd3ecc56b", name: "echo", start_ms: 0 });
    const from = performance.now();
    for (let i = 0; i < 1_000; i += 1) {
      const node = recorder.start({ kind: "node", name: "tools", namespace: ["tools:610e"], step: i, try: 1 });
      const params = { temperature: 0.2, tools: ["weather", "research"] };
      const model = recorder.start({ kind: "model", name: "gpt-5", parent_id: node, provider: "openai", params });
      recorder.end(model, { status: "ok", tokens: { in: 611, out: 92 }, finish_reasons: ["tool_calls"] });
      recorder.end(node, { status: "ok" });
    }
    const text = JSON.stringify(recorder.drain());
    if (round > 10) each.push(((performance.now() - from) * 1_000) / 2_000);
    if (text.length < 2_000) throw new Error("the recorder has no spans");
  }
  return quantiles(each).p50;
}

/** A run that waits, with a lease so short that it is renewed about twelve times. */
async function renewals() {
  const service = await openService(join(folder, "renewals.db"), { worker: { lease_ms: 1_000 } });
  await (await service.runs.wait(null, request)).result;
  tally = {};
  const run = await service.runs.wait(null, { ...request, assistant_id: "long" });
  await new Promise((resolve) => setTimeout(resolve, 200));
  tally = {};
  await new Promise((resolve) => setTimeout(resolve, 4_000));
  const { [ROWS]: rows, [COMMITS]: commits } = tally;
  tally = undefined;
  await run.result;
  await service.stop(0);
  const of = (name) => (rows[name] + commits[name]) / rows.statements;
  return { statements: of("statements"), bytes: of("bytes"), us: of("us") };
}

/** Measures the CPU of a small request with and without each check, in turns. */
async function checks() {
  const key = "a-secret-of-at-least-32-characters";
  const plain = await openService(":memory:");
  const keyed = await openService(":memory:", {
    identity: staticIdentity({ keys: [key] }),
    auth: { mode: "api_key" },
  });
  const handlers = {
    "no check": [createHandler(plain), plain, {}],
    "host check": [createHandler(plain, { hosts: ["127.0.0.1"] }), plain, {}],
    "API key": [createHandler(keyed), keyed, { "x-api-key": key }],
  };
  const calls = [];
  for (const [name, [handler, service, headers]] of Object.entries(handlers)) {
    const { thread_id } = await service.threads.create({});
    const url = `http://127.0.0.1/threads/${thread_id}`;
    calls.push([
      name,
      async () => {
        const answer = await handler(new Request(url, { headers }));
        if (answer.status !== 200) throw new Error(`${name}: ${answer.status} ${await answer.text()}`);
        return await answer.text();
      },
    ]);
  }
  const measured = Object.fromEntries(calls.map(([name]) => [name, []]));
  for (let round = 0; round < 10; round += 1) {
    for (const [name, call] of calls) {
      const before = process.cpuUsage();
      for (let i = 0; i < 1_000; i += 1) await call();
      const { user, system } = process.cpuUsage(before);
      if (round > 0) measured[name].push((user + system) / 1_000);
    }
  }
  await plain.stop(0);
  await keyed.stop(0);
  return Object.fromEntries(Object.entries(measured).map(([name, list]) => [name, quantiles(list).p50]));
}

const results = { runs: await statements(), renewal: await renewals(), checks: await checks() };
const spans = { ...(await compareStatements()), span_us: measureSpan(), count: NAMED_SPANS + 1 };
console.log(JSON.stringify({ ...results, spans }));
process.exit();
