/** Polls for due crons in every serving process. The resource and the firing handler load with the first cron. */
import { createLazyModule, waitForNextTick, withTimeout } from "../environment.ts";
import type { SkipReason } from "../storage/mod.ts";
import type { FireOptions, FiringCounters, FiringHandler } from "./firing-handler.ts";
import { FIRING_RETENTION_MS } from "./lazy-schedule.ts";
import type { CronOptions, InternalCrons } from "./mod.ts";

/** The numbers of firings and skips of this process since its start. */
export interface CronCounters {
  readonly fired: number;
  readonly skipped: Readonly<Record<SkipReason, number>>;
}

interface CronScheduler {
  /** Fires the crons that are due at `time` before the next poll. */
  wakeAt(time: number): void;
  counters(): CronCounters;
  /** Stops polling. Resolves when pending writes are stored, after 10 seconds at the latest. */
  stop(): Promise<void>;
}

const POLL_INTERVAL_MS = 10_000;
/** The delay after a cron could not be fired. It doubles with each further failure, up to the poll interval. */
const MIN_RETRY_DELAY_MS = 1_000;
/** The maximum number of crons per query. */
const CRON_BATCH_SIZE = 100;
const RETENTION_INTERVAL_MS = 3_600_000;
const RETENTION_BATCH_SIZE = 500;
/** The maximum time that `stop` waits for the database. */
const STOP_TIMEOUT_MS = 10_000;

class PollingCronScheduler implements CronScheduler {
  readonly #options: FireOptions;
  readonly #counters: FiringCounters = createFiringCounters();
  #isStopping = false;
  #handler: FiringHandler | undefined;
  #polling: Promise<void> | null = null;
  #cancelTimer = (): void => {};
  #timerAt = 0;
  /** The earliest time that `wakeAt` was called with during the current poll. */
  #requestedAt = Number.POSITIVE_INFINITY;
  #retry_ms = MIN_RETRY_DELAY_MS;
  #nextRetentionAt: number;

  constructor(options: FireOptions) {
    this.#options = options;
    this.#nextRetentionAt = options.environment.now() + RETENTION_INTERVAL_MS;
    this.#startPoll();
  }

  /** Polls at this time at the latest. During a poll, the time counts for the next one. */
  wakeAt(time: number): void {
    if (this.#polling) this.#requestedAt = Math.min(this.#requestedAt, time);
    else if (time < this.#timerAt) this.#schedule(time);
  }

  counters(): FiringCounters {
    return { ...this.#counters, skipped: { ...this.#counters.skipped } };
  }

  /** Stops the polls, and resolves when the running one has ended, or after `STOP_TIMEOUT_MS`. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#cancelTimer();
    if (this.#polling) await withTimeout(this.#options.environment, STOP_TIMEOUT_MS, this.#polling, undefined);
  }

  /** Starts a poll in the background. The times that were requested until now are forgotten, because the poll handles them. */
  #startPoll(): void {
    this.#requestedAt = Number.POSITIVE_INFINITY;
    this.#polling = this.#poll();
  }

  /**
   * Sets the timer of the next poll, instead of the one before, to this time, but at most the poll interval ahead. A time in
   * the past polls at once. Does nothing during a stop.
   */
  #schedule(time: number): void {
    if (this.#isStopping) return;
    this.#cancelTimer();
    const { environment } = this.#options;
    const now = environment.now();
    this.#timerAt = Math.min(time, now + POLL_INTERVAL_MS);
    this.#cancelTimer = environment.timer(Math.max(0, this.#timerAt - now), () => this.#startPoll());
  }

  /**
   * Disables failing crons, handles the due ones, deletes old firings, and schedules the next poll: at the next fire time, or
   * after a growing delay if firing has failed. Logs errors.
   */
  async #poll(): Promise<void> {
    const { storage, scope, environment } = this.#options;
    const startedAt = environment.now();
    let next: number | null = null;
    try {
      await this.#disableFailing();
      await this.#handleDue();
      await this.#deleteOldFirings();
      const [first] = await storage.listEnabledCrons(scope, { due_by: Number.MAX_SAFE_INTEGER, limit: 1 });
      next = first?.next_run_date ?? null;
    } catch (error) {
      environment.log({ level: "error", message: "cron poll failed", error });
    }
    // A cron that was due at the start is still due, so firing it failed: wait before the next try.
    const hasFailed = next !== null && next <= startedAt;
    const nextAt = hasFailed ? environment.now() + this.#retry_ms : (next ?? Number.POSITIVE_INFINITY);
    this.#retry_ms = hasFailed ? Math.min(2 * this.#retry_ms, POLL_INTERVAL_MS) : MIN_RETRY_DELAY_MS;
    this.#polling = null;
    this.#schedule(Math.min(nextAt, this.#requestedAt));
  }

  /** Imports and creates the handler of firings at the first call, and returns the same one later. */
  async #loadHandler(): Promise<FiringHandler> {
    this.#handler ??= (await import("./firing-handler.ts")).createFiringHandler(
      this.#options,
      this.#counters,
      () => this.#isStopping,
    );
    return this.#handler;
  }

  /**
   * Disables enabled crons whose runs have failed too often in a row, at most a batch of them. Does nothing without
   * `max_failures`.
   */
  async #disableFailing(): Promise<void> {
    const { storage, scope, max_failures } = this.#options;
    if (max_failures === null) return;
    for (const cron of await storage.listEnabledCrons(scope, { failures: max_failures, limit: CRON_BATCH_SIZE }))
      await (await this.#loadHandler()).disable(cron, max_failures);
  }

  /**
   * Handles the due crons in batches, each from a random start. Ends after a batch that is not full or makes no progress, and when the
   * scheduler stops; crons may still be due. Throws the errors of the storage.
   */
  async #handleDue(): Promise<void> {
    const { storage, scope, environment } = this.#options;
    let hasProgress = true;
    while (hasProgress && !this.#isStopping) {
      const crons = await storage.listEnabledCrons(scope, { due_by: environment.now(), limit: CRON_BATCH_SIZE });
      hasProgress = false;
      // Many crons are due at the full hour. Processes that start with different crons conflict less.
      const from = crons.length > 1 ? Math.floor(environment.random() * crons.length) : 0;
      for (const cron of [...crons.slice(from), ...crons.slice(0, from)])
        if (await (await this.#loadHandler()).handle(cron)) hasProgress = true;
      if (crons.length < CRON_BATCH_SIZE) return;
    }
  }

  /** Deletes records of firings older than `FIRING_RETENTION_MS`, in batches. Does nothing within an hour after the last time. */
  async #deleteOldFirings(): Promise<void> {
    const { storage, scope, environment } = this.#options;
    const now = environment.now();
    if (now < this.#nextRetentionAt) return;
    this.#nextRetentionAt = now + RETENTION_INTERVAL_MS;
    const retentionQuery = { firings_before: now - FIRING_RETENTION_MS, limit: RETENTION_BATCH_SIZE, now };
    while (!this.#isStopping && (await storage.deleteExpired(scope, retentionQuery)) > 0)
      await waitForNextTick(environment);
  }
}

/** Returns counters that are all 0. */
const createFiringCounters = (): FiringCounters => ({
  fired: 0,
  skipped: { thread_busy: 0, thread_full: 0, deployment_full: 0, missed: 0, superseded: 0, refused: 0 },
});

/** The internal resource of crons, and the scheduler that fires them. */
export interface CronLoop extends InternalCrons, Pick<CronScheduler, "counters" | "stop"> {}

type CronLoopOptions = Omit<CronOptions, "wakeAt"> &
  FireOptions & {
    /** False if this process fires no crons. */
    readonly enabled: boolean;
  };

/**
 * Creates the resource of crons, and their scheduler, which starts to poll, if `enabled`. Without it, crons do not fire and the
 * counters are 0. The code of the resource is imported at the first call. `stop` stops the scheduler.
 */
export function createCronLoop(options: CronLoopOptions): CronLoop {
  const scheduler = options.enabled ? new PollingCronScheduler(options) : null;
  const crons = createLazyModule<InternalCrons>(
    {
      ...{ create: true, get: true, update: true, delete: true, search: true, count: true },
      ...{ preview: true, inspect: true, run: true },
    },
    async () => (await import("./mod.ts")).createCrons({ ...options, wakeAt: (time) => scheduler?.wakeAt(time) }),
  );
  return {
    ...crons,
    counters: () => scheduler?.counters() ?? createFiringCounters(),
    stop: async () => scheduler?.stop(),
  };
}
