/** Coroutines of executor events. An event that is ready needs no promise, and few events of a run are not ready. */
import type { ExecutorEvent } from "./contract.ts";

/** A generator of events and promises. It resumes with the value of each promise. */
export type EventCoroutine<Result = void> = Generator<ExecutorEvent | Promise<unknown>, Result, unknown>;

type EmittedEvents = ExecutorEvent | readonly ExecutorEvent[];
type PullResult = IteratorResult<ExecutorEvent, void>;

/** Handles the events of a coroutine before they reach the engine. */
export interface EventStage {
  /** Returns the events to emit for one event of the coroutine. */
  handle(event: ExecutorEvent): EmittedEvents | Promise<EmittedEvents>;
  /** Called once the engine has handled all emitted events. */
  onEmitted(): void;
  /** Called when the coroutine has ended. */
  close(): Promise<void> | undefined;
}

const NO_EVENTS: readonly ExecutorEvent[] = [];
const DONE: PullResult = { done: true, value: undefined };

/** Iterates over the events of a coroutine after their stage. Call it again only after it has returned. */
export class CoroutineIterator implements AsyncIterableIterator<ExecutorEvent, void> {
  readonly #coroutine: EventCoroutine;
  readonly #stage: EventStage;
  #ready = NO_EVENTS;
  #index = 0;
  #pending: Promise<unknown> | undefined;

  constructor(coroutine: EventCoroutine, stage: EventStage) {
    this.#coroutine = coroutine;
    this.#stage = stage;
  }

  /**
   * Returns the next event, or done. The result is a promise only if it must be awaited. Resuming the coroutine says that its
   * last events were handled. Throws the coroutine's error after the stage was closed.
   */
  pull(): PullResult | Promise<PullResult> {
    const value = this.#ready[this.#index++];
    if (value) return { done: false, value };
    this.#stage.onEmitted();
    return this.#resume("next");
  }

  async next(): Promise<PullResult> {
    return this.pull();
  }

  /** Ends the coroutine. Its clean-up begins once the pending promise has settled. */
  async return(): Promise<PullResult> {
    await this.#pending?.catch(() => {});
    this.#ready = NO_EVENTS;
    return this.#resume("return");
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /**
   * Resumes the coroutine until its next event or its end. Awaits promises that it yields, and throws their errors into it. If
   * the stage fails, closes the coroutine.
   */
  #resume(method: "next" | "throw" | "return", resumeValue?: unknown): PullResult | Promise<PullResult> {
    let step: IteratorResult<ExecutorEvent | Promise<unknown>, void>;
    try {
      step = this.#coroutine[method](resumeValue as never);
    } catch (error) {
      return this.#end(error, true);
    }
    if (step.done) return this.#end(undefined, false);
    if (step.value instanceof Promise)
      return this.#track(step.value.then(this.#resumeWithValue, this.#resumeWithError));
    try {
      const emitted = this.#stage.handle(step.value);
      return emitted instanceof Promise
        ? this.#track(emitted.then(this.#emit, this.#closeAfterError))
        : this.#emit(emitted);
    } catch (error) {
      return this.#track(this.#closeAfterError(error));
    }
  }

  /** Keeps the result as pending, so that `return` waits for it. Returns the same promise. */
  #track(result: Promise<PullResult>): Promise<PullResult> {
    this.#pending = result;
    return result;
  }

  readonly #resumeWithValue = (value: unknown): PullResult | Promise<PullResult> => this.#resume("next", value);
  readonly #resumeWithError = (error: unknown): PullResult | Promise<PullResult> => this.#resume("throw", error);

  readonly #emit = (emitted: EmittedEvents): PullResult | Promise<PullResult> => {
    if (!Array.isArray(emitted)) return { done: false, value: emitted as ExecutorEvent };
    this.#ready = emitted;
    this.#index = 0;
    return this.pull();
  };

  /** Ends the coroutine after an error of the stage, then rethrows the error. */
  readonly #closeAfterError = async (error: unknown): Promise<PullResult> => {
    await this.#resume("return");
    throw error;
  };

  /** Closes the stage, and then returns done or throws `error`. */
  #end(error: unknown, failed: boolean): PullResult | Promise<PullResult> {
    this.#ready = NO_EVENTS;
    const end = (): PullResult => {
      if (failed) throw error;
      return DONE;
    };
    const closing = this.#stage.close();
    return closing ? this.#track(closing.then(end)) : end();
  }
}

/** Converts an iterable to a coroutine of its events. A coroutine that is closed early calls the `return` of the iterator. */
export function* toCoroutine(iterable: AsyncIterable<ExecutorEvent>): EventCoroutine {
  const iterator = iterable[Symbol.asyncIterator]();
  let isOpen = false;
  try {
    for (;;) {
      isOpen = false;
      const next = (yield Promise.resolve(iterator.next())) as IteratorResult<ExecutorEvent>;
      if (next.done) return;
      isOpen = true;
      yield next.value;
    }
  } finally {
    if (isOpen && iterator.return) yield Promise.resolve(iterator.return());
  }
}
