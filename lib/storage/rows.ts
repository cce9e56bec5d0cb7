/** The rows of the storage, and the types that the operations of several resources share. Times are milliseconds since 1970. */
import type { Json, JsonObject } from "../json.ts";
import type { TraceOrigin, TraceUpdate } from "./trace-updates.ts";
import type { Visibility } from "./visibility.ts";

/**
 * The deployment and the metadata filter that limit a storage operation. The operation applies them inside its statements, so a row
 * that the filter excludes does not exist for it. The filter is compared with the metadata of assistants, threads and crons; runs,
 * checkpoints and frames are visible with their thread. createRun and createRuns ignore the filter, because the caller has read the
 * rows that `expected` names.
 */
export interface Scope extends Visibility {
  readonly deployment: string;
}

/** The limit and offset of a page. */
export interface Page {
  readonly limit: number;
  readonly offset: number;
}

/** The column and direction in which a list is sorted. */
export interface SortOptions<Field extends string> {
  readonly sort_by: Field;
  readonly sort_order: "asc" | "desc";
}

/** The page of a search that only counts. */
export const COUNT_ONLY = { limit: 0, offset: 0, sort_by: "created_at", sort_order: "desc" } as const;

/** One page of rows, and the number of all matches. */
export interface SearchPage<Row> {
  readonly rows: readonly Row[];
  readonly total: number;
}

/** The content of a version of an assistant. */
export interface AssistantContent {
  readonly graph_id: string;
  readonly name: string;
  readonly description: string | null;
  readonly config: JsonObject;
  readonly context: JsonObject;
  readonly metadata: JsonObject;
}

/** An assistant with the configuration of its active version. */
export interface AssistantRow extends AssistantContent {
  readonly assistant_id: string;
  readonly version: number;
  readonly created_at: number;
  readonly updated_at: number;
  /** Changes with every change of the row. */
  readonly revision: number;
}

/** A version of an assistant as stored. */
export interface AssistantVersionRow extends AssistantContent {
  readonly assistant_id: string;
  readonly version: number;
  readonly created_at: number;
}

/** The status of a thread without an active run. */
export type InactiveThreadStatus = "idle" | "interrupted" | "error";

/** The status of a thread. */
export type ThreadStatus = InactiveThreadStatus | "busy";

/** A thread as stored. */
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
  /** `busy` while a run is pending or running, else the status after the last finished run. */
  readonly status: ThreadStatus;
  /** The root checkpoint of the last finished run or state update. A run changes it only when it ends. */
  readonly head: string | null;
  /** The pending interrupts after the last finished run, by task id. */
  readonly interrupts: JsonObject;
  readonly error: Json;
  /** The id of the running run. */
  readonly running: string | null;
  /**
   * The thread lock: the lease token that may execute a run of this thread, and until when. It outlives a run that was deleted
   * while it executed.
   */
  readonly lock: { readonly token: string; readonly until: number } | null;
  /** True for the thread of a stateless run. Only the operations of runs return it. */
  readonly stateless: boolean;
  /** True if its runs record events of all methods, because a client of the event protocol has opened the thread. */
  readonly records_all: boolean;
  /** What happens after the thread was inactive for `ttl_ms`; null if it never expires. */
  readonly ttl: (ThreadTtl & { readonly expires_at: number }) | null;
  /** Changes with every change of metadata, config or ttl. */
  readonly revision: number;
}

/** `delete` removes the thread, `keep_latest` all but its latest state. */
export type PruneStrategy = "delete" | "keep_latest";

/** `delete`: deletes the thread. `keep_latest`: deletes all its checkpoints except the newest state. */
export interface ThreadTtl {
  readonly strategy: PruneStrategy;
  readonly ttl_ms: number;
}

/** The status of a run that has ended. */
export type TerminalStatus = "success" | "error" | "timeout" | "interrupted";

/** The status of a run. */
export type RunStatus = "pending" | "running" | TerminalStatus;

/** The effect of a new run on a busy thread. */
export type MultitaskStrategy = "reject" | "enqueue" | "interrupt" | "rollback";

/** The destination of a run-completion webhook. */
export interface NewWebhook {
  readonly url: string;
  readonly host: string;
  readonly depth: number;
}

/** A run as stored. */
export interface RunRow {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  /** The version of the assistant that it executes. Absent in rows of older releases. */
  readonly assistant_version?: number;
  readonly graph_id: string;
  /** Order within the thread: a later run has a higher one. */
  readonly seq: number;
  /** When the run is due; in the future for a delayed run. */
  readonly created_at: number;
  readonly updated_at: number;
  readonly status: RunStatus;
  readonly metadata: JsonObject;
  readonly kwargs: JsonObject;
  readonly multitask_strategy: MultitaskStrategy;
  /** 0 before the first claim. */
  readonly attempt: number;
  /** The number of claims, including those that do not count as attempts. */
  readonly claims: number;
  /**
   * The number of its latest claim among all claims of its thread, which fences earlier claims and orders events; 0 before the
   * first claim. The wire calls it `turn`.
   */
  readonly claim_number: number;
  /** A stateless run whose checkpoints are deleted when it ends. */
  readonly stateless: boolean;
  readonly started_at: number | null;
  readonly ended_at: number | null;
  /** `{error, message}` of a run that failed. */
  readonly error: JsonObject | null;
  /** The stack of the error, for operators only. */
  readonly stack?: string;
  /** The final values of a stateless run, which wait and join return. */
  readonly result: Json;
  /**
   * True if its frames are stored and retention has not deleted them. With `resumable` in `kwargs` they are kept after the end of
   * the run.
   */
  readonly resumable: boolean;
  /**
   * The id of its `end` frame, the highest of all; null while the run is active. `feedback` and `error` come right before it, in
   * this order.
   */
  readonly end_frame: number | null;
  /** The user who created it, and the short form of the API key that was used. */
  readonly user_id: string | null;
  readonly api_key: string | null;
  /** Feedback keys and their tokens; empty without. */
  readonly feedback: readonly (readonly [key: string, token_id: string])[];
  /** The destination of the run-completion webhook. */
  readonly webhook: NewWebhook | null;
  /** The user as custom authentication returned it; only the graph gets it. */
  readonly auth_user: JsonObject | null;
  /** The cron that created it; absent without one. */
  readonly cron_id?: string;
  /** Why it was cancelled; absent when no reason was given. */
  readonly cancel_reason?: string;
  /** The durable call that it executes; absent without durable steps. */
  readonly call_id?: string;
  /** The wait of a suspended run, as shown to clients. */
  readonly waiting_for?: Json;
  /** The call that created it; absent without traces. */
  readonly trace_origin?: TraceOrigin;
}

/** The right of a worker to execute a run. Each claim has a new token, which every later write must present. */
export interface Lease {
  readonly run_id: string;
  readonly thread_id: string;
  readonly token: string;
}

/** An authenticated user, with everything that custom authentication returned. */
export interface AuthUser {
  readonly identity: string;
  readonly permissions: readonly string[];
  readonly display_name: string;
  readonly is_authenticated: boolean;
  readonly [extra: string]: Json | readonly string[];
}

/** The key that makes a repeated request return the first result. */
export interface IdempotencyKey {
  readonly route: string;
  readonly key: string;
  /** Distinguishes requests with the same key. */
  readonly body_hash: string;
}

/** The workspace and project to which the runs of a deployment are billed. */
export interface BillingTerms {
  readonly workspace_id: string;
  readonly project_id: string;
  /** False if usage reporting is disabled: the trace is never reported. */
  readonly counted: boolean;
}

/** Tokens and cost that executors have reported, summed over attempts. */
export interface TraceUsage {
  readonly tokens_in: number;
  readonly tokens_out: number;
  readonly cost_usd: number;
}

/**
 * Bytes or text as an executor encoded them. The storage does not parse them, but may store only the new elements of a `json`
 * array.
 */
export interface Payload {
  /** `json`: `data` is JSON text. Executors define all other names. */
  readonly type: string;
  readonly data: string | Uint8Array;
}

/** The serialized value of one channel. */
export interface ChannelValue extends Payload {
  readonly channel: string;
  /** Names this value: two different values of a channel in one namespace of a thread never share a version. */
  readonly version: string;
  /** The number of characters of `data` that are stored as deltas behind the last full copy. Set on values that were read. */
  readonly delta_length?: number;
  /**
   * For a list that was read: `data` without its last character, if the storage has that text. Using it avoids a copy of `data`.
   */
  readonly base?: string;
}

/** A checkpoint to be stored. */
export interface NewCheckpoint {
  readonly ns: string;
  /** Sorts as text by age; a later checkpoint of a thread is never below an earlier one. */
  readonly checkpoint_id: string;
  readonly parent_id: string | null;
  /** The data that the executor needs besides channel values. */
  readonly payload: Payload;
  /** `source`, `step`, `parents` and whatever the executor adds. Plain JSON, shown on the wire and filtered on. */
  readonly metadata: JsonObject;
  /** Every channel that has a value, with the version of that value. */
  readonly versions: Readonly<Record<string, string>>;
  /** The values whose version is new with this checkpoint; the others are stored already. */
  readonly values: readonly ChannelValue[];
}

/** A pending write of a task, to be stored. */
export interface PendingWrite extends Payload {
  readonly channel: string;
  /** The position within the task; a later write of the same (task_id, idx) replaces it. Negative for reserved channels. */
  readonly idx: number;
}

/** A pending write as it was stored. */
export interface StoredWrite extends PendingWrite {
  readonly task_id: string;
}

/** A checkpoint as it was stored. */
export interface StoredCheckpoint {
  readonly ns: string;
  readonly checkpoint_id: string;
  readonly parent_id: string | null;
  readonly run_id: string | null;
  readonly payload: Payload;
  readonly metadata: JsonObject;
  readonly versions: Readonly<Record<string, string>>;
  /** The stored values of `versions`. */
  readonly values: readonly ChannelValue[];
  /** Sorted by task_id, then idx. */
  readonly writes: readonly StoredWrite[];
  /** Milliseconds since 1970. */
  readonly created_at: number;
}

/**
 * A channel value to be stored. With `extends_version`, `data` is a JSON array of only the elements that follow the array of that
 * version.
 */
export interface SavedValue extends ChannelValue {
  readonly extends_version?: string;
}

/** A checkpoint to be stored, whose list values may be deltas of older ones. */
export interface SavedCheckpoint extends Omit<NewCheckpoint, "values"> {
  readonly values: readonly SavedValue[];
  readonly created_at: number;
}

/** Pending writes to be stored. */
export interface NewWrites {
  readonly ns: string;
  readonly checkpoint_id: string;
  readonly task_id: string;
  readonly writes: readonly PendingWrite[];
}

/** A frame to be stored. */
export interface NewFrame {
  readonly event: string;
  /** A JSON text. */
  readonly data: string;
}

/** A frame as stored. */
export interface StoredFrame extends NewFrame {
  readonly id: number;
}

/** The progress of a durable call that one save stores. */
export interface DurableCallProgress {
  readonly call_id: string;
  /** Set on the first save of an attempt: links the run to the call. With `origin` it creates the call. */
  readonly start?: { readonly graph_id: string; readonly origin?: string };
  /** Journal entries in the order of their `idx`. Storing an entry again changes nothing. */
  readonly entries: readonly StoredJournalEntry[];
  /** The waits that tokens address, by the hashes of the tokens. */
  readonly tokens?: readonly WaitToken[];
  /** JSON: the position of the function in the output that this save contains. */
  readonly position?: string;
  /** Set on the last save of an attempt: the nearest time at which the call continues by itself, or its end. */
  readonly release?: { readonly due_at: number | null; readonly ended: boolean; readonly last_event_seq: number };
}

/** A journal entry as stored. `entry` is JSON. */
export interface StoredJournalEntry {
  readonly idx: number;
  readonly entry: string;
}

/** The wait that a token addresses: the name of the event and its occurrence. */
export interface WaitToken {
  readonly token_hash: string;
  readonly name: string;
  readonly occurrence: number;
}

/** Checkpoints, pending writes and frames of a run, each in the order they were made. */
export interface Progress {
  readonly checkpoints: readonly SavedCheckpoint[];
  readonly writes: readonly NewWrites[];
  /** Frames with ids from `first_id` on, without a gap. Storing the same ones again changes nothing. */
  readonly frames?: { readonly first_id: number; readonly list: readonly NewFrame[] };
  /** Events of the thread, by rising `seq`. Storing the same ones again changes nothing. */
  readonly events?: readonly ThreadEvent[];
  /** The progress of the durable call of the run. */
  readonly call?: DurableCallProgress;
  /** The spans of the run that no earlier save stored. */
  readonly spans?: TraceUpdate;
}

/** A cron as stored. */
export interface CronRow {
  readonly cron_id: string;
  readonly assistant_id: string;
  /** Null for a stateless cron: each firing creates a thread. */
  readonly thread_id: string | null;
  /** Null for a cron of a thread. */
  readonly on_run_completed: OnRunCompleted | null;
  readonly schedule: string;
  /** An IANA name; null is UTC. */
  readonly timezone: string | null;
  /** The cron does not fire at this time or later. */
  readonly end_time: number | null;
  readonly enabled: boolean;
  /** The next fire time; null if there is none. */
  readonly next_run_date: number | null;
  /** The options of its runs, as sent. */
  readonly payload: JsonObject;
  readonly metadata: JsonObject;
  /** The user who created it: its runs are billed to this user. */
  readonly user_id: string | null;
  /** That user as custom authentication returned it, without custom fields. No response contains it. */
  readonly auth_user: JsonObject | null;
  /** Consecutive runs that ended as `error` or `timeout`. */
  readonly failures: number;
  readonly created_at: number;
  readonly updated_at: number;
  /** Changes with every change of the row except those by a firing. */
  readonly revision: number;
}

/** What happens to the thread of a firing of a stateless cron when its run ends. */
export type OnRunCompleted = "delete" | "keep";

/** The methods of thread events. The index in this list is stored, so new methods must be appended. */
export const EVENT_METHODS = [
  "lifecycle",
  "values",
  "checkpoints",
  "input.requested",
  "input.answered",
  "updates",
  "messages",
  "tools",
  "tasks",
  "custom",
] as const;

/** The method of a thread event. */
export type EventMethod = (typeof EVENT_METHODS)[number];

/** An event of a thread. */
export interface ThreadEvent {
  /** `claim_number * 2^32 + n`: the number of the claim that created it, and its number within that claim. */
  readonly seq: number;
  readonly method: EventMethod;
  readonly namespace: readonly string[];
  /** Milliseconds since 1970. */
  readonly timestamp: number;
  readonly node?: string;
  /** A JSON text. Null for `values` that only the checkpoint stores. */
  readonly data: string | null;
  /** For `values`: the checkpoint that stores them. */
  readonly checkpoint_id?: string;
  /** For `custom`: the name of the channel. */
  readonly name?: string;
}

/** A stored event with the run that made it. */
export interface StoredThreadEvent extends ThreadEvent {
  readonly run_id: string;
}

/** The number of the first event of a claim. Lower numbers belong to runs of the thread that ended outside an attempt. */
export const FIRST_EVENT_NUMBER: number = 2 ** 16;

/** The number of the event that ends a run, above all others of its claim. */
export const END_EVENT_NUMBER: number = 2 ** 32 - 1;

/** Returns the `seq` of event `n` of a claim. */
export const toEventSeq = (claim_number: number, n: number): number => claim_number * 2 ** 32 + n;
