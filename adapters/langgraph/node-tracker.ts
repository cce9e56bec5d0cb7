/**
 * Runs the nodes of one attempt. It counts the active ones, because LangGraph does not wait for nodes that ignore their signal; it
 * starts none after a stop; and it gives all of them the callbacks of the attempt and collects the usage of their models.
 */
import { isCompiled, type Runnable } from "./graph.ts";
import type { GraphCall, GraphSpans, StartedNode } from "./graph-spans.ts";
import {
  findInheritedConfig,
  type NodeConfig,
  omitRunName,
  type TaskFunction,
  withTasks,
} from "./langgraph-internals.ts";
import type { ModelUsageCollector } from "./model-usage.ts";

export class NodeTracker {
  // Hidden at run time too: LangChain may write a config with all its members as JSON.
  readonly #signal: AbortSignal;
  readonly #usage: ModelUsageCollector;
  readonly #spans: GraphSpans | null;
  readonly addCallbacks: (config: { callbacks?: unknown }) => void;
  #active = 0;
  #onIdle: () => void = () => {};

  /**
   * Creates a tracker whose nodes run until the signal aborts. `addCallbacks` adds the callbacks of the attempt to a
   * config. `spans` is null if no trace is recorded.
   */
  constructor(
    signal: AbortSignal,
    usage: ModelUsageCollector,
    addCallbacks: NodeTracker["addCallbacks"],
    spans: GraphSpans | null = null,
  ) {
    this.#signal = signal;
    this.#usage = usage;
    this.#spans = spans;
    this.addCallbacks = addCallbacks;
  }

  /** Resolves when no node is active, at once if none is. Only the last caller is notified. */
  waitForIdle(): Promise<void> {
    return new Promise((resolve) => {
      this.#onIdle = resolve;
      if (this.#active === 0) resolve();
    });
  }

  /**
   * Runs a node with the callbacks of the attempt and counts its model calls. Rejects with the reason of the stop if the run was
   * stopped, before the node starts.
   */
  async run(runnable: Runnable, input: unknown, options: NodeConfig): Promise<unknown> {
    this.#throwIfStopped();
    this.#active++;
    const span = this.#spans?.startNode(options, input);
    try {
      this.#usage.onNodeStart(input);
      const config = this.#createConfig(options, span);
      const output = await (span
        ? this.#runRecorded(span, { runnable, input, options }, config)
        : runnable.invoke(input, config));
      const messages = this.#usage.onNodeEnd(output);
      if (span) this.#spans?.endNode(span, output, messages);
      return output;
    } catch (error) {
      if (span) this.#spans?.failNode(span, error);
      throw error;
    } finally {
      this.#active--;
      if (this.#active === 0) this.#onIdle();
    }
  }

  /**
   * Calls the work of a node that is recorded. A graph of another server is an agent in it, and gets the `traceparent` of the agent in its
   * metadata.
   */
  async #runRecorded(
    span: StartedNode,
    {
      runnable,
      input,
      options,
    }: { readonly runnable: Runnable; readonly input: unknown; readonly options: NodeConfig },
    config: NodeConfig,
  ): Promise<unknown> {
    const spans = this.#spans as GraphSpans;
    if (!isCompiled(runnable)) return await spans.runNode(span, () => runnable.invoke(input, config));
    return await spans.runAgent({ graph: runnable, input, config: options }, span, (agent_id) => {
      const traceparent = spans.formatTraceParent(agent_id);
      const tracedConfig =
        traceparent === undefined ? config : { ...config, metadata: { ...config.metadata, traceparent } };
      return runnable.invoke(input, tracedConfig);
    });
  }

  /** Runs a graph that is a node, whose own nodes are tracked. */
  runGraph(call: GraphCall, invoke: () => Promise<unknown>): Promise<unknown> {
    return this.#spans?.runGraph(call, invoke) ?? invoke();
  }

  /** Returns a copy of the config with the callbacks of the attempt and the `traceparent` of the span, whose tasks are tracked too. */
  #createConfig(options: NodeConfig, span: StartedNode | undefined): NodeConfig {
    // With callbacks, the node's own run has the name.
    const config = options.callbacks === undefined ? omitRunName(options) : { ...options };
    this.addCallbacks(config);
    this.#addTraceParent(config, span?.span_id);
    return withTasks(config, (task) => this.#trackTask(task));
  }

  /** Adds the `traceparent` of a span, if there is one, to `configurable`. Changes the config. */
  #addTraceParent(config: { configurable?: NodeConfig["configurable"] }, span_id: string | undefined): void {
    const traceparent = span_id === undefined ? undefined : this.#spans?.formatTraceParent(span_id);
    if (traceparent !== undefined) config.configurable = { ...config.configurable, traceparent };
  }

  /**
   * Returns a task of a node with the callbacks of the attempt. It does not run if an earlier attempt has stored its
   * result. It is not counted as active, because the node that awaits it is.
   */
  #trackTask(task: TaskFunction): TaskFunction {
    // Thrown in the node that calls the task, before LangGraph starts one.
    this.#throwIfStopped();
    return async (...input) => {
      const config = findInheritedConfig();
      if (config) this.addCallbacks(config);
      const span = (config && this.#spans?.startTask(config, input)) ?? null;
      if (config) this.#addTraceParent(config, this.#spans?.findTaskSpan(config));
      try {
        this.#usage.onNodeStart(input);
        const output = await task(...input);
        const messages = this.#usage.onNodeEnd(output);
        if (span) this.#spans?.endNode(span, output, messages);
        return output;
      } catch (error) {
        if (span) this.#spans?.failNode(span, error);
        throw error;
      }
    };
  }

  #throwIfStopped(): void {
    if (this.#signal.aborted) throw new Error("The run was stopped");
  }
}
