/** The stream of a task: the task, the text of its agent, and its final status. */

import {
  type A2aArtifact,
  type A2aPart,
  type A2aStreamEvent,
  type A2aTask,
  type A2aTaskState,
  isInProgress,
  toEventJson,
} from "../../../a2a/json.ts";
import { nullIfNotFound } from "../../../errors.ts";
import { formatIsoTime } from "../../../rfc3339.ts";
import type { Frame, RunStream } from "../../../runs/mod.ts";
import { createReader, type Reader } from "../../../streams/log.ts";
import type { RequestContext } from "../../route.ts";
import { readProtocolRequest } from "../protocol-requests.ts";
import { type RunEvent, RunEventMapper } from "../run-events.ts";
import { type A2aRequestHeader, toResultMessage } from "./protocol.ts";
import { ARTIFACT, readTask } from "./task.ts";

/** Creates a frame of the type `message` without an id. Its data is the event as a JSON-RPC response. */
export const createEventFrame = (header: A2aRequestHeader, event: A2aStreamEvent): Frame => ({
  id: null,
  event: "message",
  data: JSON.stringify(toResultMessage(header, toEventJson(event, header.version))),
});

/** Returns false for the namespace of an agent that runs as a tool. Its messages are not output of the task. */
const isTaskOutput = (namespace: readonly string[]): boolean => !namespace.some((level) => level.startsWith("tools:"));

/** The text of the response as one artifact. Each new message of the agent replaces the text of the one before. */
class AnswerText {
  #message_id: string | null = null;
  #isNew = true;
  #emittedText = "";
  #pendingText = "";
  readonly #replacedIds = new Set<string>();

  /**
   * Appends text of a message to the pending text. The first text of another message drops the earlier one, whose later
   * text is ignored.
   */
  append(message_id: string, delta: string): void {
    if (this.#replacedIds.has(message_id)) return;
    if (this.#message_id !== message_id) {
      if (this.#message_id !== null) this.#replacedIds.add(this.#message_id);
      this.reset();
      this.#message_id = message_id;
    }
    this.#pendingText += delta;
  }

  /** Starts over: drops the pending text, and the next text replaces the emitted one. */
  reset(): void {
    this.#message_id = null;
    this.#isNew = true;
    this.#emittedText = "";
    this.#pendingText = "";
  }

  /**
   * Removes and returns the pending text as an artifact update, which replaces earlier text unless `append` is true.
   * Returns null if there is none.
   */
  drain(): { readonly parts: readonly A2aPart[]; readonly append: boolean } | null {
    if (this.#pendingText === "") return null;
    const piece = { parts: [{ text: this.#pendingText }], append: !this.#isNew };
    this.#emittedText += this.#pendingText;
    this.#pendingText = "";
    this.#isNew = false;
    return piece;
  }

  /**
   * Returns the last update: an empty text to append if the whole artifact was emitted as text, else its parts, which
   * replace the emitted ones. Changes nothing.
   */
  drainLast({ parts }: Pick<A2aArtifact, "parts">): { readonly parts: readonly A2aPart[]; readonly append: boolean } {
    const isText = parts.every(({ text }) => typeof text === "string");
    const isEmitted = isText && !this.#isNew && parts.map(({ text }) => text).join("") === this.#emittedText;
    return isEmitted ? { parts: [{ text: "" }], append: true } : { parts, append: false };
  }
}

/** The first event of the stream, and how to join its run. */
interface TaskStreamStart {
  /** The task when the stream starts. */
  readonly initialTask: A2aTask;
  /** Set if several streams follow the run, so that their WORKING events have the same timestamp. */
  readonly run_id?: string;
}

/**
 * Streams the events of a task whose run is active, from the initial task until the run ends. Leaving the reader ends
 * the subscription, and the run goes on.
 */
export function createTaskFrames(
  context: RequestContext,
  header: A2aRequestHeader,
  { frames }: Pick<RunStream, "frames">,
  streamStart: TaskStreamStart,
): Reader<Frame> {
  const stream = new TaskStream(context, header, frames, streamStart);
  return createReader(
    () => stream.next(),
    () => stream.leave(),
  );
}

class TaskStream {
  readonly #resources: RequestContext["resources"];
  readonly #environment: RequestContext["service"]["environment"];
  readonly #header: A2aRequestHeader;
  readonly #frames: RunStream["frames"];
  readonly #ids: { readonly taskId: string; readonly contextId: string };
  readonly #isWorking: boolean;
  readonly #run_id: string | undefined;
  readonly #mapper = new RunEventMapper();
  readonly #answer = new AnswerText();
  readonly #ready: Frame[] = [];
  #isDone = false;

  constructor(
    { resources, service }: RequestContext,
    header: A2aRequestHeader,
    frames: RunStream["frames"],
    { initialTask, run_id }: TaskStreamStart,
  ) {
    this.#resources = resources;
    this.#environment = service.environment;
    this.#header = header;
    this.#frames = frames;
    this.#ids = { taskId: initialTask.id, contextId: initialTask.contextId };
    this.#isWorking = initialTask.status.state === "WORKING";
    this.#run_id = run_id;
    this.#push({ task: initialTask });
  }

  /**
   * Returns the next frames, with the text of a batch in one update; empty after the end. Ends without a last frame if the
   * service stops.
   */
  async next(): Promise<readonly Frame[]> {
    while (this.#ready.length === 0 && !this.#isDone) {
      const batch = await this.#frames.next();
      // When the server stops, the body ends without a last event, and clients subscribe again.
      if (batch.length === 0) this.#isDone = true;
      await this.#handleAll(batch.flatMap((frame) => this.#mapper.map(frame)));
      if (!this.#isDone) this.#pushPiece(this.#answer.drain());
    }
    return this.#ready.splice(0);
  }

  /** Ends the subscription to the run, so that no more frames are read. The run goes on. */
  leave(): void {
    this.#isDone = true;
    this.#frames.leave();
  }

  /**
   * Handles the events in their order, and ignores those after the end. Awaits only where needed, because there is one
   * event per token.
   */
  async #handleAll(events: readonly RunEvent[]): Promise<void> {
    for (const event of events) {
      const handling = this.#isDone ? undefined : this.#handle(event);
      if (handling) await handling;
    }
  }

  /**
   * Adds text of the answer to the pending text; the start and the end of the run push their events. Returns a promise
   * where it must read state first, else undefined. Ignores other events and the text of subagents.
   */
  #handle(event: RunEvent): Promise<void> | undefined {
    if (event.type === "text-delta" && isTaskOutput(event.namespace))
      this.#answer.append(event.message_id, event.delta);
    else if (event.type === "start") return this.#start(event.attempt);
    else if (event.type === "end") return this.#end();
    return undefined;
  }

  /**
   * Emits the status WORKING, at the start time of the run. Emits nothing for a first attempt if the task was already
   * working. A later attempt starts the text over.
   */
  async #start(attempt: number): Promise<void> {
    // A later attempt emits all messages again.
    if (attempt > 1) this.#answer.reset();
    if (this.#isWorking && attempt === 1) return;
    const run =
      this.#run_id === undefined ? null : await this.#resources.runs.inspect(this.#run_id).catch(nullIfNotFound);
    this.#pushState("WORKING", run?.started_at ?? undefined);
  }

  /** Emits the rest of the text and the final status, read from the storage, as the last frame. A deleted task is CANCELED. */
  async #end(): Promise<void> {
    this.#pushPiece(this.#answer.drain());
    const { taskId, contextId } = this.#ids;
    const run = await this.#resources.runs.get(contextId, taskId).catch(nullIfNotFound);
    const protocolRequest = run && (await readProtocolRequest(this.#resources, run).catch(nullIfNotFound));
    const task = protocolRequest && (await readTask(this.#resources, protocolRequest, { scope: "task", length: 0 }));
    const [artifact] = task?.artifacts ?? [];
    if (artifact) this.#pushPiece(this.#answer.drainLast(artifact), true);
    // A deleted task, or one that was rolled back, has ended too.
    if (task) this.#push({ statusUpdate: { ...this.#ids, status: task.status } });
    else this.#pushState("CANCELED");
    this.#isDone = true;
    const last = this.#ready.pop();
    if (last) this.#ready.push({ ...last, last: true });
  }

  #pushState(state: A2aTaskState, timestamp = formatIsoTime(this.#environment.now())): void {
    this.#push({ statusUpdate: { ...this.#ids, status: { state, timestamp } } });
  }

  /** Pushes a piece of the answer as an artifact update. Does nothing for no piece. */
  #pushPiece(piece: ReturnType<AnswerText["drain"]>, lastChunk = false): void {
    if (!piece) return;
    const { parts, append } = piece;
    this.#push({ artifactUpdate: { ...this.#ids, artifact: { ...ARTIFACT, parts }, append, lastChunk } });
  }

  #push(event: A2aStreamEvent): void {
    this.#ready.push(createEventFrame(this.#header, event));
  }
}

/** Returns a reader with the task as its only and last event. It has no event if the task is in progress. */
export function createSingleTaskFrame(header: A2aRequestHeader, task: A2aTask): Reader<Frame> {
  const ready: Frame[] = isInProgress(task.status) ? [] : [{ ...createEventFrame(header, { task }), last: true }];
  return createReader(
    async () => ready.splice(0),
    () => {},
  );
}
