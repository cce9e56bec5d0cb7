/** A store that cannot be reached for a while: the log says so once for each loop that fails, and once when it is over. */
import type { Environment } from "../environment.ts";
import { isOutage } from "../errors.ts";

export interface OutageOptions {
  readonly environment: Environment;
  /** Rejects with an outage while the store cannot be reached. */
  probe(): Promise<unknown>;
  /** It can be reached again. */
  onOver(): void;
}

export interface Outage {
  /** The log of the parts that use the store. Of their records that tell of the outage, the first of each message is kept. */
  readonly log: Environment["log"];
  on(): boolean;
  stop(): void;
}

const PROBE_MS = 500;

/** Begins with the first record whose error is an outage; then the store is asked every now and then whether it is over. */
export function watchOutage({ environment, probe, onOver }: OutageOptions): Outage {
  // The messages of this outage; empty when there is none.
  const told = new Set<string>();
  let since = 0;
  let left_out = 0;
  let stopped = false;
  let cancel = (): void => {};

  async function away(): Promise<boolean> {
    try {
      await probe();
      return false;
    } catch (error) {
      // It may fail in another way: then it was reached.
      return isOutage(error);
    }
  }

  function ask(): void {
    cancel = environment.timer(PROBE_MS, async () => {
      const still = await away();
      if (stopped) return;
      if (still) ask();
      else over();
    });
  }

  function over(): void {
    told.clear();
    const seconds = Math.round((environment.now() - since) / 1000);
    environment.log({
      level: "info",
      message: "the database can be reached again",
      seconds,
      records_left_out: left_out,
    });
    onOver();
  }

  return {
    log(record) {
      const { message, error } = record;
      if (told.has(message) && error !== undefined) {
        left_out++;
        return;
      }
      if (isOutage(error) && !stopped) {
        if (told.size === 0) {
          since = environment.now();
          left_out = 0;
          ask();
        }
        told.add(message);
      }
      environment.log(record);
    },
    on: () => told.size > 0,
    stop() {
      stopped = true;
      told.clear();
      cancel();
    },
  };
}
