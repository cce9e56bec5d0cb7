/** Statements of state updates, which change a thread's state without a run. */
import { type RawBuilder, sql } from "kysely";
import type { ThreadKey } from "../channel-values.ts";
import { columns, type Operands, type ParametersFor } from "../parameters.ts";
import { createBuilder, query, rowsQuery } from "../query.ts";
import { agentTables } from "../schema/agents.ts";
import type { CoreTables } from "../schema/tables.ts";
import {
  checkpointTypes,
  type ProgressAuthor,
  upsertCheckpoints,
  upsertValues,
  upsertWrites,
  valueTypes,
  writeTypes,
} from "./checkpoints.ts";

const db = createBuilder<CoreTables>();

const stable = { stable: true };

const threadTypes = columns(agentTables.threads, ["deployment", "thread_id"]);

/** Returns the `run_count` of a marked thread that had `count`. An update counts like a run and gets a `seq` among the runs. */
export const toMarkedCount = (count: RawBuilder<number>): RawBuilder<number> => sql<number>`-1 - ${count}`;

/** Returns the condition that the thread is marked. */
export const isMarked = (p: Operands<ThreadKey>): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from threads where deployment = ${p.deployment}
    and thread_id = ${p.thread_id} and run_count < 0)`;

/**
 * Returns the author of what a state update stores. It has no run, and its statements have an effect only while the thread is
 * marked.
 */
const toUpdateAuthor = (p: ParametersFor<typeof threadTypes>): ProgressAuthor => ({
  deployment: p.deployment,
  thread_id: p.thread_id,
  isAllowed: isMarked(p),
  run_id: null,
  run_seq: sql<number>`(select -run_count from threads where deployment = ${p.deployment} and thread_id = ${p.thread_id})`,
});

/** Inserts the checkpoints of a marked thread. */
export const insertStateCheckpoints = rowsQuery(
  threadTypes,
  checkpointTypes,
  (p, rows) => upsertCheckpoints(toUpdateAuthor(p), rows),
  stable,
);

/** Inserts the values of channels of a marked thread. */
export const insertStateValues = rowsQuery(
  threadTypes,
  valueTypes,
  (p, rows) => upsertValues(toUpdateAuthor(p), rows),
  stable,
);

/** Inserts the writes of a state update of a marked thread, or replaces those of an older update. */
export const upsertStateWrites = rowsQuery(
  threadTypes,
  writeTypes,
  (p, rows) => upsertWrites(toUpdateAuthor(p), rows),
  stable,
);

/** Removes the mark of a thread. */
export const unmarkThread = query(threadTypes, (p) =>
  db
    .updateTable("threads")
    .set({ run_count: sql`-run_count` })
    .where("deployment", "=", p.deployment)
    .where("thread_id", "=", p.thread_id)
    .where("run_count", "<", sql.lit(0)),
);
