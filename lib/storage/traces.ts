/** The storage operations of run traces: what each run did, span by span. Their rows outlive stateless runs. */
import { copyStart } from "../json.ts";
import type { ListPosition } from "./cursor.ts";
import type { RunStatus, Scope } from "./rows.ts";
import type { RunFilter } from "./run-filter.ts";
import type { TraceContent, TraceHead, TracePart, TraceSource } from "./trace-updates.ts";

/** A trace in lists, without its spans. */
export interface TraceSummary {
  readonly run_id: string;
  /** Null for a stateless run. */
  readonly thread_id: string | null;
  readonly graph_id: string;
  readonly assistant_id: string;
  readonly cron_id: string | null;
  readonly user_id: string | null;
  readonly source: TraceSource;
  readonly status: RunStatus;
  /** True if the run is suspended. */
  readonly waiting: boolean;
  readonly created_at: number;
  /** When its first attempt started. */
  readonly started_at: number;
  /** Null while the run is active. */
  readonly ended_at: number | null;
  readonly active_ms: number;
  readonly failed: boolean;
  readonly error_type: string | null;
  readonly names: readonly string[];
  readonly head: TraceHead;
}

/** A trace as stored. */
export interface StoredTrace extends TraceSummary {
  /** A JSON list of spans; null while the run is active. Its records replace those of parts. */
  readonly spans: string | null;
  /** By rising number. */
  readonly parts: readonly TracePart[];
  /** Oldest first, without those that its log has lost; none once a stateless run was deleted. */
  readonly claims: readonly RunClaim[];
}

/** What the next attempt of a run continues: the state of its trace, and the claims. */
export interface TraceProgress {
  /** Null if no attempt has stored anything. */
  readonly head: TraceHead | null;
  readonly names: readonly string[];
  readonly active_ms: number;
  readonly claims: readonly RunClaim[];
}

/** A claim of a run, as its log has it. */
export interface RunClaim {
  /** The number of the claim. */
  readonly claim: number;
  readonly at: number;
  readonly worker: string;
  /** When the lease expired that the attempt lost; null if the attempt was not lost, or is active. */
  readonly lost_lease_until: number | null;
}

/** A search over all traces. Times are milliseconds since 1970; those of `started_…` concern the first attempt. */
export interface TraceSearch extends RunFilter<number> {
  readonly failed?: boolean;
  /** The minimum number of tokens, in and out. */
  readonly min_tokens?: number;
  readonly node?: string;
  readonly tool?: string;
  readonly model?: string;
  readonly source?: TraceSource;
  /** Limits the list to traces after this position, whose `created_at` is the `started_at` of a trace. */
  readonly after?: ListPosition;
  readonly limit: number;
}

/**
 * The storage operations of run traces. A trace is visible exactly if its run is; that of a stateless run by the metadata of its
 * thread, also after both were deleted.
 */
export interface RunTraceStorage {
  /** Reads a trace with its parts. Returns null if it does not exist or is not visible. */
  getRunTrace(scope: Scope, run_id: string): Promise<StoredTrace | null>;
  /** Reads the copied values of a trace. Returns none if the trace does not exist or is not visible. */
  readTraceContents(scope: Scope, run_id: string): Promise<readonly TraceContent[]>;
  /** Reads what the next attempt of a run continues. Applies no filter. */
  getTraceProgress(scope: Scope, run_id: string): Promise<TraceProgress>;
  /**
   * Reads visible traces, newest start first, then by falling id. A call tests a bounded number of rows, so it may find fewer than
   * `limit` before the end. `next` is the position to continue from, or null at the end.
   */
  searchRunTraces(
    scope: Scope,
    query: TraceSearch,
  ): Promise<{ readonly rows: readonly TraceSummary[]; readonly next: ListPosition | null }>;
  /** Deletes a trace. Returns `active` and deletes nothing while its run is active. The run stays. */
  deleteRunTrace(scope: Scope, run_id: string): Promise<"deleted" | "active" | "not_found">;
}

/** The maximum length of the names in a trace: of spans, in the filters of lists, and of errors. */
export const MAX_TRACE_NAME_CHARS = 200;

/** The names of a trace's members that filters of lists look for, such as `t:weather`. */
export const toTraceName = (kind: "node" | "tool" | "model", name: string): string =>
  `${kind[0]}:${copyStart(name, MAX_TRACE_NAME_CHARS)}`;
