/** Creates response bodies of text, which are sent in pieces at the speed of their reader. */
import type { Environment } from "../environment.ts";
import { surrogateSafeEnd } from "../json.ts";

/** The size of a piece in characters. */
const PIECE_CHARS = 64 * 1024;

interface TextBodyOptions {
  readonly environment: Pick<Environment, "timer">;
  /** The time after which a reader that pulls nothing is disconnected. */
  readonly stalled_ms: number;
  /** Called once when the body is complete, has failed, or was cancelled by its reader. */
  onEnd(): void;
}

/** A body that is written while it is read. */
export interface TextBody {
  readonly stream: ReadableStream<Uint8Array>;
  readonly isEnded: boolean;
  /** Sends a text. Resolves when the reader has read it, and rejects if the body ends before. One call at a time. */
  send(text: string): Promise<void>;
  /** Ends the body after the text that was sent, and calls `onEnd`. Does nothing if it has ended. */
  close(): void;
  /** Ends the body with an error, and calls `onEnd`. Does nothing if it has ended. */
  fail(error: unknown): void;
}

/**
 * Creates a body whose text is sent in pieces at the speed of its reader. It fails if the reader does not pull for `stalled_ms`,
 * and calls `onEnd` once at any end.
 */
export function createTextBody({ environment, stalled_ms, onEnd }: TextBodyOptions): TextBody {
  const encoder = new TextEncoder();
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  let isEnded = false;
  let resumeSending = (): void => {};

  /** Ends the body once: wakes a sender that waits for the client, and calls `onEnd`. */
  function end(): void {
    if (isEnded) return;
    isEnded = true;
    resumeSending();
    onEnd();
  }

  /** Ends the body with an error. Does nothing if it has ended. */
  function fail(error: unknown): void {
    if (isEnded) return;
    end();
    controller?.error(error);
  }

  const stream = new ReadableStream<Uint8Array>(
    {
      start: (streamController) => {
        controller = streamController;
      },
      pull: () => resumeSending(),
      cancel: end,
    },
    { highWaterMark: 1 },
  );

  /**
   * Resolves when the reader pulls or the body has ended, at once if it has room. Fails the body after `stalled_ms`
   * without a pull.
   */
  async function waitForPull(): Promise<void> {
    if (isEnded || (controller?.desiredSize ?? 0) > 0) return;
    await new Promise<void>((resolve) => {
      const cancel = environment.timer(stalled_ms, () => fail(new Error("The client does not read")));
      resumeSending = () => {
        resumeSending = () => {};
        cancel();
        resolve();
      };
    });
  }

  return {
    stream,
    get isEnded() {
      return isEnded;
    },
    async send(text) {
      for (let start = 0, end = 0; start < text.length; start = end) {
        if (isEnded) throw new Error("The body has no reader any more");
        end = surrogateSafeEnd(text, start + PIECE_CHARS);
        controller?.enqueue(encoder.encode(text.slice(start, end)));
        await waitForPull();
      }
      if (isEnded) throw new Error("The body has no reader any more");
    },
    close() {
      if (isEnded) return;
      controller?.close();
      end();
    },
    fail,
  };
}
