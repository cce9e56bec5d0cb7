/** WebSockets on Node: the `upgrade` event of a server, and the package `ws`. */
import type { IncomingMessage, Server } from "node:http";
import type { Duplex } from "node:stream";
import type { WebSocket, WebSocketServer } from "ws";
import { type FetchHandler, sendBody, toRequest } from "./handler.ts";

/** A listener for the `upgrade` event of `node:http` servers. */
export type UpgradeListener = (this: Server, incoming: IncomingMessage, socket: Duplex, head: Buffer) => void;

const PING_INTERVAL_MS = 30_000;

/**
 * Returns a listener that opens WebSockets, for the `upgrade` event of the server that `toNodeHandler` serves. Rejects without
 * the package `ws`. A handshake that the handler refuses gets its response; an offer of another protocol is ignored and the
 * request served as usual.
 * @example
 * ```ts
 * import { createServer } from "node:http";
 * import { createApp } from "greenroom/app";
 * import { toNodeHandler, toUpgradeListener } from "greenroom/node";
 *
 * const app = await createApp({
 *   database: "agents.db",
 *   agents: { echo: ({ messages }) => `Message ${messages.length}` },
 * });
 * const server = createServer(toNodeHandler(app.fetch));
 * server.on("upgrade", await toUpgradeListener(app.fetch));
 * server.listen(3000);
 * ```
 */
export async function toUpgradeListener(handler: FetchHandler): Promise<UpgradeListener> {
  const { WebSocketServer } = await import("ws");
  const servers = new Map<number, WebSocketServer>();
  /** Returns the WebSocket server for a limit of the message size. Creates one per limit. */
  const getServer = (maxPayload: number): WebSocketServer => {
    const server = servers.get(maxPayload) ?? new WebSocketServer({ noServer: true, maxPayload });
    servers.set(maxPayload, server);
    return server;
  };
  return function (incoming, socket, head) {
    const { method, headers } = incoming;
    // Only a GET can open a WebSocket, and others may have a body.
    if (method !== "GET" || headers.upgrade?.toLowerCase() !== "websocket")
      serveWithoutUpgrade(this, incoming, socket, head);
    else void upgrade(handler, getServer, { incoming, socket, head });
  };
}

/**
 * Resolves with the listener of `toUpgradeListener`. Resolves with undefined if it cannot be created, without the
 * package `ws`: the server then serves everything but WebSockets.
 */
export async function loadUpgradeListener(handler: FetchHandler): Promise<UpgradeListener | undefined> {
  try {
    return await toUpgradeListener(handler);
  } catch {
    return undefined;
  }
}

/** The arguments of the `upgrade` event of a server. */
interface Handshake {
  readonly incoming: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
}

/**
 * Passes a handshake to the handler, with a function that opens the socket. Only if the handler never called that function, its
 * response is written, 400 if it throws, and the connection closed. An open socket is pinged, and terminated if the peer is dead.
 * Never rejects.
 */
async function upgrade(
  handler: FetchHandler,
  getServer: (max_bytes: number) => WebSocketServer,
  { incoming, socket, head }: Handshake,
): Promise<void> {
  // Without a listener a broken socket would end the process.
  socket.on("error", () => {});
  let isUpgraded = false;
  /**
   * Opens the socket, pings it from then on, and returns it; null if the handshake was invalid, which is then already answered.
   */
  const upgradeWebSocket = ({ max_bytes }: { readonly max_bytes: number }): { readonly socket: object } | null => {
    let openedSocket: WebSocket | undefined;
    isUpgraded = true;
    getServer(max_bytes).handleUpgrade(incoming, socket, head, (webSocket) => {
      openedSocket = webSocket;
    });
    if (!openedSocket) return null;
    terminateDeadConnection(openedSocket);
    return { socket: withSendPart(openedSocket) };
  };
  let response: Response;
  try {
    const address = incoming.socket.remoteAddress ?? null;
    response = await handler(toRequest(incoming, null), { upgradeWebSocket, address });
  } catch {
    response = new Response(null, { status: 400 });
  }
  if (!isUpgraded) writeResponse(socket, response);
}

/** Returns the socket with `sendPart`, which sends a message in fragments. */
function withSendPart(socket: WebSocket): object {
  return {
    get bufferedAmount() {
      return socket.bufferedAmount;
    },
    send: (text: string) => socket.send(text),
    sendPart: (text: string, fin: boolean) => socket.send(text, { fin }),
    close: (code?: number, reason?: string) => socket.close(code, reason),
    addEventListener: socket.addEventListener.bind(socket),
  };
}

/** Pings the client again and again until the socket closes. Terminates it if a ping got no answer before the next one. */
function terminateDeadConnection(socket: WebSocket): void {
  let isAlive = true;
  const timer = setInterval(() => {
    if (!isAlive) return socket.terminate();
    isAlive = false;
    socket.ping();
  }, PING_INTERVAL_MS);
  timer.unref();
  socket.on("pong", () => {
    isAlive = true;
  });
  socket.on("close", () => clearInterval(timer));
}

/** Writes a response to a socket that HTTP has left, and closes it. What the client still sends is dropped. */
function writeResponse(socket: Duplex, { status, statusText, headers, body }: Response): void {
  const lines = [
    `HTTP/1.1 ${status} ${statusText}`,
    ...[...headers, ["connection", "close"]].map(([name, value]) => `${name}: ${value}`),
  ];
  socket.once("finish", () => socket.destroy());
  // What the client sends is dropped. Sockets of `node:http` stay open when it has left.
  socket.once("end", () => socket.destroy()).resume();
  socket.write(Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"));
  if (body) sendBody(body, socket).catch(() => socket.destroy());
  else socket.end();
}

const UPGRADE_HEADERS = new Set(["upgrade", "connection", "http2-settings"]);

/**
 * Serves a request that offers another protocol, such as h2c, as if it did not, because with a listener Node reports each offer.
 * Puts the head without the offer back into the socket and gives that to the server as a new connection.
 */
function serveWithoutUpgrade(
  server: Server,
  { method, url, rawHeaders }: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): void {
  const lines = [`${method} ${url} HTTP/1.1`];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (!UPGRADE_HEADERS.has((rawHeaders[index] as string).toLowerCase()))
      lines.push(`${rawHeaders[index]}: ${rawHeaders[index + 1]}`);
  }
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), head]));
  server.emit("connection", socket);
}
