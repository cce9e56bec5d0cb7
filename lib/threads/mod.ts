/** The threads of a deployment: conversations with a persistent state. */
import { toNameBasedId } from "../assistants/mod.ts";
import type { InternalResource } from "../auth/authorizer.ts";
import type { Worker } from "../engine/worker.ts";
import { createLazyModule, uuidV5, uuidV7 } from "../environment.ts";
import { notFoundError, ServiceError } from "../errors.ts";
import type { Executor, ThreadState } from "../executor/contract.ts";
import type { CombinedFeatures } from "../features/mod.ts";
import type { JsonObject } from "../json.ts";
import type { EventBus } from "../storage/event-bus.ts";
import { UUID } from "../storage/identity.ts";
import type { PruneStrategy, RunRow, RunStatus, Scope, ThreadRow, ThreadSize, ThreadTtl } from "../storage/mod.ts";
import { matchesFilter, requireOwnMetadata, requireStillVisible } from "../storage/visibility.ts";
import type { Frame } from "../streams/frames.ts";
import type { StreamHub } from "../streams/hub.ts";
import type { Reader } from "../streams/log.ts";
import { endDeletedRunLog } from "../streams/run-subscription.ts";
import { subscribeThread, type ThreadStreamOptions, type ThreadStreamQuery } from "../streams/thread-subscription.ts";
import type { AddStates, CheckpointSelector, HistoryQuery } from "./history.ts";
import { type AuthorizeCopy, createStateOperations, type StateChanges, type Superstep } from "./state-changes.ts";
import type { States } from "./states.ts";
import type { ThreadSummaries, ThreadSummaryOptions } from "./summaries.ts";
import {
  createThreadSearches,
  parseTtl,
  type Thread,
  type ThreadExtra,
  type ThreadSearches,
  type TimeToLive,
  toThread,
  toThreadWithState,
} from "./thread.ts";

export type { CheckpointSelector, HistoryQuery } from "./history.ts";
export {
  type AuthorizeCopy,
  MAX_SUPERSTEPS,
  type StateChange,
  type Superstep,
} from "./state-changes.ts";
export type { ThreadListQuery } from "./summaries.ts";
export {
  MAX_EXTRACT_PATHS,
  MAX_TTL_MINUTES,
  type Thread,
  type ThreadExtra,
  type ThreadFilter,
  type ThreadSearch,
  type ThreadTtlJson,
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
export interface ThreadSizeReport extends ThreadSize {
  readonly thread_id: string;
  /** The sum of the sections. */
  readonly total_bytes: number;
}

/** The changes of a thread. Absent members stay. */
export interface ThreadPatch {
  readonly metadata?: JsonObject;
  readonly ttl?: number | TimeToLive;
}

/** Creates, reads and changes threads and their states. */
export interface Threads extends ThreadSearches, ThreadSummaries, StateChanges {
  /**
   * Creates a thread. A given id is put in lower case. With `if_exists: "do_nothing"` it returns an existing thread unchanged.
   * Throws `conflict` with the reason `already_exists` (also for an existing thread that the caller cannot see) or `invalid`
   * (`supersteps` fail; no thread is created).
   */
  create(request?: ThreadCreate): Promise<Thread>;
  /** Returns a thread. With `state: false`, `values` is null, and `interrupts` are those of the last ended run. Throws `not_found`. */
  get(
    thread_id: string,
    options?: { readonly include?: readonly ThreadExtra[]; readonly state?: boolean },
  ): Promise<Thread>;
  /** Merges metadata shallowly. Throws `not_found`. */
  update(thread_id: string, patch: ThreadPatch): Promise<Thread>;
  /** Deletes the thread with its runs and checkpoints; active runs are stopped. Throws `not_found`. */
  delete(thread_id: string): Promise<void>;
  /** Copies metadata and all checkpoints, except those of active runs, to a new thread. Throws `conflict` (unknown thread). */
  copy(thread_id: string): Promise<Thread>;
  /** Skips unknown threads and threads with an active run. Returns the number of pruned threads. Default strategy: `delete`. */
  prune(thread_ids: readonly string[], strategy?: PruneStrategy): Promise<number>;
  /** Returns the current state; while a run is active, the newest state of the run. Throws `not_found`. */
  state(thread_id: string, options?: { readonly subgraphs?: boolean }): Promise<ThreadState>;
  /** Returns the state at a checkpoint. Throws `not_found` (thread or checkpoint). */
  stateAt(
    thread_id: string,
    checkpoint: CheckpointSelector,
    options?: { readonly subgraphs?: boolean },
  ): Promise<ThreadState>;
  /** Returns states, newest first. Throws `not_found`. */
  history(thread_id: string, query?: HistoryQuery): Promise<readonly ThreadState[]>;
  /**
   * Reads the history in parts, so that few large states are in memory. Calls `add` for each part with a function that reads it, which
   * may be called again. The next part follows when `add` resolves. Throws `not_found`.
   */
  historyEach(thread_id: string, query: HistoryQuery, add: AddStates): Promise<void>;
  /** Measures the stored checkpoints. Slow: reads all of their rows. Throws `not_found`. */
  storage(thread_id: string): Promise<ThreadSizeReport>;
  /**
   * Returns the id of the caller's thread for a chat: a UUID as it is, in lower case. Any other text becomes a UUID of version 5, made of
   * the
   * caller's
   * user and the text: each user has a chat `main`. The user is the identity of custom authentication, or that of the API key.
   */
  idOf(chat_id: string): Promise<string>;
  /** Streams the frames of all runs until the reader closes, the thread is deleted or the service stops. Throws `not_found`. */
  stream(thread_id: string, query?: ThreadStreamQuery): Promise<Reader<Frame>>;
}

interface ThreadOptions extends ThreadSummaryOptions {
  readonly executor: Executor;
  readonly bus: EventBus;
  readonly hub: StreamHub;
  readonly worker: Pick<Worker, "cancel">;
  readonly features: Pick<CombinedFeatures, "thread">;
  /** Reads the frames of a run after an id, also of a run that another process executes. */
  readonly read: ThreadStreamOptions["read"];
}

/** The internal resource of threads, with the methods that other modules use. */
export interface InternalThreads
  extends Omit<InternalResource<Threads>, "copy" | "idOf">,
    Pick<States, "requireThread" | "readCurrentState"> {
  copy(scope: Scope, thread_id: string, authorize?: AuthorizeCopy): Promise<Thread>;
  idOf(scope: Scope, chat_id: string, user_id?: string | null): Promise<string>;
  /** Prunes up to `limit` expired threads. Returns their number: call it again until it is 0. */
  expire(limit: number): Promise<number>;
}

/** Creates the internal resource of threads. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createThreads(options: ThreadOptions): InternalThreads {
  const { storage, scope: deploymentScope, environment, hub, worker, states } = options;
  const changes = createStateOperations({ storage, scope: deploymentScope, environment, states });
  const { requireThread, requireFreshThread, readCurrentState } = states;

  async function readThread(row: ThreadRow, include?: readonly ThreadExtra[]): Promise<Thread> {
    return toThreadWithState(row, await readCurrentState(row), include);
  }

  const toStoredTtl = (ttl: number | TimeToLive | undefined): ThreadTtl | undefined =>
    ttl === undefined ? undefined : parseTtl(typeof ttl === "number" ? { ttl } : ttl);

  return {
    requireThread,
    readCurrentState,
    /**
     * Returns the id of a chat's thread: `chat_id` in lower case if it is a UUID, else a name-based UUID of the user, if there
     * is one, and `chat_id`. Equal arguments give equal ids. Creates nothing.
     */
    async idOf(_scope, chat_id, user_id = null) {
      if (UUID.test(chat_id)) return chat_id.toLowerCase();
      // Two steps, so that different pairs of user and text never give the same id.
      return user_id === null ? await toNameBasedId(chat_id) : await uuidV5(await toNameBasedId(user_id), chat_id);
    },
    ...createThreadSearches(storage, states),
    ...createLazyModule<InternalResource<ThreadSummaries>>({ list: true, inbox: true }, async () =>
      (await import("./summaries.ts")).createThreadSummaries(options),
    ),
    /**
     * Creates a thread, with `supersteps` also its first states. A given id is put in lower case. Returns the existing one,
     * unchanged, for `if_exists: "do_nothing"`; otherwise, and if it is not visible to the caller, throws `conflict` with the
     * reason `already_exists`. Throws `forbidden` for metadata with which the caller would not see the thread, and `invalid`.
     */
    async create(scope, request = {}) {
      const { metadata = {}, if_exists = "raise", supersteps = [] } = request;
      requireOwnMetadata(scope, metadata);
      const thread_id = (request.thread_id ?? uuidV7(environment)).toLowerCase();
      const ttl = toStoredTtl(request.ttl);
      const state =
        supersteps.length > 0 ? await changes.createInitialState(thread_id, metadata, supersteps) : undefined;
      const result = await storage.createThread(
        deploymentScope,
        {
          ...{ thread_id, metadata, config: {}, stateless: false },
          ...options.features.thread,
          ...(ttl ? { ttl } : {}),
          ...(state ? { state } : {}),
        },
        environment.now(),
      );
      if (result.kind === "created") return await readThread(result.thread);
      // A thread that the caller cannot see is a conflict, also with if_exists `do_nothing`.
      const { stateless, metadata: stored } = result.thread;
      if (if_exists === "raise" || stateless || !matchesFilter(scope.filter, stored)) {
        throw new ServiceError("already_exists", `Thread ${thread_id} already exists`);
      }
      return await states.runPaced(() => readThread(result.thread));
    },
    /** Returns the thread with its current state, or with `state: false` with null values. Throws `not_found`. */
    async get(scope, thread_id, { include, state = true } = {}) {
      if (state) return await readThread(await requireFreshThread(scope, thread_id), include);
      return { ...toThread(await requireThread(scope, thread_id), include), values: null };
    },
    /**
     * Merges metadata and, if the patch has one, sets the time to live; returns the thread with its state. Throws `not_found`,
     * `invalid` for a wrong time, and `forbidden` for metadata with which the caller would not see the thread.
     */
    async update(scope, thread_id, patch) {
      const ttl = toStoredTtl(patch.ttl);
      await requireThread(scope, thread_id);
      /**
       * Returns the merged metadata and the time to live, if the patch has one. Throws `forbidden` if the caller would not see
       * the thread.
       */
      const next = (thread: ThreadRow): { metadata: JsonObject; ttl?: ThreadTtl } => {
        const metadata = { ...thread.metadata, ...patch.metadata };
        requireStillVisible(scope, metadata);
        return { metadata, ...(ttl ? { ttl } : {}) };
      };
      const row = await storage.updateThread(scope, thread_id.toLowerCase(), next, environment.now());
      if (!row) throw notFoundError("thread", thread_id);
      return await states.runPaced(() => readThread(row));
    },
    /**
     * Deletes the thread with its runs, and then stops their attempts in this process and ends their streams here. Throws
     * `not_found`.
     */
    async delete(scope, thread_id) {
      const row = await requireThread(scope, thread_id);
      const listRuns = (status: RunStatus): Promise<readonly RunRow[]> =>
        storage.listRuns(deploymentScope, row.thread_id, { status, limit: 1000, offset: 0 });
      const active = (await Promise.all([listRuns("pending"), listRuns("running")])).flat();
      if (!(await storage.deleteThread(scope, row.thread_id))) throw notFoundError("thread", thread_id);
      for (const { run_id } of active) {
        worker.cancel(run_id, "rolled_back");
        endDeletedRunLog(hub.find(run_id), "RunDeleted");
      }
    },
    /**
     * Copies a thread with its states, and returns the copy with its state. `authorize` may change the metadata. Throws
     * `conflict` if the thread does not exist.
     */
    async copy(scope, thread_id, authorize) {
      const row = await changes.copy(scope, thread_id, authorize);
      return await states.runPaced(() => readThread(row));
    },
    async prune(scope, thread_ids, strategy) {
      return (await changes.prune(scope, thread_ids, strategy)).length;
    },
    async expire(limit) {
      return (await storage.pruneThreads(deploymentScope, { max_expired: limit }, environment.now())).length;
    },
    state: async (scope, thread_id, { subgraphs } = {}) =>
      await states.readStateAt(await requireThread(scope, thread_id), {}, subgraphs),
    stateAt: async (scope, thread_id, checkpoint, { subgraphs } = {}) =>
      await states.readStateAt(await requireThread(scope, thread_id), checkpoint, subgraphs),
    updateState: changes.updateState,
    patchState: changes.patchState,
    history: async (scope, thread_id, query) => await states.history(await requireThread(scope, thread_id), query),
    historyEach: async (scope, thread_id, query, add) =>
      await states.historyEach(await requireThread(scope, thread_id), query, add),
    /** Returns the numbers and bytes of what is stored for the thread, with their total. Throws `not_found`. */
    async storage(scope, thread_id) {
      const { thread_id: id } = await requireThread(scope, thread_id);
      const size = await storage.getThreadSize(deploymentScope, id);
      const { checkpoints, channel_values, pending_writes } = size;
      return { thread_id: id, total_bytes: checkpoints.bytes + channel_values.bytes + pending_writes.bytes, ...size };
    },
    /**
     * Subscribes to the frames of all runs of the thread, from now or after a position. Resolves to a reader once it is
     * subscribed. Throws `not_found`.
     */
    async stream(scope, thread_id, query = {}) {
      const row = await requireThread(scope, thread_id);
      // The stream starts from the state before the active run; its frames show the rest.
      const state = (thread: ThreadRow): Promise<ThreadState | null> => readCurrentState({ ...thread, running: null });
      return await subscribeThread({ ...options, state }, row.thread_id, query);
    },
  };
}
