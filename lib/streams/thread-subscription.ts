/** Streams the frames of a thread's runs, one run after another. */
import { type Environment, keepAliveUntil } from "../environment.ts";
import type { ThreadState } from "../executor/contract.ts";
import type { Json } from "../json.ts";
import type { EventBus } from "../storage/event-bus.ts";
import type { RunRow, Scope, Storage, ThreadRow } from "../storage/mod.ts";
import { decodeFrame, type Frame } from "./frames.ts";
import type { StreamHub } from "./hub.ts";
import { ChangeNotifier, createReader, type Reader } from "./log.ts";
import { getMaxPollMs } from "./poller.ts";
import { hasEnded } from "./run-subscription.ts";

/** A position in the stream of a thread. Frames carry it as `<seq>-<frame>-<at>`. */
export interface ThreadPosition {
  /** The `seq` of a run. */
  readonly seq: number;
  /** The id of one of its frames. */
  readonly frame: number;
  /** The time that orders the run, in milliseconds since 1970, even after the run was deleted. */
  readonly at: number;
}

interface ThreadRun {
  /** The row as read last, without its large members. */
  run: RunRow;
  /** The id after which frames are emitted. */
  readonly after: number;
  /** The time that orders the run; null while that is unknown. */
  order: number | null;
  /** True if the run was queued for output, or the subscriber has already received it to its end. */
  isEmitted: boolean;
}

const MAX_PAGE_RUNS = 100;

/** The runs of a thread, in the order in which a reader gets their frames. */
interface ThreadRuns {
  /** True if there may be new runs, or some of these may have started or ended. Set it to have `refresh` called. */
  stale: boolean;
  /** Loads the runs that are active now; without a position, frames that exist already are skipped. Call it once, first. */
  begin(): Promise<void>;
  /** Reads new and waiting runs, and makes each run that may be emitted ready, once and in order. Clears `stale`. */
  refresh(): Promise<void>;
  /** Removes and returns the run that is emitted next; undefined if none is ready. */
  next(): ThreadRun | undefined;
  /** Returns true when no run is ready. */
  isLast(): boolean;
  /** Returns the first run that is due at `now`, in milliseconds, and has not started; undefined without one. */
  firstWaiting(now: number): ThreadRun | undefined;
}

/**
 * Creates the list of a thread's runs in the order in which they started, empty until `begin` and `refresh` read it. A run that
 * ended without starting comes when it ended, but after the runs before it in the queue. The order follows from the rows alone,
 * so that a position means the same in every process.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
function createThreadRuns(
  { storage, scope, hub }: ThreadStreamOptions,
  thread_id: string,
  after: ThreadPosition | undefined,
): ThreadRuns {
  // Runs that are not emitted yet, and some emitted ones that may decide the order of others. In the order of their `seq`.
  let entries: ThreadRun[] = [];
  let ready: ThreadRun[] = [];
  let position = after;
  // The highest `seq` read so far.
  let highestSeq = 0;

  const listPending = (): Promise<readonly RunRow[]> =>
    storage.listRuns(scope, thread_id, { status: "pending", limit: 1_000, offset: 0 });

  /**
   * Resolves with the id of a run's last frame: that of its log here, else of the last stored one. Resolves to 0 without a frame,
   * and for a run that stores none and has no log here.
   */
  async function findNewestFrameId(run: RunRow): Promise<number> {
    const runLog = hub.find(run.run_id);
    if (runLog || !run.resumable) return runLog?.lastId ?? 0;
    let last = 0;
    while (true) {
      const frame = (await storage.readFrames(scope, run.run_id, last)).at(-1);
      if (!frame) return last;
      last = frame.id;
    }
  }

  /** Reads the waiting runs again; deleted ones count as ended. Resolves to true if there were any. */
  async function refreshWaiting(): Promise<boolean> {
    const waiting = entries.filter((entry) => getStartTime(entry) === null);
    const pending = new Map((waiting.length > 0 ? await listPending() : []).map((run) => [run.seq, run]));
    for (const entry of waiting) {
      const { run } = entry;
      const row = pending.get(run.seq) ?? (await storage.getRun(scope, run.run_id));
      entry.run = row ? omitRunPayload(row) : { ...run, ended_at: 0 };
    }
    return waiting.length > 0;
  }

  /**
   * Returns the time that orders the run: its start, or for one that ended without starting its end, but not before that of the
   * runs before it in the queue. Null while it waits, and while one of these runs has no order.
   */
  function findOrder(entry: ThreadRun): number | null {
    const { seq, started_at, created_at } = entry.run;
    let order = getStartTime(entry);
    if (order === null || started_at !== null) return order;
    for (const earlier of entries) {
      if (earlier.run.seq >= seq) break;
      if (earlier.run.created_at > created_at) continue;
      if (earlier.order === null) return null;
      order = Math.max(order, earlier.order);
    }
    return order;
  }

  /** Marks the runs that the subscriber has received to their end. */
  function skipEmitted({ seq, frame, at }: ThreadPosition): void {
    for (const entry of entries) {
      const { run, order } = entry;
      if (order === null || run.end_frame === null) continue;
      entry.isEmitted = run.seq === seq ? frame >= run.end_frame : (order - at || run.seq - seq) < 0;
    }
  }

  return {
    stale: true,
    async begin() {
      const [newest, pending, running] = await Promise.all([
        after ? [] : storage.listRuns(scope, thread_id, { limit: 1, offset: 0 }),
        listPending(),
        storage.listRuns(scope, thread_id, { status: "running", limit: 1, offset: 0 }),
      ]);
      highestSeq = Math.max(0, after ? after.seq - MAX_PAGE_RUNS : (newest[0]?.seq ?? 0));
      // A run that starts between the two reads is in both lists.
      for (const run of new Map([...pending, ...running].map((run) => [run.seq, run])).values()) {
        if (run.seq <= highestSeq) entries.push(toThreadRun(run, after ? 0 : await findNewestFrameId(run)));
      }
    },
    // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the loop of one reader: what it waits for depends on what it has read
    async refresh() {
      let rows: readonly RunRow[];
      let hadWaiting: boolean;
      do {
        this.stale = false;
        hadWaiting = await refreshWaiting();
        rows = await storage.listRuns(scope, thread_id, { above: highestSeq, limit: MAX_PAGE_RUNS, offset: 0 });
        for (const run of rows) {
          highestSeq = run.seq;
          entries.push(toThreadRun(run, run.seq === after?.seq ? after.frame : 0));
        }
        // A new run may have started after one that was still pending when it was read.
      } while (rows.length === MAX_PAGE_RUNS || (hadWaiting && rows.length > 0));
      entries.sort((a, b) => a.run.seq - b.run.seq);
      for (const entry of entries) entry.order ??= findOrder(entry);
      if (position) skipEmitted(position);
      position = undefined;
      ready = entries.filter(({ order, isEmitted }) => order !== null && !isEmitted).sort(compareOrder);
      for (const entry of ready) entry.isEmitted = true;
      entries = entries.filter(({ isEmitted }, i) => !isEmitted || i >= entries.length - MAX_PAGE_RUNS);
    },
    next: () => ready.shift(),
    isLast: () => ready.length === 0,
    firstWaiting: (now) => entries.find((entry) => getStartTime(entry) === null && entry.run.created_at <= now),
  };
}

const omitRunPayload = (run: RunRow): RunRow => ({ ...run, kwargs: {}, metadata: {}, result: null });

/** Returns the entry of a run that is neither ordered nor emitted. Omits the large members of its row. */
const toThreadRun = (run: RunRow, after: number): ThreadRun => ({
  run: omitRunPayload(run),
  after,
  order: null,
  isEmitted: false,
});

/** Returns when the run started, or ended without starting. Once set it never changes. */
const getStartTime = ({ run }: ThreadRun): number | null => run.started_at ?? run.ended_at;

const compareOrder = (a: ThreadRun, b: ThreadRun): number => (a.order ?? 0) - (b.order ?? 0) || a.run.seq - b.run.seq;

/**
 * The content of the stream. `run_modes`: the runs' frames, and `run_done` after each. `lifecycle`: the start and end of each
 * run. `state_update`: the state after each.
 */
export type ThreadStreamMode = "run_modes" | "lifecycle" | "state_update";

/** The frames of a thread that a reader gets. */
export interface ThreadStreamQuery {
  /** The modes. Default `run_modes`. */
  readonly modes?: readonly ThreadStreamMode[];
  /** The last position that the subscriber has received; `{seq: 0, frame: 0, at: 0}` starts at the first run. Default: now. */
  readonly after?: ThreadPosition;
}

export interface ThreadStreamOptions {
  readonly storage: Storage;
  readonly bus: EventBus;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly hub: StreamHub;
  /** Reads the frames of a run after an id, in whichever process it is executed. */
  read(run: RunRow, after: number): Promise<{ readonly frames: Reader<Frame> }>;
  /** Reads the state after the last finished run. */
  state(thread: ThreadRow): Promise<ThreadState | null>;
}

/** A run whose frames are read. */
interface RunFrameSource {
  readonly entry: ThreadRun;
  readonly frames: Reader<Frame>;
  /** The first frames of a run to which the reader subscribed before it is emitted. */
  first?: ReturnType<Reader<Frame>["next"]>;
  started: boolean;
  error?: Json;
  end?: { readonly status: string; readonly id: Frame["id"] };
}

const LIFECYCLE_EVENTS: Readonly<Record<string, string>> = {
  success: "completed",
  error: "failed",
  timeout: "failed",
  interrupted: "interrupted",
  rollback: "rolled_back",
};

/** The frames of a thread's stream that wait to be read, and the position that they carry. */
class ThreadFrames {
  ready: Frame[] = [];
  readonly #modes: ReadonlySet<ThreadStreamMode>;
  // The position of the run that was emitted last. The frame that reports a deleted run carries it too, because no row has
  // another one.
  #position: string | null;
  // The run of that position. A run that is emitted later, but ordered earlier, must not move it back.
  #lastOrdered: ThreadRun | undefined;

  readonly #state: () => Promise<ThreadState | null | undefined>;

  /** `state` reads the current state of the thread; undefined if a later run has changed it. */
  constructor({ modes = [], after }: ThreadStreamQuery, state: () => Promise<ThreadState | null | undefined>) {
    this.#state = state;
    this.#modes = new Set<ThreadStreamMode>(modes.length > 0 ? modes : ["run_modes"]);
    this.#position = after ? formatPosition(after.seq, after.frame, after.at) : null;
  }

  has(mode: ThreadStreamMode): boolean {
    return this.#modes.has(mode);
  }

  /**
   * Adds a frame of a run to the ready ones, if frames of runs were requested, after the start of the run. Keeps `error` and
   * `end` for `finish`.
   */
  addFrame(source: RunFrameSource, frame: Frame): void {
    const { event, data } = frame;
    if (event === "error") {
      source.error = decodeFrame(frame).data;
    } else if (event === "end") {
      const { status } = decodeFrame(frame).data as { readonly status: string };
      source.end = { status, id: frame.id };
    } else {
      const id = frame.id === null ? null : createPosition(source.entry, frame.id);
      this.#start(source, id);
      if (this.has("run_modes")) this.ready.push({ id, event, data, sharedFrom: frame });
    }
  }

  /**
   * Adds the end of a run to the ready frames: lifecycle, state and `run_done`, as requested. The last frame carries the
   * position, which never moves back.
   */
  async finish(source: Omit<RunFrameSource, "frames">): Promise<void> {
    const { entry, end, error } = source;
    const { run_id, started_at } = entry.run;
    const status = end?.status ?? "";
    if (started_at !== null) this.#start(source, null);
    if (end && status !== "rollback" && !(this.#lastOrdered && compareOrder(entry, this.#lastOrdered) < 0)) {
      this.#position = createPosition(entry, end.id);
      this.#lastOrdered = entry;
    }
    const events: (readonly [event: string, data: unknown])[] = [];
    if (this.has("lifecycle")) events.push(["lifecycle", { event: LIFECYCLE_EVENTS[status], run_id, status }]);
    const state = this.has("state_update") ? await this.#state() : undefined;
    if (state !== undefined) events.push(["state_update", state]);
    if (this.has("run_modes")) {
      events.push(["run_done", { run_id, status, ...(error === undefined ? {} : { error }) }]);
    }
    for (const [i, [event, data]] of events.entries()) {
      this.ready.push({ id: i === events.length - 1 ? this.#position : null, event, data: JSON.stringify(data) });
    }
  }

  /**
   * Adds the start of a run to the ready frames, once and only if lifecycles were requested. It carries `id` only if frames of runs
   * were not requested.
   */
  #start(source: Pick<RunFrameSource, "entry" | "started">, id: Frame["id"]): void {
    if (source.started) return;
    source.started = true;
    if (!this.has("lifecycle")) return;
    const data = JSON.stringify({ event: "started", run_id: source.entry.run.run_id });
    this.ready.push({ id: this.has("run_modes") ? null : id, event: "lifecycle", data });
  }
}

/**
 * Loads the runs that are active now, and resolves with a reader of the thread's frames, which streams until the thread is
 * deleted or the service stops. Rejects if the runs cannot be loaded. The stream has no `end` and no `error` frame, because
 * clients take those for the end of the stream.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export async function subscribeThread(
  options: ThreadStreamOptions,
  thread_id: string,
  query: ThreadStreamQuery,
): Promise<Reader<Frame>> {
  const { storage, bus, scope, environment, hub } = options;
  const runs = createThreadRuns(options, thread_id, query.after);
  const frames = new ThreadFrames(query, async () => {
    // Only after the last run is the thread's current state that of the run.
    const thread = runs.isLast() && (await storage.getThread(scope, thread_id));
    return thread ? await options.state(thread) : undefined;
  });
  let current: RunFrameSource | undefined;
  let isDeleted = false;
  let hasLeft = false;
  const change = new ChangeNotifier();
  /** Notes that the list of runs is old, and wakes the reader. */
  const refreshSoon = (): void => {
    runs.stale = true;
    change.notify();
  };
  const unsubscribe = bus.subscribe("thread", thread_id, refreshSoon);

  /** Opens the frames of a run. If the subscriber has left meanwhile, leaves them at once. */
  async function open(entry: ThreadRun, run: RunRow): Promise<RunFrameSource> {
    const { frames } = await options.read(run, entry.after);
    if (hasLeft) frames.leave();
    return { entry, frames, started: entry.after > 0 };
  }

  const nextRun = createNextRunSubscription(options, runs, open, refreshSoon);

  /**
   * Makes the run the current one and subscribes to its frames. A deleted run, and one that has ended without stored frames, only
   * gets its end.
   */
  async function openRun(entry: ThreadRun): Promise<void> {
    current = nextRun.takeSource(entry);
    if (current) return;
    const run = await storage.getRun(scope, entry.run.run_id);
    if (hasLeft) return;
    // It was deleted while it waited.
    if (!run) return await frames.finish({ entry, started: false, end: { status: "rollback", id: null } });
    if (!hasEnded(run) || run.resumable || hub.find(run.run_id)) {
      current = await open(entry, run);
      return;
    }
    // Its frames were not stored, so only its end can be emitted.
    const end = { status: run.status, id: run.end_frame };
    await frames.finish({ entry, started: entry.after > 0, end, ...(run.error ? { error: run.error } : {}) });
  }

  /**
   * Adds the next frames of the current run. At the end of its frames finishes the run, or leaves if they have no `end`, because
   * the service stops.
   */
  async function advance(source: RunFrameSource): Promise<void> {
    const batch = await (source.first ?? source.frames.next());
    delete source.first;
    if (hasLeft) return;
    for (const frame of batch) frames.addFrame(source, frame);
    if (batch.length > 0) return;
    current = undefined;
    runs.stale = true;
    // A stream that stops without an `end` means that the service stops.
    if (source.end) await frames.finish(source);
    else leave();
  }

  /** Waits for a change of the thread or for the next poll, and keeps the process alive meanwhile. */
  async function pause(): Promise<void> {
    const cancel = environment.timer(getMaxPollMs(storage.signals !== undefined), refreshSoon);
    const changed = change.wait(runs);
    keepAliveUntil(environment.keepAlive, changed);
    await changed;
    cancel();
  }

  /** Ends the stream: leaves the runs and wakes the reader. */
  function leave(): void {
    hasLeft = true;
    unsubscribe();
    change.notify();
    for (const source of [current, nextRun.source]) source?.frames.leave();
  }

  /** Does one thing: reads frames, opens the next run, refreshes the runs, or waits. Leaves if the thread was deleted. */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the loop of one reader: what it waits for depends on what it has read
  async function step(): Promise<void> {
    const entry = current ? undefined : runs.next();
    if (current) await advance(current);
    else if (entry) await openRun(entry);
    else if (runs.stale) {
      await runs.refresh();
      isDeleted = hub.isClosed || !(await storage.getThread(scope, thread_id));
    } else {
      await nextRun.subscribe();
      if (isDeleted) leave();
      else if (!runs.stale && !hasLeft) await pause();
    }
  }

  /**
   * Returns the ready frames, and waits until there are some. Returns an empty list after the end. Throws if a read fails, but
   * not while the service stops.
   */
  async function next(): Promise<readonly Frame[]> {
    try {
      while (!hasLeft) {
        if (frames.ready.length > 0) return frames.ready.splice(0);
        await step();
      }
    } catch (error) {
      // After the subscriber has left, or while the service stops, the closed storage fails. That is no error of this stream.
      const isExpected = hasLeft || hub.isClosed;
      leave();
      if (!isExpected) throw error;
    }
    return [];
  }

  await runs.begin().catch((error: unknown) => {
    unsubscribe();
    throw error;
  });
  return createReader(next, () => {
    if (!hasLeft) leave();
  });
}

/** The subscription to the run that starts next. */
interface NextRunSubscription {
  /** The subscription; undefined before the first call of `subscribe` that found a run. */
  readonly source: RunFrameSource | undefined;
  /**
   * Subscribes to the run that is due next and leaves that of another one. If that run has started or ended meanwhile, marks the
   * runs as stale instead. Does nothing without a waiting run. Rejects if a read fails.
   */
  subscribe(): Promise<void>;
  /** Removes and returns the subscription if it belongs to this run. Returns undefined otherwise, and keeps it. */
  takeSource(entry: ThreadRun): RunFrameSource | undefined;
}

/**
 * Creates the subscription to the run that starts next, because its first frame reports the start at once. It subscribes only
 * when `subscribe` is called. `refreshSoon` is called when the run has emitted a frame or its stream has failed.
 */
function createNextRunSubscription(
  { storage, scope, environment }: ThreadStreamOptions,
  runs: ThreadRuns,
  open: (entry: ThreadRun, run: RunRow) => Promise<RunFrameSource>,
  refreshSoon: () => void,
): NextRunSubscription {
  let current: RunFrameSource | undefined;
  return {
    get source() {
      return current;
    },
    async subscribe() {
      const entry = runs.firstWaiting(environment.now());
      if (!entry || entry === current?.entry) return;
      const run = await storage.getRun(scope, entry.run.run_id);
      if (run?.status !== "pending" || run.started_at !== null) {
        runs.stale = true;
        return;
      }
      current?.frames.leave();
      const source = await open(entry, run);
      current = source;
      source.first = source.frames.next();
      source.first.then(refreshSoon, refreshSoon);
    },
    takeSource(entry) {
      const source = current;
      if (source?.entry !== entry) return undefined;
      current = undefined;
      return source;
    },
  };
}

const formatPosition = (run_seq: number, frame: Frame["id"], at: number): string => `${run_seq}-${frame}-${at}`;

const createPosition = ({ run, order }: ThreadRun, frame: Frame["id"]): string =>
  formatPosition(run.seq, frame, order ?? 0);
