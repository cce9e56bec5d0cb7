/**
 * Records the spans of an attempt on a graph: of its nodes, which `NodeTracker` reports, and of models, tools, retrievers, subagents and
 * their nodes, which LangChain reports to callbacks.
 */
import type { EndedSpan, RecordedValue, SpanResult, StartedSpan, TraceRecorder } from "../../lib/executor/contract.ts";
import type { ContextStorage, SpanContext } from "../../lib/functions/span-context.ts";
import {
  type ChainStart,
  type ChatModelStart,
  HANDLER_NAME,
  type Metadata,
  type RetrieverStart,
  type ToolStart,
} from "./callbacks.ts";
import {
  findBubbleKind,
  findGraphName,
  findInheritedConfig,
  findInheritedRun,
  isSerializedGraph,
  type NodeConfig,
  readMetadataPlace,
  readTaskPlace,
  type TaskPlace,
} from "./langgraph-internals.ts";
import { readModelEnd, readModelStart, sumUsage } from "./model-details.ts";
import type { CountedMessage, ModelOutput, ModelUsageCollector } from "./model-usage.ts";
import { NodeContexts } from "./node-contexts.ts";
import { serializeMetadata } from "./serialize.ts";

/** The span under which the runs of a task lie: that of its node, or of the graph that is the node. */
interface TaskSpan {
  readonly span_id: string;
  readonly try: number;
  /** True for a task of the graphs of the attempt itself, whose starts are not taken from callbacks. */
  readonly isTracked: boolean;
  isOpen: boolean;
  readonly signal: AbortSignal | undefined;
  readonly checkpoint_id: string | undefined;
}

/** One of LangChain's runs, and the span that is the parent of those in it. */
interface CallbackRun {
  readonly span_id: string;
  /** True if the span is that of the run itself; false for a chain, which has none. */
  readonly hasSpan: boolean;
  readonly signal: AbortSignal | undefined;
  /** The task that ends with the run. */
  readonly task?: TaskSpan;
  hasToken?: boolean;
}

/** The span in which a run lies, and the signal that stops it. */
interface ParentSpan {
  readonly span_id: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The node of an attempt that has started. */
export interface StartedNode {
  readonly span_id: string;
  readonly task: TaskSpan;
}

/** The options of the recorder of one attempt. */
export interface GraphSpansOptions {
  readonly trace: TraceRecorder;
  readonly usage: ModelUsageCollector;
  /** Aborts when the attempt is stopped. */
  readonly stopped: AbortSignal;
  /** False if the checkpoints that tasks start from are not stored. */
  readonly hasCheckpoints: boolean;
  /** Returns the span around the runs that have no recorded caller. Default: undefined, for the attempt. */
  readonly findOuterSpan?: () => string | undefined;
  /** The storage of the span that code runs in; null on runtimes without one. */
  readonly storage?: ContextStorage<SpanContext> | null;
}

/** A call of a graph that is a node. */
export interface GraphCall {
  readonly graph: object;
  readonly input: unknown;
  readonly config: NodeConfig;
}

/** The identity of one of LangChain's runs. */
interface RunStart {
  readonly run_id: string;
  readonly parent: string | undefined;
  readonly metadata: Metadata | undefined;
}

/** Returns a function that copies a value of the graph as clients see it. */
const toCopier =
  (value: unknown): (() => unknown) =>
  () =>
    serializeMetadata(value);

/** Returns the arguments of a tool: the parsed JSON, a text that is no JSON as it is, or a serialized copy of another value. */
const parseArguments = (input: unknown): unknown => {
  if (typeof input !== "string") return serializeMetadata(input);
  try {
    return JSON.parse(input);
  } catch {
    return input;
  }
};

const splitNamespace = (ns: string): readonly string[] => (ns === "" ? [] : ns.split("|"));

/**
 * The callback handler of what runs in the nodes of an attempt. Passes its calls on to the collector of usage, whose counts are those of
 * the spans.
 */
export class GraphSpans {
  readonly name: string = HANDLER_NAME;
  readonly awaitHandlers = true;
  readonly #trace: TraceRecorder;
  readonly #usage: ModelUsageCollector;
  readonly #stopped: AbortSignal;
  readonly #hasCheckpoints: boolean;
  readonly #findOuterSpan: () => string | undefined;
  readonly #contexts: NodeContexts;
  readonly #tasks = new Map<string, TaskSpan>();
  readonly #runs = new Map<string, CallbackRun>();

  constructor({
    trace,
    usage,
    stopped,
    hasCheckpoints,
    findOuterSpan = () => undefined,
    storage = null,
  }: GraphSpansOptions) {
    this.#contexts = new NodeContexts({
      ...{ trace, storage },
      findRunSpan: () => this.#findRunSpan(),
      isStopped: () => stopped.aborted,
      toFailure: (error) => this.#toEndAfterThrow(error, undefined),
    });
    this.#findOuterSpan = findOuterSpan;
    this.#trace = trace;
    this.#usage = usage;
    this.#stopped = stopped;
    this.#hasCheckpoints = hasCheckpoints;
  }

  /**
   * Starts the span of one try of a task, under the task around its namespace, else under the attempt. The caller must end or
   * fail it.
   */
  startNode(config: NodeConfig, input: unknown): StartedNode {
    const place = readTaskPlace(config);
    const parent_id = this.#findTask(place.ns.slice(0, Math.max(0, place.ns.lastIndexOf("|"))))?.span_id;
    return this.#startTask(place, { parent_id, signal: config.signal, isTracked: true, input });
  }

  /** Starts the span of a task that a node calls; null if a callback has started it already. */
  startTask(config: NodeConfig, input: unknown): StartedNode | null {
    return this.#tasks.get(readTaskPlace(config).ns)?.isOpen ? null : this.startNode(config, input);
  }

  /** Ends the span of a node that has returned. The messages are those that it has written without a model call. */
  endNode({ span_id, task }: StartedNode, output: unknown, messages: readonly CountedMessage[]): void {
    task.isOpen = false;
    this.#trace.end(span_id, { status: "ok", output: toCopier(output), ...sumUsage(messages) });
  }

  /** Ends the span of a node that has thrown. */
  failNode({ span_id, task }: StartedNode, error: unknown): void {
    task.isOpen = false;
    this.#trace.end(span_id, this.#toEndAfterThrow(error, task.signal));
  }

  /**
   * Calls the work of a node, and returns or throws what it does; does not end the node. What it calls beside LangChain, such as
   * the AI SDK, is recorded under the run that calls it, on runtimes with a storage.
   */
  runNode<Result>({ span_id }: StartedNode, work: () => Result): Result {
    return this.#contexts.runNode(span_id, work);
  }

  /** Returns the `traceparent` of a span; undefined if none is handed on. */
  formatTraceParent(span_id: string): string | undefined {
    return this.#trace.formatTraceParent?.(span_id);
  }

  /** Returns the span of the task with this config. */
  findTaskSpan(config: NodeConfig): string | undefined {
    return this.#tasks.get(readTaskPlace(config).ns)?.span_id;
  }

  /** Returns the span of the run that the caller is in, by the config that it inherits; undefined without one. */
  #findRunSpan(): string | undefined {
    const config = findInheritedConfig();
    return config && this.#findRun(findInheritedRun(config), readMetadataPlace(config.metadata).ns).span_id;
  }

  /** Runs a graph of the attempt that is a node: records the node, and the graph in it. Resolves or rejects as `run` does. */
  async runGraph(call: GraphCall, run: () => Promise<unknown>): Promise<unknown> {
    const node = this.startNode(call.config, call.input);
    try {
      const output = await this.runAgent(call, node, run);
      this.endNode(node, output, []);
      return output;
    } catch (error) {
      this.failNode(node, error);
      throw error;
    }
  }

  /**
   * Runs the graph of a node, and records it as an agent in the node; does not end the node. Spans of the inner nodes lie under
   * the agent. Resolves or rejects as `run` does.
   */
  async runAgent(
    { graph, input, config }: GraphCall,
    { span_id: parent_id, task }: StartedNode,
    run: (span_id: string) => Promise<unknown>,
  ): Promise<unknown> {
    const { node, ns } = readTaskPlace(config);
    const span_id = this.#trace.start({
      kind: "agent",
      name: findGraphName(graph) ?? node,
      parent_id,
      ...(ns === "" ? {} : { namespace: splitNamespace(ns) }),
      input: toCopier(input),
    });
    if (ns !== "") this.#tasks.set(ns, { ...task, span_id });
    try {
      const output = await (this.#trace.runIn?.(span_id, () => run(span_id)) ?? run(span_id));
      this.#trace.end(span_id, { status: "ok", output: toCopier(output) });
      return output;
    } catch (error) {
      this.#trace.end(span_id, this.#toEndAfterThrow(error, config.signal));
      throw error;
    }
  }

  /**
   * Called by LangChain, as are the methods below, which pass their calls on to the collector of usage. Starts the span of a node
   * that the tracker does not run, or of a graph; other chains, and hidden ones, only hand on their parent. Ignores a run that
   * has started.
   */
  handleChainStart(...start: ChainStart): void {
    this.#usage.handleChainStart(...start);
    const [chain, input, run_id, parent, tags, metadata, , name] = start;
    // A run of a task has the handler twice if its node has callbacks.
    if (this.#runs.has(run_id)) return;
    const place = readMetadataPlace(metadata);
    const isHidden = Array.isArray(tags) && tags.includes("langsmith:hidden");
    if (name !== undefined && name === place.node && !isHidden && this.#isNewTask(place)) {
      const { span_id, signal } = this.#findParent(parent, place.ns);
      const { task } = this.#startTask(place, { parent_id: span_id, signal, isTracked: false, input });
      this.#runs.set(run_id, { span_id: task.span_id, hasSpan: true, signal, task });
    } else if (isSerializedGraph(chain)) this.#startAgent({ run_id, parent, metadata }, input, name);
    else {
      const { span_id, signal } = this.#findParent(parent, "");
      if (span_id !== undefined) this.#runs.set(run_id, { span_id, hasSpan: false, signal });
    }
  }

  handleChainEnd(output: unknown, run_id: string): void {
    const messages = this.#usage.handleChainEnd(output, run_id);
    this.#endRun(run_id, () => ({ status: "ok", output: toCopier(output), ...sumUsage(messages) }));
  }

  handleChainError(error: unknown, run_id: string): void {
    this.#usage.handleChainError(error, run_id);
    this.#failRun(run_id, error);
  }

  handleChatModelStart(...start: ChatModelStart): void {
    this.#usage.handleChatModelStart(...start);
    this.#startModel("chat", start);
  }

  handleLLMStart(...start: ChatModelStart): void {
    this.#startModel("text", start);
  }

  handleLLMNewToken(_token: unknown, _index: unknown, run_id: string): void {
    const run = this.#runs.get(run_id);
    if (!run || run.hasToken) return;
    run.hasToken = true;
    this.#trace.noteFirstToken(run.span_id);
  }

  handleLLMEnd(output: ModelOutput, run_id: string): void {
    const messages = this.#usage.handleLLMEnd(output, run_id);
    this.#endRun(run_id, () => ({
      status: "ok",
      ...readModelEnd(output),
      ...sumUsage(messages),
      output: toCopier(output.generations?.flat().map(({ message, ...generation }) => message ?? generation)),
    }));
  }

  handleLLMError(error: unknown, run_id: string): void {
    this.#usage.handleLLMError(error, run_id);
    this.#failRun(run_id, error);
  }

  handleToolStart(...[, input, run_id, parent, , metadata, name, tool_call_id]: ToolStart): void {
    this.#startRun(
      { run_id, parent, metadata },
      {
        kind: "tool",
        name: name ?? "tool",
        ...(tool_call_id === undefined ? {} : { tool_call_id }),
        input: () => parseArguments(input),
      },
    );
  }

  handleToolEnd(output: unknown, run_id: string): void {
    this.#endRun(run_id, () => ({ status: "ok", output: toCopier(output) }));
  }

  handleToolError(error: unknown, run_id: string): void {
    this.#failRun(run_id, error);
  }

  handleRetrieverStart(...[, query, run_id, parent, , metadata, name]: RetrieverStart): void {
    const span: StartedSpan = { kind: "retriever", name: name ?? "retriever", input: () => query };
    this.#startRun({ run_id, parent, metadata }, span);
  }

  handleRetrieverEnd(documents: unknown, run_id: string): void {
    this.#endRun(run_id, () => ({ status: "ok", output: toCopier(documents) }));
  }

  handleRetrieverError(error: unknown, run_id: string): void {
    this.#failRun(run_id, error);
  }

  /** Starts the span of a model call with its parameters; the input is the first prompt of a batch. */
  #startModel(operation: "chat" | "text", start: ChatModelStart): void {
    const [serialized, prompts, run_id, parent, extra, , metadata, runName] = start;
    const { ns } = readMetadataPlace(metadata);
    const prompt = Array.isArray(prompts) ? prompts[0] : prompts;
    this.#startRun(
      { run_id, parent, metadata },
      {
        kind: "model",
        ...readModelStart(serialized, extra, metadata, runName),
        operation,
        input: this.#toModelInput(ns, toCopier(prompt)),
      },
    );
  }

  /**
   * Returns a reference to the checkpoint that the task of a model starts from, with a copy for traces that keep copies; only the
   * copy if checkpoints are not stored or that of the task is not known.
   */
  #toModelInput(ns: string, copy: () => unknown): RecordedValue {
    const checkpoint_id = this.#tasks.get(ns)?.checkpoint_id;
    if (!this.#hasCheckpoints || checkpoint_id === undefined) return copy;
    return { ref: { checkpoint_id, namespace: splitNamespace(ns).slice(0, -1) }, copy };
  }

  /** Starts the span of a graph that a node or a tool calls. Its name is its own, else that of its agent or node. */
  #startAgent(start: RunStart, input: unknown, name: string | undefined): void {
    const { node, ns } = readMetadataPlace(start.metadata);
    const agentName = start.metadata?.lc_agent_name;
    this.#startRun(start, {
      kind: "agent",
      name: findGraphName({ name }) ?? (typeof agentName === "string" ? agentName : node || "agent"),
      ...(ns === "" ? {} : { namespace: splitNamespace(ns) }),
      input: toCopier(input),
    });
  }

  /** Starts the span of a run under its parent, and keeps the run until its end. Does nothing for a run that has started. */
  #startRun({ run_id, parent, metadata }: RunStart, span: StartedSpan): void {
    if (this.#runs.has(run_id)) return;
    const { span_id: parent_id, signal } = this.#findParent(parent, readMetadataPlace(metadata).ns);
    const span_id = this.#trace.start({ ...span, ...(parent_id === undefined ? {} : { parent_id }) });
    this.#runs.set(run_id, { span_id, hasSpan: true, signal });
  }

  /** Forgets a run, and ends its span and its task if it has them. Does nothing for an unknown run. */
  #endRun(run_id: string, createResult: (signal: AbortSignal | undefined) => EndedSpan): void {
    const run = this.#runs.get(run_id);
    if (!run) return;
    this.#runs.delete(run_id);
    if (run.task) run.task.isOpen = false;
    if (run.hasSpan) this.#trace.end(run.span_id, createResult(run.signal));
  }

  #failRun(run_id: string, error: unknown): void {
    this.#endRun(run_id, (signal) => this.#toEndAfterThrow(error, signal));
  }

  /**
   * Returns true unless the tracker runs the task, or its span is open: then this is a chain inside of it with the name of the
   * node.
   */
  #isNewTask({ ns }: TaskPlace): boolean {
    const task = this.#tasks.get(ns);
    return !task || !(task.isTracked || task.isOpen);
  }

  /** Starts the span of a task with the number of its try, and makes it the parent of what runs in the namespace of the task. */
  #startTask(
    place: TaskPlace,
    {
      parent_id,
      signal,
      isTracked,
      input,
    }: {
      readonly parent_id: string | undefined;
      readonly signal: AbortSignal | undefined;
      readonly isTracked: boolean;
      readonly input: unknown;
    },
  ): StartedNode {
    const { ns, node, step, checkpoint_id } = place;
    const number = place.try ?? (this.#tasks.get(ns)?.try ?? 0) + 1;
    const namespace = splitNamespace(ns);
    const [, task_id] = namespace.at(-1)?.split(":") ?? [];
    const span_id = this.#trace.start({
      kind: "node",
      name: node,
      ...(parent_id === undefined ? {} : { parent_id }),
      ...(task_id === undefined ? {} : { task_id }),
      ...(step === undefined ? {} : { step }),
      ...(namespace.length > 0 ? { namespace } : {}),
      try: number,
      input: toCopier(input),
    });
    const task: TaskSpan = { span_id, try: number, isTracked, isOpen: true, signal, checkpoint_id };
    if (ns !== "") this.#tasks.set(ns, task);
    return { span_id, task };
  }

  /**
   * Returns the parent of a run: a span that code around it has named, else the span of its caller, of its task, or of the longest
   * namespace around it. The span id is undefined for the attempt.
   */
  #findParent(parent: string | undefined, ns: string): ParentSpan {
    const { span_id, signal } = this.#findRun(parent, ns);
    return { span_id: this.#contexts.findParent(span_id), signal };
  }

  #findRun(run_id: string | undefined, ns: string): ParentSpan {
    const run = run_id === undefined ? undefined : this.#runs.get(run_id);
    // An agent of LangChain hands neither its caller nor its namespace on.
    return (
      run ?? this.#findTask(ns) ?? { span_id: this.#contexts.findLocation()?.run_span_id ?? this.#findOuterSpan() }
    );
  }

  /** Returns the task of a namespace, else of the longest one around it; undefined for none. */
  #findTask(ns: string): TaskSpan | undefined {
    for (let prefix = ns; prefix !== ""; prefix = prefix.slice(0, Math.max(0, prefix.lastIndexOf("|")))) {
      const task = this.#tasks.get(prefix);
      if (task) return task;
    }
    return undefined;
  }

  /**
   * Returns the end of a span whose work has thrown: `ok` for a LangGraph command that bubbles up; `interrupted` for an
   * interrupt, and for any error once the run was stopped or `signal` was aborted with an AbortError; else `error` with the
   * error, also after an abort for another reason.
   */
  #toEndAfterThrow(error: unknown, signal: AbortSignal | undefined): EndedSpan & SpanResult {
    const kind = findBubbleKind(error);
    if (kind !== null) return { status: kind === "command" ? "ok" : "interrupted" };
    // LangGraph aborts the other nodes of a step in which one has failed.
    const isCancelled =
      signal?.aborted === true && (signal.reason as { name?: unknown } | undefined)?.name === "AbortError";
    return this.#stopped.aborted || isCancelled ? { status: "interrupted" } : { status: "error", error };
  }
}
