/** Sinks, which get the spans of this process while they start and end, and the counters of traces. */
import type { Environment } from "../environment.ts";
import type { Json } from "../json.ts";
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

/** Feedback on a run. */
export interface TracedFeedback {
  readonly run_id: string;
  /** 32 hexadecimal digits. */
  readonly trace_id: string;
  /** The id of the span of the run's last attempt; null before the first. */
  readonly attempt_id: string | null;
  readonly key: string;
  readonly score: number | boolean | null;
  readonly value: Json;
  readonly comment: string | null;
  /** Milliseconds since 1970. */
  readonly created_at: number;
}

/** The span that code of an agent runs in. */
export interface SpanLocation {
  readonly span_id: string;
  readonly attempt: TracedAttempt;
  /** Returns the innermost span around the caller, such as that of a tool in the node `span_id`; undefined for `span_id` itself. */
  readonly findSpan?: (() => string | undefined) | undefined;
}

/**
 * Gets the spans of all runs that this process executes, also of those that are not stored. Its methods are called between two steps of
 * an agent, so they must return at once. What they throw or reject is logged, as is a call that takes longer than a second; the run goes on.
 */
export interface TraceSink {
  /** Called when a span starts, the attempt's first. Values of it are already redacted. */
  onSpanStarted?(span: Span, attempt: TracedAttempt): void;
  /** Called when a span ends. For the attempt, `usage` is what it has reported. */
  onSpanEnded?(span: Span, attempt: TracedAttempt, usage: TraceUsage | null): void;
  /** Called after each save of an attempt, with the time that it took. */
  onCommit?(duration_ms: number): void;
  /** Called when feedback on a run is stored. */
  onFeedback?(feedback: TracedFeedback): void;
  /** Calls code of an agent inside of a span, and returns its result. It must call `work` once. */
  runIn?<Result>(location: SpanLocation, work: () => Result): Result;
  /** Returns the `traceparent` of the span in which the caller creates a run; undefined for none. */
  getActiveTraceParent?(): string | undefined;
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
  /** Calls of sinks that threw, rejected or blocked. */
  sink_failed: number;
}

/** Calls all sinks. Never throws. */
export interface SinkGroup {
  readonly isEmpty: boolean;
  start(span: Span, attempt: TracedAttempt): void;
  end(span: Span, attempt: TracedAttempt, usage: TraceUsage | null): void;
  commit(duration_ms: number): void;
  feedback(feedback: TracedFeedback): void;
  /** True if a sink wants to run code of agents inside of spans. */
  readonly hasContext: boolean;
  /**
   * Calls `work` once, inside of a span of all sinks that have contexts, and returns its result. Throws only what `work` throws.
   */
  runIn<Result>(location: SpanLocation, work: () => Result): Result;
  /** Asks all sinks and returns the first `traceparent`, which is not checked; undefined if none knows one. */
  findActiveTraceParent(): string | undefined;
  /** Flushes all sinks at once and waits for all of them. Errors are reported; never rejects. */
  flush(): Promise<void>;
}

type ContextSink = TraceSink & Required<Pick<TraceSink, "runIn">>;

const isThenable = (value: unknown): boolean =>
  typeof value === "object" && value !== null && typeof (value as { readonly then?: unknown }).then === "function";

const LOG_INTERVAL_MS = 60_000;
/** A call of a sink that takes longer blocks the agents of this process. */
const MAX_CALL_MS = 1_000;

/** Calls `work` through `enter`; directly if `enter` throws before it. Throws only what `work` throws, and reports other errors. */
function runThrough<Result>(
  enter: (work: () => Result) => Result,
  work: () => Result,
  report: (error: unknown) => void,
): Result {
  let outcome: { readonly value: Result } | { readonly thrown: unknown } | undefined;
  const run = (): Result => {
    try {
      const value = work();
      outcome = { value };
      return value;
    } catch (thrown) {
      outcome = { thrown };
      throw thrown;
    }
  };
  try {
    return enter(run);
  } catch (error) {
    if (outcome && "thrown" in outcome) throw outcome.thrown;
    report(error);
    return outcome ? outcome.value : work();
  }
}

/** Combines sinks. Their errors and calls that block are counted, and logged at most once a minute. */
export function createSinkGroup(
  sinks: readonly TraceSink[],
  environment: Pick<Environment, "now" | "monotonic" | "log">,
  counters: Pick<TraceCounters, "sink_failed">,
): SinkGroup {
  let loggedAt = Number.NEGATIVE_INFINITY;

  /** Counts an error as `sink_failed`, and logs it unless one was logged within a minute. */
  function report(error: unknown): void {
    counters.sink_failed++;
    const now = environment.now();
    if (now - loggedAt < LOG_INTERVAL_MS) return;
    loggedAt = now;
    environment.log({ level: "warn", message: "a trace sink failed", error });
  }

  const readTime = (): number => environment.monotonic?.() ?? environment.now();

  /**
   * Calls `run` with each sink. Reports what it throws or rejects, without a wait for a promise, and a call of more than a
   * second. Never throws.
   */
  function call(run: (sink: TraceSink) => unknown): void {
    for (const sink of sinks) {
      const started = readTime();
      try {
        const returned = run(sink);
        // A method that is asynchronous by mistake must not end the process.
        if (isThenable(returned)) Promise.resolve(returned).catch(report);
      } catch (error) {
        report(error);
      }
      const duration_ms = readTime() - started;
      if (duration_ms > MAX_CALL_MS) report(new Error(`A call took ${Math.round(duration_ms)} ms`));
    }
  }

  return {
    isEmpty: sinks.length === 0,
    hasContext: sinks.some(({ runIn }) => runIn),
    commit: (duration_ms) => call((sink) => sink.onCommit?.(duration_ms)),
    feedback: (feedback) => call((sink) => sink.onFeedback?.(feedback)),
    runIn<Result>(location: SpanLocation, work: () => Result) {
      const runs = sinks
        .filter((sink): sink is ContextSink => sink.runIn !== undefined)
        .reduce((inner, sink) => () => runThrough((run) => sink.runIn(location, run), inner, report), work);
      return runs();
    },
    findActiveTraceParent() {
      const traceparents: string[] = [];
      call((sink) => {
        const active: unknown = sink.getActiveTraceParent?.();
        if (typeof active === "string") traceparents.push(active);
        return active;
      });
      return traceparents[0];
    },
    start: (span, attempt) => call((sink) => sink.onSpanStarted?.(span, attempt)),
    end: (span, attempt, usage) => call((sink) => sink.onSpanEnded?.(span, attempt, usage)),
    async flush() {
      await Promise.all(sinks.map(async (sink) => await sink.flush?.()).map((flushed) => flushed.catch(report)));
    },
  };
}
