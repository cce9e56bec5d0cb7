/** Records the durations and tokens of spans as metrics of OpenTelemetry. */
import type { Attributes, Histogram, Meter } from "@opentelemetry/api";
import type { Span } from "../../lib/storage/spans.ts";
import { COMMIT_BUCKETS, SECONDS_BUCKETS, TOKENS_BUCKETS } from "../../lib/traces/histograms.ts";
import type { TracedAttempt } from "../../lib/traces/sinks.ts";
import { toErrorType } from "./attributes.ts";
import { ATTRIBUTES, METRICS, OPERATIONS, OWN_ATTRIBUTES, toProviderName } from "./conventions.ts";

type MetricName = keyof typeof METRICS;

const BUCKETS: Readonly<Record<MetricName, readonly number[]>> = {
  ...{ queue: SECONDS_BUCKETS, attempt: SECONDS_BUCKETS, model: SECONDS_BUCKETS, first_token: SECONDS_BUCKETS },
  ...{ tool: SECONDS_BUCKETS, tokens_in: TOKENS_BUCKETS, tokens_out: TOKENS_BUCKETS, commit: COMMIT_BUCKETS },
};

const SECOND_MS = 1_000;

/** Records what has started and ended. */
export interface SpanMetrics {
  /** Records how long the run was queued, for its first claim only. */
  onAttemptStarted(attempt: TracedAttempt): void;
  /**
   * Records the duration of an attempt, a tool or a chat or text model, and tokens and first token of the model. Ignores other
   * spans.
   */
  onSpanEnded(span: Span): void;
  onCommit(duration_ms: number): void;
}

/** Creates the histograms of a meter, in seconds and tokens, and returns the functions that record them. */
export function createSpanMetrics(meter: Meter): SpanMetrics {
  const histograms = new Map<MetricName, Histogram>();
  for (const [name, { name: metric, unit }] of Object.entries(METRICS) as [
    MetricName,
    (typeof METRICS)[MetricName],
  ][]) {
    const advice = { explicitBucketBoundaries: [...BUCKETS[name]] };
    histograms.set(name, meter.createHistogram(metric, { unit, advice }));
  }
  const record = (name: MetricName, value: number | undefined, attributes: Attributes): void => {
    if (value !== undefined) histograms.get(name)?.record(value, attributes);
  };

  return {
    onAttemptStarted({ claim, queued_ms, graph_id }) {
      // Later claims do not know since when the run was due.
      if (claim === 1) record("queue", queued_ms / SECOND_MS, { [OWN_ATTRIBUTES.graph_id]: graph_id });
    },
    onSpanEnded(span) {
      const { kind, name, model, provider, operation = "chat", tokens, first_token_ms, duration_ms = 0 } = span;
      const error = toErrorType(span);
      const failure = error === undefined ? {} : { [ATTRIBUTES.error_type]: error };
      const seconds = duration_ms / SECOND_MS;
      if (kind === "attempt") {
        const labels = { [ATTRIBUTES.operation]: OPERATIONS.agent, [ATTRIBUTES.agent]: name };
        record("attempt", seconds, { ...labels, ...failure });
      } else if (kind === "tool") {
        const labels = { [ATTRIBUTES.operation]: OPERATIONS.tool, [ATTRIBUTES.tool]: name };
        record("tool", seconds, { ...labels, ...failure });
      } else if (kind === "model" && (operation === "chat" || operation === "text")) {
        const labels = {
          [ATTRIBUTES.operation]: OPERATIONS[operation],
          [ATTRIBUTES.provider]: toProviderName(provider),
          [ATTRIBUTES.request_model]: model ?? name,
        };
        record("model", seconds, { ...labels, ...failure });
        record("first_token", first_token_ms === undefined ? undefined : first_token_ms / SECOND_MS, labels);
        record("tokens_in", tokens?.in, labels);
        record("tokens_out", tokens?.out, labels);
      }
    },
    onCommit: (duration_ms) => record("commit", duration_ms / SECOND_MS, {}),
  };
}
