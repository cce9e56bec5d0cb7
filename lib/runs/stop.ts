/** Stops runs: in the store first, then their attempts here, then their subscribers. */
import type { Worker } from "../engine/worker.ts";
import { type Environment, pause } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { RunRow, Scope, StopAction, StoppedRun, StopTarget, Storage } from "../storage/mod.ts";
import { type Visibility, withVisibility } from "../storage/visibility.ts";
import type { StreamHub } from "../streams/hub.ts";
import { endRolledBack } from "../streams/run-subscription.ts";

export interface StopOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly hub: StreamHub;
  readonly worker: Worker;
  /** A run ended before it started. */
  readonly onEndedUnstarted?: (run: StoppedRun) => void;
}

export interface Stops {
  /** Resolves once the stop is stored; with `wait` once the run has ended and its executor has stopped. */
  stop(run: RunRow, action: StopAction, wait: boolean, visibility?: Visibility, reason?: string): Promise<void>;
  stopMany(target: StopTarget, action: StopAction, visibility?: Visibility): Promise<void>;
  /** The store has stopped these runs: stops their attempts here. */
  onStopped(runs: readonly StoppedRun[]): void;
}

type NamedRuns = Extract<StopTarget, { readonly thread_id: string }>;
const lowerCase = ({ thread_id, run_ids }: NamedRuns): NamedRuns => ({
  thread_id: thread_id.toLowerCase(),
  run_ids: run_ids.map((run_id) => run_id.toLowerCase()),
});

/** The limit of a cancel reason, in characters. */
const REASON_LENGTH = 1000;

/** The reason of a cancel, as it is stored. Errors: invalid. */
export function cancelReason(reason: string, action: StopAction): string {
  if (action === "rollback") {
    throw new ServiceError("invalid", "reason: only with action interrupt, because a rolled-back run is deleted");
  }
  if (reason.length > REASON_LENGTH) {
    throw new ServiceError("invalid", `reason: must have at most ${REASON_LENGTH} characters`);
  }
  return reason === "taken" ? "taken: its input went into another run" : reason;
}

/** The poll interval of a cancel that waits for a run in another process. */
const WAIT_MS = 100;

export function createStops(options: StopOptions): Stops {
  const { storage, scope, environment, hub, worker } = options;

  function onStopped(runs: readonly StoppedRun[]): void {
    for (const run of runs) {
      const { run_id, thread_id, kind, slot_token } = run;
      const here = kind !== "ended" && worker.cancel(run_id, kind === "deleted" ? "rolled_back" : "cancelled");
      const runEvents = hub.find(run_id);
      if (kind === "deleted" && runEvents) endRolledBack(runEvents);
      if (kind === "ended") options.onEndedUnstarted?.(run);
      if (slot_token !== null && !here) wakeAfter(thread_id, slot_token);
    }
  }

  /** The process that executes the run may be dead: the thread is free when its slot expires. */
  function wakeAfter(thread_id: string, slot_token: string): void {
    storage.getThread(scope, thread_id).then(
      (thread) => {
        if (thread?.slot?.token === slot_token) worker.wakeAt(thread.slot.until);
      },
      (error: unknown) => {
        environment.log({ level: "warn", message: "reading the slot of a stopped run failed", thread_id, error });
      },
    );
  }

  /** Resolves when the run has ended and no longer holds the slot of its thread. */
  async function whenEnded({ run_id, thread_id, slot_token }: StoppedRun): Promise<void> {
    await worker.whenDone(run_id);
    while (true) {
      const [run, thread] = await Promise.all([storage.getRun(scope, run_id), storage.getThread(scope, thread_id)]);
      const active = run?.status === "pending" || run?.status === "running";
      const slot = thread?.slot ?? null;
      const holdsSlot = slot !== null && slot.token === slot_token && slot.until > environment.now();
      if (!active && !holdsSlot) return;
      await pause(environment, WAIT_MS);
    }
  }

  return {
    onStopped,
    async stop(run, action, wait, visibility, reason) {
      const target = { thread_id: run.thread_id, run_ids: [run.run_id] };
      const runs = await storage.stopRuns(withVisibility(scope, visibility), target, action, environment.now(), reason);
      onStopped(runs);
      if (wait) await Promise.all(runs.map(whenEnded));
    },
    async stopMany(given, action, visibility) {
      const target = "status" in given ? given : lowerCase(given);
      const visible = withVisibility(scope, visibility);
      const runs = await storage.stopRuns(visible, target, action, environment.now());
      onStopped(runs);
      if (runs.length > 0) return;
      if ("status" in target) {
        const which = target.status === "all" ? "pending or running" : target.status;
        throw new ServiceError("not_found", `No run is ${which}`);
      }
      // Runs that have ended already are no error.
      const known = await Promise.all(target.run_ids.map((run_id) => storage.getRun(visible, run_id)));
      if (!known.some((run) => run?.thread_id === target.thread_id)) {
        throw new ServiceError("not_found", `Thread ${target.thread_id} has none of these runs`);
      }
    },
  };
}
