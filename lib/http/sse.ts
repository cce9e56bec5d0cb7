/** Bodies that stay open while a run goes on: event streams, and JSON kept alive with white space. */
import type { Ambient } from "../ambient.ts";
import type { Frame, RunStream, RunWait } from "../runs.ts";

const HEARTBEAT_MS = 5_000;
const encoder = new TextEncoder();

/** One frame on the wire: the data on one line, no line break in the event's name. */
export function sseFrame(frame: Frame): string {
  const id = frame.id === null ? "" : `id: ${frame.id}\n`;
  return `${id}event: ${frame.event.replace(/[\r\n\0]/g, "")}\ndata: ${frame.data}\n\n`;
}

/**
 * The frames of a run as server-sent events. What is ready leaves as one chunk, and nothing is read before it is asked for.
 * A heartbeat is a comment without a blank line after it: after a blank line SDKs show an event without data.
 */
export function sseBody(stream: RunStream, ambient: Ambient): ReadableStream<Uint8Array> {
  const frames = stream.frames[Symbol.asyncIterator]();
  const heart = createHeart(ambient);
  let next: Promise<IteratorResult<Frame>> | undefined;
  let gone = false;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          next ??= frames.next();
          const arrived = await Promise.race([next, heart.beat()]);
          if (gone) return;
          let text = heart.due() ? ": heartbeat\n" : "";
          if (arrived) {
            next = undefined;
            const ready = arrived.done ? [] : [arrived.value, ...stream.frames.take()];
            text += ready.map(sseFrame).join("");
            if (text) controller.enqueue(encoder.encode(text));
            if (arrived.done || ready.at(-1)?.event === "end") {
              heart.stop();
              controller.close();
            }
          } else controller.enqueue(encoder.encode(text));
        } catch (error) {
          heart.stop();
          ambient.log({ level: "error", message: "A stream broke off", run_id: stream.run.run_id, error });
          controller.error(new Error("The stream broke off"));
        }
      },
      async cancel() {
        gone = true;
        heart.stop();
        await frames.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

/** The result of a run as JSON, with line feeds before it while the run goes on. Never `null`: SDKs look for keys in it. */
export function waitBody(wait: RunWait, ambient: Ambient): ReadableStream<Uint8Array> {
  const heart = createHeart(ambient);
  const result = wait.result.then(
    (values) => JSON.stringify(values ?? {}),
    (error: unknown) => {
      ambient.log({ level: "error", message: "A result could not be had", run_id: wait.run.run_id, error });
      return JSON.stringify({ __error__: { error: "InternalServerError", message: "Internal server error" } });
    },
  );
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const text = await Promise.race([result, heart.beat()]);
        controller.enqueue(encoder.encode(text ?? "\n"));
        heart.due();
        if (text === undefined) return;
        heart.stop();
        controller.close();
      },
      cancel() {
        heart.stop();
        wait.leave();
      },
    },
    { highWaterMark: 0 },
  );
}

/** Beats in a regular rhythm from the first wait on: clients measure the gaps. Beats that nobody waited for become one. */
interface Heart {
  /** Resolves at the next beat, at once when one is due. */
  beat(): Promise<undefined>;
  /** True once after a beat. */
  due(): boolean;
  stop(): void;
}

function createHeart(ambient: Ambient): Heart {
  let beaten = false;
  let wake: (() => void) | undefined;
  let cancel: (() => void) | undefined;
  const start = (): void => {
    cancel = ambient.timer(HEARTBEAT_MS, () => {
      beaten = true;
      wake?.();
      start();
    });
  };
  return {
    beat() {
      if (!cancel) start();
      return new Promise((resolve) => {
        wake = () => resolve(undefined);
        if (beaten) wake();
      });
    },
    due() {
      const was = beaten;
      beaten = false;
      return was;
    },
    stop: () => cancel?.(),
  };
}
