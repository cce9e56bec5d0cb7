/** Responds with server-sent events while a run executes. */
import type { Frame } from "../streams/frames.ts";
import type { Reader } from "../streams/log.ts";
import { LARGE_TEXT_CHARS, WeakTextCache } from "../streams/weak-text-cache.ts";
import type { HeaderValues } from "./respond.ts";
import type { RequestContext, StreamingBodies } from "./route.ts";
import { type BodySource, CHUNK_CHARS, createStreamingResponse, type SourceText } from "./streaming-body.ts";

interface StreamOptions {
  /** Members of the log records of the stream. */
  readonly ids?: Readonly<Record<string, string>>;
  readonly headers?: HeaderValues;
  /**
   * True for a stream that outlives its runs. Its body begins with a heartbeat, because clients wait for the headers, and closes normally
   * where other bodies fail: clients of such a stream reconnect after any end, and proxies such as Vite's hide a failure.
   */
  readonly isEndless?: boolean;
}

const EVENT_STREAM_HEADERS: HeaderValues = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache",
  "x-accel-buffering": "no",
};

/**
 * Creates a response with frames as server-sent events. The body closes normally only after an `end` frame, or after a frame with
 * `last`. If the frames stop earlier (server stop, storage failure, stalled reader) the body fails: only then clients reconnect with
 * Last-Event-ID.
 */
export function createEventStreamResponse(
  context: RequestContext,
  frames: Reader<Frame>,
  { ids, headers, isEndless = false }: StreamOptions = {},
): Response {
  const { request_id, handler } = context;
  const source = new FrameSource(handler.streamingBodies, frames, { ...ids, request_id }, isEndless);
  return createStreamingResponse(context, source, { ...EVENT_STREAM_HEADERS, ...headers });
}

class FrameSource implements BodySource {
  // No blank line follows, because SDKs would emit an event without data.
  readonly heartbeat = ": heartbeat\n";
  readonly isEndless: boolean;
  readonly #bodies: StreamingBodies;
  readonly #frames: Reader<Frame>;
  readonly #logFields: Readonly<Record<string, string>>;
  /** The frames that are not sent, newest first. All readers of the run share the frame objects. */
  #ready: Frame[] = [];

  constructor(
    bodies: StreamingBodies,
    frames: Reader<Frame>,
    logFields: Readonly<Record<string, string>>,
    isEndless: boolean,
  ) {
    this.#bodies = bodies;
    this.#frames = frames;
    this.#logFields = logFields;
    this.isEndless = isEndless;
  }

  /**
   * Waits for the next frames and keeps them for `takeText`. Shares long texts with other readers. Returns false at the
   * end of the stream.
   */
  async waitForText(): Promise<boolean> {
    const frames = await this.#frames.next();
    this.#ready = frames.map((frame) => shareFrameText(this.#bodies, frame)).reverse();
    return this.#ready.length > 0;
  }

  /**
   * Removes frames until their text has about `CHUNK_CHARS` characters, and returns the text. It is empty if none are
   * ready. Releases the source with the last frame.
   */
  takeText(): SourceText {
    const chunk = new ChunkBuilder();
    while (chunk.length < CHUNK_CHARS && !chunk.isLast) {
      const frame = this.#ready.pop();
      if (!frame) break;
      chunk.add(frame);
    }
    // The body does not release its source after the last text: the log of the run and the guard of its thread would stay.
    if (chunk.isLast) this.release();
    return chunk.toSourceText();
  }

  onError(error: unknown): void {
    this.#bodies.environment.log({ level: "error", message: "Reading a stream failed", ...this.#logFields, error });
  }

  release(): void {
    this.#frames.leave();
  }
}

/** Collects the text of frames for a chunk. A long text is a separate piece, because cutting a long string copies nothing. */
class ChunkBuilder {
  /** The length of the data in characters. */
  length = 0;
  /** True after the last frame of the stream. */
  isLast = false;
  readonly #pieces: string[] = [];
  readonly #longFrames: Frame[] = [];
  #text = "";

  /** Adds a frame. A long text stays a piece of its own, which is not copied. Notes whether the frame is the last. */
  add(frame: Frame): void {
    this.#text += formatFields(frame);
    if (frame.data.length < CHUNK_CHARS / 4) {
      this.#text += frame.data;
    } else {
      this.#pieces.push(this.#text, frame.data);
      this.#longFrames.push(frame);
      this.#text = "";
    }
    this.#text += "\n\n";
    this.length += frame.data.length;
    this.isLast = frame.event === "end" || frame.last === true;
  }

  toSourceText(): SourceText {
    return { pieces: [...this.#pieces, this.#text], isLast: this.isLast, retainedFrames: this.#longFrames };
  }
}

/**
 * Returns the fields of an event up to `data: `. Omits `id` if it is null and `event` if it is empty, and removes line
 * breaks and U+0000 from `event`. The data of a frame is one line.
 */
function formatFields({ id, event }: Frame): string {
  const idField = id === null ? "" : `id: ${id}\n`;
  const eventField = event === "" ? "" : `event: ${event.replace(/[\r\n\0]/g, "")}\n`;
  return `${idField}${eventField}data: `;
}

/**
 * Returns a copy of the frame with the text of an equal frame of another reader. Otherwise each stalled reader would
 * hold a copy of the text. Returns a short frame and the first one with a text as they are.
 */
function shareFrameText(bodies: StreamingBodies, frame: Frame): Frame {
  const { length } = frame.data;
  if (length < LARGE_TEXT_CHARS) return frame;
  bodies.sharedTexts ??= new WeakTextCache();
  const sharedFrame = bodies.sharedTexts.share(length, frame);
  return sharedFrame === frame ? frame : { ...frame, data: sharedFrame.data, sharedFrom: sharedFrame };
}
