/** Creating runs: `Storage.createRun` and `createRuns`, and the results of requests that create none. */
import type {
  CreatedRun,
  CreateRun,
  CreateRunResult,
  CreateRunsResult,
  IdempotencyKey,
  RepeatedRun,
} from "../../../lib/storage/mod.ts";
import { createRowFinder, type Database } from "../database.ts";
import { isFailedAssertion } from "../errors.ts";
import {
  countPendingRuns,
  evicts,
  requireRuns,
  selectAnsweringRun,
  selectObstacles,
  selectRunOfKey,
} from "../statements/runs-create.ts";
import { createRunStatements, excludesOtherAnswers, toTargets } from "./create-statements.ts";
import { toRun } from "./row.ts";

/**
 * Returns the run that first used an idempotency key, and whether the request had the same body. Returns null if the key is
 * unknown; `run` is null if that run was deleted. See `Storage.findFirstRunByKey`.
 * @statements selectRunOfKey
 */
export async function findFirstRunByKey(
  driver: Database,
  deployment: string,
  { route, key, body_hash }: IdempotencyKey,
): Promise<RepeatedRun | null> {
  const [row] = await driver.read(selectRunOfKey({ deployment, route, key }));
  if (!row) return null;
  const same_body = row.key_hash === body_hash;
  return { kind: "repeated", run: row.run_id === null ? null : toRun(row), same_body };
}

/** Counts the pending runs of a deployment. */
export async function countPending(driver: Database, deployment: string): Promise<number> {
  const [counted] = await driver.read(countPendingRuns({ deployment }));
  return counted?.pending ?? 0;
}

/**
 * Creates a run if the request is possible, and otherwise returns the earlier run of its key, or the reason
 * (`readNotCreatedResult`). See `Storage.createRun`; `pending_limit` as for `createRunStatements`.
 * @statements createRunStatements · findFirstRunByKey · excludesOtherAnswers · selectAnsweringRun · countPendingRuns ·
 *   selectObstacles · evicts
 * @guards Locks: thread, idempotency key, and `pending` when the deployment limit is near.
 *   1. Decides: insert the thread, or update it (`last_run = :run`, `run_count + 1`, slot if the claim is possible).
 *      Requires: assistant and thread revision as seen; idempotency key unknown; room under the limits; for `reject` a
 *      thread that is not busy; for a run that answers interrupts, but with `rollback`, no active run of the thread
 *      that answers one of them. A claim requires a free slot, no running run, and no run that goes before.
 *   2. Labels of the thread, if its metadata changed.
 *   3. `interrupt`: end the pending runs that were never claimed, flag the others. `rollback`: delete the active runs
 *      and what they left. Both require `last_run = :run`.
 *   4. Insert the run from the thread row where `last_run = :run`; `running`, with the claim in its `claim_log`, if
 *      `slot_token` is the claim's.
 *   5. Features, trace of a claimed first attempt, idempotency key: each requires the run.
 *   Outcome: rows of 4. Without rows, a read finds the reason; if the obstacle is gone by then, the outcome is `stale`.
 */
export async function createRun(
  driver: Database,
  deployment: string,
  request: CreateRun,
  pending_limit: number | null,
): Promise<CreateRunResult> {
  const { statements, lock_keys, toCreatedRun } = createRunStatements(deployment, request, pending_limit);
  const run = toCreatedRun(createRowFinder(statements, await driver.batch(statements, lock_keys)));
  return run ? { kind: "created", ...run } : await readNotCreatedResult(driver, deployment, request);
}

/**
 * Creates all runs or none. Returns the earlier runs if all keys were used before, else the first reason that is not `stale`,
 * with the index of its request. `pending_limit` as for `createRunStatements`. See `Storage.createRuns`.
 * @statements createRunStatements · requireRuns · readNotCreatedResult
 * @guards the statements of each run · fail the batch if any run is missing.
 */
export async function createRuns(
  driver: Database,
  deployment: string,
  requests: readonly CreateRun[],
  pending_limit: number | null,
): Promise<CreateRunsResult> {
  const creates = requests.map((request) => createRunStatements(deployment, request, pending_limit));
  const run_ids = JSON.stringify(requests.map(({ run }) => run.run_id));
  try {
    const statements = [
      ...creates.flatMap((create) => create.statements),
      requireRuns({ run_ids, count: requests.length }),
    ];
    const lock_keys = creates.flatMap(({ lock_keys }) => lock_keys);
    const findRows = createRowFinder(statements, await driver.batch(statements, lock_keys));
    return { kind: "created", created: creates.map(({ toCreatedRun }) => toCreatedRun(findRows) as CreatedRun) };
  } catch (error) {
    if (!isFailedAssertion(error)) throw error;
  }
  const outcomes: NotCreatedResult[] = [];
  const waitingRequests: CreateRun[] = [];
  for (const request of requests) {
    outcomes.push(await readNotCreatedResult(driver, deployment, request, waitingRequests));
    if (!request.claim || !request.create_thread) waitingRequests.push(request);
  }
  const repeated = outcomes.filter((outcome) => outcome.kind === "repeated");
  if (repeated.length === outcomes.length) {
    return {
      kind: "repeated",
      runs: repeated.map(({ run }) => run),
      same_body: repeated.every(({ same_body }) => same_body),
    };
  }
  const index = Math.max(
    0,
    outcomes.findIndex(({ kind }) => kind !== "stale"),
  );
  return { kind: "refused", index, result: outcomes[index] as NotCreatedResult };
}

/** The result of a request that created no run: an earlier run (`repeated`), or the reason. */
export type NotCreatedResult = Exclude<CreateRunResult, { kind: "created" }>;

/**
 * Reads the result of a request that created no run. Returns the first of these: the run that used the idempotency key
 * (`repeated`: the request succeeds), `interrupt_answered`, `thread_not_found`, `thread_busy`, `thread_full`,
 * `deployment_full`. Returns `stale` if none applies (any more): the caller reads again and retries. `earlierRequests` of the
 * same call count as pending.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the results in their order
export async function readNotCreatedResult(
  driver: Database,
  deployment: string,
  request: CreateRun,
  earlierRequests: readonly CreateRun[] = [],
): Promise<NotCreatedResult> {
  const { run, expected, idempotency, limits } = request;
  const repeated = idempotency && (await findFirstRunByKey(driver, deployment, idempotency));
  if (repeated) return repeated;
  if (excludesOtherAnswers(run)) {
    const terms = { deployment, thread_id: run.thread_id, resume_targets: toTargets(run) };
    const [answeringRun] = await driver.read(selectAnsweringRun(terms));
    if (answeringRun) return { kind: "interrupt_answered", run_id: answeringRun.run_id };
  }
  if (expected.thread_revision === null) {
    const pending = await countPending(driver, deployment);
    return limits && pending + earlierRequests.length >= limits.pending
      ? { kind: "deployment_full", pending }
      : { kind: "stale" };
  }
  const [obstacles] = await driver.read(selectObstacles({ deployment, thread_id: run.thread_id }));
  if (!obstacles) return { kind: "thread_not_found" };
  if (run.multitask_strategy === "reject" && obstacles.busy) return { kind: "thread_busy" };
  const { pending, pending_of_thread: waiting } = obstacles;
  const evictsPending = evicts(run.multitask_strategy);
  const earlierOnThread = earlierRequests.filter((earlier) => earlier.run.thread_id === run.thread_id).length;
  if (limits && !evictsPending && waiting + earlierOnThread >= limits.pending_per_thread)
    return { kind: "thread_full", pending: waiting };
  if (limits && pending + earlierRequests.length - (evictsPending ? waiting : 0) >= limits.pending)
    return { kind: "deployment_full", pending };
  return { kind: "stale" };
}
