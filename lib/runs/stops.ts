/** Stops runs: in the store first, then their attempts here, then their subscribers. */
import { pause, waitForNextTick } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { ListPosition } from "../storage/cursor.ts";
import type { RunRow, Scope, StopAction, StoppedRun, StopTarget } from "../storage/mod.ts";
import { endGone } from "../streams/run-subscription.ts";
import type { CreateOptions } from "./create.ts";

export interface StopOptions extends Pick<CreateOptions, "storage" | "scope" | "environment" | "hub" | "worker"> {
  /** A run ended before it started. */
  readonly onEndedUnstarted?: (run: StoppedRun) => void;
}

type ActiveStatus = "pending" | "running" | "all";

/** Which active runs a call stops: some of one thread, or those that have a status now. */
export type CancelTarget =
  | { readonly thread_id: string; readonly run_ids: readonly string[] }
  | { readonly status: ActiveStatus };

export interface Stops {
  /** The store has stopped these runs: stops their attempts here. */
  onStopped(runs: readonly StoppedRun[]): void;
  /** Resolves once the stop is stored; with `wait` once the run has ended and its executor has stopped. */
  stop(
    scope: Scope,
    run: Pick<RunRow, "run_id" | "thread_id">,
    action: StopAction,
    wait: boolean,
    reason?: string,
  ): Promise<void>;
  /** Stops many runs in parts. Errors: not_found. */
  stopMany(scope: Scope, target: CancelTarget, action: StopAction): Promise<void>;
}

const ACTIVE = ["pending", "running"] as const;
const STOPPED_AT_ONCE = 100;

/** The poll interval of a cancel that waits for a run in another process. */
const WAIT_MS = 100;

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createStops(options: StopOptions): Stops {
  const { storage, scope: deploymentScope, environment, hub, worker } = options;

  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one line for each kind of stopped run
  function onStopped(runs: readonly StoppedRun[]): void {
    for (const run of runs) {
      const { run_id, thread_id, kind, lock_token } = run;
      const here = kind !== "ended" && worker.cancel(run_id, kind === "deleted" ? "rolled_back" : "cancelled");
      if (kind === "deleted") endGone(hub.find(run_id), "RunRolledBack");
      if (kind === "ended") options.onEndedUnstarted?.(run);
      if (lock_token !== null && !here) wakeAfter(thread_id, lock_token);
    }
  }

  /** The process that executes the run may be dead: the thread is free when its slot expires. */
  function wakeAfter(thread_id: string, slot_token: string): void {
    storage.getThread(deploymentScope, thread_id).then(
      (thread) => {
        if (thread?.lock?.token === slot_token) worker.wakeAt(thread.lock.until);
      },
      (error: unknown) => {
        environment.log({ level: "warn", message: "reading the slot of a stopped run failed", thread_id, error });
      },
    );
  }

  /** Resolves when the run has ended and no longer holds the slot of its thread. */
  async function whenEnded({ run_id, thread_id, lock_token }: StoppedRun): Promise<void> {
    await worker.whenDone(run_id);
    while (true) {
      const [run, thread] = await Promise.all([
        storage.getRun(deploymentScope, run_id),
        storage.getThread(deploymentScope, thread_id),
      ]);
      const active = run?.status === "pending" || run?.status === "running";
      const slot = thread?.lock ?? null;
      const holdsSlot = slot !== null && slot.token === lock_token && slot.until > environment.now();
      if (!active && !holdsSlot) return;
      await pause(environment, WAIT_MS);
    }
  }

  /** Gives the number of runs that were stopped. Others are answered between the parts. */
  async function stopParts(scope: Scope, parts: readonly StopTarget[], action: StopAction): Promise<number> {
    let stopped = 0;
    for (const part of parts) {
      const runs = await storage.stopRuns(scope, part, action, environment.now());
      onStopped(runs);
      stopped += runs.length;
      await waitForNextTick(environment);
    }
    return stopped;
  }

  /** Stops the runs that have the status now, although they may start meanwhile. */
  async function stopStatus(scope: Scope, status: ActiveStatus, action: StopAction): Promise<void> {
    const active = { status: status === "all" ? ACTIVE : [status], limit: STOPPED_AT_ONCE };
    const parts: StopTarget[] = [];
    for (let after: ListPosition | null | undefined; after !== null; ) {
      const { rows, next } = await storage.searchRuns(scope, { ...active, ...(after ? { after } : {}) });
      parts.push({ run_ids: rows.map(({ run }) => run.run_id) });
      after = next;
      await waitForNextTick(environment);
    }
    if ((await stopParts(scope, parts, action)) > 0) return;
    throw new ServiceError("not_found", `No run is ${status === "all" ? "pending or running" : status}`);
  }

  return {
    onStopped,
    // biome-ignore lint/complexity/useMaxParams: the public operation has these parameters, behind the scope of its caller
    async stop(scope, run, action, wait, reason) {
      const target = { thread_id: run.thread_id, run_ids: [run.run_id] };
      const runs = await storage.stopRuns(scope, target, action, environment.now(), reason);
      onStopped(runs);
      if (wait) await Promise.all(runs.map(whenEnded));
    },
    async stopMany(scope, given, action) {
      if ("status" in given) return await stopStatus(scope, given.status, action);
      const thread_id = given.thread_id.toLowerCase();
      const run_ids = given.run_ids.map((run_id) => run_id.toLowerCase());
      const parts: StopTarget[] = [];
      for (let at = 0; at < run_ids.length; at += STOPPED_AT_ONCE) {
        parts.push({ thread_id, run_ids: run_ids.slice(at, at + STOPPED_AT_ONCE) });
      }
      if ((await stopParts(scope, parts, action)) > 0) return;
      // Runs that have ended already are no error.
      const known = await Promise.all(run_ids.map((run_id) => storage.getRun(scope, run_id)));
      if (!known.some((run) => run?.thread_id === thread_id)) {
        throw new ServiceError("not_found", `Thread ${thread_id} has none of these runs`);
      }
    },
  };
}
