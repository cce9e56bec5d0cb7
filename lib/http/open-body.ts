/** Bodies that stay open while a run executes, and are sent in chunks as their reader pulls. */
import { surrogateSafeEnd } from "../json.ts";
import type { StreamGuard } from "../streams/stream-guard.ts";
import type { HeaderValues } from "./respond.ts";
import type { RequestContext, StreamingBodies } from "./route.ts";

const HEARTBEAT_INTERVAL_MS = 5_000;
/** A body with nothing to send for this long starts with a heartbeat: some servers send no headers before the first byte. */
const FIRST_HEARTBEAT_MS = 1_000;
/** A reader that takes nothing during this many heartbeats is disconnected. */
const MAX_MISSED_HEARTBEATS = 6;
/** The size of a chunk in characters, about. It bounds the memory that a stalled reader costs. */
export const CHUNK_CHARS: number = 4 * 1024;
const encoder = new TextEncoder();

/** Takes the chunks of a body, as the controller of a `ReadableStream` does. */
type Sink = Pick<ReadableStreamDefaultController<Uint8Array>, "enqueue" | "close" | "error">;

/** A body that is sent in chunks: each pull is answered by one chunk, by a close or by an error. */
interface StreamingBody {
  pull(sink: Sink): void;
  cancel(): void;
}

/** By this member of a response `serve` and `toNodeHandler` find its body: without the web stream around it a chunk costs them half. */
const STREAMING_BODY = Symbol.for("greenroom.open-body");

/** A response with the text of the source as its body, which fails when the caller loses the access to it. */
export function createStreamingResponse(
  { handler: { streamingBodies }, guard }: Pick<RequestContext, "handler" | "guard">,
  source: BodySource,
  headers: HeaderValues,
): Response {
  const open = new ChunkedBody(streamingBodies, guard, source);
  const stream = new ReadableStream<Uint8Array>(open, { highWaterMark: 0 });
  return Object.assign(new Response(stream, { headers }), { [STREAMING_BODY]: { open, stream } });
}

/** `last`: nothing follows these pieces. `keepsAlive`: frames whose texts other readers share while something refers to them. */
export interface SourceText {
  readonly pieces: readonly string[];
  readonly isLast: boolean;
  readonly retainedFrames?: unknown;
}

/** The text of an open body. */
export interface BodySource {
  /** Sent at every heartbeat, before the text that is ready. */
  readonly heartbeat: string;
  /** The body begins with a heartbeat, and closes normally where it would fail. */
  readonly isEndless?: boolean;
  /** Some of the text that is ready now, in pieces. */
  takeText(): SourceText;
  /** Resolves to true when `take` has more, to false when nothing follows. Called when `take` gave nothing. */
  waitForText(): Promise<boolean>;
  /** Called with the error that ends the body, before `leave`. */
  onError(error: unknown): void;
  /**
   * Releases what the source reads. Called when the body ends before its last text, for whatever reason; may be called twice, and after
   * the last text too.
   */
  release(): void;
  /** Called once when the body has been sent, has failed, or has no reader. */
  onEnd?(): void;
  /** Milliseconds after which a reader that takes nothing is disconnected. Default: that of all streams. */
  stalled_ms?(): number | undefined;
}

/** Cuts the text of a source into chunks. */
class Chunker {
  readonly #source: BodySource;
  /** What was taken last. It keeps alive what the pieces share until more is taken. */
  #lastText: SourceText = { pieces: [], isLast: false };
  /** The pieces of it that are not sent, the first one perhaps in part. */
  #unsentPieces: string[] = [];
  #isHeartbeatDue: boolean;

  constructor(source: BodySource) {
    this.#source = source;
    this.#isHeartbeatDue = source.isEndless ?? false;
  }

  /** Puts a heartbeat before the text that is taken next. */
  requestHeartbeat(): void {
    this.#isHeartbeatDue = true;
  }

  /** Returns the next chunk; empty when nothing is ready. */
  nextChunk(): string {
    if (this.#unsentPieces.length === 0) {
      this.#lastText = this.#source.takeText();
      const { pieces } = this.#lastText;
      const [onlyPiece = ""] = pieces;
      // Most chunks are one short piece, which nothing needs to cut or copy.
      if (!this.#isHeartbeatDue && pieces.length === 1 && onlyPiece.length <= CHUNK_CHARS) return onlyPiece;
      this.#unsentPieces = [...(this.#isHeartbeatDue ? [this.#source.heartbeat] : []), ...pieces];
      this.#isHeartbeatDue = false;
    }
    return this.#cutChunk();
  }

  /** Removes a chunk from the unsent pieces, and returns it. */
  #cutChunk(): string {
    let chunk = "";
    let count = 0;
    for (const piece of this.#unsentPieces) {
      const pieceEndIndex = surrogateSafeEnd(piece, Math.max(0, CHUNK_CHARS - chunk.length));
      if (piece.length > pieceEndIndex) {
        chunk += piece.slice(0, pieceEndIndex);
        this.#unsentPieces[count] = piece.slice(pieceEndIndex);
        break;
      }
      chunk += piece;
      count++;
    }
    this.#unsentPieces = this.#unsentPieces.slice(count);
    return chunk;
  }

  /** True once the last chunk was returned. */
  isDone(): boolean {
    return this.#lastText.isLast && this.#unsentPieces.length === 0;
  }

  clear(): void {
    this.#lastText = { pieces: [], isLast: true };
    this.#unsentPieces = [];
  }
}

/**
 * Sends what is ready in chunks, and takes nothing before the reader pulls. Heartbeats come at a fixed rate from the first pull,
 * because clients measure the gaps. Those during which the reader does not pull are sent as one. An early heartbeat starts a body that
 * has nothing to send.
 */
class ChunkedBody implements StreamingBody {
  readonly #bodies: StreamingBodies;
  readonly #guard: RequestContext["guard"];
  readonly #source: BodySource;
  readonly #chunker: Chunker;
  /** The sink of the last pull. */
  #sink: Sink | undefined;
  /** The reader waits for a chunk. */
  #isPulled = false;
  #isWaitingForText = false;
  #isWaitingForTick = false;
  #isClosed = false;
  /** The number of heartbeats since the last pull. */
  #missedHeartbeats = 0;
  #cancelHeartbeat: (() => void) | undefined;
  #cancelFirstHeartbeat: (() => void) | undefined;
  #openGuard: StreamGuard | undefined;

  constructor(bodies: StreamingBodies, guard: RequestContext["guard"], source: BodySource) {
    this.#bodies = bodies;
    this.#guard = guard;
    this.#source = source;
    this.#chunker = new Chunker(source);
    bodies.openCount++;
  }

  pull(sink: Sink): void {
    this.#sink = sink;
    this.#isPulled = true;
    this.#missedHeartbeats = 0;
    if (!this.#cancelHeartbeat) this.#start();
    this.#sendIfPulled();
  }

  cancel(): void {
    this.#close();
    this.#source.release();
  }

  #start(): void {
    this.#scheduleHeartbeat();
    this.#openGuard = this.#guard(() => {
      if (!this.#isClosed) this.#fail();
    });
    this.#cancelFirstHeartbeat = this.#bodies.environment.timer(FIRST_HEARTBEAT_MS, () => this.#sendHeartbeat());
  }

  #scheduleHeartbeat(): void {
    this.#cancelHeartbeat = this.#bodies.environment.timer(HEARTBEAT_INTERVAL_MS, () => {
      if (!this.#isPulled && ++this.#missedHeartbeats >= this.#maxMissedHeartbeats()) {
        this.#fail({ isStalled: true });
        return;
      }
      this.#scheduleHeartbeat();
      this.#sendHeartbeat();
    });
  }

  #maxMissedHeartbeats(): number {
    const stalled_ms = this.#source.stalled_ms?.();
    return stalled_ms === undefined ? MAX_MISSED_HEARTBEATS : Math.ceil(stalled_ms / HEARTBEAT_INTERVAL_MS);
  }

  #sendHeartbeat(): void {
    this.#chunker.requestHeartbeat();
    this.#sendIfPulled();
  }

  /** Sends a chunk if the reader has pulled, in a later tick if this one has sent enough. */
  #sendIfPulled(): void {
    if (!this.#isPulled || this.#isClosed || this.#isWaitingForTick) return;
    const { tickBudget } = this.#bodies;
    if (!tickBudget.isReached()) {
      this.#sendChunk();
      return;
    }
    this.#isWaitingForTick = true;
    tickBudget.wait(() => {
      this.#isWaitingForTick = false;
      this.#sendIfPulled();
    });
  }

  /** Sends the next chunk, or waits for text. An error ends this body alone: no caller could catch it. */
  #sendChunk(): void {
    try {
      const chunk = this.#chunker.nextChunk();
      const isDone = this.#chunker.isDone();
      // Closed before the last chunk goes out: the server may pull or cancel inside `enqueue`, and a complete body must not fail then.
      if (isDone) this.#close();
      if (chunk) {
        this.#isPulled = false;
        this.#cancelFirstHeartbeat?.();
        this.#bodies.tickBudget.spend(1);
        this.#sink?.enqueue(encoder.encode(chunk));
      }
      if (isDone) this.#sink?.close();
      else if (this.#isPulled && !this.#isWaitingForText) this.#waitForText();
    } catch (error) {
      // A server may cancel the body inside `enqueue`; later calls of the controller then throw.
      this.#failWith(error);
    }
  }

  #waitForText(): void {
    this.#isWaitingForText = true;
    this.#source
      .waitForText()
      .then(
        (hasText) => {
          this.#isWaitingForText = false;
          if (hasText) this.#sendIfPulled();
          else if (!this.#isClosed) this.#fail();
        },
        (error: unknown) => this.#failWith(error),
      )
      // An error of one reader, or of the log, must not end the process.
      .catch(() => {});
  }

  /** Ends the body because of an error, unless it has ended. */
  #failWith(error: unknown): void {
    if (this.#isClosed) return;
    this.#source.onError(error);
    this.#fail();
  }

  /** Ends the body with an error, so that the client sees it is incomplete. */
  #fail({ isStalled = false } = {}): void {
    this.cancel();
    // Closing would wait for a reader that has stalled.
    if (this.#source.isEndless && !isStalled) this.#sink?.close();
    else this.#sink?.error(new Error("The body ended before it was complete"));
  }

  #close(): void {
    if (!this.#isClosed) {
      this.#bodies.openCount--;
      this.#source.onEnd?.();
    }
    this.#isClosed = true;
    this.#chunker.clear();
    this.#cancelHeartbeat?.();
    this.#cancelFirstHeartbeat?.();
    this.#openGuard?.close();
  }
}
