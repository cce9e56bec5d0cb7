/** Finds the state that a run has reached, also when it was stopped before it reported one. */
import { type JobCheckpoints, recordedState } from "../executor/checkpoints.ts";
import type { Executor, StateEvent, ThreadState } from "../executor/contract.ts";
import { ofRun } from "../executor/state-config.ts";
import type { ClaimedRun } from "../storage/mod.ts";
import type { EventMapper } from "./event-mapper.ts";

/** The part of an attempt that this module reads. */
interface Context {
  readonly options: { readonly executor: Executor };
  readonly claimed: ClaimedRun;
  readonly checkpoints: JobCheckpoints;
  readonly mapper: Pick<EventMapper, "last">;
}

/** The newest root checkpoint of the run, from this attempt or an earlier one. */
export async function reachedCheckpoint({ checkpoints, claimed }: Context): Promise<string | null> {
  const own = checkpoints.root();
  if (own !== null || !claimed.resumed) return own;
  return (await checkpoints.get({ ns: "" }))?.checkpoint_id ?? null;
}

/** The state at the run's newest checkpoint. */
export async function reachedState(context: Context): Promise<StateEvent | null> {
  const checkpoint_id = await reachedCheckpoint(context);
  const state = checkpoint_id === null ? null : await readState(context);
  return checkpoint_id !== null && state ? { ...state, type: "state", checkpoint: { ns: "", checkpoint_id } } : null;
}

/** The last state of a stopped run: the one it reported, unless it has stored a newer one. */
export async function lastState(context: Context): Promise<StateEvent | null> {
  const reported = context.mapper.last();
  const checkpoint_id = await reachedCheckpoint(context);
  // With durability `exit` a cancelled run has put none.
  if (reported && (reported.checkpoint?.checkpoint_id ?? null) === checkpoint_id) return reported;
  return checkpoint_id === null ? null : ((await reachedState(context)) ?? reported);
}

/** The state of the thread before the run: it stays the thread's state if the run reached none. */
export async function stateBefore(context: Context): Promise<StateEvent | null> {
  const { run, thread } = context.claimed;
  const state = thread.head === null || run.temporary ? null : await readState(context, thread.head);
  return state && { type: "state", values: state.values, next: state.next, tasks: state.tasks };
}

/** The state at a checkpoint, or the newest one of the run; null if it cannot be read. */
export async function readState(context: Context, checkpoint_id?: string): Promise<ThreadState | null> {
  const { options, claimed, checkpoints } = context;
  const { run } = claimed;
  const at = { thread_id: run.thread_id, ns: "", ...(checkpoint_id === undefined ? {} : { checkpoint_id }) };
  try {
    const reader = options.executor.state?.(run.graph_id) ?? recordedState;
    return await reader.get(at, checkpoints, { subgraphs: false, config: async () => ofRun(run) });
  } catch {
    return null;
  }
}
