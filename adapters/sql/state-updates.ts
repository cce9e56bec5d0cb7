/**
 * State updates: changes of a thread's state without a run. The first statement of the batch decides and marks the thread. The
 * mark is the witness for the next statements, and the last one removes it. No other batch sees a mark.
 */
import type { NewThreadState } from "../../lib/storage/mod.ts";
import { createProgressStatements } from "./checkpoints.ts";
import { replaceStateEntries } from "./metadata-index.ts";
import type { Statement } from "./query.ts";
import {
  insertStateCheckpoints,
  insertStateValues,
  unmarkThread,
  upsertStateWrites,
} from "./statements/state-updates.ts";

/** `run_count` of a new thread with a mark. */
export const MARKED_RUN_COUNT = -1;

const updateStatements = { values: insertStateValues, checkpoints: insertStateCheckpoints, writes: upsertStateWrites };

/**
 * Returns the statements that store a state and its index entries, and remove the mark of its thread. An earlier statement of
 * the batch must have marked the thread and made the state its head.
 */
export function createStateStatements(
  deployment: string,
  thread_id: string,
  state: NewThreadState,
): Statement<unknown>[] {
  const key = { deployment, thread_id };
  return [
    ...createProgressStatements(updateStatements, key, state.progress),
    unmarkThread(key),
    ...replaceStateEntries(deployment, thread_id, state.head, state.scalars),
  ];
}
