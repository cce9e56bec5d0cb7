/** Creates the storage operations on runs, from their creation to their end. */
import type { RunStorage } from "../../../lib/storage/mod.ts";
import { createRowFinder, type Database, readAll, readOne, threadLockKey } from "../database.ts";
import { toFilterArgument } from "../filter-argument.ts";
import { countActiveRuns, deleteRun, isRunPresent, selectRun, selectRuns } from "../statements/runs.ts";
import { deleteEventsBeforeEnd, replaceEnd } from "../statements/runs-events.ts";
import { deleteOrphanedThreads, markThreads, type RunSelection } from "../statements/runs-stop.ts";
import { claimRun } from "./claim.ts";
import { countPending, createRun, createRuns, findFirstRunByKey } from "./create.ts";
import { readFrames } from "./frames.ts";
import { createLeaseStorage } from "./lease.ts";
import { PendingCounter } from "./pending-counter.ts";
import { deleteExpired } from "./retention.ts";
import { toRun } from "./row.ts";
import { createRunSearchStorage } from "./search.ts";
import { deleteFeatureRows, deleteRunEvents, deleteRunProgress, stopRuns, toStopArguments } from "./stop.ts";

/** Creates the storage operations on runs, from their creation to their end. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createRunStorage(driver: Database): RunStorage {
  const pending = new PendingCounter((deployment) => countPending(driver, deployment));
  return {
    createRun({ deployment }, request) {
      const create = (limit: number | null) => createRun(driver, deployment, request, limit);
      return request.limits ? pending.create(deployment, request.limits.pending, create) : create(null);
    },
    createRuns({ deployment }, requests) {
      const create = (limit: number | null) => createRuns(driver, deployment, requests, limit);
      const limits = requests.flatMap((request) => (request.limits ? [request.limits.pending] : []));
      return limits.length > 0
        ? pending.create(deployment, Math.min(...limits), create, requests.length)
        : create(null);
    },
    findFirstRunByKey: ({ deployment }, key) => findFirstRunByKey(driver, deployment, key),
    claimRun: ({ deployment }, request) => claimRun(driver, deployment, request),
    ...createLeaseStorage(driver),
    ...createRunSearchStorage(driver),
    // biome-ignore lint/complexity/useMaxParams: the operation of Storage has these parameters
    stopRuns: (scope, target, action, now, reason) => stopRuns(driver, scope, { target, action, now, reason }),

    /** @statements selectRun */
    getRun: ({ deployment, filter }, run_id) => readOne(driver, selectRun({ deployment, run_id }, filter), toRun),

    /** @statements selectRuns */
    listRuns({ deployment, filter }, thread_id, { status, below, above, limit, offset }) {
      const argument = toFilterArgument(filter);
      const shape = {
        of_status: status !== undefined,
        below: below !== undefined,
        above: above !== undefined,
        filtered: argument !== null,
      };
      const select = selectRuns(shape, {
        ...{ deployment, thread_id, status: status ?? "", below: below ?? 0, above: above ?? 0 },
        ...{ filter: argument ?? "", limit, offset },
      });
      return readAll(driver, select, toRun);
    },

    /**
     * Deletes a run that is not running with its frames and events; its end stays among the events of the thread. Checkpoints of
     * an ended run stay, those of earlier attempts of a pending run go, and the thread of a stateless run goes with its last run.
     * @statements isRunPresent · deleteRunProgress · deleteRunEvents · markThreads · deleteFeatureRows · deleteRun ·
     *   replaceEnd · deleteEventsBeforeEnd · deleteOrphanedThreads
     * @guards select whether it exists · delete what a pending run left · the end of a pending run · mark the thread ·
     *   tokens · delete where not running · delete its events but for its end, if it is gone · stateless threads left.
     */
    async deleteRun({ deployment, filter }, thread_id, run_id, now) {
      const key = { deployment, thread_id, run_id };
      const argument = toFilterArgument(filter);
      const args = toStopArguments({ ...key, now, filter: argument ?? "" });
      const filtered = argument !== null;
      const pending: RunSelection = { runs: "pending", filtered };
      const resting: RunSelection = { runs: "resting", filtered };
      const [present, deleted] = [isRunPresent(key, filter), deleteRun(key, filter)];
      const statements = [
        present,
        // A requeued run may have stored checkpoints. The head of its thread never moved to them.
        ...deleteRunProgress(pending, args),
        ...deleteRunEvents(pending, args),
        markThreads(resting, args),
        ...deleteFeatureRows(resting, args),
        deleted,
        replaceEnd({ ...key, now }),
        deleteEventsBeforeEnd(key),
        deleteOrphanedThreads({ deployment, now: 0 }),
      ];
      const findRows = createRowFinder(
        statements,
        await driver.batch(statements, [threadLockKey(deployment, thread_id)]),
      );
      if (findRows(deleted).length > 0) return "deleted";
      return findRows(present).length > 0 ? "running" : "not_found";
    },

    readFrames: (scope, run_id, after) => readFrames(driver, scope, run_id, after),

    /**
     * Counts active runs by status: `scheduled` are pending runs that are not due, `pending` those that are. `oldest_due` is
     * since when the oldest of these is due; null if none is.
     * @statements countActiveRuns
     */
    async countActiveRuns({ deployment }, now) {
      const [counted] = await driver.read(countActiveRuns({ deployment, now }));
      const { immediate = 0, late = 0, scheduled = 0, running = 0 } = counted ?? {};
      const { oldest_immediate = null, oldest_late = null } = counted ?? {};
      const oldest = [oldest_immediate, oldest_late].filter((due_at) => due_at !== null);
      return {
        scheduled,
        running,
        pending: immediate + late,
        oldest_due: oldest.length > 0 ? Math.min(...oldest) : null,
      };
    },

    deleteExpired: ({ deployment }, terms) => deleteExpired(driver, deployment, terms),
  };
}
