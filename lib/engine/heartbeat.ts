/** The heartbeat of an attempt: renews its lease, and decides when the lease is lost. */
import type { Environment } from "../environment.ts";
import type { Lease, Scope, Storage } from "../storage/mod.ts";

export interface HeartbeatOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly lease: Lease;
  readonly lease_ms: number;
  /** When the lease expires without a renewal. */
  readonly until: number;
  /** The run's cancel flag is set. */
  onCancelled(): void;
  /** Another process has the run, or may have it: this one must write nothing more. */
  onLost(): void;
}

export interface Heartbeat {
  /** An expired lease can still be renewed until another process claims the run. */
  isExpired(now: number): boolean;
  /** True if the lease was renewed. */
  renew(): Promise<boolean>;
  /** Renews at once, because a renewal also reads the cancel flag. Calls during a renewal share the next one. */
  checkCancelled(): void;
  stop(): void;
}

/**
 * The lease is lost when the store refuses a renewal. Where another process could claim the run, it is also lost shortly before it
 * expires, if renewals have failed for a quarter of the lease while this process was running: a process that stood still knows
 * nothing about the store.
 */
export function startHeartbeat(options: HeartbeatOptions): Heartbeat {
  const { storage, scope, environment, lease, lease_ms } = options;
  let { until } = options;
  let failingSince: number | null = null;
  let stopped = false;
  let checking = false;
  let checkAgain = false;
  let cancelTimer = (): void => {};

  function stop(): void {
    stopped = true;
    cancelTimer();
  }

  function lose(): void {
    stop();
    options.onLost();
  }

  function schedule(ms: number): void {
    cancelTimer();
    if (!stopped) cancelTimer = environment.timer(Math.max(0, ms), () => void renew());
  }

  /** `late`: the delay with which the process noticed the failure, because it stood still. */
  function failed(error: unknown, late = 0): void {
    if (stopped) return;
    const { run_id, thread_id } = lease;
    // One log record until the next success.
    if (failingSince === null) {
      environment.log({ level: "warn", message: "a lease was not renewed", run_id, thread_id, error });
    }
    const now = environment.now();
    // A process that stands still again and again leaves no time for an answer.
    failingSince = late > lease_ms / 20 ? now : (failingSince ?? now);
    if (!storage.single_process && now >= until - lease_ms / 10 && now - failingSince >= lease_ms / 4) lose();
    else schedule(lease_ms / 20);
  }

  async function renew(): Promise<boolean> {
    const sent = environment.now();
    const next = sent + lease_ms;
    const cancelWait = environment.timer(lease_ms / 6, () => {
      failed(new Error("The store does not answer"), environment.now() - sent - lease_ms / 6);
    });
    try {
      const renewed = await storage.renewLease(scope, lease, next);
      if (renewed && !stopped) {
        // The answer of an earlier renewal can arrive last: renew again, because the store may hold the earlier time.
        schedule(next < until ? 0 : lease_ms / 3);
        until = next;
        failingSince = null;
        if (renewed.cancelled) options.onCancelled();
      } else if (!stopped) {
        lose();
      }
      return renewed !== null;
    } catch (error) {
      failed(error);
      return false;
    } finally {
      cancelWait();
    }
  }

  function checkCancelled(): void {
    checkAgain = checking;
    if (checking || stopped) return;
    checking = true;
    void renew().then(() => {
      checking = false;
      if (checkAgain) checkCancelled();
    });
  }

  schedule(until - environment.now() - (2 * lease_ms) / 3);
  return { isExpired: (now) => now >= until, renew, checkCancelled, stop };
}
