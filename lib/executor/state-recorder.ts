/** Puts the states that an executor yields as checkpoints, and shows these in the modes `checkpoints` and `debug`. */
import type { Environment } from "../environment.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import { checkpointId } from "./checkpoints.ts";
import type {
  Executor,
  ExecutorEvent,
  Job,
  NewCheckpoint,
  StateEvent,
  StoredCheckpoint,
  StreamEvent,
} from "./contract.ts";
import { type Coroutine, CoroutineEvents, type EventStage, eventsOf } from "./coroutine.ts";
import { checkpointMetadata, interruptGone } from "./kwargs.ts";
import {
  ANSWERED,
  longStrings,
  type PreviousState,
  recordedParts,
  stepAfter,
  toCheckpoint,
  wireCheckpoint,
} from "./recorded-states.ts";

/**
 * The `execute` of an executor that puts no checkpoints: each state that it yields is put as one, and shown in the modes
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
    recordedEvents(job, signal, environment, (wanted) => eventsOf(execute(wanted, signal, environment)));
}

/** The same for a coroutine. `start`: with the job as the coroutine gets it. */
export function recordedEvents(
  job: Job,
  signal: AbortSignal,
  environment: Environment,
  start: (job: Job) => Coroutine,
): CoroutineEvents {
  const debug = job.modes.has("debug");
  const wanted: Job = debug ? { ...job, modes: new Set([...job.modes, "tasks"]) } : job;
  const coroutine = job.resume_targets?.length ? afterCheck(wanted, signal, start) : start(wanted);
  return new CoroutineEvents(coroutine, new StateRecorder(job, signal, environment, debug));
}

/** Starts the coroutine if the interrupts that the run answers are pending. Errors: ResumeRefused. */
function* afterCheck(job: Job, signal: AbortSignal, start: (job: Job) => Coroutine): Coroutine {
  const { checkpoints, from, resumed, resume_targets = [] } = job;
  if (!resumed) {
    const at = from ?? { ns: "" };
    const known = checkpoints.peek?.(at);
    const stored = known === undefined ? ((yield checkpoints.get(at)) as StoredCheckpoint | null) : known;
    const tasks = (stored && recordedParts(stored)?.tasks) ?? [];
    const pending = tasks.flatMap(({ interrupts }) => interrupts.map(({ id }) => id));
    // Each interrupt has an id of its own, which it keeps in the states of other runs of its call.
    const gone = resume_targets.filter(({ interrupt_id, checkpoint_id }) =>
      interrupt_id === null ? stored?.checkpoint_id !== checkpoint_id : !pending.includes(interrupt_id),
    );
    if (gone.length > 0) throw interruptGone(gone, pending);
  }
  // The run may have been stopped during the read.
  signal.throwIfAborted();
  yield* start(job);
}

/**
 * Puts the states of a run as checkpoints. What it remembers of them:
 *
 * | field          | meaning                                                                                     |
 * |----------------|---------------------------------------------------------------------------------------------|
 * | `newest`       | the newest state that was yielded, at first the one before the run: parent and step         |
 * | `putBefore`    | the newest state that was put: the next checkpoint follows it and shares unchanged values   |
 * | `deferred`     | makes the checkpoint of a state that is put at the end, if no other state comes             |
 * | `answered`     | the state whose interrupts the run answers, until the first state is put                    |
 * | `baseMetadata` | what the metadata of all checkpoints of the run have in common                              |
 */
class StateRecorder implements EventStage {
  private readonly job: Job;
  private readonly signal: AbortSignal;
  private readonly environment: Environment;
  private readonly debug: boolean;
  /** Only the last state is put; of a stateless run none, unless the run stops before its end. */
  private readonly onlyLast: boolean;
  private baseMetadata: JsonObject | undefined;
  /** Undefined until the first state, null on a thread without one. */
  private newest: Pick<StoredCheckpoint, "checkpoint_id" | "metadata"> | null | undefined;
  private putBefore: PreviousState | null = null;
  private answered: StoredCheckpoint | null = null;
  private deferred: (() => NewCheckpoint) | null = null;
  private closeBarrier: (() => void) | undefined;

  constructor(job: Job, signal: AbortSignal, environment: Environment, debug: boolean) {
    this.job = job;
    this.signal = signal;
    this.environment = environment;
    this.debug = debug;
    this.onlyLast = job.durability === "exit";
    signal.addEventListener("abort", this);
  }

  /** An executor that ignores its signal may be abandoned before it ends. */
  handleEvent(): void {
    this.putEnd()?.catch(() => {});
  }

  take(event: ExecutorEvent): ExecutorEvent | readonly ExecutorEvent[] | Promise<readonly ExecutorEvent[]> {
    if (event.type !== "state") {
      return this.debug && event.type === "stream" ? [event, ...this.taskFrames(event)] : event;
    }
    if (this.signal.aborted && !event.unbroken) return [];
    if (this.newest !== undefined) return this.record(event, this.newest?.checkpoint_id ?? null);
    const { checkpoints, resumed, from } = this.job;
    // A retry continues from the run's own newest state, not from the one it forked from.
    const at = resumed || !from ? { ns: "" } : from;
    const [start, head] = [checkpoints.peek?.(at), checkpoints.peek?.({ ns: "" })];
    if (start !== undefined && head !== undefined) return this.recordFirst(event, start, head);
    const read = async () => [await checkpoints.get(at), await checkpoints.get({ ns: "" })] as const;
    return read().then((states) => this.recordFirst(event, ...states));
  }

  /** Records the first state. `start` is the state that the run starts from, `head` the newest one of the thread. */
  private recordFirst(
    event: StateEvent,
    start: StoredCheckpoint | null,
    head: StoredCheckpoint | null,
  ): readonly ExecutorEvent[] | Promise<readonly ExecutorEvent[]> {
    this.putBefore = start;
    this.newest = start;
    if (!this.job.resumed && this.job.resume_targets?.length) this.answered = start;
    // A function may change its job later. Few stateless runs put a state.
    if (!this.job.stateless || !this.onlyLast) this.baseMetadata = checkpointMetadata(this.job);
    return this.record(event, head?.checkpoint_id ?? null);
  }

  /** The id of its checkpoint is above `idFloor`. */
  private record(
    event: StateEvent,
    idFloor: string | null,
  ): readonly ExecutorEvent[] | Promise<readonly ExecutorEvent[]> {
    const { job, newest: parent = null } = this;
    const source = event.source ?? "loop";
    const step = stepAfter(parent);
    const checkpoint_id = checkpointId(this.environment, idFloor);
    const makeCheckpoint = (): NewCheckpoint =>
      toCheckpoint(event, checkpoint_id, this.metadataOf({ source, step }), this.putBefore);
    const frames = this.debug ? event.frames?.flatMap((frame) => [frame, ...this.taskFrames(frame)]) : event.frames;
    this.newest = { checkpoint_id, metadata: { step } };
    // With durability `sync` a state is stored before it is shown.
    if (job.durability !== "sync") this.closeBarrier = job.checkpoints.openBarrier?.();
    const place = { checkpoint_id, ...(parent ? { parent_id: parent.checkpoint_id } : {}) };
    const toEvents = (): readonly ExecutorEvent[] => [
      { ...event, frames: frames ?? [], checkpoint: { ns: "", ...place, step, source } },
      ...this.checkpointFrames(event, place, { source, step, parents: {} }),
    ];
    if (!this.onlyLast || job.journal?.isOpen) {
      return this.put(makeCheckpoint, longStrings(event.values)).then(toEvents);
    }
    this.deferred = makeCheckpoint;
    return toEvents();
  }

  private metadataOf(own: JsonObject): JsonObject {
    this.baseMetadata ??= checkpointMetadata(this.job);
    return { ...this.baseMetadata, ...own };
  }

  private async put(makeCheckpoint: () => NewCheckpoint, strings: ReadonlyMap<string, string>): Promise<void> {
    await this.putDeferred();
    const { answered } = this;
    this.answered = null;
    if (answered) await this.markAnswered(answered);
    const checkpoint = makeCheckpoint();
    const { checkpoint_id, versions, values } = checkpoint;
    const unchanged = this.putBefore?.values.filter(({ channel, version }) => versions[channel] === version) ?? [];
    this.putBefore = { checkpoint_id, values: [...unchanged, ...values], strings };
    await this.job.checkpoints.put(checkpoint);
  }

  private async markAnswered(at: StoredCheckpoint): Promise<void> {
    const { checkpoints, run_id } = this.job;
    const write = { channel: ANSWERED, idx: 0, type: "json", data: JSON.stringify(run_id) };
    for (const { id, interrupts } of recordedParts(at)?.tasks ?? []) {
      if (interrupts.length > 0) await checkpoints.putWrites(at, id, [write]);
    }
  }

  shown(): void {
    const { closeBarrier } = this;
    this.closeBarrier = undefined;
    closeBarrier?.();
  }

  close(): Promise<void> | undefined {
    this.signal.removeEventListener("abort", this);
    return this.putEnd();
  }

  /** Puts the last state, where only that one is put and something may read it. */
  private putEnd(): Promise<void> | undefined {
    const { aborted, reason } = this.signal;
    // Nothing reads the state of a stateless run, but the next attempt of one that was stopped before its end.
    const hasReader = !this.job.stateless || aborted;
    // Durability `exit` keeps no state of a cancelled run on a thread.
    const isDropped = !this.job.stateless && reason === "cancelled";
    return this.deferred && hasReader && !isDropped ? this.putDeferred() : undefined;
  }

  private async putDeferred(): Promise<void> {
    const { deferred } = this;
    this.deferred = null;
    if (deferred) await this.job.checkpoints.put(deferred());
  }

  private checkpointFrames(
    { values, next, tasks }: StateEvent,
    { checkpoint_id, parent_id }: { readonly checkpoint_id: string; readonly parent_id?: string },
    own: JsonObject,
  ): StreamEvent[] {
    const { modes, thread_id } = this.job;
    if (!modes.has("checkpoints") && !modes.has("debug")) return [];
    const metadata = this.metadataOf(own);
    const config = (id: string): JsonObject => ({ configurable: { thread_id, checkpoint_ns: "", checkpoint_id: id } });
    const wire = (id: string): JsonObject => ({ ...wireCheckpoint(thread_id, "", id) });
    const data: JsonObject = {
      config: config(checkpoint_id),
      metadata,
      values,
      next: [...next],
      tasks: tasks as unknown as Json,
      parent_config: parent_id === undefined ? null : config(parent_id),
      checkpoint: wire(checkpoint_id),
      parent_checkpoint: parent_id === undefined ? null : wire(parent_id),
    };
    const frames: StreamEvent[] = modes.has("checkpoints") ? [{ type: "stream", mode: "checkpoints", data }] : [];
    return modes.has("debug") ? [...frames, this.debugFrame("checkpoint", data)] : frames;
  }

  /** A frame of mode `tasks`, as mode `debug` shows it. */
  private taskFrames({ mode, data }: StreamEvent): StreamEvent[] {
    if (mode !== "tasks" || !isObject(data)) return [];
    return [this.debugFrame("input" in data ? "task" : "task_result", data)];
  }

  private debugFrame(type: string, payload: JsonObject): StreamEvent {
    const timestamp = new Date(this.environment.now()).toISOString();
    const step = this.newest?.metadata.step ?? -1;
    return { type: "stream", mode: "debug", data: { step, timestamp, type, payload } };
  }
}
