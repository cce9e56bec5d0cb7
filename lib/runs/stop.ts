/** Stops runs: durably first, then their workers, then their readers. */
import { endDeleted, endRolledBack, type Worker } from "../engine/worker.ts";
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { RunRow, Scope, StopAction, StoppedRun, StopTarget, Storage } from "../storage/mod.ts";
import { type Visibility, withVisibility } from "../storage/visibility.ts";
import type { StreamHub } from "../streams/hub.ts";
import type { Follower } from "../streams/run-subscription.ts";

export interface StopOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly events: StreamHub;
  readonly worker: Worker;
  readonly follower: Follower;
  /** Runs may have ended that have webhooks. */
  readonly onTold: () => void;
  /** A run ended that had not started. */
  readonly onEnded?: (run: StoppedRun) => void;
}

export interface Stops {
  /** Resolves once it is stored; with `wait` once the run has ended and its executor has let go. */
  stop(run: RunRow, action: StopAction, wait: boolean, visibility?: Visibility, reason?: string): Promise<void>;
  stopMany(target: StopTarget, action: StopAction, visibility?: Visibility): Promise<void>;
  /** The store has stopped these runs: tells whoever executes or reads them. */
  stopped(runs: readonly StoppedRun[]): void;
  /** The rows of these runs were deleted with their thread. */
  deleted(run_ids: readonly string[]): void;
}

type Named = Extract<StopTarget, { readonly thread_id: string }>;
const lowerCase = ({ thread_id, run_ids }: Named): Named => ({
  thread_id: thread_id.toLowerCase(),
  run_ids: run_ids.map((run_id) => run_id.toLowerCase()),
});

/** Most characters of a reason. */
const REASON_LENGTH = 1000;

/** What is kept of the reason for a cancel. */
export function cancelReason(reason: string, action: StopAction): string {
  if (action === "rollback") {
    throw new ServiceError("invalid", "reason: only with action interrupt, because a rolled-back run is deleted");
  }
  if (reason.length > REASON_LENGTH) {
    throw new ServiceError("invalid", `reason: must have at most ${REASON_LENGTH} characters`);
  }
  return reason === "taken" ? "taken: its input went into another run" : reason;
}

/** How often a run that ends elsewhere is looked at by who waits for it. */
const WAIT_MS = 100;

export function createStops(options: StopOptions): Stops {
  const { storage, scope, environment, events, worker, follower } = options;

  function stopped(runs: readonly StoppedRun[]): void {
    if (runs.some(({ kind }) => kind === "ended")) options.onTold();
    for (const run of runs) {
      const { run_id, thread_id, kind, slot_token } = run;
      const here = kind !== "ended" && worker.cancel(run_id, kind === "deleted" ? "rolled_back" : "cancelled");
      const runEvents = events.find(run_id);
      if (kind === "deleted" && runEvents) endRolledBack(runEvents, run_id);
      if (kind === "ended") {
        options.onEnded?.(run);
        follower.look(run_id).catch((error: unknown) => {
          environment.log({ level: "warn", message: "a run could not be watched", run_id, thread_id, error });
        });
      }
      if (slot_token !== null && !here) wakeAfter(thread_id, slot_token);
    }
    for (const thread_id of new Set(runs.map((run) => run.thread_id))) events.announce(thread_id);
    worker.wake();
  }

  /** If whoever executes a run is dead, somebody else can go on when its time is over. */
  function wakeAfter(thread_id: string, slot_token: string): void {
    storage.getThread(scope, thread_id).then(
      (thread) => {
        if (thread?.slot?.token === slot_token) worker.wakeAt(thread.slot.until);
      },
      (error: unknown) => {
        environment.log({ level: "warn", message: "a stopped run could not be watched", thread_id, error });
      },
    );
  }

  /** It has ended, and nothing executes it any more: its thread's slot is free, another's, or over. */
  async function settled({ run_id, thread_id, slot_token }: StoppedRun): Promise<void> {
    await worker.settled(run_id);
    while (true) {
      const [run, thread] = await Promise.all([storage.getRun(scope, run_id), storage.getThread(scope, thread_id)]);
      const active = run?.status === "pending" || run?.status === "running";
      const slot = thread?.slot ?? null;
      const held = slot !== null && slot.token === slot_token && slot.until > environment.now();
      if (!active && !held) return;
      await new Promise<void>((resolve) => void environment.timer(WAIT_MS, resolve));
    }
  }

  return {
    stopped,
    async stop(run, action, wait, visibility, reason) {
      const target = { thread_id: run.thread_id, run_ids: [run.run_id] };
      const runs = await storage.stopRuns(withVisibility(scope, visibility), target, action, environment.now(), reason);
      stopped(runs);
      if (wait) await Promise.all(runs.map(settled));
    },
    async stopMany(given, action, visibility) {
      const target = "status" in given ? given : lowerCase(given);
      const reached = withVisibility(scope, visibility);
      const runs = await storage.stopRuns(reached, target, action, environment.now());
      stopped(runs);
      if (runs.length > 0) return;
      if ("status" in target) {
        const which = target.status === "all" ? "pending or running" : target.status;
        throw new ServiceError("not_found", `No run is ${which}`);
      }
      // Naming runs that have ended already is no error.
      const known = await Promise.all(target.run_ids.map((run_id) => storage.getRun(reached, run_id)));
      if (!known.some((run) => run?.thread_id === target.thread_id)) {
        throw new ServiceError("not_found", `Thread ${target.thread_id} has none of these runs`);
      }
    },
    deleted(run_ids) {
      for (const run_id of run_ids) {
        worker.cancel(run_id, "rolled_back");
        const runEvents = events.find(run_id);
        if (runEvents) endDeleted(runEvents, run_id);
      }
      worker.wake();
    },
  };
}
