/** The frames that show a call in the stream modes of its run. */
import type { Interrupt, Job, StreamEvent, StreamMode } from "../executor/contract.ts";
import { messagesOf } from "../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";

export function show(job: Job, mode: StreamMode, data: Json): StreamEvent[] {
  return job.modes.has(mode) ? [{ type: "stream", mode, data }] : [];
}

export function showInterrupts(job: Job, interrupts: readonly Interrupt[]): StreamEvent[] {
  const data = { __interrupt__: [...interrupts] };
  return [...show(job, "values", data), ...show(job, "updates", data)];
}

/** Makes the frames of one call. It counts the steps, because messages and events name theirs. */
export class CallFrames {
  private readonly job: Job;
  private step: number;
  /** That of this step, once a frame has it: every token carries it. */
  private stepMetadata: JsonObject | null = null;

  constructor(job: Job, step: number) {
    this.job = job;
    this.step = step;
  }

  private get metadata(): JsonObject {
    this.stepMetadata ??= metadataOf(this.job, this.step);
    return this.stepMetadata;
  }

  nextStep(): void {
    this.step++;
    this.stepMetadata = null;
  }

  show(mode: StreamMode, data: Json): StreamEvent[] {
    return show(this.job, mode, data);
  }

  /** A part of a message that is being written. */
  chunk(id: string, content: JsonObject): StreamEvent[] {
    const chunk: JsonObject = { type: "AIMessageChunk", ...content, id };
    // As LangGraph: the event comes first, with this member, which AG-UI's bridge reads.
    return [
      ...this.chain("on_chat_model_stream", { chunk: { ...chunk, response_metadata: {} } }, id),
      ...this.show("messages-tuple", [chunk, this.metadata]),
    ];
  }

  /** Marks the streamed message as complete for mode `messages`, before anything else is streamed. */
  completed(update: JsonObject, id: string): StreamEvent[] {
    if (!this.job.modes.has("messages-tuple") || !Array.isArray(update.messages)) return [];
    const whole = update.messages.filter((message) => isObject(message) && message.id === id);
    return [{ type: "stream", mode: "messages", data: whole }];
  }

  /** Messages of an update that were not streamed as tokens. */
  messages(before: JsonObject, update: JsonObject, streamed: string | undefined): StreamEvent[] {
    if (!this.job.modes.has("messages-tuple") || !Array.isArray(update.messages)) return [];
    const fresh = new Map<Json | undefined, Json>();
    for (const message of update.messages) {
      if (isObject(message) && (message.type === "ai" || message.type === "tool")) fresh.set(message.id, message);
    }
    fresh.delete(streamed);
    for (const message of messagesOf(before)) if (isObject(message)) fresh.delete(message.id);
    return [...fresh.values()].flatMap((message) => this.show("messages-tuple", [message, this.metadata]));
  }

  /** An event of mode `events`. `inner`: the id of the message that it is about. */
  chain(event: string, data: JsonObject, inner?: string): StreamEvent[] {
    if (!this.job.modes.has("events")) return [];
    const { run_id } = this.job;
    const [own, parents] = inner === undefined ? [run_id, []] : [inner, [run_id]];
    const { metadata } = this;
    return this.show("events", {
      event,
      name: this.job.graph_id,
      run_id: own,
      tags: metadata.tags as Json,
      metadata,
      parent_ids: parents,
      data,
    });
  }
}

function metadataOf(job: Job, step: number): JsonObject {
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
