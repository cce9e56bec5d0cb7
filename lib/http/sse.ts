/** Bodies that stay open while a run goes on: event streams, and JSON kept alive with white space. */
import type { Ambient } from "../ambient.ts";
import type { Frame, RunStream, RunWait } from "../runs.ts";

const HEARTBEAT_MS = 5_000;
const encoder = new TextEncoder();

/** One frame on the wire: the data on one line, no line break in the event's name. */
function sseFrame(frame: Frame): string {
  const id = frame.id === null ? "" : `id: ${frame.id}\n`;
  return `${id}event: ${frame.event.replace(/[\r\n\0]/g, "")}\ndata: ${frame.data}\n\n`;
}

/** The frames of a run as server-sent events. */
export function sseBody(stream: RunStream, ambient: Ambient): ReadableStream<Uint8Array> {
  const frames = stream.frames[Symbol.asyncIterator]();
  let arrived: Frame[] = [];
  let last = false;
  return openBody(ambient, {
    // After a blank line SDKs would show an event without data.
    heartbeat: ": heartbeat\n",
    take() {
      const ready = [...arrived, ...stream.frames.take()];
      arrived = [];
      last ||= ready.at(-1)?.event === "end";
      return { text: ready.map(sseFrame).join(""), last };
    },
    async wait() {
      const next = await frames.next();
      if (next.done) last = true;
      else arrived = [next.value];
    },
    fail(error) {
      ambient.log({ level: "error", message: "A stream broke off", run_id: stream.run.run_id, error });
      return new Error("The stream broke off");
    },
    leave: () => frames.return?.(),
  });
}

/** The result of a run as JSON, with line feeds before it while the run goes on. Never `null`: SDKs look for keys in it. */
export function waitBody(wait: RunWait, ambient: Ambient): ReadableStream<Uint8Array> {
  let text: string | undefined;
  return openBody(ambient, {
    heartbeat: "\n",
    take: () => ({ text: text ?? "", last: text !== undefined }),
    async wait() {
      try {
        text = JSON.stringify((await wait.result) ?? {});
      } catch (error) {
        ambient.log({ level: "error", message: "A result could not be had", run_id: wait.run.run_id, error });
        text = JSON.stringify({ __error__: { error: "InternalServerError", message: "Internal server error" } });
      }
    },
    fail: (error) => error,
    leave: () => wait.leave(),
  });
}

/** Where an open body gets its text. */
interface Source {
  /** Sent when there was a regular beat to send and nothing else is. */
  readonly heartbeat: string;
  /** What is ready now. `last`: nothing follows it. */
  take(): { readonly text: string; readonly last: boolean };
  /** Resolves when `take` has more. Called only while nobody waits already. */
  wait(): Promise<void>;
  /** What a reader is told when `wait` rejects. */
  fail(error: unknown): unknown;
  /** The reader is gone before the last text. */
  leave(): unknown;
}

/**
 * Sends what is ready as one chunk, and takes nothing before it is asked for. Beats in a regular rhythm from the first
 * request on, busy or not: clients measure the gaps. Beats that nobody asked for become one.
 */
function openBody(ambient: Ambient, source: Source): ReadableStream<Uint8Array> {
  let asked = false;
  let waiting = false;
  let beaten = false;
  let closed = false;
  let cancelTimer: (() => void) | undefined;

  function close(): void {
    closed = true;
    cancelTimer?.();
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
      () => {
        waiting = false;
        answer(controller);
      },
      (error: unknown) => {
        if (closed) return;
        close();
        controller.error(source.fail(error));
      },
    );
  }

  function beat(controller: ReadableStreamDefaultController<Uint8Array>): void {
    cancelTimer = ambient.timer(HEARTBEAT_MS, () => {
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
