/**
 * Measures how long one request delays all others. Starts a server in a process of its own, sends it one request shape after the
 * other, each as large as the limit on bodies lets it be, and asks `/ok` all the while. Ends with 1 when an answer of `/ok` took
 * longer than the limit, when the server's memory grew by more than 200 MiB beyond the data, or when a request was answered with a 5xx.
 * Then come the attacks of stalls/attacks.mjs, each on a server of its own, with limits of their own.
 *
 *   node bench/stalls.mjs [--runtime node|bun|deno] [--only text] [--part shapes|attacks] [--tries 3] [--limit 100] [--memory 200]
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { LIMITS, runAttacks } from "./stalls/attack.mjs";
import { shapes } from "./stalls/shapes.mjs";
import { streams } from "./stalls/streams.mjs";

/** One request; resolves with its status and the length of its answer, which is not kept unless it is asked for. */
function ask(agent, port, method, path, body, keep = false, headers = {}) {
  return new Promise((resolve, reject) => {
    const bodyHeaders = body === undefined ? {} : { "content-type": "application/json", "content-length": body.length };
    const call = http.request(
      { agent, host: "127.0.0.1", port, method, path, headers: { ...bodyHeaders, ...headers } },
      (res) => {
        const parts = [];
        let length = 0;
        res.on("data", (chunk) => {
          length += chunk.length;
          if (keep || res.statusCode >= 400) parts.push(chunk);
        });
        res.on("error", reject);
        res.on("end", () => resolve({ status: res.statusCode, length, text: Buffer.concat(parts).toString() }));
      },
    );
    call.on("error", reject);
    call.end(body);
  });
}

/** Requests `/ok` in a thread of its own again and again, and reports the latencies since the last report. */
async function probe() {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  let worst = 0;
  let since = 0;
  let times = [];
  parentPort.on("message", () => {
    // An answer that is still out counts as well.
    const pending = performance.now() - since;
    const sorted = [...times, pending].sort((a, b) => a - b);
    const p99 = sorted[Math.ceil(sorted.length * 0.99) - 1];
    parentPort.postMessage({ worst: Math.max(worst, pending), p99, count: times.length });
    worst = 0;
    times = [];
  });
  for (;;) {
    since = performance.now();
    // A connection that the server has closed meanwhile says nothing: the next one waits as long.
    await ask(agent, workerData.port, "GET", "/ok").catch(() => {});
    const took = performance.now() - since;
    worst = Math.max(worst, took);
    times.push(took);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

function serve(runtime, folder, keys = []) {
  const program = join(import.meta.dirname, "stalls/server.mjs");
  const args = { node: [program], bun: [program], deno: ["run", "-A", "--no-check", program] }[runtime];
  if (!args) throw new Error(`--runtime: ${runtime} is none of node, bun and deno`);
  const child = spawn(runtime === "node" ? process.execPath : runtime, [...args, join(folder, "stalls.db"), ...keys], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  process.on("exit", () => child.kill("SIGKILL"));
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`The server ended with ${code}`)));
    child.stdout.on("data", (text) => {
      const port = /listening on (\d+)/.exec(String(text))?.[1];
      if (port) resolve({ child, port: Number(port) });
    });
  });
}

const MB = 1024 * 1024;

/** Returns the memory of a process in bytes; 0 if the system does not report it. */
function readMemory(pid) {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** Watches the memory of a process; the result stops, and gives by how much it grew at most. */
function watchMemory(pid) {
  const before = readMemory(pid);
  let most = before;
  const timer = setInterval(() => {
    most = Math.max(most, readMemory(pid));
  }, 20);
  return () => {
    clearInterval(timer);
    return most - before;
  };
}

async function main() {
  const { values } = parseArgs({
    options: {
      runtime: { type: "string", default: "node" },
      only: { type: "string", default: "" },
      part: { type: "string", default: "" },
      tries: { type: "string", default: "3" },
      limit: { type: "string", default: "100" },
      memory: { type: "string", default: "200" },
    },
  });
  let failed = 0;
  if (values.part !== "attacks") failed += await runShapes(values);
  if (values.part !== "shapes") {
    failed += await runAttacks(values.only, { serve, ask, program: new URL(import.meta.url), runtime: values.runtime });
    console.log(
      `attacks: limits ${LIMITS.ok_ms} ms p99, ${LIMITS.rss_mb} MB peak, ${LIMITS.read_ms} ms for the other key`,
    );
  }
  process.exit(failed > 0 ? 1 : 0);
}

async function runShapes(values) {
  const [limit, tries] = [Number(values.limit), Number(values.tries)];
  const folder = mkdtempSync(join(tmpdir(), "greenroom-stalls-"));
  const { child, port } = await serve(values.runtime, folder);
  const agent = new http.Agent({ keepAlive: true });
  const client = {
    port,
    ask: (method, path, body, headers) => ask(agent, port, method, path, body, false, headers),
    async json(method, path, body) {
      const answer = await ask(agent, port, method, path, body && Buffer.from(JSON.stringify(body)), true);
      if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${answer.text.slice(0, 300)}`);
      return answer.text === "" ? null : JSON.parse(answer.text);
    },
  };
  const watch = new Worker(new URL(import.meta.url), { workerData: { port } });
  const worstSince = () =>
    new Promise((resolve) => {
      watch.once("message", resolve);
      watch.postMessage("");
    });
  const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  let worst = 0;
  let failed = 0;
  try {
    await sleep(500);
    const selected = [...streams, ...shapes].filter((shape) => shape.name.includes(values.only));
    for (const { name, prepare, data = 0, once = false } of selected) {
      const measured = [];
      const grown = [];
      let answer;
      // What else the machine does only adds: the best try is what the request costs.
      while (measured.length < (once ? 1 : tries) && !(Math.min(...measured) <= limit)) {
        const send = await prepare(client);
        await sleep(700);
        await worstSince();
        const grew = watchMemory(child.pid);
        const started = performance.now();
        answer = await send();
        const took = performance.now() - started;
        // What goes on behind the answer, as a run does.
        await sleep(600);
        measured.push((await worstSince()).worst);
        grown.push((grew() - data) / MB);
        answer = { ...answer, took };
      }
      const least = Math.min(...measured);
      worst = Math.max(worst, least);
      const growth = Math.max(0, Math.min(...grown));
      const over = least > limit || growth > Number(values.memory) || answer.status >= 500;
      if (over) failed++;
      const note = answer.status >= 400 ? ` ${answer.text.slice(0, 90)}` : "";
      console.log(
        `${over ? "✖" : " "} ${least.toFixed(0).padStart(6)} ms ${growth.toFixed(0).padStart(5)} MiB  ${String(answer.status)} in ${answer.took.toFixed(0)} ms  ${name}${note}`,
      );
    }
  } finally {
    await watch.terminate();
    child.removeAllListeners("exit");
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("exit", resolve));
    rmSync(folder, { recursive: true, force: true });
  }
  console.log(
    `worst answer of /ok: ${worst.toFixed(0)} ms, limit ${limit} ms and ${values.memory} MiB; ${failed} shapes over it or failed`,
  );
  return failed;
}

await (isMainThread ? main() : probe());
