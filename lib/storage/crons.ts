/** The storage verbs of crons. */
import type { JsonObject } from "../json.ts";
import type { CronRow, Page, Scope, SearchPage, SortOptions } from "./rows.ts";
import type { CreatedRun, CreateRun } from "./runs.ts";

/** A cron to be stored. */
export type NewCron = Omit<CronRow, "failures" | "created_at" | "updated_at" | "revision">;

/** What a change of a cron may set; the rest stays. */
export type CronContent = Omit<NewCron, "cron_id" | "assistant_id" | "thread_id" | "user_id" | "auth_user">;

/** Filters and page of a search for crons. */
export interface CronQuery {
  readonly assistant_id?: string;
  readonly thread_id?: string;
  readonly enabled?: boolean;
  /** Containment. */
  readonly metadata?: JsonObject;
}

/** Filters of enabled crons. */
export interface EnabledCronQuery {
  /** Their `next_run_date` is not after this. */
  readonly due_by?: number;
  /** They have at least so many consecutive failures. */
  readonly failures?: number;
  readonly limit: number;
}

/** What crons can be sorted by. */
export type CronSort =
  | "cron_id"
  | "assistant_id"
  | "thread_id"
  | "next_run_date"
  | "end_time"
  | "created_at"
  | "updated_at";

/** Why a tick made no run. `missed`: no process fired it in time. `superseded`: a later tick was due as well. */
export type SkipReason = "thread_busy" | "thread_full" | "deployment_full" | "missed" | "superseded" | "refused";

/** One tick of a cron: a run, or the reason why there is none. */
export interface CronFiring {
  readonly cron_id: string;
  readonly scheduled_at: number;
  readonly fired_at: number;
  readonly run_id: string | null;
  readonly skipped: SkipReason | null;
  /** Fired by hand, and no tick of the schedule; absent for a tick. */
  readonly manual?: true;
}

/** One tick of a cron, and the run that it creates. */
export interface FireCron {
  readonly cron_id: string;
  /** The row's `next_run_date` and `revision` as read: another value means that another process fired it, or that it was changed. */
  readonly expected: { readonly next_run_date: number; readonly revision: number };
  readonly next_run_date: number | null;
  /** Ticks that are recorded as skipped, oldest first. */
  readonly skipped: readonly { readonly scheduled_at: number; readonly reason: SkipReason }[];
  /** The tick that makes a run; null when none does. */
  readonly firing: { readonly scheduled_at: number; readonly run: CreateRun } | null;
  readonly now: number;
}

/**
 * `lost`: the row is not as it was seen, or this tick has fired: nothing was written. `stale`: what the run was resolved from has
 * changed: nothing was written. `refused`: the tick is recorded as skipped for `reason`, and the cron continues.
 */
export type FireCronResult =
  | { readonly kind: "fired"; readonly created: CreatedRun }
  | { readonly kind: "refused"; readonly reason: SkipReason }
  | { readonly kind: "skipped" | "lost" | "stale" };

/** The verbs of crons. */
export interface CronStorage {
  /** Creates a cron. Guard: its assistant and its thread, if it has one, exist; otherwise nothing is written. */
  createCron(
    scope: Scope,
    cron: NewCron,
    now: number,
  ): Promise<
    { readonly kind: "created"; readonly cron: CronRow } | { readonly kind: "thread_not_found" | "assistant_not_found" }
  >;
  /** Reads a cron. Null when it does not exist or is not visible. */
  getCron(scope: Scope, cron_id: string): Promise<CronRow | null>;
  /** Reads one page of the visible crons that match, and the number of all matches (with `COUNT_ONLY` only the number). */
  searchCrons(scope: Scope, query: CronQuery & Page & SortOptions<CronSort>): Promise<SearchPage<CronRow>>;
  /**
   * Writes the content that `next` returns. Guard: revision and next date are those that `next` got; after a concurrent change or firing
   * the verb reads again and calls `next` again. A cron that is enabled again has no failures. Null when the cron does not exist or is
   * not visible.
   */
  updateCron(scope: Scope, cron_id: string, next: (cron: CronRow) => CronContent, now: number): Promise<CronRow | null>;
  /** Deletes a cron. False when there was none. Deleting a thread or an assistant deletes its crons. */
  deleteCron(scope: Scope, cron_id: string): Promise<boolean>;
  /** Reads enabled crons that match; with `due_by` the longest due first. */
  listEnabledCrons(scope: Scope, query: EnabledCronQuery): Promise<readonly CronRow[]>;
  /**
   * Advances the cron and creates the run of its tick as createRun does, in one batch: both or nothing. Guard: the cron is as
   * `fire.seen` says (`lost`). When the run is refused, a second batch records the tick as skipped under the same guard. A tick fires
   * at most once.
   */
  fireCron(scope: Scope, fire: FireCron): Promise<FireCronResult>;
  /** Records that a run of the cron was created by hand. No effect when the cron does not exist, or has a tick at this time. Idempotent. */
  recordFiring(
    scope: Scope,
    firing: Pick<CronFiring, "cron_id" | "fired_at"> & { readonly run_id: string },
  ): Promise<void>;
  /** Reads the ticks of a cron, and its firings by hand, newest first. */
  listCronFirings(scope: Scope, cron_id: string, page: Page): Promise<readonly CronFiring[]>;
}
