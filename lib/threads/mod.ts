/** Threads: conversations whose state persists, reading that state and changing it. */
import type { PageOf } from "../assistants/mod.ts";
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { Executor, ThreadState, WireCheckpoint } from "../executor/contract.ts";
import type { JsonObject } from "../json.ts";
import type { PruneStrategy, Scope, Storage, ThreadRow, ThreadSize, ThreadTtl } from "../storage/mod.ts";
import { permits, refuseForOthers, requireKept, type Visibility, withVisibility } from "../storage/visibility.ts";
import type { FrameReader, StreamHub } from "../streams/hub.ts";
import { type ThreadStreamOptions, type ThreadStreamQuery, threadStream } from "../streams/thread-subscription.ts";
import { createChanges, type MayCopy, type StateChange, type Superstep } from "./change.ts";
import { type CheckpointSelector, createStates, type HistoryQuery, notFound, type States } from "./read.ts";
import { createSearches, type ThreadFilter, type ThreadSearch } from "./search.ts";
import { type Extra, storedTtl, type Thread, type TimeToLive, withState } from "./thread.ts";

export { type MayCopy, MOST_SUPERSTEPS, type StateChange, type Superstep } from "./change.ts";
export { MOST_PATHS } from "./extract.ts";
export type { CheckpointSelector, HistoryQuery } from "./read.ts";
export type { ThreadFilter, ThreadSearch } from "./search.ts";
export { type Extra, LONGEST_TTL, type ShownTtl, storedTtl, type Thread, type TimeToLive } from "./thread.ts";

export interface ThreadCreate {
  readonly thread_id?: string;
  readonly metadata?: JsonObject;
  readonly if_exists?: "raise" | "do_nothing";
  /** Its state, made of updates by the graph that `metadata.graph_id` names. */
  readonly supersteps?: readonly Superstep[];
  /** A number: minutes, after which it is deleted. Default: `checkpointer.ttl`. */
  readonly ttl?: number | TimeToLive;
}

/** What the checkpoints of a thread take, as they are stored: those of its subgraphs too, and of every version. */
export interface ThreadStorage extends ThreadSize {
  readonly thread_id: string;
  /** The sum of the sections. */
  readonly total_bytes: number;
}

export interface ThreadPatch {
  readonly metadata?: JsonObject;
  readonly ttl?: number | TimeToLive;
}

export interface Threads {
  /** Errors: conflict (id exists and `if_exists` is `raise`), invalid (`supersteps` fail: there is no thread then). */
  create(request?: ThreadCreate, visibility?: Visibility): Promise<Thread>;
  /** Errors: not_found. */
  get(thread_id: string, options?: { readonly include?: readonly Extra[] }, visibility?: Visibility): Promise<Thread>;
  /** Merges metadata shallowly. Errors: not_found. */
  update(thread_id: string, patch: ThreadPatch, visibility?: Visibility): Promise<Thread>;
  /** Runs and checkpoints go too; active runs are stopped. Errors: not_found. */
  delete(thread_id: string, visibility?: Visibility): Promise<void>;
  /** A thread of its own with the metadata and all checkpoints of this one but those of active runs. Errors: conflict (it is absent). */
  copy(thread_id: string, may?: MayCopy, visibility?: Visibility): Promise<Thread>;
  /** Threads that are absent or have an active run are left alone. Gives how many were pruned. Default: `delete`. */
  prune(thread_ids: readonly string[], strategy?: PruneStrategy, visibility?: Visibility): Promise<number>;
  /** Errors: invalid (a path of `extract`). */
  search(query?: ThreadSearch, visibility?: Visibility): Promise<PageOf<Partial<Thread>>>;
  count(query?: ThreadFilter, visibility?: Visibility): Promise<number>;
  /** While a run is active, its newest state. Errors: not_found. */
  state(thread_id: string, options?: { readonly subgraphs?: boolean }, visibility?: Visibility): Promise<ThreadState>;
  /** Errors: not_found (thread or checkpoint). */
  stateAt(
    thread_id: string,
    checkpoint: CheckpointSelector,
    options?: { readonly subgraphs?: boolean },
    visibility?: Visibility,
  ): Promise<ThreadState>;
  /**
   * Changes the state as a node of the graph would. Gives the checkpoint that it made. Errors: bad_request (no graph has run
   * there), not_found (thread, graph or checkpoint), conflict (a run is active), invalid (the graph refuses it).
   */
  updateState(thread_id: string, change: StateChange, visibility?: Visibility): Promise<WireCheckpoint>;
  /** Merges into the metadata of the newest checkpoint, shallowly. Errors: not_found, invalid (what the service sets). */
  patchState(thread_id: string, metadata: JsonObject, visibility?: Visibility): Promise<void>;
  /** Newest first. Errors: not_found. */
  history(thread_id: string, query?: HistoryQuery, visibility?: Visibility): Promise<readonly ThreadState[]>;
  /** Reads every row of the thread's checkpoints. Errors: not_found. */
  storage(thread_id: string, visibility?: Visibility): Promise<ThreadStorage>;
  /**
   * The frames of its runs, over many of them, until the reader leaves, the thread is deleted or the service stops. Errors:
   * not_found.
   */
  stream(thread_id: string, query?: ThreadStreamQuery, visibility?: Visibility): Promise<FrameReader>;
}

export interface ThreadOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly executor: Executor;
  readonly environment: Environment;
  readonly events: StreamHub;
  /** What new threads get where nothing else is said. */
  readonly ttl?: ThreadTtl;
  /** Frames of a run after an id, whoever executes it. */
  readonly read: ThreadStreamOptions["read"];
  /** Resolves when what readers of a run have been shown is stored; false where it does not execute in this process. */
  caughtUp(run_id: string): Promise<boolean>;
  /** A thread is deleted with these active runs: whoever executes or reads them must learn it. */
  onDeleted(run_ids: readonly string[]): void;
}

/** What the other nouns use of threads. */
export interface ThreadDirectory extends Threads, Pick<States, "visible" | "current"> {
  /** Prunes threads whose time is over. Gives how many there were: call again while it is not 0. */
  expire(limit: number): Promise<number>;
}

export function createThreads(options: ThreadOptions): ThreadDirectory {
  const { storage, scope, environment, events } = options;
  const states = createStates(options);
  const changes = createChanges({ storage, scope, environment, states });
  const { visible, shown, current } = states;

  async function toThread(row: ThreadRow, include?: readonly Extra[]): Promise<Thread> {
    return withState(row, await current(row), include);
  }

  const ttlOf = (ttl: number | TimeToLive | undefined): ThreadTtl | undefined =>
    ttl === undefined ? undefined : storedTtl(typeof ttl === "number" ? { ttl } : ttl);

  /** Readers of these threads look whether they are still there. */
  function pruned(thread_ids: readonly string[]): void {
    for (const thread_id of thread_ids) events.announce(thread_id);
  }

  return {
    visible,
    current,
    ...createSearches(storage, scope, states),
    async create(request = {}, visibility) {
      const { metadata = {}, if_exists = "raise", supersteps = [] } = request;
      refuseForOthers(visibility, metadata);
      const thread_id = (request.thread_id ?? environment.uuid()).toLowerCase();
      const ttl = ttlOf(request.ttl) ?? options.ttl;
      const state = supersteps.length > 0 ? await changes.opening(thread_id, metadata, supersteps) : undefined;
      const outcome = await storage.createThread(
        scope,
        { thread_id, metadata, config: {}, hidden: false, ...(ttl ? { ttl } : {}), ...(state ? { state } : {}) },
        environment.now(),
      );
      if (outcome.kind === "created") return await toThread(outcome.thread);
      // One that is hidden from the caller is somebody else's, whatever they ask for.
      const { hidden, metadata: its } = outcome.thread;
      if (if_exists === "raise" || hidden || !permits(visibility?.filter, its)) {
        throw new ServiceError("conflict", `Thread ${thread_id} already exists`);
      }
      return await toThread(outcome.thread);
    },
    get: async (thread_id, { include } = {}, visibility) => toThread(await shown(thread_id, visibility), include),
    async update(thread_id, patch, visibility) {
      const ttl = ttlOf(patch.ttl);
      await visible(thread_id, visibility);
      const next = (thread: ThreadRow): { metadata: JsonObject; ttl?: ThreadTtl } => {
        const metadata = { ...thread.metadata, ...patch.metadata };
        requireKept(visibility, metadata);
        return { metadata, ...(ttl ? { ttl } : {}) };
      };
      const row = await storage.updateThread(
        withVisibility(scope, visibility),
        thread_id.toLowerCase(),
        next,
        environment.now(),
      );
      if (!row) throw notFound(thread_id);
      return await toThread(row);
    },
    async delete(thread_id, visibility) {
      const row = await visible(thread_id, visibility);
      const active = (
        await Promise.all(
          (["pending", "running"] as const).map((status) =>
            storage.listRuns(scope, row.thread_id, { status, limit: 1000, offset: 0 }),
          ),
        )
      ).flat();
      if (!(await storage.deleteThread(withVisibility(scope, visibility), row.thread_id))) throw notFound(thread_id);
      options.onDeleted(active.map((run) => run.run_id));
      events.announce(row.thread_id);
    },
    async copy(thread_id, may, visibility) {
      return await toThread(await changes.copy(thread_id, may, visibility));
    },
    async prune(thread_ids, strategy, visibility) {
      const gone = await changes.prune(thread_ids, strategy, visibility);
      pruned(gone);
      return gone.length;
    },
    async expire(limit) {
      const gone = await storage.expireThreads(scope, environment.now(), limit);
      pruned(gone);
      return gone.length;
    },
    state: async (thread_id, { subgraphs } = {}, visibility) =>
      await states.at(await visible(thread_id, visibility), {}, subgraphs),
    stateAt: async (thread_id, checkpoint, { subgraphs } = {}, visibility) =>
      await states.at(await visible(thread_id, visibility), checkpoint, subgraphs),
    updateState: changes.updateState,
    patchState: changes.patchState,
    history: async (thread_id, query, visibility) => await states.history(await visible(thread_id, visibility), query),
    async storage(thread_id, visibility) {
      const { thread_id: id } = await visible(thread_id, visibility);
      const size = await storage.measureThread(scope, id);
      const { checkpoints, channel_values, pending_writes } = size;
      return { thread_id: id, total_bytes: checkpoints.bytes + channel_values.bytes + pending_writes.bytes, ...size };
    },
    async stream(thread_id, query = {}, visibility) {
      const row = await visible(thread_id, visibility);
      // What a run that goes on has done so far is not what the last one left.
      const state = (thread: ThreadRow): Promise<ThreadState | null> => current({ ...thread, running: null });
      return await threadStream({ ...options, hub: events, state }, row.thread_id, query);
    },
  };
}
