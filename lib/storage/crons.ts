/** The storage operations of crons. */
import type { JsonObject } from "../json.ts";
import type { CronRow, Page, Scope, SearchPage, SortOptions } from "./rows.ts";
import type { CreatedRun, CreateRun } from "./runs.ts";

/** A cron to be stored. */
export type NewCron = Omit<CronRow, "failures" | "created_at" | "updated_at" | "revision">;

/** The members of a cron that an update sets. */
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
  /** The latest `next_run_date`, in milliseconds since 1970. */
  readonly due_by?: number;
  /** The minimum number of consecutive failures. */
  readonly failures?: number;
  readonly limit: number;
}

/** The columns that a search for crons can sort by. */
export type CronSort =
  | "cron_id"
  | "assistant_id"
  | "thread_id"
  | "next_run_date"
  | "end_time"
  | "created_at"
  | "updated_at";

/** Why a fire time created no run. `missed`: no process fired the cron in time. `superseded`: a later fire time was due, too. */
export type SkipReason = "thread_busy" | "thread_full" | "deployment_full" | "missed" | "superseded" | "refused";

/** What happened at one fire time of a cron: a run, or a skip with its reason. */
export interface CronFiring {
  readonly cron_id: string;
  readonly scheduled_at: number;
  readonly fired_at: number;
  readonly run_id: string | null;
  readonly skipped: SkipReason | null;
  /** True for a run that a caller created by hand. Absent for a fire time of the schedule. */
  readonly manual?: true;
}

/** The request to fire a cron and to create its run. */
export interface FireCron {
  readonly cron_id: string;
  /**
   * The `next_run_date` and `revision` of the row as it was read. If they differ now, another process fired or changed the cron.
   */
  readonly expected: { readonly next_run_date: number; readonly revision: number };
  readonly next_run_date: number | null;
  /** The fire times to record as skipped, oldest first. */
  readonly skipped: readonly { readonly scheduled_at: number; readonly reason: SkipReason }[];
  /** The fire time that creates a run; null if all are skipped. */
  readonly firing: { readonly scheduled_at: number; readonly run: CreateRun } | null;
  readonly now: number;
}

/**
 * `lost`: the row is not as expected, or this fire time has fired; nothing was written. `stale`: the assistant or the thread of the
 * run has changed; nothing was written. `refused`: the fire time is recorded as skipped for `reason`, and the cron continues.
 */
export type FireCronResult =
  | { readonly kind: "fired"; readonly created: CreatedRun }
  | { readonly kind: "refused"; readonly reason: SkipReason }
  | { readonly kind: "skipped" | "lost" | "stale" };

/** The storage operations of crons. */
export interface CronStorage {
  /**
   * Creates a cron. Writes nothing if the thread that it names does not exist (`thread_not_found`), or else its assistant does
   * not.
   */
  createCron(
    scope: Scope,
    cron: NewCron,
    now: number,
  ): Promise<
    { readonly kind: "created"; readonly cron: CronRow } | { readonly kind: "thread_not_found" | "assistant_not_found" }
  >;
  /** Reads a cron. Returns null if it does not exist or is not visible. */
  getCron(scope: Scope, cron_id: string): Promise<CronRow | null>;
  /** Reads one page of the visible crons that match, and the number of all matches (with `COUNT_ONLY` only the number). */
  searchCrons(scope: Scope, query: CronQuery & Page & SortOptions<CronSort>): Promise<SearchPage<CronRow>>;
  /**
   * Writes the content that `next` returns. Writes only if revision and next date are those that `next` got; after a concurrent
   * change or firing it reads the row and calls `next` again. Enabling a cron resets its failures to 0. Returns null if the cron
   * does not exist or is not visible.
   */
  updateCron(scope: Scope, cron_id: string, next: (cron: CronRow) => CronContent, now: number): Promise<CronRow | null>;
  /**
   * Deletes a cron. Returns false if it does not exist or is not visible. Deleting a thread or an assistant deletes its crons.
   */
  deleteCron(scope: Scope, cron_id: string): Promise<boolean>;
  /**
   * Reads at most `limit` enabled crons: with `due_by` those that are due by then, the longest due first; with `failures` those
   * with at least so many (and at least one) failures in a row. Ignores the filter of the scope.
   */
  listEnabledCrons(scope: Scope, query: EnabledCronQuery): Promise<readonly CronRow[]>;
  /**
   * Advances the cron and creates its run as `createRun` does, in one batch. Writes nothing if the cron is not as `fire.expected`
   * (`lost`). If the run is refused, a second batch with the same condition records the fire time as skipped. Each fire time fires
   * at most once.
   */
  fireCron(scope: Scope, fire: FireCron): Promise<FireCronResult>;
  /**
   * Records that a run of the cron was created by hand. Has no effect if the cron does not exist or has a firing at this time.
   * Idempotent.
   */
  recordFiring(
    scope: Scope,
    firing: Pick<CronFiring, "cron_id" | "fired_at"> & { readonly run_id: string },
  ): Promise<void>;
  /** Reads the firings of a cron, including those by hand, newest first. */
  listCronFirings(scope: Scope, cron_id: string, page: Page): Promise<readonly CronFiring[]>;
}
