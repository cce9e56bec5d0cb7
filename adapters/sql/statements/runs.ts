/** Statements that read and delete single runs, and count those of a deployment. */
import { sql } from "kysely";
import { isThreadPermitted } from "../filter.ts";
import { bigint, text } from "../parameters.ts";
import { createBuilder, query, scopedQuery, shapedQuery } from "../query.ts";
import type { CoreTables } from "../schema/tables.ts";
import { isRun } from "./runs-stop.ts";

const db = createBuilder<CoreTables>();

const runTypes = { deployment: text, thread_id: text, run_id: text };

/** Selects a run whose thread the filter permits. */
export const selectRun = scopedQuery({ deployment: text, run_id: text }, (p, filter) =>
  db
    .selectFrom("runs")
    .selectAll()
    .where("deployment", "=", p.deployment)
    .where("run_id", "=", p.run_id)
    .where(isThreadPermitted("runs", filter)),
);

/** Selects the runs of a thread that a page contains. */
interface RunsShape {
  readonly of_status: boolean;
  readonly below: boolean;
  /** Runs above a number, the oldest first. Otherwise the newest come first. */
  readonly above: boolean;
  readonly filtered: boolean;
}

/** Selects a page of the runs of a thread. `below` and `above` are numbers of runs. */
export const selectRuns = shapedQuery(
  (_: RunsShape) => ({
    ...{ deployment: text, thread_id: text, status: text, below: bigint, above: bigint, filter: text },
    ...{ limit: bigint, offset: bigint },
  }),
  (p, { of_status, below, above, filtered }) =>
    db
      .selectFrom("runs")
      .selectAll()
      .where("deployment", "=", p.deployment)
      .where("thread_id", "=", p.thread_id)
      .$if(of_status, (runs) => runs.where("status", "=", p.status))
      .$if(below, (runs) => runs.where("seq", "<", p.below))
      .$if(above, (runs) => runs.where("seq", ">", p.above))
      .where(isThreadPermitted("runs", filtered ? p.filter : null))
      .orderBy("seq", above ? "asc" : "desc")
      .limit(p.limit)
      .offset(p.offset),
  {
    stable: true,
    shapes: [
      { of_status: false, below: false, above: false, filtered: false },
      { of_status: true, below: true, above: false, filtered: true },
      { of_status: false, below: false, above: true, filtered: false },
    ],
  },
);

/** Returns a row if the run exists in the thread and the filter permits the thread. */
export const isRunPresent = scopedQuery(runTypes, (p, filter) =>
  db.selectFrom("runs").select("run_id").where(isRun(p, filter)),
);

/** Deletes a run that is not running. Returns a row if it existed. */
export const deleteRun = scopedQuery(runTypes, (p, filter) =>
  db.deleteFrom("runs").where(isRun(p, filter)).where("status", "<>", sql.lit("running")).returning("run_id"),
);

/** Counts the active runs of a deployment. Two indexes: one has the runs that were due when created, the other those created for later. */
export const countActiveRuns = query(
  { deployment: text, now: bigint },
  (p) => {
    const pending = sql`from runs where deployment = ${p.deployment} and status = 'pending'`;
    const isLate = sql`due_at > updated_at and due_at <= ${p.now}`;
    return sql<{
      immediate: number;
      oldest_immediate: number | null;
      late: number;
      oldest_late: number | null;
      scheduled: number;
      running: number;
    }>`select (select count(*) ${pending} and due_at <= updated_at) as immediate,
      (select min(due_at) ${pending} and due_at <= updated_at) as oldest_immediate,
      (select count(*) ${pending} and ${isLate}) as late,
      (select min(due_at) ${pending} and ${isLate}) as oldest_late,
      (select count(*) ${pending} and due_at > updated_at and due_at > ${p.now}) as scheduled,
      (select count(*) from runs where deployment = ${p.deployment} and status = 'running') as running`;
  },
  { stable: true },
);
