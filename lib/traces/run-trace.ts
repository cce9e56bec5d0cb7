/** The trace of a run, as clients read it: made of its stored rows without any effect. */
import type { JournalEntry } from "../executor/journal.ts";
import type { IsoTime, Json, Uuid } from "../json.ts";
import { formatIsoTime } from "../rfc3339.ts";
import type {
  DeliveryAttempt,
  FeedbackRow,
  RunRow,
  RunStatus,
  Span,
  SpanKind,
  SpanLink,
  SpanStatus,
  SpanValue,
  StoredTrace,
  TraceOrigin,
  TraceSource,
  TraceTotals,
} from "../storage/mod.ts";
import { resolveValue, type StoredValue } from "./content.ts";
import { findTraceId, listOriginLinks, toClaimPrefix, toRunSpanId, toSpanId, toWebhookSpanId } from "./ids.ts";
import { type JournalOperation, listOperations, toOperationSpan } from "./journal-spans.ts";
import { type AttemptRecords, mergeSpans } from "./merged-spans.ts";
import { roundMs } from "./round-ms.ts";
import { createSegments, type QueueInterval, sumSegments, type TraceSegment } from "./segments.ts";

export type { TraceSegment } from "./segments.ts";

/** The trace of a run. Members without a value are absent; times are ISO 8601, UTC. */
export interface RunTrace {
  /** 32 hexadecimal digits: the id of the run without hyphens, or that of an accepted `traceparent`. */
  readonly trace_id: string;
  readonly run_id: Uuid;
  /** Absent for a stateless run. */
  readonly thread_id?: Uuid;
  readonly graph_id: string;
  readonly assistant_id: Uuid;
  readonly cron_id?: Uuid;
  readonly user_id?: string;
  readonly status: RunStatus;
  /** True while the run is suspended. */
  readonly waiting?: true;
  readonly source: TraceSource;
  readonly created_at: IsoTime;
  /** When the first attempt started. */
  readonly started_at?: IsoTime;
  readonly ended_at?: IsoTime;
  readonly active_ms: number;
  readonly queued_ms: number;
  readonly suspended_ms: number;
  /** The option `traces.content` when the run executed. */
  readonly content: "none" | "references" | "all";
  /** False if only failed or slow runs keep their spans and this one is neither. */
  readonly sampled: boolean;
  /** The number of spans that were not kept, by kind. */
  readonly dropped: Readonly<Partial<Record<SpanKind, number>>>;
  readonly totals: TraceTotals;
  readonly links?: readonly SpanLink[];
  readonly feedback: readonly TraceFeedback[];
  readonly segments: readonly TraceSegment[];
  /** In the order of a tree: each span before its children, and siblings by their start. */
  readonly spans: readonly Span[];
}

/** Feedback on the run of a trace. */
export interface TraceFeedback {
  readonly key: string;
  readonly score?: number | boolean;
  readonly value?: Json;
  readonly at: IsoTime;
}

/** A delivery attempt of the webhook of the run, with the host of its URL. */
export interface WebhookAttempt extends DeliveryAttempt {
  readonly host: string;
}

/** An operation of the journal, with the id of its span. */
export interface IdentifiedOperation extends JournalOperation {
  readonly span_id: string;
}

/** The run of a trace: its row, or what the trace has kept of it. */
export interface TracedRun
  extends Pick<RunRow, "run_id" | "graph_id" | "assistant_id" | "status" | "created_at" | "started_at" | "ended_at"> {
  /** Null for a stateless run. */
  readonly thread_id: string | null;
  readonly cron_id: string | null;
  readonly user_id: string | null;
  readonly waiting: boolean;
  readonly error?: { readonly type: string; readonly message?: string };
  readonly trace_origin: TraceOrigin;
}

/** Everything of which a trace is made. */
export interface TraceSources extends Pick<AttemptRecords, "live" | "run" | "claims" | "lease_ms"> {
  readonly traced: TracedRun;
  /** Null before the first save. */
  readonly trace: StoredTrace | null;
  /** The copied values by their hashes; null leaves values out. */
  readonly contents: ReadonlyMap<string, Json> | null;
  /** The operations of the run's durable call. */
  readonly operations: readonly IdentifiedOperation[];
  readonly webhooks: readonly WebhookAttempt[];
  readonly feedback: readonly FeedbackRow[];
  /** Returns what the trace keeps of the error of a durable operation, whose journal has it whole. */
  keepError: Parameters<typeof toOperationSpan>[2]["keepError"];
  /** The option `traces.content`, for a run that has stored nothing. */
  readonly content: RunTrace["content"];
  /** True if the caller sees the names of workers. */
  readonly showsWorkers: boolean;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** Returns the operations of a journal that belong to the trace of a run, as `listOperations` does. */
export const selectOperations = (
  entries: readonly JournalEntry[],
  run: Pick<RunRow, "run_id" | "created_at">,
): readonly JournalOperation[] => listOperations(entries, run);

/**
 * Returns the trace of a run, made of stored and live spans, the journal, webhooks and feedback. Spans are sorted as a tree. A run
 * whose spans were not kept has only the spans that are derived.
 */
export function createRunTrace(sources: TraceSources): RunTrace {
  const { traced, now, contents, feedback } = sources;
  const { run_id, created_at, ended_at } = traced;
  const journaled_at = sources.operations.flatMap(({ entries }) =>
    entries.filter((entry) => entry.run_id === run_id).map(({ at }) => at),
  );
  const records = { ...sources, run_id, created_at, journaled_at, graph_id: traced.graph_id };
  const { attempts, innerSpans } = mergeSpans(records);
  const end_ms = findEnd(sources, attempts);
  const { segments, queues } = createSegments({
    attempts: attempts.length > 0 ? attempts : toActiveTime(traced),
    end_ms: end_ms ?? Math.max(now - created_at, 0),
    isSuspended: traced.waiting,
    due_ms: sources.operations.flatMap(({ entries }) =>
      entries.flatMap(({ until }) => (typeof until === "number" ? [until - created_at] : [])),
    ),
  });
  const derived = createDerivedSpans(sources, { attempts, queues: attempts.length > 0 ? queues : [], end_ms });
  const isGone = traced.thread_id === null && ended_at !== null;
  const readableSpans = [...derived, ...attempts.map((span) => showWorker(sources, span)), ...innerSpans].map((span) =>
    showValues(span, contents, isGone),
  );
  const spans = withKnownParents(withTryLinks(readableSpans), run_id, attempts);
  const totals = createTotals(sources, spans, derived);
  const links = createLinks(traced, derived);
  return {
    ...toHeading(sources, links),
    active_ms: sumSegments(segments, "active"),
    queued_ms: sumSegments(segments, "queued"),
    suspended_ms: sumSegments(segments, "suspended"),
    totals,
    feedback: feedback.map(toFeedback),
    ...{ segments, spans: sortSpans(spans) },
  };
}

/** The members of a trace that need no span. */
type TraceHeading = Omit<
  RunTrace,
  "active_ms" | "queued_ms" | "suspended_ms" | "totals" | "feedback" | "segments" | "spans"
>;

/**
 * Returns the trace without spans and sums. Its id is the stored one, else that of the `traceparent` that the run continues, else
 * one made of the run id. Members that are null are left out.
 */
function toHeading({ traced, trace, content }: TraceSources, links: readonly SpanLink[]): TraceHeading {
  const { run_id, thread_id, cron_id, user_id, trace_origin, started_at, ended_at } = traced;
  const { trace_id = findTraceId(run_id, trace_origin) } = trace?.head ?? {};
  return {
    ...{ trace_id, run_id, graph_id: traced.graph_id, assistant_id: traced.assistant_id, status: traced.status },
    ...(thread_id === null ? {} : { thread_id }),
    ...(cron_id === null ? {} : { cron_id }),
    ...(user_id === null ? {} : { user_id }),
    ...(traced.waiting ? { waiting: true } : {}),
    source: trace?.source ?? trace_origin.source ?? "in_process",
    created_at: formatIsoTime(traced.created_at),
    ...(started_at === null ? {} : { started_at: formatIsoTime(started_at) }),
    ...(ended_at === null ? {} : { ended_at: formatIsoTime(ended_at) }),
    ...{ content: trace?.head.content ?? content, sampled: trace?.head.sampled ?? true },
    dropped: trace?.head.dropped ?? {},
    ...(links.length > 0 ? { links } : {}),
  };
}

/** An ended attempt that stopped its run later than so many milliseconds ago has not ended it. */
const SETTLE_MS = 1_000;

/**
 * Returns when the run ended, in milliseconds after its creation; null while it is active. The attempt that ended it knows that more
 * exactly than the row, unless the run ended while it waited.
 */
function findEnd({ traced: { ended_at, created_at } }: TraceSources, attempts: readonly Span[]): number | null {
  if (ended_at === null) return null;
  const end_ms = ended_at - created_at;
  const last = attempts.at(-1);
  if (last?.duration_ms === undefined || last.status === "waiting" || last.status === "lost") return end_ms;
  const attemptEnd = roundMs(last.start_ms + last.duration_ms);
  const wasRequeued = last.counted === false && end_ms - attemptEnd > SETTLE_MS;
  return wasRequeued ? end_ms : attemptEnd;
}

/**
 * Returns the time from the start to the end of a run as one attempt, open for an active run; none for a run that did not start.
 */
function toActiveTime({ started_at, ended_at, created_at, run_id }: TracedRun): readonly Span[] {
  if (started_at === null) return [];
  const start_ms = started_at - created_at;
  const ended = ended_at === null ? {} : { duration_ms: Math.max(0, ended_at - created_at - start_ms) };
  return [{ span_id: toRunSpanId(run_id), kind: "attempt", name: "", start_ms, status: "ok", ...ended }];
}

const RUN_STATUS: Readonly<Record<RunStatus, SpanStatus>> = {
  ...{ pending: "open", running: "open", success: "ok" },
  ...{ error: "error", timeout: "timeout", interrupted: "interrupted" },
};

interface DerivedSources {
  readonly attempts: readonly Span[];
  readonly queues: readonly QueueInterval[];
  readonly end_ms: number | null;
}

/**
 * Returns the spans that no attempt records, in this order: of the run, its request, its queues, durable operations and webhooks.
 */
function createDerivedSpans(sources: TraceSources, { attempts, queues, end_ms }: DerivedSources): readonly Span[] {
  const { traced, operations, webhooks, trace, keepError } = sources;
  const { run_id, created_at, error, trace_origin } = traced;
  const span_id = toRunSpanId(run_id);
  const derivedPrefix = toClaimPrefix(run_id, 0);
  const run: Span = {
    ...{ span_id, kind: "run", name: traced.graph_id, start_ms: 0 },
    ...(end_ms === null ? {} : { duration_ms: end_ms }),
    status: traced.waiting ? "waiting" : RUN_STATUS[traced.status],
    ...(error ? { error } : {}),
  };
  const { route, request_id } = trace_origin;
  const source = trace?.source ?? trace_origin.source ?? "in_process";
  const request: Span = {
    ...{ span_id: toSpanId(derivedPrefix, 1), parent_id: span_id, kind: "request", name: route ?? source },
    ...{ start_ms: 0, duration_ms: 0, status: "ok" },
    attributes: {
      source,
      ...(route === undefined ? {} : { route }),
      ...(request_id === undefined ? {} : { request_id }),
    },
  };
  return [
    run,
    request,
    ...queues.map((queue) => toQueueSpan(queue, toSpanId(derivedPrefix, queue.claim + 1), span_id)),
    ...operations.map((operation) =>
      toOperationSpan(operation, operation.span_id, { run_id, created_at, span_id, attempts, keepError }),
    ),
    ...webhooks.map((attempt) => toWebhookSpan(attempt, { parent_id: span_id, created_at })),
  ];
}

/** Returns the span of the time in which a run waited for the claim of this interval. */
const toQueueSpan = ({ claim, start_ms, end_ms }: QueueInterval, span_id: string, parent_id: string): Span => ({
  ...{ span_id, parent_id, kind: "queue", name: "queue", start_ms, duration_ms: roundMs(end_ms - start_ms) },
  ...{ status: "ok", claim },
});

/**
 * Returns the span of an attempt of a delivery. Its name is the host; a response status becomes an attribute, an error its type.
 */
function toWebhookSpan(
  { at, duration_ms, error, status, number, host, delivery_id }: WebhookAttempt,
  { created_at, parent_id }: { readonly parent_id: string; readonly created_at: number },
): Span {
  return {
    ...{ span_id: toWebhookSpanId(delivery_id, number), parent_id },
    ...{ kind: "webhook", name: host || "relative URL", start_ms: at - created_at, duration_ms, try: number },
    ...(error === null ? { status: "ok" } : { status: "error", error: { type: error } }),
    ...(status === null ? {} : { attributes: { status } }),
  };
}

/**
 * Returns a copy of the span of an attempt with the name of its worker; the span itself if the caller sees no workers or none is
 * known.
 */
function showWorker({ showsWorkers, claims }: TraceSources, span: Span): Span {
  const worker = showsWorkers ? claims.find(({ claim }) => claim === span.claim)?.worker : undefined;
  return worker === undefined ? span : { ...span, attributes: { ...span.attributes, worker } };
}

/**
 * Returns the span with its input and output: references as they are, with `gone: true` if `isGone`; copies with their content,
 * or left out if `contents` is null. The same object for a span without values.
 */
function showValues(span: Span, contents: TraceSources["contents"], isGone: boolean): Span {
  if (!span.input && !span.output) return span;
  const { input, output, ...spanWithoutValues } = span;
  const show = (value: SpanValue | undefined): SpanValue | undefined => {
    if (value === undefined) return undefined;
    if ("ref" in value) return isGone ? { ...value, gone: true } : value;
    return contents ? resolveValue(value as StoredValue, contents) : undefined;
  };
  const [shownInput, shownOutput] = [show(input), show(output)];
  return {
    ...spanWithoutValues,
    ...(shownInput ? { input: shownInput } : {}),
    ...(shownOutput ? { output: shownOutput } : {}),
  };
}

/** Returns the spans, where each further try of a node without links has a link `retries` to the try before, if that was kept. */
function withTryLinks(spans: readonly Span[]): readonly Span[] {
  const tries = new Map<string, string>();
  const toKey = ({ kind, name, namespace = [], task_id = "", claim = 0 }: Span, number: number): string =>
    JSON.stringify([kind, name, namespace, task_id, claim, number]);
  for (const span of spans) if (span.kind === "node" && span.try) tries.set(toKey(span, span.try), span.span_id);
  return spans.map((span) => {
    if (span.kind !== "node" || (span.try ?? 1) < 2 || span.links?.length) return span;
    const before = tries.get(toKey(span, (span.try as number) - 1));
    return before === undefined ? span : { ...span, links: [{ kind: "retries", span_id: before }] };
  });
}

/** Returns the spans with a parent that is among them: in place of one that was not kept, that of the attempt or the run. */
function withKnownParents(spans: readonly Span[], run_id: string, attempts: readonly Span[]): readonly Span[] {
  const ids = new Set(spans.map(({ span_id }) => span_id));
  const attemptIds = new Map(attempts.map(({ claim, span_id }) => [claim, span_id]));
  const root = toRunSpanId(run_id);
  return spans.map((span) => {
    if (span.parent_id === undefined || ids.has(span.parent_id)) return span;
    const attempt = attemptIds.get(span.claim);
    return { ...span, parent_id: attempt === undefined || attempt === span.span_id ? root : attempt };
  });
}

const RANKS: Readonly<Partial<Record<SpanKind, number>>> = { request: 1, queue: 2, attempt: 3, node: 4 };

const compareStarts = (a: Span, b: Span): number =>
  a.start_ms - b.start_ms ||
  (RANKS[a.kind] ?? 5) - (RANKS[b.kind] ?? 5) ||
  (a.claim ?? 0) - (b.claim ?? 0) ||
  (a.span_id < b.span_id ? -1 : 1);

/** Sorts as a tree: each span before its children, and siblings by their start. The parents of all are among them. */
function sortSpans(spans: readonly Span[]): readonly Span[] {
  const children = new Map<string | undefined, Span[]>();
  for (const span of spans) {
    const siblings = children.get(span.parent_id);
    if (siblings) siblings.push(span);
    else children.set(span.parent_id, [span]);
  }
  const sorted: Span[] = [];
  const stack = [...(children.get(undefined) ?? [])];
  for (let span = stack.pop(); span; span = stack.pop()) {
    sorted.push(span);
    const nested = children.get(span.span_id);
    if (nested) stack.push(...nested.sort(compareStarts).reverse());
  }
  return sorted;
}

/**
 * Returns the sums of the trace. Those of an ended run are the stored ones, plus number and errors of the derived spans; the
 * error of the run itself does not count. Without a stored end they are those of all spans here, and the dropped ones count by
 * their number.
 */
function createTotals({ trace, traced }: TraceSources, spans: readonly Span[], derived: readonly Span[]): TraceTotals {
  const errors = (list: readonly Span[]): number => list.filter(({ status }) => status === "error").length;
  if (trace && traced.ended_at !== null) {
    const { totals } = trace.head;
    const added = derived.filter(({ kind }) => kind !== "run");
    return { ...totals, spans: totals.spans + derived.length, errors: totals.errors + errors(added) };
  }
  const sum = (read: (span: Span) => number | undefined): number =>
    spans.reduce((total, span) => total + (read(span) ?? 0), 0);
  const dropped = trace?.head.dropped ?? {};
  const count = (kind: SpanKind): number => spans.filter((span) => span.kind === kind).length + (dropped[kind] ?? 0);
  return {
    spans: spans.length + Object.values(dropped).reduce((total, number) => total + number, 0),
    ...{ model: count("model"), tool: count("tool"), errors: errors(spans) },
    tokens_in: sum(({ tokens }) => tokens?.in),
    tokens_out: sum(({ tokens }) => tokens?.out),
    cost_usd: sum(({ cost_usd }) => cost_usd),
  };
}

/**
 * Returns the relations of the trace, each once: those of its origin, then its cron, then the runs that have begun an `ask` or
 * `wait` that this run continues.
 */
function createLinks({ trace_origin, cron_id }: TracedRun, derived: readonly Span[]): readonly SpanLink[] {
  const stored = listOriginLinks(trace_origin);
  const fired: readonly SpanLink[] = cron_id === null ? [] : [{ kind: "fired_by", cron_id }];
  const resumed = derived.filter(({ kind }) => kind === "ask" || kind === "wait").flatMap(({ links = [] }) => links);
  const links = new Map([...stored, ...fired, ...resumed].map((link) => [JSON.stringify(link), link]));
  return [...links.values()];
}

/** Returns the feedback as a trace shows it. A score or value that is null is left out. */
const toFeedback = ({ key, score, value, created_at }: FeedbackRow): TraceFeedback => ({
  key,
  ...(score === null ? {} : { score }),
  ...(value === null ? {} : { value }),
  at: formatIsoTime(created_at),
});
