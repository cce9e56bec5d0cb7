/** Maps what LangGraph streams to the events of the thread event protocol. */
import { ContentBlocks, type MessageEvent } from "../../lib/executor/content-blocks.ts";
import type { Job, StateEvent } from "../../lib/executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import type { Callbacks, ChainStart, Metadata } from "./callbacks.ts";
import { type Chunk, type ChunkReader, isInterruptChunk } from "./chunks.ts";
import { findWrittenMessages } from "./frames.ts";
import type { Graph } from "./graph.ts";
import type { LangChainMessage } from "./json.ts";
import { Lifecycle, type LifecycleData } from "./lifecycle.ts";
import { type CheckpointTuple, INTERRUPT, readCheckpointAddress } from "./saver.ts";
import { serializeMessage, serializeValue, toErrorMessage } from "./serialize.ts";
import { type ProtocolEvent, Transformers } from "./transformers.ts";

type Namespace = readonly string[];

/** LangGraph's note of the checkpoint of the state that follows it. */
interface CheckpointNote {
  readonly id: string;
  readonly parent_id?: string;
  readonly step: number;
  readonly source: string;
}

const isCheckpointNote = (payload: unknown): payload is CheckpointNote =>
  typeof payload === "object" && payload !== null && "id" in payload && !("config" in payload);

/** Creates the `event`s of one attempt. */
export class ProtocolEvents {
  readonly #reader: ChunkReader;
  readonly #serializeChunk: (chunk: Chunk) => Json | undefined;
  readonly #lifecycle: Lifecycle | null;
  readonly #transformers: Transformers | null;
  readonly #agentNames = new AgentNames();
  readonly #blocks = new ContentBlocks();
  /** The checkpoints whose states come next, by namespace. Null if the run does not store all of its checkpoints. */
  readonly #checkpoints: Map<string, string> | null;
  readonly #requestedIds = new Set<string>();
  /** The id of the root checkpoint that was emitted without its values. */
  #emptyRootState: string | null = null;

  constructor(job: Job, graph: Graph, reader: ChunkReader, serializeChunk: (chunk: Chunk) => Json | undefined) {
    this.#reader = reader;
    this.#serializeChunk = serializeChunk;
    this.#lifecycle = job.events === "all" ? new Lifecycle() : null;
    const { streamTransformers = [] } = graph;
    this.#transformers =
      job.events === "all" && streamTransformers.length > 0 ? new Transformers(streamTransformers) : null;
    this.#checkpoints = job.durability === "exit" ? null : new Map();
  }

  get callbacks(): readonly Callbacks[] {
    return this.#lifecycle ? [this.#lifecycle.callbacks, this.#agentNames.callbacks] : [];
  }

  /** True if open messages have no end, or if a checkpoint was emitted without its values. */
  get needsState(): boolean {
    return this.#blocks.hasOpenMessages || this.#emptyRootState !== null;
  }

  /**
   * Returns the protocol events of a chunk in order: starts of subgraphs first, ends of messages before the end of their task. A
   * run that records states only gets events for the root state alone. Transformers may drop or add events.
   */
  map(chunk: Chunk): ProtocolEvent[] {
    const lifecycle = this.#lifecycle;
    const transformers = this.#transformers;
    if (!lifecycle) return chunk.namespace.length === 0 ? this.#mapState(chunk) : [];
    const namespace = this.#resolveNamespace(chunk);
    const events = this.#mapByMode(chunk, namespace);
    if (events.length === 0) return [];
    const lifecycleData = lifecycle.handle({ ...chunk, namespace });
    const valuesEvent = lifecycleData.map((data) => this.#toLifecycleEvent(data));
    const all = isTaskEnd(chunk)
      ? [...this.#endTaskMessages(chunk, lifecycleData), ...events, ...valuesEvent]
      : [...valuesEvent, ...events];
    return transformers
      ? all.flatMap((protocolEvent) => transformers.process(protocolEvent, getTransformerData(protocolEvent, chunk)))
      : all;
  }

  /** Returns the events of a state that no execution has streamed: its checkpoint, if there is one, and its values. */
  mapStoredState(values: Json, tuple: CheckpointTuple | undefined): ProtocolEvent[] {
    if (!tuple) return [this.#createValuesEvent([], () => values)];
    const { step, source } = tuple.metadata as { readonly step: number; readonly source: string };
    const parent_id = tuple.parentConfig && readCheckpointAddress(tuple.parentConfig).checkpoint_id;
    const note = { id: tuple.checkpoint.id, ...(parent_id === undefined ? {} : { parent_id }), step, source };
    return [this.#createCheckpointEvent([], note), this.#createValuesEvent([], () => values)];
  }

  /**
   * Ends everything that is open at the end of the execution. Returns the ends of messages, then the results of
   * transformers, for which it waits, then the ends of subgraphs with `outcome`.
   */
  async end(outcome: "completed" | "interrupted"): Promise<ProtocolEvent[]> {
    const messages = this.#blocks.close([]).map(toMessageEvent);
    const transformed = (await this.#transformers?.end()) ?? [];
    return [
      ...messages,
      ...transformed,
      ...(this.#lifecycle?.end(outcome) ?? []).map((data) => this.#toLifecycleEvent(data)),
    ];
  }

  /**
   * Passes the error to the transformers and returns the events after a failure: the root values of `state` if
   * LangGraph has dropped them, whole messages that the state contains, then the ends of open messages and subgraphs
   * with the error.
   */
  fail(error: unknown, state: StateEvent | null): ProtocolEvent[] {
    this.#transformers?.fail(error);
    const { values = null, checkpoint } = state ?? {};
    const dropped =
      this.#emptyRootState !== null && checkpoint?.checkpoint_id === this.#emptyRootState
        ? [this.#createValuesEvent([], () => values)]
        : [];
    const stateMessages = isObject(values) ? values.messages : undefined;
    const messages = [...this.#blocks.finish(stateMessages), ...this.#blocks.close([], toErrorMessage(error))].map(
      toMessageEvent,
    );
    return [
      ...dropped,
      ...messages,
      ...(this.#lifecycle?.fail(error) ?? []).map((data) => this.#toLifecycleEvent(data)),
    ];
  }

  /** Returns the namespace of the task for messages and tools, and of the graph for everything else. */
  #resolveNamespace({ mode, namespace, payload }: Chunk): Namespace {
    const task = this.#reader.findTaskNamespace(mode, payload);
    return typeof task === "string" && task !== "" ? task.split("|") : namespace;
  }

  /**
   * Returns the events of a chunk by its mode; empty if the protocol has none for it. Messages may be started and ended, and
   * interrupts recorded as sent.
   */
  #mapByMode(chunk: Chunk, namespace: Namespace): ProtocolEvent[] {
    switch (chunk.mode) {
      case "messages-tuple":
        return this.#mapMessage(chunk);
      case "updates":
        return isInterruptChunk(chunk)
          ? this.#createRequestedEvents(chunk, namespace)
          : this.#mapUpdates(chunk, namespace);
      case "tasks":
        return [createEvent("tasks", namespace, this.#serializeChunk(chunk))];
      case "tools":
        return [createEvent("tools", namespace, toToolData(this.#serializeChunk(chunk) as JsonObject))];
      case "custom":
        return [createEvent("custom", namespace, toCustomData(this.#serializeChunk(chunk) ?? null))];
      default:
        return this.#mapState(chunk);
    }
  }

  /** Ends the messages of a task that has ended, with the error of the task if there is one. */
  #endTaskMessages({ namespace, payload }: Chunk, lifecycleData: readonly LifecycleData[]): ProtocolEvent[] {
    const { id, name } = payload as { readonly id: string; readonly name: string };
    const task = [...namespace, `${name}:${id}`];
    const failed = lifecycleData.find(
      ({ event: eventName, namespace: at }) => eventName === "failed" && at.join("|") === task.join("|"),
    );
    return this.#blocks.close(task, failed?.error).map(toMessageEvent);
  }

  /**
   * Returns the event of a state, of the note about its checkpoint, or of each interrupt that was not yet sent; empty
   * in other modes. Records the id of a noted checkpoint and the interrupts as sent.
   */
  #mapState(chunk: Chunk): ProtocolEvent[] {
    const { mode, namespace, payload } = chunk;
    if (mode === "checkpoints")
      return isCheckpointNote(payload) ? [this.#createCheckpointEvent(namespace, payload)] : [];
    if (mode !== "values") return [];
    return isInterruptChunk(chunk)
      ? this.#createRequestedEvents(chunk, namespace)
      : [this.#createValuesEvent(namespace, () => this.#serializeChunk(chunk) ?? null)];
  }

  /** Returns the event of a checkpoint. Notes its id for the state that follows it. */
  #createCheckpointEvent(namespace: Namespace, note: CheckpointNote): ProtocolEvent {
    this.#checkpoints?.set(namespace.join("|"), note.id);
    if (namespace.length === 0) this.#emptyRootState = note.id;
    return createEvent("checkpoints", namespace, { ...note });
  }

  /**
   * Builds the `values` event of a namespace and removes the checkpoint id noted for it. `data` is null, and `read` is
   * not called, if that id is known and the run records states only; readers then load the checkpoint. A root state
   * counts as sent.
   */
  #createValuesEvent(namespace: Namespace, read: () => Json): ProtocolEvent {
    const name = namespace.join("|");
    const checkpoint_id = this.#checkpoints?.get(name);
    this.#checkpoints?.delete(name);
    if (namespace.length === 0) this.#emptyRootState = null;
    const valuesEvent = createEvent(
      "values",
      namespace,
      checkpoint_id !== undefined && !this.#lifecycle ? null : read(),
    );
    return checkpoint_id === undefined ? valuesEvent : { ...valuesEvent, checkpoint_id };
  }

  /**
   * Returns an event for each interrupt that was not yet sent, and records it as sent. The graphs around the one that raised it
   * report it too. Empty if there are none.
   */
  #createRequestedEvents({ payload }: Chunk, namespace: Namespace): ProtocolEvent[] {
    const { [INTERRUPT]: interrupts } = payload as {
      readonly [INTERRUPT]?: readonly { id?: unknown; value?: unknown }[];
    };
    return (interrupts ?? []).flatMap(({ id, value }) => {
      if (typeof id !== "string" || this.#requestedIds.has(id)) return [];
      this.#requestedIds.add(id);
      const payload = serializeValue(value);
      return [createEvent("input.requested", namespace, { interrupt_id: id, payload, value: payload })];
    });
  }

  /** Returns an event for the update of each node. Open messages that an update contains end first. */
  #mapUpdates(chunk: Chunk, namespace: Namespace): ProtocolEvent[] {
    const messages = this.#blocks.hasOpenMessages ? findWrittenMessages(chunk.payload).map(serializeMessage) : [];
    const updates = Object.entries<Json>((this.#serializeChunk(chunk) ?? {}) as JsonObject).filter(
      ([node]) => node !== "__metadata__",
    );
    const events = updates.map(([node, values]): ProtocolEvent => {
      const update = typeof values === "object" ? (values ?? {}) : { value: values };
      return { ...createEvent("updates", namespace, { node, values: update }), node };
    });
    return [...this.#blocks.finish(messages).map(toMessageEvent), ...events];
  }

  /** Returns the events of a part of a message: start, delta, or end. Empty for tool messages, which are events of `tools`. */
  #mapMessage(chunk: Chunk): ProtocolEvent[] {
    const [streamed, metadata] = chunk.payload as [LangChainMessage, Metadata];
    const message = serializeMessage(streamed);
    // Tool messages are events of `tools`.
    if (message.type === "tool") return [];
    return this.#blocks.addMessage(message, metadata as JsonObject).map(toMessageEvent);
  }

  /**
   * Returns the event of a start or an end. `graph_name` is the name of the agent, else of the node. Only the start of
   * an agent that a tool call runs has a `cause`, with the id of the call.
   */
  #toLifecycleEvent({ namespace, event: eventName, tool_call_id, error }: LifecycleData): ProtocolEvent {
    const agent = this.#agentNames.findName(namespace);
    const hasCause = eventName === "started" && agent !== undefined && tool_call_id !== undefined;
    return createEvent("lifecycle", namespace, {
      event: eventName,
      graph_name: agent ?? parseNodeName(namespace),
      ...(hasCause ? { cause: { type: "toolCall", tool_call_id } } : {}),
      ...(error === undefined ? {} : { error }),
    });
  }
}

/** The names of agents inside tasks, which LangChain puts into the metadata of their runs. */
class AgentNames {
  /** The agents that the tasks themselves belong to, by namespace. */
  readonly #outerAgents = new Map<string, unknown>();
  readonly #names = new Map<string, string>();

  readonly callbacks: Callbacks = {
    handleChainStart: (...[, , , , , metadata, , name]: ChainStart): void => {
      const { langgraph_checkpoint_ns: ns, langgraph_node, lc_agent_name: agent } = metadata ?? {};
      if (typeof ns !== "string") return;
      if (!this.#outerAgents.has(ns) && name === langgraph_node) this.#outerAgents.set(ns, agent);
      else if (typeof agent === "string" && agent !== this.#outerAgents.get(ns)) this.#names.set(ns, agent);
    },
  };

  findName(namespace: Namespace): string | undefined {
    return this.#names.get(namespace.join("|"));
  }
}

function createEvent(method: ProtocolEvent["method"], namespace: Namespace, data: Json = null): ProtocolEvent {
  return { type: "event", method, namespace, data };
}

const toMessageEvent = (message: MessageEvent): ProtocolEvent => ({ type: "event", method: "messages", ...message });

const isTaskEnd = ({ mode, payload }: Chunk): boolean => mode === "tasks" && "result" in (payload as object);

/**
 * Returns the node name in the last segment that is not a number; an empty text without one. Numbers count the graphs
 * that a task calls.
 */
function parseNodeName(namespace: Namespace): string {
  const taskSegment = namespace.findLast((segment) => !/^\d+$/.test(segment)) ?? "";
  return taskSegment.split(":", 1)[0] as string;
}

/**
 * Returns the data of an event for transformers: the graph's own values instead of their JSON for states, tasks, tools
 * and updates of nodes. Returns the event's JSON for other modes, and for an event that is not of the chunk's mode.
 */
function getTransformerData({ method, data }: ProtocolEvent, { mode, payload }: Chunk): unknown {
  if (method !== mode) return data;
  if (method === "values" || method === "tasks") return payload;
  if (method === "tools") return toToolData(payload as JsonObject);
  if (method !== "updates" || !isObject(data)) return data;
  return { ...data, values: (payload as Metadata)[data.node as string] ?? data.values };
}

/** Converts the argument of `writer(…)`. A named object is unchanged, because the name is that of its channel. */
const toCustomData = (data: Json): JsonObject =>
  isObject(data) && typeof data.name === "string" ? data : { payload: data };

/**
 * Converts the data of mode `tools` to the event data of the protocol. Missing members get defaults; an unknown event is an error
 * of the tool.
 */
function toToolData({ event: eventName, toolCallId, name, input, data, output, error }: JsonObject): JsonObject {
  const tool_call_id = typeof toolCallId === "string" ? toolCallId : "";
  if (eventName === "on_tool_start") {
    return { event: "tool-started", tool_call_id, tool_name: name ?? "unknown", input: input ?? null };
  }
  if (eventName === "on_tool_event") {
    const delta = typeof data === "string" ? data : JSON.stringify(data ?? "");
    return { event: "tool-output-delta", tool_call_id, delta };
  }
  if (eventName === "on_tool_end") return { event: "tool-finished", tool_call_id, output: output ?? null };
  const message = isObject(error) ? error.message : error;
  return { event: "tool-error", tool_call_id, message: typeof message === "string" ? message : "The tool has failed" };
}
