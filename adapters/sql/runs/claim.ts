import { type RawBuilder, sql } from "kysely";
import type { TraceTerms } from "../../../lib/platform-storage.ts";
import type { ClaimOutcome, ClaimRequest } from "../../../lib/storage.ts";
import { each, raw, settled } from "../dialect.ts";
import type { SqlDriver, SqlRow, SqlStatement } from "../driver.ts";
import { shape } from "../statement.ts";
import { traceClaimed } from "../usage.ts";
import { storedFrames } from "./end.ts";
import { toClaim } from "./row.ts";

type Due = { deployment: string; graph_ids: string; max_attempts: string; now: number };

/**
 * The run that is next: the one due longest whose thread has a free slot, and of its thread's due runs the oldest. Only one
 * that has stored checkpoints goes before older ones: it goes on from these, and would not know what another run does
 * meanwhile. The thread's slot is what is taken, not the run: two pending runs of one thread are different rows, so taking runs would let
 * both start.
 */
const nextRun = (p: Due): RawBuilder<string> => sql<string>`(select n.run_id from runs n
  where n.deployment = ${settled(p.deployment)} and n.status = 'pending' and n.due_at <= ${p.now}
    and n.graph_id in ${each(p.graph_ids)}
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= ${p.now}))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'running')
    and (n.saved = 1 or not exists (select 1 from runs e where e.deployment = n.deployment
      and e.thread_id = n.thread_id and e.status = 'pending' and e.seq < n.seq and +e.due_at <= ${p.now}))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.saved = 1 and (n.saved = 0 or e.seq < n.seq))
  order by n.due_at, n.seq limit 1)`;

const expired = (p: Due): RawBuilder<unknown> =>
  sql`deployment = ${p.deployment} and status = 'running' and lease_until <= ${p.now}`;

/** What a claim would find. */
const outlook = shape<Due>((p) =>
  raw(sql`select case when exists (select 1 from runs where ${expired(p)}) or ${nextRun(p)} is not null then 'claimed'
    when exists (select 1 from runs where deployment = ${p.deployment} and status = 'pending' and due_at <= ${p.now})
    then 'blocked' else 'none' end as kind`),
);

const requeueExpired = shape<Due>((p) =>
  raw(sql`update runs set status = 'pending', lease_token = null, lease_until = null, updated_at = ${p.now}
    where ${expired(p)}`),
);

type Taken = Due & { token: string; lease_until: number };

/** 0 for a run that is only to be ended, because somebody asked for that or it was started often enough: that is no attempt. */
const charge = (p: Due): RawBuilder<number> =>
  sql<number>`case when cancelled = 1 or attempt >= (select value from json_each(${p.max_attempts}) where key = graph_id)
    then 0 else 1 end`;

const lease = (p: Taken): RawBuilder<unknown> =>
  sql`update runs set status = 'running', lease_token = ${p.token}, lease_until = ${p.lease_until},
      attempt = attempt + ${charge(p)}, claims = claims + 1, charged = ${charge(p)}, started_at = coalesce(started_at, ${p.now}),
      updated_at = ${p.now}
    where run_id = ${nextRun(p)}`;

const leaseNext = shape<Taken>((p) => raw(sql`${lease(p)} returning *, ${storedFrames} as last_frame`));

/** What tells that a batch has ended its run. */
type Ended = { run_id: string; ended_at: number; end_frame: number };

const leaseAfter = shape<Taken & Ended>((p) =>
  raw(sql`${lease(p)} and exists (select 1 from runs f where f.run_id = ${p.run_id} and f.ended_at = ${p.ended_at}
      and f.end_frame = ${p.end_frame})
    returning *, ${storedFrames} as last_frame`),
);

const takeSlot = shape<{ deployment: string; token: string; lease_until: number }>((p) =>
  raw(sql`update threads set slot_token = ${p.token}, slot_until = ${p.lease_until}
    where deployment = ${p.deployment} and thread_id = (select thread_id from runs
      where deployment = ${p.deployment} and status = 'running' and lease_token = ${p.token}) returning *`),
);

function terms(deployment: string, { graph_ids, max_attempts = {}, now, token, lease_until }: ClaimRequest): Taken {
  const lists = { graph_ids: JSON.stringify(graph_ids), max_attempts: JSON.stringify(max_attempts) };
  return { deployment, ...lists, now, token, lease_until };
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
function taking(taken: Taken, request: ClaimRequest, leased: SqlStatement): SqlStatement[] {
  const { deployment, token } = taken;
  const trace = request.trace ? traceClaimed(traceTerms(deployment, token, request.trace)) : [];
  return [leased, takeSlot(taken), ...trace];
}

/** Statements that claim the next run where the same batch has ended this one; their rows are those of the run and its thread. */
export function claimAfter(deployment: string, request: ClaimRequest, ended: Ended): SqlStatement[] {
  const taken = terms(deployment, request);
  return taking(taken, request, leaseAfter({ ...taken, ...ended }));
}

/** See `Storage.claimRun`. */
export async function claimRun(driver: SqlDriver, deployment: string, request: ClaimRequest): Promise<ClaimOutcome> {
  const taken = terms(deployment, request);
  // Asked before the write lock is: this is called after every run, and mostly there is nothing.
  const [seen] = await driver.read(outlook(taken));
  if (seen?.kind !== "claimed") return { kind: seen?.kind === "blocked" ? "blocked" : "none" };
  const [, leased, slot] = await driver.batch([requeueExpired(taken), ...taking(taken, request, leaseNext(taken))]);
  const claimed = leased?.[0] ? toClaim(leased[0], slot?.[0] as SqlRow) : null;
  // Somebody else was faster: there may be more.
  return claimed ? { kind: "claimed", claimed } : { kind: "blocked" };
}
