/** The time of a database, for processes that share it and whose own clocks differ. */
import type { Environment } from "../environment.ts";

export interface ClockOptions {
  readonly environment: Pick<Environment, "now" | "monotonic" | "timer" | "log">;
  /** Milliseconds since 1970 by the clock of the database. */
  now(): Promise<number>;
}

export interface Clock {
  /**
   * Whole milliseconds since 1970 by the database's clock, within half of the shortest round trip to it. Never goes back by less
   * than a second: it stands still until the time has come there. By more it goes back at once, as the database's clock has.
   */
  readonly now: Environment["now"];
  /** Asks no more; `now` goes on from what is known. */
  stop(): void;
}

/** What is added to the monotonic time, and how far that may be off, as it was found at a monotonic time. */
interface Offset {
  readonly offset: number;
  readonly error: number;
  readonly at: number;
}

/** How often the database is asked each time: the shortest round trip counts. */
const ROUNDS = 4;
const SYNC_MS = 10_000;
/** How often to look whether the process stood still, and by how much a look is late, or the two clocks go apart, if it did. */
const CHECK_MS = 1_000;
const STOOD_MS = 500;
const HELD_MS = 1_000;
/** How far a process's clock goes wrong, as a share of the time that has passed. */
const DRIFT = 0.0005;

/** Resolves when the database has told its time; rejects when it does not. Later failures change nothing: it is asked again. */
export async function startClock({ environment, now }: ClockOptions): Promise<Clock> {
  const monotonic = environment.monotonic ?? environment.now;
  let known = await measured();
  let told = Number.NEGATIVE_INFINITY;
  let seen = { monotonic: monotonic(), own: environment.now() };
  let began = seen.monotonic;
  let asking = false;
  let stopped = false;
  let cancel = (): void => {};

  async function measured(): Promise<Offset> {
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

  /** What is measured badly says nothing, unless it proves what is known wrong. */
  function learn(found: Offset): void {
    const error = known.error + (found.at - known.at) * DRIFT;
    const apart = Math.abs(found.offset - known.offset);
    if (found.error <= error || apart > found.error + error) known = found;
  }

  function ask(): void {
    began = monotonic();
    asking = true;
    measured()
      .then(learn)
      .catch((error: unknown) => {
        if (!stopped) environment.log({ level: "warn", message: "the time of the database is not known", error });
      })
      .finally(() => {
        asking = false;
      });
  }

  function check(): void {
    const before = seen;
    seen = { monotonic: monotonic(), own: environment.now() };
    const passed = seen.monotonic - before.monotonic;
    const apart = Math.abs(seen.own - before.own - passed);
    const stood = passed > CHECK_MS + STOOD_MS || apart > STOOD_MS;
    const due = seen.monotonic - began >= SYNC_MS;
    // An answer that has not come for so long does not come.
    if (due || (stood && !asking)) ask();
    cancel = environment.timer(CHECK_MS, check);
  }

  cancel = environment.timer(CHECK_MS, check);
  return {
    now() {
      const time = Math.round(monotonic() + known.offset);
      if (time > told || told - time > HELD_MS) told = time;
      return told;
    },
    stop() {
      stopped = true;
      cancel();
    },
  };
}
