/** Looks for crons that are due. Every serving process does so; the database decides which of them fires a tick. */
import type { SkipReason } from "../storage/mod.ts";
import { createTickHandler, type FireOptions, KEPT_MS } from "./tick.ts";

/** What became of ticks in this process since it started. */
export interface CronCounters {
  readonly fired: number;
  readonly skipped: Readonly<Record<SkipReason, number>>;
}

export interface CronFirer {
  /** A cron is due then. */
  wakeAt(time: number): void;
  counters(): CronCounters;
  /** Stops looking. Resolves when writes under way are stored. */
  stop(): Promise<void>;
}

const POLL_MS = 10_000;
/** The first wait after a cron could not be fired. Each further wait is twice as long, up to the poll. */
const RETRY_MS = 1_000;
/** How many crons are read at a time. */
const BATCH = 100;
const SWEEP_EVERY_MS = 3_600_000;
const SWEEP_ROWS = 500;
/** How long the service waits for a store that does not answer when it stops. */
const LAST_MS = 10_000;

export function createFirer(options: FireOptions): CronFirer {
  const { storage, scope, environment, max_failures } = options;
  let stopping = false;
  const ticks = createTickHandler(options, () => stopping);
  let working: Promise<void> | null = null;
  let cancel = (): void => {};
  // `due`: when the timer fires. `asked`: the earliest wakeAt during a look.
  let due = 0;
  let asked = Number.POSITIVE_INFINITY;
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
      // Many are due at the full hour: processes that begin at different crons race less.
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
      await new Promise<void>((resolve) => environment.defer(resolve));
    }
  }

  async function look(): Promise<void> {
    const began = environment.now();
    let next: number | null = null;
    try {
      await handleAll();
      await sweep();
      next = await storage.nextCronAt(scope);
    } catch (error) {
      environment.log({ level: "error", message: "reading the crons that are due failed", error });
    }
    // A cron that was due when this look began could not be fired: wait before the next try.
    const left = next !== null && next <= began;
    const soonest = left ? environment.now() + retry : (next ?? Number.POSITIVE_INFINITY);
    retry = left ? Math.min(2 * retry, POLL_MS) : RETRY_MS;
    working = null;
    wait(Math.min(soonest, asked));
  }

  function begin(): void {
    asked = Number.POSITIVE_INFINITY;
    working = look();
  }

  function wait(until: number): void {
    if (stopping) return;
    cancel();
    const now = environment.now();
    due = Math.min(until, now + POLL_MS);
    cancel = environment.timer(Math.max(0, due - now), begin);
  }

  begin();

  return {
    wakeAt(time) {
      if (working) asked = Math.min(asked, time);
      else if (time < due) wait(time);
    },
    counters: ticks.counters,
    async stop() {
      stopping = true;
      cancel();
      const last = working;
      if (!last) return;
      await new Promise<void>((resolve) => {
        const late = environment.timer(LAST_MS, resolve);
        void last.then(() => {
          late();
          resolve();
        });
      });
    },
  };
}
