/** The slots of a worker, and when it claims runs for them: by a claim of its own, or with the creation or the end of a run. */
import type { ClaimedRun, ClaimRequest, ClaimRunResult, FinishRunResult, LeaseTerms } from "../storage/mod.ts";
import type { Attempt, AttemptOptions, NextClaim } from "./attempt-options.ts";
import type { StopReason } from "./attempt-state.ts";
import type { ClaimHealth } from "./health.ts";
import type { LeaseGuard } from "./leases.ts";

/** The limit of signals kept: without one, a claim that is never answered would let them grow. */
const MOST_SIGNALS = 1_000;

/** What executes in this process, how many claims may bring more, and stop signals that arrive before those are answered. */
export class Slots {
  readonly attempts: Set<Attempt> = new Set();
  /** This process executes runs, and does not stop. */
  open = false;
  /** Slots kept for claims that are not answered. */
  reserved = 0;
  /** Ends of runs that carry a claim and are not answered. */
  endsWithClaim = 0;
  /** How many attempts have ended: a claim may not see those that end while it is under way. */
  freed = 0;
  /** Called whenever nothing executes and no slot is reserved. */
  onIdle: (() => void) | undefined;
  readonly #concurrency: number;
  readonly #reasons = new Map<string, StopReason>();
  readonly #checks = new Set<string>();

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
  }

  free(): number {
    return this.open ? this.#concurrency - this.attempts.size - this.reserved : 0;
  }

  /** A claim is under way: its answer may bring any run. */
  isClaiming(): boolean {
    return this.reserved + this.endsWithClaim > 0;
  }

  isIdle(): boolean {
    return this.attempts.size + this.reserved === 0;
  }

  checkIdle(): void {
    if (this.isIdle()) this.onIdle?.();
  }

  /** The executors that are at work on a thread. */
  executingOn(thread_id: string): Promise<void>[] {
    const working: Promise<void>[] = [];
    for (const attempt of this.attempts) {
      const executing = attempt.thread_id === thread_id ? attempt.executing : null;
      if (executing) working.push(executing);
    }
    return working;
  }

  /** A run that was claimed again after its lease was lost has two attempts until the first one has settled. */
  of(run_id: string): Attempt[] {
    const own: Attempt[] = [];
    for (const attempt of this.attempts) if (attempt.run_id === run_id) own.push(attempt);
    return own;
  }

  saveSoon(thread_id: string): void {
    for (const attempt of this.attempts) if (attempt.thread_id === thread_id) attempt.scheduleSave();
  }

  /** False if the run does not execute here. Otherwise resolves when everything that was shown to subscribers is stored. */
  async flushShown(run_id: string): Promise<boolean> {
    return (await Promise.all(this.of(run_id).map((attempt) => attempt.flushEmitted()))).length > 0;
  }

  /** Stop this run if a claim under way brings it. */
  stopLater(run_id: string, reason: StopReason): void {
    if (!this.isClaiming()) return;
    if (this.#reasons.size >= MOST_SIGNALS) this.#reasons.clear();
    this.#reasons.set(run_id, reason);
  }

  /** Read the cancel flag of this run if a claim under way brings it. */
  checkLater(run_id: string): void {
    if (!this.isClaiming()) return;
    if (this.#checks.size >= MOST_SIGNALS) this.#checks.clear();
    this.#checks.add(run_id);
  }

  /** Removes and returns what was kept for a run. */
  takeSignals(run_id: string): { readonly reason: StopReason | undefined; readonly check: boolean } {
    const reason = this.#reasons.get(run_id);
    this.#reasons.delete(run_id);
    return { reason, check: this.#checks.delete(run_id) };
  }

  /** A claim was answered: forgets all signals, unless another claim is under way. */
  clearSignals(): void {
    if (this.isClaiming()) return;
    this.#reasons.clear();
    this.#checks.clear();
  }
}

export interface ClaimOptions extends AttemptOptions {
  /** The name of this process in the runs' `claim_log`. */
  readonly worker: string;
}

const MAX_ATTEMPTS = 3;

/** A fresh token for each claim: it identifies the lease. */
function claimTerms({ environment, lease_ms, worker, features }: ClaimOptions, now: number): LeaseTerms {
  return {
    token: environment.uuid(),
    lease_until: now + lease_ms,
    worker,
    ...features.claim,
  };
}

/** Builds claims for any run that this process can execute. */
function claimRequests(options: ClaimOptions): (now: number) => ClaimRequest {
  const graphs = options.executor.graphs();
  const limits = {
    graph_ids: graphs.map(({ graph_id }) => graph_id),
    max_attempts: Object.fromEntries(
      graphs.map(({ graph_id, max_attempts }) => [graph_id, max_attempts ?? MAX_ATTEMPTS]),
    ),
    // Without a limit, an agent that starts anew each time would make progress for ever.
    progress_ms: Object.fromEntries(
      graphs
        .filter(({ resumes }) => resumes)
        .map(({ graph_id, timeout_ms }) => [graph_id, timeout_ms ?? options.run_timeout_ms]),
    ),
  };
  return (now) => ({ ...claimTerms(options, now), ...limits, now });
}

export const POLL_MS = 2_000;
const RETRY_MS = 500;

interface ClaimParts {
  readonly slots: Slots;
  readonly leases: LeaseGuard;
  readonly health: ClaimHealth;
  /** Starts an attempt. */
  start(claimed: ClaimedRun): void;
}

/** Decides when the worker claims runs by a call of its own, and makes the claims that go along with the ends of runs. */
export class Claims {
  readonly #options: ClaimOptions;
  readonly #parts: ClaimParts;
  readonly #request: (now: number) => ClaimRequest;
  #sent = 0;
  /** No claim has come back empty since the last wake-up: runs may wait. */
  #backlog = true;
  #wakeUps = 0;
  /** Some runs wait for the end of another run of their thread. */
  #blocked = false;
  /** Runs created here that may wait, and of which other processes do not know. */
  #unannounced = 0;
  #isClaiming = false;
  /** A claim by itself looks for expired leases of dead processes first. */
  #claimedAt = Number.NEGATIVE_INFINITY;
  #cancelRetry = (): void => {};

  constructor(options: ClaimOptions, parts: ClaimParts) {
    this.#options = options;
    this.#parts = parts;
    this.#request = claimRequests(options);
  }

  /** The number of claims sent by themselves. */
  sent(): number {
    return this.#sent;
  }

  /** The number of waiting runs that were created here. */
  waitingHere(): number {
    return this.#unannounced;
  }

  hasBacklog(): boolean {
    return this.#backlog;
  }

  /** Runs are known to wait, for a slot or for their threads. */
  hasWaitingRuns(): boolean {
    return this.#backlog || this.#blocked;
  }

  /** Runs may wait: claims now, if a slot is free. */
  wake(): void {
    this.#backlog = true;
    this.#wakeUps++;
    if (!this.#isClaiming && this.#parts.slots.free() > 0) this.#claim();
  }

  /** A run that is due was created. `busy`: its thread was busy. */
  offer(busy: boolean): void {
    this.#unannounced++;
    this.wake();
    if (busy) this.#tellOthers();
    else this.#announceBacklog();
  }

  /** An attempt has ended. `claimed`: its end carried a claim, which looked for runs that its thread held up. */
  slotFreed(claimed: boolean): void {
    if (this.#backlog || (this.#blocked && !claimed)) this.wake();
  }

  /** The claim for the end of a run. Null while no run is known to wait, and once per POLL_MS, for the sake of dead processes. */
  next(): NextClaim | null {
    const { slots, leases } = this.#parts;
    const now = this.#options.environment.now();
    const isDue = now - this.#claimedAt >= POLL_MS;
    if (!slots.open || !this.hasWaitingRuns() || leases.isBehind(now) || isDue) return null;
    const wakeUpsBefore = this.#wakeUps;
    const request = this.#request(now);
    slots.endsWithClaim++;
    leases.sent(request);
    return {
      request,
      answered: (outcome) => {
        slots.endsWithClaim--;
        leases.answered(request.token);
        this.#handleAnswer(outcome, wakeUpsBefore);
        slots.clearSignals();
      },
    };
  }

  #handleAnswer(outcome: FinishRunResult | undefined, wakeUpsBefore: number): void {
    if (outcome?.next) this.#parts.start(outcome.next);
    else if (!outcome) this.#backlog = true;
    else if (this.#wakeUps === wakeUpsBefore) {
      // The queue is empty, apart from runs that wait for their thread.
      this.#backlog = false;
      this.#blocked = outcome.blocked ?? true;
    }
  }

  stop(): void {
    this.#announceBacklog();
    this.#cancelRetry();
  }

  #claim(): void {
    const { slots, health } = this.#parts;
    this.#isClaiming = true;
    void this.#claimAll().finally(() => {
      this.#isClaiming = false;
      slots.clearSignals();
      this.#announceBacklog();
      if (this.#backlog && slots.free() > 0 && !health.isFailing()) this.#claim();
      slots.checkIdle();
    });
  }

  async #claimAll(): Promise<void> {
    const { slots, health, start } = this.#parts;
    while (this.#backlog && slots.free() > 0) {
      this.#backlog = false;
      const { freed } = slots;
      slots.reserved++;
      const outcome = await health.call(() => this.#sendClaim());
      slots.reserved--;
      if (!outcome) {
        this.#retryLater();
        return;
      }
      this.#blocked = outcome.kind === "blocked";
      this.#backlog ||= this.#blocked && slots.freed > freed;
      if (outcome.kind === "claimed") {
        this.#backlog = true;
        this.#unannounced = Math.max(0, this.#unannounced - 1);
        start(outcome.claimed);
      } else if (!this.#backlog) this.#unannounced = 0;
    }
  }

  async #sendClaim(): Promise<ClaimRunResult> {
    const { storage, scope } = this.#options;
    const now = await this.#parts.leases.catchUp();
    this.#sent++;
    this.#claimedAt = now;
    // The time of the last check: if the process stands still in between, no further lease looks expired to the claim.
    return storage.claimRun(scope, this.#request(now));
  }

  #retryLater(): void {
    this.#backlog = true;
    this.#cancelRetry();
    this.#cancelRetry = this.#options.environment.timer(RETRY_MS, () => this.wake());
  }

  /** Tells other processes about waiting runs, except those this process has a free slot for. */
  #announceBacklog(): void {
    if (this.#unannounced <= this.#parts.slots.free()) return;
    this.#unannounced = 0;
    this.#tellOthers();
  }

  /** Runs wait for which this process has no slot, or whose thread another process may have to free. */
  #tellOthers(): void {
    const { bus, scope } = this.#options;
    bus.publish("work", scope.deployment, "elsewhere");
  }
}

/** Slots for runs that start with their creation: the claim goes along with `createRun`. */
export interface Reservations {
  /** The claim for a run that is about to be created; null without a free slot. Ends with `start` or `release`. */
  reserve(): LeaseTerms | null;
  start(claimed: ClaimedRun): void;
  release(terms: LeaseTerms): void;
}

export function createReservations(
  options: ClaimOptions,
  { slots, leases, start }: ClaimParts,
  claims: Claims,
): Reservations {
  return {
    reserve() {
      const now = options.environment.now();
      // Waiting runs are older: a new run starts at once only if a slot is left for each of those made here.
      if (slots.free() <= claims.waitingHere() || leases.isBehind(now)) return null;
      const terms = claimTerms(options, now);
      slots.reserved++;
      leases.sent(terms);
      return terms;
    },
    start(claimed) {
      slots.reserved--;
      start(claimed);
      leases.answered(claimed.lease.token);
      slots.clearSignals();
    },
    release({ token }) {
      slots.reserved--;
      leases.answered(token);
      slots.clearSignals();
      // Other runs may have waited for this slot.
      if (claims.hasBacklog()) claims.wake();
      slots.checkIdle();
    },
  };
}
