/** Decides whether a response that stays open may continue: its caller must still have access and see the thread. */
import type { Environment } from "../environment.ts";
import { notFoundError, type ServiceError } from "../errors.ts";
import type { EventBus } from "../storage/event-bus.ts";
import type { Scope, Storage } from "../storage/mod.ts";
import { createReader, type Reader } from "./log.ts";

/** The authorization of a response that stays open. */
export interface AccessGrant {
  /** The scope of the rows that the caller sees. */
  readonly scope: Scope;
  /** Resolves to the reason once the caller has lost access, else to null. Absent if the access cannot change. */
  findRevocation?(): Promise<ServiceError | null>;
}

/** The thread that a response reads. */
export interface GuardedThread {
  readonly thread_id: string;
  /** True if the caller has just created the thread, perhaps with metadata that excludes it. Such a response continues. */
  readonly is_new?: boolean;
}

/** Guards one open response. */
export interface StreamGuard {
  /** Resolves to false once the response must end. Await it before each emit. Throws if the thread cannot be read. */
  mayContinue(): Promise<boolean>;
  /** Stops the checks. */
  close(): void;
}

/** A result that is awaited. */
interface PendingResult {
  readonly run: { readonly run_id: string };
  readonly result: Promise<unknown>;
  leave(): void;
}

/**
 * Called once, within 3 s of the loss. Null means that the filter excludes the thread now. A deleted thread ends its streams
 * separately.
 */
type OnLost = (revocation: ServiceError | null) => void;

export interface StreamGuards {
  /** Returns undefined if the access cannot be lost. */
  open(grant: AccessGrant, thread: GuardedThread | undefined, onLost: OnLost): StreamGuard | undefined;
  /**
   * Wraps `reader`. Its `next()` leaves and throws the revocation once the caller loses access, and returns nothing once the
   * thread is excluded. Returns `reader` itself if the access cannot be lost.
   */
  reader<Item>(grant: AccessGrant, reader: Reader<Item>, thread?: GuardedThread): Reader<Item>;
  /**
   * Returns a copy of a pending result that rejects with the revocation once the caller loses access, and with `not_found` once
   * the thread is excluded. Returns `pending` itself if the access cannot be lost.
   */
  result<Pending extends PendingResult>(grant: AccessGrant, pending: Pending, thread?: GuardedThread): Pending;
}

interface StreamGuardOptions {
  readonly storage: Pick<Storage, "getThread">;
  readonly bus: EventBus;
  readonly environment: Pick<Environment, "now" | "timer">;
}

/**
 * The interval between two checks, in milliseconds. A stream ends within 3 s, because look-ups of one key are shared for half a
 * second.
 */
const RECHECK_INTERVAL_MS = 2_000;
/** The maximum age of a check when something of the thread is emitted, in milliseconds. */
const MAX_CHECK_AGE_MS = 1_000;

/**
 * Creates the guards, which end open responses when their callers lose access. Responses with the same thread and filter share a
 * watch.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createStreamGuards(options: StreamGuardOptions): StreamGuards {
  const watches = new Map<string, VisibilityWatch>();

  /** Returns the watch of a thread, which all responses with one filter share. Starts one if there is none. */
  function watchVisibility(scope: Scope, thread_id: string): VisibilityWatch {
    const key = JSON.stringify([thread_id, scope.filter]);
    const existing = watches.get(key);
    if (existing) return existing;
    const watch = new VisibilityWatch(options, scope, thread_id, () => watches.delete(key));
    watches.set(key, watch);
    return watch;
  }

  /**
   * Opens a guard. Returns undefined if the grant can neither be revoked nor has a filter. A new thread is watched once it
   * exists.
   */
  const open: StreamGuards["open"] = (grant, thread, onLost) => {
    const filtered = grant.scope.filter ? thread : undefined;
    if (!grant.findRevocation && !filtered) return undefined;
    const guard = new ResponseGuard(onLost);
    if (grant.findRevocation) guard.recheck(options.environment, grant.findRevocation);
    if (!filtered) return guard;
    const { thread_id, is_new = false } = filtered;
    const watch = (): void => guard.watch(() => watchVisibility(grant.scope, thread_id));
    if (is_new) options.storage.getThread(grant.scope, thread_id).then((row) => row && watch(), watch);
    else watch();
    return guard;
  };

  return {
    open,
    reader(grant, reader, thread) {
      let revocation: ServiceError | null = null;
      const guard = open(grant, thread, (reason) => {
        revocation = reason;
        reader.leave();
      });
      if (!guard) return reader;
      /** Closes the guard and ends the subscription. A second call has no effect. */
      const closeAndLeave = (): void => {
        guard.close();
        reader.leave();
      };
      return createReader(async () => {
        try {
          const items = await reader.next();
          if (items.length > 0 && (await guard.mayContinue())) return items;
        } catch (error) {
          closeAndLeave();
          throw error;
        }
        closeAndLeave();
        if (revocation) throw revocation;
        return [];
      }, closeAndLeave);
    },
    result(grant, pending, thread) {
      // A waiting caller must not refer to the run, because its input may be large.
      const { result: unguarded, leave: leaveUnguarded } = pending;
      const { run_id } = pending.run;
      const loss = Promise.withResolvers<never>();
      const guard = open(grant, thread, (reason) => loss.reject(reason ?? notFoundError("run", run_id)));
      if (!guard) return pending;
      /**
       * Resolves with the value of the result, if the caller may still see it then. Rejects with the reason as soon as the access
       * is lost, or with the error of the result. Closes the guard at the end.
       */
      async function guarded(waiting: StreamGuard): Promise<unknown> {
        try {
          const value = await Promise.race([unguarded, loss.promise]);
          return (await waiting.mayContinue()) ? value : await loss.promise;
        } finally {
          waiting.close();
        }
      }
      const result = guarded(guard);
      // After the caller has left, nothing else handles its rejection.
      result.catch(() => {});
      /** Closes the guard, and then leaves the result as its `leave` does. */
      const closeAndLeave = (): void => {
        guard.close();
        leaveUnguarded();
      };
      return { ...pending, result, leave: closeAndLeave };
    },
  };
}

/** Guards one response by its grant, its thread, or both. */
class ResponseGuard implements StreamGuard {
  readonly #onLost: OnLost;
  #isLost = false;
  #isClosed = false;
  #cancelRecheck = (): void => {};
  #watch: VisibilityWatch | undefined;
  readonly #onExcluded = (): void => this.#lose(null);

  constructor(onLost: OnLost) {
    this.#onLost = onLost;
  }

  /**
   * Repeats the check of the grant after each interval until the guard is closed. A revocation closes the guard and calls
   * `onLost`.
   */
  recheck(environment: Pick<Environment, "timer">, findRevocation: () => Promise<ServiceError | null>): void {
    this.#cancelRecheck = environment.timer(RECHECK_INTERVAL_MS, () => {
      void findRevocation().then((revocation) => {
        if (this.#isClosed) return;
        if (revocation) this.#lose(revocation);
        else this.recheck(environment, findRevocation);
      });
    });
  }

  /** Adds the watch of the thread, unless the guard is closed. */
  watch(find: () => VisibilityWatch): void {
    if (this.#isClosed) return;
    this.#watch = find();
    this.#watch.listeners.add(this.#onExcluded);
  }

  /**
   * Resolves to false once the grant was revoked or the thread is no longer visible to the caller. Checks the thread again first,
   * if the last check is old or the thread has changed. Rejects if it cannot be read.
   */
  async mayContinue(): Promise<boolean> {
    if (!this.#isLost && this.#watch) await this.#watch.check();
    return !this.#isLost;
  }

  /** Ends the guard and its checks. */
  close(): void {
    this.#isClosed = true;
    this.#cancelRecheck();
    this.#watch?.leave(this.#onExcluded);
  }

  /** Closes the guard and reports the loss, once. `revocation` is null if the thread is excluded. */
  #lose(revocation: ServiceError | null): void {
    if (this.#isClosed) return;
    this.#isLost = true;
    this.close();
    this.#onLost(revocation);
  }
}

/** Checks that a filter still includes a thread, for all responses with that filter. */
class VisibilityWatch {
  readonly listeners: Set<() => void> = new Set();
  readonly #options: StreamGuardOptions;
  readonly #scope: Scope;
  readonly #thread_id: string;
  readonly #onClosed: () => void;
  readonly #unsubscribe: () => void;
  #checkedAt: number;
  /** The number of changes of the thread. A check that began before the last one does not count. */
  #changes = 0;
  #checking: Promise<void> | undefined;
  #cancelTimer = (): void => {};
  #isClosed = false;

  /** Subscribes to the changes of the thread, and starts the checks. `onClose` is called once, when the watch ends. */
  constructor(options: StreamGuardOptions, scope: Scope, thread_id: string, onClose: () => void) {
    this.#options = options;
    this.#scope = scope;
    this.#thread_id = thread_id;
    this.#onClosed = onClose;
    this.#checkedAt = options.environment.now();
    this.#unsubscribe = options.bus.subscribe("thread", thread_id, () => {
      this.#changes++;
      this.#checkedAt = Number.NEGATIVE_INFINITY;
    });
    this.#scheduleCheck();
  }

  /** Resolves once the thread was checked recently, or the listeners have been called. Throws if it cannot be read. */
  async check(): Promise<void> {
    // A running check may have read the thread before its last change.
    if (this.#isDue()) await this.#checking;
    if (this.#isDue()) await this.#readOnce();
  }

  /** Removes the listener. The watch ends with the last one. */
  leave(listener: () => void): void {
    this.listeners.delete(listener);
    if (this.listeners.size === 0) this.#close();
  }

  #isDue(): boolean {
    return !this.#isClosed && Math.abs(this.#options.environment.now() - this.#checkedAt) >= MAX_CHECK_AGE_MS;
  }

  /**
   * Reads the thread, and ends the watch with a call of its listeners if the filter excludes it. A deleted thread does not count as
   * excluded. Concurrent calls share a read, and its rejection if the storage cannot be read.
   */
  #readOnce(): Promise<void> {
    this.#checking ??= this.#read().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  /**
   * Reads the thread. If it exists and the filter excludes it, all responses lose it; a deleted thread does not count. Otherwise
   * notes the time of the check, unless the thread has changed during it.
   */
  async #read(): Promise<void> {
    const { storage, environment } = this.#options;
    const { filter: _, ...unfiltered } = this.#scope;
    const [changes, now] = [this.#changes, environment.now()];
    const isVisible = await storage.getThread(this.#scope, this.#thread_id);
    if (!isVisible && (await storage.getThread(unfiltered, this.#thread_id))) this.#exclude();
    else if (changes === this.#changes) this.#checkedAt = now;
  }

  /** Ends the watch and tells all listeners that the thread is no longer visible. */
  #exclude(): void {
    const listeners = [...this.listeners];
    this.#close();
    for (const onExcluded of listeners) onExcluded();
  }

  /** Checks at each interval until the watch is closed. A storage failure reveals nothing about the thread and is ignored. */
  #scheduleCheck(): void {
    this.#cancelTimer = this.#options.environment.timer(RECHECK_INTERVAL_MS, () => {
      // A storage failure reveals nothing about the thread.
      void this.#readOnce()
        .catch(() => {})
        .then(() => !this.#isClosed && this.#scheduleCheck());
    });
  }

  /** Stops checks and the subscription, and removes the watch from the shared ones. Works once. */
  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelTimer();
    this.#unsubscribe();
    this.#onClosed();
  }
}
