/** Statements on the calls of durable functions, their journals and events. */
import { type Expression, type RawBuilder, sql } from "kysely";
import type { CopiedStatement, DeletedStatement } from "../feature.ts";
import { isThreadPermitted } from "../filter.ts";
import { bigint, type Operand, type Operands, orNull, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, insertWhere, query, rowsQuery, scopedQuery } from "../query.ts";
import type { callTables } from "../schema/durable-calls.ts";
import type { CoreTables, RowsOf } from "../schema/tables.ts";
import { holdsLease, whileLeased } from "./checkpoints.ts";

type Rows = RowsOf<typeof callTables>;

const db = createBuilder<CoreTables & Rows>();

const stable = { stable: true };

const threadTypes = { deployment: text, thread_id: text };
const callTypes = { ...threadTypes, call_id: text };
/** A call, and the lease of the run that executes it. */
const leasedTypes = { ...callTypes, run_id: text, token: text };

// ------------------------------------------------------------- with progress

/** Inserts a new call while the lease is held. */
export const insertCall = query(
  { ...leasedTypes, graph_id: text, beginning: text },
  (p) =>
    sql<never>`insert into calls (deployment, thread_id, call_id, graph_id, first_run, run_id, beginning, created_at)
    select ${p.deployment}, ${p.thread_id}, ${p.call_id}, ${p.graph_id}, ${p.run_id}, ${p.run_id}, ${p.beginning}, updated_at
    from runs where ${holdsLease(p)}
    on conflict do nothing`,
  stable,
);

/** Returns an update of a call that has an effect only while its run holds the lease. */
const updateLeasedCall = (p: ParametersFor<typeof leasedTypes>) =>
  db
    .updateTable("calls")
    .where("deployment", "=", p.deployment)
    .where("thread_id", "=", p.thread_id)
    .where("call_id", "=", p.call_id)
    .where(whileLeased(p));

/** Makes the run the one that continues the call, while the lease is held. */
export const continueCall = query(
  leasedTypes,
  (p) => updateLeasedCall(p).set({ run_id: p.run_id, due_at: sql<null>`null` }),
  stable,
);

/** Sets the call of a run while its lease is held. An attempt that stores entries makes progress. */
export const setCallOfRun = query(
  leasedTypes,
  (p) => db.updateTable("runs").set({ call_id: p.call_id, progressed: sql`attempt` }).where(holdsLease(p)),
  stable,
);

/** Inserts entries of a journal, or replaces those with their indexes, while the lease is held. */
export const upsertEntries = rowsQuery(
  leasedTypes,
  { idx: bigint, entry: text },
  (p, rows) =>
    sql<never>`insert into call_entries (deployment, thread_id, call_id, run_id, idx, entry)
    select ${p.deployment}, ${p.thread_id}, ${p.call_id}, ${p.run_id}, v.*
    from (values ${sql.join(rows.map((row) => sql`(${row.idx}, ${row.entry})`))}) as v where ${whileLeased(p)}
    on conflict (deployment, thread_id, call_id, idx) do update set entry = excluded.entry`,
  stable,
);

/** Inserts the token of a wait while the lease is held. */
export const insertCallToken = query(
  { ...leasedTypes, token_hash: text, name: text, occurrence: bigint },
  (p) =>
    insertWhere(
      db,
      "call_tokens",
      {
        token_hash: p.token_hash,
        deployment: p.deployment,
        thread_id: p.thread_id,
        call_id: p.call_id,
        name: p.name,
        occurrence: p.occurrence,
      },
      whileLeased(p),
    ).onConflict((conflict) => conflict.doNothing()),
  stable,
);

/** Sets the position of a call while the lease is held. */
export const setPosition = query(
  { ...leasedTypes, position: text },
  (p) => updateLeasedCall(p).set({ position: p.position }),
  stable,
);

/** The call has an event after number `after`. */
export const hasNewEvents = (
  p: Operands<{ deployment: string; thread_id: string; call_id: string; after: number }>,
): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from call_events e where e.deployment = ${p.deployment}
    and e.thread_id = ${p.thread_id} and e.call_id = ${p.call_id} and e.seq > ${p.after})`;

/** Sets when a call continues, while the lease is held: at once if it has an event after number `after`. */
export const suspendCall = query(
  { ...leasedTypes, due_at: orNull(bigint), after: bigint, now: bigint },
  (p) =>
    updateLeasedCall(p).set({
      due_at: sql<number | null>`case when ${hasNewEvents(p)} then ${p.now} else ${p.due_at} end`,
      ended_at: sql<null>`null`,
    }),
  stable,
);

/** Ends a call while the lease is held. */
export const endCall = query(
  { ...leasedTypes, due_at: orNull(bigint), now: bigint },
  (p) => updateLeasedCall(p).set({ due_at: p.due_at, ended_at: p.now }),
  stable,
);

// ------------------------------------------- when runs are deleted or copied

/** Selects those of the runs that have not ended: their progress is deleted. The journal of an ended run belongs to its thread. */
const openRuns = (run_ids: Expression<unknown>): RawBuilder<unknown> =>
  sql`select u.run_id from runs u where u.run_id in (${run_ids}) and u.call_id is not null and u.ended_at is null`;

const isOfOpenRuns = (run_ids: Expression<unknown>): RawBuilder<boolean> =>
  sql<boolean>`(deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (${openRuns(run_ids)}))`;

/** Deletes the entries that open runs have stored. */
export const deleteEntriesOfRuns: DeletedStatement = (run_ids) =>
  sql<never>`delete from call_entries where run_id in (${openRuns(run_ids)}) and ${isOfOpenRuns(run_ids)}`;

/** Deletes the calls that open runs have begun. */
export const deleteCallsOfRuns: DeletedStatement = (run_ids) =>
  sql<never>`delete from calls where first_run in (${openRuns(run_ids)}) and ${isOfOpenRuns(run_ids)}`;

/** Makes the calls of open runs due that earlier runs left open. */
export const reopenCallsOfRuns: DeletedStatement = (run_ids) =>
  sql<never>`update calls set due_at = created_at, position = null where ${isOfOpenRuns(run_ids)} and ended_at is null`;

/** Copies the calls of a thread whose first run has ended. A copy has no first run. */
export const copyCalls: CopiedStatement = (p, isCopied) =>
  sql<never>`insert into calls (deployment, thread_id, call_id, graph_id, first_run, run_id, beginning, created_at, ended_at)
    select deployment, ${p.thread_id}, call_id, graph_id, '', run_id, beginning, created_at, ended_at from calls
    where deployment = ${p.deployment} and thread_id = ${p.from}
      and not exists (select 1 from runs r where r.run_id = calls.first_run and r.ended_at is null) and ${isCopied}`;

/** Copies the entries of a thread whose run has ended to the copies of their calls. */
export const copyEntries: CopiedStatement = (p) =>
  sql<never>`insert into call_entries (deployment, thread_id, call_id, idx, run_id, entry)
    select e.deployment, ${p.thread_id}, e.call_id, e.idx, e.run_id, e.entry from call_entries e
    where e.deployment = ${p.deployment} and e.thread_id = ${p.from}
      and not exists (select 1 from runs r where r.run_id = e.run_id and r.ended_at is null)
      and exists (select 1 from calls c where c.deployment = e.deployment and c.thread_id = ${p.thread_id}
        and c.call_id = e.call_id)`;

// ------------------------------------------------------------------- reading

/** Selects a call of a thread that the filter permits. */
export const selectCall = scopedQuery(
  callTypes,
  (p, filter) =>
    db
      .selectFrom("calls")
      .selectAll()
      .where("deployment", "=", p.deployment)
      .where("thread_id", "=", p.thread_id)
      .where("call_id", "=", p.call_id)
      .where(isThreadPermitted("calls", filter)),
  stable,
);

/** Selects the newest call of a thread that the filter permits. */
export const selectNewestCall = scopedQuery(
  threadTypes,
  (p, filter) =>
    db
      .selectFrom("calls")
      .selectAll()
      .where("deployment", "=", p.deployment)
      .where("thread_id", "=", p.thread_id)
      .where(isThreadPermitted("calls", filter))
      .orderBy("created_at", "desc")
      .orderBy("call_id", "desc")
      .limit(sql.lit(1)),
  stable,
);

/** Selects the entries of a journal from `idx` on, in their order. */
export const selectEntries = scopedQuery(
  { ...callTypes, idx: bigint, limit: bigint },
  (p, filter) =>
    db
      .selectFrom("call_entries")
      .select(["idx", "entry"])
      .where("deployment", "=", p.deployment)
      .where("thread_id", "=", p.thread_id)
      .where("call_id", "=", p.call_id)
      .where("idx", ">=", p.idx)
      .where(isThreadPermitted("call_entries", filter))
      .orderBy("idx")
      .limit(p.limit),
  stable,
);

/** Selects the events of a call after number `seq`, in their order. */
export const selectEvents = scopedQuery(
  { ...callTypes, seq: bigint },
  (p, filter) =>
    db
      .selectFrom("call_events")
      .select(["seq", "name", "occurrence", "payload"])
      .where("deployment", "=", p.deployment)
      .where("thread_id", "=", p.thread_id)
      .where("call_id", "=", p.call_id)
      .where("seq", ">", p.seq)
      .where(isThreadPermitted("call_events", filter))
      .orderBy("seq"),
  stable,
);

/** Selects the call and the wait of a token, and the payload of the first event for this wait; null without one. */
export const selectCallOfToken = query(
  { deployment: text, token_hash: text },
  (p) =>
    sql<Rows["calls"] & { name: string; occurrence: number; payload: string | null }>`select c.*, t.name, t.occurrence,
      (select e.payload from call_events e where e.deployment = t.deployment and e.thread_id = t.thread_id
        and e.call_id = t.call_id and e.name = t.name and e.occurrence = t.occurrence order by e.seq limit 1) as payload
    from call_tokens t join calls c on c.deployment = t.deployment and c.thread_id = t.thread_id and c.call_id = t.call_id
    where t.token_hash = ${p.token_hash} and t.deployment = ${p.deployment}`,
  stable,
);

/** Counts suspended runs. */
export const countSuspendedRuns = query(
  { deployment: text },
  (p) =>
    db
      .selectFrom("runs")
      .select(sql<number>`count(*)`.as("count"))
      .where("deployment", "=", p.deployment)
      .where("status", "=", sql.lit("pending"))
      .where("waiting_for", "is not", null),
  stable,
);

/** No run `r` of the thread of the call has this status. Two conditions use an index of `runs` each. */
const hasNoRun = (status: Operand<string>): RawBuilder<boolean> =>
  sql<boolean>`not exists (select 1 from runs r
    where r.deployment = calls.deployment and r.thread_id = calls.thread_id and r.status = ${status})`;

/** Selects due calls of threads without active runs, the earliest first. Calls of busy threads must not hide the others. */
export const selectDueCalls = query(
  { deployment: text, now: bigint, limit: bigint },
  (p) =>
    db
      .selectFrom("calls")
      .selectAll()
      .where("deployment", "=", p.deployment)
      .where("due_at", "<=", p.now)
      .where("due_at", "is not", null)
      .where("ended_at", "is", null)
      .where(hasNoRun(sql.lit("running")))
      .where(hasNoRun(sql.lit("pending")))
      .orderBy("due_at")
      .limit(p.limit),
  stable,
);

// -------------------------------------------------------------------- events

/**
 * Inserts an event if the call has not ended and no event came for the same wait. Returns a row if so. Numbers grow, also after a
 * rollback.
 */
export const insertEvent = query(
  { ...callTypes, name: text, occurrence: orNull(bigint), payload: text, now: bigint },
  (p) =>
    sql<{
      seq: number;
    }>`insert into call_events (deployment, thread_id, call_id, seq, name, occurrence, payload, created_at)
    select deployment, thread_id, call_id, 1 + coalesce((select max(e.seq) from call_events e where e.deployment = calls.deployment
      and e.thread_id = calls.thread_id and e.call_id = calls.call_id), 0), ${p.name}, ${p.occurrence}, ${p.payload}, ${p.now}
    from calls where deployment = ${p.deployment} and thread_id = ${p.thread_id} and call_id = ${p.call_id} and ended_at is null
      and not exists (select 1 from call_events o where o.deployment = calls.deployment and o.thread_id = calls.thread_id
        and o.call_id = calls.call_id and o.name = ${p.name} and o.occurrence = ${p.occurrence})
    returning seq`,
  stable,
);

/** Makes the suspended run of a call due, whatever the clock says later. */
export const wakeRun = query({ ...callTypes, now: bigint }, (p) =>
  db
    .updateTable("runs")
    .set({ due_at: p.now, updated_at: p.now })
    .where("deployment", "=", p.deployment)
    .where("thread_id", "=", p.thread_id)
    .where("status", "=", sql.lit("pending"))
    .where("waiting_for", "is not", null)
    .whereRef("due_at", ">", "updated_at")
    .where("call_id", "=", p.call_id),
);

/** Returns an update of a call that has an effect only if the call has not ended. */
const updateOpenCall = (p: ParametersFor<typeof callTypes>) =>
  db
    .updateTable("calls")
    .where("deployment", "=", p.deployment)
    .where("thread_id", "=", p.thread_id)
    .where("call_id", "=", p.call_id)
    .where("ended_at", "is", null);

/** Makes a call due that has no active run: then the service continues it. */
export const wakeCall = query(
  { ...callTypes, now: bigint },
  (p) =>
    updateOpenCall(p)
      .set({ due_at: p.now })
      .where(sql<boolean>`not exists (select 1 from runs r where r.run_id = calls.run_id and r.ended_at is null)`),
  stable,
);

/** Sets when a call is due and when it ended, if it is due at `before` and has not ended. */
export const setCallDue = query(
  { ...callTypes, due_at: orNull(bigint), ended_at: orNull(bigint), before: bigint },
  (p) => updateOpenCall(p).set({ due_at: p.due_at, ended_at: p.ended_at }).where("due_at", "=", p.before),
  stable,
);
