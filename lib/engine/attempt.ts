/**
 * Executes one attempt of a run, from its claim to its end. The attempt owns the state; its parts call it through
 * `AttemptControl`.
 */
import { pause, waitForNextTick, withTimeout } from "../environment.ts";
import type { GraphInfo } from "../executor/contract.ts";
import { WriteBarrier } from "../executor/write-barrier.ts";
import type { ClaimedRun } from "../storage/mod.ts";
import type { RunLog } from "../streams/hub.ts";
import { endDeletedRunLog } from "../streams/run-subscription.ts";
import type { Attempt, AttemptOptions, WorkerSlot } from "./attempt-options.ts";
import { type AttemptControl, type AttemptParts, createAttemptParts } from "./attempt-parts.ts";
import { AttemptState, type StopReason } from "./attempt-state.ts";
import { Execution } from "./execution.ts";
import { RETRY_MS } from "./leases.ts";
import { finishRun, type PublishEnd, requeueRun, suspendRun } from "./run-end.ts";

/**
 * The time in milliseconds that an executor may ignore its signal, unless its graph sets one. Shorter where no other process can
 * execute the thread.
 */
const ABANDON_MS = 5_000;
const ABANDON_SINGLE_PROCESS_MS = 1_000;
/** The maximum delay of a timer on all runtimes. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The maximum time that a slow storage delays a read. The read then gets what is stored. */
const MAX_FLUSH_MS = 2_000;
/** The number of event loop ticks within which LangGraph puts a checkpoint after it has emitted a frame. */
const FLUSH_TICKS = 2;
/**
 * The maximum number of saves in one flush, because a graph may put another checkpoint after each. With durability `sync`, an
 * interrupt in a subgraph takes a save for the subgraph and one for its parent.
 */
const MAX_FLUSH_SAVES = 3;

/** Starts an attempt in the next microtask, so that a stop which arrives first has no side effects. */
export const startAttempt = (
  options: AttemptOptions,
  slot: WorkerSlot,
  graph: GraphInfo,
  claimed: ClaimedRun,
): Attempt => new RunAttempt(options, slot, graph, claimed);

class RunAttempt implements Attempt, AttemptControl {
  readonly run_id: string;
  readonly thread_id: string;
  readonly runLog: RunLog;
  readonly done: Promise<void>;
  readonly #state = new AttemptState();
  readonly #abort = new AbortController();
  readonly #barrier = new WriteBarrier();
  /** The newest barrier when the attempt was stopped. What was put before it is still stored, and its output emitted. */
  #stopPosition = 0;
  /** True if the run waits for a time or an event. A run that was stopped after its function had suspended ends instead. */
  #isSuspended = false;
  readonly #parts: AttemptParts;
  readonly #execution: Execution;
  readonly #abandon_ms: number;

  constructor(options: AttemptOptions, slot: WorkerSlot, graph: GraphInfo, claimed: ClaimedRun) {
    const { single_process } = options.storage;
    this.run_id = claimed.run.run_id;
    this.thread_id = claimed.run.thread_id;
    this.runLog = options.hub.getLog(this.run_id);
    this.runLog.isLive = true;
    this.#abandon_ms = graph.abandon_ms ?? (single_process ? ABANDON_SINGLE_PROCESS_MS : ABANDON_MS);
    const basis = { options, slot, graph, claimed, runLog: this.runLog, state: this.#state };
    this.#parts = createAttemptParts(basis, this.#barrier, this);
    this.#execution = new Execution(this.#parts, this.#abort, this.#abandon_ms);
    this.done = this.#run();
  }

  /**
   * Executes the job and stores how the attempt ended: the end of the run, its return to the queue, or its suspension. Then stops the
   * heartbeat, publishes the end and frees the slot. Never rejects: if the storage fails, the run keeps its lease until another claim
   * retries it.
   */
  async #run(): Promise<void> {
    await undefined;
    let publishEnd: PublishEnd | null = null;
    try {
      const failure = await this.#execute();
      await this.#settle();
      if (this.#state.mayWrite) publishEnd = await this.#end(failure);
    } catch {
      // The storage failed, and `retry` has logged that. The run is retried after its lease has expired.
    }
    this.#parts.heartbeat.stop();
    this.#parts.spans?.close();
    this.#publish(publishEnd);
    // Nothing is awaited once a result is published, because its reader may create the next run at once, which takes this slot.
    if (this.#isRunContinued()) await this.#releaseRun();
    this.#state.enter("ended");
    this.#parts.slot.release();
  }

  /**
   * Emits the `metadata` frame and, unless the attempt is stopped, executes the job. Resolves with the error of the executor, or
   * undefined if it returned. Never rejects.
   */
  async #execute(): Promise<unknown> {
    try {
      await this.#emitMetadataFrame();
      if (!this.#state.isStopped) await this.#executeJob();
      return undefined;
    } catch (error) {
      return error ?? new Error("The graph failed without an error");
    }
  }

  /**
   * Waits for earlier executions of the thread, renews the lease if it ends soon, records the start and emits the `metadata`
   * frame; a stopped attempt emits none. If the run has readers, stores the frame and lets two ticks pass, because the graph may
   * block the loop.
   */
  async #emitMetadataFrame(): Promise<void> {
    const { options, slot, claimed, output, progress, recorder, runLog, spans } = this.#parts;
    const { run_id, thread_id, attempt, claims, resumable } = claimed.run;
    await Promise.all(slot.earlierExecutions);
    if (claims > 1 && spans) await this.#loadSpans();
    await this.ensureLease();
    if (this.#state.isStopped) return;
    const resumed_after = output.nextFrameId - 1;
    const reading = recorder?.recordStart();
    if (reading) {
      await reading;
      // The process may have stalled meanwhile.
      await this.ensureLease();
    }
    if (this.#state.isStopped) return;
    output.emitFrame("metadata", { run_id, attempt, thread_id, ...(claims > 1 ? { resumed_after } : {}) });
    if (!runLog.isWatched) return;
    if (resumable) await progress.save("all");
    // The response is built in one tick of the event loop, and its bytes leave in the next.
    await waitForNextTick(options.environment);
    await waitForNextTick(options.environment);
    // The process may have stalled during these ticks.
    await this.ensureLease();
  }

  /** Reads what earlier attempts have stored of the trace. Logs a failure: the trace then lacks their sums. */
  async #loadSpans(): Promise<void> {
    const { options, spans, retry } = this.#parts;
    try {
      await retry(async () => await spans?.load());
    } catch (error) {
      const message = "the trace of earlier attempts was not read";
      options.environment.log({ level: "warn", message, run_id: this.run_id, error });
    }
  }

  /**
   * Executes the job under its timeout, which stops the attempt as `timed_out`. Throws the error of the executor, and
   * `AttemptsExhausted` without executing if the run has no attempt left.
   */
  async #executeJob(): Promise<void> {
    const { options, graph, claimed } = this.#parts;
    this.#state.enter("executing");
    if (claimed.exhausted) {
      throw Object.assign(new Error(`The run was started ${claimed.run.attempt} times and never reached its end`), {
        name: "AttemptsExhausted",
      });
    }
    const timeout_ms = Math.min(graph.timeout_ms ?? options.run_timeout_ms, MAX_TIMER_MS);
    const cancelTimeout = options.environment.timer(timeout_ms, () => this.stop("timed_out"));
    try {
      await this.#execution.run();
    } finally {
      cancelTimeout();
    }
  }

  /**
   * Closes the journal, emits paused output (drops it if the attempt was stopped), and closes the progress writer, after a last
   * save on shutdown. From then on the checkpoints refuse writes.
   */
  async #settle(): Promise<void> {
    const { journal, output, progress, checkpoints } = this.#parts;
    this.#state.enter("settled");
    journal?.close();
    // The paused output of a stopped run describes a state that it did not reach.
    if (this.#state.isStopped) output.dropPausedOutput();
    else output.resumeOutput();
    await progress.close(this.#state.reason === "shutting_down");
    // An abandoned executor must not write any more.
    checkpoints.refuseWrites();
  }

  /** Stores the end and returns what publishes it. If the storage refuses, stops the attempt as `lease_lost` and returns null. */
  async #end(failure: unknown): Promise<PublishEnd | null> {
    this.#state.enter("ending");
    const publishEnd = await this.#storeEnd(failure);
    // The storage refuses the end if the lease is lost.
    if (!publishEnd) this.stop("lease_lost");
    return publishEnd;
  }

  /**
   * Returns the run to the queue on shutdown, suspends it if its journal has a suspension, and ends it otherwise. Returns the
   * function that publishes the end, or null if the lease is lost.
   */
  async #storeEnd(failure: unknown): Promise<PublishEnd | null> {
    const suspension = this.#parts.journal?.suspension;
    if (this.#state.reason === "shutting_down") return (await requeueRun(this.#parts)) ? () => {} : null;
    if (suspension && failure === undefined && !this.#state.isStopped) {
      this.#isSuspended = true;
      return suspendRun(this.#parts, suspension);
    }
    return finishRun(this.#parts, failure);
  }

  /** Publishes a stored end. Logs an error of that, and does not throw. */
  #publish(publishEnd: PublishEnd | null): void {
    try {
      publishEnd?.();
    } catch (error) {
      const { run_id, thread_id } = this;
      const message = "the end of a run was not published";
      this.#parts.options.environment.log({ level: "error", message, run_id, thread_id, error });
    }
  }

  /**
   * Returns true if the attempt does not end its run: another attempt continues it, another process has it, or it was deleted.
   */
  #isRunContinued(): boolean {
    return !this.#state.mayWrite || this.#state.reason === "shutting_down" || this.#isSuspended;
  }

  /**
   * Calls `onAttemptReleased` of the features, and releases the thread lock if the attempt may not write any more; a failure of
   * that is ignored.
   */
  async #releaseRun(): Promise<void> {
    const { options, claimed, journal, mapper } = this.#parts;
    const { reason } = this.#state;
    // The usage of a suspended run counts whole: its journal stores how much was reported, so its next attempt does not repeat
    // it.
    const isRetried = reason === "shutting_down" || reason === "lease_lost";
    await options.features.onAttemptReleased(claimed.run, isRetried && journal?.isOpen ? mapper.retryReport : mapper);
    if (!this.#state.mayWrite) await this.#releaseThreadLock().catch(() => {});
  }

  /**
   * Logs that the result is dropped and, because the executor has settled, releases the thread lock. Ends the log of the run if
   * the run was deleted meanwhile.
   */
  async #releaseThreadLock(): Promise<void> {
    const { options, claimed, runLog, retry } = this.#parts;
    const { storage, scope, environment } = options;
    const { run_id, thread_id } = claimed.run;
    const message = "run was taken over, rolled back or deleted; result dropped";
    environment.log({ level: "info", message, run_id, thread_id });
    await retry(() => storage.releaseThreadLock(scope, claimed.lease));
    if (runLog.completion) return;
    const isDeleted = this.#state.reason === "rolled_back" || !(await retry(() => storage.getRun(scope, run_id)));
    if (isDeleted) endDeletedRunLog(runLog, "RunRolledBack");
  }

  /**
   * Stops the attempt: aborts the signal of the executor and abandons the executor if it ignores that for `abandon_ms`. After
   * `lease_lost` and `rolled_back` nothing is written any more. Returns true if the attempt stops for this reason, also if it did
   * before; false if another reason has precedence or the attempt has ended.
   */
  stop(reason: StopReason): boolean {
    const { slot, heartbeat, checkpoints } = this.#parts;
    if (!this.#state.accepts(reason)) return this.#state.reason === reason;
    if (!this.#state.isStopped) {
      this.#stopPosition = this.#barrier.positionForState;
      this.#abandonLater();
    }
    this.#state.stop(reason);
    if (!this.#state.mayWrite) {
      checkpoints.refuseWrites();
      heartbeat.stop();
    }
    if (reason === "lease_lost") slot.counters.leases_lost++;
    this.#abort.abort(reason);
    return true;
  }

  /**
   * Sets a timer that, after `abandon_ms`, refuses further writes and abandons an executor that ignores its signal, so that it
   * does not occupy its slot for ever. Cancelled when the executor settles.
   */
  #abandonLater(): void {
    const { options, checkpoints } = this.#parts;
    const cancel = options.environment.timer(this.#abandon_ms, () => {
      checkpoints.refuseWrites();
      this.#execution.abandon();
    });
    void this.#state.settled.then(cancel);
  }

  onCancelled(): void {
    this.stop("cancelled");
  }

  /** Stops the attempt because its lease is lost, unless its end is being stored: the response to that reveals a lost lease. */
  onLeaseLost(): void {
    // The response to the end that is being stored reveals a lost lease.
    if (!this.#state.isEnding) this.stop("lease_lost");
  }

  onSuspended(): void {
    this.#abort.abort("suspended");
  }

  onProgress(): void {
    this.#parts.progress.scheduleSave();
  }

  saveAll(): Promise<void> {
    return this.#parts.progress.save("all");
  }

  /**
   * Renews a lease that ends soon. Resolves when it is held, the attempt stops or its end is being stored, and tries until then.
   * Never rejects.
   */
  async ensureLease(): Promise<void> {
    const { options, heartbeat } = this.#parts;
    // The storage refuses the end if the lease is lost, and a lost lease does not stop an attempt that ends.
    while (!this.#state.isStopped && !this.#state.isEnding && heartbeat.isEnding()) {
      if (!(await heartbeat.renew()) && !this.#state.isStopped) await pause(options.environment, RETRY_MS);
    }
  }

  isOutputEnded(): boolean {
    return this.#state.isStopped && (!this.#state.mayWrite || this.#barrier.isPassed(this.#stopPosition));
  }

  get executing(): Promise<void> | null {
    return this.#state.isAtWork ? this.#state.settled : null;
  }

  checkCancelled(): void {
    if (!this.#state.isEnding && this.#state.mayWrite) this.#parts.heartbeat.checkCancelled();
  }

  isExpired(now: number): boolean {
    return this.#parts.heartbeat.isExpired(now) && (this.#state.isAtWork || this.#state.mayWrite);
  }

  /**
   * Renews the lease, or waits for the end that is being stored. After a lost lease waits until the executor has settled. Throws
   * if the renewal fails while the run executes.
   */
  async beforeClaim(): Promise<void> {
    const state = this.#state;
    if (state.mayWrite && !(await this.#parts.heartbeat.renew()) && state.mayWrite) {
      if (!state.isEnding) throw new Error("A lease could not be renewed");
      // The end may be stored already. The run then has no lease that could be renewed.
      await this.done;
    }
    // The renewal may have detected a lost lease while the executor is still running.
    if (!state.mayWrite) await state.settled;
  }

  scheduleSave(): void {
    this.#parts.progress.scheduleSave();
  }

  /**
   * Saves what the executor has emitted. Resolves when that is stored, after `MAX_FLUSH_MS` at the latest, and also if the save
   * fails.
   */
  async flushEmitted(): Promise<void> {
    const flushing = this.#flush().catch(() => {});
    await withTimeout(this.#parts.options.environment, MAX_FLUSH_MS, flushing, undefined);
  }

  /**
   * Saves until every state that was put is stored, each time after some ticks and at most `MAX_FLUSH_SAVES` times. While the end
   * of the run is being stored, waits for that instead.
   */
  async #flush(): Promise<void> {
    const { options, progress } = this.#parts;
    const state = this.#state;
    for (let saves = MAX_FLUSH_SAVES; saves > 0 && state.isAtWork && state.mayWrite; saves--) {
      for (let ticks = FLUSH_TICKS; ticks > 0; ticks--) await waitForNextTick(options.environment);
      if (!progress.hasUnsavedState()) break;
      await progress.save("due");
    }
    if (!state.isAtWork && state.mayWrite) await this.done;
  }
}
