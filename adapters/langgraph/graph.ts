/** The host's graphs: which values are graphs, and how they are prepared without changing them. */
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

/** The configuration for a factory: of the run, of the run that wrote the state to be read, or of the assistant to be drawn. */
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

/** A node of a compiled graph; `bound` is what it runs. */
export interface Node {
  readonly bound: object;
  readonly writers: readonly Runnable[];
}

/** What LangChain calls. */
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

/** A transformer of the events of one run, as the graph has it. */
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
  /** The store that it was compiled with. */
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

/** The source of a graph, in every form that a host may pass. */
export interface GraphSource {
  readonly definition: GraphDefinition;
  /** Absent if a factory creates the graph for each run. */
  readonly fixedGraph?: Graph;
  createGraph(config: FactoryConfig): Promise<Graph>;
  /** The same with a configuration that must be loaded first; it is loaded only for factories. */
  loadGraph(config: (() => Promise<FactoryConfig>) | undefined): Promise<Graph>;
}

export const EMPTY_CONFIG: FactoryConfig = { configurable: {}, metadata: {}, context: {} };

/** Throws for a value that cannot be a graph, so that the host gets the error at start. */
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

function isDefinition(value: unknown): value is GraphDefinition {
  return typeof value === "object" && value !== null && !isCompiled(value) && !isBuilder(value) && "graph" in value;
}

export const isCompiled = (value: object): boolean => "lg_is_pregel" in value && value.lg_is_pregel === true;
const isBuilder = (value: object): value is GraphBuilder => "compile" in value && typeof value.compile === "function";

function toCompiledGraph(graph_id: string, value: unknown): Graph {
  if (typeof value === "object" && value !== null) {
    if (isCompiled(value)) return value as unknown as Graph;
    if (isBuilder(value)) return toCompiledGraph(graph_id, value.compile());
    // Agents of LangChain have their graph as a member.
    if ("graph" in value && isObject(value.graph as never)) return toCompiledGraph(graph_id, value.graph);
  }
  throw new TypeError(`Graph ${graph_id} is neither a LangGraph.js graph nor a function that returns one`);
}

/** Throws for a node that the graph does not have: LangGraph would ignore it. */
export function requireKnownNodes(graph: Graph, goto: readonly (string | Send)[] = []): void {
  for (const target of goto) {
    const node = typeof target === "string" ? target : target.node;
    if (node === "__end__" || Object.hasOwn(graph.nodes, node)) continue;
    throw new Error(`goto names ${JSON.stringify(node)}, but the graph has no such node`);
  }
}

/** A copy of the graph with other members. The host's object does not change, because other runs may use it. */
export const copyWith = (graph: Graph, members: object): Graph =>
  Object.assign(Object.create(Object.getPrototypeOf(graph)) as Graph, graph, members);

/** The graph with this saver. It reads its other members from the graph: a copy costs each run the time of a fiftieth. */
export const withSaver = (graph: Graph, checkpointer: Saver): Graph =>
  Object.assign(Object.create(graph) as Graph, { checkpointer });
