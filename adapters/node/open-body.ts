/** Bodies of the handler that are sent while a run executes. Without the web stream around them, a chunk or a short answer costs half. */
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

/**
 * The answer for Bun, which sends headers with the first bytes: it resolves with the first chunk. A body that ends with
 * that chunk is answered whole, without a stream. `signal`: of the request.
 */
export function answerOnBun(response: Response, body: OpenBody, signal: AbortSignal): Promise<Response> {
  const answer = Promise.withResolvers<Response>();
  let first: Uint8Array<ArrayBuffer> | undefined;
  let closed = false;
  let failure: { readonly reason: unknown } | undefined;

  function settle(sent: Uint8Array<ArrayBuffer> | ReadableStream | null): void {
    signal.removeEventListener("abort", leave);
    answer.resolve(new Response(sent, response));
  }

  function leave(): void {
    body.cancel();
    settle(null);
  }

  const stream = (): ReadableStream =>
    new ReadableStream<Uint8Array>(
      {
        pull(to) {
          if (first) to.enqueue(first);
          else if (failure) to.error(failure.reason);
          else body.pull(to);
          first = undefined;
        },
        cancel: () => body.cancel(),
      },
      { highWaterMark: 0 },
    );

  signal.addEventListener("abort", leave);
  body.pull({
    enqueue(chunk) {
      first = chunk as Uint8Array<ArrayBuffer>;
      // It is closed, if at all, right after.
      queueMicrotask(() => settle(closed ? (chunk as Uint8Array<ArrayBuffer>) : stream()));
    },
    close() {
      closed = true;
      if (!first) settle(null);
    },
    error(reason) {
      failure = { reason };
      if (!first) settle(stream());
    },
  });
  return answer.promise;
}
