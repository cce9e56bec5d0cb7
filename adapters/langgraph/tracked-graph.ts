/** Copies graphs so that their nodes, edges and subgraphs run in the tracker of their attempt. */
import { copyWith, type Graph, isCompiled, type Node, type Runnable } from "./graph.ts";
import {
  findCommandEdge,
  isPassthrough,
  type NodeConfig,
  withCommandsOnly,
  withDirectCalls,
  withEdgeConfig,
  withoutStoreQueue,
} from "./langgraph-internals.ts";
import type { NodeTracker } from "./node-tracker.ts";

/** The member of `configurable` with the tracker of the attempt. */
export const TRACKER_KEY = "__greenroom_tracker";

const findTracker = (config: unknown): NodeTracker | undefined =>
  (config as NodeConfig | undefined)?.configurable?.[TRACKER_KEY] as NodeTracker | undefined;

/** Cached for each graph, not created for each run: engines optimize calls of objects that stay. */
const trackedGraphs = new WeakMap<Graph, Graph>();

/**
 * Returns a copy of the graph and its subgraphs whose nodes are run by the tracker in their config. The copy of a graph is
 * cached, so later changes of its nodes have no effect.
 */
export function trackGraph(graph: Graph): Graph {
  const cached = trackedGraphs.get(graph);
  if (cached) return cached;
  const nodes = Object.entries(graph.nodes).map(([name, node]) => [
    name,
    trackNode(node, findCommandEdge(graph, name)),
  ]);
  const tracked = copyWith(graph, { nodes: Object.fromEntries(nodes), ...withoutStoreQueue(graph) });
  Object.assign(tracked, { invoke: createGraphInvoke(tracked) });
  trackedGraphs.set(graph, tracked);
  return tracked;
}

/** Returns the `invoke` of a graph that is a node, so that the tracker knows of it. The graph of a run itself is streamed. */
function createGraphInvoke(graph: Graph): Runnable["invoke"] {
  const { invoke } = graph as Graph & Partial<Runnable>;
  return (input, options) => {
    const run = async (): Promise<unknown> => await invoke?.call(graph as Graph & Runnable, input, options);
    return findTracker(options)?.runGraph({ graph, input, config: options as NodeConfig }, run) ?? run();
  };
}

/**
 * Returns a node that inherits from the host's, whose work and edges are tracked. A subgraph is tracked as a graph, one of another
 * server as work; a node without work keeps its part as it is.
 */
function trackNode(node: Node, commandEdge: Runnable | undefined): Node {
  const { bound } = node;
  const writers = node.writers.map((edge) => (edge === commandEdge ? withCommandsOnly(edge) : trackEdge(edge)));
  const members: PropertyDescriptorMap = { writers: { value: writers } };
  // LangGraph skips the part of a node without work, which it recognizes by identity: it would run a copy.
  if (!isPassthrough(bound)) {
    members.bound = { value: isLocalGraph(bound) ? trackGraph(bound) : trackRunnable(bound as Runnable) };
  }
  return withDirectCalls(Object.create(node, members) as Node);
}

/** Returns true for a compiled graph with nodes. A RemoteGraph has none here, and is run as a whole. */
const isLocalGraph = (bound: object): bound is Graph => isCompiled(bound) && "nodes" in bound;

/** Returns a runnable that the tracker of the config runs; without a tracker it runs by itself. */
function trackRunnable(runnable: Runnable): Runnable {
  const invoke = (input: unknown, options?: unknown): Promise<unknown> =>
    findTracker(options)?.run(runnable, input, options as NodeConfig) ?? runnable.invoke(input, options);
  return Object.create(runnable, { invoke: { value: invoke } }) as Runnable;
}

const trackEdge = (writer: Runnable): Runnable =>
  withEdgeConfig(writer, (config) => findTracker(config)?.addCallbacks(config));
