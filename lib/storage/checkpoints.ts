/** The storage verbs that read checkpoints. Runs write them by `saveProgress` and `finishRun`, state updates by `writeState`. */
import type { JsonObject } from "../json.ts";
import type { Scope, StoredCheckpoint } from "./rows.ts";

/** What the checkpoints of a thread take. Bytes are those of the stored content, without indexes. */
export interface ThreadSize {
  readonly checkpoints: StoredSize;
  readonly channel_values: StoredSize & {
    readonly by_channel: Readonly<Record<string, { readonly versions: number; readonly bytes: number }>>;
  };
  readonly pending_writes: StoredSize;
}

/** Number and size of stored entries. */
export interface StoredSize {
  readonly count: number;
  readonly bytes: number;
}

/** The verbs of checkpoints and pending writes. */
export interface CheckpointStorage {
  /**
   * Reads one checkpoint with its values and pending writes. Without `checkpoint_id` the newest of the namespace; with `run_id` the
   * newest that this run stored there. Null when there is none or the thread is not visible.
   */
  getCheckpoint(
    scope: Scope,
    thread_id: string,
    at: { readonly ns: string; readonly checkpoint_id?: string; readonly run_id?: string },
  ): Promise<StoredCheckpoint | null>;
  /**
   * Reads checkpoints, newest first. `before`: only those stored before this checkpoint. `metadata`: containment. Without `ns`: of all
   * namespaces.
   */
  listCheckpoints(
    scope: Scope,
    thread_id: string,
    query: { readonly ns?: string; readonly before?: string; readonly metadata?: JsonObject; readonly limit: number },
  ): Promise<readonly StoredCheckpoint[]>;
  /**
   * Reads how the JSON of a channel begins, up to 8,192 characters, in the newest root checkpoint that `run_id` stored, or else in
   * `checkpoint_id`. `start`: null when the channel has no JSON there. Null when there is no such checkpoint or the thread is not visible.
   */
  readValueStart(
    scope: Scope,
    thread_id: string,
    at: { readonly checkpoint_id: string | null; readonly run_id?: string },
    channel: string,
  ): Promise<{ readonly channels: readonly string[]; readonly start: string | null } | null>;
  /** Counts the checkpoint rows of a thread and their stored bytes. All 0 when there is no such thread. */
  getThreadSize(scope: Scope, thread_id: string): Promise<ThreadSize>;
}
