/** Ends an attempt whose function only waits. */
import type { JournalWriterOptions } from "./journal-writer.ts";
import type { PendingWaits } from "./pending-waits.ts";
import type { Replay } from "./replay.ts";

/**
 * Suspends the run, or ends it with the interrupts of pending asks, after storing a pause entry with the state. Does nothing if
 * an operation settles before the driver runs this effect.
 */
export function endAttempt(
  { call, journal, eventQueue }: JournalWriterOptions,
  waits: PendingWaits,
  replay: Replay,
): void {
  eventQueue.push({
    kind: "effect",
    /**
     * Suspends the run if its function only waits: stores the pending journal entry, and shows the asks as interrupts. Does
     * nothing while steps run or nothing waits.
     */
    *run() {
      if (waits.isBusy() || waits.isEmpty()) return;
      eventQueue.isSuspended = true;
      journal.stopListening();
      const due_at = waits.findNearestDueTime();
      const asks = waits.getPendingAsks();
      if (asks.length > 0) yield* call.completeReply();
      yield* call.commitStep();
      const spent = Math.max(call.usageCount, call.reportedUsageCount);
      const entryBase = { kind: "pause" as const, name: "", occurrence: 0, call: 0, phase: "done" as const };
      journal.append({ ...entryBase, until: due_at, position: replay.createPosition(), spent });
      if (asks.length > 0) {
        yield journal.pause(due_at);
        yield* call.pauseWithInterrupts(asks, journal.call_id);
      } else yield journal.suspend(due_at, waits.toWaitingFor());
    },
  });
}
