/** Stops runs: in the storage first, then their attempts in this process, then their subscribers. */
import { pause, waitForNextTick } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { ListPosition } from "../storage/cursor.ts";
import type { RunRow, Scope, StopAction, StoppedRun, StopTarget } from "../storage/mod.ts";
import { endDeletedRunLog } from "../streams/run-subscription.ts";
import type { CreateOptions } from "./create.ts";

export interface StopOptions extends Pick<CreateOptions, "storage" | "scope" | "environment" | "hub" | "worker"> {
  /** Called with each run that ended before it started. */
  readonly onEndedUnstarted?: (run: StoppedRun) => void;
}

/** The active runs that a cancellation names. */
export type ActiveStatus = "pending" | "running" | "all";

/** The active runs to stop: some of one thread, or those that have a status now. */
export type CancelTarget =
  | { readonly thread_id: string; readonly run_ids: readonly string[] }
  | { readonly status: ActiveStatus };

export interface RunStopper {
  /** Stops the attempts of this process of runs that the storage has stopped. */
  onStopped(runs: readonly StoppedRun[]): void;
  /**
   * Stops a run in storage and its attempt here: `interrupt` ends it or flags it, `rollback` deletes it; one that has ended
   * stays. Resolves once the stop is stored; with `wait` once the run has ended and its executor has stopped. Stores `reason`
   * with an interrupt.
   */
  stop(
    scope: Scope,
    run: Pick<RunRow, "run_id" | "thread_id">,
    action: StopAction,
    wait: boolean,
    reason?: string,
  ): Promise<void>;
  /**
   * Stops the named runs of a thread, or all runs with a status, in batches. Resolves once all stops are stored. Named runs
   * that have ended are no error. Throws `not_found` if no run has the status, or the thread has none of the named runs.
   */
  stopMany(scope: Scope, target: CancelTarget, action: StopAction): Promise<void>;
}

const ACTIVE_STATUSES = ["pending", "running"] as const;
const STOP_BATCH_SIZE = 100;

/** The poll interval of a cancel that waits for a run in another process. */
const END_POLL_INTERVAL_MS = 100;

/**
 * Creates the functions that stop runs: they change the rows, stop the attempts of this process, end the logs of deleted runs and
 * wake the worker when a foreign thread lock expires.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createRunStopper(options: StopOptions): RunStopper {
  const { storage, scope: deploymentScope, environment, hub, worker } = options;

  /**
   * Stops the attempts of these runs in this process, ends the logs of deleted runs, and reports runs that ended without a
   * start. If another process holds the thread lock, the worker wakes when that expires.
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one line for each kind of stopped run
  function onStopped(runs: readonly StoppedRun[]): void {
    for (const run of runs) {
      const { run_id, thread_id, kind, lock_token } = run;
      const isLocal = kind !== "ended" && worker.cancel(run_id, kind === "deleted" ? "rolled_back" : "cancelled");
      if (kind === "deleted") endDeletedRunLog(hub.find(run_id), "RunRolledBack");
      if (kind === "ended") options.onEndedUnstarted?.(run);
      if (lock_token !== null && !isLocal) wakeWhenLockExpires(thread_id, lock_token);
    }
  }

  /**
   * Wakes the worker when the lock of the thread expires, because the process that executes the run may be dead. Works in the
   * background, and logs a failure.
   */
  function wakeWhenLockExpires(thread_id: string, slot_token: string): void {
    storage.getThread(deploymentScope, thread_id).then(
      (thread) => {
        if (thread?.lock?.token === slot_token) worker.wakeAt(thread.lock.until);
      },
      (error: unknown) => {
        environment.log({ level: "warn", message: "reading the slot of a stopped run failed", thread_id, error });
      },
    );
  }

  /**
   * Resolves when the run has ended or is deleted, and its attempt no longer holds a valid lock on the thread. Polls without a
   * time limit; rejects if a read fails.
   */
  async function waitUntilEnded({ run_id, thread_id, lock_token }: StoppedRun): Promise<void> {
    await worker.whenDone(run_id);
    while (true) {
      const [run, thread] = await Promise.all([
        storage.getRun(deploymentScope, run_id),
        storage.getThread(deploymentScope, thread_id),
      ]);
      const isActive = run?.status === "pending" || run?.status === "running";
      const lock = thread?.lock ?? null;
      const holdsLock = lock !== null && lock.token === lock_token && lock.until > environment.now();
      if (!isActive && !holdsLock) return;
      await pause(environment, END_POLL_INTERVAL_MS);
    }
  }

  /**
   * Stops the runs and signals their attempts. Returns the number of runs that were stopped; ended ones do not count. Waits for a
   * tick of the event loop after each batch.
   */
  async function stopBatches(scope: Scope, batches: readonly StopTarget[], action: StopAction): Promise<number> {
    let stoppedCount = 0;
    for (const batch of batches) {
      const runs = await storage.stopRuns(scope, batch, action, environment.now());
      onStopped(runs);
      stoppedCount += runs.length;
      await waitForNextTick(environment);
    }
    return stoppedCount;
  }

  /**
   * Reads the runs that have the status now, then stops them, even if they start meanwhile. Throws `not_found` if it stopped
   * none.
   */
  async function stopByStatus(scope: Scope, status: ActiveStatus, action: StopAction): Promise<void> {
    const active = { status: status === "all" ? ACTIVE_STATUSES : [status], limit: STOP_BATCH_SIZE };
    const batches: StopTarget[] = [];
    for (let after: ListPosition | null | undefined; after !== null; ) {
      const { rows, next } = await storage.searchRuns(scope, { ...active, ...(after ? { after } : {}) });
      batches.push({ run_ids: rows.map(({ run }) => run.run_id) });
      after = next;
      await waitForNextTick(environment);
    }
    if ((await stopBatches(scope, batches, action)) > 0) return;
    throw new ServiceError("not_found", `No run is ${status === "all" ? "pending or running" : status}`);
  }

  return {
    onStopped,
    // biome-ignore lint/complexity/useMaxParams: the public operation has these parameters, behind the scope of its caller
    async stop(scope, run, action, wait, reason) {
      const target = { thread_id: run.thread_id, run_ids: [run.run_id] };
      const runs = await storage.stopRuns(scope, target, action, environment.now(), reason);
      onStopped(runs);
      if (wait) await Promise.all(runs.map(waitUntilEnded));
    },
    async stopMany(scope, target, action) {
      if ("status" in target) return await stopByStatus(scope, target.status, action);
      const thread_id = target.thread_id.toLowerCase();
      const run_ids = target.run_ids.map((run_id) => run_id.toLowerCase());
      const batches: StopTarget[] = [];
      for (let start = 0; start < run_ids.length; start += STOP_BATCH_SIZE) {
        batches.push({ thread_id, run_ids: run_ids.slice(start, start + STOP_BATCH_SIZE) });
      }
      if ((await stopBatches(scope, batches, action)) > 0) return;
      // Runs that have ended already are no error.
      const existingRuns = await Promise.all(run_ids.map((run_id) => storage.getRun(scope, run_id)));
      if (!existingRuns.some((run) => run?.thread_id === thread_id)) {
        throw new ServiceError("not_found", `Thread ${thread_id} has none of these runs`);
      }
    },
  };
}
