/** The stream of a thread: the frames of its runs, one run after another, for as long as somebody reads. */
import type { Environment } from "../environment.ts";
import type { ThreadState } from "../executor/contract.ts";
import type { Json } from "../json.ts";
import type { RunRow, Scope, Storage, ThreadRow } from "../storage/mod.ts";
import type { Frame, FrameReader, StreamHub } from "./hub.ts";

/** `run_modes`: the runs' frames, and `run_done` after each. `lifecycle`: its start and end. `state_update`: the state it left. */
export type ThreadStreamMode = "run_modes" | "lifecycle" | "state_update";

/** A place in the stream. Frames carry it as `<seq>-<frame>-<at>`. */
export interface ThreadPosition {
  /** Of a run. */
  readonly seq: number;
  /** Id of one of its frames. */
  readonly frame: number;
  /** When the run's turn came, in milliseconds since 1970: what was before is known when the run is gone, too. */
  readonly at: number;
}

export interface ThreadStreamQuery {
  /** Default `run_modes`. */
  readonly modes?: readonly ThreadStreamMode[];
  /** What the reader has seen; `{seq: 0, frame: 0, at: 0}` is before the first run. Without it the stream shows what comes from now on. */
  readonly after?: ThreadPosition;
}

export interface ThreadStreamOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly events: StreamHub;
  /** Frames of a run after an id, whoever executes it. */
  read(run: RunRow, after: number): Promise<{ readonly frames: FrameReader }>;
  /** The state that the last finished run left. */
  state(thread: ThreadRow): Promise<ThreadState | null>;
}

/** What the stream knows of a run. */
interface Entry {
  /** As it was when it was looked at last, without what it holds. */
  run: RunRow;
  /** The frame to read after. */
  readonly from: number;
  /** When it is told: null while that is not known. */
  place: number | null;
  /** It is told, or about to be. */
  told: boolean;
}

/** A run that is read. */
interface Source {
  readonly entry: Entry;
  readonly frames: FrameReader;
  readonly iterator: AsyncIterator<Frame, undefined>;
  /** What it shows first, of a run that is listened to. */
  first?: Promise<IteratorResult<Frame, undefined>>;
  started: boolean;
  error?: Json;
  end?: { readonly status: string; readonly id: Frame["id"] };
}

const POLL_MS = 1_000;
/** Where signals tell of new runs: for those that are lost. */
const UNTOLD_MS = 800;
const PAGE = 100;
const LIFE: Readonly<Record<string, string>> = {
  success: "completed",
  error: "failed",
  timeout: "failed",
  interrupted: "interrupted",
  rollback: "rolled_back",
};

/**
 * Ends when the thread is deleted, and when the service stops. It has no `end` and no `error`: readers take those for its own.
 *
 * Each run is told whole, in the order in which they started; one that ended without starting, when it ended, but after the
 * runs that were to start before it. The rows say so, and the same at any time: a reader's place means the same to every
 * process, whatever that hears of first.
 */
export async function threadStream(
  { storage, scope, environment, events, ...options }: ThreadStreamOptions,
  thread_id: string,
  { modes = [], after }: ThreadStreamQuery,
): Promise<FrameReader> {
  const shown = new Set<ThreadStreamMode>(modes.length > 0 ? modes : ["run_modes"]);
  const ready: Frame[] = [];
  // What is not told yet, and what was told lately: others may have to come after it. In the order it was made.
  let entries: Entry[] = [];
  // Whose turn is next, in order.
  let begun: Entry[] = [];
  let current: Source | undefined;
  let listened: Source | undefined;
  // Where the reader was, until what it has seen is left out.
  let resumed = after;
  // The last id of the run told last: the place of what tells that a run is gone, as no row says where that was.
  let mark = after ? textOf(after) : null;
  // The run it is of: what is told later, but was before it, must not lead a reader back there.
  let furthest: Entry | undefined;
  // The last run that is not to be looked for.
  let top = 0;
  // There may be more runs, or more of them may have started.
  let fresh = true;
  let gone = false;
  let left = false;
  let wake = (): void => {};
  const rouse = (): void => {
    fresh = true;
    wake();
  };
  const unsubscribe = events.onRun(thread_id, rouse);

  const listPending = (): Promise<readonly RunRow[]> =>
    storage.listRuns(scope, thread_id, { status: "pending", limit: 1_000, offset: 0 });

  async function begin(): Promise<void> {
    const [newest, pending, running] = await Promise.all([
      after ? [] : storage.listRuns(scope, thread_id, { limit: 1, offset: 0 }),
      listPending(),
      storage.listRuns(scope, thread_id, { status: "running", limit: 1, offset: 0 }),
    ]);
    top = Math.max(0, after ? after.seq - PAGE : (newest[0]?.seq ?? 0));
    // One that starts meanwhile is in both lists.
    for (const run of new Map([...pending, ...running].map((run) => [run.seq, run])).values()) {
      if (run.seq <= top) entries.push(entryOf(run, after ? 0 : await newestFrame(run)));
    }
  }

  /** The last frame that readers of a run have been shown by now, here or by another process. */
  async function newestFrame(run: RunRow): Promise<number> {
    const runEvents = events.find(run.run_id);
    if (runEvents || !run.framed) return runEvents?.lastId ?? 0;
    let last = 0;
    while (true) {
      const frame = (await storage.readFrames(scope, run.run_id, last)).at(-1);
      if (!frame) return last;
      last = frame.id;
    }
  }

  /** Finds every run that has its place by now: the others' places come after. */
  async function look(): Promise<void> {
    let rows: readonly RunRow[];
    let waited: boolean;
    do {
      fresh = false;
      const waiting = entries.filter((entry) => since(entry) === null);
      waited = waiting.length > 0;
      const pending = new Map((waited ? await listPending() : []).map((run) => [run.seq, run]));
      for (const entry of waiting) {
        const { run } = entry;
        const now = pending.get(run.seq) ?? (await storage.getRun(scope, run.run_id));
        entry.run = now ? bare(now) : { ...run, ended_at: 0 };
      }
      rows = await storage.listRunsAfter(scope, thread_id, top, PAGE);
      for (const run of rows) {
        top = run.seq;
        entries.push(entryOf(run, run.seq === after?.seq ? after.frame : 0));
      }
      // A new run may have started after one that was still pending when it was looked at.
    } while (rows.length === PAGE || (waited && rows.length > 0));
    entries.sort((a, b) => a.run.seq - b.run.seq);
    for (const entry of entries) entry.place ??= placeOf(entry);
    if (resumed) skip(resumed);
    resumed = undefined;
    begun = entries.filter(({ place, told }) => place !== null && !told).sort(inOrder);
    for (const entry of begun) entry.told = true;
    entries = entries.filter(({ told }, i) => !told || i >= entries.length - PAGE);
    gone = events.closed || !(await storage.getThread(scope, thread_id));
  }

  /** The latest of its own time and, for one that never started, the places of those that were to start before it. */
  function placeOf(entry: Entry): number | null {
    const { seq, started_at, created_at } = entry.run;
    let place = since(entry);
    if (place === null || started_at !== null) return place;
    for (const before of entries) {
      if (before.run.seq >= seq) break;
      if (before.run.created_at > created_at) continue;
      if (before.place === null) return null;
      place = Math.max(place, before.place);
    }
    return place;
  }

  /** Leaves out what the reader has seen to its end. */
  function skip({ seq, frame, at }: ThreadPosition): void {
    for (const entry of entries) {
      const { run, place } = entry;
      if (place === null || run.end_frame === null) continue;
      entry.told = run.seq === seq ? frame >= run.end_frame : (place - at || run.seq - seq) < 0;
    }
  }

  /** Hears when the run starts that is next. */
  async function listen(): Promise<void> {
    const next = entries.find((entry) => since(entry) === null && entry.run.created_at <= environment.now());
    if (!next || next === listened?.entry) return;
    const run = await storage.getRun(scope, next.run.run_id);
    if (run?.status !== "pending" || run.started_at !== null) {
      fresh = true;
      return;
    }
    void listened?.iterator.return?.();
    listened = await open(next, run);
    listened.first = listened.iterator.next();
    listened.first.then(rouse, rouse);
  }

  async function open(entry: Entry, run: RunRow): Promise<Source> {
    const { frames } = await options.read(run, entry.from);
    const iterator = frames[Symbol.asyncIterator]() as AsyncIterator<Frame, undefined>;
    if (left) await iterator.return?.();
    return { entry, frames, iterator, started: entry.from > 0 };
  }

  /** It is a run's turn. */
  async function turn(entry: Entry): Promise<void> {
    if (listened?.entry === entry) {
      current = listened;
      listened = undefined;
      return;
    }
    const run = await storage.getRun(scope, entry.run.run_id);
    if (!run || left) return;
    if (!isOver(run) || run.framed || events.find(run.run_id)) {
      current = await open(entry, run);
      return;
    }
    // Nothing of it is left but how it ended.
    const end = { status: run.status, id: run.end_frame };
    await finish({ entry, started: entry.from > 0, end, ...(run.error ? { error: run.error } : {}) });
  }

  function start(source: Pick<Source, "entry" | "started">, id: Frame["id"]): void {
    if (source.started) return;
    source.started = true;
    if (!shown.has("lifecycle")) return;
    const data = JSON.stringify({ event: "started", run_id: source.entry.run.run_id });
    ready.push({ id: shown.has("run_modes") ? null : id, event: "lifecycle", data });
  }

  function show(source: Source, frame: Frame): void {
    const { event, data } = frame;
    if (event === "error") {
      source.error = JSON.parse(data);
    } else if (event === "end") {
      source.end = { status: JSON.parse(data).status, id: frame.id };
    } else {
      const id = frame.id === null ? null : idOf(source.entry, frame.id);
      start(source, id);
      if (shown.has("run_modes")) ready.push({ id, event, data });
    }
  }

  /** Tells that a run has ended. The last frame about it has its last id. */
  async function finish(source: Omit<Source, "frames" | "iterator">): Promise<void> {
    const { entry, end, error } = source;
    const { run_id, started_at } = entry.run;
    const status = end?.status ?? "";
    if (started_at !== null) start(source, null);
    if (end && status !== "rollback" && !(furthest && inOrder(entry, furthest) < 0)) {
      mark = idOf(entry, end.id);
      furthest = entry;
    }
    const told: (readonly [event: string, data: unknown])[] = [];
    if (shown.has("lifecycle")) told.push(["lifecycle", { event: LIFE[status], run_id, status }]);
    // The states that earlier runs left are not the thread's any more.
    const thread = shown.has("state_update") && begun.length === 0 && (await storage.getThread(scope, thread_id));
    if (thread) told.push(["state_update", await options.state(thread)]);
    if (shown.has("run_modes")) {
      told.push(["run_done", { run_id, status, ...(error === undefined ? {} : { error }) }]);
    }
    for (const [i, [event, data]] of told.entries()) {
      ready.push({ id: i === told.length - 1 ? mark : null, event, data: JSON.stringify(data) });
    }
  }

  async function advance(source: Source): Promise<void> {
    const { done, value } = await (source.first ?? source.iterator.next());
    delete source.first;
    if (left) return;
    if (!done) return show(source, value);
    current = undefined;
    fresh = true;
    // Without an end the service stops.
    if (source.end) await finish(source);
    else leave();
  }

  async function pause(): Promise<void> {
    await new Promise<void>((resolve) => {
      const cancel = environment.timer(storage.signals ? UNTOLD_MS : POLL_MS, rouse);
      wake = () => {
        cancel();
        resolve();
      };
    });
  }

  function leave(): void {
    left = true;
    unsubscribe();
    wake();
    for (const source of [current, listened]) void source?.iterator.return?.();
  }

  async function next(): Promise<IteratorResult<Frame, undefined>> {
    try {
      while (!left) {
        const frame = ready.shift();
        if (frame) return { done: false, value: frame };
        const entry = current ? undefined : begun.shift();
        if (current) await advance(current);
        else if (entry) await turn(entry);
        else if (fresh) await look();
        else {
          await listen();
          if (gone) leave();
          else if (!fresh && !left) await pause();
        }
      }
    } catch (error) {
      const over = left || events.closed;
      leave();
      // Whoever has left, and whoever a stopping service leaves, needs no answer of a storage that is closed.
      if (!over) throw error;
    }
    return { done: true, value: undefined };
  }

  try {
    await begin();
  } catch (error) {
    unsubscribe();
    throw error;
  }
  return {
    take() {
      if (current && !current.first && !left) for (const frame of current.frames.take()) show(current, frame);
      return ready.splice(0);
    },
    [Symbol.asyncIterator]: () => ({
      next,
      async return() {
        if (!left) leave();
        return { done: true, value: undefined };
      },
    }),
  };
}

const bare = (run: RunRow): RunRow => ({ ...run, kwargs: {}, metadata: {}, result: null });

const entryOf = (run: RunRow, from: number): Entry => ({ run: bare(run), from, place: null, told: false });

/** When it started, or ended without. Once it is there it never changes. */
const since = ({ run }: Entry): number | null => run.started_at ?? run.ended_at;

const inOrder = (a: Entry, b: Entry): number => (a.place ?? 0) - (b.place ?? 0) || a.run.seq - b.run.seq;

const idOf = ({ run, place }: Entry, frame: Frame["id"]): string => textOf({ seq: run.seq, frame, at: place ?? 0 });

const textOf = ({ seq, frame, at }: { seq: number; frame: Frame["id"]; at: number }): string => `${seq}-${frame}-${at}`;

const isOver = ({ status }: RunRow): boolean => status !== "pending" && status !== "running";
