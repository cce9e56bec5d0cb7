/** The database's clock, for processes that share a database and whose own clocks differ. */
import type { Environment } from "../environment.ts";

interface ClockOptions {
  readonly environment: Pick<Environment, "now" | "monotonic" | "timer" | "log">;
  /** Milliseconds since 1970 by the clock of the database. */
  now(): Promise<number>;
}

export interface Clock {
  /**
   * Whole milliseconds since 1970 by the database's clock, within half of the shortest round trip. A step back of less than a second
   * makes it stand still until the time has caught up; a larger one takes effect at once.
   */
  readonly now: Environment["now"];
  /** Stops the measurements; `now` continues with the last offset. */
  stop(): void;
}

/** What to add to the monotonic time, the possible error, and the monotonic time of the measurement. */
interface Offset {
  readonly offset: number;
  readonly error: number;
  readonly at: number;
}

/** Round trips per measurement: the shortest one counts. */
const ROUNDS = 4;
const SYNC_MS = 10_000;
/** The interval of the checks whether the process stood still, and the delay or clock difference that proves it. */
const CHECK_MS = 1_000;
const STOOD_MS = 500;
const HOLD_MS = 1_000;
/** The drift of a process's clock, as a share of the elapsed time. */
const DRIFT = 0.0005;

/** Resolves after the first measurement and rejects if it fails. Later failures are logged, and the measurement is repeated. */
export async function startClock({ environment, now }: ClockOptions): Promise<Clock> {
  const monotonic = environment.monotonic ?? environment.now;
  let known = await roundTrips();
  let latest = Number.NEGATIVE_INFINITY;
  let seen = { monotonic: monotonic(), own: environment.now() };
  let began = seen.monotonic;
  let measuring = false;
  let stopped = false;
  let cancel = (): void => {};

  async function roundTrips(): Promise<Offset> {
    let best: Offset | undefined;
    for (let i = 0; i < ROUNDS; i++) {
      const sent = monotonic();
      let time: number;
      try {
        time = await now();
      } catch (error) {
        if (best) break;
        throw error;
      }
      const at = monotonic();
      const error = (at - sent) / 2;
      if (!best || error < best.error) best = { offset: time - (sent + at) / 2, error, at };
    }
    return best as Offset;
  }

  /** A less precise measurement counts only if it contradicts the known offset. */
  function learn(found: Offset): void {
    const error = known.error + (found.at - known.at) * DRIFT;
    const apart = Math.abs(found.offset - known.offset);
    if (found.error <= error || apart > found.error + error) known = found;
  }

  function measure(): void {
    began = monotonic();
    measuring = true;
    roundTrips()
      .then(learn)
      .catch((error: unknown) => {
        if (!stopped) environment.log({ level: "warn", message: "reading the time of the database failed", error });
      })
      .finally(() => {
        measuring = false;
      });
  }

  function check(): void {
    const before = seen;
    seen = { monotonic: monotonic(), own: environment.now() };
    const passed = seen.monotonic - before.monotonic;
    const apart = Math.abs(seen.own - before.own - passed);
    const stood = passed > CHECK_MS + STOOD_MS || apart > STOOD_MS;
    const due = seen.monotonic - began >= SYNC_MS;
    // A measurement that takes this long will not be answered any more.
    if (due || (stood && !measuring)) measure();
    cancel = environment.timer(CHECK_MS, check);
  }

  cancel = environment.timer(CHECK_MS, check);
  return {
    now() {
      const time = Math.round(monotonic() + known.offset);
      if (time > latest || latest - time > HOLD_MS) latest = time;
      return latest;
    },
    stop() {
      stopped = true;
      cancel();
    },
  };
}
