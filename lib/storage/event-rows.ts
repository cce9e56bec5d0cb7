/** Thread events as they are stored, and their order. */

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

/** The first frame of a claim. Lower ones belong to runs of the thread that ended outside an attempt. */
export const FIRST_FRAME: number = 2 ** 16;

/** The frame of the event that ends a run, above all others of its claim. */
export const END_FRAME: number = 2 ** 32 - 1;

/** The `seq` of a frame in a turn. */
export const seqOf = (turn: number, frame: number): number => turn * 2 ** 32 + frame;
