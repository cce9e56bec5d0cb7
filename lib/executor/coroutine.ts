/** Executors as coroutines: an event that is ready takes no promise, and a run has few that are not. */
import type { ExecutorEvent } from "./contract.ts";

/** Yields events, and promises: it goes on with the value of each. */
export type Coroutine<Result = void> = Generator<ExecutorEvent | Promise<unknown>, Result, unknown>;

type Shown = ExecutorEvent | readonly ExecutorEvent[];
type Pulled = IteratorResult<ExecutorEvent, void>;

/** What becomes of the events of a coroutine. */
export interface EventStage {
  /** What is shown of an event. */
  take(event: ExecutorEvent): Shown | Promise<Shown>;
  /** The engine has taken all that was shown. */
  shown(): void;
  /** The coroutine has ended. */
  close(): Promise<void> | undefined;
}

const NONE: readonly ExecutorEvent[] = [];
const DONE: Pulled = { done: true, value: undefined };

/** The events of a coroutine after their stage. Call it again only after its answer. */
export class CoroutineEvents implements AsyncIterableIterator<ExecutorEvent, void> {
  readonly #coroutine: Coroutine;
  readonly #stage: EventStage;
  #ready = NONE;
  #place = 0;
  #underWay: Promise<unknown> | undefined;

  constructor(coroutine: Coroutine, stage: EventStage) {
    this.#coroutine = coroutine;
    this.#stage = stage;
  }

  /** The next event; a promise only where it must be awaited. */
  pull(): Pulled | Promise<Pulled> {
    const value = this.#ready[this.#place++];
    if (value) return { done: false, value };
    this.#stage.shown();
    return this.#resume("next");
  }

  async next(): Promise<Pulled> {
    return this.pull();
  }

  /** Its clean-up begins once what is under way has settled. */
  async return(): Promise<Pulled> {
    await this.#underWay?.catch(() => {});
    this.#ready = NONE;
    return this.#resume("return");
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #resume(how: "next" | "throw" | "return", sent?: unknown): Pulled | Promise<Pulled> {
    let step: IteratorResult<ExecutorEvent | Promise<unknown>, void>;
    try {
      step = this.#coroutine[how](sent as never);
    } catch (error) {
      return this.#end(error, true);
    }
    if (step.done) return this.#end(undefined, false);
    if (step.value instanceof Promise) return this.#after(step.value.then(this.#go, this.#fail));
    try {
      const shown = this.#stage.take(step.value);
      return shown instanceof Promise ? this.#after(shown.then(this.#show, this.#leave)) : this.#show(shown);
    } catch (error) {
      return this.#after(this.#leave(error));
    }
  }

  #after(result: Promise<Pulled>): Promise<Pulled> {
    this.#underWay = result;
    return result;
  }

  readonly #go = (value: unknown): Pulled | Promise<Pulled> => this.#resume("next", value);
  readonly #fail = (error: unknown): Pulled | Promise<Pulled> => this.#resume("throw", error);

  readonly #show = (shown: Shown): Pulled | Promise<Pulled> => {
    if (!Array.isArray(shown)) return { done: false, value: shown as ExecutorEvent };
    this.#ready = shown;
    this.#place = 0;
    return this.pull();
  };

  /** The stage has failed: the coroutine cleans up first. */
  readonly #leave = async (error: unknown): Promise<Pulled> => {
    await this.#resume("return");
    throw error;
  };

  #end(error: unknown, failed: boolean): Pulled | Promise<Pulled> {
    this.#ready = NONE;
    const end = (): Pulled => {
      if (failed) throw error;
      return DONE;
    };
    const closing = this.#stage.close();
    return closing ? this.#after(closing.then(end)) : end();
  }
}

/** The events of an iterable, as a coroutine. */
export function* eventsOf(iterable: AsyncIterable<ExecutorEvent>): Coroutine {
  const iterator = iterable[Symbol.asyncIterator]();
  let open = false;
  try {
    for (;;) {
      open = false;
      const next = (yield Promise.resolve(iterator.next())) as IteratorResult<ExecutorEvent>;
      if (next.done) return;
      open = true;
      yield next.value;
    }
  } finally {
    if (open && iterator.return) yield Promise.resolve(iterator.return());
  }
}
