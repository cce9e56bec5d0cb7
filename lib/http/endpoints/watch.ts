/** Waits for changes of threads in any process: of their runs, their interrupts and their metadata. */
import { nullIfNotFound } from "../../errors.ts";
import type { RequestContext } from "../route.ts";

/** The time between two polls without a signal: signals can be lost, and not all databases have them. */
const POLL_MS = 1_000;
/** The delay after a signal without details: the server may be stopping. */
const SIGNAL_SETTLE_MS = 50;

export interface ThreadWatch {
  /**
   * Waits for changes and resolves with the threads that have changed since the last call, at first with all of them.
   * Resolves with an empty list once the watch is closed. Rejects with the errors of reading a thread.
   */
  next(): Promise<readonly string[]>;
  /** Ends the watch and the subscriptions to the threads, and resolves a pending `next`. */
  close(): void;
}

/**
 * Watches threads until `close`. The first `next` returns all of them at once, later ones wait for changes. Without signals, one
 * of them is polled per second, however many there are.
 */
export function watchThreads({ service, resources }: RequestContext, threads: readonly string[]): ThreadWatch {
  const { bus, environment } = service;
  const changedIds = new Set(threads);
  const lastUpdates = new Map<string, string | null>();
  let wakeUp = Promise.withResolvers<void>();
  let wait_ms = POLL_MS;
  let pollCount = 0;
  let isClosed = false;
  const unsubscribers = threads.map((id) =>
    bus.subscribe("thread", id, (changed) => {
      if (changed === undefined) wait_ms = SIGNAL_SETTLE_MS;
      changedIds.add(id);
      wakeUp.resolve();
    }),
  );

  /**
   * Reads the next of the threads in turn, and adds it to the changed ones if its time of change differs from that of
   * the last poll, if this is its first poll, or if it was deleted.
   */
  async function poll(): Promise<void> {
    const id = threads[pollCount++ % threads.length] as string;
    const updated_at = (await resources.threads.get(id, { state: false }).catch(nullIfNotFound))?.updated_at ?? null;
    if (lastUpdates.get(id) !== updated_at) changedIds.add(id);
    lastUpdates.set(id, updated_at);
  }

  return {
    async next() {
      while (changedIds.size === 0 && !isClosed) {
        wakeUp = Promise.withResolvers<void>();
        const cancel = environment.timer(wait_ms, () => wakeUp.resolve());
        wait_ms = POLL_MS;
        await wakeUp.promise;
        cancel();
        if (changedIds.size === 0 && !isClosed) await poll();
      }
      const changed = [...changedIds];
      changedIds.clear();
      return changed;
    },
    close() {
      isClosed = true;
      for (const stop of unsubscribers) stop();
      wakeUp.resolve();
    },
  };
}
