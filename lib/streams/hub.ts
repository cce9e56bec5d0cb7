/**
 * The frames of runs that this process executes or watches. One bounded ring per run; every reader has only a cursor, so a
 * slow or dead reader costs nothing and never holds up the run.
 */
import type { Environment } from "../environment.ts";
import type { Json } from "../json.ts";
import type { StoredFrame, TerminalStatus } from "../storage/mod.ts";

/** One event of a stream. */
export interface Frame {
  /** Increases within the run; null for what is not part of the record. A text only in a thread's stream. */
  readonly id: number | string | null;
  /** `metadata`, `values`, `updates`, `messages`, `updates|<namespace>`, `error`, `end` … */
  readonly event: string;
  /** One JSON text. */
  readonly data: string;
}

/** Reads frames one by one; `take` gives some that are ready now, without waiting: all of them over several calls. */
export interface FrameReader extends AsyncIterable<Frame> {
  take(): readonly Frame[];
}

/** How a run ended. `result` is what wait and join answer. `gone`: its row was deleted, or this process stops. */
export interface Outcome {
  readonly status: TerminalStatus | "gone";
  readonly result: Json;
}

/** The frames of one run. */
export interface RunEvents {
  /** Undefined until the run has ended; then nothing is added any more. */
  readonly outcome: Outcome | undefined;
  /** Somebody in this process executes the run: frames will come. */
  live: boolean;
  /** Somebody reads the frames, or is about to. */
  watched: boolean;
  /** The run's frames are stored: a reader gets what the ring does not hold from there. Set it before the first frame. */
  stored: boolean;
  /** The attempt that readers are told of with a gap; 0 while none is known. */
  attempt: number;
  /** The highest id that a reader has seen elsewhere, as it says. What is told of a run that is gone has ids above it. */
  seen: number;
  /** The highest id so far; 0 before the first. */
  readonly lastId: number;
  /** Somebody reads, or waits for the end. */
  readonly followed: boolean;
  /** The next frame gets this id, or a higher one. Nothing is missing in between. */
  startAt(id: number): void;
  /** Frames up to this id exist, but not in this ring. No effect when the tape is further. */
  skipTo(id: number): void;
  publish(event: string, data: string): void;
  /** Shows those who read before the first frame a `metadata` frame without an id: why there is none yet. */
  note(data: string): void;
  end(outcome: Outcome): void;
  /** Resolves when the run has ended. */
  ended(): Promise<Outcome>;
  /**
   * Frames with an id above `after`, then live ones until the end. What the ring does not hold is loaded where it is stored;
   * what is nowhere is told by one frame `metadata {run_id, attempt, missing_before}` without an id. `onLeave` is called once
   * when the reader leaves before the end.
   */
  read(after: number, onLeave?: () => void): FrameReader;
}

export interface StreamHubOptions {
  /** The first stored frames of a run with ids above `after`; not all of them at once, none when there are none. */
  readonly load?: (run_id: string, after: number) => Promise<readonly StoredFrame[]>;
  /** What one run's ring holds at the most, in characters; a quarter of it where frames are stored. Default 4 Mi. */
  readonly ring_size?: number;
  /** How long an ended run is kept for late readers. Default 60,000. */
  readonly keep_ms?: number;
  /** What ended runs take together at the most, in bytes, roughly. Default 2 Mi. */
  readonly keep_size?: number;
}

export interface StreamHub {
  /** The run's tape; made when there is none. */
  runEvents(run_id: string): RunEvents;
  find(run_id: string): RunEvents | undefined;
  /** Lets go of a tape that nobody follows and nobody in this process writes. */
  forget(run_id: string, runEvents: RunEvents): void;
  /** Calls `listener` whenever a run of the thread was made or has ended, as far as this process hears; the result ends that. */
  onRun(thread_id: string, listener: () => void): () => void;
  /** A run of the thread was made or has ended, or the thread was deleted. Without one: of any thread, perhaps. */
  announce(thread_id?: string): void;
  /** Ends every open tape as gone (shut-down). */
  close(): void;
  readonly closed: boolean;
}

const FRAME_OVERHEAD = 64;
/** What an ended run takes beside its frames and its result. */
const TAPE_OVERHEAD = 1024;
/** What one `take` gives at the most, in characters: a reader holds no more than that. */
const TAKE_SIZE = 64 * 1024;
/** How many loaded pages a tape holds for its readers behind the ring. */
const PAGES = 4;

export function createStreamHub(environment: Environment, options: StreamHubOptions = {}): StreamHub {
  const { load = async () => [], ring_size = 4 * 1024 * 1024, keep_ms = 60_000, keep_size = 2 * 1024 * 1024 } = options;
  const tapes = new Map<string, RunTape>();
  const listeners = new Map<string, Set<() => void>>();
  // Ended tapes, oldest first; bounded by age and size, so that memory does not follow the number of runs.
  const kept: {
    readonly run_id: string;
    readonly runEvents: RunTape;
    readonly until: number;
    readonly size: number;
  }[] = [];
  let keptSize = 0;
  let closed = false;

  function announce(thread_id?: string): void {
    const told = thread_id === undefined ? [...listeners.values()] : [listeners.get(thread_id) ?? []];
    for (const listener of told.flatMap((own) => [...own])) listener();
  }

  function forget(run_id: string, runEvents: RunEvents): void {
    if (tapes.get(run_id) === runEvents) tapes.delete(run_id);
  }

  function keep(run_id: string, runEvents: RunTape, size: number): void {
    const now = environment.now();
    kept.push({ run_id, runEvents, until: now + keep_ms, size });
    keptSize += size;
    let count = 0;
    for (const entry of kept) {
      if (entry.until > now && keptSize <= keep_size) break;
      keptSize -= entry.size;
      forget(entry.run_id, entry.runEvents);
      count++;
    }
    if (count > 0) kept.splice(0, count);
  }

  const shared: TapeTerms = {
    async load(run_id, after) {
      // A store that answers at once would let a reader of many frames hold the event loop.
      await new Promise<void>((resolve) => environment.defer(resolve));
      return await load(run_id, after);
    },
    ring_size,
    keep,
  };

  return {
    runEvents(run_id) {
      let runEvents = tapes.get(run_id);
      if (!runEvents) {
        runEvents = new RunTape(run_id, shared);
        tapes.set(run_id, runEvents);
      }
      return runEvents;
    },
    find: (run_id) => tapes.get(run_id),
    forget,
    onRun(thread_id, listener) {
      const own = listeners.get(thread_id) ?? new Set();
      listeners.set(thread_id, own.add(listener));
      return () => {
        own.delete(listener);
        if (own.size === 0 && listeners.get(thread_id) === own) listeners.delete(thread_id);
      };
    },
    announce,
    close() {
      closed = true;
      const result = {
        __error__: { error: "ServerStopping", message: "The server is stopping; the run goes on later" },
      };
      for (const runEvents of tapes.values()) runEvents.end({ status: "gone", result });
      tapes.clear();
      announce();
    },
    get closed() {
      return closed;
    },
  };
}

type Step = IteratorResult<Frame, undefined>;

interface TapeTerms {
  readonly load: (run_id: string, after: number) => Promise<readonly StoredFrame[]>;
  readonly ring_size: number;
  readonly keep: (run_id: string, runEvents: RunTape, size: number) => void;
}

// A class, because hundreds of ended tapes are kept: one made of closures takes several times as much.
class RunTape implements RunEvents {
  live = false;
  watched = false;
  stored = false;
  attempt = 0;
  seen = 0;
  lastId = 0;
  outcome: Outcome | undefined;
  readonly #run_id: string;
  readonly #terms: TapeTerms;
  #frames: StoredFrame[] = [];
  #size = 0;
  #lostUpTo = 0;
  #note: string | undefined;
  #readers = 0;
  // Loaded frames, newest first, for all readers behind the ring: a reader itself holds none.
  #pages: (readonly StoredFrame[])[] = [];
  #loading: Promise<unknown> | undefined;
  // Readers that wait for a frame or the end.
  #waiting: (() => void)[] = [];
  #ending: ((outcome: Outcome) => void)[] = [];

  constructor(run_id: string, terms: TapeTerms) {
    this.#run_id = run_id;
    this.#terms = terms;
  }

  get followed(): boolean {
    return this.#readers > 0 || this.#ending.length > 0;
  }

  startAt(id: number): void {
    this.lastId = Math.max(this.lastId, id - 1);
  }

  skipTo(id: number): void {
    if (id <= this.lastId || this.outcome) return;
    this.#frames = [];
    this.#size = 0;
    this.lastId = id;
    this.#lostUpTo = id;
    this.#wake();
  }

  publish(event: string, data: string): void {
    if (this.outcome) return;
    this.#frames.push({ id: ++this.lastId, event, data });
    this.#size += data.length + FRAME_OVERHEAD;
    if (this.#size > this.#room()) this.#cut();
    this.#wake();
  }

  note(data: string): void {
    if (this.live || this.outcome || this.lastId > 0) return;
    this.#note = data;
    this.#wake();
  }

  end(outcome: Outcome): void {
    if (this.outcome) return;
    this.outcome = outcome;
    this.#wake();
    for (const resolve of this.#ending) resolve(outcome);
    this.#ending = [];
    this.#terms.keep(this.#run_id, this, this.#size + weightOf(outcome.result) + TAPE_OVERHEAD);
  }

  async ended(): Promise<Outcome> {
    return this.outcome ?? new Promise<Outcome>((resolve) => this.#ending.push(resolve));
  }

  read(after: number, onLeave?: () => void): FrameReader {
    this.watched = true;
    this.#readers++;
    let cursor = Math.max(0, after);
    // Frames up to here are nowhere any more.
    let missing = 0;
    let noted = false;
    let left = false;
    const close = (): void => {
      left = true;
      this.#readers--;
      this.#pages = [];
    };
    const pull = (size: number): Frame[] => {
      if (left) return [];
      if (this.#note !== undefined && this.lastId === 0 && !noted) {
        noted = true;
        return [{ id: null, event: "metadata", data: this.#note }];
      }
      if (!this.stored) missing = this.#lostUpTo;
      if (cursor < missing) {
        cursor = missing;
        return [this.#gap(cursor + 1)];
      }
      const ready: Frame[] = [];
      const held = this.#held(cursor);
      let room = size;
      for (let i = indexAfter(held, cursor); i < held.length && room >= 0; i++) {
        const frame = held[i] as StoredFrame;
        ready.push(frame);
        cursor = frame.id;
        room -= frame.data.length + FRAME_OVERHEAD;
      }
      return ready;
    };
    const load = async (): Promise<void> => {
      const first = await this.#load(cursor).catch((error: unknown) => {
        if (!left) close();
        throw error;
      });
      if (first !== undefined) missing = Math.min(first, this.#lostUpTo + 1) - 1;
    };
    const next = async (): Promise<Step> => {
      while (true) {
        const [frame] = pull(0);
        if (frame) return { done: false, value: frame };
        if (left) return { done: true, value: undefined };
        if (cursor < this.#lostUpTo) await load();
        else if (this.outcome) close();
        else await new Promise<void>((resolve) => this.#waiting.push(resolve));
      }
    };
    const leave = async (): Promise<Step> => {
      if (!left) {
        close();
        this.#wake();
        if (!this.outcome) onLeave?.();
      }
      return { done: true, value: undefined };
    };
    return { take: () => pull(TAKE_SIZE), [Symbol.asyncIterator]: () => ({ next, return: leave }) };
  }

  #wake(): void {
    if (this.#waiting.length === 0) return;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resume of waiting) resume();
  }

  #room(): number {
    return this.stored ? this.#terms.ring_size / 4 : this.#terms.ring_size;
  }

  /** Drops the oldest quarter of what the ring holds, but never the newest frame: readers at the end keep what came at once. */
  #cut(): void {
    let count = 0;
    for (const { data } of this.#frames.slice(0, -1)) {
      if (this.#size <= 0.75 * this.#room()) break;
      this.#size -= data.length + FRAME_OVERHEAD;
      count++;
    }
    this.#lostUpTo = this.#frames[count - 1]?.id ?? this.#lostUpTo;
    this.#frames = this.#frames.slice(count);
  }

  /** The list that holds the frame after the cursor, if any does. */
  #held(cursor: number): readonly StoredFrame[] {
    if (cursor >= this.#lostUpTo) return this.#frames;
    const covers = (page: readonly StoredFrame[]): boolean =>
      (page[0] as StoredFrame).id <= cursor + 1 && (page.at(-1) as StoredFrame).id > cursor;
    return this.#pages.find(covers) ?? [];
  }

  /**
   * Loads what follows `after`, or gives the first id that the store has instead. One load at a time: its page is still
   * held when its reader goes on, and readers at one place load it once.
   */
  #load(after: number): Promise<number | undefined> {
    const before = this.#loading;
    const loading = (async () => {
      await before;
      if (this.#held(after).length > 0) return undefined;
      const page = await this.#terms.load(this.#run_id, after);
      const first = page[0]?.id ?? Number.POSITIVE_INFINITY;
      if (page.length > 0) this.#pages = [page, ...this.#pages.slice(0, PAGES - 1)];
      return first > after + 1 ? first : undefined;
    })();
    this.#loading = loading.catch(() => {});
    return loading;
  }

  #gap(missing_before: number): Frame {
    const attempt = this.attempt > 0 ? { attempt: this.attempt } : {};
    const data = JSON.stringify({ run_id: this.#run_id, ...attempt, missing_before });
    return { id: null, event: "metadata", data };
  }
}

function indexAfter(frames: readonly StoredFrame[], cursor: number): number {
  let low = 0;
  let high = frames.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((frames[middle] as StoredFrame).id > cursor) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** About how many bytes a value takes in memory. */
function weightOf(value: Json): number {
  let bytes = 0;
  const parts: Json[] = [value];
  for (const part of parts) {
    bytes += 32;
    if (typeof part === "string") bytes += part.length;
    else if (typeof part === "object" && part !== null) for (const inner of Object.values(part)) parts.push(inner);
  }
  return bytes;
}
