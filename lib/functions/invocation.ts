/** An invocation of a hosted function: converts what the function emits, yields and returns to executor events. */
import type { ExecutorEvent, Interrupt, Job, ModelUsage, StateEvent, StreamEvent, Task } from "../executor/contract.ts";
import { applyUpdate } from "../executor/messages.ts";
import type { Json, JsonObject } from "../json.ts";
import { copyJson, describeType, isPlainObject } from "./copy-json.ts";
import { createInterruptFrames, InvocationFrames } from "./frames.ts";
import type { Interrupted } from "./function-job.ts";
import { MessageDelta } from "./streams.ts";

/** The value that `job.interrupt(value)` returns. */
export class InterruptSignal implements Interrupted {
  readonly "~interrupt" = true;
  readonly value: Json;
  /** The validation by an asynchronous schema. Rejects with a TypeError. */
  readonly checked: Promise<void> | undefined;
  constructor(value: Json, checked?: Promise<void>) {
    this.value = value;
    this.checked = checked;
  }
}

/** A message that the function is writing token by token. Journal entries store it. */
interface StreamedReply {
  readonly id: string;
  text: string;
  /** The members of the message beside its text, such as tool calls. */
  more?: JsonObject;
}

export interface FunctionInvocationOptions {
  readonly job: Job;
  /** The state with which the function is called, and the number of its step. */
  readonly values: JsonObject;
  readonly step: number;
  readonly uuid: () => string;
  /** The tasks whose interrupts the run answers. */
  readonly resumedTasks: readonly Task[];
  /** The input that the next run continues with, for an agent whose input is an argument. */
  readonly keptInput?: Json | undefined;
}

/** Holds the state while the function runs, and converts its values to events. */
export class FunctionInvocation {
  readonly #job: Job;
  readonly #resumedTasks: readonly Task[];
  readonly #name: string;
  readonly #uuid: () => string;
  readonly #id: string;
  readonly #keptInput: Json | undefined;
  #values: JsonObject;
  readonly frames: InvocationFrames;
  readonly initialValues: JsonObject;
  reply: StreamedReply | null = null;
  /** The number of values that the function has yielded. */
  yieldedCount = 0;
  /** The number of `spend` calls outside of steps, and how many of them were reported before this attempt. */
  usageCount = 0;
  reportedUsageCount = 0;
  hasEmittedState = false;
  /** The durable call of the function, and its journal entries. Null before the function uses a durable operation. */
  durableCall: { readonly call_id: string; readonly entries: { readonly length: number } } | null = null;
  // The position of the pending step.
  #stepPosition: StateEvent["call"];
  readonly #updates: JsonObject[] = [];
  // True if the last step is not committed: only when the function yields again, or pauses, has the graph finished with
  // it.
  #isStepPending = false;
  // The frames that are emitted with the next state.
  #stateFrames: StreamEvent[] = [];

  constructor({ job, values, step, uuid, resumedTasks, keptInput }: FunctionInvocationOptions) {
    this.#job = job;
    this.#keptInput = keptInput;
    this.#resumedTasks = resumedTasks;
    this.#name = job.graph_id;
    this.#uuid = uuid;
    this.#id = uuid();
    this.#values = values;
    this.initialValues = values;
    this.frames = new InvocationFrames(job, step + 1);
  }

  /** Returns the frames of the start of the invocation, in the modes `tasks` and `events`. */
  start(): StreamEvent[] {
    const id = this.#id;
    const name = this.#name;
    return [
      ...this.frames.createFrames("tasks", {
        id,
        name,
        input: this.#values,
        triggers: [`branch:to:${name}`],
        interrupts: [],
      }),
      ...this.frames.createEventFrames("on_chain_start", { input: this.#job.input ?? null }),
    ];
  }

  /**
   * Returns the events of a yielded or returned value, and counts it. A string is a token of the reply, an object an update of
   * the state, which is copied. The state event of an update follows later. Throws a TypeError for other values.
   */
  handleValue(value: unknown): ExecutorEvent[] {
    this.yieldedCount++;
    if (typeof value === "string") return this.#handleToken(value);
    if (value instanceof MessageDelta) return this.#handleDelta(value);
    if (isPlainObject(value)) return this.#updateState(copyJson(value, "update") as JsonObject);
    throw new TypeError(
      `The function ${this.#name} yielded or returned ${describeType(value)}; use a string (a token), a plain object (a state update) or job.interrupt(value)`,
    );
  }

  /** The state after all updates. */
  get values(): JsonObject {
    return this.#values;
  }

  hasPendingStep = (): boolean => this.#isStepPending;

  /**
   * Returns the frames of emitted data. While a step is pending, returns none and keeps them, so that they follow the frames of
   * the step.
   */
  emit(data: Json): StreamEvent[] {
    const frames = this.frames.createFrames("custom", data);
    if (!this.#isStepPending) return frames;
    this.#stateFrames.push(...frames);
    return [];
  }

  /**
   * Returns the state event of the pending step, if there is one. A later failure of the function does not undo this
   * step.
   */
  commitStep(): ExecutorEvent[] {
    return this.#isStepPending ? [this.createStateEvent([this.#name], [])] : [];
  }

  /**
   * Returns the events of the returned value and of the end of the invocation: completes the reply and ends with the last state.
   * Null and undefined are no value.
   */
  finish(value: unknown): ExecutorEvent[] {
    const events = value === undefined || value === null ? [] : this.handleValue(value);
    events.push(...this.completeReply());
    if (this.#updates.length === 0)
      this.#stateFrames.push(...this.frames.createFrames("updates", { [this.#name]: null }));
    this.#stateFrames.push(
      ...this.frames.createEventFrames("on_chain_end", { output: this.#values }),
      ...this.#createTaskEndFrames([]),
    );
    events.push(this.createStateEvent([], []));
    return events;
  }

  /**
   * Returns the events that complete the reply and end the run with the interrupt. Its id is that of the run, without hyphens, in
   * every attempt.
   */
  pause({ value }: InterruptSignal): ExecutorEvent[] {
    // A run raises at most one interrupt, so the run's id identifies it in every attempt.
    return this.pauseWithInterrupts([{ id: this.#job.run_id.replaceAll("-", ""), value }], this.#id);
  }

  /**
   * Returns the events that complete the reply and end the run with interrupts of one task. The state has the function as its
   * next node.
   */
  pauseWithInterrupts(interrupts: readonly Interrupt[], task_id: string): ExecutorEvent[] {
    const events = this.completeReply();
    this.#stateFrames.push(...createInterruptFrames(this.#job, interrupts), ...this.#createTaskEndFrames(interrupts));
    return [...events, this.createStateEvent([this.#name], [createTask(task_id, this.#name, { interrupts })])];
  }

  /** Returns the events of a token of a message that a step streams. */
  streamStepToken(id: string, text: string): ExecutorEvent[] {
    return [...this.commitStep(), ...this.frames.createChunkFrames(id, { content: text })];
  }

  /**
   * Returns the events that complete the reply, and adds a message of a step to the state by its `id` and `content`. The state
   * event of the message follows later.
   */
  addStepMessage(message: JsonObject): ExecutorEvent[] {
    return [
      ...this.completeReply(),
      ...this.#updateState({}, { id: message.id as string, text: message.content as string }),
    ];
  }

  /**
   * Returns the state event of a failed invocation, with all updates so far but without the unfinished reply. Its task has the
   * error; if the run resumed interrupts, their tasks have it and keep the interrupts.
   */
  fail(error: unknown): ExecutorEvent[] {
    const errorMembers =
      error instanceof Error
        ? { error: error.name, message: error.message }
        : { error: "Error", message: String(error) };
    const text = JSON.stringify(errorMembers);
    this.#stateFrames.push(...this.#createTaskEndFrames([], { result: {}, error: text }));
    const failed = this.#resumedTasks.length > 0 ? this.#resumedTasks : [createTask(this.#id, this.#name)];
    return [
      this.createStateEvent(
        [this.#name],
        failed.map((failedTask) => ({ ...failedTask, error: text })),
      ),
    ];
  }

  /**
   * Returns a usage event. Usage outside of steps is counted and marked with `repeats`, and gives no event if an earlier attempt
   * or run has reported it. Steps run once, so their usage is always new.
   */
  reportUsage({ usage, in_step }: { readonly usage: ModelUsage; readonly in_step: boolean }): ExecutorEvent[] {
    if (in_step) return [{ type: "usage", ...usage }];
    this.usageCount++;
    return this.usageCount <= this.reportedUsageCount ? [] : [{ type: "usage", ...usage, repeats: true }];
  }

  /** Adds the text to the reply, which it starts if needed. Returns its frames. */
  #handleToken(text: string): ExecutorEvent[] {
    this.reply ??= { id: this.#uuid(), text: "" };
    this.reply.text += text;
    return this.#streamReplyPart(this.reply, { content: text });
  }

  /**
   * Adds a tool call or the end of a message to the open reply, which it starts if needed. Returns the frames of the chunk; none
   * without a chunk.
   */
  #handleDelta({ chunk, members }: MessageDelta): ExecutorEvent[] {
    this.reply ??= { id: this.#uuid(), text: "" };
    this.reply.more = { ...this.reply.more, ...members };
    return chunk ? this.#streamReplyPart(this.reply, { content: "", ...chunk }) : [];
  }

  /**
   * Returns the state event of the pending step, if there is one, and the frames of a part of the reply. In a durable call the
   * last frame has the position of the output.
   */
  #streamReplyPart({ id }: StreamedReply, content: JsonObject): ExecutorEvent[] {
    const frames = this.frames.createChunkFrames(id, content);
    const last = this.durableCall ? frames.pop() : undefined;
    if (last)
      frames.push({ ...last, position: { yielded: this.yieldedCount, reply: this.reply && { ...this.reply } } });
    return [...this.commitStep(), ...frames];
  }

  completeReply(): ExecutorEvent[] {
    return this.reply ? this.#updateState({}) : [];
  }

  /**
   * Applies a change to the state, together with the reply so far, which it completes; `stepReply` takes the place of that reply.
   * Returns the state event of the step that was pending before, or none. The new step is pending, and its event and frames
   * follow later. Throws for invalid messages.
   */
  #updateState(change: JsonObject, stepReply?: FunctionInvocation["reply"]): ExecutorEvent[] {
    const before = this.#values;
    const reply = stepReply ?? this.reply;
    this.reply = null;
    let completeChange = change;
    if (reply) {
      const message: JsonObject = { type: "ai", content: reply.text, id: reply.id, ...reply.more };
      const addedMessages = Object.hasOwn(change, "messages") ? (change.messages as Json) : [];
      completeChange = {
        ...change,
        messages: Array.isArray(addedMessages) ? [message, ...addedMessages] : [message, addedMessages],
      };
    }
    const { values, update } = applyUpdate(before, completeChange, this.#uuid, "ai");
    const events = this.commitStep();
    this.#values = values;
    this.#isStepPending = true;
    this.#stepPosition = this.#getPosition();
    this.#updates.push(update);
    if (reply) this.#stateFrames.push(...this.frames.createCompletedFrames(update, reply.id));
    this.#stateFrames.push(
      ...this.frames.createMessageFrames(before, update, reply?.id),
      ...this.frames.createFrames("updates", { [this.#name]: update }),
      ...this.frames.createEventFrames("on_chain_stream", { chunk: update }),
      ...this.frames.createFrames("values", values),
    );
    this.frames.nextStep();
    return events;
  }

  /**
   * Returns a state event with the frames that were held back for it. The state is no longer pending. Only with a next node does
   * the event have the position in the durable call and the kept input.
   */
  createStateEvent(next: readonly string[], tasks: readonly Task[]): ExecutorEvent {
    const values = this.#values;
    const frames = this.#stateFrames;
    const call =
      next.length > 0 ? ((this.#isStepPending ? this.#stepPosition : undefined) ?? this.#getPosition()) : undefined;
    this.#isStepPending = false;
    this.hasEmittedState = true;
    this.#stateFrames = [];
    const resumedTasks = this.#resumedTasks.length > 0 ? { resumed_tasks: this.#resumedTasks } : {};
    const input = this.#keptInput === undefined || next.length === 0 ? {} : { input: this.#keptInput };
    return { type: "state", values, next, tasks, frames, ...(call ? { call } : {}), ...resumedTasks, ...input };
  }

  /** Returns the position in the durable call; undefined without one. */
  #getPosition(): StateEvent["call"] {
    const { durableCall, yieldedCount } = this;
    // The value that is being handled counts.
    return durableCall
      ? { call_id: durableCall.call_id, at: durableCall.entries.length, yielded: yieldedCount }
      : undefined;
  }

  /**
   * Returns the frame of the end of the task in mode `tasks`, none if the mode was not requested. Its result is all updates
   * merged, unless `failure` replaces it.
   */
  #createTaskEndFrames(interrupts: readonly Interrupt[], failure?: JsonObject): StreamEvent[] {
    if (!this.#job.modes.has("tasks")) return [];
    const outcome = failure ?? { result: mergeUpdates(this.#updates) };
    return this.frames.createFrames("tasks", {
      id: this.#id,
      name: this.#name,
      ...outcome,
      interrupts: [...interrupts],
    });
  }
}

/**
 * Returns one object in which later updates replace members of earlier ones, except that `messages` has the messages of all.
 * Returns null without updates.
 */
function mergeUpdates(updates: readonly JsonObject[]): Json {
  if (updates.length === 0) return null;
  const messages = updates.flatMap((update) => (Array.isArray(update.messages) ? update.messages : []));
  return {
    ...Object.fromEntries(updates.flatMap(Object.entries<Json>)),
    ...(messages.length > 0 ? { messages } : {}),
  };
}

export function createTask(id: string, name: string, outcome: Partial<Task> = {}): Task {
  return { id, name, error: null, interrupts: [], checkpoint: null, state: null, result: null, ...outcome };
}
