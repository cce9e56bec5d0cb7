/** Creates the storage operations of a lease's holder: renew, save, finish, requeue, release. */
import type { ClaimRequest, FinishRun, FinishRunResult, Lease, Storage } from "../../../lib/storage/mod.ts";
import { deleteProgressStatements, storeProgressStatements } from "../checkpoints.ts";
import { encodeJson } from "../columns.ts";
import { createRowFinder, type Database, threadLockKey } from "../database.ts";
import { attemptFinishedStatements, progressSavedStatements, RUNS_ENDED } from "../features.ts";
import { replaceStateEntries } from "../metadata-index.ts";
import type { Statement } from "../query.ts";
import { hasEnded } from "../statements/runs-claim.ts";
import {
  countFailure,
  endFeature,
  endRun,
  extendLease,
  extendThreadLock,
  isLeased,
  releaseLeasedThreadLock,
  releaseLostThreadLock,
  requeueRun,
  setHasCheckpoint,
  suspendRun,
  updateEndedThread,
} from "../statements/runs-lease.ts";
import { deleteOrphanedThreads } from "../statements/runs-stop.ts";
import { activeTraceStatements } from "../traces.ts";
import { claimRun, createClaimAfterEnd } from "./claim.ts";
import { storeEventStatements } from "./events.ts";
import { storeFrameStatements } from "./frames.ts";
import { encodeError } from "./row.ts";

/** Later than every clock: only an event or a stop makes the run due. */
const MAX_TIME_MS = 8_640_000_000_000_000;

/**
 * Returns the statements that end the run of a lease: they update its thread, then store the rows of the features named in
 * `finish` (all without names), and last end the run. `endStatement` is that last one: it returns a row if it ended the run.
 */
function createEndStatements(
  deployment: string,
  lease: Lease,
  finish: FinishRun,
): { readonly statements: readonly Statement<unknown>[]; readonly endStatement: Statement<unknown> } {
  const { thread, status, error, values, end_frame, now } = finish;
  const features: readonly string[] = finish.features ?? Object.keys(RUNS_ENDED);
  const fence = { deployment, ...lease };
  const endStatement = endRun({
    ...{ ...fence, status, end_frame, now },
    run_error: encodeError(error, finish.stack),
    result: encodeJson(finish.result),
  });
  const end = {
    ...{ ...fence, status, error: encodeJson(error), now },
    values: values?.json ?? null,
    values_omitted: values?.omitted ? 1 : 0,
  };
  return {
    statements: [
      updateEndedThread({
        ...{ ...fence, head: thread.head, resting_status: thread.status, now },
        interrupts: thread.status === null ? null : JSON.stringify(thread.interrupts),
        thread_error: encodeJson(thread.error),
      }),
      ...Object.keys(RUNS_ENDED)
        .filter((feature) => features.includes(feature))
        .map((feature) => endFeature({ feature }, end)),
      endStatement,
    ],
    endStatement,
  };
}

/**
 * Ends a run with its last progress, and claims the next one if `finish.next` requests it. Returns that claim, or null for it
 * without one. Returns null if the lease is lost. A repeated call that has taken effect before returns null, too, unless it
 * claims.
 * @statements createEndStatements · hasEnded · createClaimAfterEnd · countFailure · attemptFinishedStatements · deleteProgressStatements · storeProgressStatements ·
 *   storeFrameStatements · storeEventStatements · progressSavedStatements · replaceStateEntries · claimRun
 * @guards failure counter of the cron · token usage of the trace · progress, or delete the checkpoints of a stateless
 *   run · frames · thread's resting state, head and slot · token expiry · outbox row · *last* the run's status,
 *   `end_frame`, result. All where held. Then, in the same batch, on SQLite the claim of the next run, guarded by the
 *   end of this run (`claims`, `status`, `ended_at`, `end_frame`). On Postgres a separate claim follows, because a batch
 *   must name its thread before it starts. Value labels of the new head. A repeated call recognizes the end that it
 *   stored.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one batch and its outcomes, in their order
async function finishRun(
  driver: Database,
  deployment: string,
  lease: Lease,
  finish: FinishRun,
): Promise<FinishRunResult> {
  const { thread, progress, claims, status, end_frame, cron_id, now } = finish;
  const fence = { deployment, ...lease };
  const end = createEndStatements(deployment, lease, finish);
  const committed = { run_id: lease.run_id, claims, status, ended_at: now, end_frame };
  const endCheck = hasEnded(committed);
  // On Postgres a batch names its locks before it runs, and the next run's thread is not known yet: claim in a second batch.
  const separateClaim = driver.dialect === "postgres" ? finish.next : undefined;
  const claim = finish.next && !separateClaim ? createClaimAfterEnd(deployment, finish.next, committed) : undefined;
  const statements = [
    // A stopped run is neither a success nor a failure of its cron.
    ...(cron_id !== undefined && status !== "interrupted"
      ? [countFailure({ ...fence, cron_id, failed: status === "success" ? 0 : 1 })]
      : []),
    ...attemptFinishedStatements(fence, finish),
    ...(finish.discard
      ? deleteProgressStatements(deployment, lease)
      : storeProgressStatements(deployment, lease, progress)),
    ...storeFrameStatements(fence, progress.frames),
    ...storeEventStatements(fence, progress.events),
    ...progressSavedStatements(fence, progress, now),
    ...end.statements,
    ...(separateClaim ? [endCheck] : (claim?.statements ?? [])),
    // After the statement that moves the head: labels depend on it.
    ...(thread.head !== null && thread.scalars !== undefined
      ? replaceStateEntries(deployment, lease.thread_id, thread.head, thread.scalars)
      : []),
  ];
  const findRows = createRowFinder(statements, await driver.batch(statements, toLockKeys(deployment, lease)));
  const claimed =
    separateClaim && findRows(endCheck).length > 0
      ? await claimSeparately(driver, deployment, separateClaim)
      : { next: claim?.toClaimedRun(findRows) ?? null };
  // A repeated call whose first one took effect ends nothing, but still claims.
  return findRows(end.endStatement).length > 0 || claimed.next ? claimed : null;
}

/**
 * Claims a run after the end was committed. Returns it as `next`; null for it without one, with `blocked` if runs wait that
 * cannot start. A failed claim is ignored and returns null for `next`, because it does not undo the end.
 */
async function claimSeparately(
  driver: Database,
  deployment: string,
  request: ClaimRequest,
): Promise<NonNullable<FinishRunResult>> {
  const outcome = await claimRun(driver, deployment, request).catch(() => null);
  if (!outcome) return { next: null };
  return outcome.kind === "claimed" ? { next: outcome.claimed } : { next: null, blocked: outcome.kind === "blocked" };
}

const toLockKeys = (deployment: string, { thread_id }: Lease): string[] => [threadLockKey(deployment, thread_id)];

type LeaseStorage = Pick<
  Storage,
  "renewLease" | "saveProgress" | "finishRun" | "requeueRun" | "suspendRun" | "releaseThreadLock"
>;

/** Creates the storage operations of the holder of a lease. */
export function createLeaseStorage(driver: Database): LeaseStorage {
  return {
    /**
     * Extends lease and thread lock, never shortens them. Returns whether a cancel of the run was requested, or null if the
     * lease is lost.
     * @statements extendThreadLock · extendLease
     * @guards extend the slot where held · extend the lease where held, returning `cancelled`. A renewal never shortens
     *   a lease.
     */
    async renewLease({ deployment }, lease, lease_until) {
      const args = { deployment, ...lease, lease_until };
      const statements = [extendThreadLock(args), extendLease(args)] as const;
      const [, renewed] = await driver.batch(statements, toLockKeys(deployment, lease));
      return renewed[0] ? { cancelled: renewed[0].cancelled === 1 } : null;
    },

    /**
     * Stores progress, and with a root checkpoint marks the run as saved. Returns false, and stores nothing, if the lease is
     * lost.
     * @statements storeProgressStatements · storeFrameStatements · storeEventStatements · progressSavedStatements · setHasCheckpoint · isLeased
     * @guards channel values, checkpoints, writes, frames, each where held · mark the run as saved (root checkpoint), or
     *   test that it is held. False without rows of the last statement.
     */
    async saveProgress({ deployment }, lease, progress, now) {
      const hasRoot = progress.checkpoints.some((checkpoint) => checkpoint.ns === "");
      const fence = { deployment, ...lease };
      const results = await driver.batch(
        [
          ...storeProgressStatements(deployment, lease, progress),
          ...storeFrameStatements(fence, progress.frames),
          ...storeEventStatements(fence, progress.events),
          ...progressSavedStatements(fence, progress, now),
          hasRoot ? setHasCheckpoint(fence) : isLeased(fence),
        ],
        toLockKeys(deployment, lease),
      );
      return results.at(-1)?.length === 1;
    },

    finishRun: ({ deployment }, lease, finish) => finishRun(driver, deployment, lease, finish),

    /**
     * Returns a run to the queue without counting the attempt, frees its thread lock and stores its trace. Returns false, and
     * changes nothing, if the lease is lost.
     * @statements activeTraceStatements · releaseLeasedThreadLock · requeueRun
     * @guards trace · free the slot where held · *last* set `pending` where held, attempt not counted.
     */
    async requeueRun({ deployment }, lease, now, trace) {
      const fence = { deployment, ...lease };
      const release = [releaseLeasedThreadLock(fence), requeueRun({ ...fence, now })];
      const statements = [...activeTraceStatements(fence, trace), ...release];
      const results = await driver.batch(statements, toLockKeys(deployment, lease));
      return results.at(-1)?.length === 1;
    },

    /**
     * Stores progress, frees the thread lock and returns a run to the queue until `due_at` or an event; without a time until an
     * event. The attempt does not count. Returns when it is due: `now` if a cancel was requested or an event came after
     * `last_event_seq`. Returns null, and stores nothing, if the lease is lost.
     * @statements storeProgressStatements · storeFrameStatements · storeEventStatements · progressSavedStatements · releaseLeasedThreadLock · suspendRun
     * @guards progress as saveProgress stores it · free the slot where held · *last* set `pending` where held, attempt not
     *   counted. Null without rows of the last statement.
     */
    async suspendRun({ deployment }, lease, { progress, due_at, waiting_for, last_event_seq: after }, now) {
      const fence = { deployment, ...lease };
      const call_id = progress.call?.call_id ?? "";
      const terms = { call_id, due_at: due_at ?? MAX_TIME_MS, after, waiting_for: JSON.stringify(waiting_for), now };
      const results = await driver.batch(
        [
          ...storeProgressStatements(deployment, lease, progress),
          ...storeFrameStatements(fence, progress.frames),
          ...storeEventStatements(fence, progress.events),
          ...progressSavedStatements(fence, progress, now),
          releaseLeasedThreadLock(fence),
          suspendRun({ ...fence, ...terms }),
        ],
        toLockKeys(deployment, lease),
      );
      const [row] = results.at(-1) ?? [];
      return row ? { due_at: Number(row.due_at) } : null;
    },

    /**
     * Frees the thread lock of a lease that is lost, and deletes stateless threads without runs. Has no effect on the lock
     * while the lease is held.
     * @statements releaseLostThreadLock · deleteOrphanedThreads
     * @guards free the slot where the token matches and the run is *not* held · delete stateless threads without runs.
     */
    async releaseThreadLock({ deployment }, lease) {
      await driver.batch(
        [releaseLostThreadLock({ deployment, ...lease }), deleteOrphanedThreads({ deployment, now: 0 })],
        toLockKeys(deployment, lease),
      );
    },
  };
}
