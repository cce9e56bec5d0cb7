/** The spans of durable operations, from the journal of the call. They cost no write, and a replayed step makes no second span. */
import type { JournalEntry, StepKind } from "../executor/journal.ts";
import { copyStart } from "../json.ts";
import type { Span, SpanError, SpanLink, SpanStatus } from "../storage/mod.ts";
import { MAX_TRACE_NAME_CHARS } from "../storage/traces.ts";
import { roundMs } from "./round-ms.ts";

/** One use of a durable operation, with its entries in their order. */
export interface JournalOperation {
  readonly kind: StepKind;
  readonly name: string;
  readonly occurrence: number;
  readonly entries: readonly JournalEntry[];
}

/** The run whose trace is read. */
interface JournalRun {
  readonly run_id: string;
  readonly created_at: number;
  /** The id of the span of the run. */
  readonly span_id: string;
  /** In the order of their claims. */
  readonly attempts: readonly Span[];
  /** Returns what the trace keeps of the error of an operation. */
  keepError(error: NonNullable<JournalEntry["error"]>, operation: Pick<Span, "kind" | "name">): SpanError;
}

/**
 * Returns the operations that a run has begun or ended, with all their entries up to the last one of the run, in the order of
 * their first entries. Operations that had ended before the run was created, pauses and dropped entries are left out.
 */
export function listOperations(
  entries: readonly JournalEntry[],
  { run_id, created_at }: Pick<JournalRun, "run_id" | "created_at">,
): readonly JournalOperation[] {
  const last = entries.findLastIndex((entry) => entry.run_id === run_id);
  const operations = new Map<string, JournalEntry[]>();
  for (const entry of entries.slice(0, last + 1)) {
    if (entry.kind === "begin" || entry.kind === "pause" || entry.phase === "dropped") continue;
    const key = JSON.stringify([entry.kind, entry.name, entry.occurrence]);
    const list = operations.get(key) ?? [];
    list.push(entry);
    operations.set(key, list);
  }
  return [...operations.values()]
    .filter((list) => list.some((entry) => entry.run_id === run_id))
    .filter((list) => !isSettled(list.at(-1)) || (list.at(-1) as JournalEntry).at >= created_at)
    .map((list) => {
      const { kind, name, occurrence } = list[0] as JournalEntry;
      return { kind: kind as StepKind, name, occurrence, entries: list };
    });
}

const isSettled = (entry: JournalEntry | undefined): boolean =>
  entry !== undefined && entry.phase !== "begun" && entry.phase !== "failed";

const STATUS: Readonly<Record<JournalEntry["phase"], SpanStatus>> = {
  ...{ begun: "waiting", failed: "waiting", dropped: "waiting", done: "ok", error: "error", timeout: "timeout" },
};

/**
 * Returns the span of an operation, without a duration while it has not ended. A step lies under the attempt in which it ran,
 * anything else under the run. An operation that an earlier run has begun links to that run.
 */
export function toOperationSpan(operation: JournalOperation, span_id: string, run: JournalRun): Span {
  const { kind, name, entries } = operation;
  const [first, last] = [entries[0] as JournalEntry, entries.at(-1) as JournalEntry];
  const began_at = first.began ?? first.at;
  const start_ms = began_at - run.created_at;
  const hasEnded = isSettled(last);
  const end_ms = last.at - run.created_at;
  const attempt = kind === "step" ? findAttempt(run.attempts, start_ms, end_ms) : undefined;
  const link: SpanLink | undefined =
    first.run_id === run.run_id ? undefined : { kind: "resumes", run_id: first.run_id };
  const { error } = last;
  return {
    span_id,
    parent_id: attempt?.span_id ?? run.span_id,
    ...{ kind, name: copyStart(name, MAX_TRACE_NAME_CHARS), start_ms },
    ...(hasEnded ? { duration_ms: roundMs(Math.max(0, end_ms - start_ms)) } : {}),
    status: STATUS[last.phase],
    ...(error ? { error: run.keepError(error, { kind, name }) } : {}),
    ...(attempt ? { claim: attempt.claim as number, attempt: attempt.attempt ?? 1 } : {}),
    ...(last.attempt === undefined ? {} : { try: last.attempt }),
    ...(link ? { links: [link] } : {}),
  };
}

/** Returns the last attempt in which both times are, give or take a millisecond; undefined for none. An open attempt has no end. */
const findAttempt = (attempts: readonly Span[], start_ms: number, end_ms: number): Span | undefined =>
  attempts.findLast(
    (attempt) =>
      attempt.start_ms <= start_ms + 1 &&
      end_ms <= attempt.start_ms + (attempt.duration_ms ?? Number.POSITIVE_INFINITY) + 1,
  );
