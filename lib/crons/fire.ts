/** Fires crons. Every process that serves looks for those that are due; the database decides which of them fires a tick. */
import type { Environment } from "../environment.ts";
import { isOutage, ServiceError } from "../errors.ts";
import type { AuthUser } from "../executor/contract.ts";
import type { RunDirectory } from "../runs/mod.ts";
import type { RunCreate, RunOrigin } from "../runs/request.ts";
import type {
  CreateRun,
  CronContent,
  CronRow,
  FireCron,
  FireOutcome,
  Scope,
  SkipReason,
  Storage,
} from "../storage/mod.ts";
import { nextTick, ticksUntil } from "./schedule.ts";

export interface FireOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly runs: Pick<RunDirectory, "prepare" | "started">;
  /** A tick that nobody has fired in time is made up for, if it is not older than this. */
  readonly misfire_grace_ms: number;
  /** A cron is disabled after so many failed runs in a row; null: never. */
  readonly max_failures: number | null;
}

/** What this process has done with ticks since it started. */
export interface CronCounters {
  readonly fired: number;
  readonly skipped: Readonly<Record<SkipReason, number>>;
}

export interface CronFirer {
  /** A cron fires then: look at that time. */
  wakeAt(time: number): void;
  counters(): CronCounters;
  /** Looks no more; resolves when what is about to be stored is stored. */
  stop(): Promise<void>;
}

/** The counters of a process that has skipped nothing. */
export const NO_SKIPS: Readonly<Record<SkipReason, number>> = {
  thread_busy: 0,
  thread_full: 0,
  deployment_full: 0,
  missed: 0,
  superseded: 0,
  refused: 0,
};

const POLL_MS = 10_000;
/** How soon to look again for what could not be fired; twice as late each time, up to the poll. */
const RETRY_MS = 1_000;
/** How many crons, or ticks of one, are handled at a time. */
const BATCH = 100;
/** How often a run is resolved anew because what it was resolved from has changed. */
const TRIES = 10;
/** How long what became of a tick is known. Older ones that were missed are not recorded. */
const KEPT_MS = 30 * 86_400_000;
const SWEEP_EVERY_MS = 3_600_000;
const SWEEP_ROWS = 500;
/** How long the service waits for a store that does not answer when it stops. */
const LAST_MS = 10_000;

/** What is to become of a cron's ticks until now. */
interface Plan {
  /** The tick to fire; null when none is. */
  readonly fires: number | null;
  readonly skipped: FireCron["skipped"];
  readonly next_run_date: number | null;
}

export function createFirer(options: FireOptions): CronFirer {
  const { storage, scope, environment, runs, misfire_grace_ms, max_failures } = options;
  const skipped: Record<SkipReason, number> = { ...NO_SKIPS };
  let fired = 0;
  let stopping = false;
  let working: Promise<void> | null = null;
  let cancel = (): void => {};
  // When the timer is due, and the earliest time that was asked for while a look went on.
  let due = 0;
  let asked = Number.POSITIVE_INFINITY;
  let retry = RETRY_MS;
  let sweepAt = environment.now() + SWEEP_EVERY_MS;

  /** Ticks that are older than the grace were missed; of the others the latest one stands for all. */
  function planOf(cron: CronRow, first: number, now: number): Plan {
    const kept = now - KEPT_MS;
    const from = first < kept ? nextTick(cron, kept) : first;
    const ticks = from === null ? [] : ticksUntil(cron, from, now, BATCH);
    const latest = ticks.at(-1);
    const next_run_date = nextTick(cron, latest ?? now);
    const in_time = now - misfire_grace_ms;
    // With more to come, the next step goes on from there.
    const more = next_run_date !== null && next_run_date <= now;
    const fires = latest !== undefined && !more && latest >= in_time ? latest : null;
    return {
      fires,
      skipped: ticks
        .filter((tick) => tick !== fires)
        .map((tick) => ({ scheduled_at: tick, reason: tick < in_time ? "missed" : "superseded" })),
      next_run_date,
    };
  }

  /** Null when a run like this may not be made now: that will not change by itself. */
  async function prepared(cron: CronRow): Promise<CreateRun | null> {
    try {
      return await runs.prepare(cron.thread_id, requestOf(cron), originOf(cron));
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code === "storage_full" || isOutage(error)) throw error;
      environment.log({
        level: "warn",
        message: "a cron's run was refused",
        cron_id: cron.cron_id,
        why: error.message,
      });
      return null;
    }
  }

  function record(cron_id: string, ticks: FireCron["skipped"]): void {
    for (const reason of new Set(ticks.map((tick) => tick.reason))) {
      const times = ticks.filter((tick) => tick.reason === reason).map(({ scheduled_at }) => scheduled_at);
      skipped[reason] += times.length;
      const [first, last] = [times[0] as number, times.at(-1) as number].map((time) => new Date(time).toISOString());
      const ticks_of = { reason, count: times.length, first, last };
      environment.log({ level: "warn", message: "ticks of a cron were skipped", cron_id, ...ticks_of });
    }
  }

  /** One step of a cron that is due. */
  async function step(cron: CronRow, first: number, now: number): Promise<FireOutcome["kind"]> {
    const { cron_id, revision } = cron;
    const plan = planOf(cron, first, now);
    const run = plan.fires === null ? null : await prepared(cron);
    const refused = plan.fires !== null && !run ? [{ scheduled_at: plan.fires, reason: "refused" as const }] : [];
    const firing = run && plan.fires !== null ? { scheduled_at: plan.fires, run } : null;
    const seen = { next_run_date: first, revision };
    const passed = [...plan.skipped, ...refused];
    const { next_run_date } = plan;
    const outcome = await storage.fireCron(scope, { cron_id, seen, next_run_date, skipped: passed, firing, now });
    if (outcome.kind === "lost" && firing) {
      // Where this tick has fired before the clock or the schedule went back, the cron goes on without it.
      const row = await storage.getCron(scope, cron_id);
      if (row?.enabled && row.revision === revision && row.next_run_date === first) {
        const { skipped: before } = plan;
        return (await storage.fireCron(scope, { cron_id, seen, next_run_date, skipped: before, firing: null, now }))
          .kind;
      }
    }
    if (outcome.kind === "fired" && firing) {
      fired++;
      runs.started(outcome.created, firing.run);
    }
    const refusal = outcome.kind === "refused" ? [{ scheduled_at: plan.fires as number, reason: outcome.reason }] : [];
    if (outcome.kind !== "lost" && outcome.kind !== "stale") record(cron_id, [...passed, ...refusal]);
    return outcome.kind;
  }

  /** Brings a cron up to now. False when that did not succeed. */
  async function handle(cron: CronRow): Promise<boolean> {
    let row: CronRow | null = cron;
    let stale = 0;
    try {
      while (!stopping && stale < TRIES) {
        const now = environment.now();
        if (!row?.enabled || row.next_run_date === null || row.next_run_date > now) return true;
        if (max_failures !== null && row.failures >= max_failures) {
          await disable(row, max_failures);
          return true;
        }
        const kind = await step(row, row.next_run_date, now);
        if (kind === "stale") stale++;
        row = await storage.getCron(scope, cron.cron_id);
      }
      if (stopping) return true;
      environment.log({
        level: "warn",
        message: "what a cron's run is made from kept changing",
        cron_id: cron.cron_id,
      });
    } catch (error) {
      environment.log({ level: "error", message: "a cron was not fired", cron_id: cron.cron_id, error });
    }
    return false;
  }

  async function disable({ cron_id }: CronRow, failures: number): Promise<void> {
    const next = (row: CronRow): CronContent => {
      if (!row.enabled || row.failures < failures) return row;
      const disabled_reason = `${row.failures} runs in a row have failed`;
      return { ...row, enabled: false, next_run_date: null, metadata: { ...row.metadata, disabled_reason } };
    };
    const row = await storage.updateCron(scope, cron_id, next, environment.now());
    if (row && !row.enabled) {
      environment.log({
        level: "warn",
        message: "a cron was disabled: its runs fail",
        cron_id,
        failures: row.failures,
      });
    }
  }

  async function handleAll(): Promise<void> {
    if (max_failures !== null) {
      for (const cron of await storage.failingCrons(scope, max_failures, BATCH)) await disable(cron, max_failures);
    }
    let progress = true;
    while (progress && !stopping) {
      const crons = await storage.dueCrons(scope, environment.now(), BATCH);
      progress = false;
      // Many are due at the full hour: processes that begin at different ones do not race for each.
      const from = crons.length > 1 ? Math.floor(environment.random() * crons.length) : 0;
      for (const cron of [...crons.slice(from), ...crons.slice(0, from)]) if (await handle(cron)) progress = true;
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
      environment.log({ level: "error", message: "crons that are due were not found", error });
    }
    // What was due already when this look began could not be fired: it is not looked for without a pause.
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
    counters: () => ({ fired, skipped: { ...skipped } }),
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

/** The run of a cron, as a caller would ask for it. */
export function requestOf(
  cron: Pick<CronRow, "cron_id" | "assistant_id" | "on_run_completed" | "payload" | "metadata">,
): RunCreate {
  const { cron_id, assistant_id, on_run_completed, payload, metadata } = cron;
  return {
    ...payload,
    assistant_id,
    metadata: { ...metadata, cron_id },
    ...(on_run_completed === null ? {} : { on_completion: on_run_completed }),
  };
}

/** On whose behalf: that they might make it was asked when the cron was. */
function originOf({ cron_id, user_id, auth_user }: CronRow): RunOrigin {
  return { cron_id, user_id, ...(auth_user ? { user: auth_user as unknown as AuthUser } : {}) };
}
