/** Bodies of the handler that are sent while a run executes. Without the web stream around them, a chunk or a short answer costs half. */
import type { Writable } from "node:stream";

interface ChunkSink {
  enqueue(chunk: Uint8Array): void;
  close(): void;
  error(reason: unknown): void;
}

/** Each pull is answered by one chunk, by a close or by an error. */
export interface StreamingBody {
  pull(sink: ChunkSink): void;
  cancel(): void;
}

const STREAMING_BODY = Symbol.for("greenroom.open-body");

interface TaggedResponse {
  readonly [STREAMING_BODY]?: { readonly open: StreamingBody; readonly stream: ReadableStream };
}

/**
 * Returns the source of a streaming body, which gives its chunks without a stream between. Undefined for other
 * responses, and for one whose stream somebody else reads or has replaced.
 */
export function findStreamingBody(response: Response): StreamingBody | undefined {
  const { open, stream } = (response as TaggedResponse)[STREAMING_BODY] ?? {};
  return stream && !stream.locked && response.body === stream ? open : undefined;
}

/**
 * Starts to write a body at the speed of the client, and returns at once. Ends the answer with the body, destroys it if the body
 * fails, and cancels the body when the client has gone.
 */
export function writeBody(body: StreamingBody, outgoing: Writable): void {
  let hasEnded = false;
  const pull = (): void => {
    if (!hasEnded) body.pull(sink);
  };
  const sink: ChunkSink = {
    enqueue(chunk) {
      if (outgoing.write(chunk)) queueMicrotask(pull);
    },
    close() {
      hasEnded = true;
      outgoing.end();
    },
    error() {
      hasEnded = true;
      outgoing.destroy();
    },
  };
  /** Cancels the body unless it has ended. Later calls do nothing. */
  const cancelBody = (): void => {
    if (!hasEnded) body.cancel();
    hasEnded = true;
  };
  outgoing.on("drain", pull).once("close", cancelBody);
  if (outgoing.destroyed) cancelBody();
  else pull();
}

/**
 * Returns the answer for Bun, which sends headers with the first bytes: it resolves with the first chunk. A body that ends with
 * that chunk is answered whole, without a stream. If the request is aborted before, the body is cancelled and the answer is
 * empty. It does not reject: a failure is one of its stream.
 */
export function toBunResponse(response: Response, body: StreamingBody, signal: AbortSignal): Promise<Response> {
  const pendingResponse = Promise.withResolvers<Response>();
  let firstChunk: Uint8Array<ArrayBuffer> | undefined;
  let hasClosed = false;
  let failure: { readonly reason: unknown } | undefined;

  /** Resolves the answer with this content; only the first call counts. */
  function settle(content: Uint8Array<ArrayBuffer> | ReadableStream | null): void {
    signal.removeEventListener("abort", cancelBody);
    pendingResponse.resolve(new Response(content, response));
  }

  /** Cancels the body and resolves the answer without one. */
  function cancelBody(): void {
    body.cancel();
    settle(null);
  }

  /**
   * Returns a stream that gives the first chunk, or fails, and then pulls the rest of the body on demand. Its
   * cancellation cancels the body.
   */
  const createStream = (): ReadableStream =>
    new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          if (firstChunk) controller.enqueue(firstChunk);
          else if (failure) controller.error(failure.reason);
          else body.pull(controller);
          firstChunk = undefined;
        },
        cancel: () => body.cancel(),
      },
      { highWaterMark: 0 },
    );

  signal.addEventListener("abort", cancelBody);
  body.pull({
    /**
     * Keeps the first chunk, and resolves the answer in a microtask: with that chunk alone if the body has closed by
     * then, else with a stream.
     */
    enqueue(chunk) {
      firstChunk = chunk as Uint8Array<ArrayBuffer>;
      // It is closed, if at all, right after.
      queueMicrotask(() => settle(hasClosed ? (chunk as Uint8Array<ArrayBuffer>) : createStream()));
    },
    /** Ends the body. Resolves the answer without a body if no chunk has come. */
    close() {
      hasClosed = true;
      if (!firstChunk) settle(null);
    },
    /** Keeps the failure for the stream. If no chunk has come, resolves the answer with a stream that fails. */
    error(reason) {
      failure = { reason };
      if (!firstChunk) settle(createStream());
    },
  });
  return pendingResponse.promise;
}
