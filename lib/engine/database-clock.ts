/** Measures the database's clock, for processes that share a database and whose clocks differ. */
import type { Environment } from "../environment.ts";

interface DatabaseClockOptions {
  readonly environment: Pick<Environment, "now" | "monotonic" | "timer" | "log">;
  /** Reads the clock of the database, in milliseconds since 1970. */
  now(): Promise<number>;
}

export interface DatabaseClock {
  /**
   * Returns whole milliseconds since 1970 by the database's clock, within half of the shortest round trip. A step back of less
   * than a second makes it stand still until the time has caught up; a larger one takes effect at once.
   */
  readonly now: Environment["now"];
  /** Stops the measurements; `now` continues with the last offset. */
  stop(): void;
}

/** The difference from the monotonic time, the maximum error, and the monotonic time of the measurement. */
interface Offset {
  readonly offset: number;
  readonly error: number;
  readonly at: number;
}

/** The number of round trips per measurement, of which the shortest one counts. */
const ROUNDS = 4;
const MEASURE_INTERVAL_MS = 10_000;
/** The interval of the checks for stalls, and the delay or clock difference that proves one. */
const CHECK_INTERVAL_MS = 1_000;
const STALL_THRESHOLD_MS = 500;
const MAX_BACKWARD_STEP_MS = 1_000;
/** The drift of a process's clock, as a share of the elapsed time. */
const DRIFT = 0.0005;

/**
 * Starts a clock of the database's time, which is measured again regularly and after stalls. Its `now()` does not go back by
 * small steps. Resolves after the first measurement, and rejects if that fails. Later failures are logged, and the measurement is
 * repeated.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export async function startDatabaseClock({ environment, now }: DatabaseClockOptions): Promise<DatabaseClock> {
  const monotonic = environment.monotonic ?? environment.now;
  let current = await measureOffset();
  let latest = Number.NEGATIVE_INFINITY;
  let lastTimes = { monotonic: monotonic(), local: environment.now() };
  let measuredAt = lastTimes.monotonic;
  let isMeasuring = false;
  let isStopped = false;
  let cancel = (): void => {};

  /**
   * Reads the time of the database several times. Returns the offset of the fastest read; throws if already the first read fails.
   */
  async function measureOffset(): Promise<Offset> {
    let best: Offset | undefined;
    for (let i = 0; i < ROUNDS; i++) {
      const sentAt = monotonic();
      let time: number;
      try {
        time = await now();
      } catch (error) {
        if (best) break;
        throw error;
      }
      const at = monotonic();
      const error = (at - sentAt) / 2;
      if (!best || error < best.error) best = { offset: time - (sentAt + at) / 2, error, at };
    }
    return best as Offset;
  }

  /** Adopts a measurement if it is more precise than the current offset or contradicts it. */
  function adoptIfBetter(measured: Offset): void {
    const error = current.error + (measured.at - current.at) * DRIFT;
    const difference = Math.abs(measured.offset - current.offset);
    if (measured.error <= error || difference > measured.error + error) current = measured;
  }

  /** Measures in the background, and adopts the result if it is better. A failure is logged, unless the clock is stopped. */
  function startMeasurement(): void {
    measuredAt = monotonic();
    isMeasuring = true;
    measureOffset()
      .then(adoptIfBetter)
      .catch((error: unknown) => {
        if (!isStopped) environment.log({ level: "warn", message: "reading the time of the database failed", error });
      })
      .finally(() => {
        isMeasuring = false;
      });
  }

  /** Starts a measurement if one is due, or if the process has stalled and none is running. Schedules the next check. */
  function check(): void {
    const before = lastTimes;
    lastTimes = { monotonic: monotonic(), local: environment.now() };
    const passed = lastTimes.monotonic - before.monotonic;
    const difference = Math.abs(lastTimes.local - before.local - passed);
    const hasStalled = passed > CHECK_INTERVAL_MS + STALL_THRESHOLD_MS || difference > STALL_THRESHOLD_MS;
    const isDue = lastTimes.monotonic - measuredAt >= MEASURE_INTERVAL_MS;
    // A measurement that takes this long gets no response any more.
    if (isDue || (hasStalled && !isMeasuring)) startMeasurement();
    cancel = environment.timer(CHECK_INTERVAL_MS, check);
  }

  cancel = environment.timer(CHECK_INTERVAL_MS, check);
  return {
    now() {
      const time = Math.round(monotonic() + current.offset);
      if (time > latest || latest - time > MAX_BACKWARD_STEP_MS) latest = time;
      return latest;
    },
    stop() {
      isStopped = true;
      cancel();
    },
  };
}
