/** The storage operations of threads, of their events, and of state changes without a run. */
import type { JsonObject } from "../json.ts";
import type {
  EventMethod,
  Page,
  Progress,
  PruneStrategy,
  Scope,
  SearchPage,
  SortOptions,
  StoredThreadEvent,
  ThreadRow,
  ThreadStatus,
  ThreadTtl,
} from "./rows.ts";

/** Checkpoints that no run created, and the new head of the thread. */
export interface NewThreadState {
  /** The graph of the checkpoints. */
  readonly graph_id: string;
  readonly progress: Progress;
  readonly head: string;
  /** The top-level scalars of the values of the state, for searches. */
  readonly scalars: JsonObject;
}

/** A thread to be stored. */
export interface NewThread {
  readonly thread_id: string;
  readonly metadata: JsonObject;
  readonly config: JsonObject;
  readonly stateless: boolean;
  readonly ttl?: ThreadTtl | null;
  readonly state?: NewThreadState;
}

/** Filters and page of a search for threads. */
export interface ThreadQuery {
  readonly metadata?: JsonObject;
  /** Limits the search to threads whose values may contain this. The caller must check whether they do. */
  readonly values?: JsonObject;
  readonly ids?: readonly string[];
  readonly status?: ThreadStatus;
  /** True to find only threads with pending interrupts. */
  readonly waiting?: boolean;
}

/** The columns that a search for threads can sort by. */
export type ThreadSort = "thread_id" | "status" | "created_at" | "updated_at" | "state_updated_at";

/** The storage operations of threads. */
export interface ThreadStorage {
  /**
   * Creates a thread, with its first state if there is one. If a row has the id, it writes nothing and returns that row with
   * `exists`, even if it is not visible. A repeated call is safe: it returns `exists`.
   */
  createThread(
    scope: Scope,
    thread: NewThread,
    now: number,
  ): Promise<{ readonly kind: "created" | "exists"; readonly thread: ThreadRow }>;
  /** Reads a thread, including the thread of a stateless run. Returns null if it does not exist or is not visible. */
  getThread(scope: Scope, thread_id: string): Promise<ThreadRow | null>;
  /**
   * Reads one page of the visible threads that match, without those of stateless runs, and the number of all matches. With
   * `COUNT_ONLY` it reads only that number.
   */
  searchThreads(scope: Scope, query: ThreadQuery & Page & SortOptions<ThreadSort>): Promise<SearchPage<ThreadRow>>;
  /**
   * Writes the metadata and TTL that `next` returns. Writes only if the revision is the one that `next` got; after a concurrent
   * change it reads the row and calls `next` again. Returns null if the thread does not exist or is not visible.
   */
  updateThread(
    scope: Scope,
    thread_id: string,
    next: (thread: ThreadRow) => { readonly metadata: JsonObject; readonly ttl?: ThreadTtl | null },
    now: number,
  ): Promise<ThreadRow | null>;
  /**
   * Deletes a thread with its runs, checkpoints and writes. Workers that execute its runs lose their leases. Returns false if the
   * thread does not exist or is not visible.
   */
  deleteThread(scope: Scope, thread_id: string): Promise<boolean>;
}

/**
 * The threads to prune: these ids, or at most `max_expired` threads whose TTL has expired, each by its own strategy. Call again until
 * none are pruned.
 */
export type PruneTarget =
  | { readonly thread_ids: readonly string[]; readonly strategy: PruneStrategy }
  | { readonly max_expired: number };

/** The storage operations that change the states of threads without a run: updates, copies and pruning. */
export interface StateStorage {
  /**
   * Stores checkpoints that no run created, and sets the head of the thread to `head`. Writes nothing if a run is active (`busy`)
   * or the head is not `expected_head` (`stale`). A repeated call returns `stale`, because the head has changed. With `ends`
   * nothing follows the state: an interrupted thread becomes idle, without interrupts.
   */
  writeState(
    scope: Scope,
    thread_id: string,
    state: NewThreadState & { readonly expected_head: string | null; readonly ends?: boolean },
    now: number,
  ): Promise<"written" | "busy" | "stale" | "not_found">;
  /** Merges members into the metadata of a checkpoint, shallowly. Returns false if there is no such checkpoint. Idempotent. */
  annotateCheckpoint(
    scope: Scope,
    thread_id: string,
    at: { readonly ns: string; readonly checkpoint_id: string },
    metadata: JsonObject,
  ): Promise<boolean>;
  /**
   * Creates a thread with the state and all checkpoints of another thread, without runs and without the checkpoints of active runs.
   * Writes nothing if the revision of the source is not `expected_revision` (`stale`) or a row has the new id (`exists`).
   */
  copyThread(
    scope: Scope,
    copy: {
      readonly from: string;
      readonly expected_revision: number;
      readonly thread_id: string;
      readonly metadata: JsonObject;
    },
    now: number,
  ): Promise<
    { readonly kind: "copied"; readonly thread: ThreadRow } | { readonly kind: "stale" | "not_found" | "exists" }
  >;
  /**
   * Prunes threads and returns the ids of those that were pruned. Skips threads that do not exist, are not visible or have an
   * active run and, for the target `expired`, threads whose TTL has not expired. Idempotent.
   */
  pruneThreads(scope: Scope, target: PruneTarget, now: number): Promise<readonly string[]>;
}

/** A page of events. */
export interface EventPage {
  readonly events: readonly StoredThreadEvent[];
  /** Later events have a higher `seq`; null when the page is empty. */
  readonly read_to: number | null;
  /** True if there may be more events now. */
  readonly has_more: boolean;
}

/** The storage operations of thread events. */
export interface EventStorage {
  /**
   * Reads events of a thread with a `seq` above `after`, in order, a bounded number per call. Omits events after the claim of the
   * running run, because that run may still store events before them. Returns none if the thread does not exist or is not visible.
   */
  readEvents(
    scope: Scope,
    thread_id: string,
    query: { readonly after: number; readonly methods?: ReadonlySet<EventMethod> },
  ): Promise<EventPage>;
  /** Reads the `seq` of the newest event that `readEvents` would return; 0 if there is none. */
  getLastEventSeq(scope: Scope, thread_id: string): Promise<number>;
  /** Makes the runs of the thread record events of all methods. Idempotent. Returns false if there is no such visible thread. */
  recordAllEvents(scope: Scope, thread_id: string): Promise<boolean>;
}
