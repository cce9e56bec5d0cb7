/** A task as a stream: the task, what its agent says meanwhile, and how it ends. */

import {
  type Artifact,
  eventJson,
  isGoing,
  type Part,
  type StreamEvent,
  type Task,
  type TaskState,
} from "../../../a2a/wire.ts";
import { nullIfNotFound } from "../../../errors.ts";
import { isoTime } from "../../../rfc3339.ts";
import type { Frame, RunStream } from "../../../runs/mod.ts";
import { createReader, type Reader } from "../../../streams/log.ts";
import type { RequestContext } from "../../route.ts";
import { readCall } from "../calls.ts";
import { type RunEvent, RunEventMapper } from "../run-events.ts";
import { type RequestHead, resultMessage } from "./protocol.ts";
import { ARTIFACT, readTask } from "./task.ts";

export const frameOf = (head: RequestHead, event: StreamEvent): Frame => ({
  id: null,
  event: "message",
  data: JSON.stringify(resultMessage(head, eventJson(event, head.version))),
});

/** Agents that others call as tools do not speak for the task. */
const speaks = (namespace: readonly string[]): boolean => !namespace.some((one) => one.startsWith("tools:"));

/** The text of the answer so far, as one artifact that each new message begins again. */
class Answer {
  #message: string | null = null;
  #isNew = true;
  #shown = "";
  #waiting = "";
  readonly #closed = new Set<string>();

  /** Takes a piece of a message. Pieces of one that another has replaced are left out. */
  take(message_id: string, delta: string): void {
    if (this.#closed.has(message_id)) return;
    if (this.#message !== message_id) {
      if (this.#message !== null) this.#closed.add(this.#message);
      this.reset();
      this.#message = message_id;
    }
    this.#waiting += delta;
  }

  /** What follows replaces what was shown. */
  reset(): void {
    this.#message = null;
    this.#isNew = true;
    this.#shown = "";
    this.#waiting = "";
  }

  /** What is not shown yet; null for nothing. */
  next(): { readonly parts: readonly Part[]; readonly append: boolean } | null {
    if (this.#waiting === "") return null;
    const piece = { parts: [{ text: this.#waiting }], append: !this.#isNew };
    this.#shown += this.#waiting;
    this.#waiting = "";
    this.#isNew = false;
    return piece;
  }

  /** The last piece: empty where all of the artifact is shown, else the whole. */
  last({ parts }: Pick<Artifact, "parts">): { readonly parts: readonly Part[]; readonly append: boolean } {
    const isText = parts.every(({ text }) => typeof text === "string");
    const isShown = isText && !this.#isNew && parts.map(({ text }) => text).join("") === this.#shown;
    return isShown ? { parts: [{ text: "" }], append: true } : { parts, append: false };
  }
}

/** What a stream of a task begins with. */
interface TaskOpening {
  /** The task as it is. */
  readonly opening: Task;
  /** The run that several streams follow, which must all have the same events. */
  readonly run_id?: string;
}

/** The events of a task whose run goes on; the stream ends with its end, or with its question. */
export function taskFrames(
  context: RequestContext,
  head: RequestHead,
  { frames }: Pick<RunStream, "frames">,
  opening: TaskOpening,
): Reader<Frame> {
  const stream = new TaskStream(context, head, frames, opening);
  return createReader(
    () => stream.next(),
    () => stream.leave(),
  );
}

class TaskStream {
  readonly #nouns: RequestContext["nouns"];
  readonly #environment: RequestContext["service"]["environment"];
  readonly #head: RequestHead;
  readonly #frames: RunStream["frames"];
  readonly #ids: { readonly taskId: string; readonly contextId: string };
  readonly #isWorking: boolean;
  readonly #run_id: string | undefined;
  readonly #mapper = new RunEventMapper();
  readonly #answer = new Answer();
  readonly #ready: Frame[] = [];
  #isDone = false;

  constructor(
    { nouns, service }: RequestContext,
    head: RequestHead,
    frames: RunStream["frames"],
    { opening, run_id }: TaskOpening,
  ) {
    this.#nouns = nouns;
    this.#environment = service.environment;
    this.#head = head;
    this.#frames = frames;
    this.#ids = { taskId: opening.id, contextId: opening.contextId };
    this.#isWorking = opening.status.state === "WORKING";
    this.#run_id = run_id;
    this.#push({ task: opening });
  }

  async next(): Promise<readonly Frame[]> {
    while (this.#ready.length === 0 && !this.#isDone) {
      const batch = await this.#frames.next();
      // The server stops: the body breaks off, and clients subscribe again.
      if (batch.length === 0) this.#isDone = true;
      await this.#takeAll(batch.flatMap((frame) => this.#mapper.take(frame)));
      if (!this.#isDone) this.#pushPiece(this.#answer.next());
    }
    return this.#ready.splice(0);
  }

  leave(): void {
    this.#isDone = true;
    this.#frames.leave();
  }

  /** No promise where there is nothing to wait for: there is one event per token. */
  async #takeAll(events: readonly RunEvent[]): Promise<void> {
    for (const event of events) {
      const taking = this.#isDone ? undefined : this.#take(event);
      if (taking) await taking;
    }
  }

  #take(event: RunEvent): Promise<void> | undefined {
    if (event.type === "text-delta" && speaks(event.namespace)) this.#answer.take(event.message_id, event.delta);
    else if (event.type === "start") return this.#start(event.attempt);
    else if (event.type === "end") return this.#end();
    return undefined;
  }

  async #start(attempt: number): Promise<void> {
    // A repeated attempt says everything again.
    if (attempt > 1) this.#answer.reset();
    if (this.#isWorking && attempt === 1) return;
    const run = this.#run_id === undefined ? null : await this.#nouns.runs.inspect(this.#run_id).catch(nullIfNotFound);
    this.#pushState("WORKING", run?.started_at ?? undefined);
  }

  async #end(): Promise<void> {
    this.#pushPiece(this.#answer.next());
    const { taskId, contextId } = this.#ids;
    const run = await this.#nouns.runs.get(contextId, taskId).catch(nullIfNotFound);
    const call = run && (await readCall(this.#nouns, run).catch(nullIfNotFound));
    const task = call && (await readTask(this.#nouns, call, { scope: "task", length: 0 }));
    const [artifact] = task?.artifacts ?? [];
    if (artifact) this.#pushPiece(this.#answer.last(artifact), true);
    // A task that is deleted, or rolled back, has ended too.
    if (task) this.#push({ statusUpdate: { ...this.#ids, status: task.status } });
    else this.#pushState("CANCELED");
    this.#isDone = true;
    const last = this.#ready.pop();
    if (last) this.#ready.push({ ...last, last: true });
  }

  #pushState(state: TaskState, timestamp = isoTime(this.#environment.now())): void {
    this.#push({ statusUpdate: { ...this.#ids, status: { state, timestamp } } });
  }

  #pushPiece(piece: ReturnType<Answer["next"]>, lastChunk = false): void {
    if (!piece) return;
    const { parts, append } = piece;
    this.#push({ artifactUpdate: { ...this.#ids, artifact: { ...ARTIFACT, parts }, append, lastChunk } });
  }

  #push(event: StreamEvent): void {
    this.#ready.push(frameOf(this.#head, event));
  }
}

/** The only event of a task that waits for its client. */
export function restingFrames(head: RequestHead, task: Task): Reader<Frame> {
  const ready: Frame[] = isGoing(task.status) ? [] : [{ ...frameOf(head, { task }), last: true }];
  return createReader(
    async () => ready.splice(0),
    () => {},
  );
}
