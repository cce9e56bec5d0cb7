/** Makes the events of the thread event protocol from what LangGraph streams. */
import { ContentBlocks, type MessageEvent } from "../../lib/executor/content-blocks.ts";
import type { Job, StateEvent } from "../../lib/executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import type { Callbacks, ChainStart, Metadata } from "./callbacks.ts";
import { type Chunk, type Chunks, isInterrupt } from "./chunks.ts";
import { findWrittenMessages } from "./frames.ts";
import type { Graph } from "./graph.ts";
import type { Message } from "./json.ts";
import { Lifecycle, type LifecycleData } from "./lifecycle.ts";
import { type CheckpointTuple, INTERRUPT, place } from "./saver.ts";
import { messageOf, messageWire, serializeValue } from "./serialize.ts";
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

/** The `event`s of one attempt. */
export class ProtocolEvents {
  private readonly chunks: Chunks;
  private readonly wire: (chunk: Chunk) => Json | undefined;
  private readonly lifecycle: Lifecycle | null;
  private readonly transformers: Transformers | null;
  private readonly agents = new Agents();
  private readonly blocks = new ContentBlocks();
  /** Checkpoints whose states come next, by namespace. Null: those of this run are not all stored. */
  private readonly checkpoints: Map<string, string> | null;
  private readonly asked = new Set<string>();
  /** The checkpoint of the root that was shown without its values. */
  private bare: string | null = null;

  constructor(job: Job, graph: Graph, chunks: Chunks, wire: (chunk: Chunk) => Json | undefined) {
    this.chunks = chunks;
    this.wire = wire;
    this.lifecycle = job.events === "all" ? new Lifecycle() : null;
    const { streamTransformers = [] } = graph;
    this.transformers =
      job.events === "all" && streamTransformers.length > 0 ? new Transformers(streamTransformers) : null;
    this.checkpoints = job.durability === "exit" ? null : new Map();
  }

  get callbacks(): readonly Callbacks[] {
    return this.lifecycle ? [this.lifecycle.callbacks, this.agents.callbacks] : [];
  }

  /** Messages have started that have not ended, or a checkpoint was shown without its values. */
  get needsState(): boolean {
    return this.blocks.open || this.bare !== null;
  }

  take(chunk: Chunk): ProtocolEvent[] {
    const { lifecycle, transformers } = this;
    if (!lifecycle) return chunk.namespace.length === 0 ? this.stateEvents(chunk) : [];
    const namespace = this.namespaceOf(chunk);
    const events = this.eventsOf(chunk, namespace);
    if (events.length === 0) return [];
    const lives = lifecycle.take({ ...chunk, namespace });
    const shown = lives.map((data) => this.lifecycleEvent(data));
    const all = isTaskEnd(chunk) ? [...this.messagesOf(chunk, lives), ...events, ...shown] : [...shown, ...events];
    return transformers ? all.flatMap((one) => transformers.process(one, dataOf(one, chunk))) : all;
  }

  /** A state that no execution has streamed, with its checkpoint. */
  state(values: Json, tuple: CheckpointTuple | undefined): ProtocolEvent[] {
    if (!tuple) return [this.createValuesEvent([], () => values)];
    const { step, source } = tuple.metadata as { readonly step: number; readonly source: string };
    const parent_id = tuple.parentConfig && place(tuple.parentConfig).checkpoint_id;
    const note = { id: tuple.checkpoint.id, ...(parent_id === undefined ? {} : { parent_id }), step, source };
    return [this.checkpoint([], note), this.createValuesEvent([], () => values)];
  }

  /** The execution is over. */
  async end(outcome: "completed" | "interrupted"): Promise<ProtocolEvent[]> {
    const messages = this.blocks.close([]).map(messageEvent);
    const made = (await this.transformers?.end()) ?? [];
    return [...messages, ...made, ...(this.lifecycle?.end(outcome) ?? []).map((data) => this.lifecycleEvent(data))];
  }

  /** The execution has failed. `state`: what it has left. LangGraph drops what was not read before the failure. */
  fail(error: unknown, state: StateEvent | null): ProtocolEvent[] {
    this.transformers?.fail(error);
    const { values = null, checkpoint } = state ?? {};
    const dropped =
      this.bare !== null && checkpoint?.checkpoint_id === this.bare ? [this.createValuesEvent([], () => values)] : [];
    const kept = isObject(values) ? values.messages : undefined;
    const messages = [...this.blocks.finish(kept), ...this.blocks.close([], messageOf(error))].map(messageEvent);
    return [...dropped, ...messages, ...(this.lifecycle?.fail(error) ?? []).map((data) => this.lifecycleEvent(data))];
  }

  /** Messages and tools are named by their task, everything else by its graph. */
  private namespaceOf({ mode, namespace, payload }: Chunk): Namespace {
    const task = this.chunks.taskOf(mode, payload);
    return typeof task === "string" && task !== "" ? task.split("|") : namespace;
  }

  private eventsOf(chunk: Chunk, namespace: Namespace): ProtocolEvent[] {
    switch (chunk.mode) {
      case "messages-tuple":
        return this.message(chunk);
      case "updates":
        return isInterrupt(chunk) ? this.requested(chunk, namespace) : this.updates(chunk, namespace);
      case "tasks":
        return [event("tasks", namespace, this.wire(chunk))];
      case "tools":
        return [event("tools", namespace, toolData(this.wire(chunk) as JsonObject))];
      case "custom":
        return [event("custom", namespace, customData(this.wire(chunk) ?? null))];
      default:
        return this.stateEvents(chunk);
    }
  }

  /** Ends the messages of a task that is over, as the task has ended. */
  private messagesOf({ namespace, payload }: Chunk, lives: readonly LifecycleData[]): ProtocolEvent[] {
    const { id, name } = payload as { readonly id: string; readonly name: string };
    const task = [...namespace, `${name}:${id}`];
    const failed = lives.find(({ event: what, namespace: at }) => what === "failed" && at.join("|") === task.join("|"));
    return this.blocks.close(task, failed?.error).map(messageEvent);
  }

  private stateEvents(chunk: Chunk): ProtocolEvent[] {
    const { mode, namespace, payload } = chunk;
    if (mode === "checkpoints") return isCheckpointNote(payload) ? [this.checkpoint(namespace, payload)] : [];
    if (mode !== "values") return [];
    return isInterrupt(chunk)
      ? this.requested(chunk, namespace)
      : [this.createValuesEvent(namespace, () => this.wire(chunk) ?? null)];
  }

  private checkpoint(namespace: Namespace, note: CheckpointNote): ProtocolEvent {
    this.checkpoints?.set(namespace.join("|"), note.id);
    if (namespace.length === 0) this.bare = note.id;
    return event("checkpoints", namespace, { ...note });
  }

  /**
   * Builds the `values` event of a namespace and consumes the checkpoint id noted for it. `data` is null if that id is known and the run
   * records states only; readers then load the checkpoint.
   */
  private createValuesEvent(namespace: Namespace, read: () => Json): ProtocolEvent {
    const name = namespace.join("|");
    const checkpoint_id = this.checkpoints?.get(name);
    this.checkpoints?.delete(name);
    if (namespace.length === 0) this.bare = null;
    const shown = event("values", namespace, checkpoint_id !== undefined && !this.lifecycle ? null : read());
    return checkpoint_id === undefined ? shown : { ...shown, checkpoint_id };
  }

  /** Each interrupt once: the graphs around the one that asks show it too. */
  private requested({ payload }: Chunk, namespace: Namespace): ProtocolEvent[] {
    const { [INTERRUPT]: asked } = payload as { readonly [INTERRUPT]?: readonly { id?: unknown; value?: unknown }[] };
    return (asked ?? []).flatMap(({ id, value }) => {
      if (typeof id !== "string" || this.asked.has(id)) return [];
      this.asked.add(id);
      const payload = serializeValue(value);
      return [event("input.requested", namespace, { interrupt_id: id, payload, value: payload })];
    });
  }

  private updates(chunk: Chunk, namespace: Namespace): ProtocolEvent[] {
    const messages = this.blocks.open ? findWrittenMessages(chunk.payload).map(messageWire) : [];
    const updates = Object.entries<Json>((this.wire(chunk) ?? {}) as JsonObject).filter(
      ([node]) => node !== "__metadata__",
    );
    const events = updates.map(([node, values]): ProtocolEvent => {
      const update = typeof values === "object" ? (values ?? {}) : { value: values };
      return { ...event("updates", namespace, { node, values: update }), node };
    });
    return [...this.blocks.finish(messages).map(messageEvent), ...events];
  }

  private message(chunk: Chunk): ProtocolEvent[] {
    const [given, metadata] = chunk.payload as [Message, Metadata];
    const message = messageWire(given);
    // `tools` shows what tools answer.
    if (message.type === "tool") return [];
    return this.blocks.chunk(message, metadata as JsonObject).map(messageEvent);
  }

  private lifecycleEvent({ namespace, event: what, tool_call_id, error }: LifecycleData): ProtocolEvent {
    const agent = this.agents.of(namespace);
    const called = what === "started" && agent !== undefined && tool_call_id !== undefined;
    return event("lifecycle", namespace, {
      event: what,
      graph_name: agent ?? nodeOf(namespace),
      ...(called ? { cause: { type: "toolCall", tool_call_id } } : {}),
      ...(error === undefined ? {} : { error }),
    });
  }
}

/** Names of agents inside tasks, which LangChain puts into the metadata of their runs. */
class Agents {
  /** What the tasks themselves are part of, by namespace. */
  private readonly outer = new Map<string, unknown>();
  private readonly names = new Map<string, string>();

  readonly callbacks: Callbacks = {
    handleChainStart: (...[, , , , , metadata, , name]: ChainStart): void => {
      const { langgraph_checkpoint_ns: ns, langgraph_node, lc_agent_name: agent } = metadata ?? {};
      if (typeof ns !== "string") return;
      if (!this.outer.has(ns) && name === langgraph_node) this.outer.set(ns, agent);
      else if (typeof agent === "string" && agent !== this.outer.get(ns)) this.names.set(ns, agent);
    },
  };

  of(namespace: Namespace): string | undefined {
    return this.names.get(namespace.join("|"));
  }
}

function event(method: ProtocolEvent["method"], namespace: Namespace, data: Json = null): ProtocolEvent {
  return { type: "event", method, namespace, data };
}

const messageEvent = (one: MessageEvent): ProtocolEvent => ({ type: "event", method: "messages", ...one });

const isTaskEnd = ({ mode, payload }: Chunk): boolean => mode === "tasks" && "result" in (payload as object);

/** The node of a task. Segments behind it count the graphs that it calls. */
function nodeOf(namespace: Namespace): string {
  const segment = namespace.findLast((one) => !/^\d+$/.test(one)) ?? "";
  return segment.split(":", 1)[0] as string;
}

/** The data of an event as the graph gave it, for transformers. */
function dataOf({ method, data }: ProtocolEvent, { mode, payload }: Chunk): unknown {
  if (method !== mode) return data;
  if (method === "values" || method === "tasks") return payload;
  if (method === "tools") return toolData(payload as JsonObject);
  if (method !== "updates" || !isObject(data)) return data;
  return { ...data, values: (payload as Metadata)[data.node as string] ?? data.values };
}

/** What was written by `writer(…)`: as it is if it has a name, which is that of its channel. */
const customData = (data: Json): JsonObject =>
  isObject(data) && typeof data.name === "string" ? data : { payload: data };

/** What mode `tools` shows, in the words of the protocol. */
function toolData({ event: what, toolCallId, name, input, data, output, error }: JsonObject): JsonObject {
  const tool_call_id = typeof toolCallId === "string" ? toolCallId : "";
  if (what === "on_tool_start") {
    return { event: "tool-started", tool_call_id, tool_name: name ?? "unknown", input: input ?? null };
  }
  if (what === "on_tool_event") {
    const delta = typeof data === "string" ? data : JSON.stringify(data ?? "");
    return { event: "tool-output-delta", tool_call_id, delta };
  }
  if (what === "on_tool_end") return { event: "tool-finished", tool_call_id, output: output ?? null };
  const message = isObject(error) ? error.message : error;
  return { event: "tool-error", tool_call_id, message: typeof message === "string" ? message : "The tool has failed" };
}
