/** The runs of a thread in the order in which a thread subscription shows them. */
import type { RunRow, Scope, Storage } from "../storage/mod.ts";
import type { StreamHub } from "./hub.ts";

/** A position in the stream of a thread. Frames carry it as `<seq>-<frame>-<at>`. */
export interface ThreadPosition {
  /** The `seq` of a run. */
  readonly seq: number;
  /** The id of one of its frames. */
  readonly frame: number;
  /** The time of the run's turn, in milliseconds since 1970: it orders runs even after this one was deleted. */
  readonly at: number;
}

export interface ThreadRun {
  /** The row as read last, without its large members. */
  run: RunRow;
  /** Show frames after this id. */
  readonly after: number;
  /** The time of its turn; null while that is not known. */
  turn: number | null;
  /** Its turn has come, or the subscriber has seen it to its end. */
  shown: boolean;
}

/**
 * Runs in the order in which they started. A run that ended without starting comes when it ended, but after the runs before it
 * in the queue. The order follows from the rows alone, so that a position means the same in every process.
 */
export interface ThreadRuns {
  /** There may be new runs, or some of the known ones may have started or ended. */
  stale: boolean;
  /** Loads the runs that are active now. Call it once, first. */
  begin(): Promise<void>;
  /** Finds every run whose turn has come. */
  refresh(): Promise<void>;
  /** Takes the run whose turn is next. */
  next(): ThreadRun | undefined;
  /** No known run waits for its turn to be shown. */
  isLast(): boolean;
  /** The first run that is due but has not started. */
  firstWaiting(now: number): ThreadRun | undefined;
}

const PAGE = 100;

export function createThreadRuns(
  storage: Storage,
  scope: Scope,
  hub: StreamHub,
  thread_id: string,
  after: ThreadPosition | undefined,
): ThreadRuns {
  // Runs that are not shown yet, and some shown ones that may decide the turn of others. In the order of their `seq`.
  let entries: ThreadRun[] = [];
  let ready: ThreadRun[] = [];
  let position = after;
  // The highest `seq` read so far.
  let top = 0;

  const listPending = (): Promise<readonly RunRow[]> =>
    storage.listRuns(scope, thread_id, { status: "pending", limit: 1_000, offset: 0 });

  /** The last frame of a run that subscribers have been shown, here or by another process. */
  async function newestFrame(run: RunRow): Promise<number> {
    const runEvents = hub.find(run.run_id);
    if (runEvents || !run.framed) return runEvents?.lastId ?? 0;
    let last = 0;
    while (true) {
      const frame = (await storage.readFrames(scope, run.run_id, last)).at(-1);
      if (!frame) return last;
      last = frame.id;
    }
  }

  /** Reads the waiting runs again. True if there were any. */
  async function refreshWaiting(): Promise<boolean> {
    const waiting = entries.filter((entry) => startOf(entry) === null);
    const pending = new Map((waiting.length > 0 ? await listPending() : []).map((run) => [run.seq, run]));
    for (const entry of waiting) {
      const { run } = entry;
      const row = pending.get(run.seq) ?? (await storage.getRun(scope, run.run_id));
      entry.run = row ? withoutPayload(row) : { ...run, ended_at: 0 };
    }
    return waiting.length > 0;
  }

  /** The start of the run; for one that never started, not before the turns of the runs before it in the queue. */
  function turnOf(entry: ThreadRun): number | null {
    const { seq, started_at, created_at } = entry.run;
    let turn = startOf(entry);
    if (turn === null || started_at !== null) return turn;
    for (const earlier of entries) {
      if (earlier.run.seq >= seq) break;
      if (earlier.run.created_at > created_at) continue;
      if (earlier.turn === null) return null;
      turn = Math.max(turn, earlier.turn);
    }
    return turn;
  }

  /** Marks the runs that the subscriber has seen to their end. */
  function skipSeen({ seq, frame, at }: ThreadPosition): void {
    for (const entry of entries) {
      const { run, turn } = entry;
      if (turn === null || run.end_frame === null) continue;
      entry.shown = run.seq === seq ? frame >= run.end_frame : (turn - at || run.seq - seq) < 0;
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
      top = Math.max(0, after ? after.seq - PAGE : (newest[0]?.seq ?? 0));
      // A run that starts between the two reads is in both lists.
      for (const run of new Map([...pending, ...running].map((run) => [run.seq, run])).values()) {
        if (run.seq <= top) entries.push(entryOf(run, after ? 0 : await newestFrame(run)));
      }
    },
    async refresh() {
      let rows: readonly RunRow[];
      let waited: boolean;
      do {
        this.stale = false;
        waited = await refreshWaiting();
        rows = await storage.listRunsAfter(scope, thread_id, top, PAGE);
        for (const run of rows) {
          top = run.seq;
          entries.push(entryOf(run, run.seq === after?.seq ? after.frame : 0));
        }
        // A new run may have started after one that was still pending when it was read.
      } while (rows.length === PAGE || (waited && rows.length > 0));
      entries.sort((a, b) => a.run.seq - b.run.seq);
      for (const entry of entries) entry.turn ??= turnOf(entry);
      if (position) skipSeen(position);
      position = undefined;
      ready = entries.filter(({ turn, shown }) => turn !== null && !shown).sort(inTurn);
      for (const entry of ready) entry.shown = true;
      entries = entries.filter(({ shown }, i) => !shown || i >= entries.length - PAGE);
    },
    next: () => ready.shift(),
    isLast: () => ready.length === 0,
    firstWaiting: (now) => entries.find((entry) => startOf(entry) === null && entry.run.created_at <= now),
  };
}

const withoutPayload = (run: RunRow): RunRow => ({ ...run, kwargs: {}, metadata: {}, result: null });

const entryOf = (run: RunRow, after: number): ThreadRun => ({
  run: withoutPayload(run),
  after,
  turn: null,
  shown: false,
});

/** When it started, or ended without starting. Once set it never changes. */
const startOf = ({ run }: ThreadRun): number | null => run.started_at ?? run.ended_at;

export const inTurn = (a: ThreadRun, b: ThreadRun): number => (a.turn ?? 0) - (b.turn ?? 0) || a.run.seq - b.run.seq;
