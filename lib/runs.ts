/** Runs: executions of an assistant, on a thread or without one. */
import type { Send, StreamMode } from "./executor.ts";
import type { Json, JsonObject } from "./json.ts";
import type { MultitaskStrategy, RunStatus } from "./storage.ts";

/** A run as the API shows it; times are ISO 8601, UTC. */
export interface Run {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly status: RunStatus;
  readonly metadata: JsonObject;
  readonly kwargs: JsonObject;
  readonly multitask_strategy: MultitaskStrategy;
}

/** What every run-creating call takes. Null counts as absent everywhere. */
export interface RunCreate {
  readonly assistant_id: string;
  readonly input?: Json;
  readonly command?: {
    readonly resume?: Json;
    readonly update?: Json;
    readonly goto?: string | Send | readonly (string | Send)[] | null;
  } | null;
  readonly config?: { readonly tags?: readonly string[]; readonly recursion_limit?: number; readonly configurable?: JsonObject } | null;
  readonly context?: JsonObject | null;
  readonly metadata?: JsonObject | null;
  readonly checkpoint?: { readonly checkpoint_id?: string | null; readonly checkpoint_ns?: string | null; readonly checkpoint_map?: JsonObject | null } | null;
  readonly checkpoint_id?: string | null;
  readonly stream_mode?: StreamMode | readonly StreamMode[] | null;
  readonly stream_subgraphs?: boolean | null;
  readonly stream_resumable?: boolean | null;
  readonly multitask_strategy?: MultitaskStrategy | null;
  readonly if_not_exists?: "reject" | "create" | null;
  readonly on_disconnect?: "continue" | "cancel" | null;
  readonly on_completion?: string | null;
  readonly after_seconds?: number | null;
  readonly interrupt_before?: "*" | readonly string[] | null;
  readonly interrupt_after?: "*" | readonly string[] | null;
  readonly durability?: "sync" | "async" | "exit" | null;
  readonly checkpoint_during?: boolean | null;
  readonly webhook?: string | null;
  readonly feedback_keys?: readonly string[] | null;
}

/** What the request itself adds: values for `config.configurable` taken from its headers. */
export interface RunOrigin {
  readonly configurable?: JsonObject;
}

/** One event of a run's stream. */
export interface Frame {
  /** Increases within the run; null for what is not part of the record. */
  readonly id: number | null;
  /** `metadata`, `values`, `updates`, `messages`, `updates|<namespace>`, `error`, `end` … */
  readonly event: string;
  /** One JSON text. */
  readonly data: string;
}

/**
 * A reader of a run's frames; the last one is `end`, and then the run's status is final already. Leaving the loop early (or
 * `return()`) unsubscribes, and interrupts the run if it was asked to be cancelled on disconnect.
 */
export interface RunStream {
  readonly run: Run;
  readonly frames: AsyncIterable<Frame>;
}

/** A run and its result: the final values, `{"__interrupt__": […]}` or `{"__error__": {error, message}}`. Never rejects for a failed run. */
export interface RunWait {
  readonly run: Run;
  readonly result: Promise<Json>;
  /** The caller is gone: unsubscribes, and interrupts the run if it was asked to be cancelled on disconnect. */
  leave(): void;
}

/** `thread_id` null: a stateless run. Errors of the creating calls: not_found, conflict (busy), invalid, not_built, bad_request. */
export interface Runs {
  create(thread_id: string | null, request: RunCreate, origin?: RunOrigin): Promise<Run>;
  stream(thread_id: string | null, request: RunCreate, origin?: RunOrigin): Promise<RunStream>;
  wait(thread_id: string | null, request: RunCreate, origin?: RunOrigin): Promise<RunWait>;
  /** Errors: not_found. */
  get(thread_id: string, run_id: string): Promise<Run>;
  /** Newest first. Errors: not_found (thread). */
  list(
    thread_id: string,
    query?: { readonly limit?: number; readonly offset?: number; readonly status?: RunStatus },
  ): Promise<readonly Run[]>;
  /** Errors: not_found; conflict while it is running. */
  delete(thread_id: string, run_id: string): Promise<void>;
  /** Errors: not_found. */
  join(thread_id: string, run_id: string, options?: { readonly cancel_on_disconnect?: boolean }): Promise<RunWait>;
  /** Frames after `after` (all that are still held when absent), then live ones. `thread_id` null: a stateless run. Errors: not_found. */
  joinStream(
    thread_id: string | null,
    run_id: string,
    options?: {
      readonly after?: number;
      /** Show only these of the run's modes. */
      readonly modes?: readonly StreamMode[];
      readonly cancel_on_disconnect?: boolean;
    },
  ): Promise<RunStream>;
}
