/** Ends an attempt whose function only waits. */
import type { JournalWriterOptions } from "./journal-writer.ts";
import type { PendingWaits } from "./pending-waits.ts";
import type { Replay } from "./replay.ts";

/**
 * Queues an effect that ends the attempt of a function that only waits. It stores a pause entry with the state, and suspends the
 * run or, if asks are pending, ends it with their interrupts. The effect does nothing if work is active or no wait is left when
 * the driver runs it.
 */
export function endAttempt(
  { call, journal, eventQueue }: JournalWriterOptions,
  waits: PendingWaits,
  replay: Replay,
): void {
  eventQueue.push({
    kind: "effect",
    /**
     * Does nothing while steps run or nothing waits. Else marks the queue as suspended, stops listening for events, stores the
     * pending state and a pause entry, and suspends the run or ends it with the interrupts of the pending asks.
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
