/**
 * Manages the slots of a worker, and decides when it claims runs for them: by a separate claim, or with the creation or the end
 * of a run.
 */
import type { ClaimedRun, ClaimRequest, ClaimRunResult, FinishRunResult, LeaseTerms } from "../storage/mod.ts";
import type { Attempt, AttemptOptions, NextClaim } from "./attempt-options.ts";
import type { StopReason } from "./attempt-state.ts";
import type { ClaimHealth } from "./health.ts";
import type { LeaseGuard } from "./leases.ts";

/** The maximum number of stop signals. Without it, a claim without a response would let them grow. */
const MAX_STOP_SIGNALS = 1_000;

/**
 * The attempts of this process, the number of claims that may bring more, and the stop signals that arrive before the responses
 * to those.
 */
export class WorkerSlots {
  readonly attempts: Set<Attempt> = new Set();
  /** True if this process executes runs and is not stopping. */
  isOpen = false;
  /** The number of slots reserved for claims without a response. */
  reserved = 0;
  /** The number of ends of runs that contain a claim and have no response. */
  endsWithClaim = 0;
  /** The number of attempts that have ended. A claim may not see attempts that end before its response. */
  freedCount = 0;
  /** Called whenever no attempt executes and no slot is reserved. */
  onIdle: (() => void) | undefined;
  readonly #concurrency: number;
  readonly #reasons = new Map<string, StopReason>();
  readonly #checks = new Set<string>();

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
  }

  countFree(): number {
    return this.isOpen ? this.#concurrency - this.attempts.size - this.reserved : 0;
  }

  /** Returns true if a claim is in flight. Its response may bring any run. */
  isClaiming(): boolean {
    return this.reserved + this.endsWithClaim > 0;
  }

  isIdle(): boolean {
    return this.attempts.size + this.reserved === 0;
  }

  checkIdle(): void {
    if (this.isIdle()) this.onIdle?.();
  }

  /** Returns the promises of attempts of this thread that still execute, without those that have settled. */
  listExecutions(thread_id: string): Promise<void>[] {
    const working: Promise<void>[] = [];
    for (const attempt of this.attempts) {
      const executing = attempt.thread_id === thread_id ? attempt.executing : null;
      if (executing) working.push(executing);
    }
    return working;
  }

  /**
   * Returns the attempts of a run. A run that was claimed again after its lease was lost has two until the first one has settled.
   */
  findAttempts(run_id: string): Attempt[] {
    const matches: Attempt[] = [];
    for (const attempt of this.attempts) if (attempt.run_id === run_id) matches.push(attempt);
    return matches;
  }

  scheduleSave(thread_id: string): void {
    for (const attempt of this.attempts) if (attempt.thread_id === thread_id) attempt.scheduleSave();
  }

  /** Resolves to false if the run does not execute here, else to true when all its emitted output is stored. */
  async flushEmitted(run_id: string): Promise<boolean> {
    return (await Promise.all(this.findAttempts(run_id).map((attempt) => attempt.flushEmitted()))).length > 0;
  }

  /**
   * Stops this run when it starts, if a claim in flight brings it. Has no effect without such a claim. Drops all earlier reasons
   * once there are `MAX_STOP_SIGNALS`.
   */
  stopOnStart(run_id: string, reason: StopReason): void {
    if (!this.isClaiming()) return;
    if (this.#reasons.size >= MAX_STOP_SIGNALS) this.#reasons.clear();
    this.#reasons.set(run_id, reason);
  }

  /**
   * Makes this run read its cancel flag when it starts, if a claim in flight brings it. Has no effect without such a claim. Drops
   * all earlier checks once there are `MAX_STOP_SIGNALS`.
   */
  checkCancelOnStart(run_id: string): void {
    if (!this.isClaiming()) return;
    if (this.#checks.size >= MAX_STOP_SIGNALS) this.#checks.clear();
    this.#checks.add(run_id);
  }

  /**
   * Removes and returns the signals for a run that arrived before its claim's response: the reason to stop it, undefined without
   * one, and whether it must read its cancel flag.
   */
  drainStopSignals(run_id: string): { readonly reason: StopReason | undefined; readonly check: boolean } {
    const reason = this.#reasons.get(run_id);
    this.#reasons.delete(run_id);
    return { reason, check: this.#checks.delete(run_id) };
  }

  /** Drops all signals, unless a claim is in flight. */
  clearSignals(): void {
    if (this.isClaiming()) return;
    this.#reasons.clear();
    this.#checks.clear();
  }
}

export interface ClaimOptions extends AttemptOptions {
  /** The name of this process in the `claim_log` of runs. */
  readonly worker: string;
}

const MAX_ATTEMPTS = 3;

/** Creates the terms of a claim, with a new token that identifies the lease. */
function createClaimTerms({ environment, lease_ms, worker, features }: ClaimOptions, now: number): LeaseTerms {
  return {
    token: environment.uuid(),
    lease_until: now + lease_ms,
    worker,
    ...features.claim,
  };
}

/**
 * Returns a function that creates a claim for any run that this process can execute, each with a new token. Reads the limits of
 * the graphs once, now.
 */
function createClaimRequestBuilder(options: ClaimOptions): (now: number) => ClaimRequest {
  const graphs = options.executor.graphs();
  const limits = {
    graph_ids: graphs.map(({ graph_id }) => graph_id),
    max_attempts: Object.fromEntries(
      graphs.map(({ graph_id, max_attempts }) => [graph_id, max_attempts ?? MAX_ATTEMPTS]),
    ),
    // Without a limit, an agent that starts again each time would make progress for ever.
    progress_ms: Object.fromEntries(
      graphs
        .filter(({ resumes_on_retry }) => resumes_on_retry)
        .map(({ graph_id, timeout_ms }) => [graph_id, timeout_ms ?? options.run_timeout_ms]),
    ),
  };
  return (now) => ({ ...createClaimTerms(options, now), ...limits, now });
}

export const POLL_MS = 2_000;
const RETRY_MS = 500;

interface ClaimParts {
  readonly slots: WorkerSlots;
  readonly leases: LeaseGuard;
  readonly health: ClaimHealth;
  start(claimed: ClaimedRun): void;
}

/** Decides when the worker sends separate claims, and creates the claims that are sent with the ends of runs. */
export class Claims {
  readonly #options: ClaimOptions;
  readonly #parts: ClaimParts;
  readonly #createRequest: (now: number) => ClaimRequest;
  #sentCount = 0;
  /** True if runs may wait: no claim has come back empty since the last wake-up. */
  #hasBacklog = true;
  #wakeUps = 0;
  /** True if some runs wait for the end of another run of their thread. */
  #isBlocked = false;
  /** The number of runs created here that may wait and that were not announced to other processes. */
  #unannounced = 0;
  #isClaiming = false;
  /** The time of the last separate claim, which first looks for expired leases of dead processes. */
  #claimedAt = Number.NEGATIVE_INFINITY;
  #cancelRetry = (): void => {};

  constructor(options: ClaimOptions, parts: ClaimParts) {
    this.#options = options;
    this.#parts = parts;
    this.#createRequest = createClaimRequestBuilder(options);
  }

  /** Returns the number of separate claims. */
  countSent(): number {
    return this.#sentCount;
  }

  /** Returns the number of waiting runs that were created here. */
  countUnannounced(): number {
    return this.#unannounced;
  }

  hasBacklog(): boolean {
    return this.#hasBacklog;
  }

  /** Returns true if runs wait for a slot or for their threads, as far as this process has read. */
  hasWaitingRuns(): boolean {
    return this.#hasBacklog || this.#isBlocked;
  }

  /** Records that runs may wait, and sends a claim if a slot is free. */
  wake(): void {
    this.#hasBacklog = true;
    this.#wakeUps++;
    if (!this.#isClaiming && this.#parts.slots.countFree() > 0) this.#claim();
  }

  /**
   * Is called after a due run was created: claims soon. Signals the new work to other processes, at once if the thread was busy
   * (`busy`), otherwise as part of the backlog.
   */
  offer(busy: boolean): void {
    this.#unannounced++;
    this.wake();
    if (busy) this.#publishWork();
    else this.#announceBacklog();
  }

  /**
   * Wakes the claims after an attempt has ended, if runs may wait. `claimed` is true if its end contained a claim, which looked
   * for runs that its thread blocked; these are then no reason to wake.
   */
  onSlotFreed(claimed: boolean): void {
    if (this.#hasBacklog || (this.#isBlocked && !claimed)) this.wake();
  }

  /**
   * Creates the claim that is sent with the end of a run, and tracks it until its `onResponse`. Returns null unless runs wait,
   * while this process stops or has an expired lease, and once per `POLL_MS`, so that a separate claim finds the runs of dead
   * processes.
   */
  createNextClaim(): NextClaim | null {
    const { slots, leases } = this.#parts;
    const now = this.#options.environment.now();
    const isDue = now - this.#claimedAt >= POLL_MS;
    if (!slots.isOpen || !this.hasWaitingRuns() || leases.hasExpiredLease(now) || isDue) return null;
    const wakeUpsBefore = this.#wakeUps;
    const request = this.#createRequest(now);
    slots.endsWithClaim++;
    leases.trackClaim(request);
    return {
      request,
      onResponse: (outcome) => {
        slots.endsWithClaim--;
        leases.settleClaim(request.token);
        this.#handleResponse(outcome, wakeUpsBefore);
        slots.clearSignals();
      },
    };
  }

  /**
   * Starts the claimed run. Without an outcome (the request failed) assumes a backlog. Without a run clears the backlog and notes
   * whether runs wait only for their threads, unless the worker was woken since the request.
   */
  #handleResponse(outcome: FinishRunResult | undefined, wakeUpsBefore: number): void {
    if (outcome?.next) this.#parts.start(outcome.next);
    else if (!outcome) this.#hasBacklog = true;
    else if (this.#wakeUps === wakeUpsBefore) {
      // The queue is empty, except for runs that wait for their thread.
      this.#hasBacklog = false;
      this.#isBlocked = outcome.blocked ?? true;
    }
  }

  /**
   * Announces the waiting runs to other processes, and cancels the retry of a failed claim. A later wake still claims if a slot
   * is open, so close the slots first.
   */
  stop(): void {
    this.#announceBacklog();
    this.#cancelRetry();
  }

  /**
   * Claims in the background; callers check that no claim is in flight. At its end it announces the backlog, and claims again while there
   * are a backlog, a free slot and a storage that responds.
   */
  #claim(): void {
    const { slots, health } = this.#parts;
    this.#isClaiming = true;
    void this.#claimAll().finally(() => {
      this.#isClaiming = false;
      slots.clearSignals();
      this.#announceBacklog();
      if (this.#hasBacklog && slots.countFree() > 0 && !health.isFailing()) this.#claim();
      slots.checkIdle();
    });
  }

  /**
   * Claims runs and starts them, one claim after another, while there are a backlog and a free slot. A failed claim is retried
   * later.
   */
  async #claimAll(): Promise<void> {
    const { slots, health, start } = this.#parts;
    while (this.#hasBacklog && slots.countFree() > 0) {
      this.#hasBacklog = false;
      const { freedCount } = slots;
      slots.reserved++;
      const outcome = await health.call(() => this.#sendClaim());
      slots.reserved--;
      if (!outcome) {
        this.#retryLater();
        return;
      }
      this.#isBlocked = outcome.kind === "blocked";
      this.#hasBacklog ||= this.#isBlocked && slots.freedCount > freedCount;
      if (outcome.kind === "claimed") {
        this.#hasBacklog = true;
        this.#unannounced = Math.max(0, this.#unannounced - 1);
        start(outcome.claimed);
      } else if (!this.#hasBacklog) this.#unannounced = 0;
    }
  }

  /** Settles the expired leases of this process, which may wait, and then claims one run. */
  async #sendClaim(): Promise<ClaimRunResult> {
    const { storage, scope } = this.#options;
    const now = await this.#parts.leases.settleExpiredLeases();
    this.#sentCount++;
    this.#claimedAt = now;
    // The time of the last check. If the process stalls in between, the claim regards no further lease as expired.
    return storage.claimRun(scope, this.#createRequest(now));
  }

  /** Notes that runs may wait, and schedules a wake after `RETRY_MS` in place of an earlier one. */
  #retryLater(): void {
    this.#hasBacklog = true;
    this.#cancelRetry();
    this.#cancelRetry = this.#options.environment.timer(RETRY_MS, () => this.wake());
  }

  /**
   * Announces the waiting runs that were created here to other processes, and resets their number. Does nothing while this
   * process has a free slot for each of them.
   */
  #announceBacklog(): void {
    if (this.#unannounced <= this.#parts.slots.countFree()) return;
    this.#unannounced = 0;
    this.#publishWork();
  }

  /**
   * Signals to other processes that runs wait: this process has no slot for them, or another process may have to free their
   * thread.
   */
  #publishWork(): void {
    const { bus, scope } = this.#options;
    bus.publish("work", scope.deployment, "elsewhere");
  }
}

/** Reserves slots for runs that start with their creation. Their claim is sent with `createRun`. */
export interface Reservations {
  /**
   * Reserves a slot and returns the claim for a run that is about to be created. Returns null if no slot is free beside those for
   * waiting runs, or a lease of this process has expired. Call `start` or `release` after it.
   */
  reserve(): LeaseTerms | null;
  /** Starts an attempt of the run in its reserved slot. The claim is no longer tracked. */
  start(claimed: ClaimedRun): void;
  /** Gives the slot back without a run, and claims for waiting runs. The claim is no longer tracked. */
  release(terms: LeaseTerms): void;
}

/** Creates the functions with which a new run reserves a slot, and starts in it or gives it back. */
export function createReservations(
  options: ClaimOptions,
  { slots, leases, start }: ClaimParts,
  claims: Claims,
): Reservations {
  return {
    reserve() {
      const now = options.environment.now();
      // Waiting runs are older. A new run starts at once only if a slot remains for each of those created here.
      if (slots.countFree() <= claims.countUnannounced() || leases.hasExpiredLease(now)) return null;
      const terms = createClaimTerms(options, now);
      slots.reserved++;
      leases.trackClaim(terms);
      return terms;
    },
    start(claimed) {
      slots.reserved--;
      start(claimed);
      leases.settleClaim(claimed.lease.token);
      slots.clearSignals();
    },
    release({ token }) {
      slots.reserved--;
      leases.settleClaim(token);
      slots.clearSignals();
      // Other runs may have waited for this slot.
      if (claims.hasBacklog()) claims.wake();
      slots.checkIdle();
    },
  };
}
