/** `serve`: listens with the server of the runtime, Bun.serve, Deno.serve or `node:http`. */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { type BunSocket, bunHandlers, createBunSocket } from "./bun-socket.ts";
import { type Fetch, toNodeHandler } from "./handler.ts";
import { answerOnBun, openBodyOf } from "./open-body.ts";
import { cutShort, isStream, isUnfinished, Unfinished } from "./unfinished.ts";
import { loadUpgrades } from "./upgrade.ts";

/** Where `serve` listens. */
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
    super(`Port ${port} is taken: choose another, or 0 for any that is free`, options);
    this.name = "PortTaken";
  }
}

type Address = Required<Pick<ServeOptions, "port" | "hostname">>;
type Bound = Omit<Listener, "url">;

interface BunServer {
  readonly port: number;
  stop(closeActiveConnections?: boolean): Promise<void>;
  upgrade(request: Request, options: { readonly data: BunSocket }): boolean;
}

/** The globals of Bun and Deno that are used here. Their own type packages exclude each other. */
interface Runtimes {
  readonly Bun?: {
    serve(
      options: Address & {
        fetch(request: Request, server: BunServer): Promise<Response | undefined>;
        readonly websocket: ReturnType<typeof bunHandlers>;
        readonly idleTimeout: number;
        readonly reusePort: boolean;
      },
    ): BunServer;
  };
  readonly Deno?: {
    serve(
      options: Address & { readonly onListen: () => void; readonly onError: (error: unknown) => Response },
      handler: Fetch,
    ): { readonly addr: { readonly port: number }; shutdown(): Promise<void> };
    upgradeWebSocket(request: Request): { readonly socket: WebSocket; readonly response: Response };
    readonly errors: { readonly AddrInUse: new () => Error };
  };
}

const { Bun, Deno } = globalThis as unknown as Runtimes;

/** A response is not read while this many bytes of it wait for the socket. Request bodies are read ahead as far. */
const UNSENT_SIZE = 16 * 1024;

const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;

/**
 * Serves a fetch handler on a port: by Bun.serve on Bun, Deno.serve on Deno and `node:http` on Node. Resolves when
 * connections are accepted. Rejects with PortTaken when another process uses the port.
 *
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
  handler: Fetch,
  { port = 3000, hostname = "127.0.0.1", max_message_bytes = MAX_MESSAGE_BYTES }: ServeOptions = {},
): Promise<Listener> {
  const address = { port, hostname };
  try {
    const bound = Bun
      ? serveOnBun(Bun, handler, address, max_message_bytes)
      : Deno
        ? serveOnDeno(Deno, handler, address)
        : await serveOnNode(handler, address);
    return { url: `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${bound.port}`, ...bound };
  } catch (error) {
    const taken =
      (error as { code?: unknown }).code === "EADDRINUSE" || (Deno && error instanceof Deno.errors.AddrInUse);
    throw taken ? new PortTaken(port, { cause: error }) : error;
  }
}

function serveOnBun(
  bun: NonNullable<Runtimes["Bun"]>,
  handler: Fetch,
  address: Address,
  max_message_bytes: number,
): Bound {
  // Bun closes connections on which no byte has moved for this many seconds: clients that stopped reading. Streams and
  // waits send heartbeats more often; any other handler must answer within that time.
  const server = bun.serve({
    ...address,
    async fetch(request, server) {
      let upgraded = false;
      const upgradeWebSocket = (): { readonly socket: BunSocket } | null => {
        const socket = createBunSocket();
        upgraded = server.upgrade(request, { data: socket });
        return upgraded ? { socket } : null;
      };
      const response = await handler(request, { upgradeWebSocket });
      if (upgraded) return undefined;
      if (await isUnfinished(request, response)) response.headers.set("connection", "close");
      const body = openBodyOf(response);
      return body ? await answerOnBun(response, body, request.signal) : response;
    },
    websocket: bunHandlers(max_message_bytes),
    idleTimeout: 60,
    reusePort: false,
  });
  return { port: server.port, close: () => server.stop() };
}

function serveOnDeno(deno: NonNullable<Runtimes["Deno"]>, handler: Fetch, address: Address): Bound {
  const onError = (error: unknown): Response => {
    if (!(error instanceof Unfinished)) console.error(error);
    return new Response("Internal Server Error", { status: 500 });
  };
  const server = deno.serve({ ...address, onListen() {}, onError }, async (request) => {
    const response = await handler(request, { upgradeWebSocket: () => upgradeOnDeno(deno, request) });
    return (await isUnfinished(request, response)) && !isStream(response) ? await cutShort(response) : response;
  });
  return { port: server.addr.port, close: () => server.shutdown() };
}

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

async function serveOnNode(handler: Fetch, { port, hostname }: Address): Promise<Bound> {
  // Loaded on Node only: on the other runtimes it takes as long as the rest of the start.
  const { createServer } = await import("node:http");
  const server = createServer(
    // Headers must arrive soon. A request has no time limit: a run may take hours.
    {
      headersTimeout: 10_000,
      requestTimeout: 0,
      keepAliveTimeout: 30_000,
      connectionsCheckingInterval: 2_000,
      highWaterMark: UNSENT_SIZE,
    },
    toNodeHandler(handler),
  );
  const upgrades = await loadUpgrades(handler);
  if (upgrades) server.on("upgrade", upgrades);
  const unused = unusedSockets(server);
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

/** Browsers open connections ahead of need. Node counts those without a request as busy. */
function unusedSockets(server: Server): ReadonlySet<Socket> {
  const unused = new Set<Socket>();
  const known = new WeakSet<Socket>();
  server.on("connection", (socket: Socket) => {
    // Reported again after an offer of another protocol.
    if (known.has(socket)) return;
    known.add(socket);
    unused.add(socket);
    socket.once("close", () => unused.delete(socket));
  });
  for (const event of ["request", "upgrade"]) {
    server.on(event, ({ socket }: { readonly socket: Socket }) => unused.delete(socket));
  }
  return unused;
}
