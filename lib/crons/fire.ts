/** Polls for due crons. Every serving process does so; the database decides which of them fires a tick. */
import { nextTurn, withTimeout } from "../environment.ts";
import type { SkipReason } from "../storage/mod.ts";
import { createTickHandler, type FireOptions, KEPT_MS } from "./tick.ts";

/** The ticks that this process has fired and skipped since its start. */
export interface CronCounters {
  readonly fired: number;
  readonly skipped: Readonly<Record<SkipReason, number>>;
}

export interface CronFirer {
  /** Call this when a cron is due at this time, so that it fires before the next poll. */
  wakeAt(time: number): void;
  counters(): CronCounters;
  /** Stops polling. Resolves when writes under way are stored, after 10 seconds at the latest. */
  stop(): Promise<void>;
}

const POLL_MS = 10_000;
/** The first wait after a cron could not be fired. Each further wait is twice as long, up to the poll. */
const RETRY_MS = 1_000;
/** Crons per query. */
const BATCH = 100;
const SWEEP_EVERY_MS = 3_600_000;
const SWEEP_ROWS = 500;
/** How long `stop` waits for a database that does not answer. */
const STOP_MS = 10_000;

export function createFirer(options: FireOptions): CronFirer {
  const { storage, scope, environment, max_failures } = options;
  let stopping = false;
  const ticks = createTickHandler(options, () => stopping);
  let working: Promise<void> | null = null;
  let cancel = (): void => {};
  let timerAt = 0;
  // The earliest `wakeAt` while a poll runs.
  let requestedAt = Number.POSITIVE_INFINITY;
  let retry = RETRY_MS;
  let sweepAt = environment.now() + SWEEP_EVERY_MS;

  async function handleAll(): Promise<void> {
    if (max_failures !== null) {
      for (const cron of await storage.failingCrons(scope, max_failures, BATCH))
        await ticks.disable(cron, max_failures);
    }
    let progress = true;
    while (progress && !stopping) {
      const crons = await storage.dueCrons(scope, environment.now(), BATCH);
      progress = false;
      // Many crons are due at the full hour. Processes that start at different ones conflict less.
      const from = crons.length > 1 ? Math.floor(environment.random() * crons.length) : 0;
      for (const cron of [...crons.slice(from), ...crons.slice(0, from)]) if (await ticks.handle(cron)) progress = true;
      if (crons.length < BATCH) return;
    }
  }

  async function sweep(): Promise<void> {
    const now = environment.now();
    if (now < sweepAt) return;
    sweepAt = now + SWEEP_EVERY_MS;
    while (!stopping && (await storage.sweepCrons(scope, now - KEPT_MS, SWEEP_ROWS)) > 0) {
      await nextTurn(environment);
    }
  }

  async function poll(): Promise<void> {
    const startedAt = environment.now();
    let next: number | null = null;
    try {
      await handleAll();
      await sweep();
      next = await storage.nextCronAt(scope);
    } catch (error) {
      environment.log({ level: "error", message: "cron poll failed", error });
    }
    // A cron that was due at the start is still due, so firing it failed: wait before the next try.
    const failed = next !== null && next <= startedAt;
    const nextAt = failed ? environment.now() + retry : (next ?? Number.POSITIVE_INFINITY);
    retry = failed ? Math.min(2 * retry, POLL_MS) : RETRY_MS;
    working = null;
    schedule(Math.min(nextAt, requestedAt));
  }

  function start(): void {
    requestedAt = Number.POSITIVE_INFINITY;
    working = poll();
  }

  function schedule(time: number): void {
    if (stopping) return;
    cancel();
    const now = environment.now();
    timerAt = Math.min(time, now + POLL_MS);
    cancel = environment.timer(Math.max(0, timerAt - now), start);
  }

  start();

  return {
    wakeAt(time) {
      if (working) requestedAt = Math.min(requestedAt, time);
      else if (time < timerAt) schedule(time);
    },
    counters: ticks.counters,
    async stop() {
      stopping = true;
      cancel();
      if (working) await withTimeout(environment, STOP_MS, working, undefined);
    },
  };
}
