/** Retention of one deployment. */
import type { RetentionLimits } from "../../../lib/storage/mod.ts";
import { sweepCrons } from "../crons.ts";
import type { Database } from "../database.ts";
import { RETENTION_TABLES } from "../features.ts";
import type { Statement } from "../query.ts";
import { deleteExpiredItems } from "../statements/items.ts";
import { deleteOldEvents, selectOldEvents } from "../statements/runs-events.ts";
import {
  clearHasFrames,
  clearHasIdempotencyKey,
  deleteFrames,
  deleteHiddenThreads,
  deleteKeys,
  deleteOldOfFeature,
  deleteOldRuns,
  selectFramedRuns,
  selectOldKeys,
  selectOldOfFeature,
  selectStatelessRuns,
  selectUnresumableRuns,
} from "../statements/runs-retention.ts";
import { deleteOrphanedThreads, selectOrphanedThread } from "../statements/runs-stop.ts";

/** The maximum number of rows of frames or events that one batch deletes. */
const MAX_CHUNKS = 1000;

type Statements = Statement<unknown>[];
type OldRows = { deployment: string; before: number; limit: number };

/**
 * Reads which runs have old frames, and which ended stateless runs have frames beyond their time, and returns the statements
 * that delete these frames; none if there are none. Does not delete itself.
 */
async function sweepFrames(driver: Database, deployment: string, terms: RetentionLimits): Promise<Statements> {
  const { frames_before, stateless_before, limit } = terms;
  const read = async (select: (old: OldRows) => Statement<{ run_id: string }>, before: number | undefined) =>
    before === undefined ? [] : await driver.read(select({ deployment, before, limit }));
  const [framed, expiredStateless] = await Promise.all([
    read(selectFramedRuns, frames_before),
    read(selectUnresumableRuns, stateless_before),
  ]);
  if (framed.length + expiredStateless.length === 0) return [];
  const run_ids = JSON.stringify([...new Set([...framed, ...expiredStateless].map(({ run_id }) => run_id))]);
  return [deleteFrames({ run_ids, limit: MAX_CHUNKS }), clearHasFrames({ run_ids })];
}

/** Reads old idempotency keys, and returns the statements that delete them; none if there are none. Does not delete itself. */
async function sweepKeys(driver: Database, old: OldRows): Promise<Statements> {
  const keys = await driver.read(selectOldKeys(old));
  if (keys.length === 0) return [];
  return [
    clearHasIdempotencyKey({ run_ids: JSON.stringify(keys.map(({ run_id }) => run_id)) }),
    deleteKeys({ deployment: old.deployment, keys: JSON.stringify(keys.map(({ route, key }) => [route, key])) }),
  ];
}

/**
 * Reads old stateless runs, and returns the statements that delete them with their threads; none if there are none. Does not
 * delete itself.
 */
async function sweepStateless(driver: Database, old: OldRows): Promise<Statements> {
  const runs = await driver.read(selectStatelessRuns(old));
  if (runs.length === 0) return [];
  return [
    deleteOldRuns({ run_ids: JSON.stringify(runs.map(({ run_id }) => run_id)) }),
    deleteHiddenThreads({
      deployment: old.deployment,
      thread_ids: JSON.stringify(runs.map(({ thread_id }) => thread_id)),
    }),
  ];
}

/** Reads old rows of a feature, and returns the statement that deletes them; none if there are none. Does not delete itself. */
async function sweepFeature(driver: Database, feature: string, old: OldRows): Promise<Statements> {
  const rows = await driver.read(selectOldOfFeature({ feature }, old));
  return rows.length === 0
    ? []
    : [deleteOldOfFeature({ feature }, { keys: JSON.stringify(rows.map(({ key }) => key)) })];
}

/** Reads if there are old events, and returns the statement that deletes some of them; none if there are no such events. */
async function sweepEvents(driver: Database, { deployment, before }: OldRows): Promise<Statements> {
  const rows = await driver.read(selectOldEvents({ deployment, before }));
  return rows.length === 0 ? [] : [deleteOldEvents({ deployment, before, limit: MAX_CHUNKS })];
}

/**
 * Reads if there is a stateless thread without runs, and returns the statement that deletes all such threads; none if there is
 * none.
 */
async function sweepThreads(driver: Database, orphans: { deployment: string; now: number }): Promise<Statements> {
  const threads = await driver.read(selectOrphanedThread(orphans));
  return threads.length === 0 ? [] : [deleteOrphanedThreads(orphans)];
}

/**
 * Deletes what is older than the given limits, at most `limit` rows of each kind; a kind without a limit stays. Returns the
 * number of rows that the statements deleted or changed; 0 when nothing is left. See `Storage.deleteExpired`.
 * @statements sweepFrames · sweepKeys · sweepStateless · sweepFeature · sweepCrons · deleteExpiredItems · sweepEvents ·
 *   sweepThreads
 * @guards Reads candidates, then one batch: runs that have ended stay so, and what is old stays old. Each kind only if its
 *   time is given.
 */
export async function deleteExpired(driver: Database, deployment: string, terms: RetentionLimits): Promise<number> {
  const { stateless_before, frames_before, keys_before, firings_before, items_expired_by, limit, now } = terms;
  const ifLimited = (before: number | undefined, read: (old: OldRows) => Promise<Statements>): Promise<Statements> =>
    before === undefined ? Promise.resolve([]) : read({ deployment, before, limit });
  const lists = await Promise.all([
    sweepFrames(driver, deployment, terms),
    ifLimited(keys_before, (old) => sweepKeys(driver, old)),
    ifLimited(stateless_before, (old) => sweepStateless(driver, old)),
    ...RETENTION_TABLES.map(({ name }) => ifLimited(terms.features?.[name], (old) => sweepFeature(driver, name, old))),
    ifLimited(firings_before, (old) => sweepCrons(driver, old)),
    items_expired_by === undefined ? [] : [deleteExpiredItems({ deployment, now: items_expired_by, limit })],
    ifLimited(frames_before, (old) => sweepEvents(driver, old)),
    ifLimited(stateless_before, () => sweepThreads(driver, { deployment, now })),
  ]);
  const statements: Statements = lists.flat();
  if (statements.length === 0) return 0;
  // Crons and items may be made again with the same keys.
  const lock_keys = firings_before === undefined && items_expired_by === undefined ? [] : undefined;
  return (await driver.batch(statements, lock_keys)).reduce((sum, rows) => sum + rows.length, 0);
}
