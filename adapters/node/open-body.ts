/** Bodies of the handler that are sent while a run executes. Served without the web stream around them, a chunk costs half. */
import type { Writable } from "node:stream";

interface Sink {
  enqueue(chunk: Uint8Array): void;
  close(): void;
  error(reason: unknown): void;
}

/** Each pull is answered by one chunk, by a close or by an error. */
export interface OpenBody {
  pull(sink: Sink): void;
  cancel(): void;
}

const OPEN_BODY = Symbol.for("greenroom.open-body");

interface Tagged {
  readonly [OPEN_BODY]?: { readonly open: OpenBody; readonly stream: ReadableStream };
}

/** Undefined for other responses, and for one whose stream somebody else reads. */
export function openBodyOf(response: Response): OpenBody | undefined {
  const { open, stream } = (response as Tagged)[OPEN_BODY] ?? {};
  return stream && !stream.locked && response.body === stream ? open : undefined;
}

/** Writes a body at the speed of the client, and cancels it when the client has gone. */
export function writeBody(body: OpenBody, outgoing: Writable): void {
  let ended = false;
  const pull = (): void => {
    if (!ended) body.pull(sink);
  };
  const sink: Sink = {
    enqueue(chunk) {
      if (outgoing.write(chunk)) queueMicrotask(pull);
    },
    close() {
      ended = true;
      outgoing.end();
    },
    error() {
      ended = true;
      outgoing.destroy();
    },
  };
  const leave = (): void => {
    if (!ended) body.cancel();
    ended = true;
  };
  outgoing.on("drain", pull).once("close", leave);
  if (outgoing.destroyed) leave();
  else pull();
}

/** What Bun gives to a stream of type `direct`. */
interface BunSink {
  write(chunk: Uint8Array): unknown;
  /** Resolves when the socket takes more. */
  flush(wait: true): Promise<unknown>;
  end(): void;
}

/**
 * The answer for Bun, which sends headers with the first bytes: it resolves with the first chunk. What ends with that is no stream
 * any more, and other bodies are streams of Bun's own type: chunks go to the socket without a queue. `signal`: of the request.
 */
export function answerOnBun(response: Response, body: OpenBody, signal: AbortSignal): Promise<Response> {
  const answer = Promise.withResolvers<Response>();
  const end = Promise.withResolvers<void>();
  let out: BunSink | undefined;
  let first: Uint8Array<ArrayBuffer> | undefined;
  let over = false;
  let failed = false;

  function settle(sent: Uint8Array<ArrayBuffer> | ReadableStream | null): void {
    signal.removeEventListener("abort", leave);
    answer.resolve(new Response(sent, response));
  }

  function leave(): void {
    over = true;
    body.cancel();
    end.resolve();
    settle(null);
  }

  const stream = (): ReadableStream =>
    new ReadableStream({
      type: "direct",
      pull(to: BunSink) {
        out = to;
        if (first) send(first);
        if (over && !failed) to.end();
        return end.promise;
      },
      cancel: leave,
    } as unknown as UnderlyingDefaultSource);

  const pull = (): void => {
    if (!over) body.pull(sink);
  };

  function send(chunk: Uint8Array): void {
    out?.write(chunk);
    out?.flush(true).then(pull, leave);
  }

  const sink: Sink = {
    enqueue(chunk) {
      if (out) return send(chunk);
      first = chunk as Uint8Array<ArrayBuffer>;
      // It is closed, if at all, right after.
      queueMicrotask(() => settle(over && !failed ? (chunk as Uint8Array<ArrayBuffer>) : stream()));
    },
    close() {
      over = true;
      out?.end();
      end.resolve();
      if (!first) settle(null);
    },
    error(reason) {
      over = failed = true;
      end.reject(reason);
      if (!first) settle(stream());
    },
  };
  // It may fail before Bun reads the stream.
  end.promise.catch(() => {});
  signal.addEventListener("abort", leave);
  pull();
  return answer.promise;
}
