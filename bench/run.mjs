#!/usr/bin/env node
// Greenroom, its peer and the limits on one machine in one call, interleaved; prints ratios. See README.md.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { parseArgs } from "node:util";
import { connect, cpuMs, rssMiB } from "./load.mjs";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    "no-peer": { type: "boolean", default: false },
    runtime: { type: "string", default: "bun" }, // of Greenroom and the limits; the peer runs on Node
    workers: { type: "string", default: "100" }, // runs at once, of Greenroom and of the peer
    json: { type: "string" },
    only: { type: "string" }, // some of: echo,streams,background,start,memory
    profile: { type: "string" }, // a folder for CPU profiles of Greenroom
  },
});
const { quick, runtime } = options;
if (runtime !== "bun" && runtime !== "node") throw new Error("--runtime: bun or node");

const here = import.meta.dirname;
const root = join(here, "..");
const peers = join(here, "peers");
const size = quick
  ? { rounds: 2, peerRounds: 1, seconds: 1, background: 60, peerBackground: 6, runs: 3000, memorySeconds: 8, starts: 2 }
  : {
      rounds: 5,
      peerRounds: 3,
      seconds: 2.5,
      background: 300,
      peerBackground: 20,
      runs: 10_000,
      memorySeconds: 60,
      starts: 7,
    };
const parts = (options.only ?? "echo,streams,background,start,memory").split(",");

const withPeer = !options["no-peer"];
if (withPeer && !existsSync(join(peers, "node_modules"))) {
  console.error("Installing the peer in bench/peers");
  const { status } = spawnSync("npm", ["install", "--no-package-lock", "--no-audit", "--no-fund"], {
    cwd: peers,
    stdio: "inherit",
    timeout: 180_000,
  });
  if (status !== 0) throw new Error("The peer cannot be installed; leave it out with --no-peer");
}

// Everything a run leaves behind is in this folder, and every process it starts is in this set.
const scratch = mkdtempSync(join(tmpdir(), "greenroom-bench-"));
const children = new Set();
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(scratch, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));
const deadline = setTimeout(
  () => {
    console.error("Took too long");
    process.exit(1);
  },
  (quick ? 4 : 15) * 60_000,
);
deadline.unref();

const env = {
  ...process.env,
  NO_COLOR: "1",
  PATH: `${join(root, "node_modules/.bin")}${delimiter}${process.env.PATH}`,
};
function start(command, args, { cwd, output }) {
  const child = spawn(command, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      text += chunk;
      output(text);
    });
  }
  const ended = new Promise((resolve) => child.on("close", (code) => resolve({ code, text })));
  ended.then(() => children.delete(child));
  return { child, ended };
}

async function limits(what) {
  const args = [join(here, "limits.mjs"), scratch, String(size.seconds / 2), what];
  const { code, text } = await start(runtime, args, { cwd: root, output() {} }).ended;
  if (code !== 0) throw new Error(`limits: ${text}`);
  return JSON.parse(text);
}

const commands = {
  greenroom: (folder) => greenroom("greenroom.json", folder),
  "greenroom without LangGraph": (folder) => greenroom("function.json", folder),
  peer: () => ["node", join(peers, "langgraph-api.mjs"), options.workers],
  plain: () => [runtime, join(here, "plain-server.mjs")],
  "plain with LangGraph": () => [runtime, join(here, "plain-server.mjs"), "langgraph"],
};
function greenroom(config, folder) {
  const profile = options.profile ? ["--cpu-prof", "--cpu-prof-dir", options.profile] : [];
  const given = {
    config: join(peers, config),
    database: join(folder, "greenroom.db"),
    port: "0",
    workers: options.workers,
    // The other servers log no requests either.
    "log-level": "warn",
  };
  return [
    runtime,
    ...profile,
    join(root, "server.ts"),
    ...Object.entries(given).flatMap(([key, value]) => [`--${key}`, value]),
  ];
}

/** Starts a server in a folder of its own. Resolves when /ok has answered, with the time that took. */
async function serve(name, folder = join(scratch, crypto.randomUUID())) {
  mkdirSync(folder, { recursive: true });
  const [command, ...args] = commands[name](folder);
  const began = performance.now();
  let child;
  const url = await new Promise((resolve, reject) => {
    const output = (text) => {
      const [, found] = /listening on (http:\/\/[\w.]+:\d+)/.exec(text) ?? [];
      if (found) resolve(found);
    };
    const server = start(command, args, { cwd: folder, output });
    child = server.child;
    server.ended.then(({ text }) => reject(new Error(`${name} ended: ${text}`)));
  });
  const client = connect(url);
  await client.request("GET", "/ok");
  const ms = performance.now() - began;
  const stop = async () => {
    client.close();
    const gone = new Promise((resolve) => child.on("close", resolve));
    const timer = setTimeout(() => child.kill("SIGKILL"), 5000);
    child.kill("SIGTERM");
    await gone;
    clearTimeout(timer);
  };
  return { name, client, ms, pid: child.pid, stop };
}

// figures[figure][system] is the list of what each round measured.
const figures = {};
function note(system, measured) {
  for (const [figure, value] of Object.entries(measured)) {
    figures[figure] ??= {};
    figures[figure][system] ??= [];
    figures[figure][system].push(value);
  }
}

/** What `measure` says, and the CPU time of the server for each of its `n` operations. */
async function withCpu(pid, measure) {
  const before = cpuMs(pid);
  const measured = await measure();
  return { ...measured, cpu_ms: (cpuMs(pid) - before) / measured.n };
}

const measures = {
  async echo({ client, pid, name }) {
    const warm = name === "peer" ? 100 : 1500; // the JIT settles after about a thousand runs
    await client.closedLoop(16, 8, client.wait, warm);
    const wait = await client.closedLoop(1, size.seconds, client.wait);
    const waitMany = await withCpu(pid, () => client.closedLoop(64, size.seconds, client.wait));
    await client.closedLoop(16, 8, client.fresh, warm / 2);
    const fresh = await client.closedLoop(1, size.seconds, client.fresh);
    const freshMany = await withCpu(pid, () => client.closedLoop(64, size.seconds, client.fresh));
    return {
      wait_ms: wait.p50,
      wait_per_s: waitMany.per_s,
      wait_cpu_ms: waitMany.cpu_ms,
      fresh_ms: fresh.p50,
      fresh_per_s: freshMany.per_s,
      fresh_p99_ms: freshMany.p99,
      fresh_cpu_ms: freshMany.cpu_ms,
    };
  },
  async streams({ client, name, pid }) {
    await client.streams(30);
    const { per_s, first, token, cpu_ms } = await withCpu(pid, () => client.streams(100));
    const one = await client.oneStream(name === "plain" ? 50 : quick ? 3 : 5);
    return { events_per_s: per_s, stream_cpu_ms: cpu_ms, first_100_ms: first, token_100_ms: token, first_1_ms: one };
  },
  async background({ client, name }) {
    await client.background(name === "peer" ? 2 : 30);
    const { start, join } = await client.background(name === "peer" ? size.peerBackground : size.background);
    return { start_ms: start.p50, start_p99_ms: start.p99, join_ms: join.p50 };
  },
};

/** Measures on a server while all others stand still. */
async function on(server, part) {
  process.kill(server.pid, "SIGCONT");
  try {
    note(server.name, await measures[part](server));
  } finally {
    server.client.close(); // a connection kept over the pause would be closed by the server as it wakes
    process.kill(server.pid, "SIGSTOP");
  }
}

async function round(number) {
  const names = ["plain", ...(withPeer && number < size.peerRounds ? ["peer"] : []), "greenroom"];
  const servers = {};
  for (const name of names) {
    servers[name] = await serve(name);
    servers[name].client.close();
    process.kill(servers[name].pid, "SIGSTOP");
  }
  for (const part of ["echo", "streams", "background"].filter((name) => parts.includes(name))) {
    if (part === "streams") {
      note("limit", await limits("streams"));
      await on(servers.plain, part);
    } else if (part === "echo" || !parts.includes("echo")) note("limit", await limits("echo"));
    await on(servers.greenroom, part);
    if (servers.peer) await on(servers.peer, part);
  }
  for (const server of Object.values(servers)) {
    process.kill(server.pid, "SIGCONT");
    await server.stop();
  }
}

async function starts() {
  const names = Object.keys(commands).filter((name) => name !== "peer" || withPeer);
  for (let i = 0; i <= size.starts; i += 1) {
    for (const name of names) {
      const server = await serve(name, join(scratch, name)); // the same folder again: an existing database
      if (i > 0) note(name, { started_ms: server.ms, idle_MiB: rssMiB(server.pid) });
      await server.stop();
    }
  }
}

/** Many runs on fresh threads: how much memory stays, and whether the last runs are as fast as the first. */
async function memory(name) {
  const server = await serve(name);
  const { client, pid } = server;
  await client.closedLoop(16, 30, client.fresh, name === "peer" ? 64 : 400);
  const before = rssMiB(pid);
  const { n, ends } = await client.closedLoop(64, size.memorySeconds, client.fresh, size.runs);
  const after = rssMiB(pid);
  await server.stop();
  const slice = Math.min(1000, Math.floor(n / 3));
  const rate = (from, to) => (to - from) / (ends[to - 1] - (ends[from - 1] ?? 0));
  note(name, { runs: n, grown_MiB: after - before, kept_pace: rate(n - slice, n) / rate(0, slice) });
}

const began = performance.now();
const load = [loadavg()[0]];
const rounds = parts.some((part) => part in measures) ? size.rounds : 0;
for (let number = 0; number < rounds; number += 1) {
  await round(number);
  console.error(`round ${number + 1} of ${rounds}: ${Math.round((performance.now() - began) / 1000)} s`);
}
if (parts.includes("start")) await starts();
if (parts.includes("memory")) for (const name of withPeer ? ["greenroom", "peer"] : ["greenroom"]) await memory(name);
load.push(loadavg()[0]);

function median(list) {
  const sorted = list.toSorted((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}
const get = (figure, system) => figures[figure]?.[system];
// How limits.mjs's figures of one round make up the limit of a row.
const limitOf = {
  wait_ms: (of) => of("bare") + 2 * of("commit"),
  wait_per_s: (of) => of("bare_per_s"),
  wait_cpu_ms: (of) => of("bare_cpu_ms"),
  fresh_cpu_ms: (of) => of("saved_cpu_ms"),
  stream_cpu_ms: (of) => of("stream_cpu_ms"),
  fresh_per_s: (of) => of("saved_per_s"),
  fresh_ms: (of) => of("saved") + 2 * of("commit"),
  events_per_s: (of) => of("per_s"),
  token_100_ms: (of) => of("token"),
  start_ms: (of) => of("start") + of("commit"),
  join_ms: (of) => of("saved") + 2 * of("commit"),
};
/** What the limit was in each round: what a server measured, or a formula. */
function limit(figure, server) {
  if (server) return get(figure, server) ?? [];
  const formula = limitOf[figure];
  if (!formula) return [];
  return Array.from({ length: rounds }, (_, i) => formula((name) => get(name, "limit")?.[i] ?? Number.NaN));
}
// [row, what, figure, unit, target for ours/limit (with a unit: for ours), the server that is the limit, ours]
const rows = [
  ["1", "/runs/wait echo, 1 client, p50", "wait_ms", "ms", "<= 2"],
  ["2", "/runs/wait echo, 64 clients", "wait_per_s", "/s", ">= 0.6"],
  ["2", "  the same, CPU of a run", "wait_cpu_ms", "ms"],
  ["3", "thread + run, 64 clients", "fresh_per_s", "/s", ">= 0.6"],
  ["3", "  the same, p99", "fresh_p99_ms", "ms", "<= 150 ms"],
  ["3", "  the same, CPU of thread + run", "fresh_cpu_ms", "ms"],
  ["4", "thread + run, 1 client, p50", "fresh_ms", "ms", "<= 1.9"],
  ["6", "100 token streams, events", "events_per_s", "/s", ">= 0.7"],
  ["6", "  the same, CPU of a stream", "stream_cpu_ms", "ms"],
  ["7", "  the same, first event p50", "first_100_ms", "ms", "<= 2", "plain"],
  ["7", "  the same, first token p50", "token_100_ms", "ms", "<= 1.3"],
  ["8", "one token stream, first event p50", "first_1_ms", "ms", "<= 5", "plain"],
  ["12", "background: create to node start, p50", "start_ms", "ms", "<= 2"],
  ["12", "  the same, p99", "start_p99_ms", "ms", "<= 5 ms"],
  ["13", "create to joined with the result, p50", "join_ms", "ms", "<= 2"],
  [
    "16",
    "process start to first /ok, no LangGraph",
    "started_ms",
    "ms",
    "<= 2.5",
    "plain",
    "greenroom without LangGraph",
  ],
  ["16", "  the same with LangGraph", "started_ms", "ms", "<= 160 ms", "plain with LangGraph"],
  ["17", "RSS idle, with LangGraph", "idle_MiB", "MiB", "<= 60 MiB", "plain with LangGraph"],
  ["17", "  growth over all runs of row 18", "grown_MiB", "MiB", "<= 25 MiB"],
  ["18", "pace of the last 1,000 runs / the first", "kept_pace", "", ">= 0.95"],
];

const show = (value) => {
  if (value === undefined || Number.isNaN(value)) return "-";
  return value >= 100 ? Math.round(value).toLocaleString("en") : value.toPrecision(3);
};
const table = [["#", "what", "peer", "limit", "Greenroom", "ours/limit (min..max)", "target", ""]];
for (const [row, what, figure, unit, target = "-", from, ours = "greenroom"] of rows) {
  const mine = get(figure, ours);
  if (!mine) continue;
  const bounds = limit(figure, from);
  const [, sign, bound, absolute] = /^(<=|>=) ([\d.]+)(.*)$/.exec(target) ?? [];
  const ratios = mine.map((value, i) => value / bounds[i]).filter((value) => !Number.isNaN(value));
  const judged = absolute || ratios.length === 0 ? median(mine) : median(ratios);
  const met = sign === "<=" ? judged <= Number(bound) : judged >= Number(bound);
  const spread = ratios.length
    ? `${show(median(ratios))} (${show(Math.min(...ratios))}..${show(Math.max(...ratios))})`
    : "-";
  const peer = get(figure, "peer");
  const cells = [peer ? median(peer) : undefined, bounds.length ? median(bounds) : undefined, median(mine)];
  table.push([
    row,
    `${what}${unit && `, ${unit}`}`,
    ...cells.map(show),
    spread,
    target,
    sign ? (met ? "met" : "MISSED") : "",
  ]);
}
const widths = table[0].map((_, column) => Math.max(...table.map((line) => line[column].length)));
for (const line of table)
  console.log(
    line
      .map((cell, column) => cell.padEnd(widths[column]))
      .join("  ")
      .trimEnd(),
  );

const spread = (figure) => {
  const list = get(figure, "limit");
  return list ? `${show(median(list))} ms (${show(Math.min(...list))}..${show(Math.max(...list))})` : "not measured";
};
console.log(`
${runtime} of Greenroom and the limits; peer @langchain/langgraph-api 1.5.1 on Node${withPeer ? "" : " (left out)"}; runs in row 17, 18: ${get("runs", "greenroom")?.[0] ?? "-"}${withPeer ? `, peer ${get("runs", "peer")?.[0] ?? "-"}` : ""}
fsync of 4 KiB: ${spread("fsync")}; commit with synchronous=FULL: ${spread("commit")}; LangGraph echo alone: ${spread("bare")}
load average before and after: ${load.map((value) => value.toFixed(1)).join(", ")}; took ${Math.round((performance.now() - began) / 1000)} s`);
if (options.json) writeFileSync(options.json, JSON.stringify({ runtime, quick, load, figures }, null, 1));
process.exit();
