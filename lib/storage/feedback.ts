/** The storage operations of feedback and of feedback tokens. Their rows belong to workspaces, not to one deployment. */
import type { Json, JsonObject } from "../json.ts";
import type { ListPosition } from "./cursor.ts";
import type { IdempotencyKey, Page, Scope } from "./rows.ts";

/** The values that feedback with a key may have. */
export interface FeedbackConfig {
  readonly type: "continuous" | "categorical" | "freeform";
  readonly min?: number;
  readonly max?: number;
  readonly categories?: readonly { readonly value: number; readonly label: string | null }[];
}

/** A feedback link as stored. */
export interface FeedbackTokenRow {
  readonly token_id: string;
  readonly run_id: string;
  readonly workspace_id: string;
  readonly project_id: string;
  readonly feedback_key: string;
  readonly config: FeedbackConfig | null;
  /** Null until the run that it was created with ends. */
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
  /** Other members that the keyed API received, returned unchanged. */
  readonly extra: JsonObject | null;
}

/** The members of a feedback record that an update replaces. */
export type FeedbackPatch = Partial<
  Pick<FeedbackRow, "score" | "value" | "comment" | "correction" | "source_metadata">
>;

/** Filters and page of a search for feedback. */
export interface FeedbackQuery {
  /**
   * With a filter, only records on existing runs of its deployment that the filter permits match; else those of all deployments.
   */
  readonly scope?: Scope;
  readonly workspace_ids: readonly string[];
  readonly ids?: readonly string[];
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

/** `repeated`: the idempotency key was used before, and `feedback_id` is the record of the first submission. */
export type SubmitFeedbackResult =
  | { readonly kind: "recorded" }
  | { readonly kind: "repeated"; readonly feedback_id: string; readonly same_body: boolean }
  | { readonly kind: "token_not_found" | "token_expired" | "token_full" };

/** The summary of one feedback key. Booleans count as 0 and 1. Records without a score count only in `n`. */
export interface FeedbackStats {
  readonly key: string;
  readonly n: number;
  readonly avg: number | null;
  readonly min: number | null;
  readonly max: number | null;
  /** The number of records by text value. */
  readonly values: Readonly<Record<string, number>>;
}

/** Scores of one key in one bucket: it starts at `origin + bucket * stride_ms`. Records without a score count only in `n`. */
export interface FeedbackBucket {
  readonly key: string;
  readonly bucket: number;
  readonly n: number;
  readonly avg: number | null;
  readonly min: number | null;
  readonly max: number | null;
}

/** A feedback link and how often it was used. */
export interface FeedbackTokenUsage extends FeedbackTokenRow {
  readonly submissions: number;
}

/** The filters and page of a list of feedback tokens, sorted by creation. */
export interface FeedbackTokenQuery {
  /** If it has a filter, only tokens of runs that the filter permits match. */
  readonly scope: Scope;
  readonly workspace_ids: readonly string[];
  readonly run_id?: string;
  readonly sort_order: "asc" | "desc";
  /** Only tokens after this one in descending order. */
  readonly after?: ListPosition;
  readonly limit: number;
  readonly offset?: number;
}

/**
 * The storage operations of feedback. With a filter, they cover only feedback on visible runs: not feedback on a project alone, on
 * runs of another deployment or on deleted runs. Submitting to a token uses no filter.
 */
export interface FeedbackStorage {
  /** Creates all tokens or none. Returns false if the filter of the scope excludes one of the runs. */
  createFeedbackTokens(scope: Scope, tokens: readonly FeedbackTokenRow[]): Promise<boolean>;
  /** Reads a token, including an expired one. Returns null if it does not exist. */
  getFeedbackToken(token_id: string): Promise<FeedbackTokenRow | null>;
  /**
   * Reads tokens with their number of submissions, including expired tokens: those of a run, or else of all runs of the deployment.
   */
  listFeedbackTokens(query: FeedbackTokenQuery): Promise<readonly FeedbackTokenUsage[]>;
  /**
   * Records one submission to a token. Writes only if the token exists, has not expired and has fewer than `limit` submissions.
   * Idempotent with an idempotency key (`repeated`).
   */
  submitFeedback(
    scope: Scope,
    submission: {
      readonly token_id: string;
      readonly feedback: FeedbackRow;
      readonly idempotency?: IdempotencyKey;
      /** The maximum number of submissions to one token. */
      readonly limit: number;
      readonly now: number;
    },
  ): Promise<SubmitFeedbackResult>;
  /**
   * Creates a record. If a record has the id, it returns that with `exists`. Returns null if the filter of the scope excludes the
   * run.
   */
  createFeedback(
    feedback: FeedbackRow,
    scope?: Scope,
  ): Promise<{ readonly kind: "created" | "exists"; readonly feedback: FeedbackRow } | null>;
  /** Writes the members of `patch`. Returns null if the record does not exist or is not visible. Idempotent. */
  updateFeedback(
    workspace_ids: readonly string[],
    id: string,
    patch: FeedbackPatch,
    now: number,
    scope?: Scope,
  ): Promise<FeedbackRow | null>;
  /** Deletes a record. Returns false if it does not exist or is not visible. */
  deleteFeedback(workspace_ids: readonly string[], id: string, scope?: Scope): Promise<boolean>;
  /** Reads matching records, newest first, then by id. */
  listFeedback(query: FeedbackQuery & Page): Promise<readonly FeedbackRow[]>;
  /** Summarizes matching records per key, ordered by key. */
  feedbackStats(query: FeedbackQuery): Promise<readonly FeedbackStats[]>;
  /** Summarizes matching records per key and bucket, ordered by both. `min_created_at` must not be before `origin`. */
  feedbackBuckets(
    query: FeedbackQuery & { readonly origin: number; readonly stride_ms: number },
  ): Promise<readonly FeedbackBucket[]>;
  /** Deletes a feedback token of the deployment. Its records stay. Returns false if it does not exist or its run is not visible. */
  deleteFeedbackToken(scope: Scope, workspace_ids: readonly string[], token_id: string): Promise<boolean>;
}
