/** The statements that create a run. */
import type { CreatedRun, CreateRun, MultitaskStrategy } from "../../../lib/storage/mod.ts";
import { namesOf, toText, valuesOf } from "../columns.ts";
import { each, scalar } from "../dialect.ts";
import type { SqlRow } from "../driver.ts";
import { OF_RUN, OF_THREAD, whenClaimed, whenCreated } from "../features.ts";
import { addLabels, replaceLabels } from "../labels.ts";
import type { Operands } from "../parameters.ts";
import { type Args, ofKey, ofThread, prepared, type RowsOf, type Statement } from "../statement.ts";
import { type RawBuilder, sql } from "../template.ts";
import { busy } from "../threads.ts";
import { firstTurn } from "../turns.ts";
import { isDue } from "./claim.ts";
import { claimNote, toClaim, toRun } from "./row.ts";
import { interruption, removal, type Stop, type Stopping } from "./stop.ts";

// The first statement decides: it updates or creates the thread only if everything allows the run. The others depend on its
// witness: the thread's `last_run` names a run that does not exist yet.

/** The tick of a cron that creates the run, and the cron as it was read. */
export type Tick = { cron_id: string; seen_next: number; seen_revision: number; scheduled_at: number };

const NO_TICK: Tick = { cron_id: "", seen_next: 0, seen_revision: 0, scheduled_at: 0 };

type RunArgs = Tick & {
  deployment: string;
  thread_id: string;
  run_id: string;
  assistant_id: string;
  assistant_revision: number;
  graph_id: string;
  token: string | null;
  lease_until: number | null;
  route: string | null;
  key: string | null;
  pending_per_thread: number;
  /** JSON list; null for a run that answers no interrupt. */
  resume_targets: string | null;
  /** The deployment's limit; null when the run is certain to fit. */
  pending: number | null;
  now: number;
};

/** The cron is enabled and as it was read. */
export const isSeen = (p: Operands<Tick>, deployment: unknown): RawBuilder<unknown> =>
  sql`exists (select 1 from crons c where c.deployment = ${deployment} and c.cron_id = ${p.cron_id} and c.enabled = 1
    and c.next_run_date = ${p.seen_next} and c.revision = ${p.seen_revision})`;

/** The cron is as it was read, and this tick was neither fired nor skipped. */
export const isOpen = (p: Operands<Tick>, deployment: unknown): RawBuilder<unknown> =>
  sql`${isSeen(p, deployment)} and not exists (select 1 from cron_firings f where f.deployment = ${deployment}
    and f.cron_id = ${p.cron_id} and f.scheduled_at = ${p.scheduled_at})`;

/** A condition for creating the run that does not depend on its thread. */
type Allowed = (p: RunArgs, deployment: unknown) => RawBuilder<unknown>;

/** The assistant is as it was read, and the idempotency key is new. */
const allowed: Allowed = (p, deployment) =>
  sql`exists (select 1 from assistants a where a.deployment = ${deployment} and a.assistant_id = ${p.assistant_id}
      and a.revision = ${p.assistant_revision})
    and not exists (select 1 from idempotency_keys k where k.deployment = ${deployment} and k.route = ${p.route}
      and k.key = ${p.key})`;

export type Answering = { deployment: string; thread_id: string; resume_targets: string | null };

/** The pending or running runs `r` of the thread that answer one of these interrupts. */
export const answeringRuns = (p: Answering, deployment: unknown): RawBuilder<unknown> =>
  sql`runs r where r.deployment = ${deployment} and r.thread_id = ${p.thread_id} and r.status in ('pending', 'running')
    and r.resume_targets is not null and exists (select 1 from ${each(sql<string>`r.resume_targets`)} answered
      where answered.value in ${each(sql<string>`${p.resume_targets}`)})`;

/** Also, no pending or running run answers one of the interrupts of this one. */
const unanswered: Allowed = (p, deployment) =>
  sql`${allowed(p, deployment)} and not exists (select 1 from ${answeringRuns(p, deployment)})`;

/** How many runs of the deployment are pending. */
export const pendingRuns = (deployment: unknown): RawBuilder<number> =>
  sql<number>`((select count(*) from runs r where r.deployment = ${deployment} and r.status = 'pending')
    - (select count(*) from runs s where s.deployment = ${deployment} and s.status = 'pending' and s.waiting_for is not null))`;

/** So many pending runs allow one more. */
type Fits = (p: RunArgs, pending: RawBuilder<number>) => RawBuilder<unknown>;
const fitsLimit: Fits = (p, pending) => sql`${pending} < ${p.pending}`;
// A text of its own: Postgres would plan one for both anew each time.
const alwaysFits: Fits = () => sql`true`;

type Columns = Args & { metadata: string; config: string; hidden: number };

/** Creates the run's thread, with the run counted and the slot taken for a claim. No effect when the thread exists. */
const insertThread = (allow: Allowed, fits: Fits): ((args: RunArgs & Columns) => Statement) =>
  prepared<RunArgs & Columns>(
    (p) =>
      sql`insert into threads (deployment, thread_id, created_at, updated_at, state_updated_at, metadata, config, graph_id,
        status, interrupts, hidden, revision, slot_token, slot_until, last_run, run_count, turn, ${namesOf(OF_THREAD.names)})
      select ${p.deployment}, ${p.thread_id}, ${p.now}, ${p.now}, ${p.now}, ${p.metadata}, ${p.config}, ${p.graph_id},
        'idle', '{}', ${p.hidden}, ${p.now}, ${p.token}, ${p.lease_until}, ${p.run_id}, 1,
        ${firstTurn(p)} + case when ${p.token} is null then 0 else 1 end, ${valuesOf(OF_THREAD.names, p)}
      where ${allow(p, p.deployment)} and ${fits(p, pendingRuns(scalar(p.deployment)))}
      on conflict do nothing returning *`,
  );

/** `changes` is 1 when metadata and config are given. */
type ExistingThread = RunArgs & {
  thread_revision: number;
  changes: number;
  metadata: string | null;
  config: string | null;
};

const itsDeployment = sql`threads.deployment`;
/** Runs `r` of the thread. */
const itsRuns = sql`runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id`;
/** How many runs of the thread are pending. */
export const itsPending: RawBuilder<number> = sql<number>`(select count(*) from ${itsRuns} and r.status = 'pending')`;

/**
 * Counts the run on its existing thread and, if the request has a claim and nothing runs or waits, gives it the slot and the next
 * turn. `before`: pending runs that go first. `fits`: the condition of the multitask strategy.
 */
const takeThread = (
  allow: Allowed,
  before: (p: ExistingThread) => RawBuilder<unknown>,
  fits: (p: ExistingThread) => RawBuilder<unknown>,
): ((args: ExistingThread) => Statement) =>
  prepared<ExistingThread>((p) => {
    const claims = sql`${p.token} is not null and (slot_token is null or slot_until <= ${p.now})
      and not exists (select 1 from ${itsRuns} and r.status = 'running')
      and not exists (select 1 from ${itsRuns} and r.status = 'pending' and ${before(p)})`;
    return sql`update threads set updated_at = ${p.now}, graph_id = ${p.graph_id},
        metadata = coalesce(${p.metadata}, metadata), config = coalesce(${p.config}, config),
        revision = revision + ${p.changes},
        slot_token = case when ${claims} then ${p.token} else slot_token end,
        slot_until = case when ${claims} then ${p.lease_until} else slot_until end,
        turn = case when ${claims} then turn + 1 else turn end,
        last_run = ${p.run_id}, run_count = run_count + 1
      where deployment = ${p.deployment} and thread_id = ${p.thread_id} and revision = ${p.thread_revision}
        and ${allow(p, itsDeployment)} and ${fits(p)}
      returning *`;
  });

const takes = (allow: Allowed, fits: Fits): Record<MultitaskStrategy, (args: ExistingThread) => Statement> => {
  const hasRoom = (p: RunArgs): RawBuilder<unknown> => fits(p, pendingRuns(itsDeployment));
  // In place of the pending runs of its thread.
  const hasRoomWithout = (p: RunArgs): RawBuilder<unknown> =>
    fits(p, sql<number>`${pendingRuns(itsDeployment)} - ${itsPending}`);
  return {
    enqueue: takeThread(
      allow,
      (p) => isDue("r", p.now),
      (p) => sql`${itsPending} < ${p.pending_per_thread} and ${hasRoom(p)}`,
    ),
    reject: takeThread(
      allow,
      () => sql`true`,
      (p) => sql`not ${busy} and ${hasRoom(p)}`,
    ),
    interrupt: takeThread(allow, () => sql`r.claims > 0`, hasRoomWithout),
    rollback: takeThread(allow, () => sql`false`, hasRoomWithout),
  };
};

interface First {
  readonly insertThread: (args: RunArgs & Columns) => Statement;
  readonly takes: Record<MultitaskStrategy, (args: ExistingThread) => Statement>;
}

/** With and without a limit of the deployment. */
const firsts = (allow: Allowed): { readonly limited: First; readonly unlimited: First } => {
  const first = (fits: Fits): First => ({ insertThread: insertThread(allow, fits), takes: takes(allow, fits) });
  return { limited: first(fitsLimit), unlimited: first(alwaysFits) };
};

const ofRequest = firsts(allowed);

/** Also, the tick is still open. */
const inTick: Allowed = (p, deployment) => sql`${allowed(p, deployment)} and ${isOpen(p, deployment)}`;

const ofTick = firsts(inTick);

/** For runs that answer interrupts: crons have none. */
const ofResume = firsts(unanswered);

type Evicting = { deployment: string; thread_id: string; run_id: string; cancel_reason: null; now: number };

/** The active runs of the thread that the first statement took for this run. */
const evicted: Stopping<Evicting> = (p, status) =>
  sql`select e.run_id from runs e where e.deployment = ${scalar(p.deployment)} and e.thread_id = ${scalar(p.thread_id)}
    and e.status = ${status} and exists (select 1 from threads w where w.deployment = ${scalar(p.deployment)}
      and w.thread_id = ${scalar(p.thread_id)} and w.last_run = ${scalar(p.run_id)})
    and not exists (select 1 from runs where run_id = ${scalar(p.run_id)})`;

const evictions: Partial<Record<MultitaskStrategy, (args: Evicting) => Stop>> = {
  interrupt: interruption(evicted),
  rollback: removal(evicted),
};

export const targetsOf = ({ resume_targets = [] }: CreateRun["run"]): string | null =>
  resume_targets.length > 0 ? JSON.stringify(resume_targets) : null;

/** Whether another run can stand in the way by answering the same interrupts: `rollback` deletes it. */
export const isUnique = (run: CreateRun["run"]): boolean =>
  targetsOf(run) !== null && run.multitask_strategy !== "rollback";

/** The columns of a run that its request decides. */
const columnsOf = (deployment: string, { run, idempotency }: CreateRun) => ({
  run_id: run.run_id,
  deployment,
  thread_id: run.thread_id,
  assistant_id: run.assistant_id,
  graph_id: run.graph_id,
  metadata: JSON.stringify(run.metadata),
  kwargs: JSON.stringify(run.kwargs),
  multitask_strategy: run.multitask_strategy,
  temporary: run.stateless ? 1 : 0,
  framed: run.resumable ? 1 : 0,
  keyed: idempotency ? 1 : 0,
  user_id: run.user_id ?? null,
  api_key: run.api_key ?? null,
  ...OF_RUN.values(run),
  auth_user: toText(run.auth_user),
  cron_id: run.cron_id ?? null,
  resume_targets: targetsOf(run),
  created_at: run.created_at,
});

type Claiming = { token: string | null; note: string; now: number };

/** Inserts the run if the first statement took its thread. It is running at once if it got the slot. */
const insertRun = prepared<ReturnType<typeof columnsOf> & Claiming>((p) => {
  const claimed = (then: RawBuilder<unknown>, otherwise: RawBuilder<unknown>): RawBuilder<unknown> =>
    sql`case when has_slot then ${then} else ${otherwise} end`;
  const [one, zero, none] = [sql`1`, sql`0`, sql`null`];
  return sql`insert into runs (run_id, deployment, thread_id, seq, assistant_id, graph_id, status, metadata, kwargs,
      multitask_strategy, temporary, attempt, claims, counts_as_attempt, turn, due_at, lease_token, lease_until, cancelled, saved, framed,
      keyed, created_at, updated_at, started_at, user_id, api_key, ${namesOf(OF_RUN.names)}, auth_user, cron_id,
      resume_targets, claim_log)
    select ${p.run_id}, deployment, thread_id, run_count, ${p.assistant_id}, ${p.graph_id},
      ${claimed(sql`'running'`, sql`'pending'`)}, ${p.metadata}, ${p.kwargs}, ${p.multitask_strategy}, ${p.temporary},
      ${claimed(one, zero)}, ${claimed(one, zero)}, ${claimed(one, zero)}, ${claimed(sql`turn`, zero)}, ${p.created_at},
      ${claimed(sql`slot_token`, none)}, ${claimed(sql`slot_until`, none)}, 0, 0, ${p.framed}, ${p.keyed},
      ${p.created_at}, ${p.now}, ${claimed(sql`${p.now}`, none)}, ${p.user_id}, ${p.api_key},
      ${valuesOf(OF_RUN.names, p)}, ${p.auth_user}, ${p.cron_id}, ${p.resume_targets},
      ${claimed(sql`${p.note}`, none)}
    from (select *, slot_token = ${p.token} as has_slot from threads
      where deployment = ${p.deployment} and thread_id = ${p.thread_id} and last_run = ${p.run_id}) as taken
    returning seq, status, attempt, claims, turn, started_at, lease_token`;
});

export type Key = { deployment: string; route: string; key: string };

/** Stores the idempotency key of the run if that was created. */
const insertKey = prepared<Key & { body_hash: string; run_id: string; now: number }>(
  (p) =>
    sql`insert into idempotency_keys (deployment, route, key, body_hash, run_id, created_at)
    select deployment, ${p.route}, ${p.key}, ${p.body_hash}, run_id, ${p.now} from runs where run_id = ${p.run_id}`,
);

/** Statements that create a run or have no effect at all. */
export interface CreateStatements {
  readonly statements: readonly Statement[];
  readonly lock_keys: readonly string[];
  /** Reads their results; null when the run was not created. */
  created(rowsOf: RowsOf): CreatedRun | null;
}

/**
 * The statements of `Storage.createRun`. `pending` is the limit of the deployment; null when the run is certain to fit. With a
 * `tick`, they create the run only while that tick is open.
 */
export function createStatements(
  deployment: string,
  request: CreateRun,
  pending: number | null,
  tick?: Tick,
): CreateStatements {
  const { run, seen, now, idempotency } = request;
  const allowing = tick ? ofTick : isUnique(run) ? ofResume : ofRequest;
  const first = allowing[pending === null ? "unlimited" : "limited"];
  const { thread_id, run_id, assistant_id, graph_id, multitask_strategy, created_at } = run;
  const claim = created_at <= now ? request.claim : undefined;
  const token = claim?.token ?? null;
  const lease_until = claim?.lease_until ?? null;
  const args: RunArgs = {
    deployment,
    thread_id,
    run_id,
    assistant_id,
    assistant_revision: seen.assistant_revision,
    graph_id,
    token,
    lease_until,
    route: idempotency?.route ?? null,
    key: idempotency?.key ?? null,
    resume_targets: targetsOf(run),
    pending_per_thread: request.limits?.pending_per_thread ?? Number.MAX_SAFE_INTEGER,
    pending,
    now,
    ...(tick ?? NO_TICK),
  };
  let taken: Statement;
  let labels: Statement[] = [];
  let eviction: Stop | undefined;
  if (seen.thread_revision === null) {
    const thread = request.create_thread;
    if (!thread) throw new TypeError("createRun: a run without a seen thread needs create_thread");
    const { metadata, config, stateless } = thread;
    const columns = { metadata: JSON.stringify(metadata), config: JSON.stringify(config), hidden: stateless ? 1 : 0 };
    taken = first.insertThread({ ...args, ...columns, ...OF_THREAD.values(thread) });
    if (!stateless) labels = addLabels("thread", deployment, thread_id, metadata);
  } else {
    const update = request.update_thread;
    const metadata = update ? JSON.stringify(update.metadata) : null;
    const config = update ? JSON.stringify(update.config) : null;
    const { thread_revision } = seen;
    taken = first.takes[multitask_strategy]({ ...args, thread_revision, changes: update ? 1 : 0, metadata, config });
    if (update) labels = replaceLabels("thread", deployment, thread_id, update.metadata);
    eviction = evictions[multitask_strategy]?.({ deployment, thread_id, run_id, cancel_reason: null, now });
  }
  const columns = columnsOf(deployment, request);
  const insert = insertRun({ ...columns, token, note: claimNote(claim?.worker, now), now });
  return {
    statements: [
      taken,
      ...labels,
      ...(eviction?.statements ?? []),
      insert,
      ...whenCreated(deployment, request),
      ...(claim ? whenClaimed(deployment, claim, { run_id, started_at: now }) : []),
      ...(idempotency ? [insertKey({ deployment, ...idempotency, run_id, now })] : []),
    ],
    lock_keys: [
      ofThread(deployment, thread_id),
      ...(idempotency ? [ofKey(deployment, idempotency)] : []),
      // Near the limit, creates count one after the other.
      ...(pending === null ? [] : [`pending ${deployment}`]),
    ],
    created(rowsOf) {
      const [inserted] = rowsOf(insert);
      if (!inserted) return null;
      const unset = { updated_at: now, ended_at: null, end_frame: null, error: null, result: null };
      const once = { cancelled: 0, counts_as_attempt: 1, saved: 0, last_frame: 0 };
      const row = { ...columns, ...unset, ...inserted, ...once };
      const claimed = toClaim(row, rowsOf(taken)[0] as SqlRow);
      return { run: claimed?.run ?? toRun(row), claimed, stopped: eviction?.stopped(rowsOf) ?? [] };
    },
  };
}

/** Whether runs with this strategy evict the earlier runs of their thread. */
export const evicts = (strategy: MultitaskStrategy): boolean => strategy in evictions;
