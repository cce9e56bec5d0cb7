/** Serves a fetch handler on `node:http`, in Express and in Connect: what Bun.serve and Deno.serve bring along. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Answers a web-standard request: what `createHandler` makes. */
export type Fetch = (request: Request) => Response | Promise<Response>;

/** A request listener of `node:http`, and a handler of Express and Connect. */
export type NodeHandler = (incoming: IncomingMessage, outgoing: ServerResponse) => void;

/** Where `serve` listens. */
export interface ServeOptions {
  /** Default 3000; 0 takes any free port. */
  readonly port?: number;
  /** Default `127.0.0.1`: only this machine reaches it. */
  readonly hostname?: string;
}

/** A server that accepts connections. */
export interface NodeServer {
  /** Such as `http://127.0.0.1:3000`. */
  readonly url: string;
  readonly port: number;
  /** Takes no new connections. Resolves when the open ones are answered and closed. */
  close(): Promise<void>;
}

/** A response is not asked for more while so much of it waits for the socket. A request's body is read ahead as far. */
const UNSENT_SIZE = 16 * 1024;
/** How long the rest of a request may arrive after its answer. */
const REST_MS = 1_000;

/**
 * Makes a fetch handler one of `node:http`, Express and Connect. Bodies stream both ways; a client that goes away cancels the
 * response's body. Mount it before body parsers: it reads the bodies itself.
 *
 * @example
 * ```ts
 * import express from "express";
 * import { toNodeHandler } from "greenroom/node";
 * import { createHandler } from "greenroom/server";
 *
 * const app = express();
 * app.use("/agents", toNodeHandler(createHandler(service, { prefix: "/agents" })));
 * ```
 */
export function toNodeHandler(handler: Fetch): NodeHandler {
  return (incoming, outgoing) => void answer(handler, incoming, outgoing);
}

/**
 * Serves a fetch handler on a port. Resolves once connections are accepted; rejects when the port is taken.
 *
 * @example
 * ```ts
 * import { serve } from "greenroom/node";
 * import { createHandler } from "greenroom/server";
 *
 * const server = await serve(createHandler(service), { port: 3000 });
 * console.log(`Listening on ${server.url}`);
 * ```
 */
export async function serve(
  handler: Fetch,
  { port = 3000, hostname = "127.0.0.1" }: ServeOptions = {},
): Promise<NodeServer> {
  const server = createServer(
    // A request has as long as it needs (a run may take hours), its headers have not.
    {
      headersTimeout: 10_000,
      requestTimeout: 0,
      keepAliveTimeout: 30_000,
      connectionsCheckingInterval: 2_000,
      highWaterMark: UNSENT_SIZE,
    },
    toNodeHandler(handler),
  );
  const unused = unusedSockets(server);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, hostname, resolve);
  });
  const bound = server.address();
  const taken = typeof bound === "object" && bound ? bound.port : port;
  return {
    url: `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${taken}`,
    port: taken,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
        for (const socket of unused) socket.destroy();
      }),
  };
}

/** Browsers open connections ahead of need; Node counts those that never had a request as busy. */
function unusedSockets(server: Server): ReadonlySet<Socket> {
  const unused = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    unused.add(socket);
    socket.once("close", () => unused.delete(socket));
  });
  server.on("request", ({ socket }) => unused.delete(socket));
  return unused;
}

async function answer(handler: Fetch, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  // A socket that breaks is an event of its own ("close"); unheard it would end the process.
  outgoing.on("error", () => {});
  if (hasBody(incoming) && incoming.readableEnded) {
    // Without its body it would seem to have had none.
    refuse(outgoing, 500, "A body parser has read this request: mount the handler before it, as before express.json()");
    return;
  }
  let body: Body | null;
  let request: Request;
  try {
    body = hasBody(incoming) ? toBody(incoming) : null;
    request = toRequest(incoming, body);
  } catch {
    outgoing.setHeader("connection", "close");
    refuse(outgoing, 400, "The request line or a header cannot be read");
    return;
  }
  outgoing.once("finish", () => {
    body?.leave();
    discard(incoming);
  });
  try {
    await send(await handler(request), incoming, outgoing);
  } catch {
    if (outgoing.headersSent) outgoing.destroy();
    else refuse(outgoing, 500, "Internal Server Error");
  }
}

function refuse(outgoing: ServerResponse, status: number, detail: string): void {
  outgoing.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ detail }));
}

function hasBody({ method, headers }: IncomingMessage): boolean {
  const { "content-length": length = "0", "transfer-encoding": encoding } = headers;
  return method !== "GET" && method !== "HEAD" && (length !== "0" || encoding !== undefined);
}

function toRequest(incoming: IncomingMessage, body: Body | null): Request {
  const { method = "GET", rawHeaders } = incoming;
  // Express and Connect take the place of the mount away from `url`.
  const { originalUrl: url = incoming.url ?? "/" } = incoming as { readonly originalUrl?: string };
  // Only the origin form: "//other" or "http://other/" must not become another host than the header names.
  if (!url.startsWith("/") || !incoming.headers.host) throw new TypeError("Not in origin form");
  const headers = new Headers();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    headers.append(rawHeaders[at] as string, rawHeaders[at + 1] as string);
  }
  const base = new URL(`http://${incoming.headers.host}`);
  return new Request(`${base.origin}${url}`, { method, headers, body: body?.stream, duplex: "half" } as RequestInit);
}

interface Body {
  readonly stream: ReadableStream<Uint8Array>;
  /** Takes nothing more from the request. */
  leave(): void;
}

/** Reads from the socket only what is asked for. */
function toBody(incoming: IncomingMessage): Body {
  incoming.pause();
  let controller: ReadableStreamDefaultController<Uint8Array>;
  const onData = (bytes: Uint8Array): void => {
    // A view on Node's pooled memory is not handed out.
    controller.enqueue(new Uint8Array(bytes));
    incoming.pause();
  };
  const onEnd = (): void => {
    leave();
    controller.close();
  };
  const onFail = (): void => {
    leave();
    controller.error(new TypeError("The client went away before its request was complete"));
  };
  const leave = (): void => {
    incoming.off("data", onData).off("end", onEnd).off("error", onFail).off("close", onFail);
  };
  const stream = new ReadableStream<Uint8Array>(
    {
      start(its) {
        controller = its;
        // Unheard, errors that come later would end the process.
        incoming.on("error", () => {});
        incoming.on("data", onData).on("end", onEnd).on("error", onFail).on("close", onFail);
      },
      pull() {
        incoming.resume();
      },
      cancel() {
        leave();
        incoming.pause();
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, leave };
}

/**
 * What nobody read of a request is let through for a while, so that the client sees the answer before the end. Once it is through,
 * the connection serves other requests.
 */
function discard(incoming: IncomingMessage): void {
  if (incoming.complete) return;
  const end = setTimeout(() => incoming.socket.destroy(), REST_MS);
  end.unref();
  const through = (): void => clearTimeout(end);
  incoming.once("end", through).once("close", through);
  incoming.resume();
}

async function send(response: Response, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const headers: [string, string][] = [...response.headers];
  outgoing.statusCode = response.status;
  for (const [name, value] of headers) if (name !== "set-cookie") outgoing.setHeader(name, value);
  const cookies = response.headers.getSetCookie();
  if (cookies.length > 0) outgoing.setHeader("set-cookie", cookies);

  if (!response.body || incoming.method === "HEAD") {
    outgoing.end();
    await response.body?.cancel();
    return;
  }
  const reader = response.body.getReader();
  let goOn: () => void = () => {};
  outgoing.on("drain", () => goOn());
  outgoing.once("close", () => {
    goOn();
    // After a complete answer this does nothing.
    reader.cancel().catch(() => {});
  });
  // A body may break off while the client takes nothing, and nobody reads it then.
  reader.closed.catch(() => outgoing.destroy());
  if (outgoing.destroyed) {
    await reader.cancel();
    return;
  }
  // Headers leave before the first byte of the body exists: a client may wait for them.
  outgoing.flushHeaders();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (outgoing.write(value)) continue;
    if (outgoing.destroyed) return await reader.cancel();
    await new Promise<void>((resolve) => {
      goOn = resolve;
    });
  }
  outgoing.end();
}
