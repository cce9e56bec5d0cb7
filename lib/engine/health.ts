/** Storage health: detects an outage of the store by its errors, and probes until the store answers again. */
import type { Environment } from "../environment.ts";
import { isOutage } from "../errors.ts";

export interface StorageHealthOptions {
  readonly environment: Environment;
  /** Rejects with an outage while the store cannot be reached. */
  probe(): Promise<unknown>;
  onRecovered(): void;
}

export interface StorageHealth {
  /** The log for everything that uses the store. During an outage it keeps the first record of each message. */
  readonly log: Environment["log"];
  isDown(): boolean;
  stop(): void;
}

const PROBE_MS = 500;

/** An outage starts with the first record whose error is one. */
export function watchStorageHealth({ environment, probe, onRecovered }: StorageHealthOptions): StorageHealth {
  // The messages logged in this outage; empty without an outage.
  const logged = new Set<string>();
  let since = 0;
  let left_out = 0;
  let stopped = false;
  let cancel = (): void => {};

  async function isUnreachable(): Promise<boolean> {
    try {
      await probe();
      return false;
    } catch (error) {
      // Any other error is an answer of the store.
      return isOutage(error);
    }
  }

  function probeLater(): void {
    cancel = environment.timer(PROBE_MS, async () => {
      const down = await isUnreachable();
      if (stopped) return;
      if (down) probeLater();
      else recovered();
    });
  }

  function recovered(): void {
    logged.clear();
    const seconds = Math.round((environment.now() - since) / 1000);
    environment.log({
      level: "info",
      message: "the database can be reached again",
      seconds,
      records_left_out: left_out,
    });
    onRecovered();
  }

  return {
    log(record) {
      const { message, error } = record;
      if (logged.has(message) && error !== undefined) {
        left_out++;
        return;
      }
      if (isOutage(error) && !stopped) {
        if (logged.size === 0) {
          since = environment.now();
          left_out = 0;
          probeLater();
        }
        logged.add(message);
      }
      environment.log(record);
    },
    isDown: () => logged.size > 0,
    stop() {
      stopped = true;
      logged.clear();
      cancel();
    },
  };
}
