/** Reading and changing the states of a graph, and what it looks like. */
import type { DrawnGraph, GraphSchemas, GraphState, Interrupt, Task, ThreadState } from "../../lib/executor.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { type Graph, type GraphSource, noConfig, type Snapshot, type SnapshotTask, withSaver } from "./graph.ts";
import { onlyThread, readOnly, Saver } from "./saver.ts";
import type { Serde } from "./serde.ts";
import { UpdateSaver, updateState } from "./update.ts";
import { aboutWire, taskCheckpoint, toWire, wireCheckpoint } from "./wire.ts";

/** A state as the wire shows it; null when there is no checkpoint. */
export function threadState(snapshot: Snapshot): ThreadState | null {
  const checkpoint = wireCheckpoint(snapshot.config);
  if (!checkpoint || snapshot.createdAt === undefined) return null;
  const tasks = snapshot.tasks.map(wireTask);
  const metadata = aboutWire(snapshot.metadata ?? null);
  return {
    values: toWire(snapshot.values),
    next: [...snapshot.next],
    tasks,
    metadata: isObject(metadata) ? metadata : null,
    created_at: snapshot.createdAt,
    checkpoint,
    parent_checkpoint: wireCheckpoint(snapshot.parentConfig),
    interrupts: tasks.flatMap((task) => task.interrupts),
  };
}

function wireTask(task: SnapshotTask): Task {
  const inner = task.state && "values" in task.state ? threadState(task.state) : null;
  return {
    id: task.id,
    name: task.name,
    path: aboutWire(task.path),
    error: errorText(task.error),
    interrupts: toWire(task.interrupts ?? []) as unknown as readonly Interrupt[],
    checkpoint: inner
      ? (inner.checkpoint as Json)
      : taskCheckpoint(task.state && "values" in task.state ? task.state.config : task.state),
    state: inner,
    result: toWire(task.result),
  };
}

function errorText(error: unknown): string | null {
  if (error === undefined || error === null) return null;
  const { message } = error as { message?: unknown };
  return typeof message === "string" ? message : JSON.stringify(aboutWire(error));
}

type Load = (specifier: string) => Promise<unknown>;

export function graphState(source: GraphSource, serde: () => Promise<Serde>, load: Load): GraphState {
  return {
    async get({ thread_id, ns, checkpoint_id }, reader, { subgraphs }) {
      const threads = onlyThread(thread_id, readOnly(reader));
      const graph = withSaver(await source.graph(noConfig), new Saver({ threads, serde: await serde() }));
      const named = { thread_id, checkpoint_ns: ns, ...(checkpoint_id === undefined ? {} : { checkpoint_id }) };
      return threadState(await graph.getState({ configurable: named }, { subgraphs }));
    },
    async update(at, graph_id, steps, checkpoints, { metadata, ambient }) {
      const threads = onlyThread(at.thread_id, checkpoints);
      const saver = new UpdateSaver({ threads, serde: await serde(), metadata }, ambient);
      const graph = withSaver(await source.graph(noConfig), saver);
      const checkpoint = await updateState(graph, at, steps);
      const state = threadState(
        await graph.getState({ configurable: { thread_id: at.thread_id } }, { subgraphs: false }),
      );
      if (!state) throw new Error(`The states of graph ${graph_id} cannot be read`);
      return { checkpoint, state };
    },
    async schemas(graph_id) {
      return await schemasOf(graph_id, await source.graph(noConfig), load);
    },
    async drawn(_graph_id, xray) {
      return await drawnOf(await source.graph(noConfig), xray);
    },
    async subgraphs(graph_id, namespace, recurse) {
      const graph = await source.graph(noConfig);
      const found: [string, GraphSchemas][] = [];
      for await (const [name, subgraph] of graph.getSubgraphsAsync(namespace ?? undefined, recurse)) {
        found.push([name, await schemasOf(graph_id, subgraph, load)]);
      }
      return Object.fromEntries(found);
    },
  };
}

/** Where StateGraph keeps the schemas it was given. Annotations have none. */
interface Builder {
  readonly _schemaRuntimeDefinition?: unknown;
  readonly _inputRuntimeDefinition?: unknown;
  readonly _outputRuntimeDefinition?: unknown;
  readonly _configRuntimeSchema?: unknown;
}

async function schemasOf(graph_id: string, graph: Graph, load: Load): Promise<GraphSchemas> {
  const builder = (graph.builder ?? {}) as Builder;
  const state = builder._schemaRuntimeDefinition;
  const input = await jsonSchema(builder._inputRuntimeDefinition, load, "getInputJsonSchema");
  return {
    graph_id,
    input_schema: input ?? (await jsonSchema(state, load, "getInputJsonSchema")),
    output_schema: await jsonSchema(builder._outputRuntimeDefinition, load, "getJsonSchema"),
    state_schema: await jsonSchema(state, load, "getJsonSchema"),
    config_schema: null,
    context_schema: await jsonSchema(builder._configRuntimeSchema, load, "getJsonSchema"),
  };
}

/** A schema of zod or of LangGraph as JSON Schema; null for anything that has none. */
async function jsonSchema(
  schema: unknown,
  load: Load,
  method: "getJsonSchema" | "getInputJsonSchema",
): Promise<JsonObject | null> {
  if (typeof schema !== "object" || schema === null) return null;
  try {
    const own = (schema as Record<string, unknown>)[method];
    if (typeof own === "function") return asObject(own.call(schema));
    if (!("_def" in schema) && !("_zod" in schema)) return null;
    const core = (await load("@langchain/core/utils/json_schema")) as { toJsonSchema(schema: unknown): unknown };
    return asObject(core.toJsonSchema(schema));
  } catch {
    // Schemas may hold what JSON Schema cannot say.
    return null;
  }
}

function asObject(value: unknown): JsonObject | null {
  const json = aboutWire(value);
  return isObject(json) ? json : null;
}

async function drawnOf(graph: Graph, xray: boolean | number): Promise<DrawnGraph> {
  const drawn = aboutWire((await graph.getGraphAsync({ xray })).toJSON()) as unknown as {
    nodes: readonly { id: string | number; type?: string; data?: Json; metadata?: Json }[];
    edges: readonly { source: string | number; target: string | number; data?: string; conditional?: boolean }[];
  };
  return {
    nodes: drawn.nodes.map((node) => ({ ...node, id: String(node.id) })),
    edges: drawn.edges.map((edge) => ({ ...edge, source: String(edge.source), target: String(edge.target) })),
  };
}
