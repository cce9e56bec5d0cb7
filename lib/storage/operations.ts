/** The storage verbs that look at all runs of a deployment, and at its feedback as a whole. They only read, but for one. */
import type { JsonObject } from "../json.ts";
import type { FeedbackQuery, FeedbackTokenRow } from "./feedback.ts";
import type { RunRow, RunStatus, Scope, TraceUsage } from "./rows.ts";

/** The place of a row in a list that is sorted by its creation. */
export interface ListPosition {
  readonly created_at: number;
  readonly id: string;
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

/** A run as a list reads it: without the request, the result and what else may be large. */
export type RunHead = Omit<RunRow, "kwargs" | "result" | "auth_user" | "feedback">;

/** A run with what is stored beside its row. */
export interface ListedRun {
  readonly run: RunHead;
  /** Until when its worker has leased it; null while it is not running. */
  readonly lease_until: number | null;
  readonly cancel_requested: boolean;
  /** Tokens and cost that were reported; null before its first start. */
  readonly usage: TraceUsage | null;
  /** Its newest claims in their order, with the names of the claiming processes; for operators alone. */
  readonly claim_log: readonly { readonly at: number; readonly worker: string }[];
}

/** The times of one run. */
export interface RunTimes {
  readonly status: RunStatus;
  readonly created_at: number;
  readonly started_at: number | null;
  readonly ended_at: number | null;
}

/** Scores of one key in one bucket: it starts at `origin + bucket * stride_ms`. Records without a score count in `n` alone. */
export interface FeedbackBucket {
  readonly key: string;
  readonly bucket: number;
  readonly n: number;
  readonly avg: number | null;
  readonly min: number | null;
  readonly max: number | null;
}

/** A feedback link and how often it was used. */
export interface ListedToken extends FeedbackTokenRow {
  readonly submissions: number;
}

/** The verbs that look at a deployment as a whole. A scope's filter applies to the threads of the runs. */
export interface OperationStorage {
  /**
   * Reads runs of all visible threads, hidden ones too: the newest `created_at` first, then the higher id. A call tests a bounded
   * number of rows, so it may find fewer than `limit` before the end. `next`: where to go on; null at the end.
   */
  searchRuns(
    scope: Scope,
    query: RunSearch,
  ): Promise<{ readonly rows: readonly ListedRun[]; readonly next: ListPosition | null }>;
  /** Counts visible runs by status: those created at `since` or later, and all active ones. */
  countRuns(scope: Scope, since: number): Promise<Readonly<Record<RunStatus, number>>>;
  /** Reads the times of visible runs: those created at `since` or later, and all active ones. The newest first. */
  runTimes(scope: Scope, since: number, limit: number): Promise<readonly RunTimes[]>;
  /** Summarizes matching records per key and bucket, ordered by both. `min_created_at` must not be before `origin`. */
  feedbackBuckets(
    query: FeedbackQuery & { readonly origin: number; readonly stride_ms: number },
  ): Promise<readonly FeedbackBucket[]>;
  /** Reads feedback tokens of the deployment's visible runs, expired ones too, newest first. */
  searchFeedbackTokens(
    scope: Scope,
    query: { readonly workspace_ids: readonly string[]; readonly after?: ListPosition; readonly limit: number },
  ): Promise<readonly ListedToken[]>;
  /** Deletes a feedback token of the deployment; its records stay. False when it does not exist or its run is not visible. */
  deleteFeedbackToken(scope: Scope, workspace_ids: readonly string[], token_id: string): Promise<boolean>;
}
