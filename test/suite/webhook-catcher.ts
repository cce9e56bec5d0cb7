/** Receives webhooks in tests: on a port of its own, or without a socket. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { secretBytes, type WebhookOptions, type WebhookTransport } from "../../lib/webhooks/options.ts";
import { SendError } from "../../lib/webhooks/send.ts";

/** One attempt of a delivery, as it came. */
export interface CaughtWebhook {
  /** `webhook-id`, the same at each attempt of a delivery; empty when there is none. */
  readonly id: string;
  /** By their names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** What it says; `{}` when that is no JSON object. */
  readonly body: JsonObject;
  /** The body as it came. */
  readonly text: string;
  /** Path and query that it was sent to. */
  readonly path: string;
  /**
   * Whether a secret of the catcher has signed it; null when the catcher has none. The age of the signature does not count: the
   * clock of a test may stand anywhere.
   */
  readonly verified: boolean | null;
  /** The status of the answer; null: there is none. */
  readonly status: number | null;
}

/** How the receiver answers deliveries. */
export interface CatcherOptions {
  /** `whsec_` and base64 of 24 to 64 bytes, or a list of such secrets: a signature by one of them is enough. */
  readonly secret?: string | readonly string[];
  /** False: there is no port, and `webhooks` has a transport that leads here. Default true. */
  readonly socket?: boolean;
  /** How long `next` waits before it rejects. Default 30,000. */
  readonly patience_ms?: number;
}

/** A webhook receiver for tests. */
export interface WebhookCatcher extends AsyncDisposable {
  /** What a run names as its `webhook`. Other paths and queries there are caught too. */
  readonly url: string;
  /** Options for a service that is to reach the catcher: it signs with the secret, and tries again at once. */
  readonly webhooks: WebhookOptions;
  /** Leads here from every URL, without a socket: an option `webhooks.transport`. */
  readonly transport: WebhookTransport;
  /** Everything so far, in the order it came: failed and repeated attempts too. */
  readonly received: readonly CaughtWebhook[];
  /** Takes a request without a socket: an option `webhooks.loopback`, for webhooks with a relative URL. */
  fetch(request: Request): Promise<Response>;
  /**
   * The oldest that fits and that no `next` has given yet, or the next one to come. Rejects when none has come in time, and when
   * the catcher stops.
   */
  next(predicate?: (webhook: CaughtWebhook) => boolean): Promise<CaughtWebhook>;
  /** So many of those that come next (after those already spoken for) are answered with this status. Default: one, 500. */
  fail(times?: number, status?: number): void;
  /** So many of those that come next get no answer, until the sender gives up or the catcher stops. Default: one. */
  hang(times?: number): void;
  /** Closes the port; what waits for an answer or for a webhook fails. */
  stop(): Promise<void>;
}

interface Waiting {
  fits(webhook: CaughtWebhook): boolean;
  give(webhook: CaughtWebhook): void;
  fail(error: unknown): void;
}

const PATIENCE_MS = 30_000;
/** Public, as the policy for webhooks wants it; nothing is sent there. */
const ADDRESS = "93.184.215.14";
const SOCKETLESS = "https://hooks.example.com/";
const AT_ONCE: readonly number[] = [1, 1, 1, 1, 1, 1, 1];

/**
 * Catches webhooks until it is stopped; `await using` does that. Throws a TypeError for a secret that is none.
 *
 * @example
 * ```ts
 * import { catchWebhooks, testService } from "greenroom/testing";
 *
 * await using catcher = await catchWebhooks();
 * await using test = await testService({ agents: { echo: () => "Hi" }, webhooks: catcher.webhooks });
 * await test.service.runs.wait(null, { assistant_id: "echo", input: {}, webhook: catcher.url });
 * const delivery = await catcher.next();
 * ```
 */
export async function catchWebhooks(options: CatcherOptions = {}): Promise<WebhookCatcher> {
  const { secret, socket = true, patience_ms = PATIENCE_MS } = options;
  const keys = secret === undefined ? null : await keysOf(typeof secret === "string" ? [secret] : secret);
  const received: CaughtWebhook[] = [];
  const unseen: CaughtWebhook[] = [];
  const waiting = new Set<Waiting>();
  const answers: (number | null)[] = [];
  const stopped = new AbortController();

  function tell(webhook: CaughtWebhook): void {
    received.push(webhook);
    for (const one of waiting) {
      if (!one.fits(webhook)) continue;
      one.give(webhook);
      return;
    }
    unseen.push(webhook);
  }

  /** Notes an attempt; gives the status to answer with, null for no answer. */
  async function take(path: string, headers: Readonly<Record<string, string>>, text: string): Promise<number | null> {
    const next = answers.shift();
    const status = next === undefined ? 204 : next;
    const verified = keys && (await isSigned(keys, headers, text));
    tell({ id: headers["webhook-id"] ?? "", headers, body: objectIn(text), text, path, verified, status });
    return status;
  }

  /** Waits until the sender gives up or the catcher stops, and rejects then. */
  async function hanging(sender: AbortSignal): Promise<never> {
    const signal = AbortSignal.any([sender, stopped.signal]);
    return await new Promise<never>((_, reject) => {
      const end = (): void => reject(new SendError("aborted", null));
      if (signal.aborted) end();
      else signal.addEventListener("abort", end, { once: true });
    });
  }

  const transport: WebhookTransport = {
    resolve: async () => [ADDRESS],
    async send({ url, headers, body }, addresses, signal) {
      if (stopped.signal.aborted) throw new SendError("network_error", null);
      const { pathname, search } = new URL(url);
      const named = Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value]));
      const status = (await take(pathname + search, named, body)) ?? (await hanging(signal));
      return { status, retry_after: null, address: addresses[0] ?? null };
    },
  };
  const port = socket ? await openPort(take) : null;

  async function stop(): Promise<void> {
    if (stopped.signal.aborted) return;
    stopped.abort();
    for (const one of waiting) one.fail(new Error("The catcher has stopped"));
    await port?.close();
  }

  const signing = secret === undefined ? {} : { signing_secret: secret };
  return {
    url: port ? `http://127.0.0.1:${port.number}/` : SOCKETLESS,
    webhooks: {
      ...(port ? { url: { allow_private_network: true, allowed_ports: [port.number] } } : { transport }),
      ...signing,
      delivery: { schedule_ms: AT_ONCE },
    },
    transport,
    received,
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      const status = await take(pathname + search, Object.fromEntries(request.headers), await request.text());
      return new Response(null, { status: status ?? (await hanging(request.signal)) });
    },
    next(predicate = () => true) {
      return new Promise((resolve, reject) => {
        const at = unseen.findIndex(predicate);
        if (at >= 0) return resolve(unseen.splice(at, 1)[0] as CaughtWebhook);
        if (stopped.signal.aborted) return reject(new Error("The catcher has stopped"));
        // It also keeps the process alive, which the timers of a service do not.
        const patience = setTimeout(
          () => one.fail(new Error(`No such webhook in ${patience_ms} ms; ${received.length} came`)),
          patience_ms,
        );
        const done = (): void => {
          clearTimeout(patience);
          waiting.delete(one);
        };
        const one: Waiting = {
          fits(webhook) {
            try {
              return predicate(webhook);
            } catch (error) {
              one.fail(error);
              return false;
            }
          },
          give(webhook) {
            done();
            resolve(webhook);
          },
          fail(error) {
            done();
            reject(error);
          },
        };
        waiting.add(one);
      });
    },
    fail(times = 1, status = 500) {
      for (let i = 0; i < times; i++) answers.push(status);
    },
    hang(times = 1) {
      for (let i = 0; i < times; i++) answers.push(null);
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

interface Port {
  readonly number: number;
  close(): Promise<void>;
}

async function openPort(
  take: (path: string, headers: Readonly<Record<string, string>>, text: string) => Promise<number | null>,
): Promise<Port> {
  const { createServer } = await import("node:http");
  const sockets = new Set<Socket>();
  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const pieces: Uint8Array[] = [];
    for await (const piece of incoming) pieces.push(piece as Uint8Array);
    const text = await new Response(new Blob(pieces as BlobPart[])).text();
    const headers = Object.entries(incoming.headers).map(([name, value]): [string, string] => [name, String(value)]);
    const status = await take(incoming.url ?? "/", Object.fromEntries(headers), text);
    if (status !== null) outgoing.writeHead(status).end();
  }
  const server = createServer((incoming, outgoing) => {
    answer(incoming, outgoing).catch(() => outgoing.destroy());
  });
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    number: (server.address() as AddressInfo).port,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

function keysOf(secrets: readonly string[]): Promise<CryptoKey[]> {
  return Promise.all(
    secrets.map((secret) => {
      const bytes = secretBytes(secret);
      if (!bytes) throw new TypeError("secret: must be whsec_ and base64 of 24 to 64 bytes");
      return crypto.subtle.importKey("raw", new Uint8Array(bytes), { name: "HMAC", hash: "SHA-256" }, false, [
        "verify",
      ]);
    }),
  );
}

/** Whether one of the keys has made one of the signatures (Standard Webhooks: `v1,` and base64, with spaces between). */
async function isSigned(
  keys: readonly CryptoKey[],
  headers: Readonly<Record<string, string>>,
  text: string,
): Promise<boolean> {
  const { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures } = headers;
  if (id === undefined || timestamp === undefined || signatures === undefined) return false;
  const content = new TextEncoder().encode(`${id}.${timestamp}.${text}`);
  const signed = [...signatures.matchAll(/(?:^| )v1,([A-Za-z0-9+/]{43}=)(?= |$)/g)].map(([, base64 = ""]) =>
    Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)),
  );
  const proven = await Promise.all(
    signed.flatMap((bytes) => keys.map((key) => crypto.subtle.verify("HMAC", key, bytes, content))),
  );
  return proven.includes(true);
}

function objectIn(text: string): JsonObject {
  try {
    const value = JSON.parse(text) as Json;
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}
