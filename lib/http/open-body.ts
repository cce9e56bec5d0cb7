/** Bodies that stay open while a run executes, and are sent in chunks as their reader pulls. */
import { pieceEnd } from "../json.ts";
import type { HeaderValues } from "./respond.ts";
import type { OpenBodies, RequestContext } from "./route.ts";

const HEARTBEAT_MS = 5_000;
/** A body with nothing to send for this long starts with a heartbeat: some servers send no headers before the first byte. */
const FIRST_BEAT_MS = 1_000;
/** A reader that takes nothing during this many heartbeats is disconnected. */
const STALLED_BEATS = 6;
/** The size of a chunk in characters, about. It bounds the memory that a stalled reader costs. */
export const CHUNK_SIZE = 4 * 1024;
const encoder = new TextEncoder();

/** Where a body goes; the controller of a `ReadableStream` is one. */
type Sink = Pick<ReadableStreamDefaultController<Uint8Array>, "enqueue" | "close" | "error">;

/** A body that is sent in chunks: each pull is answered by one, by a close or by an error. */
interface OpenBody {
  pull(sink: Sink): void;
  cancel(): void;
}

/** Here `serve` and `toNodeHandler` find the body: without the stream around it a chunk costs them half. */
const OPEN_BODY = Symbol.for("greenroom.open-body");

export function openResponse(open: OpenBody, headers: HeaderValues): Response {
  const stream = new ReadableStream<Uint8Array>(open, { highWaterMark: 0 });
  return Object.assign(new Response(stream, { headers }), { [OPEN_BODY]: { open, stream } });
}

/** `last`: nothing follows it. `of`: what holds the pieces; readers share texts that something still holds. */
interface Taken {
  readonly pieces: readonly string[];
  readonly last: boolean;
  readonly of?: unknown;
}

/** The text of an open body. */
interface Source {
  /** Sent at every heartbeat, before the text that is ready. */
  readonly heartbeat: string;
  /** The body begins with a heartbeat, and closes normally where it would fail. */
  readonly endless?: boolean;
  /** Some of the text that is ready now, in pieces. */
  take(): Taken;
  /** Resolves to true when `take` has more, to false when nothing follows. Called when `take` gave nothing. */
  wait(): Promise<boolean>;
  /** Called when the body cannot continue. */
  fail(error: unknown): void;
  /** Called when the reader disconnects before the last text. */
  leave(): void;
  /** Called once when the body has been sent, has failed, or has no reader. */
  end?(): void;
  /** Milliseconds after which a reader that takes nothing is disconnected. Default: that of all streams. */
  stalled_ms?(): number | undefined;
}

/** The text of a source, cut into chunks. */
interface Chunks {
  /** Puts a heartbeat before the text that is taken next. */
  beat_due: boolean;
  /** The next chunk; empty when nothing is ready. */
  next(): string;
  /** True once the last chunk was returned. */
  isDone(): boolean;
  clear(): void;
}

function chunksOf(source: Source): Chunks {
  // Taken from the source, and what of it is not sent yet.
  let taken: Taken = { pieces: [], last: false };
  let unsent: string[] = [];
  return {
    beat_due: source.endless ?? false,
    next() {
      if (unsent.length === 0) {
        taken = source.take();
        const [only = ""] = taken.pieces;
        if (!this.beat_due && taken.pieces.length === 1 && only.length <= CHUNK_SIZE) return only;
        unsent = [...(this.beat_due ? [source.heartbeat] : []), ...taken.pieces];
        this.beat_due = false;
      }
      let chunk = "";
      let count = 0;
      for (const piece of unsent) {
        const room = pieceEnd(piece, Math.max(0, CHUNK_SIZE - chunk.length));
        if (piece.length > room) {
          chunk += piece.slice(0, room);
          unsent[count] = piece.slice(room);
          break;
        }
        chunk += piece;
        count++;
      }
      unsent = unsent.slice(count);
      return chunk;
    },
    isDone: () => taken.last && unsent.length === 0,
    clear() {
      taken = { pieces: [], last: true };
      unsent = [];
    },
  };
}

/**
 * Sends what is ready in chunks, and takes nothing before the reader pulls. Heartbeats come at a fixed rate from the first pull,
 * because clients measure the gaps. Heartbeats that find no pull become one; an early one starts a body that has nothing to send.
 */
export function openBody(bodies: OpenBodies, watch: RequestContext["watch"], source: Source): OpenBody {
  const chunks = chunksOf(source);
  // That of the last pull.
  let sink: Sink;
  let pulled = false;
  let waiting = false;
  let missed = 0;
  let closed = false;
  let deferred = false;
  let cancelTimer: (() => void) | undefined;
  let cancelFirst: (() => void) | undefined;
  let stopWatching: (() => void) | undefined;
  bodies.open++;

  function close(): void {
    if (!closed) {
      bodies.open--;
      source.end?.();
    }
    closed = true;
    chunks.clear();
    cancelTimer?.();
    cancelFirst?.();
    stopWatching?.();
  }

  function leave(): void {
    close();
    source.leave();
  }

  /** Ends the body with an error, so that the client sees it is incomplete. */
  function fail({ isStalled = false } = {}): void {
    leave();
    // Closing would wait for a reader that has stalled.
    if (source.endless && !isStalled) sink.close();
    else sink.error(new Error("The body ended before it was complete"));
  }

  /** Sends a chunk if the reader pulled. An error ends this body alone: no caller could catch it. */
  function answer(): void {
    if (!pulled || closed || deferred) return;
    if (bodies.limit.isReached()) {
      deferred = true;
      bodies.limit.wait(() => {
        deferred = false;
        answer();
      });
      return;
    }
    try {
      const chunk = chunks.next();
      const done = chunks.isDone();
      if (done) close();
      if (chunk) {
        pulled = false;
        cancelFirst?.();
        bodies.limit.spend(1);
        sink.enqueue(encoder.encode(chunk));
      }
      if (done) sink.close();
      else if (pulled && !waiting) wait();
    } catch (error) {
      // A server may cancel the body inside `enqueue`; later calls of the controller then throw.
      if (closed) return;
      source.fail(error);
      fail();
    }
  }

  function ready(more: boolean): void {
    waiting = false;
    if (more) answer();
    else if (!closed) fail();
  }

  function broken(error: unknown): void {
    if (closed) return;
    source.fail(error);
    fail();
  }

  function wait(): void {
    waiting = true;
    // An error of one reader, or of the log, must not end the process.
    source
      .wait()
      .then(ready, broken)
      .catch(() => {});
  }

  function beat(): void {
    cancelTimer = bodies.environment.timer(HEARTBEAT_MS, () => {
      const stalled_ms = source.stalled_ms?.();
      const beats = stalled_ms === undefined ? STALLED_BEATS : Math.ceil(stalled_ms / HEARTBEAT_MS);
      if (!pulled && ++missed >= beats) {
        fail({ isStalled: true });
        return;
      }
      chunks.beat_due = true;
      beat();
      answer();
    });
  }

  return {
    pull(to) {
      sink = to;
      pulled = true;
      missed = 0;
      if (!cancelTimer) {
        beat();
        stopWatching = watch(() => {
          if (!closed) fail();
        });
        cancelFirst = bodies.environment.timer(FIRST_BEAT_MS, () => {
          chunks.beat_due = true;
          answer();
        });
      }
      answer();
    },
    cancel: leave,
  };
}
