/** Executes a job: pulls the events of its executor, and handles them at the pace of the storage. */
import { pause, waitForNextTick, withTimeout } from "../environment.ts";
import type { ExecutorEvent } from "../executor/contract.ts";
import { CoroutineIterator } from "../executor/coroutine.ts";
import type { AttemptParts } from "./attempt-parts.ts";

/** The maximum number of events of an attempt without a tick of the event loop. */
const MAX_EVENTS_PER_TICK = 256;
/**
 * The pause before an interrupt of a subgraph is emitted without its parent's, in milliseconds, and the maximum number of pauses
 * while a save is running.
 */
const INTERRUPT_PAUSE_MS = 50;
const MAX_INTERRUPT_PAUSES = 20;

type Events = AsyncIterator<ExecutorEvent, void>;
type PullResult = IteratorResult<ExecutorEvent, void>;

/** The result of an abandoned executor. */
const ABANDONED: PullResult = { done: true, value: undefined };

export class Execution {
  readonly #parts: AttemptParts;
  readonly #abort: AbortController;
  /** The time that the executor may ignore its signal. */
  readonly #abandon_ms: number;
  #isAbandoned = false;
  /** Ends the wait for the next event. */
  #abandonWait: (() => void) | undefined;
  #isResumeScheduled = false;

  constructor(parts: AttemptParts, abort: AbortController, abandon_ms: number) {
    this.#parts = parts;
    this.#abort = abort;
    this.#abandon_ms = abandon_ms;
  }

  /**
   * Executes the job and handles its events; waits while too much is unsaved. Throws the error of the executor. An error of handling an
   * event first stops the executor. Returns early once the attempt is abandoned.
   */
  async run(): Promise<void> {
    const { options, slot, job, checkpoints, journal, output, mapper } = this.#parts;
    const { executor, environment } = options;
    const events = executor.execute(job, this.#abort.signal, environment)[Symbol.asyncIterator]();
    let count = 0;
    while (true) {
      const pulled = this.#nextExecutorEvent(events);
      this.#scheduleResume();
      const next = pulled instanceof Promise ? await pulled : pulled;
      if (next.done) return;
      try {
        const handling = mapper.handle(next.value);
        if (handling) await handling;
        journal?.onEmitted(next.value);
      } catch (error) {
        await this.#stopExecutor(events, error);
        throw error;
      }
      if (checkpoints.isFull() || output.isFull()) await this.#waitForSaves();
      // Bytes are sent only when the event loop ticks.
      if (++count % MAX_EVENTS_PER_TICK === 0 || slot.isLoopStalled()) await waitForNextTick(environment);
    }
  }

  /**
   * Stops waiting for an executor that has ignored its signal for too long: `run` returns, and `return` of the executor's
   * iterator is called, which is not awaited.
   */
  abandon(): void {
    this.#isAbandoned = true;
    this.#abandonWait?.();
  }

  /**
   * Pulls the next event, without a promise if the coroutine has one ready. Resolves as done once the attempt is abandoned, and
   * then calls the iterator's `return`, whose errors are ignored.
   */
  #nextExecutorEvent(events: Events): PullResult | Promise<PullResult> {
    const returnEvents = (): void => void (async () => events.return?.())().catch(() => {});
    if (this.#isAbandoned) {
      returnEvents();
      return ABANDONED;
    }
    const isCoroutine = events instanceof CoroutineIterator;
    const pulled = isCoroutine ? events.pull() : events.next();
    if (isCoroutine && !(pulled instanceof Promise)) return pulled;
    return new Promise((resolve, reject) => {
      this.#abandonWait = () => {
        resolve(ABANDONED);
        returnEvents();
      };
      (pulled as Promise<PullResult>).then(resolve, reject);
    });
  }

  /**
   * Resolves after one save of everything if the checkpoints are full, and then, if the output is still full, after one tick and
   * one save of what is due.
   */
  async #waitForSaves(): Promise<void> {
    const { options, checkpoints, output, progress } = this.#parts;
    if (checkpoints.isFull()) await progress.save("all");
    if (!output.isFull()) return;
    // A graph may put the state of a frame later in the same tick of the event loop. They are stored together.
    await waitForNextTick(options.environment);
    await progress.save("due");
  }

  /**
   * Starts a wait after which paused output, the interrupt of a subgraph, is emitted. Does nothing without paused output or while
   * a wait is running. The interrupt of the parent follows, unless another branch is running.
   */
  #scheduleResume(): void {
    if (!this.#parts.output.hasPausedOutput() || this.#isResumeScheduled) return;
    this.#isResumeScheduled = true;
    void this.#resumeLater();
  }

  /**
   * Resumes paused output once everything before it is saved, at the latest after `MAX_INTERRUPT_PAUSES` pauses; never after a
   * stop.
   */
  async #resumeLater(): Promise<void> {
    const { options, state, output, progress } = this.#parts;
    let waits = 0;
    do await pause(options.environment, INTERRUPT_PAUSE_MS);
    while (state.isAtWork && progress.hasUnsavedState() && ++waits < MAX_INTERRUPT_PAUSES);
    this.#isResumeScheduled = false;
    if (state.isAtWork && !state.isStopped) output.resumeOutput();
  }

  /**
   * Aborts the signal with the error of an invalid event, and calls the iterator's `return`. Resolves when that has settled, or
   * after `abandon_ms`. Never rejects.
   */
  async #stopExecutor(events: Events, error: unknown): Promise<void> {
    this.#abort.abort(error);
    const returning = (async (): Promise<void> => void (await events.return?.()))().catch(() => {});
    await withTimeout(this.#parts.options.environment, this.#abandon_ms, returning, undefined);
  }
}
