/** The storage verbs of thread events: the log that the event protocol (v2) replays. */
import type { Scope } from "./rows.ts";

/** The methods of thread events. The place in this list is stored: only append. */
export const EVENT_METHODS = [
  "lifecycle",
  "values",
  "checkpoints",
  "input.requested",
  "input.answered",
  "updates",
  "messages",
  "tools",
  "tasks",
  "custom",
] as const;

/** The method of a thread event. */
export type EventMethod = (typeof EVENT_METHODS)[number];

/** An event of a thread. */
export interface ThreadEvent {
  /** `turn * 2^32 + frame`: the turn of the claim that made it, and its number within that claim. */
  readonly seq: number;
  readonly method: EventMethod;
  readonly namespace: readonly string[];
  /** Milliseconds since 1970. */
  readonly timestamp: number;
  readonly node?: string;
  /** One JSON text. Null for `values` that are stored in the checkpoint alone. */
  readonly data: string | null;
  /** Of `values`: the checkpoint that holds them. */
  readonly checkpoint_id?: string;
  /** Of `custom`: the name of its channel. */
  readonly name?: string;
}

/** A stored event with the run that made it. */
export interface StoredThreadEvent extends ThreadEvent {
  readonly run_id: string;
}

/** A page of events. */
export interface EventPage {
  readonly events: readonly StoredThreadEvent[];
  /** Later events have a higher `seq`; null when the page is empty. */
  readonly read_to: number | null;
  /** There may be more now. */
  readonly more: boolean;
}

/** The first frame of a claim. Lower ones belong to runs of the thread that ended outside an attempt. */
export const FIRST_FRAME: number = 2 ** 16;

/** The frame of the event that ends a run, above all others of its claim. */
export const END_FRAME: number = 2 ** 32 - 1;

/** The `seq` of a frame in a turn. */
export const seqOf = (turn: number, frame: number): number => turn * 2 ** 32 + frame;

/** The turn that a `seq` belongs to. */
export const turnOf = (seq: number): number => Math.floor(seq / 2 ** 32);

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
