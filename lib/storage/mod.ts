/**
 * The Storage interface. Each verb is atomic by itself. Outcomes that a caller must expect are values; an exception means that the
 * store failed, and nothing of the verb took effect unless the error says that this is unknown (`storageLost`).
 * Rows use the field names of the wire. Times are milliseconds since 1970.
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
export type * from "./runs.ts";
export type * from "./steps.ts";
export type * from "./threads.ts";
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
  /** What the database is, such as `sqlite` or `postgres`. */
  readonly kind?: string;
  /** Accounts: organizations, workspaces, users and API keys. */
  readonly identity: IdentityStore;
  /** Only one process executes runs, the one that `becomeWorker` answered true: no other process requeues its runs while it lives. */
  readonly single_process: boolean;
  /** Several processes may execute on this database: frames that readers in another process need must be stored. */
  readonly multi_process?: boolean;
  /** Wake-ups between processes that share the database; absent where a process is alone. */
  readonly signals?: Signals;
  /** For storage whose reads may lag behind the writes of other processes: later reads see all writes answered before this call. */
  refresh?(): void;
  /** Milliseconds since 1970 by the database's clock. Present where processes with clocks of their own share it; leases use it. */
  now?(): Promise<number>;
  /**
   * Brings the schema up to date. Errors: ConfigError when the database is newer than this code, older than the first release, damaged
   * or not made by Greenroom. Idempotent, and safe to call from several processes at once.
   */
  migrate(): Promise<void>;
  /**
   * Returns whether this process may execute runs: always, where processes share the work by leases. On an embedded file one process
   * executes and the others only serve requests. A process that takes over from a dead one first requeues all running runs, frees all
   * slots and ends the webhook claims of the dead process. Cheap to call again.
   */
  becomeWorker(now: number): Promise<boolean>;
  /** Writes a test row, after a failed batch as many bytes as that batch had. Rejects when writing fails. */
  probe(now: number): Promise<void>;
  /** Why calls fail: set by one that found a full disk or a damaged or unwritable file, until a `probe` succeeds. Else null. */
  failure?(): string | null;
  /** Looks at the files of an embedded database. Rejects when they were damaged, deleted or replaced. Cheap enough for every second. */
  check?(): Promise<void>;
  /** Releases what the storage opened itself. */
  close(): Promise<void>;
}

/**
 * What has changed, on the bus and between processes. `run`: frames of that run were stored, or it has ended, or it is to stop.
 * `thread`: a run of that thread was made, is to stop or has ended, or the thread is gone. `events`: events of that thread were
 * stored. `work`: runs of that deployment may be waiting for a worker. `deliveries`: of that deployment, webhooks.
 */
export type SignalKind = "run" | "events" | "thread" | "work" | "deliveries";

/** Receives signals. */
export interface SignalListener {
  /** Another process, or this one, has published this. */
  onSignal(kind: SignalKind, id: string): void;
  /** Signals may have been missed: look at everything. Called when the connection that brings them is back, too. */
  onGap(): void;
}

/** Publishes and receives signals between processes that share a database: they carry ids, never data, and may be lost, late or doubled. */
export interface Signals {
  /** Returns at once, and never throws. Equal signals that wait to be sent are one. */
  publish(kind: SignalKind, id: string): void;
  /** The result ends it. */
  subscribe(listener: SignalListener): () => void;
}
