/** Creates the frames of a function invocation in the stream modes of its run. */
import type { Interrupt, Job, StreamEvent, StreamMode } from "../executor/contract.ts";
import { getMessages } from "../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";

export function createFrames(job: Job, mode: StreamMode, data: Json): StreamEvent[] {
  return job.modes.has(mode) ? [{ type: "stream", mode, data }] : [];
}

/** Returns the frames of interrupts in modes `values` and `updates`, as far as clients requested them. */
export function createInterruptFrames(job: Job, interrupts: readonly Interrupt[]): StreamEvent[] {
  const data = { __interrupt__: [...interrupts] };
  return [...createFrames(job, "values", data), ...createFrames(job, "updates", data)];
}

/** Creates the frames of one invocation. Counts the steps, because messages and events carry their step number. */
export class InvocationFrames {
  readonly #job: Job;
  #step: number;
  /** The metadata of this step. Cached, because every token carries it. */
  #stepMetadata: JsonObject | null = null;

  constructor(job: Job, step: number) {
    this.#job = job;
    this.#step = step;
  }

  get #metadata(): JsonObject {
    this.#stepMetadata ??= createMetadata(this.#job, this.#step);
    return this.#stepMetadata;
  }

  /** Counts a step: later frames have its number. */
  nextStep(): void {
    this.#step++;
    this.#stepMetadata = null;
  }

  createFrames(mode: StreamMode, data: Json): StreamEvent[] {
    return createFrames(this.#job, mode, data);
  }

  /** Returns the frames of a message chunk in the modes `events` and `messages-tuple`, as far as they were requested. */
  createChunkFrames(id: string, content: JsonObject): StreamEvent[] {
    const chunk: JsonObject = { type: "AIMessageChunk", ...content, id };
    // The order is LangGraph's: the event comes first, with `response_metadata`, which the AG-UI bridge reads.
    return [
      ...this.createEventFrames("on_chat_model_stream", { chunk: { ...chunk, response_metadata: {} } }, id),
      ...this.createFrames("messages-tuple", [chunk, this.#metadata]),
    ];
  }

  /**
   * Returns a frame in mode `messages` with the messages of an update that have this id, which marks the streamed message as
   * complete. It must precede all other frames. Returns none without mode `messages-tuple`, and for an update without messages.
   */
  createCompletedFrames(update: JsonObject, id: string): StreamEvent[] {
    if (!this.#job.modes.has("messages-tuple") || !Array.isArray(update.messages)) return [];
    const completedMessages = update.messages.filter((message) => isObject(message) && message.id === id);
    return [{ type: "stream", mode: "messages", data: completedMessages }];
  }

  /**
   * Returns a frame in mode `messages-tuple` for each AI and tool message of an update whose id is neither in `before` nor
   * `streamedId`. Of messages with the same id, the last counts. Returns none if the mode was not requested.
   */
  createMessageFrames(before: JsonObject, update: JsonObject, streamedId: string | undefined): StreamEvent[] {
    if (!this.#job.modes.has("messages-tuple") || !Array.isArray(update.messages)) return [];
    const newMessages = new Map<Json | undefined, Json>();
    for (const message of update.messages) {
      if (isObject(message) && (message.type === "ai" || message.type === "tool")) newMessages.set(message.id, message);
    }
    newMessages.delete(streamedId);
    for (const message of getMessages(before)) if (isObject(message)) newMessages.delete(message.id);
    return [...newMessages.values()].flatMap((message) =>
      this.createFrames("messages-tuple", [message, this.#metadata]),
    );
  }

  /**
   * Returns the frame of an event in mode `events`, none in other modes. With `messageId`, the event is about that message: this
   * id is its `run_id`, and the run is its parent.
   */
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

/**
 * Returns the metadata of messages and events: that of the job with its ids, tags and attempt, and the names that LangGraph gives
 * to the node and the step.
 */
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
