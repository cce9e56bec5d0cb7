/** One call of a hosted function: what it gets, and what becomes of what it emits, yields and returns. */
import type {
  AgentSettings,
  ExecutorEvent,
  Interrupt,
  Job,
  Spending,
  StreamEvent,
  StreamMode,
  Task,
} from "../executor/contract.ts";
import { applyUpdate, messagesOf } from "../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import { MessagePiece, streamOf } from "./streams.ts";

/** What an agent function receives: the job and the current state. The function gets a copy, which it may change. */
export interface FunctionJob extends Job {
  /** The thread's values with this run's input or `command.update` applied. */
  readonly state: JsonObject;
  /** `state.messages` in wire form (`{type, content, id, …}`); `[]` where there are none. */
  readonly messages: JsonObject[];
  /**
   * Aborts when the run must stop. The reason is `cancelled`, `rolled_back`, `timed_out`, `shutting_down` or `lease_lost`.
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
  readonly more: JsonObject;
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
  private reply: Reply | null = null;
  private readonly updates: JsonObject[] = [];
  // The last step waits: whether the graph has finished with it is known only when the function yields again, or pauses.
  private stepWaits = false;
  // What shows the next state.
  private frames: StreamEvent[] = [];

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
    if (value instanceof MessagePiece) return this.piece(value);
    if (isPlainObject(value)) return this.update(copyJson(value, "update") as JsonObject);
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
    this.frames.push(...shown);
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
    if (this.updates.length === 0) this.frames.push(...this.show("updates", { [this.name]: null }));
    this.frames.push(
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
    this.frames.push(...showInterrupts(this.job, interrupts), ...this.ended({ result: this.result() }, interrupts));
    return [...events, this.state([this.name], [task(this.id, this.name, { interrupts })])];
  }

  fail(error: unknown): ExecutorEvent[] {
    const shown =
      error instanceof Error
        ? { error: error.name, message: error.message }
        : { error: "Error", message: String(error) };
    const text = JSON.stringify(shown);
    this.frames.push(...this.ended({ result: {}, error: text }, []));
    return [this.state([this.name], [task(this.id, this.name, { error: text })])];
  }

  private show(mode: StreamMode, data: Json): StreamEvent[] {
    return show(this.job, mode, data);
  }

  private token(text: string): ExecutorEvent[] {
    this.reply ??= { id: this.uuid(), text: "", more: {} };
    this.reply.text += text;
    return this.chunk({ type: "AIMessageChunk", content: text, id: this.reply.id });
  }

  /** A call of a tool, or the end of a message. */
  private piece({ chunk, more }: MessagePiece): ExecutorEvent[] {
    this.reply ??= { id: this.uuid(), text: "", more: {} };
    Object.assign(this.reply.more, more);
    return chunk ? this.chunk({ type: "AIMessageChunk", content: "", id: this.reply.id, ...chunk }) : [];
  }

  private chunk(chunk: JsonObject): ExecutorEvent[] {
    return [
      ...this.commitStep(),
      ...this.show("messages-tuple", [chunk, this.metadata]),
      ...this.chain("on_chat_model_stream", { chunk }, chunk.id as string),
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
      const message: JsonObject = { type: "ai", content: reply.text, id: reply.id, ...reply.more };
      const added = Object.hasOwn(change, "messages") ? (change.messages as Json) : [];
      complete = { ...change, messages: Array.isArray(added) ? [message, ...added] : [message, added] };
    }
    const { values, update } = applyUpdate(before, complete, this.uuid, "ai");
    const events = this.commitStep();
    this.values = values;
    this.stepWaits = true;
    this.updates.push(update);
    if (reply) this.frames.push(...this.completed(update, reply.id));
    this.frames.push(
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
    const { values, frames } = this;
    this.stepWaits = false;
    this.frames = [];
    return { type: "state", values, next, tasks, frames };
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

type FunctionEvent =
  | { readonly kind: "custom"; readonly data: Json; readonly value?: undefined }
  | { readonly kind: "usage"; readonly usage: Spending; readonly value?: undefined }
  | { readonly kind: "waiting"; readonly value?: undefined }
  | { readonly kind: "yielded" | "returned"; readonly value: unknown };

/**
 * Calls the function. The last item is its return value or its interrupt; `waiting` means that it still executes one tick of
 * the event loop after it was asked for more. Throws what the function throws or, once it has stopped, the signal's reason.
 */
export async function* drive(
  agent: AgentFunction,
  job: Omit<FunctionJob, "emit" | "interrupt" | "spend">,
  signal: AbortSignal,
  defer: (then: () => void) => void,
): AsyncGenerator<FunctionEvent> {
  const emitted: FunctionEvent[] = [];
  let wake = (): void => {};
  let iterator: AsyncIterator<unknown> | undefined;
  const onAbort = (): void => wake();
  signal.addEventListener("abort", onAbort);

  /** Waits for one step of the function and passes on what it emits meanwhile. */
  async function* wait(work: () => unknown): AsyncGenerator<FunctionEvent, unknown> {
    signal.throwIfAborted();
    let outcome: (() => unknown) | undefined;
    const finish = (result: () => unknown): void => {
      outcome = result;
      wake();
    };
    const finished = (async () => work())().then(
      (value) => finish(() => value),
      (error: unknown) =>
        finish(() => {
          throw error;
        }),
    );
    let ticked = false;
    defer(() => {
      ticked = true;
      wake();
    });
    while ((!outcome || emitted.length > 0) && !signal.aborted) {
      if (emitted.length > 0) yield emitted.shift() as FunctionEvent;
      else if (ticked) {
        ticked = false;
        yield { kind: "waiting" };
      } else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
    // An aborted function may still be at work: the thread must not go on before it has stopped.
    if (signal.aborted) await finished;
    signal.throwIfAborted();
    return (outcome as () => unknown)();
  }

  const spend = (usage: Spending): void => {
    emitted.push({ kind: "usage", usage: { ...usage } });
    wake();
  };

  try {
    const result = yield* wait(() =>
      agent({
        ...job,
        emit(data) {
          emitted.push({ kind: "custom", data: copyJson(data, "emitted data") });
          wake();
        },
        spend,
        interrupt: (value) => new RaisedInterrupt(copyJson(value, "interrupt value")),
      }),
    );
    const stream = streamOf(result, spend);
    if (!stream) {
      yield { kind: "returned", value: result };
      return;
    }
    const items = stream[Symbol.asyncIterator]();
    iterator = items;
    while (true) {
      const { done, value } = (yield* wait(() => items.next())) as IteratorResult<unknown>;
      if (done) iterator = undefined;
      else if (value instanceof RaisedInterrupt) {
        iterator = undefined;
        yield* wait(() => items.return?.());
      }
      if (done || value instanceof RaisedInterrupt) {
        yield { kind: "returned", value };
        return;
      }
      yield { kind: "yielded", value };
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
    // Its cleanup belongs to the run.
    if (iterator) await (async (open) => open.return?.())(iterator).catch(() => {});
  }
}

/**
 * A deep copy of a JSON value. Objects with `toJSON` (dates, LangChain messages) are converted, undefined members are left out.
 * Any other value throws an error that names its path.
 */
export function copyJson(value: unknown, path: string, above: readonly object[] = []): Json {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (typeof value !== "object") throw new TypeError(`Not JSON: ${path} is ${describe(value)}`);
  if (above.includes(value)) throw new TypeError(`Not JSON: ${path} contains itself`);
  const inside = [...above, value];
  if (Array.isArray(value)) return Array.from(value, (item, at) => copyJson(item, `${path}[${at}]`, inside));
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") return copyJson(toJSON.call(value), path, inside);
  if (!isPlainObject(value)) throw new TypeError(`Not JSON: ${path} is ${describe(value)}`);
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== undefined)
      .map(([key, item]) => [key, copyJson(item, `${path}.${key}`, inside)]),
  );
}

/** An object made by a literal, in any realm, or one without a prototype. */
function isPlainObject(value: unknown): value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function describe(value: unknown): string {
  if (typeof value === "function") return "a function";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return `an instance of ${value.constructor?.name || "a class"}`;
  return typeof value === "bigint" ? `the bigint ${value}` : String(value);
}
