/** Decides when to claim waiting runs: by a claim of its own, or with the end of another run. */
import type { ClaimedRun, ClaimOutcome } from "../storage/mod.ts";
import type { AttemptOptions, NextClaim } from "./attempt-context.ts";
import type { ClaimHealth } from "./claim-health.ts";
import { type ClaimTermOptions, claimRequests } from "./claim-terms.ts";
import type { LeaseGuard } from "./lease-guard.ts";
import type { Slots } from "./slots.ts";
import type { StopSignals } from "./stop-signals.ts";

export interface ClaimOptions extends AttemptOptions, ClaimTermOptions {}

export interface Claims {
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

export interface ClaimParts {
  readonly slots: Slots;
  readonly leases: LeaseGuard;
  readonly health: ClaimHealth;
  readonly signals: StopSignals;
  /** Starts an attempt. */
  start(claimed: ClaimedRun): void;
}

export function createClaims(options: ClaimOptions, parts: ClaimParts): Claims {
  const { slots, leases, health, signals, start } = parts;
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
  // Only a claim by itself takes over the expired leases of a dead process.
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
      signals.clear();
      announceBacklog();
      if (backlog && slots.free() > 0 && !health.isFailing()) claim();
      slots.checkIdle();
    });
  }

  async function claimAll(): Promise<void> {
    while (backlog && slots.free() > 0) {
      backlog = false;
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
      if (outcome.kind !== "claimed") {
        if (!backlog) unannounced = 0;
        continue;
      }
      backlog = true;
      unannounced = Math.max(0, unannounced - 1);
      start(outcome.claimed);
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
    if (!slots.open || !(backlog || blocked) || now - claimedAt >= POLL_MS) return null;
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
        signals.clear();
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
      if (backlog || claiming || (blocked && !claimed)) wake();
    },
    stop() {
      announceBacklog();
      cancelRetry();
    },
  };
}
