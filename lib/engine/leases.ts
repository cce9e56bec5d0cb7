/** The leases of a process: the heartbeat of each attempt, and the guard that keeps the process from claiming its own runs again. */
import { type Environment, pause } from "../environment.ts";
import type { Lease, LeaseTerms, Scope, Storage } from "../storage/mod.ts";
import type { AttemptState } from "./attempt-state.ts";

interface HeartbeatOptions {
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

/**
 * Renews the lease of an attempt. The lease is lost when the store refuses a renewal. Where another process could claim the run, it is
 * also lost shortly before it expires, if renewals have failed for a quarter of the lease while this process was running: a process
 * that stood still knows nothing about the store.
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

  /** An expired lease can still be renewed until another process claims the run. */
  isExpired(now: number): boolean {
    return now >= this.#until;
  }

  /** Nothing may begin in the last quarter of a lease: a process that stood still could not lose it in time. */
  isEnding(): boolean {
    const { environment, lease_ms } = this.#options;
    return environment.now() >= this.#until - lease_ms / 4;
  }

  /** True if the lease was renewed. */
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

  /** Renews at once, because a renewal also reads the cancel flag. Calls during a renewal share the next one. */
  checkCancelled(): void {
    this.#checksAgain = this.#isChecking;
    if (this.#isChecking || this.#isStopped) return;
    this.#isChecking = true;
    void this.renew().then(() => {
      this.#isChecking = false;
      if (this.#checksAgain) this.checkCancelled();
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancelTimer();
  }

  #schedule(ms: number): void {
    this.#cancelTimer();
    this.#cancelTimer = this.#options.environment.timer(Math.max(0, ms), () => void this.renew());
  }

  #handleResponse(renewed: Awaited<ReturnType<Storage["renewLease"]>>, until: number): void {
    if (!renewed) {
      this.#lose();
      return;
    }
    // The answer of an earlier renewal can arrive last: renew again, because the store may hold the earlier time.
    this.#schedule(until < this.#until ? 0 : this.#options.lease_ms / 3);
    this.#until = until;
    this.#failingSince = null;
    if (renewed.cancelled) this.#options.onCancelled();
  }

  /** `late_ms`: the delay with which the process noticed the failure, because it stood still. */
  #fail(error: unknown, late_ms: number): void {
    if (this.#isStopped) return;
    const { storage, environment, lease, lease_ms } = this.#options;
    const { run_id, thread_id } = lease;
    // One log record until the next success.
    if (this.#failingSince === null) {
      environment.log({ level: "warn", message: "a lease was not renewed", run_id, thread_id, error });
    }
    const now = environment.now();
    // A process that stands still again and again leaves no time for an answer.
    const since = late_ms > lease_ms / 20 ? now : (this.#failingSince ?? now);
    this.#failingSince = since;
    const isLost = now >= this.#until - lease_ms / 10 && now - since >= lease_ms / 4;
    if (isLost && !storage.single_process) this.#lose();
    else this.#schedule(lease_ms / 20);
  }

  #lose(): void {
    this.stop();
    this.#options.onLost();
  }
}

/** Repeats a failing call of the store for as long as a lease lasts. */
export type LeaseRetry = <Result>(call: () => Promise<Result>) => Promise<Result>;

/** The pause between two tries of a failing call. */
export const RETRY_MS = 500;
/** The time limit of retries while the process shuts down. */
const SHUTDOWN_RETRY_MS = 1_000;

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
        // Tries are counted, because a process that stood still knows nothing about the store.
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
  /** Those that wait for its answer. */
  readonly waiters: (() => void)[];
}

/** An attempt of this process, as the guard sees it. */
export interface LeasedAttempt {
  /** The lease, or the slot of the thread, has expired while the executor is at work: a claim could take the run. */
  isExpired(now: number): boolean;
  /** Resolves when a claim can no longer take this run while its executor is at work. Rejects while that is uncertain. */
  beforeClaim(): Promise<void>;
}

/**
 * Keeps this process from claiming its own runs a second time: after it stood still, its leases have expired while their
 * executors are still at work.
 */
export interface LeaseGuard {
  trackClaim(terms: LeaseTerms): void;
  settleClaim(token: string): void;
  /**
   * A lease or slot that this process held has expired: no claim may be sent. A run that was rolled back or taken over leaves a slot,
   * and the store does not know that its executor is still at work.
   */
  isBehind(now: number): boolean;
  /**
   * Settles expired leases: waits for late answers, renews leases, waits for executors. Resolves with a time at which none of
   * them has expired. Rejects if a renewal fails.
   */
  settleExpiredLeases(): Promise<number>;
}

/** How long to wait for a late answer, and how often again if the process stands still meanwhile. */
const CLAIM_RESPONSE_TIMEOUT_MS = 100;
const MAX_STALL_EXTENSIONS = 8;

/** `single_process`: no other process could retry a run whose claim is not answered. */
export function createLeaseGuard(
  environment: Environment,
  attempts: ReadonlySet<LeasedAttempt>,
  single_process: boolean,
): LeaseGuard {
  const claims = new Map<string, InFlightClaim>();

  /** Leases of this process that have expired. Claiming now could start such a run a second time. */
  function findExpiredLeases(now: number): {
    readonly claims: readonly InFlightClaim[];
    readonly attempts: readonly LeasedAttempt[];
  } {
    return {
      claims: [...claims.values()].filter(({ until }) => until <= now),
      attempts: [...attempts].filter((attempt) => attempt.isExpired(now)),
    };
  }

  /** Waits for the answer of a late claim. A slow store must not delay the rest, unless no other process could retry the run. */
  async function waitForResponse({ token, waiters }: InFlightClaim): Promise<void> {
    let cancel = (): void => {};
    const wait = (remainingWaits: number): void => {
      const until = environment.now() + CLAIM_RESPONSE_TIMEOUT_MS;
      cancel = environment.timer(CLAIM_RESPONSE_TIMEOUT_MS, () => {
        // A late timer means that the process stood still: the store had no chance to answer.
        if (remainingWaits > 1 && environment.now() - until > CLAIM_RESPONSE_TIMEOUT_MS / 10)
          return wait(remainingWaits - 1);
        settleClaim(token);
      });
    };
    if (!single_process) wait(MAX_STALL_EXTENSIONS);
    await new Promise<void>((resolve) => waiters.push(resolve));
    cancel();
  }

  function settleClaim(token: string): void {
    const claim = claims.get(token);
    claims.delete(token);
    for (const resolve of claim?.waiters ?? []) resolve();
  }

  function isBehind(now: number): boolean {
    for (const { until } of claims.values()) if (until <= now) return true;
    for (const attempt of attempts) if (attempt.isExpired(now)) return true;
    return false;
  }

  return {
    isBehind,
    trackClaim({ token, lease_until }) {
      claims.set(token, { token, until: lease_until, waiters: [] });
    },
    settleClaim,
    async settleExpiredLeases() {
      let now = environment.now();
      // More leases may expire while the store answers.
      while (isBehind(now)) {
        const expired = findExpiredLeases(now);
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
