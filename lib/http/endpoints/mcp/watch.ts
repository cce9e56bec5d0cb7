/** Waits for changes of threads, in whichever process they are made: of their runs, their questions and their metadata. */
import type { RequestContext } from "../../route.ts";

/** Between two looks at a thread without a signal: signals may be lost, and not all databases have them. */
const POLL_MS = 1_000;
/** After a signal of which nothing is known: the server may be stopping. */
const SOON_MS = 50;

export interface ThreadWatch {
  /** The threads to look at again, once there are any. Call it again after its answer. */
  next(): Promise<readonly string[]>;
  /** A waiting `next` resolves. */
  close(): void;
}

/** Begins with all of them. However many there are, one is looked at in a second without a signal. */
export function watchThreads({ service }: Pick<RequestContext, "service">, threads: readonly string[]): ThreadWatch {
  const { bus, environment } = service;
  const due = new Set(threads);
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

  return {
    async next() {
      if (due.size === 0 && !isClosed) {
        waiting = Promise.withResolvers<void>();
        const cancel = environment.timer(wait_ms, () => waiting.resolve());
        wait_ms = POLL_MS;
        await waiting.promise;
        cancel();
      }
      if (due.size === 0) due.add(threads[turn++ % threads.length] as string);
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
