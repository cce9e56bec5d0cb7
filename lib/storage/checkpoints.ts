/**
 * The storage operations that read checkpoints. Runs write them with `saveProgress` and `finishRun`, state updates with
 * `writeState`.
 */
import type { JsonObject } from "../json.ts";
import type { Scope, StoredCheckpoint } from "./rows.ts";

/** The size of the checkpoints of a thread. Bytes count the stored content, without indexes. */
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

/** The storage operations of checkpoints and pending writes. */
export interface CheckpointStorage {
  /**
   * Reads one checkpoint with its values and pending writes: the newest of the namespace if `checkpoint_id` is absent, or with
   * `run_id` the newest that this run stored there. Returns null if there is none or the thread is not visible.
   */
  getCheckpoint(
    scope: Scope,
    thread_id: string,
    at: { readonly ns: string; readonly checkpoint_id?: string; readonly run_id?: string },
  ): Promise<StoredCheckpoint | null>;
  /**
   * Reads checkpoints, newest first. `before` limits them to those stored before this checkpoint, and `metadata` to those whose
   * metadata contains it. Without `ns` it reads all namespaces.
   */
  listCheckpoints(
    scope: Scope,
    thread_id: string,
    query: { readonly ns?: string; readonly before?: string; readonly metadata?: JsonObject; readonly limit: number },
  ): Promise<readonly StoredCheckpoint[]>;
  /**
   * Reads the first 8,192 characters of the JSON of a channel in the newest root checkpoint that `run_id` stored, or else in
   * `checkpoint_id`. `start` is null if the channel has no JSON there. Returns null if there is no such checkpoint or the thread is
   * not visible.
   */
  readValueStart(
    scope: Scope,
    thread_id: string,
    at: { readonly checkpoint_id: string | null; readonly run_id?: string },
    channel: string,
  ): Promise<{ readonly channels: readonly string[]; readonly start: string | null } | null>;
  /** Counts the checkpoint rows of a thread and their stored bytes. All numbers are 0 if there is no such thread. */
  getThreadSize(scope: Scope, thread_id: string): Promise<ThreadSize>;
}
