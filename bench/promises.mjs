// What each promise costs a run on a thread: its statements, the bytes that they are given, and their time, one run after the other on a
// file. Then what the checks of a request cost. Prints JSON.
//   bun|node bench/promises.mjs FOLDER RUNS
import { join } from "node:path";
import process from "node:process";
import { FileWatch } from "../adapters/sqlite/file-watch.ts";
import { createHandler } from "../lib/http/handler.ts";
import { createService, fromFunctions, staticIdentity } from "../lib/mod.ts";
import { quantiles } from "./load.mjs";

const [, , folder, count] = process.argv;
const runs = Number(count);
const onBun = "Bun" in globalThis;
const open = onBun
  ? (await import("../adapters/sqlite/bun.ts")).bunSqlite
  : (await import("../adapters/sqlite/node.ts")).nodeSqlite;

const COMMITS = "commits: acknowledged is on disk";
const ROWS = "one run per thread, leases: rows of thread and run";
const PROMISES = [
  [COMMITS, /^(begin|commit)/],
  [ROWS, /^(insert into|update) (threads|runs)/],
  ["events of the thread are kept", /^insert into thread_events/],
  ["states are kept: checkpoints", /^(insert into|update|delete from) (channel_values|checkpoint)/],
  ["metadata can be searched: labels", /^(insert into|delete from) labels/],
  ["usage is counted", /^(insert into|update) (usage_hourly|traces)/],
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
const findPromise = (sql) => PROMISES.find(([, pattern]) => pattern.test(sql.trim()))?.[0] ?? "others";

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
  watch(FileWatch.prototype, method, () => ["the file is watched", 0]);

const request = { assistant_id: "echo", input: { messages: [{ role: "user", content: "hello" }] } };
async function openService(path, extraOptions = {}) {
  return await createService({
    storage: open(path),
    executor: fromFunctions({
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
  // A thread of its own for every ten runs: a long one costs more.
  let thread;
  const next = async (i) => {
    if (i % 10 === 0) thread = (await service.threads.create({})).thread_id;
    await wait(thread);
  };
  const onThread = await tallied(next, runs);
  const labelled = await tallied((i) => service.threads.create({ metadata: { owner: `u${i}`, team: "t" } }), runs);
  await service.stop(0);
  return {
    "a stateless run": stateless,
    "a run on a thread (a tenth: a new one)": onThread,
    "a thread with two labels": labelled,
  };
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

console.log(JSON.stringify({ runs: await statements(), renewal: await renewals(), checks: await checks() }));
process.exit();
