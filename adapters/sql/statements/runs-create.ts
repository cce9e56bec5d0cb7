/**
 * Statements that create a run, in the order of their batch:
 *
 * 1. `insertThreadOfRun` or `takeThread` decides: it has an effect only if everything allows the run. It counts the run, gives it the
 *    slot for a claim, and leaves the witness of the others: `last_run` names the new run, which does not exist yet.
 * 2. `insertRun` requires that witness. The run is running if it has the slot.
 * 3. `insertKey` requires the run.
 */
import { type Expression, type RawBuilder, sql } from "kysely";
import type { MultitaskStrategy } from "../../../lib/storage/mod.ts";
import { assertThat } from "../assertions.ts";
import { firstClaimCount } from "../claim-counts.ts";
import { pick } from "../columns.ts";
import { RUN_COLUMNS, THREAD_COLUMNS } from "../features.ts";
import { jsonStrings } from "../functions.ts";
import { bigint, columns, type Operand, type Operands, orNull, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, insertFrom, query, shapedQuery } from "../query.ts";
import { agentTables } from "../schema/agents.ts";
import type { CoreTables } from "../schema/tables.ts";
import { busy, isActiveRun } from "../thread-status.ts";
import { isFireTimeOpen } from "./crons.ts";
import { isDue } from "./runs-claim.ts";

const db = createBuilder<CoreTables>();

const stable = { stable: true };

// ------------------------------------------------------ what allows the run

/** The additional condition for a run: nothing, the fire time of its cron is open, or no active run answers the same interrupts. */
export type Origin = "request" | "cron" | "resume";

const runTypes = columns(agentTables.runs, ["deployment", "thread_id", "run_id", "assistant_id", "graph_id"]);

/** `pending_limit` and `pending_per_thread` limit the deployment and the thread. A claim has `token` and `lease_until`. */
const decisionTypes = {
  ...runTypes,
  ...{ assistant_revision: bigint, route: orNull(text), key: orNull(text), resume_targets: orNull(text) },
  ...{ cron_id: text, seen_next: bigint, seen_revision: bigint, scheduled_at: bigint },
  ...{
    pending_limit: bigint,
    pending_per_thread: bigint,
    token: orNull(text),
    lease_until: orNull(bigint),
    now: bigint,
  },
};

type Decision = ParametersFor<typeof decisionTypes>;

/** Returns the pending or running runs of a thread that answer one of these interrupts, as alias `r`, for `from`. */
const answeringRuns = (
  p: Operands<{ deployment: string; thread_id: string; resume_targets: string | null }>,
): RawBuilder<unknown> =>
  sql`runs r where r.deployment = ${p.deployment} and r.thread_id = ${p.thread_id} and ${isActiveRun}
    and r.resume_targets is not null and exists (select 1 from ${jsonStrings(sql<string>`r.resume_targets`)} answered
      where answered.value in ${jsonStrings(sql<string>`${p.resume_targets}`)})`;

/** The condition of each origin. */
const ORIGINS: Readonly<Record<Origin, (p: Decision) => RawBuilder<boolean>>> = {
  request: () => sql<boolean>`true`,
  cron: isFireTimeOpen,
  resume: (p) => sql<boolean>`not exists (select 1 from ${answeringRuns(p)})`,
};

/** Returns the condition that the assistant is as it was read, the idempotency key is new, and the origin allows the run. */
const isRequestStillValid = (p: Decision, origin: Origin): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from assistants a where a.deployment = ${p.deployment} and a.assistant_id = ${p.assistant_id}
      and a.revision = ${p.assistant_revision})
    and not exists (select 1 from idempotency_keys k where k.deployment = ${p.deployment} and k.route = ${p.route}
      and k.key = ${p.key})
    and ${ORIGINS[origin](p)}`;

/** The number of pending runs of a deployment, without suspended ones. */
const pendingRuns = (deployment: Operand<string>): RawBuilder<number> =>
  sql<number>`((select count(*) from runs r where r.deployment = ${deployment} and r.status = 'pending')
    - (select count(*) from runs s where s.deployment = ${deployment} and s.status = 'pending' and s.waiting_for is not null))`;

/** Other runs `r` of the thread. */
const otherRuns = sql`runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id`;

/** The number of pending runs of the thread. */
const pendingRunsOfThread = sql<number>`(select count(*) from ${otherRuns} and r.status = 'pending')`;

// ----------------------------------------------------------------- the thread

/** The conditions of a new run. `limited`: the limit of the deployment is compared, because the run is not certain to fit. */
export interface DecisionShape {
  readonly origin: Origin;
  readonly limited: boolean;
}

/** Inserts the thread of a new run, with the run counted and the slot taken for a claim. Returns it, unless it exists. */
export const insertThreadOfRun = shapedQuery(
  (_: DecisionShape) => ({
    ...decisionTypes,
    ...columns(agentTables.threads, ["metadata", "config", "hidden"]),
    ...THREAD_COLUMNS.types,
  }),
  (p, { origin, limited }) =>
    insertFrom(
      db,
      "threads",
      {
        deployment: p.deployment,
        thread_id: p.thread_id,
        created_at: p.now,
        updated_at: p.now,
        state_updated_at: p.now,
        metadata: p.metadata,
        config: p.config,
        graph_id: p.graph_id,
        status: sql.lit("idle"),
        interrupts: sql.lit("{}"),
        hidden: p.hidden,
        all_events: sql.lit(0),
        revision: p.now,
        slot_token: p.token,
        slot_until: p.lease_until,
        last_run: p.run_id,
        run_count: sql.lit(1),
        claim_count: sql<number>`${firstClaimCount(p)} + case when ${p.token} is null then 0 else 1 end`,
        ...pick(p, THREAD_COLUMNS.names),
      },
      sql`where ${isRequestStillValid(p, origin)}
        and ${limited ? sql`${pendingRuns(p.deployment)} < ${p.pending_limit}` : sql`true`}`,
    )
      .onConflict((conflict) => conflict.doNothing())
      .returningAll(),
  {
    stable: true,
    shapes: [
      { origin: "request", limited: true },
      { origin: "cron", limited: false },
    ],
  },
);

export interface TakeShape extends DecisionShape {
  readonly strategy: MultitaskStrategy;
}

/** The effect of a multitask strategy on the other runs of the thread. */
interface Strategy {
  /** Pending runs `r` that go before the new run, so that it cannot start at once. */
  isAhead(p: Decision): RawBuilder<boolean>;
  /** The thread takes the run. */
  isWithinLimits(p: Decision): RawBuilder<boolean>;
  /** The new run replaces the pending runs of its thread. */
  readonly evicts: boolean;
}

const STRATEGIES: Readonly<Record<MultitaskStrategy, Strategy>> = {
  enqueue: {
    isAhead: (p) => isDue("r", p.now),
    isWithinLimits: (p) => sql<boolean>`${pendingRunsOfThread} < ${p.pending_per_thread}`,
    evicts: false,
  },
  // `fits` allows no active run, so none can go before.
  reject: { isAhead: () => sql<boolean>`true`, isWithinLimits: () => sql<boolean>`not ${busy}`, evicts: false },
  // It ends the runs that were never claimed. A worker must end the others.
  interrupt: { isAhead: () => sql<boolean>`r.claims > 0`, isWithinLimits: () => sql<boolean>`true`, evicts: true },
  // It deletes all of them.
  rollback: { isAhead: () => sql<boolean>`false`, isWithinLimits: () => sql<boolean>`true`, evicts: true },
};

/** Returns true if runs with this strategy evict the earlier runs of their thread. */
export const evicts = (strategy: MultitaskStrategy): boolean => STRATEGIES[strategy].evicts;

/**
 * Returns the condition that the run locks the thread at once: it has a claim, the thread is not locked, no other run is
 * running, and the strategy puts no pending run before it.
 */
const canStartNow = (p: Decision, { isAhead }: Strategy): RawBuilder<boolean> =>
  sql<boolean>`${p.token} is not null and (threads.slot_token is null or threads.slot_until <= ${p.now})
          and not exists (select 1 from ${otherRuns} and r.status = 'running')
          and not exists (select 1 from ${otherRuns} and r.status = 'pending' and ${isAhead(p)})`;

/**
 * Counts a new run on its existing thread, if the thread is as it was read. If it starts at once, the run gets the slot and the next
 * claim number. `changes` is 1 with new metadata and config. Returns the thread.
 */
export const takeThread = shapedQuery(
  (_: TakeShape) => ({
    ...decisionTypes,
    ...{ thread_revision: bigint, changes: bigint, metadata: orNull(text), config: orNull(text) },
  }),
  (p, { strategy, origin, limited }) => {
    const { isWithinLimits, evicts } = STRATEGIES[strategy];
    const pendingAfter = sql`${pendingRuns(p.deployment)}${evicts ? sql` - ${pendingRunsOfThread}` : sql``}`;
    return sql<CoreTables["threads"]>`update threads set updated_at = ${p.now}, graph_id = ${p.graph_id},
      metadata = coalesce(${p.metadata}, metadata), config = coalesce(${p.config}, config),
      revision = revision + ${p.changes}, last_run = ${p.run_id}, run_count = run_count + 1,
      (slot_token, slot_until, claim_count) = (select
          case when starts then ${p.token} else threads.slot_token end,
          case when starts then ${p.lease_until} else threads.slot_until end,
          case when starts then threads.claim_count + 1 else threads.claim_count end
        from (select ${canStartNow(p, STRATEGIES[strategy])} as starts) claim)
      where deployment = ${p.deployment} and thread_id = ${p.thread_id} and revision = ${p.thread_revision}
        and ${isRequestStillValid(p, origin)} and ${isWithinLimits(p)} and ${limited ? sql`${pendingAfter} < ${p.pending_limit}` : sql`true`}
      returning *`;
  },
  {
    stable: true,
    shapes: [
      { strategy: "enqueue", origin: "request", limited: true },
      { strategy: "reject", origin: "resume", limited: false },
      { strategy: "interrupt", origin: "cron", limited: true },
      { strategy: "rollback", origin: "request", limited: false },
    ],
  },
);

// -------------------------------------------------------------------- the run

const insertTypes = {
  ...runTypes,
  ...columns(agentTables.runs, [
    "metadata",
    "kwargs",
    "multitask_strategy",
    "stateless",
    "has_frames",
    "has_idempotency_key",
  ]),
  ...columns(agentTables.runs, ["user_id", "api_key", "auth_user", "cron_id", "resume_targets", "created_at"]),
  ...columns(agentTables.runs, ["assistant_version"]),
  ...RUN_COLUMNS.types,
};

/**
 * Inserts the run if the first statement took its thread. It is running at once if it has the slot: `started` is 1 then. Returns what the
 * thread decided.
 */
export const insertRun = query({ ...insertTypes, token: orNull(text), log_entry: text, now: bigint }, (p) => {
  const ifStarted = <Value>(value: Expression<Value>) => sql<Value | null>`case started when 1 then ${value} end`;
  return insertFrom(
    db,
    "runs",
    {
      run_id: p.run_id,
      deployment: sql<string>`deployment`,
      thread_id: sql<string>`thread_id`,
      seq: sql<number>`run_count`,
      assistant_id: p.assistant_id,
      graph_id: p.graph_id,
      status: sql<string>`case started when 1 then 'running' else 'pending' end`,
      metadata: p.metadata,
      kwargs: p.kwargs,
      multitask_strategy: p.multitask_strategy,
      stateless: p.stateless,
      attempt: sql<number>`started`,
      claims: sql<number>`started`,
      counts_as_attempt: sql<number>`started`,
      claim_number: sql<number>`started * claim_count`,
      due_at: p.created_at,
      lease_token: ifStarted(sql<string>`slot_token`),
      lease_until: ifStarted(sql<number>`slot_until`),
      cancelled: sql.lit(0),
      has_checkpoint: sql.lit(0),
      progressed: sql.lit(1),
      has_frames: p.has_frames,
      has_idempotency_key: p.has_idempotency_key,
      created_at: p.created_at,
      updated_at: p.now,
      started_at: ifStarted(p.now),
      user_id: p.user_id,
      api_key: p.api_key,
      ...pick(p, RUN_COLUMNS.names),
      auth_user: p.auth_user,
      cron_id: p.cron_id,
      resume_targets: p.resume_targets,
      claim_log: ifStarted(p.log_entry),
      assistant_version: p.assistant_version,
    },
    sql`from (select *, case when slot_token = ${p.token} then 1 else 0 end as started from threads
      where deployment = ${p.deployment} and thread_id = ${p.thread_id} and last_run = ${p.run_id}) as taken`,
  ).returning(["seq", "status", "attempt", "claims", "claim_number", "started_at", "lease_token"]);
});

/** Inserts the idempotency key of the run, if that was created. */
export const insertKey = query(
  { ...columns(agentTables.idempotency_keys, ["route", "key", "body_hash", "run_id"]), now: bigint },
  (p) =>
    insertFrom(
      db,
      "idempotency_keys",
      {
        deployment: sql<string>`deployment`,
        route: p.route,
        key: p.key,
        body_hash: p.body_hash,
        run_id: sql<string>`run_id`,
        created_at: p.now,
      },
      sql`from runs where run_id = ${p.run_id}`,
    ),
);

// ------------------------------------------------------------- why none was created

/** Selects an idempotency key with the run that it refers to, whose columns are null if the run was deleted. */
export const selectRunOfKey = query(
  columns(agentTables.idempotency_keys, ["deployment", "route", "key"]),
  (p) =>
    sql<
      { key_hash: string } & (CoreTables["runs"] | { run_id: null })
    >`select k.body_hash as key_hash, r.* from idempotency_keys k
    left join runs r on r.deployment = k.deployment and r.run_id = k.run_id
    where k.deployment = ${p.deployment} and k.route = ${p.route} and k.key = ${p.key}`,
  stable,
);

/** Counts the pending runs of a deployment, without suspended ones. */
export const countPendingRuns = query(
  { deployment: text },
  (p) => sql<{ pending: number }>`select ${pendingRuns(p.deployment)} as pending`,
  stable,
);

/** Selects what may have stood in the way of a run on an existing thread. */
export const selectObstacles = query(
  { deployment: text, thread_id: text },
  (p) =>
    sql<{ pending: number; pending_of_thread: number; busy: number }>`select ${pendingRuns(p.deployment)} as pending,
      ${pendingRunsOfThread} as pending_of_thread, ${busy} as busy
    from threads where deployment = ${p.deployment} and thread_id = ${p.thread_id}`,
  stable,
);

/** Selects the first active run of a thread that answers one of these interrupts. */
export const selectAnsweringRun = query(
  { deployment: text, thread_id: text, resume_targets: orNull(text) },
  (p) => sql<{ run_id: string }>`select r.run_id from ${answeringRuns(p)} order by r.seq limit 1`,
  stable,
);

/** Fails the batch unless all of these runs exist. `run_ids` is a JSON list. */
export const requireRuns = query({ run_ids: text, count: bigint }, (p) =>
  assertThat(sql`(select count(*) from runs where run_id in ${jsonStrings(p.run_ids)}) >= ${p.count}`),
);
