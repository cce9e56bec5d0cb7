import { type RawBuilder, sql } from "kysely";
import type { ClaimOutcome, ClaimRequest, TraceTerms } from "../../../lib/storage/mod.ts";
import { constant, each, isAmong, numberIn, rowByRow } from "../dialect.ts";
import type { SqlRow } from "../driver.ts";
import { ofThread, type Pipe, prepared, type Statement } from "../statement.ts";
import { traceClaimed } from "../usage.ts";
import { storedFrames } from "./end.ts";
import { toClaim } from "./row.ts";

/**
 * Whether a pending run of the same thread, named `run`, is to go before later ones: also one that was due when it was made, by a
 * clock that is ahead or while this statement waited for its database.
 */
export function isDue(run: string, now: number): RawBuilder<boolean> {
  const [due_at, updated_at] = [sql.ref(`${run}.due_at`), sql.ref(`${run}.updated_at`)];
  return sql<boolean>`(+${due_at} <= ${now} or ${due_at} <= ${updated_at})`;
}

/** Puts a running run back. It was due, and stays so where the clock has been set back since. */
export const putBack = (now: number): RawBuilder<unknown> =>
  sql`status = 'pending', lease_token = null, lease_until = null, updated_at = ${now},
    due_at = case when due_at > ${now} then ${now} else due_at end`;

type Due = { deployment: string; graph_ids: string; max_attempts: string; progress_ms: string; now: number };

// What was due when it was made asks no clock, which may have been set back since. An index each: runs_immediate, runs_scheduled.
const immediate = sql`status = 'pending' and due_at <= updated_at`;
const scheduled = (now: unknown): RawBuilder<unknown> =>
  sql`status = 'pending' and due_at > updated_at and due_at <= ${now}`;

/**
 * Of the runs that are immediate, or of those whose time has come, the next ones: the one due longest whose thread has a free slot,
 * and of its thread's due runs the oldest. Only one that has stored checkpoints goes before older ones: it goes on from these, and
 * would not know what another run does meanwhile. The thread's slot is what is taken, not the run: two pending runs of one thread
 * are different rows, so taking runs would let both start.
 */
const nextOf = (
  p: Due,
  which: RawBuilder<unknown>,
  among: RawBuilder<unknown>,
  limit: RawBuilder<unknown>,
): RawBuilder<unknown> =>
  sql`select n.run_id, n.thread_id, n.due_at, n.seq from runs n
  where n.deployment = ${constant(p.deployment)} and ${which}
    and ${isAmong(sql`n.graph_id`, p.graph_ids)} ${among}
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= ${p.now}) ${rowByRow})
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'running' ${rowByRow})
    and (n.saved = 1 or not exists (select 1 from runs e where e.deployment = n.deployment
      and e.thread_id = n.thread_id and e.status = 'pending' and e.seq < n.seq and ${isDue("e", p.now)} ${rowByRow}))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.saved = 1 and (n.saved = 0 or e.seq < n.seq) ${rowByRow})
  order by n.due_at, n.seq limit ${limit}`;

/** The runs that are next, `limit` of them, the one due longest first. */
const nextRuns = (p: Due, among: RawBuilder<unknown>, limit: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select run_id, thread_id from (select * from (${nextOf(p, immediate, among, limit)}) as at_once
    union all select * from (${nextOf(p, scheduled(constant(p.now)), among, limit)}) as in_time) as due
  order by due_at, seq limit ${limit}`;

const nextRun = (p: Due, among: RawBuilder<unknown> = sql``): RawBuilder<string> =>
  sql<string>`(select run_id from (${nextRuns(p, among, sql`1`)}) as next)`;

const expired = (p: { deployment: string; now: number }): RawBuilder<unknown> =>
  sql`deployment = ${p.deployment} and status = 'running' and lease_until <= ${p.now}`;

/** How many leases that are over are taken up, and how many runs that are next are looked at, in one go. */
const LOOK = 20;
/** How often a claim looks again when others are faster. */
const TRIES = 10;

/** Leases that are over, the runs that are next, and whether runs wait at all. */
const outlook = prepared<Due & { limit: number }>(
  (p) =>
    sql`select 'over' as kind, run_id, thread_id from (
      select run_id, thread_id from runs where ${expired(p)} limit ${LOOK}) as leases
    union all select 'next', run_id, thread_id from (${nextRuns(p, sql``, sql`${p.limit}`)}) as next
    union all select 'waiting', null, null
      where exists (select 1 from runs where deployment = ${p.deployment} and ${immediate})
        or exists (select 1 from runs where deployment = ${p.deployment} and ${scheduled(p.now)})`,
);

const requeueExpired = prepared<{ deployment: string; run_ids: string; now: number }>(
  (p) => sql`update runs set ${putBack(p.now)} where run_id in ${each(p.run_ids)} and ${expired(p)}`,
);

type Taken = Due & { token: string; lease_until: number };

/** How often it was started: since the attempt that was the last to store a root checkpoint, for as long as progress counts. */
const counted = (p: Due): RawBuilder<number> =>
  sql<number>`(attempt + 1 - case when progressed > 1 and started_at + ${numberIn(p.progress_ms, sql`graph_id`)} > ${p.now}
    then progressed else 1 end)`;

/** 0 for a run that is only to be ended, because somebody asked for that or it was started often enough: that is no attempt. */
const charge = (p: Due): RawBuilder<number> =>
  sql<number>`case when cancelled = 1 or ${counted(p)} >= ${numberIn(p.max_attempts, sql`graph_id`)}
    then 0 else 1 end`;

const lease = (p: Taken, among?: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`update runs set status = 'running', lease_token = ${p.token}, lease_until = ${p.lease_until},
      attempt = attempt + ${charge(p)}, claims = claims + 1, counts_as_attempt = ${charge(p)}, started_at = coalesce(started_at, ${p.now}),
      updated_at = ${p.now}, turn = (select t.turn + 1 from threads t
        where t.deployment = runs.deployment and t.thread_id = runs.thread_id)
    where run_id = ${nextRun(p, among)}`;

const leaseNext = prepared<Taken & { thread_id: string }>(
  (p) => sql`${lease(p, sql`and n.thread_id = ${constant(p.thread_id)}`)} returning *, ${storedFrames} as last_frame`,
);

/** What tells that a batch has ended its run: another worker, or a stop, may have done so at the same moment and with as many frames. */
type Ended = { run_id: string; claims: number; status: string; ended_at: number; end_frame: number };

const itsEnd = (p: Ended): RawBuilder<unknown> =>
  sql`select 1 as ended from runs f where f.run_id = ${p.run_id} and f.claims = ${p.claims} and f.status = ${p.status}
    and f.ended_at = ${p.ended_at} and f.end_frame = ${p.end_frame}`;

/** A row where this batch, or an earlier one like it, has ended the run. */
export const hasEnded: (ended: Ended) => Statement = prepared<Ended>((p) => itsEnd(p));

const leaseAfter = prepared<Taken & Ended>(
  (p) =>
    sql`${lease(p)} and exists (${itsEnd(p)})
    returning *, ${storedFrames} as last_frame`,
);

const takeSlot = prepared<{ deployment: string; token: string; lease_until: number }>(
  (p) =>
    sql`update threads set slot_token = ${p.token}, slot_until = ${p.lease_until}, turn = turn + 1
    where deployment = ${p.deployment} and thread_id = (select thread_id from runs
      where deployment = ${p.deployment} and status = 'running' and lease_token = ${p.token}) returning *`,
);

function terms(deployment: string, request: ClaimRequest): Taken {
  const { graph_ids, max_attempts = {}, progress_ms = {}, now, token, lease_until } = request;
  return {
    deployment,
    graph_ids: JSON.stringify(graph_ids),
    max_attempts: JSON.stringify(max_attempts),
    progress_ms: JSON.stringify(progress_ms),
    now,
    token,
    lease_until,
  };
}

/** What a claim's trace is made from. */
export function traceTerms(
  deployment: string,
  token: string,
  { workspace_id, project_id, counted }: TraceTerms,
): { deployment: string; token: string; workspace_id: string; project_id: string; counted: number } {
  return { deployment, token, workspace_id, project_id, counted: counted ? 1 : 0 };
}

/** Leases the next run, takes its thread's slot and leaves the trace of a first attempt: the rows of the first two tell. */
function taking(taken: Taken, request: ClaimRequest, leased: Statement): Statement[] {
  const { deployment, token } = taken;
  const trace = request.trace ? traceClaimed(traceTerms(deployment, token, request.trace)) : [];
  return [leased, takeSlot(taken), ...trace];
}

/** Statements that claim the next run where the same batch has ended this one; their rows are those of the run and its thread. */
export function claimAfter(deployment: string, request: ClaimRequest, ended: Ended): Statement[] {
  const taken = terms(deployment, request);
  return taking(taken, request, leaseAfter({ ...taken, ...ended }));
}

/** See `Storage.claimRun`. */
export async function claimRun(driver: Pipe, deployment: string, request: ClaimRequest): Promise<ClaimOutcome> {
  const taken = terms(deployment, request);
  const { token, now } = taken;
  const threadOf = (row: SqlRow): string => row.thread_id as string;
  for (let tries = 0; tries < TRIES; ) {
    // Asked before anything is locked: this is called after every run, and mostly there is nothing. Several processes see the
    // same runs, so one that was too late chooses among more of them.
    const seen = await driver.read(outlook({ ...taken, limit: tries === 0 ? 1 : LOOK }));
    const over = seen.filter((row) => row.kind === "over");
    if (over.length > 0) {
      const run_ids = JSON.stringify(over.map((row) => row.run_id));
      const lock_keys = over.map((row) => ofThread(deployment, threadOf(row)));
      await driver.batch([requeueExpired({ deployment, run_ids, now })], lock_keys);
      continue;
    }
    const next = seen.filter((row) => row.kind === "next");
    const chosen = next[(Number.parseInt(token.slice(-4), 16) || 0) % next.length];
    if (!chosen) return { kind: seen.length > 0 ? "blocked" : "none" };
    const thread_id = threadOf(chosen);
    const statements = taking(taken, request, leaseNext({ ...taken, thread_id }));
    const [leased, slot] = await driver.batch(statements, [ofThread(deployment, thread_id)]);
    const claimed = leased?.[0] ? toClaim(leased[0], slot?.[0] as SqlRow) : null;
    if (claimed) return { kind: "claimed", claimed };
    tries++;
  }
  return { kind: "blocked" };
}
