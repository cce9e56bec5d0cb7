/** How much memory readers that never read cost, and whether runs leave any behind. */
import { writeFileSync } from "node:fs";
import { connect as open, type Socket } from "node:net";
import { join } from "node:path";
import type { Flood } from "./agents.ts";
import { connect } from "./client.ts";
import { quantile, type Report } from "./report.ts";
import { createSite, RUNTIMES, type Runtime, type Server, type Site, sleep, startServer, until } from "./servers.ts";

export interface ReaderOptions {
  readonly runtimes: readonly Runtime[];
  readonly readers: number;
  readonly megabytes: number;
  /** The values for the storage of the runs' frames. */
  readonly resumable: readonly boolean[];
  /** Stateless runs before the first measurement, and all of them. */
  readonly first_runs: number;
  readonly runs: number;
  readonly most_left_mib: number;
  /** The runtimes whose own HTTP server exceeds the goal with nothing behind it: there the growth beside that counts. */
  readonly beside: readonly Runtime[];
}

export const SHORT: ReaderOptions = {
  runtimes: RUNTIMES,
  readers: 40,
  megabytes: 24,
  resumable: [true],
  first_runs: 500,
  runs: 1_000,
  // So early heaps still grow to their working size.
  most_left_mib: 100,
  beside: [],
};

export const LONG: ReaderOptions = {
  runtimes: RUNTIMES,
  readers: 1_000,
  megabytes: 500,
  resumable: [false, true],
  first_runs: 10_000,
  runs: 100_000,
  most_left_mib: 50,
  beside: ["deno"],
};

const MAX_GROWTH_MIB = 200;
const CHUNK = 64 * 1024;
const CLIENTS = 32;
/** After so long without growth a server has nothing more to hold; until then at the most so long. */
const STEADY_MS = 5_000;
const STEADY_WITHIN_MS = 60_000;

export async function readers(report: Report, options: ReaderOptions): Promise<void> {
  for (const runtime of options.runtimes) {
    let ownMib = 0;
    if (options.beside.includes(runtime)) {
      ownMib = await measureWithoutGreenroom(runtime, options.readers);
      report.note(`${runtime}: memory grew without Greenroom by`, `${ownMib.toFixed(1)} MiB`);
    }
    for (const resumable of options.resumable) await unread(report, runtime, resumable, ownMib, options);
    await stateless(report, runtime, options);
  }
}

/** Runs `work` and gives the peak of the server's memory meanwhile. */
async function measurePeak(server: Server, work: () => Promise<void>): Promise<number> {
  let most = server.rss();
  const timer = setInterval(() => {
    most = Math.max(most, server.rss());
  }, 100);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  return Math.max(most, server.rss());
}

/** Returns the memory that the runtime's own server uses for this many readers that never read. */
async function measureWithoutGreenroom(runtime: Runtime, readers: number): Promise<number> {
  const server = await startServer({ runtime, site: createSite(), script: "test/soak/bare.ts" });
  const sockets: Socket[] = [];
  try {
    for (let count = 0; count < 4; count++) sockets.push((await connectSilently(server.url, "/")).resume());
    await sleep(5_000);
    for (const socket of sockets.splice(0)) socket.destroy();
    await sleep(500);
    const before = server.rss();
    for (let count = 0; count < readers; count++) sockets.push(await connectSilently(server.url, "/"));
    let most = before;
    let grown_at = Date.now();
    await until(
      "a server without Greenroom grows no more",
      () => {
        const rss = server.rss();
        // Less is what its collector leaves now and then.
        if (rss > most + 1) grown_at = Date.now();
        most = Math.max(most, rss);
        return Date.now() - grown_at > STEADY_MS;
      },
      STEADY_WITHIN_MS,
    );
    return most - before;
  } finally {
    for (const socket of sockets) socket.destroy();
    await server.end();
  }
}

async function unread(
  report: Report,
  runtime: Runtime,
  resumable: boolean,
  ownMib: number,
  options: ReaderOptions,
): Promise<void> {
  const site = createSite();
  const server = await startServer({ runtime, site });
  const client = connect(server.url);
  const name = `${runtime}, ${resumable ? "resumable" : "not resumable"}`;
  const sockets: Socket[] = [];

  const flood = async (plan: Flood, then: (at: string) => Promise<void>): Promise<void> => {
    const { thread_id } = await client.get("POST", "/threads", {});
    const { run_id } = await client.get("POST", `/threads/${thread_id}/runs`, {
      assistant_id: "flood",
      metadata: { soak: plan },
      stream_mode: ["custom"],
      stream_resumable: resumable,
    });
    const at = `/threads/${thread_id}/runs/${run_id}`;
    await then(at);
    writeFileSync(plan.gate, "");
    const ended = async (): Promise<boolean> => (await client.get("GET", at)).status === "success";
    await until("the run that nobody reads ends", ended, 300_000);
  };

  try {
    await warmUp(server, site, flood);
    const before = server.rss();
    let connected = 0;
    let took = 0;
    const chunks = Math.ceil((options.megabytes * 1024 * 1024) / CHUNK);
    const most = await measurePeak(server, async () => {
      await flood({ chunks, bytes: CHUNK, gate: join(site.path, "gate") }, async (at) => {
        for (let count = 0; count < options.readers; count++) {
          sockets.push(await connectSilently(server.url, `${at}/stream`));
          connected += 1;
        }
        await sleep(200);
        took = performance.now();
      });
      took = performance.now() - took;
      // Memory that is freed late, or kept, is visible now.
      await sleep(1_000);
    });
    report.atLeast(`${name}: readers that never read`, connected, options.readers);
    report.note(`${name}: MiB written, in seconds`, `${options.megabytes}, ${(took / 1000).toFixed(1)}`);
    const grown = most - before;
    if (ownMib > 0) report.note(`${name}: memory grew by`, `${grown.toFixed(1)} MiB`);
    report.atMost(
      `${name}: memory grew ${ownMib > 0 ? "beside that " : ""}by`,
      Math.max(0, grown - ownMib),
      MAX_GROWTH_MIB,
      "MiB",
    );
    const { ok } = await client.get("GET", "/ok");
    report.none(`${name}: not healthy afterwards`, ok === true ? [] : ["GET /ok"]);
  } finally {
    for (const socket of sockets) socket.destroy();
    client.close();
    await server.end();
  }
}

/** Code and heap are as large as they get anyway before memory is measured. */
async function warmUp(
  server: Server,
  site: Site,
  flood: (plan: Flood, then: (at: string) => Promise<void>) => Promise<void>,
): Promise<void> {
  const gate = join(site.path, "warm");
  const reading: Socket[] = [];
  await flood({ chunks: 200, bytes: CHUNK, gate }, async (at) => {
    for (let count = 0; count < 4; count++) reading.push((await connectSilently(server.url, `${at}/stream`)).resume());
  });
  for (const socket of reading) socket.destroy();
  await sleep(500);
}

/** Asks for a stream and never takes a byte of it. */
function connectSilently(url: string, path: string): Promise<Socket> {
  const { hostname, port, host } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = open(Number(port), hostname, () => {
      socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAccept: text/event-stream\r\n\r\n`, () => resolve(socket));
    });
    socket.pause();
    // The server may close a reader that does not read.
    socket.on("error", reject);
  });
}

async function stateless(report: Report, runtime: Runtime, options: ReaderOptions): Promise<void> {
  const site = createSite({ concurrency: 100 });
  const server = await startServer({ runtime, site });
  const client = connect(server.url);
  const wrong: string[] = [];
  let started = 0;
  let ended = 0;
  const at_first: number[] = [];
  const at_last: number[] = [];
  const every = Math.max(1, Math.floor(options.first_runs / 40));
  const body = { assistant_id: "echo", input: { messages: [{ role: "user", content: "hello" }] } };
  const loop = async (): Promise<void> => {
    while (started < options.runs) {
      started += 1;
      const { status, body: values } = await client.call("POST", "/runs/wait", body);
      if (status !== 200 || values.messages?.length !== 2) wrong.push(`${status} ${JSON.stringify(values)}`);
      ended += 1;
      if (ended % every !== 0) continue;
      // The last quarter of the first runs, and as many at the end: collectors let memory swing.
      if (ended > options.first_runs * 0.75 && ended <= options.first_runs) at_first.push(server.rss());
      if (ended > options.runs - options.first_runs * 0.25) at_last.push(server.rss());
    }
  };
  try {
    const from = performance.now();
    await Promise.all(Array.from({ length: CLIENTS }, loop));
    const per_s = options.runs / ((performance.now() - from) / 1000);
    report.none(`${runtime}: stateless runs that went wrong`, wrong);
    report.note(`${runtime}: stateless runs, per second`, `${ended}, ${per_s.toFixed(0)}`);
    const growth = quantile(at_last, 0.5) - quantile(at_first, 0.5);
    report.atMost(
      `${runtime}: memory grew after the first ${options.first_runs} by`,
      growth,
      options.most_left_mib,
      "MiB",
    );
  } finally {
    client.close();
    await server.end();
  }
}
