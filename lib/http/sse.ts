/** Responses that stay open while a run executes: event streams, and JSON kept alive by white space. */
import { ServiceError } from "../errors.ts";
import { type Json, type SharedText, textOf } from "../json.ts";
import type { Frame, Reader, RunWait } from "../runs/mod.ts";
import { LARGE, SharedTexts } from "../streams/shared-texts.ts";
import { type ByteHold, ClientGone } from "./byte-budget.ts";
import { CHUNK_SIZE, openResponse, type Source } from "./open-body.ts";
import { type HeaderValues, LARGE_BYTES } from "./respond.ts";
import type { OpenBodies, RequestContext } from "./route.ts";

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
  context: RequestContext,
  frames: Reader<Frame>,
  ids: Readonly<Record<string, string>>,
  headers: HeaderValues,
  { endless = false }: StreamOptions = {},
): Response {
  const { handler, request_id } = context;
  const { bodies } = handler;
  // Frames not sent yet, newest first. All readers of the run share the frame objects.
  let ready: Frame[] = [];
  const source: Source = {
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
      // The body takes no more: without this, the log of the run and the guard of its thread would stay.
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
  };
  const fixed = { "content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no" };
  return openResponse(context, source, { ...fixed, ...headers });
}

interface WaitOptions {
  /** Reads the result of the ended run again. With it, a large result is dropped while the server has no room for it. */
  readonly again?: () => Promise<Json>;
}

/** The result of a run as JSON, with line feeds before it while the run executes. Never `null`: SDKs read keys of it. */
export function waitResponse(
  context: RequestContext,
  { run: { run_id, thread_id }, result, leave }: RunWait,
  headers: HeaderValues,
  { again }: WaitOptions = {},
): Response {
  const { handler, request_id, large } = context;
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
      handler.bodies.environment.log({ level: "error", message: "Waiting for a result failed", ...ids, error });
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

  const source: Source = {
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
  };
  return openResponse(context, source, { "content-type": "application/json", ...headers });
}
