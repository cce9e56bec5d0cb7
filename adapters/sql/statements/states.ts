/** Statements that change states without a run: state updates, metadata of checkpoints, copies of threads. */
import { type RawBuilder, sql } from "kysely";
import { firstClaimCount } from "../claim-counts.ts";
import { joinColumnNames } from "../columns.ts";
import { THREAD_COLUMNS, THREAD_COPIED } from "../features.ts";
import { type FilterParameter, isPermitted } from "../filter.ts";
import { bigint, orNull, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, insertFrom, query, scopedQuery, shapedQuery } from "../query.ts";
import type { CoreTables } from "../schema/tables.ts";
import { busy, isActiveRun } from "../thread-status.ts";
import { findStatement } from "./runs-stop.ts";
import { isMarked, toMarkedCount } from "./state-updates.ts";

const db = createBuilder<CoreTables>();

const stable = { stable: true };

const threadTypes = { deployment: text, thread_id: text };
const checkpointTypes = { ...threadTypes, ns: text, checkpoint_id: text };

// -------------------------------------------------------------------- updates

/** Selects what a state update compares of a visible thread. */
export const selectState = scopedQuery(threadTypes, (p, filter) =>
  db
    .selectFrom("threads")
    .select(["head", "revision", sql<number>`${busy}`.as("busy")])
    .where("deployment", "=", p.deployment)
    .where("thread_id", "=", p.thread_id)
    .where("hidden", "=", sql.lit(0))
    .where(isPermitted(sql`metadata`, filter)),
);

/**
 * Moves the head of a visible thread that is not busy, if the head is as expected, and marks the thread. `ends` is 1 if nothing follows the new
 * state: then no interrupt stays open. A slot left by a deleted run is no obstacle: the process that still executes that run has lost its
 * lease and cannot write. Returns a row if it moved.
 */
export const moveHead = scopedQuery(
  { ...threadTypes, head: text, expected_head: orNull(text), graph_id: text, ends: bigint, now: bigint },
  (p, filter) => {
    const isAnswered = sql`status = 'interrupted' and ${p.ends} = 1`;
    return db
      .updateTable("threads")
      .set({
        head: p.head,
        graph_id: p.graph_id,
        updated_at: p.now,
        state_updated_at: p.now,
        run_count: toMarkedCount(sql`run_count`),
        interrupts: sql`case when ${isAnswered} then '{}' else interrupts end`,
        status: sql`case when ${isAnswered} then 'idle' else status end`,
      })
      .where("deployment", "=", p.deployment)
      .where("thread_id", "=", p.thread_id)
      .where("hidden", "=", sql.lit(0))
      .where(sql<boolean>`coalesce(head, '') = coalesce(${p.expected_head}, '')`)
      .where(sql<boolean>`not ${busy}`)
      .where(isPermitted(sql`metadata`, filter))
      .returning("thread_id");
  },
);

// ----------------------------------------------------- metadata of checkpoints

const hasVisibleThread = (p: ParametersFor<typeof threadTypes>, filter: FilterParameter): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from threads t where t.deployment = ${p.deployment} and t.thread_id = ${p.thread_id}
    and t.hidden = 0 and ${isPermitted(sql`t.metadata`, filter)})`;

/** Selects the metadata of a checkpoint of a visible thread. */
export const selectMetadata = scopedQuery(
  checkpointTypes,
  (p, filter) =>
    db
      .selectFrom("checkpoints")
      .select("metadata")
      .where("deployment", "=", p.deployment)
      .where("thread_id", "=", p.thread_id)
      .where("ns", "=", p.ns)
      .where("checkpoint_id", "=", p.checkpoint_id)
      .where(hasVisibleThread(p, filter)),
  stable,
);

/** Sets the metadata of a checkpoint of a visible thread, if it is as expected. Returns a row if so. */
export const setMetadata = scopedQuery({ ...checkpointTypes, metadata: text, expected: text }, (p, filter) =>
  db
    .updateTable("checkpoints")
    .set({ metadata: p.metadata })
    .where("deployment", "=", p.deployment)
    .where("thread_id", "=", p.thread_id)
    .where("ns", "=", p.ns)
    .where("checkpoint_id", "=", p.checkpoint_id)
    .where("metadata", "=", p.expected)
    .where(hasVisibleThread(p, filter))
    .returning("checkpoint_id"),
);

// --------------------------------------------------------------------- copies

/** A copy of the thread `from`. `from_member` and `member` name the threads in metadata. */
const copyTypes = { ...threadTypes, from: text, from_member: text, member: text, now: bigint };

/** Inserts the copy of a visible thread whose revision is as expected, and marks it. Returns it, unless it exists. */
export const insertCopy = scopedQuery(
  { ...copyTypes, metadata: text, expected_revision: bigint },
  (p, filter) => {
    const same = Object.fromEntries(THREAD_COLUMNS.names.map((name) => [name, sql<never>`${sql.ref(name)}`]));
    return insertFrom(
      db,
      "threads",
      {
        deployment: p.deployment,
        thread_id: p.thread_id,
        created_at: p.now,
        updated_at: p.now,
        state_updated_at: p.now,
        metadata: p.metadata,
        config: sql<string>`config`,
        graph_id: sql<string | null>`graph_id`,
        status: sql<string>`case when status = 'interrupted' then status else 'idle' end`,
        head: sql<string | null>`head`,
        interrupts: sql<string>`case when status = 'interrupted' then interrupts else '{}' end`,
        hidden: sql.lit(0),
        all_events: sql.lit(0),
        revision: p.now,
        run_count: toMarkedCount(sql`run_count`),
        claim_count: firstClaimCount(p),
        ...same,
      },
      sql`from threads where deployment = ${p.deployment} and thread_id = ${p.from} and hidden = 0
      and revision = ${p.expected_revision} and ${isPermitted(sql`metadata`, filter)}`,
    )
      .onConflict((conflict) => conflict.doNothing())
      .returningAll();
  },
  stable,
);

const payload = ["type", "data", "bytes"];

/** The tables that a copy gets rows of, with the columns that stay the same. */
const COPIED_TABLES = {
  checkpoints: ["ns", "checkpoint_id", "seq", "run_id", "parent_id", ...payload, "versions", "created_at"],
  checkpoint_writes: ["ns", "checkpoint_id", "task_id", "idx", "run_id", "run_seq", "channel", ...payload],
  channel_values: ["ns", "channel", "version", "run_id", ...payload, "extends_version"],
} as const;

type CopiedTable = keyof typeof COPIED_TABLES;

export const COPIED_TABLE_NAMES = Object.keys(COPIED_TABLES) as readonly CopiedTable[];

/**
 * Copies the rows of a table while the copy is marked. Rows that active runs have stored are left out: they become part of the state of the
 * thread when the runs end.
 */
export const copyRows = shapedQuery(
  (_: { readonly table: CopiedTable }) => copyTypes,
  (p, { table }) => {
    const names = joinColumnNames(COPIED_TABLES[table]);
    const replaced = table === "checkpoints";
    return sql<never>`insert into ${sql.table(table)} (deployment, thread_id, ${names}${replaced ? sql`, metadata` : sql``})
      select deployment, ${p.thread_id}, ${names}${replaced ? sql`, replace(metadata, ${p.from_member}, ${p.member})` : sql``}
      from ${sql.table(table)} where deployment = ${p.deployment} and thread_id = ${p.from}
        and (run_id is null or run_id not in (select r.run_id from runs r where r.deployment = ${p.deployment}
          and r.thread_id = ${p.from} and ${isActiveRun}))
        and ${isMarked(p)}`;
  },
  { stable: true, shapes: COPIED_TABLE_NAMES.map((table) => ({ table })) },
);

/** Copies what a feature has stored of the thread, while the copy is marked. `statement` is a key of `COPIED`. */
export const copyOfFeature = shapedQuery(
  (_: { readonly statement: string }) => ({ ...threadTypes, from: text }),
  (p, { statement }) => findStatement(THREAD_COPIED, statement)(p, isMarked(p)),
  { stable: true, shapes: Object.keys(THREAD_COPIED).map((statement) => ({ statement })) },
);

/** Copies the index entries of the state of the thread, while the copy is marked. */
export const copyStateEntries = query(
  { ...threadTypes, from: text, now: bigint },
  (p) =>
    sql<never>`insert into labels (deployment, kind, row_id, path_hash, value_hash, exact, created_at)
    select deployment, kind, ${p.thread_id}, path_hash, value_hash, exact, ${p.now} from labels
    where deployment = ${p.deployment} and kind = 'values' and row_id = ${p.from} and ${isMarked(p)}
    on conflict do nothing`,
  stable,
);

/** Selects any thread with this id. */
export const selectAnyThread = query(threadTypes, (p) =>
  db
    .selectFrom("threads")
    .select("thread_id")
    .where("deployment", "=", p.deployment)
    .where("thread_id", "=", p.thread_id),
);
