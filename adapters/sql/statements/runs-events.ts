/** Statements on thread events: what saves store, what runs leave that end without an attempt, and what readers get. */
import { type Expression, type RawBuilder, sql } from "kysely";
import { isPermitted, isThreadPermitted } from "../filter.ts";
import { bigint, type Operand, type Operands, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, insertWhere, query, scopedQuery } from "../query.ts";
import type { CoreTables } from "../schema/tables.ts";
import { whileLeased } from "./checkpoints.ts";
import { isInPage } from "./runs-frames.ts";

const db = createBuilder<CoreTables>();

const stable = { stable: true };

const threadTypes = { deployment: text, thread_id: text };
const runTypes = { ...threadTypes, run_id: text };

/**
 * Inserts events while the lease is held. If a row with the same first event exists, the longer one stays: a repeated save may hold
 * more events than the one before it, whose outcome was unknown.
 */
export const upsertEvents = query(
  {
    ...runTypes,
    token: text,
    first_seq: bigint,
    last_seq: bigint,
    methods: bigint,
    size: bigint,
    events: text,
    now: bigint,
  },
  (p) =>
    insertWhere(
      db,
      "thread_events",
      {
        deployment: p.deployment,
        thread_id: p.thread_id,
        first_seq: p.first_seq,
        last_seq: p.last_seq,
        run_id: p.run_id,
        methods: p.methods,
        size: p.size,
        created_at: p.now,
        events: p.events,
      },
      whileLeased(p),
    ).onConflict((conflict) =>
      conflict
        .columns(["deployment", "thread_id", "first_seq"])
        .doUpdateSet((row) => ({
          last_seq: row.ref("excluded.last_seq"),
          methods: row.ref("excluded.methods"),
          size: row.ref("excluded.size"),
          events: row.ref("excluded.events"),
        }))
        .whereRef("excluded.last_seq", ">", "thread_events.last_seq"),
    ),
  stable,
);

// ------------------------------------------- runs that end without an attempt

/** The text of the event `interrupted`, which is the end of a run that no attempt has ended. */
const interruptedAt = (now: Operand<number>): RawBuilder<string> =>
  sql<string>`'[[0,0,[],' || cast(${now} as text) || ',"{\\"event\\":\\"interrupted\\"}"]]'`;

/** Selects those of the runs that are on visible threads, as `r`. */
const visibleRuns = (deployment: Operand<string>, run_ids: Expression<unknown>): RawBuilder<unknown> =>
  sql`runs r where r.run_id in (${run_ids}) and r.stateless = 0 and r.deployment = ${deployment}`;

/** Returns the statement that deletes the events of runs that were claimed. `run_ids` is a query for their ids. */
export const deleteEventsWhere = (deployment: Operand<string>, run_ids: Expression<unknown>): RawBuilder<never> => {
  const runs = sql`from ${visibleRuns(deployment, run_ids)} and r.claims > 0`;
  return sql<never>`delete from thread_events where deployment = ${deployment}
    and thread_id in (select r.thread_id ${runs}) and run_id in (select r.run_id ${runs})`;
};

/** Takes a claim number of the thread of each run, for its end: it comes behind everything that readers may have. */
export const takeClaimNumbersWhere = (deployment: Operand<string>, run_ids: Expression<unknown>): RawBuilder<never> =>
  sql<never>`update threads set claim_count = claim_count + 1 where deployment = ${deployment}
    and thread_id in (select r.thread_id from ${visibleRuns(deployment, run_ids)})`;

/**
 * Returns the statement that inserts an end event, interrupted now, for each run that is not stateless. Its `seq` lies in the
 * claim number that `takeClaimNumbersWhere` has taken. A `seq` with an event keeps that.
 */
export const insertEndsWhere = (
  { deployment, now }: Operands<{ deployment: string; now: number }>,
  run_ids: Expression<unknown>,
): RawBuilder<never> => {
  const seq = sql`t.claim_count * 4294967296 + r.seq % 65536`;
  return sql<never>`insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
    select r.deployment, r.thread_id, ${seq}, ${seq}, r.run_id, 1, 30, ${now}, ${interruptedAt(now)}
    from runs r cross join threads t where r.run_id in (${run_ids}) and r.stateless = 0
      and r.deployment = ${deployment} and t.deployment = r.deployment and t.thread_id = r.thread_id
    on conflict do nothing`;
};

/** Events of a run that the batch has deleted. */
const isOfDeletedRun = (p: ParametersFor<typeof runTypes>): RawBuilder<boolean> =>
  sql<boolean>`deployment = ${p.deployment} and thread_id = ${p.thread_id} and run_id = ${p.run_id}
    and not exists (select 1 from runs r where r.run_id = ${p.run_id})`;

const positionInClaim = (seq: "first_seq" | "last_seq"): RawBuilder<number> =>
  sql<number>`${sql.ref(seq)} % 4294967296`;

/** Replaces the end of a run that the batch has deleted: clients hang without an end. */
export const replaceEnd = query({ ...runTypes, now: bigint }, (p) =>
  db
    .updateTable("thread_events")
    .set({ first_seq: sql<number>`last_seq`, methods: sql.lit(1), size: sql.lit(30), events: interruptedAt(p.now) })
    .where(isOfDeletedRun(p))
    .where(positionInClaim("last_seq"), "=", sql.lit(4294967295)),
);

/** Deletes the events, but for the end, of a run that the batch has deleted. */
export const deleteEventsBeforeEnd = query(runTypes, (p) =>
  db
    .deleteFrom("thread_events")
    .where(isOfDeletedRun(p))
    .where(positionInClaim("first_seq"), ">=", sql.lit(65536))
    .where(positionInClaim("first_seq"), "<", sql.lit(4294967295)),
);

// ------------------------------------------------------------------ retention

/** Selects a row of events that is older than `before`, if there is one. */
export const selectOldEvents = query(
  { deployment: text, before: bigint },
  (p) =>
    db
      .selectFrom("thread_events")
      .select("first_seq")
      .where("deployment", "=", p.deployment)
      .where("created_at", "<", p.before)
      .orderBy("created_at")
      .limit(sql.lit(1)),
  stable,
);

/** Deletes rows of events that are older than `before`, the oldest first, at most `limit`. */
export const deleteOldEvents = query(
  { deployment: text, before: bigint, limit: bigint },
  (p) =>
    sql<{ first_seq: number }>`delete from thread_events where (deployment, thread_id, first_seq) in (
      select deployment, thread_id, first_seq from thread_events where deployment = ${p.deployment}
        and created_at < ${p.before} order by created_at limit ${p.limit})
    returning first_seq`,
  stable,
);

// -------------------------------------------------------------------- reading

/** The `seq` behind the claim number of the run that executes now: it may still store events before those of later claims. */
const endOfOpenClaim = (p: ParametersFor<typeof threadTypes>): RawBuilder<number> =>
  sql<number>`coalesce((select (r.claim_number + 1) * 4294967296 from runs r where r.deployment = ${p.deployment}
    and r.thread_id = ${p.thread_id} and r.status = 'running'), 9007199254740991)`;

/** Selects the rows with events behind `after`, up to the claim number of the run that executes now. `methods` is a bit set. */
export const selectEvents = scopedQuery(
  { ...threadTypes, after: bigint, methods: bigint },
  (p, filter) => {
    const isOfThread = sql<boolean>`deployment = ${p.deployment} and thread_id = ${p.thread_id}`;
    const isReadable = sql<boolean>`first_seq < ${endOfOpenClaim(p)} and methods & ${p.methods} <> 0`;
    return sql<Pick<CoreTables["thread_events"], "first_seq" | "last_seq" | "run_id" | "events">>`
      select first_seq, last_seq, run_id, events from thread_events
      where ${isInPage(["thread_events", "first_seq", "last_seq"], p.after, isOfThread, isReadable)}
        and ${isThreadPermitted("thread_events", filter)}
      order by first_seq`;
  },
  stable,
);

/** Selects the `seq` of the newest event, up to the claim number of the run that executes now. */
export const selectNewestEvent = scopedQuery(
  threadTypes,
  (p, filter) =>
    db
      .selectFrom("thread_events")
      .select("last_seq")
      .where("deployment", "=", p.deployment)
      .where("thread_id", "=", p.thread_id)
      .where("first_seq", "<", endOfOpenClaim(p))
      .where(isThreadPermitted("thread_events", filter))
      .orderBy("first_seq", "desc")
      .limit(sql.lit(1)),
  stable,
);

/** Makes the runs of a visible thread record events of all methods. Returns a row if it exists. */
export const recordAllEvents = scopedQuery(threadTypes, (p, filter) =>
  db
    .updateTable("threads")
    .set({ all_events: sql.lit(1) })
    .where("deployment", "=", p.deployment)
    .where("thread_id", "=", p.thread_id)
    .where("hidden", "=", sql.lit(0))
    .where(isPermitted(sql`threads.metadata`, filter))
    .returning("thread_id"),
);
