/** Hosts plain functions as graphs of one node: state, messages, tokens, interrupts and stream modes around what they yield. */
import { systemAmbient } from "./ambient.ts";
import { ConfigError } from "./errors.ts";
import type { Executor, ExecutorEvent, Interrupt, Job, Payload, StreamMode, Task } from "./executor.ts";
import { isObject, type Json, type JsonObject } from "./json.ts";
import { coerceMessages, reduceMessages } from "./messages.ts";

const START = "__start__";
const END = "__end__";

/** What an agent function is given: the job and the state it goes on from. All of it is the function's own copy. */
export interface FunctionJob extends Job {
  /** The thread's values with this run's input or `command.update` applied. */
  readonly state: JsonObject;
  /** `state.messages` in wire form (`{type, content, id, …}`); `[]` where there are none. */
  readonly messages: JsonObject[];
  /** Aborts when the run is to stop; pass it to whatever the function waits for. */
  readonly signal: AbortSignal;
  /** Shows JSON data to readers of stream mode `custom`, at once, also while the function waits for something else. */
  emit(data: unknown): void;
  /**
   * What to yield (or return) to ask a question: `yield job.interrupt(value)`. The run ends there and the thread is
   * interrupted. The run that answers calls the function again from its start, with `command.resume` set to the answer and
   * the state as it was left.
   */
  interrupt(value: unknown): object;
}

/**
 * An agent: an async generator function, or a function that returns (a promise of) a string, an object, an async iterable
 * or an object with a `textStream`, as `streamText` of the AI SDK gives it.
 *
 * Yielded, or items of the iterable:
 * - a string is a token of the reply being written. The tokens become one message of type `ai` at the next object or the end.
 * - a plain object is an update of the state: `messages` are coerced (`role` or `type`, a string is an `ai` message) and merged
 *   by id, every other key replaces its value. It is copied: what happens to the object afterwards has no effect.
 * - `job.interrupt(value)` ends the run with a question.
 *
 * A returned string or object counts like a yielded one; `undefined` and `null` are nothing. Anything else, and whatever is
 * not JSON, fails the run. A thrown error is the run's error; updates yielded before it stay, an unfinished reply does not.
 */
export type AgentFunction = (job: FunctionJob) => unknown;

export interface FunctionOptions {
  /** Makes the ids of messages and tasks. */
  readonly uuid?: () => string;
}

/**
 * An executor of plain functions; each is a graph with one node, both named by its key.
 *
 * - Input that is an object updates the state as a yielded object does, except that a string in `messages` is a `human`
 *   message; any other input becomes the value `input` of the state. Without input and command the function is called on the state as it is.
 * - `command.update` (an object or a list of [key, value]) is applied like input. `goto` takes the function's own name (the
 *   input of a `Send` is applied too) and `__end__`, which ends the run without a call; other names fail the run.
 * - `interrupt_before` stops before the call; a run without input goes on from there. `interrupt_after` has no effect: after
 *   the only node the graph is finished.
 * - A later attempt of a run calls the function again from its start, on the state as it was stored last.
 */
export function fromFunctions(
  agents: Readonly<Record<string, AgentFunction>>,
  options: FunctionOptions = {},
): Executor {
  const hosted = new Map(Object.entries(agents));
  const problems = [...hosted].flatMap(([name, agent]) => {
    if (typeof agent !== "function") return [`fromFunctions: ${name} must be a function`];
    return name === START || name === END ? [`fromFunctions: ${name} is reserved, choose another name`] : [];
  });
  if (problems.length > 0) throw new ConfigError(problems);
  const uuid = options.uuid ?? systemAmbient().uuid;
  return {
    graphs: () => [...hosted.keys()].map((graph_id) => ({ graph_id, checkpoints: "worker" })),
    execute(job, signal) {
      const agent = hosted.get(job.graph_id);
      if (!agent) throw new Error(`No function is named ${job.graph_id}`);
      return execute(agent, job, signal, uuid);
    },
  };
}

async function* execute(
  agent: AgentFunction,
  job: Job,
  signal: AbortSignal,
  uuid: () => string,
): AsyncGenerator<ExecutorEvent> {
  const head = await readHead(job);
  signal.throwIfAborted();
  const opening = open(job, head, uuid);
  yield* opening.events;
  if (!opening.call) return;
  const call = new Call(job, opening.values, opening.step, uuid);
  yield* call.begin();
  try {
    for await (const item of produce(agent, functionJob(job, head, opening.values, signal), signal)) {
      if (item.kind === "custom") yield* call.show("custom", item.data);
      else if (item.value instanceof Question) return yield* call.pause(item.value);
      else if (item.kind === "yielded") yield* call.take(item.value);
      else return yield* call.finish(item.value);
    }
  } catch (error) {
    if (!signal.aborted) yield* call.fail(error);
    throw error;
  }
}

// ------------------------------------------------- the state a run begins with

interface Head {
  readonly values: JsonObject;
  readonly next: readonly string[];
  readonly tasks: readonly Task[];
  /** The number of this state; −2 where there is none, so that the first one is −1. */
  readonly step: number;
}

async function readHead(job: Job): Promise<Head> {
  // In a later attempt the newest state is this run's own, not the one it forked from.
  const stored = await job.checkpoints.get(job.resumed || !job.from ? { ns: "" } : job.from);
  if (!stored) {
    if (job.from && !job.resumed) throw new Error(`There is no checkpoint ${job.from.checkpoint_id}`);
    return { values: {}, next: [], tasks: [], step: -2 };
  }
  const foreign = (): never => {
    throw new Error("The thread's state was written by another kind of graph");
  };
  const read = ({ type, data }: Payload): Json =>
    type === "json" && typeof data === "string" ? (JSON.parse(data) as Json) : foreign();
  const { next = foreign(), tasks = [] } = read(stored.payload) as unknown as Partial<Head>;
  return {
    values: Object.fromEntries(stored.values.map((value) => [value.channel, read(value)])),
    next,
    tasks,
    step: typeof stored.metadata.step === "number" ? stored.metadata.step : -2,
  };
}

interface Opening {
  readonly events: readonly ExecutorEvent[];
  readonly values: JsonObject;
  readonly step: number;
  /** Whether the function is to be called. */
  readonly call: boolean;
}

/** Applies what the request brings to the state, and decides whether the function is called. */
function open(job: Job, head: Head, uuid: () => string): Opening {
  const { command, graph_id: name } = job;
  const input = command ? null : (job.input ?? null);
  const breakpoint = job.interrupt_before === "*" || job.interrupt_before.includes(name);

  if (job.resumed && !head.next.includes(START)) {
    // The earlier attempt got past its input. Where it had stopped for good, only its last word is missing.
    const asked = head.tasks.some((task) => task.interrupts.length > 0);
    const over = head.next.length === 0 || asked || (breakpoint && input !== null);
    const { values, step } = head;
    return over
      ? { events: [{ type: "state", values, next: head.next, tasks: head.tasks }], values, step, call: false }
      : { events: show(job, "values", values), values, step, call: true };
  }

  const targets = (command?.goto ?? []).map((to) => (typeof to === "string" ? { node: to, input: null } : to));
  const stranger = targets.find((target) => target.node !== name && target.node !== END);
  if (stranger)
    throw new Error(`goto names ${JSON.stringify(stranger.node)}, but the only node is ${JSON.stringify(name)}`);
  const ends = targets.length > 0 && targets.every((target) => target.node === END);

  const changes: JsonObject[] = input === null ? [] : [asUpdate(input)];
  if (command) {
    changes.push(...commandUpdates(command.update ?? null));
    for (const target of targets)
      if (target.node === name && target.input !== null) changes.push(asUpdate(target.input));
  }
  const values = changes.reduce(
    // A copy, because the function is given the job's objects too.
    (state, change) => apply(state, copyJson(change, "input") as JsonObject, uuid, "human").values,
    head.values,
  );

  const goesOn = input === null && head.next.includes(name);
  const stops = !ends && breakpoint && !goesOn && command?.resume === undefined;
  const next = ends ? [] : [name];
  const events: ExecutorEvent[] = [];
  let { step } = head;
  if (input !== null && !job.resumed) {
    events.push({ type: "state", values: head.values, next: [START], tasks: [], step: { source: "input" } });
    step++;
  }
  events.push(...show(job, "values", values));
  if (changes.length > 0 || ends || stops) {
    const tasks = stops ? [task(uuid(), name)] : [];
    events.push({ type: "state", values, next, tasks, step: { source: "loop" } });
    step++;
  }
  if (stops) events.push(...showInterrupts(job, []));
  return { events, values, step, call: !ends && !stops };
}

function asUpdate(input: Json): JsonObject {
  return isObject(input) ? input : { input };
}

function commandUpdates(update: Json): JsonObject[] {
  if (update === null) return [];
  if (isObject(update)) return [update];
  const isPair = (pair: Json): pair is [string, Json] =>
    Array.isArray(pair) && pair.length === 2 && typeof pair[0] === "string";
  if (!Array.isArray(update) || !update.every(isPair)) {
    throw new Error("command.update must be an object or a list of [key, value]");
  }
  return update.map((pair) => Object.fromEntries([pair]));
}

/** The state after a change, and the change as it took effect. The state's own lists and objects are shared, never changed. */
function apply(
  state: JsonObject,
  change: JsonObject,
  uuid: () => string,
  fallback: "human" | "ai",
): { readonly values: JsonObject; readonly update: JsonObject } {
  if (!Object.hasOwn(change, "messages")) return { values: { ...state, ...change }, update: change };
  const messages = coerceMessages(change.messages as Json, uuid, fallback);
  const update = { ...change, messages };
  return { values: { ...state, ...update, messages: reduceMessages(messagesOf(state), messages) }, update };
}

function messagesOf(state: JsonObject): Json[] {
  return Array.isArray(state.messages) ? state.messages : [];
}

function functionJob(
  job: Job,
  head: Head,
  values: JsonObject,
  signal: AbortSignal,
): Omit<FunctionJob, "emit" | "interrupt"> {
  const state = copyJson(values, "state") as JsonObject;
  const { command } = job;
  const resume = command?.resume;
  // An answer may come as a map by interrupt id; the function has one question open, so it gets that one's answer.
  const asked = head.tasks
    .flatMap((pending) => pending.interrupts)
    .find(({ id }) => isObject(resume as Json) && Object.hasOwn(resume as JsonObject, id));
  return {
    ...job,
    command: command && asked ? { ...command, resume: (resume as JsonObject)[asked.id] as Json } : command,
    state,
    messages: messagesOf(state) as JsonObject[],
    signal,
  };
}

// ------------------------------------------------- one call of the function, as its readers see it

/** What `job.interrupt(value)` gives. */
class Question {
  readonly value: Json;
  constructor(value: Json) {
    this.value = value;
  }
}

/** Follows one call: turns what the function produces into events and keeps the state. */
class Call {
  private readonly job: Job;
  private readonly name: string;
  private readonly uuid: () => string;
  private readonly id: string;
  private values: JsonObject;
  private step: number;
  private metadata: JsonObject = {};
  private reply: { readonly id: string; text: string } | null = null;
  private readonly updates: JsonObject[] = [];
  // The last step is held back: only what follows tells whether the graph was finished with it.
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
    const events: ExecutorEvent[] = this.held ? [this.state([this.name], [])] : [];
    this.values = values;
    this.held = update;
    this.updates.push(update);
    events.push(...this.fullMessages(before, update, reply?.id), ...this.show("updates", { [this.name]: update }));
    events.push(...this.chain("on_chain_stream", { chunk: update }), ...this.show("values", values));
    this.count();
    return events;
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

function show(job: Job, mode: StreamMode, data: Json): ExecutorEvent[] {
  return job.modes.has(mode) ? [{ type: "stream", mode, data }] : [];
}

function showInterrupts(job: Job, interrupts: readonly Interrupt[]): ExecutorEvent[] {
  const data = { __interrupt__: [...interrupts] };
  return [...show(job, "values", data), ...show(job, "updates", data)];
}

function task(id: string, name: string, outcome: Partial<Task> = {}): Task {
  return { id, name, error: null, interrupts: [], checkpoint: null, state: null, result: null, ...outcome };
}

// ------------------------------------------------- running the function

type Produced =
  | { readonly kind: "custom"; readonly data: Json; readonly value?: undefined }
  | { readonly kind: "yielded" | "returned"; readonly value: unknown };

type Outcome = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly error: unknown };

/**
 * Calls the function and gives what it emits, yields and returns, in that order; the last item is what it returned, or the question
 * it asked. Nothing is asked of it before the last item was taken. Throws what it throws, or the signal's reason.
 */
async function* produce(
  agent: AgentFunction,
  job: Omit<FunctionJob, "emit" | "interrupt">,
  signal: AbortSignal,
): AsyncGenerator<Produced> {
  const emitted: Json[] = [];
  let ring = (): void => {};
  let iterator: AsyncIterator<unknown> | undefined;
  const onAbort = (): void => ring();
  signal.addEventListener("abort", onAbort);

  /** Waits for one step of the function, passing on what it emits meanwhile. Does not wait any longer once the signal aborts. */
  async function* wait(work: () => unknown): AsyncGenerator<Produced, unknown> {
    let outcome: Outcome | undefined;
    const settle = (settled: Outcome): void => {
      outcome = settled;
      ring();
    };
    (async () => work())().then(
      (value) => settle({ ok: true, value }),
      (error: unknown) => settle({ ok: false, error }),
    );
    while (!outcome || emitted.length > 0) {
      signal.throwIfAborted();
      if (emitted.length > 0) yield { kind: "custom", data: emitted.shift() as Json };
      else
        await new Promise<void>((resolve) => {
          ring = resolve;
        });
    }
    signal.throwIfAborted();
    if (!outcome.ok) throw outcome.error;
    return outcome.value;
  }

  try {
    const result = yield* wait(() =>
      agent({
        ...job,
        emit(data) {
          emitted.push(copyJson(data, "emitted data"));
          ring();
        },
        interrupt: (value) => new Question(copyJson(value, "interrupt value")),
      }),
    );
    const stream = streamOf(result);
    if (!stream) {
      yield { kind: "returned", value: result };
      return;
    }
    const items = stream[Symbol.asyncIterator]();
    iterator = items;
    while (true) {
      const { done, value } = (yield* wait(() => items.next())) as IteratorResult<unknown>;
      if (done) iterator = undefined;
      else if (value instanceof Question) {
        iterator = undefined;
        yield* wait(() => items.return?.());
      }
      if (done || value instanceof Question) {
        yield { kind: "returned", value };
        return;
      }
      yield { kind: "yielded", value };
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
    // Not awaited: a generator that waits for something cannot return before that.
    if (iterator) (async (open) => open.return?.())(iterator).catch(() => {});
  }
}

function streamOf(result: unknown): AsyncIterable<unknown> | null {
  if (isAsyncIterable(result)) return result;
  const text =
    typeof result === "object" && result !== null ? (result as { textStream?: unknown }).textStream : undefined;
  return isAsyncIterable(text) ? text : null;
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as Partial<AsyncIterable<unknown>>)[Symbol.asyncIterator] === "function"
  );
}

// ------------------------------------------------- JSON from outside

/**
 * A deep copy of what JSON can hold: objects with `toJSON` (dates, LangChain messages) as that gives them, keys that are undefined
 * left out. Throws for everything else, and names the place.
 */
function copyJson(value: unknown, path: string, above: readonly object[] = []): Json {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (typeof value !== "object") throw new TypeError(`Not JSON: ${path} is ${describe(value)}`);
  if (above.includes(value)) throw new TypeError(`Not JSON: ${path} contains itself`);
  const inside = [...above, value];
  if (Array.isArray(value)) return Array.from(value, (item, at) => copyJson(item, `${path}[${at}]`, inside));
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") return copyJson(toJSON.call(value), path, inside);
  if (!isPlain(value)) throw new TypeError(`Not JSON: ${path} is ${describe(value)}`);
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== undefined)
      .map(([key, item]) => [key, copyJson(item, `${path}.${key}`, inside)]),
  );
}

/** An object made by a literal, in any realm, or one without a prototype. */
function isPlain(value: unknown): value is object {
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
