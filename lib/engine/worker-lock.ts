/** The worker lock: one process at a time executes the runs of an embedded database, and the others stand by. */
import type { Environment } from "../environment.ts";
import type { Storage } from "../storage/mod.ts";
import type { ClaimHealth } from "./claim-health.ts";

export interface WorkerLockOptions {
  readonly storage: Storage;
  readonly environment: Environment;
  readonly health: ClaimHealth;
  /** This process has the lock. */
  onAcquired(): void;
  /** Another process has it; called once. */
  onStandby(): void;
}

/** How often a standby tries to become the worker. */
const STANDBY_MS = 250;

/** Tries until this process has the lock. The result stops that. */
export function acquireWorkerLock(options: WorkerLockOptions): () => void {
  const { storage, environment, health } = options;
  let stopped = false;
  let announced = false;
  let cancel = (): void => {};

  async function acquire(): Promise<void> {
    health.polled();
    const acquired = await health.call(() => storage.becomeWorker(environment.now()));
    if (stopped) return;
    if (acquired) return options.onAcquired();
    if (acquired === false && !announced) {
      announced = true;
      options.onStandby();
      const message = "standby: another process holds the worker lock of this database";
      environment.log({ level: "info", message });
    }
    cancel = environment.timer(STANDBY_MS, () => void acquire());
  }

  void acquire();
  return () => {
    stopped = true;
    cancel();
  };
}
