/** The frames that show a call in the stream modes of its run. */
import type { Interrupt, Job, StreamEvent, StreamMode } from "../executor/contract.ts";
import { messagesOf } from "../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";

export function createFrames(job: Job, mode: StreamMode, data: Json): StreamEvent[] {
  return job.modes.has(mode) ? [{ type: "stream", mode, data }] : [];
}

export function createInterruptFrames(job: Job, interrupts: readonly Interrupt[]): StreamEvent[] {
  const data = { __interrupt__: [...interrupts] };
  return [...createFrames(job, "values", data), ...createFrames(job, "updates", data)];
}

/** Makes the frames of one call. It counts the steps, because messages and events name theirs. */
export class InvocationFrames {
  readonly #job: Job;
  #step: number;
  /** That of this step, once a frame has it: every token carries it. */
  #stepMetadata: JsonObject | null = null;

  constructor(job: Job, step: number) {
    this.#job = job;
    this.#step = step;
  }

  get #metadata(): JsonObject {
    this.#stepMetadata ??= createMetadata(this.#job, this.#step);
    return this.#stepMetadata;
  }

  nextStep(): void {
    this.#step++;
    this.#stepMetadata = null;
  }

  createFrames(mode: StreamMode, data: Json): StreamEvent[] {
    return createFrames(this.#job, mode, data);
  }

  /** A part of a message that is being written. */
  createChunkFrames(id: string, content: JsonObject): StreamEvent[] {
    const chunk: JsonObject = { type: "AIMessageChunk", ...content, id };
    // As LangGraph: the event comes first, with this member, which AG-UI's bridge reads.
    return [
      ...this.createEventFrames("on_chat_model_stream", { chunk: { ...chunk, response_metadata: {} } }, id),
      ...this.createFrames("messages-tuple", [chunk, this.#metadata]),
    ];
  }

  /** Marks the streamed message as complete for mode `messages`, before anything else is streamed. */
  createCompletedFrames(update: JsonObject, id: string): StreamEvent[] {
    if (!this.#job.modes.has("messages-tuple") || !Array.isArray(update.messages)) return [];
    const completedMessages = update.messages.filter((message) => isObject(message) && message.id === id);
    return [{ type: "stream", mode: "messages", data: completedMessages }];
  }

  /** Messages of an update that were not streamed as tokens. */
  createMessageFrames(before: JsonObject, update: JsonObject, streamedId: string | undefined): StreamEvent[] {
    if (!this.#job.modes.has("messages-tuple") || !Array.isArray(update.messages)) return [];
    const newMessages = new Map<Json | undefined, Json>();
    for (const message of update.messages) {
      if (isObject(message) && (message.type === "ai" || message.type === "tool")) newMessages.set(message.id, message);
    }
    newMessages.delete(streamedId);
    for (const message of messagesOf(before)) if (isObject(message)) newMessages.delete(message.id);
    return [...newMessages.values()].flatMap((message) =>
      this.createFrames("messages-tuple", [message, this.#metadata]),
    );
  }

  /** An event of mode `events`. `inner`: the id of the message that it is about. */
  createEventFrames(event: string, data: JsonObject, messageId?: string): StreamEvent[] {
    if (!this.#job.modes.has("events")) return [];
    const { run_id } = this.#job;
    const [eventRunId, parentIds] = messageId === undefined ? [run_id, []] : [messageId, [run_id]];
    const metadata = this.#metadata;
    return this.createFrames("events", {
      event,
      name: this.#job.graph_id,
      run_id: eventRunId,
      tags: metadata.tags as Json,
      metadata,
      parent_ids: parentIds,
      data,
    });
  }
}

function createMetadata(job: Job, step: number): JsonObject {
  return {
    ...job.metadata,
    tags: [...(job.config.tags ?? [])],
    run_id: job.run_id,
    thread_id: job.thread_id,
    graph_id: job.graph_id,
    assistant_id: job.assistant_id,
    run_attempt: job.attempt,
    langgraph_node: job.graph_id,
    langgraph_step: step,
    langgraph_checkpoint_ns: "",
    checkpoint_ns: "",
  };
}
