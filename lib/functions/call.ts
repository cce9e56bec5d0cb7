/** One call of a hosted function: what it gets, and what becomes of what it emits, yields and returns. */
import type {
  AgentSettings,
  ExecutorEvent,
  Interrupt,
  Job,
  Spending,
  StateEvent,
  StreamEvent,
  Task,
} from "../executor/contract.ts";
import { applyUpdate } from "../executor/messages.ts";
import type { Json, JsonObject } from "../json.ts";
import { CallFrames, showInterrupts } from "./frames.ts";
import { copyJson, describe, isPlainObject } from "./plain.ts";
import { MessagePiece } from "./streams.ts";
import type { Verbs } from "./verbs.ts";

/** What an agent function receives: the job and the current state. The function gets a copy, which it may change. */
export interface FunctionJob extends Omit<Job, "journal" | "resume_targets">, Verbs {
  /** The thread's values with this run's input or `command.update` applied. */
  readonly state: JsonObject;
  /** `state.messages` in wire form (`{type, content, id, …}`); `[]` where there are none. */
  readonly messages: JsonObject[];
  /**
   * Aborts when the run must stop. The reason is `cancelled`, `rolled_back`, `timed_out`, `shutting_down`, `lease_lost`, or
   * `suspended` when the run waits: see `sleep`.
   * Pass it to every call that waits: the thread's next run starts when this function returns, or after `abandon_ms`.
   */
  readonly signal: AbortSignal;
  /** Sends JSON data to subscribers of stream mode `custom` at once, even while the function awaits something else. */
  emit(data: unknown): void;
  /** Adds tokens and cost to the usage stored with the run's trace. Values must not be negative; tokens are integers. */
  spend(usage: Spending): void;
  /**
   * Pauses the run for an answer: `yield job.interrupt(value)`, or return it. The run ends and the thread is interrupted.
   * The run that resumes it calls the function again from its start, with the answer in `command.resume` and the stored state.
   */
  interrupt(value: unknown): object;
}

/**
 * An agent: an async generator function, or a function that returns (a promise of) a string, an object, an async iterable
 * or an object with a `textStream`. Of the result of `streamText` in the AI SDK, text, calls of tools and their results become
 * messages, tokens count as usage, and errors of the model fail the run.
 *
 * Yielded, or items of the iterable:
 * - a string is a token of the reply being written. The tokens become one message of type `ai` at the next object or the end.
 * - a plain object is an update of the state: `messages` are coerced (`role` or `type`, a string is an `ai` message) and merged
 *   by id, every other key replaces its value. The object is copied: later changes to it have no effect.
 * - `job.interrupt(value)` ends the run with an interrupt.
 *
 * A returned string or object counts like a yielded one; `undefined` and `null` are ignored. Any other value, and any value that
 * is not JSON, fails the run. A thrown error is the run's error: updates yielded before it are kept, an unfinished reply is not.
 */
export type AgentFunction = (job: FunctionJob) => unknown;

/** A function with its settings. */
export interface AgentEntry extends AgentSettings {
  readonly agent: AgentFunction;
  /** Durable functions: refuse to continue a call whose journal has another order of steps. Default false. */
  readonly strict?: boolean;
}

/** The value that `job.interrupt(value)` returns. */
export class RaisedInterrupt {
  readonly value: Json;
  constructor(value: Json) {
    this.value = value;
  }
}

/** A message that is being written. */
interface Reply {
  readonly id: string;
  text: string;
  /** What it has beside its text. */
  more?: JsonObject;
}

export interface CallOptions {
  readonly job: Job;
  /** The state with which the function is called, and its step. */
  readonly values: JsonObject;
  readonly step: number;
  readonly uuid: () => string;
  /** The tasks whose interrupts the run answers. */
  readonly asked: readonly Task[];
}

/** One call of the function. It holds the state while the function runs. */
export class Call {
  private readonly job: Job;
  /** The tasks whose interrupts the run answers. */
  private readonly asked: readonly Task[];
  private readonly name: string;
  private readonly uuid: () => string;
  private readonly id: string;
  private values: JsonObject;
  /** Makes the frames that show this call. */
  readonly frames: CallFrames;
  /** The state with which the function was called. */
  readonly initial: JsonObject;
  /** The message that is being written. */
  reply: Reply | null = null;
  /** How many values the function has yielded. */
  yielded = 0;
  /** How many calls of `spend` outside of steps the function has made, and how many of them were reported before this attempt. */
  spent = 0;
  reported = 0;
  /** A state of this call was put. */
  hasState = false;
  /** The open call of a durable function, and its number of entries. */
  durable: { readonly call_id: string; readonly entries: { readonly length: number } } | null = null;
  // With the step that waits.
  private place: StateEvent["call"];
  private readonly updates: JsonObject[] = [];
  // The last step waits: whether the graph has finished with it is known only when the function yields again, or pauses.
  private stepWaits = false;
  // What shows the next state.
  private stateFrames: StreamEvent[] = [];

  constructor({ job, values, step, uuid, asked }: CallOptions) {
    this.job = job;
    this.asked = asked;
    this.name = job.graph_id;
    this.uuid = uuid;
    this.id = uuid();
    this.values = values;
    this.initial = values;
    this.frames = new CallFrames(job, step + 1);
  }

  begin(): StreamEvent[] {
    const { id, name } = this;
    return [
      ...this.frames.show("tasks", { id, name, input: this.values, triggers: [`branch:to:${name}`], interrupts: [] }),
      ...this.frames.chain("on_chain_start", { input: this.job.input ?? null }),
    ];
  }

  /** Takes a yielded or returned value. */
  take(value: unknown): ExecutorEvent[] {
    this.yielded++;
    if (typeof value === "string") return this.token(value);
    if (value instanceof MessagePiece) return this.piece(value);
    if (isPlainObject(value)) return this.update(copyJson(value, "update") as JsonObject);
    throw new TypeError(
      `The function ${this.name} yielded or returned ${describe(value)}; use a string (a token), a plain object (a state update) or job.interrupt(value)`,
    );
  }

  hasOpenStep = (): boolean => this.stepWaits;

  /** Takes emitted data: it follows what shows the step that waits. */
  emit(data: Json): StreamEvent[] {
    const shown = this.frames.show("custom", data);
    if (!this.stepWaits) return shown;
    this.stateFrames.push(...shown);
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
    if (this.updates.length === 0) this.stateFrames.push(...this.frames.show("updates", { [this.name]: null }));
    this.stateFrames.push(...this.frames.chain("on_chain_end", { output: this.values }), ...this.ended([]));
    events.push(this.state([], []));
    return events;
  }

  pause({ value }: RaisedInterrupt): ExecutorEvent[] {
    // A run raises at most one interrupt, so the run's id identifies it in every attempt.
    return this.pauseFor([{ id: this.job.run_id.replaceAll("-", ""), value }], this.id);
  }

  /** Ends the run with interrupts of one task. */
  pauseFor(interrupts: readonly Interrupt[], task_id: string): ExecutorEvent[] {
    const events = this.completeReply();
    this.stateFrames.push(...showInterrupts(this.job, interrupts), ...this.ended(interrupts));
    return [...events, this.state([this.name], [task(task_id, this.name, { interrupts })])];
  }

  /** A token of a message that a step writes. */
  spoken(id: string, text: string): ExecutorEvent[] {
    return [...this.commitStep(), ...this.frames.chunk(id, { content: text })];
  }

  /** The message that a step has written becomes part of the state. */
  said(message: JsonObject): ExecutorEvent[] {
    return [...this.completeReply(), ...this.update({}, { id: message.id as string, text: message.content as string })];
  }

  fail(error: unknown): ExecutorEvent[] {
    const shown =
      error instanceof Error
        ? { error: error.name, message: error.message }
        : { error: "Error", message: String(error) };
    const text = JSON.stringify(shown);
    this.stateFrames.push(...this.ended([], { result: {}, error: text }));
    const failed = this.asked.length > 0 ? this.asked : [task(this.id, this.name)];
    return [
      this.state(
        [this.name],
        failed.map((one) => ({ ...one, error: text })),
      ),
    ];
  }

  /** Reports usage, unless an earlier attempt or run of the call has. Work of a step is executed once, so it is always new. */
  spend({ usage, in_step }: { readonly usage: Spending; readonly in_step: boolean }): ExecutorEvent[] {
    if (in_step) return [{ type: "usage", ...usage }];
    this.spent++;
    return this.spent <= this.reported ? [] : [{ type: "usage", ...usage, repeats: true }];
  }

  private token(text: string): ExecutorEvent[] {
    this.reply ??= { id: this.uuid(), text: "" };
    this.reply.text += text;
    return this.part(this.reply, { content: text });
  }

  /** A call of a tool, or the end of a message. */
  private piece({ chunk, more }: MessagePiece): ExecutorEvent[] {
    this.reply ??= { id: this.uuid(), text: "" };
    this.reply.more = { ...this.reply.more, ...more };
    return chunk ? this.part(this.reply, { content: "", ...chunk }) : [];
  }

  private part({ id }: Reply, content: JsonObject): ExecutorEvent[] {
    const shown = this.frames.chunk(id, content);
    const last = this.durable ? shown.pop() : undefined;
    if (last) shown.push({ ...last, position: { yielded: this.yielded, reply: this.reply && { ...this.reply } } });
    return [...this.commitStep(), ...shown];
  }

  completeReply(): ExecutorEvent[] {
    return this.reply ? this.update({}) : [];
  }

  private update(change: JsonObject, said?: Call["reply"]): ExecutorEvent[] {
    const { values: before } = this;
    const reply = said ?? this.reply;
    this.reply = null;
    let complete = change;
    if (reply) {
      const message: JsonObject = { type: "ai", content: reply.text, id: reply.id, ...reply.more };
      const added = Object.hasOwn(change, "messages") ? (change.messages as Json) : [];
      complete = { ...change, messages: Array.isArray(added) ? [message, ...added] : [message, added] };
    }
    const { values, update } = applyUpdate(before, complete, this.uuid, "ai");
    const events = this.commitStep();
    this.values = values;
    this.stepWaits = true;
    this.place = this.position();
    this.updates.push(update);
    if (reply) this.stateFrames.push(...this.frames.completed(update, reply.id));
    this.stateFrames.push(
      ...this.frames.messages(before, update, reply?.id),
      ...this.frames.show("updates", { [this.name]: update }),
      ...this.frames.chain("on_chain_stream", { chunk: update }),
      ...this.frames.show("values", values),
    );
    this.frames.nextStep();
    return events;
  }

  /** The current state, with what shows it. */
  state(next: readonly string[], tasks: readonly Task[]): ExecutorEvent {
    const { values, stateFrames: frames } = this;
    const call = next.length > 0 ? ((this.stepWaits ? this.place : undefined) ?? this.position()) : undefined;
    this.stepWaits = false;
    this.hasState = true;
    this.stateFrames = [];
    const asked = this.asked.length > 0 ? { asked: this.asked } : {};
    return { type: "state", values, next, tasks, frames, ...(call ? { call } : {}), ...asked };
  }

  private position(): StateEvent["call"] {
    const { durable, yielded } = this;
    // The value that is being taken counts.
    return durable ? { call_id: durable.call_id, at: durable.entries.length, yielded } : undefined;
  }

  private ended(interrupts: readonly Interrupt[], failure?: JsonObject): StreamEvent[] {
    if (!this.job.modes.has("tasks")) return [];
    const outcome = failure ?? { result: resultOf(this.updates) };
    return this.frames.show("tasks", { id: this.id, name: this.name, ...outcome, interrupts: [...interrupts] });
  }
}

function resultOf(updates: readonly JsonObject[]): Json {
  if (updates.length === 0) return null;
  const messages = updates.flatMap((update) => (Array.isArray(update.messages) ? update.messages : []));
  return {
    ...Object.fromEntries(updates.flatMap(Object.entries<Json>)),
    ...(messages.length > 0 ? { messages } : {}),
  };
}

export function task(id: string, name: string, outcome: Partial<Task> = {}): Task {
  return { id, name, error: null, interrupts: [], checkpoint: null, state: null, result: null, ...outcome };
}
