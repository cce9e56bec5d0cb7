/**
 * What an attempt leaves while it executes: its checkpoints and frames, saved together and in the order they were made. A run
 * whose frames are stored shows each one once it is stored; any other shows it at once. A frame that tells of a state which is
 * recorded next waits for it: no reader sees a frame whose state the journal does not have.
 */
import type { Environment } from "../environment.ts";
import type { JobCheckpoints } from "../executor/checkpoints.ts";
import type { Json } from "../json.ts";
import type { ClaimedRun, NewFrame, Progress, Scope, Storage } from "../storage/mod.ts";
import type { RunEvents } from "../streams/hub.ts";

export interface JournalOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly claimed: ClaimedRun;
  readonly runEvents: RunEvents;
  readonly checkpoints: JobCheckpoints;
  /** Checkpoints wait for the end of the run, or until they are asked for. */
  readonly held: boolean;
  readonly counters: { frames_shown: number; frames_stored: number };
  /** Asks a store that fails again, for a while. */
  insist<Answer>(ask: () => Promise<Answer>): Promise<Answer>;
  /** Nothing may be written any more. */
  lost(): boolean;
  /** Something was not saved: the lease is lost, or the store fails for good. */
  onLost(): void;
}

export interface Journal {
  /** The id that the next frame gets. */
  nextId(): number;
  /** Some checkpoints or writes were saved. */
  saved(): boolean;
  show(event: string, data: Json): void;
  /** What is shown from now on waits for `release`. */
  hold(): void;
  /** Something that was shown waits. */
  holds(): boolean;
  /** Shows what waits, or forgets it. */
  release(what?: "shown" | "dropped"): void;
  /** Saves before long what is there by then. */
  saveSoon(): void;
  /** Saves everything; resolves when it is committed, or when it cannot be. */
  save(): Promise<void>;
  /** So many frames are not stored that the executor has to wait. */
  full(): boolean;
  /** Saves what does not wait for the end of the run; resolves as `save` does. */
  flush(): Promise<void>;
  /** Some of that is not stored, or on its way: a reader may have seen a frame that tells of it. */
  behind(): boolean;
  /** Saves nothing more by itself; resolves when nothing is on its way. */
  close(): Promise<void>;
  /** What was not saved, for the batch that ends the run; `shown` is called when that is committed. */
  rest(): { readonly progress: Progress; shown(): void };
}

const SAVE_MS = 50;
/** Readers wait for frames that are to be stored. */
const SAVE_FRAMES_MS = 10;
/** Frames that are not stored above which the executor waits, in characters. They come at once: readers' rings must hold them. */
const BACKLOG = 512 * 1024;
const FRAME_OVERHEAD = 64;
/** More than this many frames do not wait for a state. */
const MOST_HELD = 256;

/** Where the frame ids of the claim after this many begin, when none are stored: above those of all before it. */
export function firstId(claims: number): number {
  return claims * 2 ** 32 + 1;
}

export function createJournal(options: JournalOptions): Journal {
  const { storage, scope, environment, claimed, runEvents, checkpoints, held, counters, lost } = options;
  const { run, last_frame } = claimed;
  const { framed } = run;
  let nextId = framed ? last_frame + 1 : firstId(run.claims - 1);
  let frames: NewFrame[] = [];
  let waiting: NewFrame[] | null = null;
  // Of frames that are not stored, those on their way included.
  let unstored = 0;
  let saved = false;
  let saving: Promise<void> | null = null;
  let cancelTimer: (() => void) | null = null;
  let closed = false;
  // A save came to nothing: what comes after it must not be stored without it.
  let broken = false;

  runEvents.stored = framed;
  runEvents.attempt = run.attempt;
  if (framed) runEvents.skipTo(last_frame);
  else runEvents.startAt(nextId);

  function take(all: boolean): Progress {
    const progress = all || !held ? checkpoints.take() : { checkpoints: [], writes: [] };
    saved ||= progress.checkpoints.length + progress.writes.length > 0;
    const list = frames;
    frames = [];
    const first_id = nextId - (waiting?.length ?? 0) - list.length;
    return list.length > 0 ? { ...progress, frames: { first_id, list } } : progress;
  }

  function pass(frame: NewFrame): void {
    if (framed) {
      frames.push(frame);
      unstored += frame.data.length + FRAME_OVERHEAD;
      saveSoon();
    } else {
      counters.frames_shown++;
      runEvents.publish(frame.event, frame.data);
    }
  }

  function release(what: "shown" | "dropped" = "shown"): void {
    const list = waiting ?? [];
    waiting = null;
    if (what === "shown") for (const frame of list) pass(frame);
    else nextId -= list.length;
  }

  function shown({ frames: stored }: Progress): void {
    for (const { event, data } of stored?.list ?? []) {
      unstored -= data.length + FRAME_OVERHEAD;
      counters.frames_stored++;
      counters.frames_shown++;
      runEvents.publish(event, data);
    }
  }

  const dirty = (all: boolean): boolean => frames.length > 0 || ((all || !held) && checkpoints.dirty());

  function saveSoon(): void {
    if (cancelTimer || saving || closed || broken || !dirty(false)) return;
    cancelTimer = environment.timer(framed ? SAVE_FRAMES_MS : SAVE_MS, () => void save(false));
  }

  /** One save at a time. */
  function save(all: boolean): Promise<void> {
    if (broken) return Promise.resolve();
    if (saving) return saving.then(() => (dirty(all) && !lost() ? save(all) : undefined));
    cancelTimer?.();
    cancelTimer = null;
    const progress = take(all);
    saving = store(progress).finally(() => {
      saving = null;
      saveSoon();
    });
    return saving;
  }

  async function store(progress: Progress): Promise<void> {
    try {
      let kept = true;
      for (const part of partsOf(progress)) {
        kept &&= await options.insist(() => storage.saveProgress(scope, claimed.lease, part, environment.now()));
      }
      if (kept) return shown(progress);
    } catch {
      // The run is left to be taken up again.
    }
    broken = true;
    options.onLost();
  }

  return {
    nextId: () => nextId,
    saved: () => saved,
    show(event, data) {
      const frame = { event, data: JSON.stringify(data) ?? "null" };
      nextId++;
      if (!waiting) return pass(frame);
      waiting.push(frame);
      if (waiting.length > MOST_HELD) release();
    },
    hold() {
      waiting ??= [];
    },
    holds: () => waiting !== null && waiting.length > 0,
    release,
    saveSoon,
    save: () => save(true),
    full: () => unstored > BACKLOG,
    flush: () => save(false),
    behind: () => !held && (saving !== null || checkpoints.dirty()),
    async close() {
      closed = true;
      cancelTimer?.();
      cancelTimer = null;
      while (saving) await saving;
    },
    rest() {
      const progress = take(true);
      return { progress, shown: () => shown(progress) };
    },
  };
}

/** A batch with more than this keeps everybody else waiting, in characters or bytes. */
const LARGE_SAVE = 4 * 1024 * 1024;

/**
 * A large save in pieces: its checkpoints in their order, then the writes. A crash between two repeats at most the tasks whose writes
 * are missing. A save with frames stays whole: a state must not be stored without the frames before it.
 */
function partsOf(progress: Progress): readonly Progress[] {
  const { checkpoints, writes, frames } = progress;
  const bytes = (data: { readonly length: number }): number => data.length;
  const size =
    checkpoints.reduce((sum, { values }) => sum + values.reduce((all, { data }) => all + bytes(data), 0), 0) +
    writes.reduce((sum, task) => sum + task.writes.reduce((all, { data }) => all + bytes(data), 0), 0);
  if (frames || size <= LARGE_SAVE) return [progress];
  return [
    ...checkpoints.map((checkpoint) => ({ checkpoints: [checkpoint], writes: [] })),
    ...writes.map((task) => ({ checkpoints: [], writes: [task] })),
  ];
}
