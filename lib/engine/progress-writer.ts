/**
 * Writes the progress of an attempt: checkpoints, frames and events, in the order in which they were made. Stored frames are shown
 * once they are committed, others at once.
 */
import type { Environment } from "../environment.ts";
import type { JobCheckpoints } from "../executor/checkpoints.ts";
import type { AttemptJournal } from "../features/mod.ts";
import { isObject, type Json, textOf } from "../json.ts";
import {
  type ClaimedRun,
  END_EVENT,
  eventSeq,
  FIRST_EVENT,
  type NewFrame,
  type Progress,
  type Scope,
  type Storage,
  type ThreadEvent,
} from "../storage/mod.ts";
import type { RunEvents } from "../streams/hub.ts";
import { firstFrameId } from "../streams/run-subscription.ts";

export interface ProgressOptions extends UnstoredOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly checkpoints: JobCheckpoints;
  readonly journal: Pick<AttemptJournal, "isDirty" | "take" | "isOpen"> | undefined;
  /** See `createSaveRounds`. */
  readonly saveTogether: (save: () => void) => () => void;
  /** Durability `exit`: checkpoints wait for the end of the run, or for `save`. */
  readonly onlyAtEnd: boolean;
  /** Repeats a call of the store while it fails, for a limited time. */
  retry<Answer>(call: () => Promise<Answer>): Promise<Answer>;
  /** The lease is lost: nothing may be written. */
  isLost(): boolean;
  /** A save failed: the lease is lost, or the store does not recover. */
  onLost(): void;
}

export interface ProgressWriter {
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
  /** Some checkpoints or writes were saved. */
  hasSaved(): boolean;
  /** Saves in a few milliseconds, together with what arrives until then. */
  saveSoon(): void;
  /** Saves everything; resolves when it is committed, or when that failed. `shown`: without checkpoints that wait for the run's end. */
  save(what?: "shown"): Promise<void>;
  /** Something that subscribers may have seen is not stored yet. */
  isBehind(): boolean;
  /** Frames and events shown from now on wait for the next `cut`. */
  holdCut(): void;
  /** What was shown until now belongs to what a save may take; `waits`: what is shown from now on waits for the next one. */
  cut(waits: boolean): void;
  /** Refuses saves from now on, after a last one if `saving`; resolves when none is under way. What was not saved is for `rest`. */
  close(saving?: boolean): Promise<void> | undefined;
  /** Takes what was not saved, for the batch that ends the run. Call `shown` once that is committed. */
  rest(): { readonly progress: Progress; shown(): void };
}

const SAVE_MS = 50;
/** Shorter for stored frames, because subscribers wait for them. */
const SAVE_FRAMES_MS = 10;
/** But so much for each run of the round before: with many streams at once, saves would take most of the CPU. */
const SAVE_MS_PER_RUN = 1.5;

/**
 * Saves for which subscribers wait begin together, because a commit costs as much as ten saves. Calls `save` with the next round;
 * the result prevents that.
 */
export function createSaveRounds(environment: Pick<Environment, "timer">): ProgressOptions["saveTogether"] {
  let round = new Set<() => void>();
  let runs = 0;
  let cancelTimer = (): void => {};

  function begin(): void {
    const saves = round;
    round = new Set();
    runs = saves.size;
    for (const save of saves) save();
  }

  return (save) => {
    const joined = round;
    if (joined.size === 0) {
      const wait_ms = Math.min(SAVE_MS, Math.max(SAVE_FRAMES_MS, SAVE_MS_PER_RUN * runs));
      cancelTimer = environment.timer(wait_ms, begin);
    }
    joined.add(save);
    return () => {
      if (joined.delete(save) && joined === round && joined.size === 0) cancelTimer();
    };
  };
}

/** Larger values, in characters, are not stored a second time with their event: it names their checkpoint. */
const LARGE_VALUES = 16 * 1024;

export function createProgressWriter(options: ProgressOptions): ProgressWriter {
  const { storage, scope, environment, claimed, checkpoints, journal, isLost } = options;
  const waitsForEnd = (): boolean => options.onlyAtEnd && !journal?.isOpen;
  const unstored = createUnstored(options, saveSoon);
  let saved = false;
  let saving: Promise<void> | null = null;
  let cancelTimer: (() => void) | null = null;
  let closed = false;
  // A save failed: nothing that came after it may be stored without it.
  let failed = false;

  function take(all: boolean): Progress {
    const progress = all || !waitsForEnd() ? checkpoints.take() : { checkpoints: [], writes: [] };
    saved ||= progress.checkpoints.length + progress.writes.length > 0;
    return { ...progress, ...unstored.take(), ...journal?.take() };
  }

  const isDirty = (all: boolean): boolean =>
    unstored.isDirty(all) || journal?.isDirty() || ((all || !waitsForEnd()) && checkpoints.isDirty());

  function saveSoon(): void {
    if (cancelTimer || saving || closed || failed || !isDirty(false)) return;
    const saveNow = (): void => void save(false);
    cancelTimer = unstored.isAwaited() ? options.saveTogether(saveNow) : environment.timer(SAVE_MS, saveNow);
  }

  function stopTimer(): void {
    cancelTimer?.();
    cancelTimer = null;
  }

  /** Saves run one at a time. Once closed, a save would race with the batch that ends the run, and lose what it has taken. */
  function save(all: boolean): Promise<void> {
    if (closed || failed) return Promise.resolve();
    if (saving) return saving.then(() => (isLost() ? undefined : save(all)));
    stopTimer();
    if (!isDirty(all)) return Promise.resolve();
    const progress = take(all);
    saving = store(progress).finally(() => {
      saving = null;
      saveSoon();
    });
    return saving;
  }

  async function store(progress: Progress): Promise<void> {
    try {
      const save = (part: Progress) => storage.saveProgress(scope, claimed.lease, part, environment.now());
      let stored = true;
      for (const part of partsOf(withoutLarge(progress))) stored &&= await options.retry(() => save(part));
      if (stored) return unstored.shown(progress);
    } catch {
      // Another claim retries the run.
    }
    failed = true;
    options.onLost();
  }

  return {
    ...unstored,
    hasSaved: () => saved,
    saveSoon,
    save: (what) => save(what !== "shown"),
    isBehind: () => !waitsForEnd() && (saving !== null || checkpoints.isDirty(true)),
    close(last = false) {
      checkpoints.settle();
      const stop = async (): Promise<void> => {
        if (last) await save(true);
        closed = true;
        stopTimer();
        while (saving) await saving;
      };
      if (last || saving) return stop();
      closed = true;
      stopTimer();
      return undefined;
    },
    rest() {
      const progress = take(true);
      return { progress: withoutLarge(progress), shown: () => unstored.shown(progress) };
    },
  };
}

/** The size above which a batch would block other writers for too long, in characters or bytes. */
const LARGE_SAVE = 4 * 1024 * 1024;

/**
 * Splits a large save: its checkpoints in order, then the writes. A crash between two parts repeats only tasks whose writes are
 * missing. A save with frames stays whole, because a state must not be stored without the frames before it.
 */
function partsOf(progress: Progress): readonly Progress[] {
  const { checkpoints, writes, frames, events, call } = progress;
  const bytes = (data: { readonly length: number }): number => data.length;
  const size =
    checkpoints.reduce((sum, { values }) => sum + values.reduce((all, { data }) => all + bytes(data), 0), 0) +
    writes.reduce((sum, task) => sum + task.writes.reduce((all, { data }) => all + bytes(data), 0), 0);
  if (frames || call || size <= LARGE_SAVE) return [progress];
  return [
    ...checkpoints.map((checkpoint) => ({ checkpoints: [checkpoint], writes: [] })),
    ...writes.map((task) => ({ checkpoints: [], writes: [task] })),
    ...(events ? [{ checkpoints: [], writes: [], events }] : []),
  ];
}

/** The same, with large values in their checkpoints alone. */
function withoutLarge(progress: Progress): Progress {
  const isLarge = ({ data, checkpoint_id }: ThreadEvent): boolean =>
    checkpoint_id !== undefined && data !== null && data.length > LARGE_VALUES;
  if (!progress.events?.some(isLarge)) return progress;
  return { ...progress, events: progress.events.map((event) => (isLarge(event) ? { ...event, data: null } : event)) };
}

interface UnstoredOptions {
  readonly claimed: ClaimedRun;
  readonly runEvents: RunEvents;
  readonly counters: { frames_shown: number; frames_stored: number };
  /** The events of the thread have readers that wait for them. */
  hasEventReaders(): boolean;
  /** Shows stored events. `before`: the `seq` before the first one. */
  publishEvents(before: number, events: readonly ThreadEvent[]): void;
}

/** The limit of frames that are not stored, in characters. They are shown in one go, so the rings must be able to hold them. */
const BACKLOG = 512 * 1024;
const FRAME_OVERHEAD = 64;
/** The limit of held frames and events: more than these are shown without their state. */
const MOST_HELD = 256;

const sizeOf = ({ data }: NewFrame | ThreadEvent): number => (data?.length ?? 0) + FRAME_OVERHEAD;

/**
 * The frames and events that are numbered and not stored yet, in the order in which they were made. `onAdded`: something was added
 * for which subscribers wait.
 */
function createUnstored(options: UnstoredOptions, onAdded: () => void) {
  const { claimed, runEvents, counters, hasEventReaders } = options;
  const { resumable, turn } = claimed.run;
  let nextId = continueLog(claimed, runEvents);
  const frames: NewFrame[] = [];
  const events: ThreadEvent[] = [];
  let nextEvent = eventSeq(turn, FIRST_EVENT);
  let publishedEvent = eventSeq(turn, 0) - 1;
  let withheld: (NewFrame | ThreadEvent)[] | null = null;
  let withheldFrames = 0;
  // How many frames and events a save may take; null: all.
  let ready: { readonly frames: number; readonly events: number } | null = null;
  // The size of the frames that are not stored, with those of a save under way.
  let size = 0;

  function pass(frame: NewFrame | ThreadEvent): void {
    if ("seq" in frame) {
      events.push(frame);
      size += sizeOf(frame);
      if (hasEventReaders()) onAdded();
    } else if (resumable) {
      frames.push(frame);
      size += sizeOf(frame);
      onAdded();
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
    show(event: string, data: Json): void {
      const frame = { event, data: frameText(event, data) };
      nextId++;
      if (withheld) withheldFrames++;
      add(frame);
    },
    record(event: Omit<ThreadEvent, "seq">, end = false): void {
      const seq = end ? eventSeq(turn, END_EVENT) : nextEvent++;
      add({ ...event, seq });
    },
    hold(): void {
      withheld ??= [];
    },
    hasHeldFrames: () => withheld !== null && withheld.length > 0,
    release,
    // While all of it is held, only more events let it go: the executor must not wait.
    isFull: () => size > BACKLOG && (!ready || ready.frames + ready.events > 0),
    /** `all`: events count too for which no reader waits. */
    isDirty(all: boolean): boolean {
      const { frames: framesReady, events: eventsReady } = ready ?? { frames: frames.length, events: events.length };
      return framesReady > 0 || (eventsReady > 0 && (all || size > BACKLOG || hasEventReaders()));
    },
    holdCut(): void {
      ready ??= { frames: frames.length, events: events.length };
    },
    cut(waits: boolean): void {
      ready = waits ? { frames: frames.length, events: events.length } : null;
    },
    /** Subscribers wait for what is not stored yet. */
    isAwaited: () => resumable || (events.length > 0 && hasEventReaders()),
    /** Takes everything that is not held, to be stored. */
    take(): Pick<Progress, "frames" | "events"> {
      const first_id = nextId - withheldFrames - frames.length;
      const list = frames.splice(0, ready?.frames ?? frames.length);
      const taken = events.splice(0, ready?.events ?? events.length);
      if (ready) ready = { frames: 0, events: 0 };
      return {
        ...(list.length > 0 ? { frames: { first_id, list } } : {}),
        ...(taken.length > 0 ? { events: taken } : {}),
      };
    },
    /** Shows what is stored now. */
    shown({ frames: stored, events: recorded = [] }: Pick<Progress, "frames" | "events">): void {
      const newest = recorded.at(-1);
      if (newest) {
        for (const event of recorded) size -= sizeOf(event);
        options.publishEvents(publishedEvent, recorded);
        publishedEvent = newest.seq;
      }
      for (const frame of stored?.list ?? []) {
        size -= sizeOf(frame);
        counters.frames_stored++;
        counters.frames_shown++;
        runEvents.publish(frame.event, frame.data);
      }
    },
  };
}

/** The texts of the metadata of messages: each of their tokens carries it. */
const metadataTexts = new WeakMap<object, string>();

function frameText(event: string, data: Json): string {
  // The last values are often the answer too.
  if (event === "values") return textOf(data).json ?? "null";
  const [message, metadata] = Array.isArray(data) && data.length === 2 ? data : [];
  const carries = event === "messages" || event.startsWith("messages|");
  if (!carries || message === undefined || !isObject(metadata)) return JSON.stringify(data) ?? "null";
  const text = metadataTexts.get(metadata) ?? JSON.stringify(metadata);
  metadataTexts.set(metadata, text);
  return `[${JSON.stringify(message)},${text}]`;
}

/** Continues the log behind the earlier attempts. Returns the id of the first frame. */
function continueLog({ run, last_frame }: ClaimedRun, runEvents: RunEvents): number {
  const { resumable } = run;
  const nextId = resumable ? last_frame + 1 : firstFrameId(run.claims - 1);
  runEvents.stored = resumable;
  runEvents.attempt = run.attempt;
  if (resumable) runEvents.skipTo(last_frame);
  else runEvents.startAt(nextId);
  return nextId;
}
