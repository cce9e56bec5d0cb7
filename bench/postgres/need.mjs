// What so many reads and writes per second need: LangChain's example of 500 each, with runs that take a second.
import { cpuMs, quantiles } from "../load.mjs";
import { database, json, note, query, serverCpu, start } from "./context.mjs";

const PROCESSES = 2;
const RUN_MS = 1_000;
const THREADS = 500;

/** Calls `operation` at this rate, in groups every 10 ms, whether the earlier ones have ended or not. Times of all. */
async function atRate(per_s, seconds, operation) {
  const times = [];
  const pending = [];
  const began = performance.now();
  let startedCount = 0;
  while (performance.now() - began < seconds * 1000) {
    const dueCount = Math.floor(((performance.now() - began) / 1000) * per_s);
    for (; startedCount < dueCount; startedCount += 1) {
      const from = performance.now();
      pending.push(operation(startedCount).then(() => times.push(performance.now() - from)));
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await Promise.all(pending);
  return { ...quantiles(times), per_s: times.length / ((performance.now() - began) / 1000) };
}

export async function need({ need_seconds: seconds }, rate) {
  const cpuOfServer = await serverCpu();
  const url = await database("need");
  const processes = [];
  for (let i = 0; i < PROCESSES; i += 1) processes.push(await start(url, "on", rate * 2));
  const at = (i) => processes[i % PROCESSES].client;
  const threads = [];
  const make = async () => {
    while (threads.length < THREADS) {
      const { thread_id } = await json(at(0), "POST", "/threads", {});
      threads.push(thread_id);
      await at(0).request("POST", `/threads/${thread_id}/runs/wait`, {
        assistant_id: "echo",
        input: { messages: [{ role: "user", content: "hello" }] },
      });
    }
  };
  await Promise.all(Array.from({ length: 16 }, make));
  await query(url, "vacuum analyze");
  const body = {
    assistant_id: "slow",
    input: { messages: [{ role: "user", content: "hello" }] },
    metadata: { ms: RUN_MS },
    if_not_exists: "create",
  };
  const write = (i) => at(i).request("POST", `/threads/${crypto.randomUUID()}/runs`, body);
  const read = (i) => at(i).request("GET", `/threads/${threads[i % threads.length]}/state`);
  const cpu = () => processes.reduce((sum, { pid }) => sum + cpuMs(pid), 0);

  /** Runs go on after their creation: their end counts as well. */
  const measure = async (what, work) => {
    const before = { cpu: cpu(), server: cpuOfServer() };
    const results = await work();
    for (let tries = 0; tries < 300; tries += 1) {
      const [[unfinishedRuns]] = await query(url, "select count(*) from runs where ended_at is null");
      if (Number(unfinishedRuns) === 0) break;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const used = { Greenroom: cpu() - before.cpu, Postgres: cpuOfServer() - before.server };
    for (const [name, { p50, p99, per_s }] of Object.entries(results)) {
      note(`${what}: ${name}`, per_s, "/s");
      note(`${what}: ${name}, p50`, p50, "ms");
      note(`${what}: ${name}, p99`, p99, "ms");
    }
    // By the work done and not by the time: a machine that is too slow for the rate needs longer for it.
    const share = Math.max(...Object.values(results).map(({ n }) => n)) / rate;
    for (const [name, ms] of Object.entries(used)) note(`${what}: cores of ${name}`, ms / 1000 / share);
  };
  await atRate(rate, 2, write); // what is compiled on use is compiled
  await measure(`${rate} reads per s`, async () => ({ "state of a thread": await atRate(rate, seconds, read) }));
  await measure(`${rate} writes per s`, async () => ({ "run created": await atRate(rate, seconds, write) }));
  await measure(`${rate} of each per s`, async () => {
    const [reads, writes] = await Promise.all([atRate(rate, seconds, read), atRate(rate, seconds, write)]);
    return { "state of a thread": reads, "run created": writes };
  });
  const [[sessions]] = await query(url, "select count(*) from pg_stat_activity where application_name = 'need'");
  note("their sessions", Number(sessions));
  for (const process of processes) await process.stop();
}
