/**
 * Statements that stop or delete runs. Each is written once for every selection of runs: those that a request names, or those that a
 * new run of their thread evicts.
 */
import { type OperationNodeSource, type RawBuilder, sql } from "kysely";
import { featureEndFrames, RUNS_DELETED, RUNS_ENDED } from "../features.ts";
import { isThreadPermitted } from "../filter.ts";
import { jsonStrings } from "../functions.ts";
import { type ArgumentsFor, bigint, type Operand, type Operands, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, query, shapedQuery } from "../query.ts";
import type { CoreTables } from "../schema/tables.ts";
import { deleteEventsWhere, insertEndsWhere, takeClaimNumbersWhere } from "./runs-events.ts";

const db = createBuilder<CoreTables>();

// -------------------------------------------------------------- which runs

/** Runs of one deployment. */
export interface RunSelection {
  /**
   * - `evicted`: the active runs of the thread that the batch has taken for the run `run_id`
   * - `named`: the active runs among `run_ids`, a JSON list
   * - `named_of_thread`: those among them that are runs of the thread
   * - `pending`: the run `run_id` of the thread while it is pending
   * - `resting`: the run `run_id` of the thread unless it is running
   */
  readonly runs: "evicted" | "named" | "named_of_thread" | "pending" | "resting";
  /** The filter permits their threads. */
  readonly filtered: boolean;
}

/** A selection needs only some of the arguments; the others may be empty. */
const selectionTypes = { deployment: text, thread_id: text, run_id: text, run_ids: text, filter: text };
const stopTypes = { ...selectionTypes, now: bigint };

type SelectionParameters = ParametersFor<typeof selectionTypes>;
type StopParameters = ParametersFor<typeof stopTypes>;

/** The arguments of the statements for a selection. */
export type StopArguments = ArgumentsFor<typeof stopTypes>;

/** The statuses as literals: each has an index of its own. */
const STATUSES = { pending: sql.lit("pending"), running: sql.lit("running") } as const;

/**
 * Selects the ids of the selected runs with this status: the named ones, with `named_of_thread` only those of the thread.
 * `evicted` selects all runs of a thread whose newest run is the one that this batch is about to insert.
 */
function selectActive(
  p: SelectionParameters,
  { runs, filtered }: RunSelection,
  status: keyof typeof STATUSES,
): RawBuilder<string> {
  if (runs === "evicted") {
    return sql<string>`select e.run_id from runs e where e.deployment = ${p.deployment} and e.thread_id = ${p.thread_id}
      and e.status = ${STATUSES[status]} and exists (select 1 from threads w where w.deployment = ${p.deployment}
        and w.thread_id = ${p.thread_id} and w.last_run = ${p.run_id})
      and not exists (select 1 from runs where run_id = ${p.run_id})`;
  }
  const isOfThread = runs === "named_of_thread" ? sql`n.thread_id = ${p.thread_id}` : sql`true`;
  return sql<string>`select n.run_id from ${jsonStrings(p.run_ids)} j cross join runs n where n.run_id = j.value
      and n.deployment = ${p.deployment} and ${isOfThread} and n.status = ${STATUSES[status]}
      and ${isThreadPermitted("n", filtered ? p.filter : null)}`;
}

/** The run `run_id` of the thread. */
export const isRun = (
  p: Operands<{ deployment: string; thread_id: string; run_id: string }>,
  filter: Operand<string> | null,
): RawBuilder<boolean> =>
  sql<boolean>`deployment = ${p.deployment} and thread_id = ${p.thread_id} and run_id = ${p.run_id}
    and ${isThreadPermitted("runs", filter)}`;

/**
 * Selects the ids of the runs: one named run if it is pending, or if it is not running (`resting`), else the active runs of the
 * selection.
 */
function selectIds(p: SelectionParameters, selection: RunSelection): RawBuilder<string> {
  const { runs, filtered } = selection;
  if (runs === "pending" || runs === "resting") {
    const hasStatus = runs === "pending" ? sql`status = 'pending'` : sql`status <> 'running'`;
    return sql<string>`select run_id from runs where ${isRun(p, filtered ? p.filter : null)} and ${hasStatus}`;
  }
  return sql<string>`${selectActive(p, selection, "pending")} union all ${selectActive(p, selection, "running")}`;
}

/** Runs that were never claimed. Only an attempt can end what an earlier one has begun: its state, its messages and its subgraphs. */
const isUnclaimed = (p: SelectionParameters, selection: RunSelection): RawBuilder<boolean> =>
  sql<boolean>`run_id in (${selectActive(p, selection, "pending")}) and claims = 0`;

const selectUnclaimed = (p: SelectionParameters, selection: RunSelection): RawBuilder<string> =>
  sql<string>`select run_id from runs where ${isUnclaimed(p, selection)}`;

const OF_THREAD: RunSelection = { runs: "named_of_thread", filtered: false };

/** Stand for all selections in the snapshot. */
const ACTIVE: readonly RunSelection[] = [
  { runs: "evicted", filtered: false },
  { runs: "named", filtered: true },
  OF_THREAD,
];
const SELECTIONS: readonly RunSelection[] = [
  ...ACTIVE,
  { runs: "pending", filtered: false },
  { runs: "resting", filtered: true },
];

const stopQuery = <Query extends OperationNodeSource>(
  build: (p: StopParameters, selection: RunSelection) => Query,
  shapes: readonly RunSelection[] = ACTIVE,
) => shapedQuery((_: RunSelection) => stopTypes, build, { stable: true, shapes });

// -------------------------------------------------------------- interrupting

/** Stores why runs are stopped. A run whose stop was requested before keeps the reason of that request. */
export const setCancelReason = shapedQuery(
  (_: RunSelection) => ({ ...selectionTypes, cancel_reason: text }),
  (p, selection) =>
    sql<never>`update runs set cancel_reason = ${p.cancel_reason} where run_id in (${selectIds(p, selection)})
      and cancelled = 0`,
  { stable: true, shapes: ACTIVE },
);

/** Takes a claim number for the end of each run that was never claimed. */
export const takeClaimNumbersOfUnclaimed = stopQuery((p, selection) =>
  takeClaimNumbersWhere(p.deployment, selectUnclaimed(p, selection)),
);

/** Inserts the end of each run that was never claimed into the events of its thread. */
export const insertEndsOfUnclaimed = stopQuery((p, selection) => insertEndsWhere(p, selectUnclaimed(p, selection)));

/** Sets when the threads of runs that were never claimed have changed. */
export const touchThreadsOfUnclaimed = stopQuery(
  (p, selection) =>
    sql<never>`update threads set updated_at = ${p.now} where deployment = ${p.deployment}
      and thread_id in (select thread_id from runs where ${isUnclaimed(p, selection)})`,
);

/** Stores what a feature stores of ending runs, for those that were never claimed. `feature` is a key of `ENDED`. */
export const endFeatureOfUnclaimed = shapedQuery(
  (_: RunSelection & { readonly feature: string }) => stopTypes,
  (p, { feature, ...selection }) => {
    const end = {
      ...{ deployment: p.deployment, now: p.now, status: sql.lit("interrupted"), error: sql<null>`null` },
      ...{ values: sql<null>`null`, values_omitted: sql.lit(0) },
    };
    return findStatement(RUNS_ENDED, feature)(end, isUnclaimed(p, selection));
  },
  {
    stable: true,
    shapes: Object.keys(RUNS_ENDED).map((feature) => ({ ...OF_THREAD, feature })),
  },
);

/** Ends the runs that were never claimed, and returns them. */
export const endUnclaimed = stopQuery(
  (p, selection) =>
    sql<Pick<CoreTables["runs"], "run_id" | "thread_id" | "end_frame">>`
      update runs set status = 'interrupted', ended_at = ${p.now}, updated_at = ${p.now},
        end_frame = cast(1 as bigint) + ${featureEndFrames}
      where ${isUnclaimed(p, selection)} returning run_id, thread_id, end_frame`,
);

/** Requests that workers end the runs, and returns them. A suspended run becomes due: a worker claims it once more to end it. */
export const flagRuns = stopQuery(
  (p, selection) =>
    sql<Pick<CoreTables["runs"], "run_id" | "thread_id" | "lease_token">>`
      update runs set cancelled = 1,
        due_at = case when waiting_for is not null and due_at > updated_at then ${p.now} else due_at end,
        updated_at = case when waiting_for is not null and due_at > updated_at then ${p.now} else updated_at end
      where run_id in (${selectIds(p, selection)}) returning run_id, thread_id, lease_token`,
);

// ------------------------------------------------------------------ deleting

/** Marks the threads of runs that will be deleted, if they may leave a slot or a hidden thread behind. */
export const markThreads = stopQuery(
  (p, selection) =>
    sql<never>`update threads set last_run = null where deployment = ${p.deployment}
      and thread_id in (select r.thread_id from runs r where r.run_id in (${selectIds(p, selection)}))
      and (hidden = 1 or slot_token is not null)`,
  SELECTIONS,
);

/** Sets when the threads of runs have changed: their states do not, but they were active, so their times to live start again. */
export const touchThreads = stopQuery(
  (p, selection) =>
    sql<never>`update threads set updated_at = ${p.now} where deployment = ${p.deployment}
      and thread_id in (select r.thread_id from runs r where r.run_id in (${selectIds(p, selection)}))`,
);

/** Deletes the events that runs have stored. */
export const deleteEvents = stopQuery(
  (p, selection) => deleteEventsWhere(p.deployment, selectIds(p, selection)),
  SELECTIONS,
);

/** Takes a claim number of the thread of each run, for its end. */
export const takeClaimNumbers = stopQuery(
  (p, selection) => takeClaimNumbersWhere(p.deployment, selectIds(p, selection)),
  SELECTIONS,
);

/** Inserts the end of each run into the events of its thread. */
export const insertEnds = stopQuery((p, selection) => insertEndsWhere(p, selectIds(p, selection)), SELECTIONS);

/** The tables with the progress of runs. */
export const PROGRESS_TABLES = ["checkpoints", "checkpoint_writes", "channel_values"] as const;

/** Deletes what runs have stored in one of these tables. */
export const deleteProgress = shapedQuery(
  (_: RunSelection & { readonly table: (typeof PROGRESS_TABLES)[number] }) => selectionTypes,
  (p, { table, ...selection }) => {
    const claimedRuns = sql`from runs where run_id in (${selectIds(p, selection)}) and claims > 0`;
    return sql<never>`delete from ${sql.table(table)} where deployment = ${p.deployment}
      and thread_id in (select thread_id ${claimedRuns}) and run_id in (select run_id ${claimedRuns})`;
  },
  { stable: true, shapes: PROGRESS_TABLES.map((table) => ({ ...OF_THREAD, table })) },
);

/** Deletes what features have stored of runs that will be deleted. `statement` is a key of `DELETED`. */
export const deleteOfFeatures = shapedQuery(
  (_: RunSelection & { readonly statement: string }) => selectionTypes,
  (p, { statement, ...selection }) => findStatement(RUNS_DELETED, statement)(selectIds(p, selection)),
  {
    stable: true,
    shapes: Object.keys(RUNS_DELETED).map((statement) => ({ ...OF_THREAD, statement })),
  },
);

/** Deletes runs, and returns them. The slots of their threads stay taken. */
export const deleteRuns = stopQuery(
  (p, selection) =>
    sql<Pick<CoreTables["runs"], "run_id" | "thread_id" | "lease_token">>`delete from runs
      where run_id in (${selectIds(p, selection)}) returning run_id, thread_id, lease_token`,
  SELECTIONS,
);

/** Returns the statement with this name. Throws a TypeError if no feature has it. */
export function findStatement<Build>(statements: Readonly<Record<string, Build>>, name: string): Build {
  const build = statements[name];
  if (!build) throw new TypeError(`No feature has a statement ${name}`);
  return build;
}

// ---------------------------------------------------------- orphaned threads

/**
 * Returns the condition that a thread of `markThreads` can be deleted: it is hidden and has neither a run nor a lock that is
 * still valid.
 */
const isOrphaned = (p: Operands<{ deployment: string; now: number }>): RawBuilder<boolean> =>
  sql<boolean>`deployment = ${p.deployment} and last_run is null and run_count > 0 and hidden = 1
    and (slot_token is null or slot_until <= ${p.now})
    and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id)`;

const orphanTypes = { deployment: text, now: bigint };

/** Selects an orphaned thread, if there is one. */
export const selectOrphanedThread = query(orphanTypes, (p) =>
  db.selectFrom("threads").select("thread_id").where(isOrphaned(p)).limit(sql.lit(1)),
);

/** Deletes orphaned threads, and returns them. */
export const deleteOrphanedThreads = query(orphanTypes, (p) =>
  db.deleteFrom("threads").where(isOrphaned(p)).returning("thread_id"),
);
