/** The storage verbs of crons. As those of `Storage`, each is atomic by itself, outcomes are values, times are milliseconds since 1970. */
import type { JsonObject } from "../json.ts";
import type { CreatedRun, CreateRun, Found, Page, Scope, Sorted } from "./mod.ts";

/** What becomes of the thread that a firing of a stateless cron has made. */
export type OnRunCompleted = "delete" | "keep";

export interface CronRow {
  readonly cron_id: string;
  readonly assistant_id: string;
  /** Null for a stateless cron: each firing makes a thread of its own. */
  readonly thread_id: string | null;
  /** Null for a cron of a thread. */
  readonly on_run_completed: OnRunCompleted | null;
  readonly schedule: string;
  /** An IANA name; null is UTC. */
  readonly timezone: string | null;
  /** It does not fire at this time or later. */
  readonly end_time: number | null;
  readonly enabled: boolean;
  /** When it fires next; null when it does not. */
  readonly next_run_date: number | null;
  /** The options of its runs, as sent. */
  readonly payload: JsonObject;
  readonly metadata: JsonObject;
  /** Who made it: its runs are billed to them. */
  readonly user_id: string | null;
  /** What custom authentication knew of them, without extras. Never shown. */
  readonly auth_user: JsonObject | null;
  /** Its runs in a row that ended as `error` or `timeout`. */
  readonly failures: number;
  readonly created_at: number;
  readonly updated_at: number;
  /** Moves with every change of the row but those that firing makes. */
  readonly revision: number;
}

export type NewCron = Omit<CronRow, "failures" | "created_at" | "updated_at" | "revision">;

/** What a change of a cron may set; the rest stays. */
export type CronContent = Omit<NewCron, "cron_id" | "assistant_id" | "thread_id" | "user_id" | "auth_user">;

export interface CronQuery {
  readonly assistant_id?: string;
  readonly thread_id?: string;
  readonly enabled?: boolean;
  /** Containment. */
  readonly metadata?: JsonObject;
}

export type CronSort =
  | "cron_id"
  | "assistant_id"
  | "thread_id"
  | "next_run_date"
  | "end_time"
  | "created_at"
  | "updated_at";

/** Why a tick made no run. `missed`: nobody was there to fire it in time. `superseded`: a later one was due as well. */
export type SkipReason = "thread_busy" | "thread_full" | "deployment_full" | "missed" | "superseded" | "refused";

/** One tick of a cron: a run, or the reason why there is none. */
export interface CronFiring {
  readonly cron_id: string;
  readonly scheduled_at: number;
  readonly fired_at: number;
  readonly run_id: string | null;
  readonly skipped: SkipReason | null;
}

export interface FireCron {
  readonly cron_id: string;
  /** The row's `next_run_date` and `revision` as read: another value means that somebody else was faster, or that it was changed. */
  readonly seen: { readonly next_run_date: number; readonly revision: number };
  readonly next_run_date: number | null;
  /** Ticks that are recorded as skipped, oldest first. */
  readonly skipped: readonly { readonly scheduled_at: number; readonly reason: SkipReason }[];
  /** The tick that makes a run; null when none does. */
  readonly firing: { readonly scheduled_at: number; readonly run: CreateRun } | null;
  readonly now: number;
}

/**
 * `lost`: the row is not as it was seen, or this tick has fired: nothing was written. `stale`: what the run was resolved from has
 * changed: nothing was written. `refused`: the tick is recorded as skipped for `reason`, and the cron goes on.
 */
export type FireOutcome =
  | { readonly kind: "fired"; readonly created: CreatedRun }
  | { readonly kind: "refused"; readonly reason: SkipReason }
  | { readonly kind: "skipped" | "lost" | "stale" };

export interface CronStorage {
  /** `thread_not_found`, `assistant_not_found`: what it is to fire on is not there. */
  createCron(
    scope: Scope,
    cron: NewCron,
    now: number,
  ): Promise<
    { readonly kind: "created"; readonly cron: CronRow } | { readonly kind: "thread_not_found" | "assistant_not_found" }
  >;
  getCron(scope: Scope, cron_id: string): Promise<CronRow | null>;
  searchCrons(scope: Scope, query: CronQuery & Page & Sorted<CronSort>): Promise<Found<CronRow>>;
  countCrons(scope: Scope, query: CronQuery): Promise<number>;
  /**
   * `next` may be called again when another change, or a firing, came first. A cron that is enabled again has no failures. Null
   * when there is no such cron.
   */
  updateCron(scope: Scope, cron_id: string, next: (cron: CronRow) => CronContent, now: number): Promise<CronRow | null>;
  /** False when there was none. Crons of a thread and of an assistant go with these. */
  deleteCron(scope: Scope, cron_id: string): Promise<boolean>;
  /** Enabled crons whose `next_run_date` is not after `now`, the longest due first. */
  dueCrons(scope: Scope, now: number, limit: number): Promise<readonly CronRow[]>;
  /** The nearest `next_run_date` of an enabled cron; null when there is none. */
  nextCronAt(scope: Scope): Promise<number | null>;
  /** Enabled crons with at least so many failures in a row. */
  failingCrons(scope: Scope, failures: number, limit: number): Promise<readonly CronRow[]>;
  /**
   * Advances the cron and makes the run of its tick as createRun does, in one batch: both, or nothing. What refuses the run is
   * found after it, and recorded in a second one where the cron is still as it was seen. Each tick of a cron fires once at most.
   */
  fireCron(scope: Scope, fire: FireCron): Promise<FireOutcome>;
  /** Newest first. */
  listCronFirings(scope: Scope, cron_id: string, page: Page): Promise<readonly CronFiring[]>;
  /**
   * Deletes records of ticks that were handled before this time, and what crons have left that went with their thread or
   * assistant. Gives the number of rows: call again while it is not 0.
   */
  sweepCrons(scope: Scope, before: number, limit: number): Promise<number>;
}
