/**
 * The event bus of a process. An event carries an id and no data, so its listeners read the storage. Signals carry the events
 * between processes that share a database.
 */
import type { Environment } from "../environment.ts";
import type { CreatedRun, SignalKind, Signals, Storage } from "./mod.ts";

/**
 * The process that made a change: this one (`here`) or another one (`elsewhere`). `unknown`: events may have been lost, so the
 * listener must read everything again. It comes without an id.
 */
export type ChangeOrigin = "here" | "elsewhere" | "unknown";

export type ChangeListener = (id: string | undefined, from: ChangeOrigin) => void;

export interface EventBus {
  /**
   * Notifies the listeners of this process in a later tick, once even if it was published twice, and those of other processes. `to`
   * limits it to one of the two. Never throws.
   */
  publish(kind: SignalKind, id: string, to?: "here" | "elsewhere"): void;
  /** Calls `listener` for each change of one id, or of all ids if `id` is null. Returns a function that unsubscribes. */
  subscribe(kind: SignalKind, id: string | null, listener: ChangeListener): () => void;
  /** Calls all listeners at once with the origin `unknown`. */
  notifyAll(): void;
  /** Subscribes to the signals of other processes. */
  connect(): void;
  /** Unsubscribes from the signals of other processes and calls all listeners for the last time. */
  close(): void;
}

/**
 * Creates the bus of a process. A change that is published calls the listeners here in a later tick, once for each id; other
 * processes get a signal at once. Each id is sent as `<id>@<origin>`, so that a process ignores its own signals. It receives
 * signals after `connect`.
 */
export function createEventBus(
  signals: Signals | undefined,
  origin: string,
  environment: Pick<Environment, "defer">,
): EventBus {
  /** The listeners by kind and id. Those with the id null get all changes of the kind. */
  const listeners = new Map<SignalKind, Map<string | null, Set<ChangeListener>>>();
  let pendingIds = new Map<SignalKind, Set<string>>();
  let disconnect = (): void => {};

  /**
   * Calls the listeners of all ids of the kind, and then those of this id. A listener that throws keeps the following ones from
   * being called.
   */
  function notify(kind: SignalKind, id: string, from: ChangeOrigin): void {
    const kindListeners = listeners.get(kind);
    const [all, idListeners] = [kindListeners?.get(null), kindListeners?.get(id)];
    if (all) for (const listener of [...all]) listener(id, from);
    if (idListeners) for (const listener of [...idListeners]) listener(id, from);
  }

  /** Notifies the listeners of all pending changes of this process, once per id, and forgets the changes. */
  function deliverPending(): void {
    const all = pendingIds;
    pendingIds = new Map();
    for (const [kind, ids] of all) for (const id of ids) notify(kind, id, "here");
  }

  /**
   * Notifies listeners of a signal of another process. Ignores signals that this process has sent. An id without an origin
   * counts as one of another process.
   */
  function onSignal(kind: SignalKind, tagged: string): void {
    const at = tagged.lastIndexOf("@");
    if (at < 0) notify(kind, tagged, "elsewhere");
    else if (tagged.slice(at + 1) !== origin) notify(kind, tagged.slice(0, at), "elsewhere");
  }

  /** Calls all listeners of all kinds without an id, because changes may have been missed: they must read everything again. */
  function notifyAll(): void {
    const all = [...listeners.values()]
      .flatMap((kindListeners) => [...kindListeners.values()])
      .flatMap((idListeners) => [...idListeners]);
    for (const listener of all) listener(undefined, "unknown");
  }

  return {
    publish(kind, id, to) {
      if (to !== "here") signals?.publish(kind, `${id}@${origin}`);
      if (to === "elsewhere") return;
      if (pendingIds.size === 0) environment.defer(deliverPending);
      const ids = pendingIds.get(kind);
      if (ids) ids.add(id);
      else pendingIds.set(kind, new Set([id]));
    },
    subscribe(kind, id, listener) {
      const kindListeners = listeners.get(kind) ?? new Map<string | null, Set<ChangeListener>>();
      listeners.set(kind, kindListeners);
      const idListeners = kindListeners.get(id) ?? new Set();
      kindListeners.set(id, idListeners.add(listener));
      return () => {
        idListeners.delete(listener);
        if (idListeners.size === 0 && kindListeners.get(id) === idListeners) kindListeners.delete(id);
      };
    },
    notifyAll,
    connect() {
      disconnect = signals?.subscribe({ onSignal, onGap: notifyAll }) ?? disconnect;
    },
    close() {
      disconnect();
      notifyAll();
    },
  };
}

/**
 * Returns a proxy of the storage, where each operation that changed something publishes that on the bus once it has succeeded.
 * Other methods are bound to the storage and kept; other members are read from it.
 */
export function publishChanges(storage: Storage, bus: EventBus): Storage {
  const members = new Map<PropertyKey, unknown>(Object.entries(createPublishingOperations(storage, bus)));
  return new Proxy(storage, {
    /**
     * Returns the publishing operation with this name, else the member of the storage; a method bound to it, the same one each
     * time.
     */
    get(target, name) {
      if (members.has(name)) return members.get(name);
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      const method: unknown = value.bind(target);
      members.set(name, method);
      return method;
    },
  });
}

/**
 * Returns the operations that publish changes and return the result of the storage. An attempt emits its output to the readers
 * of this process itself, and a worker claims its next runs itself, so these changes are sent to other processes only.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
function createPublishingOperations(storage: Storage, { publish }: EventBus): Partial<Storage> {
  /**
   * Publishes the thread of a created run, the runs that it stopped, and `deliveries` if one of them ended. It publishes no
   * `work`: the worker that creates the run does so if it has no slot for it.
   */
  function publishCreated(deployment: string, { run, stopped }: CreatedRun): void {
    publish("thread", run.thread_id);
    for (const { run_id } of stopped) publish("run", run_id);
    if (stopped.some(({ kind }) => kind === "ended")) publish("deliveries", deployment);
  }

  return {
    /** Publishes the thread of a created run and the runs that it stopped. Returns the result of the storage. */
    async createRun(scope, request) {
      const result = await storage.createRun(scope, request);
      if (result.kind === "created") publishCreated(scope.deployment, result);
      return result;
    },
    /** Publishes the threads of all created runs. Returns the result of the storage. */
    async createRuns(scope, requests) {
      const result = await storage.createRuns(scope, requests);
      if (result.kind === "created") {
        for (const created of result.created) publishCreated(scope.deployment, created);
      }
      return result;
    },
    /** Publishes the thread of a run that the cron created, and the runs that it stopped. Returns the result of the storage. */
    async fireCron(scope, fire) {
      const result = await storage.fireCron(scope, fire);
      if (result.kind === "fired") publishCreated(scope.deployment, result.created);
      return result;
    },
    /**
     * Publishes the stopped runs, their threads and `work`, and `deliveries` if one of them ended. Publishes nothing if none
     * was stopped. Returns the stopped runs.
     */
    // biome-ignore lint/complexity/useMaxParams: the operation of Storage has these parameters
    async stopRuns(scope, target, action, now, reason) {
      const stopped = await storage.stopRuns(scope, target, action, now, reason);
      for (const { run_id, thread_id } of stopped) {
        publish("run", run_id);
        publish("thread", thread_id);
      }
      if (stopped.length > 0) publish("work", scope.deployment);
      if (stopped.some(({ kind }) => kind === "ended")) publish("deliveries", scope.deployment);
      return stopped;
    },
    /** Returns the result of the storage. If it is `deleted`, publishes the run, its thread and the work of the deployment. */
    async deleteRun(scope, thread_id, run_id, now) {
      const result = await storage.deleteRun(scope, thread_id, run_id, now);
      if (result === "deleted") {
        publish("run", run_id);
        publish("thread", thread_id);
        publish("work", scope.deployment);
      }
      return result;
    },
    /** Publishes the thread if it exists, because its metadata decides who sees it. Returns the result of the storage. */
    async updateThread(scope, thread_id, next, now) {
      const updated = await storage.updateThread(scope, thread_id, next, now);
      // Its metadata decides who sees it.
      if (updated) publish("thread", thread_id);
      return updated;
    },
    /** Publishes a deleted thread, and `work`, because its lock is gone. Returns the result of the storage. */
    async deleteThread(scope, thread_id) {
      const deleted = await storage.deleteThread(scope, thread_id);
      if (deleted) {
        // Processes that execute or read its runs are notified, too.
        publish("thread", thread_id);
        publish("work", scope.deployment);
      }
      return deleted;
    },
    /** Publishes each pruned thread. Returns their ids. */
    async pruneThreads(scope, target, now) {
      const pruned = await storage.pruneThreads(scope, target, now);
      for (const thread_id of pruned) publish("thread", thread_id);
      return pruned;
    },
    /**
     * Publishes stored frames and events to other processes, if the lease was not lost. This process has emitted them already.
     * Returns the result of the storage.
     */
    async saveProgress(scope, lease, progress, now) {
      const saved = await storage.saveProgress(scope, lease, progress, now);
      if (saved && progress.frames) publish("run", lease.run_id, "elsewhere");
      if (saved && progress.events) publish("events", lease.thread_id, "elsewhere");
      return saved;
    },
    /**
     * Publishes the thread of an ended run; to other processes also the run, `deliveries` if it may have any, and `work` if
     * other runs may wait. Publishes nothing if the lease was lost. Returns the result of the storage.
     */
    async finishRun(scope, lease, finish) {
      const result = await storage.finishRun(scope, lease, finish);
      if (!result) return result;
      publish("run", lease.run_id, "elsewhere");
      publish("thread", lease.thread_id);
      if (finish.features?.includes("webhooks") ?? true) publish("deliveries", scope.deployment, "elsewhere");
      // A worker that found no next run has looked at all threads. One that took a run of another thread leaves this one to the others.
      const mayLeaveRuns = finish.next ? result.next !== null && result.next.lease.thread_id !== lease.thread_id : true;
      if (finish.has_waiting_runs && mayLeaveRuns) publish("work", scope.deployment, "elsewhere");
      return result;
    },
    /** Publishes `work` unless the lease was lost, so that a worker claims the run. Returns the result of the storage. */
    async requeueRun(scope, lease, now, trace) {
      const requeued = await storage.requeueRun(scope, lease, now, trace);
      if (requeued) publish("work", scope.deployment);
      return requeued;
    },
    /**
     * Publishes stored frames and events to other processes, and `work` if the run is due already. Publishes nothing if the
     * lease was lost. Returns the result of the storage.
     */
    async suspendRun(scope, lease, suspension, now) {
      const suspended = await storage.suspendRun(scope, lease, suspension, now);
      if (suspended && suspension.progress.frames) publish("run", lease.run_id, "elsewhere");
      if (suspended && suspension.progress.events) publish("events", lease.thread_id, "elsewhere");
      if (suspended && suspended.due_at <= now) publish("work", scope.deployment);
      return suspended;
    },
    /**
     * Publishes the thread of a stored event, and `work`, because the event makes a run due. Returns the result of the storage.
     */
    async addCallEvent(scope, to, event, now) {
      const stored = await storage.addCallEvent(scope, to, event, now);
      if (stored) {
        publish("thread", to.thread_id);
        publish("work", scope.deployment);
      }
      return stored;
    },
    /** Publishes `work`, even if there was no lock, because runs may wait for the thread. */
    async releaseThreadLock(scope, lease) {
      await storage.releaseThreadLock(scope, lease);
      publish("work", scope.deployment);
    },
    /** Publishes `deliveries` if the delivery is due now. Returns the result of the storage. */
    async redeliver(scope, delivery_id, now) {
      const isDue = await storage.redeliver(scope, delivery_id, now);
      if (isDue) publish("deliveries", scope.deployment);
      return isDue;
    },
    /** Publishes `deliveries`, even if the task has no push configuration. */
    async notifyCancelled(scope, key, now) {
      await storage.notifyCancelled(scope, key, now);
      publish("deliveries", scope.deployment);
    },
  };
}
