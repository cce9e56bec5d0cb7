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
import { type Graph, type GraphSource, noConfig, type Snapshot, type SnapshotTask, withSaver } from "./graph.ts";
import { ParsedListCache } from "./parsed-list-cache.ts";
import { answerCounts, createSingleThreadAccess, readOnly, Saver } from "./saver.ts";
import { schemasOf } from "./schemas.ts";
import type { Serde } from "./serde.ts";
import { serializeMetadata, serializeValue, taskCheckpoint, wireCheckpoint } from "./serialize.ts";
import { omitStepInterrupts } from "./step-marks.ts";
import { UpdateSaver, updateState } from "./update.ts";
import type { Load } from "./version.ts";

/** The wire form of a state; null without a checkpoint. */
export function threadState(
  snapshot: Snapshot,
  show: (value: unknown) => Json = serializeValue,
  counts: ReadonlyMap<string, number> = new Map(),
): ThreadState | null {
  const checkpoint = wireCheckpoint(snapshot.config);
  if (!checkpoint || snapshot.createdAt === undefined) return null;
  const tasks = snapshot.tasks.map((task) => counted(wireTask(task, show), counts));
  const metadata = serializeMetadata(snapshot.metadata ?? null);
  return {
    values: show(snapshot.values),
    next: nextNodes(snapshot),
    tasks,
    metadata: isObject(metadata) ? metadata : null,
    created_at: snapshot.createdAt,
    checkpoint,
    parent_checkpoint: wireCheckpoint(snapshot.parentConfig),
    interrupts: tasks.flatMap((task) => task.interrupts),
  };
}

/** The nodes of the next step. LangGraph leaves out a node that has consumed an answer, and then raised another interrupt. */
function nextNodes({ next, tasks }: Snapshot): string[] {
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

/** The task, with the number of answers that it had consumed before each of its interrupts. */
function counted(task: Task, counts: ReadonlyMap<string, number>): Task {
  if (counts.size === 0) return task;
  const interrupts = task.interrupts.map((interrupt) => {
    const answered = counts.get(interrupt.id);
    return answered === undefined ? interrupt : { ...interrupt, answered };
  });
  return { ...task, interrupts };
}

function wireTask(task: SnapshotTask, show: (value: unknown) => Json): Task {
  const inner = task.state && "values" in task.state ? threadState(task.state, show) : null;
  return {
    id: task.id,
    name: task.name,
    path: serializeMetadata(task.path),
    error: errorText(task.error),
    interrupts: serializeValue(omitStepInterrupts(task.interrupts ?? [])) as unknown as readonly Interrupt[],
    checkpoint: inner
      ? (inner.checkpoint as Json)
      : taskCheckpoint(task.state && "values" in task.state ? task.state.config : task.state),
    state: inner,
    result: serializeValue(task.result),
  };
}

function errorText(error: unknown): string | null {
  if (error === undefined || error === null) return null;
  const { message } = error as { message?: unknown };
  return typeof message === "string" ? message : JSON.stringify(serializeMetadata(error));
}

const stateId = ({ config }: Snapshot): { readonly checkpoint_id?: string } => {
  const checkpoint_id = wireCheckpoint(config)?.checkpoint_id;
  return checkpoint_id === undefined ? {} : { checkpoint_id };
};

export function graphState(source: GraphSource, serde: () => Promise<Serde>, load: Load): GraphState {
  let reads: ParsedListCache | undefined;
  return {
    async get({ thread_id, ns, checkpoint_id }, reader, { subgraphs, config }) {
      const threads = createSingleThreadAccess(thread_id, readOnly(reader));
      reads ??= new ParsedListCache(await serde());
      const shared = reads;
      const graph = withSaver(await source.read(config), new Saver({ threads, serde: shared }));
      const named = { thread_id, checkpoint_ns: ns, ...(checkpoint_id === undefined ? {} : { checkpoint_id }) };
      const snapshot = await graph.getState({ configurable: named }, { subgraphs });
      const isInterrupted = snapshot.tasks.some(({ interrupts = [] }) => interrupts.length > 0);
      const stored = isInterrupted ? await reader.get({ ns, ...stateId(snapshot) }) : null;
      return threadState(snapshot, (value) => shared.serialize(value), stored ? answerCounts(stored) : undefined);
    },
    async update(...[at, graph_id, steps, checkpoints, { metadata, environment, config }]) {
      const threads = createSingleThreadAccess(at.thread_id, checkpoints);
      const saver = new UpdateSaver({ threads, serde: await serde(), metadata }, environment);
      const graph = withSaver(await source.read(config), saver);
      const checkpoint = await updateState(graph, at, steps);
      const state = threadState(
        await graph.getState({ configurable: { thread_id: at.thread_id } }, { subgraphs: false }),
      );
      if (!state) throw new Error(`The states of graph ${graph_id} cannot be read`);
      return { checkpoint, state };
    },
    async schemas(graph_id, config) {
      return await schemasOf(graph_id, await source.graph(config ?? noConfig), load);
    },
    async drawn(_graph_id, xray, config) {
      return await drawnOf(await source.graph(config ?? noConfig), xray);
    },
    async subgraphs(graph_id, namespace, recurse, config) {
      const graph = await source.graph(config ?? noConfig);
      const found: [string, GraphSchemas][] = [];
      for await (const [name, subgraph] of graph.getSubgraphsAsync(namespace ?? undefined, recurse)) {
        found.push([name, await schemasOf(graph_id, subgraph, load)]);
      }
      return Object.fromEntries(found);
    },
  };
}

async function drawnOf(graph: Graph, xray: boolean | number): Promise<DrawnGraph> {
  const drawn = serializeMetadata((await graph.getGraphAsync({ xray })).toJSON()) as unknown as {
    nodes: readonly { id: string | number; type?: string; data?: Json; metadata?: Json }[];
    edges: readonly { source: string | number; target: string | number; data?: string; conditional?: boolean }[];
  };
  return {
    nodes: drawn.nodes.map((node) => ({ ...node, id: String(node.id) })),
    edges: drawn.edges.map((edge) => ({ ...edge, source: String(edge.source), target: String(edge.target) })),
  };
}
