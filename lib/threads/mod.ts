/** The threads of a deployment: conversations with a persistent state. */
import type { Worker } from "../engine/worker.ts";
import { lazyCalls } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { Executor, ThreadState } from "../executor/contract.ts";
import type { JsonObject } from "../json.ts";
import type { Bus } from "../storage/bus.ts";
import type { PruneStrategy, RunRow, RunStatus, ThreadRow, ThreadSize, ThreadTtl } from "../storage/mod.ts";
import { permits, refuseForOthers, requireKept, type Visibility, withVisibility } from "../storage/visibility.ts";
import type { Frame, Reader, StreamHub } from "../streams/hub.ts";
import { endDeleted } from "../streams/run-subscription.ts";
import type { Sights } from "../streams/sight.ts";
import { subscribeThread, type ThreadStreamOptions, type ThreadStreamQuery } from "../streams/thread-subscription.ts";
import { type AuthorizeCopy, createChanges, type StateChanges, type Superstep } from "./change.ts";
import { type CheckpointSelector, type HistoryQuery, notFound, type States } from "./read.ts";
import type { ThreadSummaries, ThreadSummaryOptions } from "./summaries.ts";
import {
  createSearches,
  type Extra,
  storedTtl,
  type Thread,
  type ThreadSearches,
  type TimeToLive,
  withState,
} from "./thread.ts";

export { type AuthorizeCopy, MOST_SUPERSTEPS, type StateChange, type Superstep } from "./change.ts";
export type { CheckpointSelector, HistoryQuery } from "./read.ts";
export type { ThreadListQuery } from "./summaries.ts";
export {
  type Extra,
  LONGEST_TTL,
  MOST_PATHS,
  type ShownTtl,
  storedTtl,
  type Thread,
  type ThreadFilter,
  type ThreadSearch,
  type TimeToLive,
} from "./thread.ts";

/** Values of a new thread. */
export interface ThreadCreate {
  readonly thread_id?: string;
  readonly metadata?: JsonObject;
  readonly if_exists?: "raise" | "do_nothing";
  /** Initial state: updates, applied by the graph that `metadata.graph_id` names. */
  readonly supersteps?: readonly Superstep[];
  /** Time to live. A number is minutes until deletion. Default: `checkpointer.ttl`. */
  readonly ttl?: number | TimeToLive;
}

/** The stored size of a thread's checkpoints in bytes, including subgraphs and all versions of channels. */
interface ThreadStorage extends ThreadSize {
  readonly thread_id: string;
  /** The sum of the sections. */
  readonly total_bytes: number;
}

export interface ThreadPatch {
  readonly metadata?: JsonObject;
  readonly ttl?: number | TimeToLive;
}

/** Creates, reads and changes threads and their states. */
export interface Threads extends ThreadSearches, ThreadSummaries, StateChanges {
  /** Errors: conflict (id exists and `if_exists` is `raise`), invalid (`supersteps` fail; no thread is created). */
  create(request?: ThreadCreate, visibility?: Visibility): Promise<Thread>;
  /** Errors: not_found. */
  get(thread_id: string, options?: { readonly include?: readonly Extra[] }, visibility?: Visibility): Promise<Thread>;
  /** Merges metadata shallowly. Errors: not_found. */
  update(thread_id: string, patch: ThreadPatch, visibility?: Visibility): Promise<Thread>;
  /** Deletes the thread with its runs and checkpoints; active runs are stopped. Errors: not_found. */
  delete(thread_id: string, visibility?: Visibility): Promise<void>;
  /** Copies metadata and all checkpoints, except those of active runs, to a new thread. Errors: conflict (unknown thread). */
  copy(thread_id: string, authorize?: AuthorizeCopy, visibility?: Visibility): Promise<Thread>;
  /** Skips unknown threads and threads with an active run. Returns the number of pruned threads. Default strategy: `delete`. */
  prune(thread_ids: readonly string[], strategy?: PruneStrategy, visibility?: Visibility): Promise<number>;
  /** The current state; while a run is active, the newest state of the run. Errors: not_found. */
  state(thread_id: string, options?: { readonly subgraphs?: boolean }, visibility?: Visibility): Promise<ThreadState>;
  /** Errors: not_found (thread or checkpoint). */
  stateAt(
    thread_id: string,
    checkpoint: CheckpointSelector,
    options?: { readonly subgraphs?: boolean },
    visibility?: Visibility,
  ): Promise<ThreadState>;
  /** Newest first. Errors: not_found. */
  history(thread_id: string, query?: HistoryQuery, visibility?: Visibility): Promise<readonly ThreadState[]>;
  /** Measures the stored checkpoints. Slow: reads all of their rows. Errors: not_found. */
  storage(thread_id: string, visibility?: Visibility): Promise<ThreadStorage>;
  /** Streams the frames of all runs until the reader closes, the thread is deleted or the service stops. Errors: not_found. */
  stream(thread_id: string, query?: ThreadStreamQuery, visibility?: Visibility): Promise<Reader<Frame>>;
}

interface ThreadOptions extends ThreadSummaryOptions {
  readonly executor: Executor;
  readonly bus: Bus;
  readonly sights: Sights;
  readonly hub: StreamHub;
  readonly worker: Pick<Worker, "cancel">;
  /** The default time to live of new threads. */
  readonly ttl?: ThreadTtl;
  /** Frames of a run after an id, also of a run that another process executes. */
  readonly read: ThreadStreamOptions["read"];
}

/** Threads, with the methods that other modules of the service use. */
export interface ThreadDirectory extends Threads, Pick<States, "visible" | "current"> {
  /** Prunes up to `limit` expired threads. Returns their number: call it again until it is 0. */
  expire(limit: number): Promise<number>;
}

export function createThreads(options: ThreadOptions): ThreadDirectory {
  const { storage, scope, environment, hub, worker, states } = options;
  const changes = createChanges({ storage, scope, environment, states });
  const { visible, shown, current } = states;

  async function toThread(row: ThreadRow, include?: readonly Extra[]): Promise<Thread> {
    return withState(row, await current(row), include);
  }

  const ttlOf = (ttl: number | TimeToLive | undefined): ThreadTtl | undefined =>
    ttl === undefined ? undefined : storedTtl(typeof ttl === "number" ? { ttl } : ttl);

  return {
    visible,
    current,
    ...createSearches(storage, scope, states),
    ...lazyCalls<ThreadSummaries>({ list: true, inbox: true }, async () =>
      (await import("./summaries.ts")).createThreadSummaries(options),
    ),
    async create(request = {}, visibility) {
      const { metadata = {}, if_exists = "raise", supersteps = [] } = request;
      refuseForOthers(visibility, metadata);
      const thread_id = (request.thread_id ?? environment.uuid()).toLowerCase();
      const ttl = ttlOf(request.ttl) ?? options.ttl;
      const state = supersteps.length > 0 ? await changes.opening(thread_id, metadata, supersteps) : undefined;
      const outcome = await storage.createThread(
        scope,
        { thread_id, metadata, config: {}, stateless: false, ...(ttl ? { ttl } : {}), ...(state ? { state } : {}) },
        environment.now(),
      );
      if (outcome.kind === "created") return await toThread(outcome.thread);
      // A thread that the caller cannot see is a conflict, also with if_exists `do_nothing`.
      const { stateless, metadata: stored } = outcome.thread;
      if (if_exists === "raise" || stateless || !permits(visibility?.filter, stored)) {
        throw new ServiceError("already_exists", `Thread ${thread_id} already exists`);
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
      const seen = withVisibility(scope, visibility);
      const row = await storage.updateThread(seen, thread_id.toLowerCase(), next, environment.now());
      if (!row) throw notFound(thread_id);
      return await toThread(row);
    },
    async delete(thread_id, visibility) {
      const row = await visible(thread_id, visibility);
      const runsOf = (status: RunStatus): Promise<readonly RunRow[]> =>
        storage.listRuns(scope, row.thread_id, { status, limit: 1000, offset: 0 });
      const active = (await Promise.all([runsOf("pending"), runsOf("running")])).flat();
      if (!(await storage.deleteThread(withVisibility(scope, visibility), row.thread_id))) throw notFound(thread_id);
      for (const { run_id } of active) {
        worker.cancel(run_id, "rolled_back");
        const runEvents = hub.find(run_id);
        if (runEvents) endDeleted(runEvents);
      }
    },
    async copy(thread_id, authorize, visibility) {
      return await toThread(await changes.copy(thread_id, authorize, visibility));
    },
    async prune(thread_ids, strategy, visibility) {
      return (await changes.prune(thread_ids, strategy, visibility)).length;
    },
    async expire(limit) {
      return (await storage.expireThreads(scope, environment.now(), limit)).length;
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
      // The stream starts from the state before the active run; its frames show the rest.
      const state = (thread: ThreadRow): Promise<ThreadState | null> => current({ ...thread, running: null });
      const frames = await subscribeThread({ ...options, state }, row.thread_id, query);
      return options.sights.reader(withVisibility(scope, visibility), row.thread_id, frames);
    },
  };
}
