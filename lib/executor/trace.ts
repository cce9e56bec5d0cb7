/** The recorder of spans that an executor gets with each job. */
import type { SpanDetails, SpanKind, SpanResult, SpanValue } from "../storage/spans.ts";
import type { ModelUsage } from "./model-usage.ts";

export type { Span, SpanDetails, SpanKind, SpanResult, SpanTokens, SpanValue } from "../storage/spans.ts";

/** A value of a span: a reference, a function that returns a copy, or both. The function is called only if the trace keeps copies. */
export type RecordedValue =
  | (Extract<SpanValue, { readonly ref: unknown }> & { readonly copy?: () => unknown })
  | (() => unknown);

/** A span that starts. */
export interface StartedSpan extends SpanDetails {
  readonly kind: SpanKind;
  /** The name of the node, tool, model, agent or step. It is cut at 200 characters. */
  readonly name: string;
  /** The id of the parent. Default: the attempt. */
  readonly parent_id?: string;
  readonly input?: RecordedValue;
}

/** The end of a span. `error` is what was thrown; the recorder keeps its name, and its message if the trace keeps copies. */
export interface EndedSpan extends SpanResult {
  readonly status: "ok" | "error" | "interrupted";
  /** How long the work took, if it has ended before this call. Default: until now. */
  readonly duration_ms?: number;
  readonly error?: unknown;
  readonly output?: RecordedValue;
  /** The usage that the executor reports for the span, from which the recorder computes its cost: reported, else by `usage.prices`. */
  readonly usage?: readonly ModelUsage[];
}

/** A try of a step of a durable function. */
export interface StartedStep {
  /** The id of the step, which its tries share. */
  readonly span_id: string;
  readonly name: string;
  /** The number of the try, from 1. */
  readonly try: number;
}

/**
 * Records the spans of an attempt. All calls are synchronous, never throw, and cost nothing but memory; the engine stores the spans with
 * the commits of the attempt.
 */
export interface TraceRecorder {
  /** The id of the attempt's span, the parent of spans without one. */
  readonly attempt_id: string;
  /** Starts a span at the present time and returns its id. Spans above the limit of a run get an id too, and are only counted. */
  start(span: StartedSpan): string;
  /**
   * Ends a span and adds its tokens and cost to those of the run. Has no effect if it has ended, or was never started. The error
   * counts only with the status `error`. Tokens and costs that are negative or no numbers are left out.
   */
  end(span_id: string, result: EndedSpan): void;
  /**
   * Calls code of the agent inside of a span, which becomes the active one of OpenTelemetry. `findSpan` returns the innermost span where
   * it is called; without one, it is always `span_id`. Absent if no sink has use for it.
   */
  runIn?<Result>(span_id: string, work: () => Result, findSpan?: () => string | undefined): Result;
  /**
   * Tells the sinks about a try of a step, which the journal keeps, and returns a function that ends it. Absent without a sink.
   */
  startStep?(step: StartedStep): (result: EndedSpan) => void;
  /**
   * Returns the `traceparent` with which other servers continue the trace under a span; without an id under the attempt. Absent if
   * nothing is stored and no sink gets spans.
   */
  formatTraceParent?(span_id?: string): string;
  /** Notes the time to the first token of a streamed model call. Only the first call has an effect, and none after the end. */
  noteFirstToken(span_id: string): void;
}
