/** Calls a function and passes on what it yields, emits and returns. */
import type { Spending } from "../executor/contract.ts";
import type { Coroutine } from "../executor/coroutine.ts";
import type { Json } from "../json.ts";
import { type AgentFunction, type FunctionJob, RaisedInterrupt } from "./call.ts";
import { copyJson } from "./plain.ts";
import { streamOf } from "./streams.ts";

export type FunctionEvent =
  | { readonly kind: "custom"; readonly data: Json; readonly value?: undefined }
  | { readonly kind: "usage"; readonly usage: Spending; readonly in_step: boolean; readonly value?: undefined }
  | { readonly kind: "waiting"; readonly value?: undefined }
  | { readonly kind: "effect"; readonly run: () => Coroutine; readonly value?: undefined }
  | { readonly kind: "yielded" | "returned"; readonly value: unknown };

/** What a function emits while it executes, and what its steps do. */
export class Emitted {
  readonly list: FunctionEvent[] = [];
  wake = (): void => {};
  /** The run is suspended: the engine no longer waits for the function. */
  left = false;

  /** Whether the code that calls this is in a step. Set once steps can be told from other code. */
  isInStep = (): boolean => false;

  readonly spend = (usage: Spending): void =>
    this.push({ kind: "usage", usage: { ...usage }, in_step: this.isInStep() });
  /** For what a step has returned. */
  readonly spendInStep = (usage: Spending): void => this.push({ kind: "usage", usage: { ...usage }, in_step: true });

  push(event: FunctionEvent): void {
    this.list.push(event);
    this.wake();
  }

  /** Resolves when something was pushed, or something else has happened. */
  wait(): Promise<void> {
    return new Promise((resolve) => {
      this.wake = resolve;
    });
  }
}

const WAITING: FunctionEvent = { kind: "waiting" };

/** What a function does, and promises that something more happens. */
type Driven<Result = void> = Generator<FunctionEvent | Promise<void>, Result, void>;

const isPromise = (value: unknown): value is PromiseLike<unknown> =>
  value !== null &&
  (typeof value === "object" || typeof value === "function") &&
  typeof (value as { readonly then?: unknown }).then === "function";

/** A call of a function, which gets the given job with more members. */
export interface DriverOptions {
  readonly agent: AgentFunction;
  readonly job: Omit<FunctionJob, "emit" | "interrupt" | "spend">;
  readonly signal: AbortSignal;
  /** Calls back in the next tick of the event loop, if the function must not wait longer for what it has shown. */
  readonly tick: (then: () => void) => void;
  readonly emitted: Emitted;
}

export class Driver {
  readonly #agent: AgentFunction;
  readonly #job: Omit<FunctionJob, "emit" | "interrupt" | "spend">;
  readonly #signal: AbortSignal;
  readonly #tick: (then: () => void) => void;
  readonly #emitted: Emitted;
  #iterator: AsyncIterator<unknown> | undefined;
  /** The function has called `interrupt`. */
  interrupts = false;

  constructor({ agent, job, signal, tick, emitted }: DriverOptions) {
    this.#agent = agent;
    this.#job = job;
    this.#signal = signal;
    this.#tick = tick;
    this.#emitted = emitted;
    signal.addEventListener("abort", this);
  }

  handleEvent(): void {
    this.#emitted.wake();
  }

  /**
   * Calls the function. The last item is its return value or its interrupt; `waiting` means that it still executes one tick of
   * the event loop after it was asked for more. Throws what the function throws or, once it has stopped, the signal's reason.
   */
  *items(): Driven {
    const emitted = this.#emitted;
    const result = yield* this.#step(() =>
      this.#agent(
        Object.assign(this.#job, {
          emit(data: unknown) {
            emitted.push({ kind: "custom", data: copyJson(data, "emitted data") });
          },
          spend: emitted.spend,
          interrupt: (value: unknown): object => {
            this.interrupts = true;
            return new RaisedInterrupt(copyJson(value, "interrupt value"));
          },
        }),
      ),
    );
    const stream = streamOf(result, emitted.spend);
    if (!stream) {
      yield { kind: "returned", value: result };
      return;
    }
    const items = stream[Symbol.asyncIterator]();
    this.#iterator = items;
    const next = (): unknown => items.next();
    while (true) {
      const { done, value } = (yield* this.#step(next)) as IteratorResult<unknown>;
      if (done || value instanceof RaisedInterrupt) {
        this.#iterator = undefined;
        if (!done) yield* this.#step(() => items.return?.());
        yield { kind: "returned", value };
        return;
      }
      yield { kind: "yielded", value };
    }
  }

  /** One step of the function: yields what it emits meanwhile, then returns or throws what it does. */
  *#step(work: () => unknown): Driven<unknown> {
    const signal = this.#signal;
    const emitted = this.#emitted;
    const { list } = emitted;
    signal.throwIfAborted();
    let result: unknown;
    let [isDone, hasFailed, ticked] = [true, false, false];
    const fail = (error: unknown): void => {
      [result, isDone, hasFailed] = [error, true, true];
      emitted.wake();
    };
    try {
      result = work();
      if (isPromise(result)) {
        isDone = false;
        Promise.resolve(result).then((value) => {
          [result, isDone] = [value, true];
          emitted.wake();
        }, fail);
      }
    } catch (error) {
      fail(error);
    }
    if (!isDone)
      this.#tick(() => {
        ticked = true;
        emitted.wake();
      });
    while ((!isDone || list.length > 0) && !signal.aborted) {
      const event = list.shift();
      if (event) yield event;
      else if (ticked) {
        ticked = false;
        yield WAITING;
      } else yield emitted.wait();
    }
    // An aborted function may still be at work: the thread must not go on before it has stopped.
    while (!isDone) yield emitted.wait();
    signal.throwIfAborted();
    if (hasFailed) throw result;
    return result;
  }

  /** Call it once the function is not driven any more. Its cleanup belongs to the run. */
  close(): Promise<unknown> | undefined {
    this.#signal.removeEventListener("abort", this);
    const open = this.#iterator;
    return open && !this.#emitted.left ? (async () => open.return?.())().catch(() => {}) : undefined;
  }
}
