/** The storage operations of runs: create, claim, save, finish and stop. */
import type { Json, JsonObject } from "../json.ts";
import type { ListPosition } from "./cursor.ts";
import type { NewPush } from "./deliveries.ts";
import type { FeatureName } from "./features.ts";
import type {
  BillingTerms,
  IdempotencyKey,
  InactiveThreadStatus,
  Lease,
  MultitaskStrategy,
  NewWebhook,
  Page,
  Progress,
  RunRow,
  RunStatus,
  Scope,
  StoredFrame,
  TerminalStatus,
  ThreadRow,
  TraceUsage,
} from "./rows.ts";
import type { RunFilter } from "./run-filter.ts";
import type { Suspension } from "./steps.ts";
import type { NewThread } from "./threads.ts";
import type { TraceEnd, TraceOrigin, TraceUpdate } from "./trace-updates.ts";

/** A run to be stored. */
export interface NewRun {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  /** The version of the assistant whose graph, config and context the run has. */
  readonly assistant_version?: number;
  readonly graph_id: string;
  readonly metadata: JsonObject;
  readonly kwargs: JsonObject;
  readonly multitask_strategy: MultitaskStrategy;
  readonly stateless: boolean;
  /** True if its frames must be stored. */
  readonly resumable: boolean;
  /** When the run is due; not before `now`. */
  readonly created_at: number;
  readonly user_id?: string | null;
  readonly api_key?: string | null;
  readonly auth_user?: JsonObject | null;
  /** The cron that creates it. */
  readonly cron_id?: string;
  /** The durable call that it continues. */
  readonly call_id?: string;
  /** The interrupts that it resumes, by names that are unique on its thread. */
  readonly resume_targets?: readonly string[];
  readonly webhook?: NewWebhook;
  /** The push configuration of its A2A task. */
  readonly push?: NewPush;
  /** The call that creates it, for its trace. */
  readonly trace_origin?: TraceOrigin;
  /** Tokens created in the same batch. They are valid until `life_ms` after the end of the run. */
  readonly feedback?: {
    readonly tokens: readonly (readonly [key: string, token_id: string])[];
    readonly life_ms: number;
    readonly workspace_id: string;
    readonly project_id: string;
  };
}

/** The lease of a claim. The caller generates the token and decides how long lease and thread lock last. */
export interface LeaseTerms {
  readonly token: string;
  readonly lease_until: number;
  /** The name of the claiming process, for the run's `claim_log`. Default: the claim is not logged. */
  readonly worker?: string;
  /** Billing of the trace that a first attempt writes. Default: no trace. */
  readonly trace?: BillingTerms;
}

/** The request of a worker to claim a run. */
export interface ClaimRequest extends LeaseTerms {
  /** Only runs of these graphs. */
  readonly graph_ids: readonly string[];
  /** The maximum number of attempts of a run, by graph. Default: no limit. */
  readonly max_attempts?: Readonly<Record<string, number>>;
  /**
   * The time after the first start, by graph, in which only attempts since the latest root checkpoint count. Default: all attempts
   * count.
   */
  readonly progress_ms?: Readonly<Record<string, number>>;
  readonly now: number;
}

/** A run that a worker has claimed. */
export interface ClaimedRun {
  readonly lease: Lease;
  /** The run after the claim, with status `running` and this attempt counted. */
  readonly run: RunRow;
  readonly thread: ThreadRow;
  /** True if an earlier attempt of this run stored a root checkpoint. */
  readonly resumed: boolean;
  /**
   * True if a stop was requested and the worker died or shut down before it ended the run. The claim does not count as an attempt.
   */
  readonly cancelled: boolean;
  /** True if the run has used all its attempts and was claimed only to be ended. The claim does not count as an attempt. */
  readonly exhausted: boolean;
  /** The id of the newest stored frame; 0 if there is none. */
  readonly last_frame: number;
}

/** `blocked`: runs are due, but each waits for its thread. `none`: no run is due. */
export type ClaimRunResult =
  | { readonly kind: "claimed"; readonly claimed: ClaimedRun }
  | { readonly kind: "blocked" | "none" };

/** A run to be created, with its conditions. */
export interface CreateRun {
  readonly run: NewRun;
  /**
   * The revisions that the caller read. If the assistant or the metadata or config of the thread changed since, the result is
   * `stale`.
   */
  readonly expected: { readonly assistant_revision: number; readonly thread_revision: number | null };
  /** Creates the thread in the same batch. Required if `expected.thread_revision` is null. */
  readonly create_thread?: NewThread;
  /** Members to write to the existing thread in the same batch. */
  readonly update_thread?: { readonly metadata: JsonObject; readonly config: JsonObject };
  /**
   * Claims the run in the same batch for an idle local worker, if it is due, the thread lock is free and no other run waits before
   * it.
   */
  readonly claim?: LeaseTerms;
  /** Stored with the run: a second create with this route and key writes nothing. */
  readonly idempotency?: IdempotencyKey;
  /** The maximum number of pending runs, including this one. */
  readonly limits?: { readonly pending_per_thread: number; readonly pending: number };
  readonly now: number;
}

/**
 * A run with strategy `interrupt` or `rollback` stops every active run of its thread in the same batch; `stopped` lists them.
 * `repeated`: the idempotency key was used before; `run` is null if its run was deleted. `interrupt_answered`: a pending or running
 * run of the thread resumes one of `run.resume_targets`; `rollback` deletes such a run instead. `stale`: read again and retry.
 */
export type CreateRunResult =
  | (CreatedRun & { readonly kind: "created" })
  | RepeatedRun
  | { readonly kind: "thread_not_found" }
  | { readonly kind: "thread_busy" }
  | { readonly kind: "interrupt_answered"; readonly run_id: string }
  | { readonly kind: "thread_full" | "deployment_full"; readonly pending: number }
  | { readonly kind: "stale" };

/** The result of a create whose idempotency key was used before. */
export interface RepeatedRun {
  readonly kind: "repeated";
  readonly run: RunRow | null;
  readonly same_body: boolean;
}

/** A created run, its claim, and the runs that it stopped. */
export interface CreatedRun {
  readonly run: RunRow;
  readonly claimed: ClaimedRun | null;
  readonly stopped: readonly StoppedRun[];
}

/**
 * `refused`: nothing was created; `index` is the first request that failed, and `result` says why. `repeated`: the idempotency keys
 * of all requests were used before.
 */
export type CreateRunsResult =
  | { readonly kind: "created"; readonly created: readonly CreatedRun[] }
  | { readonly kind: "repeated"; readonly runs: readonly (RunRow | null)[]; readonly same_body: boolean }
  | {
      readonly kind: "refused";
      readonly index: number;
      readonly result: Exclude<CreateRunResult, { readonly kind: "created" }>;
    };

/** The way to stop runs. `interrupt` keeps their state; `rollback` deletes them with everything that they stored. */
export type StopAction = "interrupt" | "rollback";

/**
 * A run that was stopped. `ended`: it had not started and is `interrupted` now. `flagged`: its worker will end it. `deleted`: its
 * rows are deleted; if it was running, the thread lock stays taken until its worker releases it.
 */
export interface StoppedRun {
  readonly run_id: string;
  readonly thread_id: string;
  readonly kind: "ended" | "flagged" | "deleted";
  /** The id of the `end` frame, if the run has ended. */
  readonly end_frame: number | null;
  /** The token of the thread lock, if the run was running. */
  readonly lock_token: string | null;
}

/** The active runs to stop. With `thread_id`, only those of this thread. */
export interface StopTarget {
  readonly thread_id?: string;
  readonly run_ids: readonly string[];
}

/** The end of a run: its status, its last progress, and the state of its thread. */
export interface FinishRun {
  /** The `run.claims` of the claim. It identifies a repeated call of the same worker. */
  readonly claims: number;
  readonly status: TerminalStatus;
  readonly error: JsonObject | null;
  readonly stack?: string;
  readonly result: Json;
  /** Progress that no earlier save stored; empty with `discard`. */
  readonly progress: Progress;
  /** Deletes the checkpoints of the thread, for a stateless run that has stored some. */
  readonly discard: boolean;
  /**
   * The state of the thread after this run. `head` null keeps the present head; `status` null keeps status, interrupts and error.
   */
  readonly thread: {
    readonly head: string | null;
    readonly status: InactiveThreadStatus | null;
    readonly interrupts: JsonObject;
    readonly error: Json;
    /** The top-level scalars of the values of the state, for searches; null if they are unknown, absent if the head stays. */
    readonly scalars?: JsonObject | null;
  };
  readonly end_frame: number;
  /** The final state as JSON for the webhook of the run; null if it is omitted. */
  readonly values?: { readonly json: string | null; readonly omitted: boolean };
  /** The names of the features that the run uses. Other features send no statements. Default: all features. */
  readonly features?: readonly FeatureName[];
  /** The tokens and cost that this attempt has reported. They are added to the trace of the run. */
  readonly usage?: TraceUsage;
  /** The end of the trace of the run. Default: no trace is stored. */
  readonly trace?: TraceEnd;
  /** The cron that created the run, whose consecutive failures are counted. */
  readonly cron_id?: string;
  /** Claims the next run in the same batch, as `claimRun` does, but does not requeue expired leases. */
  readonly next?: ClaimRequest;
  /** True if runs are known to wait for a worker slot or for their threads. Default false. */
  readonly has_waiting_runs?: boolean;
  readonly now: number;
}

/**
 * Null if the lease was lost: nothing was written. `next` is the claimed run. If it is null, `blocked` tells whether runs wait for
 * their threads, if that is known.
 */
export type FinishRunResult = { readonly next: ClaimedRun | null; readonly blocked?: boolean } | null;

/** The number of active runs of a deployment. */
export interface RunActivity {
  /** Runs that are due and wait. */
  readonly pending: number;
  /** Runs that are due later. */
  readonly scheduled: number;
  readonly running: number;
  /** When the oldest pending run was due. */
  readonly oldest_due: number | null;
}

/** The times before which retention deletes rows. A kind without a time is kept. */
export interface RetentionLimits {
  /**
   * Deletes stateless runs that ended before, with their threads, unless their frames or an idempotency key are kept. Frames are
   * kept only if the request of the run is resumable.
   */
  readonly stateless_before?: number;
  /** Deletes the frames of runs that ended before. */
  readonly frames_before?: number;
  /** Deletes idempotency keys created before. */
  readonly keys_before?: number;
  /** Deletes rows of features, by name, that are older. `feedback`: tokens that expired. `webhooks`: deliveries that ended. */
  readonly features?: Readonly<Partial<Record<FeatureName, number>>>;
  /** Deletes firings recorded before, and rows of crons that were deleted with their thread or assistant. */
  readonly firings_before?: number;
  /** Deletes items of the store that have expired by this time. */
  readonly items_expired_by?: number;
  /** The maximum number of rows of each kind in one call. */
  readonly limit: number;
  readonly now: number;
}

/** Filters and page of a list of runs. */
export interface RunQuery {
  readonly status?: RunStatus;
  /** Only runs before the one with this `seq`. */
  readonly below?: number;
  /** Only runs after it, in the order of their `seq`. */
  readonly above?: number;
}

/** A search over all runs. Times are milliseconds since 1970. */
export interface RunSearch extends RunFilter<number> {
  readonly run_id?: string;
  /** Limits the list to runs after this position. */
  readonly after?: ListPosition;
  readonly limit: number;
}

/** A run without the request, the result and other large members, as lists read it. */
export type RunHeader = Omit<RunRow, "kwargs" | "result" | "auth_user" | "feedback">;

/** A run with its lease, usage and claims. */
export interface ListedRun {
  readonly run: RunHeader;
  /** When its lease expires; null if it is not running. */
  readonly lease_until: number | null;
  readonly cancel_requested: boolean;
  /** The reported tokens and cost; null before its first start. */
  readonly usage: TraceUsage | null;
  /** Its newest claims in order, with the names of the claiming processes; only for operators. */
  readonly claim_log: readonly { readonly at: number; readonly worker: string }[];
}

/** The creation times since when `readRunTimes` reads runs. It also reads all active runs. */
export interface RunTimesQuery {
  readonly counted_since: number;
  readonly timed_since: number;
  /** The limit of `times`. */
  readonly limit: number;
}

/** The times of one run. */
export type RunTimes = Pick<RunRow, "status" | "created_at" | "started_at" | "ended_at">;

/** The storage operations of runs. The filter of a scope applies to the threads of the runs. */
export interface RunStorage {
  /**
   * Creates a run, with its thread if that is new, its feedback tokens and its idempotency key, and claims it if `claim` is set and
   * possible. Writes only if assistant, thread and limits are as `request` expects; otherwise the result says why not. Idempotent
   * with an idempotency key (`repeated`).
   */
  createRun(scope: Scope, request: CreateRun): Promise<CreateRunResult>;
  /** Finds the run that an idempotency key created, as in the result `repeated`. Returns null for an unused key. */
  findFirstRunByKey(scope: Scope, key: IdempotencyKey): Promise<Pick<RepeatedRun, "run" | "same_body"> | null>;
  /**
   * Creates all of these runs or none, each as `createRun` does. Returns the earlier runs if all idempotency keys were used
   * before, else the first refusal. None of the runs may stop another run.
   */
  createRuns(scope: Scope, requests: readonly CreateRun[]): Promise<CreateRunsResult>;
  /**
   * Requeues runs whose lease has expired, then leases the oldest due run of the thread that is due longest, and takes the lock of
   * that thread. Claims only if the lock is free or expired and no run of the thread is running. Each claim takes the next claim
   * number of its thread.
   */
  claimRun(scope: Scope, request: ClaimRequest): Promise<ClaimRunResult>;
  /**
   * Extends lease and thread lock, and never shortens them. Returns null and writes nothing if the lease is lost. `cancelled`: a
   * stop of the run was requested. Idempotent.
   */
  renewLease(scope: Scope, lease: Lease, lease_until: number): Promise<{ readonly cancelled: boolean } | null>;
  /** Stores checkpoints, pending writes, frames and events. Returns false and writes nothing if the lease is lost. Idempotent. */
  saveProgress(scope: Scope, lease: Lease, progress: Progress, now: number): Promise<boolean>;
  /**
   * Ends a run in one batch: its last progress, its status, the state of the thread, feedback tokens, webhook, usage and thread
   * lock. Returns null and writes nothing if the lease is lost. A repeated call whose first call took effect, recognized by
   * `claims`, `status`, `end_frame` and `now`, writes nothing but still claims the next run.
   */
  finishRun(scope: Scope, lease: Lease, finish: FinishRun): Promise<FinishRunResult>;
  /**
   * Makes a claimed run pending again and releases the thread lock, for a shutdown. Stores `trace`, if there is one. The claim does
   * not count as an attempt. Returns false and writes nothing if the lease is lost.
   */
  requeueRun(scope: Scope, lease: Lease, now: number, trace?: TraceUpdate): Promise<boolean>;
  /**
   * Suspends a run: stores its progress, makes it pending until `due_at` or an event, and releases the thread lock. The claim does
   * not count as an attempt. Returns when the run is due, or null if the lease is lost and nothing was written.
   */
  suspendRun(
    scope: Scope,
    lease: Lease,
    suspension: Suspension & { readonly progress: Progress },
    now: number,
  ): Promise<{ readonly due_at: number } | null>;
  /**
   * Releases the thread lock of a run that was deleted or taken over, after its executor has settled. Has no effect if the lock has
   * another token. Idempotent.
   */
  releaseThreadLock(scope: Scope, lease: Lease): Promise<void>;
  /**
   * Stops active runs in one batch and returns them. Ignores runs that have ended. An `interrupt` stores `reason`, unless a stop of
   * the run was requested before. Idempotent.
   */
  stopRuns(
    scope: Scope,
    target: StopTarget,
    action: StopAction,
    now: number,
    reason?: string,
  ): Promise<readonly StoppedRun[]>;
  /** Reads a run. Returns null if it does not exist or its thread is not visible. */
  getRun(scope: Scope, run_id: string): Promise<RunRow | null>;
  /**
   * Reads a page of the runs of a thread, newest first, or with `above` oldest first, with `status` only those with this
   * status. Returns no rows if the thread does not exist or is not visible.
   */
  listRuns(scope: Scope, thread_id: string, query: RunQuery & Page): Promise<readonly RunRow[]>;
  /**
   * Reads runs of all visible threads, including stateless runs, by falling `created_at`, then by falling id. A call tests a
   * bounded number of rows, so it may find fewer than `limit` before the end. `next` is the position to continue from, or null at
   * the end.
   */
  searchRuns(
    scope: Scope,
    query: RunSearch,
  ): Promise<{ readonly rows: readonly ListedRun[]; readonly next: ListPosition | null }>;
  /** Counts visible runs by status, and reads the times of the newest runs, newest first. */
  readRunTimes(
    scope: Scope,
    query: RunTimesQuery,
  ): Promise<{ readonly counts: Readonly<Record<RunStatus, number>>; readonly times: readonly RunTimes[] }>;
  /**
   * Deletes a run with its frames and its events except for the end, which a pending run gets now. Checkpoints of an ended run
   * stay; those that earlier attempts of a pending run stored are deleted, and the head of the thread does not change. Deletes
   * the thread of a stateless run, too, if that has no other run. Returns `running` and deletes nothing while the run executes.
   */
  deleteRun(scope: Scope, thread_id: string, run_id: string, now: number): Promise<"deleted" | "running" | "not_found">;
  /** Reads the first stored frames with ids above `after`, in order, a bounded number per call. Returns none at the end. */
  readFrames(scope: Scope, run_id: string, after: number): Promise<readonly StoredFrame[]>;
  /**
   * Counts the active runs of the deployment by status, pending ones that are not due as `scheduled`. Also returns since when
   * the oldest pending run is due, null without one.
   */
  countActiveRuns(scope: Scope, now: number): Promise<RunActivity>;
  /** Deletes rows whose retention has expired. Returns the number of rows that it handled; call it again until that is 0. */
  deleteExpired(scope: Scope, terms: RetentionLimits): Promise<number>;
}
