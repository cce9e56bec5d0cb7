/** Subscriptions to the frames and the results of runs, in whichever process the runs execute. */
import type { Json } from "../json.ts";
import type { RunRow } from "../storage/mod.ts";
import type { Frame, RunEvents } from "./hub.ts";
import type { Reader } from "./reader.ts";
import { createRemoteRuns, hasEnded, isOpen, type RemoteRunOptions, type RemoteRuns } from "./remote-runs.ts";
import { storedResult } from "./stored-result.ts";

export interface RunSubscriptions extends Pick<RemoteRuns, "watch"> {
  /**
   * The frames of a run with ids above `after`; all of them if the run has no such id. `created`: the caller has just created
   * the run, so a store that fails now must not fail the call.
   */
  read(
    run: RunRow,
    after: number,
    onLeave?: () => void,
    created?: boolean,
  ): Promise<{ readonly runEvents: RunEvents; readonly frames: Reader<Frame> }>;
  /** What wait and join answer. */
  result(run: RunRow, created?: boolean): Promise<{ readonly runEvents: RunEvents; readonly result: Promise<Json> }>;
}

/** Clients may send any number as the last id they have seen. */
const HIGHEST_ID = 2 ** 52;

export function createRunSubscriptions(options: RemoteRunOptions): RunSubscriptions {
  const { storage, scope, environment, hub } = options;
  const { watch, closeIfEnded } = createRemoteRuns(options);

  /** The log of a run, ended already when the run is. The caller subscribes and then calls `watch`. */
  async function logOf({ run_id, thread_id }: RunRow, after: number, created: boolean): Promise<RunEvents> {
    const seen = Math.min(after, HIGHEST_ID);
    const known = hub.find(run_id);
    // The end of a deleted run needs ids above those that this subscriber has seen.
    const tooLow = known?.outcome?.status === "gone" && seen > known.lastId - 2;
    if (known && !tooLow) {
      known.seen = Math.max(known.seen, seen);
      return known;
    }
    if (known) hub.forget(run_id, known);
    // `run` may be older than the end of the run: the row is read again once the log exists.
    const runEvents = hub.runEvents(run_id);
    runEvents.seen = seen;
    try {
      await closeIfEnded(run_id, runEvents);
    } catch (error) {
      if (!created) {
        hub.forget(run_id, runEvents);
        throw error;
      }
      environment.log({ level: "warn", message: "following a run failed", run_id, thread_id, error });
    }
    return runEvents;
  }

  /** The id to read after: `seen` if the run has that id, else 0. */
  async function position(run_id: string, runEvents: RunEvents, seen: number): Promise<number> {
    const after = Math.min(seen, HIGHEST_ID);
    // Another process may have shown the end, which is not a stored frame.
    if (after > runEvents.lastId && isOpen(runEvents)) {
      storage.refresh?.();
      await closeIfEnded(run_id, runEvents);
    }
    if (after > runEvents.lastId && runEvents.stored && !runEvents.outcome) {
      // Another process may have shown this frame.
      const [frame] = await storage.readFrames(scope, run_id, after - 1);
      if (frame?.id === after) {
        if (isOpen(runEvents)) runEvents.skipTo(after);
        return after;
      }
      // A rollback deletes the frames: the subscriber must not get any of them again.
      await closeIfEnded(run_id, runEvents);
    }
    if (after > runEvents.lastId && runEvents.live) {
      // The attempt here may have lost its lease. Its log then gets the end of the run once the attempt has stopped.
      const row = await storage.getRun(scope, run_id);
      if (!row || (hasEnded(row) && after <= (row.end_frame ?? 0))) return after;
    }
    return after <= runEvents.lastId ? after : 0;
  }

  return {
    watch,
    async read(run, after, onLeave, created = false) {
      const runEvents = await logOf(run, after, created);
      try {
        return { runEvents, frames: runEvents.read(await position(run.run_id, runEvents, after), onLeave) };
      } finally {
        // After an error too: it forgets a log without subscribers.
        watch(run, runEvents);
      }
    },
    async result(run, created = false) {
      const runEvents = await logOf(run, 0, created);
      const gone = runEvents.outcome?.status === "gone";
      try {
        // The state is read now, because later runs change it.
        if (hasEnded(run) && !gone) {
          return { runEvents, result: Promise.resolve(await storedResult(options, run)) };
        }
        return { runEvents, result: runEvents.ended().then((outcome) => outcome.result ?? {}) };
      } finally {
        watch(run, runEvents);
      }
    },
  };
}
