#!/usr/bin/env node
/**
 * Measures several processes on one Postgres, and the delay of their readers. Ends with 1 when a figure misses its limit.
 *
 *   node bench/postgres/run.mjs [--quick] [--only scale,need,throughput,claims,connections,frames,events]
 *   node bench/postgres/run.mjs --only need [--rate 500]            reads and writes per second
 *   node bench/postgres/run.mjs --only size [--threads 1000000]     ten runs each; about 85 KB of disk for each thread
 *
 * Needs Linux. `connections` needs 5,000 open files and some more in two processes: `ulimit -Hn` of 6,000 or more.
 */
import { readFileSync } from "node:fs";
import http from "node:http";
import { availableParallelism, loadavg } from "node:os";
import process from "node:process";
import { parseArgs } from "node:util";
import { median, quantiles } from "../load.mjs";
import { database, json, note, outcome, query, server, start, table } from "./context.mjs";
import { need } from "./need.mjs";
import { scale } from "./scale.mjs";
import { stored } from "./size.mjs";

const PARTS = ["scale", "need", "throughput", "claims", "connections", "frames", "events", "size"];
const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    // `size` takes long and much disk.
    only: { type: "string", default: PARTS.slice(0, -1).join() },
    threads: { type: "string", default: "1000000" },
    rate: { type: "string", default: "500" },
  },
});
const { quick } = values;
const parts = values.only.split(",");
if (parts.some((part) => !PARTS.includes(part))) {
  console.error(`--only: some of ${PARTS.join()}`);
  process.exit(2);
}
const SIZE = quick
  ? { rounds: 3, seconds: 2, backlog: 1_000, frame_seconds: 5, need_seconds: 5 }
  : { rounds: 7, seconds: 4, backlog: 5_000, frame_seconds: 20, need_seconds: 30 };
const STREAMS = 5_000;
const FILES = 6_000;

const deadline = setTimeout(() => {
  console.error("Took too long");
  process.exit(1);
}, 60 * 60_000);
deadline.unref();

/** Two processes with signals and two without, on a database each, in turns. */
async function throughput() {
  const sides = {};
  for (const signals of ["on", "off"]) {
    const url = await database(signals);
    sides[signals] = [await start(url, signals, 32), await start(url, signals, 32)];
  }
  const load = async (signals, seconds) => {
    const both = await Promise.all(sides[signals].map(({ client }) => client.closedLoop(12, seconds, client.wait)));
    return both.reduce((sum, { per_s }) => sum + per_s, 0);
  };
  for (const signals of ["on", "off"]) await load(signals, 1);
  const ratios = [];
  const speeds = { on: [], off: [] };
  for (let round = 0; round < SIZE.rounds; round++) {
    // Who comes first changes: what the one leaves to be done must not always hit the other.
    const order = round % 2 === 0 ? ["on", "off"] : ["off", "on"];
    for (const signals of order) speeds[signals].push(await load(signals, SIZE.seconds));
    ratios.push(speeds.on.at(-1) / speeds.off.at(-1));
  }
  for (const processes of Object.values(sides)) for (const server of processes) await server.stop();
  note("runs executed with signals", median(speeds.on), "/s");
  note("runs executed without signals", median(speeds.off), "/s");
  note("smallest ratio of a pair", Math.min(...ratios));
  note("throughput with signals : without", median(ratios), "", 0.9, true);
}

/** A backlog that two processes find when they start. */
async function claims() {
  const url = await database("claims");
  const maker = await start(url, "on", 0);
  const run = {
    assistant_id: "echo",
    input: { messages: [{ role: "user", content: "hello" }] },
    on_completion: "keep",
  };
  for (let createdCount = 0; createdCount < SIZE.backlog; createdCount += 100) {
    await maker.client.request(
      "POST",
      "/runs/batch",
      Array.from({ length: 100 }, () => run),
    );
  }
  // As autovacuum does within a minute: until then the server's plans are for empty tables.
  await query(url, "analyze");
  const workers = [await start(url, "on", 32), await start(url, "on", 32)];
  const until = Date.now() + 180_000;
  for (;;) {
    const [[unfinishedRuns]] = await query(url, "select count(*) from runs where ended_at is null");
    if (Number(unfinishedRuns) === 0) break;
    if (Date.now() > until) throw new Error(`${unfinishedRuns} runs are left`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const [[ms, twice]] = await query(
    url,
    "select max(ended_at) - min(started_at), count(*) filter (where attempt <> 1) from runs",
  );
  for (const process of [maker, ...workers]) await process.stop();
  note("runs of a backlog claimed and executed by two processes", (SIZE.backlog / Number(ms)) * 1000, "/s");
  note("runs claimed twice", Number(twice), "", 0);
}

const epoch = () => performance.timeOrigin + performance.now();

/** Opens a stream; `onData` gets the data of its custom frames. The result closes it. With a filter: the events of a thread. */
function open(base, path, onData, filter) {
  const { hostname, port } = new URL(base);
  const headers = filter ? { "content-type": "application/json" } : { "last-event-id": "-1" };
  const options = { hostname, port, path, method: filter ? "POST" : "GET", agent: false, headers };
  return new Promise((resolve, reject) => {
    const call = http.request(options, (response) => {
      if (response.statusCode !== 200) return reject(new Error(`${path}: ${response.statusCode}`));
      let partialLine = "";
      let event = "";
      response.setEncoding("utf8");
      response.on("error", () => {});
      response.on("data", (text) => {
        const lines = (partialLine + text).split("\n");
        partialLine = lines.pop();
        for (const line of lines) {
          if (line.startsWith("event: ")) event = line.slice(7);
          else if (line.startsWith("data: ") && event === "custom") onData(JSON.parse(line.slice(6)));
        }
      });
      resolve(() => call.destroy());
    });
    call.on("error", reject);
    call.end(filter && JSON.stringify(filter));
  });
}

async function ticking(client, metadata) {
  const { thread_id } = await json(client, "POST", "/threads", {});
  const run = { assistant_id: "ticks", input: {}, metadata, stream_mode: ["custom"], stream_resumable: true };
  const { run_id } = await json(client, "POST", `/threads/${thread_id}/runs`, run);
  return `/threads/${thread_id}/runs/${run_id}/stream`;
}

/** Readers in one process of runs that another one executes. */
async function connections() {
  const files = Number(/Max open files\s+\d+\s+(\d+)/.exec(readFileSync("/proc/self/limits", "utf8"))?.[1]);
  if (files < FILES)
    throw new Error(`This needs ${FILES} open files (ulimit -Hn says ${files}): raise it and start again`);
  const url = await database("executes");
  const reading = url.replace("executes", "reads");
  const executing = await start(url, "on", 100);
  const reader = await start(reading, "on", 0);
  const paths = await Promise.all(
    Array.from({ length: 50 }, () => ticking(executing.client, { count: 10_000, every_ms: 4_000 })),
  );
  const heard = new Set();
  const closes = [];
  for (let i = 0; i < STREAMS; i += 100) {
    const some = Array.from({ length: 100 }, (_, n) => i + n);
    closes.push(...(await Promise.all(some.map((n) => open(reader.url, paths[n % paths.length], () => heard.add(n))))));
  }
  let most = 0;
  const until = Date.now() + 60_000;
  for (const from = Date.now(); Date.now() < until; ) {
    const [[count]] = await query(url, "select count(*) from pg_stat_activity where application_name = 'reads'");
    most = Math.max(most, Number(count));
    if (heard.size === STREAMS && Date.now() > from + 5_000) break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const { open_streams } = await json(reader.client, "GET", "/metrics?format=json");
  for (const close of closes) close();
  await reader.stop();
  await executing.stop();
  note("open streams on one process", open_streams, "", STREAMS, true);
  note("of them that got a frame from another process", heard.size, "", STREAMS, true);
  note("its connections to the database, at the most", most, "", 12);
}

async function frames() {
  for (const [signals, name, limit] of [
    ["on", "with signals", 100],
    ["deaf", "when every signal is lost", 1_000],
  ]) {
    const url = await database("frames");
    const executing = await start(url, signals, 100);
    const reader = await start(url, signals, 0);
    const metadata = { count: SIZE.frame_seconds * 5, every_ms: 200 };
    const late = [];
    const closes = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const path = await ticking(executing.client, metadata);
        // Late by what the reader was not there for: the first frames say nothing.
        return await open(reader.url, path, ({ at, n }) => n >= 5 && late.push(epoch() - at));
      }),
    );
    await new Promise((resolve) => setTimeout(resolve, SIZE.frame_seconds * 1_000 + 2_000));
    for (const close of closes) close();
    await reader.stop();
    await executing.stop();
    const { n, p50, p99 } = quantiles(late);
    note(`frames ${name}`, n, "", 20 * (metadata.count - 5) * 0.8, true);
    note(`frame to a reader in another process ${name}, p50`, p50, "ms");
    note(`the same, p99`, p99, "ms", limit);
  }
}

/** Readers of thread events in one process, runs in another. */
async function events() {
  const url = await database("events");
  const executing = await start(url, "on", 100);
  const reader = await start(url, "on", 0);
  const late = [];
  const count = SIZE.frame_seconds * 5;
  const closes = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const thread = `/threads/${crypto.randomUUID()}`;
      const take = ({ params: { data } }) => data.payload.n >= 5 && late.push(epoch() - data.payload.at);
      const close = await open(reader.url, `${thread}/stream/events`, take, { channels: ["custom"] });
      const params = { assistant_id: "ticks", input: {}, metadata: { count, every_ms: 200 } };
      await executing.client.request("POST", `${thread}/commands`, { id: 1, method: "run.start", params });
      return close;
    }),
  );
  await new Promise((resolve) => setTimeout(resolve, SIZE.frame_seconds * 1_000 + 2_000));
  for (const close of closes) close();
  await reader.stop();
  await executing.stop();
  const { n, p50, p99 } = quantiles(late);
  note("thread events", n, "", 20 * (count - 5) * 0.8, true);
  note("thread event to a reader in another process, p50", p50, "ms");
  note("the same, p99", p99, "ms", 100);
}

console.log(`Load average ${loadavg()[0].toFixed(1)}, ${availableParallelism()} cores`);
const all = {
  scale: () => scale(SIZE),
  need: () => need(SIZE, Number(values.rate)),
  ...{ throughput, claims, connections, frames, events },
  size: () => stored(Number(values.threads)),
};
try {
  for (const [name, part] of Object.entries(all)) {
    if (!parts.includes(name)) continue;
    await part().catch((error) => {
      console.error(`${name}: ${error.stack}`);
      outcome.failed = true;
    });
  }
} finally {
  await server.stop();
}
console.log(table());
process.exit(outcome.failed ? 1 : 0);
