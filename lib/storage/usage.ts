/** The storage verbs of traces and of usage. Their rows belong to workspaces, not to one deployment. */
import type { TraceUsage } from "./rows.ts";

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
  /** What the run has reported so far. */
  readonly usage: TraceUsage;
}

/** What usage is grouped by. */
export type UsageGroup = "workspace" | "project" | "user" | "api_key";

/** Traces with `start <= started_at < end`, in buckets of `stride_ms` from `origin` on. */
export interface UsageQuery {
  readonly workspace_ids: readonly string[];
  readonly start: number;
  readonly end: number;
  readonly origin: number;
  readonly stride_ms: number;
  readonly group_by: UsageGroup;
  /** Sum their tokens and costs too. */
  readonly tokens?: boolean;
}

/** Usage of one time bucket and group; tokens and cost where the query wants them. */
export interface UsageRow extends Partial<TraceUsage> {
  /** Number of the bucket: it starts at `origin + bucket * stride_ms`. */
  readonly bucket: number;
  /** Id of the workspace, project or user, or the short key. */
  readonly dimension: string | null;
  readonly traces: number;
}

/** The verbs of traces and usage. */
export interface UsageStorage {
  /** Reads the trace of a run. Null when its execution has not started. */
  getTrace(run_id: string): Promise<TraceRow | null>;
  /** Adds to the reported usage of a run. No effect when the run has no trace. Not idempotent. */
  addTraceUsage(run_id: string, usage: TraceUsage): Promise<void>;
  /** Counts traces: by bucket, then by dimension in code point order with null last. Buckets without traces are omitted. */
  countUsage(query: UsageQuery): Promise<readonly UsageRow[]>;
  /** Sums closed hours that start before `before`, at most one day per call. False when none are left. */
  sealUsage(before: number): Promise<boolean>;
}
