#!/usr/bin/env node
/**
 * Streams of thread events against resumable streams of run routes, on one server in turns; and how long it takes to open a stream at
 * the end of a long thread. Ends with 1 when a figure misses its limit.
 *
 *   node bench/events/run.mjs [--rounds 8] [--streams 100] [--only streams,open]
 *
 * Needs Linux (`/proc`).
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { parseArgs } from "node:util";
import { connect, cpuMs, quantiles } from "../load.mjs";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "8" },
    streams: { type: "string", default: "100" },
    only: { type: "string", default: "streams,open" },
  },
});
const [rounds, count] = [values.rounds, values.streams].map(Number);
const EVENTS = 10_000;
const OPENED = 50;
const root = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "greenroom-events-"));
const children = new Set();
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

let failed = false;
const show = (value) => (value >= 100 ? Math.round(value) : value.toFixed(2));
function note(figure, value, sign, limit) {
  const met = sign === undefined || (sign === ">=" ? value >= limit : value <= limit);
  failed ||= !met;
  console.log(`${figure}: ${show(value)}${sign ? ` (${sign} ${limit}: ${met ? "met" : "MISSED"})` : ""}`);
}
const median = (list) => quantiles(list).p50;

function serve() {
  const flags = { config: join(root, "bench/peers/greenroom.json"), database: join(folder, "greenroom.db") };
  const serverOptions = { ...flags, port: "0", workers: String(count), "log-level": "warn" };
  const args = [
    join(root, "server.ts"),
    ...Object.entries(serverOptions).flatMap(([key, value]) => [`--${key}`, value]),
  ];
  const PATH = `${join(root, "node_modules/.bin")}${delimiter}${process.env.PATH}`;
  const child = spawn("bun", args, { env: { ...process.env, PATH }, stdio: ["ignore", "pipe", "inherit"] });
  children.add(child);
  return new Promise((resolve, reject) => {
    child.on("exit", (code) => reject(new Error(`The server ended with ${code}`)));
    child.stdout.on("data", (text) => {
      const [, url] = /listening on (http:\/\/[\w.]+:\d+)/.exec(String(text)) ?? [];
      if (url) resolve({ pid: child.pid, client: connect(url) });
    });
  });
}

async function streams() {
  const { client, pid } = await serve();
  const measured = { v1: [], v2: [] };
  for (const protocol of [false, true]) await client.threadStreams(count, protocol);
  for (let round = 0; round < rounds; round++) {
    for (const name of round % 2 === 0 ? ["v1", "v2"] : ["v2", "v1"]) {
      const before = cpuMs(pid);
      const { per_s, tokens } = await client.threadStreams(count, name === "v2");
      if (tokens < count * 200) throw new Error(`${name}: ${tokens} tokens of ${count * 200}`);
      measured[name].push({ per_s, cpu: (cpuMs(pid) - before) / count });
    }
  }
  const of = (name, figure) => median(measured[name].map((sample) => sample[figure]));
  const ratios = (figure) => measured.v2.map((sample, i) => sample[figure] / measured.v1[i][figure]);
  for (const name of ["v1", "v2"]) {
    console.log(`${name}: ${show(of(name, "per_s"))} tokens/s, ${show(of(name, "cpu"))} ms CPU of a stream`);
  }
  note("tokens per second, v2 : v1", median(ratios("per_s")), ">=", 0.9);
  note("CPU of a stream, v2 : v1", median(ratios("cpu")), "<=", 1.2);
  client.close();
}

/** Measures the time from the request to the newest event, with `since` right before it. */
async function open() {
  const { createService, fromFunctions } = await import("../../lib/mod.ts");
  const { createHandler } = await import("../../lib/http/handler.ts");
  const { nodeSqlite } = await import("../../adapters/sqlite/node.ts");
  const agents = {
    async *talk() {
      for (let n = 0; n < EVENTS; n++) yield `t${n} `;
    },
  };
  const service = await createService({
    storage: nodeSqlite(join(folder, "open.db")),
    executor: fromFunctions(agents),
    environment: { log() {} },
  });
  const handler = createHandler(service);
  const thread_id = crypto.randomUUID();
  const all = { channels: ["lifecycle", "messages", "values"] };
  await service.threads.command(thread_id, { id: 1, method: "run.start", params: { assistant_id: "talk", input: {} } });
  const seqs = [];
  for await (const { seq, method, params } of service.threads.events(thread_id, all)) {
    seqs.push(seq);
    if (method === "lifecycle" && params.data.event === "completed") break;
  }
  const times = [];
  for (let i = 0; i < OPENED; i++) {
    const since = seqs.at(-2);
    const from = performance.now();
    const response = await handler(
      new Request(`http://127.0.0.1/threads/${thread_id}/stream/events`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ ...all, since }),
      }),
    );
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; !text.includes("data: "); ) text += (await reader.read()).value;
    times.push(performance.now() - from);
    await reader.cancel();
  }
  await service.stop(0);
  note("kept events", seqs.length, ">=", EVENTS);
  note("opening a stream with `since` at the end, p50 in ms", median(times), "<=", 5);
}

console.log(`Load average ${loadavg()[0].toFixed(1)}`);
for (const [name, part] of Object.entries({ streams, open })) if (values.only.split(",").includes(name)) await part();
process.exit(failed ? 1 : 0);
