/** One timer for all times at which runs become due. */
import type { Environment } from "../environment.ts";

export interface DueTimer {
  add(time: number): void;
  stop(): void;
}

/** Timers have a limit: longer waits are split. */
const LONGEST_WAIT_MS = 3_600_000;

export function createDueTimer(environment: Environment, onDue: () => void): DueTimer {
  const times: number[] = [];
  let stopped = false;
  let cancel = (): void => {};

  function schedule(): void {
    cancel();
    const first = times[0];
    if (first === undefined || stopped) return;
    cancel = environment.timer(Math.min(Math.max(0, first - environment.now()), LONGEST_WAIT_MS), () => {
      const later = times.findIndex((time) => time > environment.now());
      if (times.splice(0, later < 0 ? times.length : later).length > 0) onDue();
      schedule();
    });
  }

  return {
    add(time) {
      const later = times.findIndex((other) => other > time);
      times.splice(later < 0 ? times.length : later, 0, time);
      if (times[0] === time) schedule();
    },
    stop() {
      stopped = true;
      cancel();
    },
  };
}
