/**
 * Runs the attacks of attacks.mjs, each on a server of its own with API keys. Measured are the 99th percentile of `/ok` of another
 * client, the peak RSS of the server's process during the attack, and the slowest read of a state of 7 MB by another key. The peak of
 * the preparation, which is no attack, is printed and does not count: the kernel starts its count anew before the attack.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { attacks, STATE_BYTES } from "./attacks.mjs";

export const LIMITS = { ok_ms: 250, rss_mb: 800, read_ms: 5_000 };
export const KEYS = ["attacker-key-of-at-least-32-characters", "bystander-key-of-at-least-32-characters"];

const MB = 1024 * 1024;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Returns the peak RSS of a process in bytes. */
const readPeakRss = (pid) =>
  Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;

/** From now on the peak is counted from the present RSS (proc(5), `clear_refs`). */
const resetPeakRss = (pid) => writeFileSync(`/proc/${pid}/clear_refs`, "5");

/** Requests of one API key, whose answers are parsed. */
function createClient(ask, port, key) {
  const agent = new http.Agent({ keepAlive: true });
  return {
    port,
    key,
    async json(method, path, value) {
      const body = value && Buffer.from(JSON.stringify(value));
      const answer = await ask(agent, port, method, path, body, true, { "x-api-key": key });
      if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${answer.text.slice(0, 300)}`);
      return answer.text === "" ? null : JSON.parse(answer.text);
    },
    read: (path) => ask(agent, port, "GET", path, undefined, false, { "x-api-key": key }),
  };
}

/** Reads the state again and again until `stop()`, which resolves with the slowest read and with the statuses that were not 200. */
function readRepeatedly(client, path) {
  let stopped = false;
  let slowest_ms = 0;
  let reads = 0;
  const failures = [];
  const loop = (async () => {
    while (!stopped) {
      const from = performance.now();
      const { status, length } = await client.read(path).catch((error) => ({ status: error.message, length: 0 }));
      slowest_ms = Math.max(slowest_ms, performance.now() - from);
      reads++;
      if (status !== 200 || length < STATE_BYTES) failures.push(status);
      await pause(1_000);
    }
  })();
  return async () => {
    stopped = true;
    await Promise.race([loop, pause(LIMITS.read_ms)]);
    return { slowest_ms, reads, failures };
  };
}

const countStatuses = (statuses) => {
  const counts = new Map();
  for (const status of statuses) counts.set(status, (counts.get(status) ?? 0) + 1);
  return [...counts].map(([status, count]) => `${count} × ${status || "none"}`).join(", ");
};

async function runAttack({ name, prepare }, { serve, ask, program, runtime }) {
  const folder = mkdtempSync(join(tmpdir(), "greenroom-stalls-"));
  const { child, port } = await serve(runtime, folder, KEYS);
  const [attacker, bystander] = KEYS.map((key) => createClient(ask, port, key));
  const watch = new Worker(program, { workerData: { port } });
  const readProbe = () =>
    new Promise((resolve) => {
      watch.once("message", resolve);
      watch.postMessage("");
    });
  let died = null;
  child.removeAllListeners("exit");
  child.once("exit", (code, signal) => {
    died = String(code ?? signal);
  });
  try {
    const { thread_id } = await bystander.json("POST", "/threads", {});
    const input = { data: "y".repeat(STATE_BYTES) };
    await bystander.json("POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "store", input });
    const attack = await prepare(attacker);
    const prepared = readPeakRss(child.pid);
    await pause(1_000);
    resetPeakRss(child.pid);
    const resting = readPeakRss(child.pid);
    await readProbe();
    const stop = readRepeatedly(bystander, `/threads/${thread_id}/state`);
    const from = performance.now();
    const statuses = await attack();
    const took_ms = performance.now() - from;
    const [{ slowest_ms, reads, failures }, { p99 = 0, worst }] = [await stop(), await readProbe()];
    const rss = died === null ? readPeakRss(child.pid) : 0;
    const isOver =
      died !== null ||
      p99 > LIMITS.ok_ms ||
      rss > LIMITS.rss_mb * MB ||
      slowest_ms > LIMITS.read_ms ||
      reads === 0 ||
      failures.length > 0 ||
      statuses.includes(408);
    const figures = [
      `${p99.toFixed(0).padStart(6)} ms p99 (worst ${worst.toFixed(0)})`,
      `${(rss / MB).toFixed(0).padStart(5)} MB peak (from ${(resting / MB).toFixed(0)}; preparation ${(prepared / MB).toFixed(0)})`,
      `other key ${slowest_ms.toFixed(0).padStart(5)} ms of ${reads}${failures.length > 0 ? ` (failed: ${countStatuses(failures)})` : ""}`,
      `${(took_ms / 1000).toFixed(1)} s: ${countStatuses(statuses)}`,
    ];
    console.log(
      `${isOver ? "✖" : " "} ${figures.join("  ")}  ${name}${died === null ? "" : `, the server ended: ${died}`}`,
    );
    return isOver;
  } finally {
    await watch.terminate();
    if (died === null) {
      child.kill("SIGKILL");
      await new Promise((resolve) => child.once("exit", resolve));
    }
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs the attacks whose name has `only`. Resolves with the number of those above a limit. */
export async function runAttacks(only, context) {
  let failed = 0;
  for (const attack of attacks.filter(({ name }) => name.includes(only))) {
    if (await runAttack(attack, context)) failed++;
  }
  return failed;
}
