/** Claims: which run is next, and the statements that lease it. */
import type { ClaimedRun, ClaimOutcome, ClaimRequest } from "../../../lib/storage/mod.ts";
import { each, isAmong, numberIn, rowByRow, scalar } from "../dialect.ts";
import type { SqlRow } from "../driver.ts";
import { whenClaimed } from "../features.ts";
import { type Database, ofThread, prepared, type RowsOf, rowsIn, type Statement } from "../statement.ts";
import { type RawBuilder, sql } from "../template.ts";
import { storedFrames } from "./end.ts";
import { claimNote, toClaim } from "./row.ts";

/**
 * True for a pending run that later runs of its thread wait for: its time has come, or it was due when it was created, which holds
 * whatever the clock says now.
 */
export function isDue(run: string, now: number): RawBuilder<boolean> {
  const [due_at, updated_at] = [sql.ref(`${run}.due_at`), sql.ref(`${run}.updated_at`)];
  return sql<boolean>`(+${due_at} <= ${now} or ${due_at} <= ${updated_at})`;
}

/** Sets a running run back to pending. It stays due when the clock has been set back. */
export const putBack = (now: number): RawBuilder<unknown> =>
  sql`status = 'pending', lease_token = null, lease_until = null, updated_at = ${now},
    due_at = case when due_at > ${now} then ${now} else due_at end`;

/** Which runs a claim may take. The lists and limits are JSON. */
type Claimable = { deployment: string; graph_ids: string; max_attempts: string; progress_ms: string; now: number };

/** Runs that were due when they were created; index runs_immediate. They do not depend on the clock, which may be set back. */
const immediate = sql`status = 'pending' and due_at <= updated_at`;

/** The bound leads SQLite to the index: without it a look for one of them reads all suspended runs. */
const anyImmediate = sql`${immediate} and due_at >= 0`;

/** Runs that were created for a later time, which has come; index runs_scheduled. */
const scheduled = (now: unknown): RawBuilder<unknown> =>
  sql`status = 'pending' and due_at > updated_at and due_at <= ${now}`;

/** Other runs `e` of the thread of run `n`. */
const sameThread = sql`e.deployment = n.deployment and e.thread_id = n.thread_id`;

/** The thread's slot is free or has expired. A claim takes the slot: leasing run rows alone would let two runs of a thread start. */
const slotIsFree = (p: Claimable): RawBuilder<unknown> =>
  sql`exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= ${p.now}) ${rowByRow})`;

/** No run of the thread is running. */
const nothingRuns = sql`not exists (select 1 from runs e where ${sameThread} and e.status = 'running' ${rowByRow})`;

/** No older run of the thread is due; a run that has stored checkpoints does not wait for older ones. */
const isOldestDue = (p: Claimable): RawBuilder<unknown> =>
  sql`(n.saved = 1 or not exists (select 1 from runs e where ${sameThread}
      and e.status = 'pending' and e.seq < n.seq and ${isDue("e", p.now)} ${rowByRow}))`;

/** No other run of the thread with stored checkpoints waits: it continues from them, so no run may change the state before. */
const nothingResumes = sql`not exists (select 1 from runs e where ${sameThread}
      and e.status = 'pending' and e.saved = 1 and (n.saved = 0 or e.seq < n.seq) ${rowByRow})`;

/** Of the runs in one index, those that a claim may take now, longest due first. `condition` narrows them further. */
const claimableIn = (
  p: Claimable,
  index: RawBuilder<unknown>,
  condition: RawBuilder<unknown>,
  limit: RawBuilder<unknown>,
): RawBuilder<unknown> =>
  sql`select n.run_id, n.thread_id, n.due_at, n.seq from runs n
  where n.deployment = ${scalar(p.deployment)} and ${index} and ${isAmong(sql`n.graph_id`, p.graph_ids)} ${condition}
    and ${slotIsFree(p)} and ${nothingRuns} and ${isOldestDue(p)} and ${nothingResumes}
  order by n.due_at, n.seq limit ${limit}`;

/** The runs that a claim may take now, longest due first. */
const nextRuns = (p: Claimable, condition: RawBuilder<unknown>, limit: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select run_id, thread_id from (select * from (${claimableIn(p, immediate, condition, limit)}) as at_once
    union all select * from (${claimableIn(p, scheduled(scalar(p.now)), condition, limit)}) as in_time) as due
  order by due_at, seq limit ${limit}`;

/** The run that a claim takes. */
const nextRun = (p: Claimable, condition: RawBuilder<unknown> = sql``): RawBuilder<string> =>
  sql<string>`(select run_id from (${nextRuns(p, condition, sql`1`)}) as next)`;

/** Runs whose lease has expired. */
const expired = (p: { deployment: string; now: number }): RawBuilder<unknown> =>
  sql`deployment = ${p.deployment} and status = 'running' and lease_until <= ${p.now}`;

/** How many expired leases, and how many candidates, one read returns. */
const CANDIDATES = 20;
/** How often a claim reads again when other processes took its candidates. */
const TRIES = 10;

/** What a claim reads first: runs whose lease has expired, the runs that are next, and whether any run waits. */
const candidates = prepared<Claimable & { limit: number }>(
  (p) =>
    sql`select 'expired' as kind, run_id, thread_id from (
      select run_id, thread_id from runs where ${expired(p)} limit ${CANDIDATES}) as leases
    union all select 'next', run_id, thread_id from (${nextRuns(p, sql``, sql`${p.limit}`)}) as next
    union all select 'waiting', null, null
      where exists (select 1 from runs where deployment = ${p.deployment} and ${anyImmediate})
        or exists (select 1 from runs where deployment = ${p.deployment} and ${scheduled(p.now)})`,
);

/** Puts runs back whose lease is still expired. */
const requeueExpired = prepared<{ deployment: string; run_ids: string; now: number }>(
  (p) => sql`update runs set ${putBack(p.now)} where run_id in ${each(p.run_ids)} and ${expired(p)}`,
);

/** A claim with the token and the end of its lease. */
type ClaimArgs = Claimable & { token: string; lease_until: number; note: string };

/** How often the run was started; while progress counts, since the latest attempt that stored a root checkpoint. */
const starts = (p: Claimable): RawBuilder<number> =>
  sql<number>`(attempt + 1 - case when progressed > 1
    and (call_id is not null or started_at + ${numberIn(p.progress_ms, sql`graph_id`)} > ${p.now}) then progressed else 1 end)`;

/** Whether the claim counts as an attempt: not for a run that is claimed only to be ended, stopped or out of attempts. */
const countsAsAttempt = (p: Claimable): RawBuilder<number> =>
  sql<number>`case when cancelled = 1 or ${starts(p)} >= ${numberIn(p.max_attempts, sql`graph_id`)}
    then 0 else 1 end`;

/** How much of `claim_log` is kept: the newest claims, about ninety. */
const LOG_CHARS = sql`4000`;

/** The start of a run. A claim may wait long for its commit: a start before what ended meanwhile would reorder the thread's stream. */
const startIn = (p: Claimable): RawBuilder<number> =>
  sql<number>`case when t.updated_at > ${p.now} then t.updated_at else ${p.now} end`;

/** Leases the run that is next. */
const leaseRun = (p: ClaimArgs, condition?: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`update runs set status = 'running', lease_token = ${p.token}, lease_until = ${p.lease_until},
      attempt = attempt + ${countsAsAttempt(p)}, claims = claims + 1, counts_as_attempt = ${countsAsAttempt(p)},
      updated_at = ${p.now}, waiting_for = null, claim_log = substr(${p.note} || coalesce(claim_log, ''), 1, ${LOG_CHARS}),
      (turn, started_at) = (select t.turn + 1, coalesce(runs.started_at, ${startIn(p)}) from threads t
        where t.deployment = runs.deployment and t.thread_id = runs.thread_id)
    where run_id = ${nextRun(p, condition)}`;

/** Leases the next run of one thread. */
const leaseNext = prepared<ClaimArgs & { thread_id: string }>(
  (p) => sql`${leaseRun(p, sql`and n.thread_id = ${scalar(p.thread_id)}`)} returning *, ${storedFrames} as last_frame`,
);

/** Identifies the end of a run by one batch: another worker or a stop may have ended it at the same time with as many frames. */
type Ended = { run_id: string; claims: number; status: string; ended_at: number; end_frame: number };

/** A row when the run has ended by that batch. */
const itsEnd = (p: Ended): RawBuilder<unknown> =>
  sql`select 1 as ended from runs f where f.run_id = ${p.run_id} and f.claims = ${p.claims} and f.status = ${p.status}
    and f.ended_at = ${p.ended_at} and f.end_frame = ${p.end_frame}`;

/** Witness for a later statement: a row when this batch, or an earlier copy of it, has ended the run. */
export const hasEnded: (ended: Ended) => Statement = prepared<Ended>((p) => itsEnd(p));

/** Leases the next run when the same batch has ended this one. */
const leaseAfter = prepared<ClaimArgs & Ended>(
  (p) =>
    sql`${leaseRun(p)} and exists (${itsEnd(p)})
    returning *, ${storedFrames} as last_frame`,
);

/** Takes the slot, and the next turn, of the thread whose run was leased. */
const takeSlot = prepared<{ deployment: string; token: string; lease_until: number }>(
  (p) =>
    sql`update threads set slot_token = ${p.token}, slot_until = ${p.lease_until}, turn = turn + 1
    where deployment = ${p.deployment} and thread_id = (select thread_id from runs
      where deployment = ${p.deployment} and status = 'running' and lease_token = ${p.token}) returning *`,
);

function claimArgs(deployment: string, request: ClaimRequest): ClaimArgs {
  const { graph_ids, max_attempts = {}, progress_ms = {}, now, token, lease_until, worker } = request;
  return {
    deployment,
    graph_ids: JSON.stringify(graph_ids),
    max_attempts: JSON.stringify(max_attempts),
    progress_ms: JSON.stringify(progress_ms),
    now,
    token,
    lease_until,
    note: claimNote(worker, now),
  };
}

/** Statements that claim a run. */
export interface ClaimStatements {
  readonly statements: readonly Statement[];
  /** Reads what they returned; null when they claimed no run. */
  claimed(rowsOf: RowsOf): ClaimedRun | null;
}

function claimStatements(args: ClaimArgs, request: ClaimRequest, lease: Statement): ClaimStatements {
  const slot = takeSlot(args);
  return {
    statements: [lease, slot, ...whenClaimed(args.deployment, request)],
    claimed(rowsOf) {
      const [leased] = rowsOf(lease);
      return leased ? toClaim(leased, rowsOf(slot)[0] as SqlRow) : null;
    },
  };
}

/** The statements that claim the next run when the same batch has ended this one. */
export function claimAfter(deployment: string, request: ClaimRequest, ended: Ended): ClaimStatements {
  const args = claimArgs(deployment, request);
  return claimStatements(args, request, leaseAfter({ ...args, ...ended }));
}

/**
 * See `Storage.claimRun`.
 *
 * @statements candidates · requeueExpired · takeSlot · whenClaimed · leaseNext
 * @guards read expired leases and the next runs. Expired leases: requeue those runs if still expired, and read again.
 *   Otherwise batch: update the next run of the chosen thread to `running` with the token, if it is still next and the
 *   slot is free, and add time and worker to its `claim_log` · give the thread's slot to the token, and count its turn ·
 *   trace of a first attempt. Retries up to 10 times with more candidates.
 */
export async function claimRun(driver: Database, deployment: string, request: ClaimRequest): Promise<ClaimOutcome> {
  const args = claimArgs(deployment, request);
  const { token, now } = args;
  const threadOf = (row: SqlRow): string => row.thread_id as string;
  for (let tries = 0; tries < TRIES; ) {
    // Read before locking: a claim follows every run, and usually nothing waits. Processes see the same runs, so one that came too
    // late chooses among more of them.
    const seen = await driver.read(candidates({ ...args, limit: tries === 0 ? 1 : CANDIDATES }));
    const overdue = seen.filter((row) => row.kind === "expired");
    if (overdue.length > 0) {
      const run_ids = JSON.stringify(overdue.map((row) => row.run_id));
      const lock_keys = overdue.map((row) => ofThread(deployment, threadOf(row)));
      await driver.batch([requeueExpired({ deployment, run_ids, now })], lock_keys);
      continue;
    }
    const next = seen.filter((row) => row.kind === "next");
    const chosen = next[(Number.parseInt(token.slice(-4), 16) || 0) % next.length];
    if (!chosen) return { kind: seen.length > 0 ? "blocked" : "none" };
    const thread_id = threadOf(chosen);
    const claim = claimStatements(args, request, leaseNext({ ...args, thread_id }));
    const results = await driver.batch(claim.statements, [ofThread(deployment, thread_id)]);
    const claimed = claim.claimed(rowsIn(claim.statements, results));
    if (claimed) return { kind: "claimed", claimed };
    tries++;
  }
  return { kind: "blocked" };
}
