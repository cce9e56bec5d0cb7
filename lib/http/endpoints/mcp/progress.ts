/**
 * The messages of a pending tool call: progress notifications for ended nodes or emitted notes, requests to the client, then the
 * response.
 */
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Frame, Run } from "../../../runs/mod.ts";
import { createReader, type Reader } from "../../../streams/log.ts";
import type { RequestContext } from "../../route.ts";
import { type RunEvent, RunEventMapper } from "../run-events.ts";
import type { PendingToolCall } from "./tool-call.ts";

/** The minimum time between two notifications. */
const NOTIFICATION_INTERVAL_MS = 250;

interface ProgressNote {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

const isCount = (value: Json | undefined): value is number => typeof value === "number" && Number.isFinite(value);

/**
 * Parses `{progress, total?, message?}` from an agent, and omits a total or a message of another type. Returns null for
 * anything without a progress.
 */
function parseProgressNote(data: Json): ProgressNote | null {
  if (!isObject(data) || !isCount(data.progress)) return null;
  const { progress, total, message } = data;
  return {
    progress,
    ...(isCount(total) ? { total } : {}),
    ...(typeof message === "string" ? { message } : {}),
  };
}

/** Creates a frame of the type `message` without an id, whose data is the JSON of the message. */
export const createMessageFrame = (message: JsonObject, isLast = false): Frame => ({
  id: null,
  event: "message",
  data: JSON.stringify(message),
  ...(isLast ? { last: true } : {}),
});

/**
 * Creates a reader of the messages of a tool call: requests to the client, progress if there is a token, and the
 * response as the last. Leaving it before the response leaves the call.
 */
export function createToolCallMessages(
  context: RequestContext,
  progressToken: string | number | undefined,
  toolCall: PendingToolCall,
): Reader<Frame> {
  const messages = new ToolCallMessages(context, progressToken, toolCall);
  return createReader(
    () => messages.next(),
    () => messages.leave(),
  );
}

class ToolCallMessages {
  readonly #resources: RequestContext["resources"];
  readonly #environment: RequestContext["service"]["environment"];
  readonly #progressToken: string | number | undefined;
  readonly #leaveToolCall: () => void;
  readonly #progress = new Progress();
  readonly #requests: Frame[] = [];
  #lastSentMs = Number.NEGATIVE_INFINITY;
  #wake = Promise.withResolvers<void>();
  #cancelTimer = (): void => {};
  #reader: Reader<Frame> | undefined;
  #last: Frame | undefined;
  #isDone = false;

  constructor(
    { resources, service }: RequestContext,
    progressToken: string | number | undefined,
    { run, response, streamingResult, leave }: PendingToolCall,
  ) {
    this.#resources = resources;
    this.#environment = service.environment;
    this.#progressToken = progressToken;
    this.#leaveToolCall = leave;
    this.#startProgress(run);
    streamingResult?.listen((streamed) => {
      if (streamed.kind === "run") return this.#startProgress(streamed.run);
      this.#requests.push(createMessageFrame(streamed.message));
      this.#wake.resolve();
    });
    void response.then((message) => {
      this.#last = createMessageFrame(message, true);
      this.#wake.resolve();
    });
  }

  /**
   * Waits for the next message: the response, requests, or progress at most once in an interval. The response ends the
   * messages; then returns no frames.
   */
  async next(): Promise<readonly Frame[]> {
    for (;;) {
      if (this.#last) {
        this.#end();
        return [this.#last];
      }
      if (this.#isDone) return [];
      if (this.#requests.length > 0) return this.#requests.splice(0);
      const notification = this.#dueNotification();
      if (notification) return [notification];
      await this.#wake.promise;
      this.#wake = Promise.withResolvers<void>();
    }
  }

  /** Ends the messages. Leaves the tool call if its response was not sent. */
  leave(): void {
    const isEarly = !this.#isDone && !this.#last;
    this.#end();
    if (isEarly) this.#leaveToolCall();
  }

  /**
   * Removes new progress and returns it as a notification. Returns null if there is none. If the interval is not over,
   * starts a timer that wakes `next`, and returns null.
   */
  #dueNotification(): Frame | null {
    if (!this.#progress.hasNote) return null;
    const wait_ms = NOTIFICATION_INTERVAL_MS - (this.#environment.now() - this.#lastSentMs);
    if (wait_ms > 0) {
      this.#cancelTimer();
      this.#cancelTimer = this.#environment.timer(wait_ms, () => this.#wake.resolve());
      return null;
    }
    const params = { progressToken: this.#progressToken, ...this.#progress.drainNote() } as JsonObject;
    this.#lastSentMs = this.#environment.now();
    return createMessageFrame({ jsonrpc: "2.0", method: "notifications/progress", params });
  }

  /** Reads the progress of a run in the background. A failure does not fail the call. */
  #startProgress(run: Run): void {
    if (this.#progressToken !== undefined) this.#readProgress(run).catch(() => {});
  }

  /** Follows the frames of a run, keeps their progress and wakes `next` for it, until the run or the call ends. */
  async #readProgress(run: Run): Promise<void> {
    const mapper = new RunEventMapper();
    const { frames } = await this.#resources.runs.joinStream(run.thread_id, run.run_id);
    this.#reader = frames;
    if (this.#isDone) frames.leave();
    for await (const frame of frames) {
      for (const event of mapper.map(frame)) this.#progress.handle(event);
      if (this.#progress.hasNote) this.#wake.resolve();
    }
  }

  /** Ends the messages: stops the timer, leaves the frames of the run and wakes `next`. The run goes on. */
  #end(): void {
    this.#isDone = true;
    this.#cancelTimer();
    this.#reader?.leave();
    this.#wake.resolve();
  }
}

/** The progress of a tool call: the notes that its agent emits, else the number of ended nodes. */
class Progress {
  #lastProgress = 0;
  #hasAgentNotes = false;
  #note: ProgressNote | null = null;

  get hasNote(): boolean {
    return this.#note !== null;
  }

  /** Removes and returns the newest note. Returns null if there is none. */
  drainNote(): ProgressNote | null {
    const note = this.#note;
    this.#note = null;
    return note;
  }

  /** Keeps the progress that an agent reports. Until it reports any, each node of the root graph counts as one. */
  handle(event: RunEvent): void {
    if (event.type === "custom") {
      const note = parseProgressNote(event.data);
      this.#hasAgentNotes ||= note !== null;
      this.#setNote(note);
    } else if (event.type === "update" && !this.#hasAgentNotes && event.namespace.length === 0) {
      this.#setNote({ progress: this.#lastProgress + 1, message: event.node });
    }
  }

  /** Keeps a note for the next notification. Ignores null and a note whose progress is not higher than that of the last one. */
  #setNote(note: ProgressNote | null): void {
    // Progress must increase, but an agent can emit the same value twice.
    if (!note || note.progress <= this.#lastProgress) return;
    this.#note = note;
    this.#lastProgress = note.progress;
  }
}
