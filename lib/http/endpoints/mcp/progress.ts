/** The messages of an open call: a notification for each node that has ended, or for what the agent emits, questions, then the answer. */
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Frame, Run } from "../../../runs/mod.ts";
import { createReader, type Reader } from "../../../streams/log.ts";
import type { RequestContext } from "../../route.ts";
import { type RunEvent, RunEventMapper } from "../run-events.ts";
import type { OpenCall } from "./call.ts";

/** Between two notifications. */
const EVERY_MS = 250;

interface Note {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

const isCount = (value: Json | undefined): value is number => typeof value === "number" && Number.isFinite(value);

/** What an agent emits as `{progress, total?, message?}`; null for anything else. */
function noteOf(data: Json): Note | null {
  if (!isObject(data) || !isCount(data.progress)) return null;
  const { progress, total, message } = data;
  return {
    progress,
    ...(isCount(total) ? { total } : {}),
    ...(typeof message === "string" ? { message } : {}),
  };
}

/** A message as an event. */
export const messageFrame = (message: JsonObject, isLast = false): Frame => ({
  id: null,
  event: "message",
  data: JSON.stringify(message),
  ...(isLast ? { last: true } : {}),
});

/** The messages of a call. The last one is its answer. Without a token there is no progress. */
export function createMessages(
  context: RequestContext,
  progressToken: string | number | undefined,
  call: OpenCall,
): Reader<Frame> {
  const messages = new CallMessages(context, progressToken, call);
  return createReader(
    () => messages.next(),
    () => messages.leave(),
  );
}

class CallMessages {
  readonly #nouns: RequestContext["nouns"];
  readonly #environment: RequestContext["service"]["environment"];
  readonly #progressToken: string | number | undefined;
  readonly #leaveCall: () => void;
  readonly #progress = new Progress();
  readonly #requests: Frame[] = [];
  #sentAt = Number.NEGATIVE_INFINITY;
  #wake = Promise.withResolvers<void>();
  #cancelTimer = (): void => {};
  #reader: Reader<Frame> | undefined;
  #last: Frame | undefined;
  #isDone = false;

  constructor(
    { nouns, service }: RequestContext,
    progressToken: string | number | undefined,
    { run, answer, open, leave }: OpenCall,
  ) {
    this.#nouns = nouns;
    this.#environment = service.environment;
    this.#progressToken = progressToken;
    this.#leaveCall = leave;
    this.#follow(run);
    open?.listen((sent) => {
      if (sent.kind === "run") return this.#follow(sent.run);
      this.#requests.push(messageFrame(sent.message));
      this.#wake.resolve();
    });
    void answer.then((message) => {
      this.#last = messageFrame(message, true);
      this.#wake.resolve();
    });
  }

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

  leave(): void {
    const isEarly = !this.#isDone && !this.#last;
    this.#end();
    if (isEarly) this.#leaveCall();
  }

  /** Progress that is not sent yet; null where there is none, or a timer is set for it. */
  #dueNotification(): Frame | null {
    if (!this.#progress.hasNote) return null;
    const wait_ms = EVERY_MS - (this.#environment.now() - this.#sentAt);
    if (wait_ms > 0) {
      this.#cancelTimer();
      this.#cancelTimer = this.#environment.timer(wait_ms, () => this.#wake.resolve());
      return null;
    }
    const params = { progressToken: this.#progressToken, ...this.#progress.takeNote() } as JsonObject;
    this.#sentAt = this.#environment.now();
    return messageFrame({ jsonrpc: "2.0", method: "notifications/progress", params });
  }

  /** Follows a run until its end. Progress is a courtesy: its failure does not fail the call. */
  #follow(run: Run): void {
    if (this.#progressToken !== undefined) this.#readProgress(run).catch(() => {});
  }

  async #readProgress(run: Run): Promise<void> {
    const mapper = new RunEventMapper();
    const { frames } = await this.#nouns.runs.joinStream(run.thread_id, run.run_id);
    this.#reader = frames;
    if (this.#isDone) frames.leave();
    for await (const frame of frames) {
      for (const event of mapper.take(frame)) this.#progress.take(event);
      if (this.#progress.hasNote) this.#wake.resolve();
    }
  }

  #end(): void {
    this.#isDone = true;
    this.#cancelTimer();
    this.#reader?.leave();
    this.#wake.resolve();
  }
}

/** How far a call has come: by what its agent emits, else by the nodes that have ended. */
class Progress {
  #shown = 0;
  #emits = false;
  #note: Note | null = null;

  /** True if there is something new to tell. */
  get hasNote(): boolean {
    return this.#note !== null;
  }

  /** The newest note, which is told only once. */
  takeNote(): Note | null {
    const note = this.#note;
    this.#note = null;
    return note;
  }

  take(event: RunEvent): void {
    if (event.type === "custom") {
      const note = noteOf(event.data);
      this.#emits ||= note !== null;
      this.#set(note);
    } else if (event.type === "update" && !this.#emits && event.namespace.length === 0) {
      this.#set({ progress: this.#shown + 1, message: event.node });
    }
  }

  #set(note: Note | null): void {
    // It must grow: an agent may emit the same twice.
    if (!note || note.progress <= this.#shown) return;
    this.#note = note;
    this.#shown = note.progress;
  }
}
