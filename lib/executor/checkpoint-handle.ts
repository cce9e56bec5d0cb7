/** The interfaces by which an executor reads and writes the checkpoints of a thread. */
import type { JsonObject } from "../json.ts";
import type { NewCheckpoint, PendingWrite, StoredCheckpoint } from "../storage/rows.ts";

/** Reads checkpoints of one thread. A job's reader includes checkpoints that the job has put and that are not stored yet. */
export interface CheckpointReader {
  /**
   * Returns a checkpoint, or null if it does not exist. Without `checkpoint_id` it is the newest of the namespace; in the root
   * namespace it is the state that the job continues from.
   */
  get(at: { readonly ns: string; readonly checkpoint_id?: string }): Promise<StoredCheckpoint | null>;
  /** Lists checkpoints, newest first. Without `ns` it lists all namespaces. */
  list(at: {
    readonly ns?: string;
    readonly before?: string;
    readonly limit?: number;
    readonly metadata?: JsonObject;
  }): AsyncIterable<StoredCheckpoint>;
}

/** The checkpoints of a job. Both writes throw `LeaseLost` after the lease was lost. */
export interface CheckpointHandle extends CheckpointReader {
  /** Returns the result of `get` without reading the storage, or undefined if the storage must be read for it. */
  getCached?(at: { readonly ns: string; readonly checkpoint_id?: string }): StoredCheckpoint | null | undefined;
  /** Queues a checkpoint. Resolves when it is queued, with durability `sync` when it is committed. */
  put(checkpoint: NewCheckpoint): Promise<void>;
  putWrites(
    at: { readonly ns: string; readonly checkpoint_id: string },
    task_id: string,
    writes: readonly PendingWrite[],
  ): Promise<void>;
  /**
   * Opens a write barrier and returns a function that closes it. What is put after that is stored in one save with all output
   * that the executor emits until it closes the barrier. Executors need it if they put states at another time than they emit
   * them. With durability `sync`, writes wait for the barrier.
   */
  openBarrier?(): () => void;
}
