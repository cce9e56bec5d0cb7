/** How an attempt ends before its function does. */
import type { EntryOptions } from "./entries.ts";
import type { Replay } from "./replay.ts";
import type { Waits } from "./waits.ts";

/** Suspends the run, or ends it for the open asks, unless something happens before the driver comes to it. */
export function endAttempt({ call, journal, emitted }: EntryOptions, waits: Waits, replay: Replay): void {
  emitted.push({
    kind: "effect",
    *run() {
      if (waits.isBusy() || waits.isEmpty()) return;
      emitted.left = true;
      journal.freeze();
      const due_at = waits.nearest();
      const asks = waits.asks();
      if (asks.length > 0) yield* call.completeReply();
      yield* call.commitStep();
      const spent = Math.max(call.spent, call.reported);
      const place = { kind: "pause" as const, name: "", occurrence: 0, call: 0, phase: "done" as const };
      journal.append({ ...place, until: due_at, position: replay.position(), spent });
      if (asks.length > 0) {
        yield journal.pause(due_at);
        yield* call.pauseFor(asks, journal.call_id);
      } else yield journal.suspend(due_at, waits.shown());
    },
  });
}
