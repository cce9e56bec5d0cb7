/** The verbs of a lease's holder: renew, save, finish, requeue, release. */
import type { ClaimRequest, FinishRun, FinishRunResult, Lease, Storage } from "../../../lib/storage/mod.ts";
import { discardProgress, putProgress } from "../checkpoints.ts";
import { toText } from "../columns.ts";
import { type Database, ofThread, rowsIn } from "../database.ts";
import { ENDED, whenFinished, whenSaved } from "../features.ts";
import { valueLabels } from "../labels.ts";
import type { Statement } from "../query.ts";
import { hasEnded } from "../statements/runs-claim.ts";
import {
  countFailure,
  endFeature,
  endRun,
  extendLease,
  extendSlot,
  freeLeasedSlot,
  freeLostSlot,
  isLeased,
  requeueRun,
  setSaved,
  suspendRun,
  updateEndedThread,
} from "../statements/runs-lease.ts";
import { deleteOrphanedThreads } from "../statements/runs-stop.ts";
import { claimAfter, claimRun } from "./claim.ts";
import { putEvents } from "./events.ts";
import { putFrames } from "./frames.ts";
import { storedError } from "./row.ts";

/** Later than every clock: only an event or a stop makes the run due. */
const NEVER = 8_640_000_000_000_000;

/** Returns the statements that end the run of a lease: what it leaves on its thread, the rows of features, and last the run itself. */
function endStatements(
  deployment: string,
  lease: Lease,
  finish: FinishRun,
): { readonly statements: readonly Statement<unknown>[]; readonly ended: Statement<unknown> } {
  const { thread, status, error, values, end_frame, now } = finish;
  const features: readonly string[] = finish.features ?? Object.keys(ENDED);
  const fence = { deployment, ...lease };
  const ended = endRun({
    ...{ ...fence, status, end_frame, now },
    run_error: storedError(error, finish.stack),
    result: toText(finish.result),
  });
  const end = {
    ...{ ...fence, status, error: toText(error), now },
    values: values?.json ?? null,
    values_omitted: values?.omitted ? 1 : 0,
  };
  return {
    statements: [
      updateEndedThread({
        ...{ ...fence, head: thread.head, resting_status: thread.status, now },
        interrupts: thread.status === null ? null : JSON.stringify(thread.interrupts),
        thread_error: toText(thread.error),
      }),
      ...Object.keys(ENDED)
        .filter((feature) => features.includes(feature))
        .map((feature) => endFeature({ feature }, end)),
      ended,
    ],
    ended,
  };
}

/**
 * @statements endStatements · hasEnded · claimAfter · countFailure · whenFinished · discardProgress · putProgress ·
 *   putFrames · putEvents · whenSaved · valueLabels · claimRun
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
  const end = endStatements(deployment, lease, finish);
  const committed = { run_id: lease.run_id, claims, status, ended_at: now, end_frame };
  const witness = hasEnded(committed);
  // On Postgres a batch names its locks before it runs, and the next run's thread is not known yet: claim in a second batch.
  const separateClaim = driver.dialect === "postgres" ? finish.next : undefined;
  const claim = finish.next && !separateClaim ? claimAfter(deployment, finish.next, committed) : undefined;
  const statements = [
    // A stopped run is neither a success nor a failure of its cron.
    ...(cron_id !== undefined && status !== "interrupted"
      ? [countFailure({ ...fence, cron_id, failed: status === "success" ? 0 : 1 })]
      : []),
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
): Promise<NonNullable<FinishRunResult>> {
  const outcome = await claimRun(driver, deployment, request).catch(() => null);
  if (!outcome) return { next: null };
  return outcome.kind === "claimed" ? { next: outcome.claimed } : { next: null, blocked: outcome.kind === "blocked" };
}

const locksOf = (deployment: string, { thread_id }: Lease): string[] => [ofThread(deployment, thread_id)];

/** The verbs of the holder of a lease. */
export function leaseVerbs(
  driver: Database,
): Pick<Storage, "renewLease" | "saveProgress" | "finishRun" | "requeueRun" | "suspendRun" | "releaseThreadLock"> {
  return {
    /**
     * @statements extendSlot · extendLease
     * @guards extend the slot where held · extend the lease where held, returning `cancelled`. A renewal never shortens
     *   a lease.
     */
    async renewLease({ deployment }, lease, lease_until) {
      const args = { deployment, ...lease, lease_until };
      const [, renewed] = await driver.batch([extendSlot(args), extendLease(args)], locksOf(deployment, lease));
      return renewed[0] ? { cancelled: renewed[0].cancelled === 1 } : null;
    },

    /**
     * @statements putProgress · putFrames · putEvents · whenSaved · setSaved · isLeased
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
          hasRoot ? setSaved(fence) : isLeased(fence),
        ],
        locksOf(deployment, lease),
      );
      return results.at(-1)?.length === 1;
    },

    finishRun: ({ deployment }, lease, finish) => finishRun(driver, deployment, lease, finish),

    /**
     * @statements freeLeasedSlot · requeueRun
     * @guards free the slot where held · set `pending` where held, attempt not counted.
     */
    async requeueRun({ deployment }, lease, now) {
      const args = { deployment, ...lease, now };
      const [, requeued] = await driver.batch([freeLeasedSlot(args), requeueRun(args)], locksOf(deployment, lease));
      return requeued.length === 1;
    },

    /**
     * @statements putProgress · putFrames · putEvents · whenSaved · freeLeasedSlot · suspendRun
     * @guards progress as saveProgress stores it · free the slot where held · *last* set `pending` where held, attempt not
     *   counted. Null without rows of the last statement.
     */
    async suspendRun({ deployment }, lease, { progress, due_at, waiting_for, last_event_seq: after }, now) {
      const fence = { deployment, ...lease };
      const call_id = progress.call?.call_id ?? "";
      const terms = { call_id, due_at: due_at ?? NEVER, after, waiting_for: JSON.stringify(waiting_for), now };
      const results = await driver.batch(
        [
          ...putProgress(deployment, lease, progress),
          ...putFrames(fence, progress.frames),
          ...putEvents(fence, progress.events),
          ...whenSaved(fence, progress, now),
          freeLeasedSlot(fence),
          suspendRun({ ...fence, ...terms }),
        ],
        locksOf(deployment, lease),
      );
      const [row] = results.at(-1) ?? [];
      return row ? { due_at: Number(row.due_at) } : null;
    },

    /**
     * @statements freeLostSlot · deleteOrphanedThreads
     * @guards free the slot where the token matches and the run is *not* held · delete stateless threads without runs.
     */
    async releaseThreadLock({ deployment }, lease) {
      await driver.batch(
        [freeLostSlot({ deployment, ...lease }), deleteOrphanedThreads({ deployment, now: 0 })],
        locksOf(deployment, lease),
      );
    },
  };
}
