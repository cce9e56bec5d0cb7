/** `serve`: listens with the server of the runtime, Bun.serve, Deno.serve or `node:http`. */
import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type BunSocket, createBunHandlers, createBunSocket } from "./bun-socket.ts";
import { type FetchHandler, toNodeHandler } from "./handler.ts";
import { findStreamingBody, toBunResponse } from "./streaming-body.ts";
import { failAfterBody, hasUnfinishedBody, isEventStream, UnfinishedBodyError } from "./unfinished-body.ts";
import { loadUpgradeListener } from "./upgrade.ts";

/** The address and the limits of `serve`. */
export interface ServeOptions {
  /** Default 3000; 0 takes any free port. */
  readonly port?: number;
  /** Default `127.0.0.1`: only this machine can connect. */
  readonly hostname?: string;
  /**
   * The longest WebSocket message that Bun accepts, in bytes. Default 8,388,608, as `http.max_body_bytes`, which Node uses. Deno
   * accepts 64 MiB, and the handler then closes the socket.
   */
  readonly max_message_bytes?: number;
  /** The time that the head of a request may take to arrive, in milliseconds, on Node. Default 10000. */
  readonly headers_timeout_ms?: number;
}

/** A server that accepts connections. */
export interface Listener {
  /** Such as `http://127.0.0.1:3000`. */
  readonly url: string;
  readonly port: number;
  /** Accepts no new connections. Resolves when the open ones are answered and closed. */
  close(): Promise<void>;
}

/** `serve` rejects with this when another process uses the port. */
export class PortTaken extends Error {
  readonly code = "EADDRINUSE";

  constructor(port: number, options?: ErrorOptions) {
    super(`Port ${port} is in use. Choose another port, or 0 for any free port`, options);
    this.name = "PortTaken";
  }
}

type ListenAddress = Required<Pick<ServeOptions, "port" | "hostname">>;
type BoundServer = Omit<Listener, "url">;

interface BunServer {
  readonly port: number;
  stop(closeActiveConnections?: boolean): Promise<void>;
  requestIP(request: Request): { readonly address: string } | null;
  upgrade(request: Request, options: { readonly data: BunSocket }): boolean;
}

interface DenoRequestInfo {
  readonly completed: Promise<void>;
  readonly remoteAddr: { readonly hostname?: string };
}

/** The globals of Bun and Deno that are used here. Their own type packages exclude each other. */
interface Runtimes {
  readonly Bun?: {
    serve(
      options: ListenAddress & {
        fetch(request: Request, server: BunServer): Promise<Response | undefined>;
        readonly websocket: ReturnType<typeof createBunHandlers>;
        readonly idleTimeout: number;
        readonly reusePort: boolean;
      },
    ): BunServer;
  };
  readonly Deno?: {
    serve(
      options: ListenAddress & { readonly onListen: () => void; readonly onError: (error: unknown) => Response },
      handler: (request: Request, info: DenoRequestInfo) => Response | Promise<Response>,
    ): { readonly addr: { readonly port: number }; shutdown(): Promise<void> };
    upgradeWebSocket(request: Request): { readonly socket: WebSocket; readonly response: Response };
    readonly errors: { readonly AddrInUse: new () => Error };
  };
}

const { Bun, Deno } = globalThis as unknown as Runtimes;

/** A response is not read while this many bytes of it wait for the socket. Request bodies are read ahead as far. */
const MAX_UNSENT_BYTES = 16 * 1024;

const HEADERS_TIMEOUT_MS = 10_000;
/** The maximum interval at which Node checks for late heads. */
const HEADERS_CHECK_INTERVAL_MS = 2_000;
/** The extra time for a late head, which may be in the kernel because the process was too busy to read it. */
const HEADERS_GRACE_MS = 1_000;

const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;

/**
 * Serves a fetch handler on a port: by Bun.serve on Bun, Deno.serve on Deno and `node:http` on Node. Resolves when connections
 * are accepted; port 0 takes a free one, which `url` names. Rejects with PortTaken when another process uses the port. Without
 * the package `ws`, Node opens no WebSockets.
 * @example
 * ```ts
 * import { createApp } from "greenroom/app";
 * import { serve } from "greenroom/node";
 *
 * const app = await createApp({
 *   database: "agents.db",
 *   agents: { echo: ({ messages }) => `Message ${messages.length}` },
 * });
 * const server = await serve(app.fetch, { port: 3000 });
 * console.log(`Listening on ${server.url}`);
 * ```
 */
export async function serve(
  handler: FetchHandler,
  {
    port = 3000,
    hostname = "127.0.0.1",
    max_message_bytes = MAX_MESSAGE_BYTES,
    headers_timeout_ms = HEADERS_TIMEOUT_MS,
  }: ServeOptions = {},
): Promise<Listener> {
  const address = { port, hostname };
  try {
    let bound: BoundServer;
    if (Bun) bound = serveOnBun(Bun, handler, address, max_message_bytes);
    else if (Deno) bound = serveOnDeno(Deno, handler, address);
    else bound = await serveOnNode(handler, address, headers_timeout_ms);
    return { url: `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${bound.port}`, ...bound };
  } catch (error) {
    const isPortTaken =
      (error as { code?: unknown }).code === "EADDRINUSE" || (Deno && error instanceof Deno.errors.AddrInUse);
    throw isPortTaken ? new PortTaken(port, { cause: error }) : error;
  }
}

/**
 * Starts a server of Bun. A response to a request whose body has not arrived closes the connection. Bun also closes
 * connections on which nothing moves for 60 s. `close` resolves when all responses are complete. Throws if the port is
 * taken.
 */
function serveOnBun(
  bun: NonNullable<Runtimes["Bun"]>,
  handler: FetchHandler,
  address: ListenAddress,
  max_message_bytes: number,
): BoundServer {
  // Bun closes connections on which no byte has moved for this many seconds: clients that stopped reading. Streams and
  // waits send heartbeats more often; any other handler must answer within that time.
  const server = bun.serve({
    ...address,
    /**
     * Returns the response of the handler; undefined after it has opened a WebSocket. Sets `connection: close` on it if
     * the body of the request has not arrived.
     */
    async fetch(request, server) {
      let upgraded = false;
      /**
       * Answers the handshake and returns the socket, which connects later. Returns null, and answers nothing, for an
       * invalid handshake.
       */
      const upgradeWebSocket = (): { readonly socket: BunSocket } | null => {
        const socket = createBunSocket();
        upgraded = server.upgrade(request, { data: socket });
        return upgraded ? { socket } : null;
      };
      const host = {
        upgradeWebSocket,
        get address(): string | null {
          return server.requestIP(request)?.address ?? null;
        },
      };
      const response = await handler(request, host);
      if (upgraded) return undefined;
      if (await hasUnfinishedBody(request, response)) response.headers.set("connection", "close");
      const body = findStreamingBody(response);
      return body ? await toBunResponse(response, body, request.signal) : response;
    },
    websocket: createBunHandlers(max_message_bytes),
    idleTimeout: 60,
    reusePort: false,
  });
  return { port: server.port, close: () => server.stop() };
}

/**
 * Starts a server of Deno. What the handler throws is logged and answered with 500. An answer to a request whose body has not
 * arrived ends with an error, so that the connection closes. Throws if the port is taken.
 */
function serveOnDeno(deno: NonNullable<Runtimes["Deno"]>, handler: FetchHandler, address: ListenAddress): BoundServer {
  /** Returns 500 for an error of the handler and logs it, unless it only closes the connection. */
  const onError = (error: unknown): Response => {
    if (!(error instanceof UnfinishedBodyError)) console.error(error);
    return new Response("Internal Server Error", { status: 500 });
  };
  const server = deno.serve({ ...address, onListen() {}, onError }, async (request, { remoteAddr, completed }) => {
    const host = {
      upgradeWebSocket: () => upgradeOnDeno(deno, request),
      address: remoteAddr.hostname ?? null,
      completed,
    };
    const response = await handler(request, host);
    return (await hasUnfinishedBody(request, response)) && !isEventStream(response)
      ? await failAfterBody(response)
      : response;
  });
  return { port: server.addr.port, close: () => server.shutdown() };
}

/** Opens a WebSocket, and returns it with the response that Deno needs; null for an invalid handshake. */
function upgradeOnDeno(
  deno: NonNullable<Runtimes["Deno"]>,
  request: Request,
): ReturnType<typeof deno.upgradeWebSocket> | null {
  try {
    return deno.upgradeWebSocket(request);
  } catch {
    // Not a valid handshake.
    return null;
  }
}

/**
 * Starts a server of `node:http`, with WebSockets if the package `ws` is there. Rejects with the error of Node if it cannot
 * listen. `close` resolves when all answers are complete, and closes idle and unused connections at once.
 */
async function serveOnNode(
  handler: FetchHandler,
  { port, hostname }: ListenAddress,
  headers_timeout_ms: number,
): Promise<BoundServer> {
  // Loaded on Node only: on the other runtimes it takes as long as the rest of the start.
  const { createServer } = await import("node:http");
  const server = createServer(
    // Headers must arrive soon. A request has no time limit: a run may take hours.
    {
      headersTimeout: headers_timeout_ms,
      requestTimeout: 0,
      keepAliveTimeout: 30_000,
      connectionsCheckingInterval: Math.min(HEADERS_CHECK_INTERVAL_MS, headers_timeout_ms),
      highWaterMark: MAX_UNSENT_BYTES,
    },
    toNodeHandler(handler),
  );
  const upgrades = await loadUpgradeListener(handler);
  if (upgrades) server.on("upgrade", upgrades);
  extendHeaderDeadline(server);
  const unused = trackUnusedSockets(server);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, hostname, resolve);
  });
  const bound = server.address();
  return {
    port: typeof bound === "object" && bound ? bound.port : port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
        // Connections that are answered from now on.
        server.keepAliveTimeout = 1;
        for (const socket of unused) socket.destroy();
      }),
  };
}

/**
 * Gives a late head of a request another second. After the event loop was blocked, Node looks for late heads before it reads what
 * has arrived meanwhile, and would answer 408 to complete requests. It also answers malformed requests, as Node does without a
 * listener.
 */
function extendHeaderDeadline(server: Server): void {
  const lateSockets = new Map<Socket, NodeJS.Timeout>();
  const responses = new WeakMap<Socket, ServerResponse>();
  const cancelTimer = (socket: Socket): void => {
    clearTimeout(lateSockets.get(socket));
    lateSockets.delete(socket);
  };
  /**
   * Answers what no handler sees, as Node does without a listener, and closes the connection. A response that has begun is only
   * cut off.
   */
  const endSocket = (socket: Socket, status: string): void => {
    const response = responses.get(socket);
    const isAnswering = response?.headersSent === true && !response.writableFinished;
    if (socket.writable && !isAnswering) socket.write(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`);
    socket.destroy();
  };
  server.on("request", ({ socket }, response) => {
    cancelTimer(socket);
    responses.set(socket, response);
  });
  server.on("upgrade", ({ socket }) => cancelTimer(socket));
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    if (error.code !== "ERR_HTTP_REQUEST_TIMEOUT")
      return endSocket(socket, STATUS_BY_ERROR[error.code ?? ""] ?? BAD_REQUEST);
    const timer = setTimeout(() => {
      lateSockets.delete(socket);
      endSocket(socket, REQUEST_TIMEOUT);
    }, HEADERS_GRACE_MS);
    timer.unref();
    lateSockets.set(socket, timer);
    socket.once("close", () => cancelTimer(socket));
  });
}

const BAD_REQUEST = "400 Bad Request";
const REQUEST_TIMEOUT = "408 Request Timeout";
/** The statuses of Node's own answers to what its parser refuses. */
const STATUS_BY_ERROR: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: "431 Request Header Fields Too Large",
  HPE_CHUNK_EXTENSIONS_OVERFLOW: "413 Payload Too Large",
};

/**
 * Returns the set of connections that have sent no request yet, and keeps it current. Browsers open connections ahead of need,
 * which Node counts as busy.
 */
function trackUnusedSockets(server: Server): ReadonlySet<Socket> {
  const unused = new Set<Socket>();
  const trackedSockets = new WeakSet<Socket>();
  server.on("connection", (socket: Socket) => {
    // Reported again after an offer of another protocol.
    if (trackedSockets.has(socket)) return;
    trackedSockets.add(socket);
    unused.add(socket);
    socket.once("close", () => unused.delete(socket));
  });
  for (const event of ["request", "upgrade"]) {
    server.on(event, ({ socket }: { readonly socket: Socket }) => unused.delete(socket));
  }
  return unused;
}
