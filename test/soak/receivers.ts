/** Receivers of webhooks in the soak's own process: they fail and hang, and remember everything that they were sent. */
import { createHash } from "node:crypto";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** One request as it came in. */
export interface Post {
  readonly at: number;
  /** `webhook-id` and `idempotency-key`. */
  readonly ids: readonly [string, string];
  readonly path: string;
  /** The hash of the body. */
  readonly body: string;
  readonly run_id: string;
  readonly status: string;
  /** Null: there was no answer. */
  readonly answer: number | null;
}

export interface Receivers {
  /** The received requests, by run. */
  readonly posts: ReadonlyMap<string, readonly Post[]>;
  /** Requests that are no deliveries. */
  readonly problems: readonly string[];
  /** The configuration's `webhooks` section that lets a server send here. */
  readonly settings: object;
  /** The maximum number of attempts. */
  readonly attempts: number;
  /** Returns a URL of one of the receivers. */
  url(key: string): string;
  close(): void;
}

/** Each is a host of its own: two deliveries go to one host at once. */
const COUNT = 6;
const FAILS = 0.3;
const HANGS = 0.05;
/** One who does not hang answers within it, on a busy machine too. */
const TIMEOUT_MS = 2_000;
/** A failure after all of these is one in many thousands, and allowed. */
const SCHEDULE_MS: readonly number[] = [50, 100, 200, 400, 800, 1_600, 1_600, 1_600];

/** A line of the file. */
type Noted = { readonly ports: readonly number[] } | { readonly post: Post } | { readonly problem: string };

/** Starts the receivers. `file`: requests are written to it before they are answered. If it exists, they continue it, on its ports. */
export async function startReceivers(file?: string): Promise<Receivers> {
  const posts = new Map<string, Post[]>();
  const problems: string[] = [];
  const servers: Server[] = [];
  let known_ports: readonly number[] = [];

  function add(noted: Noted): void {
    if ("ports" in noted) known_ports = noted.ports;
    else if ("problem" in noted) problems.push(noted.problem);
    else posts.set(noted.post.run_id, [...(posts.get(noted.post.run_id) ?? []), noted.post]);
  }
  function note(noted: Noted): void {
    add(noted);
    if (file) appendFileSync(file, `${JSON.stringify(noted)}\n`);
  }
  if (file && existsSync(file)) {
    for (const line of readFileSync(file, "utf8").split("\n").slice(0, -1)) add(JSON.parse(line) as Noted);
  }

  function take(request: IncomingMessage, text: string, response: ServerResponse): void {
    const at = Date.now();
    const { headers, method, url: path = "" } = request;
    let payload: { readonly run_id: string; readonly status: string };
    try {
      payload = JSON.parse(text);
    } catch {
      note({ problem: `${method} ${path} with ${text.slice(0, 200)}` });
      response.writeHead(400).end();
      return;
    }
    const { run_id, status } = payload;
    const roll = Math.random();
    const answer =
      roll < HANGS ? null : roll < HANGS + FAILS ? [500, 503, 429, 404, 302][Math.floor(Math.random() * 5)] : 200;
    const post: Post = {
      at,
      ids: [String(headers["webhook-id"]), String(headers["idempotency-key"])],
      path,
      body: createHash("sha256").update(text).digest("hex"),
      run_id,
      status,
      answer: answer ?? null,
    };
    note({ post });
    if (method !== "POST") note({ problem: `${method} ${path}` });
    if (answer) response.writeHead(answer).end("thank you");
  }

  for (let i = 0; i < COUNT; i++) {
    const server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => parts.push(part));
      // A request that the death of its sender cut off does not count.
      request.on("error", () => {});
      request.on("end", () => take(request, Buffer.concat(parts).toString(), response));
    });
    await new Promise<void>((done, failed) => {
      server.on("error", failed);
      server.listen(known_ports[i] ?? 0, "127.0.0.1", done);
    });
    servers.push(server);
  }
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  if (known_ports.length === 0) note({ ports });
  return {
    posts,
    problems,
    settings: {
      url: { allow_private_network: true, allowed_ports: ports },
      delivery: { timeout_ms: TIMEOUT_MS, schedule_ms: SCHEDULE_MS },
    },
    attempts: SCHEDULE_MS.length + 1,
    url: (key) => `http://127.0.0.1:${ports[Math.floor(Math.random() * COUNT)]}/ended/${key}`,
    close() {
      for (const server of servers) {
        server.close();
        server.closeAllConnections();
      }
    },
  };
}
