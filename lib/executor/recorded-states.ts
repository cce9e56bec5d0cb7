/** The states of agents that put no checkpoints: how they are stored, read and recorded. */
import type { Environment } from "../environment.ts";
import { isObject, type Json, type JsonObject, knowText } from "../json.ts";
import { checkpointId } from "./checkpoints.ts";
import {
  type ChannelValue,
  type CheckpointRef,
  type DrawnGraph,
  type Executor,
  type ExecutorEvent,
  type GraphState,
  type Interrupt,
  type Job,
  type NewCheckpoint,
  type StateEvent,
  StateRefused,
  type StoredCheckpoint,
  type StreamEvent,
  type ThreadState,
  type WireCheckpoint,
} from "./contract.ts";
import { type Coroutine, CoroutineEvents, type EventStage, eventsOf } from "./coroutine.ts";
import { checkpointMetadata, interruptGone } from "./kwargs.ts";
import { changeState, END, START } from "./state-changes.ts";

/** The error of an agent that finds the state of another runtime. */
export const FOREIGN_STATE = "The thread's state was written by another kind of graph";

/** The state before the one that is put. */
interface PreviousState extends Pick<StoredCheckpoint, "checkpoint_id" | "values"> {
  /** Its long strings by channel. */
  readonly strings?: ReadonlyMap<string, string>;
}

/** Shorter strings of states are written again, in characters. */
const LONG_STRING = 64 * 1024;

/** The long strings among the values of a state. An executor may change the object later, but no string. */
const longStrings = (values: Json): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(isObject(values) ? values : {}).filter(
      (entry): entry is [string, string] => typeof entry[1] === "string" && entry[1].length > LONG_STRING,
    ),
  );

/** The checkpoint of a state that follows another. An unchanged value keeps its version. */
function checkpointOf(
  state: Pick<StateEvent, "values" | "next" | "tasks" | "call" | "asked">,
  checkpoint_id: string,
  metadata: JsonObject,
  previous: PreviousState | null,
): NewCheckpoint {
  const members = isObject(state.values) ? Object.entries(state.values) : [];
  const whole = !isObject(state.values) || members.length > MOST_CHANNELS;
  const channels: [string, Json | undefined][] = whole ? [[ROOT, state.values]] : members;
  const known = new Map(previous?.values.map((value) => [value.channel, value]));
  const versions: [string, string][] = [];
  const values: ChannelValue[] = [];
  let text = "";
  for (const [channel, value] of channels) {
    // The store would refuse it in every retry.
    if (value === undefined) throw new TypeError(`values.${channel}: is undefined, which JSON does not have`);
    const before = known.get(channel);
    const isSame = before !== undefined && previous?.strings?.get(channel) === value;
    const data = isSame ? (before.data as string) : JSON.stringify(value);
    text += `${text === "" ? "" : ","}${JSON.stringify(channel)}:${data}`;
    if (before && before.data === data) {
      versions.push([channel, before.version]);
    } else {
      versions.push([channel, checkpoint_id]);
      values.push({ channel, version: checkpoint_id, type: "json", data });
    }
  }
  // Frames and the result of the run show the same text. Put together in this way it shares the parts.
  if (!whole && text.length > LONG_STRING) knowText(state.values as JsonObject, `{${text}}`);
  const { next, tasks, call, asked = [] } = state;
  const isAsked = asked.length > 0 && next.length > 0 && tasks.every(({ interrupts }) => interrupts.length === 0);
  const about = {
    ...{ next, tasks },
    ...(whole ? { whole: true } : {}),
    ...(call ? { call } : {}),
    ...(isAsked ? { asked } : {}),
  };
  return {
    ns: "",
    checkpoint_id,
    parent_id: previous?.checkpoint_id ?? null,
    payload: { type: "json", data: JSON.stringify(about) },
    metadata: { ...metadata, parents: {} },
    versions: Object.fromEntries(versions),
    values,
  };
}

/** The number of the state after this one; the first one has −1. */
function stepAfter(previous: Pick<StoredCheckpoint, "metadata"> | null): number {
  const last = previous?.metadata["step"];
  return typeof last === "number" ? last + 1 : -1;
}

/** The channel for a state that is stored as one value. */
const ROOT = "__root__";
/** The limit of channels, because each one is a row: larger states are stored as one value. */
const MOST_CHANNELS = 1_000;

/** The values of a recorded state. `other`: for a value that is not JSON. */
export function valuesOf({ values }: StoredCheckpoint, whole: boolean, other: () => Json = () => null): Json {
  const read = ({ type, data }: ChannelValue): Json =>
    type === "json" && typeof data === "string" ? (JSON.parse(data) as Json) : other();
  const [only] = values;
  if (whole && only) return read(only);
  return Object.fromEntries(values.map((value) => [value.channel, read(value)]));
}

function wireCheckpoint(thread_id: string, checkpoint_ns: string, checkpoint_id: string): WireCheckpoint {
  return { thread_id, checkpoint_ns, checkpoint_id, checkpoint_map: null };
}

interface RecordedParts extends Pick<StateEvent, "next" | "tasks" | "call" | "asked"> {
  /** The state is stored as one value. */
  readonly whole: boolean;
}

/** What a recorded checkpoint has beside its values; null if another kind of graph has put it. */
export function recordedParts({ payload: { type, data }, writes }: StoredCheckpoint): RecordedParts | null {
  const parsed: unknown = type === "json" && typeof data === "string" ? JSON.parse(data) : null;
  if (!isObject(parsed) || !Array.isArray(parsed.next)) return null;
  const parts: RecordedParts = { tasks: [], whole: false, ...(parsed as object as Pick<RecordedParts, "next">) };
  const answered = new Set(writes.flatMap(({ channel, task_id }) => (channel === ANSWERED ? [task_id] : [])));
  if (answered.size === 0) return parts;
  return { ...parts, tasks: parts.tasks.map((task) => (answered.has(task.id) ? { ...task, interrupts: [] } : task)) };
}

/**
 * The channel of a write on a checkpoint whose interrupts a run has answered. It is stored with the first state of that run, so
 * that no other run answers them from this checkpoint.
 */
const ANSWERED = "__answered__";

/** The last checkpoint of a run that failed or was stopped, with the interrupts that it had answered; null without such. */
export function reopened(stored: StoredCheckpoint, environment: Environment): NewCheckpoint | null {
  const { asked, ...parts } = recordedParts(stored) ?? { next: [], tasks: [], whole: false };
  if (!asked) return null;
  const state = { ...parts, values: valuesOf(stored, parts.whole), tasks: asked };
  const metadata = { ...stored.metadata, step: stepAfter(stored) };
  return checkpointOf(state, checkpointId(environment, stored.checkpoint_id), metadata, stored);
}

function threadState(thread_id: string, stored: StoredCheckpoint): ThreadState {
  const { next, tasks, whole } = recordedParts(stored) ?? { next: [], tasks: [], whole: false };
  return {
    values: valuesOf(stored, whole),
    next,
    tasks,
    metadata: stored.metadata,
    created_at: new Date(stored.created_at).toISOString(),
    checkpoint: wireCheckpoint(thread_id, stored.ns, stored.checkpoint_id),
    parent_checkpoint: stored.parent_id === null ? null : wireCheckpoint(thread_id, stored.ns, stored.parent_id),
    interrupts: tasks.flatMap((task): readonly Interrupt[] => task.interrupts),
  };
}

/** The states of graphs of one node, named like the graph. */
export const recordedState: GraphState = {
  async get(at, checkpoints) {
    const stored = await checkpoints.get(at);
    return stored && threadState(at.thread_id, stored);
  },
  async update({ thread_id, ...at }, graph_id, steps, checkpoints, { metadata, environment }) {
    let place: CheckpointRef | null = null;
    for (const updates of steps) {
      const stored: StoredCheckpoint | null = await checkpoints.get(place ?? at);
      if (stored && !recordedParts(stored)) throw new StateRefused(FOREIGN_STATE);
      const before = stored && threadState(thread_id, stored);
      const { source, ...state } = changeState(before, graph_id, updates, () => environment.uuid());
      // A copy has the same parent as its original.
      const beside = source === "fork" && stored && stored.parent_id !== null;
      const parent = beside ? await checkpoints.get({ ns: "", checkpoint_id: stored.parent_id as string }) : stored;
      const newest = (await checkpoints.get({ ns: "" }))?.checkpoint_id ?? null;
      const checkpoint_id = checkpointId(environment, newest);
      const previous = source === "fork" && !beside ? null : parent;
      const about = { ...metadata, source, step: stepAfter(previous) };
      await checkpoints.put(checkpointOf(state, checkpoint_id, about, previous));
      place = { ns: "", checkpoint_id };
    }
    const last = place && (await checkpoints.get(place));
    if (!place || !last) throw new Error("A state update needs at least one step");
    return { checkpoint: place, state: threadState(thread_id, last) };
  },
  async schemas(graph_id) {
    const schemas = { input_schema: null, output_schema: null, state_schema: null, config_schema: null };
    return { graph_id, ...schemas, context_schema: null };
  },
  async drawn(graph_id): Promise<DrawnGraph> {
    return {
      nodes: [
        { id: START, type: "schema", data: START },
        { id: graph_id, type: "runnable", data: { id: [graph_id], name: graph_id } },
        { id: END, type: "schema", data: END },
      ],
      edges: [
        { source: START, target: graph_id },
        { source: graph_id, target: END },
      ],
    };
  },
  async subgraphs() {
    return {};
  },
};

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
  const coroutine = job.resume_targets?.length ? afterCheck(wanted, start) : start(wanted);
  return new CoroutineEvents(coroutine, new Recorder(job, signal, environment, debug));
}

/** Starts the coroutine if the interrupts that the run answers are pending. Errors: ResumeRefused. */
function* afterCheck(job: Job, start: (job: Job) => Coroutine): Coroutine {
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
  yield* start(job);
}

class Recorder implements EventStage {
  private readonly job: Job;
  private readonly signal: AbortSignal;
  private readonly environment: Environment;
  private readonly debug: boolean;
  /** Only the last state is put; of a stateless run none, unless the run stops before its end. */
  private readonly onlyLast: boolean;
  private about: JsonObject | undefined;
  /** The newest state; undefined until the first one. */
  private newest: Pick<StoredCheckpoint, "checkpoint_id" | "metadata"> | null | undefined;
  /** The newest state that is put: the next one that is put follows it. */
  private stored: PreviousState | null = null;
  /** The interrupts that this run answers are marked with the first state that it puts. */
  private answered: StoredCheckpoint | null = null;
  /** Put at the end. */
  private last: (() => NewCheckpoint) | null = null;
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
    const [before, above] = [checkpoints.peek?.(at), checkpoints.peek?.({ ns: "" })];
    if (before !== undefined && above !== undefined) return this.follow(event, before, above);
    const read = async () => [await checkpoints.get(at), await checkpoints.get({ ns: "" })] as const;
    return read().then((found) => this.follow(event, ...found));
  }

  /** Records the first state. */
  private follow(
    event: StateEvent,
    before: StoredCheckpoint | null,
    above: StoredCheckpoint | null,
  ): readonly ExecutorEvent[] | Promise<readonly ExecutorEvent[]> {
    this.stored = before;
    this.newest = before;
    if (!this.job.resumed && this.job.resume_targets?.length) this.answered = before;
    // A function may change its job later. Few stateless runs put a state.
    if (!this.job.stateless || !this.onlyLast) this.about = checkpointMetadata(this.job);
    return this.record(event, above?.checkpoint_id ?? null);
  }

  /** `above`: the id that its checkpoint must be above. */
  private record(
    event: StateEvent,
    above: string | null,
  ): readonly ExecutorEvent[] | Promise<readonly ExecutorEvent[]> {
    const { job, newest: previous = null } = this;
    const source = event.source ?? "loop";
    const step = stepAfter(previous);
    const checkpoint_id = checkpointId(this.environment, above);
    const made = (): NewCheckpoint =>
      checkpointOf(event, checkpoint_id, this.metadataOf({ source, step }), this.stored);
    const frames = this.debug ? event.frames?.flatMap((shown) => [shown, ...this.taskFrames(shown)]) : event.frames;
    this.newest = { checkpoint_id, metadata: { step } };
    // With durability `sync` a state is stored before it is shown.
    if (job.durability !== "sync") this.closeBarrier = job.checkpoints.openBarrier?.();
    const place = { checkpoint_id, ...(previous ? { parent_id: previous.checkpoint_id } : {}) };
    const shown = (): readonly ExecutorEvent[] => [
      { ...event, frames: frames ?? [], checkpoint: { ns: "", ...place, step, source } },
      ...this.checkpointFrames(event, place, { source, step, parents: {} }),
    ];
    if (!this.onlyLast || job.journal?.isOpen) return this.put(made, longStrings(event.values)).then(shown);
    this.last = made;
    return shown();
  }

  private metadataOf(own: JsonObject): JsonObject {
    this.about ??= checkpointMetadata(this.job);
    return { ...this.about, ...own };
  }

  private async put(made: () => NewCheckpoint, strings: ReadonlyMap<string, string>): Promise<void> {
    await this.putLast();
    const { answered } = this;
    this.answered = null;
    if (answered) await this.markAnswered(answered);
    const checkpoint = made();
    const { checkpoint_id, versions, values } = checkpoint;
    const kept = this.stored?.values.filter(({ channel, version }) => versions[channel] === version) ?? [];
    this.stored = { checkpoint_id, values: [...kept, ...values], strings };
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

  /** Puts the last state, where only that one is put. */
  private putEnd(): Promise<void> | undefined {
    const { aborted, reason } = this.signal;
    return this.last && (this.job.stateless ? aborted : reason !== "cancelled") ? this.putLast() : undefined;
  }

  private async putLast(): Promise<void> {
    const { last } = this;
    this.last = null;
    if (last) await this.job.checkpoints.put(last());
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
