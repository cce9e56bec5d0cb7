/** Turns what one call of a function yields into executor events. */

import type { ExecutorEvent, Interrupt, Job, StreamEvent, StreamMode, Task } from "../executor/contract.ts";
import { applyUpdate, messagesOf } from "../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import { copyJson, describe, isPlain } from "./copy.ts";

/** The value that `job.interrupt(value)` returns. */
export class RaisedInterrupt {
  readonly value: Json;
  constructor(value: Json) {
    this.value = value;
  }
}

/** One call of the function. It holds the state while the function runs. */
export class Call {
  private readonly job: Job;
  private readonly name: string;
  private readonly uuid: () => string;
  private readonly id: string;
  private values: JsonObject;
  private step: number;
  private metadata: JsonObject = {};
  private reply: { readonly id: string; text: string } | null = null;
  private readonly updates: JsonObject[] = [];
  // The last step waits: whether the graph has finished with it is known only when the function yields again, or pauses.
  private stepWaits = false;
  // What shows the next state.
  private shows: StreamEvent[] = [];

  constructor(job: Job, values: JsonObject, step: number, uuid: () => string) {
    this.job = job;
    this.name = job.graph_id;
    this.uuid = uuid;
    this.id = uuid();
    this.values = values;
    this.step = step;
    this.nextStep();
  }

  begin(): StreamEvent[] {
    const { id, name } = this;
    return [
      ...this.show("tasks", { id, name, input: this.values, triggers: [`branch:to:${name}`], interrupts: [] }),
      ...this.chain("on_chain_start", { input: this.job.input ?? null }),
    ];
  }

  /** Takes a yielded value. */
  take(value: unknown): ExecutorEvent[] {
    if (typeof value === "string") return this.token(value);
    if (isPlain(value)) return this.update(copyJson(value, "update") as JsonObject);
    throw new TypeError(
      `The function ${this.name} yielded or returned ${describe(value)}; use a string (a token), a plain object (a state update) or job.interrupt(value)`,
    );
  }

  hasOpenStep(): boolean {
    return this.stepWaits;
  }

  /** Takes emitted data: it follows what shows the step that waits. */
  emit(data: Json): StreamEvent[] {
    const shown = this.show("custom", data);
    if (!this.stepWaits) return shown;
    this.shows.push(...shown);
    return [];
  }

  /** Ends the step that waits. The function works on the next one, so a failure there keeps this one. */
  commitStep(): ExecutorEvent[] {
    return this.stepWaits ? [this.state([this.name], [])] : [];
  }

  /** Takes the returned value and ends the call. */
  finish(value: unknown): ExecutorEvent[] {
    const events = value === undefined || value === null ? [] : this.take(value);
    events.push(...this.completeReply());
    if (this.updates.length === 0) this.shows.push(...this.show("updates", { [this.name]: null }));
    this.shows.push(
      ...this.chain("on_chain_end", { output: this.values }),
      ...this.ended({ result: this.result() }, []),
    );
    events.push(this.state([], []));
    return events;
  }

  pause({ value }: RaisedInterrupt): ExecutorEvent[] {
    // A run raises at most one interrupt, so the run's id identifies it in every attempt.
    const interrupts = [{ id: this.job.run_id.replaceAll("-", ""), value }];
    const events = this.completeReply();
    this.shows.push(...showInterrupts(this.job, interrupts), ...this.ended({ result: this.result() }, interrupts));
    return [...events, this.state([this.name], [task(this.id, this.name, { interrupts })])];
  }

  fail(error: unknown): ExecutorEvent[] {
    const shown =
      error instanceof Error
        ? { error: error.name, message: error.message }
        : { error: "Error", message: String(error) };
    const text = JSON.stringify(shown);
    this.shows.push(...this.ended({ error: text }, []));
    return [this.state([this.name], [task(this.id, this.name, { error: text })])];
  }

  private show(mode: StreamMode, data: Json): StreamEvent[] {
    return show(this.job, mode, data);
  }

  private token(text: string): ExecutorEvent[] {
    this.reply ??= { id: this.uuid(), text: "" };
    this.reply.text += text;
    const chunk: JsonObject = { type: "AIMessageChunk", content: text, id: this.reply.id };
    return [
      ...this.commitStep(),
      ...this.show("messages-tuple", [chunk, this.metadata]),
      ...this.chain("on_chat_model_stream", { chunk }, this.reply.id),
    ];
  }

  private completeReply(): ExecutorEvent[] {
    return this.reply ? this.update({}) : [];
  }

  private update(change: JsonObject): ExecutorEvent[] {
    const { reply, values: before } = this;
    this.reply = null;
    let complete = change;
    if (reply) {
      const message: JsonObject = { type: "ai", content: reply.text, id: reply.id };
      const added = Object.hasOwn(change, "messages") ? (change.messages as Json) : [];
      complete = { ...change, messages: Array.isArray(added) ? [message, ...added] : [message, added] };
    }
    const { values, update } = applyUpdate(before, complete, this.uuid, "ai");
    const events = this.commitStep();
    this.values = values;
    this.stepWaits = true;
    this.updates.push(update);
    if (reply) this.shows.push(...this.completed(update, reply.id));
    this.shows.push(
      ...this.fullMessages(before, update, reply?.id),
      ...this.show("updates", { [this.name]: update }),
      ...this.chain("on_chain_stream", { chunk: update }),
      ...this.show("values", values),
    );
    this.nextStep();
    return events;
  }

  /** Marks the streamed message as complete for mode `messages`, before anything else is streamed. */
  private completed(update: JsonObject, id: string): StreamEvent[] {
    if (!this.job.modes.has("messages-tuple") || !Array.isArray(update.messages)) return [];
    const whole = update.messages.filter((message) => isObject(message) && message.id === id);
    return [{ type: "stream", mode: "messages", data: whole }];
  }

  /** Messages of an update that were not streamed as tokens. */
  private fullMessages(before: JsonObject, update: JsonObject, streamed: string | undefined): StreamEvent[] {
    if (!this.job.modes.has("messages-tuple") || !Array.isArray(update.messages)) return [];
    const fresh = new Map<Json | undefined, Json>();
    for (const message of update.messages) {
      if (isObject(message) && (message.type === "ai" || message.type === "tool")) fresh.set(message.id, message);
    }
    fresh.delete(streamed);
    for (const message of messagesOf(before)) if (isObject(message)) fresh.delete(message.id);
    return [...fresh.values()].flatMap((message) => this.show("messages-tuple", [message, this.metadata]));
  }

  /** Starts the next step. Its metadata is built once, because every token carries it. */
  private nextStep(): void {
    const { job, name } = this;
    this.step++;
    this.metadata = {
      ...job.metadata,
      tags: [...(job.config.tags ?? [])],
      run_id: job.run_id,
      thread_id: job.thread_id,
      graph_id: job.graph_id,
      assistant_id: job.assistant_id,
      run_attempt: job.attempt,
      langgraph_node: name,
      langgraph_step: this.step,
      langgraph_checkpoint_ns: "",
      checkpoint_ns: "",
    };
  }

  /** The current state, with what shows it. */
  private state(next: readonly string[], tasks: readonly Task[]): ExecutorEvent {
    const { values, shows } = this;
    this.stepWaits = false;
    this.shows = [];
    return { type: "state", values, next, tasks, shows };
  }

  private result(): Json {
    if (this.updates.length === 0) return null;
    const messages = this.updates.flatMap((update) => (Array.isArray(update.messages) ? update.messages : []));
    return {
      ...Object.fromEntries(this.updates.flatMap(Object.entries<Json>)),
      ...(messages.length > 0 ? { messages } : {}),
    };
  }

  private ended(outcome: JsonObject, interrupts: readonly Interrupt[]): StreamEvent[] {
    return this.show("tasks", { id: this.id, name: this.name, ...outcome, interrupts: [...interrupts] });
  }

  private chain(event: string, data: JsonObject, inner?: string): StreamEvent[] {
    if (!this.job.modes.has("events")) return [];
    const { run_id } = this.job;
    const [own, parents] = inner === undefined ? [run_id, []] : [inner, [run_id]];
    const { metadata, name } = this;
    return this.show("events", {
      event,
      name,
      run_id: own,
      tags: metadata.tags as Json,
      metadata,
      parent_ids: parents,
      data,
    });
  }
}

export function show(job: Job, mode: StreamMode, data: Json): StreamEvent[] {
  return job.modes.has(mode) ? [{ type: "stream", mode, data }] : [];
}

export function showInterrupts(job: Job, interrupts: readonly Interrupt[]): StreamEvent[] {
  const data = { __interrupt__: [...interrupts] };
  return [...show(job, "values", data), ...show(job, "updates", data)];
}

export function task(id: string, name: string, outcome: Partial<Task> = {}): Task {
  return { id, name, error: null, interrupts: [], checkpoint: null, state: null, result: null, ...outcome };
}
