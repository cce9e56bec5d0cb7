/** Clock, timers, randomness and log: everything that a test or a simulation must control. */
export interface Environment {
  /** Milliseconds since 1970. */
  now(): number;
  /** Milliseconds by a clock that is never set. Default: `now`. */
  monotonic?(): number;
  /** Calls `fn` once after `ms`; the result cancels it. A pending timer does not keep the process alive. */
  timer(ms: number, fn: () => void): () => void;
  /** Calls `fn` in the next tick of the event loop: a macrotask, not a microtask. */
  defer(fn: () => void): void;
  /** A number in [0, 1). */
  random(): number;
  /** A random UUID (version 4). */
  uuid(): string;
  /** Writes one log record. */
  log(record: LogRecord): void;
  /** Keeps the process alive while a caller waits. Without it, only the host's own handles do. */
  readonly keepAlive?: KeepAlive;
  /** The runtime and its version, such as `Node.js/24`. */
  readonly runtime?: string;
  /** Frees memory that is not used any more, at once. Does nothing where the runtime has no way to ask for it. */
  collectGarbage?(): void;
}

/** The process stays alive while calls of `acquire` outnumber those of `release`. */
export interface KeepAlive {
  acquire(): void;
  release(): void;
}

/**
 * A log record: `level`, a constant `message`, and fields such as `request_id`, `run_id` and `thread_id`. It never holds secrets or
 * user data, except in the errors of agents. The library writes no `debug` records.
 */
export interface LogRecord {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly [field: string]: unknown;
}

/**
 * Returns a UUID of version 7: its first digits are `now`, so that what is made together lies together in indexes. The rest is
 * random.
 */
export function uuidV7(environment: Pick<Environment, "now" | "uuid">, now: number = environment.now()): string {
  const time = Math.floor(now).toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${environment.uuid().slice(15)}`;
}

/** Returns the UUID of version 5 of a name in the namespace of another UUID. Equal arguments always give the same UUID. */
export async function uuidV5(namespace: string, name: string): Promise<string> {
  const space = namespace.replaceAll("-", "").match(/../g) ?? [];
  const prefix = space.map((pair) => Number.parseInt(pair, 16));
  const bytes = new Uint8Array([...prefix, ...new TextEncoder().encode(name)]);
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-1", bytes)).slice(0, 16);
  hash[6] = ((hash[6] as number) & 0x0f) | 0x50;
  hash[8] = ((hash[8] as number) & 0x3f) | 0x80;
  const hex = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** Resolves after `ms`. */
export const pause = (environment: Pick<Environment, "timer">, ms: number): Promise<void> =>
  new Promise((resolve) => void environment.timer(ms, resolve));

/**
 * Keeps the process alive until the promise settles or the returned function is called, whichever is first. Does nothing
 * without `keepAlive`.
 */
export function keepAliveUntil(keepAlive: KeepAlive | undefined, promise: Promise<unknown>): () => void {
  if (!keepAlive) return () => {};
  let isHeld = true;
  /** Releases the process at the first call; later calls have no effect. */
  const release = (): void => {
    if (isHeld) keepAlive.release();
    isHeld = false;
  };
  keepAlive.acquire();
  promise.then(release, release);
  return release;
}

/** Resolves in the next tick of the event loop. */
export const waitForNextTick = (environment: Pick<Environment, "defer">): Promise<void> =>
  new Promise((resolve) => environment.defer(resolve));

/**
 * Returns a function that is true once the event loop has not ticked for `ms`, measured from the first call that finds no recent
 * tick. All callers share one measurement, so that it may be called for each token.
 */
export function createLoopStallDetector(environment: Pick<Environment, "now" | "defer">, ms: number): () => boolean {
  let tickedAt = environment.now();
  let watchedFrom: number | null = null;
  return () => {
    const now = environment.now();
    if (watchedFrom !== null) return now - watchedFrom >= ms;
    if (Math.abs(now - tickedAt) < ms) return false;
    watchedFrom = now;
    environment.defer(() => {
      watchedFrom = null;
      tickedAt = environment.now();
    });
    return false;
  };
}

/**
 * A limit of work per tick of the event loop: work that never waits would delay every other request. Calls above the limit wait,
 * first come, first served.
 */
export interface TickBudget {
  /** Counts work that was done in this tick. */
  spend(cost: number): void;
  isReached(): boolean;
  /** Calls `fn` in a later tick that has room. Call it only while `isReached` returns true: otherwise no such tick is scheduled. */
  wait(fn: () => void): void;
  /** Resolves once less than the limit is spent in a tick, first come, first served, and adds the cost, also above the limit. */
  waitForRoom(cost: number): Promise<void>;
}

/**
 * Creates a budget that all callers share: `limit` units per tick of the event loop. Waiting work continues in later ticks, first
 * come, first served.
 */
export function createTickBudget(environment: Pick<Environment, "defer">, limit: number): TickBudget {
  const waiting: { readonly cost: number; readonly resume: () => void }[] = [];
  let spentCost = 0;
  let scheduled = false;

  /**
   * Resets the spent cost in the next tick, and lets waiting work in, in order, as far as the limit allows. Does nothing if
   * that is scheduled already.
   */
  function schedule(): void {
    if (scheduled) return;
    scheduled = true;
    environment.defer(() => {
      scheduled = false;
      spentCost = 0;
      while (spentCost < limit) {
        const next = waiting.shift();
        if (!next) return;
        spend(next.cost);
        next.resume();
      }
      if (waiting.length > 0) schedule();
    });
  }

  /** Adds the cost, also above the limit. From half of the limit on, it is reset in the next tick. */
  function spend(cost: number): void {
    spentCost += cost;
    // A call of `defer` in every tick would cost more than most work.
    if (spentCost >= limit / 2) schedule();
  }

  return {
    spend,
    isReached: () => spentCost >= limit,
    wait: (resume) => void waiting.push({ cost: 0, resume }),
    async waitForRoom(cost) {
      if (spentCost < limit) spend(cost);
      else await new Promise<void>((resume) => void waiting.push({ cost, resume }));
    },
  };
}

/**
 * Returns a function that shares calls: callers with the same key share the promise of a call that has not begun. `begin`
 * resolves when there is room for the call. `keep` gets a function that ends the sharing, also of a rejected call; by default
 * it ends when the call begins.
 */
export function coalesceCalls(
  begin: (cost: number) => Promise<void> = async () => {},
  keep: (forget: () => void) => void = (forget) => forget(),
): <Result>(key: string, cost: number, call: () => Promise<Result>) => Promise<Result> {
  const calls = new Map<string, Promise<unknown>>();
  return <Result>(key: string, cost: number, call: () => Promise<Result>): Promise<Result> => {
    const pendingCall = calls.get(key) as Promise<Result> | undefined;
    if (pendingCall) return pendingCall;
    const promise = begin(cost).then(() => {
      keep(() => calls.delete(key));
      return call();
    });
    calls.set(key, promise);
    return promise;
  };
}

/**
 * Returns functions with these names, whose code the first call loads; later calls add no promise. A failed load rejects the
 * calls that waited, and the next call loads again.
 */
export function createLazyModule<Calls extends object>(
  names: Readonly<Record<keyof Calls, boolean>>,
  load: () => Promise<Calls>,
): Calls {
  let loaded: Calls | undefined;
  let loading: Promise<Calls> | undefined;

  /** Loads the module, keeps it in `loaded`, and returns it. A failed load rejects and is not kept. */
  async function loadAndKeep(): Promise<Calls> {
    try {
      loaded = await load();
      return loaded;
    } finally {
      // After a failure the next call tries again.
      loading = undefined;
    }
  }

  /**
   * Returns a function that calls this function of the module. It returns a promise until the module is loaded, then the result
   * itself.
   */
  const lazy = (name: string) => {
    const call = (calls: Calls, args: readonly unknown[]): unknown =>
      (calls as Record<string, (...args: readonly unknown[]) => unknown>)[name]?.(...args);
    return (...args: readonly unknown[]): unknown => {
      if (loaded) return call(loaded, args);
      loading ??= loadAndKeep();
      return loading.then((calls) => call(calls, args));
    };
  };
  return Object.fromEntries(Object.keys(names).map((name) => [name, lazy(name)])) as Calls;
}

/** A limit of what is used at the same time. */
export interface WeightedSemaphore {
  /** Resolves when there is room, first come, first served. The returned function gives it back, and must be called once. */
  acquire(size: number): Promise<() => void>;
}

/**
 * Creates a semaphore with `limit` units, first come, first served: a large request at the front holds up smaller ones. A
 * request above the limit waits until nothing else is in use.
 */
export function createSemaphore(limit: number): WeightedSemaphore {
  const waiting: { readonly size: number; readonly resume: () => void }[] = [];
  let usedSize = 0;

  /**
   * Lets waiting requests in, in order, while they fit. One that is larger than the limit gets in when nothing else is in use.
   */
  function admit(): void {
    for (let next = waiting[0]; next && (usedSize === 0 || usedSize + next.size <= limit); next = waiting[0]) {
      waiting.shift();
      usedSize += next.size;
      next.resume();
    }
  }

  return {
    async acquire(size) {
      await new Promise<void>((resume) => {
        waiting.push({ size, resume });
        admit();
      });
      return () => {
        usedSize -= size;
        admit();
      };
    },
  };
}

/**
 * Settles as `work` does. After `ms` it rejects with `timeoutResult` if that is an Error, else resolves with it; `work`
 * continues, and its later result is ignored.
 */
export function withTimeout<Value>(
  environment: Pick<Environment, "timer">,
  ms: number,
  work: Promise<Value>,
  timeoutResult: Value | Error,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const cancel = environment.timer(ms, () =>
      timeoutResult instanceof Error ? reject(timeoutResult) : resolve(timeoutResult),
    );
    work.then(resolve, reject).finally(cancel);
  });
}

/** Creates a counter whose timer keeps the event loop alive while it is above zero. */
function createKeepAlive(): KeepAlive {
  let count = 0;
  let timer: unknown;
  return {
    acquire() {
      if (count++ === 0) timer = setInterval(() => {}, MAX_TIMER_MS);
    },
    release() {
      if (--count === 0) clearInterval(timer as number);
    },
  };
}

const MAX_TIMER_MS = 2 ** 31 - 1;

interface CollectingRuntime {
  readonly Bun?: { gc(isSynchronous: boolean): void };
  readonly process?: { getBuiltinModule?(name: string): unknown };
}

/**
 * Returns a function that frees memory at once, on Bun and Node; undefined elsewhere and if that fails. Node has no function
 * for it, so V8 is set to expose its own for a moment.
 */
function findCollector(): (() => void) | undefined {
  const { Bun, process } = globalThis as CollectingRuntime;
  if (Bun) return () => Bun.gc(true);
  const v8 = process?.getBuiltinModule?.("node:v8") as { setFlagsFromString(flags: string): void } | undefined;
  const vm = process?.getBuiltinModule?.("node:vm") as { runInNewContext(code: string): unknown } | undefined;
  if (!v8 || !vm) return undefined;
  try {
    v8.setFlagsFromString("--expose-gc");
    const collect: unknown = vm.runInNewContext("gc");
    // Other contexts do not get it.
    v8.setFlagsFromString("--no-expose-gc");
    return typeof collect === "function" ? () => void collect() : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns the real clock, timers and randomness. Timers do not keep the process alive. Log records go to the console as one JSON
 * line each.
 */
export function systemEnvironment(): Environment {
  const immediate = (globalThis as { setImmediate?: (fn: () => void) => unknown }).setImmediate;
  const runtime = (globalThis as { navigator?: { readonly userAgent?: string } }).navigator?.userAgent;
  let collect: (() => void) | undefined;
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    timer(ms, fn) {
      const id = setTimeout(fn, ms) as unknown;
      (id as { unref?: () => void }).unref?.();
      return () => clearTimeout(id as number);
    },
    defer: immediate ? (fn) => void immediate(fn) : (fn) => void setTimeout(fn, 0),
    random: () => Math.random(),
    uuid: () => crypto.randomUUID(),
    keepAlive: createKeepAlive(),
    ...(runtime === undefined ? {} : { runtime }),
    collectGarbage() {
      // Found with the first large body: Node makes a context of its own for it.
      collect ??= findCollector() ?? (() => {});
      collect();
    },
    /** Writes the record as one line of JSON: `debug` and `info` by `console.info`, other levels by `console.error`. */
    log(record) {
      const line = formatLogLine(record, Date.now());
      if (record.level === "debug" || record.level === "info") console.info(line);
      else console.error(line);
    },
  };
}

/**
 * Returns a log record as one line of JSON, with errors as name, message and stack. A record that JSON cannot represent keeps
 * only time, level and message.
 */
function formatLogLine(record: LogRecord, now: number): string {
  const { level, message } = record;
  const time = new Date(now).toISOString();
  try {
    return JSON.stringify({ time, ...record }, (_key, value: unknown) =>
      value instanceof Error ? { name: value.name, message: value.message, stack: value.stack } : value,
    );
  } catch {
    return JSON.stringify({ time, level, message });
  }
}

/** Returns a log that never throws: errors of `log` are ignored, because a failing log must not fail anything else. */
export const createSafeLog =
  (log: Environment["log"]): Environment["log"] =>
  (record) => {
    try {
      log(record);
    } catch {
      // The only place to report it would be this log.
    }
  };
