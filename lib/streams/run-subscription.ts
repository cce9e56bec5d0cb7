/** Subscribes to the frames and the results of runs, in whichever process they are executed, and ends the logs of runs. */
import { type Environment, waitForNextTick } from "../environment.ts";
import { StateReadError } from "../errors.ts";
import { ResumeError, type StateEvent, type ThreadState } from "../executor/contract.ts";
import type { CombinedFeatures, TrailerFrames } from "../features/mod.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { EventBus } from "../storage/event-bus.ts";
import type { RunRow, RunStatus, Scope, Storage, TerminalStatus, ThreadRow } from "../storage/mod.ts";
import { encodeFrame, type Frame } from "./frames.ts";
import type { RunCompletion, RunLog, StreamHub } from "./hub.ts";
import type { Reader } from "./log.ts";
import { Poller } from "./poller.ts";

/** The frames before the `end`: those of features, and the error. */
export interface Trailer {
  readonly frames: TrailerFrames;
  readonly error: JsonObject | null;
}

export function countTrailerFrames({ frames, error }: Trailer): number {
  return frames.length + (error === null ? 0 : 1);
}

const IDS_PER_CLAIM = 2 ** 32;

/**
 * Returns the first frame id after this number of claims, for a run without stored frames. It is above the ids of all earlier
 * attempts.
 */
export function getFirstFrameId(claims: number): number {
  return claims * IDS_PER_CLAIM + 1;
}

/** Returns true if a frame that is not stored may belong to a later claim than the newest frame here. */
const isFrameOfLaterClaim = (id: number, newest: number, { claims }: RunRow): boolean =>
  claims > Math.floor(newest / IDS_PER_CLAIM) + 1 && id < getFirstFrameId(claims);

/**
 * Ends the log with the frames of the trailer, an `error` frame if it has an error, and the `end`. `end_frame` is that of the
 * run's row; null when the row was deleted. Has no effect on a log that has ended.
 */
export function closeRunLog(
  runLog: RunLog,
  completion: RunCompletion,
  trailer: Trailer,
  end_frame: number | null,
): void {
  const { frames, error } = trailer;
  if (end_frame !== null) {
    const first = end_frame - countTrailerFrames(trailer);
    if (runLog.hasStoredFrames) runLog.skipTo(first - 1);
    else runLog.startAt(first);
  }
  const status = completion.status === "gone" ? "rollback" : completion.status;
  // The trailer comes before the error, because clients stop reading at an error.
  for (const [event, data] of frames) publishValue(runLog, event, data);
  if (error) publishValue(runLog, "error", error);
  publishValue(runLog, "end", { run_id: runLog.run_id, status });
  runLog.end(completion);
}

/** Publishes a frame of the root graph to the readers of the log. */
function publishValue(runLog: RunLog, event: string, data: JsonObject): void {
  const frame = encodeFrame({ event, namespace: [], data });
  runLog.publish(frame.event, frame.data);
}

const DELETED_RUN_MESSAGES = { RunDeleted: "The run was deleted", RunRolledBack: "The run was rolled back" };

/**
 * Ends the log of a run that was deleted or rolled back as `gone`, with an `error` and an `end` frame. Does nothing without a
 * log.
 */
export function endDeletedRunLog(runLog: RunLog | undefined, name: keyof typeof DELETED_RUN_MESSAGES): void {
  if (!runLog) return;
  const error = { error: name, message: DELETED_RUN_MESSAGES[name] };
  runLog.startAt(runLog.lastSeenId + 1);
  closeRunLog(runLog, { status: "gone", result: { __error__: error } }, { frames: [], error }, null);
}

/**
 * Returns the result of wait and join for a run that did not fail: `values`, and with `__interrupt__` added if nodes remain.
 * `isStopped` means that the run was interrupted: without interrupts its remaining nodes are no breakpoint, and add nothing.
 * Values that are no object are replaced by `__interrupt__`.
 */
export function toWaitResult(
  values: Json,
  next: readonly string[],
  interrupts: readonly Json[],
  isStopped: boolean,
): Json {
  if (next.length === 0 || (isStopped && interrupts.length === 0)) return values ?? {};
  return isObject(values) ? { ...values, __interrupt__: [...interrupts] } : { __interrupt__: [...interrupts] };
}

/**
 * Returns a copy of a result of wait and join with the trailer's frames as members `__<event>__`, because these callers get no
 * events. Returns the same value without frames, and if it is no object.
 */
const addTrailerToResult = (result: Json, frames: TrailerFrames): Json =>
  isObject(result) && frames.length > 0
    ? { ...result, ...Object.fromEntries(frames.map(([event, data]) => [`__${event}__`, data])) }
    : result;

/**
 * Converts the error of an attempt to its wire form `{ error, message }`, with the reason of a resume value that was refused
 * after the run was created. Returns null if the attempt succeeded, which requires at least one state.
 */
export function toErrorBody(failure: unknown, last: StateEvent | null): JsonObject | null {
  if (failure === undefined) return last ? null : { error: "Error", message: "The graph ended without a state" };
  const { name, message } = (typeof failure === "object" && failure !== null ? failure : {}) as {
    name?: unknown;
    message?: unknown;
  };
  return {
    error: typeof name === "string" && name !== "" ? name : "Error",
    message: [message, failure].find((text) => typeof text === "string") ?? "The graph failed",
    ...(failure instanceof ResumeError && failure.code ? toRefusedResume(failure) : {}),
  };
}

/** Returns the reason of a refused resume value, for programs. */
export const toRefusedResume = ({ code, reason, interrupt_ids, pending_ids }: ResumeError): JsonObject => ({
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
  /** Reads the state at a thread's head; null before the first run. Throws `StateUnreadable`. */
  currentState(thread: ThreadRow): Promise<ThreadState | null>;
  readonly features: Pick<CombinedFeatures, "trailer">;
}

/**
 * Returns the result of wait and join for a run that ended before the call: its error, or the values of the state, `{}` without a
 * state. A state that cannot be read is logged and returned as an error.
 */
async function readStoredResult(options: RunSubscriptionOptions, run: RunRow): Promise<Json> {
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
    return toWaitResult(
      state.values,
      state.next,
      state.interrupts as unknown as Json[],
      last?.status === "interrupted",
    );
  } catch (error) {
    if (!(error instanceof StateReadError)) throw error;
    environment.log({ level: "error", message: "a state could not be read", run_id, thread_id, error });
    return { __error__: { error: "StateUnreadable", message: "The state could not be read" } };
  }
}

/** Returns true if the log accepts frames and no attempt of this process writes them. */
const acceptsRemoteFrames = (runLog: RunLog): boolean => !runLog.completion && !runLog.isLive;

export const hasEnded = ({ status }: { readonly status: RunStatus }): boolean =>
  status !== "pending" && status !== "running";

interface RemoteRuns extends Pick<RunSubscriptions, "watch"> {
  closeIfEnded(runLog: RunLog): Promise<void>;
}

/**
 * Creates `watch`, which copies the stored frames of a run that another process executes to its log here, and `closeIfEnded`,
 * which ends a log when the run's row has ended. Subscribes to the signals of runs and threads.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
function createRemoteRuns(options: RunSubscriptionOptions): RemoteRuns {
  const { storage, bus, scope, environment, hub } = options;
  const hasSignals = storage.signals !== undefined;
  const remoteRuns = new Map<RunLog, { readonly thread_id: string; readonly poller: Poller }>();

  const warn = (run_id: string, error: unknown): void =>
    environment.log({ level: "warn", message: "following a run failed", run_id, error });

  /**
   * Starts to copy the frames of a run of another process, until it ends or has no subscribers; then the hub forgets its log.
   * With signals, a further call reads at once. Failed reads are logged and tried again. Does nothing for a run that this process
   * executes or that has ended.
   */
  function watch({ thread_id }: Pick<RunRow, "thread_id">, runLog: RunLog): void {
    if (!acceptsRemoteFrames(runLog)) return;
    let poller = remoteRuns.get(runLog)?.poller;
    // Signals that were sent before this moment did not reach this process.
    if (poller && !hasSignals) return;
    if (!poller) {
      poller = new Poller({
        environment,
        hasSignals,
        read: () => read(runLog).catch((error: unknown) => warn(runLog.run_id, error)),
        getPosition: () => runLog.lastId,
        isNeeded: () => acceptsRemoteFrames(runLog) && runLog.hasSubscribers,
        /** Stops to follow the run. The hub forgets its log, unless the run has ended or is executed here. */
        onIdle() {
          remoteRuns.delete(runLog);
          if (acceptsRemoteFrames(runLog)) hub.forget(runLog);
        },
      });
      remoteRuns.set(runLog, { thread_id, poller });
    }
    if (hasSignals) void poller.read();
    else poller.start();
  }

  /** Copies stored frames that are new, and ends the log if the run has ended. Rejects if a read fails. */
  async function read(runLog: RunLog): Promise<void> {
    // The first check of a run reads whether its frames are stored.
    const wasStored = runLog.hasStoredFrames;
    if (acceptsRemoteFrames(runLog) && wasStored) await copyFrames(runLog);
    await closeIfEnded(runLog);
    if (acceptsRemoteFrames(runLog) && runLog.hasStoredFrames && !wasStored) await copyFrames(runLog);
  }

  /**
   * Publishes the stored frames that the log does not have yet, one page in each tick, while it has subscribers and no attempt
   * here writes it.
   */
  async function copyFrames(runLog: RunLog): Promise<void> {
    while (runLog.hasSubscribers) {
      const page = await storage.readFrames(scope, runLog.run_id, runLog.lastId);
      if (page.length === 0 || !acceptsRemoteFrames(runLog)) return;
      for (const { id, event, data } of page) {
        runLog.skipTo(id - 1);
        if (id > runLog.lastId) runLog.publish(event, data);
      }
      await waitForNextTick(environment);
    }
  }

  /**
   * Reads the row of a run, and notes in its log the attempt and whether frames are stored. Ends the log if the run has ended, or
   * as rolled back if the row does not exist. The log of a resumable run skips to its end: readers get earlier frames from the
   * storage, or a notice that they are missing. Changes nothing if the log has ended or this process executes the run, also if it
   * claims the run during the reads. Rejects if a read fails.
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the run may be deleted, claimed or ended during each read
  async function closeIfEnded(runLog: RunLog): Promise<void> {
    if (!acceptsRemoteFrames(runLog)) return;
    const row = await storage.getRun(scope, runLog.run_id);
    if (!row) {
      if (acceptsRemoteFrames(runLog)) endDeletedRunLog(runLog, "RunRolledBack");
      return;
    }
    const result = hasEnded(row) ? await readStoredResult(options, row) : null;
    // This process may have claimed the run during the reads.
    if (!acceptsRemoteFrames(runLog)) return;
    runLog.hasStoredFrames ||= row.resumable;
    runLog.attempt = row.attempt;
    if (!hasEnded(row)) return;
    const trailer = { frames: options.features.trailer(row), error: row.error };
    const end_frame = row.end_frame ?? getFirstFrameId(row.claims) + countTrailerFrames(trailer);
    // Frames that retention has deleted are reported to subscribers as missing.
    if (row.kwargs["resumable"] === true) runLog.skipTo(end_frame - countTrailerFrames(trailer) - 1);
    closeRunLog(runLog, { status: row.status as TerminalStatus, result }, trailer, end_frame);
  }

  /**
   * Checks in the background a run that has a log here: the poller reads a remote run, and any other log is closed if its run has ended.
   */
  function checkRun(run_id: string): void {
    const runLog = hub.find(run_id);
    if (!runLog) return;
    const entry = remoteRuns.get(runLog);
    if (entry) void entry.poller.read();
    else closeIfEnded(runLog).catch((error: unknown) => warn(run_id, error));
  }

  /** Reads the runs of other processes that have subscribers, of one thread or all. Does not wait. */
  function checkRuns(thread_id?: string): void {
    for (const entry of [...remoteRuns.values()]) {
      if (thread_id === undefined || thread_id === entry.thread_id) void entry.poller.read();
    }
  }

  bus.subscribe("run", null, (run_id) => (run_id === undefined ? checkRuns() : checkRun(run_id)));
  bus.subscribe(
    "thread",
    null,
    (thread_id, from) => void (thread_id !== undefined && from !== "here" && checkRuns(thread_id)),
  );

  return { watch, closeIfEnded };
}

export interface RunSubscriptions {
  /**
   * Follows the run until it ends or has no subscribers here; then the hub forgets its log. With signals, a further call reads at
   * once. Failed reads are logged. Does nothing for a run that this process executes or that has ended.
   */
  watch(run: Pick<RunRow, "thread_id">, runLog: RunLog): void;
  /**
   * Returns the log of a run as `runLog`, and as `frames` a reader of its frames with ids above `after`, or of all if the run has
   * no such id. Starts to follow a run of another process. `onLeave` is called if the subscriber leaves before the run has ended.
   * Rejects if the storage cannot be read, but not with `isNew`, which means that the caller has just created the run.
   */
  read(
    run: RunRow,
    after: number,
    onLeave?: () => void,
    isNew?: boolean,
  ): Promise<{ readonly runLog: RunLog; readonly frames: Reader<Frame> }>;
  /**
   * Returns the log of a run and a promise of its result for wait and join; both as a promise if the storage must be read first.
   * The result of a run that fails is `{ __error__ }`. Rejects only if that first read fails, which a run with `isNew` survives.
   * Starts to follow a run of another process.
   */
  result(run: RunRow, isNew?: boolean): RunResult | Promise<RunResult>;
}

interface RunResult {
  readonly runLog: RunLog;
  readonly result: Promise<Json>;
}

/** The maximum id, because clients may send any number as the last id that they have received. */
const MAX_FRAME_ID = 2 ** 52;

/**
 * Creates the functions that read frames and results of runs, in whichever process they are executed. Subscribes to the changes
 * of runs and threads of other processes for as long as the bus exists.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createRunSubscriptions(options: RunSubscriptionOptions): RunSubscriptions {
  const { storage, scope, environment, hub } = options;
  const { watch, closeIfEnded } = createRemoteRuns(options);

  /**
   * Returns the log of a run, which has ended if the run has. Notes in it, also if others share it, that a subscriber has received
   * ids up to `after`. Replaces the log of a deleted run if its ids are too low for this subscriber. Rejects if the storage cannot be
   * read; with `isNew` (the caller has just created the run) that is only logged. Afterwards subscribe and call `watch`.
   */
  function openLog(run: RunRow, after: number, isNew: boolean): RunLog | Promise<RunLog> {
    const { run_id } = run;
    const lastSeenId = Math.min(after, MAX_FRAME_ID);
    const existing = hub.find(run_id);
    // The end of a deleted run needs ids above those that this subscriber has received.
    const hasTooLowIds = existing?.completion?.status === "gone" && lastSeenId > existing.lastId - 2;
    if (existing && !hasTooLowIds) {
      existing.lastSeenId = Math.max(existing.lastSeenId, lastSeenId);
      return existing;
    }
    if (existing) hub.forget(existing);
    const runLog = hub.getLog(run_id);
    runLog.lastSeenId = lastSeenId;
    return closeOrKeepLog(run, runLog, isNew);
  }

  /**
   * Ends the log if the run has ended: the row may be older than that end, so it is read again once the log exists. If that read
   * fails, logs it for a new run; else forgets the log and throws.
   */
  async function closeOrKeepLog({ run_id, thread_id }: RunRow, runLog: RunLog, isNew: boolean): Promise<RunLog> {
    try {
      await closeIfEnded(runLog);
    } catch (error) {
      if (!isNew) {
        hub.forget(runLog);
        throw error;
      }
      environment.log({ level: "warn", message: "following a run failed", run_id, thread_id, error });
    }
    return runLog;
  }

  /**
   * Returns the id to read after: `lastSeenId` if the run has that id, else 0. Reads the storage for an id above those of the log,
   * which may end the log or move it on.
   */
  async function findPosition(runLog: RunLog, lastSeenId: number): Promise<number> {
    const after = Math.min(lastSeenId, MAX_FRAME_ID);
    if (after > runLog.lastId && (await isFrameOfOtherProcess(runLog, after))) return after;
    return after <= runLog.lastId ? after : 0;
  }

  /** Returns true if another process has emitted a frame above those of this process. Ends the log if the run has ended there. */
  async function isFrameOfOtherProcess(runLog: RunLog, id: number): Promise<boolean> {
    const isUnknown = (): boolean => id > runLog.lastId;
    // It may have emitted the end, which is not a stored frame.
    if (acceptsRemoteFrames(runLog)) {
      storage.refresh?.();
      await closeIfEnded(runLog);
    }
    if (isUnknown() && runLog.hasStoredFrames && !runLog.completion) {
      if (await isStoredFrame(runLog, id)) return true;
      // A rollback deletes the frames, and the subscriber must not get any of them again.
      await closeIfEnded(runLog);
    }
    return isUnknown() && runLog.isLive && (await isFrameOfOtherAttempt(runLog, id));
  }

  /** Returns true if a frame with this id is stored. The log of a remote run then continues after it. */
  async function isStoredFrame(runLog: RunLog, id: number): Promise<boolean> {
    const [frame] = await storage.readFrames(scope, runLog.run_id, id - 1);
    if (frame?.id !== id) return false;
    if (acceptsRemoteFrames(runLog)) runLog.skipTo(id);
    return true;
  }

  /**
   * Returns true if another attempt has emitted the frame, because the attempt here may have lost its lease; also if the run was
   * deleted. The log then gets the end of the run once the attempt has stopped.
   */
  async function isFrameOfOtherAttempt(runLog: RunLog, id: number): Promise<boolean> {
    const row = await storage.getRun(scope, runLog.run_id);
    if (!row || (hasEnded(row) && id <= (row.end_frame ?? 0))) return true;
    return !runLog.hasStoredFrames && isFrameOfLaterClaim(id, runLog.lastId, row);
  }

  /**
   * Returns the result of a run that has not ended, or whose log has ended as `gone`. It resolves with the trailer's members
   * added, and never rejects. Starts to watch a remote run.
   */
  function awaitResult(run: RunRow, runLog: RunLog): RunResult {
    const frames = options.features.trailer(run);
    const result = runLog
      .waitForEnd()
      .then(({ status, result: completionResult }) =>
        addTrailerToResult(completionResult ?? {}, status === "gone" ? [] : frames),
      );
    watch(run, runLog);
    return { runLog, result };
  }

  /**
   * Returns the result of any run. The state of an ended run is read now, because later runs change it. Throws what that read
   * throws.
   */
  async function readOrAwaitResult(run: RunRow, runLog: RunLog): Promise<RunResult> {
    if (!hasEnded(run) || runLog.completion?.status === "gone") return awaitResult(run, runLog);
    try {
      const result = addTrailerToResult(await readStoredResult(options, run), options.features.trailer(run));
      return { runLog, result: Promise.resolve(result) };
    } finally {
      watch(run, runLog);
    }
  }

  return {
    watch,
    async read(
      run,
      after,
      onLeave,
      isNew = false,
    ): Promise<{ readonly runLog: RunLog; readonly frames: Reader<Frame> }> {
      const runLog = await openLog(run, after, isNew);
      try {
        return { runLog, frames: runLog.read(await findPosition(runLog, after), onLeave) };
      } finally {
        // After an error too, so that a log without subscribers is dropped.
        watch(run, runLog);
      }
    },
    result(run, isNew = false) {
      const runLog = openLog(run, 0, isNew);
      if (!(runLog instanceof Promise) && !hasEnded(run)) return awaitResult(run, runLog);
      return (async () => await readOrAwaitResult(run, await runLog))();
    },
  };
}
