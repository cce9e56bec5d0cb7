/** Pruning: deletes threads, or all their checkpoints except the newest state. */
import type { PruneStrategy, StateStorage } from "../../lib/storage/mod.ts";
import { createRowFinder, type Database, threadLockKey } from "./database.ts";
import { RUNS_DELETED } from "./features.ts";
import { toFilterArgument } from "./filter-argument.ts";
import type { Statement } from "./query.ts";
import {
  clearParents,
  deleteCheckpoints,
  deleteEntriesOfThreads,
  deleteOfFeatures,
  deleteThreads,
  deleteValues,
  deleteWrites,
  keepClaimCountsOfThreads,
  type PruningShape,
  selectExpiredThreads,
  setPrunedAt,
} from "./statements/pruning.ts";

type Args = { deployment: string; thread_ids: string; now: number; filter: string };

/** Statements that prune; `pruned` returns the threads. */
interface Pruning {
  readonly statements: readonly Statement<unknown>[];
  readonly pruned: Statement<{ thread_id: string }>;
}

/**
 * Returns the statements that delete threads with the rows of features and index entries, and keep their claim counts; and
 * which of them returns the ids of the deleted threads.
 */
function createDeletionStatements(shape: PruningShape, args: Args): Pruning {
  const pruned = deleteThreads(shape, args);
  const ofFeatures = Object.keys(RUNS_DELETED).map((statement) => deleteOfFeatures({ ...shape, statement }, args));
  return {
    statements: [...ofFeatures, keepClaimCountsOfThreads(shape, args), pruned, deleteEntriesOfThreads(args)],
    pruned,
  };
}

/**
 * Returns the statements that reduce threads to the checkpoints, writes and values of their newest state; and which of them
 * returns the ids of the reduced threads.
 */
function createReductionStatements(shape: PruningShape, args: Args): Pruning {
  const pruned = setPrunedAt(shape, args);
  const deletions = [deleteCheckpoints(shape, args), deleteWrites(shape, args), deleteValues(shape, args)];
  return { statements: [...deletions, clearParents(shape, args), pruned], pruned };
}

const STRATEGIES = ["delete", "keep_latest"] as const;

const PRUNING_BY_STRATEGY: Readonly<Record<PruneStrategy, (shape: PruningShape, args: Args) => Pruning>> = {
  delete: createDeletionStatements,
  keep_latest: createReductionStatements,
};

const toLockKeys = (deployment: string, thread_ids: readonly string[]): string[] =>
  thread_ids.map((thread_id) => threadLockKey(deployment, thread_id));

/** Creates the storage operation that prunes threads. */
export function createPruningStorage(driver: Database): Pick<StateStorage, "pruneThreads"> {
  return {
    /**
     * Deletes or reduces visible threads that are not busy, and returns their ids. These are the named threads, all with the
     * strategy of `target`, or at most `target.max_expired` threads whose time to live is over, each with its own strategy.
     * @statements selectExpiredThreads · createDeletionStatements · createReductionStatements
     * @guards each statement repeats the condition "named, visible, not busy" (and "time to live is over"). `delete`:
     *   rows of features · claim counts · threads · labels. `keep_latest`: delete checkpoints that the newest state does not need · their
     *   writes · channel values that no checkpoint needs · clear dangling `parent_id` · set `pruned_at`, which is last
     *   because the others test it.
     */
    async pruneThreads({ deployment, filter }, target, now) {
      const expired = !("thread_ids" in target);
      const threads = expired
        ? await driver.read(selectExpiredThreads({ deployment, now, limit: target.max_expired }, filter))
        : [...new Set(target.thread_ids)].map((thread_id) => ({ thread_id, ttl_strategy: target.strategy }));
      const argument = toFilterArgument(filter);
      const shape = { expired, filtered: argument !== null };
      const selectedPrunings = STRATEGIES.flatMap((strategy) => {
        const thread_ids = toIds(threads.filter((row) => row.ttl_strategy === strategy));
        const args = { deployment, thread_ids: JSON.stringify(thread_ids), now, filter: argument ?? "" };
        return thread_ids.length > 0 ? [PRUNING_BY_STRATEGY[strategy](shape, args)] : [];
      });
      if (selectedPrunings.length === 0) return [];
      const statements = selectedPrunings.flatMap((pruning) => pruning.statements);
      const findRows = createRowFinder(
        statements,
        await driver.batch(statements, toLockKeys(deployment, toIds(threads))),
      );
      return selectedPrunings.flatMap(({ pruned }) => toIds(findRows(pruned)));
    },
  };
}

const toIds = (rows: readonly { readonly thread_id: string }[]): string[] => rows.map(({ thread_id }) => thread_id);
