/** Signals between processes that share a database: they carry ids, never data, and may be lost, late or doubled. */

/**
 * What has changed, on the bus and between processes. `run`: frames of that run were stored, or it has ended, or it is to stop.
 * `thread`: a run of that thread was made, is to stop or has ended, or the thread is gone. `events`: events of that thread were
 * stored. `work`: runs of that deployment may be waiting for a worker. `deliveries`: of that deployment, webhooks.
 */
export type SignalKind = "run" | "events" | "thread" | "work" | "deliveries";

/** Receives signals. */
export interface SignalListener {
  /** Another process, or this one, has published this. */
  heard(kind: SignalKind, id: string): void;
  /** Signals may have been missed: look at everything. Called when the connection that brings them is back, too. */
  missed(): void;
}

/** Publishes and receives signals between processes. */
export interface Signals {
  /** Returns at once, and never throws. Equal signals that wait to be sent are one. */
  publish(kind: SignalKind, id: string): void;
  /** The result ends it. */
  subscribe(listener: SignalListener): () => void;
}
