/** The takeover from dead workers by the process that acquires the worker lock. */
import type { Storage } from "../../lib/storage/mod.ts";
import type { Database } from "./database.ts";
import { endWorkerClaims } from "./statements/deliveries.ts";
import { releaseThreadLocks, requeueRunning, STALE_LOCK_SOURCES } from "./statements/worker.ts";

/**
 * Returns `becomeWorker`, which acquires the worker lock and takes over from dead workers, and `hasWorkerLock`, which returns
 * true once both are done. Without a worker lock of the driver, `hasWorkerLock` always returns false.
 */
export function createWorkerAdoption(
  driver: Database,
): Pick<Storage, "becomeWorker"> & { readonly hasWorkerLock: () => boolean } {
  let adoption: Promise<void> | undefined;
  let isAdopted = false;

  /**
   * Requeues all running runs, and frees stale thread locks and the delivery claims of dead workers. After that `hasWorkerLock`
   * returns true.
   */
  async function adopt(now: number): Promise<void> {
    await driver.batch([
      ...STALE_LOCK_SOURCES.map((source) => releaseThreadLocks({ source }, {})),
      requeueRunning({ now }),
      endWorkerClaims({}),
    ]);
    isAdopted = true;
  }

  return {
    hasWorkerLock: () => isAdopted,
    /**
     * Returns true if this process has the worker lock; always for a driver without one. The first call with the lock takes
     * over from dead workers before it resolves; if that fails, it rejects, and the next call tries again.
     * @statements releaseThreadLocks · requeueRunning · endWorkerClaims
     * @guards Acquires the worker lock of the driver. A driver without this lock always returns true. After acquiring
     *   it, once: free the slots of threads with running, due or deleted runs · requeue all running runs · end the
     *   delivery claims of dead workers.
     */
    async becomeWorker(now) {
      if (!driver.acquireWorkerLock) return true;
      if (!(await driver.acquireWorkerLock())) {
        adoption = undefined;
        isAdopted = false;
        return false;
      }
      // Once only: runs that start later belong to this process.
      adoption ??= adopt(now).catch((error: unknown) => {
        adoption = undefined;
        throw error;
      });
      await adoption;
      return true;
    },
  };
}
