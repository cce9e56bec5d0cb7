/** The storage verbs of threads, of their events, and of their states as far as no run changes them. */
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

/** Checkpoints that no run has made, and the head they lead to. */
export interface NewThreadState {
  /** The graph that they are of. */
  readonly graph_id: string;
  readonly progress: Progress;
  readonly head: string;
  /** Scalars of the state's values at the top, for searches. */
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
  /** Only threads whose values may contain this: whether they do is for the caller to see. */
  readonly values?: JsonObject;
  readonly ids?: readonly string[];
  readonly status?: ThreadStatus;
  /** Only threads with open interrupts. */
  readonly waiting?: boolean;
}

/** What threads can be sorted by. */
export type ThreadSort = "thread_id" | "status" | "created_at" | "updated_at" | "state_updated_at";

/** The verbs of threads. */
export interface ThreadStorage {
  /**
   * Creates a thread, with its first state if there is one. Guard: the id is free; else `exists` gives the row that has it, also when it
   * is not visible. Repeating the call is safe: the second one answers `exists`.
   */
  createThread(
    scope: Scope,
    thread: NewThread,
    now: number,
  ): Promise<{ readonly kind: "created" | "exists"; readonly thread: ThreadRow }>;
  /** Reads a thread, also that of a stateless run. Null when it does not exist or is not visible. */
  getThread(scope: Scope, thread_id: string): Promise<ThreadRow | null>;
  /**
   * Reads one page of the visible threads that match, without those of stateless runs, and the number of all matches. With
   * `COUNT_ONLY` it reads only the number.
   */
  searchThreads(scope: Scope, query: ThreadQuery & Page & SortOptions<ThreadSort>): Promise<SearchPage<ThreadRow>>;
  /**
   * Writes the metadata and TTL that `next` returns. Guard: the revision is the one that `next` got; after a concurrent change the verb
   * reads again and calls `next` again. Null when the thread does not exist or is not visible.
   */
  updateThread(
    scope: Scope,
    thread_id: string,
    next: (thread: ThreadRow) => { readonly metadata: JsonObject; readonly ttl?: ThreadTtl | null },
    now: number,
  ): Promise<ThreadRow | null>;
  /**
   * Deletes a thread with its runs, checkpoints and writes. Workers that execute its runs lose their leases. False when the thread does
   * not exist or is not visible.
   */
  deleteThread(scope: Scope, thread_id: string): Promise<boolean>;
}

/** Named threads, or at most `expired` of those whose TTL has expired, each by its own strategy. Call again until none are left. */
export type PruneTarget =
  | { readonly thread_ids: readonly string[]; readonly strategy: PruneStrategy }
  | { readonly expired: number };

/** What changes the states of threads without a run: updates, copies and pruning. */
export interface StateStorage {
  /**
   * Stores checkpoints that no run made and makes `head` the thread's head. Guard: no run is active (`busy`), and the head is
   * `seen_head` (`stale`); otherwise nothing is written. A repeated call answers `stale`, as its head has moved. With `ends` nothing
   * follows the state: an interrupted thread becomes idle, without interrupts.
   */
  writeState(
    scope: Scope,
    thread_id: string,
    state: NewThreadState & { readonly expected_head: string | null; readonly ends?: boolean },
    now: number,
  ): Promise<"written" | "busy" | "stale" | "not_found">;
  /** Merges members into a checkpoint's metadata, shallowly. False when there is no such checkpoint. Idempotent. */
  annotateCheckpoint(
    scope: Scope,
    thread_id: string,
    at: { readonly ns: string; readonly checkpoint_id: string },
    metadata: JsonObject,
  ): Promise<boolean>;
  /**
   * Creates a thread with the state and all checkpoints of another one. Runs are not copied, nor what active runs have stored. Guard: the
   * source has the revision `seen_revision` (`stale`), and the new id is free (`exists`); otherwise nothing is written.
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
   * Prunes threads and returns the ids of those that were pruned. Guard: the thread exists, is visible and has no active run, and its
   * TTL has expired where the target says so; others are skipped. Idempotent.
   */
  pruneThreads(scope: Scope, target: PruneTarget, now: number): Promise<readonly string[]>;
}

/** A page of events. */
export interface EventPage {
  readonly events: readonly StoredThreadEvent[];
  /** Later events have a higher `seq`; null when the page is empty. */
  readonly read_to: number | null;
  /** There may be more now. */
  readonly has_more: boolean;
}

/** The verbs of thread events. */
export interface EventStorage {
  /**
   * Reads events of a thread with a `seq` above `after`, in order, a bounded number at a time. Events behind the turn of the run that
   * executes now are left out: that run may still store events before them. Empty when the thread does not exist or is not visible.
   */
  readEvents(
    scope: Scope,
    thread_id: string,
    query: { readonly after: number; readonly methods?: ReadonlySet<EventMethod> },
  ): Promise<EventPage>;
  /** The `seq` of the newest event; 0 without any. */
  getLastEventSeq(scope: Scope, thread_id: string): Promise<number>;
  /** From now on the runs of the thread record events of all methods. Idempotent. False when there is no such visible thread. */
  recordAllEvents(scope: Scope, thread_id: string): Promise<boolean>;
}
