/** Sinks, which get the spans of this process while they start and end, and the counters of traces. */
import type { Environment } from "../environment.ts";
import type { Span, SpanLink, TraceOrigin, TraceUsage } from "../storage/mod.ts";

/** The attempt to which a span belongs. */
export interface TracedAttempt {
  readonly run_id: string;
  /** Null for a stateless run. */
  readonly thread_id: string | null;
  readonly graph_id: string;
  readonly assistant_id: string;
  /** 32 hexadecimal digits. */
  readonly trace_id: string;
  /** When the run was created, or is due, in milliseconds since 1970: the zero of the times of spans. */
  readonly created_at: number;
  readonly claim: number;
  /** The number of the attempt, as the run counts them. */
  readonly attempt: number;
  /** The id of the span of the attempt before; null for the first. */
  readonly previous_attempt_id: string | null;
  readonly queued_ms: number;
  readonly links: readonly SpanLink[];
  readonly origin: TraceOrigin;
}

/**
 * Gets the spans of all runs that this process executes, also of those that are not stored. Its methods are called between two steps of
 * an agent, so they must return at once. What they throw is logged.
 */
export interface TraceSink {
  /** Called when a span starts, the attempt's first. Values of it are already redacted. */
  onSpanStarted?(span: Span, attempt: TracedAttempt): void;
  /** Called when a span ends. For the attempt, `usage` is what it has reported. */
  onSpanEnded?(span: Span, attempt: TracedAttempt, usage: TraceUsage | null): void;
  /** Called when the service stops, after the last span. */
  flush?(): Promise<void>;
}

/** The counters of traces in this process. */
export interface TraceCounters {
  /** Spans that were recorded. */
  spans: number;
  /** Spans that were not kept, because their run had too many. */
  dropped: number;
  /** Characters of stored spans and values. */
  bytes: number;
  /** Calls of `redact` that threw. */
  redact_failed: number;
  /** Calls of sinks that threw. */
  sink_failed: number;
}

/** Calls all sinks. Never throws. */
export interface SinkGroup {
  readonly isEmpty: boolean;
  start(span: Span, attempt: TracedAttempt): void;
  end(span: Span, attempt: TracedAttempt, usage: TraceUsage | null): void;
  flush(): Promise<void>;
}

const LOG_INTERVAL_MS = 60_000;

/** Combines sinks. Their errors are counted, and logged at most once a minute. */
export function createSinkGroup(
  sinks: readonly TraceSink[],
  environment: Pick<Environment, "now" | "log">,
  counters: Pick<TraceCounters, "sink_failed">,
): SinkGroup {
  let loggedAt = Number.NEGATIVE_INFINITY;

  /** Counts an error, and logs it unless one was logged within a minute. */
  function report(error: unknown): void {
    counters.sink_failed++;
    const now = environment.now();
    if (now - loggedAt < LOG_INTERVAL_MS) return;
    loggedAt = now;
    environment.log({ level: "warn", message: "a trace sink failed", error });
  }

  function call(run: (sink: TraceSink) => void): void {
    for (const sink of sinks) {
      try {
        run(sink);
      } catch (error) {
        report(error);
      }
    }
  }

  return {
    isEmpty: sinks.length === 0,
    start: (span, attempt) => call((sink) => sink.onSpanStarted?.(span, attempt)),
    end: (span, attempt, usage) => call((sink) => sink.onSpanEnded?.(span, attempt, usage)),
    async flush() {
      await Promise.all(sinks.map(async (sink) => await sink.flush?.()).map((flushed) => flushed.catch(report)));
    },
  };
}
