/** Makes the `stream` events of an attempt from what LangGraph streams. */
import type { ExecutorEvent, Job } from "../../lib/executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import type { Callbacks } from "./callbacks.ts";
import { type Chunk, isSubgraphOnly } from "./chunks.ts";
import { isChunk, isMessage, type Message } from "./json.ts";
import { Lifecycle, type LifecycleData } from "./lifecycle.ts";
import { checkpointWire, messageWire, serializeMetadata, serializeValue } from "./serialize.ts";
import { shownTask } from "./step-marks.ts";

export const hasProtocolEvents = ({ events = "none" }: Job): boolean => events !== "none";

/** What the subscribers of the modes of a job see. */
export class StreamFrames {
  private readonly job: Job;
  private readonly wire: (chunk: Chunk) => Json | undefined;
  private readonly lifecycle: Lifecycle | null;
  private readonly unfinished: UnfinishedMessages | null;

  constructor(job: Job, wire: (chunk: Chunk) => Json | undefined) {
    this.job = job;
    this.wire = wire;
    this.lifecycle = job.modes.has("lifecycle") ? new Lifecycle() : null;
    this.unfinished = job.modes.has("messages-tuple") ? new UnfinishedMessages() : null;
  }

  get callbacks(): readonly Callbacks[] {
    return this.lifecycle ? [this.lifecycle.callbacks] : [];
  }

  /** Messages have been streamed of which the whole form was not shown. */
  get growingMessages(): boolean {
    return this.unfinished?.any ?? false;
  }

  /** Whether subscribers of the job see a chunk. */
  isShown(chunk: Chunk): boolean {
    return this.job.modes.has(chunk.mode) && (this.job.subgraphs || !isSubgraphOnly(chunk));
  }

  /** What comes before the chunk: starts and ends of subgraphs, whole messages. */
  before(chunk: Chunk): readonly ExecutorEvent[] {
    const messages = this.unfinished?.take(chunk) ?? NOTHING;
    if (!this.lifecycle) return messages.length > 0 ? toWholeMessages(messages) : NOTHING;
    return [...this.lifecycle.take(chunk).map(lifecycleEvent), ...toWholeMessages(messages)];
  }

  /** The chunk itself. */
  take(chunk: Chunk): ExecutorEvent[] {
    const { modes, subgraphs } = this.job;
    const stands = chunk.mode === "debug" && modes.has("checkpoints") && hasProtocolEvents(this.job);
    const full = stands ? fullCheckpoint(chunk) : null;
    const events = full ? this.take(full) : [];
    const data = this.isShown(chunk) ? this.wire(chunk) : undefined;
    if (data === undefined) return events;
    const { mode, namespace } = chunk;
    events.push(subgraphs ? { type: "stream", mode, namespace, data } : { type: "stream", mode, data });
    return events;
  }

  end(outcome: "completed" | "interrupted"): ExecutorEvent[] {
    return (this.lifecycle?.end(outcome) ?? []).map(lifecycleEvent);
  }

  fail(error: unknown): ExecutorEvent[] {
    return (this.lifecycle?.fail(error) ?? []).map(lifecycleEvent);
  }

  /** Whole messages in the state that a failure has left. */
  settle(values: Json): ExecutorEvent[] {
    return toWholeMessages(this.unfinished?.settle(values) ?? []);
  }
}

const NOTHING: readonly never[] = [];

const toWholeMessages = (messages: readonly Json[]): ExecutorEvent[] =>
  messages.length > 0 ? [{ type: "stream", mode: "messages", data: messages as Json[] }] : [];

function lifecycleEvent(data: LifecycleData): ExecutorEvent {
  return { type: "stream", mode: "lifecycle", namespace: data.namespace, data: { ...data } };
}

/** With protocol events, mode `debug` stands for `checkpoints`: see `streamOptions`. */
function fullCheckpoint({ namespace, payload }: Chunk): Chunk | null {
  const { type, payload: inner } = payload as { readonly type: string; readonly payload: unknown };
  return type === "checkpoint" ? { namespace, mode: "checkpoints", payload: inner } : null;
}

/** Returns a function that gives the data of a chunk in wire form. It remembers the last one, because several readers take it. */
export function chunkWire(): (chunk: Chunk) => Json | undefined {
  let last: Chunk | null = null;
  let json: Json | undefined;
  return (chunk) => {
    if (chunk !== last) json = frameData(chunk);
    last = chunk;
    return json;
  };
}

/** Messages of which chunks have been streamed, until the node that they come from has written them. */
class UnfinishedMessages {
  private readonly ids = new Set<string>();

  get any(): boolean {
    return this.ids.size > 0;
  }

  /** The messages, as readers see them, that are known by this chunk to be whole. */
  take({ mode, payload }: Chunk): readonly Json[] {
    if (mode === "messages-tuple") {
      const [message] = payload as [Message];
      if (typeof message.id === "string" && isChunk(message)) this.ids.add(message.id);
      else if (typeof message.id === "string") this.ids.delete(message.id);
    }
    if (mode !== "updates" || !this.any) return NOTHING;
    return findWrittenMessages(payload)
      .filter((message) => message.getType?.() !== "remove" && this.ids.delete(message.id as string))
      .map((item) => serializeValue(item));
  }

  /** Those in the state that a failure has left: LangGraph drops what it had streamed just before. */
  settle(values: Json): Json[] {
    const { messages = [] } = isObject(values) ? values : {};
    const kept = Array.isArray(messages) ? messages : [];
    return kept.filter((message) => isObject(message) && this.ids.delete(message.id as string));
  }
}

/** The messages in an update, whatever channel they are written to. */
export function findWrittenMessages(updates: unknown): Message[] {
  const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;
  return Object.values(updates as object)
    .flat()
    .filter(isObject)
    .flatMap((update): unknown[] => (isMessage(update) ? [update] : Object.values(update).flat()))
    .filter((value): value is Message => isObject(value) && isMessage(value));
}

function frameData({ mode, payload }: Chunk): Json | undefined {
  switch (mode) {
    case "messages-tuple": {
      const [message, metadata] = payload as [Message, object];
      return [messageWire(message), metadataWire(metadata)];
    }
    case "checkpoints":
      // With events LangGraph mixes in short notes about the checkpoint of each state.
      return isCheckpoint(payload) ? checkpointWire(shownTask(payload)) : undefined;
    case "debug": {
      const { type, payload: given, ...rest } = payload as { type: string; payload: object };
      const inner = shownTask(given);
      return {
        ...(serializeMetadata(rest) as JsonObject),
        type,
        payload: type === "checkpoint" ? checkpointWire(inner) : serializeMetadata(inner),
      };
    }
    case "tasks":
      return serializeMetadata(shownTask(payload as object));
    case "tools":
      return serializeMetadata(payload);
    default:
      return serializeValue(payload);
  }
}

const metadataShown = new WeakMap<object, Json>();

/** LangGraph gives all chunks of a message the same metadata, so that they are converted and written once. */
function metadataWire(metadata: object): Json {
  const shown = metadataShown.get(metadata) ?? serializeMetadata(metadata);
  metadataShown.set(metadata, shown);
  return shown;
}

const isCheckpoint = (payload: unknown): payload is object =>
  isObject(payload as Json) && "config" in (payload as object);
