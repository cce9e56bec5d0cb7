/** Saves of concurrent streams begin together, because a commit costs as much as ten saves. */
import type { Environment } from "../environment.ts";

/** Calls `save` with the next round of saves; the result prevents that. */
export type ScheduleSave = (save: () => void) => () => void;

/** A save without subscribers waits so long for more to store. A round waits at most as long. */
export const SAVE_MS = 50;
/** A round waits so long, because subscribers wait for it, */
const ROUND_MS = 10;
/** but so much for each run of the round before: otherwise saves take most of the CPU with many streams. */
const ROUND_MS_PER_RUN = 1.5;

export function createSaveScheduler(environment: Pick<Environment, "timer">): ScheduleSave {
  let round = new Set<() => void>();
  let runs = 0;
  let cancelTimer = (): void => {};

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
