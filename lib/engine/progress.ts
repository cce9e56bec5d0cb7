/**
 * Writes the progress of an attempt: checkpoints and frames, in the order in which they were made. Stored frames are shown once they
 * are committed, others at once.
 */
import type { Environment } from "../environment.ts";
import type { JobCheckpoints } from "../executor/checkpoints.ts";
import type { Progress, Scope, Storage, ThreadEvent } from "../storage/mod.ts";
import { createUnstored, type Unstored, type UnstoredOptions } from "./unstored.ts";

export interface ProgressOptions extends Omit<UnstoredOptions, "onAdded"> {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly checkpoints: JobCheckpoints;
  /** Durability `exit`: checkpoints wait for the end of the run, or for `save`. */
  readonly onlyAtEnd: boolean;
  /** Repeats a call of the store while it fails, for a limited time. */
  retry<Answer>(call: () => Promise<Answer>): Promise<Answer>;
  /** The lease is lost: nothing may be written. */
  isLost(): boolean;
  /** A save failed: the lease is lost, or the store does not recover. */
  onLost(): void;
}

export interface ProgressWriter extends Omit<Unstored, "isDirty" | "isAwaited" | "take" | "shown"> {
  /** Some checkpoints or writes were saved. */
  hasSaved(): boolean;
  /** Saves in a few milliseconds, together with what arrives until then. */
  saveSoon(): void;
  /** Saves everything; resolves when it is committed, or when that failed. */
  save(): Promise<void>;
  /** Like `save`, but without the checkpoints that wait for the end of the run. */
  flush(): Promise<void>;
  /** Something that subscribers may have seen is not stored yet. */
  isBehind(): boolean;
  /** Stops automatic saves; resolves when no save is under way. */
  close(): Promise<void>;
  /** Takes what was not saved, for the batch that ends the run. Call `shown` once that is committed. */
  rest(): { readonly progress: Progress; shown(): void };
}

const SAVE_MS = 50;
/** Shorter for stored frames, because subscribers wait for them. */
const SAVE_FRAMES_MS = 10;
/** Larger values, in characters, are not stored a second time with their event: it names their checkpoint. */
const LARGE_VALUES = 16 * 1024;

export function createProgressWriter(options: ProgressOptions): ProgressWriter {
  const { storage, scope, environment, claimed, checkpoints, onlyAtEnd, isLost } = options;
  const {
    take: takeUnstored,
    shown,
    isDirty: isUnstored,
    isAwaited,
    ...unstored
  } = createUnstored({
    ...options,
    onAdded: saveSoon,
  });
  let saved = false;
  let saving: Promise<void> | null = null;
  let cancelTimer: (() => void) | null = null;
  let closed = false;
  // A save failed: nothing that came after it may be stored without it.
  let failed = false;

  function take(all: boolean): Progress {
    const progress = all || !onlyAtEnd ? checkpoints.take() : { checkpoints: [], writes: [] };
    saved ||= progress.checkpoints.length + progress.writes.length > 0;
    return { ...progress, ...takeUnstored() };
  }

  const isDirty = (all: boolean): boolean => isUnstored(all) || ((all || !onlyAtEnd) && checkpoints.isDirty());

  function saveSoon(): void {
    if (cancelTimer || saving || closed || failed || !isDirty(false)) return;
    cancelTimer = environment.timer(isAwaited() ? SAVE_FRAMES_MS : SAVE_MS, () => void save(false));
  }

  function stopTimer(): void {
    cancelTimer?.();
    cancelTimer = null;
  }

  /** Saves run one at a time. */
  function save(all: boolean): Promise<void> {
    if (failed) return Promise.resolve();
    if (saving) return saving.then(() => (isDirty(all) && !isLost() ? save(all) : undefined));
    stopTimer();
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
      if (stored) return shown(progress);
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
    save: () => save(true),
    flush: () => save(false),
    isBehind: () => !onlyAtEnd && (saving !== null || checkpoints.isDirty()),
    async close() {
      closed = true;
      stopTimer();
      while (saving) await saving;
    },
    rest() {
      const progress = take(true);
      return { progress: withoutLarge(progress), shown: () => shown(progress) };
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
  const { checkpoints, writes, frames, events } = progress;
  const bytes = (data: { readonly length: number }): number => data.length;
  const size =
    checkpoints.reduce((sum, { values }) => sum + values.reduce((all, { data }) => all + bytes(data), 0), 0) +
    writes.reduce((sum, task) => sum + task.writes.reduce((all, { data }) => all + bytes(data), 0), 0);
  if (frames || size <= LARGE_SAVE) return [progress];
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
