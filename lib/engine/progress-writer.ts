/**
 * Saves the progress of an attempt: checkpoints, frames, events and journal entries, in the order in which they were created.
 * Saves run one at a time, and none runs beside the batch that ends the run.
 */
import type { Environment } from "../environment.ts";
import type { JobCheckpoints } from "../executor/job-checkpoints.ts";
import type { WriteBarrier } from "../executor/write-barrier.ts";
import type { AttemptJournal, AttemptSpans } from "../features/mod.ts";
import type { Lease, Progress, Scope, Storage, ThreadEvent } from "../storage/mod.ts";
import type { OutputBuffer } from "./output-buffer.ts";
import { SAVE_MS, type ScheduleSave } from "./save-scheduler.ts";

interface ProgressWriterOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly lease: Lease;
  readonly barrier: WriteBarrier;
  readonly checkpoints: JobCheckpoints;
  readonly output: OutputBuffer;
  readonly journal: Pick<AttemptJournal, "hasUnsaved" | "drain" | "isOpen"> | undefined;
  readonly spans: Pick<AttemptSpans, "hasUnsaved" | "drain" | "onCommit"> | undefined;
  readonly scheduleSave: ScheduleSave;
  /** True if checkpoints wait for the end of the run (durability `exit`), unless a journal is active. */
  readonly onlyAtEnd: boolean;
  /** Repeats a failing storage call for a limited time. */
  retry<Result>(call: () => Promise<Result>): Promise<Result>;
  /** Returns true if nothing may be written, because the lease is lost or the run was rolled back. */
  mayNotWrite(): boolean;
  /** Called when a save failed: the lease is lost, or the storage does not recover. */
  onLost(): void;
}

/**
 * `all` takes everything that a save may take, `due` leaves out checkpoints that wait for the end of the run. Events without
 * readers do not make a save due, but a due save takes them too.
 */
export type SaveExtent = "all" | "due";

/** The progress that is not saved when the run ends. The batch that ends the run stores it. */
export interface UnsavedProgress {
  readonly progress: Progress;
  /** Publishes the output. Call it once the batch is committed. */
  publish(): void;
}

export class ProgressWriter {
  readonly #options: ProgressWriterOptions;
  #hasSavedState = false;
  /** The running save. */
  #saving: Promise<void> | null = null;
  #cancelTimer: (() => void) | null = null;
  /** `failed`: nothing may be stored without the save that failed. `closed`: the end of the run stores the rest. */
  #state: "open" | "failed" | "closed" = "open";

  constructor(options: ProgressWriterOptions) {
    this.#options = options;
  }

  hasSavedState(): boolean {
    return this.#hasSavedState;
  }

  /** Returns true if a checkpoint whose output may be emitted is not stored yet, or a save is running. */
  hasUnsavedState(): boolean {
    return !this.#waitsForEnd() && (this.#saving !== null || !this.#options.checkpoints.isEmpty());
  }

  /**
   * Schedules a save in a few milliseconds, together with what is added until then. Does nothing if a save is scheduled or
   * running, or nothing is ready.
   */
  scheduleSave(): void {
    const { environment, output, scheduleSave } = this.#options;
    if (this.#cancelTimer || this.#saving || this.#state !== "open" || !this.#hasReady("due")) return;
    const saveNow = (): void => void this.save("due");
    this.#cancelTimer = output.isAwaited() ? scheduleSave(saveNow) : environment.timer(SAVE_MS, saveNow);
  }

  /**
   * Saves what is ready. Resolves when everything that the save may take is committed or has failed, after which the lease counts
   * as lost. Never rejects; does nothing once closed or failed.
   */
  save(extent: SaveExtent): Promise<void> {
    if (this.#state !== "open") return Promise.resolve();
    // The running save has drained before this call. Another one takes what was added since.
    if (this.#saving) return this.#saving.then(() => (this.#options.mayNotWrite() ? undefined : this.save(extent)));
    this.#stopTimer();
    if (!this.#hasReady(extent)) return Promise.resolve();
    this.#saving = this.#store({ ...this.#drain(extent), ...this.#options.spans?.drain() }).finally(() => {
      this.#saving = null;
      this.scheduleSave();
    });
    return this.#saving;
  }

  /** Removes all write barriers, saves once more if `savesFirst`, and refuses later saves. Resolves when none is running. */
  async close(savesFirst: boolean): Promise<void> {
    this.#options.barrier.closeAll();
    if (savesFirst) await this.save("all");
    this.#state = "closed";
    this.#stopTimer();
    await this.#saving;
  }

  /** Removes and returns the unsaved progress. Call it after `close`. */
  drainUnsaved(): UnsavedProgress {
    const progress = this.#drain("all");
    return { progress: omitLargeValues(progress), publish: () => this.#options.output.publish(progress) };
  }

  #waitsForEnd(): boolean {
    return this.#options.onlyAtEnd && !this.#options.journal?.isOpen;
  }

  #includesState(extent: SaveExtent): boolean {
    return extent === "all" || !this.#waitsForEnd();
  }

  /** Returns true if a save of this extent would store something. */
  #hasReady(extent: SaveExtent): boolean {
    const { output, journal, spans, checkpoints } = this.#options;
    if (extent === "due" ? output.isSaveDue() : output.hasReady()) return true;
    if (journal?.hasUnsaved() || spans?.hasUnsaved()) return true;
    return this.#includesState(extent) && checkpoints.hasReady();
  }

  /** Removes and returns what the save may take. Sets `#hasSavedState` if it contains checkpoints or writes. */
  #drain(extent: SaveExtent): Progress {
    const { output, journal, checkpoints } = this.#options;
    const state = this.#includesState(extent) ? checkpoints.drain() : { checkpoints: [], writes: [] };
    this.#hasSavedState ||= state.checkpoints.length + state.writes.length > 0;
    return { ...state, ...output.drain(), ...journal?.drain() };
  }

  /** Cancels the timer of the next save, if there is one. */
  #stopTimer(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
  }

  /**
   * Stores progress in parts and publishes its output once all are committed. Never rejects: after a failure it calls `onLost`,
   * and another claim retries the run.
   */
  async #store(progress: Progress): Promise<void> {
    const { storage, scope, environment, lease, output, retry, spans, onLost } = this.#options;
    const monotonic = environment.monotonic ?? environment.now;
    try {
      for (const part of splitProgress(omitLargeValues(progress))) {
        const savedFrom = spans ? monotonic() : 0;
        const isStored = await retry(() => storage.saveProgress(scope, lease, part, environment.now()));
        spans?.onCommit(monotonic() - savedFrom);
        if (!isStored) throw new Error("The lease is lost");
      }
      output.publish(progress);
    } catch {
      if (this.#state === "open") this.#state = "failed";
      onLost();
    }
  }
}

/** The length above which values are not stored a second time with their event, which names their checkpoint. */
const MAX_INLINE_VALUES_CHARS = 16 * 1024;

/**
 * Returns a copy of the progress without event values above `MAX_INLINE_VALUES_CHARS`, whose checkpoints hold them. Returns the
 * same object if there are none.
 */
function omitLargeValues(progress: Progress): Progress {
  const isLarge = ({ data, checkpoint_id }: ThreadEvent): boolean =>
    checkpoint_id !== undefined && data !== null && data.length > MAX_INLINE_VALUES_CHARS;
  if (!progress.events?.some(isLarge)) return progress;
  return { ...progress, events: progress.events.map((event) => (isLarge(event) ? { ...event, data: null } : event)) };
}

/** The size above which a batch would block other writers for too long, in characters or bytes. */
const MAX_SAVE_SIZE = 4 * 1024 * 1024;

/**
 * Splits a save above `MAX_SAVE_SIZE` into parts: its checkpoints in order, then the writes, then the events. A crash between two
 * parts repeats only tasks whose writes are missing. Returns any other save whole, and any with frames or journal entries,
 * because a state must not be stored without the frames before it.
 */
function splitProgress(progress: Progress): readonly Progress[] {
  const { checkpoints, writes, frames, events, call, spans } = progress;
  const bytes = (data: { readonly length: number }): number => data.length;
  const size =
    checkpoints.reduce((sum, { values }) => sum + values.reduce((all, { data }) => all + bytes(data), 0), 0) +
    writes.reduce((sum, task) => sum + task.writes.reduce((all, { data }) => all + bytes(data), 0), 0);
  if (frames || call || size <= MAX_SAVE_SIZE) return [progress];
  return [
    ...checkpoints.map((checkpoint) => ({ checkpoints: [checkpoint], writes: [] })),
    ...writes.map((task) => ({ checkpoints: [], writes: [task] })),
    ...(events ? [{ checkpoints: [], writes: [], events }] : []),
    ...(spans ? [{ checkpoints: [], writes: [], spans }] : []),
  ];
}
