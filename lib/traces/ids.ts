/** The ids of traces and spans. Those of attempts are computed, so that other attempts and readers know them. */
import type { SpanLink, TraceOrigin } from "../storage/mod.ts";

/** Returns the trace id of a run without a `traceparent`: its id without hyphens. */
export const toTraceId = (run_id: string): string => run_id.replaceAll("-", "");

/** Returns the id of the span of a run: the end of its id. */
export const toRunSpanId = (run_id: string): string => run_id.replaceAll("-", "").slice(-16);

/** Returns the first 8 hexadecimal digits of the ids of spans that a claim records: a hash, the same for the same run and claim. */
export function toClaimPrefix(run_id: string, claim: number): string {
  // FNV-1a, then a mix that spreads neighbouring claims.
  let hash = 0x811c9dc5;
  const text = `${run_id}:${claim}`;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0).toString(16).padStart(8, "0");
}

/** Returns the id of span `n` of a claim. */
export const toSpanId = (prefix: string, n: number): string => `${prefix}${n.toString(16).padStart(8, "0")}`;

/** Returns the id of the span of the attempt that has this claim. */
export const toAttemptId = (run_id: string, claim: number): string => toSpanId(toClaimPrefix(run_id, claim), 1);

/** Returns the id of the span of the request that created a run. No claim has its prefix. */
export const toRequestSpanId = (run_id: string): string => toSpanId(toClaimPrefix(run_id, 0), 1);

/** Returns true if a run is among the share `sample` of all runs. */
export const isSampled = (run_id: string, sample: number): boolean =>
  sample >= 1 || Number.parseInt(toClaimPrefix(run_id, 0), 16) < sample * 2 ** 32;

/** Parts of a `traceparent`. */
export interface TraceParent {
  readonly trace_id: string;
  readonly span_id: string;
}

/** Parses a `traceparent` of version 00 or a later one. Returns null if it is malformed, of version ff, or has an id of zeros. */
export function parseTraceParent(text: string | undefined): TraceParent | null {
  const [, version, trace_id = "", span_id = "", , suffix] =
    /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/.exec(text ?? "") ?? [];
  if (version === undefined || version === "ff" || (version === "00" && suffix !== undefined)) return null;
  if (/^0+$/.test(trace_id) || /^0+$/.test(span_id)) return null;
  return { trace_id, span_id };
}

/** Returns the trace id of a run: that of the `traceparent` that it continues, else its own. */
export const findTraceId = (run_id: string, origin: TraceOrigin | undefined): string =>
  parseTraceParent(origin?.traceparent)?.trace_id ?? toTraceId(run_id);

/** A trace context as a message has it, not validated. */
export interface TraceContext {
  readonly traceparent?: unknown;
  readonly tracestate?: unknown;
}

/** Returns the first trace context with a well-formed `traceparent`, and its ids; null for none. `tracestate` is not validated. */
export function findTraceContext(
  contexts: readonly (TraceContext | null | undefined)[],
): { readonly traceparent: string; readonly tracestate: unknown; readonly parent: TraceParent } | null {
  for (const context of contexts) {
    const { traceparent, tracestate } = context ?? {};
    const parent = typeof traceparent === "string" ? parseTraceParent(traceparent) : null;
    if (parent) return { traceparent: traceparent as string, tracestate, parent };
  }
  return null;
}

/** Returns the relations of the trace of a run: those of its origin, and the span of a caller whose trace it continues. */
export function listOriginLinks({ links = [], traceparent }: TraceOrigin): readonly SpanLink[] {
  const parent = parseTraceParent(traceparent);
  return parent ? [...links, { kind: "called_by", ...parent }] : links;
}

/** Returns the `traceparent` of a span. */
export const formatTraceParent = ({ trace_id, span_id }: TraceParent, isSampled = true): string =>
  `00-${trace_id}-${span_id}-${isSampled ? "01" : "00"}`;

/** Returns true if the flags of a well-formed `traceparent` say that its caller records the trace. */
export const hasSampledFlag = (traceparent: string): boolean =>
  (Number.parseInt(traceparent.split("-")[3] ?? "", 16) & 1) === 1;

/** The counters of the ids of webhook spans start here, so that they differ from those of attempts and queues. */
const WEBHOOK_IDS = 2 ** 31;

/** Returns the id of the span of a delivery attempt. */
export const toWebhookSpanId = (delivery_id: string, number: number): string =>
  toSpanId(toClaimPrefix(delivery_id, number), WEBHOOK_IDS);
