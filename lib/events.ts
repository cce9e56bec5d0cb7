/**
 * The frames of runs that this process executes or watches. One bounded ring per run; every reader has only a cursor, so a
 * slow or dead reader costs nothing and never holds up the run.
 */
import type { Ambient } from "./ambient.ts";
import type { Json } from "./json.ts";
import type { TerminalStatus } from "./storage.ts";

/** One event of a run's stream. */
export interface Frame {
  /** Increases within the run; null for what is not part of the record. */
  readonly id: number | null;
  /** `metadata`, `values`, `updates`, `messages`, `updates|<namespace>`, `error`, `end` … */
  readonly event: string;
  /** One JSON text. */
  readonly data: string;
}

/** Reads frames one by one; `take` gives those that are ready now, without waiting. */
export interface FrameReader extends AsyncIterable<Frame> {
  take(): readonly Frame[];
}

/** How a run ended. `result` is what wait and join answer. `gone`: its row was deleted. */
export interface Outcome {
  readonly status: TerminalStatus | "gone";
  readonly result: Json;
}

/** The frames of one run. */
export interface Tape {
  /** Undefined until the run has ended; then nothing is added any more. */
  readonly outcome: Outcome | undefined;
  /** Somebody in this process executes the run: frames will come. */
  live: boolean;
  /** Somebody reads the frames, or is about to. */
  watched: boolean;
  /** The next frame gets this id, or a higher one. */
  startAt(id: number): void;
  publish(event: string, data: string): void;
  end(outcome: Outcome): void;
  /** Resolves when the run has ended. */
  ended(): Promise<Outcome>;
  /** Frames with an id above `after` that the ring still holds, then live ones until the end. `onLeave` is called once when the reader leaves before the end. */
  read(after: number, onLeave?: () => void): FrameReader;
}

export interface EventsOptions {
  /** What one run's ring holds at the most, in characters. Default 4 Mi. */
  readonly ring_size?: number;
  /** How long an ended run is kept for late readers. Default 60,000. */
  readonly keep_ms?: number;
  /** What ended runs take together at the most, in bytes, roughly. Default 2 Mi. */
  readonly keep_size?: number;
}

export interface EventsOptions {
  /** What one run's ring holds at the most, in characters. Default 4 Mi. */
  readonly ring_size?: number;
  /** How long the ring of an ended run is kept for late readers. Default 60,000. */
  readonly keep_ms?: number;
  /** What the rings of ended runs hold together at the most, in characters. Default 8 Mi. */
  readonly keep_size?: number;
}

export interface Events {
  /** The run's tape; made when there is none. */
  tape(run_id: string): Tape;
  find(run_id: string): Tape | undefined;
  /** Ends every open tape as gone (shut-down). */
  close(): void;
}

const FRAME_OVERHEAD = 64;
/** What an ended run takes beside its frames and its result. */
const TAPE_OVERHEAD = 1024;

export function createEvents(ambient: Ambient, options: EventsOptions = {}): Events {
  const { ring_size = 4 * 1024 * 1024, keep_ms = 60_000, keep_size = 2 * 1024 * 1024 } = options;
  const tapes = new Map<string, RunTape>();
  // Ended tapes, oldest first; bounded by age and size, so that memory does not follow the number of runs.
  const kept: { readonly run_id: string; readonly until: number; readonly size: number }[] = [];
  let keptSize = 0;

  function keep(run_id: string, size: number): void {
    const now = ambient.now();
    kept.push({ run_id, until: now + keep_ms, size });
    keptSize += size;
    let count = 0;
    for (const entry of kept) {
      if (entry.until > now && keptSize <= keep_size) break;
      keptSize -= entry.size;
      tapes.delete(entry.run_id);
      count++;
    }
    if (count > 0) kept.splice(0, count);
  }

  return {
    tape(run_id) {
      let tape = tapes.get(run_id);
      if (!tape) {
        tape = new RunTape(run_id, ring_size, keep);
        tapes.set(run_id, tape);
      }
      return tape;
    },
    find: (run_id) => tapes.get(run_id),
    close() {
      for (const tape of tapes.values()) tape.end({ status: "gone", result: {} });
      tapes.clear();
    },
  };
}

type Step = IteratorResult<Frame, undefined>;

// A class, because hundreds of ended tapes are kept: one made of closures takes several times as much.
class RunTape implements Tape {
  live = false;
  watched = false;
  outcome: Outcome | undefined;
  readonly #run_id: string;
  readonly #ringSize: number;
  readonly #onEnd: (run_id: string, size: number) => void;
  #frames: Frame[] = [];
  #size = 0;
  #lastId = 0;
  #lostUpTo = 0;
  // Readers that wait for a frame; each says whether it got what it waits for.
  #waiting: (() => boolean)[] = [];
  #ending: ((outcome: Outcome) => void)[] = [];

  constructor(run_id: string, ringSize: number, onEnd: (run_id: string, size: number) => void) {
    this.#run_id = run_id;
    this.#ringSize = ringSize;
    this.#onEnd = onEnd;
  }

  startAt(id: number): void {
    this.#lastId = Math.max(this.#lastId, id - 1);
  }

  publish(event: string, data: string): void {
    if (this.outcome) return;
    this.#frames.push({ id: ++this.#lastId, event, data });
    this.#size += data.length + FRAME_OVERHEAD;
    if (this.#size > this.#ringSize) this.#cut();
    this.#wake();
  }

  end(outcome: Outcome): void {
    if (this.outcome) return;
    this.outcome = outcome;
    this.#wake();
    for (const resolve of this.#ending) resolve(outcome);
    this.#ending = [];
    this.#onEnd(this.#run_id, this.#size + weightOf(outcome.result) + TAPE_OVERHEAD);
  }

  async ended(): Promise<Outcome> {
    return this.outcome ?? new Promise<Outcome>((resolve) => this.#ending.push(resolve));
  }

  read(after: number, onLeave?: () => void): FrameReader {
    this.watched = true;
    let cursor = after;
    let left = false;
    // A reader behind the ring is told so; a gap is never silent.
    const gap = (): Frame | undefined => {
      if (cursor >= this.#lostUpTo) return undefined;
      cursor = this.#lostUpTo;
      return {
        id: null,
        event: "metadata",
        data: JSON.stringify({ run_id: this.#run_id, missing_before: cursor + 1 }),
      };
    };
    const step = (): Step | undefined => {
      const frame = left ? undefined : (gap() ?? this.#frames[this.#indexAfter(cursor)]);
      cursor = frame?.id ?? cursor;
      if (frame) return { done: false, value: frame };
      left ||= this.outcome !== undefined;
      return left ? { done: true, value: undefined } : undefined;
    };
    const take = (): Frame[] => {
      if (left) return [];
      const missing = gap();
      const ready = this.#frames.slice(this.#indexAfter(cursor));
      cursor = ready.at(-1)?.id ?? cursor;
      return missing ? [missing, ...ready] : ready;
    };
    const leave = (): void => {
      if (left) return;
      left = true;
      this.#wake();
      if (!this.outcome) onLeave?.();
    };
    const iterator = {
      next: async (): Promise<Step> =>
        step() ??
        new Promise<Step>((resolve) => {
          this.#waiting.push(() => {
            const arrived = step();
            if (arrived) resolve(arrived);
            return arrived !== undefined;
          });
        }),
      return: async (): Promise<Step> => {
        leave();
        return { done: true, value: undefined };
      },
    };
    return { take, [Symbol.asyncIterator]: () => iterator };
  }

  #wake(): void {
    if (this.#waiting.length > 0) this.#waiting = this.#waiting.filter((resume) => !resume());
  }

  /** Drops the older half of what the ring holds, but never the newest frame. */
  #cut(): void {
    let count = 0;
    for (const { data } of this.#frames.slice(0, -1)) {
      if (this.#size <= this.#ringSize / 2) break;
      this.#size -= data.length + FRAME_OVERHEAD;
      count++;
    }
    this.#lostUpTo = this.#frames[count - 1]?.id ?? this.#lostUpTo;
    this.#frames = this.#frames.slice(count);
  }

  #indexAfter(cursor: number): number {
    let low = 0;
    let high = this.#frames.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (((this.#frames[middle] as Frame).id as number) > cursor) high = middle;
      else low = middle + 1;
    }
    return low;
  }
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
