/** Announces successful storage verbs to other processes. */
import type { CreatedRun, Storage } from "./mod.ts";
import type { Signals } from "./signals.ts";

/**
 * Wraps the storage of one service: each verb that succeeds publishes its signals. The service does not receive its own signals,
 * which carry `origin`. A storage without signals is returned unchanged.
 */
export function signalling(storage: Storage, origin: string): Storage {
  if (!storage.signals) return storage;
  const signals = own(storage.signals, origin);
  const members = new Map<PropertyKey, unknown>(Object.entries({ signals, ...publishing(storage, signals) }));
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

/** Ids go out with who publishes them: `<id>@<origin>`. */
function own(signals: Signals, origin: string): Signals {
  return {
    publish: (kind, id) => signals.publish(kind, `${id}@${origin}`),
    subscribe: (listener) =>
      signals.subscribe({
        heard(kind, tagged) {
          const at = tagged.lastIndexOf("@");
          if (at < 0) listener.heard(kind, tagged);
          else if (tagged.slice(at + 1) !== origin) listener.heard(kind, tagged.slice(0, at));
        },
        missed: () => listener.missed(),
      }),
  };
}

/** The verbs that mean something to other processes. */
function publishing(storage: Storage, { publish }: Signals): Partial<Storage> {
  /** The creating worker announces waiting runs itself, when it has no slot for them. */
  function made(deployment: string, { run, stopped }: CreatedRun): void {
    publish("thread", run.thread_id);
    for (const { run_id } of stopped) publish("run", run_id);
    if (stopped.some(({ kind }) => kind === "ended")) publish("deliveries", deployment);
  }
  function gone(thread_ids: readonly string[]): void {
    for (const thread_id of thread_ids) publish("thread", thread_id);
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
    async deleteRun(scope, thread_id, run_id) {
      const outcome = await storage.deleteRun(scope, thread_id, run_id);
      if (outcome === "deleted") {
        publish("run", run_id);
        publish("thread", thread_id);
        publish("work", scope.deployment);
      }
      return outcome;
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
    async pruneThreads(scope, thread_ids, strategy, now) {
      const pruned = await storage.pruneThreads(scope, thread_ids, strategy, now);
      gone(pruned);
      return pruned;
    },
    async expireThreads(scope, now, limit) {
      const pruned = await storage.expireThreads(scope, now, limit);
      gone(pruned);
      return pruned;
    },
    async saveProgress(scope, lease, progress, now) {
      const saved = await storage.saveProgress(scope, lease, progress, now);
      if (saved && progress.frames) publish("run", lease.run_id);
      if (saved && progress.events) publish("events", lease.thread_id);
      return saved;
    },
    async finishRun(scope, lease, finish) {
      const outcome = await storage.finishRun(scope, lease, finish);
      if (!outcome) return outcome;
      publish("run", lease.run_id);
      publish("thread", lease.thread_id);
      if (finish.has_side_effects ?? true) publish("deliveries", scope.deployment);
      // Who looked for the next run and found none has looked for all. Who took another thread's leaves this one to the others.
      const left = finish.next ? outcome.next !== null && outcome.next.lease.thread_id !== lease.thread_id : true;
      if (finish.waiting && left) publish("work", scope.deployment);
      return outcome;
    },
    async requeueRun(scope, lease, now) {
      const requeued = await storage.requeueRun(scope, lease, now);
      if (requeued) publish("work", scope.deployment);
      return requeued;
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
  };
}
