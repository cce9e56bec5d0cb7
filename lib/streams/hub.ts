/**
 * Delivers the frames of runs to subscribers in this process. Each run has one bounded ring and each subscriber only a cursor, so
 * a slow subscriber never blocks the run.
 */
import { type Environment, loopTick } from "../environment.ts";
import type { Json } from "../json.ts";
import type { StoredFrame, TerminalStatus } from "../storage/mod.ts";
import { SharedTexts } from "./shared-texts.ts";

/** A subscription. Call `next` again only after its answer. */
export interface Reader<Item> extends AsyncIterable<Item> {
  /** Waits until an item is ready. Returns all that are ready, up to a limit; none once the stream has ended or was left. */
  next(): Promise<readonly Item[]>;
  /** Ends the subscription: a waiting `next` returns nothing. */
  leave(): void;
}

const END = { done: true, value: undefined } as const;

/** Not a generator: `return` of a generator waits for the next item. */
export function createReader<Item>(next: Reader<Item>["next"], leave: () => void): Reader<Item> {
  return {
    next,
    leave,
    [Symbol.asyncIterator]() {
      const ready: Item[] = [];
      return {
        async next() {
          if (ready.length === 0) ready.push(...(await next()));
          return ready.length > 0 ? { done: false, value: ready.shift() as Item } : END;
        },
        async return() {
          ready.length = 0;
          leave();
          return END;
        },
      };
    },
  };
}

/** Wakes the readers that wait for a change. Each waits by itself: one that leaves must not wake the others. */
export class Change {
  #waiting = new Map<object, PromiseWithResolvers<void>>();

  /** Resolves with the next `notify`, or `wake` of this reader. */
  wait(reader: object): Promise<void> {
    const waiting = this.#waiting.get(reader) ?? Promise.withResolvers<void>();
    this.#waiting.set(reader, waiting);
    return waiting.promise;
  }

  notify(): void {
    const waiting = this.#waiting;
    this.#waiting = new Map();
    for (const { resolve } of waiting.values()) resolve();
  }

  /** Wakes one reader. */
  wake(reader: object): void {
    this.#waiting.get(reader)?.resolve();
    this.#waiting.delete(reader);
  }
}

/** The index of the first item whose place is above `cursor`. Places rise. */
export function indexAfter<Item>(items: readonly Item[], cursor: number, placeOf: (item: Item) => number): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (placeOf(items[middle] as Item) > cursor) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** One event of a stream. */
export interface Frame {
  /** Increases within the run; null for frames outside the log. A string only in the stream of a thread. */
  readonly id: number | string | null;
  /** `metadata`, `values`, `updates`, `messages`, `updates|<namespace>`, `error`, `end` … */
  readonly event: string;
  /** One JSON text. */
  readonly data: string;
  /** Nothing follows it, although it is no `end`. */
  readonly last?: true;
  /** The frame that has the same `data`: readers share large texts of frames that are held. */
  readonly of?: Frame;
}

/** How a run ended. `result` is the answer of wait and join. `gone`: its row was deleted, or this process stops. */
export interface Outcome {
  readonly status: TerminalStatus | "gone";
  readonly result: Json;
}

export interface StreamHubOptions {
  /** One page of a run's stored frames with ids above `after`; empty if there are none. */
  readonly load?: (run_id: string, after: number) => Promise<readonly StoredFrame[]>;
  /** The size limit of one ring, in characters; a quarter of it for runs with stored frames. Default 4 Mi. */
  readonly ring_size?: number;
  /** How long an ended run is kept for late subscribers. Default 60,000. */
  readonly keep_ms?: number;
  /** The approximate size limit of all ended runs together, in bytes. Default 2 Mi. */
  readonly keep_size?: number;
}

export interface StreamHub {
  /** The log of a run; creates it if needed. */
  runEvents(run_id: string): RunEvents;
  find(run_id: string): RunEvents | undefined;
  /** Drops a log without subscribers that no attempt here writes. */
  forget(runEvents: RunEvents): void;
  /** Ends every open log as `gone` at shutdown. */
  close(): void;
  readonly closed: boolean;
}

const FRAME_OVERHEAD = 64;
/** The size of an ended log without its frames and its result. */
const LOG_OVERHEAD = 1024;
/** The size limit of one batch, in characters: a subscriber holds no more than that. */
const BATCH_SIZE = 64 * 1024;
/** How many loaded pages a log keeps for subscribers behind the ring. */
const PAGES = 4;

export function createStreamHub(environment: Environment, options: StreamHubOptions = {}): StreamHub {
  const { load = async () => [], ring_size = 4 * 1024 * 1024, keep_ms = 60_000, keep_size = 2 * 1024 * 1024 } = options;
  const logs = new Map<string, RunEvents>();
  // Ended logs, oldest first. Age and size are bounded, so that memory does not grow with the number of runs.
  const kept: { readonly runEvents: RunEvents; readonly until: number; readonly size: number }[] = [];
  let keptSize = 0;
  let closed = false;

  function forget(runEvents: RunEvents): void {
    const { run_id } = runEvents;
    if (logs.get(run_id) === runEvents) logs.delete(run_id);
  }

  function keep(runEvents: RunEvents, size: number): void {
    const now = environment.now();
    kept.push({ runEvents, until: now + keep_ms, size });
    keptSize += size;
    let count = 0;
    for (const entry of kept) {
      if (entry.until > now && keptSize <= keep_size) break;
      keptSize -= entry.size;
      entry.runEvents.release();
      count++;
    }
    if (count > 0) kept.splice(0, count);
  }

  const settings: LogSettings = {
    async load(run_id, after) {
      // A store that answers synchronously must not let a subscriber of many frames block the event loop.
      await loopTick(environment);
      return await load(run_id, after);
    },
    ring_size,
    keep,
    hold(runEvents) {
      if (!closed && !logs.has(runEvents.run_id)) logs.set(runEvents.run_id, runEvents);
    },
    forget,
  };

  return {
    runEvents(run_id) {
      let runEvents = logs.get(run_id);
      if (!runEvents) {
        runEvents = new RunEvents(run_id, settings);
        logs.set(run_id, runEvents);
      }
      return runEvents;
    },
    find: (run_id) => logs.get(run_id),
    forget,
    close() {
      closed = true;
      const result = {
        __error__: { error: "ServerStopping", message: "The server is stopping; the run goes on later" },
      };
      for (const runEvents of logs.values()) runEvents.end({ status: "gone", result });
      logs.clear();
    },
    get closed() {
      return closed;
    },
  };
}

interface LogSettings {
  readonly load: (run_id: string, after: number) => Promise<readonly StoredFrame[]>;
  readonly ring_size: number;
  readonly keep: (runEvents: RunEvents, size: number) => void;
  readonly hold: (runEvents: RunEvents) => void;
  readonly forget: (runEvents: RunEvents) => void;
}

/** The event log of one run. A class, because hundreds of ended logs are kept and closures would take several times the memory. */
export class RunEvents {
  readonly run_id: string;
  /** An attempt in this process writes the log. */
  live = false;
  /** The log has or had a subscriber, or will get one. */
  watched = false;
  /** The run's frames are stored: subscribers behind the ring read them from the store. Set it before the first frame. */
  stored = false;
  /** The attempt that a gap frame names; 0 while it is unknown. */
  attempt = 0;
  /** The highest id that a subscriber says it has seen elsewhere. The end of a deleted run gets ids above it. */
  seen = 0;
  #lastId = 0;
  #outcome: Outcome | undefined;
  readonly #settings: LogSettings;
  #frames: StoredFrame[] = [];
  #size = 0;
  #lostUpTo = 0;
  #note: string | undefined;
  #readers = 0;
  #released = false;
  // Loaded frames, newest first, shared by all subscribers behind the ring.
  #pages: (readonly StoredFrame[])[] = [];
  #loading: Promise<unknown> | undefined;
  #loaded: SharedTexts<StoredFrame> | undefined;
  /** A frame was added, or the log has ended. */
  readonly #change = new Change();
  #endWaiters: ((outcome: Outcome) => void)[] = [];

  constructor(run_id: string, settings: LogSettings) {
    this.run_id = run_id;
    this.#settings = settings;
  }

  /** The highest id so far; 0 before the first. */
  get lastId(): number {
    return this.#lastId;
  }

  /** Undefined until the run has ended; then the log accepts no more frames. */
  get outcome(): Outcome | undefined {
    return this.#outcome;
  }

  /** The log has a subscriber now, or a caller that waits for its end. */
  get followed(): boolean {
    return this.#readers > 0 || this.#endWaiters.length > 0;
  }

  /** The next frame gets at least this id, without a gap before it. */
  startAt(id: number): void {
    this.#lastId = Math.max(this.#lastId, id - 1);
  }

  /** Frames up to this id exist, but not in this ring. No effect if the log is already past that id. */
  skipTo(id: number): void {
    if (id <= this.#lastId || this.#outcome) return;
    this.#frames = [];
    this.#size = 0;
    this.#lastId = id;
    this.#lostUpTo = id;
    this.#change.notify();
  }

  publish(event: string, data: string): void {
    if (this.#outcome) return;
    this.#frames.push({ id: ++this.#lastId, event, data });
    this.#size += data.length + FRAME_OVERHEAD;
    if (this.#size > this.#room()) this.#cut();
    this.#change.notify();
  }

  /** Shows subscribers a `metadata` frame without an id while there are no frames yet: it says why. */
  note(data: string): void {
    if (this.live || this.#outcome || this.#lastId > 0) return;
    this.#note = data;
    this.#change.notify();
  }

  end(outcome: Outcome): void {
    if (this.#outcome) return;
    this.#outcome = outcome;
    this.#change.notify();
    for (const resolve of this.#endWaiters) resolve(outcome);
    this.#endWaiters = [];
    this.#settings.keep(this, this.#size + weightOf(outcome.result) + LOG_OVERHEAD);
  }

  /** It is kept for its readers alone: another log of the run would read and hold the same frames again. */
  release(): void {
    this.#released = true;
    this.#forgetUnread();
  }

  #forgetUnread(): void {
    if (this.#released && this.#readers === 0) this.#settings.forget(this);
  }

  /** Resolves when the run has ended. */
  async ended(): Promise<Outcome> {
    return this.#outcome ?? new Promise<Outcome>((resolve) => this.#endWaiters.push(resolve));
  }

  /**
   * Frames with an id above `after`, then live ones until the end. Frames behind the ring are loaded from the store; missing ones
   * are reported by one frame `metadata {run_id, attempt, missing_before}` without an id. `onLeave` is called once if the
   * subscriber leaves before the end.
   */
  read(after: number, onLeave?: () => void): Reader<Frame> {
    this.watched = true;
    this.#readers++;
    if (this.#released) this.#settings.hold(this);
    let cursor = Math.max(0, after);
    // Frames up to this id are neither in the ring nor in the store.
    let missing = 0;
    let noted = false;
    let left = false;
    const close = (): void => {
      left = true;
      this.#readers--;
      this.#pages = [];
      this.#forgetUnread();
    };
    const pull = (): Frame[] => {
      if (left) return [];
      if (this.#note !== undefined && this.#lastId === 0 && !noted) {
        noted = true;
        return [{ id: null, event: "metadata", data: this.#note }];
      }
      if (!this.stored) missing = this.#lostUpTo;
      if (cursor < missing) {
        cursor = missing;
        return [this.#gap(cursor + 1)];
      }
      const ready: Frame[] = [];
      const frames = this.#framesAfter(cursor);
      let room = BATCH_SIZE;
      for (let i = indexAfter(frames, cursor, idOf); i < frames.length && room > 0; i++) {
        const frame = frames[i] as StoredFrame;
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
    const next = async (): Promise<Frame[]> => {
      while (true) {
        const ready = pull();
        if (ready.length > 0 || left) return ready;
        if (cursor < this.#lostUpTo) await load();
        else if (this.#outcome) close();
        else await this.#change.wait(next);
      }
    };
    const leave = (): void => {
      if (left) return;
      close();
      this.#change.wake(next);
      if (!this.#outcome) onLeave?.();
    };
    return createReader(next, leave);
  }

  #room(): number {
    return this.stored ? this.#settings.ring_size / 4 : this.#settings.ring_size;
  }

  /** Drops the oldest quarter of the ring, but never the newest frame: subscribers at the end must not lose a large one. */
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

  /** The list with the frame after the cursor; empty if it is not in memory. */
  #framesAfter(cursor: number): readonly StoredFrame[] {
    if (cursor >= this.#lostUpTo) return this.#frames;
    const covers = (page: readonly StoredFrame[]): boolean =>
      (page[0] as StoredFrame).id <= cursor + 1 && (page.at(-1) as StoredFrame).id > cursor;
    return this.#pages.find(covers) ?? [];
  }

  /**
   * Loads the frames after `after`; returns the first id in the store if it is a later one. Loads run one at a time, so that
   * subscribers at the same position share a page.
   */
  #load(after: number): Promise<number | undefined> {
    const before = this.#loading;
    const loading = (async () => {
      await before;
      if (this.#framesAfter(after).length > 0) return undefined;
      const stored = await this.#settings.load(this.run_id, after);
      this.#loaded ??= new SharedTexts();
      const page = stored.map((frame) => this.#loaded?.share(frame.id, frame) ?? frame);
      const first = page[0]?.id ?? Number.POSITIVE_INFINITY;
      if (page.length > 0) this.#pages = [page, ...this.#pages.slice(0, PAGES - 1)];
      return first > after + 1 ? first : undefined;
    })();
    this.#loading = loading.catch(() => {});
    return loading;
  }

  #gap(missing_before: number): Frame {
    const attempt = this.attempt > 0 ? { attempt: this.attempt } : {};
    const data = JSON.stringify({ run_id: this.run_id, ...attempt, missing_before });
    return { id: null, event: "metadata", data };
  }
}

const idOf = ({ id }: StoredFrame): number => id;

/** The approximate size of a value in memory, in bytes. */
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
