/** The runs of the last hour, minute by minute. */
import type { IsoTime } from "../json.ts";
import { formatIsoTime } from "../rfc3339.ts";
import type { RunStatus, RunTimes, Scope, Storage } from "../storage/mod.ts";

/** Percentiles, in milliseconds. */
export interface Percentiles {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

/** The counts of one minute. */
export interface RunMinute {
  /** The start of the minute. */
  readonly minute: IsoTime;
  readonly created: number;
  readonly started: number;
  readonly ended: number;
  /** The number of runs that ended as `error` or `timeout`. */
  readonly failed: number;
  /** The number of runs that were due and not started at the end of the minute. */
  readonly queued: number;
  /** The waits of the runs that started; null if none did. */
  readonly wait_ms: Percentiles | null;
  /** The durations of the runs that ended after a start; null if none did. */
  readonly duration_ms: Percentiles | null;
}

/** Counts, waits and durations of the runs of the last hour. */
export interface RunStats {
  readonly since: IsoTime;
  readonly until: IsoTime;
  /** The runs created in the last hour, by their status now, and all pending and running ones. */
  readonly statuses: Readonly<Record<RunStatus, number>>;
  /** The last 60 minutes, oldest first; the last one is not complete. */
  readonly minutes: readonly RunMinute[];
  /** False if there were too many runs, so that `minutes` counts only the newest. */
  readonly complete: boolean;
}

const MINUTE_MS = 60_000;
const MINUTES = 60;
const HOUR_MS = MINUTES * MINUTE_MS;
/** The maximum number of runs that `minutes` counts. */
const MAX_TIMED_RUNS = 5_000;

interface MinuteCounts {
  created: number;
  started: number;
  ended: number;
  failed: number;
  /** The number of runs that entered the queue, minus those that left it. */
  queued_change: number;
  readonly waits: number[];
  readonly durations: number[];
}

/**
 * Reads runs and returns the statistics of the last hour. If too many runs are active or were created in the last two hours,
 * only the newest count in the minutes, and `complete` is false.
 */
export async function readRunStats(storage: Storage, scope: Scope, now: number): Promise<RunStats> {
  const since = { counted_since: now - HOUR_MS, timed_since: now - 2 * HOUR_MS };
  const { counts, times } = await storage.readRunTimes(scope, { ...since, limit: MAX_TIMED_RUNS + 1 });
  return computeRunStats(counts, times.slice(0, MAX_TIMED_RUNS), times.length <= MAX_TIMED_RUNS, now);
}

/**
 * Returns, for each minute of the last hour, counts of runs, the queue length at its end, and percentiles of waits and
 * durations. `times` are those of runs created in the last two hours, and of active runs. Ignores delayed runs that are not due
 * yet. `statuses` and `complete` are returned unchanged.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one pass over the runs fills all counts
export function computeRunStats(
  statuses: RunStats["statuses"],
  times: readonly RunTimes[],
  complete: boolean,
  now: number,
): RunStats {
  const firstMinuteAt = Math.floor(now / MINUTE_MS) * MINUTE_MS - (MINUTES - 1) * MINUTE_MS;
  const counts = Array.from(
    { length: MINUTES },
    (): MinuteCounts => ({ created: 0, started: 0, ended: 0, failed: 0, queued_change: 0, waits: [], durations: [] }),
  );
  const findMinute = (time: number | null): MinuteCounts | undefined =>
    time === null ? undefined : counts[Math.floor((time - firstMinuteAt) / MINUTE_MS)];
  let waiting = 0;
  for (const { status, created_at, started_at, ended_at } of times) {
    // Delayed runs are not due yet.
    if (created_at > now) continue;
    const leftQueueAt = started_at ?? ended_at;
    const createdMinute = findMinute(created_at);
    if (createdMinute) createdMinute.created++;
    const startedMinute = findMinute(started_at);
    if (startedMinute && started_at !== null) {
      startedMinute.started++;
      startedMinute.waits.push(Math.max(0, started_at - created_at));
    }
    const endedMinute = findMinute(ended_at);
    if (endedMinute && ended_at !== null) {
      endedMinute.ended++;
      if (status === "error" || status === "timeout") endedMinute.failed++;
      if (started_at !== null) endedMinute.durations.push(Math.max(0, ended_at - started_at));
    }
    if (leftQueueAt !== null && leftQueueAt < firstMinuteAt) continue;
    if (createdMinute) createdMinute.queued_change++;
    else waiting++;
    const leavingMinute = findMinute(leftQueueAt);
    if (leavingMinute) leavingMinute.queued_change--;
  }
  const minutes = counts.map((count, i): RunMinute => {
    waiting += count.queued_change;
    const { created, started, ended, failed, waits, durations } = count;
    const minute = formatIsoTime(firstMinuteAt + i * MINUTE_MS);
    return {
      ...{ minute, created, started, ended, failed, queued: Math.max(0, waiting) },
      wait_ms: percentiles(waits),
      duration_ms: percentiles(durations),
    };
  });
  return { since: formatIsoTime(firstMinuteAt), until: formatIsoTime(now), statuses, minutes, complete };
}

/** Returns percentiles by nearest rank, or null without values. Sorts `values` in place. */
function percentiles(values: number[]): Percentiles | null {
  if (values.length === 0) return null;
  values.sort((a, b) => a - b);
  const rank = (fraction: number): number => values[Math.ceil(fraction * values.length) - 1] as number;
  return { p50: rank(0.5), p95: rank(0.95), p99: rank(0.99) };
}
