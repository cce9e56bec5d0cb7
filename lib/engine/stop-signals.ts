/** Stop signals that arrive before the claim of their run is answered. */
import type { StopReason } from "./attempt-context.ts";
import type { Slots } from "./slots.ts";

export interface StopSignals {
  /** Stop this run if a claim under way brings it. */
  stopLater(run_id: string, reason: StopReason): void;
  /** Read the cancel flag of this run if a claim under way brings it. */
  checkLater(run_id: string): void;
  /** Removes and returns what was kept for a run. */
  take(run_id: string): { readonly reason: StopReason | undefined; readonly check: boolean };
  /** A claim was answered: forgets all signals, unless another claim is under way. */
  clear(): void;
}

/** The limit of signals kept: without one, a claim that is never answered would let them grow. */
const MOST_SIGNALS = 1_000;

export function createStopSignals(slots: Slots): StopSignals {
  const reasons = new Map<string, StopReason>();
  const checks = new Set<string>();
  return {
    stopLater(run_id, reason) {
      if (!slots.isClaiming()) return;
      if (reasons.size >= MOST_SIGNALS) reasons.clear();
      reasons.set(run_id, reason);
    },
    checkLater(run_id) {
      if (!slots.isClaiming()) return;
      if (checks.size >= MOST_SIGNALS) checks.clear();
      checks.add(run_id);
    },
    take(run_id) {
      const reason = reasons.get(run_id);
      reasons.delete(run_id);
      return { reason, check: checks.delete(run_id) };
    },
    clear() {
      if (slots.isClaiming()) return;
      reasons.clear();
      checks.clear();
    },
  };
}
