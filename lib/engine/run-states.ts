/** Reads the states that an attempt needs at its end: those of its run, and the one before it. */
import type { Environment } from "../environment.ts";
import type { Executor, StateEvent, Task, ThreadState } from "../executor/contract.ts";
import type { JobCheckpoints } from "../executor/job-checkpoints.ts";
import { createRunStateConfig } from "../executor/job-request.ts";
import { createReopenedCheckpoint, recordedGraphState } from "../executor/recorded-states.ts";
import type { ClaimedRun } from "../storage/mod.ts";

interface RunContext {
  readonly options: { readonly executor: Executor; readonly environment: Environment };
  readonly claimed: ClaimedRun;
  readonly checkpoints: JobCheckpoints;
}

/**
 * Reads the state at a checkpoint, or the newest one of the run, without the states of subgraphs. Resolves to null if there is
 * none or it cannot be read; never rejects.
 */
export async function readState(
  { options, claimed, checkpoints }: RunContext,
  checkpoint_id?: string,
): Promise<ThreadState | null> {
  const { run } = claimed;
  const at = { thread_id: run.thread_id, ns: "", ...(checkpoint_id === undefined ? {} : { checkpoint_id }) };
  try {
    const reader = options.executor.state?.(run.graph_id) ?? recordedGraphState;
    return await reader.get(at, checkpoints, { subgraphs: false, config: async () => createRunStateConfig(run) });
  } catch {
    return null;
  }
}

/**
 * Resolves with the id of the newest root checkpoint of the run, from this attempt or an earlier one; null if there is none.
 * Reads the storage only in a retry that has put none.
 */
export async function findNewestRunCheckpoint({ claimed, checkpoints }: RunContext): Promise<string | null> {
  const newest = checkpoints.findNewestRootId();
  if (newest !== null || !claimed.resumed) return newest;
  return (await checkpoints.get({ ns: "" }))?.checkpoint_id ?? null;
}

/**
 * Returns the last state of a stopped run: the one that it reported, or the stored one if that is newer. Returns null if the run
 * has stored no checkpoint and reported no state without one; the reported state if the stored one cannot be read.
 */
export async function readLastState(context: RunContext, reported: StateEvent | null): Promise<StateEvent | null> {
  const checkpoint_id = await findNewestRunCheckpoint(context);
  // With durability `exit` a cancelled run has put none.
  if (reported && (reported.checkpoint?.checkpoint_id ?? null) === checkpoint_id) return reported;
  if (checkpoint_id === null) return null;
  const state = await readState(context);
  return state ? { ...state, type: "state", checkpoint: { ns: "", checkpoint_id } } : reported;
}

/**
 * Reads the state of the thread before the run, without its checkpoint. It stays the thread's state if the run reached none.
 * Returns null for a new thread, a stateless run and a state that cannot be read.
 */
export async function readStateBefore(context: RunContext): Promise<StateEvent | null> {
  const { run, thread } = context.claimed;
  if (thread.head === null || run.stateless) return null;
  const state = await readState(context, thread.head);
  return state && { type: "state", values: state.values, next: state.next, tasks: state.tasks };
}

/** Reads the tasks of the run's last state. */
export async function readPendingTasks(context: RunContext): Promise<readonly Task[]> {
  return (await readState(context))?.tasks ?? [];
}

/**
 * Makes the interrupts that a failed or stopped run had resumed pending again, with a checkpoint appended for the next save. Does
 * nothing for executors with states of their own, because the tasks that raised the interrupts have no result.
 */
export async function reopenInterrupts({ options, claimed, checkpoints }: RunContext): Promise<void> {
  const { run_id, graph_id } = claimed.run;
  if (options.executor.state?.(graph_id)) return;
  const newest = await checkpoints.get({ ns: "" });
  const again = newest?.run_id === run_id ? createReopenedCheckpoint(newest, options.environment) : null;
  if (again) checkpoints.append(again);
}
