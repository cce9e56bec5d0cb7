/** Counts the active nodes of one attempt: LangGraph does not wait for nodes that ignore their signal. */
import { copyWith, type Graph, isCompiled, type Node, type Runnable } from "./graph.ts";
import {
  findCommandEdge,
  inheritedConfig,
  isPassthrough,
  type NodeConfig,
  type TaskFunction,
  withCommandsOnly,
  withDirectCalls,
  withEdgeConfig,
  withoutRunName,
  withoutStoreQueue,
  withTasks,
} from "./langgraph-internals.ts";
import type { ModelUsageCollector } from "./model-usage.ts";

/** Where nodes find the tracker of their attempt, in `configurable`. */
export const TRACKER = "__greenroom_tracker";

const trackerIn = (config: unknown): NodeTracker | undefined =>
  (config as NodeConfig | undefined)?.configurable?.[TRACKER] as NodeTracker | undefined;

/** Created once for each graph, not for each run: engines optimize calls of objects that stay. */
const trackedGraphs = new WeakMap<Graph, Graph>();

/** Returns a copy of the graph and its subgraphs whose nodes are run by the tracker in their config. */
export function trackedGraph(graph: Graph): Graph {
  const cached = trackedGraphs.get(graph);
  if (cached) return cached;
  const nodes = Object.entries(graph.nodes).map(([name, node]) => [
    name,
    trackedNode(node, findCommandEdge(graph, name)),
  ]);
  const tracked = copyWith(graph, { nodes: Object.fromEntries(nodes), ...withoutStoreQueue(graph) });
  trackedGraphs.set(graph, tracked);
  return tracked;
}

function trackedNode(node: Node, commandEdge: Runnable | undefined): Node {
  const { bound } = node;
  const writers = node.writers.map((edge) => (edge === commandEdge ? withCommandsOnly(edge) : trackedEdge(edge)));
  const members: PropertyDescriptorMap = { writers: { value: writers } };
  // LangGraph leaves this part out, which it recognizes by the object.
  if (!isPassthrough(bound)) {
    members.bound = { value: isCompiled(bound) ? trackedGraph(bound as Graph) : trackedRunnable(bound as Runnable) };
  }
  return withDirectCalls(Object.create(node, members) as Node);
}

function trackedRunnable(runnable: Runnable): Runnable {
  const invoke = (input: unknown, options?: unknown): Promise<unknown> =>
    trackerIn(options)?.run(runnable, input, options as NodeConfig) ?? runnable.invoke(input, options);
  return Object.create(runnable, { invoke: { value: invoke } }) as Runnable;
}

const trackedEdge = (writer: Runnable): Runnable =>
  withEdgeConfig(writer, (config) => trackerIn(config)?.addCallbacks(config));

export class NodeTracker {
  // Private to the engine, too: LangChain may write a config with all that it holds as JSON.
  readonly #signal: AbortSignal;
  readonly #usage: ModelUsageCollector;
  readonly addCallbacks: (config: { callbacks?: unknown }) => void;
  #active = 0;
  #onIdle: () => void = () => {};

  /** The nodes run until the signal aborts. `addCallbacks` gives the callbacks of the attempt to what runs with a config. */
  constructor(signal: AbortSignal, usage: ModelUsageCollector, addCallbacks: NodeTracker["addCallbacks"]) {
    this.#signal = signal;
    this.#usage = usage;
    this.addCallbacks = addCallbacks;
  }

  /** Resolves when no node is active. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#onIdle = resolve;
      if (this.#active === 0) resolve();
    });
  }

  /** Runs a node. Rejects if the run was stopped. */
  async run(runnable: Runnable, input: unknown, options: NodeConfig): Promise<unknown> {
    this.#throwIfStopped();
    this.#active++;
    try {
      this.#usage.onNodeStart(input);
      const output = await runnable.invoke(input, this.#configOf(options));
      this.#usage.onNodeEnd(output);
      return output;
    } finally {
      this.#active--;
      if (this.#active === 0) this.#onIdle();
    }
  }

  #configOf(options: NodeConfig): NodeConfig {
    // With callbacks, the node's own run has the name.
    const config = options.callbacks === undefined ? withoutRunName(options) : { ...options };
    this.addCallbacks(config);
    return withTasks(config, (task) => this.#trackedTask(task));
  }

  /** A task of a node has callbacks of its own. It does not run if an earlier attempt has stored its result. */
  #trackedTask(task: TaskFunction): TaskFunction {
    this.#throwIfStopped();
    return async (...input) => {
      const config = inheritedConfig();
      if (config) this.addCallbacks(config);
      this.#usage.onNodeStart(input);
      const output = await task(...input);
      this.#usage.onNodeEnd(output);
      return output;
    };
  }

  #throwIfStopped(): void {
    if (this.#signal.aborted) throw new Error("The run was stopped");
  }
}
