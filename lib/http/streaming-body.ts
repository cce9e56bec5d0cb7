/** Streaming bodies that stay open while a run executes. They are sent in chunks at the speed of their reader. */
import { surrogateSafeEnd } from "../json.ts";
import type { StreamGuard } from "../streams/stream-guard.ts";
import type { HeaderValues } from "./respond.ts";
import type { RequestContext, StreamingBodies } from "./route.ts";

const HEARTBEAT_INTERVAL_MS = 5_000;
/** The delay before an early heartbeat of a body without text: some servers send no headers before the first byte. */
const FIRST_HEARTBEAT_MS = 1_000;
/** The number of heartbeats during which a reader may pull nothing before it is disconnected. */
const MAX_MISSED_HEARTBEATS = 6;
/** The approximate size of a chunk. It bounds the memory that a stalled reader costs. */
export const CHUNK_CHARS: number = 4 * 1024;
const encoder = new TextEncoder();

/** The receiver of the chunks of a body, such as the controller of a `ReadableStream`. */
type Sink = Pick<ReadableStreamDefaultController<Uint8Array>, "enqueue" | "close" | "error">;

/** A body that is sent in chunks. Each pull leads to one chunk, a close or an error. */
interface StreamingBody {
  pull(sink: Sink): void;
  cancel(): void;
}

/** The member of a response in which `serve` and `toNodeHandler` find its body. Without the web stream a chunk costs them half. */
const STREAMING_BODY = Symbol.for("greenroom.open-body");

/**
 * Creates a response with the text of the source as its body. Reads nothing before the first pull. The body fails when
 * the caller loses access. A host finds the body under `STREAMING_BODY` and may send it without the stream.
 */
export function createStreamingResponse(
  { handler: { streamingBodies }, guard }: Pick<RequestContext, "handler" | "guard">,
  source: BodySource,
  headers: HeaderValues,
): Response {
  const open = new ChunkedBody(streamingBodies, guard, source);
  const stream = new ReadableStream<Uint8Array>(open, { highWaterMark: 0 });
  return Object.assign(new Response(stream, { headers }), { [STREAMING_BODY]: { open, stream } });
}

/** Text in pieces. `isLast`: nothing follows. `retainedFrames`: frames whose texts other readers share while a reference exists. */
export interface SourceText {
  readonly pieces: readonly string[];
  readonly isLast: boolean;
  readonly retainedFrames?: unknown;
}

/** The source of the text of a streaming body. */
export interface BodySource {
  /** The text of a heartbeat. It is sent before the text that is ready. */
  readonly heartbeat: string;
  /** True: the body begins with a heartbeat, and closes normally where other bodies fail. */
  readonly isEndless?: boolean;
  /** Removes and returns some of the text that is ready. */
  takeText(): SourceText;
  /** Resolves to true when text is ready, and to false when nothing follows. Called when `takeText` returned nothing. */
  waitForText(): Promise<boolean>;
  /** Called with the error that ends the body, before `release`. */
  onError(error: unknown): void;
  /**
   * Releases the subscription of the source. Called when the body ends before its last text, for any reason. May be called twice, and
   * after the last text too.
   */
  release(): void;
  /** Called once when the body is complete, has failed or has no reader. */
  onEnd?(): void;
  /** Returns the milliseconds after which a stalled reader is disconnected, or undefined for the default. */
  stalled_ms?(): number | undefined;
}

/** Cuts the text of a source into chunks. */
class Chunker {
  readonly #source: BodySource;
  /** The last text of the source. The reference retains its frames until the next text. */
  #lastText: SourceText = { pieces: [], isLast: false };
  /** The pieces of `#lastText` that are not sent. The first one may be partly sent. */
  #unsentPieces: string[] = [];
  #isHeartbeatDue: boolean;

  constructor(source: BodySource) {
    this.#source = source;
    this.#isHeartbeatDue = source.isEndless ?? false;
  }

  /** Puts a heartbeat before the next text. */
  requestHeartbeat(): void {
    this.#isHeartbeatDue = true;
  }

  /**
   * Removes and returns at most `CHUNK_CHARS` characters: the rest of the unsent text, else a due heartbeat and the
   * next text of the source. Returns an empty text if nothing is ready.
   */
  nextChunk(): string {
    if (this.#unsentPieces.length === 0) {
      this.#lastText = this.#source.takeText();
      const { pieces } = this.#lastText;
      const [onlyPiece = ""] = pieces;
      // Most chunks are one short piece, which needs no cut and no copy.
      if (!this.#isHeartbeatDue && pieces.length === 1 && onlyPiece.length <= CHUNK_CHARS) return onlyPiece;
      this.#unsentPieces = [...(this.#isHeartbeatDue ? [this.#source.heartbeat] : []), ...pieces];
      this.#isHeartbeatDue = false;
    }
    return this.#cutChunk();
  }

  /** Removes and returns at most `CHUNK_CHARS` characters of the unsent pieces. Does not split a surrogate pair. */
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

  /** Returns true once the last chunk was returned. */
  isDone(): boolean {
    return this.#lastText.isLast && this.#unsentPieces.length === 0;
  }

  /** Drops the unsent text. `isDone` returns true from then on. */
  clear(): void {
    this.#lastText = { pieces: [], isLast: true };
    this.#unsentPieces = [];
  }
}

/**
 * Sends text in chunks, one for each pull. Heartbeats are due at a fixed rate from the first pull, because clients measure the gaps.
 * Heartbeats between two pulls are sent as one. An early heartbeat starts a body that has nothing to send.
 */
class ChunkedBody implements StreamingBody {
  readonly #bodies: StreamingBodies;
  readonly #guard: RequestContext["guard"];
  readonly #source: BodySource;
  readonly #chunker: Chunker;
  #sink: Sink | undefined;
  /** True while the reader waits for a chunk. */
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

  /**
   * Keeps `sink` and sends it a chunk, at once or when there is text. Resets the missed heartbeats. The first pull
   * starts heartbeats and the guard.
   */
  pull(sink: Sink): void {
    this.#sink = sink;
    this.#isPulled = true;
    this.#missedHeartbeats = 0;
    if (!this.#cancelHeartbeat) this.#start();
    this.#sendIfPulled();
  }

  /**
   * Stops the timers and the guard, drops unsent text and releases the source. Neither closes the sink nor gives it an
   * error.
   */
  cancel(): void {
    this.#close();
    this.#source.release();
  }

  /**
   * Starts the heartbeats, with a first one after `FIRST_HEARTBEAT_MS`, and the guard, which fails the body when the
   * caller loses access.
   */
  #start(): void {
    this.#scheduleHeartbeat();
    this.#openGuard = this.#guard(() => {
      if (!this.#isClosed) this.#fail();
    });
    this.#cancelFirstHeartbeat = this.#bodies.environment.timer(FIRST_HEARTBEAT_MS, () => this.#sendHeartbeat());
  }

  /**
   * Starts the timer of the next heartbeat, which starts the next timer. A reader that has not pulled for too many of
   * them counts as stalled: fails the body then and sends no more.
   */
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

  /** Returns how many heartbeats a client may leave unread before it counts as gone. */
  #maxMissedHeartbeats(): number {
    const stalled_ms = this.#source.stalled_ms?.();
    return stalled_ms === undefined ? MAX_MISSED_HEARTBEATS : Math.ceil(stalled_ms / HEARTBEAT_INTERVAL_MS);
  }

  /** Queues a heartbeat, and sends it at once if the client reads. */
  #sendHeartbeat(): void {
    this.#chunker.requestHeartbeat();
    this.#sendIfPulled();
  }

  /** Sends a chunk if the reader has pulled, in a later tick if this tick has sent its maximum. */
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

  /**
   * Sends the next chunk, which uses up the pull and one unit of the tick budget. Closes the body after the last chunk.
   * Waits for text if none is ready. An error fails this body and is not rethrown, because no caller could catch it.
   */
  #sendChunk(): void {
    try {
      const chunk = this.#chunker.nextChunk();
      const isDone = this.#chunker.isDone();
      // Closed before the last chunk is sent: the server may pull or cancel inside `enqueue`, and a complete body must not fail then.
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

  /** Waits for text in the background and then sends it. Fails the body if the source has none any more or fails. */
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

  /** Passes the error to `onError` of the source and fails the body. Does nothing if the body has ended. */
  #failWith(error: unknown): void {
    if (this.#isClosed) return;
    this.#source.onError(error);
    this.#fail();
  }

  /**
   * Cancels the body and gives the sink an error, so that the client sees that it is incomplete. Closes an endless one
   * normally, unless its reader has stalled.
   */
  #fail({ isStalled = false } = {}): void {
    this.cancel();
    // Closing would wait for a reader that has stalled.
    if (this.#source.isEndless && !isStalled) this.#sink?.close();
    else this.#sink?.error(new Error("The body ended before it was complete"));
  }

  /**
   * Marks the body as ended. The first time, counts it as open no longer and calls `onEnd` of the source. Drops unsent
   * text, and stops timers and the guard. Does not close the sink.
   */
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
