import type { SweepTerms } from "../../../lib/storage/mod.ts";
import { sweepCrons } from "../crons.ts";
import { each, holds, rowsOf, scalar } from "../dialect.ts";
import type { SqlRow } from "../driver.ts";
import { SWEPT } from "../features.ts";
import { type Database, prepared, type Statement } from "../statement.ts";
import { deleteExpiredItems } from "../statements/items.ts";
import { type RawBuilder, sql } from "../template.ts";
import { dropOldEvents, hasOldEvents } from "./events.ts";
import { dropLeftThreads, leftBehind } from "./stop.ts";

/** How many rows of frames go in one batch at the most. */
const CHUNKS = 1000;

type Old = { deployment: string; before: number; limit: number };

/** Reads the oldest rows that match a condition, by a column with a time. */
const oldest = (
  columns: RawBuilder<unknown>,
  condition: RawBuilder<unknown>,
  time: string,
): ((old: Old) => Statement) =>
  prepared<Old>(
    (p) =>
      sql`select ${columns} where deployment = ${scalar(p.deployment)} and ${condition}
      and ${sql.ref(time)} < ${scalar(p.before)} order by ${sql.ref(time)} limit ${scalar(p.limit)}`,
  );

const ended = sql`ended_at is not null`;
const oldFrames = oldest(sql`run_id from runs`, sql`framed = 1 and ${ended}`, "ended_at");
// Where several processes share the runs, frames are stored for readers elsewhere too: those go with their stateless run.
const passed = oldest(
  sql`run_id from runs`,
  sql`temporary = 1 and framed = 1 and ${ended} and not ${holds(sql`kwargs`, '"resumable":true')}`,
  "ended_at",
);
const oldStateless = oldest(
  sql`run_id, thread_id from runs`,
  sql`temporary = 1 and framed = 0 and keyed = 0 and ${ended}`,
  "ended_at",
);
const oldKeys = oldest(sql`route, key, run_id from idempotency_keys`, sql`true`, "created_at");

const ofFeatures = SWEPT.map(({ name, table, key, time, condition = sql`true` }) => ({
  name,
  key,
  old: oldest(sql`${sql.ref(key)} from ${sql.table(table)}`, condition, time),
  remove: prepared<{ ids: string }>(
    (p) =>
      sql`delete from ${sql.table(table)} where ${sql.ref(key)} in ${each(p.ids)} and ${condition}
      returning ${sql.ref(key)}`,
  ),
}));

const leftThreads = prepared<{ deployment: string; now: number }>(
  (p) => sql`select thread_id from ${leftBehind(p)} limit 1`,
);

// Ids of runs alone: with the deployment beside them, SQLite would look through all of its runs.
type Runs = { run_ids: string };

const deleteFrames = prepared<Runs & { limit: number }>(
  (p) =>
    sql`delete from run_frames where (run_id, first_id) in (select run_id, first_id from run_frames
    where run_id in ${each(p.run_ids)} limit ${scalar(p.limit)}) returning first_id`,
);

const unframe = prepared<Runs>(
  (p) =>
    sql`update runs set framed = 0 where run_id in ${each(p.run_ids)}
    and not exists (select 1 from run_frames f where f.run_id = runs.run_id) returning run_id`,
);

const deleteKeys = prepared<{ deployment: string; keys: string }>(
  (p) =>
    sql`delete from idempotency_keys where deployment = ${p.deployment} and (route, key) in
    ${rowsOf(p.keys, { route: "text", key: "text" })} returning key`,
);

const unkey = prepared<Runs>((p) => sql`update runs set keyed = 0 where run_id in ${each(p.run_ids)}`);

const deleteRuns = prepared<Runs>((p) => sql`delete from runs where run_id in ${each(p.run_ids)} returning run_id`);

const deleteThreads = prepared<{ deployment: string; thread_ids: string }>(
  (p) =>
    sql`delete from threads where deployment = ${p.deployment} and thread_id in ${each(p.thread_ids)} and hidden = 1
    and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id)`,
);

/**
 * See `Storage.sweep`.
 *
 * @statements deleteFrames · unframe · unkey · deleteKeys · deleteRuns · deleteThreads · ofFeatures · sweepCrons ·
 *   deleteExpiredItems · dropOldEvents · dropLeftThreads
 * @guards Reads candidates, then one batch: what was old stays old. Each kind only if its time is given.
 */
export async function sweep(driver: Database, deployment: string, terms: SweepTerms): Promise<number> {
  const { stateless_before, frames_before, keys_before, firings_before, items_expired_by, limit, now } = terms;
  const list = (rows: readonly unknown[]): string => JSON.stringify(rows);
  const read = async (from: (old: Old) => Statement, before: number | undefined): Promise<SqlRow[]> =>
    before === undefined ? [] : await driver.read(from({ deployment, before, limit }));
  // Runs that have ended stay so, and what is old stays old: what was read still holds in the batch.
  const featureRows = ofFeatures.map(async ({ name, key, old, remove }): Promise<Statement[]> => {
    const rows = await read(old, terms.features?.[name]);
    return rows.length > 0 ? [remove({ ids: list(rows.map((row) => row[key])) })] : [];
  });
  const [old, stateless, temporary, keys, left, removals, events, crons] = await Promise.all([
    read(oldFrames, frames_before),
    read(passed, stateless_before),
    read(oldStateless, stateless_before),
    read(oldKeys, keys_before),
    stateless_before === undefined ? [] : driver.read(leftThreads({ deployment, now })),
    Promise.all(featureRows),
    read(hasOldEvents, frames_before),
    firings_before === undefined ? [] : sweepCrons(driver, { deployment, before: firings_before, limit }),
  ]);
  const statements: Statement<unknown>[] = [];
  if (old.length + stateless.length > 0) {
    const run_ids = list([...new Set([...old, ...stateless].map((row) => row.run_id))]);
    statements.push(deleteFrames({ run_ids, limit: CHUNKS }), unframe({ run_ids }));
  }
  if (keys.length > 0) {
    statements.push(
      unkey({ run_ids: list(keys.map((row) => row.run_id)) }),
      deleteKeys({ deployment, keys: list(keys.map((row) => [row.route, row.key])) }),
    );
  }
  if (temporary.length > 0) {
    statements.push(
      deleteRuns({ run_ids: list(temporary.map((row) => row.run_id)) }),
      deleteThreads({ deployment, thread_ids: list(temporary.map((row) => row.thread_id)) }),
    );
  }
  statements.push(...removals.flat(), ...crons);
  if (items_expired_by !== undefined) statements.push(deleteExpiredItems({ deployment, now: items_expired_by, limit }));
  if (events.length > 0) statements.push(dropOldEvents({ deployment, before: frames_before as number, limit: CHUNKS }));
  if (left.length > 0) statements.push(dropLeftThreads({ deployment, now }));
  if (statements.length === 0) return 0;
  // Crons and items may be made again with the same keys.
  const lock_keys = firings_before === undefined && items_expired_by === undefined ? [] : undefined;
  return (await driver.batch(statements, lock_keys)).reduce((sum, rows) => sum + rows.length, 0);
}
