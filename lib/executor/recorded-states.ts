/** The stored form of states of agents that put no checkpoints. `state-recorder.ts` puts them. */
import type { Environment } from "../environment.ts";
import { SchemaMismatch } from "../errors.ts";
import { isObject, type Json, type JsonObject, registerText } from "../json.ts";
import type { AgentSchemas } from "./agent-schemas.ts";
import {
  type ChannelValue,
  type CheckpointReader,
  type CheckpointRef,
  type DrawnGraph,
  type GraphState,
  type Interrupt,
  type NewCheckpoint,
  type StateEvent,
  StateUpdateError,
  type StoredCheckpoint,
  type Task,
  type ThreadState,
  type WireCheckpoint,
} from "./contract.ts";
import { createCheckpointId } from "./job-checkpoints.ts";
import { changeState, END, START } from "./state-changes.ts";

/** The error message of an agent that finds the state of another runtime. */
export const FOREIGN_STATE_MESSAGE = "The thread's state was written by another kind of graph";

/** The state before the one that is put. */
export interface PreviousState extends Pick<StoredCheckpoint, "checkpoint_id" | "values"> {
  /** The long strings of the state by channel. */
  readonly strings?: ReadonlyMap<string, string>;
}

/** The length above which unchanged strings of states are not serialized again. */
const MIN_LONG_STRING_CHARS = 64 * 1024;

/** Returns the long strings among the values of a state. An executor may change the object later, but no string. */
export const pickLongStrings = (values: Json): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(isObject(values) ? values : {}).filter(
      (entry): entry is [string, string] => typeof entry[1] === "string" && entry[1].length > MIN_LONG_STRING_CHARS,
    ),
  );

type CheckpointContent = Pick<StateEvent, "values" | "next" | "tasks" | "call" | "resumed_tasks" | "input">;

/**
 * Creates the checkpoint of a state that follows another, with the values that have changed; an unchanged value keeps its
 * version. Registers the JSON text of a large state, so that frames share it. Throws a TypeError for an undefined value.
 */
export function toCheckpoint(
  state: CheckpointContent,
  checkpoint_id: string,
  metadata: JsonObject,
  previous: PreviousState | null,
): NewCheckpoint {
  const members = isObject(state.values) ? Object.entries(state.values) : [];
  const isSingleValue = !isObject(state.values) || members.length > MAX_CHANNELS;
  const channels: readonly ChannelEntry[] = isSingleValue ? [[ROOT_CHANNEL, state.values]] : members;
  const { versions, values, text } = diffChannels(channels, checkpoint_id, previous);
  // Frames and the result of the run contain the same text. The concatenation shares its parts with the stored values.
  if (!isSingleValue && text.length > MIN_LONG_STRING_CHARS) registerText(state.values as JsonObject, `{${text}}`);
  const { next, tasks, call, resumed_tasks, input } = state;
  const parts = {
    ...{ next, tasks },
    ...(isSingleValue ? { whole: true } : {}),
    ...(call ? { call } : {}),
    ...(restoresInterrupts(state) ? { asked: resumed_tasks } : {}),
    ...(input === undefined || next.length === 0 ? {} : { input }),
  };
  return {
    ns: "",
    checkpoint_id,
    parent_id: previous?.checkpoint_id ?? null,
    payload: { type: "json", data: JSON.stringify(parts) },
    metadata: { ...metadata, parents: {} },
    versions,
    values,
  };
}

type ChannelEntry = readonly [channel: string, value: Json | undefined];

/**
 * Returns the version of each channel, the values that have changed, and the members of the state as JSON without braces. Throws
 * a TypeError for an undefined value.
 */
function diffChannels(
  channels: readonly ChannelEntry[],
  checkpoint_id: string,
  previous: PreviousState | null,
): Pick<NewCheckpoint, "versions" | "values"> & { readonly text: string } {
  const previousValues = new Map(previous?.values.map((value) => [value.channel, value]));
  const versions: [string, string][] = [];
  const values: ChannelValue[] = [];
  let text = "";
  for (const [channel, value] of channels) {
    // The storage would reject it in every retry.
    if (value === undefined) throw new TypeError(`values.${channel}: is undefined, which JSON does not have`);
    const previousValue = previousValues.get(channel);
    // Comparing a long string is cheaper than serializing it.
    const isSame = previousValue !== undefined && previous?.strings?.get(channel) === value;
    const data = isSame ? (previousValue.data as string) : JSON.stringify(value);
    text += `${text === "" ? "" : ","}${JSON.stringify(channel)}:${data}`;
    if (previousValue && previousValue.data === data) {
      versions.push([channel, previousValue.version]);
    } else {
      versions.push([channel, checkpoint_id]);
      values.push({ channel, version: checkpoint_id, type: "json", data });
    }
  }
  return { versions: Object.fromEntries(versions), values, text };
}

/** Returns true if a run that stops at this state leaves the interrupts that it has resumed pending again. */
const restoresInterrupts = ({ next, tasks, resumed_tasks = [] }: CheckpointContent): boolean =>
  resumed_tasks.length > 0 && next.length > 0 && tasks.every(({ interrupts }) => interrupts.length === 0);

/** Returns the step number of the state after `previous`; −1 for the first state. */
export function nextStepNumber(previous: Pick<StoredCheckpoint, "metadata"> | null): number {
  const last = previous?.metadata["step"];
  return typeof last === "number" ? last + 1 : -1;
}

/** The channel of a state that is stored as one value. */
const ROOT_CHANNEL = "__root__";
/** The maximum number of channels, because each one is a row. Larger states are stored as one value. */
const MAX_CHANNELS = 1_000;

/**
 * Returns the values of a recorded state as an object by channel, or the one stored value if `isSingleValue`. `readOther` is
 * called for a value that is not JSON, and its result replaces it.
 */
export function readValues(
  { values }: StoredCheckpoint,
  isSingleValue: boolean,
  readOther: () => Json = () => null,
): Json {
  const read = ({ type, data }: ChannelValue): Json =>
    type === "json" && typeof data === "string" ? (JSON.parse(data) as Json) : readOther();
  const [single] = values;
  if (isSingleValue && single) return read(single);
  return Object.fromEntries(values.map((value) => [value.channel, read(value)]));
}

export function toWireCheckpoint(thread_id: string, checkpoint_ns: string, checkpoint_id: string): WireCheckpoint {
  return { thread_id, checkpoint_ns, checkpoint_id, checkpoint_map: null };
}

interface RecordedState extends Pick<StateEvent, "next" | "tasks" | "call" | "input"> {
  /** True if the state is stored as one value: `whole` in the stored JSON. */
  readonly isSingleValue: boolean;
  /** The tasks whose interrupts the run has resumed. */
  readonly asked?: readonly Task[];
}

/**
 * Parses the members of a recorded checkpoint beside its values. Tasks whose interrupts were answered have none. Returns null if
 * another kind of graph has put it.
 */
export function parseRecordedState({ payload: { type, data }, writes }: StoredCheckpoint): RecordedState | null {
  const parsed: unknown = type === "json" && typeof data === "string" ? JSON.parse(data) : null;
  if (!isObject(parsed) || !Array.isArray(parsed.next)) return null;
  const { whole: isStoredWhole = false, ...members } = parsed as object as Pick<RecordedState, "next"> & {
    readonly whole?: boolean;
  };
  const parts: RecordedState = { tasks: [], ...members, isSingleValue: isStoredWhole };
  const answeredTasks = new Set(
    writes.flatMap(({ channel, task_id }) => (channel === ANSWERED_CHANNEL ? [task_id] : [])),
  );
  if (answeredTasks.size === 0) return parts;
  return {
    ...parts,
    tasks: parts.tasks.map((task) => (answeredTasks.has(task.id) ? { ...task, interrupts: [] } : task)),
  };
}

/**
 * The channel of a write on a checkpoint whose interrupts a run has resumed. It is stored with the first state of that run, so
 * that no other run resumes them from this checkpoint.
 */
export const ANSWERED_CHANNEL = "__answered__";

/**
 * Creates the last checkpoint of a run that failed or was stopped, with the interrupts that it had resumed. Returns null without
 * such interrupts. Stores nothing.
 */
export function createReopenedCheckpoint(stored: StoredCheckpoint, environment: Environment): NewCheckpoint | null {
  const { asked, ...parts } = parseRecordedState(stored) ?? { next: [], tasks: [], isSingleValue: false };
  if (!asked) return null;
  const state = { ...parts, values: readValues(stored, parts.isSingleValue), tasks: asked };
  const metadata = { ...stored.metadata, step: nextStepNumber(stored) };
  return toCheckpoint(state, createCheckpointId(environment, stored.checkpoint_id), metadata, stored);
}

/**
 * Converts a recorded checkpoint to a state in wire form. One that another kind of graph has put has no next nodes and no tasks.
 */
function toThreadState(thread_id: string, stored: StoredCheckpoint): ThreadState {
  const { next, tasks, isSingleValue } = parseRecordedState(stored) ?? { next: [], tasks: [], isSingleValue: false };
  return {
    values: readValues(stored, isSingleValue),
    next,
    tasks,
    metadata: stored.metadata,
    created_at: new Date(stored.created_at).toISOString(),
    checkpoint: toWireCheckpoint(thread_id, stored.ns, stored.checkpoint_id),
    parent_checkpoint: stored.parent_id === null ? null : toWireCheckpoint(thread_id, stored.ns, stored.parent_id),
    interrupts: tasks.flatMap((task): readonly Interrupt[] => task.interrupts),
  };
}

/**
 * Resolves with the parent of an update's checkpoint: `stored` itself or, for a `fork`, which copies `stored`, the parent of
 * that. Resolves to null without one.
 */
async function findParentOfUpdate(
  checkpoints: CheckpointReader,
  stored: StoredCheckpoint | null,
  source: string,
): Promise<StoredCheckpoint | null> {
  if (source !== "fork") return stored;
  const parent_id = stored?.parent_id ?? null;
  return parent_id === null ? null : await checkpoints.get({ ns: "", checkpoint_id: parent_id });
}

/**
 * Returns the members of a recorded checkpoint beside its values. Throws `StateUpdateError` if another kind of graph has put it.
 */
function requireRecordedState(stored: StoredCheckpoint): RecordedState {
  const parts = parseRecordedState(stored);
  if (!parts) throw new StateUpdateError(FOREIGN_STATE_MESSAGE);
  return parts;
}

/** Throws `SchemaMismatch` for an update that the schema of the state refuses. */
async function requireSchemaFit(schemas: AgentSchemas, before: Json, after: JsonObject): Promise<void> {
  if (!schemas.state) return;
  const { findUpdateIssues, toInputIssues } = await import("./agent-schemas.ts");
  const issues = await findUpdateIssues(schemas, before, after);
  if (issues.length > 0) throw new SchemaMismatch(toInputIssues(["body", "values"], issues));
}

/** Creates the functions that read and update the states of graphs that have one node, named like the graph. */
export const createRecordedGraphState = (schemas: AgentSchemas = {}): GraphState => ({
  async get(at, checkpoints) {
    const stored = await checkpoints.get(at);
    return stored && toThreadState(at.thread_id, stored);
  },
  /**
   * Applies updates, one checkpoint for each step, and returns the newest state and its address. Throws `StateUpdateError` for an
   * update that does not fit and for a state of another kind of graph, `SchemaMismatch` for values that the schema refuses.
   */
  // biome-ignore lint/complexity/useMaxParams: the method of GraphState has these parameters
  async update({ thread_id, ...at }, graph_id, steps, checkpoints, { metadata, environment }) {
    let newestRef: CheckpointRef | null = null;
    for (const updates of steps) {
      const stored: StoredCheckpoint | null = await checkpoints.get(newestRef ?? at);
      const input = stored ? requireRecordedState(stored).input : undefined;
      const before = stored && toThreadState(thread_id, stored);
      const { source, ...changedState } = changeState(before, graph_id, updates, () => environment.uuid());
      await requireSchemaFit(schemas, before?.values ?? null, changedState.values);
      const parent = await findParentOfUpdate(checkpoints, stored, source);
      const newest = (await checkpoints.get({ ns: "" }))?.checkpoint_id ?? null;
      const checkpoint_id = createCheckpointId(environment, newest);
      const stepMetadata = { ...metadata, source, step: nextStepNumber(parent) };
      await checkpoints.put(toCheckpoint({ ...changedState, input }, checkpoint_id, stepMetadata, parent));
      newestRef = { ns: "", checkpoint_id };
    }
    const last = newestRef && (await checkpoints.get(newestRef));
    if (!newestRef || !last) throw new Error("A state update needs at least one step");
    return { checkpoint: newestRef, state: toThreadState(thread_id, last) };
  },
  schemas: async (graph_id) => (await import("./json-schemas.ts")).toGraphSchemas(graph_id, schemas),
  async graph(graph_id): Promise<DrawnGraph> {
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
});

/** The states of graphs without schemas. */
export const recordedGraphState: GraphState = createRecordedGraphState();
