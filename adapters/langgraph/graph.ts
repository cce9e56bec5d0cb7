/** The host's graphs: what is taken as one, and how it is made ready without touching it. */
import type { Send } from "../../lib/executor/contract.ts";
import { isObject } from "../../lib/json.ts";
import type { Saver } from "./saver.ts";
import type { JobStore } from "./store.ts";
import type { Transformer } from "./transformers.ts";

/** A compiled LangGraph.js graph. */
export interface CompiledGraph {
  readonly nodes: object;
  readonly channels: object;
  stream(input: never, options?: never): Promise<AsyncIterable<unknown>>;
}

/** A graph that has only been built; it is compiled as it is. */
export interface GraphBuilder {
  compile(options?: never): object;
}

/** A compiled graph, or a builder. */
export type GraphLike = CompiledGraph | GraphBuilder;

/** What a factory gets: the configuration of the run; of a state that is read, the one of the run that wrote it; to be drawn, the assistant's. */
export interface FactoryConfig {
  readonly configurable: Readonly<Record<string, unknown>>;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly context: Readonly<Record<string, unknown>>;
}

/** Makes the graph of one run. */
export type GraphFactory = (config: FactoryConfig) => GraphLike | Promise<GraphLike>;

/** A graph with what is said about it. */
export interface GraphEntry {
  readonly graph: GraphLike | GraphFactory;
  readonly description?: string;
  /** How often a run may be started before it ends as `error`. Default 3. */
  readonly max_attempts?: number;
  /** How long one attempt may take before the run ends as `timeout`. Default: the service's `worker.run_timeout_ms`. */
  readonly timeout_ms?: number;
  /**
   * How long a run that was told to stop may ignore it before it is abandoned, in milliseconds, at most `worker.lease_ms`: the thread's
   * next run begins then. Default 1,000 on a SQLite file that only this process executes, else 5,000.
   */
  readonly abandon_ms?: number;
}

export interface Snapshot {
  readonly values: unknown;
  readonly next: readonly string[];
  readonly tasks: readonly SnapshotTask[];
  readonly metadata?: unknown;
  readonly createdAt?: string;
  readonly config: GraphConfig;
  readonly parentConfig?: GraphConfig;
}

export interface SnapshotTask {
  readonly id: string;
  readonly name: string;
  readonly path?: unknown;
  readonly error?: unknown;
  readonly interrupts?: readonly unknown[];
  readonly state?: Snapshot | GraphConfig;
  readonly result?: unknown;
}

export interface GraphConfig {
  readonly configurable?: Readonly<Record<string, unknown>>;
}

/** A node of a compiled graph; `bound` is what it runs. */
export interface Node {
  readonly bound: object;
}

/** A compiled graph as this adapter uses it. */
export interface Graph {
  readonly builder?: unknown;
  /** The one it was compiled with. */
  readonly store?: unknown;
  readonly nodes: Readonly<Record<string, Node>>;
  readonly streamTransformers?: readonly (() => Transformer)[];
  stream(input: unknown, options: unknown): Promise<AsyncIterable<unknown>>;
  streamEvents(input: unknown, options: unknown): AsyncIterable<unknown>;
  /** What `stream` makes of its input by the graph's schema. */
  _validateInput(input: unknown): Promise<unknown>;
  getState(config: GraphConfig, options: { readonly subgraphs: boolean }): Promise<Snapshot>;
  bulkUpdateState(
    config: GraphConfig,
    supersteps: readonly { readonly updates: readonly { readonly values: unknown; readonly asNode?: string }[] }[],
  ): Promise<GraphConfig>;
  getGraphAsync(config: unknown): Promise<{ toJSON(): unknown }>;
  getSubgraphsAsync(namespace?: string, recurse?: boolean): AsyncIterable<readonly [string, Graph]>;
}

/** Where a graph comes from, whatever the host gave. */
export interface GraphSource {
  readonly entry: GraphEntry;
  /** Absent where it is made for each run. */
  readonly only?: Graph;
  graph(config: FactoryConfig): Promise<Graph>;
  /** The same by a configuration that has to be looked up; that is done for factories alone. */
  read(config: (() => Promise<FactoryConfig>) | undefined): Promise<Graph>;
}

export const noConfig: FactoryConfig = { configurable: {}, metadata: {}, context: {} };

/** Throws when the value can be no graph, so that a host learns of it at once. */
export function graphSource(graph_id: string, value: GraphLike | GraphFactory | GraphEntry): GraphSource {
  const entry: GraphEntry = isEntry(value) ? value : { graph: value };
  const { graph } = entry;
  if (typeof graph === "function") {
    const make: GraphSource["graph"] = async (config) => compiled(graph_id, await graph(config));
    return { entry, graph: make, read: async (config) => make(config ? await config() : noConfig) };
  }
  const only = compiled(graph_id, graph);
  return { entry, only, graph: async () => only, read: async () => only };
}

function isEntry(value: unknown): value is GraphEntry {
  return typeof value === "object" && value !== null && !isCompiled(value) && !isBuilder(value) && "graph" in value;
}

export const isCompiled = (value: object): boolean => "lg_is_pregel" in value && value.lg_is_pregel === true;
const isBuilder = (value: object): value is GraphBuilder => "compile" in value && typeof value.compile === "function";

function compiled(graph_id: string, value: unknown): Graph {
  if (typeof value === "object" && value !== null) {
    if (isCompiled(value)) return value as unknown as Graph;
    if (isBuilder(value)) return compiled(graph_id, value.compile());
    // Agents of LangChain carry their graph.
    if ("graph" in value && isObject(value.graph as never)) return compiled(graph_id, value.graph);
  }
  throw new TypeError(`Graph ${graph_id} is neither a LangGraph.js graph nor a function that makes one`);
}

/** Throws for a node that the graph does not have: LangGraph would pass it over. */
export function refuseStrangers(graph: Graph, goto: readonly (string | Send)[] = []): void {
  for (const target of goto) {
    const node = typeof target === "string" ? target : target.node;
    if (node === "__end__" || Object.hasOwn(graph.nodes, node)) continue;
    throw new Error(`goto names ${JSON.stringify(node)}, but the graph has no such node`);
  }
}

/**
 * The graph with a saver of ours, and with this store where it has none of its own: a store it was compiled with was chosen for
 * it, and may hold what it remembers. The host's own object stays as it is; other executions may be using it.
 */
export function withSaver(graph: Graph, checkpointer: Saver, store?: JobStore): Graph {
  const added = store && !graph.store ? { checkpointer, store } : { checkpointer };
  return Object.assign(Object.create(Object.getPrototypeOf(graph)) as Graph, graph, added);
}
