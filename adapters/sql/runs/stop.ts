/** Stopping runs: by an interrupt, a rollback or a deletion, on request or by a newer run of their thread. */
import type { Scope, StopAction, StoppedRun, StopTarget } from "../../../lib/storage/mod.ts";
import { createRowFinder, type Database, type RowFinder, threadLockKey } from "../database.ts";
import { RUNS_DELETED, RUNS_ENDED } from "../features.ts";
import { toFilterArgument } from "../filter-argument.ts";
import type { Statement } from "../query.ts";
import type { CoreTables } from "../schema/tables.ts";
import {
  deleteEvents,
  deleteOfFeatures,
  deleteOrphanedThreads,
  deleteProgress,
  deleteRuns,
  endFeatureOfUnclaimed,
  endUnclaimed,
  flagRuns,
  insertEnds,
  insertEndsOfUnclaimed,
  markThreads,
  PROGRESS_TABLES,
  type RunSelection,
  type StopArguments,
  setCancelReason,
  takeClaimNumbers,
  takeClaimNumbersOfUnclaimed,
  touchThreads,
  touchThreadsOfUnclaimed,
} from "../statements/runs-stop.ts";

/** Statements that stop runs. */
export interface StopStatements {
  readonly statements: readonly Statement<unknown>[];
  /** Reads what they returned. */
  toStoppedRuns(findRows: RowFinder): StoppedRun[];
}

/** Completes the arguments for a selection of runs, which needs only some of them. */
export const toStopArguments = (
  args: Pick<StopArguments, "deployment" | "now"> & Partial<StopArguments>,
): StopArguments => ({ thread_id: "", run_id: "", run_ids: "", filter: "", ...args });

type Stored = Pick<CoreTables["runs"], "run_id" | "thread_id"> &
  Partial<Pick<CoreTables["runs"], "end_frame" | "lease_token">>;

const toStopped = (
  { run_id, thread_id, end_frame = null, lease_token = null }: Stored,
  kind: StoppedRun["kind"],
): StoppedRun => ({ kind, run_id, thread_id, end_frame, lock_token: lease_token });

/**
 * Returns the statements that end the runs of the selection which were never claimed, and flag the others for their workers;
 * and a function that reads the runs that were ended or flagged. They store the reason unless it is null.
 */
export function interruptStatements(
  selection: RunSelection,
  args: StopArguments,
  cancel_reason: string | null,
): StopStatements {
  const ended = endUnclaimed(selection, args);
  // Runs that are still pending here were claimed before.
  const flagged = flagRuns(selection, args);
  return {
    statements: [
      ...(cancel_reason === null ? [] : [setCancelReason(selection, { ...args, cancel_reason })]),
      takeClaimNumbersOfUnclaimed(selection, args),
      insertEndsOfUnclaimed(selection, args),
      touchThreadsOfUnclaimed(selection, args),
      ...Object.keys(RUNS_ENDED).map((feature) => endFeatureOfUnclaimed({ ...selection, feature }, args)),
      ended,
      flagged,
    ],
    toStoppedRuns: (findRows) => [
      ...findRows(ended).map((run) => toStopped(run, "ended")),
      ...findRows(flagged).map((run) => toStopped(run, "flagged")),
    ],
  };
}

/** Returns the statements that delete the checkpoints, writes and values of runs. */
export const deleteRunProgress = (selection: RunSelection, args: StopArguments): Statement<unknown>[] =>
  PROGRESS_TABLES.map((table) => deleteProgress({ ...selection, table }, args));

/** Returns the statements that delete the events of runs, and store an end event for each, which ends its streams. */
export const deleteRunEvents = (selection: RunSelection, args: StopArguments): Statement<unknown>[] => [
  deleteEvents(selection, args),
  takeClaimNumbers(selection, args),
  insertEnds(selection, args),
];

/** Returns the statements of features that go before the deletion of runs. */
export const deleteFeatureRows = (selection: RunSelection, args: StopArguments): Statement<unknown>[] =>
  Object.keys(RUNS_DELETED).map((statement) => deleteOfFeatures({ ...selection, statement }, args));

/**
 * Returns the statements that delete runs and everything that they have stored, and store an end event for each; and a function
 * that reads the deleted runs. Their threads stay, locked as they were.
 */
export function deletionStatements(selection: RunSelection, args: StopArguments): StopStatements {
  const deleted = deleteRuns(selection, args);
  return {
    statements: [
      ...deleteRunEvents(selection, args),
      ...deleteRunProgress(selection, args),
      ...deleteFeatureRows(selection, args),
      deleted,
    ],
    toStoppedRuns: (findRows) => findRows(deleted).map((run) => toStopped(run, "deleted")),
  };
}

/**
 * Returns the statements that delete runs, update their threads, and delete stateless threads without runs; and a function that
 * reads the deleted runs.
 */
function rollbackStatements(selection: RunSelection, args: StopArguments): StopStatements {
  const { statements, toStoppedRuns } = deletionStatements(selection, args);
  return {
    statements: [
      markThreads(selection, args),
      touchThreads(selection, args),
      ...statements,
      deleteOrphanedThreads(args),
    ],
    toStoppedRuns,
  };
}

/** The arguments of `Storage.stopRuns`. */
interface StopRequest {
  readonly target: StopTarget;
  readonly action: StopAction;
  readonly now: number;
  readonly reason?: string | null | undefined;
}

/**
 * Stops the named runs, with `thread_id` only those of this thread: `interrupt` ends those that were never claimed and flags
 * the others, `rollback` deletes them. Returns the stopped ones; runs that have ended are omitted. See `Storage.stopRuns`.
 * @statements interruptStatements · rollbackStatements
 * @guards `interrupt`: keep the reason · end pending runs that were never claimed · flag the others. `rollback`: mark
 *   threads that may keep a slot (`last_run = null`) · touch them · delete checkpoints, writes, channel values, tokens,
 *   runs · delete stateless threads left behind.
 */
export async function stopRuns(
  driver: Database,
  { deployment, filter }: Scope,
  { target: { thread_id, run_ids }, action, now, reason = null }: StopRequest,
): Promise<StoppedRun[]> {
  const argument = toFilterArgument(filter);
  const selection: RunSelection = {
    runs: thread_id === undefined ? "named" : "named_of_thread",
    filtered: argument !== null,
  };
  const args = toStopArguments({
    ...{ deployment, now, thread_id: thread_id ?? "", run_ids: JSON.stringify(run_ids), filter: argument ?? "" },
  });
  const { statements, toStoppedRuns } =
    action === "interrupt" ? interruptStatements(selection, args, reason) : rollbackStatements(selection, args);
  const lock_keys = thread_id === undefined ? undefined : [threadLockKey(deployment, thread_id)];
  return toStoppedRuns(createRowFinder(statements, await driver.batch(statements, lock_keys)));
}
