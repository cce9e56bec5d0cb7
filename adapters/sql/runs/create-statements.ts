/** The statements that create a run, in the order of their batch. */
import { copyPlainJson, type JsonObject } from "../../../lib/json.ts";
import type { CreatedRun, CreateRun, LeaseTerms } from "../../../lib/storage/mod.ts";
import { createClaimLogEntry } from "../claim-log.ts";
import { encodeJson } from "../columns.ts";
import { idempotencyLockKey, type RowFinder, threadLockKey } from "../database.ts";
import { RUN_COLUMNS, runClaimedStatements, runCreatedStatements, THREAD_COLUMNS } from "../features.ts";
import { insertIndexEntries, replaceIndexEntries } from "../metadata-index.ts";
import type { Statement } from "../query.ts";
import type { CoreTables } from "../schema/tables.ts";
import type { FireTime } from "../statements/crons.ts";
import {
  type DecisionShape,
  evicts,
  insertKey,
  insertRun,
  insertThreadOfRun,
  type Origin,
  takeThread,
} from "../statements/runs-create.ts";
import { toClaim, toRun } from "./row.ts";
import { deletionStatements, interruptStatements, type StopStatements, toStopArguments } from "./stop.ts";

/** The interrupts that the run answers, as JSON; null for a run that answers none. */
export const toTargets = ({ resume_targets = [] }: CreateRun["run"]): string | null =>
  resume_targets.length > 0 ? JSON.stringify(resume_targets) : null;

/** Returns true if the run is refused while another one answers the same interrupts. With `rollback` it deletes that one instead. */
export const excludesOtherAnswers = (run: CreateRun["run"]): boolean =>
  toTargets(run) !== null && run.multitask_strategy !== "rollback";

/** Returns the columns of a new run that its request decides. `metadata`, `kwargs` and the user become JSON text. */
const toColumns = (deployment: string, { run, idempotency }: CreateRun) => ({
  run_id: run.run_id,
  deployment,
  thread_id: run.thread_id,
  assistant_id: run.assistant_id,
  assistant_version: run.assistant_version ?? null,
  graph_id: run.graph_id,
  metadata: JSON.stringify(run.metadata),
  kwargs: JSON.stringify(run.kwargs),
  multitask_strategy: run.multitask_strategy,
  stateless: run.stateless ? 1 : 0,
  has_frames: run.resumable ? 1 : 0,
  has_idempotency_key: idempotency ? 1 : 0,
  user_id: run.user_id ?? null,
  api_key: run.api_key ?? null,
  ...RUN_COLUMNS.values(run),
  auth_user: encodeJson(run.auth_user),
  cron_id: run.cron_id ?? null,
  resume_targets: toTargets(run),
  created_at: run.created_at,
});

/** The conditions of the creation of a run that are not in its request. */
interface CreationTerms {
  /** Absent for a run that is not due yet. */
  readonly claim: LeaseTerms | undefined;
  /** The limit of pending runs of the deployment; null when the run is certain to fit. */
  readonly pending_limit: number | null;
  readonly fire_time: FireTime | undefined;
}

/**
 * Returns the arguments of the first statement, which decides whether the run is created, and can lock its thread for a claim.
 * Without a limit per thread it gets the greatest number.
 */
function toDecision(
  deployment: string,
  { run, expected, idempotency, limits, now }: CreateRun,
  { claim, pending_limit, fire_time }: CreationTerms,
) {
  const { thread_id, run_id, assistant_id, graph_id } = run;
  return {
    ...{ cron_id: "", seen_next: 0, seen_revision: 0, scheduled_at: 0, ...fire_time },
    ...{ deployment, thread_id, run_id, assistant_id, graph_id, now },
    assistant_revision: expected.assistant_revision,
    token: claim?.token ?? null,
    lease_until: claim?.lease_until ?? null,
    route: idempotency?.route ?? null,
    key: idempotency?.key ?? null,
    resume_targets: toTargets(run),
    pending_limit: pending_limit ?? 0,
    pending_per_thread: limits?.pending_per_thread ?? Number.MAX_SAFE_INTEGER,
  };
}

type Decision = ReturnType<typeof toDecision>;

/** The statements on the thread of a new run. `taken` is the first one of the batch: it returns the thread if it takes the run. */
interface ThreadStatements {
  readonly threadStatement: Statement<CoreTables["threads"]>;
  readonly entries: readonly Statement<unknown>[];
  readonly eviction?: StopStatements;
}

/**
 * Returns the statements that insert the thread of a run with its index entries. The thread of a stateless run is hidden and
 * has no entries. Throws a TypeError without `create_thread`.
 */
function createThreadStatements(request: CreateRun, decision: Decision, shape: DecisionShape): ThreadStatements {
  const { create_thread } = request;
  if (!create_thread) throw new TypeError("createRun: a run without a seen thread needs create_thread");
  const { metadata, config, stateless } = create_thread;
  const { deployment, thread_id } = decision;
  return {
    threadStatement: insertThreadOfRun(shape, {
      ...decision,
      ...THREAD_COLUMNS.values(create_thread),
      metadata: JSON.stringify(metadata),
      config: JSON.stringify(config),
      hidden: stateless ? 1 : 0,
    }),
    entries: stateless ? [] : insertIndexEntries("thread", deployment, thread_id, metadata),
  };
}

/**
 * Returns the statements that take an existing thread for a run and, with `update_thread`, replace its metadata and config. A
 * strategy that stops other runs of the thread also gives the statements for that: they end or flag those runs, or with
 * `rollback` delete them.
 */
function updateThreadStatements(
  { run: { multitask_strategy: strategy }, update_thread }: CreateRun,
  thread_revision: number,
  decision: Decision,
  shape: DecisionShape,
): ThreadStatements {
  const { deployment, thread_id, run_id, now } = decision;
  const threadStatement = takeThread(
    { ...shape, strategy },
    {
      ...decision,
      thread_revision,
      changes: update_thread ? 1 : 0,
      metadata: update_thread ? JSON.stringify(update_thread.metadata) : null,
      config: update_thread ? JSON.stringify(update_thread.config) : null,
    },
  );
  const entries = update_thread ? replaceIndexEntries("thread", deployment, thread_id, update_thread.metadata) : [];
  if (!evicts(strategy)) return { threadStatement, entries };
  const evictedRuns = { runs: "evicted", filtered: false } as const;
  const args = toStopArguments({ deployment, thread_id, run_id, now });
  const eviction =
    strategy === "interrupt" ? interruptStatements(evictedRuns, args, null) : deletionStatements(evictedRuns, args);
  return { threadStatement, entries, eviction };
}

/**
 * Returns what creates the run: `cron` with a fire time, else `resume` if the run answers interrupts that no other run may
 * answer, else `request`.
 */
function toOrigin({ run }: CreateRun, fire_time: FireTime | undefined): Origin {
  if (fire_time) return "cron";
  return excludesOtherAnswers(run) ? "resume" : "request";
}

/** The run that is created shares the texts of a request that is longer, in characters. */
const LARGE_KWARGS_CHARS = 64 * 1024;

/** Statements that create a run or have no effect at all. */
export interface CreateStatements {
  readonly statements: readonly Statement<unknown>[];
  readonly lock_keys: readonly string[];
  /** Reads their results; null when the run was not created. */
  toCreatedRun(findRows: RowFinder): CreatedRun | null;
}

/**
 * Returns the statements and lock keys of `Storage.createRun`, and a function that reads the created run from their rows.
 * `pending_limit` is that of the deployment; null if the run is certain to fit. With a `fire_time`, the run is created only
 * while that has no firing. A claim is tried only for a run that is due. The returned run does not share its `kwargs` with the
 * request.
 */
export function createRunStatements(
  deployment: string,
  request: CreateRun,
  pending_limit: number | null,
  fire_time?: FireTime,
): CreateStatements {
  const { run, expected, now, idempotency } = request;
  const { thread_id, run_id, created_at } = run;
  const claim = created_at <= now ? request.claim : undefined;
  const decision = toDecision(deployment, request, { claim, pending_limit, fire_time });
  const shape = { origin: toOrigin(request, fire_time), limited: pending_limit !== null };
  const { threadStatement, entries, eviction } =
    expected.thread_revision === null
      ? createThreadStatements(request, decision, shape)
      : updateThreadStatements(request, expected.thread_revision, decision, shape);
  const columns = toColumns(deployment, request);
  // Made now, because the caller may change its objects. To parse the text again would copy a large input.
  const copy =
    columns.kwargs.length > LARGE_KWARGS_CHARS ? (copyPlainJson(run.kwargs) as JsonObject | undefined) : undefined;
  const insert = insertRun({
    ...columns,
    token: decision.token,
    log_entry: createClaimLogEntry(claim?.worker, now),
    now,
  });
  return {
    statements: [
      threadStatement,
      ...entries,
      ...(eviction?.statements ?? []),
      insert,
      ...runCreatedStatements(deployment, request),
      ...(claim ? runClaimedStatements(deployment, claim, { run_id, started_at: now }) : []),
      ...(idempotency ? [insertKey({ ...idempotency, run_id, now })] : []),
    ],
    lock_keys: [
      threadLockKey(deployment, thread_id),
      ...(idempotency ? [idempotencyLockKey(deployment, idempotency)] : []),
      // Near the limit, creates count one after the other.
      ...(pending_limit === null ? [] : [`pending ${deployment}`]),
    ],
    /** Returns the created run from the rows of the batch; null if it was refused. */
    toCreatedRun(findRows) {
      const [[inserted], [thread]] = [findRows(insert), findRows(threadStatement)];
      if (!inserted || !thread) return null;
      const unsetColumns = {
        ...{ updated_at: now, ended_at: null, end_frame: null, error: null, result: null },
        ...{
          cancel_reason: null,
          waiting_for: null,
          cancelled: 0,
          counts_as_attempt: 1,
          has_checkpoint: 0,
          last_frame: 0,
        },
      };
      const row = { ...columns, ...unsetColumns, ...inserted, kwargs: copy ?? columns.kwargs };
      const claimed = toClaim(row, thread);
      return { run: claimed?.run ?? toRun(row), claimed, stopped: eviction?.toStoppedRuns(findRows) ?? [] };
    },
  };
}
