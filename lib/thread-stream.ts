/** The stream of a thread: the frames of its runs, one run after another, for as long as somebody reads. */
import type { Ambient } from "./ambient.ts";
import type { Events, Frame, FrameReader } from "./events.ts";
import type { ThreadState } from "./executor.ts";
import type { Json } from "./json.ts";
import type { RunRow, Scope, Storage, ThreadRow } from "./storage.ts";

/** `run_modes`: the runs' frames, and `run_done` after each. `lifecycle`: its start and end. `state_update`: the state it left. */
export type ThreadStreamMode = "run_modes" | "lifecycle" | "state_update";

/** A place in the stream: a run's `seq`, and the id of one of its frames. Frames carry it as `<seq>-<frame>`. */
export interface ThreadPosition {
  readonly seq: number;
  readonly frame: number;
}

export interface ThreadStreamQuery {
  /** Default `run_modes`. */
  readonly modes?: readonly ThreadStreamMode[];
  /** What the reader has seen; `{seq: 0, frame: 0}` is before the first run. Without it the stream shows what comes from now on. */
  readonly after?: ThreadPosition;
}

export interface ThreadStreamOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly ambient: Ambient;
  readonly events: Events;
  /** Frames of a run after an id, whoever executes it. */
  read(run: RunRow, after: number): Promise<{ readonly frames: FrameReader }>;
  /** The state that the last finished run left. */
  state(thread: ThreadRow): Promise<ThreadState | null>;
}

/** A run to be shown. */
interface Entry {
  readonly seq: number;
  readonly run_id: string;
  /** The frame to read after. */
  readonly from: number;
  /** When it started; of one that has not, when it is due. */
  readonly time: number;
}

/** A run that is shown. */
interface Source {
  readonly seq: number;
  readonly run_id: string;
  readonly frames: FrameReader;
  readonly iterator: AsyncIterator<Frame, undefined>;
  /** What came while it was waited for, and its turn among those that got something. */
  arrived?: { readonly step: IteratorResult<Frame, undefined>; readonly turn: number };
  failure?: unknown;
  started: boolean;
  error?: Json;
  end?: { readonly status: string; readonly id: Frame["id"] };
}

const POLL_MS = 1_000;
const PAGE = 100;
/** How many runs that are due are listened to: one of them is the next. */
const LISTENED = 16;
const LIFE: Readonly<Record<string, string>> = {
  success: "completed",
  error: "failed",
  timeout: "failed",
  interrupted: "interrupted",
  rollback: "rolled_back",
};

/** Ends when the thread is deleted, and when the service stops. It has no `end` and no `error`: readers take those for its own. */
export async function threadStream(
  { storage, scope, ambient, events, ...options }: ThreadStreamOptions,
  thread_id: string,
  { modes = [], after }: ThreadStreamQuery,
): Promise<FrameReader> {
  const shown = new Set<ThreadStreamMode>(modes.length > 0 ? modes : ["run_modes"]);
  const ready: Frame[] = [];
  /** Runs that are over, in the order they started. */
  const past: Entry[] = [];
  const active: Entry[] = [];
  const listened: Source[] = [];
  let current: Source | undefined;
  // The last run that is not to be looked for.
  let top = 0;
  let turns = 0;
  // There may be runs that are not known yet.
  let fresh = true;
  let gone = false;
  let left = false;
  let wake = (): void => {};
  const unsubscribe = events.onRun(thread_id, () => {
    fresh = true;
    wake();
  });

  // The run that the reader was at. Runs start in another order than they are made when some are to start later.
  let last: Entry | undefined;

  function note(run: RunRow, from: number): void {
    const { seq, run_id } = run;
    if (!isOver(run)) active.push({ seq, run_id, from, time: run.created_at });
    else if (!last || inTime(entryOf(run), last) >= 0) past.push({ ...entryOf(run), from });
  }

  async function begin(): Promise<void> {
    const seq = after?.seq ?? Number.POSITIVE_INFINITY;
    const [running, pending, seen] = await Promise.all([
      storage.listRuns(scope, thread_id, { status: "running", limit: 1, offset: 0 }),
      storage.listRuns(scope, thread_id, { status: "pending", limit: 1_000, offset: 0 }),
      after
        ? storage.listRunsAfter(scope, thread_id, Math.max(0, seq - PAGE), PAGE)
        : storage.listRuns(scope, thread_id, { limit: 1, offset: 0 }),
    ]);
    const going = [...running, ...pending].filter((run) => run.seq < seq);
    for (const run of going) note(run, after ? 0 : (events.find(run.run_id)?.lastId ?? 0));
    if (!after) {
      top = Math.max(0, ...[...going, ...seen].map((run) => run.seq));
      return;
    }
    top = seq;
    const at = seen.find((run) => run.seq === seq);
    if (!at) return;
    last = entryOf(at);
    for (const run of seen) {
      if (run.seq < seq && isOver(run) && !going.some(({ run_id }) => run_id === run.run_id)) note(run, 0);
    }
    if (!isOver(at) || after.frame < (at.end_frame ?? 0)) note(at, after.frame);
  }

  async function look(): Promise<void> {
    fresh = false;
    const rows = await storage.listRunsAfter(scope, thread_id, top, PAGE);
    for (const run of rows) {
      top = run.seq;
      note(run, 0);
    }
    fresh ||= rows.length === PAGE;
    past.sort(inTime);
    active.sort(inTime);
    gone = events.closed || !(await storage.getThread(scope, thread_id));
  }

  async function listen(): Promise<void> {
    while (listened.length < LISTENED && (active[0]?.time ?? Number.POSITIVE_INFINITY) <= ambient.now()) {
      const source = await open(active.shift() as Entry);
      if (!source) continue;
      listened.push(source);
      source.iterator.next().then(
        (step) => {
          source.arrived = { step, turn: ++turns };
          wake();
        },
        (error: unknown) => {
          source.failure = error;
          wake();
        },
      );
    }
  }

  async function open({ seq, run_id, from }: Entry): Promise<Source | undefined> {
    const run = await storage.getRun(scope, run_id);
    if (!run || left) return undefined;
    if (isOver(run) && !run.framed && !events.find(run_id)) {
      // Nothing of it is left but how it ended.
      const started = from !== 0 || run.started_at === null;
      const end = { status: run.status, id: run.end_frame };
      const over = { seq, run_id, started, end, ...(run.error ? { error: run.error } : {}) };
      start(over, null);
      await finish(over);
      return undefined;
    }
    const { frames } = await options.read(run, from);
    const iterator = frames[Symbol.asyncIterator]() as AsyncIterator<Frame, undefined>;
    if (left) await iterator.return?.();
    return { seq, run_id, frames, iterator, started: from > 0 };
  }

  function start(source: Pick<Source, "seq" | "run_id" | "started">, id: Frame["id"]): void {
    if (source.started) return;
    source.started = true;
    if (!shown.has("lifecycle")) return;
    const data = JSON.stringify({ event: "started", run_id: source.run_id });
    ready.push({ id: shown.has("run_modes") ? null : id, event: "lifecycle", data });
  }

  function show(source: Source, frame: Frame): void {
    const { event, data } = frame;
    if (event === "error") {
      source.error = JSON.parse(data);
    } else if (event === "end") {
      source.end = { status: JSON.parse(data).status, id: frame.id };
    } else {
      const id = frame.id === null ? null : `${source.seq}-${frame.id}`;
      start(source, id);
      if (shown.has("run_modes")) ready.push({ id, event, data });
    }
  }

  /** Tells that a run has ended. The last frame about it has its last id. */
  async function finish(source: Pick<Source, "seq" | "run_id" | "end" | "error">): Promise<void> {
    const { seq, run_id, end } = source;
    const status = end?.status ?? "";
    const told: (readonly [event: string, data: unknown])[] = [];
    if (shown.has("lifecycle")) told.push(["lifecycle", { event: LIFE[status], run_id, status }]);
    // The states that earlier runs left are not the thread's any more.
    const thread = shown.has("state_update") && past.length === 0 && (await storage.getThread(scope, thread_id));
    if (thread) told.push(["state_update", await options.state(thread)]);
    if (shown.has("run_modes")) {
      told.push(["run_done", { run_id, status, ...(source.error === undefined ? {} : { error: source.error }) }]);
    }
    for (const [i, [event, data]] of told.entries()) {
      ready.push({ id: i === told.length - 1 ? `${seq}-${end?.id}` : null, event, data: JSON.stringify(data) });
    }
  }

  async function advance(source: Source): Promise<void> {
    if (source.failure !== undefined) throw source.failure;
    const { done, value } = source.arrived?.step ?? (await source.iterator.next());
    delete source.arrived;
    if (left) return;
    if (!done) return show(source, value);
    current = undefined;
    // Without an end the service stops.
    if (source.end) await finish(source);
    else leave();
  }

  /** The next of the runs that have shown something. */
  function arrived(): Source | undefined {
    const [first] = listened
      .filter((source) => source.arrived || source.failure !== undefined)
      .sort((a, b) => (a.arrived?.turn ?? 0) - (b.arrived?.turn ?? 0));
    if (first) listened.splice(listened.indexOf(first), 1);
    return first;
  }

  async function pause(): Promise<void> {
    await new Promise<void>((resolve) => {
      const cancel = ambient.timer(POLL_MS, () => {
        fresh = true;
        resolve();
      });
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
    for (const source of current ? [current, ...listened] : listened) void source.iterator.return?.();
  }

  async function next(): Promise<IteratorResult<Frame, undefined>> {
    try {
      while (!left) {
        const frame = ready.shift();
        if (frame) return { done: false, value: frame };
        if (current) {
          await advance(current);
          continue;
        }
        if (fresh && past.length === 0) await look();
        const entry = past.shift();
        if (entry) {
          current = await open(entry);
          continue;
        }
        await listen();
        current = arrived();
        if (current || fresh || left || ready.length > 0) continue;
        if (gone) leave();
        else await pause();
      }
    } catch (error) {
      leave();
      throw error;
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
      if (current && !current.arrived && !left) for (const frame of current.frames.take()) show(current, frame);
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

const entryOf = ({ seq, run_id, ...run }: RunRow): Entry => ({
  seq,
  run_id,
  from: 0,
  time: run.started_at ?? run.ended_at ?? run.created_at,
});

const inTime = (a: Entry, b: Entry): number => a.time - b.time || a.seq - b.seq;

const isOver = ({ status }: RunRow): boolean => status !== "pending" && status !== "running";
