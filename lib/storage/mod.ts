/**
 * The Storage interface. Each operation is atomic. Results that a caller must expect are return values. An exception means that the
 * storage failed; nothing took effect unless the code is `outcome_unknown`. Rows use the field names of the wire. Times are
 * milliseconds since 1970.
 */
import type { AssistantStorage } from "./assistants.ts";
import type { CheckpointStorage } from "./checkpoints.ts";
import type { CronStorage } from "./crons.ts";
import type { FeatureStorage } from "./features.ts";
import type { IdentityStore } from "./identity.ts";
import type { ItemStorage } from "./items.ts";
import type { RunStorage } from "./runs.ts";
import type { EventStorage, StateStorage, ThreadStorage } from "./threads.ts";

export type * from "./assistants.ts";
export type * from "./checkpoints.ts";
export type * from "./crons.ts";
export type * from "./deliveries.ts";
export type * from "./features.ts";
export type * from "./feedback.ts";
export type * from "./items.ts";
export * from "./rows.ts";
export type * from "./run-filter.ts";
export type * from "./runs.ts";
export type * from "./spans.ts";
export type * from "./steps.ts";
export type * from "./threads.ts";
export type * from "./trace-updates.ts";
export type * from "./traces.ts";
export type * from "./usage.ts";

/** Everything that Greenroom stores. */
export interface Storage
  extends AssistantStorage,
    ThreadStorage,
    StateStorage,
    RunStorage,
    CheckpointStorage,
    CronStorage,
    ItemStorage,
    FeatureStorage,
    EventStorage {
  /** The kind of database, such as `sqlite` or `postgres`. */
  readonly kind?: string;
  /** Accounts: organizations, workspaces, users and API keys. */
  readonly identity: IdentityStore;
  /**
   * Only one process executes runs, the one for which `becomeWorker` returned true. No other process requeues its runs while it
   * lives.
   */
  readonly single_process: boolean;
  /** Several processes may execute runs on this database, so frames that readers in another process need must be stored. */
  readonly multi_process?: boolean;
  /** Sends wake-ups between processes that share the database. Absent if one process uses it alone. */
  readonly signals?: Signals;
  /**
   * Makes later reads see all writes that were acknowledged before this call. Present if reads may lag behind the writes of other
   * processes.
   */
  refresh?(): void;
  /**
   * Reads the clock of the database, in milliseconds since 1970. Present if processes on several machines share the database;
   * leases use it.
   */
  now?(): Promise<number>;
  /**
   * Brings the schema up to date. Throws a ConfigError if the database is newer than this code, older than the first release,
   * damaged or not from Greenroom. Idempotent, and safe to call from several processes at once.
   */
  migrate(): Promise<void>;
  /**
   * Returns true if this process may execute runs: always where processes share the work by leases. On an embedded file one process
   * executes runs and the others only serve requests. A process that takes over from a dead one first requeues all running runs,
   * releases all thread locks and ends the webhook claims of the dead process. Repeated calls are cheap.
   */
  becomeWorker(now: number): Promise<boolean>;
  /**
   * Writes a test row, and after a failed batch as many bytes as that had. Success clears the failure. Rejects if a write
   * fails, and while the file is damaged.
   */
  probe(now: number): Promise<void>;
  /**
   * Returns why calls fail since one of them found a full disk or a damaged or unwritable file, until a `probe` succeeds; else
   * null.
   */
  failure?(): string | null;
  /**
   * Checks the files of an embedded database. Rejects if they were damaged, deleted or replaced. Cheap enough to call every second.
   */
  check?(): Promise<void>;
  /** Closes the connections that the storage opened. */
  close(): Promise<void>;
}

/**
 * The kind of a change, on the bus and between processes. `run`: frames of the run were stored, a stop was requested, or it ended.
 * `thread`: a run of the thread was created, stopped or ended, or the thread was changed or deleted. `events`: events of the thread
 * were stored. `work`: runs of the deployment may wait for a worker. `deliveries`: webhooks of the deployment may be due.
 */
export type SignalKind = "run" | "events" | "thread" | "work" | "deliveries";

/** Receives signals. */
export interface SignalListener {
  /** Called for each signal, including those of this process. */
  onSignal(kind: SignalKind, id: string): void;
  /** Called when signals may have been lost, also after a reconnect. The listener must read everything again. */
  onGap(): void;
}

/**
 * Publishes and receives signals between processes that share a database. Signals carry ids and no data, and may be lost, late or
 * duplicated.
 */
export interface Signals {
  /** Queues a signal. Returns at once and never throws. Equal signals in the queue are sent once. */
  publish(kind: SignalKind, id: string): void;
  /** Subscribes a listener. Returns a function that unsubscribes it. */
  subscribe(listener: SignalListener): () => void;
}
