/** The spans of a trace as read: the stored records and those in memory, with an end for what a lost attempt has left open. */
import type { RunClaim, RunRow, Span, StoredTrace, TraceHead } from "../storage/mod.ts";
import { toAttemptId, toRunSpanId } from "./ids.ts";
import { roundMs } from "./round-ms.ts";

/** What is known about the attempts of a run. */
export interface AttemptRecords {
  readonly run_id: string;
  readonly graph_id: string;
  /** Milliseconds since 1970, as all times here. */
  readonly created_at: number;
  /** The stored trace; null before the first save. */
  readonly trace: Pick<StoredTrace, "spans" | "parts" | "head" | "ended_at"> | null;
  /** The spans in memory; null if the run does not execute in this process. */
  readonly live: readonly Span[] | null;
  /** The row of the run; null once a stateless run was deleted. */
  readonly run: Pick<RunRow, "status" | "claims" | "ended_at"> | null;
  /** Oldest first. */
  readonly claims: readonly RunClaim[];
  readonly lease_ms: number;
  /** When entries of the run's journal were made. Their saves need not have had spans. */
  readonly journaled_at: readonly number[];
}

const parseSpans = (json: string): readonly Span[] => JSON.parse(json) as readonly Span[];

/** Returns one record for each span by its id: of several, stored before live, the last one, but never an open one after an end. */
function mergeRecords({ trace, live }: AttemptRecords): Map<string, Span> {
  const spans = new Map<string, Span>();
  const lists = [...(trace?.parts ?? []).map(({ json }) => json), ...(trace?.spans ? [trace.spans] : [])].map(
    parseSpans,
  );
  for (const span of [...lists, live ?? []].flat()) {
    const earlier = spans.get(span.span_id);
    if (!earlier || earlier.status === "open" || span.status !== "open") spans.set(span.span_id, span);
  }
  return spans;
}

/**
 * Returns the spans that attempts have recorded, and a span for each attempt that has stored none. Attempts are in the order of their
 * claims, with their number and a link to the attempt before. Open spans of an attempt that has ended get the status `lost`.
 */
export function mergeSpans(records: AttemptRecords): {
  readonly attempts: readonly Span[];
  readonly innerSpans: readonly Span[];
} {
  const spans = mergeRecords(records);
  const stored = [...spans.values()].filter(({ kind }) => kind === "attempt");
  const byClaim = new Map(stored.map((span) => [span.claim ?? 1, span]));
  // A run whose spans were not kept has no attempts either.
  const areKept = records.trace?.ended_at == null || records.trace.head.sampled || stored.length > 0;
  const claims = new Map(records.claims.map((claim) => [claim.claim, claim]));
  const numbers = new Set([...byClaim.keys(), ...(areKept ? claims.keys() : [])]);
  const attempts: Span[] = [];
  const sorted = [...numbers].sort((a, b) => a - b);
  for (const [index, claim] of sorted.entries()) {
    const next = sorted[index + 1] ?? 0;
    const next_ms =
      byClaim.get(next)?.start_ms ?? (claims.get(next)?.at ?? Number.POSITIVE_INFINITY) - records.created_at;
    const journaled_at = records.journaled_at.filter((at) => at - records.created_at < next_ms);
    const attempt = toAttempt({ ...records, journaled_at }, byClaim.get(claim), claim, claims.get(claim), attempts);
    if (attempt) attempts.push(startAfter(attempt, attempts.at(-1)));
  }
  const ends = new Map(attempts.map((attempt) => [attempt.claim, attempt]));
  const innerSpans = [...spans.values()].filter(({ kind }) => kind !== "attempt");
  return { attempts, innerSpans: innerSpans.map((span) => endLost(span, ends.get(span.claim))) };
}

/** Returns the attempt, started no earlier than the one before: the clocks of two processes may differ. Its end stays. */
function startAfter(attempt: Span, earlier: Span | undefined): Span {
  if (!earlier || attempt.start_ms >= earlier.start_ms) return attempt;
  const { start_ms } = earlier;
  if (attempt.duration_ms === undefined) return { ...attempt, start_ms };
  return { ...attempt, start_ms, duration_ms: roundMs(Math.max(0, attempt.start_ms + attempt.duration_ms - start_ms)) };
}

/**
 * Returns the span of an attempt: as stored, else made of the logged claim; null for a claim that is neither stored, lost nor the
 * present one. `earlier` gives its number and its link. An open one that is not the present one is `lost`, and ends at
 * `findLostEnd`.
 */
// biome-ignore lint/complexity/useMaxParams: the sources of one attempt
function toAttempt(
  records: AttemptRecords,
  stored: Span | undefined,
  claim: number,
  logged: RunClaim | undefined,
  earlier: readonly Span[],
): Span | null {
  const { run, run_id, graph_id, created_at } = records;
  const isPresent = run?.status === "running" && claim === run.claims;
  const counted = earlier.filter((attempt) => attempt.counted !== false).length;
  const base: Span | null =
    stored ??
    (logged && {
      ...{ span_id: toAttemptId(run_id, claim), parent_id: toRunSpanId(run_id), kind: "attempt", name: graph_id },
      ...{ start_ms: roundMs(logged.at - created_at), status: "open", claim, attempt: counted + 1 },
    }) ??
    null;
  const isLost = logged?.lost_lease_until != null;
  if (!base || (!stored && !isLost && !isPresent)) return null;
  const before = earlier.at(-1);
  const link =
    before && ({ kind: before.status === "waiting" ? "resumes" : "retries", span_id: before.span_id } as const);
  const attempt: Span = link && !base.links?.length ? { ...base, links: [link] } : base;
  if ((attempt.status !== "open" && attempt.status !== "lost") || isPresent) return attempt;
  const end_ms = findLostEnd(records, attempt, logged);
  return { ...attempt, status: "lost", counted: true, duration_ms: roundMs(Math.max(0, end_ms - attempt.start_ms)) };
}

/**
 * Returns the end of a lost attempt in milliseconds after the run's creation: its last save or last renewal, but not after the
 * run's end.
 */
function findLostEnd(
  { trace, lease_ms, created_at, run, journaled_at }: AttemptRecords,
  { claim, start_ms, duration_ms = 0 }: Span,
  logged?: RunClaim,
): number {
  const head: TraceHead | undefined = trace?.head;
  const saved = head && head.claim === claim ? head.at_ms : start_ms;
  const renewed = logged?.lost_lease_until == null ? start_ms : logged.lost_lease_until - lease_ms - created_at;
  const end_ms = Math.max(start_ms + duration_ms, saved, renewed, ...journaled_at.map((at) => at - created_at));
  return run?.ended_at == null ? end_ms : Math.min(end_ms, run.ended_at - created_at);
}

/**
 * Returns a copy, `lost` at the end of its attempt, of an open span whose attempt has ended in any way; any other span unchanged.
 */
function endLost(span: Span, attempt: Span | undefined): Span {
  if (span.status !== "open" || !attempt || attempt.status === "open") return span;
  const end_ms = attempt.start_ms + (attempt.duration_ms ?? 0);
  return { ...span, status: "lost", duration_ms: roundMs(Math.max(0, end_ms - span.start_ms)) };
}
