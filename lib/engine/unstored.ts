/** The frames and events of an attempt that are numbered and not stored yet, in the order in which they were made. */
import type { Json } from "../json.ts";
import {
  type ClaimedRun,
  END_FRAME,
  FIRST_FRAME,
  type NewFrame,
  type Progress,
  seqOf,
  type ThreadEvent,
} from "../storage/mod.ts";
import type { RunEvents } from "../streams/hub.ts";
import { firstFrameId } from "../streams/terminal.ts";

export interface UnstoredOptions {
  readonly claimed: ClaimedRun;
  readonly runEvents: RunEvents;
  readonly counters: { frames_shown: number; frames_stored: number };
  /** The events of the thread have readers that wait for them. */
  hasEventReaders(): boolean;
  /** Shows stored events. `before`: the `seq` before the first one. */
  publishEvents(before: number, events: readonly ThreadEvent[]): void;
  /** Something was added for which subscribers wait. */
  onAdded(): void;
}

/** What of the progress writer shows and numbers. */
export interface Unstored {
  /** The id of the next frame. */
  nextId(): number;
  show(event: string, data: Json): void;
  /** Numbers and keeps an event of the thread; `end`: the last one of the run. */
  record(event: Omit<ThreadEvent, "seq">, end?: boolean): void;
  /** Frames and events shown from now on are held until `release`. */
  hold(): void;
  hasHeldFrames(): boolean;
  /** Shows the held frames, or drops them. */
  release(what?: "shown" | "dropped"): void;
  /** Back-pressure: too many frames are not stored yet, so the executor must wait. */
  isFull(): boolean;
  /** `all`: events count too for which no reader waits. */
  isDirty(all: boolean): boolean;
  /** Subscribers wait for what is not stored yet. */
  isAwaited(): boolean;
  /** Takes everything that is not held, to be stored. */
  take(): Pick<Progress, "frames" | "events">;
  /** Shows what is stored now. */
  shown(stored: Pick<Progress, "frames" | "events">): void;
}

/** The limit of frames that are not stored, in characters. They are shown in one go, so the rings must be able to hold them. */
const BACKLOG = 512 * 1024;
const FRAME_OVERHEAD = 64;
/** The limit of held frames and events: more than these are shown without their state. */
const MOST_HELD = 256;

const sizeOf = ({ data }: NewFrame | ThreadEvent): number => (data?.length ?? 0) + FRAME_OVERHEAD;

export function createUnstored(options: UnstoredOptions): Unstored {
  const { claimed, runEvents, counters, hasEventReaders } = options;
  const { framed, turn } = claimed.run;
  let nextId = continueLog(claimed, runEvents);
  let frames: NewFrame[] = [];
  let events: ThreadEvent[] = [];
  let nextSeq = seqOf(turn, FIRST_FRAME);
  let publishedSeq = seqOf(turn, 0) - 1;
  let withheld: (NewFrame | ThreadEvent)[] | null = null;
  let withheldFrames = 0;
  // The size of the frames that are not stored, with those of a save under way.
  let unstored = 0;

  function pass(frame: NewFrame | ThreadEvent): void {
    if ("seq" in frame) {
      events.push(frame);
      unstored += sizeOf(frame);
      if (hasEventReaders()) options.onAdded();
    } else if (framed) {
      frames.push(frame);
      unstored += sizeOf(frame);
      options.onAdded();
    } else {
      counters.frames_shown++;
      runEvents.publish(frame.event, frame.data);
    }
  }

  function release(what: "shown" | "dropped" = "shown"): void {
    const list = withheld ?? [];
    withheld = null;
    if (what === "dropped") nextId -= withheldFrames;
    withheldFrames = 0;
    // What has started or ended is not undone: every start gets one end.
    for (const one of list) if (what === "shown" || ("seq" in one && one.method === "lifecycle")) pass(one);
  }

  function add(one: NewFrame | ThreadEvent): void {
    withheld?.push(one);
    if (!withheld) pass(one);
    else if (withheld.length > MOST_HELD) release();
  }

  return {
    nextId: () => nextId,
    show(event, data) {
      const frame = { event, data: JSON.stringify(data) ?? "null" };
      nextId++;
      if (withheld) withheldFrames++;
      add(frame);
    },
    record(event, end = false) {
      const seq = end ? seqOf(turn, END_FRAME) : nextSeq++;
      add({ ...event, seq });
    },
    hold() {
      withheld ??= [];
    },
    hasHeldFrames: () => withheld !== null && withheld.length > 0,
    release,
    isFull: () => unstored > BACKLOG,
    isDirty: (all) => frames.length > 0 || (events.length > 0 && (all || unstored > BACKLOG || hasEventReaders())),
    isAwaited: () => framed || (events.length > 0 && hasEventReaders()),
    take() {
      const list = frames;
      frames = [];
      const first_id = nextId - withheldFrames - list.length;
      const taken = events;
      events = [];
      return {
        ...(list.length > 0 ? { frames: { first_id, list } } : {}),
        ...(taken.length > 0 ? { events: taken } : {}),
      };
    },
    shown({ frames: stored, events: recorded = [] }) {
      const newest = recorded.at(-1);
      if (newest) {
        for (const event of recorded) unstored -= sizeOf(event);
        options.publishEvents(publishedSeq, recorded);
        publishedSeq = newest.seq;
      }
      for (const frame of stored?.list ?? []) {
        unstored -= sizeOf(frame);
        counters.frames_stored++;
        counters.frames_shown++;
        runEvents.publish(frame.event, frame.data);
      }
    },
  };
}

/** Continues the log behind the earlier attempts. Returns the id of the first frame. */
function continueLog({ run, last_frame }: ClaimedRun, runEvents: RunEvents): number {
  const { framed } = run;
  const nextId = framed ? last_frame + 1 : firstFrameId(run.claims - 1);
  runEvents.stored = framed;
  runEvents.attempt = run.attempt;
  if (framed) runEvents.skipTo(last_frame);
  else runEvents.startAt(nextId);
  return nextId;
}
