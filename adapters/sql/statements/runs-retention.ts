/** Statements of retention: first reads of what is old, then deletions of what was read. Lists of ids are JSON. */
import { type RawBuilder, sql } from "kysely";
import { RETENTION_TABLES } from "../features.ts";
import { containsText, jsonRows, jsonStrings } from "../functions.ts";
import { bigint, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, query, shapedQuery } from "../query.ts";
import type { CoreTables } from "../schema/tables.ts";

const db = createBuilder<CoreTables>();

const stable = { stable: true };

// -------------------------------------------------------------------- reading

const oldTypes = { deployment: text, before: bigint, limit: bigint };

/** Selects at most `limit` runs that ended before `before` and meet the condition, the oldest end first. */
const selectOldRuns = (p: ParametersFor<typeof oldTypes>, condition: RawBuilder<boolean>) =>
  db
    .selectFrom("runs")
    .select(["run_id", "thread_id"])
    .where("deployment", "=", p.deployment)
    .where(condition)
    .where("ended_at", "is not", null)
    .where("ended_at", "<", p.before)
    .orderBy("ended_at")
    .limit(p.limit);

/** Selects runs with stored frames. */
export const selectFramedRuns = query(oldTypes, (p) => selectOldRuns(p, sql<boolean>`has_frames = 1`), stable);

/**
 * Selects stateless runs whose frames no client may join. Where several processes share the runs, frames are stored for readers elsewhere
 * too: those go with their stateless run.
 */
export const selectUnresumableRuns = query(
  oldTypes,
  (p) =>
    selectOldRuns(
      p,
      sql<boolean>`stateless = 1 and has_frames = 1 and not ${containsText(sql`kwargs`, sql`'"resumable":true'`)}`,
    ),
  stable,
);

/** Selects stateless runs without stored frames to which no idempotency key refers. */
export const selectStatelessRuns = query(
  oldTypes,
  (p) => selectOldRuns(p, sql<boolean>`stateless = 1 and has_frames = 0 and has_idempotency_key = 0`),
  stable,
);

/** Selects idempotency keys, the oldest first. */
export const selectOldKeys = query(
  oldTypes,
  (p) =>
    db
      .selectFrom("idempotency_keys")
      .select(["route", "key", "run_id"])
      .where("deployment", "=", p.deployment)
      .where("created_at", "<", p.before)
      .orderBy("created_at")
      .limit(p.limit),
  stable,
);

/** Names the rows of a feature that retention deletes. */
interface FeatureShape {
  readonly feature: string;
}

const shapes: readonly FeatureShape[] = RETENTION_TABLES.map(({ name }) => ({ feature: name }));

/** Returns the retention of a feature. Throws a TypeError for a feature without old rows to delete. */
function findRetention({ feature }: FeatureShape): (typeof RETENTION_TABLES)[number] {
  const retention = RETENTION_TABLES.find(({ name }) => name === feature);
  if (!retention) throw new TypeError(`Retention deletes no rows of the feature ${feature}`);
  return retention;
}

/** Selects the keys of rows of a feature, the oldest first. */
export const selectOldOfFeature = shapedQuery(
  (_: FeatureShape) => oldTypes,
  (p, shape) => {
    const { table, key, time, end = time, condition = sql`true` } = findRetention(shape);
    const isOld = sql`${sql.ref(time)} < ${p.before}`;
    return sql<{
      key: string;
    }>`select ${sql.ref(key)} as key from ${sql.table(table)} where deployment = ${p.deployment}
      and ${condition} and ${end === time ? isOld : sql`${isOld} and ${sql.ref(end)} < ${p.before}`} order by ${sql.ref(time)} limit ${p.limit}`;
  },
  { stable: true, shapes },
);

// ------------------------------------------------------------------ deleting

/** Deletes rows of a feature by their keys. Returns them. */
export const deleteOldOfFeature = shapedQuery(
  (_: FeatureShape) => ({ keys: text }),
  (p, shape) => {
    const { table, key, condition = sql`true` } = findRetention(shape);
    return sql<{
      key: string;
    }>`delete from ${sql.table(table)} where ${sql.ref(key)} in ${jsonStrings(p.keys)} and ${condition}
      returning ${sql.ref(key)} as key`;
  },
  { shapes },
);

// Ids of runs alone: with the deployment beside them, SQLite would look through all of its runs.
const runTypes = { run_ids: text };

/** Deletes frames of runs, at most `limit` rows. Returns them. */
export const deleteFrames = query(
  { ...runTypes, limit: bigint },
  (p) =>
    sql<{ first_id: number }>`delete from run_frames where (run_id, first_id) in (
      select run_id, first_id from run_frames where run_id in ${jsonStrings(p.run_ids)} limit ${p.limit})
    returning first_id`,
  stable,
);

/** Records that runs have no stored frames, and returns those without. */
export const clearHasFrames = query(
  runTypes,
  (p) =>
    sql<{ run_id: string }>`update runs set has_frames = 0 where run_id in ${jsonStrings(p.run_ids)}
    and not exists (select 1 from run_frames f where f.run_id = runs.run_id) returning run_id`,
);

/** Deletes idempotency keys. `keys` is a JSON list of pairs of route and key. Returns them. */
export const deleteKeys = query(
  { deployment: text, keys: text },
  (p) =>
    sql<{ key: string }>`delete from idempotency_keys where deployment = ${p.deployment}
    and (route, key) in ${jsonRows(p.keys, { route: "text", key: "text" })} returning key`,
  stable,
);

/** Records that no idempotency key refers to runs. */
export const clearHasIdempotencyKey = query(runTypes, (p) =>
  db
    .updateTable("runs")
    .set({ has_idempotency_key: sql.lit(0) })
    .where("run_id", "in", jsonStrings(p.run_ids)),
);

/** Deletes runs. Returns them. */
export const deleteOldRuns = query(runTypes, (p) =>
  db.deleteFrom("runs").where("run_id", "in", jsonStrings(p.run_ids)).returning("run_id"),
);

/** Deletes hidden threads without runs. `thread_ids` is a JSON list. */
export const deleteHiddenThreads = query(
  { deployment: text, thread_ids: text },
  (p) =>
    sql<never>`delete from threads where deployment = ${p.deployment} and thread_id in ${jsonStrings(p.thread_ids)} and hidden = 1
    and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id)`,
);
