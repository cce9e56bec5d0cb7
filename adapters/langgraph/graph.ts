/** The graphs of the host: recognizes them, and prepares copies for runs. */
import type { AgentSettings, Send } from "../../lib/executor/contract.ts";
import { isObject } from "../../lib/json.ts";
import type { Saver } from "./saver.ts";
import type { GraphConfig } from "./serialize.ts";

/** A compiled LangGraph.js graph. */
export interface CompiledGraph {
  readonly nodes: object;
  readonly channels: object;
  stream(input: never, options?: never): Promise<AsyncIterable<unknown>>;
}

/** A graph that is not compiled yet; it is compiled without options. */
export interface GraphBuilder {
  compile(options?: never): object;
}

/** A compiled graph, a builder, or an agent of LangChain, which has its graph as a member. */
export type GraphLike = CompiledGraph | GraphBuilder | { readonly graph: CompiledGraph };

/**
 * The configuration for a factory: of the run, of the run that wrote the state to be read, or of the assistant to be
 * drawn.
 */
export interface FactoryConfig {
  readonly configurable: Readonly<Record<string, unknown>>;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly context: Readonly<Record<string, unknown>>;
}

/** Creates the graph of one run. */
export type GraphFactory = (config: FactoryConfig) => GraphLike | Promise<GraphLike>;

/** A graph with its limits and description. */
export interface GraphDefinition extends AgentSettings {
  readonly graph: GraphLike | GraphFactory;
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

/** A node of a compiled graph. `bound` is the runnable of the node. */
export interface Node {
  readonly bound: object;
  readonly writers: readonly Runnable[];
}

/** The part of LangChain's Runnable that this adapter uses. */
export interface Runnable {
  readonly name?: string;
  invoke(input: unknown, options?: unknown): Promise<unknown>;
}

/** An event as LangGraph gives it to transformers: with the graph's own values, not with JSON. */
export interface GraphEvent {
  readonly type: "event";
  readonly seq: number;
  readonly method: string;
  readonly params: {
    readonly namespace: readonly string[];
    readonly timestamp: number;
    readonly node?: string;
    readonly data: unknown;
  };
}

/** A stream transformer of a graph. It handles the events of one run. */
export interface Transformer {
  init(): unknown;
  process(event: GraphEvent): boolean;
  onRegister?(emitter: { push(namespace: readonly string[], event: GraphEvent): void }): void;
  finalize?(): unknown;
  fail?(error: unknown): void;
}

/** A compiled graph, reduced to what this adapter uses. */
export interface Graph {
  readonly builder?: unknown;
  /** The store that the graph was compiled with. */
  readonly store?: unknown;
  readonly nodes: Readonly<Record<string, Node>>;
  readonly streamTransformers?: readonly (() => Transformer)[];
  stream(input: unknown, options: unknown): Promise<AsyncIterable<unknown>>;
  streamEvents(input: unknown, options: unknown): AsyncIterable<unknown>;
  getState(config: GraphConfig, options: { readonly subgraphs: boolean }): Promise<Snapshot>;
  bulkUpdateState(
    config: GraphConfig,
    supersteps: readonly { readonly updates: readonly { readonly values: unknown; readonly asNode?: string }[] }[],
  ): Promise<GraphConfig>;
  getGraphAsync(config: unknown): Promise<{ toJSON(): unknown }>;
  getSubgraphsAsync(namespace?: string, recurse?: boolean): AsyncIterable<readonly [string, Graph]>;
}

/** Creates a graph from each form that a host may pass. */
export interface GraphSource {
  readonly definition: GraphDefinition;
  /** The graph if it is the same for each run. Absent if a factory creates it. */
  readonly fixedGraph?: Graph;
  createGraph(config: FactoryConfig): Promise<Graph>;
  /** Creates the graph with a configuration that must be loaded first. Loads it only for a factory. */
  loadGraph(config: (() => Promise<FactoryConfig>) | undefined): Promise<Graph>;
}

export const EMPTY_CONFIG: FactoryConfig = { configurable: {}, metadata: {}, context: {} };

/**
 * Returns the source of a graph. Throws a TypeError for a value that cannot be a graph, so that the host gets the error at start;
 * what a function returns is checked at each call. `loadGraph` without a config calls the function with an empty one.
 */
export function createGraphSource(graph_id: string, value: GraphLike | GraphFactory | GraphDefinition): GraphSource {
  const definition: GraphDefinition = isDefinition(value) ? value : { graph: value };
  const { graph } = definition;
  if (typeof graph === "function") {
    const createGraph: GraphSource["createGraph"] = async (config) => toCompiledGraph(graph_id, await graph(config));
    return {
      definition,
      createGraph: createGraph,
      loadGraph: async (config) => createGraph(config ? await config() : EMPTY_CONFIG),
    };
  }
  const fixedGraph = toCompiledGraph(graph_id, graph);
  return { definition, fixedGraph, createGraph: async () => fixedGraph, loadGraph: async () => fixedGraph };
}

/** Returns true for a graph with settings, and for an agent of LangChain, which has a member `graph` too. */
export function isDefinition(value: unknown): value is GraphDefinition {
  return typeof value === "object" && value !== null && !isCompiled(value) && !isBuilder(value) && "graph" in value;
}

export const isCompiled = (value: object): boolean => "lg_is_pregel" in value && value.lg_is_pregel === true;
const isBuilder = (value: object): value is GraphBuilder => "compile" in value && typeof value.compile === "function";

/**
 * Returns the graph itself, or compiles a builder, or finds the graph in an agent of LangChain. Throws a TypeError for other
 * values.
 */
function toCompiledGraph(graph_id: string, value: unknown): Graph {
  if (typeof value === "object" && value !== null) {
    if (isCompiled(value)) return value as unknown as Graph;
    if (isBuilder(value)) return toCompiledGraph(graph_id, value.compile());
    // Agents of LangChain have their graph as a member.
    if ("graph" in value && isObject(value.graph as never)) return toCompiledGraph(graph_id, value.graph);
  }
  throw new TypeError(`Graph ${graph_id} is neither a LangGraph.js graph nor a function that returns one`);
}

/** Throws if the graph does not have a node of `goto`, which LangGraph would ignore. */
export function requireKnownNodes(graph: Graph, goto: readonly (string | Send)[] = []): void {
  for (const target of goto) {
    const node = typeof target === "string" ? target : target.node;
    if (node === "__end__" || Object.hasOwn(graph.nodes, node)) continue;
    throw new Error(`goto names ${JSON.stringify(node)}, but the graph has no such node`);
  }
}

/** Copies the graph with other members. The host's object does not change, because other runs may use it. */
export const copyWith = (graph: Graph, members: object): Graph =>
  Object.assign(Object.create(Object.getPrototypeOf(graph)) as Graph, graph, members);

/** Returns the graph with this saver. Inherits the other members: a copy would take 2 % of the time of a small run. */
export const withSaver = (graph: Graph, checkpointer: Saver): Graph =>
  Object.assign(Object.create(graph) as Graph, { checkpointer });
