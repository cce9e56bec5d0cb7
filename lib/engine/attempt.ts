/**
 * One attempt of a run, from its claim to its end. Read on in execute.ts (the executor's events), finish.ts (the end of the run)
 * and heartbeat.ts (when a lease is lost).
 */
import { nextTurn, pause } from "../environment.ts";
import type { GraphInfo } from "../executor/contract.ts";
import type { ClaimedRun } from "../storage/mod.ts";
import type { RunEvents } from "../streams/hub.ts";
import { endRolledBack } from "../streams/terminal.ts";
import {
  type AttemptContext,
  type AttemptOptions,
  createContext,
  RETRY_MS,
  type StopReason,
  type WorkerSlot,
} from "./attempt-context.ts";
import { executeJob } from "./execute.ts";
import { finishRun, requeueRun } from "./finish.ts";
import { flushShown } from "./flush-shown.ts";

/** An attempt, as the worker sees it. */
export interface Attempt {
  readonly run_id: string;
  readonly thread_id: string;
  readonly runEvents: RunEvents;
  /** Resolves when the executor has settled or was abandoned, and the end of the run is stored. */
  readonly done: Promise<void>;
  /** True if the attempt stops for this reason. A lost lease replaces every other reason: nothing may be written then. */
  stop(reason: StopReason): boolean;
  /** Reads the run's cancel flag again: another process may have set it. */
  checkCancelled(): void;
  /** Resolves when what subscribers were shown is stored, or cannot be stored soon. */
  flushShown(): Promise<void>;
  /** The lease, or the slot of the thread, has expired while the executor is at work: a claim could take the run. */
  isExpired(now: number): boolean;
  /** Resolves when a claim can no longer take this run while its executor is at work. Rejects while that is uncertain. */
  beforeClaim(): Promise<void>;
}

/** Starts in the next microtask, so that a stop which arrives first has no side effects. */
export function startAttempt(
  options: AttemptOptions,
  slot: WorkerSlot,
  graph: GraphInfo,
  claimed: ClaimedRun,
): Attempt {
  const context = createContext(options, slot, graph, claimed);
  const { runEvents, state, heartbeat, isLost } = context;
  const { run_id, thread_id } = claimed.run;
  runEvents.live = true;
  const done = Promise.resolve().then(() => run(context));
  return {
    run_id,
    thread_id,
    runEvents,
    done,
    stop: context.stop,
    checkCancelled() {
      if (state.phase !== "ending" && !isLost()) heartbeat.checkCancelled();
    },
    flushShown: () =>
      flushShown({
        environment: options.environment,
        progress: context.progress,
        phase: () => (isLost() ? "lost" : state.phase === "executing" ? "executing" : "ending"),
        done,
      }),
    isExpired: (now) => heartbeat.isExpired(now) && !(state.phase !== "executing" && isLost()),
    async beforeClaim() {
      if (isLost()) await state.done.promise;
      else if (!(await heartbeat.renew()) && !isLost()) {
        if (state.phase !== "ending") throw new Error("A lease could not be renewed");
        // The end may be stored already: then the run has no lease that could be renewed.
        await done;
      }
    },
  };
}

/** Never rejects: an error becomes the status of the run, or the run keeps its lease until another claim retries it. */
async function run(context: AttemptContext): Promise<void> {
  const { options, claimed, state, checkpoints, progress, heartbeat, isLost } = context;
  const detach = options.events.attach(claimed.run.thread_id, { flush: progress.saveSoon });
  try {
    let failure: unknown;
    try {
      await begin(context);
      await executeJob(context);
    } catch (error) {
      failure = error ?? new Error("The graph failed without an error");
    }
    state.phase = "settled";
    state.done.resolve();
    // Held frames of a stopped run describe a state that it did not reach.
    progress.release(state.reason ? "dropped" : "shown");
    await progress.close();
    // An abandoned executor must not write any more.
    checkpoints.lose();
    if (!isLost()) await (state.reason === "shutting_down" ? requeueRun(context) : finishRun(context, failure));
  } catch {
    // The store failed, and `retry` has logged it. The run is retried after its lease has expired.
  }
  heartbeat.stop();
  detach();
  if (isLost()) await releaseThread(context).catch(() => {});
}

/** Shows the `metadata` frame before the graph starts, because its first step may block the event loop. */
async function begin(context: AttemptContext): Promise<void> {
  const { options, claimed, state, progress, runEvents } = context;
  const { run_id, thread_id, attempt, claims, framed } = claimed.run;
  await ensureLease(context);
  if (state.reason) return;
  const resumed_after = progress.nextId() - 1;
  await context.recorder.begin();
  // It may have read the store, and the process may have stood still meanwhile.
  await ensureLease(context);
  if (isStopped(state)) return;
  progress.show("metadata", { run_id, attempt, thread_id, ...(claims > 1 ? { resumed_after } : {}) });
  if (!runEvents.watched) return;
  if (framed) await progress.save();
  // The response is built in one turn of the event loop, and its bytes leave in the next.
  await nextTurn(options.environment);
  await nextTurn(options.environment);
  // The process may have stood still during these turns.
  await ensureLease(context);
}

/** Renews the lease if the claim's answer arrived after it expired. */
async function ensureLease({ options, state, heartbeat }: AttemptContext): Promise<void> {
  const { environment } = options;
  // The renewed lease may have expired again when the answer arrives.
  while (!state.reason && heartbeat.isExpired(environment.now())) {
    if (!(await heartbeat.renew()) && !isStopped(state)) await pause(environment, RETRY_MS);
  }
}

const isStopped = ({ reason }: AttemptContext["state"]): boolean => reason !== null;

/** The lease is lost: frees the slot of the thread, because the executor has settled. */
async function releaseThread({ options, claimed, state, runEvents, retry }: AttemptContext): Promise<void> {
  const { storage, scope, environment } = options;
  const { run_id, thread_id } = claimed.run;
  const message = "run was taken over, rolled back or deleted; result dropped";
  environment.log({ level: "info", message, run_id, thread_id });
  await retry(() => storage.releaseSlot(scope, claimed.lease));
  if (runEvents.outcome) return;
  const deleted = state.reason === "rolled_back" || !(await retry(() => storage.getRun(scope, run_id)));
  if (deleted) endRolledBack(runEvents, run_id);
}
