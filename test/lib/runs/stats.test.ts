import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { computeRunStats } from "../../../lib/runs/stats.ts";
import type { RunTimes } from "../../../lib/storage/mod.ts";

const MINUTE = 60_000;
/** 30 s into a minute; the last of the 60 minutes is this one. */
const NOW = 100 * MINUTE + 30_000;
const NONE = { pending: 0, running: 0, success: 0, error: 0, timeout: 0, interrupted: 0 };

const run = (
  created_at: number,
  started_at: number | null = null,
  ended_at: number | null = null,
  status: RunTimes["status"] = "success",
): RunTimes => ({ status, created_at, started_at, ended_at });

const computeMinutes = (...times: RunTimes[]) => computeRunStats(NONE, times, true, NOW).minutes;
const queuedIn = (...times: RunTimes[]): number[] => computeMinutes(...times).map(({ queued }) => queued);

describe("the run statistics of the last hour", () => {
  it("cover 60 minutes, including the current one", () => {
    const { since, until, minutes } = computeRunStats(NONE, [], true, NOW);
    assert.deepEqual([since, until], ["1970-01-01T00:41:00.000Z", "1970-01-01T01:40:30.000Z"]);
    assert.deepEqual(
      [minutes.length, minutes[0]?.minute, minutes[59]?.minute],
      [60, since, "1970-01-01T01:40:00.000Z"],
    );
    const zero = { created: 0, started: 0, ended: 0, failed: 0, queued: 0, wait_ms: null, duration_ms: null };
    assert.deepEqual(minutes[7], { minute: "1970-01-01T00:48:00.000Z", ...zero });
  });

  it("count each run in the minutes of its creation, start and end", () => {
    const minutes = computeMinutes(run(50 * MINUTE, 51 * MINUTE, 53 * MINUTE, "timeout"));
    const at = (minute: number) => minutes[minute - 41];
    assert.deepEqual([at(50)?.created, at(51)?.started, at(53)?.ended, at(53)?.failed], [1, 1, 1, 1]);
    assert.deepEqual(at(51)?.wait_ms, { p50: MINUTE, p95: MINUTE, p99: MINUTE });
    assert.deepEqual(at(53)?.duration_ms, { p50: 2 * MINUTE, p95: 2 * MINUTE, p99: 2 * MINUTE });
    assert.equal(
      minutes.reduce((sum, { created }) => sum + created, 0),
      1,
    );
  });

  it("count the waiting runs at the end of each minute", () => {
    const none = Array<number>(60).fill(0);
    assert.deepEqual(queuedIn(run(50 * MINUTE, 50 * MINUTE + 9)), none);
    assert.deepEqual(queuedIn(run(50 * MINUTE, 52 * MINUTE)), none.with(9, 1).with(10, 1), "two minutes");
    assert.deepEqual(queuedIn(run(10 * MINUTE, 42 * MINUTE)), none.with(0, 1), "since before the hour");
    assert.deepEqual(queuedIn(run(10 * MINUTE, 20 * MINUTE, 30 * MINUTE)), none, "over before the hour");
    assert.deepEqual(queuedIn(run(98 * MINUTE, null, null, "pending")), none.fill(1, 57), "still");
    none.fill(0);
    assert.deepEqual(queuedIn(run(50 * MINUTE, null, 51 * MINUTE, "interrupted")), none.with(9, 1), "stopped before");
    assert.deepEqual(queuedIn(run(NOW + 1, null, null, "pending")), none, "not due yet");
  });

  it("have percentiles by nearest rank", () => {
    const start = 60 * MINUTE;
    const runs = Array.from({ length: 100 }, (_, i) => run(start - (i + 1), start));
    assert.deepEqual(computeMinutes(...runs)[19]?.wait_ms, { p50: 50, p95: 95, p99: 99 });
  });
});
