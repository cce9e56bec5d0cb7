/** The storage operations of traces and of usage. Their rows belong to workspaces, not to one deployment. */
import type { TraceUsage } from "./rows.ts";

/** The usage record of a run that has started. It outlives the run. */
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
  /** The usage that the run has reported so far. */
  readonly usage: TraceUsage;
}

/** The dimension by which usage is grouped. */
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

/** The usage of one time bucket and group, with tokens and cost if the query requests them. */
export interface UsageRow extends Partial<TraceUsage> {
  /** The number of the bucket, which starts at `origin + bucket * stride_ms`. */
  readonly bucket: number;
  /** Id of the workspace, project or user, or the short key. */
  readonly dimension: string | null;
  readonly traces: number;
}

/** The storage operations of traces and usage. */
export interface UsageStorage {
  /** Reads the trace of a run. Returns null if the run has not started. */
  getTrace(run_id: string): Promise<TraceRow | null>;
  /** Adds to the reported usage of a run. Has no effect if the run has no trace. Not idempotent. */
  addTraceUsage(run_id: string, usage: TraceUsage): Promise<void>;
  /**
   * Counts traces, with `tokens` also their tokens and cost: by bucket, then by dimension in code point order with null last.
   * Buckets without traces are omitted.
   */
  countUsage(query: UsageQuery): Promise<readonly UsageRow[]>;
  /**
   * Adds up the traces of the closed hours that start before `before`, at most one day per call. Returns true if hours remain,
   * so call it again.
   */
  sealUsage(before: number): Promise<boolean>;
}
