/** The storage verbs of runs: creating, claiming, saving, ending and stopping them. */
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
import type { Suspension } from "./steps.ts";
import type { NewThread } from "./threads.ts";

/** A run to be stored. */
export interface NewRun {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  readonly graph_id: string;
  readonly metadata: JsonObject;
  readonly kwargs: JsonObject;
  readonly multitask_strategy: MultitaskStrategy;
  readonly stateless: boolean;
  /** Its frames must be stored. */
  readonly resumable: boolean;
  /** When the run is due; not before `now`. */
  readonly created_at: number;
  readonly user_id?: string | null;
  readonly api_key?: string | null;
  readonly auth_user?: JsonObject | null;
  /** The cron that creates it. */
  readonly cron_id?: string;
  /** The call that it continues. */
  readonly call_id?: string;
  /** The interrupts that it answers, by names that are unique on its thread. */
  readonly resume_targets?: readonly string[];
  readonly webhook?: NewWebhook;
  /** Who is told how the task of A2A goes on. */
  readonly push?: NewPush;
  /** Tokens created in the same batch. They are valid until `life_ms` after the end of the run. */
  readonly feedback?: {
    readonly tokens: readonly (readonly [key: string, token_id: string])[];
    readonly life_ms: number;
    readonly workspace_id: string;
    readonly project_id: string;
  };
}

/** The lease of a claim: the caller generates the token and decides how long lease and slot last. */
export interface LeaseTerms {
  readonly token: string;
  readonly lease_until: number;
  /** The name of the claiming process, for the run's `claim_log`. Default: the claim is not logged. */
  readonly worker?: string;
  /** Billing of the trace that a first attempt writes. Default: no trace. */
  readonly trace?: BillingTerms;
}

/** Which runs a worker claims, and for how long. */
export interface ClaimRequest extends LeaseTerms {
  /** Only runs of these graphs. */
  readonly graph_ids: readonly string[];
  /** How many attempts a run of a graph may have. Default: any number. */
  readonly max_attempts?: Readonly<Record<string, number>>;
  /**
   * For how long after its first start only the attempts of a graph's run count that follow the latest one with a root checkpoint.
   * Default: all count.
   */
  readonly progress_ms?: Readonly<Record<string, number>>;
  readonly now: number;
}

/** A run that a worker has claimed. */
export interface ClaimedRun {
  readonly lease: Lease;
  /** As claimed: status running, attempt already counted. */
  readonly run: RunRow;
  readonly thread: ThreadRow;
  /** This run has stored a root checkpoint in an earlier attempt. */
  readonly resumed: boolean;
  /** A stop was requested before the claim, whose previous worker died or shut down. The claim does not count as an attempt. */
  readonly cancelled: boolean;
  /** The run has had all its attempts and was claimed only to be ended. The claim does not count as an attempt. */
  readonly exhausted: boolean;
  /** Id of the newest stored frame; 0 when there is none. */
  readonly last_frame: number;
}

/** `blocked`: runs are due, but each waits for its thread. `none`: no run is due. */
export type ClaimRunResult =
  | { readonly kind: "claimed"; readonly claimed: ClaimedRun }
  | { readonly kind: "blocked" | "none" };

/** A run to be created, with its conditions. */
export interface CreateRun {
  readonly run: NewRun;
  /** What the caller read. When the assistant or the thread's metadata or config changed since, the outcome is `stale`. */
  readonly expected: { readonly assistant_revision: number; readonly thread_revision: number | null };
  /** Creates the thread in the same batch. Required when `seen.thread_revision` is null. */
  readonly create_thread?: NewThread;
  /** Written to an existing thread in the same batch; absent when nothing changes. */
  readonly update_thread?: { readonly metadata: JsonObject; readonly config: JsonObject };
  /** Claims the run in the same batch for an idle local worker, if it is due, the thread's slot is free and no run waits before it. */
  readonly claim?: LeaseTerms;
  /** Stored with the run: a second create with this route and key writes nothing. */
  readonly idempotency?: IdempotencyKey;
  /** How many runs may be pending, this one included. */
  readonly limits?: { readonly pending_per_thread: number; readonly pending: number };
  readonly now: number;
}

/**
 * A run with strategy `interrupt` or `rollback` stops every active run of its thread in the same batch: `stopped` lists them.
 * `repeated`: the idempotency key is known; `run` is null when its run was deleted. `interrupt_answered`: a pending or running run
 * of the thread answers one of `run.resume_targets`; `rollback` deletes such a run instead. `stale`: read again and retry.
 */
export type CreateRunResult =
  | (CreatedRun & { readonly kind: "created" })
  | RepeatedRun
  | { readonly kind: "thread_not_found" }
  | { readonly kind: "thread_busy" }
  | { readonly kind: "interrupt_answered"; readonly run_id: string }
  | { readonly kind: "thread_full" | "deployment_full"; readonly pending: number }
  | { readonly kind: "stale" };

/** The outcome of a create whose idempotency key is known. */
export interface RepeatedRun {
  readonly kind: "repeated";
  readonly run: RunRow | null;
  readonly same_body: boolean;
}

/** What creating a run has done. */
export interface CreatedRun {
  readonly run: RunRow;
  readonly claimed: ClaimedRun | null;
  readonly stopped: readonly StoppedRun[];
}

/**
 * `refused`: nothing was created; `index` is the first request that could not be, `outcome` why. `repeated`: the idempotency keys of
 * all requests are known.
 */
export type CreateRunsResult =
  | { readonly kind: "created"; readonly created: readonly CreatedRun[] }
  | { readonly kind: "repeated"; readonly runs: readonly (RunRow | null)[]; readonly same_body: boolean }
  | {
      readonly kind: "refused";
      readonly index: number;
      readonly result: Exclude<CreateRunResult, { readonly kind: "created" }>;
    };

/** How runs are stopped: `interrupt` keeps what they have done, `rollback` deletes them and everything they left. */
export type StopAction = "interrupt" | "rollback";

/**
 * What happened to a stopped run. `ended`: it had not started and is `interrupted` now. `flagged`: its worker will end it. `deleted`:
 * its rows are deleted; if it was running, its thread's slot stays taken until its worker releases it.
 */
export interface StoppedRun {
  readonly run_id: string;
  readonly thread_id: string;
  readonly kind: "ended" | "flagged" | "deleted";
  /** Of a run that has ended: the id of its `end` frame. */
  readonly end_frame: number | null;
  /** Of a run that was running: the token of its thread's slot. */
  readonly lock_token: string | null;
}

/** Which active runs to stop. With `thread_id`, only those of this thread. */
export interface StopTarget {
  readonly thread_id?: string;
  readonly run_ids: readonly string[];
}

/** How a run ends. */
export interface FinishRun {
  /** `run.claims` of the claim: tells this end from that of another worker when it is repeated. */
  readonly claims: number;
  readonly status: TerminalStatus;
  readonly error: JsonObject | null;
  readonly stack?: string;
  readonly result: Json;
  /** What was not saved before; empty with `discard`. */
  readonly progress: Progress;
  /** Delete the thread's checkpoints: for a stateless run that has stored some. */
  readonly discard: boolean;
  /** The thread's state after this run. `head` null keeps the present one; `status` null keeps status, interrupts and error. */
  readonly thread: {
    readonly head: string | null;
    readonly status: InactiveThreadStatus | null;
    readonly interrupts: JsonObject;
    readonly error: Json;
    /** Scalars of the state's values at the top, for searches; null when they are not known, absent where the head stays. */
    readonly scalars?: JsonObject | null;
  };
  readonly end_frame: number;
  /** For the webhook of the run: the final state as JSON, null when it is omitted. */
  readonly values?: { readonly json: string | null; readonly omitted: boolean };
  /** The features that the run uses, by name: the others send no statements. Default: all send them. */
  readonly features?: readonly FeatureName[];
  /** Tokens and cost that this attempt has reported: added to the run's trace. */
  readonly usage?: TraceUsage;
  /** The cron that created the run: its consecutive failures are counted. */
  readonly cron_id?: string;
  /** Claims the next run in the same batch, as claimRun does, but does not requeue expired leases. */
  readonly next?: ClaimRequest;
  /** Runs are known to wait for a worker slot or for their threads. Default false. */
  readonly has_waiting_runs?: boolean;
  readonly now: number;
}

/**
 * Null when the lease was lost: nothing was written. `next` is the claimed run; when it is null, `blocked` says whether runs wait for
 * their threads, if that is known.
 */
export type FinishRunResult = { readonly next: ClaimedRun | null; readonly blocked?: boolean } | null;

/** What the runs of a deployment are doing. */
export interface RunActivity {
  /** Due, and waiting. */
  readonly pending: number;
  /** To be started later. */
  readonly scheduled: number;
  readonly running: number;
  /** When the pending run that waits longest was due. */
  readonly oldest_due: number | null;
}

/** Retention: rows older than these times are deleted. A kind without a time is kept. */
export interface RetentionLimits {
  /**
   * Stateless runs that ended before, unless their frames or an idempotency key are kept; their threads are deleted too.
   * Frames are kept only if the request of the run is resumable.
   */
  readonly stateless_before?: number;
  /** Frames of runs that ended before. */
  readonly frames_before?: number;
  /** Idempotency keys made before. */
  readonly keys_before?: number;
  /** Name of a feature → rows of it older than this. `feedback`: tokens that expired; `webhooks`: deliveries that ended. */
  readonly features?: Readonly<Partial<Record<FeatureName, number>>>;
  /** Records of ticks handled before; rows of crons that were deleted with their thread or assistant too. */
  readonly firings_before?: number;
  /** Items of the store that have expired by this time. */
  readonly items_expired_by?: number;
  /** How many rows of each kind are handled at most. */
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

/** Which runs are listed. Of the times, `after` includes them, `before` does not. */
export interface RunFilter<Time> {
  readonly status?: readonly RunStatus[];
  /** A UUID; of a client, a graph id too: its default assistant. */
  readonly assistant_id?: string;
  readonly graph_id?: string;
  readonly thread_id?: string;
  readonly cron_id?: string;
  readonly user_id?: string;
  /** Members of the run's metadata: texts, numbers, booleans. */
  readonly metadata?: JsonObject;
  readonly created_after?: Time;
  readonly created_before?: Time;
  readonly started_after?: Time;
  readonly started_before?: Time;
}

/** A search over all runs. Times are milliseconds since 1970. */
export interface RunSearch extends RunFilter<number> {
  readonly run_id?: string;
  /** Only runs that come after this one in the list. */
  readonly after?: ListPosition;
  readonly limit: number;
}

/** A run as a list reads it: without the request, the result and other large members. */
export type RunHeader = Omit<RunRow, "kwargs" | "result" | "auth_user" | "feedback">;

/** A run with what is stored beside its row. */
export interface ListedRun {
  readonly run: RunHeader;
  /** Until when its worker has leased it; null while it is not running. */
  readonly lease_until: number | null;
  readonly cancel_requested: boolean;
  /** Tokens and cost that were reported; null before its first start. */
  readonly usage: TraceUsage | null;
  /** Its newest claims in their order, with the names of the claiming processes; only for operators. */
  readonly claim_log: readonly { readonly at: number; readonly worker: string }[];
}

/** Which runs `runFigures` reads: those created since these times, and all active ones. */
export interface RunTimesQuery {
  readonly counted_since: number;
  readonly timed_since: number;
  /** The limit of `times`. */
  readonly limit: number;
}

/** The times of one run. */
export type RunTimes = Pick<RunRow, "status" | "created_at" | "started_at" | "ended_at">;

/** The verbs of runs. A scope's filter applies to the threads of the runs. */
export interface RunStorage {
  /**
   * Creates a run: with its thread where that is new, its feedback tokens and its idempotency key, and claimed where `claim` is
   * given and possible. Guard: assistant, thread and limits are as `request` says; otherwise the outcome says why nothing was
   * written. Idempotent with an idempotency key (`repeated`).
   */
  createRun(scope: Scope, request: CreateRun): Promise<CreateRunResult>;
  /** The run that an idempotency key refers to, as the outcome `repeated` has it; null for a key that is not known. */
  findRepeatedRun(scope: Scope, key: IdempotencyKey): Promise<Pick<RepeatedRun, "run" | "same_body"> | null>;
  /** Creates all of these runs, as createRun does one after the other, or none of them. None may stop another run. */
  createRuns(scope: Scope, requests: readonly CreateRun[]): Promise<CreateRunsResult>;
  /**
   * Requeues runs whose lease has expired, then leases the oldest due run of the thread that is due longest and takes the slot of that
   * thread. Guard: the slot is free or expired, and no run of the thread is running. Each claim takes the next turn of its thread.
   */
  claimRun(scope: Scope, request: ClaimRequest): Promise<ClaimRunResult>;
  /**
   * Extends lease and slot, never shortens them. Guard: the lease token; null when the lease is lost. `cancelled`: a stop of the run
   * was requested. Idempotent.
   */
  renewLease(scope: Scope, lease: Lease, lease_until: number): Promise<{ readonly cancelled: boolean } | null>;
  /** Stores checkpoints, writes and frames. Guard: the lease token; false when the lease is lost: nothing was written. Idempotent. */
  saveProgress(scope: Scope, lease: Lease, progress: Progress, now: number): Promise<boolean>;
  /**
   * Ends a run in one batch: its last progress, its status, the thread's resting status, tokens, webhook, usage and slot. Guard: the
   * lease token; null when the lease is lost. A repeated call whose first one took effect, recognized by `claims`, `status`,
   * `end_frame` and `now`, writes nothing but still claims the next run.
   */
  finishRun(scope: Scope, lease: Lease, finish: FinishRun): Promise<FinishRunResult>;
  /**
   * Puts a claimed run back as pending and frees its slot, for a shut-down: the claim does not count as an attempt. Guard: the lease
   * token; false when the lease is lost.
   */
  requeueRun(scope: Scope, lease: Lease, now: number): Promise<boolean>;
  /**
   * Suspends a run: stores its progress, makes it pending until `due_at` or an event, and frees the slot. The claim does not count as an
   * attempt. Guard: the lease token; null when the lease is lost. The answer is when the run is due.
   */
  suspendRun(
    scope: Scope,
    lease: Lease,
    suspension: Suspension & { readonly progress: Progress },
    now: number,
  ): Promise<{ readonly due_at: number } | null>;
  /**
   * Frees the slot of a run that was deleted or taken over, after its executor has settled. Guard: the slot has the lease's token;
   * otherwise nothing changes. Idempotent.
   */
  releaseThreadLock(scope: Scope, lease: Lease): Promise<void>;
  /**
   * Stops active runs in one batch and returns what happened to each. Runs that have ended are not changed and not returned. An
   * `interrupt` stores `reason`, unless a stop of the run was requested before. Idempotent.
   */
  stopRuns(
    scope: Scope,
    target: StopTarget,
    action: StopAction,
    now: number,
    reason?: string,
  ): Promise<readonly StoppedRun[]>;
  /** Reads a run. Null when it does not exist or its thread is not visible. */
  getRun(scope: Scope, run_id: string): Promise<RunRow | null>;
  /** Reads runs of a thread, newest first; with `above` oldest first. Empty when the thread does not exist or is not visible. */
  listRuns(scope: Scope, thread_id: string, query: RunQuery & Page): Promise<readonly RunRow[]>;
  /**
   * Reads runs of all visible threads, stateless ones too: the newest `created_at` first, then the higher id. A call tests a bounded
   * number of rows, so it may find fewer than `limit` before the end. `next`: where to continue; null at the end.
   */
  searchRuns(
    scope: Scope,
    query: RunSearch,
  ): Promise<{ readonly rows: readonly ListedRun[]; readonly next: ListPosition | null }>;
  /** Counts visible runs by status, and reads the times of the newest, newest first. */
  readRunTimes(
    scope: Scope,
    query: RunTimesQuery,
  ): Promise<{ readonly counts: Readonly<Record<RunStatus, number>>; readonly times: readonly RunTimes[] }>;
  /**
   * Deletes a run; the thread's state does not change. Of its events only its end stays; a pending run gets one, as stopRuns leaves it.
   * Guard: the run does not execute; `running` says that nothing was deleted.
   */
  deleteRun(scope: Scope, thread_id: string, run_id: string, now: number): Promise<"deleted" | "running" | "not_found">;
  /** Reads the first stored frames with ids above `after`, in order, a bounded number at a time. Empty when there are no more. */
  readFrames(scope: Scope, run_id: string, after: number): Promise<readonly StoredFrame[]>;
  /** Counts the active runs of the deployment. */
  countActiveRuns(scope: Scope, now: number): Promise<RunActivity>;
  /** Deletes rows whose retention is over. Returns the number of handled rows: call again until it is 0. */
  deleteExpired(scope: Scope, terms: RetentionLimits): Promise<number>;
}
