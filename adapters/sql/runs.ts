import { type RawBuilder, sql } from "kysely";
import type { Json, JsonObject } from "../../lib/json.ts";
import type {
  ClaimedRun,
  CreateRun,
  CreateRunOutcome,
  Lease,
  MultitaskStrategy,
  RunRow,
  RunStatus,
  Storage,
} from "../../lib/storage.ts";
import { discardProgress, type Held, held, putProgress } from "./checkpoints.ts";
import { db, each, raw, settled } from "./dialect.ts";
import type { SqlDriver, SqlRow, SqlStatement } from "./driver.ts";
import { addLabels, replaceLabels } from "./labels.ts";
import type { Tables } from "./schema.ts";
import { shape, statement } from "./statement.ts";
import { busy, toThread } from "./threads.ts";

// ------------------------------------------------------------------- create

/** Makes the run's thread with the run already counted on it. Only where there is none yet. */
const insertThread = shape<{
  deployment: string;
  thread_id: string;
  metadata: string;
  config: string;
  hidden: number;
  run_id: string;
  assistant_id: string;
  assistant_revision: number;
  graph_id: string;
  token: string | null;
  lease_until: number | null;
  now: number;
}>((p) =>
  raw(sql`insert into threads (deployment, thread_id, created_at, updated_at, state_updated_at, metadata, config, graph_id,
      status, interrupts, hidden, revision, slot_token, slot_until, last_run, run_count)
    select ${p.deployment}, ${p.thread_id}, ${p.now}, ${p.now}, ${p.now}, ${p.metadata}, ${p.config}, ${p.graph_id},
      'idle', '{}', ${p.hidden}, ${p.now}, ${p.token}, ${p.lease_until}, ${p.run_id}, 1
    where exists (select 1 from assistants where deployment = ${p.deployment} and assistant_id = ${p.assistant_id}
      and revision = ${p.assistant_revision})
    on conflict do nothing returning *`),
);

/** Counts the run on its thread and, where a claim is asked for and possible, gives it the slot. */
const takeThread = shape<{
  deployment: string;
  thread_id: string;
  thread_revision: number;
  metadata: string | null;
  config: string | null;
  run_id: string;
  assistant_id: string;
  assistant_revision: number;
  graph_id: string;
  reject: number;
  token: string | null;
  lease_until: number | null;
  now: number;
}>((p) => {
  const claims = sql`${p.token} is not null and (slot_token is null or slot_until <= ${p.now}) and not ${busy}`;
  return raw(sql`update threads set updated_at = ${p.now}, graph_id = ${p.graph_id},
      metadata = coalesce(${p.metadata}, metadata), config = coalesce(${p.config}, config),
      revision = revision + case when ${p.metadata} is null then 0 else 1 end,
      slot_token = case when ${claims} then ${p.token} else slot_token end,
      slot_until = case when ${claims} then ${p.lease_until} else slot_until end,
      last_run = ${p.run_id}, run_count = run_count + 1
    where deployment = ${p.deployment} and thread_id = ${p.thread_id} and revision = ${p.thread_revision}
      and exists (select 1 from assistants where deployment = ${p.deployment} and assistant_id = ${p.assistant_id}
        and revision = ${p.assistant_revision})
      and (${p.reject} = 0 or not ${busy})
    returning *`);
});

/** The run itself, where its thread was taken for it: `last_run` says so. It runs at once where it got the slot. */
const insertRun = shape<{
  deployment: string;
  thread_id: string;
  run_id: string;
  assistant_id: string;
  graph_id: string;
  metadata: string;
  kwargs: string;
  multitask_strategy: string;
  temporary: number;
  token: string | null;
  lease_until: number | null;
  now: number;
}>((p) => {
  const claimed = (then: RawBuilder<unknown>, otherwise: RawBuilder<unknown>): RawBuilder<unknown> =>
    sql`case when slot_token = ${p.token} then ${then} else ${otherwise} end`;
  return raw(sql`insert into runs (run_id, deployment, thread_id, seq, assistant_id, graph_id, status, metadata, kwargs,
      multitask_strategy, temporary, attempt, claims, due_at, lease_token, lease_until, cancelled, saved, created_at, updated_at,
      started_at)
    select ${p.run_id}, deployment, thread_id, run_count, ${p.assistant_id}, ${p.graph_id},
      ${claimed(sql`'running'`, sql`'pending'`)}, ${p.metadata}, ${p.kwargs}, ${p.multitask_strategy}, ${p.temporary},
      ${claimed(sql`1`, sql`0`)}, ${claimed(sql`1`, sql`0`)}, ${p.now}, ${claimed(sql`${p.token}`, sql`null`)},
      ${claimed(sql`${p.lease_until}`, sql`null`)}, 0, 0, ${p.now}, ${p.now}, ${claimed(sql`${p.now}`, sql`null`)}
    from threads where deployment = ${p.deployment} and thread_id = ${p.thread_id} and last_run = ${p.run_id}
    returning status, attempt, claims, started_at, lease_token`);
});

const isBusy = shape<{ deployment: string; thread_id: string }>((p) =>
  raw(sql`select ${busy} as busy from threads where deployment = ${p.deployment} and thread_id = ${p.thread_id}`),
);

async function createRun(driver: SqlDriver, deployment: string, request: CreateRun): Promise<CreateRunOutcome> {
  const { run, seen, now } = request;
  const { thread_id, run_id, assistant_id, graph_id } = run;
  const token = request.claim?.token ?? null;
  const lease_until = request.claim?.lease_until ?? null;
  const assistant_revision = seen.assistant_revision;
  const taken = { deployment, thread_id, run_id, assistant_id, assistant_revision, graph_id, token, lease_until, now };
  const statements: SqlStatement[] = [];
  if (seen.thread_revision === null) {
    const thread = request.create_thread;
    if (!thread) throw new TypeError("createRun: a run without a seen thread needs create_thread");
    const { metadata, config, hidden } = thread;
    const columns = { metadata: JSON.stringify(metadata), config: JSON.stringify(config), hidden: hidden ? 1 : 0 };
    statements.push(insertThread({ ...taken, ...columns }));
    if (!hidden) statements.push(...addLabels("thread", deployment, thread_id, metadata));
  } else {
    const update = request.update_thread;
    statements.push(
      takeThread({
        ...taken,
        thread_revision: seen.thread_revision,
        metadata: update ? JSON.stringify(update.metadata) : null,
        config: update ? JSON.stringify(update.config) : null,
        reject: run.multitask_strategy === "reject" ? 1 : 0,
      }),
    );
    if (update) statements.push(...replaceLabels("thread", deployment, thread_id, update.metadata));
  }
  const columns = {
    run_id,
    deployment,
    thread_id,
    assistant_id,
    graph_id,
    metadata: JSON.stringify(run.metadata),
    kwargs: JSON.stringify(run.kwargs),
    multitask_strategy: run.multitask_strategy,
    temporary: run.temporary ? 1 : 0,
  };
  statements.push(insertRun({ ...columns, token, lease_until, now }));

  const results = await driver.batch(statements);
  const [inserted] = results.at(-1) as SqlRow[];
  if (inserted) {
    const times = { created_at: now, updated_at: now, ended_at: null };
    const created = { ...columns, ...times, ...inserted, error: null, result: null, saved: 0 };
    return { kind: "created", run: toRun(created), claimed: toClaim(created, results[0]?.[0] as SqlRow) };
  }
  if (seen.thread_revision === null) return { kind: "stale" };
  // What stood in the way may be gone by now: then it is stale, and the caller looks again.
  const [thread] = await driver.read(isBusy({ deployment, thread_id }));
  if (!thread) return { kind: "thread_not_found" };
  return { kind: run.multitask_strategy === "reject" && thread.busy ? "thread_busy" : "stale" };
}

// -------------------------------------------------------------------- claim

type Claim = { deployment: string; graph_ids: string; now: number };

/**
 * The run that is next: the one due longest whose thread has a free slot, and of its thread's due runs the oldest. The
 * thread's slot is what is taken, not the run: two pending runs of one thread are different rows, so taking runs would let
 * both start.
 */
const nextRun = (p: Claim): RawBuilder<string> => sql<string>`(select n.run_id from runs n
  where n.deployment = ${settled(p.deployment)} and n.status = 'pending' and n.due_at <= ${p.now}
    and n.graph_id in ${each(p.graph_ids)}
    and exists (select 1 from threads t where t.deployment = n.deployment and t.thread_id = n.thread_id
      and (t.slot_token is null or t.slot_until <= ${p.now}))
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'running')
    and not exists (select 1 from runs e where e.deployment = n.deployment and e.thread_id = n.thread_id
      and e.status = 'pending' and e.seq < n.seq and e.due_at <= ${p.now})
  order by n.due_at, n.seq limit 1)`;

const expired = (p: Claim): RawBuilder<unknown> =>
  sql`deployment = ${p.deployment} and status = 'running' and lease_until <= ${p.now}`;

/** What a claim would find. */
const outlook = shape<Claim>((p) =>
  raw(sql`select case when exists (select 1 from runs where ${expired(p)}) or ${nextRun(p)} is not null then 'claimed'
    when exists (select 1 from runs where deployment = ${p.deployment} and status = 'pending' and due_at <= ${p.now})
    then 'blocked' else 'none' end as kind`),
);

const requeueExpired = shape<Claim>((p) =>
  raw(sql`update runs set status = 'pending', lease_token = null, lease_until = null, updated_at = ${p.now}
    where ${expired(p)}`),
);

const leaseNext = shape<Claim & { token: string; lease_until: number }>((p) =>
  raw(sql`update runs set status = 'running', lease_token = ${p.token}, lease_until = ${p.lease_until},
      attempt = attempt + 1, claims = claims + 1, started_at = coalesce(started_at, ${p.now}), updated_at = ${p.now}
    where run_id = ${nextRun(p)} returning *`),
);

const takeSlot = shape<{ deployment: string; token: string; lease_until: number }>((p) =>
  raw(sql`update threads set slot_token = ${p.token}, slot_until = ${p.lease_until}
    where deployment = ${p.deployment} and thread_id = (select thread_id from runs
      where deployment = ${p.deployment} and status = 'running' and lease_token = ${p.token}) returning *`),
);

// -------------------------------------------------------------------- lease

const extendSlot = shape<Held & { lease_until: number }>((p) =>
  raw(sql`update threads set slot_until = ${p.lease_until}
    where deployment = ${p.deployment} and thread_id = ${p.thread_id} and slot_token = ${p.token}
      and exists (select 1 from runs where ${held(p)})`),
);

const extendLease = shape<Held & { lease_until: number }>((p) =>
  db.updateTable("runs").set({ lease_until: p.lease_until }).where(held(p)).returning("cancelled"),
);

const isHeld = shape<Held>((p) => db.selectFrom("runs").select("run_id").where(held(p)));

const markSaved = shape<Held>((p) => db.updateTable("runs").set({ saved: 1 }).where(held(p)).returning("run_id"));

const freeSlot = shape<Held>((p) =>
  raw(sql`update threads set slot_token = null, slot_until = null
    where deployment = ${p.deployment} and thread_id = ${p.thread_id} and slot_token = ${p.token}
      and not exists (select 1 from runs where ${held(p)})`),
);

const requeue = shape<Held & { now: number }>((p) =>
  raw(sql`update runs set status = 'pending', attempt = attempt - 1, lease_token = null, lease_until = null,
      updated_at = ${p.now} where ${held(p)} returning run_id`),
);

// ---------------------------------------------------------------------- end

type End = {
  deployment: string;
  thread_id: string;
  run_id: string;
  /** The status it must still have, with the lease it must still have then. */
  was: "pending" | "running";
  token: string | null;
  status: string;
  error: string | null;
  result: string | null;
  head: string | null;
  /** The thread's new rest; null leaves it as it is. */
  rest: string | null;
  interrupts: string | null;
  thread_error: string | null;
  now: number;
};

const ending = (p: End): RawBuilder<boolean> =>
  sql<boolean>`deployment = ${p.deployment} and thread_id = ${p.thread_id} and run_id = ${p.run_id}
    and status = ${p.was} and lease_token is not distinct from ${p.token}`;

const restThread = shape<End>((p) =>
  raw(sql`update threads set updated_at = ${p.now},
      state_updated_at = case when ${p.rest} is null then state_updated_at else ${p.now} end,
      head = coalesce(${p.head}, head), status = coalesce(${p.rest}, status),
      interrupts = coalesce(${p.interrupts}, interrupts),
      error = case when ${p.rest} is null then error else ${p.thread_error} end,
      slot_token = case when slot_token = ${p.token} then null else slot_token end,
      slot_until = case when slot_token = ${p.token} then null else slot_until end
    where deployment = ${p.deployment} and thread_id = ${p.thread_id} and exists (select 1 from runs where ${ending(p)})`),
);

const closeRun = shape<End>((p) =>
  raw(sql`update runs set status = ${p.status}, error = ${p.error}, result = ${p.result}, ended_at = ${p.now},
      updated_at = ${p.now}, lease_token = null, lease_until = null where ${ending(p)} returning run_id`),
);

/**
 * What every path does that ends a run: the thread's rest, its slot and the run change together. The run is the last, so
 * that all before it can ask whether it is still the one to end; its row is returned when it was.
 */
function endRun(end: End): SqlStatement[] {
  return [restThread(end), closeRun(end)];
}

// ------------------------------------------------------------- single rows

type RunKey = { deployment: string; thread_id: string; run_id: string };

const flagRun = shape<RunKey>((p) =>
  raw(sql`update runs set cancelled = 1 where deployment = ${p.deployment} and thread_id = ${p.thread_id}
    and run_id = ${p.run_id} and status = 'running' returning run_id`),
);

const runStatus = shape<RunKey>((p) =>
  db
    .selectFrom("runs")
    .select("status")
    .where("deployment", "=", p.deployment)
    .where("thread_id", "=", p.thread_id)
    .where("run_id", "=", p.run_id),
);

const deleteRun = shape<RunKey>((p) =>
  raw(sql`delete from runs where deployment = ${p.deployment} and thread_id = ${p.thread_id} and run_id = ${p.run_id}
    and status <> 'running' returning run_id`),
);

const getRun = shape<{ deployment: string; run_id: string }>((p) =>
  db.selectFrom("runs").selectAll().where("deployment", "=", p.deployment).where("run_id", "=", p.run_id),
);

const endedTemporary = shape<{ deployment: string; ended_before: number; limit: number }>((p) =>
  raw(sql`select run_id, thread_id from runs where deployment = ${p.deployment} and temporary = 1
    and ended_at is not null and ended_at < ${p.ended_before} order by ended_at limit ${p.limit}`),
);

const sweepRuns = shape<{ deployment: string; run_ids: string }>((p) =>
  raw(sql`delete from runs where deployment = ${p.deployment} and run_id in ${each(p.run_ids)} returning run_id`),
);

const sweepThreads = shape<{ deployment: string; thread_ids: string }>((p) =>
  raw(sql`delete from threads where deployment = ${p.deployment} and thread_id in ${each(p.thread_ids)} and hidden = 1
    and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id)`),
);

/** The verbs on runs, from their creation to their end. */
export function runVerbs(
  driver: SqlDriver,
): Pick<
  Storage,
  | "createRun"
  | "claimRun"
  | "renewLease"
  | "saveProgress"
  | "finishRun"
  | "requeueRun"
  | "releaseSlot"
  | "cancelRun"
  | "getRun"
  | "listRuns"
  | "deleteRun"
  | "sweepTemporary"
> {
  return {
    createRun: ({ deployment }, request) => createRun(driver, deployment, request),

    async claimRun({ deployment }, { graph_ids, now, token, lease_until }) {
      const claim = { deployment, graph_ids: JSON.stringify(graph_ids), now };
      // Asked before the write lock is: this is called after every run, and mostly there is nothing.
      const [seen] = await driver.read(outlook(claim));
      if (seen?.kind !== "claimed") return { kind: seen?.kind === "blocked" ? "blocked" : "none" };
      const [, leased, taken] = await driver.batch([
        requeueExpired(claim),
        leaseNext({ ...claim, token, lease_until }),
        takeSlot({ deployment, token, lease_until }),
      ]);
      const claimed = leased?.[0] ? toClaim(leased[0], taken?.[0] as SqlRow) : null;
      // Somebody else was faster: there may be more.
      return claimed ? { kind: "claimed", claimed } : { kind: "blocked" };
    },

    async renewLease({ deployment }, lease, lease_until) {
      const args = { deployment, ...lease, lease_until };
      const [, renewed] = await driver.batch([extendSlot(args), extendLease(args)]);
      return renewed?.[0] ? { cancelled: renewed[0].cancelled === 1 } : null;
    },

    async saveProgress({ deployment }, lease, progress) {
      const hasRoot = progress.checkpoints.some((checkpoint) => checkpoint.ns === "");
      const fence = { deployment, ...lease };
      const results = await driver.batch([
        ...putProgress(deployment, lease, progress),
        hasRoot ? markSaved(fence) : isHeld(fence),
      ]);
      return results.at(-1)?.length === 1;
    },

    async finishRun({ deployment }, lease, finish) {
      const { thread } = finish;
      const results = await driver.batch([
        ...(finish.discard ? discardProgress(deployment, lease) : putProgress(deployment, lease, finish.progress)),
        ...endRun({
          deployment,
          ...lease,
          was: "running",
          status: finish.status,
          error: nullable(finish.error),
          result: nullable(finish.result),
          head: thread.head,
          rest: thread.status,
          interrupts: JSON.stringify(thread.interrupts),
          thread_error: nullable(thread.error),
          now: finish.now,
        }),
      ]);
      return results.at(-1)?.length === 1;
    },

    async requeueRun({ deployment }, lease, now) {
      const args = { deployment, ...lease, now };
      const [requeued] = await driver.batch([requeue(args), freeSlot(args)]);
      return requeued?.length === 1;
    },

    async releaseSlot({ deployment }, lease) {
      await driver.batch([freeSlot({ deployment, ...lease })]);
    },

    async cancelRun({ deployment }, thread_id, run_id, now) {
      const key = { deployment, thread_id, run_id };
      const untouched = { error: null, result: null, head: null, rest: null, interrupts: null, thread_error: null };
      const [, ended, flagged, found] = await driver.batch([
        ...endRun({ ...key, ...untouched, was: "pending", token: null, status: "interrupted", now }),
        flagRun(key),
        runStatus(key),
      ]);
      if (ended?.[0]) return { kind: "ended" };
      if (flagged?.[0]) return { kind: "flagged" };
      return found?.[0] ? { kind: "finished" } : null;
    },

    async getRun({ deployment }, run_id) {
      const [row] = await driver.read(getRun({ deployment, run_id }));
      return row ? toRun(row) : null;
    },

    async listRuns({ deployment }, thread_id, query) {
      let select = db
        .selectFrom("runs")
        .selectAll()
        .where("deployment", "=", deployment)
        .where("thread_id", "=", thread_id)
        .orderBy("seq", "desc")
        .limit(query.limit)
        .offset(query.offset);
      if (query.status) select = select.where("status", "=", query.status);
      return (await driver.read(statement(select))).map(toRun);
    },

    async deleteRun({ deployment }, thread_id, run_id) {
      const key = { deployment, thread_id, run_id };
      const [deleted, left] = await driver.batch([deleteRun(key), runStatus(key)]);
      if (deleted?.[0]) return "deleted";
      return left?.[0] ? "running" : "not_found";
    },

    async sweepTemporary({ deployment }, ended_before, limit) {
      const ended = await driver.read(endedTemporary({ deployment, ended_before, limit }));
      if (ended.length === 0) return 0;
      // A run that has ended stays so: what was read still holds in the batch.
      const [swept] = await driver.batch([
        sweepRuns({ deployment, run_ids: JSON.stringify(ended.map((row) => row.run_id)) }),
        sweepThreads({ deployment, thread_ids: JSON.stringify(ended.map((row) => row.thread_id)) }),
      ]);
      return swept?.length ?? 0;
    },
  };
}

function nullable(value: Json): string | null {
  return value === null ? null : JSON.stringify(value);
}

function toRun(row: SqlRow): RunRow {
  const stored = row as unknown as Tables["runs"];
  return {
    run_id: stored.run_id,
    thread_id: stored.thread_id,
    assistant_id: stored.assistant_id,
    graph_id: stored.graph_id,
    created_at: stored.created_at,
    updated_at: stored.updated_at,
    status: stored.status as RunStatus,
    metadata: JSON.parse(stored.metadata) as JsonObject,
    kwargs: JSON.parse(stored.kwargs) as JsonObject,
    multitask_strategy: stored.multitask_strategy as MultitaskStrategy,
    attempt: stored.attempt,
    claims: stored.claims,
    temporary: stored.temporary === 1,
    started_at: stored.started_at,
    ended_at: stored.ended_at,
    error: stored.error === null ? null : (JSON.parse(stored.error) as JsonObject),
    result: stored.result === null ? null : (JSON.parse(stored.result) as Json),
  };
}

/** The claim that a run's row shows; null while it is not running. */
function toClaim(run: SqlRow, thread: SqlRow): ClaimedRun | null {
  const { run_id, thread_id, status, lease_token, saved, cancelled } = run as unknown as Tables["runs"];
  if (status !== "running") return null;
  const lease: Lease = { run_id, thread_id, token: lease_token as string };
  const held = toThread({ ...thread, running: run_id, waiting: 0 });
  return { lease, run: toRun(run), thread: held, resumed: saved === 1, cancelled: cancelled === 1 };
}
