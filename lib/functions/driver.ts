/** Calls a function and yields what it yields, emits and returns. */
import type { ModelUsage } from "../executor/contract.ts";
import type { EventCoroutine } from "../executor/coroutine.ts";
import type { Json } from "../json.ts";
import { copyJson } from "./copy-json.ts";
import type { AgentFunction, FunctionJob, Interrupted } from "./function-job.ts";
import type { FunctionSpans } from "./function-spans.ts";
import type { InterruptGuard } from "./interrupt-guard.ts";
import { InterruptSignal } from "./invocation.ts";
import type { JobSchemas } from "./job-schemas.ts";
import { createSpanMethod } from "./span-method.ts";
import { findStream } from "./streams.ts";

export type FunctionEvent =
  | {
      readonly kind: "custom";
      readonly data: Json;
      /** The validation by an asynchronous schema. Rejects with a TypeError. */
      readonly checked?: Promise<void> | undefined;
      readonly value?: undefined;
    }
  | { readonly kind: "usage"; readonly usage: ModelUsage; readonly in_step: boolean; readonly value?: undefined }
  | { readonly kind: "waiting"; readonly value?: undefined }
  | { readonly kind: "effect"; readonly run: () => EventCoroutine; readonly value?: undefined }
  | { readonly kind: "yielded" | "returned"; readonly value: unknown };

/** The queue of what a function emits while it runs, and of the effects of its durable operations. */
export class FunctionEventQueue {
  readonly events: FunctionEvent[] = [];
  wake = (): void => {};
  /** True once the run is suspended. The engine no longer waits for the function. */
  isSuspended = false;

  /** Returns true if the caller runs inside a step. Replaced once the step context is loaded. */
  isInStep = (): boolean => false;

  /** Adds usage to the span of the caller, unless an earlier attempt has reported it. Replaced if a trace is recorded. */
  addToSpan = (_usage: ModelUsage, _in_step: boolean): void => {};

  readonly reportUsage = (usage: ModelUsage): void => {
    this.addToSpan(usage, this.isInStep());
    this.reportCountedUsage(usage);
  };
  /** Reports usage that a span has already. */
  readonly reportCountedUsage = (usage: ModelUsage): void =>
    this.push({ kind: "usage", usage: { ...usage }, in_step: this.isInStep() });
  /** Reports usage of a model stream that a step has returned. */
  readonly reportStepUsage = (usage: ModelUsage): void =>
    this.push({ kind: "usage", usage: { ...usage }, in_step: true });

  /** Queues an event and wakes the driver. */
  push(event: FunctionEvent): void {
    this.events.push(event);
    this.wake();
  }

  /**
   * Resolves at the next push or call of `wake`, even if events are queued already. Replaces `wake`, so that the promise of an
   * earlier call never resolves.
   */
  wait(): Promise<void> {
    return new Promise((resolve) => {
      this.wake = resolve;
    });
  }
}

const WAITING: FunctionEvent = { kind: "waiting" };

/** Yields events of the function, and promises to await before the next one. */
type FunctionCoroutine<Result = void> = Generator<FunctionEvent | Promise<void>, Result, void>;

const isPromise = (value: unknown): value is PromiseLike<unknown> =>
  value !== null &&
  (typeof value === "object" || typeof value === "function") &&
  typeof (value as { readonly then?: unknown }).then === "function";

/** The job without the methods that the driver adds. */
type DriverJob = Omit<FunctionJob, "emit" | "interrupt" | "spend" | "span" | "traceparent">;

/** The options of one call of a function. The driver adds members to the job. */
export interface FunctionDriverOptions {
  readonly agent: AgentFunction;
  readonly job: DriverJob;
  readonly signal: AbortSignal;
  /** Calls back in the next tick of the event loop if held-back frames must be emitted then; else does nothing. */
  readonly onNextTick: (then: () => void) => void;
  readonly eventQueue: FunctionEventQueue;
  /** The schemas of the arguments of `interrupt` and `emit`. */
  readonly schemas: Pick<JobSchemas, "checkArgument"> | null;
  readonly interruptGuard: InterruptGuard;
  /** Null if no trace is recorded. */
  readonly spans?: FunctionSpans | null;
}

export class FunctionDriver {
  readonly #agent: AgentFunction;
  readonly #job: DriverJob;
  readonly #signal: AbortSignal;
  readonly #onNextTick: (then: () => void) => void;
  readonly #eventQueue: FunctionEventQueue;
  readonly #schemas: FunctionDriverOptions["schemas"];
  readonly #interruptGuard: InterruptGuard;
  readonly #spans: FunctionSpans | null;
  #iterator: AsyncIterator<unknown> | undefined;

  constructor({
    agent,
    job,
    signal,
    onNextTick,
    eventQueue,
    schemas,
    interruptGuard,
    spans = null,
  }: FunctionDriverOptions) {
    this.#spans = spans;
    this.#schemas = schemas;
    this.#interruptGuard = interruptGuard;
    this.#agent = agent;
    this.#job = job;
    this.#signal = signal;
    this.#onNextTick = onNextTick;
    this.#eventQueue = eventQueue;
    signal.addEventListener("abort", this);
  }

  handleEvent(): void {
    this.#eventQueue.wake();
  }

  /**
   * Calls the function, and yields what it emits and promises to await. Items of a returned stream are `yielded` events. The last
   * event, `returned`, has the return value or the interrupt, which ends the stream. `waiting` means that the function still runs
   * one tick of the event loop after it was resumed. Throws what the function throws, `UnusedInterrupt` or, once it has stopped,
   * the reason of the signal.
   */
  *run(): FunctionCoroutine {
    const eventQueue = this.#eventQueue;
    const guard = this.#interruptGuard;
    const result = yield* this.#runUntilSettled(() => this.#agent(this.#createJob()));
    guard.requireUsed(result);
    const stream = findStream(result, eventQueue.reportUsage, () => this.#spans?.createPartRecorder());
    if (!stream) {
      yield { kind: "returned", value: result };
      return;
    }
    const iterator = stream[Symbol.asyncIterator]();
    this.#iterator = iterator;
    const next = (): unknown => iterator.next();
    while (true) {
      const { done, value } = (yield* this.#runUntilSettled(next)) as IteratorResult<unknown>;
      guard.requireUsed(value);
      if (done || value instanceof InterruptSignal) {
        this.#iterator = undefined;
        if (!done) yield* this.#runUntilSettled(() => iterator.return?.());
        yield { kind: "returned", value };
        return;
      }
      yield { kind: "yielded", value };
    }
  }

  /**
   * Adds `emit`, `spend`, `span`, `traceparent` and `interrupt` to the driver's job and returns that object. The methods throw `UnusedInterrupt` while an
   * interrupt is unused. `emit` and `spend` queue an event; `interrupt` queues none and returns the value to yield. `emit` and
   * `interrupt` copy their argument, and throw a TypeError if it is not JSON or does not fit its schema.
   */
  #createJob(): FunctionJob {
    const eventQueue = this.#eventQueue;
    const guard = this.#interruptGuard;
    const spans = this.#spans;
    const job = Object.assign(this.#job, {
      emit: (data: unknown): void => {
        guard.requireNone();
        const copy = copyJson(data, "emitted data");
        const checked = this.#schemas?.checkArgument("custom", copy);
        eventQueue.push({ kind: "custom", data: copy, ...(checked ? { checked } : {}) });
      },
      spend: (usage: ModelUsage): void => {
        guard.requireNone();
        eventQueue.reportUsage(usage);
      },
      span: createSpanMethod(
        { spans, signal: this.#signal, reportUsage: eventQueue.reportCountedUsage },
        guard.requireNone,
      ),
      interrupt: (value: unknown): Interrupted => {
        guard.requireNone();
        const copy = copyJson(value, "interrupt value");
        const signal = new InterruptSignal(copy, this.#schemas?.checkArgument("interrupt", copy));
        guard.open(signal);
        return signal;
      },
    });
    spans?.addTraceParent(job);
    return job as FunctionJob;
  }

  /**
   * Calls `work` and yields queued events until it has settled and the queue is empty; `waiting` if it has not settled in the
   * next tick. Returns or throws its result. Throws the reason of an abort: without calling `work` if the signal had aborted
   * before, else after `work` has settled, with the remaining events left in the queue.
   */
  *#runUntilSettled(work: () => unknown): FunctionCoroutine<unknown> {
    const signal = this.#signal;
    const eventQueue = this.#eventQueue;
    const { events } = eventQueue;
    signal.throwIfAborted();
    const spans = this.#spans;
    let result: unknown;
    let [isDone, hasFailed, hasTicked] = [true, false, false];
    /** Ends the function with this error and wakes its driver. */
    const fail = (error: unknown): void => {
      [result, isDone, hasFailed] = [error, true, true];
      eventQueue.wake();
    };
    try {
      result = spans ? spans.run(work) : work();
      if (isPromise(result)) {
        isDone = false;
        Promise.resolve(result).then((value) => {
          [result, isDone] = [value, true];
          eventQueue.wake();
        }, fail);
      }
    } catch (error) {
      fail(error);
    }
    if (!isDone)
      this.#onNextTick(() => {
        hasTicked = true;
        eventQueue.wake();
      });
    while ((!isDone || events.length > 0) && !signal.aborted) {
      const event = events.shift();
      if (event) yield event;
      else if (hasTicked) {
        hasTicked = false;
        yield WAITING;
      } else yield eventQueue.wait();
    }
    // An aborted function may still be running: the thread must not continue before it has stopped.
    while (!isDone) yield eventQueue.wait();
    signal.throwIfAborted();
    if (hasFailed) throw result;
    return result;
  }

  /**
   * Stops listening to the signal, and calls `return` of the open iterator. Returns a promise that resolves when it has ended,
   * also if it throws; undefined without an open iterator or if the run is suspended. Call it after `run` has ended.
   */
  close(): Promise<unknown> | undefined {
    this.#signal.removeEventListener("abort", this);
    const iterator = this.#iterator;
    return iterator && !this.#eventQueue.isSuspended ? (async () => iterator.return?.())().catch(() => {}) : undefined;
  }
}
