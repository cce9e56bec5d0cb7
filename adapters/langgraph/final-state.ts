/** Reads the state with which an attempt ends. */
import type { Job, StateEvent } from "../../lib/executor/contract.ts";
import type { Json } from "../../lib/json.ts";
import type { GraphAttempt } from "./attempt.ts";
import { type GraphConfig, serializeValue } from "./serialize.ts";
import { toThreadState } from "./state.ts";

/** Returns the config that names the newest checkpoint of the root graph. */
export const createRootConfig = ({ thread_id }: Job): GraphConfig => ({
  configurable: { thread_id, checkpoint_ns: "" },
});

type StateParts = Pick<GraphAttempt, "job" | "graph" | "saver">;

/**
 * Returns the state at the end of the graph: what was streamed if it was complete, else fixes the saver's head and reads it.
 * Throws if the graph has stored none.
 */
export async function readFinalState(attempt: GraphAttempt): Promise<StateEvent> {
  const { mapper, saver } = attempt;
  const isDone = !mapper.isInterrupted && !saver.isInterrupted;
  const values = isDone ? mapper.rootValues() : undefined;
  if (values !== undefined && saver.head !== null) return createStateEvent(values, saver.head);
  saver.fixHead();
  return await readStoredState(attempt);
}

/**
 * Reads the state at the saver's head, which must be fixed; interrupts get the counts of consumed resume values. Throws if the
 * graph has stored none.
 */
export async function readStoredState({ job, graph, saver }: StateParts): Promise<StateEvent> {
  // Without an id, LangGraph includes the writes of finished tasks of an interrupted step.
  const snapshot = await graph.getState({ configurable: { thread_id: job.thread_id } }, { subgraphs: false });
  const isInterrupted = snapshot.tasks.some(({ interrupts = [] }) => interrupts.length > 0);
  const counts = isInterrupted ? await saver.readAnswerCounts(job.thread_id) : undefined;
  const state = toThreadState(snapshot, serializeValue, counts);
  if (!state?.checkpoint) throw new Error("The graph ended without a checkpoint");
  return { ...createStateEvent(state.values, state.checkpoint.checkpoint_id), next: state.next, tasks: state.tasks };
}

function createStateEvent(values: Json, checkpoint_id: string): StateEvent {
  return { type: "state", values, next: [], tasks: [], checkpoint: { ns: "", checkpoint_id } };
}

/**
 * Returns a copy of the event without its checkpoint if the checkpoints were only in the memory of this attempt; else
 * the same event.
 */
export function toFinalEvent({ isInMemory }: GraphAttempt, state: StateEvent): StateEvent {
  if (!isInMemory) return state;
  const { checkpoint: _checkpoint, ...withoutCheckpoint } = state;
  return withoutCheckpoint;
}
