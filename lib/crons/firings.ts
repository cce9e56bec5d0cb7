/** Crons in detail: their next fire times, their last firings, and firing one now. */

import type { InternalResource } from "../auth/authorizer.ts";
import type { Environment } from "../environment.ts";
import type { IsoTime, Uuid } from "../json.ts";
import { formatIsoTime } from "../rfc3339.ts";
import type { InternalRuns, Run } from "../runs/mod.ts";
import { parseTime } from "../storage/cursor.ts";
import type { RunStatus, Scope, SkipReason, Storage } from "../storage/mod.ts";
import { toCronRunOrigin, toCronRunRequest } from "./firing-handler.ts";
import { loadSchedules } from "./lazy-schedule.ts";
import { requireCron } from "./require-cron.ts";
import type { Timing } from "./schedule.ts";

/** A firing by schedule or by hand; times are ISO 8601, UTC. */
export interface Firing {
  readonly scheduled_at: IsoTime;
  readonly fired_at: IsoTime;
  /** Fired by `run`, not by the schedule. */
  readonly manual: boolean;
  readonly run_id: Uuid | null;
  /** The status of the run. It and `thread_id` are null once the run is deleted. */
  readonly run_status: RunStatus | null;
  readonly thread_id: Uuid | null;
  readonly skipped: SkipReason | null;
}

/** The state of a cron: its failures, next fire times and last firings. */
export interface CronDetail {
  readonly cron_id: Uuid;
  readonly enabled: boolean;
  /** The number of consecutive runs that ended as `error` or `timeout`; `max_failures` of them disable the cron. */
  readonly failures: number;
  readonly max_failures: number | null;
  readonly disabled_reason: string | null;
  /** The next five fire times; for a paused cron those that it would have. */
  readonly next: readonly IsoTime[];
  /** The last ten, newest first. */
  readonly firings: readonly Firing[];
}

/** A schedule that is not stored. */
export interface SchedulePreview {
  readonly schedule: string;
  readonly timezone?: string;
  /** RFC 3339. */
  readonly end_time?: string;
  /** Default 5. */
  readonly limit?: number;
}

/** Crons in detail. */
export interface CronFirings {
  /** Returns a cron in detail. Throws `not_found`. */
  inspect(cron_id: string): Promise<CronDetail>;
  /**
   * Creates a run of the cron now, as its creator, also while it is paused. Does not change the schedule. Throws `not_found` and
   * what `runs.create` throws.
   */
  run(cron_id: string): Promise<Run>;
  /**
   * Returns the next fire times of a schedule as `next`, in ISO 8601: fewer or none if `end_time` is before them. Stores nothing.
   * Throws `invalid` (`schedule`, `timezone`, `end_time`).
   */
  preview(preview: SchedulePreview): Promise<{ readonly next: readonly string[] }>;
}

const DEFAULT_PREVIEW_COUNT = 5;
const MAX_LISTED_FIRINGS = 10;

export interface CronFiringOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly runs: Pick<InternalRuns, "create">;
  readonly max_failures: number | null;
}

/** Creates the operations on fire times of crons: a preview, details with past firings, and a run by hand. */
export function createCronFirings({
  storage,
  scope: deploymentScope,
  environment,
  runs,
  max_failures,
}: CronFiringOptions): InternalResource<CronFirings> {
  /**
   * Returns the newest past firings of a cron, at most `MAX_LISTED_FIRINGS`. Status and thread of a run are null if it is
   * deleted or the caller may not see it; its id stays.
   */
  async function listFirings(scope: Scope, cron_id: string): Promise<readonly Firing[]> {
    const firings = await storage.listCronFirings(deploymentScope, cron_id, { limit: MAX_LISTED_FIRINGS, offset: 0 });
    const runs = await Promise.all(
      firings.map(async ({ run_id }) => (run_id === null ? null : await storage.getRun(scope, run_id))),
    );
    return firings.map(({ scheduled_at, fired_at, run_id, skipped, manual = false }, i) => ({
      scheduled_at: formatIsoTime(scheduled_at),
      fired_at: formatIsoTime(fired_at),
      manual,
      run_id,
      run_status: runs[i]?.status ?? null,
      thread_id: runs[i]?.thread_id ?? null,
      skipped,
    }));
  }

  return {
    /**
     * Returns the next fire times of a schedule as `{ next }`, without a cron; fewer or none if it ends before. Throws
     * `invalid`.
     */
    async preview(
      _scope,
      { schedule, timezone = null, end_time, limit = DEFAULT_PREVIEW_COUNT },
    ): Promise<{ readonly next: readonly string[] }> {
      const timing = {
        ...{ schedule, timezone },
        end_time: end_time === undefined ? null : parseTime("end_time", end_time),
      };
      (await loadSchedules()).validateTiming(timing);
      return { next: await listFireTimes(timing, environment.now(), limit) };
    },

    /**
     * Returns the state, the next fire times and the newest past firings of a cron. `disabled_reason` is null unless the
     * service has disabled it. The fire times are those of the schedule, also for a disabled cron. Throws `not_found`.
     */
    async inspect(scope, cron_id) {
      const cron = await requireCron(storage, scope, cron_id);
      const { enabled, failures, metadata } = cron;
      const { disabled_reason } = metadata;
      return {
        ...{ cron_id: cron.cron_id, enabled, failures, max_failures },
        disabled_reason: !enabled && typeof disabled_reason === "string" ? disabled_reason : null,
        next: await listFireTimes(cron, environment.now(), DEFAULT_PREVIEW_COUNT),
        firings: await listFirings(scope, cron.cron_id),
      };
    },

    /**
     * Creates a run of the cron now, also of a disabled one, and then records it as a firing by hand. The schedule does not
     * change. Throws `not_found`, and what the creation of the run throws.
     */
    async run(scope, cron_id) {
      const cron = await requireCron(storage, scope, cron_id);
      const run = await runs.create(deploymentScope, cron.thread_id, toCronRunRequest(cron), toCronRunOrigin(cron));
      await storage.recordFiring(deploymentScope, {
        cron_id: cron.cron_id,
        fired_at: environment.now(),
        run_id: run.run_id,
      });
      return run;
    },
  };
}

/** Returns the next fire times after `now` as ISO texts, at most `limit`; fewer or none if the schedule ends. */
async function listFireTimes(timing: Timing, now: number, limit: number): Promise<string[]> {
  const { nextFireTime } = await loadSchedules();
  const fireTimes: string[] = [];
  for (
    let fireTime = nextFireTime(timing, now);
    fireTime !== null && fireTimes.length < limit;
    fireTime = nextFireTime(timing, fireTime)
  ) {
    fireTimes.push(formatIsoTime(fireTime));
  }
  return fireTimes;
}
