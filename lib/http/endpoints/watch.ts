/** Waits for changes of threads, in whichever process they are made: of their runs, their questions and their metadata. */
import { nullIfNotFound } from "../../errors.ts";
import type { RequestContext } from "../route.ts";

/** Between two looks at a thread without a signal: signals may be lost, and not all databases have them. */
const POLL_MS = 1_000;
/** After a signal of which nothing is known: the server may be stopping. */
const SOON_MS = 50;

export interface ThreadWatch {
  /** The threads that have changed, once there are any. Call it again after its answer. Errors: those of reading a thread. */
  next(): Promise<readonly string[]>;
  /** A waiting `next` resolves. */
  close(): void;
}

/** Begins with all of them. However many there are, one is looked at in a second without a signal. */
export function watchThreads({ service, nouns }: RequestContext, threads: readonly string[]): ThreadWatch {
  const { bus, environment } = service;
  const due = new Set(threads);
  const seen = new Map<string, string | null>();
  let waiting = Promise.withResolvers<void>();
  let wait_ms = POLL_MS;
  let turn = 0;
  let isClosed = false;
  const stops = threads.map((id) =>
    bus.on("thread", id, (changed) => {
      if (changed === undefined) wait_ms = SOON_MS;
      due.add(id);
      waiting.resolve();
    }),
  );

  async function poll(): Promise<void> {
    const id = threads[turn++ % threads.length] as string;
    const now = (await nouns.threads.get(id, { state: false }).catch(nullIfNotFound))?.updated_at ?? null;
    if (seen.get(id) !== now) due.add(id);
    seen.set(id, now);
  }

  return {
    async next() {
      while (due.size === 0 && !isClosed) {
        waiting = Promise.withResolvers<void>();
        const cancel = environment.timer(wait_ms, () => waiting.resolve());
        wait_ms = POLL_MS;
        await waiting.promise;
        cancel();
        if (due.size === 0 && !isClosed) await poll();
      }
      const now = [...due];
      due.clear();
      return now;
    },
    close() {
      isClosed = true;
      for (const stop of stops) stop();
      waiting.resolve();
    },
  };
}
