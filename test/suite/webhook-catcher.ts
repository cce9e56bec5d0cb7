/** Receives webhooks in tests, on a local port or without a socket. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { SendError } from "../../lib/webhooks/http-client.ts";
import { decodeSecret, type WebhookOptions, type WebhookTransport } from "../../lib/webhooks/options.ts";

/** A received attempt of a delivery. */
export interface CaughtWebhook {
  /** The `webhook-id` header, the same at each attempt of a delivery; empty without the header. */
  readonly id: string;
  /** Names are in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The parsed body; `{}` if it is not a JSON object. */
  readonly body: JsonObject;
  /** The raw body. */
  readonly text: string;
  /** The path and query of the request. */
  readonly path: string;
  /**
   * True if a secret of the catcher has signed the attempt; null without a secret. The age of a signature is not checked, for manual
   * clocks.
   */
  readonly verified: boolean | null;
  /** The status of the response; null: the catcher does not respond. */
  readonly status: number | null;
}

/** The responses of the receiver to deliveries. */
export interface CatcherOptions {
  /** `whsec_` and base64 of 24 to 64 bytes. With a list, a signature by one of the secrets is enough. */
  readonly secret?: string | readonly string[];
  /** False: opens no port; `webhooks` has a transport that delivers directly. Default true. */
  readonly socket?: boolean;
  /** The timeout of `next`. Default 30,000. */
  readonly patience_ms?: number;
}

/** A webhook receiver for tests. */
export interface WebhookCatcher extends AsyncDisposable {
  /** The value for a run's `webhook`. Other paths and queries of this origin are received, too. */
  readonly url: string;
  /** The `webhooks` option of a service: allows the catcher's URL, signs with the secret and retries at once. */
  readonly webhooks: WebhookOptions;
  /** A `webhooks.transport` that delivers every URL to the catcher, without a socket. */
  readonly transport: WebhookTransport;
  /** The received attempts in order, including failed and repeated ones. */
  readonly received: readonly CaughtWebhook[];
  /** A `webhooks.loopback`: receives webhooks with a relative URL, without a socket. */
  fetch(request: Request): Promise<Response>;
  /**
   * Resolves with the oldest matching webhook that no `next` has returned yet, or waits for one. Rejects on timeout and when the
   * catcher stops.
   */
  next(predicate?: (webhook: CaughtWebhook) => boolean): Promise<CaughtWebhook>;
  /** Responds to the next `times` webhooks with this status. Calls of `fail` and `hang` queue up. Default: one, 500. */
  fail(times?: number, status?: number): void;
  /** Does not respond to the next `times` webhooks until the sender gives up or the catcher stops. Default: one. */
  hang(times?: number): void;
  /** Closes the port. Open requests and calls of `next` fail. */
  stop(): Promise<void>;
}

interface Waiting {
  matches(webhook: CaughtWebhook): boolean;
  resolve(webhook: CaughtWebhook): void;
  fail(error: unknown): void;
}

const PATIENCE_MS = 30_000;
/** A public address, because the webhook policy requires one. Nothing is sent there. */
const ADDRESS = "93.184.215.14";
const SOCKETLESS = "https://hooks.example.com/";
const AT_ONCE: readonly number[] = [1, 1, 1, 1, 1, 1, 1];

/**
 * Receives webhooks until `stop`; `await using` calls it. Throws a TypeError for an invalid secret.
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
  const keys = secret === undefined ? null : await importKeys(typeof secret === "string" ? [secret] : secret);
  const received: CaughtWebhook[] = [];
  const unclaimed: CaughtWebhook[] = [];
  const waiting = new Set<Waiting>();
  const answers: (number | null)[] = [];
  const stopped = new AbortController();

  function add(webhook: CaughtWebhook): void {
    received.push(webhook);
    for (const waiter of waiting) {
      if (!waiter.matches(webhook)) continue;
      waiter.resolve(webhook);
      return;
    }
    unclaimed.push(webhook);
  }

  /** Records an attempt. Returns the status of the response, or null to send none. */
  async function take(path: string, headers: Readonly<Record<string, string>>, text: string): Promise<number | null> {
    const next = answers.shift();
    const status = next === undefined ? 204 : next;
    const verified = keys && (await isSigned(keys, headers, text));
    add({ id: headers["webhook-id"] ?? "", headers, body: objectIn(text), text, path, verified, status });
    return status;
  }

  /** Rejects when the sender gives up or the catcher stops. */
  async function hang(sender: AbortSignal): Promise<never> {
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
      const status = (await take(pathname + search, named, body)) ?? (await hang(signal));
      return { status, retry_after: null, address: addresses[0] ?? null };
    },
  };
  const port = socket ? await openPort(take) : null;

  async function stop(): Promise<void> {
    if (stopped.signal.aborted) return;
    stopped.abort();
    for (const waiter of waiting) waiter.fail(new Error("The webhook catcher has stopped"));
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
      return new Response(null, { status: status ?? (await hang(request.signal)) });
    },
    next(predicate = () => true) {
      return new Promise((resolve, reject) => {
        const at = unclaimed.findIndex(predicate);
        if (at >= 0) return resolve(unclaimed.splice(at, 1)[0] as CaughtWebhook);
        if (stopped.signal.aborted) return reject(new Error("The webhook catcher has stopped"));
        // The timer also keeps the process alive; the timers of a service do not.
        const timeout = setTimeout(
          () => waiter.fail(new Error(`No matching webhook in ${patience_ms} ms; received: ${received.length}`)),
          patience_ms,
        );
        const done = (): void => {
          clearTimeout(timeout);
          waiting.delete(waiter);
        };
        const waiter: Waiting = {
          matches(webhook) {
            try {
              return predicate(webhook);
            } catch (error) {
              waiter.fail(error);
              return false;
            }
          },
          resolve(webhook) {
            done();
            resolve(webhook);
          },
          fail(error) {
            done();
            reject(error);
          },
        };
        waiting.add(waiter);
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

function importKeys(secrets: readonly string[]): Promise<CryptoKey[]> {
  return Promise.all(
    secrets.map((secret) => {
      const bytes = decodeSecret(secret);
      if (!bytes) throw new TypeError("secret: must be whsec_ and base64 of 24 to 64 bytes");
      return crypto.subtle.importKey("raw", new Uint8Array(bytes), { name: "HMAC", hash: "SHA-256" }, false, [
        "verify",
      ]);
    }),
  );
}

/** Returns true if one of the keys has made one of the signatures. Standard Webhooks: `v1,` and base64, separated by spaces. */
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
  const verified = await Promise.all(
    signed.flatMap((bytes) => keys.map((key) => crypto.subtle.verify("HMAC", key, bytes, content))),
  );
  return verified.includes(true);
}

function objectIn(text: string): JsonObject {
  try {
    const parsed = JSON.parse(text) as Json;
    return isObject(parsed) ? parsed : {};
  } catch {
    return {};
  }
}
