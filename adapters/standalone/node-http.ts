/** A fetch handler on `node:http`: what Bun.serve and Deno.serve bring along. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";

/** A body is not asked for more while so much of it waits for the socket. A request's is read ahead as far. */
const UNSENT_SIZE = 16 * 1024;

export type Fetch = (request: Request) => Response | Promise<Response>;

/** A server that is not listening yet. Bodies stream both ways; a client that goes away cancels the response's body. */
export function nodeServer(handler: Fetch): Server {
  return createServer(
    // A request has as long as it needs (a run may take hours), its headers have not.
    {
      headersTimeout: 10_000,
      requestTimeout: 0,
      keepAliveTimeout: 30_000,
      connectionsCheckingInterval: 2_000,
      highWaterMark: UNSENT_SIZE,
    },
    (incoming, outgoing) => void answer(handler, incoming, outgoing),
  );
}

async function answer(handler: Fetch, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  // A socket that breaks is an event of its own ("close"); unheard it would end the process.
  outgoing.on("error", () => {});
  outgoing.once("finish", () => discard(incoming));
  let request: Request;
  try {
    request = toRequest(incoming);
  } catch {
    outgoing.writeHead(400, { "content-type": "application/json", connection: "close" });
    outgoing.end('{"detail":"The request line or a header cannot be read"}');
    return;
  }
  try {
    await send(await handler(request), incoming, outgoing);
  } catch {
    if (outgoing.headersSent) outgoing.destroy();
    else outgoing.writeHead(500, { "content-type": "application/json" }).end('{"detail":"Internal Server Error"}');
  }
}

function toRequest(incoming: IncomingMessage): Request {
  const { method = "GET", url = "/", rawHeaders } = incoming;
  // Only the origin form: "//other" or "http://other/" must not become another host than the header names.
  if (!url.startsWith("/") || !incoming.headers.host) throw new TypeError("Not in origin form");
  const headers = new Headers();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    headers.append(rawHeaders[at] as string, rawHeaders[at + 1] as string);
  }
  const base = new URL(`http://${incoming.headers.host}`);
  const empty = incoming.headers["content-length"] === "0" || incoming.complete;
  const body = method === "GET" || method === "HEAD" || empty ? null : toBody(incoming);
  return new Request(`${base.origin}${url}`, { method, headers, body, duplex: "half" } as RequestInit);
}

/** Reads from the socket only what is asked for. */
function toBody(incoming: IncomingMessage): ReadableStream<Uint8Array> {
  incoming.pause();
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        let open = true;
        const fail = (): void => {
          if (open) controller.error(new TypeError("The client went away before its request was complete"));
          open = false;
        };
        incoming.on("data", (bytes: Uint8Array) => {
          if (!open) return;
          // A view on Node's pooled memory is not handed out.
          controller.enqueue(new Uint8Array(bytes));
          incoming.pause();
        });
        incoming.on("end", () => {
          if (open) controller.close();
          open = false;
        });
        incoming.on("error", fail);
        incoming.on("close", fail);
      },
      pull() {
        incoming.resume();
      },
      cancel() {
        incoming.removeAllListeners("data");
        incoming.removeAllListeners("end");
        incoming.removeAllListeners("close");
        incoming.pause();
      },
    },
    { highWaterMark: 0 },
  );
}

/** What nobody read of a request is let through for a second, so that the client sees the answer before the end. */
function discard(incoming: IncomingMessage): void {
  if (incoming.complete) return;
  incoming.resume();
  setTimeout(() => incoming.socket.destroy(), 1_000).unref();
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
