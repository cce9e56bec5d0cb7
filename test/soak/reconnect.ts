/** The SDKs' own reconnect, through a proxy that cuts connections: nothing may be lost and nothing may come twice. */
import { createServer, connect as open, type Socket } from "node:net";
import { Client as Client1 } from "langgraph-sdk-1";
import { Client as Client2 } from "langgraph-sdk-2";
import type { Plan } from "./agents.ts";
import { type Client, connect, type Frame } from "./client.ts";
import { createKeyMaker } from "./database.ts";
import type { Report } from "./report.ts";
import { createSite, startServer } from "./servers.ts";

export interface ReconnectOptions {
  /** Cuts for each family of the SDK. */
  readonly cuts: number;
  readonly cuts_per_run: number;
  readonly at_once: number;
}

// A release of the SDK gives a stream up at its sixth failure.
export const SHORT: ReconnectOptions = { cuts: 50, cuts_per_run: 2, at_once: 25 };
export const LONG: ReconnectOptions = { cuts: 1_000, cuts_per_run: 4, at_once: 64 };

// What is called of them here is the same in both families.
const SDKS: Readonly<Record<string, typeof Client2>> = {
  "SDK 2.0.0": Client2,
  "SDK 1.12.4": Client1 as unknown as typeof Client2,
};

interface Proxy extends AsyncDisposable {
  readonly url: string;
  cuts(): number;
}

const random = (below: number): number => Math.floor(Math.random() * below);

/** Hands bytes on to the server; each of the first connections that carry a stream is cut somewhere in its answer. */
async function cutting(target: string, most_cuts: number, bytes_between: number): Promise<Proxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let cuts = 0;
  const server = createServer((client) => {
    const upstream = open(Number(port), hostname);
    sockets.add(client).add(upstream);
    const drop = (): void => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      socket.on("error", drop);
      socket.on("close", () => {
        sockets.delete(socket);
        drop();
      });
    }
    let remainingBytes = Number.POSITIVE_INFINITY;
    let head = false;
    client.on("data", (bytes: Buffer) => {
      head ||= cuts < most_cuts && /^(?:GET|POST) \S+\/stream[? ]/.test(bytes.toString("latin1"));
      upstream.write(bytes);
    });
    upstream.on("data", (bytes: Buffer) => {
      // Only once the answer has begun: what fails before is another request to the SDKs, not a stream to go on with.
      const body = head ? bytes.indexOf("\r\n\r\n") : -1;
      if (body >= 0) {
        head = false;
        remainingBytes = body + 4 + random(bytes_between);
      }
      if (bytes.length < remainingBytes) {
        remainingBytes -= bytes.length;
        if (!client.write(bytes)) {
          upstream.pause();
          client.once("drain", () => upstream.resume());
        }
        return;
      }
      cuts += 1;
      // In the middle of a frame, or with an end that looks clean to TCP, or with a reset.
      client.write(bytes.subarray(0, remainingBytes), () => {
        if (random(2) === 0) client.resetAndDestroy();
        else client.destroy();
      });
      upstream.destroy();
      remainingBytes = Number.POSITIVE_INFINITY;
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const address = server.address() as { port: number };
  return {
    url: `http://127.0.0.1:${address.port}`,
    cuts: () => cuts,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((done) => server.close(done));
    },
  };
}

interface Streamed {
  readonly cuts: number;
  readonly lost: string[];
  readonly doubled: string[];
}

export async function reconnect(report: Report, options: ReconnectOptions): Promise<void> {
  const site = createSite({ concurrency: 200, lease_ms: 10_000 });
  const server = await startServer({ runtime: "bun", site });
  const client = connect(server.url);
  const newKey = createKeyMaker();
  const family = async (name: string, Sdk: typeof Client2): Promise<void> => {
    let cuts = 0;
    let runs = 0;
    const lost: string[] = [];
    const doubled: string[] = [];
    const failed: string[] = [];
    const loop = async (): Promise<void> => {
      while (cuts < options.cuts && runs < options.cuts * 2) {
        runs += 1;
        try {
          const streamed = await streamRun(client, Sdk, server.url, newKey(), options);
          cuts += streamed.cuts;
          lost.push(...streamed.lost);
          doubled.push(...streamed.doubled);
        } catch (error) {
          failed.push((error as Error).message);
        }
      }
    };
    await Promise.all(Array.from({ length: options.at_once }, loop));
    report.atLeast(`${name}: disconnects`, cuts, options.cuts);
    report.note(`${name}: streams`, runs);
    report.none(`${name}: streams that failed`, failed);
    report.none(`${name}: frames lost or changed`, lost);
    report.none(`${name}: frames doubled or out of order`, doubled);
  };
  await Promise.all(Object.entries(SDKS).map(([name, Sdk]) => family(name, Sdk)));
  client.close();
  await server.end();
}

/** One resumable run that the SDK streams through a proxy of its own, and the same run as the server shows it afterwards. */
async function streamRun(
  client: Client,
  Sdk: typeof Client2,
  url: string,
  key: string,
  options: ReconnectOptions,
): Promise<Streamed> {
  const steps = 20;
  const tokens = 5;
  // Some runs are over before the first reconnect, some go on after the last.
  const plan: Plan = { key, steps, tokens, wait_ms: [5, 40, 200][random(3)] ?? 40 };
  await using proxy = await cutting(url, options.cuts_per_run, 5_000);
  const sdk = new Sdk({ apiUrl: proxy.url, apiKey: null as unknown as string });
  const { thread_id } = await client.get("POST", "/threads", {});
  const received: { id?: string; event: string; data: unknown }[] = [];
  let run_id = "";
  const stream = sdk.runs.stream(thread_id, "agent", {
    input: { messages: [{ type: "human", id: key, content: `in ${key}` }] },
    metadata: { soak: plan },
    streamMode: ["custom", "updates"],
    streamResumable: true,
    onRunCreated: (run: { run_id: string }) => {
      run_id = run.run_id;
    },
  });
  // Resumed streams may show a frame without event or data for a blank line: it carries nothing.
  for await (const frame of stream) if (frame.event) received.push(frame as (typeof received)[number]);
  // Cut after the end, the SDK reconnects: it receives the end again, without an id.
  const [before, last] = received.slice(-2);
  if (before?.event === "end" && last?.event === "end" && last.id === undefined) received.pop();

  const stored: Frame[] = [];
  const path = `/threads/${thread_id}/runs/${run_id}/stream`;
  await client.stream("GET", path, undefined, (frame) => void stored.push(frame), {
    headers: { "last-event-id": "-1" },
  });
  const lost: string[] = [];
  const doubled: string[] = [];
  const by = new Map(received.map((frame) => [frame.id, frame]));
  for (const { id, event, data } of stored) {
    const got = by.get(id ?? undefined);
    if (got?.event !== event || JSON.stringify(got.data) !== JSON.stringify(JSON.parse(data))) {
      lost.push(`run ${run_id}: frame ${id} (${event}) came as ${JSON.stringify(got)?.slice(0, 100)}`);
      break;
    }
  }
  const tokenCount = stored.filter(({ event }) => event === "custom").length;
  if (tokenCount !== steps * tokens)
    lost.push(`run ${run_id}: the server kept ${tokenCount} of ${steps * tokens} tokens`);
  const ids = received.map(({ id }) => Number(id));
  if (ids.some((id, at) => at > 0 && !(id > (ids[at - 1] ?? 0))))
    doubled.push(`run ${run_id}: ids end with ${ids.slice(-20).join()}`);
  if (received.length > stored.length) doubled.push(`run ${run_id}: ${received.length} frames of ${stored.length}`);
  return { cuts: proxy.cuts(), lost, doubled };
}
