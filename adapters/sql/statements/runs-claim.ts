/** Statements that claim runs: which run is next, its lease, and the slot of its thread. */
import { type RawBuilder, sql } from "kysely";
import { isInJsonList, jsonInteger, jsonStrings, rowByRow } from "../functions.ts";
import { bigint, type Operand, type Operands, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, query } from "../query.ts";
import type { CoreTables } from "../schema/tables.ts";

const db = createBuilder<CoreTables>();

const stable = { stable: true };

/** The runs that a claim may take. The lists and limits are JSON. */
const claimableTypes = { deployment: text, graph_ids: text, max_attempts: text, progress_ms: text, now: bigint };
/** A claim with the token and the end of its lease. `note` is its line in the log of claims. */
const claimTypes = { ...claimableTypes, token: text, lease_until: bigint, log_entry: text };

type Claimable = ParametersFor<typeof claimableTypes>;
type Claim = ParametersFor<typeof claimTypes>;

// ---------------------------------------------------------------- fragments

/**
 * Returns the condition that a pending run is due, so that later runs of its thread wait for it: its time has come, or it was
 * due when it was created, whatever the clock says now. `run` is the alias of its row.
 */
export function isDue(run: string, now: Operand<number>): RawBuilder<boolean> {
  const [due_at, updated_at] = [sql.ref(`${run}.due_at`), sql.ref(`${run}.updated_at`)];
  return sql<boolean>`(+${due_at} <= ${now} or ${due_at} <= ${updated_at})`;
}

/**
 * Returns the columns of a running run that becomes pending again, without a lease and due now or earlier, even if the clock
 * has been set back.
 */
export const requeueAssignments = (now: Operand<number>) => ({
  status: sql.lit("pending"),
  lease_token: sql<null>`null`,
  lease_until: sql<null>`null`,
  updated_at: now,
  due_at: sql<number>`case when due_at > ${now} then ${now} else due_at end`,
});

/** The number of the newest stored frame of a row of `runs`. */
const newestFrame = sql<number>`case when has_frames = 0 then 0
  else coalesce((select max(f.last_id) from run_frames f where f.run_id = runs.run_id), 0) end`;

/** Runs that were due when they were created; index runs_immediate. They do not depend on the clock, which may be set back. */
const isImmediate = sql<boolean>`status = 'pending' and due_at <= updated_at`;

/** Runs that were created for a later time, which has come; index runs_scheduled. */
const isScheduled = (now: Operand<number>): RawBuilder<boolean> =>
  sql<boolean>`status = 'pending' and due_at > updated_at and due_at <= ${now}`;

/** Runs whose lease has expired. */
const isExpired = (p: Operands<{ deployment: string; now: number }>): RawBuilder<boolean> =>
  sql<boolean>`deployment = ${p.deployment} and status = 'running' and lease_until <= ${p.now}`;

// ------------------------------------------------------------- the next run

/** Other runs `e` of the thread of run `n`. */
const otherRuns = sql`runs e where e.deployment = n.deployment and e.thread_id = n.thread_id`;

/**
 * Selects the runs of one index that a claim may take now, longest due first. An enqueued run waits here, by 1 to 3:
 *
 * 1. The slot of the thread is free. Leasing rows of runs alone would let two runs of a thread start.
 * 2. No run of the thread is running.
 * 3. No older run of the thread is due. A run that has stored checkpoints does not wait for older ones.
 * 4. No other run of the thread that has stored checkpoints waits: it continues from them, so no run may change the state before.
 *
 * `isInIndex` and `condition` are about run `n`.
 */
const selectClaimable = (
  p: Claimable,
  isInIndex: RawBuilder<boolean>,
  condition: RawBuilder<boolean>,
  limit: RawBuilder<number> | Claimable["now"],
): RawBuilder<unknown> =>
  sql`select n.run_id, n.thread_id, n.due_at, n.seq from runs n
  where n.deployment = ${p.deployment} and ${isInIndex} and ${isInJsonList(sql`n.graph_id`, p.graph_ids)} and ${condition}
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= ${p.now}) ${rowByRow})
    and not exists (select 1 from ${otherRuns} and e.status = 'running' ${rowByRow})
    and (n.has_checkpoint = 1 or not exists (select 1 from ${otherRuns}
      and e.status = 'pending' and e.seq < n.seq and ${isDue("e", p.now)} ${rowByRow}))
    and not exists (select 1 from ${otherRuns}
      and e.status = 'pending' and e.has_checkpoint = 1 and (n.has_checkpoint = 0 or e.seq < n.seq) ${rowByRow})
  order by n.due_at, n.seq limit ${limit}`;

/** Selects id and thread of the runs that a claim may take now, longest due first. */
const selectNextRuns = (
  p: Claimable,
  condition: RawBuilder<boolean>,
  limit: RawBuilder<number> | Claimable["now"],
): RawBuilder<unknown> =>
  sql`select run_id, thread_id from (
    select * from (${selectClaimable(p, isImmediate, condition, limit)}) as at_once
    union all
    select * from (${selectClaimable(p, isScheduled(p.now), condition, limit)}) as in_time) as due
  order by due_at, seq limit ${limit}`;

/** A run whose lease has expired, a run that is next, or that any run waits. */
type Candidate =
  | { readonly kind: "expired"; readonly run_id: string; readonly thread_id: string }
  | { readonly kind: "next"; readonly run_id: string; readonly thread_id: string }
  | { readonly kind: "waiting"; readonly run_id: null; readonly thread_id: null };

/**
 * Selects what a claim looks at before it locks: at most 20 runs whose lease has expired, `limit` runs that are next, and a row if any run
 * waits.
 */
export const selectCandidates = query(
  { ...claimableTypes, limit: bigint },
  (p) =>
    // The bound on `due_at` leads SQLite to the index: without it, it reads all suspended runs.
    sql<Candidate>`
    select 'expired' as kind, run_id, thread_id from (
      select run_id, thread_id from runs where ${isExpired(p)} limit 20) as leases
    union all
    select 'next', run_id, thread_id from (${selectNextRuns(p, sql<boolean>`true`, p.limit)}) as next
    union all
    select 'waiting', null, null
      where exists (select 1 from runs where deployment = ${p.deployment} and ${isImmediate} and due_at >= 0)
        or exists (select 1 from runs where deployment = ${p.deployment} and ${isScheduled(p.now)})`,
  stable,
);

/** Adds the end of the lease that a run loses to the front of its log of claims. */
export const logLostLease = {
  claim_log: sql<string>`substr('{"lease_until":' || cast(lease_until as text) || '}' || '\n' || coalesce(claim_log, ''), 1, 4000)`,
};

/** Makes runs pending again whose lease is still expired, and logs that. `run_ids` is a JSON list. */
export const requeueExpired = query({ deployment: text, run_ids: text, now: bigint }, (p) =>
  db
    .updateTable("runs")
    .set({ ...requeueAssignments(p.now), ...logLostLease })
    .where("run_id", "in", jsonStrings(p.run_ids))
    .where(isExpired(p)),
);

// -------------------------------------------------------------------- claims

/** A run that was leased, with the number of its newest stored frame. */
export type LeasedRun = CoreTables["runs"] & { last_frame: number };

/**
 * Counts the starts of a run, with this claim. While progress counts for its graph, only the starts since the latest attempt that stored a
 * root checkpoint.
 */
const countStarts = (p: Claimable): RawBuilder<number> =>
  sql<number>`(attempt + 1 - case when progressed > 1
    and (call_id is not null or started_at + ${jsonInteger(p.progress_ms, sql`graph_id`)} > ${p.now}) then progressed else 1 end)`;

/** 1 if the claim counts as an attempt: not of a run that is claimed only to be ended, stopped or out of attempts. */
const countsAsAttempt = (p: Claimable): RawBuilder<number> =>
  sql<number>`case when cancelled = 1 or ${countStarts(p)} >= ${jsonInteger(p.max_attempts, sql`graph_id`)} then 0 else 1 end`;

/**
 * Returns an update that leases the next run a claim may take and that meets `condition`, if `isAllowed` holds, and returns its
 * row. It adds the claim to the log, which keeps about ninety. `started_at` is set once and never before the last change of the
 * thread, because a claim may wait long for its commit.
 */
const leaseRun = (p: Claim, condition: RawBuilder<boolean>, isAllowed: RawBuilder<boolean>): RawBuilder<LeasedRun> =>
  sql<LeasedRun>`update runs set status = 'running', lease_token = ${p.token}, lease_until = ${p.lease_until},
      attempt = attempt + ${countsAsAttempt(p)}, claims = claims + 1, counts_as_attempt = ${countsAsAttempt(p)},
      updated_at = ${p.now}, waiting_for = null, claim_log = substr(${p.log_entry} || coalesce(claim_log, ''), 1, 4000),
      (claim_number, started_at) = (select t.claim_count + 1, coalesce(runs.started_at,
          case when t.updated_at > ${p.now} then t.updated_at else ${p.now} end)
        from threads t where t.deployment = runs.deployment and t.thread_id = runs.thread_id)
    where run_id = (select run_id from (${selectNextRuns(p, condition, sql.lit(1))}) as next) and ${isAllowed}
    returning *, ${newestFrame} as last_frame`;

/** Leases the next run of one thread. Returns it. */
export const leaseNext = query(
  { ...claimTypes, thread_id: text },
  (p) => leaseRun(p, sql<boolean>`n.thread_id = ${p.thread_id}`, sql<boolean>`true`),
  stable,
);

/**
 * The end of a run by one batch. Another worker or a stop may have ended the run at the same time with as many frames, so all of these are
 * compared.
 */
const endTypes = { run_id: text, claims: bigint, status: text, ended_at: bigint, end_frame: bigint };

/** Selects a row if this batch, or an earlier copy of it, has ended the run. */
const selectEnd = (p: ParametersFor<typeof endTypes>): RawBuilder<{ ended: number }> =>
  sql<{ ended: number }>`select 1 as ended from runs f where f.run_id = ${p.run_id} and f.claims = ${p.claims}
    and f.status = ${p.status} and f.ended_at = ${p.ended_at} and f.end_frame = ${p.end_frame}`;

/** Returns a row if this batch, or an earlier copy of it, has ended the run: a witness for a claim in another batch. */
export const hasEnded = query(endTypes, selectEnd);

/** Leases the next run if this batch, or an earlier copy of it, has ended a run. Returns it. */
export const leaseAfter = query(
  { ...claimTypes, ...endTypes },
  (p) => leaseRun(p, sql<boolean>`true`, sql<boolean>`exists (${selectEnd(p)})`),
  stable,
);

/** Takes the slot, and the next claim number, of the thread whose run was leased. Returns the thread. */
export const acquireThreadLock = query(
  { deployment: text, token: text, lease_until: bigint },
  (p) =>
    sql<
      CoreTables["threads"]
    >`update threads set slot_token = ${p.token}, slot_until = ${p.lease_until}, claim_count = claim_count + 1
    where deployment = ${p.deployment} and thread_id = (select thread_id from runs
      where deployment = ${p.deployment} and status = 'running' and lease_token = ${p.token}) returning *`,
);
