/** The phases of an attempt, and the reasons for which it stops. */

/**
 * `claimed`: the lease is held, and the executor has not begun. `settled`: the executor has returned or was abandoned. `ending`: the
 * end of the attempt is being stored.
 */
type AttemptPhase = "claimed" | "executing" | "settled" | "ending" | "ended";

/** The phases that may follow each phase. An attempt whose lease is lost stores no end. */
const TRANSITIONS: Readonly<Record<AttemptPhase, readonly AttemptPhase[]>> = {
  claimed: ["executing", "settled"],
  executing: ["settled"],
  settled: ["ending", "ended"],
  ending: ["ended"],
  ended: [],
};

/** The reasons for which a job's signal is aborted. */
export type StopReason = "cancelled" | "rolled_back" | "timed_out" | "shutting_down" | "lease_lost";

interface StopRule {
  /** A reason replaces one of lower precedence. Of equal precedence, the first one counts. */
  readonly precedence: 1 | 2;
  /** The phases in which an attempt accepts the reason. */
  readonly phases: readonly AttemptPhase[];
  /** True if this process must write nothing more: another process may execute the run, or its row was deleted. */
  readonly forbidsWrites: boolean;
}

const STOP: StopRule = { precedence: 1, phases: ["claimed", "executing"], forbidsWrites: false };
const LOSS: StopRule = { precedence: 2, phases: ["claimed", "executing", "settled", "ending"], forbidsWrites: true };

const STOP_RULES: Readonly<Record<StopReason, StopRule>> = {
  cancelled: STOP,
  timed_out: STOP,
  shutting_down: STOP,
  rolled_back: LOSS,
  lease_lost: LOSS,
};

const forbidsWrites = (reason: StopReason): boolean => STOP_RULES[reason].forbidsWrites;

export class AttemptState {
  #phase: AttemptPhase = "claimed";
  #reason: StopReason | null = null;
  readonly #settled = Promise.withResolvers<void>();

  /** Changes the phase, and resolves `settled` if it is that one. Throws if the phase cannot follow the current one. */
  enter(phase: AttemptPhase): void {
    if (!TRANSITIONS[this.#phase].includes(phase))
      throw new Error(`An attempt cannot go from ${this.#phase} to ${phase}`);
    this.#phase = phase;
    if (phase === "settled") this.#settled.resolve();
  }

  /** Returns true if the attempt accepts this reason now, instead of its current one. */
  accepts(reason: StopReason): boolean {
    const { precedence, phases } = STOP_RULES[reason];
    const isHigher = this.#reason === null || precedence > STOP_RULES[this.#reason].precedence;
    return isHigher && phases.includes(this.#phase);
  }

  /** Sets the reason. Call it only if `accepts` returns true. */
  stop(reason: StopReason): void {
    this.#reason = reason;
  }

  /** The reason for which the attempt must stop; null while it need not. */
  get reason(): StopReason | null {
    return this.#reason;
  }

  get isStopped(): boolean {
    return this.#reason !== null;
  }

  /** False once this process must write nothing more for the run. */
  get mayWrite(): boolean {
    return this.#reason === null || !forbidsWrites(this.#reason);
  }

  /** True until the executor has settled. */
  get isAtWork(): boolean {
    return this.#phase === "claimed" || this.#phase === "executing";
  }

  /** True while the end of the attempt is being stored, and after it. */
  get isEnding(): boolean {
    return this.#phase === "ending" || this.#phase === "ended";
  }

  /** Resolves when the executor has settled or was abandoned. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }
}
