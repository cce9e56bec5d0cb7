/**
 * `greenroom/otel`: exports the spans of runs to OpenTelemetry while they start and end, with metrics and feedback. Needs
 * `@opentelemetry/api`, and an SDK that is started before the service.
 *
 * @module
 */
import {
  type Attributes,
  type Context,
  context,
  createTraceState,
  type Span as ExportedSpan,
  type HrTime,
  isSpanContextValid,
  type Link,
  type Meter,
  metrics,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  type SpanOptions,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { TraceUsage } from "../../lib/storage/mod.ts";
import type { Span, SpanLink } from "../../lib/storage/spans.ts";
import { parseTraceParent, toRequestSpanId } from "../../lib/traces/ids.ts";
import type { SpanLocation, TracedAttempt, TracedFeedback, TraceSink } from "../../lib/traces/sinks.ts";
import {
  type AgentShape,
  toContentAttributes,
  toEndAttributes,
  toErrorType,
  toShape,
  toStartAttributes,
} from "./attributes.ts";
import { ATTRIBUTES, EVALUATION_EVENT, OWN_ATTRIBUTES, SCOPE_NAME } from "./conventions.ts";
import { CurrentSpan } from "./current-span.ts";
import { hasGenerator, type SpanIds, withIds } from "./ids.ts";
import { createSpanMetrics, type SpanMetrics } from "./metrics.ts";

export type { Json, JsonObject } from "../../lib/json.ts";
export type { TraceOrigin, TraceSource, TraceUsage } from "../../lib/storage/mod.ts";
export type * from "../../lib/storage/spans.ts";
export type { SpanLocation, TracedAttempt, TracedFeedback, TraceSink } from "../../lib/traces/sinks.ts";
export { type TraceIds, traceIds } from "./ids.ts";

/** A logger of `@opentelemetry/api-logs`. */
export interface EventLogger {
  /** Emits an event. */
  emit(record: {
    readonly eventName: string;
    readonly timestamp: HrTime;
    readonly context: Context;
    readonly attributes: Attributes;
  }): void;
}

/** The options of `otel()`. */
export interface OtelOptions {
  /** Default: the tracer `greenroom` of the global provider. */
  readonly tracer?: Tracer;
  /** Default: the meter `greenroom` of the global provider. */
  readonly meter?: Meter;
  /** Gets feedback as log events. Default: feedback becomes spans without a duration. */
  readonly logger?: EventLogger;
  /**
   * Exports prompts, answers, arguments, results, error messages, comments of feedback, and the attributes of `span()`, as far as
   * `traces.content` has them. Default false.
   */
  readonly content?: boolean;
}

/** Attempts whose spans are remembered for links and feedback. */
const MAX_REMEMBERED_RUNS = 1_000;

const SECOND_MS = 1_000;
const MS_NANOSECONDS = 1_000_000;

/**
 * Returns milliseconds since 1970 as a time of OpenTelemetry. A plain number could be taken for a time since the start of the
 * process.
 */
function toTime(ms: number): HrTime {
  const seconds = Math.floor(ms / SECOND_MS);
  return [seconds, Math.round((ms - seconds * SECOND_MS) * MS_NANOSECONDS)];
}

/** A span that is being exported. */
interface OpenSpan {
  readonly exported: ExportedSpan;
  readonly name: string;
}

/** The spans of one attempt by their ids. They are kept until the attempt ends, because a child may start after its parent's end. */
interface OpenAttempt {
  readonly attempt: OpenSpan;
  readonly spans: Map<string, OpenSpan>;
}

/** The exported spans of a run that later attempts and feedback refer to. */
interface ExportedRun {
  readonly attempt: SpanContext;
  readonly request: SpanContext | undefined;
}

const toAttemptKey = ({ run_id, claim }: TracedAttempt): string => `${run_id}/${claim}`;

/** Exports the spans of all attempts of a process. */
class OtelSink implements TraceSink {
  readonly #options: OtelOptions;
  readonly #open = new Map<string, OpenAttempt>();
  /** Oldest first. */
  readonly #runs = new Map<string, ExportedRun>();
  #metrics: SpanMetrics | undefined;
  /** True if the SDK has used the ids of the last span; undefined before the first. */
  #usesIds: boolean | undefined;

  constructor(options: OtelOptions) {
    this.#options = options;
  }

  onSpanStarted(span: Span, attempt: TracedAttempt): void {
    if (span.kind === "attempt") this.#getMetrics().onAttemptStarted(attempt);
    this.#start(span, attempt);
  }

  /**
   * Ends the exported span, starts it first if it did not start here, and counts it in metrics. Forgets the open spans of an
   * attempt that ends.
   */
  onSpanEnded(span: Span, attempt: TracedAttempt, usage: TraceUsage | null): void {
    // The attempt of a process that has stopped ends here, where it did not start.
    const { exported } = this.#open.get(toAttemptKey(attempt))?.spans.get(span.span_id) ?? this.#start(span, attempt);
    exported.setAttributes(toEndAttributes(span, usage));
    if (this.#options.content) exported.setAttributes(toContentAttributes(span));
    if (toErrorType(span) !== undefined) {
      const message = this.#options.content ? span.error?.message : undefined;
      exported.setStatus({ code: SpanStatusCode.ERROR, ...(message === undefined ? {} : { message }) });
    }
    exported.end(toTime(attempt.created_at + span.start_ms + (span.duration_ms ?? 0)));
    this.#getMetrics().onSpanEnded(span);
    if (isOwnAttempt(span, attempt)) this.#open.delete(toAttemptKey(attempt));
  }

  onCommit(duration_ms: number): void {
    this.#getMetrics().onCommit(duration_ms);
  }

  /** Makes the span the active one while code of the agent runs: where a tool or a named span runs in it, that one. */
  runIn<Result>({ span_id, attempt, findSpan }: SpanLocation, work: () => Result): Result {
    const open = this.#open.get(toAttemptKey(attempt));
    if (!open) return work();
    const outer = (open.spans.get(span_id) ?? open.attempt).exported;
    const find = (): ExportedSpan => open.spans.get(findSpan?.() ?? span_id)?.exported ?? outer;
    const active = findSpan ? new CurrentSpan(find) : outer;
    return context.with(trace.setSpan(context.active(), active), work);
  }

  /** Returns the `traceparent` of the active span, such as that of an instrumented HTTP server; undefined without a valid one. */
  getActiveTraceParent(): string | undefined {
    const active = trace.getSpanContext(context.active());
    if (!active || !isSpanContextValid(active)) return undefined;
    return `00-${active.traceId}-${active.spanId}-${active.traceFlags.toString(16).padStart(2, "0")}`;
  }

  /** Emits feedback as a log event, or without a logger as a span without a duration. Comments go out only with `content`. */
  onFeedback(feedback: TracedFeedback): void {
    const { key, score, value, comment, created_at } = feedback;
    const number = typeof score === "boolean" ? Number(score) : score;
    const attributes: Attributes = {
      [ATTRIBUTES.evaluation]: key,
      [OWN_ATTRIBUTES.run_id]: feedback.run_id,
      ...(number === null ? {} : { [ATTRIBUTES.evaluation_score]: number }),
      ...(typeof value === "string" ? { [ATTRIBUTES.evaluation_label]: value } : {}),
      ...(this.#options.content && comment ? { [ATTRIBUTES.evaluation_explanation]: comment } : {}),
    };
    const parent = this.#findAttempt(feedback.run_id, feedback.trace_id, feedback.attempt_id);
    const parentContext = parent ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT;
    const time = toTime(created_at);
    const { logger } = this.#options;
    if (logger) logger.emit({ eventName: EVALUATION_EVENT, timestamp: time, context: parentContext, attributes });
    else this.#getTracer().startSpan(EVALUATION_EVENT, { startTime: time, attributes }, parentContext).end(time);
  }

  /**
   * Starts the exported span under that of its parent, else of the attempt; an attempt under its request, else under the incoming
   * `traceparent`. Keeps it as open while the attempt is, and remembers an attempt for links.
   */
  #start(span: Span, attempt: TracedAttempt): OpenSpan {
    const open = this.#open.get(toAttemptKey(attempt));
    const isAttempt = span.kind === "attempt";
    const parent = isAttempt ? undefined : (open?.spans.get(span.parent_id ?? "") ?? open?.attempt);
    const agent: AgentShape = { isWorkflow: span.kind === "agent" && span.name === parent?.name };
    const { name, kind } = toShape(span, agent);
    const startTime = toTime(attempt.created_at + span.start_ms);
    const links = this.#toLinks(span, attempt);
    const attributes = toStartAttributes(span, attempt, agent);
    const request = isAttempt ? this.#getRequest(span, attempt) : undefined;
    const outer = parent?.exported.spanContext() ?? request;
    const parentContext = outer ? trace.setSpanContext(ROOT_CONTEXT, outer) : toIncomingContext(attempt);
    const exportedOptions = { kind, startTime, links, attributes };
    const ids: SpanIds = { trace_id: attempt.trace_id, span_id: span.span_id };
    // The tries of a step share an id, which only the first of them gets.
    const exported =
      span.kind === "step" && span.try !== 1
        ? this.#getTracer().startSpan(name, exportedOptions, parentContext)
        : this.#startSpan(ids, { name, ...exportedOptions }, parentContext);
    const opened: OpenSpan = { exported, name: span.name };
    if (isAttempt) this.#remember(attempt.run_id, { attempt: exported.spanContext(), request });
    if (isOwnAttempt(span, attempt))
      this.#open.set(toAttemptKey(attempt), { attempt: opened, spans: new Map([[span.span_id, opened]]) });
    else open?.spans.set(span.span_id, opened);
    return opened;
  }

  /** Starts a span with these ids, if the SDK takes them, and notes whether it did. */
  #startSpan(
    ids: SpanIds,
    { name, ...options }: SpanOptions & { readonly name: string },
    parent: Context,
  ): ExportedSpan {
    const exported = withIds(ids, () => this.#getTracer().startSpan(name, options, parent));
    this.#usesIds = exported.spanContext().spanId === ids.span_id;
    return exported;
  }

  /** Returns the span of the request that created the run, which its first attempt exports; undefined for runs without one. */
  #getRequest(span: Span, attempt: TracedAttempt): SpanContext | undefined {
    const { origin, run_id, trace_id, created_at } = attempt;
    if (origin.route === undefined || origin.has_request_span) return undefined;
    const exportedRequest = this.#runs.get(run_id)?.request;
    if (exportedRequest) return exportedRequest;
    const ids: SpanIds = { trace_id, span_id: toRequestSpanId(run_id) };
    if (span.claim !== 1)
      return this.#hasTraceIds()
        ? { traceId: ids.trace_id, spanId: ids.span_id, traceFlags: TraceFlags.SAMPLED, isRemote: true }
        : undefined;
    const time = toTime(created_at);
    const request = this.#startSpan(
      ids,
      { ...toRequestShape(attempt, origin.route), startTime: time },
      toIncomingContext(attempt),
    );
    request.end(time);
    return request.spanContext();
  }

  /**
   * Returns the links of a span; for the attempt itself also those of the trace, and `retries` to the attempt before it, if that
   * is known.
   */
  #toLinks(span: Span, attempt: TracedAttempt): Link[] {
    const { run_id, trace_id, previous_attempt_id } = attempt;
    const links = (span.links ?? []).flatMap((link) => this.#toLink(link, attempt));
    if (!isOwnAttempt(span, attempt)) return links;
    const previous =
      previous_attempt_id === null ? undefined : this.#findAttempt(run_id, trace_id, previous_attempt_id);
    const attributes = { [OWN_ATTRIBUTES.link]: "retries" };
    return [
      ...links,
      ...attempt.links.flatMap((link) => this.#toLink(link, attempt)),
      ...(previous ? [{ context: previous, attributes }] : []),
    ];
  }

  /**
   * Returns a link to the remembered attempt of the linked run, else to the span id of the link in its trace or in that of the
   * attempt; none if the exported ids of that are not known.
   */
  #toLink({ kind, run_id, trace_id, span_id }: SpanLink, attempt: TracedAttempt): Link[] {
    const attributes = {
      [OWN_ATTRIBUTES.link]: kind,
      ...(run_id === undefined ? {} : { [OWN_ATTRIBUTES.link_run_id]: run_id }),
    };
    const linkedRun = run_id === undefined ? undefined : this.#runs.get(run_id)?.attempt;
    if (linkedRun) return [{ context: linkedRun, attributes }];
    if (span_id === undefined || (trace_id === undefined && !this.#hasTraceIds())) return [];
    const ids = { traceId: trace_id ?? attempt.trace_id, spanId: span_id };
    return [{ context: { ...ids, traceFlags: TraceFlags.NONE, isRemote: true }, attributes }];
  }

  /**
   * Returns the exported span of the run's last attempt that this process remembers; else `attempt_id`, if the SDK has the ids of
   * the trace; else undefined.
   */
  #findAttempt(run_id: string, trace_id: string, attempt_id: string | null): SpanContext | undefined {
    const lastAttempt = this.#runs.get(run_id)?.attempt;
    if (lastAttempt || attempt_id === null || !this.#hasTraceIds()) return lastAttempt;
    return { traceId: trace_id, spanId: attempt_id, traceFlags: TraceFlags.SAMPLED, isRemote: true };
  }

  /** Keeps the exported spans of a run, as the newest one, for links and feedback. Forgets the oldest above 1,000 runs. */
  #remember(run_id: string, run: ExportedRun): void {
    this.#runs.delete(run_id);
    this.#runs.set(run_id, run);
    const [oldest] = this.#runs.keys();
    if (this.#runs.size > MAX_REMEMBERED_RUNS && oldest !== undefined) this.#runs.delete(oldest);
  }

  /** Returns true if exported spans have the ids of the run trace, so that those of other processes are known. */
  #hasTraceIds(): boolean {
    return this.#usesIds ?? hasGenerator();
  }

  #getTracer(): Tracer {
    return this.#options.tracer ?? trace.getTracer(SCOPE_NAME);
  }

  /** Returns the metrics. They are created late, because a meter of no SDK stays one. */
  #getMetrics(): SpanMetrics {
    this.#metrics ??= createSpanMetrics(this.#options.meter ?? metrics.getMeter(SCOPE_NAME));
    return this.#metrics;
  }
}

/** Returns true for the span of the attempt itself, and false for that of an earlier attempt, which was lost. */
const isOwnAttempt = ({ kind, claim }: Span, attempt: TracedAttempt): boolean =>
  kind === "attempt" && claim === attempt.claim;

/**
 * Returns the context of the `traceparent` that the run continues, with its sampled flag and `tracestate`; that of a new trace
 * without one.
 */
function toIncomingContext({ origin: { traceparent, tracestate } }: TracedAttempt): Context {
  const parent = parseTraceParent(traceparent);
  if (!parent || traceparent === undefined) return ROOT_CONTEXT;
  const flags = Number.parseInt(traceparent.split("-")[3] ?? "00", 16);
  return trace.setSpanContext(ROOT_CONTEXT, {
    ...{ traceId: parent.trace_id, spanId: parent.span_id, isRemote: true },
    traceFlags: flags & TraceFlags.SAMPLED,
    ...(tracestate === undefined ? {} : { traceState: createTraceState(tracestate) }),
  });
}

/**
 * Returns the name, kind and attributes of the span of a request. `route` is a method and a path; calls of MCP are named by the
 * graph.
 */
function toRequestShape({ run_id, graph_id, origin }: TracedAttempt, route: string) {
  const { source, request_id } = origin;
  const [method = "", path = ""] = route.split(" ");
  const isMcp = source === "mcp";
  return {
    name: isMcp ? `${MCP_CALL} ${graph_id}` : route,
    kind: SpanKind.SERVER,
    attributes: {
      [ATTRIBUTES.http_method]: method,
      [ATTRIBUTES.http_route]: path,
      ...(isMcp ? { [ATTRIBUTES.mcp_method]: MCP_CALL } : {}),
      [OWN_ATTRIBUTES.run_id]: run_id,
      [OWN_ATTRIBUTES.source]: source ?? "in_process",
      ...(request_id === undefined ? {} : { [OWN_ATTRIBUTES.request_id]: request_id }),
    },
  };
}

/** The method of MCP that runs an agent. */
const MCP_CALL = "tools/call";

/**
 * Creates the sink that exports to OpenTelemetry. Start the SDK first; it decides about sampling. Without an SDK nothing is exported.
 *
 * @example
 * import { createService } from "greenroom";
 * import { otel, traceIds } from "greenroom/otel";
 * import { NodeSDK } from "@opentelemetry/sdk-node";
 *
 * new NodeSDK({ serviceName: "agents", idGenerator: traceIds() }).start();
 * const service = await createService({ ...options, traces: { sinks: [otel()] } });
 */
export const otel = (options: OtelOptions = {}): TraceSink => new OtelSink(options);
