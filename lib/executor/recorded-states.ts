/** The states of agents that put no checkpoints: how they are stored and read. `state-recorder.ts` puts them. */
import type { Environment } from "../environment.ts";
import { isObject, type Json, type JsonObject, registerText } from "../json.ts";
import { checkpointId } from "./checkpoints.ts";
import {
  type ChannelValue,
  type CheckpointReader,
  type CheckpointRef,
  type DrawnGraph,
  type GraphState,
  type Interrupt,
  type NewCheckpoint,
  type StateEvent,
  StateRefused,
  type StoredCheckpoint,
  type ThreadState,
  type WireCheckpoint,
} from "./contract.ts";
import { changeState, END, START } from "./state-changes.ts";

/** The error of an agent that finds the state of another runtime. */
export const FOREIGN_STATE = "The thread's state was written by another kind of graph";

/** The state before the one that is put. */
export interface PreviousState extends Pick<StoredCheckpoint, "checkpoint_id" | "values"> {
  /** Its long strings by channel. */
  readonly strings?: ReadonlyMap<string, string>;
}

/** Shorter strings of states are written again, in characters. */
const LONG_STRING = 64 * 1024;

/** The long strings among the values of a state. An executor may change the object later, but no string. */
export const longStrings = (values: Json): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(isObject(values) ? values : {}).filter(
      (entry): entry is [string, string] => typeof entry[1] === "string" && entry[1].length > LONG_STRING,
    ),
  );

type CheckpointContent = Pick<StateEvent, "values" | "next" | "tasks" | "call" | "asked">;

/** The checkpoint of a state that follows another. An unchanged value keeps its version. */
export function toCheckpoint(
  state: CheckpointContent,
  checkpoint_id: string,
  metadata: JsonObject,
  previous: PreviousState | null,
): NewCheckpoint {
  const members = isObject(state.values) ? Object.entries(state.values) : [];
  const whole = !isObject(state.values) || members.length > MOST_CHANNELS;
  const channels: readonly ChannelEntry[] = whole ? [[ROOT, state.values]] : members;
  const { versions, values, text } = diffChannels(channels, checkpoint_id, previous);
  // Frames and the result of the run show the same text. Put together in this way it shares the parts.
  if (!whole && text.length > LONG_STRING) registerText(state.values as JsonObject, `{${text}}`);
  const { next, tasks, call, asked } = state;
  const parts = {
    ...{ next, tasks },
    ...(whole ? { whole: true } : {}),
    ...(call ? { call } : {}),
    ...(asksAgain(state) ? { asked } : {}),
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

/** The version of each channel, the values that have changed, and the members of the state as JSON. */
function diffChannels(
  channels: readonly ChannelEntry[],
  checkpoint_id: string,
  previous: PreviousState | null,
): Pick<NewCheckpoint, "versions" | "values"> & { readonly text: string } {
  const known = new Map(previous?.values.map((value) => [value.channel, value]));
  const versions: [string, string][] = [];
  const values: ChannelValue[] = [];
  let text = "";
  for (const [channel, value] of channels) {
    // The store would refuse it in every retry.
    if (value === undefined) throw new TypeError(`values.${channel}: is undefined, which JSON does not have`);
    const before = known.get(channel);
    // To compare a long string is cheaper than to serialize it.
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
  return { versions: Object.fromEntries(versions), values, text };
}

/** Whether a run that stops at this state leaves the interrupts that it has answered pending again. */
const asksAgain = ({ next, tasks, asked = [] }: CheckpointContent): boolean =>
  asked.length > 0 && next.length > 0 && tasks.every(({ interrupts }) => interrupts.length === 0);

/** The number of the state after this one; the first one has −1. */
export function stepAfter(previous: Pick<StoredCheckpoint, "metadata"> | null): number {
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

export function wireCheckpoint(thread_id: string, checkpoint_ns: string, checkpoint_id: string): WireCheckpoint {
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
export const ANSWERED = "__answered__";

/** The last checkpoint of a run that failed or was stopped, with the interrupts that it had answered; null without such. */
export function reopened(stored: StoredCheckpoint, environment: Environment): NewCheckpoint | null {
  const { asked, ...parts } = recordedParts(stored) ?? { next: [], tasks: [], whole: false };
  if (!asked) return null;
  const state = { ...parts, values: valuesOf(stored, parts.whole), tasks: asked };
  const metadata = { ...stored.metadata, step: stepAfter(stored) };
  return toCheckpoint(state, checkpointId(environment, stored.checkpoint_id), metadata, stored);
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

/** The checkpoint that the one of an update follows. A copy has the same parent as its original. */
async function parentOfUpdate(
  checkpoints: CheckpointReader,
  stored: StoredCheckpoint | null,
  source: string,
): Promise<StoredCheckpoint | null> {
  if (source !== "fork") return stored;
  const parent_id = stored?.parent_id ?? null;
  return parent_id === null ? null : await checkpoints.get({ ns: "", checkpoint_id: parent_id });
}

/** The states of graphs of one node, named like the graph. */
export const recordedState: GraphState = {
  async get(at, checkpoints) {
    const stored = await checkpoints.get(at);
    return stored && threadState(at.thread_id, stored);
  },
  // biome-ignore lint/complexity/useMaxParams: the method of GraphState has these parameters
  async update({ thread_id, ...at }, graph_id, steps, checkpoints, { metadata, environment }) {
    let place: CheckpointRef | null = null;
    for (const updates of steps) {
      const stored: StoredCheckpoint | null = await checkpoints.get(place ?? at);
      if (stored && !recordedParts(stored)) throw new StateRefused(FOREIGN_STATE);
      const before = stored && threadState(thread_id, stored);
      const { source, ...state } = changeState(before, graph_id, updates, () => environment.uuid());
      const parent = await parentOfUpdate(checkpoints, stored, source);
      const newest = (await checkpoints.get({ ns: "" }))?.checkpoint_id ?? null;
      const checkpoint_id = checkpointId(environment, newest);
      const ownMetadata = { ...metadata, source, step: stepAfter(parent) };
      await checkpoints.put(toCheckpoint(state, checkpoint_id, ownMetadata, parent));
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
