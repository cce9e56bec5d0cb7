// What `npm run bench` measures. Each part notes figures by the name of the system that they are of.
import { join } from "node:path";
import { cpuMs, quantiles, rssMiB } from "./load.mjs";
import { program, scratch } from "./servers.mjs";

const SEARCHED = { few: 1_000, many: 100_000 };
const METADATA_KEYS = 100_000;
/** The spans of tools that a run of `tools` in peers/function.mjs makes. */
const TOOL_CALLS = 5_000;
/**
 * Before the figures count: runs, in so many seconds at most, and rounds of 100 streams. Bun's compiler works beside the server, and its
 * time counts as the server's. It rests after so many, by hand as in Greenroom: then it takes 1 % of the time.
 */
const WARM = { runs: 20_000, seconds: 60, rounds: 8 };
/** The peer makes a hundred runs per second. */
const getWarmSeconds = (name) => (name === "peer" ? 5 : WARM.seconds);
/** Threads with so many turns, and turns of one long thread: which of them count. */
const TURNS = { early: [6, 15], late: [451, 550] };

/** Returns the result of `measure`, and the CPU time of the server for each of its `n` operations. */
async function withCpu(pid, measure) {
  const before = cpuMs(pid);
  const measured = await measure();
  return { ...measured, cpu_ms: (cpuMs(pid) - before) / measured.n };
}

/** Parts that are measured on every server in each round, while all others stand still. */
const rounds = {
  async echo({ client, pid, name }, { seconds }) {
    await client.closedLoop(64, getWarmSeconds(name), client.wait, WARM.runs);
    const single = await withCpu(pid, () => client.closedLoop(1, seconds, client.wait));
    const many = await withCpu(pid, () => client.closedLoop(64, seconds, client.wait));
    return { wait_ms: single.p50, wait_one_cpu_ms: single.cpu_ms, wait_per_s: many.per_s, wait_cpu_ms: many.cpu_ms };
  },

  async streams({ client, pid, name }, { quick }) {
    for (let i = 0; i < (name === "peer" ? 1 : WARM.rounds); i += 1) await client.streams(100);
    const { per_s, token, bytes, cpu_ms } = await withCpu(pid, () => client.streams(100));
    const first = await client.oneStream(quick ? 5 : 10);
    const { per_s: burst } = await client.streams(16, "burst");
    return {
      events_per_s: per_s,
      stream_cpu_ms: cpu_ms,
      token_100_ms: token,
      stream_bytes: bytes,
      first_1_ms: first,
      burst_per_s: burst,
    };
  },

  async fresh({ client, pid, name }, { seconds }) {
    if (name === "hand") return {};
    await client.closedLoop(128, getWarmSeconds(name), client.fresh, WARM.runs / 2);
    const many = await withCpu(pid, () => client.closedLoop(128, seconds, client.fresh));
    return { fresh_per_s: many.per_s, fresh_cpu_ms: many.cpu_ms };
  },

  /** Compares a turn of a new thread with one of a thread that has a thousand messages. */
  async turns({ client, pid, name }, { quick }) {
    if (name === "peer") return {};
    const turns = async (thread_id, count) => {
      const times = [];
      for (let i = 0; i < count; i += 1) {
        const from = performance.now();
        await client.turn(thread_id);
        times.push(performance.now() - from);
      }
      return times;
    };
    const measured = {};
    for (const [when, [first, last]] of Object.entries(TURNS)) {
      const times = [];
      let cpu = 0;
      for (let i = 0; i < (when === "late" ? 1 : quick ? 5 : 20); i += 1) {
        const thread_id = await client.thread();
        await turns(thread_id, first - 1);
        const before = cpuMs(pid);
        times.push(...(await turns(thread_id, last - first + 1)));
        cpu += cpuMs(pid) - before;
      }
      measured[`turn_${when}_ms`] = quantiles(times).p50;
      measured[`turn_${when}_cpu_ms`] = cpu / times.length;
    }
    return { ...measured, turn_cpu_ratio: measured.turn_late_cpu_ms / measured.turn_early_cpu_ms };
  },
};

export const roundParts = Object.keys(rounds);

export async function measureRound({ serve, note, size, parts, names }) {
  const servers = [];
  for (const name of names) {
    const server = await serve(name);
    server.pause();
    servers.push(server);
  }
  for (const part of roundParts.filter((name) => parts.includes(name))) {
    for (const server of servers) {
      server.wake();
      note(server.name, await rounds[part](server, size));
      server.pause();
    }
  }
  for (const server of servers) {
    server.wake();
    await server.stop();
  }
}

/** From the start of the process to the first /ok, of the package as users have it, on a database that exists. */
async function start({ serve, note, size }) {
  const started = async (name, folder) => {
    const server = await serve(name, join(scratch, folder));
    const measured = { ms: server.ms, cpu: cpuMs(server.pid), idle: rssMiB(server.pid) };
    await server.stop();
    return measured;
  };
  await suspend(await serve("packed", join(scratch, "start suspended")), size.suspended);
  for (let i = 0; i <= size.starts; i += 1) {
    const plain = await started("plain", "start plain");
    const empty = await started("packed", "start");
    const full = await started("packed", "start suspended");
    if (i === 0) continue;
    note("plain", { started_ms: plain.ms, idle_MiB: plain.idle });
    note("packed", { started_ms: empty.ms, started_cpu_ms: empty.cpu, idle_MiB: empty.idle });
    note("packed", { started_full_ms: full.ms, started_full_ratio: full.cpu / empty.cpu });
  }
}

/** Leaves suspended runs behind. */
async function suspend({ client, stop }, count) {
  const BATCH = 100;
  for (let createdCount = 0; createdCount < count; createdCount += BATCH) {
    const some = Array.from({ length: BATCH }, () => ({ assistant_id: "sleeper", input: {} }));
    const runs = JSON.parse(await client.request("POST", "/runs/batch", some));
    for (const { thread_id, run_id } of runs) {
      const path = `/threads/${thread_id}/runs/${run_id}`;
      const rests = async () => "waiting_for" in JSON.parse(await client.request("GET", path));
      while (!(await rests())) await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  await stop();
}

/** Many stateless runs: how much memory stays. And many stored runs: whether the last are as fast as the first. */
async function memory({ serve, note, size, withPeer }) {
  for (const name of ["hand", "greenroom", ...(withPeer ? ["peer"] : [])]) {
    const server = await serve(name);
    const { client, pid } = server;
    const { n: runs } = await client.closedLoop(64, size.memorySeconds, client.wait, size.runs);
    note(name, { memory_runs: runs, rss_MiB: rssMiB(pid) });
    if (name === "greenroom") {
      const { n, ends } = await client.closedLoop(64, size.memorySeconds, client.fresh, size.runs / 3);
      const slice = Math.min(1000, Math.floor(n / 3));
      const rate = (from, to) => (to - from) / (ends[to - 1] - (ends[from - 1] ?? 0));
      note(name, { kept_pace: rate(n - slice, n) / rate(0, slice) });
    }
    await server.stop();
  }
}

/** Compares first and last pages over few rows and over many, in turns. */
async function search({ serve, note, size, runtime }) {
  const servers = {};
  for (const [name, count] of Object.entries(SEARCHED)) {
    const folder = join(scratch, `search ${name}`);
    const server = await serve("greenroom without LangGraph", folder); // makes the folder and the tables
    await server.stop();
    await program(runtime, "search/fill.mjs", join(folder, "greenroom.db"), String(count));
    servers[name] = await serve("greenroom without LangGraph", folder);
  }
  const post = (path, body) => (client) => client.request("POST", path, { limit: 10, ...body });
  const requests = {
    page: () => post("/threads/search", {}),
    last: (count) => post("/threads/search", { offset: count - 20 }),
    assistants: () => post("/assistants/search", {}),
  };
  for (let round = 0; round < size.rounds; round += 1) {
    for (const [what, make] of Object.entries(requests)) {
      const p50 = {};
      for (const [name, count] of Object.entries(SEARCHED)) {
        const { client } = servers[name];
        const ask = make(count);
        await client.closedLoop(1, 0.2, () => ask(client), 20);
        p50[name] = (await client.closedLoop(1, size.seconds / 2, () => ask(client), 300)).p50;
      }
      note("greenroom", { [`${what}_ms`]: p50.many, [`${what}_ratio`]: p50.many / p50.few });
    }
  }
  for (const server of Object.values(servers)) await server.stop();
}

/** Sends one body with very many keys, and measures how long all other requests wait meanwhile. */
async function stall({ serve, note, size }) {
  const server = await serve("greenroom without LangGraph");
  const { client } = server;
  const metadata = Object.fromEntries(Array.from({ length: METADATA_KEYS }, (_, i) => [`k${i}`, i]));
  for (let i = 0; i < size.rounds; i += 1) {
    const large = () => client.request("POST", "/threads", { metadata }).catch((error) => String(error));
    note("greenroom", { stall_ms: await client.longestStall(large) });
  }
  await server.stop();
}

/** Twenty token streams while runs are made, on a disk whose commits take long. */
async function disk({ note, size, runtime }) {
  for (let i = 0; i < Math.min(3, size.rounds); i += 1) {
    const { gap_p50, gap_p99 } = await program(runtime, "disk.mjs", "--child", "--ms", "5");
    note("greenroom", { gap_p50_ms: gap_p50, gap_p99_ms: gap_p99 });
  }
}

/** Echo runs with their spans and without, in turns; then one trace as large as it can be. */
async function spans({ serve, note, size }) {
  const servers = [];
  for (const name of ["greenroom", "greenroom without spans"]) {
    const server = await serve(name);
    await server.client.closedLoop(64, WARM.seconds, server.client.wait, WARM.runs);
    server.pause();
    servers.push(server);
  }
  const runs = size.quick ? 1_500 : 6_000;
  for (let pair = 0; pair < 4 * size.rounds; pair += 1) {
    const cpu_ms = {};
    // Each is the first in every other pair.
    for (const { name, client, pid, pause, wake } of pair % 2 === 0 ? servers : servers.toReversed()) {
      wake();
      // What a server does after its sleep is no part of a run.
      await client.closedLoop(64, WARM.seconds, client.wait, 64);
      cpu_ms[name] = (await withCpu(pid, () => client.closedLoop(64, WARM.seconds, client.wait, runs))).cpu_ms;
      pause();
    }
    note("greenroom", { spans_cpu_ratio: cpu_ms.greenroom / cpu_ms["greenroom without spans"] });
  }
  for (const server of servers) {
    server.wake();
    await server.stop();
  }
  await largeTrace({ serve, note, size });
}

/** A run with 5,000 tool calls: how long its trace takes to be read, and how long other requests wait meanwhile. */
async function largeTrace({ serve, note, size }) {
  const { client, stop } = await serve("greenroom without LangGraph");
  for (let round = 0; round < size.rounds; round += 1) {
    const thread = `/threads/${await client.thread()}`;
    let text = "";
    const times = [];
    const stall_ms = await client.longestStall(async () => {
      await client.request("POST", `${thread}/runs/wait`, { assistant_id: "tools", input: {} });
      const [{ run_id }] = JSON.parse(await client.request("GET", `${thread}/runs`));
      for (let i = 0; i < 5; i += 1) {
        const from = performance.now();
        text = await client.request("GET", `${thread}/runs/${run_id}/trace`);
        times.push(performance.now() - from);
      }
    });
    const { spans, dropped } = JSON.parse(text);
    const tools = spans.filter(({ kind }) => kind === "tool").length;
    if (spans.length > 2_200 || tools + dropped.tool !== TOOL_CALLS)
      throw new Error(`${spans.length} spans, ${tools} of tools, ${dropped.tool} dropped`);
    note("greenroom", { trace_ms: quantiles(times).p50, trace_stall_ms: stall_ms });
  }
  await stop();
}

export const otherParts = { start, memory, search, stall, disk, spans };
