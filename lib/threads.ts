/** Threads: conversations whose state persists, and reading that state. */
import type { Ambient } from "./ambient.ts";
import type { PageOf } from "./assistants.ts";
import { recordedState, storedCheckpoints } from "./checkpoints.ts";
import { ServiceError } from "./errors.ts";
import type { Events, FrameReader } from "./events.ts";
import type { CheckpointReader, Executor, StateRef, ThreadState } from "./executor.ts";
import { permits, type Reach, within } from "./filter.ts";
import { contains, type Json, type JsonObject } from "./json.ts";
import type { Scope, Storage, ThreadRow, ThreadSort, ThreadStatus } from "./storage.ts";
import { type ThreadStreamOptions, type ThreadStreamQuery, threadStream } from "./thread-stream.ts";

/** A thread as the API shows it; times are ISO 8601, UTC. */
export interface Thread {
  readonly thread_id: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly state_updated_at: string;
  readonly metadata: JsonObject;
  readonly status: ThreadStatus;
  readonly config: JsonObject;
  /** Null before the first run. */
  readonly values: Json;
  /** Task id → pending interrupts. */
  readonly interrupts: JsonObject;
  /** `{error, message}` while status is `error`. */
  readonly error: Json;
}

export interface ThreadCreate {
  readonly thread_id?: string;
  readonly metadata?: JsonObject;
  readonly if_exists?: "raise" | "do_nothing";
}

export interface ThreadFilter {
  readonly metadata?: JsonObject;
  /** Containment on the state's values. */
  readonly values?: JsonObject;
  readonly status?: ThreadStatus;
}

export interface ThreadSearch extends ThreadFilter {
  readonly ids?: readonly string[];
  readonly limit?: number;
  readonly offset?: number;
  readonly sort_by?: ThreadSort;
  readonly sort_order?: "asc" | "desc";
  /** Only these fields of each thread; without `values` and `interrupts` no state is read. */
  readonly select?: readonly string[];
}

/** Which checkpoint of a thread. */
export interface CheckpointSelector {
  readonly checkpoint_id?: string;
  readonly checkpoint_ns?: string;
}

export interface HistoryQuery {
  /** Default 10. */
  readonly limit?: number;
  readonly before?: string;
  readonly metadata?: JsonObject;
  readonly checkpoint?: CheckpointSelector;
}

export interface Threads {
  /** Errors: conflict (id exists and `if_exists` is `raise`). */
  create(request?: ThreadCreate, reach?: Reach): Promise<Thread>;
  /** Errors: not_found. */
  get(thread_id: string, reach?: Reach): Promise<Thread>;
  /** Merges metadata shallowly. Errors: not_found. */
  update(thread_id: string, patch: { readonly metadata?: JsonObject }, reach?: Reach): Promise<Thread>;
  /** Runs and checkpoints go too; active runs are stopped. Errors: not_found. */
  delete(thread_id: string, reach?: Reach): Promise<void>;
  search(query?: ThreadSearch, reach?: Reach): Promise<PageOf<Partial<Thread>>>;
  count(query?: ThreadFilter, reach?: Reach): Promise<number>;
  /** While a run is active, its newest state. Errors: not_found. */
  state(thread_id: string, options?: { readonly subgraphs?: boolean }, reach?: Reach): Promise<ThreadState>;
  /** Errors: not_found (thread or checkpoint). */
  stateAt(
    thread_id: string,
    checkpoint: CheckpointSelector,
    options?: { readonly subgraphs?: boolean },
    reach?: Reach,
  ): Promise<ThreadState>;
  /** Newest first. Errors: not_found. */
  history(thread_id: string, query?: HistoryQuery, reach?: Reach): Promise<readonly ThreadState[]>;
  /**
   * The frames of its runs, over many of them, until the reader leaves, the thread is deleted or the service stops. Errors:
   * not_found.
   */
  stream(thread_id: string, query?: ThreadStreamQuery, reach?: Reach): Promise<FrameReader>;
}

export interface ThreadOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly executor: Executor;
  readonly ambient: Ambient;
  readonly events: Events;
  /** Frames of a run after an id, whoever executes it. */
  readonly read: ThreadStreamOptions["read"];
  /** A thread is deleted with these active runs: whoever executes or reads them must learn it. */
  onDeleted(run_ids: readonly string[]): void;
}

/** What the other nouns use of threads. */
export interface ThreadDirectory extends Threads {
  /** The row, if callers may see it; errors: not_found. */
  visible(thread_id: string, reach?: Reach): Promise<ThreadRow>;
  /**
   * The state at the head, or while a run is active at its newest checkpoint; null before the first run. Errors:
   * StateUnreadable.
   */
  current(row: ThreadRow): Promise<ThreadState | null>;
}

/** A graph could not read a state that is stored. What the store says when it fails comes as it is. */
export class StateUnreadable extends Error {
  override readonly name = "StateUnreadable";
}

/** How many rows a filter on values reads at a time. */
const BATCH = 200;

export function createThreads(options: ThreadOptions): ThreadDirectory {
  const { storage, scope, executor, ambient } = options;
  const hosted = new Set(executor.graphs().map((graph) => graph.graph_id));

  async function visible(thread_id: string, reach?: Reach): Promise<ThreadRow> {
    const row = await storage.getThread(within(scope, reach), thread_id.toLowerCase());
    if (!row || (row.hidden && row.status !== "busy")) {
      throw new ServiceError("not_found", `Thread ${thread_id} not found`);
    }
    return row;
  }

  async function headOf(row: ThreadRow): Promise<string | null> {
    if (row.running === null) return row.head;
    const newest = await storage.getCheckpoint(scope, row.thread_id, { ns: "", run_id: row.running });
    return newest?.checkpoint_id ?? row.head;
  }

  /** What a running run has stored goes when it is rolled back, also while it is read: then the thread is read again. */
  async function whole<Answer>(row: ThreadRow, read: (row: ThreadRow) => Promise<Answer>): Promise<Answer> {
    const answer = read(row);
    await answer.catch(() => {});
    if (row.running === null || (await storage.getRun(scope, row.running))) return await answer;
    const now = await storage.getThread(scope, row.thread_id);
    return now ? await whole(now, read) : await answer;
  }

  /** A thread may have been run by several graphs: each checkpoint is read by the one that wrote it. */
  async function stateFrom(at: StateRef, reader: CheckpointReader, subgraphs = false): Promise<ThreadState | null> {
    const stored = await reader.get(at);
    if (!stored) return null;
    const { graph_id } = stored.metadata;
    const own = typeof graph_id === "string" && hosted.has(graph_id) ? executor.state?.(graph_id) : null;
    const graph = own ?? recordedState;
    // A graph may fail on what its last step has left to be applied. Asked for by its id, a state is read without that.
    const places = at.checkpoint_id === undefined ? [at, { ...at, checkpoint_id: stored.checkpoint_id }] : [at];
    let failure: unknown;
    for (const place of places) {
      const { noted, failed } = noting(reader);
      try {
        return await graph.get(place, noted, { subgraphs });
      } catch (error) {
        if (failed()) throw error;
        failure = error;
      }
    }
    throw new StateUnreadable("The state could not be read", { cause: failure });
  }

  const current = (row: ThreadRow): Promise<ThreadState | null> =>
    whole(row, async (row) => {
      const reader = storedCheckpoints(storage, scope, row.thread_id, await headOf(row));
      return await stateFrom({ thread_id: row.thread_id, ns: "" }, reader);
    });

  /** For searches: one thread that its graph cannot read does not hide the others. */
  async function readable(row: ThreadRow): Promise<ThreadState | null> {
    try {
      return await current(row);
    } catch (error) {
      if (!(error instanceof StateUnreadable)) throw error;
      ambient.log({ level: "error", message: "a thread's state could not be read", thread_id: row.thread_id, error });
      return null;
    }
  }

  async function toThread(row: ThreadRow): Promise<Thread> {
    return { ...withoutState(row), values: (await current(row))?.values ?? null };
  }

  async function stateAt(
    thread_id: string,
    { checkpoint_id, checkpoint_ns = "" }: CheckpointSelector,
    { subgraphs = false }: { subgraphs?: boolean } = {},
    reach?: Reach,
  ): Promise<ThreadState> {
    const named = checkpoint_id === undefined ? {} : { checkpoint_id };
    const state = await whole(await visible(thread_id, reach), async (row) => {
      const reader = storedCheckpoints(storage, scope, row.thread_id, await headOf(row));
      return await stateFrom({ thread_id: row.thread_id, ns: checkpoint_ns, ...named }, reader, subgraphs);
    });
    if (state) return state;
    if (checkpoint_id === undefined) return EMPTY_STATE;
    throw new ServiceError("not_found", `Thread ${thread_id} has no checkpoint ${checkpoint_id}`);
  }

  /** All rows that match `values` too, in order; values are read only after every other filter. */
  async function matching(
    query: ThreadSearch,
    reach?: Reach,
  ): Promise<{ row: ThreadRow; state: ThreadState | null }[]> {
    const {
      values = {},
      sort_by = "created_at",
      sort_order = "desc",
      select: _,
      limit: _limit,
      offset: _offset,
      ...filter
    } = query;
    const found: { row: ThreadRow; state: ThreadState | null }[] = [];
    for (let offset = 0; ; offset += BATCH) {
      const page = { values, sort_by, sort_order, limit: BATCH, offset };
      const { rows } = await storage.searchThreads(within(scope, reach), { ...filter, ...page });
      for (const row of rows) {
        const state = await readable(row);
        if (contains(state?.values ?? null, values)) found.push({ row, state });
      }
      if (rows.length < BATCH) return found;
    }
  }

  const filtersValues = (query: ThreadFilter): boolean =>
    query.values !== undefined && Object.keys(query.values).length > 0;

  return {
    visible,
    current,
    async create(request = {}, reach) {
      const { thread_id = ambient.uuid(), metadata = {}, if_exists = "raise" } = request;
      const thread = { thread_id: thread_id.toLowerCase(), metadata, config: {}, hidden: false };
      const outcome = await storage.createThread(scope, thread, ambient.now());
      if (outcome.kind === "created") return { ...withoutState(outcome.thread), values: null };
      // One that is hidden from the caller is somebody else's, whatever they ask for.
      const { hidden, metadata: its } = outcome.thread;
      if (if_exists === "raise" || hidden || !permits(reach?.filter, its)) {
        throw new ServiceError("conflict", `Thread ${thread_id} already exists`);
      }
      return await toThread(outcome.thread);
    },
    get: async (thread_id, reach) => toThread(await visible(thread_id, reach)),
    async update(thread_id, patch, reach) {
      await visible(thread_id, reach);
      const next = (thread: ThreadRow): { metadata: JsonObject } => ({
        metadata: { ...thread.metadata, ...patch.metadata },
      });
      const row = await storage.updateThread(within(scope, reach), thread_id.toLowerCase(), next, ambient.now());
      if (!row) throw new ServiceError("not_found", `Thread ${thread_id} not found`);
      return await toThread(row);
    },
    async delete(thread_id, reach) {
      const row = await visible(thread_id, reach);
      const active = (
        await Promise.all(
          (["pending", "running"] as const).map((status) =>
            storage.listRuns(scope, row.thread_id, { status, limit: 1000, offset: 0 }),
          ),
        )
      ).flat();
      if (!(await storage.deleteThread(within(scope, reach), row.thread_id))) {
        throw new ServiceError("not_found", `Thread ${thread_id} not found`);
      }
      options.onDeleted(active.map((run) => run.run_id));
      options.events.announce(row.thread_id);
    },
    async search(query = {}, reach) {
      const { limit = 10, offset = 0, sort_by = "created_at", sort_order = "desc", select, values, ...filter } = query;
      const wanted = (name: string): boolean => !select || select.includes(name);
      const pick = async (row: ThreadRow, state?: ThreadState | null): Promise<Partial<Thread>> => {
        const known = state === undefined && wanted("values") ? await readable(row) : state;
        const thread: Thread = { ...withoutState(row), values: known?.values ?? null };
        return select ? Object.fromEntries(Object.entries(thread).filter(([name]) => wanted(name))) : thread;
      };
      if (filtersValues(query)) {
        const found = await matching(query, reach);
        const page = found.slice(offset, offset + limit);
        const items = await Promise.all(page.map(({ row, state }) => pick(row, state)));
        return { items, total: found.length, next: offset + limit < found.length ? offset + limit : null };
      }
      const page = { limit, offset, sort_by, sort_order };
      const { rows, total } = await storage.searchThreads(within(scope, reach), { ...filter, ...page });
      const items = await Promise.all(rows.map((row) => pick(row)));
      return { items, total, next: offset + limit < total ? offset + limit : null };
    },
    async count(query = {}, reach) {
      if (filtersValues(query)) return (await matching(query, reach)).length;
      const { values: _, ...filter } = query;
      return await storage.countThreads(within(scope, reach), filter);
    },
    state: (thread_id, options, reach) => stateAt(thread_id, {}, options, reach),
    stateAt,
    async history(thread_id, { limit = 10, before, metadata, checkpoint = {} } = {}, reach) {
      return await whole(await visible(thread_id, reach), async (row) => {
        const reader = storedCheckpoints(storage, scope, row.thread_id, null);
        const states: ThreadState[] = [];
        for await (const { ns, checkpoint_id } of reader.list({
          ns: checkpoint.checkpoint_ns ?? "",
          limit,
          before,
          metadata,
        })) {
          const state = await stateFrom({ thread_id: row.thread_id, ns, checkpoint_id }, reader);
          if (state) states.push(state);
        }
        return states;
      });
    },
    async stream(thread_id, query = {}, reach) {
      const row = await visible(thread_id, reach);
      // What a run that goes on has done so far is not what the last one left.
      const state = (thread: ThreadRow): Promise<ThreadState | null> => current({ ...thread, running: null });
      return await threadStream({ ...options, state }, row.thread_id, query);
    },
  };
}

/** The reader, and whether one of its calls has failed since. */
function noting(reader: CheckpointReader): { readonly noted: CheckpointReader; readonly failed: () => boolean } {
  let failed = false;
  const note = (error: unknown): never => {
    failed = true;
    throw error;
  };
  return {
    failed: () => failed,
    noted: {
      get: (at) => reader.get(at).catch(note),
      async *list(at) {
        try {
          yield* reader.list(at);
        } catch (error) {
          note(error);
        }
      },
    },
  };
}

const EMPTY_STATE: ThreadState = {
  values: {},
  next: [],
  tasks: [],
  metadata: null,
  created_at: null,
  checkpoint: null,
  parent_checkpoint: null,
  interrupts: [],
};

function withoutState(row: ThreadRow): Omit<Thread, "values"> {
  return {
    thread_id: row.thread_id,
    created_at: new Date(row.created_at).toISOString(),
    updated_at: new Date(row.updated_at).toISOString(),
    state_updated_at: new Date(row.state_updated_at).toISOString(),
    metadata: row.metadata,
    status: row.status,
    config: row.config,
    interrupts: row.interrupts,
    error: row.error,
  };
}
