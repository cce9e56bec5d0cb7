/** The segments of a trace: when its run was queued, active and suspended. */
import type { Span } from "../storage/mod.ts";
import { roundMs } from "./round-ms.ts";

/** An interval of a run. Segments adjoin. */
export interface TraceSegment {
  readonly kind: "queued" | "active" | "suspended";
  /** Milliseconds after the run's `created_at`. */
  readonly start_ms: number;
  /** Until now for the last segment of an active run. */
  readonly duration_ms: number;
}

/** An interval in which a run waited for a claim. */
export interface QueueInterval {
  readonly claim: number;
  readonly start_ms: number;
  readonly end_ms: number;
}

interface SegmentSources {
  /** In the order of their claims. */
  readonly attempts: readonly Span[];
  /** When the run ended, or now; in milliseconds after its creation. */
  readonly end_ms: number;
  /** True while the run is suspended. */
  readonly isSuspended: boolean;
  /** The times at which durable operations make a suspended run due. */
  readonly due_ms: readonly number[];
}

/**
 * Returns the segments of a run, which adjoin from its creation to `end_ms`, and a queue interval for each attempt. Equal
 * neighbours become one segment; segments without a length are omitted.
 */
export function createSegments({ attempts, end_ms, isSuspended, due_ms }: SegmentSources): {
  readonly segments: readonly TraceSegment[];
  readonly queues: readonly QueueInterval[];
} {
  const segments: TraceSegment[] = [];
  const queues: QueueInterval[] = [];
  let cursor = 0;
  /** Adds a segment from the last end to `until`, or extends the last one of this kind. Does nothing if `until` is not later. */
  const addUntil = (kind: TraceSegment["kind"], until: number): void => {
    if (until <= cursor) return;
    const last = segments.at(-1);
    const duration_ms = roundMs(until - cursor);
    if (last?.kind === kind)
      segments[segments.length - 1] = { ...last, duration_ms: roundMs(last.duration_ms + duration_ms) };
    else segments.push({ kind, start_ms: roundMs(cursor), duration_ms });
    cursor = until;
  };
  let wasSuspended = false;
  for (const attempt of attempts) {
    const { start_ms, claim = 1 } = attempt;
    if (wasSuspended) addUntil("suspended", findDue(due_ms, cursor, start_ms));
    queues.push({ claim, start_ms: roundMs(Math.min(cursor, start_ms)), end_ms: start_ms });
    addUntil("queued", start_ms);
    addUntil("active", start_ms + (attempt.duration_ms ?? Math.max(0, end_ms - start_ms)));
    wasSuspended = attempt.status === "waiting";
  }
  addUntil(isSuspended || wasSuspended ? "suspended" : "queued", end_ms);
  return { segments, queues };
}

/** Returns when a suspended run became due: at the first timer between both times, else, as by an event, at the claim after it. */
function findDue(due_ms: readonly number[], suspended_ms: number, claimed_ms: number): number {
  const timers = due_ms.filter((timer_ms) => timer_ms >= suspended_ms && timer_ms <= claimed_ms);
  return timers.length > 0 ? Math.min(...timers) : claimed_ms;
}

/** Returns the sum of the segments of a kind. */
export const sumSegments = (segments: readonly TraceSegment[], kind: TraceSegment["kind"]): number =>
  roundMs(segments.reduce((sum, segment) => sum + (segment.kind === kind ? segment.duration_ms : 0), 0));
