/**
 * Manages the leases of a process: the heartbeat of each attempt, and the guard that keeps the process from claiming its own runs
 * again.
 */
import { type Environment, pause } from "../environment.ts";
import type { Lease, LeaseTerms, Scope, Storage } from "../storage/mod.ts";
import type { AttemptState } from "./attempt-state.ts";

interface HeartbeatOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly lease: Lease;
  readonly lease_ms: number;
  /** The time at which the lease expires without a renewal. */
  readonly until: number;
  /** Called when the run's cancel flag is set. */
  onCancelled(): void;
  /** Called when another process has claimed the run or may have. This process must write nothing more then. */
  onLost(): void;
}

/**
 * Renews the lease of an attempt. The lease is lost when the storage refuses a renewal. Where another process could claim the
 * run, it is also lost shortly before it expires, if renewals have failed for a quarter of the lease without a stall of this
 * process: after a stall, the state of the storage is unknown.
 */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #until: number;
  #failingSince: number | null = null;
  #isStopped = false;
  #isChecking = false;
  #checksAgain = false;
  #cancelTimer = (): void => {};

  constructor(options: HeartbeatOptions) {
    const { environment, lease_ms, until } = options;
    this.#options = options;
    this.#until = until;
    this.#schedule(until - environment.now() - (2 * lease_ms) / 3);
  }

  /** Returns true if the lease has expired. It can still be renewed until another process claims the run. */
  isExpired(now: number): boolean {
    return now >= this.#until;
  }

  /**
   * Returns true in the last quarter of a lease, in which nothing may begin: after a stall, the process could not give the lease
   * up in time.
   */
  isEnding(): boolean {
    const { environment, lease_ms } = this.#options;
    return environment.now() >= this.#until - lease_ms / 4;
  }

  /**
   * Renews the lease and schedules the next renewal. Returns true if it was renewed, false if it is lost or the call failed;
   * never rejects. Calls `onCancelled` if the run is flagged, and `onLost` if the lease is lost or cannot be renewed in time.
   */
  async renew(): Promise<boolean> {
    const { storage, scope, environment, lease, lease_ms } = this.#options;
    const sentAt = environment.now();
    const cancelWait = environment.timer(lease_ms / 6, () => {
      this.#fail(new Error("The store does not answer"), environment.now() - sentAt - lease_ms / 6);
    });
    try {
      const renewed = await storage.renewLease(scope, lease, sentAt + lease_ms);
      if (!this.#isStopped) this.#handleResponse(renewed, sentAt + lease_ms);
      return renewed !== null;
    } catch (error) {
      this.#fail(error, 0);
      return false;
    } finally {
      cancelWait();
    }
  }

  /**
   * Renews the lease at once, because a renewal also reads the cancel flag. Calls during such a renewal share the one after it.
   * Does nothing once stopped.
   */
  checkCancelled(): void {
    this.#checksAgain = this.#isChecking;
    if (this.#isChecking || this.#isStopped) return;
    this.#isChecking = true;
    void this.renew().then(() => {
      this.#isChecking = false;
      if (this.#checksAgain) this.checkCancelled();
    });
  }

  /** Stops the renewals. The lease stays until it expires. */
  stop(): void {
    this.#isStopped = true;
    this.#cancelTimer();
  }

  /** Schedules the next renewal in place of an earlier one. */
  #schedule(ms: number): void {
    this.#cancelTimer();
    this.#cancelTimer = this.#options.environment.timer(Math.max(0, ms), () => void this.renew());
  }

  /** Schedules the next renewal, and calls `onCancelled` if the run is flagged. Loses the lease if `renewed` is null. */
  #handleResponse(renewed: Awaited<ReturnType<Storage["renewLease"]>>, until: number): void {
    if (!renewed) {
      this.#lose();
      return;
    }
    // The response to an earlier renewal can arrive last. Renew again, because the storage may hold the earlier time.
    this.#schedule(until < this.#until ? 0 : this.#options.lease_ms / 3);
    this.#until = until;
    this.#failingSince = null;
    if (renewed.cancelled) this.#options.onCancelled();
  }

  /**
   * Logs the first of successive failures and tries again soon. Loses the lease if it is about to end, except where no other
   * process could take the run. `late_ms` is the delay after a stall with which the process noticed the failure.
   */
  #fail(error: unknown, late_ms: number): void {
    if (this.#isStopped) return;
    const { storage, environment, lease, lease_ms } = this.#options;
    const { run_id, thread_id } = lease;
    // One log record until the next success.
    if (this.#failingSince === null) {
      environment.log({ level: "warn", message: "a lease was not renewed", run_id, thread_id, error });
    }
    const now = environment.now();
    // A process that stalls repeatedly leaves no time for a response.
    const since = late_ms > lease_ms / 20 ? now : (this.#failingSince ?? now);
    this.#failingSince = since;
    const isLost = now >= this.#until - lease_ms / 10 && now - since >= lease_ms / 4;
    if (isLost && !storage.single_process) this.#lose();
    else this.#schedule(lease_ms / 20);
  }

  /** Stops the renewals and reports the lost lease. */
  #lose(): void {
    this.stop();
    this.#options.onLost();
  }
}

/** Repeats a failing storage call for as long as a lease lasts. */
export type LeaseRetry = <Result>(call: () => Promise<Result>) => Promise<Result>;

/** The pause between two attempts of a failing call, in milliseconds. */
export const RETRY_MS = 500;
/** The time limit of retries during the shutdown of the process, in milliseconds. */
const SHUTDOWN_RETRY_MS = 1_000;

/**
 * Returns a function that repeats a storage call of a run each `RETRY_MS`, for the duration of a lease (less on shutdown), and
 * logs each failure. Throws the last error then, or as soon as the attempt may not write any more.
 */
export function createLeaseRetry(
  { environment, lease_ms }: Pick<HeartbeatOptions, "environment" | "lease_ms">,
  state: AttemptState,
  { run_id, thread_id }: Lease,
): LeaseRetry {
  return async (call) => {
    const { mayWrite } = state;
    for (let failures = 1; ; failures++) {
      try {
        return await call();
      } catch (error) {
        environment.log({ level: "error", message: "a storage call of a run failed", run_id, thread_id, error });
        const limit = state.reason === "shutting_down" ? Math.min(lease_ms, SHUTDOWN_RETRY_MS) : lease_ms;
        // Attempts are counted instead of time, because after a stall the state of the storage is unknown.
        if (state.mayWrite !== mayWrite || (failures - 1) * RETRY_MS >= limit) throw error;
        await pause(environment, RETRY_MS);
      }
    }
  };
}

/** A claim sent with the creation or the end of a run. */
interface InFlightClaim {
  readonly token: string;
  readonly until: number;
  /** The callbacks that wait for its response. */
  readonly waiters: (() => void)[];
}

/** The interface of an attempt for the lease guard. */
export interface LeasedAttempt {
  /**
   * Returns true if the lease or the thread lock has expired while the executor is running, so that a claim could take the run.
   */
  isExpired(now: number): boolean;
  /** Resolves when a claim can no longer take this run while its executor is running. Rejects while that is uncertain. */
  beforeClaim(): Promise<void>;
}

/**
 * Keeps this process from claiming its own runs a second time: after a stall, its leases have expired while their executors are
 * still running.
 */
export interface LeaseGuard {
  /** Remembers a claim in flight until `settleClaim`. Its lease counts as one of this process. */
  trackClaim(terms: LeaseTerms): void;
  /** Forgets a claim and wakes those that wait for its response. */
  settleClaim(token: string): void;
  /**
   * Returns true if a lease or thread lock of this process has expired, or the lease of a claim in flight, so that no claim may
   * be sent. A run that was rolled back or taken over leaves a lock, and no row of the storage shows that its executor is still
   * running.
   */
  hasExpiredLease(now: number): boolean;
  /**
   * Settles expired leases: waits for late responses, renews leases, waits for executors. Resolves with a time at which none of
   * them has expired. Rejects if a renewal fails.
   */
  settleExpiredLeases(): Promise<number>;
}

/** The time to wait for the response to a claim, in milliseconds, and how often to extend the wait after an event loop stall. */
const CLAIM_RESPONSE_TIMEOUT_MS = 100;
const MAX_STALL_EXTENSIONS = 8;

/**
 * Creates the guard, which waits for expired leases of this process before a claim could start their runs a second time.
 * `single_process` means that no other process could retry a run whose claim has no response.
 */
export function createLeaseGuard(
  environment: Environment,
  attempts: ReadonlySet<LeasedAttempt>,
  single_process: boolean,
): LeaseGuard {
  const claims = new Map<string, InFlightClaim>();

  /** Returns the expired leases of this process. A claim could start such a run a second time. */
  function findOwnExpiredLeases(now: number): {
    readonly claims: readonly InFlightClaim[];
    readonly attempts: readonly LeasedAttempt[];
  } {
    return {
      claims: [...claims.values()].filter(({ until }) => until <= now),
      attempts: [...attempts].filter((attempt) => attempt.isExpired(now)),
    };
  }

  /**
   * Waits for the response to a late claim, and forgets the claim after a timeout, which a stall extends. A slow storage must not
   * delay the rest; without a timeout if no other process could retry the run.
   */
  async function waitForResponse({ token, waiters }: InFlightClaim): Promise<void> {
    let cancel = (): void => {};
    /**
     * Forgets the claim after `CLAIM_RESPONSE_TIMEOUT_MS`. If the timer is late, waits again, `remainingWaits` times in total.
     */
    const wait = (remainingWaits: number): void => {
      const until = environment.now() + CLAIM_RESPONSE_TIMEOUT_MS;
      cancel = environment.timer(CLAIM_RESPONSE_TIMEOUT_MS, () => {
        // A late timer means a stall: the storage had no chance to respond.
        if (remainingWaits > 1 && environment.now() - until > CLAIM_RESPONSE_TIMEOUT_MS / 10)
          return wait(remainingWaits - 1);
        settleClaim(token);
      });
    };
    if (!single_process) wait(MAX_STALL_EXTENSIONS);
    await new Promise<void>((resolve) => waiters.push(resolve));
    cancel();
  }

  /** Removes the claim and wakes those that wait for its response. */
  function settleClaim(token: string): void {
    const claim = claims.get(token);
    claims.delete(token);
    for (const resolve of claim?.waiters ?? []) resolve();
  }

  /** Returns true if the lease of a claim in flight or of an attempt has expired, which means that this process has stalled. */
  function hasExpiredLease(now: number): boolean {
    for (const { until } of claims.values()) if (until <= now) return true;
    for (const attempt of attempts) if (attempt.isExpired(now)) return true;
    return false;
  }

  return {
    hasExpiredLease,
    trackClaim({ token, lease_until }) {
      claims.set(token, { token, until: lease_until, waiters: [] });
    },
    settleClaim,
    async settleExpiredLeases() {
      let now = environment.now();
      // More leases may expire during the storage calls.
      while (hasExpiredLease(now)) {
        const expired = findOwnExpiredLeases(now);
        await Promise.all([
          ...expired.claims.map(waitForResponse),
          ...expired.attempts.map((attempt) => attempt.beforeClaim()),
        ]);
        now = environment.now();
      }
      return now;
    },
  };
}
