/** Follows runs that execute in another process: copies their stored frames, and ends their log when the run's row has ended. */
import { type Environment, nextTurn } from "../environment.ts";
import type { Bus } from "../storage/bus.ts";
import type { RunRow, RunStatus, Scope, Storage, TerminalStatus } from "../storage/mod.ts";
import type { RunEvents, StreamHub } from "./hub.ts";
import { type StoredResultOptions, storedResult } from "./stored-result.ts";
import { closeRunEvents, endRolledBack, firstFrameId, tailLength } from "./terminal.ts";

export interface RemoteRunOptions extends StoredResultOptions {
  readonly storage: Storage;
  readonly bus: Bus;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly hub: StreamHub;
  /** The feedback URLs of a run by key, as JSON; null when it has none. */
  readonly feedbackUrls: (run: RunRow) => string | null;
}

export type RunIds = Pick<RunRow, "run_id" | "thread_id">;

export interface RemoteRuns {
  /** Follows the run while it has subscribers here, unless this process executes it. */
  watch(run: RunIds, runEvents: RunEvents): void;
  /** Ends the log if the run's row has ended. */
  closeIfEnded(run_id: string, runEvents: RunEvents): Promise<void>;
}

interface FollowedRun {
  readonly run: RunIds;
  readonly runEvents: RunEvents;
  /** A signal arrived after the check under way began. */
  checkAgain: boolean;
  checking: boolean;
  cancelTimer(): void;
}

/** The interval between two checks; it grows while nothing changes. */
const FIRST_POLL_MS = 250;
const LONGEST_POLL_MS = 1_000;
/** The interval where signals announce changes: a signal may be lost. */
const SIGNALLED_POLL_MS = 800;

/** The log of this run accepts frames, and no attempt here writes them. */
export const isOpen = (runEvents: RunEvents): boolean => !runEvents.outcome && !runEvents.live;

export const hasEnded = ({ status }: { readonly status: RunStatus }): boolean =>
  status !== "pending" && status !== "running";

export function createRemoteRuns(options: RemoteRunOptions): RemoteRuns {
  const { storage, bus, scope, environment, hub } = options;
  const signalled = storage.signals !== undefined;
  const followed = new Map<RunEvents, FollowedRun>();

  const warn = (run_id: string, error: unknown): void =>
    environment.log({ level: "warn", message: "following a run failed", run_id, error });

  function watch(run: RunIds, runEvents: RunEvents): void {
    if (!isOpen(runEvents)) return;
    const known = followed.get(runEvents);
    if (known) {
      if (signalled) checkRun(known);
      return;
    }
    const entry: FollowedRun = { run, runEvents, checkAgain: false, checking: false, cancelTimer: () => {} };
    followed.set(runEvents, entry);
    // Signals sent before this moment did not reach this process.
    if (signalled) void poll(entry, SIGNALLED_POLL_MS);
    else pollAfter(entry, FIRST_POLL_MS);
  }

  function pollAfter(entry: FollowedRun, ms: number): void {
    entry.cancelTimer = environment.timer(ms, () => void poll(entry, ms));
  }

  async function poll(entry: FollowedRun, ms: number): Promise<void> {
    const { run, runEvents } = entry;
    const { run_id } = run;
    const before = runEvents.lastId;
    entry.checking = true;
    try {
      do {
        entry.checkAgain = false;
        // The first check of a run tells whether its frames are stored.
        const wasStored = runEvents.stored;
        if (isOpen(runEvents) && wasStored) await copyFrames(run_id, runEvents);
        await closeIfEnded(run_id, runEvents);
        if (isOpen(runEvents) && runEvents.stored && !wasStored) await copyFrames(run_id, runEvents);
      } while (entry.checkAgain && isOpen(runEvents) && runEvents.followed);
    } catch (error) {
      warn(run_id, error);
    }
    entry.checking = false;
    if (isOpen(runEvents) && runEvents.followed) {
      const quiet = runEvents.lastId === before;
      pollAfter(entry, signalled ? SIGNALLED_POLL_MS : quiet ? Math.min(2 * ms, LONGEST_POLL_MS) : FIRST_POLL_MS);
      return;
    }
    followed.delete(runEvents);
    if (isOpen(runEvents)) hub.forget(run_id, runEvents);
  }

  function checkRun(entry: FollowedRun): void {
    entry.checkAgain = true;
    if (entry.checking) return;
    entry.cancelTimer();
    void poll(entry, SIGNALLED_POLL_MS);
  }

  async function copyFrames(run_id: string, runEvents: RunEvents): Promise<void> {
    while (runEvents.followed) {
      const page = await storage.readFrames(scope, run_id, runEvents.lastId);
      if (page.length === 0 || !isOpen(runEvents)) return;
      for (const { id, event, data } of page) {
        runEvents.skipTo(id - 1);
        if (id > runEvents.lastId) runEvents.publish(event, data);
      }
      await nextTurn(environment);
    }
  }

  async function closeIfEnded(run_id: string, runEvents: RunEvents): Promise<void> {
    if (!isOpen(runEvents)) return;
    const row = await storage.getRun(scope, run_id);
    if (!row) {
      if (isOpen(runEvents)) endRolledBack(runEvents, run_id);
      return;
    }
    const result = hasEnded(row) ? await storedResult(options, row) : null;
    // This process may have claimed the run during the reads.
    if (!isOpen(runEvents)) return;
    runEvents.stored ||= row.framed;
    runEvents.attempt = row.attempt;
    if (!hasEnded(row)) return;
    const tail = { feedback: options.feedbackUrls(row), error: row.error };
    const end_frame = row.end_frame ?? firstFrameId(row.claims) + tailLength(tail);
    // Frames that retention has deleted are reported to subscribers as missing.
    if (row.kwargs["resumable"] === true) runEvents.skipTo(end_frame - tailLength(tail) - 1);
    closeRunEvents(runEvents, run_id, { status: row.status as TerminalStatus, result }, tail, end_frame);
  }

  /** Reads a run again that is not executed here. */
  function runChanged(run_id: string): void {
    const runEvents = hub.find(run_id);
    if (!runEvents) return;
    const entry = followed.get(runEvents);
    if (entry) checkRun(entry);
    else closeIfEnded(run_id, runEvents).catch((error: unknown) => warn(run_id, error));
  }

  function checkRuns(thread_id?: string): void {
    for (const entry of [...followed.values()]) {
      if (thread_id === undefined || thread_id === entry.run.thread_id) checkRun(entry);
    }
  }

  bus.on("run", null, (run_id) => (run_id === undefined ? checkRuns() : runChanged(run_id)));
  bus.on(
    "thread",
    null,
    (thread_id, from) => void (thread_id !== undefined && from !== "here" && checkRuns(thread_id)),
  );

  return { watch, closeIfEnded };
}
