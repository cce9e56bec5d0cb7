/** The ids of exported spans: those of the run trace, for an SDK that takes its ids from `traceIds()`. */

/** Creates ids, as `idGenerator` of an OpenTelemetry SDK. */
export interface TraceIds {
  /** Returns 32 hexadecimal digits. */
  generateTraceId(): string;
  /** Returns 16 hexadecimal digits. */
  generateSpanId(): string;
}

/** The ids of a span that is about to start. */
export interface SpanIds {
  readonly trace_id: string;
  readonly span_id: string;
}

/** The ids of the span that a sink is starting; null for spans of others. */
let next: SpanIds | null = null;

/** True once a generator was created, which an SDK will use. */
let isGenerated = false;

/** Returns true if an SDK probably takes its ids from `traceIds()`. */
export const hasGenerator = (): boolean => isGenerated;

/**
 * Calls `start`, which must be synchronous, so that the span that it starts has these ids, if its SDK asks `traceIds()` for them.
 */
export function withIds<Result>(ids: SpanIds, start: () => Result): Result {
  next = ids;
  try {
    return start();
  } finally {
    next = null;
  }
}

/** Returns two random hexadecimal digits for each byte, at least one of which is not 0. */
function randomDigits(bytes: number): string {
  const random = crypto.getRandomValues(new Uint8Array(bytes));
  if (random.every((byte) => byte === 0)) random[0] = 1;
  return [...random].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Creates the generator of ids for the SDK that exports the spans of `otel()`. With it, exported spans have the ids of the run trace, all
 * attempts of a run are in one trace, and a `traceparent` that a run has sent names a span that is exported. Without it, the SDK chooses
 * the ids, and each attempt that continues no `traceparent` starts a new trace. Spans of other code get random ids.
 *
 * @example
 * ```ts
 * import { traceIds } from "greenroom/otel";
 * import { NodeSDK } from "@opentelemetry/sdk-node";
 *
 * new NodeSDK({ serviceName: "agents", idGenerator: traceIds() }).start();
 * ```
 */
export function traceIds(): TraceIds {
  isGenerated = true;
  return {
    generateTraceId: () => next?.trace_id ?? randomDigits(16),
    generateSpanId: () => next?.span_id ?? randomDigits(8),
  };
}
