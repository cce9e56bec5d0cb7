/** Starts the saves of concurrent streams together, because a commit costs as much as ten saves. */
import type { Environment } from "../environment.ts";

/** Calls `save` with the next round of saves. The returned function cancels that. */
export type ScheduleSave = (save: () => void) => () => void;

/** The delay of a save without subscribers, in milliseconds, and the maximum delay of a round. */
export const SAVE_MS = 50;
/** The delay of a round, in milliseconds, because subscribers wait for it. */
const ROUND_MS = 10;
/**
 * The delay of a round for each run that the round before saved, in milliseconds, if that is longer than `ROUND_MS`. Without it, many
 * concurrent streams spend most of the CPU on saves.
 */
const ROUND_MS_PER_RUN = 1.5;

/**
 * Returns a function that calls `save` in the next common round, after 10 to 50 ms: the more saves the last round had, the later.
 * The function returns one that removes the save from its round.
 */
export function createSaveScheduler(environment: Pick<Environment, "timer">): ScheduleSave {
  let round = new Set<() => void>();
  let runs = 0;
  let cancelTimer = (): void => {};

  /** Starts all saves of this round and begins the next one empty. */
  function begin(): void {
    const saves = round;
    round = new Set();
    runs = saves.size;
    for (const save of saves) save();
  }

  return (save) => {
    const joinedRound = round;
    if (joinedRound.size === 0) {
      const wait_ms = Math.min(SAVE_MS, Math.max(ROUND_MS, ROUND_MS_PER_RUN * runs));
      cancelTimer = environment.timer(wait_ms, begin);
    }
    joinedRound.add(save);
    return () => {
      if (joinedRound.delete(save) && joinedRound === round && joinedRound.size === 0) cancelTimer();
    };
  };
}
