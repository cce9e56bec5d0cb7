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

export function createEvents(ambient: Ambient, options: EventsOptions = {}): Events {
  const { ring_size = 4 * 1024 * 1024, keep_ms = 60_000, keep_size = 8 * 1024 * 1024 } = options;
  const tapes = new Map<string, Tape>();
  // Ended tapes, oldest first; bounded by age and size, so that memory does not follow the number of runs.
  const kept: { run_id: string; until: number; size: number }[] = [];
  let keptSize = 0;

  function drop(): void {
    const now = ambient.now();
    let count = 0;
    for (const entry of kept) {
      if (entry.until > now && keptSize <= keep_size) break;
      keptSize -= entry.size;
      tapes.delete(entry.run_id);
      count++;
    }
    if (count > 0) kept.splice(0, count);
  }

  function createTape(run_id: string): Tape {
    let frames: Frame[] = [];
    let size = 0;
    let lastId = 0;
    let lostUpTo = 0;
    let outcome: Outcome | undefined;
    let waiting: (() => void)[] = [];
    const wake = (): void => {
      const woken = waiting;
      waiting = [];
      for (const resume of woken) resume();
    };
    const tape: Tape = {
      live: false,
      get outcome() {
        return outcome;
      },
      startAt(id) {
        lastId = Math.max(lastId, id - 1);
      },
      publish(event, data) {
        if (outcome) return;
        frames.push({ id: ++lastId, event, data });
        size += data.length + FRAME_OVERHEAD;
        if (size > ring_size) {
          let cut = 0;
          while (size > ring_size / 2 && cut < frames.length - 1)
            size -= (frames[cut++] as Frame).data.length + FRAME_OVERHEAD;
          lostUpTo = (frames[cut - 1] as Frame).id as number;
          frames = frames.slice(cut);
        }
        wake();
      },
      end(how) {
        if (outcome) return;
        outcome = how;
        wake();
        const cost = size + JSON.stringify(how.result ?? null).length + 4 * FRAME_OVERHEAD;
        kept.push({ run_id, until: ambient.now() + keep_ms, size: cost });
        keptSize += cost;
        drop();
      },
      async ended() {
        while (!outcome) await new Promise<void>((resolve) => waiting.push(resolve));
        return outcome;
      },
      read(after, onLeave) {
        let cursor = after;
        let left = false;
        let resumeMine: (() => void) | undefined;
        const indexAfter = (): number => {
          let low = 0;
          let high = frames.length;
          while (low < high) {
            const middle = (low + high) >> 1;
            if (((frames[middle] as Frame).id as number) > cursor) high = middle;
            else low = middle + 1;
          }
          return low;
        };
        // A reader behind the ring is told so; a gap is never silent.
        const gap = (): Frame | undefined => {
          if (cursor >= lostUpTo) return undefined;
          cursor = lostUpTo;
          return { id: null, event: "metadata", data: JSON.stringify({ run_id, missing_before: lostUpTo + 1 }) };
        };
        const next = (): Frame | undefined => {
          const missing = gap();
          if (missing) return missing;
          const frame = frames[indexAfter()];
          if (frame) cursor = frame.id as number;
          return frame;
        };
        const leave = (): void => {
          if (left) return;
          left = true;
          resumeMine?.();
          if (!outcome) onLeave?.();
        };
        return {
          take() {
            if (left) return [];
            const missing = gap();
            const ready = frames.slice(indexAfter());
            const last = ready.at(-1);
            if (last) cursor = last.id as number;
            return missing ? [missing, ...ready] : ready;
          },
          [Symbol.asyncIterator]() {
            return {
              async next() {
                while (!left) {
                  const frame = next();
                  if (frame) return { done: false, value: frame };
                  if (outcome) break;
                  await new Promise<void>((resolve) => {
                    resumeMine = resolve;
                    waiting.push(resolve);
                  });
                }
                left = true;
                return { done: true, value: undefined };
              },
              async return() {
                leave();
                return { done: true, value: undefined };
              },
            };
          },
        };
      },
    };
    return tape;
  }

  return {
    tape(run_id) {
      let tape = tapes.get(run_id);
      if (!tape) {
        tape = createTape(run_id);
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
