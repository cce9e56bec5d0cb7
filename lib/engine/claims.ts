/** The slots of a worker, and when it claims runs for them: by a claim of its own, or with the creation or the end of a run. */
import type { ClaimedRun, ClaimOutcome, ClaimRequest, ClaimTerms } from "../storage/mod.ts";
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
function claimTerms({ environment, lease_ms, worker, features }: ClaimOptions, now: number): ClaimTerms {
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

interface Claims {
  /** The number of claims sent by themselves. */
  sent(): number;
  /** Runs are known to wait, for a slot or for their threads. */
  hasWaitingRuns(): boolean;
  /** Runs may wait: claims now, if a slot is free. */
  wake(): void;
  /** A run that is due was created. `busy`: its thread was busy. */
  offer(busy: boolean): void;
  /** An attempt has ended. `claimed`: its end carried a claim, which looked for runs that its thread held up. */
  slotFreed(claimed: boolean): void;
  /** The number of waiting runs that were created here. */
  waitingHere(): number;
  hasBacklog(): boolean;
  /** The claim for the end of a run. Null while no run is known to wait, and once per POLL_MS, for the sake of dead processes. */
  next(): NextClaim | null;
  stop(): void;
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

export function createClaims(options: ClaimOptions, parts: ClaimParts): Claims {
  const { slots, leases, health, start } = parts;
  const { environment, storage, bus, scope } = options;
  const request = claimRequests(options);
  let sent = 0;
  // No claim has come back empty since the last wake-up: runs may wait.
  let backlog = true;
  let wakeUps = 0;
  // Some runs wait for the end of another run of their thread.
  let blocked = false;
  // Runs created here that may wait, and of which other processes do not know.
  let unannounced = 0;
  let claiming: Promise<void> | null = null;
  // A claim by itself looks for expired leases of dead processes first.
  let claimedAt = Number.NEGATIVE_INFINITY;
  let cancelRetry = (): void => {};

  function wake(): void {
    backlog = true;
    wakeUps++;
    if (!claiming && slots.free() > 0) claim();
  }

  function claim(): void {
    claiming = claimAll().finally(() => {
      claiming = null;
      slots.clearSignals();
      announceBacklog();
      if (backlog && slots.free() > 0 && !health.isFailing()) claim();
      slots.checkIdle();
    });
  }

  async function claimAll(): Promise<void> {
    while (backlog && slots.free() > 0) {
      backlog = false;
      const { freed } = slots;
      slots.reserved++;
      const outcome = await health.call(sendClaim);
      slots.reserved--;
      if (!outcome) {
        backlog = true;
        cancelRetry();
        cancelRetry = environment.timer(RETRY_MS, wake);
        return;
      }
      blocked = outcome.kind === "blocked";
      backlog ||= blocked && slots.freed > freed;
      if (outcome.kind === "claimed") {
        backlog = true;
        unannounced = Math.max(0, unannounced - 1);
        start(outcome.claimed);
      } else if (!backlog) unannounced = 0;
    }
  }

  async function sendClaim(): Promise<ClaimOutcome> {
    const now = await leases.catchUp();
    sent++;
    claimedAt = now;
    // The time of the last check: if the process stands still in between, no further lease looks expired to the claim.
    return storage.claimRun(scope, request(now));
  }

  /** Runs wait for which this process has no slot, or whose thread another process may have to free. */
  const tellOthers = (): void => bus.publish("work", scope.deployment, "elsewhere");

  /** Tells other processes about waiting runs, except those this process has a free slot for. */
  function announceBacklog(): void {
    if (unannounced <= slots.free()) return;
    unannounced = 0;
    tellOthers();
  }

  function next(): NextClaim | null {
    const now = environment.now();
    if (!slots.open || !(backlog || blocked) || leases.isBehind(now) || now - claimedAt >= POLL_MS) return null;
    const wakeUpsBefore = wakeUps;
    const sentRequest = request(now);
    slots.endsWithClaim++;
    leases.sent(sentRequest);
    return {
      request: sentRequest,
      answered(outcome) {
        slots.endsWithClaim--;
        leases.answered(sentRequest.token);
        if (outcome?.next) start(outcome.next);
        else if (!outcome) backlog = true;
        else if (wakeUps === wakeUpsBefore) {
          // The queue is empty, apart from runs that wait for their thread.
          backlog = false;
          blocked = outcome.blocked ?? true;
        }
        slots.clearSignals();
      },
    };
  }

  return {
    wake,
    next,
    sent: () => sent,
    waitingHere: () => unannounced,
    hasBacklog: () => backlog,
    hasWaitingRuns: () => backlog || blocked,
    offer(busy) {
      unannounced++;
      wake();
      if (busy) tellOthers();
      else announceBacklog();
    },
    slotFreed(claimed) {
      if (backlog || (blocked && !claimed)) wake();
    },
    stop() {
      announceBacklog();
      cancelRetry();
    },
  };
}

/** Slots for runs that start with their creation: the claim goes along with `createRun`. */
export interface Reservations {
  /** The claim for a run that is about to be created; null without a free slot. Ends with `start` or `release`. */
  reserve(): ClaimTerms | null;
  start(claimed: ClaimedRun): void;
  release(terms: ClaimTerms): void;
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
