/** Bodies that stay open while a run goes on: event streams, and JSON kept alive with white space. */
import type { Ambient } from "../ambient.ts";
import type { Frame, FrameReader, RunWait } from "../runs/mod.ts";

const HEARTBEAT_MS = 5_000;
/** A reader that has not asked for more for so many beats is dead, or as good as. */
const STALLED_BEATS = 6;
const encoder = new TextEncoder();

/** What bodies use of their handler, which counts those that are open. */
export interface Bodies {
  readonly ambient: Ambient;
  open: number;
}

/** One frame on the wire: the data on one line, no line break in the event's name. */
function sseFrame(frame: Frame): string {
  const id = frame.id === null ? "" : `id: ${frame.id}\n`;
  return `${id}event: ${frame.event.replace(/[\r\n\0]/g, "")}\ndata: ${frame.data}\n\n`;
}

/**
 * Frames as server-sent events. The body closes after `end` alone: where the frames stop before it (the server stops, a store
 * fails, the reader takes nothing for 30 s) it breaks off, because clients come back with Last-Event-ID only then.
 */
export function sseBody(
  reader: FrameReader,
  bodies: Bodies,
  of: Readonly<Record<string, string>>,
): ReadableStream<Uint8Array> {
  const frames = reader[Symbol.asyncIterator]();
  let arrived: Frame[] = [];
  let last = false;
  return openBody(bodies, {
    // After a blank line SDKs would show an event without data.
    heartbeat: ": heartbeat\n",
    take() {
      const ready = [...arrived, ...reader.take()];
      arrived = [];
      last = ready.at(-1)?.event === "end";
      return { text: ready.map(sseFrame).join(""), last };
    },
    async wait() {
      const next = await frames.next();
      if (next.done) return false;
      arrived = [next.value];
      return true;
    },
    fail(error) {
      bodies.ambient.log({ level: "error", message: "A stream broke off", ...of, error });
    },
    leave: () => frames.return?.(),
  });
}

/** The result of a run as JSON, with line feeds before it while the run goes on. Never `null`: SDKs look for keys in it. */
export function waitBody(wait: RunWait, bodies: Bodies): ReadableStream<Uint8Array> {
  let text: string | undefined;
  return openBody(bodies, {
    heartbeat: "\n",
    take: () => ({ text: text ?? "", last: text !== undefined }),
    async wait() {
      try {
        text = JSON.stringify((await wait.result) ?? {});
      } catch (error) {
        bodies.ambient.log({ level: "error", message: "A result could not be had", run_id: wait.run.run_id, error });
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
  /** What is ready now. `last`: nothing follows it. */
  take(): { readonly text: string; readonly last: boolean };
  /** True when `take` has more, false when nothing follows. Called only while nobody waits already. */
  wait(): Promise<boolean>;
  /** `wait` has rejected. */
  fail(error: unknown): void;
  /** The reader is gone before the last text. */
  leave(): unknown;
}

/**
 * Sends what is ready as one chunk, and takes nothing before it is asked for. Beats in a regular rhythm from the first
 * request on, busy or not: clients measure the gaps. Beats that nobody asked for become one.
 */
function openBody(bodies: Bodies, source: Source): ReadableStream<Uint8Array> {
  let asked = false;
  let waiting = false;
  let beaten = false;
  let missed = 0;
  let closed = false;
  let cancelTimer: (() => void) | undefined;
  bodies.open++;

  function close(): void {
    if (!closed) bodies.open--;
    closed = true;
    cancelTimer?.();
  }

  /** Ends the body so that the client sees it was not the end. */
  function breakOff(controller: ReadableStreamDefaultController<Uint8Array>): void {
    close();
    controller.error(new Error("The stream broke off"));
  }

  function answer(controller: ReadableStreamDefaultController<Uint8Array>): void {
    if (!asked || closed) return;
    const { text, last } = source.take();
    const chunk = beaten ? source.heartbeat + text : text;
    if (last) close();
    if (chunk) {
      asked = false;
      beaten = false;
      controller.enqueue(encoder.encode(chunk));
    }
    if (last) controller.close();
    else if (asked && !waiting) wait(controller);
  }

  function wait(controller: ReadableStreamDefaultController<Uint8Array>): void {
    waiting = true;
    source.wait().then(
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
    );
  }

  function beat(controller: ReadableStreamDefaultController<Uint8Array>): void {
    cancelTimer = bodies.ambient.timer(HEARTBEAT_MS, () => {
      if (!asked && ++missed === STALLED_BEATS) {
        breakOff(controller);
        void source.leave();
        return;
      }
      beaten = true;
      beat(controller);
      answer(controller);
    });
  }

  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (!cancelTimer) beat(controller);
        asked = true;
        missed = 0;
        answer(controller);
      },
      async cancel() {
        close();
        await source.leave();
      },
    },
    { highWaterMark: 0 },
  );
}
