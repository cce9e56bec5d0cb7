/** Repeats a read while a subscriber waits for its result. */
import type { Environment } from "../environment.ts";

/** The minimum and maximum interval between two reads, in milliseconds. It grows while nothing changes. */
const MIN_POLL_MS = 250;
const MAX_POLL_MS = 1_000;
/** The interval where signals announce changes, in milliseconds, because a signal may be lost. */
const POLL_WITH_SIGNALS_MS = 800;

/** Returns the maximum time in milliseconds until a change is noticed. */
export const getMaxPollMs = (hasSignals: boolean): number => (hasSignals ? POLL_WITH_SIGNALS_MS : MAX_POLL_MS);

interface PollerOptions {
  readonly environment: Pick<Environment, "timer">;
  readonly hasSignals: boolean;
  /** Reads. Must not reject. `isTimed` means that no signal has announced a change. */
  read(isTimed: boolean): Promise<void>;
  /** Returns a position that increases with new items, by reads or otherwise. */
  getPosition(): number;
  isNeeded(): boolean;
  /** Called when polling ends because `isNeeded` returns false. */
  onIdle?(): void;
}

export class Poller {
  readonly #options: PollerOptions;
  #reading: Promise<void> | undefined;
  #readsAgain = false;
  #cancel = (): void => {};

  constructor(options: PollerOptions) {
    this.#options = options;
  }

  /**
   * Reads now, or once more after the running read, which may have begun before the last change. Resolves when no requested read
   * is left. Then the next one is scheduled, or `onIdle` called if reading is not needed any more.
   */
  read(): Promise<void> {
    this.#readsAgain = true;
    this.#reading ??= this.#readAll(MIN_POLL_MS, false);
    return this.#reading;
  }

  /**
   * Schedules the next read after `ms`, or after a longer time with signals, in place of the scheduled one. If the position moves
   * until then, waits again instead.
   */
  start(ms: number = MIN_POLL_MS): void {
    const { environment, hasSignals, getPosition } = this.#options;
    const before = getPosition();
    this.#cancel();
    this.#cancel = environment.timer(hasSignals ? POLL_WITH_SIGNALS_MS : ms, () => {
      // While items arrive without a read, polling waits.
      if (getPosition() !== before) this.start();
      else this.#reading ??= this.#readAll(ms, true);
    });
  }

  stop(): void {
    this.#cancel();
  }

  /**
   * Reads, again if a read was requested meanwhile, and then schedules the next read: later each time if nothing was new. Calls
   * `onIdle` instead if reading is not needed any more.
   */
  async #readAll(ms: number, isTimed: boolean): Promise<void> {
    const { read, getPosition, isNeeded, onIdle } = this.#options;
    const before = getPosition();
    this.#cancel();
    this.#readsAgain = false;
    await read(isTimed);
    while (this.#readsAgain && isNeeded()) {
      this.#readsAgain = false;
      await read(false);
    }
    this.#reading = undefined;
    if (isNeeded()) this.start(getPosition() === before ? Math.min(2 * ms, MAX_POLL_MS) : MIN_POLL_MS);
    else onIdle?.();
  }
}
