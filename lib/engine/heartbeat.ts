/** Holds the lease of a claimed run: renews it in time, and tells when it must be taken for lost. */
import type { Environment } from "../environment.ts";
import type { Lease, Scope, Storage } from "../storage/mod.ts";

export interface LeaseOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly lease: Lease;
  readonly lease_ms: number;
  /** When it is over, if it is not renewed. */
  readonly until: number;
  /** Somebody asked the run to stop. */
  onCancelled(): void;
  /** It is another's, or may be by now: nothing may be written any more. */
  onLost(): void;
}

export interface HeldLease {
  /** Its time is over. While nobody has taken the run it can still be renewed. */
  over(now: number): boolean;
  /** Whether it was renewed. */
  renew(): Promise<boolean>;
  /** Renews it at once: somebody may have asked the run to stop. One renewal for all who ask while one is under way. */
  look(): void;
  /** Renews no more. */
  stop(): void;
}

/**
 * Renewals that fail, or are not answered, count as a lost lease shortly before it is over: somebody else may take the run
 * then. But not before they have failed for a while in which the process did not stand still: that says nothing about the store.
 * Where nobody else can take it, only a renewal that is refused means a loss.
 */
export function holdLease(options: LeaseOptions): HeldLease {
  const { storage, scope, environment, lease, lease_ms } = options;
  let { until } = options;
  let failingSince: number | null = null;
  let stopped = false;
  let looking = false;
  let again = false;
  let cancelTimer = (): void => {};

  function stop(): void {
    stopped = true;
    cancelTimer();
  }

  function lost(): void {
    stop();
    options.onLost();
  }

  function schedule(ms: number): void {
    cancelTimer();
    if (!stopped) cancelTimer = environment.timer(Math.max(0, ms), () => void renew());
  }

  /** `late`: by how much, in milliseconds, the process has come to notice it. */
  function failed(error: unknown, late = 0): void {
    if (stopped) return;
    const { run_id, thread_id } = lease;
    // Told once, however often it fails before it is renewed.
    if (failingSince === null) {
      environment.log({ level: "warn", message: "a lease was not renewed", run_id, thread_id, error });
    }
    const now = environment.now();
    // It may have stood still again and again, without the time for one answer in between.
    failingSince = late > lease_ms / 20 ? now : (failingSince ?? now);
    if (!storage.single_process && now >= until - lease_ms / 10 && now - failingSince >= lease_ms / 4) lost();
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
        // An answer that comes after that of a later renewal: the store may hold this one.
        schedule(next < until ? 0 : lease_ms / 3);
        until = next;
        failingSince = null;
        if (renewed.cancelled) options.onCancelled();
      } else if (!stopped) {
        lost();
      }
      return renewed !== null;
    } catch (error) {
      failed(error);
      return false;
    } finally {
      cancelWait();
    }
  }

  function look(): void {
    again = looking;
    if (looking || stopped) return;
    looking = true;
    void renew().then(() => {
      looking = false;
      if (again) look();
    });
  }

  schedule(until - environment.now() - (2 * lease_ms) / 3);
  return { over: (now) => now >= until, renew, look, stop };
}
