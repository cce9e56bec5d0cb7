// What the parts cost alone, on the runtime that runs this file: LangGraph.js, SQLite commits, fsync. Prints JSON.
//   bun bench/limits.mjs FOLDER SECONDS echo|streams
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { quantiles } from "./load.mjs";
import { echo, echoWithSaver, tokens } from "./peers/graphs.mjs";

const [folder, seconds, what] = process.argv.slice(2);
const MS = Number(seconds) * 1000;
const now = () => performance.now();
const input = () => ({ messages: [{ role: "user", content: "hello" }] });

async function loop(clients, operation, ms = MS) {
  const times = [];
  const cpu = process.cpuUsage();
  const began = now();
  const one = async () => {
    while (now() - began < ms) {
      const start = now();
      await operation();
      times.push(now() - start);
    }
  };
  await Promise.all(Array.from({ length: clients }, one));
  return { ...quantiles(times), per_s: times.length / ((now() - began) / 1000), cpu_ms: cpuSince(cpu) / times.length };
}

function cpuSince(start) {
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

async function fsyncs() {
  const file = openSync(join(folder, "fsync.bin"), "w");
  const page = Buffer.alloc(4096, 1);
  const append = () => {
    writeSync(file, page);
    fsyncSync(file);
  };
  const result = await loop(1, append, MS / 3);
  closeSync(file);
  return result;
}

/** One insert per transaction, as durable as Greenroom's. */
async function commits() {
  const file = join(folder, "limits.db");
  const { Database, DatabaseSync = Database } = await import(globalThis.Bun ? "bun:sqlite" : "node:sqlite");
  const db = new DatabaseSync(file);
  db.exec("PRAGMA journal_mode=WAL");
  db.exec("PRAGMA synchronous=FULL");
  db.exec("CREATE TABLE IF NOT EXISTS runs (run_id TEXT PRIMARY KEY, kwargs TEXT)");
  const insert = db.prepare("INSERT INTO runs VALUES (?, ?)");
  const kwargs = JSON.stringify(input());
  const result = await loop(1, () => insert.run(crypto.randomUUID(), kwargs), MS / 2);
  db.close();
  return result;
}

async function echoes() {
  const bare = () => echo.invoke(input());
  const saver = echoWithSaver();
  const saved = () => saver.invoke(input(), { configurable: { thread_id: crypto.randomUUID() }, durability: "exit" });
  const starts = [];
  const started = async () => {
    const from = performance.timeOrigin + now();
    const { messages } = await saved();
    starts.push(Number(messages.at(-1).content.split("|")[1]) - from);
  };
  await loop(16, bare, 700);
  await loop(16, saved, 700);
  const bareMany = await loop(64, bare);
  const savedMany = await loop(64, saved);
  await loop(1, started);
  return {
    bare: (await loop(1, bare)).p50,
    bare_per_s: bareMany.per_s,
    bare_cpu_ms: bareMany.cpu_ms,
    saved: (await loop(1, saved)).p50,
    saved_per_s: savedMany.per_s,
    saved_cpu_ms: savedMany.cpu_ms,
    start: quantiles(starts).p50,
    commit: (await commits()).p50,
    fsync: (await fsyncs()).p50,
  };
}

async function stream() {
  const start = now();
  let first;
  let events = 0;
  for await (const _ of await tokens.stream(input(), { streamMode: "messages" })) {
    first ??= now() - start;
    events += 1;
  }
  return { first, events };
}

async function streams() {
  await Promise.all(Array.from({ length: 30 }, stream));
  const cpu = process.cpuUsage();
  const start = now();
  const all = await Promise.all(Array.from({ length: 100 }, stream));
  return {
    per_s: all.reduce((sum, { events }) => sum + events, 0) / ((now() - start) / 1000),
    stream_cpu_ms: cpuSince(cpu) / 100,
    token: quantiles(all.map(({ first }) => first)).p50,
  };
}

console.log(JSON.stringify(what === "streams" ? await streams() : await echoes()));
process.exit();
