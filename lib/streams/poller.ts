/** Repeats a read while a subscriber waits for its result. */
import type { Environment } from "../environment.ts";

/** The interval between two reads; it grows while nothing changes. */
const FIRST_POLL_MS = 250;
const LONGEST_POLL_MS = 1_000;
/** The interval where signals announce changes: a signal may be lost. */
const SIGNALLED_POLL_MS = 800;

/** The longest time that a change stays unseen. */
export const longestPoll = (signalled: boolean): number => (signalled ? SIGNALLED_POLL_MS : LONGEST_POLL_MS);

interface PollerOptions {
  readonly environment: Pick<Environment, "timer">;
  readonly signalled: boolean;
  /** Never rejects. `timed`: nothing has announced a change. */
  read(timed: boolean): Promise<void>;
  /** Grows with what is found, by reads or otherwise. */
  place(): number;
  isNeeded(): boolean;
  /** Called when polling ends because `isNeeded` is false. */
  onIdle?(): void;
}

export class Poller {
  readonly #options: PollerOptions;
  #reading: Promise<void> | undefined;
  #again = false;
  #cancel = (): void => {};

  constructor(options: PollerOptions) {
    this.#options = options;
  }

  /** Reads now, or once more after the read under way, which may have begun before the last change. */
  read(): Promise<void> {
    this.#again = true;
    this.#reading ??= this.#readAll(FIRST_POLL_MS, false);
    return this.#reading;
  }

  /** Reads after a while. */
  start(ms: number = FIRST_POLL_MS): void {
    const { environment, signalled, place } = this.#options;
    const before = place();
    this.#cancel();
    this.#cancel = environment.timer(signalled ? SIGNALLED_POLL_MS : ms, () => {
      // While items arrive without a read, polling waits.
      if (place() !== before) this.start();
      else this.#reading ??= this.#readAll(ms, true);
    });
  }

  stop(): void {
    this.#cancel();
  }

  async #readAll(ms: number, timed: boolean): Promise<void> {
    const { read, place, isNeeded, onIdle } = this.#options;
    const before = place();
    this.#cancel();
    this.#again = false;
    await read(timed);
    while (this.#again && isNeeded()) {
      this.#again = false;
      await read(false);
    }
    this.#reading = undefined;
    if (isNeeded()) this.start(place() === before ? Math.min(2 * ms, LONGEST_POLL_MS) : FIRST_POLL_MS);
    else onIdle?.();
  }
}
