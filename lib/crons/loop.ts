/** Polls for due crons. Every serving process does so; the noun and the ticks load with the first cron. */
import { lazyCalls, loopTick, withTimeout } from "../environment.ts";
import type { SkipReason } from "../storage/mod.ts";
import type { CronDirectory, CronOptions } from "./mod.ts";
import { KEPT_MS } from "./schedules.ts";
import type { FireOptions, TickCounters, TickHandler } from "./tick.ts";

/** The ticks that this process has fired and skipped since its start. */
export interface CronCounters {
  readonly fired: number;
  readonly skipped: Readonly<Record<SkipReason, number>>;
}

interface CronFirer {
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
const CRONS = 100;
const SWEEP_EVERY_MS = 3_600_000;
const SWEEP_ROWS = 500;
/** How long `stop` waits for a database that does not answer. */
const STOP_MS = 10_000;

function createFirer(options: FireOptions): CronFirer {
  const { storage, scope, environment, max_failures } = options;
  const counters: TickCounters = noTicks();
  let stopping = false;
  let ticks: TickHandler | undefined;
  let working: Promise<void> | null = null;
  let cancel = (): void => {};
  let timerAt = 0;
  // The earliest `wakeAt` while a poll runs.
  let requestedAt = Number.POSITIVE_INFINITY;
  let retry = RETRY_MS;
  let sweepAt = environment.now() + SWEEP_EVERY_MS;

  async function loadTicks(): Promise<TickHandler> {
    ticks ??= (await import("./tick.ts")).createTickHandler(options, counters, () => stopping);
    return ticks;
  }

  async function handleAll(): Promise<void> {
    if (max_failures !== null) {
      for (const cron of await storage.enabledCrons(scope, { failures: max_failures, limit: CRONS }))
        await (await loadTicks()).disable(cron, max_failures);
    }
    let progress = true;
    while (progress && !stopping) {
      const crons = await storage.enabledCrons(scope, { due_by: environment.now(), limit: CRONS });
      progress = false;
      // Many crons are due at the full hour. Processes that start with different crons conflict less.
      const from = crons.length > 1 ? Math.floor(environment.random() * crons.length) : 0;
      for (const cron of [...crons.slice(from), ...crons.slice(0, from)])
        if (await (await loadTicks()).handle(cron)) progress = true;
      if (crons.length < CRONS) return;
    }
  }

  async function sweep(): Promise<void> {
    const now = environment.now();
    if (now < sweepAt) return;
    sweepAt = now + SWEEP_EVERY_MS;
    while (!stopping && (await storage.sweep(scope, { firings_before: now - KEPT_MS, limit: SWEEP_ROWS, now })) > 0) {
      await loopTick(environment);
    }
  }

  async function poll(): Promise<void> {
    const startedAt = environment.now();
    let next: number | null = null;
    try {
      await handleAll();
      await sweep();
      const [first] = await storage.enabledCrons(scope, { due_by: Number.MAX_SAFE_INTEGER, limit: 1 });
      next = first?.next_run_date ?? null;
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
    counters: () => ({ ...counters, skipped: { ...counters.skipped } }),
    async stop() {
      stopping = true;
      cancel();
      if (working) await withTimeout(environment, STOP_MS, working, undefined);
    },
  };
}

const noTicks = (): TickCounters => ({
  fired: 0,
  skipped: { thread_busy: 0, thread_full: 0, deployment_full: 0, missed: 0, superseded: 0, refused: 0 },
});

/** Crons and the loop that fires them. */
export interface CronLoop extends CronDirectory, Pick<CronFirer, "counters" | "stop"> {}

type CronLoopOptions = Omit<CronOptions, "wakeAt"> &
  FireOptions & {
    /** False: this process fires no crons. */
    readonly enabled: boolean;
  };

export function createCronLoop(options: CronLoopOptions): CronLoop {
  const firer = options.enabled ? createFirer(options) : null;
  const calls = lazyCalls<CronDirectory>(
    {
      ...{ create: true, get: true, update: true, delete: true, search: true, count: true },
      ...{ preview: true, inspect: true, run: true },
    },
    async () => (await import("./mod.ts")).createCrons({ ...options, wakeAt: (time) => firer?.wakeAt(time) }),
  );
  return { ...calls, counters: () => firer?.counters() ?? noTicks(), stop: async () => firer?.stop() };
}
