/** The verbs of a lease's holder: renew, save, finish, requeue, release. */
import type { ClaimRequest, FinishOutcome, FinishRun, Lease, Storage } from "../../../lib/storage/mod.ts";
import { discardProgress, holdsLease, type LeaseFence, putProgress } from "../checkpoints.ts";
import { toText } from "../columns.ts";
import { whenFinished, whenSaved } from "../features.ts";
import { valueLabels } from "../labels.ts";
import { type Database, ofThread, prepared, rowsIn, type Statement } from "../statement.ts";
import { hasNewEvents } from "../statements/steps.ts";
import { type RawBuilder, sql } from "../template.ts";
import { claimAfter, claimRun, hasEnded, putBack } from "./claim.ts";
import { type End, endRuns } from "./end.ts";
import { putEvents } from "./events.ts";
import { putFrames } from "./frames.ts";
import { storedError } from "./row.ts";
import { dropLeftThreads } from "./stop.ts";

/** Extends the slot, never shortens it: renewals may arrive out of order. */
const extendSlot = prepared<LeaseFence & { lease_until: number }>(
  (p) =>
    sql`update threads set slot_until = case when slot_until < ${p.lease_until} then ${p.lease_until} else slot_until end
    where deployment = ${p.deployment} and thread_id = ${p.thread_id} and slot_token = ${p.token}
      and exists (select 1 from runs where ${holdsLease(p)})`,
);

/** Extends the lease likewise. */
const extendLease = prepared<LeaseFence & { lease_until: number }>(
  (p) =>
    sql`update runs set lease_until = case when lease_until < ${p.lease_until} then ${p.lease_until} else lease_until end
    where ${holdsLease(p)} returning cancelled`,
);

/** A row while the lease is held. */
const isLeased = prepared<LeaseFence>((p) => sql`select run_id from runs where ${holdsLease(p)}`);

/** Records that the run has stored a root checkpoint, in this attempt. */
const markSaved = prepared<LeaseFence>(
  (p) => sql`update runs set saved = 1, progressed = attempt where ${holdsLease(p)} returning run_id`,
);

/** Frees the slot of the lease's thread. `when`: whether the run is held. */
const freeing = (when: RawBuilder<unknown>): ((args: LeaseFence) => Statement) =>
  prepared<LeaseFence>(
    (p) =>
      sql`update threads set slot_token = null, slot_until = null
    where deployment = ${p.deployment} and thread_id = ${p.thread_id} and slot_token = ${p.token}
      and ${when} (select 1 from runs where ${holdsLease(p)})`,
  );

/** Of a run that is gone. */
const freeSlot = freeing(sql`not exists`);
/** Of a run that will be requeued; of a run that is gone the executor may still be working. */
const freeLeasedSlot = freeing(sql`exists`);

/** Puts the run back and takes back an attempt that this claim has counted. */
const requeue = prepared<LeaseFence & { now: number }>(
  (p) =>
    sql`update runs set attempt = attempt - counts_as_attempt, counts_as_attempt = 0, ${putBack(p.now)} where ${holdsLease(p)} returning run_id`,
);

/** Due at once if an event came after `seen`, or a stop was requested. */
const suspend = prepared<
  LeaseFence & { call_id: string; due_at: number; after: number; waiting_for: string; now: number }
>(
  (p) =>
    sql`update runs set status = 'pending', lease_token = null, lease_until = null, updated_at = ${p.now},
      attempt = runs.attempt - counts_as_attempt, counts_as_attempt = 0, saved = 1, waiting_for = ${p.waiting_for},
      due_at = case when cancelled = 1 or ${hasNewEvents(p)} then ${p.now} else ${p.due_at} end
    where ${holdsLease(p)} returning due_at`,
);

/** Later than every clock: only an event or a stop makes the run due. */
const NEVER = 8_640_000_000_000_000;

/** The leased run, as a condition on `runs`. */
const isLeasedRun = (p: LeaseFence): RawBuilder<unknown> =>
  sql`deployment = ${p.deployment} and thread_id = ${p.thread_id} and run_id = ${p.run_id} and status = 'running'
    and lease_token = ${p.token}`;

const endLeased = endRuns<LeaseFence & End>({
  runs: isLeasedRun,
  threads: (p) => sql`deployment = ${p.deployment} and thread_id = ${p.thread_id}
    and exists (select 1 from runs where ${isLeasedRun(p)})`,
});

/** Counts consecutive failures of the run's cron. */
const countFailure = prepared<LeaseFence & { cron_id: string; failed: number }>(
  (p) =>
    sql`update crons set failures = case when ${p.failed} = 1 then failures + 1 else 0 end
    where deployment = ${p.deployment} and cron_id = ${p.cron_id} and (${p.failed} = 1 or failures > 0)
      and exists (select 1 from runs where ${holdsLease(p)})`,
);

/**
 * @statements endLeased · hasEnded · claimAfter · countFailure · whenFinished · discardProgress · putProgress ·
 *   putFrames · putEvents · whenSaved · valueLabels · claimRun
 * @guards failure counter of the cron · token usage of the trace · progress, or delete the checkpoints of a stateless
 *   run · frames · thread's resting state, head and slot · token expiry · outbox row · *last* the run's status,
 *   `end_frame`, result. All where held. Then, in the same batch, on SQLite the claim of the next run, guarded by the
 *   end of this run (`claims`, `status`, `ended_at`, `end_frame`). On Postgres a separate claim follows, because a batch
 *   must name its thread before it starts. Value labels of the new head. A repeated call recognizes the end that it
 *   stored.
 */
async function finishRun(
  driver: Database,
  deployment: string,
  lease: Lease,
  finish: FinishRun,
): Promise<FinishOutcome> {
  const { thread, progress, claims, status, end_frame, cron_id, now } = finish;
  const fence = { deployment, ...lease };
  const failed = status === "success" ? 0 : 1;
  const end = endLeased(
    {
      ...fence,
      status,
      error: toText(finish.error),
      run_error: storedError(finish.error, finish.stack),
      result: toText(finish.result),
      end_frame,
      head: thread.head,
      resting_status: thread.status,
      interrupts: thread.status === null ? null : JSON.stringify(thread.interrupts),
      thread_error: toText(thread.error),
      now,
    },
    finish,
  );
  const asEnded = { run_id: lease.run_id, claims, status, ended_at: now, end_frame };
  const witness = hasEnded(asEnded);
  // On Postgres a batch names its locks before it runs, and the next run's thread is not known yet: claim in a second batch.
  const separateClaim = driver.dialect === "postgres" ? finish.next : undefined;
  const claim = finish.next && !separateClaim ? claimAfter(deployment, finish.next, asEnded) : undefined;
  const statements = [
    // A stopped run is neither a success nor a failure of its cron.
    ...(cron_id !== undefined && status !== "interrupted" ? [countFailure({ ...fence, cron_id, failed })] : []),
    ...whenFinished(fence, finish),
    ...(finish.discard ? discardProgress(deployment, lease) : putProgress(deployment, lease, progress)),
    ...putFrames(fence, progress.frames),
    ...putEvents(fence, progress.events),
    ...whenSaved(fence, progress, now),
    ...end.statements,
    ...(separateClaim ? [witness] : (claim?.statements ?? [])),
    // After the statement that moves the head: labels depend on it.
    ...(thread.head !== null && thread.scalars !== undefined
      ? valueLabels(deployment, lease.thread_id, thread.head, thread.scalars)
      : []),
  ];
  const rowsOf = rowsIn(statements, await driver.batch(statements, locksOf(deployment, lease)));
  const claimed =
    separateClaim && rowsOf(witness).length > 0
      ? await claimSeparately(driver, deployment, separateClaim)
      : { next: claim?.claimed(rowsOf) ?? null };
  // A repeated call whose first one took effect ends nothing, but still claims.
  return rowsOf(end.ended).length > 0 || claimed.next ? claimed : null;
}

/** Claims after the end was committed; a failure here does not undo the end. */
async function claimSeparately(
  driver: Database,
  deployment: string,
  request: ClaimRequest,
): Promise<NonNullable<FinishOutcome>> {
  const outcome = await claimRun(driver, deployment, request).catch(() => null);
  if (!outcome) return { next: null };
  return outcome.kind === "claimed" ? { next: outcome.claimed } : { next: null, blocked: outcome.kind === "blocked" };
}

const locksOf = (deployment: string, { thread_id }: Lease): string[] => [ofThread(deployment, thread_id)];

/** The verbs of the holder of a lease. */
export function leaseVerbs(
  driver: Database,
): Pick<Storage, "renewLease" | "saveProgress" | "finishRun" | "requeueRun" | "suspendRun" | "releaseSlot"> {
  return {
    /**
     * @statements extendSlot · extendLease
     * @guards extend the slot where held · extend the lease where held, returning `cancelled`. A renewal never shortens
     *   a lease.
     */
    async renewLease({ deployment }, lease, lease_until) {
      const args = { deployment, ...lease, lease_until };
      const [, renewed] = await driver.batch([extendSlot(args), extendLease(args)], locksOf(deployment, lease));
      return renewed?.[0] ? { cancelled: renewed[0].cancelled === 1 } : null;
    },

    /**
     * @statements putProgress · putFrames · putEvents · whenSaved · markSaved · isLeased
     * @guards channel values, checkpoints, writes, frames, each where held · mark the run as saved (root checkpoint), or
     *   test that it is held. False without rows of the last statement.
     */
    async saveProgress({ deployment }, lease, progress, now) {
      const hasRoot = progress.checkpoints.some((checkpoint) => checkpoint.ns === "");
      const fence = { deployment, ...lease };
      const results = await driver.batch(
        [
          ...putProgress(deployment, lease, progress),
          ...putFrames(fence, progress.frames),
          ...putEvents(fence, progress.events),
          ...whenSaved(fence, progress, now),
          hasRoot ? markSaved(fence) : isLeased(fence),
        ],
        locksOf(deployment, lease),
      );
      return results.at(-1)?.length === 1;
    },

    finishRun: ({ deployment }, lease, finish) => finishRun(driver, deployment, lease, finish),

    /**
     * @statements freeLeasedSlot · requeue
     * @guards free the slot where held · set `pending` where held, attempt not counted.
     */
    async requeueRun({ deployment }, lease, now) {
      const args = { deployment, ...lease, now };
      const [, requeued] = await driver.batch([freeLeasedSlot(args), requeue(args)], locksOf(deployment, lease));
      return requeued?.length === 1;
    },

    /**
     * @statements putProgress · putFrames · putEvents · whenSaved · freeLeasedSlot · suspend
     * @guards progress as saveProgress stores it · free the slot where held · *last* set `pending` where held, attempt not
     *   counted. Null without rows of the last statement.
     */
    async suspendRun({ deployment }, lease, { progress, due_at, waiting_for, seen }, now) {
      const fence = { deployment, ...lease };
      const call_id = progress.call?.call_id ?? "";
      const terms = { call_id, due_at: due_at ?? NEVER, after: seen, waiting_for: JSON.stringify(waiting_for), now };
      const results = await driver.batch(
        [
          ...putProgress(deployment, lease, progress),
          ...putFrames(fence, progress.frames),
          ...putEvents(fence, progress.events),
          ...whenSaved(fence, progress, now),
          freeLeasedSlot(fence),
          suspend({ ...fence, ...terms }),
        ],
        locksOf(deployment, lease),
      );
      const [row] = results.at(-1) ?? [];
      return row ? { due_at: Number(row.due_at) } : null;
    },

    /**
     * @statements freeSlot · dropLeftThreads
     * @guards free the slot where the token matches and the run is *not* held · delete stateless threads without runs.
     */
    async releaseSlot({ deployment }, lease) {
      await driver.batch(
        [freeSlot({ deployment, ...lease }), dropLeftThreads({ deployment, now: 0 })],
        locksOf(deployment, lease),
      );
    },
  };
}
