/**
 * The event bus of a process: it says that something has changed, never what. Its listeners read the store. Signals carry the
 * same between processes that share a database.
 */
import type { Environment } from "../environment.ts";
import type { CreatedRun, SignalKind, Signals, Storage } from "./mod.ts";

/** Where a change happened. `unknown`: news may have been missed, so everything must be read again; it comes without an id. */
export type Origin = "here" | "elsewhere" | "unknown";

export type BusListener = (id: string | undefined, from: Origin) => void;

export interface Bus {
  /** Reaches listeners here in a later tick, once even if it was published twice. Default: `to` both. Never throws. */
  publish(kind: SignalKind, id: string, to?: "here" | "elsewhere"): void;
  /** The changes of one id, or of all. The result unsubscribes. */
  on(kind: SignalKind, id: string | null, listener: BusListener): () => void;
  /** Everything may have changed: calls all listeners at once. */
  checkAll(): void;
  /** Begins to hear other processes. */
  connect(): void;
  /** Hears no other process any more, and calls all listeners for the last time. */
  close(): void;
}

/** `origin` goes out with each id, as `<id>@<origin>`: a process does not hear its own signals. */
export function createBus(signals: Signals | undefined, origin: string, environment: Pick<Environment, "defer">): Bus {
  /** By kind and id; those of null hear all changes of the kind. */
  const listeners = new Map<SignalKind, Map<string | null, Set<BusListener>>>();
  let due = new Map<SignalKind, Set<string>>();
  let disconnect = (): void => {};

  function tell(kind: SignalKind, id: string, from: Origin): void {
    const ofKind = listeners.get(kind);
    const [all, own] = [ofKind?.get(null), ofKind?.get(id)];
    if (all) for (const listener of [...all]) listener(id, from);
    if (own) for (const listener of [...own]) listener(id, from);
  }

  function deliver(): void {
    const all = due;
    due = new Map();
    for (const [kind, ids] of all) for (const id of ids) tell(kind, id, "here");
  }

  function heard(kind: SignalKind, tagged: string): void {
    const at = tagged.lastIndexOf("@");
    if (at < 0) tell(kind, tagged, "elsewhere");
    else if (tagged.slice(at + 1) !== origin) tell(kind, tagged.slice(0, at), "elsewhere");
  }

  function checkAll(): void {
    const all = [...listeners.values()].flatMap((ofKind) => [...ofKind.values()]).flatMap((own) => [...own]);
    for (const listener of all) listener(undefined, "unknown");
  }

  return {
    publish(kind, id, to) {
      if (to !== "here") signals?.publish(kind, `${id}@${origin}`);
      if (to === "elsewhere") return;
      if (due.size === 0) environment.defer(deliver);
      const ids = due.get(kind);
      if (ids) ids.add(id);
      else due.set(kind, new Set([id]));
    },
    on(kind, id, listener) {
      const ofKind = listeners.get(kind) ?? new Map<string | null, Set<BusListener>>();
      listeners.set(kind, ofKind);
      const own = ofKind.get(id) ?? new Set();
      ofKind.set(id, own.add(listener));
      return () => {
        own.delete(listener);
        if (own.size === 0 && ofKind.get(id) === own) ofKind.delete(id);
      };
    },
    checkAll,
    connect() {
      disconnect = signals?.subscribe({ heard, missed: checkAll }) ?? disconnect;
    },
    close() {
      disconnect();
      checkAll();
    },
  };
}

/** Wraps a storage: each verb that succeeds publishes what has changed. */
export function withBus(storage: Storage, bus: Bus): Storage {
  const members = new Map<PropertyKey, unknown>(Object.entries(publishing(storage, bus)));
  return new Proxy(storage, {
    get(target, name) {
      if (members.has(name)) return members.get(name);
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      const verb: unknown = value.bind(target);
      members.set(name, verb);
      return verb;
    },
  });
}

/**
 * The verbs that mean something to listeners. An attempt shows its readers here what it stores, and a worker claims by itself what
 * is left to it: only other processes hear of that.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
function publishing(storage: Storage, { publish }: Bus): Partial<Storage> {
  /** The creating worker announces waiting runs itself, when it has no slot for them. */
  function made(deployment: string, { run, stopped }: CreatedRun): void {
    publish("thread", run.thread_id);
    for (const { run_id } of stopped) publish("run", run_id);
    if (stopped.some(({ kind }) => kind === "ended")) publish("deliveries", deployment);
  }

  return {
    async createRun(scope, request) {
      const outcome = await storage.createRun(scope, request);
      if (outcome.kind === "created") made(scope.deployment, outcome);
      return outcome;
    },
    async createRuns(scope, requests) {
      const outcome = await storage.createRuns(scope, requests);
      if (outcome.kind === "created") {
        for (const created of outcome.created) made(scope.deployment, created);
      }
      return outcome;
    },
    async fireCron(scope, fire) {
      const outcome = await storage.fireCron(scope, fire);
      if (outcome.kind === "fired") made(scope.deployment, outcome.created);
      return outcome;
    },
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
    async deleteRun(scope, thread_id, run_id, now) {
      const outcome = await storage.deleteRun(scope, thread_id, run_id, now);
      if (outcome === "deleted") {
        publish("run", run_id);
        publish("thread", thread_id);
        publish("work", scope.deployment);
      }
      return outcome;
    },
    async updateThread(scope, thread_id, next, now) {
      const updated = await storage.updateThread(scope, thread_id, next, now);
      // Its metadata decides who sees it.
      if (updated) publish("thread", thread_id);
      return updated;
    },
    async deleteThread(scope, thread_id) {
      const deleted = await storage.deleteThread(scope, thread_id);
      if (deleted) {
        // Whoever executes or reads its runs hears it, too.
        publish("thread", thread_id);
        publish("work", scope.deployment);
      }
      return deleted;
    },
    async pruneThreads(scope, target, now) {
      const pruned = await storage.pruneThreads(scope, target, now);
      for (const thread_id of pruned) publish("thread", thread_id);
      return pruned;
    },
    async saveProgress(scope, lease, progress, now) {
      const saved = await storage.saveProgress(scope, lease, progress, now);
      if (saved && progress.frames) publish("run", lease.run_id, "elsewhere");
      if (saved && progress.events) publish("events", lease.thread_id, "elsewhere");
      return saved;
    },
    async finishRun(scope, lease, finish) {
      const outcome = await storage.finishRun(scope, lease, finish);
      if (!outcome) return outcome;
      publish("run", lease.run_id, "elsewhere");
      publish("thread", lease.thread_id);
      if (finish.features?.includes("webhooks") ?? true) publish("deliveries", scope.deployment, "elsewhere");
      // Who looked for the next run and found none has looked for all. Who took another thread's leaves this one to the others.
      const left = finish.next ? outcome.next !== null && outcome.next.lease.thread_id !== lease.thread_id : true;
      if (finish.waiting && left) publish("work", scope.deployment, "elsewhere");
      return outcome;
    },
    async requeueRun(scope, lease, now) {
      const requeued = await storage.requeueRun(scope, lease, now);
      if (requeued) publish("work", scope.deployment);
      return requeued;
    },
    async suspendRun(scope, lease, suspension, now) {
      const suspended = await storage.suspendRun(scope, lease, suspension, now);
      if (suspended && suspension.progress.frames) publish("run", lease.run_id, "elsewhere");
      if (suspended && suspension.progress.events) publish("events", lease.thread_id, "elsewhere");
      if (suspended && suspended.due_at <= now) publish("work", scope.deployment);
      return suspended;
    },
    async addCallEvent(scope, to, event, now) {
      const stored = await storage.addCallEvent(scope, to, event, now);
      if (stored) {
        publish("thread", to.thread_id);
        publish("work", scope.deployment);
      }
      return stored;
    },
    async releaseSlot(scope, lease) {
      await storage.releaseSlot(scope, lease);
      publish("work", scope.deployment);
    },
    async redeliver(scope, delivery_id, now) {
      const due = await storage.redeliver(scope, delivery_id, now);
      if (due) publish("deliveries", scope.deployment);
      return due;
    },
    async tellCancelled(scope, key, now) {
      await storage.tellCancelled(scope, key, now);
      publish("deliveries", scope.deployment);
    },
  };
}
