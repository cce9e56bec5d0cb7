/** Counts the active nodes of one attempt: LangGraph does not wait for nodes that ignore their signal. */
import { type CallbackManager, callbackAdder } from "./callbacks.ts";
import { copyWith, type Graph, isCompiled, type Node } from "./graph.ts";
import type { ModelUsage } from "./model-usage.ts";
import { JobStore } from "./store.ts";

interface Runnable {
  invoke(input: unknown, options?: unknown): Promise<unknown>;
}

type Call = (...parts: unknown[]) => unknown;

/** The key that functional graphs use to start tasks. */
const CALL = "__pregel_call";

export class NodeTracker {
  private readonly signal: AbortSignal;
  private readonly usage: ModelUsage;
  private readonly addCallbacks: (manager: CallbackManager) => void;
  private working = 0;
  private onIdle: () => void = () => {};

  constructor(signal: AbortSignal, usage: ModelUsage) {
    this.signal = signal;
    this.usage = usage;
    this.addCallbacks = callbackAdder(usage.insideNodes);
  }

  /** A copy of the graph and its subgraphs whose nodes are counted while active, and refuse to start after the signal has aborted. */
  graph(graph: Graph): Graph {
    const nodes = Object.entries(graph.nodes).map(([name, node]) => [name, this.node(node)]);
    return copyWith(graph, {
      nodes: Object.fromEntries(nodes),
      // LangGraph puts a queue before the store that it finds here. It polls, makes the end of each run wait for a timer, and loses
      // which fields are indexed. Nodes, edges and tasks then get the store of the config.
      _defaults(this: Graph, config: unknown): unknown[] {
        return graph._defaults.call(this, config).map((one) => (one instanceof JobStore ? undefined : one));
      },
    });
  }

  /** Resolves when no node is active. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.onIdle = resolve;
      if (this.working === 0) resolve();
    });
  }

  private node(node: Node): Node {
    const { bound } = node;
    // LangGraph recognizes nodes without work by this class.
    if (bound.constructor.name === "RunnablePassthrough") return node;
    const watched = isCompiled(bound) ? this.graph(bound as Graph) : this.runnable(bound as Runnable);
    return Object.create(node, { bound: { value: watched } }) as Node;
  }

  private runnable(runnable: Runnable): Runnable {
    const invoke = async (input: unknown, options?: unknown): Promise<unknown> => {
      this.refuse();
      this.working++;
      try {
        this.usage.onNodeStart(input);
        const output = await runnable.invoke(input, this.guarded(options));
        this.usage.onNodeEnd(output);
        return output;
      } finally {
        this.working--;
        if (this.working === 0) this.onIdle();
      }
    };
    return Object.create(runnable, { invoke: { value: invoke } }) as Runnable;
  }

  private guarded(options: unknown): unknown {
    const { configurable, callbacks } = (options ?? {}) as {
      configurable?: Readonly<Record<string, unknown>>;
      callbacks?: Partial<CallbackManager>;
    };
    if (callbacks?.handlers && callbacks.inheritableHandlers) this.addCallbacks(callbacks as CallbackManager);
    const call = configurable?.[CALL];
    if (typeof call !== "function") return options;
    const refusing: Call = (task, ...parts) => {
      this.refuse();
      return (call as Call)(typeof task === "function" ? this.task(task as Call) : task, ...parts);
    };
    return { ...(options as object), configurable: { ...configurable, [CALL]: refusing } };
  }

  /** A task of a node: it has callbacks of its own. Not called for a result that an earlier attempt has stored. */
  private task(task: Call): Call {
    return async (...input) => {
      this.usage.onNodeStart(input);
      const output = await task(...input);
      this.usage.onNodeEnd(output);
      return output;
    };
  }

  private refuse(): void {
    if (this.signal.aborted) throw new Error("The run was stopped");
  }
}
