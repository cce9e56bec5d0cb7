/** Bodies that stay open while a run executes, and are sent in chunks as their reader pulls. */
import { surrogateSafeEnd } from "../json.ts";
import type { StreamGuard } from "../streams/stream-guard.ts";
import type { HeaderValues } from "./respond.ts";
import type { RequestContext, StreamingBodies } from "./route.ts";

const HEARTBEAT_MS = 5_000;
/** A body with nothing to send for this long starts with a heartbeat: some servers send no headers before the first byte. */
const FIRST_BEAT_MS = 1_000;
/** A reader that takes nothing during this many heartbeats is disconnected. */
const STALLED_BEATS = 6;
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
const OPEN_BODY = Symbol.for("greenroom.open-body");

/** A response with the text of the source as its body, which fails when the caller loses the access to it. */
export function createStreamingResponse(
  { handler: { streamingBodies }, guard }: Pick<RequestContext, "handler" | "guard">,
  source: BodySource,
  headers: HeaderValues,
): Response {
  const open = new ChunkedBody(streamingBodies, guard, source);
  const stream = new ReadableStream<Uint8Array>(open, { highWaterMark: 0 });
  return Object.assign(new Response(stream, { headers }), { [OPEN_BODY]: { open, stream } });
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
class ChunkCutter {
  readonly #source: BodySource;
  /** What was taken last. It keeps alive what the pieces share until more is taken. */
  #taken: SourceText = { pieces: [], isLast: false };
  /** The pieces of it that are not sent, the first one perhaps in part. */
  #unsent: string[] = [];
  #isBeatDue: boolean;

  constructor(source: BodySource) {
    this.#source = source;
    this.#isBeatDue = source.isEndless ?? false;
  }

  /** Puts a heartbeat before the text that is taken next. */
  beat(): void {
    this.#isBeatDue = true;
  }

  /** Returns the next chunk; empty when nothing is ready. */
  next(): string {
    if (this.#unsent.length === 0) {
      this.#taken = this.#source.takeText();
      const { pieces } = this.#taken;
      const [only = ""] = pieces;
      // Most chunks are one short piece, which nothing needs to cut or copy.
      if (!this.#isBeatDue && pieces.length === 1 && only.length <= CHUNK_CHARS) return only;
      this.#unsent = [...(this.#isBeatDue ? [this.#source.heartbeat] : []), ...pieces];
      this.#isBeatDue = false;
    }
    return this.#cut();
  }

  /** Removes a chunk from the unsent pieces, and returns it. */
  #cut(): string {
    let chunk = "";
    let count = 0;
    for (const piece of this.#unsent) {
      const room = surrogateSafeEnd(piece, Math.max(0, CHUNK_CHARS - chunk.length));
      if (piece.length > room) {
        chunk += piece.slice(0, room);
        this.#unsent[count] = piece.slice(room);
        break;
      }
      chunk += piece;
      count++;
    }
    this.#unsent = this.#unsent.slice(count);
    return chunk;
  }

  /** True once the last chunk was returned. */
  isDone(): boolean {
    return this.#taken.isLast && this.#unsent.length === 0;
  }

  clear(): void {
    this.#taken = { pieces: [], isLast: true };
    this.#unsent = [];
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
  readonly #chunks: ChunkCutter;
  /** The sink of the last pull. */
  #sink: Sink | undefined;
  /** The reader waits for a chunk. */
  #isPulled = false;
  #isWaitingForText = false;
  #isWaitingForTick = false;
  #isClosed = false;
  /** The number of heartbeats since the last pull. */
  #missedBeats = 0;
  #cancelBeat: (() => void) | undefined;
  #cancelFirstBeat: (() => void) | undefined;
  #openGuard: StreamGuard | undefined;

  constructor(bodies: StreamingBodies, guard: RequestContext["guard"], source: BodySource) {
    this.#bodies = bodies;
    this.#guard = guard;
    this.#source = source;
    this.#chunks = new ChunkCutter(source);
    bodies.openCount++;
  }

  pull(sink: Sink): void {
    this.#sink = sink;
    this.#isPulled = true;
    this.#missedBeats = 0;
    if (!this.#cancelBeat) this.#start();
    this.#answer();
  }

  cancel(): void {
    this.#close();
    this.#source.release();
  }

  #start(): void {
    this.#scheduleBeat();
    this.#openGuard = this.#guard(() => {
      if (!this.#isClosed) this.#fail();
    });
    this.#cancelFirstBeat = this.#bodies.environment.timer(FIRST_BEAT_MS, () => this.#beat());
  }

  #scheduleBeat(): void {
    this.#cancelBeat = this.#bodies.environment.timer(HEARTBEAT_MS, () => {
      if (!this.#isPulled && ++this.#missedBeats >= this.#maxMissedBeats()) {
        this.#fail({ isStalled: true });
        return;
      }
      this.#scheduleBeat();
      this.#beat();
    });
  }

  #maxMissedBeats(): number {
    const stalled_ms = this.#source.stalled_ms?.();
    return stalled_ms === undefined ? STALLED_BEATS : Math.ceil(stalled_ms / HEARTBEAT_MS);
  }

  #beat(): void {
    this.#chunks.beat();
    this.#answer();
  }

  /** Sends a chunk if the reader has pulled, in a later tick if this one has sent enough. */
  #answer(): void {
    if (!this.#isPulled || this.#isClosed || this.#isWaitingForTick) return;
    const { tickBudget } = this.#bodies;
    if (!tickBudget.isReached()) {
      this.#send();
      return;
    }
    this.#isWaitingForTick = true;
    tickBudget.wait(() => {
      this.#isWaitingForTick = false;
      this.#answer();
    });
  }

  /** Sends the next chunk, or waits for text. An error ends this body alone: no caller could catch it. */
  #send(): void {
    try {
      const chunk = this.#chunks.next();
      const isDone = this.#chunks.isDone();
      // Closed before the last chunk goes out: the server may pull or cancel inside `enqueue`, and a complete body must not fail then.
      if (isDone) this.#close();
      if (chunk) {
        this.#isPulled = false;
        this.#cancelFirstBeat?.();
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
          if (hasText) this.#answer();
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
    this.#chunks.clear();
    this.#cancelBeat?.();
    this.#cancelFirstBeat?.();
    this.#openGuard?.close();
  }
}
