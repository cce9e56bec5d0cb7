/** The spans of a trace: what happened in a run, when, and how it ended. Stored and sent as JSON, so members keep their names. */
import type { Json } from "../json.ts";

/** The kinds of spans. Those of `request`, `queue`, `run` and of durable operations are derived when a trace is read. */
export const SPAN_KINDS = [
  "request",
  "queue",
  "run",
  "attempt",
  "node",
  "agent",
  "model",
  "tool",
  "retriever",
  "step",
  "sleep",
  "wait",
  "ask",
  "webhook",
  "commit",
  "custom",
] as const;
/** The kind of a span. */
export type SpanKind = (typeof SPAN_KINDS)[number];

/**
 * How a span ended. `interrupted`: an interrupt was raised in it, or its run was stopped. `waiting`: the run is suspended. `lost`: its
 * attempt ended without it.
 */
export type SpanStatus = "open" | "ok" | "error" | "interrupted" | "waiting" | "timeout" | "lost";

/** The tokens of one model call. */
export interface SpanTokens {
  readonly in?: number;
  readonly out?: number;
  readonly cache_read?: number;
  readonly cache_write?: number;
  readonly reasoning?: number;
}

/**
 * The input or output of a span: a pointer into a checkpoint, or a copy, which is truncated to `traces.max_bytes`. `bytes` is the size of
 * the whole value, of one with more than 50,000 members that of the first ones.
 */
export type SpanValue =
  | {
      readonly ref: {
        readonly checkpoint_id: string;
        readonly namespace: readonly string[];
        readonly task_id?: string;
      };
      /** True if the checkpoint was deleted with a stateless run. Only in traces that are read. */
      readonly gone?: true;
    }
  | { readonly value: Json; readonly bytes: number; readonly truncated: boolean };

/** A relation of a span or a trace to another one. */
export interface SpanLink {
  readonly kind: "retries" | "resumes" | "forks" | "called_by" | "fired_by" | "again";
  readonly run_id?: string;
  readonly trace_id?: string;
  readonly span_id?: string;
  /** Of `fired_by`. */
  readonly cron_id?: string;
}

/** The error of a span. `message` is present only with `traces.content: "all"`. */
export interface SpanError {
  readonly type: string;
  readonly message?: string;
}

/** What the source of a span knows when it starts. */
export interface SpanDetails {
  readonly node?: string;
  /** The id of the LangGraph task. */
  readonly task_id?: string;
  /** The superstep of the graph. */
  readonly step?: number;
  /** `<node>:<task id>` of each level, as in thread events; absent for the root graph. */
  readonly namespace?: readonly string[];
  readonly try?: number;
  readonly tool_call_id?: string;
  readonly operation?: "chat" | "text" | "embeddings" | "rerank";
  readonly provider?: string;
  readonly model?: string;
  /** The permitted parameters of a model call, at most 1 KiB. `stop` and other texts only with `traces.content: "all"`. */
  readonly params?: { readonly [name: string]: Json };
  /** Scalars of `job.span()`, at most 32 and 4 KiB; only with `traces.content: "all"`. */
  readonly attributes?: { readonly [name: string]: string | number | boolean };
  readonly links?: readonly SpanLink[];
}

/** What the source of a span knows when it ends. */
export interface SpanResult {
  readonly response_model?: string;
  readonly response_id?: string;
  readonly finish_reasons?: readonly string[];
  readonly tokens?: SpanTokens;
  readonly cost_usd?: number;
  /** Milliseconds from the start of the span to the first token; only of streamed calls. */
  readonly first_token_ms?: number;
}

/** A span as stored and as clients see it. Members without a value are absent. */
export interface Span extends SpanDetails, SpanResult {
  /** 16 hexadecimal digits. */
  readonly span_id: string;
  readonly parent_id?: string;
  readonly kind: SpanKind;
  readonly name: string;
  /** Milliseconds after the run's `created_at`, with three decimals. */
  readonly start_ms: number;
  /** Absent while the span is open. */
  readonly duration_ms?: number;
  readonly status: SpanStatus;
  readonly error?: SpanError;
  /** The number of the claim in whose attempt the span was recorded. */
  readonly claim?: number;
  /** The number of the attempt, as the run counts them. */
  readonly attempt?: number;
  /** Of attempts: whether it counts as one, and its commits. */
  readonly counted?: boolean;
  readonly commits?: { readonly count: number; readonly total_ms: number; readonly max_ms: number };
  readonly input?: SpanValue;
  readonly output?: SpanValue;
}
