/** Subscriptions to the frames and the results of runs, in whichever process the runs execute, and how a run's log ends. */
import { type Environment, waitForNextTick } from "../environment.ts";
import { StateReadError } from "../errors.ts";
import { ResumeRefused, type StateEvent, type ThreadState } from "../executor/contract.ts";
import type { RunFeatures, TailFrames } from "../features/mod.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { EventBus } from "../storage/event-bus.ts";
import type { RunRow, RunStatus, Scope, Storage, TerminalStatus, ThreadRow } from "../storage/mod.ts";
import { encodeFrame, type Frame } from "./frames.ts";
import type { Outcome, RunEvents, StreamHub } from "./hub.ts";
import type { Reader } from "./log.ts";
import { Poller } from "./poller.ts";

/** What comes before the `end`: the frames of features, and the error. */
export interface Tail {
  readonly frames: TailFrames;
  readonly error: JsonObject | null;
}

/** How many frames come right before the `end`. */
export function tailLength({ frames, error }: Tail): number {
  return frames.length + (error === null ? 0 : 1);
}

const IDS_PER_CLAIM = 2 ** 32;

/** The first frame id after so many claims, for a run without stored frames: above the ids of all earlier attempts. */
export function firstFrameId(claims: number): number {
  return claims * IDS_PER_CLAIM + 1;
}

/** Whether a frame that is not stored may be one of a later claim than the newest frame here. */
const isOfLaterClaim = (id: number, newest: number, { claims }: RunRow): boolean =>
  claims > Math.floor(newest / IDS_PER_CLAIM) + 1 && id < firstFrameId(claims);

/**
 * Ends the log with the frames of the tail, an `error` frame if it has one, and the `end`. `end_frame` is the one in the run's
 * row; null when the row was deleted. No effect on a log that has ended.
 */
export function closeRunEvents(runEvents: RunEvents, outcome: Outcome, tail: Tail, end_frame: number | null): void {
  const { frames, error } = tail;
  if (end_frame !== null) {
    const first = end_frame - tailLength(tail);
    if (runEvents.stored) runEvents.skipTo(first - 1);
    else runEvents.startAt(first);
  }
  const status = outcome.status === "gone" ? "rollback" : outcome.status;
  // The trailer comes before the error, because clients stop reading at an error.
  for (const [event, data] of frames) publishValue(runEvents, event, data);
  if (error) publishValue(runEvents, "error", error);
  publishValue(runEvents, "end", { run_id: runEvents.run_id, status });
  runEvents.end(outcome);
}

function publishValue(runEvents: RunEvents, event: string, data: JsonObject): void {
  const frame = encodeFrame({ event, namespace: [], data });
  runEvents.publish(frame.event, frame.data);
}

const GONE = { RunDeleted: "The run was deleted", RunRolledBack: "The run was rolled back" };

/** Ends the log of a run that was deleted or rolled back, if there is one. */
export function endGone(runEvents: RunEvents | undefined, name: keyof typeof GONE): void {
  if (!runEvents) return;
  const error = { error: name, message: GONE[name] };
  runEvents.startAt(runEvents.seen + 1);
  closeRunEvents(runEvents, { status: "gone", result: { __error__: error } }, { frames: [], error }, null);
}

/** What wait and join answer for a run that did not fail. `stopped`: it was interrupted, so remaining nodes are no breakpoint. */
export function waitResult(values: Json, next: readonly string[], interrupts: readonly Json[], stopped: boolean): Json {
  if (next.length === 0 || (stopped && interrupts.length === 0)) return values ?? {};
  return isObject(values) ? { ...values, __interrupt__: [...interrupts] } : { __interrupt__: [...interrupts] };
}

/** The result of wait and join, with the members that callers would otherwise get from events. */
const withTail = (result: Json, frames: TailFrames): Json =>
  isObject(result) && frames.length > 0
    ? { ...result, ...Object.fromEntries(frames.map(([event, data]) => [`__${event}__`, data])) }
    : result;

/** The error of an attempt; null if it succeeded, which takes at least one state. */
export function errorBody(failure: unknown, last: StateEvent | null): JsonObject | null {
  if (failure === undefined) return last ? null : { error: "Error", message: "The graph ended without a state" };
  const { name, message } = (typeof failure === "object" && failure !== null ? failure : {}) as {
    name?: unknown;
    message?: unknown;
  };
  return {
    error: typeof name === "string" && name !== "" ? name : "Error",
    message: [message, failure].find((text) => typeof text === "string") ?? "The graph failed",
    ...(failure instanceof ResumeRefused && failure.code ? refusedResume(failure) : {}),
  };
}

/** Why an answer was refused, for programs. */
export const refusedResume = ({ code, reason, interrupt_ids, pending_ids }: ResumeRefused): JsonObject => ({
  ...(code ? { code } : {}),
  reason,
  interrupt_ids: [...interrupt_ids],
  pending_ids: [...pending_ids],
});

interface RunSubscriptionOptions {
  readonly storage: Storage;
  readonly bus: EventBus;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly hub: StreamHub;
  /** The state at a thread's head; null before the first run. Errors: StateUnreadable. */
  currentState(thread: ThreadRow): Promise<ThreadState | null>;
  readonly features: Pick<RunFeatures, "tail">;
}

/** What wait and join answer for a run that ended before the call. */
async function storedResult(options: RunSubscriptionOptions, run: RunRow): Promise<Json> {
  const { storage, scope, environment } = options;
  const { run_id, thread_id } = run;
  if (run.error) return { __error__: run.error };
  if (run.stateless) return run.result ?? {};
  const thread = await storage.getThread(scope, thread_id);
  try {
    // Checkpoints of a run that is still active belong to that run, not to this one.
    const state = thread && (await options.currentState({ ...thread, running: null }));
    if (!state) return {};
    const writer = state.metadata?.["run_id"];
    const last = writer === run_id || typeof writer !== "string" ? run : await storage.getRun(scope, writer);
    return waitResult(state.values, state.next, state.interrupts as unknown as Json[], last?.status === "interrupted");
  } catch (error) {
    if (!(error instanceof StateReadError)) throw error;
    environment.log({ level: "error", message: "a state could not be read", run_id, thread_id, error });
    return { __error__: { error: "StateUnreadable", message: "The state could not be read" } };
  }
}

/** The log of this run accepts frames, and no attempt here writes them. */
const isOpen = (runEvents: RunEvents): boolean => !runEvents.outcome && !runEvents.live;

export const hasEnded = ({ status }: { readonly status: RunStatus }): boolean =>
  status !== "pending" && status !== "running";

/** Follows runs that execute in another process: copies their stored frames, and ends their log when the run's row has ended. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
function createRemoteRuns(options: RunSubscriptionOptions) {
  const { storage, bus, scope, environment, hub } = options;
  const signalled = storage.signals !== undefined;
  const followed = new Map<RunEvents, { readonly thread_id: string; readonly poller: Poller }>();

  const warn = (run_id: string, error: unknown): void =>
    environment.log({ level: "warn", message: "following a run failed", run_id, error });

  function watch({ thread_id }: Pick<RunRow, "thread_id">, runEvents: RunEvents): void {
    if (!isOpen(runEvents)) return;
    let poller = followed.get(runEvents)?.poller;
    // Signals sent before this moment did not reach this process.
    if (poller && !signalled) return;
    if (!poller) {
      poller = new Poller({
        environment,
        signalled,
        read: () => read(runEvents).catch((error: unknown) => warn(runEvents.run_id, error)),
        place: () => runEvents.lastId,
        isNeeded: () => isOpen(runEvents) && runEvents.followed,
        onIdle() {
          followed.delete(runEvents);
          if (isOpen(runEvents)) hub.forget(runEvents);
        },
      });
      followed.set(runEvents, { thread_id, poller });
    }
    if (signalled) void poller.read();
    else poller.start();
  }

  async function read(runEvents: RunEvents): Promise<void> {
    // The first check of a run tells whether its frames are stored.
    const wasStored = runEvents.stored;
    if (isOpen(runEvents) && wasStored) await copyFrames(runEvents);
    await closeIfEnded(runEvents);
    if (isOpen(runEvents) && runEvents.stored && !wasStored) await copyFrames(runEvents);
  }

  async function copyFrames(runEvents: RunEvents): Promise<void> {
    while (runEvents.followed) {
      const page = await storage.readFrames(scope, runEvents.run_id, runEvents.lastId);
      if (page.length === 0 || !isOpen(runEvents)) return;
      for (const { id, event, data } of page) {
        runEvents.skipTo(id - 1);
        if (id > runEvents.lastId) runEvents.publish(event, data);
      }
      await waitForNextTick(environment);
    }
  }

  /** Ends the log if the run's row has ended. */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the run may be deleted, claimed or ended during each read
  async function closeIfEnded(runEvents: RunEvents): Promise<void> {
    if (!isOpen(runEvents)) return;
    const row = await storage.getRun(scope, runEvents.run_id);
    if (!row) {
      if (isOpen(runEvents)) endGone(runEvents, "RunRolledBack");
      return;
    }
    const result = hasEnded(row) ? await storedResult(options, row) : null;
    // This process may have claimed the run during the reads.
    if (!isOpen(runEvents)) return;
    runEvents.stored ||= row.resumable;
    runEvents.attempt = row.attempt;
    if (!hasEnded(row)) return;
    const tail = { frames: options.features.tail(row), error: row.error };
    const end_frame = row.end_frame ?? firstFrameId(row.claims) + tailLength(tail);
    // Frames that retention has deleted are reported to subscribers as missing.
    if (row.kwargs["resumable"] === true) runEvents.skipTo(end_frame - tailLength(tail) - 1);
    closeRunEvents(runEvents, { status: row.status as TerminalStatus, result }, tail, end_frame);
  }

  /** Reads a run again that is not executed here. */
  function runChanged(run_id: string): void {
    const runEvents = hub.find(run_id);
    if (!runEvents) return;
    const entry = followed.get(runEvents);
    if (entry) void entry.poller.read();
    else closeIfEnded(runEvents).catch((error: unknown) => warn(run_id, error));
  }

  function checkRuns(thread_id?: string): void {
    for (const entry of [...followed.values()]) {
      if (thread_id === undefined || thread_id === entry.thread_id) void entry.poller.read();
    }
  }

  bus.subscribe("run", null, (run_id) => (run_id === undefined ? checkRuns() : runChanged(run_id)));
  bus.subscribe(
    "thread",
    null,
    (thread_id, from) => void (thread_id !== undefined && from !== "here" && checkRuns(thread_id)),
  );

  return { watch, closeIfEnded };
}

export interface RunSubscriptions {
  /** Follows the run while it has subscribers here, unless this process executes it. */
  watch(run: Pick<RunRow, "thread_id">, runEvents: RunEvents): void;
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
  result(run: RunRow, created?: boolean): RunResult | Promise<RunResult>;
}

interface RunResult {
  readonly runEvents: RunEvents;
  readonly result: Promise<Json>;
}

/** Clients may send any number as the last id they have seen. */
const HIGHEST_ID = 2 ** 52;

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createRunSubscriptions(options: RunSubscriptionOptions): RunSubscriptions {
  const { storage, scope, environment, hub } = options;
  const { watch, closeIfEnded } = createRemoteRuns(options);

  /** The log of a run, ended already when the run is. The caller subscribes and then calls `watch`. */
  function logOf(run: RunRow, after: number, created: boolean): RunEvents | Promise<RunEvents> {
    const { run_id } = run;
    const seen = Math.min(after, HIGHEST_ID);
    const known = hub.find(run_id);
    // The end of a deleted run needs ids above those that this subscriber has seen.
    const tooLow = known?.outcome?.status === "gone" && seen > known.lastId - 2;
    if (known && !tooLow) {
      known.seen = Math.max(known.seen, seen);
      return known;
    }
    if (known) hub.forget(known);
    const runEvents = hub.runEvents(run_id);
    runEvents.seen = seen;
    return opened(run, runEvents, created);
  }

  /** The row may be older than the end of the run: it is read again once the log exists. */
  async function opened({ run_id, thread_id }: RunRow, runEvents: RunEvents, created: boolean): Promise<RunEvents> {
    try {
      await closeIfEnded(runEvents);
    } catch (error) {
      if (!created) {
        hub.forget(runEvents);
        throw error;
      }
      environment.log({ level: "warn", message: "following a run failed", run_id, thread_id, error });
    }
    return runEvents;
  }

  /** The id to read after: `seen` if the run has that id, else 0. */
  async function position(runEvents: RunEvents, seen: number): Promise<number> {
    const after = Math.min(seen, HIGHEST_ID);
    if (after > runEvents.lastId && (await isOfOtherProcess(runEvents, after))) return after;
    return after <= runEvents.lastId ? after : 0;
  }

  /** Whether another process has shown a frame above those that are here. Ends the log if the run has ended there. */
  async function isOfOtherProcess(runEvents: RunEvents, id: number): Promise<boolean> {
    const isUnknown = (): boolean => id > runEvents.lastId;
    // It may have shown the end, which is not a stored frame.
    if (isOpen(runEvents)) {
      storage.refresh?.();
      await closeIfEnded(runEvents);
    }
    if (isUnknown() && runEvents.stored && !runEvents.outcome) {
      if (await isStoredFrame(runEvents, id)) return true;
      // A rollback deletes the frames: the subscriber must not get any of them again.
      await closeIfEnded(runEvents);
    }
    return isUnknown() && runEvents.live && (await isOfOtherAttempt(runEvents, id));
  }

  async function isStoredFrame(runEvents: RunEvents, id: number): Promise<boolean> {
    const [frame] = await storage.readFrames(scope, runEvents.run_id, id - 1);
    if (frame?.id !== id) return false;
    if (isOpen(runEvents)) runEvents.skipTo(id);
    return true;
  }

  /** The attempt here may have lost its lease. Its log then gets the end of the run once the attempt has stopped. */
  async function isOfOtherAttempt(runEvents: RunEvents, id: number): Promise<boolean> {
    const row = await storage.getRun(scope, runEvents.run_id);
    if (!row || (hasEnded(row) && id <= (row.end_frame ?? 0))) return true;
    return !runEvents.stored && isOfLaterClaim(id, runEvents.lastId, row);
  }

  /** The result of a run that has not ended, or whose log has ended as `gone`. */
  function awaited(run: RunRow, runEvents: RunEvents): RunResult {
    const frames = options.features.tail(run);
    const result = runEvents
      .ended()
      .then(({ status, result: its }) => withTail(its ?? {}, status === "gone" ? [] : frames));
    watch(run, runEvents);
    return { runEvents, result };
  }

  /** The same for any run. The state of one that has ended is read now, because later runs change it. */
  async function storedOr(run: RunRow, runEvents: RunEvents): Promise<RunResult> {
    if (!hasEnded(run) || runEvents.outcome?.status === "gone") return awaited(run, runEvents);
    try {
      const result = withTail(await storedResult(options, run), options.features.tail(run));
      return { runEvents, result: Promise.resolve(result) };
    } finally {
      watch(run, runEvents);
    }
  }

  return {
    watch,
    async read(run, after, onLeave, created = false) {
      const runEvents = await logOf(run, after, created);
      try {
        return { runEvents, frames: runEvents.read(await position(runEvents, after), onLeave) };
      } finally {
        // After an error too: it forgets a log without subscribers.
        watch(run, runEvents);
      }
    },
    result(run, created = false) {
      const runEvents = logOf(run, 0, created);
      if (!(runEvents instanceof Promise) && !hasEnded(run)) return awaited(run, runEvents);
      return (async () => await storedOr(run, await runEvents))();
    },
  };
}
