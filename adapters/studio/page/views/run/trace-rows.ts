/** The rows of a trace: its spans as a tree, with the words that they show. */
import type { RunTrace, Span, SpanStatus } from "../../api/types.ts";
import { formatDuration } from "../../parts/components.tsx";
import { type Segment, splitIntoSegments } from "./axis.ts";

export interface TraceRow {
  readonly span: Span;
  /** 1 for the spans of the run itself. */
  readonly level: number;
  /** True if spans lie below it, whether they are shown or not. */
  readonly hasChildren: boolean;
  /** The tokens and the cost of the span and of all below it. */
  readonly tokens: number;
  readonly cost_usd: number;
}

/** The page shows the run around the rows, and how it was created beside them. */
const isShown = ({ kind }: Span): boolean => kind !== "run" && kind !== "request";

const RANKS: Readonly<Partial<Record<Span["kind"], number>>> = { queue: 1, attempt: 2, node: 3 };

const compareStarts = (a: Span, b: Span): number =>
  a.start_ms - b.start_ms || (RANKS[a.kind] ?? 4) - (RANKS[b.kind] ?? 4) || (a.span_id < b.span_id ? -1 : 1);

/** Returns the spans with rows by their parents; those without a parent that has a row are under the empty text. */
function groupByParent(spans: readonly Span[]): ReadonlyMap<string, readonly Span[]> {
  const treeSpans = spans.filter(isShown);
  const ids = new Set(treeSpans.map(({ span_id }) => span_id));
  const children = new Map<string, Span[]>();
  for (const span of treeSpans.sort(compareStarts)) {
    const parent = span.parent_id !== undefined && ids.has(span.parent_id) ? span.parent_id : "";
    const siblings = children.get(parent);
    if (siblings) siblings.push(span);
    else children.set(parent, [span]);
  }
  return children;
}

/** Returns the rows in the order of a tree: each before those below it, siblings by their start. Leaves out what is folded. */
export function createRows(spans: readonly Span[], folded: ReadonlySet<string>): readonly TraceRow[] {
  const children = groupByParent(spans);
  /** Returns the rows of a span and of all below it. Those below a folded one are left out. */
  const listRows = (span: Span, level: number): readonly TraceRow[] => {
    const { span_id } = span;
    const below = (children.get(span_id) ?? []).map((child) => listRows(child, level + 1));
    const sum = (read: (row: TraceRow) => number, own: number): number =>
      below.reduce((total, [child]) => total + (child ? read(child) : 0), own);
    const row: TraceRow = {
      ...{ span, level, hasChildren: below.length > 0 },
      tokens: sum(({ tokens }) => tokens, (span.tokens?.in ?? 0) + (span.tokens?.out ?? 0)),
      cost_usd: sum(({ cost_usd }) => cost_usd, span.cost_usd ?? 0),
    };
    return folded.has(span_id) ? [row] : [row, ...below.flat()];
  };
  return (children.get("") ?? []).flatMap((span) => listRows(span, 1));
}

/** Returns when a span ends, or ended; for an open one when its run does, or now. In milliseconds after the creation of the run. */
export const findEnd = ({ start_ms, duration_ms }: Span, end_ms: number): number =>
  duration_ms === undefined ? Math.max(start_ms, end_ms) : start_ms + duration_ms;

/** Returns the segments of a run, until its end or `now_ms`. Those of an active run are found by its attempts, as they come. */
export function listSegments({ segments, spans, ended_at }: RunTrace, now_ms: number): readonly Segment[] {
  if (ended_at !== undefined)
    return segments.map(({ kind, start_ms, duration_ms }) => ({ kind, from: start_ms, to: start_ms + duration_ms }));
  const attempts = spans
    .filter(({ kind }) => kind === "attempt")
    .map((span) => ({ from: span.start_ms, to: findEnd(span, now_ms), status: span.status }));
  const to = Math.max(now_ms, 1, ...attempts.map((attempt) => attempt.to));
  return splitIntoSegments(attempts, { from: 0, to }, (from) =>
    attempts.findLast((attempt) => attempt.to <= from)?.status === "waiting" ? "suspended" : "queued",
  );
}

/** Status → sign and words. Colour never says it alone. */
const SPAN_STATUSES: Readonly<Record<SpanStatus, readonly [sign: string, text: string]>> = {
  open: ["●", "running"],
  ok: ["✓", "ok"],
  error: ["✕", "error"],
  timeout: ["✕", "timeout"],
  interrupted: ["‖", "interrupted"],
  waiting: ["◌", "waiting"],
  lost: ["⊘", "lost"],
};

/** Returns the sign and the word of a span's status. An attempt does not wait: it has ended, and its run is suspended. */
export const formatStatus = ({ kind, status }: Span): readonly [sign: string, text: string] =>
  kind === "attempt" && status === "waiting" ? ["◌", "suspended"] : SPAN_STATUSES[status];

/** Returns the kind and the name of a span; no name where it would only repeat the kind. */
export function formatName({ kind, name, attempt = 1 }: Span): readonly [kind: string, name: string] {
  if (kind === "attempt") return [kind, String(attempt)];
  return [kind, name === kind ? "" : name];
}

/** Returns what a row says beside its name and its times. */
export function formatNotes(span: Span): readonly string[] {
  const { kind, status, attributes = {}, links = [], start_ms, counted, error, first_token_ms } = span;
  const isAttempt = kind === "attempt";
  return [
    ...(isAttempt && links.some((link) => link.kind === "resumes") ? ["resumed"] : []),
    ...(isAttempt && attributes["worker"] ? [`by ${attributes["worker"]}`] : []),
    ...(isAttempt && counted === false && status !== "waiting" ? ["not counted"] : []),
    ...((span.try ?? 1) > 1 ? [`try ${span.try}`] : []),
    ...(start_ms < -1 ? [`began ${formatDuration(-start_ms)} before this run`] : []),
    ...(kind === "webhook" && attributes["status"] ? [String(attributes["status"])] : []),
    ...(first_token_ms === undefined ? [] : [`first token ${formatDuration(first_token_ms)}`]),
    ...(error ? [error.type] : []),
  ];
}
