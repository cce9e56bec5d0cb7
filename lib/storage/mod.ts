/**
 * The Storage interface: domain verbs, each atomic by itself. Outcomes that a caller must expect are values, not
 * exceptions; an exception means that the store failed and nothing of the verb took effect.
 * Rows keep the wire's field names; times are milliseconds since 1970.
 */
import type { ChannelValue, NewCheckpoint, PendingWrite, StoredCheckpoint } from "../executor/contract.ts";
import type { Json, JsonObject } from "../json.ts";
import type { CronStorage } from "./cron-storage.ts";
import type { IdentityStore } from "./identity.ts";
import type { ItemStorage } from "./item-storage.ts";
import type { NewWebhook, PlatformStorage, TraceTerms, TraceUsage } from "./platform-storage.ts";
import type { Signals } from "./signals.ts";
import type { Visibility } from "./visibility.ts";

/**
 * Whose rows a verb may see and touch. Every verb takes one and applies it inside: what the filter does not permit is not there
 * for it. The filter is held against the metadata of assistants, threads and crons; runs, checkpoints and frames are there where
 * their thread is. createRun and createRuns take none: `seen` says what the caller has found.
 */
export interface Scope extends Visibility {
  readonly deployment: string;
}

// ---------------------------------------------------------------- assistants

/** An assistant with the configuration of its active version. */
export interface AssistantRow {
  readonly assistant_id: string;
  readonly graph_id: string;
  readonly name: string;
  readonly description: string | null;
  readonly config: JsonObject;
  readonly context: JsonObject;
  readonly metadata: JsonObject;
  readonly version: number;
  readonly created_at: number;
  readonly updated_at: number;
  /** Moves with every change of the row. */
  readonly revision: number;
}

export interface AssistantVersionRow {
  readonly assistant_id: string;
  readonly version: number;
  readonly graph_id: string;
  readonly name: string;
  readonly description: string | null;
  readonly config: JsonObject;
  readonly context: JsonObject;
  readonly metadata: JsonObject;
  readonly created_at: number;
}

/** What a version holds. */
export interface AssistantContent {
  readonly graph_id: string;
  readonly name: string;
  readonly description: string | null;
  readonly config: JsonObject;
  readonly context: JsonObject;
  readonly metadata: JsonObject;
}

export interface NewAssistant extends AssistantContent {
  readonly assistant_id: string;
}

export interface AssistantQuery {
  /** Containment on `metadata`. */
  readonly metadata?: JsonObject;
  readonly graph_id?: string;
  /** Substring of the name; the case of ASCII letters does not count. */
  readonly name?: string;
}

export interface Page {
  readonly limit: number;
  readonly offset: number;
}

export interface Sorted<Field extends string> {
  readonly sort_by: Field;
  readonly sort_order: "asc" | "desc";
}

export type AssistantSort = "assistant_id" | "created_at" | "updated_at" | "name" | "graph_id";

/** One page and the number of all rows that match. */
export interface Found<Row> {
  readonly rows: readonly Row[];
  readonly total: number;
}

// ------------------------------------------------------------------- threads

export type ThreadRest = "idle" | "interrupted" | "error";
export type ThreadStatus = ThreadRest | "busy";

export interface ThreadRow {
  readonly thread_id: string;
  readonly created_at: number;
  readonly updated_at: number;
  readonly state_updated_at: number;
  readonly metadata: JsonObject;
  /** The merged configuration of the latest run, without secrets. */
  readonly config: JsonObject;
  /** The graph of the latest run; null before the first. */
  readonly graph_id: string | null;
  /** `busy` while a run is pending or running, else what the last finished run left. */
  readonly status: ThreadStatus;
  /** Root checkpoint that the last finished run (or state update) left. A run moves it only when it ends. */
  readonly head: string | null;
  /** Task id → interrupts, as the last finished run left them. */
  readonly interrupts: JsonObject;
  readonly error: Json;
  /** The run that executes now. */
  readonly running: string | null;
  /** Who may execute a run of this thread, and until when. It outlives a run that was deleted under its worker. */
  readonly slot: { readonly token: string; readonly until: number } | null;
  /** A stateless run's thread: only run verbs see it. */
  readonly hidden: boolean;
  /** What becomes of it when nothing has happened on it for so long; null: nothing. */
  readonly ttl: (ThreadTtl & { readonly expires_at: number }) | null;
  /** Moves with every change of metadata, config or ttl. */
  readonly revision: number;
}

export type PruneStrategy = "delete" | "keep_latest";

/** `delete`: the thread goes. `keep_latest`: all its checkpoints but the newest state go. */
export interface ThreadTtl {
  readonly strategy: PruneStrategy;
  readonly ttl_ms: number;
}

/** Checkpoints that no run has made, and the head they lead to. */
export interface NewState {
  /** The graph that they are of. */
  readonly graph_id: string;
  readonly progress: Progress;
  readonly head: string;
  /** Scalars of the state's values at the top, for searches. */
  readonly scalars: JsonObject;
}

export interface NewThread {
  readonly thread_id: string;
  readonly metadata: JsonObject;
  readonly config: JsonObject;
  readonly hidden: boolean;
  readonly ttl?: ThreadTtl;
  readonly state?: NewState;
}

export interface ThreadQuery {
  readonly metadata?: JsonObject;
  /** Only threads whose values may contain this: whether they do is for the caller to see. */
  readonly values?: JsonObject;
  readonly ids?: readonly string[];
  readonly status?: ThreadStatus;
}

export type ThreadSort = "thread_id" | "status" | "created_at" | "updated_at" | "state_updated_at";

// ---------------------------------------------------------------------- runs

export type TerminalStatus = "success" | "error" | "timeout" | "interrupted";
export type RunStatus = "pending" | "running" | TerminalStatus;
export type MultitaskStrategy = "reject" | "enqueue" | "interrupt" | "rollback";

export interface RunRow {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  readonly graph_id: string;
  /** Its place in the thread: a later run has a higher one. */
  readonly seq: number;
  /** In the future for a run that is to start later: it is due then. */
  readonly created_at: number;
  readonly updated_at: number;
  readonly status: RunStatus;
  readonly metadata: JsonObject;
  readonly kwargs: JsonObject;
  readonly multitask_strategy: MultitaskStrategy;
  /** 0 before the first claim. */
  readonly attempt: number;
  /** How often it was claimed: attempts, and those that a shut-down took back. */
  readonly claims: number;
  /** The turn that its latest claim took: each claim takes the next one of its thread. 0 before the first claim. */
  readonly turn: number;
  /** A stateless run whose checkpoints go when it ends. */
  readonly temporary: boolean;
  readonly started_at: number | null;
  readonly ended_at: number | null;
  /** `{error, message}` of a run that failed. */
  readonly error: JsonObject | null;
  /** What wait and join answer, where the thread cannot tell: final values of a temporary run. */
  readonly result: Json;
  /** Its frames are stored, and not swept yet. */
  readonly framed: boolean;
  /** Id of its `end` frame, the highest of all; null while it is active. `error` and before it `feedback` come right before. */
  readonly end_frame: number | null;
  /** Who made it, and the short form of the key that was used. */
  readonly user_id: string | null;
  readonly api_key: string | null;
  /** Feedback keys and the tokens made for them; empty without. */
  readonly feedback: readonly (readonly [key: string, token_id: string])[];
  /** Whom to tell of its end. */
  readonly webhook: NewWebhook | null;
  /** What custom authentication knew of who made it: the graph gets it, and nobody else. */
  readonly auth_user: JsonObject | null;
  /** The cron that has made it; absent where none has. */
  readonly cron_id?: string;
  /** Why it was cancelled; absent where nothing was said. */
  readonly cancel_reason?: string;
}

export interface NewRun {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  readonly graph_id: string;
  readonly metadata: JsonObject;
  readonly kwargs: JsonObject;
  readonly multitask_strategy: MultitaskStrategy;
  readonly temporary: boolean;
  /** Its frames are to be stored. */
  readonly framed: boolean;
  /** When it is due; not before `now`. */
  readonly created_at: number;
  readonly user_id?: string | null;
  readonly api_key?: string | null;
  readonly auth_user?: JsonObject | null;
  /** The cron that makes it. */
  readonly cron_id?: string;
  readonly webhook?: NewWebhook;
  /** Tokens made in the same batch. They are good until `life_ms` after the end of the run. */
  readonly feedback?: {
    readonly tokens: readonly (readonly [key: string, token_id: string])[];
    readonly life_ms: number;
    readonly workspace_id: string;
    readonly project_id: string;
  };
}

/** A worker's proof that it may execute a run: a fresh token per claim, carried by every later write. */
export interface Lease {
  readonly run_id: string;
  readonly thread_id: string;
  readonly token: string;
}

/** What a claim takes: the caller makes the token and says how long lease and slot last. */
export interface ClaimTerms {
  readonly token: string;
  readonly lease_until: number;
  /** A first attempt leaves a trace that is billed so. Default: none. */
  readonly trace?: TraceTerms;
}

export interface ClaimRequest extends ClaimTerms {
  /** Only runs of these graphs. */
  readonly graph_ids: readonly string[];
  /** How often a run of a graph may be started. Default: any number. */
  readonly max_attempts?: Readonly<Record<string, number>>;
  /**
   * For how long after its first start the attempts of a graph's run are counted anew from the last one that has stored a root
   * checkpoint. Default: all are counted.
   */
  readonly progress_ms?: Readonly<Record<string, number>>;
  readonly now: number;
}

export interface ClaimedRun {
  readonly lease: Lease;
  /** As claimed: status running, attempt already counted. */
  readonly run: RunRow;
  readonly thread: ThreadRow;
  /** This run has stored a root checkpoint in an earlier attempt. */
  readonly resumed: boolean;
  /** Somebody asked the run to stop before it was claimed: its last owner died or shut down. The claim charges no attempt. */
  readonly cancelled: boolean;
  /** It was started as often as it may be, and is claimed to be ended. The claim charges no attempt. */
  readonly exhausted: boolean;
  /** Id of the newest stored frame; 0 when there is none. */
  readonly last_frame: number;
}

/** `blocked`: runs are due, but each waits for its thread. `none`: no run is due. */
export type ClaimOutcome =
  | { readonly kind: "claimed"; readonly claimed: ClaimedRun }
  | { readonly kind: "blocked" | "none" };

export interface CreateRun {
  readonly run: NewRun;
  /** What the run was resolved from. If the assistant changed since, or the thread's metadata or config did, the outcome is `stale`. */
  readonly seen: { readonly assistant_revision: number; readonly thread_revision: number | null };
  /** Makes the thread in the same batch. Required when `seen.thread_revision` is null. */
  readonly create_thread?: NewThread;
  /** Written to an existing thread in the same batch; absent when nothing changes. */
  readonly update_thread?: { readonly metadata: JsonObject; readonly config: JsonObject };
  /** An idle local worker takes the run in the same batch, if it is due, the thread's slot is free and no run waits before it. */
  readonly claim?: ClaimTerms;
  /** Kept with the run: a second create with this route and key makes nothing, and changes nothing on the thread. */
  readonly idempotency?: IdempotencyKey;
  /** How many runs may be pending, this one included. */
  readonly limits?: { readonly pending_per_thread: number; readonly pending: number };
  readonly now: number;
}

export interface IdempotencyKey {
  readonly route: string;
  readonly key: string;
  /** Tells one request from another. */
  readonly body_hash: string;
}

/**
 * A run with strategy `interrupt` or `rollback` stops every active run of its thread in the same batch: `stopped` tells
 * which. `repeated`: the idempotency key is known; `run` is null when its run is gone.
 */
export type CreateRunOutcome =
  | (CreatedRun & { readonly kind: "created" })
  | { readonly kind: "repeated"; readonly run: RunRow | null; readonly same_body: boolean }
  | { readonly kind: "thread_not_found" }
  | { readonly kind: "thread_busy" }
  | { readonly kind: "thread_full" | "deployment_full"; readonly pending: number }
  | { readonly kind: "stale" };

export interface CreatedRun {
  readonly run: RunRow;
  readonly claimed: ClaimedRun | null;
  readonly stopped: readonly StoppedRun[];
}

/**
 * `refused`: nothing was made; what stood in the way of the first request that something did. `repeated`: every request's
 * idempotency key is known.
 */
export type CreateRunsOutcome =
  | { readonly kind: "created"; readonly created: readonly CreatedRun[] }
  | { readonly kind: "repeated"; readonly runs: readonly (RunRow | null)[]; readonly same_body: boolean }
  | {
      readonly kind: "refused";
      readonly index: number;
      readonly outcome: Exclude<CreateRunOutcome, { readonly kind: "created" }>;
    };

/** How runs are stopped: `interrupt` keeps what they have done, `rollback` deletes them and everything they left. */
export type StopAction = "interrupt" | "rollback";

/**
 * What became of a run that was stopped. `ended`: it had not started, and is `interrupted` now. `flagged`: its worker will end
 * it. `deleted`: its rows are gone; where it was running, its thread's slot stays taken until its worker lets go.
 */
export interface StoppedRun {
  readonly run_id: string;
  readonly thread_id: string;
  readonly kind: "ended" | "flagged" | "deleted";
  /** Of a run that has ended: the id of its `end` frame. */
  readonly end_frame: number | null;
  /** Of a run that was running: the token of its thread's slot. */
  readonly slot_token: string | null;
}

/** Which active runs to stop: some of one thread, or all of a status. */
export type StopTarget =
  | { readonly thread_id: string; readonly run_ids: readonly string[] }
  | { readonly status: "pending" | "running" | "all" };

/** Checkpoints, pending writes and frames of a run, each in the order they were made. */
export interface Progress {
  readonly checkpoints: readonly SavedCheckpoint[];
  readonly writes: readonly NewWrites[];
  /** Frames with ids from `first_id` on, without a gap. Storing the same ones again changes nothing. */
  readonly frames?: { readonly first_id: number; readonly list: readonly NewFrame[] };
}

export interface NewFrame {
  readonly event: string;
  /** One JSON text. */
  readonly data: string;
}

export interface StoredFrame extends NewFrame {
  readonly id: number;
}

/** What the checkpoints of a thread take. Bytes are those of the stored content, without indexes. */
export interface ThreadSize {
  readonly checkpoints: StoredSize;
  readonly channel_values: StoredSize & {
    readonly by_channel: Readonly<Record<string, { readonly versions: number; readonly bytes: number }>>;
  };
  readonly pending_writes: StoredSize;
}

export interface StoredSize {
  readonly count: number;
  readonly bytes: number;
}

/** A checkpoint as it is stored: its list values may be tails of older ones. */
export interface SavedCheckpoint extends Omit<NewCheckpoint, "values"> {
  readonly values: readonly SavedValue[];
  readonly created_at: number;
}

/**
 * A channel's value. With `extends_version`, `data` is what follows that version's value: both are JSON arrays, and `data`
 * holds the new elements alone, as an array.
 */
export interface SavedValue extends ChannelValue {
  readonly extends_version?: string;
}

export interface NewWrites {
  readonly ns: string;
  readonly checkpoint_id: string;
  readonly task_id: string;
  readonly writes: readonly PendingWrite[];
}

export interface FinishRun {
  /** `run.claims` of the claim: tells this end from that of another worker when it is repeated. */
  readonly claims: number;
  readonly status: TerminalStatus;
  readonly error: JsonObject | null;
  readonly result: Json;
  /** What was not saved before; with `discard` there is none. */
  readonly progress: Progress;
  /** Drop the thread's checkpoints: a temporary run that has stored some. */
  readonly discard: boolean;
  /** The thread's rest after this run. `head` null keeps the present one. */
  readonly thread: {
    readonly head: string | null;
    readonly status: ThreadRest;
    readonly interrupts: JsonObject;
    readonly error: Json;
    /** Scalars of the state's values at the top, for searches; null when they are not known, absent where the head stays. */
    readonly scalars?: JsonObject | null;
  };
  readonly end_frame: number;
  /** For the webhook of a run that has one: the final state as JSON, null when it is left out. */
  readonly values?: { readonly json: string | null; readonly omitted: boolean };
  /** False for a run without tokens and webhook, which spares looking for them. Default true. */
  readonly has_side_effects?: boolean;
  /** Tokens and cost that this attempt has reported: added to the run's trace. */
  readonly usage?: TraceUsage;
  /** The cron that has made the run: its failures in a row are counted. */
  readonly cron_id?: string;
  /** Claims the next run in the same batch, as claimRun does, but leaves leases that are over to it. */
  readonly next?: ClaimRequest;
  /** Runs are known to wait for a place, or for their threads. Default false. */
  readonly waiting?: boolean;
  readonly now: number;
}

/**
 * Null when the lease was lost: nothing was written then. `next` is the run that was claimed, if one was asked for and due; where it is
 * null, `blocked` tells whether runs wait for their threads, if that is known.
 */
export type FinishOutcome = { readonly next: ClaimedRun | null; readonly blocked?: boolean } | null;

/** What the runs of a deployment are doing. */
export interface Activity {
  /** Due, and waiting. */
  readonly pending: number;
  /** To be started later. */
  readonly scheduled: number;
  readonly running: number;
  /** When the pending run that waits longest was due. */
  readonly oldest_due: number | null;
}

/** What is no longer kept: rows older than these times go. */
export interface SweepTerms {
  /**
   * Temporary runs that ended before, unless their frames or an idempotency key are kept; their hidden threads go too. Frames are kept
   * of those alone that were asked for as resumable.
   */
  readonly temporary_before: number;
  /** Frames of runs that ended before. */
  readonly frames_before: number;
  /** Idempotency keys made before. */
  readonly keys_before: number;
  /** Feedback tokens that expired before. */
  readonly tokens_before: number;
  /** Webhook deliveries that have come to their end, made before. */
  readonly deliveries_before: number;
  /** How many runs are handled at most. */
  readonly limit: number;
  readonly now: number;
}

export interface RunQuery {
  readonly status?: RunStatus;
}

// -------------------------------------------------------------------- verbs

export interface Storage extends PlatformStorage, CronStorage, ItemStorage {
  /** The accounts that are kept beside. */
  readonly identity: IdentityStore;
  /** The process that becomeWorker has told true is the only one, whatever the clocks say: nobody takes up its runs while it lives. */
  readonly single_process: boolean;
  /** Several processes may execute on this database: what readers in another one are to see is stored. */
  readonly multi_process?: boolean;
  /** Wake-ups from and to the other processes that share the database; absent where there are none. */
  readonly signals?: Signals;
  /** Where reads may be behind what other processes have written: those that begin afterwards see all that was answered before. */
  refresh?(): void;
  /** Milliseconds since 1970 by the database's clock, where processes with clocks of their own share it: leases are reckoned by it. */
  now?(): Promise<number>;
  /**
   * Brings the schema up to date. Throws a ConfigError when the database is newer than this code, damaged or not a
   * Greenroom database. Safe to call from several processes at once.
   */
  migrate(): Promise<void>;
  /**
   * Whether this process may execute runs. On a database whose processes share the work by leases: always. On an embedded
   * file one process executes and others only serve requests; when this one takes over from a process that is dead, every run
   * that was executing is pending again, every slot is free and no webhook waits for what that process was sending, all before the
   * answer. Cheap to ask again.
   */
  becomeWorker(now: number): Promise<boolean>;
  /**
   * Writes, to know that writing works, after a failed batch as many bytes as that had. Rejects when it does not work.
   */
  probe(now: number): Promise<void>;
  /** Why writes fail: from a batch that found no room, or a damaged or unwritable file, until a `probe` succeeds. Else null. */
  failure?(): string | null;

  createAssistant(
    scope: Scope,
    assistant: NewAssistant,
    now: number,
  ): Promise<{ readonly kind: "created" | "exists"; readonly assistant: AssistantRow }>;
  getAssistant(scope: Scope, assistant_id: string): Promise<AssistantRow | null>;
  searchAssistants(scope: Scope, query: AssistantQuery & Page & Sorted<AssistantSort>): Promise<Found<AssistantRow>>;
  countAssistants(scope: Scope, query: AssistantQuery): Promise<number>;
  /**
   * Adds a version (highest + 1) with what `next` makes of the active one, and makes it active. `next` may be called again
   * when another change came first. Null when there is no such assistant.
   */
  updateAssistant(
    scope: Scope,
    assistant_id: string,
    next: (active: AssistantRow) => AssistantContent,
    now: number,
  ): Promise<AssistantRow | null>;
  /** Makes a stored version the active one, with everything it holds. `out_of_reach`: the scope's filter does not permit its metadata. */
  setLatest(
    scope: Scope,
    assistant_id: string,
    version: number,
    now: number,
  ): Promise<
    | { readonly kind: "updated"; readonly assistant: AssistantRow }
    | { readonly kind: "assistant_not_found" | "version_not_found" | "out_of_reach" }
  >;
  /**
   * With `delete_threads`, threads whose `metadata.assistant_id` is this assistant go too, those within `threads`. False when there
   * was none.
   */
  deleteAssistant(
    scope: Scope,
    assistant_id: string,
    options: { readonly delete_threads: boolean; readonly threads?: Visibility },
  ): Promise<boolean>;
  /** Newest version first. Null when there is no such assistant. */
  listAssistantVersions(
    scope: Scope,
    assistant_id: string,
    query: { readonly metadata?: JsonObject } & Page,
  ): Promise<readonly AssistantVersionRow[] | null>;

  createThread(
    scope: Scope,
    thread: NewThread,
    now: number,
  ): Promise<{ readonly kind: "created" | "exists"; readonly thread: ThreadRow }>;
  /** Hidden threads too. */
  getThread(scope: Scope, thread_id: string): Promise<ThreadRow | null>;
  /** Hidden threads are left out. */
  searchThreads(scope: Scope, query: ThreadQuery & Page & Sorted<ThreadSort>): Promise<Found<ThreadRow>>;
  countThreads(scope: Scope, query: ThreadQuery): Promise<number>;
  /** `next` as in updateAssistant. Null when there is no such thread. */
  updateThread(
    scope: Scope,
    thread_id: string,
    next: (thread: ThreadRow) => { readonly metadata: JsonObject; readonly ttl?: ThreadTtl | null },
    now: number,
  ): Promise<ThreadRow | null>;
  /** Its runs, checkpoints and writes go in the same batch, running ones too: their workers lose the lease. False when there was none. */
  deleteThread(scope: Scope, thread_id: string): Promise<boolean>;

  /** `stale`: the head is not the one that was seen. Nothing is written then, nor while a run is active. */
  writeState(
    scope: Scope,
    thread_id: string,
    state: NewState & { readonly seen_head: string | null },
    now: number,
  ): Promise<"written" | "busy" | "stale" | "not_found">;
  /** Merges this into a checkpoint's metadata, shallowly. False when there is no such checkpoint. */
  annotateCheckpoint(
    scope: Scope,
    thread_id: string,
    at: { readonly ns: string; readonly checkpoint_id: string },
    metadata: JsonObject,
  ): Promise<boolean>;
  /**
   * A thread of its own with the state of another and all its checkpoints; runs stay behind, and what those that are active have
   * stored. `stale`: it is not as it was seen.
   */
  copyThread(
    scope: Scope,
    copy: {
      readonly from: string;
      readonly seen_revision: number;
      readonly thread_id: string;
      readonly metadata: JsonObject;
    },
    now: number,
  ): Promise<
    { readonly kind: "copied"; readonly thread: ThreadRow } | { readonly kind: "stale" | "not_found" | "exists" }
  >;
  /** Threads that are not there or have an active run are left alone. Gives those that were pruned. */
  pruneThreads(
    scope: Scope,
    thread_ids: readonly string[],
    strategy: PruneStrategy,
    now: number,
  ): Promise<readonly string[]>;
  /** Prunes threads whose time is over; those with an active run wait. Gives them: call again while there are any. */
  expireThreads(scope: Scope, now: number, limit: number): Promise<readonly string[]>;

  createRun(scope: Scope, request: CreateRun): Promise<CreateRunOutcome>;
  /** Makes all of these runs, as createRun does one after the other, or none of them. None may stop another one. */
  createRuns(scope: Scope, requests: readonly CreateRun[]): Promise<CreateRunsOutcome>;
  /**
   * Takes the oldest pending run of a thread whose slot is free, oldest thread first. Runs whose lease is over are pending
   * again first, and slots whose time is over are free. At most one run of a thread is ever running.
   */
  claimRun(scope: Scope, request: ClaimRequest): Promise<ClaimOutcome>;
  /** Extends lease and slot. Null when the lease is lost; `cancelled` when somebody asked the run to stop. */
  renewLease(scope: Scope, lease: Lease, lease_until: number): Promise<{ readonly cancelled: boolean } | null>;
  /** False when the lease is lost: nothing was written. */
  saveProgress(scope: Scope, lease: Lease, progress: Progress, now: number): Promise<boolean>;
  /**
   * Writes everything the end of a run means in one batch and frees the slot. Called again after an end that took effect unseen, known by
   * `claims`, `status`, `end_frame` and `now`, it still claims the next run.
   */
  finishRun(scope: Scope, lease: Lease, finish: FinishRun): Promise<FinishOutcome>;
  /** Puts a claimed run back as pending without charging the attempt, and frees its slot (shut-down). False when the lease is lost. */
  requeueRun(scope: Scope, lease: Lease, now: number): Promise<boolean>;
  /** Frees the slot of a run that is gone (deleted, taken over) once its executor has settled. No effect when the slot is another's. */
  releaseSlot(scope: Scope, lease: Lease): Promise<void>;
  /**
   * Stops active runs, in one batch. Runs that have ended stay as they are and are not in the answer. `reason` is kept on runs
   * that an interrupt stops, unless they were being stopped before.
   */
  stopRuns(
    scope: Scope,
    target: StopTarget,
    action: StopAction,
    now: number,
    reason?: string,
  ): Promise<readonly StoppedRun[]>;
  getRun(scope: Scope, run_id: string): Promise<RunRow | null>;
  /** Newest first. */
  listRuns(scope: Scope, thread_id: string, query: RunQuery & Page): Promise<readonly RunRow[]>;
  /** The state stays as it is. `running`: nothing was deleted. */
  deleteRun(scope: Scope, thread_id: string, run_id: string): Promise<"deleted" | "running" | "not_found">;
  /** Runs of a thread with a higher `seq`, in their order. */
  listRunsAfter(scope: Scope, thread_id: string, seq: number, limit: number): Promise<readonly RunRow[]>;
  /** The first stored frames with ids above `after`, in order; not all of them at once. Empty when there are none. */
  readFrames(scope: Scope, run_id: string, after: number): Promise<readonly StoredFrame[]>;
  activity(scope: Scope, now: number): Promise<Activity>;
  /** Deletes what is no longer kept. Gives the number of rows that were handled: call again while it is not 0. */
  sweep(scope: Scope, terms: SweepTerms): Promise<number>;

  /**
   * One checkpoint with its values and pending writes. Without `checkpoint_id` the newest of the namespace, with `run_id` the
   * newest of that run there. Null when there is none.
   */
  getCheckpoint(
    scope: Scope,
    thread_id: string,
    at: { readonly ns: string; readonly checkpoint_id?: string; readonly run_id?: string },
  ): Promise<StoredCheckpoint | null>;
  /** Newest first. `before`: only those stored before that checkpoint. `metadata`: containment. Without `ns`: all namespaces. */
  listCheckpoints(
    scope: Scope,
    thread_id: string,
    query: { readonly ns?: string; readonly before?: string; readonly metadata?: JsonObject; readonly limit: number },
  ): Promise<readonly StoredCheckpoint[]>;

  /** How many rows the checkpoints of a thread take, and how many bytes as they are stored; all 0 where there is no such thread. */
  measureThread(scope: Scope, thread_id: string): Promise<ThreadSize>;

  /** Releases what the storage opened itself. */
  close(): Promise<void>;
}
