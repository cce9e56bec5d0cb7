/** The traces of runs: what clients can do with them. lib/traces/mod.ts has the code, which the first call loads. */
import type { InternalResource } from "../auth/authorizer.ts";
import type { CursorPage, CursorQuery } from "../storage/cursor.ts";
import type { RunFilter, TraceSource } from "../storage/mod.ts";
import type { Frame } from "../streams/frames.ts";
import type { Reader } from "../streams/log.ts";
import type { RunTrace } from "./run-trace.ts";

/** The ways in which runs are created, as filters of lists name them. */
export const TRACE_SOURCES: readonly TraceSource[] = [
  ...(["runs.create", "runs.wait", "runs.stream", "runs.batch", "thread.command", "cron", "webhook", "call"] as const),
  ...(["mcp", "a2a", "ag-ui", "ai", "in_process"] as const),
];

/** Filters and page of a search for traces, all of which must hold. Times are RFC 3339; those of `started_…` concern the first attempt. */
export interface TraceListQuery extends CursorQuery, RunFilter<string> {
  /** True: only runs that ended with `error` or `timeout`; false: only others. */
  readonly failed?: boolean;
  /** The minimum number of tokens, in and out. */
  readonly min_tokens?: number;
  /** The names of a node, a tool and a model that the run has used. */
  readonly node?: string;
  readonly tool?: string;
  readonly model?: string;
  readonly source?: TraceSource;
}

/** A trace in lists, without its spans. Its `totals` do not count spans that are derived when a trace is read. */
export interface TraceListing extends Omit<RunTrace, "segments" | "spans" | "feedback" | "queued_ms" | "suspended_ms"> {
  readonly failed: boolean;
  readonly error_type?: string;
  readonly nodes: readonly string[];
  readonly tools: readonly string[];
  readonly models: readonly string[];
}

/** What a read of a trace returns. */
export interface TraceRead {
  /** False leaves copied values out. Default true. */
  readonly content?: boolean;
}

/** The traces of runs. A null `thread_id` matches any thread, and also finds stateless runs that were deleted. */
export interface Traces {
  /**
   * Returns the trace of a run, as far as it is known, also while it is active. Throws `not_found`: no such run, or it has no
   * trace.
   */
  get(thread_id: string | null, run_id: string, options?: TraceRead): Promise<RunTrace>;
  /**
   * Streams the trace of a run: a `trace` frame with all so far, a `span` frame for each span that starts or changes, and `end` with
   * the trace without its spans. Throws `not_found`.
   */
  stream(thread_id: string | null, run_id: string): Promise<Reader<Frame>>;
  /**
   * Returns traces without spans, newest start first; none for an unknown assistant. Default limit: 50. A page may be short
   * before the end: `next` is null there. Throws `invalid` (a time, the cursor, the metadata).
   */
  search(query?: TraceListQuery): Promise<CursorPage<TraceListing>>;
  /** Deletes the trace of a run, which stays. Throws `not_found`, or `conflict` (`run_active`) while the run is active. */
  delete(thread_id: string | null, run_id: string): Promise<void>;
}

/** The internal resource of traces. */
export type InternalTraces = InternalResource<Traces>;
