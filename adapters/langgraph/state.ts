/** Reads and changes the states of a graph, and draws the graph. */
import type {
  DrawnGraph,
  GraphSchemas,
  GraphState,
  Interrupt,
  Task,
  ThreadState,
} from "../../lib/executor/contract.ts";
import { isObject, type Json } from "../../lib/json.ts";
import { EMPTY_CONFIG, type Graph, type GraphSource, type Snapshot, type SnapshotTask, withSaver } from "./graph.ts";
import { ParsedListCache } from "./parsed-list-cache.ts";
import { createReadOnlyHandle, createSingleThreadAccess, readAnswerCounts, Saver } from "./saver.ts";
import { createGraphSchemas } from "./schemas.ts";
import type { Serde } from "./serde.ts";
import { serializeMetadata, serializeValue, toTaskCheckpoint, toWireCheckpoint } from "./serialize.ts";
import { UpdateSaver, updateState } from "./update.ts";
import type { LoadModule } from "./version.ts";
import { omitWaitInterrupts } from "./wait-interrupts.ts";

/**
 * Converts a state to its wire form, without interrupts of `sleep` and `wait`. Returns null without a checkpoint. `counts` adds
 * to each interrupt how many resume values its task had consumed.
 */
export function toThreadState(
  snapshot: Snapshot,
  serialize: (value: unknown) => Json = serializeValue,
  counts: ReadonlyMap<string, number> = new Map(),
): ThreadState | null {
  const checkpoint = toWireCheckpoint(snapshot.config);
  if (!checkpoint || snapshot.createdAt === undefined) return null;
  const tasks = snapshot.tasks.map((task) => addAnswerCounts(toWireTask(task, serialize), counts));
  const metadata = serializeMetadata(snapshot.metadata ?? null);
  return {
    values: serialize(snapshot.values),
    next: listNextNodes(snapshot),
    tasks,
    metadata: isObject(metadata) ? metadata : null,
    created_at: snapshot.createdAt,
    checkpoint,
    parent_checkpoint: toWireCheckpoint(snapshot.parentConfig),
    interrupts: tasks.flatMap((task) => task.interrupts),
  };
}

/**
 * Returns the nodes of the next step: those that LangGraph lists, then the nodes of interrupted tasks that it omits,
 * because they have consumed a resume value and then raised another interrupt. A node with several tasks is listed
 * several times.
 */
function listNextNodes({ next, tasks }: Snapshot): string[] {
  const names = [...next];
  const listed = [...next];
  for (const { name, interrupts = [] } of tasks) {
    if (interrupts.length === 0) continue;
    const index = listed.indexOf(name);
    if (index >= 0) listed.splice(index, 1);
    else names.push(name);
  }
  return names;
}

/**
 * Returns the task with the number of resume values that it had consumed before each of its interrupts; the same task if none are
 * known.
 */
function addAnswerCounts(task: Task, counts: ReadonlyMap<string, number>): Task {
  if (counts.size === 0) return task;
  const interrupts = task.interrupts.map((interrupt) => {
    const answered = counts.get(interrupt.id);
    return answered === undefined ? interrupt : { ...interrupt, answered };
  });
  return { ...task, interrupts };
}

/**
 * Returns a task in wire form, with the state of its subgraph if it was read, else with its checkpoint. Interrupts of `sleep` and
 * `wait` are omitted.
 */
function toWireTask(task: SnapshotTask, serialize: (value: unknown) => Json): Task {
  const inner = task.state && "values" in task.state ? toThreadState(task.state, serialize) : null;
  return {
    id: task.id,
    name: task.name,
    path: serializeMetadata(task.path),
    error: formatError(task.error),
    interrupts: serializeValue(omitWaitInterrupts(task.interrupts ?? [])) as unknown as readonly Interrupt[],
    checkpoint: inner
      ? (inner.checkpoint as Json)
      : toTaskCheckpoint(task.state && "values" in task.state ? task.state.config : task.state),
    state: inner,
    result: serializeValue(task.result),
  };
}

/** Returns the message of an error, or its JSON if it has none; null for none. */
function formatError(error: unknown): string | null {
  if (error === undefined || error === null) return null;
  const { message } = error as { message?: unknown };
  return typeof message === "string" ? message : JSON.stringify(serializeMetadata(error));
}

/** Returns the checkpoint id of the snapshot as a member; no member if the snapshot has no thread or no checkpoint. */
const toStateId = ({ config }: Snapshot): { readonly checkpoint_id?: string } => {
  const checkpoint_id = toWireCheckpoint(config)?.checkpoint_id;
  return checkpoint_id === undefined ? {} : { checkpoint_id };
};

/**
 * Creates the access to the states of one graph. `get` returns null without a checkpoint; `update` throws a StateUpdateError for
 * what the graph refuses. The graph is created anew for each call if it is a function. Parsed lists are cached for `get`.
 */
export function createGraphState(source: GraphSource, serde: () => Promise<Serde>, load: LoadModule): GraphState {
  let cachedLists: ParsedListCache | undefined;
  return {
    async get({ thread_id, ns, checkpoint_id }, reader, { subgraphs, config }) {
      const threads = createSingleThreadAccess(thread_id, createReadOnlyHandle(reader));
      cachedLists ??= new ParsedListCache(await serde());
      const serializer = cachedLists;
      const graph = withSaver(await source.loadGraph(config), new Saver({ threads, serde: serializer }));
      const configurable = { thread_id, checkpoint_ns: ns, ...(checkpoint_id === undefined ? {} : { checkpoint_id }) };
      const snapshot = await graph.getState({ configurable: configurable }, { subgraphs });
      const isInterrupted = snapshot.tasks.some(({ interrupts = [] }) => interrupts.length > 0);
      const stored = isInterrupted ? await reader.get({ ns, ...toStateId(snapshot) }) : null;
      return toThreadState(
        snapshot,
        (value) => serializer.serialize(value),
        stored ? readAnswerCounts(stored) : undefined,
      );
    },
    async update(...[ref, graph_id, steps, checkpoints, { metadata, environment, config }]) {
      const threads = createSingleThreadAccess(ref.thread_id, checkpoints);
      const saver = new UpdateSaver({ threads, serde: await serde(), metadata }, environment);
      const graph = withSaver(await source.loadGraph(config), saver);
      const checkpoint = await updateState(graph, ref, steps);
      const state = toThreadState(
        await graph.getState({ configurable: { thread_id: ref.thread_id } }, { subgraphs: false }),
      );
      if (!state) throw new Error(`The states of graph ${graph_id} cannot be read`);
      return { checkpoint, state };
    },
    async schemas(graph_id, config) {
      return await createGraphSchemas(graph_id, await source.createGraph(config ?? EMPTY_CONFIG), load);
    },
    async graph(_graph_id, xray, config) {
      return await drawGraph(await source.createGraph(config ?? EMPTY_CONFIG), xray);
    },
    async subgraphs(graph_id, namespace, recurse, config) {
      const graph = await source.createGraph(config ?? EMPTY_CONFIG);
      const schemaEntries: [string, GraphSchemas][] = [];
      for await (const [name, subgraph] of graph.getSubgraphsAsync(namespace ?? undefined, recurse)) {
        schemaEntries.push([name, await createGraphSchemas(graph_id, subgraph, load)]);
      }
      return Object.fromEntries(schemaEntries);
    },
  };
}

/** Returns the drawing of the graph with all ids as texts. Throws what LangGraph throws. */
async function drawGraph(graph: Graph, xray: boolean | number): Promise<DrawnGraph> {
  const drawn = serializeMetadata((await graph.getGraphAsync({ xray })).toJSON()) as unknown as {
    nodes: readonly { id: string | number; type?: string; data?: Json; metadata?: Json }[];
    edges: readonly { source: string | number; target: string | number; data?: string; conditional?: boolean }[];
  };
  return {
    nodes: drawn.nodes.map((node) => ({ ...node, id: String(node.id) })),
    edges: drawn.edges.map((edge) => ({ ...edge, source: String(edge.source), target: String(edge.target) })),
  };
}
