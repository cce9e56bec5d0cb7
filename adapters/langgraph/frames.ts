/** Maps what LangGraph streams in an attempt to `stream` events. */
import type { ExecutorEvent, Job } from "../../lib/executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import type { Callbacks } from "./callbacks.ts";
import { type Chunk, isSubgraphOnly } from "./chunks.ts";
import { isChunk, isMessage, type LangChainMessage } from "./json.ts";
import { Lifecycle, type LifecycleData } from "./lifecycle.ts";
import { serializeCheckpointChunk, serializeMessage, serializeMetadata, serializeValue } from "./serialize.ts";
import { omitWaitsOfTask } from "./wait-interrupts.ts";

export const hasProtocolEvents = ({ events = "none" }: Job): boolean => events !== "none";

/** Creates the `stream` events for the modes of a job. */
export class StreamFrames {
  readonly #job: Job;
  readonly #serializeChunk: (chunk: Chunk) => Json | undefined;
  readonly #lifecycle: Lifecycle | null;
  readonly #unfinished: UnfinishedMessages | null;

  constructor(job: Job, serializeChunk: (chunk: Chunk) => Json | undefined) {
    this.#job = job;
    this.#serializeChunk = serializeChunk;
    this.#lifecycle = job.modes.has("lifecycle") ? new Lifecycle() : null;
    this.#unfinished = job.modes.has("messages-tuple") ? new UnfinishedMessages() : null;
  }

  get callbacks(): readonly Callbacks[] {
    return this.#lifecycle ? [this.#lifecycle.callbacks] : [];
  }

  /** True if chunks of a message were streamed without its complete form. */
  get hasUnfinishedMessages(): boolean {
    return this.#unfinished?.hasAny ?? false;
  }

  /** Returns true if subscribers of the job see the chunk. */
  isVisible(chunk: Chunk): boolean {
    return this.#job.modes.has(chunk.mode) && (this.#job.subgraphs || !isSubgraphOnly(chunk));
  }

  /** Returns the events before the chunk: starts and ends of subgraphs, and complete messages. */
  mapPreceding(chunk: Chunk): readonly ExecutorEvent[] {
    const messages = this.#unfinished?.handle(chunk) ?? NO_EVENTS;
    if (!this.#lifecycle) return messages.length > 0 ? toWholeMessages(messages) : NO_EVENTS;
    return [...this.#lifecycle.handle(chunk).map(toLifecycleEvent), ...toWholeMessages(messages)];
  }

  /**
   * Returns the stream events of the chunk: none if no client sees it. With protocol events, a chunk of mode `debug` also yields
   * its checkpoint as an event of mode `checkpoints`, first.
   */
  map(chunk: Chunk): ExecutorEvent[] {
    const { modes, subgraphs } = this.#job;
    const sendsCheckpoint = chunk.mode === "debug" && modes.has("checkpoints") && hasProtocolEvents(this.#job);
    const checkpointChunk = sendsCheckpoint ? toCheckpointChunk(chunk) : null;
    const events = checkpointChunk ? this.map(checkpointChunk) : [];
    const data = this.isVisible(chunk) ? this.#serializeChunk(chunk) : undefined;
    if (data === undefined) return events;
    const { mode, namespace } = chunk;
    events.push(subgraphs ? { type: "stream", mode, namespace, data } : { type: "stream", mode, data });
    return events;
  }

  end(outcome: "completed" | "interrupted"): ExecutorEvent[] {
    return (this.#lifecycle?.end(outcome) ?? []).map(toLifecycleEvent);
  }

  fail(error: unknown): ExecutorEvent[] {
    return (this.#lifecycle?.fail(error) ?? []).map(toLifecycleEvent);
  }

  /** Returns an event with the unfinished messages that the state after a failure contains. */
  completeFromState(values: Json): ExecutorEvent[] {
    return toWholeMessages(this.#unfinished?.completeFromState(values) ?? []);
  }
}

const NO_EVENTS: readonly never[] = [];

const toWholeMessages = (messages: readonly Json[]): ExecutorEvent[] =>
  messages.length > 0 ? [{ type: "stream", mode: "messages", data: messages as Json[] }] : [];

function toLifecycleEvent(data: LifecycleData): ExecutorEvent {
  return { type: "stream", mode: "lifecycle", namespace: data.namespace, data: { ...data } };
}

/**
 * Returns the checkpoint in a chunk of mode `debug` as a chunk of mode `checkpoints`; null for a debug chunk of another
 * type. With protocol events, mode `debug` replaces mode `checkpoints`: see `createStreamOptions`.
 */
function toCheckpointChunk({ namespace, payload }: Chunk): Chunk | null {
  const { type, payload: innerPayload } = payload as { readonly type: string; readonly payload: unknown };
  return type === "checkpoint" ? { namespace, mode: "checkpoints", payload: innerPayload } : null;
}

/**
 * Returns a function that serializes a chunk. It caches the last result, because several consumers serialize the same
 * chunk.
 */
export function createChunkSerializer(): (chunk: Chunk) => Json | undefined {
  let last: Chunk | null = null;
  let json: Json | undefined;
  return (chunk) => {
    if (chunk !== last) json = toFrameData(chunk);
    last = chunk;
    return json;
  };
}

/** The messages of which chunks were streamed, until their node has written them. */
class UnfinishedMessages {
  readonly #ids = new Set<string>();

  get hasAny(): boolean {
    return this.#ids.size > 0;
  }

  /**
   * Records the id of a message of which a chunk is streamed, and removes it when the whole message is streamed. For an
   * update, returns the messages in it that are recorded, in wire form, and removes their ids; else an empty list.
   */
  handle({ mode, payload }: Chunk): readonly Json[] {
    if (mode === "messages-tuple") {
      const [message] = payload as [LangChainMessage];
      if (typeof message.id === "string" && isChunk(message)) this.#ids.add(message.id);
      else if (typeof message.id === "string") this.#ids.delete(message.id);
    }
    if (mode !== "updates" || !this.hasAny) return NO_EVENTS;
    return findWrittenMessages(payload)
      .filter((message) => message.getType?.() !== "remove" && this.#ids.delete(message.id as string))
      .map((message) => serializeValue(message));
  }

  /**
   * Returns the messages in the state after a failure that are recorded as unfinished, and removes their ids. LangGraph
   * drops what it had streamed just before.
   */
  completeFromState(values: Json): Json[] {
    const { messages = [] } = isObject(values) ? values : {};
    const stateMessages = Array.isArray(messages) ? messages : [];
    return stateMessages.filter((message) => isObject(message) && this.#ids.delete(message.id as string));
  }
}

/** Returns the messages in an update, in any channel, also those to remove. Empty if there are none. */
export function findWrittenMessages(updates: unknown): LangChainMessage[] {
  const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;
  return Object.values(updates as object)
    .flat()
    .filter(isObject)
    .flatMap((update): unknown[] => (isMessage(update) ? [update] : Object.values(update).flat()))
    .filter((value): value is LangChainMessage => isObject(value) && isMessage(value));
}

/**
 * Returns the data of a chunk in wire form, without interrupts of `sleep` and `wait`. Undefined for a note about a checkpoint,
 * which clients do not get. Throws a TypeError for functions and symbols in the data.
 */
function toFrameData({ mode, payload }: Chunk): Json | undefined {
  switch (mode) {
    case "messages-tuple": {
      const [message, metadata] = payload as [LangChainMessage, object];
      return [serializeMessage(message), serializeChunkMetadata(metadata)];
    }
    case "checkpoints":
      // With protocol events, LangGraph adds a short note about the checkpoint of each state.
      return isCheckpoint(payload) ? serializeCheckpointChunk(omitWaitsOfTask(payload)) : undefined;
    case "debug": {
      const { type, payload: debugPayload, ...otherMembers } = payload as { type: string; payload: object };
      const innerPayload = omitWaitsOfTask(debugPayload);
      return {
        ...(serializeMetadata(otherMembers) as JsonObject),
        type,
        payload: type === "checkpoint" ? serializeCheckpointChunk(innerPayload) : serializeMetadata(innerPayload),
      };
    }
    case "tasks":
      return serializeMetadata(omitWaitsOfTask(payload as object));
    case "tools":
      return serializeMetadata(payload);
    default:
      return serializeValue(payload);
  }
}

const metadataCache = new WeakMap<object, Json>();

/**
 * Returns the metadata as JSON without secrets. Caches the result by object, because all chunks of a message have the
 * same metadata object: later changes of it are not seen.
 */
function serializeChunkMetadata(metadata: object): Json {
  const json = metadataCache.get(metadata) ?? serializeMetadata(metadata);
  metadataCache.set(metadata, json);
  return json;
}

const isCheckpoint = (payload: unknown): payload is object =>
  isObject(payload as Json) && "config" in (payload as object);
