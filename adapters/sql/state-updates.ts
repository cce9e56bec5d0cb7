/**
 * State updates: changes of a thread's state without a run. The first statement of the batch decides and marks the thread. The
 * mark is the witness for the next statements, and the last one removes it. No other batch sees a mark.
 */
import type { NewState } from "../../lib/storage/mod.ts";
import { storing, type ThreadKey } from "./checkpoints.ts";
import { scalar } from "./dialect.ts";
import { valueLabels } from "./labels.ts";
import { prepared, type Statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

/** `run_count` of a new thread with a mark. */
export const MARKED = -1;

/** `run_count` of a marked thread that had `count`. An update counts like a run and gets a `seq` among the runs. */
export const marked = (count: RawBuilder<number>): RawBuilder<number> => sql<number>`-1 - ${count}`;

/** True while the thread is marked. */
export const isMarked = (p: ThreadKey): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from threads where deployment = ${scalar(p.deployment)}
    and thread_id = ${scalar(p.thread_id)} and run_count < 0)`;

const storeState = storing<ThreadKey>({
  allowed: isMarked,
  run_seq: (p) => sql`(select -run_count from threads where deployment = ${scalar(p.deployment)}
    and thread_id = ${scalar(p.thread_id)})`,
});

/** Removes the mark. */
export const unmark: (key: ThreadKey) => Statement = prepared(
  (p) =>
    sql`update threads set run_count = -run_count
    where deployment = ${p.deployment} and thread_id = ${p.thread_id} and run_count < 0`,
);

/** Stores the state that an earlier statement made the head of a marked thread, and removes the mark. */
export function putState(deployment: string, thread_id: string, state: NewState): Statement[] {
  const key = { deployment, thread_id };
  return [
    ...storeState(key, state.progress),
    unmark(key),
    ...valueLabels(deployment, thread_id, state.head, state.scalars),
  ];
}
