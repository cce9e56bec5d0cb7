/** The states of agents that write no checkpoints: how they are stored, read and updated. */
import { isObject, type Json, type JsonObject } from "../json.ts";
import { checkpointId } from "./checkpoint-ids.ts";
import {
  type ChannelValue,
  type CheckpointRef,
  type DrawnGraph,
  type GraphState,
  type Interrupt,
  type NewCheckpoint,
  type StateEvent,
  StateRefused,
  type StoredCheckpoint,
  type Task,
  type ThreadState,
  type WireCheckpoint,
} from "./contract.ts";
import { changeState } from "./state-update.ts";

/** The checkpoint of a state that follows another. An unchanged value keeps its version. */
export function checkpointOf(
  state: Pick<StateEvent, "values" | "next" | "tasks">,
  checkpoint_id: string,
  metadata: JsonObject,
  previous: Pick<StoredCheckpoint, "checkpoint_id" | "values"> | null,
): NewCheckpoint {
  const members = isObject(state.values) ? Object.entries(state.values) : [];
  const whole = !isObject(state.values) || members.length > MOST_CHANNELS;
  const channels: [string, Json | undefined][] = whole ? [[ROOT, state.values]] : members;
  const known = new Map(previous?.values.map((value) => [value.channel, value]));
  const versions: [string, string][] = [];
  const values: ChannelValue[] = [];
  for (const [channel, value] of channels) {
    // The store would refuse it in every retry.
    if (value === undefined) throw new TypeError(`values.${channel}: is undefined, which JSON does not have`);
    const data = JSON.stringify(value);
    const before = known.get(channel);
    if (before && before.data === data) {
      versions.push([channel, before.version]);
    } else {
      versions.push([channel, checkpoint_id]);
      values.push({ channel, version: checkpoint_id, type: "json", data });
    }
  }
  const { next, tasks } = state;
  return {
    ns: "",
    checkpoint_id,
    parent_id: previous?.checkpoint_id ?? null,
    payload: { type: "json", data: JSON.stringify({ next, tasks, ...(whole ? { whole: true } : {}) }) },
    metadata: { ...metadata, parents: {} },
    versions: Object.fromEntries(versions),
    values,
  };
}

/** The number of the state after this one; the first one has −1. */
export function stepAfter(previous: Pick<StoredCheckpoint, "metadata"> | null): number {
  const last = previous?.metadata["step"];
  return typeof last === "number" ? last + 1 : -1;
}

/** The channel for a state that is stored as one value. */
const ROOT = "__root__";
/** The limit of channels, because each one is a row: larger states are stored as one value. */
const MOST_CHANNELS = 1_000;

/** `whole`: the state is stored as one value. */
export function valuesOf(
  stored: StoredCheckpoint,
  whole: boolean,
  read: (value: ChannelValue) => Json = ({ type, data }) =>
    type === "json" && typeof data === "string" ? (JSON.parse(data) as Json) : null,
): Json {
  const only = stored.values[0];
  if (whole && only) return read(only);
  return Object.fromEntries(stored.values.map((value) => [value.channel, read(value)]));
}

export function wireCheckpoint(thread_id: string, checkpoint_ns: string, checkpoint_id: string): WireCheckpoint {
  return { thread_id, checkpoint_ns, checkpoint_id, checkpoint_map: null };
}

function threadState(thread_id: string, stored: StoredCheckpoint): ThreadState {
  const rest = stored.payload.type === "json" ? (JSON.parse(String(stored.payload.data)) as Json) : {};
  const {
    next = [],
    tasks = [],
    whole = false,
  } = (isObject(rest) ? rest : {}) as unknown as {
    next?: readonly string[];
    tasks?: readonly Task[];
    whole?: boolean;
  };
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

function isRecorded({ payload: { type, data } }: StoredCheckpoint): boolean {
  const rest = type === "json" && typeof data === "string" ? (JSON.parse(data) as Json) : null;
  return isObject(rest) && Array.isArray(rest.next);
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
      if (stored && !isRecorded(stored))
        throw new StateRefused("The thread's state was written by another kind of graph");
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
        { id: "__start__", type: "schema", data: "__start__" },
        { id: graph_id, type: "runnable", data: { id: [graph_id], name: graph_id } },
        { id: "__end__", type: "schema", data: "__end__" },
      ],
      edges: [
        { source: "__start__", target: graph_id },
        { source: graph_id, target: "__end__" },
      ],
    };
  },
  async subgraphs() {
    return {};
  },
};
