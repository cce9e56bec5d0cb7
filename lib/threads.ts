/** Threads: conversations whose state persists, and reading that state. */
import type { PageOf } from "./assistants.ts";
import type { ThreadState } from "./executor.ts";
import type { Json, JsonObject } from "./json.ts";
import type { ThreadSort, ThreadStatus } from "./storage.ts";

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
  create(request?: ThreadCreate): Promise<Thread>;
  /** Errors: not_found. */
  get(thread_id: string): Promise<Thread>;
  /** Merges metadata shallowly. Errors: not_found. */
  update(thread_id: string, patch: { readonly metadata?: JsonObject }): Promise<Thread>;
  /** Runs and checkpoints go too; active runs are stopped. Errors: not_found. */
  delete(thread_id: string): Promise<void>;
  search(query?: ThreadSearch): Promise<PageOf<Partial<Thread>>>;
  count(query?: ThreadFilter): Promise<number>;
  /** While a run is active, its newest state. Errors: not_found. */
  state(thread_id: string, options?: { readonly subgraphs?: boolean }): Promise<ThreadState>;
  /** Errors: not_found (thread or checkpoint). */
  stateAt(
    thread_id: string,
    checkpoint: CheckpointSelector,
    options?: { readonly subgraphs?: boolean },
  ): Promise<ThreadState>;
  /** Newest first. Errors: not_found. */
  history(thread_id: string, query?: HistoryQuery): Promise<readonly ThreadState[]>;
}
