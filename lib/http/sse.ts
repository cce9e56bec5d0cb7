/** Responses that stay open while a run executes: event streams, and JSON kept alive by white space. */
import { ServiceError } from "../errors.ts";
import { type Json, pieceEnd, type SharedText, textOf } from "../json.ts";
import type { Frame, Reader, RunWait } from "../runs/mod.ts";
import { LARGE, SharedTexts } from "../streams/shared-texts.ts";
import { type ByteHold, ClientGone } from "./byte-budget.ts";
import { type HeaderValues, LARGE_BYTES } from "./respond.ts";
import type { OpenBodies, RequestContext } from "./route.ts";

const HEARTBEAT_MS = 5_000;
/** A body with nothing to send for this long starts with a heartbeat: some servers send no headers before the first byte. */
const FIRST_BEAT_MS = 1_000;
/** A reader that takes nothing during this many heartbeats is disconnected. */
const STALLED_BEATS = 6;
/** The size of a chunk in characters, about. It bounds the memory that a stalled reader costs. */
const CHUNK_SIZE = 4 * 1024;
const encoder = new TextEncoder();

/** The frame, with the text of one that another reader holds if that is the same. Readers that stall would hold a copy each. */
function shared(bodies: OpenBodies, frame: Frame): Frame {
  const { length } = frame.data;
  if (length < LARGE) return frame;
  bodies.texts ??= new SharedTexts();
  const first = bodies.texts.share(length, frame);
  return first === frame ? frame : { ...frame, data: first.data, of: first };
}

/** The lines before a frame's data. The data itself is one line. */
function headOf({ id, event }: Frame): string {
  const name = event === "" ? "" : `event: ${event.replace(/[\r\n\0]/g, "")}\n`;
  return `${id === null ? "" : `id: ${id}\n`}${name}data: `;
}

interface StreamOptions {
  /**
   * It outlives its runs. It begins with a heartbeat, because clients wait for the headers. Where other streams fail it closes
   * normally: its clients reconnect after any end, and proxies such as Vite's pass on no failure.
   */
  readonly endless?: boolean;
}

/**
 * Frames as server-sent events. The body closes normally only after an `end` frame, or one that says it is the last. If the
 * frames stop earlier (server stop, storage failure, stalled reader) it fails: clients reconnect with Last-Event-ID only then.
 * `ids` are part of its log records.
 */
export function eventStream(
  { handler: { bodies }, watch, request_id }: RequestContext,
  frames: Reader<Frame>,
  ids: Readonly<Record<string, string>>,
  headers: HeaderValues,
  { endless = false }: StreamOptions = {},
): Response {
  // Frames not sent yet, newest first. All readers of the run share the frame objects.
  let ready: Frame[] = [];
  const body = openBody(bodies, watch, {
    // Without a blank line after it: SDKs would emit an event without data.
    heartbeat: ": heartbeat\n",
    endless,
    take() {
      const pieces: string[] = [];
      const of: Frame[] = [];
      let text = "";
      let size = 0;
      let last = false;
      while (size < CHUNK_SIZE) {
        const frame = ready.pop();
        if (!frame) break;
        text += headOf(frame);
        if (frame.data.length < CHUNK_SIZE / 4) {
          text += frame.data;
        } else {
          // A piece of its own, because cutting a long string copies nothing.
          pieces.push(text, frame.data);
          of.push(frame);
          text = "";
        }
        text += "\n\n";
        size += frame.data.length;
        last = frame.event === "end" || frame.last === true;
      }
      // The reader asks for no more: without this, the log of the run and the sight of its thread would stay.
      if (last) frames.leave();
      pieces.push(text);
      return { pieces, last, of };
    },
    async wait() {
      ready = (await frames.next()).map((frame) => shared(bodies, frame)).reverse();
      return ready.length > 0;
    },
    fail(error) {
      bodies.environment.log({ level: "error", message: "Reading a stream failed", ...ids, request_id, error });
    },
    leave: frames.leave,
  });
  const fixed = { "content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no" };
  return openResponse(body, { ...fixed, ...headers });
}

interface WaitOptions {
  /** Reads the result of the ended run again. With it, a large result is dropped while the server has no room for it. */
  readonly again?: () => Promise<Json>;
}

/** The result of a run as JSON, with line feeds before it while the run executes. Never `null`: SDKs read keys of it. */
export function waitResponse(
  { handler: { bodies }, watch, request_id, large }: RequestContext,
  { run: { run_id, thread_id }, result, leave }: RunWait,
  headers: HeaderValues,
  { again }: WaitOptions = {},
): Response {
  const ids = { run_id, thread_id, request_id };
  let pending: Promise<Json | null> | undefined = result;
  let text: SharedText | undefined;
  let bytes: Pick<ByteHold, "release"> | null = null;
  let isEnded = false;

  /** Keeps the bytes until the body ends, which may have happened during a wait. */
  function keep(taken: Pick<ByteHold, "release"> | null): void {
    if (isEnded) taken?.release();
    else bytes = taken;
  }

  async function read(from: Promise<Json | null>): Promise<SharedText> {
    try {
      return textOf((await from) ?? {});
    } catch (error) {
      if (error instanceof ServiceError && error.code === "not_found") throw error;
      bodies.environment.log({ level: "error", message: "Waiting for a result failed", ...ids, error });
      return textOf({ __error__: { error: "InternalServerError", message: "Internal server error" } });
    }
  }

  /** Reads the result, and takes its size from the byte budget if it is large. Resolves with the size if there is no room. */
  async function tryRead(from: Promise<Json | null>): Promise<number> {
    const resultText = await read(from);
    const { length } = resultText.json;
    if (length > LARGE_BYTES) keep(large.tryShare(resultText, length));
    if (length <= LARGE_BYTES || bytes || !again) text = resultText;
    return length;
  }

  const body = openBody(bodies, watch, {
    heartbeat: "\n",
    stalled_ms: () => (bytes ? large.stalled_ms : undefined),
    take: () => ({ pieces: text === undefined ? [] : [text.json], last: text !== undefined }),
    async wait() {
      try {
        const first = pending as Promise<Json | null>;
        pending = undefined;
        const length = await tryRead(first);
        if (length <= LARGE_BYTES || bytes) return true;
        if (text) {
          keep(await large.share(text, length));
          return true;
        }
        keep(await large.take(length, true));
        text = await read((again as () => Promise<Json>)());
      } catch (error) {
        // Hidden from the caller meanwhile: the body breaks off, as that of a stream.
        if (error instanceof ClientGone || (error instanceof ServiceError && error.code === "not_found")) return false;
        throw error;
      }
      return true;
    },
    fail: () => {},
    leave() {
      large.leave();
      leave();
    },
    end() {
      isEnded = true;
      bytes?.release();
    },
  });
  return openResponse(body, { "content-type": "application/json", ...headers });
}

/** Where a body goes; the controller of a `ReadableStream` is one. */
type Sink = Pick<ReadableStreamDefaultController<Uint8Array>, "enqueue" | "close" | "error">;

/** A body that is sent in chunks: each pull is answered by one, by a close or by an error. */
interface OpenBody {
  pull(sink: Sink): void;
  cancel(): void;
}

/** Here `serve` and `toNodeHandler` find the body: without the stream around it a chunk costs them half. */
const OPEN_BODY = Symbol.for("greenroom.open-body");

function openResponse(open: OpenBody, headers: HeaderValues): Response {
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
function openBody(bodies: OpenBodies, watch: RequestContext["watch"], source: Source): OpenBody {
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
