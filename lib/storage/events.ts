/** The storage verbs of thread events: the log that the event protocol (v2) replays. */
import type { EventMethod, StoredThreadEvent } from "./event-rows.ts";
import type { Scope } from "./rows.ts";

/** A page of events. */
export interface EventPage {
  readonly events: readonly StoredThreadEvent[];
  /** Later events have a higher `seq`; null when the page is empty. */
  readonly read_to: number | null;
  /** There may be more now. */
  readonly more: boolean;
}

/** The verbs of thread events. */
export interface EventStorage {
  /**
   * Reads events of a thread with a `seq` above `after`, in order, a bounded number at a time. Events behind the turn of the run that
   * executes now are left out: that run may still store events before them. Empty when the thread does not exist or is not visible.
   */
  readEvents(
    scope: Scope,
    thread_id: string,
    query: { readonly after: number; readonly methods?: ReadonlySet<EventMethod> },
  ): Promise<EventPage>;
  /** The `seq` of the newest event; 0 without any. */
  lastEvent(scope: Scope, thread_id: string): Promise<number>;
  /** From now on the runs of the thread record events of all methods. Idempotent. False when there is no such visible thread. */
  recordAllEvents(scope: Scope, thread_id: string): Promise<boolean>;
}
