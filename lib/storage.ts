/**
 * The Storage interface: domain verbs, each atomic by itself. Outcomes that a caller must expect are values, not
 * exceptions; an exception means that the store failed and nothing of the verb took effect.
 * Rows keep the wire's field names; times are milliseconds since 1970.
 */
import type { ChannelValue, NewCheckpoint, PendingWrite, StoredCheckpoint } from "./executor.ts";
import type { Json, JsonObject } from "./json.ts";

/** Whose rows a verb may see and touch. Every verb takes one and applies it inside. */
export interface Scope {
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
  /** A stateless run's thread: only run verbs see it. */
  readonly hidden: boolean;
  /** Moves with every change of metadata or config. */
  readonly revision: number;
}

export interface NewThread {
  readonly thread_id: string;
  readonly metadata: JsonObject;
  readonly config: JsonObject;
  readonly hidden: boolean;
}

export interface ThreadQuery {
  readonly metadata?: JsonObject;
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
  /** A stateless run whose checkpoints go when it ends. */
  readonly temporary: boolean;
  readonly started_at: number | null;
  readonly ended_at: number | null;
  /** `{error, message}` of a run that failed. */
  readonly error: JsonObject | null;
  /** What wait and join answer, where the thread cannot tell: final values of a temporary run. */
  readonly result: Json;
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
}

export interface ClaimRequest extends ClaimTerms {
  /** Only runs of these graphs. */
  readonly graph_ids: readonly string[];
  readonly now: number;
}

export interface ClaimedRun {
  readonly lease: Lease;
  /** As claimed: status running, attempt already counted. */
  readonly run: RunRow;
  readonly thread: ThreadRow;
  /** This run has stored a root checkpoint in an earlier attempt. */
  readonly resumed: boolean;
  /** Somebody asked the run to stop before it was claimed: its last owner died or shut down. */
  readonly cancelled: boolean;
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
  /** An idle local worker takes the run in the same batch, if the thread's slot is free and no run waits before it. */
  readonly claim?: ClaimTerms;
  readonly now: number;
}

export type CreateRunOutcome =
  | { readonly kind: "created"; readonly run: RunRow; readonly claimed: ClaimedRun | null }
  | { readonly kind: "thread_not_found" }
  | { readonly kind: "thread_busy" }
  | { readonly kind: "stale" };

/** Checkpoints and pending writes of a run, in the order they were made. */
export interface Progress {
  readonly checkpoints: readonly SavedCheckpoint[];
  readonly writes: readonly NewWrites[];
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
  };
  readonly now: number;
}

export interface RunQuery {
  readonly status?: RunStatus;
}

// -------------------------------------------------------------------- verbs

export interface Storage {
  /**
   * Brings the schema up to date. Throws a ConfigError when the database is newer than this code, damaged or not a
   * Greenroom database. Safe to call from several processes at once.
   */
  migrate(): Promise<void>;

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
  /** Makes a stored version the active one, with everything it holds. */
  setLatest(
    scope: Scope,
    assistant_id: string,
    version: number,
    now: number,
  ): Promise<
    | { readonly kind: "updated"; readonly assistant: AssistantRow }
    | { readonly kind: "assistant_not_found" | "version_not_found" }
  >;
  /** With `delete_threads`, threads whose `metadata.assistant_id` is this assistant go too. False when there was none. */
  deleteAssistant(scope: Scope, assistant_id: string, options: { readonly delete_threads: boolean }): Promise<boolean>;
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
    next: (thread: ThreadRow) => { readonly metadata: JsonObject },
    now: number,
  ): Promise<ThreadRow | null>;
  /** Its runs, checkpoints and writes go in the same batch, running ones too: their workers lose the lease. False when there was none. */
  deleteThread(scope: Scope, thread_id: string): Promise<boolean>;

  createRun(scope: Scope, request: CreateRun): Promise<CreateRunOutcome>;
  /**
   * Takes the oldest pending run of a thread whose slot is free, oldest thread first. Runs whose lease is over are pending
   * again first, and slots whose time is over are free. At most one run of a thread is ever running.
   */
  claimRun(scope: Scope, request: ClaimRequest): Promise<ClaimOutcome>;
  /** Extends lease and slot. Null when the lease is lost; `cancelled` when somebody asked the run to stop. */
  renewLease(scope: Scope, lease: Lease, lease_until: number): Promise<{ readonly cancelled: boolean } | null>;
  /** False when the lease is lost: nothing was written. */
  saveProgress(scope: Scope, lease: Lease, progress: Progress, now: number): Promise<boolean>;
  /** Writes everything the end of a run means in one batch and frees the slot. False when the lease is lost: nothing was written. */
  finishRun(scope: Scope, lease: Lease, finish: FinishRun): Promise<boolean>;
  /** Puts a claimed run back as pending without charging the attempt, and frees its slot (shut-down). False when the lease is lost. */
  requeueRun(scope: Scope, lease: Lease, now: number): Promise<boolean>;
  /** Frees the slot of a run that is gone (deleted, taken over) once its executor has settled. No effect when the slot is another's. */
  releaseSlot(scope: Scope, lease: Lease): Promise<void>;
  /**
   * Stops a run for good: a pending one becomes `interrupted` at once, a running one is flagged for its worker, a finished one
   * stays as it is. Null when there is no such run.
   */
  cancelRun(
    scope: Scope,
    thread_id: string,
    run_id: string,
    now: number,
  ): Promise<{ readonly kind: "ended" | "flagged" | "finished" } | null>;
  getRun(scope: Scope, run_id: string): Promise<RunRow | null>;
  /** Newest first. */
  listRuns(scope: Scope, thread_id: string, query: RunQuery & Page): Promise<readonly RunRow[]>;
  /** The state stays as it is. `running`: nothing was deleted. */
  deleteRun(scope: Scope, thread_id: string, run_id: string): Promise<"deleted" | "running" | "not_found">;
  /** Deletes temporary runs that ended before `ended_before`, with their hidden threads; at most `limit`. Gives the number deleted. */
  sweepTemporary(scope: Scope, ended_before: number, limit: number): Promise<number>;

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

  /** Releases what the storage opened itself. */
  close(): Promise<void>;
}
