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

/**
 * The events of a task whose run goes on; the stream ends with its end, or with its question. `opening`: the task as it is. `run_id`: the
 * run that several streams follow, which must all have the same events.
 */
export function taskFrames(
  { nouns, service: { environment } }: RequestContext,
  head: RequestHead,
  { frames }: Pick<RunStream, "frames">,
  opening: Task,
  run_id?: string,
): Reader<Frame> {
  const mapper = new RunEventMapper();
  const answer = new Answer();
  const ids = { taskId: opening.id, contextId: opening.contextId };
  const ready: Frame[] = [];
  let isDone = false;

  const push = (event: StreamEvent): void => {
    ready.push(frameOf(head, event));
  };
  const pushState = (state: TaskState, timestamp = isoTime(environment.now())): void =>
    push({ statusUpdate: { ...ids, status: { state, timestamp } } });
  function pushPiece(piece: ReturnType<Answer["next"]>, lastChunk = false): void {
    if (!piece) return;
    const { parts, append } = piece;
    push({ artifactUpdate: { ...ids, artifact: { ...ARTIFACT, parts }, append, lastChunk } });
  }

  async function end(): Promise<void> {
    const run = await nouns.runs.get(ids.contextId, ids.taskId).catch(nullIfNotFound);
    const call = run && (await readCall(nouns, run).catch(nullIfNotFound));
    const task = call && (await readTask(nouns, call, { scope: "task", length: 0 }));
    const [artifact] = task?.artifacts ?? [];
    if (artifact) pushPiece(answer.last(artifact), true);
    // A task that is deleted, or rolled back, has ended too.
    if (task) push({ statusUpdate: { ...ids, status: task.status } });
    else pushState("CANCELED");
    isDone = true;
    const last = ready.pop();
    if (last) ready.push({ ...last, last: true });
  }

  async function start(attempt: number): Promise<void> {
    // A repeated attempt says everything again.
    if (attempt > 1) answer.reset();
    if (opening.status.state === "WORKING" && attempt === 1) return;
    const run = run_id === undefined ? null : await nouns.runs.inspect(run_id).catch(nullIfNotFound);
    pushState("WORKING", run?.started_at ?? undefined);
  }

  /** No promise where there is nothing to wait for: there is one event per token. */
  function take(event: RunEvent): Promise<void> | undefined {
    if (event.type === "text-delta" && speaks(event.namespace)) answer.take(event.message_id, event.delta);
    else if (event.type === "start") return start(event.attempt);
    else if (event.type === "end") {
      pushPiece(answer.next());
      return end();
    }
    return undefined;
  }

  async function next(): Promise<readonly Frame[]> {
    while (ready.length === 0 && !isDone) {
      const batch = await frames.next();
      // The server stops: the body breaks off, and clients subscribe again.
      if (batch.length === 0) isDone = true;
      for (const event of batch.flatMap((frame) => mapper.take(frame))) {
        const taking = isDone ? undefined : take(event);
        if (taking) await taking;
      }
      if (!isDone) pushPiece(answer.next());
    }
    return ready.splice(0);
  }

  push({ task: opening });
  return createReader(next, () => {
    isDone = true;
    frames.leave();
  });
}

/** The only event of a task that waits for its client. */
export function restingFrames(head: RequestHead, task: Task): Reader<Frame> {
  const ready: Frame[] = isGoing(task.status) ? [] : [{ ...frameOf(head, { task }), last: true }];
  return createReader(
    async () => ready.splice(0),
    () => {},
  );
}
