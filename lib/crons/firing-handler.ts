/** Handles the due fire times of crons: creates a run for the latest and records the others as skipped. Loaded with the first due cron. */
import type { Environment } from "../environment.ts";
import { isOutage, ServiceError } from "../errors.ts";
import type { AuthUser } from "../executor/contract.ts";
import type { InternalRuns } from "../runs/mod.ts";
import type { RunCreate, RunOrigin } from "../runs/request.ts";
import type {
  CreateRun,
  CronContent,
  CronRow,
  FireCron,
  FireCronResult,
  Scope,
  SkipReason,
  Storage,
} from "../storage/mod.ts";
import { FIRING_RETENTION_MS, loadSchedules, type Schedules } from "./lazy-schedule.ts";

export interface FireOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly runs: Pick<InternalRuns, "prepare" | "startStored">;
  /** The maximum age of a fire time that still creates a run. */
  readonly misfire_grace_ms: number;
  /** The number of failed runs in a row that disables a cron; null never disables one. */
  readonly max_failures: number | null;
}

/** The maximum number of fire times of one cron per transaction. */
const FIRE_TIME_BATCH_SIZE = 100;
/** The maximum number of attempts at a batch whose assistant or thread changed after it was read. */
const MAX_STALE_RETRIES = 10;
/** The decision about the due fire times of a cron. */
interface FiringPlan {
  /** The fire time that creates a run, or null if none does. */
  readonly fire_at: number | null;
  readonly skipped: FireCron["skipped"];
  readonly next_run_date: number | null;
}

/** The numbers of firings and skips in this process since its start. */
export interface FiringCounters {
  fired: number;
  readonly skipped: Record<SkipReason, number>;
}

export interface FiringHandler {
  /** Handles the due fire times of a cron. Returns false if that failed; it logs the reason. */
  handle(cron: CronRow): Promise<boolean>;
  /** Disables a cron that has at least this many failed runs in a row. */
  disable(cron: CronRow, failures: number): Promise<void>;
}

export const createFiringHandler = (
  options: FireOptions,
  counters: FiringCounters,
  isStopping: () => boolean,
): FiringHandler => new CronFiringHandler(options, counters, isStopping);

class CronFiringHandler implements FiringHandler {
  readonly #options: FireOptions;
  readonly #counters: FiringCounters;
  readonly #isStopping: () => boolean;

  constructor(options: FireOptions, counters: FiringCounters, isStopping: () => boolean) {
    this.#options = options;
    this.#counters = counters;
    this.#isStopping = isStopping;
  }

  /**
   * Handles the due fire times of a cron: creates a run for the latest and records the others as skipped. Returns true when
   * none is due any more, also on a stop and for a refused run. Returns false if that failed or the rows kept changing, which
   * is logged. Never rejects.
   */
  async handle(cron: CronRow): Promise<boolean> {
    const { environment } = this.#options;
    try {
      if (await this.#handleDueFireTimes(cron)) return true;
      const message = "firing a cron failed: its assistant or thread kept changing";
      environment.log({ level: "warn", message, cron_id: cron.cron_id });
    } catch (error) {
      environment.log({ level: "error", message: "firing a cron failed", cron_id: cron.cron_id, error });
    }
    return false;
  }

  /**
   * Disables a cron with at least `failures` failures in a row: removes its next fire time, stores the reason in its metadata
   * and logs that. Does nothing if it is disabled, deleted or has succeeded meanwhile. Rejects if the storage fails.
   */
  async disable({ cron_id }: CronRow, failures: number): Promise<void> {
    const { storage, scope, environment } = this.#options;
    /**
     * Returns the cron disabled, with the reason in its metadata. Returns the same row if it is disabled or has fewer failures.
     */
    const next = (row: CronRow): CronContent => {
      if (!row.enabled || row.failures < failures) return row;
      const disabled_reason = `${row.failures} runs in a row have failed`;
      return { ...row, enabled: false, next_run_date: null, metadata: { ...row.metadata, disabled_reason } };
    };
    const row = await storage.updateCron(scope, cron_id, next, environment.now());
    if (!row || row.enabled) return;
    environment.log({ level: "warn", message: "cron disabled: its runs failed", cron_id, failures: row.failures });
  }

  /**
   * Handles fire times until none is due, or disables the cron after too many failures. Returns true then, for a deleted cron,
   * and on a stop; false if the rows changed during each of several tries.
   */
  async #handleDueFireTimes(cron: CronRow): Promise<boolean> {
    const { storage, scope, environment, max_failures } = this.#options;
    let row: CronRow | null = cron;
    let conflicts = 0;
    while (!this.#isStopping() && conflicts < MAX_STALE_RETRIES) {
      const now = environment.now();
      if (!row?.enabled || row.next_run_date === null || row.next_run_date > now) return true;
      if (max_failures !== null && row.failures >= max_failures) {
        await this.disable(row, max_failures);
        return true;
      }
      if ((await this.#handleBatch(row, row.next_run_date, now)) === "stale") conflicts++;
      row = await storage.getCron(scope, cron.cron_id);
    }
    return this.#isStopping();
  }

  /**
   * Handles one batch of fire times from `first` on, and returns the result of the storage. Starts the created run, and counts
   * and logs skipped times. A run that cannot be created is recorded as a skip. Does so without the run, if its fire time has
   * fired before.
   */
  async #handleBatch(cron: CronRow, first: number, now: number): Promise<FireCronResult["kind"]> {
    const { storage, scope, runs, misfire_grace_ms } = this.#options;
    const { cron_id } = cron;
    const plan = planFirings(await loadSchedules(), cron, { first, now, misfire_grace_ms });
    const run = plan.fire_at === null ? null : await this.#prepareRun(cron);
    const refusedSkips =
      plan.fire_at !== null && !run ? [{ scheduled_at: plan.fire_at, reason: "refused" as const }] : [];
    const firing = run && plan.fire_at !== null ? { scheduled_at: plan.fire_at, run } : null;
    const fireBase = {
      cron_id,
      expected: { next_run_date: first, revision: cron.revision },
      next_run_date: plan.next_run_date,
      now,
    };
    const skipped = [...plan.skipped, ...refusedSkips];
    const result = await storage.fireCron(scope, { ...fireBase, skipped, firing });
    if (result.kind === "lost" && firing && (await this.#isUnchanged(cron, first))) {
      // This fire time fired before the clock or the schedule was set back: continue without it.
      return (await storage.fireCron(scope, { ...fireBase, skipped: plan.skipped, firing: null })).kind;
    }
    if (result.kind === "fired" && firing) {
      this.#counters.fired++;
      runs.startStored(result.created, firing.run);
    }
    const createRefusal =
      result.kind === "refused" ? [{ scheduled_at: plan.fire_at as number, reason: result.reason }] : [];
    if (result.kind !== "lost" && result.kind !== "stale") this.#record(cron_id, [...skipped, ...createRefusal]);
    return result.kind;
  }

  /** Reads the cron again, and returns true if it is enabled and has this revision and next fire time. */
  async #isUnchanged({ cron_id, revision }: CronRow, next_run_date: number): Promise<boolean> {
    const row = await this.#options.storage.getCron(this.#options.scope, cron_id);
    return row?.enabled === true && row.revision === revision && row.next_run_date === next_run_date;
  }

  /**
   * Returns the run to create, which is not stored. Returns null, and logs the reason, if it is refused and a retry cannot
   * help. Rethrows outages, a full disk and other errors.
   */
  async #prepareRun(cron: CronRow): Promise<CreateRun | null> {
    const { scope, environment, runs } = this.#options;
    try {
      return await runs.prepare(scope, cron.thread_id, toCronRunRequest(cron), toCronRunOrigin(cron));
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code === "storage_full" || isOutage(error)) throw error;
      const { cron_id } = cron;
      environment.log({ level: "warn", message: "cron run refused", cron_id, why: error.message });
      return null;
    }
  }

  /** Counts and logs the fire times that were skipped, with one log record for each reason. Stores nothing. */
  #record(cron_id: string, skips: FireCron["skipped"]): void {
    for (const reason of new Set(skips.map((skip) => skip.reason))) {
      const times = skips.filter((skip) => skip.reason === reason).map(({ scheduled_at }) => scheduled_at);
      this.#counters.skipped[reason] += times.length;
      const [first, last] = [times[0] as number, times.at(-1) as number].map((time) => new Date(time).toISOString());
      const summary = { reason, count: times.length, first, last };
      this.#options.environment.log({ level: "warn", message: "cron ticks skipped", cron_id, ...summary });
    }
  }
}

/**
 * Decides about a batch of due fire times: those older than the grace time are missed, the latest fires, and the others are
 * superseded. `fire_at` is null if more are due after the batch, or the latest is too old. `next_run_date` is the time after
 * the batch, null if there is none. Ignores fire times older than the retention of firings.
 */
function planFirings(
  { nextFireTime, fireTimesUntil }: Schedules,
  cron: CronRow,
  { first, now, misfire_grace_ms }: { readonly first: number; readonly now: number; readonly misfire_grace_ms: number },
): FiringPlan {
  const oldest = now - FIRING_RETENTION_MS;
  const from = first < oldest ? nextFireTime(cron, oldest) : first;
  const fireTimes = from === null ? [] : fireTimesUntil(cron, from, now, FIRE_TIME_BATCH_SIZE);
  const latest = fireTimes.at(-1);
  const next_run_date = nextFireTime(cron, latest ?? now);
  const graceStart = now - misfire_grace_ms;
  // The batch was full: the next one continues here.
  const isBatchFull = next_run_date !== null && next_run_date <= now;
  const fire_at = latest !== undefined && !isBatchFull && latest >= graceStart ? latest : null;
  return {
    fire_at,
    skipped: fireTimes
      .filter((fireTime) => fireTime !== fire_at)
      .map((fireTime) => ({ scheduled_at: fireTime, reason: fireTime < graceStart ? "missed" : "superseded" })),
    next_run_date,
  };
}

/** Returns the request that creates a run of the cron: its payload, with the metadata of the cron and its id. */
export function toCronRunRequest(
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

/** Returns the origin of a cron's run. It belongs to the user who created the cron and was authorized then. */
export function toCronRunOrigin({ cron_id, user_id, auth_user }: CronRow): RunOrigin {
  return { cron_id, user_id, ...(auth_user ? { user: auth_user as unknown as AuthUser } : {}) };
}
