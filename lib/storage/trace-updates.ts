/** What saves add to the trace of a run: the call that created it, sums over its attempts, spans and copied values. */
import type { SpanKind, SpanLink } from "./spans.ts";

/** The way in which a run was created. */
export type TraceSource =
  | "runs.create"
  | "runs.wait"
  | "runs.stream"
  | "runs.batch"
  | "thread.command"
  | "cron"
  | "webhook"
  | "call"
  | "mcp"
  | "a2a"
  | "ag-ui"
  | "ai"
  | "in_process";

/** The call that created a run, as its row keeps it. It is stored as JSON, so its members keep their names. */
export interface TraceOrigin {
  /** Default `in_process`. */
  readonly source?: TraceSource;
  /** The method and the pattern of the route, such as `POST /threads/{thread_id}/runs`. */
  readonly route?: string;
  readonly request_id?: string;
  /** The accepted `traceparent`: its trace id becomes that of the run. */
  readonly traceparent?: string;
  /** At most 512 characters. */
  readonly tracestate?: string;
  /** True if `traceparent` is that of a span for the request itself, so that sinks make none. */
  readonly has_request_span?: boolean;
  /** Relations of the trace, such as `fired_by`. */
  readonly links?: readonly SpanLink[];
}

/** Spans that one save stores. */
export interface TracePart {
  /** The number of the claim times 2^16, plus the number of the part. Of two records of a span, that of the later part counts. */
  readonly part: number;
  /** A JSON list of spans, at most 64 KiB unless a single span is longer. */
  readonly json: string;
}

/** A copied value of spans, or several that share a row. Of a run, equal hashes have equal content, so that it is stored once. */
export interface TraceContent {
  readonly hash: string;
  /** JSON. */
  readonly json: string;
}

/** The sums of a trace. They include spans that were not kept. */
export interface TraceTotals {
  readonly spans: number;
  readonly model: number;
  readonly tool: number;
  readonly errors: number;
  readonly tokens_in: number;
  readonly tokens_out: number;
  readonly cost_usd: number;
}

/** The state of a trace over all attempts so far. It is stored as JSON, so its members keep their names. */
export interface TraceHead {
  /** 32 hexadecimal digits. Absent: the id of the run without hyphens. */
  readonly trace_id?: string;
  /** The option `traces.content` when the run executed. */
  readonly content: "none" | "references" | "all";
  readonly totals: TraceTotals;
  /** The number of kept spans. */
  readonly kept: number;
  /** The number of spans that were not kept, by kind. */
  readonly dropped: Readonly<Partial<Record<SpanKind, number>>>;
  /** False if the run is not sampled: it has no spans unless it failed or was slow. */
  readonly sampled: boolean;
  readonly links?: readonly SpanLink[];
  /** The size of the stored contents. */
  readonly content_bytes: number;
  /** When this was stored, in milliseconds after the run's `created_at`. */
  readonly at_ms: number;
  /** The number of the claim that stored this. */
  readonly claim: number;
  /** True if that claim's attempt has ended. */
  readonly closed: boolean;
  /** The active time of the attempts before that one, in milliseconds. */
  readonly active_before_ms: number;
}

/** What a save adds to the trace of a run. Its values are those of all attempts, so a repeated save changes nothing. */
export interface TraceUpdate {
  readonly source: TraceSource;
  readonly head: TraceHead;
  /** The names for the filters of lists: `n:` and a node, `t:` and a tool, `m:` and a model. At most 64. */
  readonly names: readonly string[];
  readonly active_ms: number;
  readonly parts: readonly TracePart[];
  readonly contents: readonly TraceContent[];
}

/** The end of the trace of a run. */
export interface TraceEnd extends TraceUpdate {
  /** A JSON list of the spans that no part has in their last form. */
  readonly spans: string;
}
