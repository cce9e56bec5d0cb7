/** Statements on the stored frames of runs. */
import { type Expression, type RawBuilder, sql } from "kysely";
import { isThreadPermitted } from "../filter.ts";
import { bigint, type Operand, text } from "../parameters.ts";
import { createBuilder, insertWhere, query, scopedQuery } from "../query.ts";
import type { CoreTables } from "../schema/tables.ts";
import { whileLeased } from "./checkpoints.ts";

const db = createBuilder<CoreTables>();

const stable = { stable: true };

/**
 * Inserts frames while the lease is held. If a row with the same first frame exists, the longer one stays: a repeated save may have
 * more frames than the one before it, whose outcome was unknown.
 */
export const upsertFrames = query(
  {
    ...{ deployment: text, thread_id: text, run_id: text, token: text },
    ...{ first_id: bigint, last_id: bigint, size: bigint, frames: text },
  },
  (p) =>
    insertWhere(
      db,
      "run_frames",
      { run_id: p.run_id, first_id: p.first_id, last_id: p.last_id, size: p.size, frames: p.frames },
      whileLeased(p),
    ).onConflict((conflict) =>
      conflict
        .columns(["run_id", "first_id"])
        .doUpdateSet((row) => ({
          last_id: row.ref("excluded.last_id"),
          size: row.ref("excluded.size"),
          frames: row.ref("excluded.frames"),
        }))
        .whereRef("excluded.last_id", ">", "run_frames.last_id"),
    ),
  stable,
);

/** A page of frames or events has at most this many rows. */
export const PAGE_ROWS = 64;
/** A page ends with the row that reaches this many characters. */
export const PAGE_SIZE = 1_000_000;

/** The table of a log, and its columns with the first and the last number of a row. */
type LogColumns = readonly [table: string, first: string, last: string];

/**
 * Returns the condition for a page of rows behind number `after`: at most 64 rows or about a million characters. The page
 * begins with the row that may have numbers on both sides of `after`. `isOfLog`: rows of the log. `isReadable`: rows that its
 * reader gets.
 */
export function isInPage(
  [table, first, last]: LogColumns,
  after: Operand<number>,
  isOfLog: Expression<boolean>,
  isReadable: Expression<boolean>,
): RawBuilder<boolean> {
  const [rows, id, end] = [sql.table(table), sql.ref(first), sql.ref(last)];
  const isBehind = sql`${isOfLog} and ${end} > ${after}
    and ${id} >= coalesce((select max(${id}) from ${rows} where ${isOfLog} and ${id} <= ${after}), 0) and ${isReadable}`;
  // The literals are PAGE_ROWS and PAGE_SIZE.
  return sql<boolean>`${isBehind} and ${id} <= (select max(${id}) from (
      select ${id}, sum(size) over (order by ${id}) - size as before from (
        select ${id}, size from ${rows} where ${isBehind} order by ${id} limit 64) as sizes) as sums
    where before < 1000000)`;
}

/** Selects the rows with frames behind `after`, of a run whose thread the filter permits. */
export const selectFrames = scopedQuery(
  { deployment: text, run_id: text, after: bigint },
  (p, filter) =>
    sql<Pick<CoreTables["run_frames"], "first_id" | "frames">>`select first_id, frames from run_frames
    where ${isInPage(["run_frames", "first_id", "last_id"], p.after, sql`run_id = ${p.run_id}`, sql`true`)}
      and exists (select 1 from runs where run_id = ${p.run_id} and deployment = ${p.deployment}
        and ${isThreadPermitted("runs", filter)})
    order by first_id`,
  { stable: true },
);
