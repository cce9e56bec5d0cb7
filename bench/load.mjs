// The load: closed loops of clients against a server of the deployment API that hosts the graphs of peers/graphs.mjs.
import { readFileSync } from "node:fs";
import http from "node:http";

const now = () => performance.now();
const MAX_REQUESTS = 1_000_000;
const TIMEOUT_MS = 60_000;

/** Returns the quantiles of a list of times in milliseconds. */
export function quantiles(times) {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
  return { n: sorted.length, p50: at(0.5), p99: at(0.99) };
}

export const median = (list) => {
  const sorted = list.toSorted((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
};

/** Returns the user and system time of a process so far. */
export function cpuMs(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

export function rssMiB(pid) {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;
}

let requestCount = 0;

export function connect(base) {
  const { hostname, port } = new URL(base);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 128, maxFreeSockets: 128 });

  function request(method, path, body, onChunk) {
    if (++requestCount > MAX_REQUESTS) return Promise.reject(new Error("too many requests"));
    const payload = body && Buffer.from(JSON.stringify(body));
    const headers = payload ? { "content-type": "application/json", "content-length": payload.length } : {};
    return new Promise((resolve, reject) => {
      const call = http.request({ hostname, port, method, path, agent, headers }, (response) => {
        const parts = [];
        response.on("data", onChunk ?? ((chunk) => parts.push(chunk)));
        response.on("error", reject);
        response.on("end", () => {
          const text = Buffer.concat(parts).toString();
          if (response.statusCode < 400) resolve(text);
          else reject(new Error(`${method} ${path}: ${response.statusCode} ${text.slice(0, 200)}`));
        });
      });
      call.setTimeout(TIMEOUT_MS, () => call.destroy(new Error(`${method} ${path}: no answer`)));
      call.on("error", reject);
      call.end(payload);
    });
  }
  const json = async (...args) => JSON.parse(await request(...args));
  const run = (assistant_id) => ({ assistant_id, input: { messages: [{ role: "user", content: "hello" }] } });

  /** A stateless run whose result is waited for. */
  const wait = () => request("POST", "/runs/wait", run("echo"));

  /** Executes a run on a thread and waits for its result. Returns the text of the state. */
  const turn = (thread_id) => request("POST", `/threads/${thread_id}/runs/wait`, run("echo"));
  const thread = async () => (await json("POST", "/threads", {})).thread_id;

  /** Creates a thread, executes a run on it and waits for its result. */
  async function fresh() {
    const values = JSON.parse(await turn(await thread()));
    if (values.messages?.length !== 2) throw new Error(`a run came back without its result: ${JSON.stringify(values)}`);
  }

  /** Runs `clients` loops for `seconds` or `most` operations. Each sends its next operation after the response to the last one. */
  async function closedLoop(clients, seconds, operation, most = Number.POSITIVE_INFINITY) {
    const times = [];
    const ends = [];
    const began = now();
    let started = 0;
    await Promise.all(
      Array.from({ length: clients }, async () => {
        while (now() - began < seconds * 1000 && started < most) {
          started += 1;
          const start = now();
          await operation();
          const end = now();
          times.push(end - start);
          ends.push(end - began);
        }
      }),
    );
    return { ...quantiles(times), per_s: times.length / ((now() - began) / 1000), ends };
  }

  /** Measures one token stream: the times of its first event and token, the pauses between its tokens, and its length. */
  async function stream(assistant_id = "tokens") {
    const start = now();
    let first;
    let token;
    let last;
    let events = 0;
    let bytes = 0;
    let partialLine = "";
    const gaps = [];
    await request("POST", "/runs/stream", { ...run(assistant_id), stream_mode: ["messages-tuple"] }, (chunk) => {
      const at = now();
      first ??= at - start;
      bytes += chunk.length;
      const lines = (partialLine + chunk.toString("latin1")).split("\n");
      partialLine = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("event:")) continue;
        events += 1;
        if (!line.startsWith("event: messages")) continue;
        token ??= at - start;
        if (last !== undefined) gaps.push(at - last);
        last = at;
      }
    });
    return { first, token, events, bytes, gaps };
  }

  async function streams(count, assistant_id) {
    const start = now();
    const all = await Promise.all(Array.from({ length: count }, () => stream(assistant_id)));
    return {
      n: count,
      per_s: all.reduce((sum, { events }) => sum + events, 0) / ((now() - start) / 1000),
      first: quantiles(all.map(({ first }) => first)).p50,
      token: quantiles(all.map(({ token }) => token)).p50,
      bytes: all.reduce((sum, { bytes }) => sum + bytes, 0) / count,
      gaps: quantiles(all.flatMap(({ gaps }) => gaps)),
    };
  }

  /** Measures one token stream of the event protocol, or a resumable one of the run routes: its start, end and tokens. */
  function threadStream(protocol) {
    const thread = `/threads/${crypto.randomUUID()}`;
    const input = run("tokens").input;
    const body = protocol
      ? { channels: ["messages", "lifecycle"] }
      : { ...run("tokens"), stream_mode: ["messages-tuple"], stream_resumable: true, if_not_exists: "create" };
    const path = protocol ? `${thread}/stream/events` : `${thread}/runs/stream`;
    const payload = Buffer.from(JSON.stringify(body));
    const headers = { "content-type": "application/json", "content-length": payload.length };
    return new Promise((resolve, reject) => {
      let tokens = 0;
      let partialLine = "";
      let last = "";
      const call = http.request({ hostname, port, method: "POST", path, agent, headers }, (response) => {
        if (response.statusCode >= 400) reject(new Error(`${path}: ${response.statusCode}`));
        if (protocol) {
          const params = { assistant_id: "tokens", input };
          request("POST", `${thread}/commands`, { id: 1, method: "run.start", params }).catch(reject);
        }
        response.on("error", () => {});
        response.on("data", (chunk) => {
          const lines = (partialLine + chunk.toString("latin1")).split("\n");
          partialLine = lines.pop();
          for (const line of lines) {
            if (line.startsWith("event: ")) last = line.slice(7);
            else if (!line.startsWith("data: ")) continue;
            else if (protocol ? line.includes('"content-block-delta"') : last.startsWith("messages")) tokens += 1;
            else if (
              last === "end" ||
              (last === "lifecycle" && line.includes('"event":"completed"') && line.includes('"namespace":[]'))
            ) {
              resolve(tokens);
              if (protocol) call.destroy();
            }
          }
        });
      });
      call.setTimeout(TIMEOUT_MS, () => call.destroy(new Error(`${path}: no answer`)));
      call.on("error", reject);
      call.end(payload);
    });
  }

  async function threadStreams(count, protocol) {
    const start = now();
    const all = await Promise.all(Array.from({ length: count }, () => threadStream(protocol)));
    return {
      n: count,
      tokens: all.reduce((sum, count) => sum + count, 0),
      per_s: all.reduce((sum, count) => sum + count, 0) / ((now() - start) / 1000),
    };
  }

  /** When the first event of a stream comes, one stream at a time. */
  async function oneStream(count) {
    const all = [];
    for (let i = 0; i < count; i += 1) all.push(await stream());
    return quantiles(all.map(({ first }) => first)).p50;
  }

  /** A run every `1 / per_s` seconds, whether the earlier ones have ended or not, until `until` settles; how many were made. */
  async function steadily(per_s, until, operation = wait) {
    const pending = [];
    const timer = setInterval(() => pending.push(operation()), 1000 / per_s);
    try {
      await until;
    } finally {
      clearInterval(timer);
    }
    await Promise.all(pending);
    return pending.length;
  }

  /** Returns the longest response time of /ok while `call` runs. */
  async function longestStall(call) {
    let worst = 0;
    let ended = false;
    const over = call().finally(() => {
      ended = true;
    });
    while (!ended) {
      const from = now();
      await request("GET", "/ok");
      worst = Math.max(worst, now() - from);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await over;
    return worst;
  }

  return {
    wait,
    thread,
    turn,
    fresh,
    closedLoop,
    streams,
    oneStream,
    steadily,
    longestStall,
    request,
    threadStreams,
    close: () => agent.destroy(),
  };
}
