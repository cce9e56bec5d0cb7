/** The runs of the last hour, minute by minute. */
import type { IsoTime } from "../json.ts";
import { formatIsoTime } from "../rfc3339.ts";
import type { RunStatus, RunTimes, Scope, Storage } from "../storage/mod.ts";

/** Percentiles, in milliseconds. */
interface Percentiles {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

/** What happened in one minute. */
interface RunMinute {
  /** Its start. */
  readonly minute: IsoTime;
  readonly created: number;
  readonly started: number;
  readonly ended: number;
  /** Ended as `error` or `timeout`. */
  readonly failed: number;
  /** Due and not started at its end. */
  readonly queued: number;
  /** Of the runs that started; null without. */
  readonly wait_ms: Percentiles | null;
  /** Of the runs that ended after a start; null without. */
  readonly duration_ms: Percentiles | null;
}

export interface RunStats {
  readonly since: IsoTime;
  readonly until: IsoTime;
  /** Runs created in the last hour, by their status now. Pending and running ones count whatever their age. */
  readonly statuses: Readonly<Record<RunStatus, number>>;
  /** The last 60 minutes, oldest first; the last one is not complete. */
  readonly minutes: readonly RunMinute[];
  /** False: there were too many runs, and `minutes` counts only the newest. */
  readonly complete: boolean;
}

const MINUTE_MS = 60_000;
const MINUTES = 60;
const HOUR_MS = MINUTES * MINUTE_MS;
/** `minutes` counts at most this many runs. */
const MOST_TIMES = 5_000;

interface Counted {
  created: number;
  started: number;
  ended: number;
  failed: number;
  /** Runs that began to wait, minus those that stopped waiting. */
  joined: number;
  readonly waits: number[];
  readonly durations: number[];
}

export async function runStats(storage: Storage, scope: Scope, now: number): Promise<RunStats> {
  const since = { counted_since: now - HOUR_MS, timed_since: now - 2 * HOUR_MS };
  const { counts, times } = await storage.readRunTimes(scope, { ...since, limit: MOST_TIMES + 1 });
  return statsOf(counts, times.slice(0, MOST_TIMES), times.length <= MOST_TIMES, now);
}

/** `times`: of runs that were created in the last two hours, and of active ones. */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one pass over the runs fills all counts
export function statsOf(
  statuses: RunStats["statuses"],
  times: readonly RunTimes[],
  complete: boolean,
  now: number,
): RunStats {
  const first = Math.floor(now / MINUTE_MS) * MINUTE_MS - (MINUTES - 1) * MINUTE_MS;
  const counts = Array.from(
    { length: MINUTES },
    (): Counted => ({ created: 0, started: 0, ended: 0, failed: 0, joined: 0, waits: [], durations: [] }),
  );
  const at = (time: number | null): Counted | undefined =>
    time === null ? undefined : counts[Math.floor((time - first) / MINUTE_MS)];
  let waiting = 0;
  for (const { status, created_at, started_at, ended_at } of times) {
    // Delayed runs are not due yet.
    if (created_at > now) continue;
    const left = started_at ?? ended_at;
    const created = at(created_at);
    if (created) created.created++;
    const started = at(started_at);
    if (started && started_at !== null) {
      started.started++;
      started.waits.push(Math.max(0, started_at - created_at));
    }
    const ended = at(ended_at);
    if (ended && ended_at !== null) {
      ended.ended++;
      if (status === "error" || status === "timeout") ended.failed++;
      if (started_at !== null) ended.durations.push(Math.max(0, ended_at - started_at));
    }
    if (left !== null && left < first) continue;
    if (created) created.joined++;
    else waiting++;
    const ceased = at(left);
    if (ceased) ceased.joined--;
  }
  const minutes = counts.map((count, i): RunMinute => {
    waiting += count.joined;
    const { created, started, ended, failed, waits, durations } = count;
    const minute = formatIsoTime(first + i * MINUTE_MS);
    return {
      ...{ minute, created, started, ended, failed, queued: Math.max(0, waiting) },
      wait_ms: percentiles(waits),
      duration_ms: percentiles(durations),
    };
  });
  return { since: formatIsoTime(first), until: formatIsoTime(now), statuses, minutes, complete };
}

/** By nearest rank. */
function percentiles(values: number[]): Percentiles | null {
  if (values.length === 0) return null;
  values.sort((a, b) => a - b);
  const rank = (part: number): number => values[Math.ceil(part * values.length) - 1] as number;
  return { p50: rank(0.5), p95: rank(0.95), p99: rank(0.99) };
}
