/**
 * The storage verbs of traces, feedback, usage and webhook deliveries. As those of `Storage`, each is atomic by itself, outcomes
 * are values, and times are milliseconds since 1970. Rows of the platform belong to workspaces, not to one deployment.
 */
import type { Json, JsonObject } from "../json.ts";
import type { IdempotencyKey, MultitaskStrategy, Page, Scope, TerminalStatus } from "./mod.ts";

// -------------------------------------------------------------------- traces

/** Which workspace and project a deployment's runs are billed to. */
export interface TraceTerms {
  readonly workspace_id: string;
  readonly project_id: string;
  /** False while usage reporting is switched off: the trace is never reported. */
  readonly counted: boolean;
}

/** One run whose execution has started. It outlives the run, whatever becomes of that. */
export interface TraceRow {
  /** The run's id. */
  readonly trace_id: string;
  readonly thread_id: string | null;
  readonly workspace_id: string;
  readonly project_id: string;
  readonly user_id: string | null;
  /** The short form of the API key. */
  readonly api_key: string | null;
  /** When its first attempt started. */
  readonly started_at: number;
  readonly counted: boolean;
}

/** Tokens and cost that executors have reported, summed over attempts. */
export interface TraceUsage {
  readonly tokens_in: number;
  readonly tokens_out: number;
  readonly cost_usd: number;
}

// ------------------------------------------------------------------ feedback

export interface FeedbackConfig {
  readonly type: "continuous" | "categorical" | "freeform";
  readonly min?: number;
  readonly max?: number;
  readonly categories?: readonly { readonly value: number; readonly label: string | null }[];
}

export interface FeedbackTokenRow {
  readonly token_id: string;
  readonly run_id: string;
  readonly workspace_id: string;
  readonly project_id: string;
  readonly feedback_key: string;
  readonly config: FeedbackConfig | null;
  /** Null while the run it was made with has not ended. */
  readonly expires_at: number | null;
  readonly created_at: number;
}

/** A feedback record; JSON values are as they were sent. */
export interface FeedbackRow {
  readonly id: string;
  readonly run_id: string | null;
  readonly workspace_id: string;
  readonly project_id: string;
  readonly thread_id: string | null;
  readonly key: string;
  readonly score: number | boolean | null;
  readonly value: Json;
  readonly comment: string | null;
  readonly correction: Json;
  /** `api`, `model`, `app` or `auto_eval`. */
  readonly source: string;
  readonly source_metadata: JsonObject | null;
  readonly user_id: string | null;
  /** When the run's execution started. */
  readonly run_started_at: number | null;
  readonly created_at: number;
  readonly modified_at: number;
  /** What the keyed API was sent beside: returned as it was. */
  readonly extra: JsonObject | null;
}

export type FeedbackPatch = Partial<
  Pick<FeedbackRow, "score" | "value" | "comment" | "correction" | "source_metadata">
>;

export interface FeedbackQuery {
  /** With a filter: records on runs that are there within it, and no others. */
  readonly scope?: Scope;
  readonly workspace_ids: readonly string[];
  readonly run_ids?: readonly string[];
  readonly project_ids?: readonly string[];
  readonly keys?: readonly string[];
  readonly sources?: readonly string[];
  readonly user_ids?: readonly string[];
  readonly has_comment?: boolean;
  readonly has_score?: boolean;
  /** `run`: records on runs; `session`: those on a project alone. */
  readonly level?: "run" | "session";
  /** Inclusive. */
  readonly min_created_at?: number;
  /** Inclusive. */
  readonly max_created_at?: number;
}

/** `repeated`: the idempotency key is known; `feedback_id` is what the first submission made. */
export type SubmitOutcome =
  | { readonly kind: "recorded" }
  | { readonly kind: "repeated"; readonly feedback_id: string; readonly same_body: boolean }
  | { readonly kind: "token_not_found" | "token_expired" | "token_full" };

/** Of one key. Booleans count as 0 and 1; records without a score count in `n` alone. */
export interface FeedbackStats {
  readonly key: string;
  readonly n: number;
  readonly avg: number | null;
  readonly min: number | null;
  readonly max: number | null;
  /** Text values and how often each was given. */
  readonly values: Readonly<Record<string, number>>;
}

// --------------------------------------------------------------------- usage

export type UsageGroup = "workspace" | "project" | "user" | "api_key";

/** Traces with `start <= started_at < end`, in buckets of `stride_ms` from `origin` on. */
export interface UsageQuery {
  readonly workspace_ids: readonly string[];
  readonly start: number;
  readonly end: number;
  readonly origin: number;
  readonly stride_ms: number;
  readonly group_by: UsageGroup;
}

export interface UsageRow {
  /** Number of the bucket: it starts at `origin + bucket * stride_ms`. */
  readonly bucket: number;
  /** Id of the workspace, project or user, or the short key. */
  readonly dimension: string | null;
  readonly traces: number;
}

// ------------------------------------------------------- webhook deliveries

export type DeliveryState = "pending" | "delivered" | "failed";

/** A finished run that is to be told to a URL; everything the payload needs is in the row. */
export interface DeliveryRow {
  /** The run's id: a run is told once. */
  readonly delivery_id: string;
  readonly url: string;
  /** Lower case, with its port; empty for a relative URL. */
  readonly host: string;
  readonly state: DeliveryState;
  /** Attempts that have begun, in all series. */
  readonly attempts: number;
  /** Attempts since it was made or sent again: those that have begun, without those that were said not to count. */
  readonly series_attempts: number;
  readonly due_at: number;
  /** When the first attempt began; null before. */
  readonly sent_at: number | null;
  /** How deep it stands in a chain of relative webhooks. */
  readonly depth: number;
  readonly created_at: number;
  readonly run: DeliveredRun;
}

/** The run as it ended. */
export interface DeliveredRun {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  readonly status: TerminalStatus;
  readonly metadata: JsonObject;
  readonly kwargs: JsonObject;
  readonly multitask_strategy: MultitaskStrategy;
  readonly attempt: number;
  readonly temporary: boolean;
  readonly created_at: number;
  readonly started_at: number | null;
  readonly ended_at: number;
  readonly error: JsonObject | null;
  /** The final state as JSON; null when there is none: the run never started, is temporary, or its state is too large. */
  readonly values: string | null;
  readonly values_omitted: boolean;
  /** Why it was cancelled; absent where nothing was said. */
  readonly cancel_reason?: string;
}

/** Where a run's end is to be told. */
export interface NewWebhook {
  readonly url: string;
  readonly host: string;
  readonly depth: number;
}

export interface DeliveryAttempt {
  readonly delivery_id: string;
  readonly number: number;
  readonly at: number;
  /** HTTP status of the answer, if there was one. */
  readonly status: number | null;
  /** Why it failed, a code such as `timeout` or `dns_not_public`; null when it succeeded. */
  readonly error: string | null;
  readonly duration_ms: number;
  /** The address it was sent to. */
  readonly address: string | null;
}

export interface DeliveryClaim {
  readonly token: string;
  readonly until: number;
  readonly now: number;
  readonly limit: number;
  /** Most deliveries of one host that may be under way at once, those of other claims included. */
  readonly per_host: number;
}

/** What an attempt leaves: another one at `due_at`, or none. `uncounted`: this one is none of its series. */
export type DeliveryRest =
  | { readonly state: "pending"; readonly due_at: number; readonly uncounted?: boolean }
  | { readonly state: "delivered" | "failed" };

export interface PlatformStorage {
  getTrace(run_id: string): Promise<TraceRow | null>;
  /** Traces from elsewhere: imports, tests. Known ids stay as they are. Counted as any other, in sealed hours too. */
  addTraces(traces: readonly TraceRow[]): Promise<void>;
  /** Adds to what was reported for the run; without effect when it has no trace. */
  addTraceUsage(run_id: string, usage: TraceUsage): Promise<void>;
  /** Null when the run has no trace. */
  getTraceUsage(run_id: string): Promise<TraceUsage | null>;

  /** Ordered by bucket, then by dimension in code point order, null last. Only buckets with traces. */
  countUsage(query: UsageQuery): Promise<readonly UsageRow[]>;
  /** Sums closed hours that start before `before` and are not summed yet. At most one day at a call; false when nothing is left. */
  sealUsage(before: number): Promise<boolean>;
  /** When the first counted trace started; null when there is none. */
  firstCounted(): Promise<number | null>;

  // Where the scope of a verb on feedback has a filter, only that on runs is there which the scope lets a caller see: not that on
  // a project alone, on another deployment's runs, or on those that are gone. Submitting to a token knows no filter.

  /** All or none are made. False: within the scope's filter one of the runs is not there. */
  createFeedbackTokens(scope: Scope, tokens: readonly FeedbackTokenRow[]): Promise<boolean>;
  getFeedbackToken(token_id: string): Promise<FeedbackTokenRow | null>;
  /** Oldest first, expired ones too. */
  listFeedbackTokens(
    query: { readonly workspace_ids: readonly string[]; readonly run_id: string; readonly scope?: Scope } & Page,
  ): Promise<readonly FeedbackTokenRow[]>;
  /** Records one submission to a token, with the checks of token, expiry, idempotency and `limit` in the same batch. */
  submitFeedback(
    scope: Scope,
    submission: {
      readonly token_id: string;
      readonly feedback: FeedbackRow;
      readonly idempotency?: IdempotencyKey;
      /** Most submissions on one token. */
      readonly limit: number;
      readonly now: number;
    },
  ): Promise<SubmitOutcome>;
  /** `exists`: the id is taken, by the record given. Null: within the scope's filter its run is not there. */
  createFeedback(
    feedback: FeedbackRow,
    scope?: Scope,
  ): Promise<{ readonly kind: "created" | "exists"; readonly feedback: FeedbackRow } | null>;
  getFeedback(workspace_ids: readonly string[], id: string, scope?: Scope): Promise<FeedbackRow | null>;
  updateFeedback(
    workspace_ids: readonly string[],
    id: string,
    patch: FeedbackPatch,
    now: number,
    scope?: Scope,
  ): Promise<FeedbackRow | null>;
  /** False when there was none. */
  deleteFeedback(workspace_ids: readonly string[], id: string, scope?: Scope): Promise<boolean>;
  /** Newest first, then by id. */
  listFeedback(query: FeedbackQuery & Page): Promise<readonly FeedbackRow[]>;
  /** Per key, by key. */
  feedbackStats(query: FeedbackQuery): Promise<readonly FeedbackStats[]>;

  /** Takes due deliveries, oldest first; each counts as an attempt. Those whose claim is over are due again. */
  claimDeliveries(scope: Scope, claim: DeliveryClaim): Promise<readonly DeliveryRow[]>;
  /** Records the attempt. False when the claim was lost: nothing was written. */
  finishDelivery(scope: Scope, token: string, attempt: DeliveryAttempt, rest: DeliveryRest): Promise<boolean>;
  /** When the next delivery is due that nobody has claimed; null when none waits. */
  nextDelivery(scope: Scope): Promise<number | null>;
  getDelivery(scope: Scope, delivery_id: string): Promise<DeliveryRow | null>;
  /** Newest first. */
  listDeliveries(
    scope: Scope,
    query: { readonly state?: DeliveryState; readonly run_id?: string } & Page,
  ): Promise<readonly DeliveryRow[]>;
  /** In their order. */
  listAttempts(scope: Scope, delivery_id: string): Promise<readonly DeliveryAttempt[]>;
  /** Makes it due now, with a new series of attempts. False when there is none, or an attempt is under way. */
  redeliver(scope: Scope, delivery_id: string, now: number): Promise<boolean>;
}
