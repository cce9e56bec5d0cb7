/** The tapes of runs, whoever executes them: found, replayed, fed from the store, and ended as the run's row says. */
import { closeRunEvents, endRolledBack, firstId, tailLength, waitResult } from "../engine/worker.ts";
import type { Environment } from "../environment.ts";
import type { StreamMode } from "../executor/contract.ts";
import type { Json } from "../json.ts";
import type { RunRow, RunStatus, Scope, Storage, TerminalStatus } from "../storage/mod.ts";
import { StateUnreadable, type ThreadDirectory } from "../threads/mod.ts";
import type { Frame, FrameReader, RunEvents, StreamHub } from "./hub.ts";

export interface FollowOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly events: StreamHub;
  readonly threads: Pick<ThreadDirectory, "current">;
  /** The feedback URLs of a run by key, as JSON; null when it has none. */
  readonly feedbackUrls: (run: RunRow) => string | null;
}

export interface Follower {
  /**
   * Frames of a run after an id that the reader has seen; from the start when no run has such an id. `made`: the caller has just
   * made the run, which a store that fails must not hide.
   */
  read(
    run: RunRow,
    after: number,
    onLeave?: () => void,
    made?: boolean,
  ): Promise<{ readonly runEvents: RunEvents; readonly frames: FrameReader }>;
  /** What wait and join answer. */
  result(run: RunRow, made?: boolean): Promise<{ readonly runEvents: RunEvents; readonly result: Promise<Json> }>;
  /** Looks after a tape that nobody in this process writes: feeds it from the store and ends it when the run's row says so. */
  watch(run: Named, runEvents: RunEvents): void;
  /** Something may have become of this run, or of those of this thread, or of any: those that are watched here are looked at now. */
  heard(of: Partial<Named>): void;
  /** Does that once, now, for whoever reads the run here: its row has changed. */
  look(run_id: string): Promise<void>;
}

type Named = Pick<RunRow, "run_id" | "thread_id">;

/** A tape that is looked after. */
interface Watch {
  readonly run: Named;
  readonly runEvents: RunEvents;
  /** Something was heard since the look that is under way began. */
  again: boolean;
  looking: boolean;
  cancel(): void;
}

/** A reader that says it has seen more has not. */
const HIGHEST_ID = 2 ** 52;
/** How often a run that executes elsewhere is looked at: soon again when it had something new. */
const SOON_MS = 250;
const LATER_MS = 1_000;
/** Where signals tell when to look: for those that are lost. */
const UNTOLD_MS = 800;

export function createFollower(options: FollowOptions): Follower {
  const { storage, scope, environment, events, threads, feedbackUrls } = options;
  const told = storage.signals !== undefined;
  const watched = new Map<RunEvents, Watch>();
  const open = (runEvents: RunEvents): boolean => !runEvents.outcome && !runEvents.live;

  function watch(run: Named, runEvents: RunEvents): void {
    if (!open(runEvents)) return;
    const known = watched.get(runEvents);
    if (known) {
      if (told) lookNow(known);
      return;
    }
    const watching: Watch = { run, runEvents, again: false, looking: false, cancel: () => {} };
    watched.set(runEvents, watching);
    // What was told before nobody here has heard.
    if (told) void lookAt(watching, UNTOLD_MS);
    else lookAfter(watching, SOON_MS);
  }

  function lookAfter(watching: Watch, ms: number): void {
    watching.cancel = environment.timer(ms, () => void lookAt(watching, ms));
  }

  /** Looks, and again `ms` later or sooner, while somebody reads. */
  async function lookAt(watching: Watch, ms: number): Promise<void> {
    const { run, runEvents } = watching;
    const { run_id } = run;
    const before = runEvents.lastId;
    watching.looking = true;
    try {
      do {
        watching.again = false;
        // Readers wait for frames; whether they are stored the first look tells.
        const fed = runEvents.stored;
        if (open(runEvents) && fed) await feed(run_id, runEvents);
        if (open(runEvents)) await end(run_id, runEvents);
        if (open(runEvents) && runEvents.stored && !fed) await feed(run_id, runEvents);
      } while (watching.again && open(runEvents) && runEvents.followed);
    } catch (error) {
      environment.log({ level: "warn", message: "a run could not be watched", run_id, error });
    }
    watching.looking = false;
    if (open(runEvents) && runEvents.followed) {
      lookAfter(watching, told ? UNTOLD_MS : runEvents.lastId > before ? SOON_MS : Math.min(2 * ms, LATER_MS));
      return;
    }
    watched.delete(runEvents);
    if (open(runEvents)) events.forget(run_id, runEvents);
  }

  function lookNow(watching: Watch): void {
    watching.again = true;
    if (watching.looking) return;
    watching.cancel();
    void lookAt(watching, UNTOLD_MS);
  }

  /** Takes over frames that another process has stored. */
  async function feed(run_id: string, runEvents: RunEvents): Promise<void> {
    while (runEvents.followed) {
      const page = await storage.readFrames(scope, run_id, runEvents.lastId);
      if (page.length === 0 || !open(runEvents)) return;
      for (const { id, event, data } of page) {
        runEvents.skipTo(id - 1);
        if (id > runEvents.lastId) runEvents.publish(event, data);
      }
      await new Promise<void>((resolve) => environment.defer(resolve));
    }
  }

  /** Ends the tape when the run's row says so. */
  async function end(run_id: string, runEvents: RunEvents): Promise<void> {
    const row = await storage.getRun(scope, run_id);
    if (!row) {
      if (open(runEvents)) endRolledBack(runEvents, run_id);
      return;
    }
    const result = isOver(row) ? await storedResult(row) : null;
    // It may have been claimed here meanwhile.
    if (!open(runEvents)) return;
    runEvents.stored ||= row.framed;
    runEvents.attempt = row.attempt;
    if (!isOver(row)) return;
    const tail = { feedback: feedbackUrls(row), error: row.error };
    const end_frame = row.end_frame ?? firstId(row.claims) + tailLength(tail);
    // What was stored once and is not any more is missing: readers are told.
    if (row.kwargs["resumable"] === true) runEvents.skipTo(end_frame - tailLength(tail) - 1);
    closeRunEvents(runEvents, run_id, { status: row.status as TerminalStatus, result }, tail, end_frame);
  }

  /** What wait and join answer for a run that ended before anybody asked. */
  async function storedResult(run: RunRow): Promise<Json> {
    if (run.error) return { __error__: run.error };
    if (run.temporary) return run.result ?? {};
    const thread = await storage.getThread(scope, run.thread_id);
    try {
      // What a run has stored that has not ended is none of this one's.
      const state = thread && (await threads.current({ ...thread, running: null }));
      if (!state) return {};
      const by = state.metadata?.["run_id"];
      const last = by === run.run_id || typeof by !== "string" ? run : await storage.getRun(scope, by);
      const cut = last?.status === "interrupted";
      return waitResult(state.values, state.next, state.interrupts as unknown as Json[], cut);
    } catch (error) {
      if (!(error instanceof StateUnreadable)) throw error;
      // The graph cannot read its state any more; the run has ended all the same.
      environment.log({
        level: "error",
        message: "a state could not be read",
        run_id: run.run_id,
        thread_id: run.thread_id,
        error,
      });
      return { __error__: { error: "StateUnreadable", message: "The state could not be read" } };
    }
  }

  /** The tape of a run, ended already when the run is over. Who reads it, after an id it has seen, says `watch` afterwards. */
  async function follow({ run_id, thread_id }: RunRow, after: number, made: boolean): Promise<RunEvents> {
    const seen = Math.min(after, HIGHEST_ID);
    const known = events.find(run_id);
    // Who found the row just before the run was gone has not seen that: it is told with ids above what it has seen.
    const late = known?.outcome?.status === "gone" && seen > known.lastId - 2;
    if (known && !late) {
      known.seen = Math.max(known.seen, seen);
      return known;
    }
    if (known) events.forget(run_id, known);
    // The row may be older than the end of the run: what counts is the row once the tape is there.
    const runEvents = events.runEvents(run_id);
    runEvents.seen = seen;
    try {
      await end(run_id, runEvents);
    } catch (error) {
      if (!made) {
        events.forget(run_id, runEvents);
        throw error;
      }
      environment.log({ level: "warn", message: "a run could not be watched", run_id, thread_id, error });
    }
    return runEvents;
  }

  /** Where to read from: ids that no run has are unknown, and everything is read then. */
  async function place(run_id: string, runEvents: RunEvents, seen: number): Promise<number> {
    const after = Math.min(seen, HIGHEST_ID);
    // An id from elsewhere may be that of the end, which is no stored frame.
    if (after > runEvents.lastId && open(runEvents)) {
      storage.refresh?.();
      await end(run_id, runEvents);
    }
    if (after > runEvents.lastId && runEvents.stored && !runEvents.outcome) {
      // Another process may have shown it.
      const [frame] = await storage.readFrames(scope, run_id, after - 1);
      if (frame?.id === after) {
        if (open(runEvents)) runEvents.skipTo(after);
        return after;
      }
      // Or the run was rolled back meanwhile: its frames went with it, and the reader is to see none of them again.
      if (open(runEvents)) await end(run_id, runEvents);
    }
    if (after > runEvents.lastId && runEvents.live) {
      // What executes here may have lost the run: how that ended elsewhere the tape tells once it is left.
      const row = await storage.getRun(scope, run_id);
      if (!row || (isOver(row) && after <= (row.end_frame ?? 0))) return after;
    }
    return after <= runEvents.lastId ? after : 0;
  }

  return {
    watch,
    heard({ run_id, thread_id }) {
      if (run_id !== undefined) {
        const runEvents = events.find(run_id);
        const watching = runEvents && watched.get(runEvents);
        if (watching) lookNow(watching);
        return;
      }
      for (const watching of [...watched.values()]) {
        if (thread_id === undefined || thread_id === watching.run.thread_id) lookNow(watching);
      }
    },
    async look(run_id) {
      const runEvents = events.find(run_id);
      if (runEvents && open(runEvents)) await end(run_id, runEvents);
    },
    async read(run, after, onLeave, made = false) {
      const runEvents = await follow(run, after, made);
      try {
        return { runEvents, frames: runEvents.read(await place(run.run_id, runEvents, after), onLeave) };
      } finally {
        // Also when the place could not be found: what nobody reads is forgotten.
        watch(run, runEvents);
      }
    },
    async result(run, made = false) {
      const runEvents = await follow(run, 0, made);
      const gone = runEvents.outcome?.status === "gone";
      try {
        // Later runs may have changed the state since.
        if (isOver(run) && !gone) return { runEvents, result: Promise.resolve(await storedResult(run)) };
        return { runEvents, result: runEvents.ended().then((outcome) => outcome.result ?? {}) };
      } finally {
        watch(run, runEvents);
      }
    },
  };
}

const isOver = ({ status }: { readonly status: RunStatus }): boolean => status !== "pending" && status !== "running";

/** Frames that every reader gets, whatever modes it asked for. */
const ALWAYS = new Set(["metadata", "error", "feedback", "end"]);

/** Whether a frame's namespace is one of these, or that of a subgraph in one of them: not that of a subagent it has started. */
function isWithin(namespace: string, namespaces: readonly string[]): boolean {
  return namespaces.some((wanted) => {
    if (namespace === wanted) return true;
    const inside = wanted === "" ? namespace : namespace.slice(wanted.length + 1);
    if (wanted !== "" && !namespace.startsWith(`${wanted}|`)) return false;
    return !inside.split("|").some((segment) => segment.startsWith("tools:"));
  });
}

/** Which frames a reader of a run gets: of these modes and namespaces, all without any. */
export interface FrameFilter {
  readonly modes?: readonly StreamMode[];
  readonly namespaces?: readonly string[];
}

/**
 * The frames that are wanted, and the end also for a reader that has seen it: clients take an empty stream for a broken one.
 * Not a generator: that would leave its source only with the next frame.
 */
export function joined(
  frames: FrameReader,
  runEvents: RunEvents,
  run_id: string,
  { modes = [], namespaces = [] }: FrameFilter,
): FrameReader {
  const source = frames[Symbol.asyncIterator]();
  let ended = false;
  const wanted = ({ event }: Frame): boolean => {
    ended ||= event === "end";
    const bar = event.indexOf("|");
    const name = bar < 0 ? event : event.slice(0, bar);
    if (bar < 0 && ALWAYS.has(name)) return true;
    if (namespaces.length > 0 && !isWithin(bar < 0 ? "" : event.slice(bar + 1), namespaces)) return false;
    if (modes.length === 0 || ALWAYS.has(name)) return true;
    if (name.startsWith("messages/")) return modes.includes("messages");
    return modes.includes(name === "messages" ? "messages-tuple" : (name as StreamMode));
  };
  return {
    take: () => frames.take().filter(wanted),
    [Symbol.asyncIterator]: () => ({
      async next() {
        while (true) {
          const { done, value } = await source.next();
          if (!done && !wanted(value)) continue;
          if (!done) return { done, value };
          const status = ended ? "gone" : (runEvents.outcome?.status ?? "gone");
          if (status === "gone") return { done, value: undefined };
          ended = true;
          return { done: false, value: { id: null, event: "end", data: JSON.stringify({ run_id, status }) } };
        }
      },
      async return() {
        await source.return?.();
        return { done: true, value: undefined };
      },
    }),
  };
}
