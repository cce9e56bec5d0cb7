/** How an executor reads and writes the checkpoints of a thread. */
import type { JsonObject } from "../json.ts";
import type { NewCheckpoint, PendingWrite, StoredCheckpoint } from "../storage/rows.ts";

/** Reads checkpoints of one thread. A job's reader includes what the job has put but not stored yet. */
export interface CheckpointReader {
  /** Without `checkpoint_id`: in the root namespace the state that the job continues from, else the newest. */
  get(at: { readonly ns: string; readonly checkpoint_id?: string }): Promise<StoredCheckpoint | null>;
  /** Newest first. Without `ns`: all namespaces. */
  list(at: {
    readonly ns?: string;
    readonly before?: string;
    readonly limit?: number;
    readonly metadata?: JsonObject;
  }): AsyncIterable<StoredCheckpoint>;
}

/** A job's checkpoints. Both writes throw LeaseLost after the lease was lost. */
export interface CheckpointHandle extends CheckpointReader {
  /** The answer of `get`, unless the store must be read for it: then undefined. */
  getCached?(at: { readonly ns: string; readonly checkpoint_id?: string }): StoredCheckpoint | null | undefined;
  /** Queues a checkpoint. Resolves when it is queued; with durability `sync` when it is committed. */
  put(checkpoint: NewCheckpoint): Promise<void>;
  putWrites(
    at: { readonly ns: string; readonly checkpoint_id: string },
    task_id: string,
    writes: readonly PendingWrite[],
  ): Promise<void>;
  /**
   * Opens a write barrier, and returns what closes it. What is put after that is stored in one save with all that the executor has shown
   * until it closes the barrier. For executors that put at another time than they show. With durability `sync`, writes wait for that.
   */
  openBarrier?(): () => void;
}
