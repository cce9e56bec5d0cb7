/** Pruning: deletes threads, or all their checkpoints except the newest state. */
import type { PruneStrategy, StateStorage } from "../../lib/storage/mod.ts";
import { type Database, ofThread, rowsIn } from "./database.ts";
import { DELETED } from "./features.ts";
import { toFilterArgument } from "./filter-argument.ts";
import type { Statement } from "./query.ts";
import {
  clearParents,
  deleteCheckpoints,
  deleteLabelsOfThreads,
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

function toDeletion(shape: PruningShape, args: Args): Pruning {
  const pruned = deleteThreads(shape, args);
  const ofFeatures = Object.keys(DELETED).map((statement) => deleteOfFeatures({ ...shape, statement }, args));
  return {
    statements: [...ofFeatures, keepClaimCountsOfThreads(shape, args), pruned, deleteLabelsOfThreads(args)],
    pruned,
  };
}

function toReduction(shape: PruningShape, args: Args): Pruning {
  const pruned = setPrunedAt(shape, args);
  const deletions = [deleteCheckpoints(shape, args), deleteWrites(shape, args), deleteValues(shape, args)];
  return { statements: [...deletions, clearParents(shape, args), pruned], pruned };
}

const STRATEGIES = ["delete", "keep_latest"] as const;

const prunings: Readonly<Record<PruneStrategy, (shape: PruningShape, args: Args) => Pruning>> = {
  delete: toDeletion,
  keep_latest: toReduction,
};

const locksOf = (deployment: string, thread_ids: readonly string[]): string[] =>
  thread_ids.map((thread_id) => ofThread(deployment, thread_id));

/** The verb that prunes threads. */
export function pruningVerbs(driver: Database): Pick<StateStorage, "pruneThreads"> {
  return {
    /**
     * @statements selectExpiredThreads · toDeletion · toReduction
     * @guards each statement repeats the condition "named, visible, not busy" (and "time to live is over"). `delete`:
     *   rows of features · claim counts · threads · labels. `keep_latest`: delete checkpoints that the newest state does not need · their
     *   writes · channel values that no checkpoint needs · clear dangling `parent_id` · set `pruned_at`, which is last
     *   because the others test it.
     */
    async pruneThreads({ deployment, filter }, target, now) {
      const expired = !("thread_ids" in target);
      const found = expired
        ? await driver.read(selectExpiredThreads({ deployment, now, limit: target.expired }, filter))
        : [...new Set(target.thread_ids)].map((thread_id) => ({ thread_id, ttl_strategy: target.strategy }));
      const argument = toFilterArgument(filter);
      const shape = { expired, filtered: argument !== null };
      const chosen = STRATEGIES.flatMap((strategy) => {
        const thread_ids = idsOf(found.filter((row) => row.ttl_strategy === strategy));
        const args = { deployment, thread_ids: JSON.stringify(thread_ids), now, filter: argument ?? "" };
        return thread_ids.length > 0 ? [prunings[strategy](shape, args)] : [];
      });
      if (chosen.length === 0) return [];
      const statements = chosen.flatMap((pruning) => pruning.statements);
      const rowsOf = rowsIn(statements, await driver.batch(statements, locksOf(deployment, idsOf(found))));
      return chosen.flatMap(({ pruned }) => idsOf(rowsOf(pruned)));
    },
  };
}

const idsOf = (rows: readonly { readonly thread_id: string }[]): string[] => rows.map(({ thread_id }) => thread_id);
