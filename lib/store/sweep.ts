/** Deletes items that have expired, again and again. */
import type { Ambient } from "../ambient.ts";
import type { Scope, Storage } from "../storage.ts";

/** Items deleted at a time. */
const ROWS = 500;
const MINUTE_MS = 60_000;

export interface StoreSweep {
  /** Resolves when nothing of it goes on any more. */
  stop(): Promise<void>;
}

/** Begins to sweep every so many minutes. A sweep that fails is logged, and the next one does its work. */
export function sweepStore({
  storage,
  scope,
  ambient,
  minutes,
}: {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly ambient: Ambient;
  readonly minutes: number;
}): StoreSweep {
  let stopped = false;
  let sweeping: Promise<void> = Promise.resolve();
  let cancel = (): void => {};
  async function sweep(): Promise<void> {
    try {
      while (!stopped && (await storage.sweepItems(scope, ambient.now(), ROWS)) > 0) {
        await new Promise<void>((resolve) => ambient.defer(resolve));
      }
    } catch (error) {
      ambient.log({ level: "error", message: "expired items of the store were not swept", error });
    }
  }
  function schedule(): void {
    cancel = ambient.timer(minutes * MINUTE_MS, () => {
      sweeping = sweep().then(() => {
        if (!stopped) schedule();
      });
    });
  }
  schedule();
  return {
    async stop() {
      stopped = true;
      cancel();
      await sweeping;
    },
  };
}
