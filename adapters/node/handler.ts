/** `toNodeHandler`: a fetch handler as a request listener of `node:http`, Express and Connect. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Writable } from "node:stream";
import { findStreamingBody, writeBody } from "./streaming-body.ts";
import { UNREAD_BODY_TIMEOUT_MS } from "./unfinished-body.ts";

/** Answers a web-standard request, like the handlers that `createHandler` and `createApp` make. `host`: see `HandlerHost`. */
export type FetchHandler = (request: Request, host?: object) => Response | Promise<Response>;

/** A request listener of `node:http`, and a handler of Express and Connect. */
export type NodeHandler = (incoming: IncomingMessage, outgoing: ServerResponse) => void;

/**
 * Turns a fetch handler into a request listener of `node:http`, Express and Connect. Bodies stream both ways. A client that
 * disconnects cancels the response's body. Mount it before body parsers: it reads request bodies itself.
 *
 * @example
 * ```ts
 * import express from "express";
 * import { createApp } from "greenroom/app";
 * import { toNodeHandler } from "greenroom/node";
 *
 * const agents = await createApp({
 *   database: "agents.db",
 *   agents: { echo: ({ messages }) => `Message ${messages.length}` },
 *   http: { prefix: "/agents" },
 * });
 * express().use("/agents", toNodeHandler(agents.fetch)).listen(3000);
 * ```
 */
export function toNodeHandler(handler: FetchHandler): NodeHandler {
  return (incoming, outgoing) => void handleRequest(handler, incoming, outgoing);
}

/**
 * Answers a request of `node:http` with the handler's response. Never rejects: a request that cannot be read gets 400, a failed
 * handler or a body that was read before 500. An answer that has begun is cut off. The rest of an unread body is read and
 * dropped.
 */
async function handleRequest(
  handler: FetchHandler,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  // Without a listener a broken socket would end the process. "close" reports it as well.
  outgoing.on("error", () => {});
  if (hasBody(incoming) && incoming.readableEnded) {
    // The body is gone: the request would look as if it had none.
    sendError(
      outgoing,
      500,
      "internal",
      "A body parser has read this request: mount the handler before it, as before express.json()",
    );
    return;
  }
  let body: RequestBody | null;
  let request: Request;
  try {
    body = hasBody(incoming) ? toRequestBody(incoming) : null;
    request = toRequest(incoming, body);
  } catch {
    outgoing.setHeader("connection", "close");
    sendError(outgoing, 400, "bad_request", "The request line or a header cannot be read");
    return;
  }
  outgoing.once("finish", () => {
    body?.stopReading();
    drainRequest(incoming);
  });
  try {
    await send(await handler(request, new NodeRequestHost(incoming, outgoing)), incoming, outgoing);
  } catch {
    if (outgoing.headersSent) outgoing.destroy();
    else sendError(outgoing, 500, "internal", "Internal Server Error");
  }
}

/** The members of the connection of one request that the handler may use. */
class NodeRequestHost {
  readonly #incoming: IncomingMessage;
  readonly #outgoing: ServerResponse;
  #signal: AbortSignal | undefined;

  constructor(incoming: IncomingMessage, outgoing: ServerResponse) {
    this.#incoming = incoming;
    this.#outgoing = outgoing;
  }

  get address(): string | null {
    return this.#incoming.socket.remoteAddress ?? null;
  }

  /** Aborted when the client has gone before the answer was complete. Created on first use: few requests need it. */
  get signal(): AbortSignal {
    if (this.#signal) return this.#signal;
    const abortController = new AbortController();
    const outgoing = this.#outgoing;
    const abort = (): void => {
      if (!outgoing.writableFinished) abortController.abort();
    };
    if (outgoing.destroyed) abort();
    else outgoing.once("close", abort);
    this.#signal = abortController.signal;
    return abortController.signal;
  }
}

function sendError(outgoing: ServerResponse, status: number, code: string, detail: string): void {
  outgoing.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ detail, code }));
}

/** Returns true if the headers announce a body. Bodies of GET and HEAD are ignored. */
function hasBody({ method, headers }: IncomingMessage): boolean {
  const { "content-length": length = "0", "transfer-encoding": encoding } = headers;
  return method !== "GET" && method !== "HEAD" && (length !== "0" || encoding !== undefined);
}

/**
 * Converts a request of `node:http`, with its full URL, also below a mount path. Throws a TypeError for a URL that is not a path,
 * or without a `host` header.
 */
export function toRequest(incoming: IncomingMessage, body: RequestBody | null): Request {
  const { method = "GET", rawHeaders } = incoming;
  // Express and Connect remove the mount path from `url`.
  const { originalUrl: url = incoming.url ?? "/" } = incoming as { readonly originalUrl?: string };
  // Only the origin form: "//other" or "http://other/" must not become another host than the header names.
  if (!url.startsWith("/") || !incoming.headers.host) throw new TypeError("Not in origin form");
  const headers = new Headers();
  for (let index = 0; index < rawHeaders.length; index += 2) {
    headers.append(rawHeaders[index] as string, rawHeaders[index + 1] as string);
  }
  const base = new URL(`http://${incoming.headers.host}`);
  return new Request(`${base.origin}${url}`, { method, headers, body: body?.stream, duplex: "half" } as RequestInit);
}

export interface RequestBody {
  readonly stream: ReadableStream<Uint8Array>;
  /** Takes nothing more from the request. */
  stopReading(): void;
}

/**
 * Converts the request body to a stream that reads from the socket only when it is pulled. Pauses the request at once. The stream
 * fails if the client goes away before its end; after `stopReading` it gets nothing more.
 */
function toRequestBody(incoming: IncomingMessage): RequestBody {
  incoming.pause();
  let controller: ReadableStreamDefaultController<Uint8Array>;
  /**
   * Passes a copy of the bytes to the body, because Node reuses the memory, and pauses the request until the body is pulled
   * again.
   */
  const onData = (bytes: Uint8Array): void => {
    controller.enqueue(new Uint8Array(bytes));
    incoming.pause();
  };
  const onEnd = (): void => {
    stopReading();
    controller.close();
  };
  /** Stops reading and fails the stream, because the client went away before the end. */
  const onError = (): void => {
    stopReading();
    controller.error(new TypeError("The client went away before its request was complete"));
  };
  const stopReading = (): void => {
    incoming.off("data", onData).off("end", onEnd).off("error", onError).off("close", onError);
  };
  const stream = new ReadableStream<Uint8Array>(
    {
      start(streamController) {
        controller = streamController;
        // Without a listener, later errors would end the process.
        incoming.on("error", () => {});
        incoming.on("data", onData).on("end", onEnd).on("error", onError).on("close", onError);
      },
      pull() {
        incoming.resume();
      },
      cancel() {
        stopReading();
        incoming.pause();
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, stopReading };
}

/**
 * Reads the unread rest of a request for a while, because a client that still sends would otherwise not see the answer. Then
 * destroys the connection. Does nothing for a complete request.
 */
function drainRequest(incoming: IncomingMessage): void {
  if (incoming.complete) return;
  const timeout = setTimeout(() => incoming.socket.destroy(), UNREAD_BODY_TIMEOUT_MS);
  timeout.unref();
  const cancelTimeout = (): void => clearTimeout(timeout);
  incoming.once("end", cancelTimeout).once("close", cancelTimeout);
  incoming.resume();
}

/**
 * Sends the response, the headers first. Resolves when the body is written, but at once for a body that streams. The body of a
 * HEAD request is cancelled.
 */
async function send(response: Response, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  outgoing.writeHead(response.status, [...response.headers].flat());
  if (!response.body || incoming.method === "HEAD") {
    outgoing.end();
    await response.body?.cancel();
    return;
  }
  // Send headers before the first byte of the body exists: a client may wait for them.
  if (!outgoing.destroyed) outgoing.flushHeaders();
  const streamingBody = findStreamingBody(response);
  if (streamingBody) writeBody(streamingBody, outgoing);
  else await sendBody(response.body, outgoing);
}

/**
 * Writes a body at the speed of the client, and ends the answer. Cancels the body when the client has gone. If the body fails,
 * destroys the answer and rejects.
 */
export async function sendBody(body: ReadableStream<Uint8Array>, outgoing: Writable): Promise<void> {
  const reader = body.getReader();
  let resumeWriting: () => void = () => {};
  outgoing.on("drain", () => resumeWriting());
  outgoing.once("close", () => {
    resumeWriting();
    // No effect after a complete answer.
    reader.cancel().catch(() => {});
  });
  // The body may fail while the loop below waits for a slow client.
  reader.closed.catch(() => outgoing.destroy());
  if (outgoing.destroyed) {
    await reader.cancel();
    return;
  }
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (outgoing.write(value)) continue;
    if (outgoing.destroyed) return await reader.cancel();
    await new Promise<void>((resolve) => {
      resumeWriting = resolve;
    });
  }
  outgoing.end();
}
