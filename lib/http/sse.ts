/** Bodies that stay open while a run goes on: event streams, and JSON kept alive with white space. */
import type { Environment } from "../environment.ts";
import type { Frame, FrameReader, RunWait } from "../runs/mod.ts";

const HEARTBEAT_MS = 5_000;
/** A body that has nothing to send for so long begins with a beat: some hosts send no headers before. */
const FIRST_BEAT_MS = 1_000;
/** A reader that has not asked for more for so many beats is dead, or as good as. */
const STALLED_BEATS = 6;
/** About how many characters a chunk has at the most: a reader that does not read costs a chunk or two. */
const CHUNK_SIZE = 4 * 1024;
const encoder = new TextEncoder();

/** Whether the caller may still read; asked at every beat. */
export type Still = () => Promise<boolean>;

/** What bodies use of their handler, which counts those that are open. */
export interface OpenBodies {
  readonly environment: Environment;
  open: number;
}

/** What stands before a frame's data on the wire. The data is one line, and the event's name has no line break. */
function headOf({ id, event }: Frame): string {
  return `${id === null ? "" : `id: ${id}\n`}event: ${event.replace(/[\r\n\0]/g, "")}\ndata: `;
}

/**
 * Frames as server-sent events. The body closes after `end` alone: where the frames stop before it (the server stops, a store
 * fails, the reader takes nothing for 30 s) it breaks off, because clients come back with Last-Event-ID only then.
 */
export function sseBody(
  reader: FrameReader,
  bodies: OpenBodies,
  of: Readonly<Record<string, string>>,
  still: Still,
): ReadableStream<Uint8Array> {
  const frames = reader[Symbol.asyncIterator]();
  // What is not out yet, newest first: the frames themselves, which all readers of the run have in common.
  let ready: Frame[] = [];
  return openBody(bodies, still, {
    // After a blank line SDKs would show an event without data.
    heartbeat: ": heartbeat\n",
    take() {
      const pieces: string[] = [];
      let text = "";
      let size = 0;
      let last = false;
      while (size < CHUNK_SIZE) {
        if (ready.length === 0) ready = [...reader.take()].reverse();
        const frame = ready.pop();
        if (!frame) break;
        text += headOf(frame);
        if (frame.data.length < CHUNK_SIZE / 4) {
          text += frame.data;
        } else {
          // Not joined: cutting it copies nothing then.
          pieces.push(text, frame.data);
          text = "";
        }
        text += "\n\n";
        size += frame.data.length;
        last = frame.event === "end";
      }
      return { pieces: [...pieces, text], last };
    },
    async wait() {
      const next = await frames.next();
      if (next.done) return false;
      ready.push(next.value);
      return true;
    },
    fail(error) {
      bodies.environment.log({ level: "error", message: "A stream broke off", ...of, error });
    },
    leave: () => frames.return?.(),
  });
}

/** The result of a run as JSON, with line feeds before it while the run goes on. Never `null`: SDKs look for keys in it. */
export function waitBody(
  wait: RunWait,
  bodies: OpenBodies,
  of: Readonly<Record<string, string>>,
  still: Still,
): ReadableStream<Uint8Array> {
  let text: string | undefined;
  return openBody(bodies, still, {
    heartbeat: "\n",
    take: () => ({ pieces: text === undefined ? [] : [text], last: text !== undefined }),
    async wait() {
      try {
        text = JSON.stringify((await wait.result) ?? {});
      } catch (error) {
        bodies.environment.log({ level: "error", message: "A result could not be had", ...of, error });
        text = JSON.stringify({ __error__: { error: "InternalServerError", message: "Internal server error" } });
      }
      return true;
    },
    fail: () => {},
    leave: () => wait.leave(),
  });
}

/** Where an open body gets its text. */
interface Source {
  /** Sent when there was a regular beat to send and nothing else is. */
  readonly heartbeat: string;
  /** Some of what is ready now, as pieces of one text; a beat may stand before it. `last`: nothing follows it. */
  take(): { readonly pieces: readonly string[]; readonly last: boolean };
  /** True when `take` has more, false when nothing follows. Called only when it has nothing, and then first. */
  wait(): Promise<boolean>;
  /** The body cannot go on. */
  fail(error: unknown): void;
  /** The reader is gone before the last text. */
  leave(): unknown;
}

/**
 * Sends what is ready in chunks of some size, and takes nothing before it is asked for. Beats in a regular rhythm from the
 * first request on, busy or not: clients measure the gaps. Beats that nobody asked for become one; one more comes early where nothing
 * was sent.
 */
function openBody(bodies: OpenBodies, still: Still, source: Source): ReadableStream<Uint8Array> {
  // Taken, and not out yet.
  let rest: string[] = [];
  let last = false;
  let asked = false;
  let waiting = false;
  let beaten = false;
  let missed = 0;
  let closed = false;
  let cancelTimer: (() => void) | undefined;
  let cancelFirst: (() => void) | undefined;
  bodies.open++;

  function close(): void {
    if (!closed) bodies.open--;
    closed = true;
    rest = [];
    cancelTimer?.();
    cancelFirst?.();
  }

  async function leave(): Promise<void> {
    close();
    try {
      await source.leave();
    } catch (error) {
      source.fail(error);
    }
  }

  /** Ends the body so that the client sees it was not the end. */
  function breakOff(controller: ReadableStreamDefaultController<Uint8Array>): void {
    void leave();
    controller.error(new Error("The stream broke off"));
  }

  /** What is to be sent now, up to the size of a chunk. */
  function cut(): string {
    if (rest.length === 0) {
      // While it is waited for more there is none, but perhaps a frame that is on its way and comes before those that `take` has.
      const taken = waiting ? undefined : source.take();
      rest = [...(beaten ? [source.heartbeat] : []), ...(taken?.pieces ?? [])];
      last = taken?.last ?? false;
      beaten = false;
    }
    let chunk = "";
    let count = 0;
    for (const piece of rest) {
      let room = Math.max(0, CHUNK_SIZE - chunk.length);
      // Never between the two halves of a character.
      if ((piece.charCodeAt(room) & 0xfc00) === 0xdc00) room++;
      if (piece.length > room) {
        chunk += piece.slice(0, room);
        rest[count] = piece.slice(room);
        break;
      }
      chunk += piece;
      count++;
    }
    rest = rest.slice(count);
    return chunk;
  }

  /** Whatever fails in here ends this body at the most: nobody hears of it in a timer or a promise. */
  function answer(controller: ReadableStreamDefaultController<Uint8Array>): void {
    if (!asked || closed) return;
    try {
      const chunk = cut();
      const done = last && rest.length === 0;
      if (done) close();
      if (chunk) {
        asked = false;
        cancelFirst?.();
        controller.enqueue(encoder.encode(chunk));
      }
      if (done) controller.close();
      else if (asked && !waiting) wait(controller);
    } catch (error) {
      // A server may cancel the body while it is given a chunk: what is left to be told then throws, and is not needed.
      if (closed) return;
      source.fail(error);
      breakOff(controller);
    }
  }

  function wait(controller: ReadableStreamDefaultController<Uint8Array>): void {
    waiting = true;
    source
      .wait()
      .then(
        (more) => {
          waiting = false;
          if (more) answer(controller);
          else if (!closed) breakOff(controller);
        },
        (error: unknown) => {
          if (closed) return;
          source.fail(error);
          breakOff(controller);
        },
      )
      // One reader must not end the process, whatever its stream or its log does.
      .catch(() => {});
  }

  function beat(controller: ReadableStreamDefaultController<Uint8Array>): void {
    cancelTimer = bodies.environment.timer(HEARTBEAT_MS, () => {
      if (!asked && ++missed === STALLED_BEATS) {
        breakOff(controller);
        return;
      }
      beaten = true;
      beat(controller);
      answer(controller);
      still().then(
        (good) => {
          if (!good && !closed) breakOff(controller);
        },
        // A store that fails says nothing about the caller.
        () => {},
      );
    });
  }

  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        asked = true;
        missed = 0;
        if (!cancelTimer) {
          beat(controller);
          cancelFirst = bodies.environment.timer(FIRST_BEAT_MS, () => {
            beaten = true;
            answer(controller);
          });
        }
        answer(controller);
      },
      cancel: leave,
    },
    { highWaterMark: 0 },
  );
}
