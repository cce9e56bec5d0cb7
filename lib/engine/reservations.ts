/** Slots for runs that start with their creation: the claim goes along with createRun. */
import type { ClaimedRun, ClaimTerms } from "../storage/mod.ts";
import { type ClaimTermOptions, claimTerms } from "./claim-terms.ts";
import type { ClaimParts, Claims } from "./claims.ts";

export interface Reservations {
  /** The claim for a run that is about to be created; null without a free slot. Ends with `start` or `release`. */
  reserve(): ClaimTerms | null;
  start(claimed: ClaimedRun): void;
  release(terms: ClaimTerms): void;
}

export function createReservations(
  options: ClaimTermOptions,
  { slots, leases, signals, start }: ClaimParts,
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
      signals.clear();
    },
    release({ token }) {
      slots.reserved--;
      leases.answered(token);
      signals.clear();
      // Other runs may have waited for this slot.
      if (claims.hasBacklog()) claims.wake();
      slots.checkIdle();
    },
  };
}
