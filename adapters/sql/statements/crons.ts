/** Statements on crons and their firings. */
import { type Expression, type RawBuilder, sql } from "kysely";
import { isPermitted } from "../filter.ts";
import { jsonRows, jsonStrings } from "../functions.ts";
import { bigint, columns, type Operands, orNull, text } from "../parameters.ts";
import { createBuilder, insertWhere, query, scopedQuery, shapedQuery } from "../query.ts";
import { agentTables } from "../schema/agents.ts";
import { cronTables } from "../schema/crons.ts";
import type { CoreTables } from "../schema/tables.ts";
import { orphanedEntries } from "./metadata-index.ts";

const db = createBuilder<CoreTables>();

const stable = { stable: true };

const keyTypes = columns(cronTables.crons, ["deployment", "cron_id"]);
const contentTypes = columns(cronTables.crons, [
  "on_run_completed",
  "schedule",
  "timezone",
  "end_time",
  "enabled",
  "next_run_date",
  "payload",
  "metadata",
]);
const originTypes = columns(cronTables.crons, ["assistant_id", "thread_id", "user_id", "auth_user"]);

const metadata = sql<string>`crons.metadata`;

/** Inserts a cron if its assistant and its visible thread exist. Returns the cron. */
export const insertCron = query({ ...keyTypes, ...contentTypes, ...originTypes, now: bigint }, (p) =>
  insertWhere(
    db,
    "crons",
    {
      deployment: p.deployment,
      cron_id: p.cron_id,
      assistant_id: p.assistant_id,
      thread_id: p.thread_id,
      on_run_completed: p.on_run_completed,
      schedule: p.schedule,
      timezone: p.timezone,
      end_time: p.end_time,
      enabled: p.enabled,
      next_run_date: p.next_run_date,
      payload: p.payload,
      metadata: p.metadata,
      user_id: p.user_id,
      auth_user: p.auth_user,
      failures: sql.lit(0),
      created_at: p.now,
      updated_at: p.now,
      revision: p.now,
    },
    sql`exists (select 1 from assistants where deployment = ${p.deployment} and assistant_id = ${p.assistant_id})
      and (${p.thread_id} is null or exists (select 1 from threads
        where deployment = ${p.deployment} and thread_id = ${p.thread_id} and hidden = 0))`,
  ).returningAll(),
);

/** Selects a visible thread. Returns a row if it exists. */
export const selectVisibleThread = query(columns(agentTables.threads, ["deployment", "thread_id"]), (p) =>
  db
    .selectFrom("threads")
    .select("thread_id")
    .where("deployment", "=", p.deployment)
    .where("thread_id", "=", p.thread_id)
    .where("hidden", "=", sql.lit(0)),
);

/** Selects a cron that the filter permits. */
export const selectCron = scopedQuery(keyTypes, (p, filter) =>
  db
    .selectFrom("crons")
    .selectAll()
    .where("deployment", "=", p.deployment)
    .where("cron_id", "=", p.cron_id)
    .where(isPermitted(metadata, filter)),
);

/**
 * Updates a cron that is as expected, and returns it. A firing changes only the next run date, so that column is compared as well
 * as the revision: an update that read the row before must not set the date back.
 */
export const updateCron = query(
  { ...keyTypes, ...contentTypes, expected_revision: bigint, expected_run_date: orNull(bigint), now: bigint },
  (p) =>
    db
      .updateTable("crons")
      .set({
        on_run_completed: p.on_run_completed,
        schedule: p.schedule,
        timezone: p.timezone,
        end_time: p.end_time,
        failures: sql`case when enabled = 0 and ${p.enabled} = 1 then 0 else failures end`,
        enabled: p.enabled,
        next_run_date: p.next_run_date,
        payload: p.payload,
        metadata: p.metadata,
        updated_at: p.now,
        revision: sql`revision + 1`,
      })
      .where("deployment", "=", p.deployment)
      .where("cron_id", "=", p.cron_id)
      .where("revision", "=", p.expected_revision)
      .where(sql<boolean>`coalesce(next_run_date, -1) = coalesce(${p.expected_run_date}, -1)`)
      .returningAll(),
);

/** Deletes a cron that the filter permits. Returns a row if it existed. */
export const deleteCron = scopedQuery(keyTypes, (p, filter) =>
  db
    .deleteFrom("crons")
    .where("deployment", "=", p.deployment)
    .where("cron_id", "=", p.cron_id)
    .where(isPermitted(metadata, filter))
    .returning("cron_id"),
);

/** A fire time, with the cron as it was read. */
export type FireTime = {
  deployment: string;
  cron_id: string;
  seen_next: number;
  seen_revision: number;
  scheduled_at: number;
};

/** The cron is enabled and as it was read. */
const isAsRead = (p: Operands<FireTime>): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from crons c where c.deployment = ${p.deployment} and c.cron_id = ${p.cron_id}
    and c.enabled = 1 and c.next_run_date = ${p.seen_next} and c.revision = ${p.seen_revision})`;

/** The cron is as it was read, and the fire time has no firing. */
export const isFireTimeOpen = (p: Operands<FireTime>): RawBuilder<boolean> =>
  sql<boolean>`${isAsRead(p)} and not exists (select 1 from cron_firings f where f.deployment = ${p.deployment}
    and f.cron_id = ${p.cron_id} and f.scheduled_at = ${p.scheduled_at})`;

/** A fire time of a cron as it was read. `run_id`: the run that the batch must have created; null for none. */
const firingTypes = {
  ...keyTypes,
  now: bigint,
  run_id: orNull(text),
  seen_next: bigint,
  seen_revision: bigint,
  scheduled_at: bigint,
};

/** The run of the firing exists, or it has none. */
const hasRun = ({ run_id }: { readonly run_id: Expression<string | null> }): RawBuilder<boolean> =>
  sql<boolean>`(${run_id} is null or exists (select 1 from runs where run_id = ${run_id}))`;

/** Records that a fire time created its run. */
export const insertFiring = query(
  firingTypes,
  (p) =>
    sql<never>`insert into cron_firings (deployment, cron_id, scheduled_at, fired_at, run_id, skipped)
    select ${p.deployment}, ${p.cron_id}, ${p.scheduled_at}, ${p.now}, run_id, null from runs where run_id = ${p.run_id}`,
);

/** Records the fire times in `skipped`, a JSON list of pairs of time and reason, if the cron is as it was read. */
export const insertSkippedFirings = query(
  { ...firingTypes, skipped: text },
  (p) =>
    sql<never>`insert into cron_firings (deployment, cron_id, scheduled_at, fired_at, run_id, skipped)
    select ${p.deployment}, ${p.cron_id}, s.scheduled_at, ${p.now}, null, s.reason
    from ${jsonRows(p.skipped, { scheduled_at: "bigint", reason: "text" })} s where ${isAsRead(p)} and ${hasRun(p)}
    on conflict do nothing`,
  stable,
);

/** Sets the next run date of a cron that is as it was read, and returns a row if it was. */
export const advanceCron = query({ ...firingTypes, next_run_date: orNull(bigint) }, (p) =>
  db
    .updateTable("crons")
    .set({ next_run_date: p.next_run_date, updated_at: p.now })
    .where("deployment", "=", p.deployment)
    .where("cron_id", "=", p.cron_id)
    .where("enabled", "=", sql.lit(1))
    .where("next_run_date", "=", p.seen_next)
    .where("revision", "=", p.seen_revision)
    .where(hasRun(p))
    .returning("cron_id"),
);

/** Records a run that was started by hand, if its cron exists. */
export const insertManualFiring = query(
  { ...keyTypes, now: bigint, run_id: text },
  (p) =>
    sql<never>`insert into cron_firings (deployment, cron_id, scheduled_at, fired_at, run_id, skipped, manual)
    select deployment, cron_id, ${p.now}, ${p.now}, ${p.run_id}, null, 1 from crons
    where deployment = ${p.deployment} and cron_id = ${p.cron_id} on conflict do nothing`,
);

/** Returns a row if the cron is as it was read and the fire time has no firing. */
export const isFiringOpen = query(
  firingTypes,
  (p) => sql<{ open: number }>`select 1 as open where ${isFireTimeOpen(p)}`,
  {
    stable: true,
  },
);

/** Selects a page of the firings of a cron, the newest first. */
export const selectFirings = query(
  { ...keyTypes, limit: bigint, offset: bigint },
  (p) =>
    db
      .selectFrom("cron_firings")
      .selectAll()
      .where("deployment", "=", p.deployment)
      .where("cron_id", "=", p.cron_id)
      .orderBy("scheduled_at", "desc")
      .limit(p.limit)
      .offset(p.offset),
  { stable: true },
);

/** Deletes old firings, the oldest first, at most `limit`. */
export const deleteOldFirings = query(
  { deployment: text, before: bigint, limit: bigint },
  (p) =>
    sql<{ cron_id: string }>`delete from cron_firings where (deployment, cron_id, scheduled_at) in (
      select deployment, cron_id, scheduled_at from cron_firings where deployment = ${p.deployment}
        and fired_at < ${p.before} order by fired_at limit ${p.limit})
    returning cron_id`,
  { stable: true },
);

/** Selects the ids of deleted crons that left index entries. */
export const selectOrphanedCrons = query(
  { deployment: text, limit: bigint },
  (p) =>
    sql<{ row_id: string }>`select distinct row_id from ${orphanedEntries("cron")} and deployment = ${p.deployment}
    limit ${p.limit}`,
  { stable: true },
);

/** Deletes the index entries of deleted crons. `cron_ids` is a JSON list. */
export const deleteOrphanedEntries = query(
  { deployment: text, cron_ids: text },
  (p) =>
    sql<{
      row_id: string;
    }>`delete from ${orphanedEntries("cron")} and deployment = ${p.deployment} and row_id in ${jsonStrings(p.cron_ids)}
    returning row_id`,
);

/** Selects the enabled crons that a search returns. Two partial indexes serve it: of crons with a date, and of crons that fail. */
interface EnabledCronsShape {
  readonly by_date: boolean;
  readonly failing: boolean;
}

/** Selects enabled crons: those that are due by `due_by`, those that failed at least `failures` times in a row, or all. */
export const selectEnabledCrons = shapedQuery(
  (_: EnabledCronsShape) => ({ deployment: text, due_by: bigint, failures: bigint, limit: bigint }),
  (p, { by_date, failing }) =>
    db
      .selectFrom("crons")
      .selectAll()
      .where("deployment", "=", p.deployment)
      .where("enabled", "=", sql.lit(1))
      .$if(by_date, (crons) =>
        crons.where("next_run_date", "is not", null).where("next_run_date", "<=", p.due_by).orderBy("next_run_date"),
      )
      .$if(failing, (crons) => crons.where("failures", ">", sql.lit(0)).where("failures", ">=", p.failures))
      .limit(p.limit),
  {
    shapes: [
      { by_date: true, failing: false },
      { by_date: false, failing: true },
      { by_date: false, failing: false },
    ],
  },
);
