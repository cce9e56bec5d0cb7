/** The data that storage keeps: rows as callers see them, and what the verbs of several nouns share. Times are milliseconds since 1970. */
import type { Json, JsonObject } from "../json.ts";
import type { Visibility } from "./visibility.ts";

/**
 * Which rows a verb may read and change. The verb applies it inside its statements: rows that the filter does not permit do not exist
 * for it. The filter is compared with the metadata of assistants, threads and crons; runs, checkpoints and frames are visible with
 * their thread. createRun and createRuns ignore the filter: the caller has read what `seen` names.
 */
export interface Scope extends Visibility {
  readonly deployment: string;
}

/** A part of a list. */
export interface Page {
  readonly limit: number;
  readonly offset: number;
}

/** How a list is sorted. */
export interface SortOptions<Field extends string> {
  readonly sort_by: Field;
  readonly sort_order: "asc" | "desc";
}

/** The page of a search that only counts. */
export const COUNT_ONLY = { limit: 0, offset: 0, sort_by: "created_at", sort_order: "desc" } as const;

/** One page and the number of all rows that match. */
export interface SearchPage<Row> {
  readonly rows: readonly Row[];
  readonly total: number;
}

/** The content of a version. */
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
  /** `busy` while a run is pending or running, else the resting status that the last finished run left. */
  readonly status: ThreadStatus;
  /** Root checkpoint that the last finished run (or state update) left. A run moves it only when it ends. */
  readonly head: string | null;
  /** Task id → interrupts, as the last finished run left them. */
  readonly interrupts: JsonObject;
  readonly error: Json;
  /** The running run. */
  readonly running: string | null;
  /** The lease token that may execute a run of this thread, and until when. It outlives a run that was deleted while it executed. */
  readonly lock: { readonly token: string; readonly until: number } | null;
  /** The thread of a stateless run: only the verbs of runs show it. */
  readonly stateless: boolean;
  /** Its runs record events of all methods: a client of the event protocol has opened it. */
  readonly records_all: boolean;
  /** What happens when the thread was inactive for `ttl_ms`; null: nothing. */
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

/** What a new run does on a thread that is busy. */
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
  /** How often it was claimed, also by claims that do not count as attempts. */
  readonly claims: number;
  /** The turn that its latest claim took: each claim takes the next one of its thread. 0 before the first claim. */
  readonly claim_number: number;
  /** A stateless run whose checkpoints are deleted when it ends. */
  readonly stateless: boolean;
  readonly started_at: number | null;
  readonly ended_at: number | null;
  /** `{error, message}` of a run that failed. */
  readonly error: JsonObject | null;
  /** The stack of the error, for operators alone. */
  readonly stack?: string;
  /** The answer of wait and join for a stateless run: its final values. */
  readonly result: Json;
  /** Its frames are stored, and retention has not deleted them. `resumable` in `kwargs`: they are kept after the end of the run. */
  readonly resumable: boolean;
  /** Id of its `end` frame, the highest of all; null while it is active. `error` and before it `feedback` come right before. */
  readonly end_frame: number | null;
  /** The user who created it, and the short form of the API key that was used. */
  readonly user_id: string | null;
  readonly api_key: string | null;
  /** Feedback keys and their tokens; empty without. */
  readonly feedback: readonly (readonly [key: string, token_id: string])[];
  /** Where to send the run-completion webhook. */
  readonly webhook: NewWebhook | null;
  /** The user as custom authentication returned it; only the graph gets it. */
  readonly auth_user: JsonObject | null;
  /** The cron that created it; absent without one. */
  readonly cron_id?: string;
  /** Why it was cancelled; absent when no reason was given. */
  readonly cancel_reason?: string;
  /** The call that it executes; absent without durable steps. */
  readonly call_id?: string;
  /** What a suspended run waits for. */
  readonly waiting_for?: Json;
}

/** A worker's proof that it may execute a run: a fresh token per claim, carried by every later write. */
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

/** Makes a repeated request return the first result. */
export interface IdempotencyKey {
  readonly route: string;
  readonly key: string;
  /** Distinguishes requests with the same key. */
  readonly body_hash: string;
}

/** Which workspace and project a deployment's runs are billed to. */
export interface BillingTerms {
  readonly workspace_id: string;
  readonly project_id: string;
  /** False while usage reporting is switched off: the trace is never reported. */
  readonly counted: boolean;
}

/** Tokens and cost that executors have reported, summed over attempts. */
export interface TraceUsage {
  readonly tokens_in: number;
  readonly tokens_out: number;
  readonly cost_usd: number;
}

/** Bytes or text as an executor encoded them. The store never looks inside, but may store a `json` array as its tail. */
export interface Payload {
  /** `json`: `data` is JSON text. Every other name is the executor's own. */
  readonly type: string;
  readonly data: string | Uint8Array;
}

/** The serialized value of one channel. */
export interface ChannelValue extends Payload {
  readonly channel: string;
  /** Names this value: two different values of a channel in one namespace of a thread never share a version. */
  readonly version: string;
  /** Of a value that was read: how much of `data` (in characters) is stored as tails behind its last whole copy. */
  readonly delta_length?: number;
  /** Of a list that was read: `data` without its last character, where that is at hand. Reading `data` then copies it. */
  readonly base?: string;
}

/** A checkpoint to be stored. */
export interface NewCheckpoint {
  readonly ns: string;
  /** Sorts as text by age; a later checkpoint of a thread is never below an earlier one. */
  readonly checkpoint_id: string;
  readonly parent_id: string | null;
  /** What the executor needs besides channel values. */
  readonly payload: Payload;
  /** `source`, `step`, `parents` and whatever the executor adds. Plain JSON, shown on the wire and filtered on. */
  readonly metadata: JsonObject;
  /** Every channel that has a value, with the version of that value. */
  readonly versions: Readonly<Record<string, string>>;
  /** The values whose version is new with this checkpoint; the others are stored already. */
  readonly values: readonly ChannelValue[];
}

/** One pending write of a task. */
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
  /** One per entry of `versions` that is stored. */
  readonly values: readonly ChannelValue[];
  /** Sorted by task_id, then idx. */
  readonly writes: readonly StoredWrite[];
  /** Milliseconds since 1970. */
  readonly created_at: number;
}

/**
 * A channel's value. With `extends_version`, `data` is what follows that version's value: both are JSON arrays, and `data`
 * holds the new elements alone, as an array.
 */
export interface SavedValue extends ChannelValue {
  readonly extends_version?: string;
}

/** A checkpoint as it is stored: its list values may be tails of older ones. */
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
  /** One JSON text. */
  readonly data: string;
}

/** A frame as stored. */
export interface StoredFrame extends NewFrame {
  readonly id: number;
}

/** What a save adds to a call. */
export interface DurableCallProgress {
  readonly call_id: string;
  /** The first save of an attempt: the run belongs to the call, and has made progress. `origin` creates the call. */
  readonly start?: { readonly graph_id: string; readonly origin?: string };
  /** In the order of their `idx`. `entry` is JSON. Storing the same ones again changes nothing. */
  readonly entries: readonly StoredJournalEntry[];
  /** Addresses of events, by the hashes of their tokens. */
  readonly tokens?: readonly WaitToken[];
  /** JSON: how far the function was with what this save has shown. */
  readonly position?: string;
  /** How the attempt leaves the call: the nearest time at which it continues by itself, or its end. */
  readonly release?: { readonly due_at: number | null; readonly ended: boolean; readonly last_event_seq: number };
}

/** An entry of a journal. */
export interface StoredJournalEntry {
  readonly idx: number;
  readonly entry: string;
}

/** The address of an event for one wait. */
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
  /** What the run adds to its call. */
  readonly call?: DurableCallProgress;
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
  /** It does not fire at this time or later. */
  readonly end_time: number | null;
  readonly enabled: boolean;
  /** When it fires next; null when it does not. */
  readonly next_run_date: number | null;
  /** The options of its runs, as sent. */
  readonly payload: JsonObject;
  readonly metadata: JsonObject;
  /** The user who created it: its runs are billed to this user. */
  readonly user_id: string | null;
  /** That user as custom authentication returned it, without extras. Never shown. */
  readonly auth_user: JsonObject | null;
  /** Consecutive runs that ended as `error` or `timeout`. */
  readonly failures: number;
  readonly created_at: number;
  readonly updated_at: number;
  /** Changes with every change of the row except those by a firing. */
  readonly revision: number;
}

/** What happens to the thread that a stateless cron's firing has created. */
export type OnRunCompleted = "delete" | "keep";

/** The methods of thread events. The place in this list is stored: only append. */
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
  /** `turn * 2^32 + n`: the turn of the claim that made it, and its number within that claim. */
  readonly seq: number;
  readonly method: EventMethod;
  readonly namespace: readonly string[];
  /** Milliseconds since 1970. */
  readonly timestamp: number;
  readonly node?: string;
  /** One JSON text. Null for `values` that are stored in the checkpoint alone. */
  readonly data: string | null;
  /** Of `values`: the checkpoint that holds them. */
  readonly checkpoint_id?: string;
  /** Of `custom`: the name of its channel. */
  readonly name?: string;
}

/** A stored event with the run that made it. */
export interface StoredThreadEvent extends ThreadEvent {
  readonly run_id: string;
}

/** The first event of a turn. Lower numbers belong to runs of the thread that ended outside an attempt. */
export const FIRST_EVENT_NUMBER: number = 2 ** 16;

/** The event that ends a run, above all others of its turn. */
export const END_EVENT_NUMBER: number = 2 ** 32 - 1;

/** The `seq` of event `n` of a turn. */
export const toEventSeq = (claim_number: number, n: number): number => claim_number * 2 ** 32 + n;
