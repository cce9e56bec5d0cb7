/** Counts the active nodes of one attempt: LangGraph does not wait for nodes that ignore their signal. */
import { type CallbackManagerClass, nodeCallbacks } from "./callbacks.ts";
import { copyWith, type Graph, isCompiled, type Node, type Runnable } from "./graph.ts";
import type { ModelUsage } from "./model-usage.ts";
import { JobStore } from "./store.ts";

/** Where nodes find the tracker of their attempt, in `configurable`. */
export const TRACKER = "__greenroom_tracker";

type Call = (...parts: unknown[]) => unknown;

/** The key that functional graphs use to start tasks. */
const CALL = "__pregel_call";

/** The name of conditional edges among the writers of a node. */
const BRANCH = "<branch_run>";

/** LangGraph's own parts of a node: writers of channels, what maps their values, and conditional edges. */
interface Part extends Runnable {
  readonly trace?: boolean;
  readonly func?: (input: unknown, config: unknown) => unknown;
}

/** Writes what it computes by handing it to the loop. */
interface ChannelWriter extends Part {
  readonly writes: readonly { readonly mapper?: Part }[];
  _write(input: unknown, config: unknown): Promise<unknown>;
}

/**
 * Calls a part without the config and the trace that LangChain makes for each call, which are a fifth of the time of a small run.
 * These parts read no config but the argument; the code of users in them makes its own.
 */
function directCall(part: Part): (input: unknown, config: unknown) => Promise<unknown> {
  const { func, trace } = part;
  return func && trace === false ? async (input, config) => await func(input, config) : part.invoke.bind(part);
}

function directWriter(writer: Runnable): Runnable {
  const { writes, _write } = writer as Partial<ChannelWriter>;
  if (!Array.isArray(writes) || typeof _write !== "function") return writer;
  const mapped = writes.map((write) => {
    if (!write.mapper) return write;
    return { ...write, mapper: Object.create(write.mapper, { invoke: { value: directCall(write.mapper) } }) };
  });
  const direct: ChannelWriter = Object.create(writer, {
    writes: { value: mapped },
    invoke: { value: (input: unknown, config: unknown = {}) => direct._write(input, config) },
  });
  return direct;
}

interface AsyncConfig {
  getStore(): { readonly extra?: Readonly<Record<symbol, { callbacks?: unknown } | undefined>> } | undefined;
}

/** The config that the callers of LangChain inherit here. Tasks get none as an argument. */
function currentConfig(): { callbacks?: unknown } | undefined {
  const { [Symbol.for("ls:tracing_async_local_storage")]: storage } = globalThis as { [key: symbol]: unknown };
  return (storage as AsyncConfig | undefined)?.getStore()?.extra?.[Symbol.for("lc:child_config")];
}

/** A node and its writers, one after the other. */
interface Sequence extends Runnable {
  readonly steps: readonly Runnable[];
}

interface NodeConfig {
  readonly configurable?: { readonly [TRACKER]?: NodeTracker };
  readonly callbacks?: unknown;
  readonly signal?: AbortSignal;
  readonly runName?: unknown;
}

const trackerOf = (config: unknown): NodeTracker | undefined =>
  (config as NodeConfig | undefined)?.configurable?.[TRACKER];

/**
 * The config for what runs in a node. `runName` is the name of the node: LangChain removes it where it hands on callbacks, and otherwise
 * the tools and models of the node would have it.
 */
function withoutName({ runName: _, ...config }: NodeConfig): NodeConfig {
  return config;
}

/** Calls the parts of a sequence without the configs and callbacks that LangChain makes for each, in runs without callbacks. */
function directSequence(node: Runnable | undefined): Runnable | undefined {
  const { steps } = (node ?? {}) as Partial<Sequence>;
  if (!node || !steps) return node;
  const invoke = async (input: unknown, options: NodeConfig = {}): Promise<unknown> => {
    if (options.callbacks !== undefined) return await node.invoke(input, options);
    const config = withoutName(options);
    let value = input;
    for (const step of steps) {
      config.signal?.throwIfAborted();
      value = await step.invoke(value, config);
    }
    return value;
  };
  return Object.create(node, { invoke: { value: invoke } });
}

/** Made once for each graph: engines optimize calls of objects that stay. */
const tracked = new WeakMap<Graph, Graph>();

/** A copy of the graph and its subgraphs whose nodes are counted by the tracker in their config. */
export function trackedGraph(graph: Graph): Graph {
  const known = tracked.get(graph);
  if (known) return known;
  const { branches } = (graph.builder ?? {}) as { branches?: Readonly<Record<string, object>> };
  const nodes = Object.entries(graph.nodes).map(([name, node]) => [
    name,
    trackedNode(node, Object.keys(branches?.[name] ?? {}).length),
  ]);
  const made = copyWith(graph, {
    nodes: Object.fromEntries(nodes),
    // LangGraph puts a queue before the store that it finds here. It polls, makes the end of each run wait for a timer, and loses
    // which fields are indexed. Nodes, edges and tasks then get the store of the config.
    _defaults(this: Graph, config: unknown): unknown[] {
      return graph._defaults.call(this, config).map((one) => (one instanceof JobStore ? undefined : one));
    },
  });
  tracked.set(graph, made);
  return made;
}

/** `conditional`: how many conditional edges its author gave it. */
function trackedNode(node: Node, conditional: number): Node {
  const { bound } = node;
  const edges = node.writers.filter(({ name }) => name === BRANCH);
  // Before those, LangGraph adds one of its own, which follows commands.
  const command = edges.length === conditional + 1 ? edges[0] : undefined;
  const writers = node.writers.map((writer) => {
    if (writer === command) return commandEdge(writer);
    return edges.includes(writer) ? trackedEdge(writer) : writer;
  });
  // LangGraph joins neighbours among the writers here, and makes a sequence of them and the node for each task.
  const joined = once(() => node.getWriters.call(copy).map(directWriter));
  const members: PropertyDescriptorMap = {
    writers: { value: writers },
    getWriters: { value: joined },
    getNode: { value: once(() => directSequence(node.getNode.call(copy))) },
  };
  // LangGraph recognizes nodes without work by this class.
  if (bound.constructor.name !== "RunnablePassthrough") {
    members.bound = { value: isCompiled(bound) ? trackedGraph(bound as Graph) : trackedRunnable(bound as Runnable) };
  }
  const copy = Object.create(node, members) as Node;
  return copy;
}

/** Calls `make` at most once. */
function once<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

function trackedRunnable(runnable: Runnable): Runnable {
  const invoke = (input: unknown, options?: unknown): Promise<unknown> =>
    trackerOf(options)?.invoke(runnable, input, options) ?? runnable.invoke(input, options);
  return Object.create(runnable, { invoke: { value: invoke } }) as Runnable;
}

/** The edge that follows commands: it passes on all else. */
function commandEdge(edge: Runnable): Runnable {
  const direct = directCall(edge);
  const invoke = async (input: unknown, options?: unknown): Promise<unknown> =>
    isState(input) ? input : await direct(input, { ...(options as object) });
  return Object.create(edge, { invoke: { value: invoke } }) as Runnable;
}

/** Certainly no command and no packet. */
function isState(value: unknown): boolean {
  if (value === null || value === undefined) return true;
  return typeof value === "object" && Object.getPrototypeOf(value) === Object.prototype && !("lg_name" in value);
}

/** A conditional edge, which is a writer of its node. */
function trackedEdge(edge: Runnable): Runnable {
  const direct = directCall(edge);
  const invoke = (input: unknown, options?: unknown): Promise<unknown> => {
    const config = { ...(options as object) };
    trackerOf(options)?.addCallbacks(config);
    return direct(input, config);
  };
  return Object.create(edge, { invoke: { value: invoke } }) as Runnable;
}

export class NodeTracker {
  // Private to the engine, too: LangChain may write a config with all that it holds as JSON.
  readonly #signal: AbortSignal;
  readonly #usage: ModelUsage;
  readonly addCallbacks: (config: { callbacks?: unknown }) => void;
  readonly #values: { onNodeEnd(): void };
  #working = 0;
  #onIdle: () => void = () => {};

  /** `values` hears of the end of each node. */
  constructor(
    signal: AbortSignal,
    usage: ModelUsage,
    values: { onNodeEnd(): void },
    [Manager, run_id]: readonly [CallbackManagerClass, string],
  ) {
    this.#signal = signal;
    this.#usage = usage;
    this.#values = values;
    this.addCallbacks = nodeCallbacks(usage, Manager, run_id);
  }

  /** Resolves when no node is active. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#onIdle = resolve;
      if (this.#working === 0) resolve();
    });
  }

  /** Calls a node. Throws after the signal has aborted. */
  async invoke(runnable: Runnable, input: unknown, options: unknown): Promise<unknown> {
    this.#refuse();
    this.#working++;
    try {
      this.#usage.onNodeStart(input);
      const output = await runnable.invoke(input, this.#guarded(options));
      this.#usage.onNodeEnd(output);
      return output;
    } finally {
      this.#values.onNodeEnd();
      this.#working--;
      if (this.#working === 0) this.#onIdle();
    }
  }

  #guarded(options: unknown): unknown {
    const given = (options ?? {}) as NodeConfig;
    // A node without writers is called by LangGraph itself. With callbacks, its own run has the name.
    const config: { configurable?: Readonly<Record<string, unknown>>; callbacks?: unknown } =
      given.callbacks === undefined ? withoutName(given) : { ...given };
    this.addCallbacks(config);
    const call = config.configurable?.[CALL];
    if (typeof call !== "function") return config;
    const refusing: Call = (task, ...parts) => {
      this.#refuse();
      return (call as Call)(typeof task === "function" ? this.#task(task as Call) : task, ...parts);
    };
    return { ...config, configurable: { ...config.configurable, [CALL]: refusing } };
  }

  /** A task of a node: it has callbacks of its own. Not called for a result that an earlier attempt has stored. */
  #task(task: Call): Call {
    return async (...input) => {
      const config = currentConfig();
      if (config) this.addCallbacks(config);
      this.#usage.onNodeStart(input);
      const output = await task(...input);
      this.#usage.onNodeEnd(output);
      return output;
    };
  }

  #refuse(): void {
    if (this.#signal.aborted) throw new Error("The run was stopped");
  }
}
