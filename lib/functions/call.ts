/** One call of the function, as its readers see it. */
import type { ExecutorEvent, Interrupt, Job, StreamMode, Task } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import { copyJson, describe, isPlain } from "./copy.ts";
import { apply, messagesOf } from "./state.ts";

/** What `job.interrupt(value)` gives. */
export class Question {
  readonly value: Json;
  constructor(value: Json) {
    this.value = value;
  }
}

/** Follows one call: turns what the function produces into events and keeps the state. */
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
  // The last step is held back: only what follows, or that nothing does for a while, tells whether the graph is finished with it.
  private held: JsonObject | null = null;

  constructor(job: Job, values: JsonObject, step: number, uuid: () => string) {
    this.job = job;
    this.name = job.graph_id;
    this.uuid = uuid;
    this.id = uuid();
    this.values = values;
    this.step = step;
    this.count();
  }

  begin(): ExecutorEvent[] {
    const { id, name } = this;
    return [
      ...this.show("tasks", { id, name, input: this.values, triggers: [`branch:to:${name}`], interrupts: [] }),
      ...this.chain("on_chain_start", { input: this.job.input ?? null }),
    ];
  }

  /** A yielded value. */
  take(value: unknown): ExecutorEvent[] {
    if (typeof value === "string") return this.token(value);
    if (isPlain(value)) return this.update(copyJson(value, "update") as JsonObject);
    throw new TypeError(
      `The function ${this.name} gave ${describe(value)}; it may yield a string (a token), a plain object (an update of the state) or job.interrupt(value)`,
    );
  }

  /** A step is held back. */
  rests(): boolean {
    return this.held !== null;
  }

  /** The function is at work on its next step: the last one is done, and stays whatever becomes of this one. */
  rest(): ExecutorEvent[] {
    return this.held ? [this.state([this.name], [])] : [];
  }

  /** The returned value: the call is over. */
  finish(value: unknown): ExecutorEvent[] {
    const events = value === undefined || value === null ? [] : this.take(value);
    events.push(...this.completeReply());
    if (this.updates.length === 0) events.push(...this.show("updates", { [this.name]: null }));
    events.push(...this.chain("on_chain_end", { output: this.values }), ...this.ended({ result: this.result() }, []));
    events.push(this.state([], []));
    return events;
  }

  pause(question: Question): ExecutorEvent[] {
    // One run asks at most once, so its id names the question, in every attempt.
    const interrupts = [{ id: this.job.run_id.replaceAll("-", ""), value: question.value }];
    return [
      ...this.completeReply(),
      ...showInterrupts(this.job, interrupts),
      ...this.ended({ result: this.result() }, interrupts),
      this.state([this.name], [task(this.id, this.name, { interrupts })]),
    ];
  }

  fail(error: unknown): ExecutorEvent[] {
    const shown =
      error instanceof Error
        ? { error: error.name, message: error.message }
        : { error: "Error", message: String(error) };
    const text = JSON.stringify(shown);
    return [...this.ended({ error: text }, []), this.state([this.name], [task(this.id, this.name, { error: text })])];
  }

  show(mode: StreamMode, data: Json): ExecutorEvent[] {
    return show(this.job, mode, data);
  }

  private token(text: string): ExecutorEvent[] {
    this.reply ??= { id: this.uuid(), text: "" };
    this.reply.text += text;
    const chunk: JsonObject = { type: "AIMessageChunk", content: text, id: this.reply.id };
    return [
      ...this.rest(),
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
    const { values, update } = apply(before, complete, this.uuid, "ai");
    const events = this.rest();
    this.values = values;
    this.held = update;
    this.updates.push(update);
    if (reply) events.push(...this.completed(update, reply.id));
    events.push(...this.fullMessages(before, update, reply?.id), ...this.show("updates", { [this.name]: update }));
    events.push(...this.chain("on_chain_stream", { chunk: update }), ...this.show("values", values));
    this.count();
    return events;
  }

  /** The message that was streamed is whole: readers of `messages` learn it before anything else is streamed. */
  private completed(update: JsonObject, id: string): ExecutorEvent[] {
    if (!this.job.modes.has("messages-tuple") || !Array.isArray(update.messages)) return [];
    const whole = update.messages.filter((message) => isObject(message) && message.id === id);
    return [{ type: "stream", mode: "messages", data: whole }];
  }

  /** Messages of an update that readers of `messages` have not seen yet. */
  private fullMessages(before: JsonObject, update: JsonObject, streamed: string | undefined): ExecutorEvent[] {
    if (!this.job.modes.has("messages-tuple") || !Array.isArray(update.messages)) return [];
    const fresh = new Map<Json | undefined, Json>();
    for (const message of update.messages) {
      if (isObject(message) && (message.type === "ai" || message.type === "tool")) fresh.set(message.id, message);
    }
    fresh.delete(streamed);
    for (const message of messagesOf(before)) if (isObject(message)) fresh.delete(message.id);
    return [...fresh.values()].flatMap((message) => this.show("messages-tuple", [message, this.metadata]));
  }

  /** The next step begins: what describes it is made once, not per token. */
  private count(): void {
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

  /** The state as it is now; the update that was held back is its step. */
  private state(next: readonly string[], tasks: readonly Task[]): ExecutorEvent {
    const step = this.held
      ? { source: "loop" as const, node: this.name, update: this.held }
      : { source: "loop" as const };
    this.held = null;
    return { type: "state", values: this.values, next, tasks, step };
  }

  private result(): Json {
    if (this.updates.length === 0) return null;
    const messages = this.updates.flatMap((update) => (Array.isArray(update.messages) ? update.messages : []));
    return {
      ...Object.fromEntries(this.updates.flatMap(Object.entries<Json>)),
      ...(messages.length > 0 ? { messages } : {}),
    };
  }

  private ended(outcome: JsonObject, interrupts: readonly Interrupt[]): ExecutorEvent[] {
    return this.show("tasks", { id: this.id, name: this.name, ...outcome, interrupts: [...interrupts] });
  }

  private chain(event: string, data: JsonObject, inner?: string): ExecutorEvent[] {
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

export function show(job: Job, mode: StreamMode, data: Json): ExecutorEvent[] {
  return job.modes.has(mode) ? [{ type: "stream", mode, data }] : [];
}

export function showInterrupts(job: Job, interrupts: readonly Interrupt[]): ExecutorEvent[] {
  const data = { __interrupt__: [...interrupts] };
  return [...show(job, "values", data), ...show(job, "updates", data)];
}

export function task(id: string, name: string, outcome: Partial<Task> = {}): Task {
  return { id, name, error: null, interrupts: [], checkpoint: null, state: null, result: null, ...outcome };
}
