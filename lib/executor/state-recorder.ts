/** Puts the states that an executor yields as checkpoints, and emits these in the modes `checkpoints` and `debug`. */
import type { Environment } from "../environment.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type {
  Executor,
  ExecutorEvent,
  Job,
  NewCheckpoint,
  StateEvent,
  StoredCheckpoint,
  StreamEvent,
} from "./contract.ts";
import { CoroutineIterator, type EventCoroutine, type EventStage, toCoroutine } from "./coroutine.ts";
import { createCheckpointId } from "./job-checkpoints.ts";
import { createCheckpointMetadata, createInterruptGoneError } from "./job-request.ts";
import {
  ANSWERED_CHANNEL,
  nextStepNumber,
  type PreviousState,
  parseRecordedState,
  pickLongStrings,
  toCheckpoint,
  toWireCheckpoint,
} from "./recorded-states.ts";

/**
 * Wraps the `execute` of an executor that puts no checkpoints: puts each state that it yields as a checkpoint, and emits that in the modes
 * `checkpoints` and `debug`. With durability `exit` only the last state is put, and none if the run was cancelled.
 *
 * @example
 * ```ts
 * import { type Executor, recordStates } from "greenroom/executor";
 *
 * const executor: Executor = {
 *   graphs: () => [{ graph_id: "add" }],
 *   execute: recordStates(async function* ({ input }) {
 *     yield { type: "state", values: { sum: Number(input) + 1 }, next: [], tasks: [] };
 *   }),
 * };
 * ```
 */
export function recordStates(execute: Executor["execute"]): Executor["execute"] {
  return (job, signal, environment) =>
    recordCoroutine(job, signal, environment, (recordedJob) => toCoroutine(execute(recordedJob, signal, environment)));
}

/**
 * Runs the coroutine that `start` creates, and records its states as checkpoints. Mode `debug` also needs mode `tasks`. A run
 * that resumes interrupts fails with a `ResumeError` before its start if they are not pending.
 */
export function recordCoroutine(
  job: Job,
  signal: AbortSignal,
  environment: Environment,
  start: (job: Job) => EventCoroutine,
): CoroutineIterator {
  const isDebug = job.modes.has("debug");
  const recordedJob: Job = isDebug ? { ...job, modes: new Set([...job.modes, "tasks"]) } : job;
  const coroutine = job.resume_targets?.length ? startAfterResumeCheck(recordedJob, signal, start) : start(recordedJob);
  return new CoroutineIterator(coroutine, new StateRecorder(job, signal, environment, isDebug));
}

/**
 * Starts the coroutine if the interrupts that the run resumes are pending. Throws `ResumeError`, or the reason if the signal was
 * aborted during the check.
 */
function* startAfterResumeCheck(job: Job, signal: AbortSignal, start: (job: Job) => EventCoroutine): EventCoroutine {
  const { checkpoints, from, resumed, resume_targets = [] } = job;
  if (!resumed) {
    const ref = from ?? { ns: "" };
    const cached = checkpoints.getCached?.(ref);
    const stored = cached === undefined ? ((yield checkpoints.get(ref)) as StoredCheckpoint | null) : cached;
    const tasks = (stored && parseRecordedState(stored)?.tasks) ?? [];
    const pending = tasks.flatMap(({ interrupts }) => interrupts.map(({ id }) => id));
    // Each interrupt has an id of its own, which it keeps in the states of other runs of its call.
    const missing = resume_targets.filter(({ interrupt_id, checkpoint_id }) =>
      interrupt_id === null ? stored?.checkpoint_id !== checkpoint_id : !pending.includes(interrupt_id),
    );
    if (missing.length > 0) throw createInterruptGoneError(missing, pending);
  }
  // The run may have been stopped during the read.
  signal.throwIfAborted();
  yield* start(job);
}

/**
 * Puts the states of a run as checkpoints. Its fields:
 *
 * | field            | meaning                                                                                     |
 * |------------------|---------------------------------------------------------------------------------------------|
 * | `newest`         | the newest state that was yielded, at first the one before the run: parent and step         |
 * | `previousPut`    | the newest state that was put: the next checkpoint follows it and shares unchanged values   |
 * | `createDeferred` | creates the checkpoint of a state that is put at the end, if no other state follows         |
 * | `answeredState`  | the state whose interrupts the run answers, until the first state is put                    |
 * | `baseMetadata`   | the metadata that all checkpoints of the run have in common                                 |
 */
class StateRecorder implements EventStage {
  readonly #job: Job;
  readonly #signal: AbortSignal;
  readonly #environment: Environment;
  readonly #isDebug: boolean;
  /** True if only the last state is put. Of a stateless run it is put only if the run stops before its end. */
  readonly #onlyLast: boolean;
  #baseMetadata: JsonObject | undefined;
  /** Undefined before the first state, null on a thread without a state. */
  #newest: Pick<StoredCheckpoint, "checkpoint_id" | "metadata"> | null | undefined;
  #previousPut: PreviousState | null = null;
  #answeredState: StoredCheckpoint | null = null;
  #createDeferred: (() => NewCheckpoint) | null = null;
  #closeBarrier: (() => void) | undefined;

  constructor(job: Job, signal: AbortSignal, environment: Environment, isDebug: boolean) {
    this.#job = job;
    this.#signal = signal;
    this.#environment = environment;
    this.#isDebug = isDebug;
    this.#onlyLast = job.durability === "exit";
    signal.addEventListener("abort", this);
  }

  /** Puts the last state when the signal aborts, because an executor that ignores it may be abandoned before it ends. */
  handleEvent(): void {
    this.#putEnd()?.catch(() => {});
  }

  /**
   * Returns the events to emit for an event. A state is recorded as a checkpoint first, and gets its address and frames; after an
   * abort it is dropped unless it is atomic. Returns a promise only if a checkpoint must be read or put.
   */
  handle(event: ExecutorEvent): ExecutorEvent | readonly ExecutorEvent[] | Promise<readonly ExecutorEvent[]> {
    if (event.type !== "state") {
      return this.#isDebug && event.type === "stream" ? [event, ...this.#createTaskFrames(event)] : event;
    }
    if (this.#signal.aborted && !event.atomic) return [];
    if (this.#newest !== undefined) return this.#record(event, this.#newest?.checkpoint_id ?? null);
    const { checkpoints, resumed, from } = this.#job;
    // A retry continues from the newest state of the run, not from the state that it forked from.
    const ref = resumed || !from ? { ns: "" } : from;
    const [start, head] = [checkpoints.getCached?.(ref), checkpoints.getCached?.({ ns: "" })];
    if (start !== undefined && head !== undefined) return this.#recordFirst(event, start, head);
    const read = async () => [await checkpoints.get(ref), await checkpoints.get({ ns: "" })] as const;
    return read().then((states) => this.#recordFirst(event, ...states));
  }

  /**
   * Records the first state. `start` is the state that the run starts from, `head` the newest one of the thread. Copies the
   * metadata of the job for all checkpoints, because a function may change it later.
   */
  #recordFirst(
    event: StateEvent,
    start: StoredCheckpoint | null,
    head: StoredCheckpoint | null,
  ): readonly ExecutorEvent[] | Promise<readonly ExecutorEvent[]> {
    this.#previousPut = start;
    this.#newest = start;
    if (!this.#job.resumed && this.#job.resume_targets?.length) this.#answeredState = start;
    // A function may change its job later. Few stateless runs put a state.
    if (!this.#job.stateless || !this.#onlyLast) this.#baseMetadata = createCheckpointMetadata(this.#job);
    return this.#record(event, head?.checkpoint_id ?? null);
  }

  /**
   * Puts a state and returns its events. If only the last state is stored, keeps it for the end instead. Opens a write barrier
   * that keeps the state and its frames in one save. The id of its checkpoint sorts after `idFloor`.
   */
  #record(event: StateEvent, idFloor: string | null): readonly ExecutorEvent[] | Promise<readonly ExecutorEvent[]> {
    const job = this.#job;
    const parent = this.#newest ?? null;
    const source = event.source ?? "loop";
    const step = nextStepNumber(parent);
    const checkpoint_id = createCheckpointId(this.#environment, idFloor);
    const createCheckpoint = (): NewCheckpoint =>
      toCheckpoint(event, checkpoint_id, this.#createMetadata({ source, step }), this.#previousPut);
    const frames = this.#isDebug
      ? event.frames?.flatMap((frame) => [frame, ...this.#createTaskFrames(frame)])
      : event.frames;
    this.#newest = { checkpoint_id, metadata: { step } };
    // With durability `sync` a state is stored before it is emitted.
    if (job.durability !== "sync") this.#closeBarrier = job.checkpoints.openBarrier?.();
    const ids = { checkpoint_id, ...(parent ? { parent_id: parent.checkpoint_id } : {}) };
    /** Returns the state event with its checkpoint and frames, and after it the frames of modes `checkpoints` and `debug`. */
    const toEvents = (): readonly ExecutorEvent[] => [
      { ...event, frames: frames ?? [], checkpoint: { ns: "", ...ids, step, source } },
      ...this.#createCheckpointFrames(event, ids, { source, step, parents: {} }),
    ];
    if (!this.#onlyLast || job.journal?.isOpen) {
      return this.#put(createCheckpoint, pickLongStrings(event.values)).then(toEvents);
    }
    this.#createDeferred = createCheckpoint;
    return toEvents();
  }

  /**
   * Returns the metadata of a checkpoint: what all checkpoints of the run have in common, which is read from the job once, and
   * `members`.
   */
  #createMetadata(members: JsonObject): JsonObject {
    this.#baseMetadata ??= createCheckpointMetadata(this.#job);
    return { ...this.#baseMetadata, ...members };
  }

  /** Puts the checkpoint, after a deferred one. The first put also marks the interrupts that the run resumes as answered. */
  async #put(createCheckpoint: () => NewCheckpoint, strings: ReadonlyMap<string, string>): Promise<void> {
    await this.#putDeferred();
    const answeredState = this.#answeredState;
    this.#answeredState = null;
    if (answeredState) await this.#markAnswered(answeredState);
    const checkpoint = createCheckpoint();
    const { checkpoint_id, versions, values } = checkpoint;
    const unchanged = this.#previousPut?.values.filter(({ channel, version }) => versions[channel] === version) ?? [];
    this.#previousPut = { checkpoint_id, values: [...unchanged, ...values], strings };
    await this.#job.checkpoints.put(checkpoint);
  }

  /** Puts a write for each interrupted task of the checkpoint, which says that this run has answered it. */
  async #markAnswered(checkpoint: StoredCheckpoint): Promise<void> {
    const { checkpoints, run_id } = this.#job;
    const write = { channel: ANSWERED_CHANNEL, idx: 0, type: "json", data: JSON.stringify(run_id) };
    for (const { id, interrupts } of parseRecordedState(checkpoint)?.tasks ?? []) {
      if (interrupts.length > 0) await checkpoints.putWrites(checkpoint, id, [write]);
    }
  }

  /** Called when the frames of the state are emitted: lets the save of its checkpoint go on. */
  onEmitted(): void {
    const closeBarrier = this.#closeBarrier;
    this.#closeBarrier = undefined;
    closeBarrier?.();
  }

  /**
   * Stops to listen for the stop of the run and stores the deferred last checkpoint. Undefined if there is nothing to wait for.
   */
  close(): Promise<void> | undefined {
    this.#signal.removeEventListener("abort", this);
    return this.#putEnd();
  }

  /**
   * Puts the last state if it was deferred and something can read it; else returns undefined. A cancelled run on a thread drops
   * it.
   */
  #putEnd(): Promise<void> | undefined {
    const { aborted, reason } = this.#signal;
    // Only the next attempt of a stateless run that was stopped before its end reads its state.
    const hasReader = !this.#job.stateless || aborted;
    // Durability `exit` keeps no state of a cancelled run on a thread.
    const isDropped = !this.#job.stateless && reason === "cancelled";
    return this.#createDeferred && hasReader && !isDropped ? this.#putDeferred() : undefined;
  }

  /** Stores the deferred checkpoint, once. Does nothing if there is none. */
  async #putDeferred(): Promise<void> {
    const createDeferred = this.#createDeferred;
    this.#createDeferred = null;
    if (createDeferred) await this.#job.checkpoints.put(createDeferred());
  }

  /** Returns the frames of a checkpoint in modes `checkpoints` and `debug`; an empty list without these. */
  #createCheckpointFrames(
    { values, next, tasks }: StateEvent,
    { checkpoint_id, parent_id }: { readonly checkpoint_id: string; readonly parent_id?: string },
    members: JsonObject,
  ): StreamEvent[] {
    const { modes, thread_id } = this.#job;
    if (!modes.has("checkpoints") && !modes.has("debug")) return [];
    const metadata = this.#createMetadata(members);
    const toConfig = (id: string): JsonObject => ({
      configurable: { thread_id, checkpoint_ns: "", checkpoint_id: id },
    });
    const toWire = (id: string): JsonObject => ({ ...toWireCheckpoint(thread_id, "", id) });
    const data: JsonObject = {
      config: toConfig(checkpoint_id),
      metadata,
      values,
      next: [...next],
      tasks: tasks as unknown as Json,
      parent_config: parent_id === undefined ? null : toConfig(parent_id),
      checkpoint: toWire(checkpoint_id),
      parent_checkpoint: parent_id === undefined ? null : toWire(parent_id),
    };
    const frames: StreamEvent[] = modes.has("checkpoints") ? [{ type: "stream", mode: "checkpoints", data }] : [];
    return modes.has("debug") ? [...frames, this.#createDebugFrame("checkpoint", data)] : frames;
  }

  /** Returns a frame of mode `debug` for a frame of mode `tasks`, and none for any other. */
  #createTaskFrames({ mode, data }: StreamEvent): StreamEvent[] {
    if (mode !== "tasks" || !isObject(data)) return [];
    return [this.#createDebugFrame("input" in data ? "task" : "task_result", data)];
  }

  #createDebugFrame(type: string, payload: JsonObject): StreamEvent {
    const timestamp = new Date(this.#environment.now()).toISOString();
    const step = this.#newest?.metadata.step ?? -1;
    return { type: "stream", mode: "debug", data: { step, timestamp, type, payload } };
  }
}
