/**
 * The members of LangGraph's and LangChain's objects that this adapter uses and that are not documented. LangGraph 1.4.17 to 1.7.3 have
 * them. No other file uses such a member (the names in checkpoints are in saver.ts, the form of commands in command.ts). Each
 * function first checks that the member is there, in the shape that these versions give it. In any other version it falls back to
 * what LangGraph does by itself, as its comment says.
 */
import { copyWith, type Graph, type Node, type Runnable } from "./graph.ts";
import { JobStore } from "./store.ts";

type Invoke = (input: unknown, config?: NodeConfig) => Promise<unknown>;

/** A config of LangChain, as nodes and edges get it. */
export interface NodeConfig {
  readonly configurable?: Readonly<Record<string, unknown>>;
  readonly callbacks?: unknown;
  readonly signal?: AbortSignal;
  readonly runName?: unknown;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly executionInfo?: { readonly checkpointId?: string; readonly nodeAttempt?: number };
}

/**
 * Returns the config without the name of the node: LangChain removes the name only where it hands on callbacks, and otherwise the tools
 * and models of the node would have it.
 */
export function omitRunName({ runName: _, ...config }: NodeConfig): NodeConfig {
  return config;
}

/**
 * A part that LangGraph adds to a node: it writes channels, maps their values or follows an edge. `invoke` creates a
 * config for `func`.
 */
interface GraphRunnable extends Runnable {
  readonly trace?: boolean;
  readonly func?: (input: unknown, config: unknown) => unknown;
}

/** The part that writes channels, by passing the values to the loop. */
interface ChannelWriter extends GraphRunnable {
  readonly writes: readonly { readonly mapper?: GraphRunnable }[];
  _write(input: unknown, config: unknown): Promise<unknown>;
}

/** The members of a node that LangGraph calls for each of its tasks. */
interface PregelNode extends Node {
  /** Returns the writers. Neighbours are joined. */
  getWriters(): readonly Runnable[];
  /** Returns the sequence of the node and its writers, which a task runs. */
  getNode(): (Runnable & { readonly steps?: readonly Runnable[] }) | undefined;
}

/**
 * Returns a node that runs its parts without the config and the trace that LangChain makes for each, which take a tenth of the time
 * of a small run. Only LangGraph's own parts are called so, which read no config but their argument. Fallback: the same node.
 */
export function withDirectCalls(node: Node): Node {
  if (!isPregelNode(node)) return node;
  const direct: PregelNode = Object.create(node, {
    getWriters: { value: memoize(() => node.getWriters().map(withDirectWrites)) },
    getNode: { value: memoize(() => withDirectSteps(node.getNode.call(direct))) },
  });
  return direct;
}

function isPregelNode(node: Node): node is PregelNode {
  const { getWriters, getNode } = node as Partial<PregelNode>;
  return typeof getWriters === "function" && typeof getNode === "function";
}

/** Returns a function that calls `create` at its first call and then returns the same value. */
function memoize<Value>(create: () => Value): () => Value {
  let created: { readonly value: Value } | undefined;
  return () => {
    created ??= { value: create() };
    return created.value;
  };
}

/**
 * Returns a node that runs its sequence in one loop, and throws between steps if the run was stopped. With callbacks, LangChain
 * runs it, because each part has callbacks of its own. Returns the same node if it is no sequence.
 */
function withDirectSteps(node: ReturnType<PregelNode["getNode"]>): Runnable | undefined {
  const { steps } = node ?? {};
  if (!node || !Array.isArray(steps)) return node;
  const invoke = async (input: unknown, options: NodeConfig = {}): Promise<unknown> => {
    if (options.callbacks !== undefined) return await node.invoke(input, options);
    const config = omitRunName(options);
    let value = input;
    for (const step of steps as readonly Runnable[]) {
      config.signal?.throwIfAborted();
      value = await step.invoke(value, config);
    }
    return value;
  };
  return withInvoke(node, invoke);
}

/** Returns a writer that passes its values to the loop directly; the same one if it does not write to channels. */
function withDirectWrites(writer: Runnable): Runnable {
  if (!isChannelWriter(writer)) return writer;
  const writes = writer.writes.map((write) =>
    write.mapper ? { ...write, mapper: withInvoke(write.mapper, toDirectInvoke(write.mapper)) } : write,
  );
  const direct: ChannelWriter = Object.create(writer, {
    writes: { value: writes },
    invoke: { value: (input: unknown, config: unknown = {}) => direct._write(input, config) },
  });
  return direct;
}

function isChannelWriter(writer: Runnable): writer is ChannelWriter {
  const { writes, _write } = writer as Partial<ChannelWriter>;
  return Array.isArray(writes) && typeof _write === "function";
}

/**
 * Returns a function that calls `func` of the part with the input and the config. Fallback, also for a part whose tracing is not
 * off: the `invoke` of the part, bound to it.
 */
function toDirectInvoke(part: GraphRunnable): Invoke {
  const { func, trace } = part;
  return func && trace === false ? async (input, config) => await func(input, config) : part.invoke.bind(part);
}

const withInvoke = (runnable: Runnable, invoke: Invoke): Runnable =>
  Object.create(runnable, { invoke: { value: invoke } }) as Runnable;

/**
 * Returns true for the runnable of a node without work. Fallback: false, and then the node runs a part that returns
 * its input.
 */
export const isPassthrough = (bound: object): boolean =>
  (bound.constructor as { lc_name?: () => string }).lc_name?.() === "RunnablePassthrough";

/** The name of conditional edges, which LangGraph has among the writers of a node. */
const EDGE = "<branch_run>";

/**
 * Returns the conditional edge with a config of its own, which `prepare` may change. Fallback: the same writer, and then the models that
 * an edge calls are not counted.
 */
export function withEdgeConfig(writer: Runnable, prepare: (config: { callbacks?: unknown }) => void): Runnable {
  if (writer.name !== EDGE) return writer;
  const invoke = toDirectInvoke(writer);
  return withInvoke(writer, (input, options) => {
    const config = { ...options };
    prepare(config);
    return invoke(input, config);
  });
}

/**
 * Returns the edge of a node that follows commands. LangGraph adds one to each node, before the conditional edges of the author.
 * Fallback: undefined, and then this edge is run like the others, which takes a tenth of the time of a small run.
 */
export function findCommandEdge({ builder, nodes }: Graph, name: string): Runnable | undefined {
  const { branches } = (builder ?? {}) as { branches?: Readonly<Record<string, object>> };
  const edges = nodes[name]?.writers.filter((writer) => writer.name === EDGE) ?? [];
  return edges.length === 1 + Object.keys(branches?.[name] ?? {}).length ? edges[0] : undefined;
}

/** Returns the edge that follows commands. It does not run for the plain state that most nodes return. */
export function withCommandsOnly(edge: Runnable): Runnable {
  const invoke = toDirectInvoke(edge);
  return withInvoke(edge, async (input, options) =>
    isPlainState(input) ? input : await invoke(input, { ...options }),
  );
}

/** Returns true for what is certainly no command, no packet and no list of them. */
function isPlainState(value: unknown): boolean {
  if (value === null || value === undefined) return true;
  return typeof value === "object" && Object.getPrototypeOf(value) === Object.prototype && !("lg_name" in value);
}

/**
 * Returns members of a copy of the graph whose loop has no store, so that nodes, edges and tasks get the store of their config. LangGraph
 * puts a queue before the store of its loop, which polls, makes the end of each run wait for a timer, and loses which fields are
 * indexed. Fallback: LangGraph's queue.
 */
export function withoutStoreQueue(graph: Graph): object {
  const { _defaults: readDefaults } = graph as { _defaults?: (config: unknown) => unknown };
  if (typeof readDefaults !== "function") return {};
  return {
    _defaults(this: Graph, config: unknown): unknown {
      const settings = readDefaults.call(this, config);
      if (!Array.isArray(settings)) return settings;
      return settings.map((setting) => (setting instanceof JobStore ? undefined : setting));
    },
  };
}

/**
 * Returns a graph that calls `onValid` once it has validated the input by its schema, and before it reads the input. Fallback: the same
 * graph, which validates nothing, so `onValid` is called at once.
 */
export function withValidInput(graph: Graph, input: object, onValid: () => void): Graph {
  const { _validateInput: validate } = graph as { _validateInput?: (input: unknown) => Promise<unknown> };
  if (typeof validate !== "function") {
    onValid();
    return graph;
  }
  const _validateInput = async (rawInput: unknown): Promise<unknown> => {
    const valid = await validate.call(graph, rawInput);
    if (valid === input) onValid();
    return valid;
  };
  return copyWith(graph, { _validateInput });
}

export type TaskFunction = (...input: unknown[]) => unknown;

/** The member of `configurable` that functional graphs call to start a task. */
const START_TASK = "__pregel_call";

/** Returns the config of a node whose tasks are wrapped by `wrap`. Fallback: the same config. */
export function withTasks(config: NodeConfig, wrap: (task: TaskFunction) => TaskFunction): NodeConfig {
  const startTask = config.configurable?.[START_TASK];
  if (typeof startTask !== "function") return config;
  const start = (task: unknown, ...options: unknown[]): unknown =>
    startTask(typeof task === "function" ? wrap(task as TaskFunction) : task, ...options);
  return { ...config, configurable: { ...config.configurable, [START_TASK]: start } };
}

const CHILD_CONFIG = Symbol.for("lc:child_config");

interface AsyncStorage {
  getStore?(): { readonly extra?: { readonly [CHILD_CONFIG]?: NodeConfig & { callbacks?: unknown } } } | undefined;
}

/**
 * Returns the config that LangChain's callers inherit here. A task gets none as an argument. Fallback: undefined, and then the models
 * that a task calls are not counted.
 */
export function findInheritedConfig(): (NodeConfig & { callbacks?: unknown }) | undefined {
  const { [Symbol.for("ls:tracing_async_local_storage")]: storage } = globalThis as { [key: symbol]: unknown };
  return (storage as AsyncStorage | undefined)?.getStore?.()?.extra?.[CHILD_CONFIG];
}

/**
 * Returns the id of LangChain's run that the caller is in, by the config that it inherits. Fallback: undefined, and then spans lie under
 * the node and not under its tool.
 */
export function findInheritedRun({ callbacks }: { readonly callbacks?: unknown }): string | undefined {
  const { _parentRunId: run_id } = (callbacks ?? {}) as { readonly _parentRunId?: unknown };
  return typeof run_id === "string" ? run_id : undefined;
}

/** Returns true for LangGraph's handler of mode `messages`. Fallback: false, and then the handlers are not joined. */
export const isMessagesHandler = (handler: object): boolean =>
  (handler as { readonly name?: unknown }).name === "StreamMessagesHandler";

/** A channel with which a stream transformer publishes values under a name, or keeps them for its process. */
export interface StreamChannel {
  readonly channelName?: string;
  _wire(onItem: (item: unknown) => void): void;
  _close(): void;
  _fail(error: unknown): void;
}

/** Returns true for a channel of a stream transformer. Fallback: false, and then its values are not published. */
export function isStreamChannel(value: unknown): value is StreamChannel {
  if (typeof value !== "object" || value === null || !(Symbol.for("langgraph.stream_channel") in value)) return false;
  const { _wire, _close, _fail } = value as Partial<StreamChannel>;
  return [_wire, _close, _fail].every((member) => typeof member === "function");
}

/** Channels by name, from an Annotation or a plain state. */
export type Channels = Readonly<Record<string, unknown>>;

/** A schema of zod or of LangGraph, and its channels. */
export interface SchemaDefinition {
  readonly schema?: unknown;
  readonly channels?: Channels;
}

/** LangGraph's annotations of schema members. In a description, `lg:` and JSON are members to add to the JSON Schema. */
export interface Registry {
  getExtendedChannelSchemas(schema: unknown, effects: Effects): unknown;
}

export interface Effects {
  readonly withJsonSchemaExtrasAsDescription: true;
  readonly withReducerSchema?: true;
  readonly asPartial?: true;
}

interface Builder {
  readonly _schemaDefinition?: Channels;
  readonly _inputDefinition?: Channels;
  readonly _outputDefinition?: Channels;
  readonly _schemaRuntimeDefinition?: unknown;
  readonly _inputRuntimeDefinition?: unknown;
  readonly _outputRuntimeDefinition?: unknown;
  readonly _configRuntimeSchema?: unknown;
  readonly _metaRegistry?: Registry;
}

/** The schemas that the author of a graph has passed to its builder. */
export interface SchemaDefinitions {
  readonly state: SchemaDefinition;
  readonly input: SchemaDefinition;
  readonly output: SchemaDefinition;
  /** The schema of the context. */
  readonly context: unknown;
  readonly registry: Registry | undefined;
}

/** Returns the definitions of a graph. Fallback: none, and then the schemas of the graph are unknown. */
export function readDefinitions(graph: Graph): SchemaDefinitions {
  const builder = (graph.builder ?? {}) as Builder;
  const { _schemaDefinition: channels, _metaRegistry: registry } = builder;
  return {
    state: { schema: builder._schemaRuntimeDefinition, channels },
    input: { schema: builder._inputRuntimeDefinition, channels: builder._inputDefinition ?? channels },
    output: { schema: builder._outputRuntimeDefinition, channels: builder._outputDefinition ?? channels },
    context: builder._configRuntimeSchema,
    registry: typeof registry?.getExtendedChannelSchemas === "function" ? registry : undefined,
  };
}

/** The place of a task in its graph. */
export interface TaskPlace {
  readonly node: string;
  /** The checkpoint namespace, which names the tasks of all levels; "" if it is unknown. */
  readonly ns: string;
  readonly step?: number;
  readonly try?: number;
  /** The checkpoint that the task starts from. */
  readonly checkpoint_id?: string;
}

/**
 * Returns the place of a task by its config. Fallback: the name alone, and then spans lie under the attempt; without `executionInfo`, which
 * LangGraph has since 1.5.0, the try and the checkpoint are unknown.
 */
export function readTaskPlace({ metadata, executionInfo, runName }: NodeConfig): TaskPlace {
  const place = readMetadataPlace(metadata);
  return {
    ...place,
    node: place.node || String(runName ?? ""),
    ...(typeof executionInfo?.nodeAttempt === "number" ? { try: executionInfo.nodeAttempt } : {}),
    ...(typeof executionInfo?.checkpointId === "string" ? { checkpoint_id: executionInfo.checkpointId } : {}),
  };
}

/** Returns the place of the task in which one of LangChain's runs has this metadata. */
export function readMetadataPlace(metadata: NodeConfig["metadata"]): TaskPlace {
  const { langgraph_node: node, langgraph_step: step, langgraph_checkpoint_ns: ns } = metadata ?? {};
  return {
    node: typeof node === "string" ? node : "",
    ns: typeof ns === "string" ? ns : "",
    ...(typeof step === "number" ? { step } : {}),
  };
}

/**
 * Returns true if the serialized form, which callbacks get, is that of a compiled graph. Fallback: false, and then subagents have no
 * span of their own.
 */
export function isSerializedGraph(serialized: unknown): boolean {
  const { id } = (serialized ?? {}) as { readonly id?: unknown };
  return Array.isArray(id) && id[0] === "langgraph" && id[1] === "pregel";
}

/** The name of graphs that were compiled without one. */
const DEFAULT_GRAPH_NAME = "LangGraph";

/** Returns the name that the author gave to a graph; undefined without one. A RemoteGraph has the id of its graph. */
export function findGraphName(graph: { readonly name?: unknown; readonly graphId?: unknown }): string | undefined {
  const name = [graph.graphId, graph.name].find((candidate) => typeof candidate === "string" && candidate !== "");
  return name === DEFAULT_GRAPH_NAME ? undefined : (name as string | undefined);
}

/**
 * Returns "interrupt" for an error that pauses the graph, "command" for a command to the graph above, and null for a failure. Fallback:
 * null.
 */
export function findBubbleKind(error: unknown): "interrupt" | "command" | null {
  const { is_bubble_up, name } = (error ?? {}) as { readonly is_bubble_up?: unknown; readonly name?: unknown };
  if (is_bubble_up !== true) return null;
  return name === "ParentCommand" ? "command" : "interrupt";
}
