/** Creating runs: `Storage.createRun` and `createRuns`, and why they refuse. */
import type {
  CreatedRun,
  CreateRun,
  CreateRunOutcome,
  CreateRunsOutcome,
  IdempotencyKey,
  RepeatedRun,
} from "../../../lib/storage/mod.ts";
import { each, scalar } from "../dialect.ts";
import { type Database, prepared, rowsIn } from "../statement.ts";
import { sql } from "../template.ts";
import { busy } from "../threads.ts";
import {
  type Answering,
  answeringRuns,
  createStatements,
  evicts,
  isUnique,
  itsPending,
  type Key,
  pendingRuns,
  targetsOf,
} from "./create-statements.ts";
import { toRun } from "./row.ts";

/** The run that an idempotency key refers to. */
const knownKey = prepared<Key>(
  (p) =>
    sql`select k.body_hash as key_hash, r.* from idempotency_keys k
    left join runs r on r.deployment = k.deployment and r.run_id = k.run_id
    where k.deployment = ${scalar(p.deployment)} and k.route = ${scalar(p.route)} and k.key = ${scalar(p.key)}`,
);

const pendingNow = prepared<{ deployment: string }>((p) => sql`select ${pendingRuns(scalar(p.deployment))} as pending`);

/** What may have stood in the way of a run on an existing thread. */
const obstacles = prepared<{ deployment: string; thread_id: string }>(
  (p) =>
    sql`select ${pendingRuns(scalar(p.deployment))} as pending, ${itsPending} as pending_of_thread, ${busy} as busy
    from threads where deployment = ${p.deployment} and thread_id = ${p.thread_id}`,
);

/** The run that answers one of these interrupts. */
const answering = prepared<Answering>(
  (p) => sql`select r.run_id from ${answeringRuns(p, scalar(p.deployment))} order by r.seq limit 1`,
);

/**
 * See `Storage.findRepeated`.
 *
 * @statements knownKey
 */
export async function findRepeated(
  driver: Database,
  deployment: string,
  { route, key, body_hash }: IdempotencyKey,
): Promise<RepeatedRun | null> {
  const [known] = await driver.read(knownKey({ deployment, route, key }));
  if (!known) return null;
  const same_body = known.key_hash === body_hash;
  return { kind: "repeated", run: known.run_id === null ? null : toRun(known), same_body };
}

/** Counts the pending runs of a deployment. */
export async function countPending(driver: Database, deployment: string): Promise<number> {
  const [counted] = await driver.read(pendingNow({ deployment }));
  return Number(counted?.pending);
}

/**
 * See `Storage.createRun`; `pending` as for `createStatements`.
 *
 * @statements createStatements · findRepeated · isUnique · answering · pendingNow · obstacles · evicts
 * @guards Locks: thread, idempotency key, and `pending` when the deployment limit is near. 1. Decides: insert the
 *   thread, or update it (`last_run = :run`, `run_count + 1`, slot if the claim is possible). Requires: assistant and
 *   thread revision as seen; idempotency key unknown; room under the limits; for `reject` a thread that is not busy;
 *   for a run that answers interrupts, but with `rollback`, no active run of the thread that answers one of them. A
 *   claim requires a free slot, no running run, and no run that goes first. 2. Labels of the thread, if its metadata
 *   changed. 3. `interrupt`: end the pending runs that were never claimed, flag the others. `rollback`: delete the
 *   active runs and what they left. Both require `last_run = :run`. 4. Insert the run from the thread row where
 *   `last_run = :run`; `running`, with the claim in its `claim_log`, if `slot_token` is the claim's. 5. Features,
 *   trace of a claimed first attempt, idempotency key: each requires the run. Outcome: rows of 4. Without rows, a read
 *   finds the reason; if the obstacle is gone by then, the outcome is `stale`.
 */
export async function createRun(
  driver: Database,
  deployment: string,
  request: CreateRun,
  pending: number | null,
): Promise<CreateRunOutcome> {
  const { statements, lock_keys, created } = createStatements(deployment, request, pending);
  const run = created(rowsIn(statements, await driver.batch(statements, lock_keys)));
  return run ? { kind: "created", ...run } : await refusal(driver, deployment, request);
}

/** Fails the batch by a constraint unless all of these runs were created. */
const allMade = prepared<{ run_ids: string; count: number }>(
  (p) =>
    sql`insert into probes (name, at) select 'runs', null
    where (select count(*) from runs where run_id in ${each(p.run_ids)}) < ${p.count}`,
);

/** The error of `allMade`. */
const isRefused = (error: unknown): boolean => /\bprobes\b/.test(String((error as { message?: unknown }).message));

/**
 * See `Storage.createRuns`; `pending` as for createRun.
 *
 * @statements createStatements · allMade · knownKey · pendingNow · obstacles · evicts
 * @guards the statements of each run · insert an impossible row into `probes` if any run is missing, which rolls the
 *   batch back.
 */
export async function createRuns(
  driver: Database,
  deployment: string,
  requests: readonly CreateRun[],
  pending: number | null,
): Promise<CreateRunsOutcome> {
  const creates = requests.map((request) => createStatements(deployment, request, pending));
  const run_ids = JSON.stringify(requests.map(({ run }) => run.run_id));
  try {
    const made = creates.flatMap(({ statements }) => statements);
    const statements = [...made, allMade({ run_ids, count: requests.length })];
    const lock_keys = creates.flatMap(({ lock_keys }) => lock_keys);
    const rowsOf = rowsIn(statements, await driver.batch(statements, lock_keys));
    return { kind: "created", created: creates.map(({ created }) => created(rowsOf) as CreatedRun) };
  } catch (error) {
    if (!isRefused(error)) throw error;
  }
  const outcomes: Refusal[] = [];
  const waiting: CreateRun[] = [];
  for (const request of requests) {
    outcomes.push(await refusal(driver, deployment, request, waiting));
    if (!request.claim || !request.create_thread) waiting.push(request);
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
  return { kind: "refused", index, outcome: outcomes[index] as Refusal };
}

export type Refusal = Exclude<CreateRunOutcome, { kind: "created" }>;

/**
 * Why a run was not created. `stale` when the reason is gone by now: the caller reads again and retries. `ahead` are requests of the
 * same call that would wait before it.
 */
export async function refusal(
  driver: Database,
  deployment: string,
  request: CreateRun,
  ahead: readonly CreateRun[] = [],
): Promise<Refusal> {
  const { run, seen, idempotency, limits } = request;
  const repeated = idempotency && (await findRepeated(driver, deployment, idempotency));
  if (repeated) return repeated;
  if (isUnique(run)) {
    const terms = { deployment, thread_id: run.thread_id, resume_targets: targetsOf(run) };
    const [other] = await driver.read(answering(terms));
    if (other) return { kind: "interrupt_answered", run_id: other.run_id as string };
  }
  if (seen.thread_revision === null) {
    const pending = await countPending(driver, deployment);
    return limits && pending + ahead.length >= limits.pending
      ? { kind: "deployment_full", pending }
      : { kind: "stale" };
  }
  const [found] = await driver.read(obstacles({ deployment, thread_id: run.thread_id }));
  if (!found) return { kind: "thread_not_found" };
  if (run.multitask_strategy === "reject" && found.busy) return { kind: "thread_busy" };
  const [pending, waiting] = [Number(found.pending), Number(found.pending_of_thread)];
  const evicting = evicts(run.multitask_strategy);
  const before = ahead.filter((other) => other.run.thread_id === run.thread_id).length;
  if (limits && !evicting && waiting + before >= limits.pending_per_thread)
    return { kind: "thread_full", pending: waiting };
  if (limits && pending + ahead.length - (evicting ? waiting : 0) >= limits.pending)
    return { kind: "deployment_full", pending };
  return { kind: "stale" };
}
