/** Which callers still see the threads whose streams they have open. */
import type { Environment } from "../environment.ts";
import type { Bus } from "../storage/bus.ts";
import type { Scope, Storage } from "../storage/mod.ts";
import { createReader, type Reader } from "./log.ts";

interface SightOptions {
  readonly storage: Pick<Storage, "getThread">;
  readonly bus: Bus;
  readonly environment: Environment;
}

/** One reader's sight of a thread. */
export interface Sight {
  /** Before something is shown: false once the thread is hidden. */
  holds(): Promise<boolean>;
  close(): void;
}

export interface Sights {
  /**
   * For a caller who sees the thread now. `onHidden` is called once when it is hidden. A deleted thread hides nothing: its streams end
   * by themselves. Undefined for callers who see all threads.
   */
  open(scope: Scope, thread_id: string, onHidden: () => void): Sight | undefined;
  /**
   * The same items, which end when the thread is hidden. `made`: the caller may have created the thread just now, with metadata
   * that hides it. Then the items continue.
   */
  reader<Item>(scope: Scope, thread_id: string, reader: Reader<Item>, made?: boolean): Reader<Item>;
  /** The same for one value, which is rejected with `hidden()` when the thread is hidden or the caller has left. */
  value<Value>(
    scope: Scope,
    thread_id: string,
    value: Promise<Value>,
    made: boolean,
    hidden: () => Error,
  ): { readonly value: Promise<Value>; leave(): void };
}

/** What is shown was seen to be visible this long ago at most. */
const FRESH_MS = 1_000;
/** The time between two checks while nothing is shown. */
const IDLE_MS = 2_000;

/** All readers of a thread with the same filter. */
class SharedSight {
  readonly #options: SightOptions;
  readonly #scope: Scope;
  readonly #thread_id: string;
  readonly readers: Set<() => void> = new Set();
  hidden = false;
  #checked: number;
  /** Counts the changes of the thread. */
  #changes = 0;
  #checking: Promise<void> | undefined;
  #cancel = (): void => {};
  readonly #unsubscribe: () => void;

  constructor(options: SightOptions, scope: Scope, thread_id: string) {
    this.#options = options;
    this.#scope = scope;
    this.#thread_id = thread_id;
    this.#checked = options.environment.now();
    this.#unsubscribe = options.bus.on("thread", thread_id, () => {
      this.#changes++;
      this.#checked = Number.NEGATIVE_INFINITY;
    });
    this.#wait();
  }

  get #isFresh(): boolean {
    return Math.abs(this.#options.environment.now() - this.#checked) < FRESH_MS;
  }

  async holds(): Promise<boolean> {
    // A check that is under way may have read the thread before its last change.
    if (!this.hidden && !this.#isFresh) await this.#checking;
    if (!this.hidden && !this.#isFresh) await this.#check();
    return !this.hidden;
  }

  /** Readers share a check. */
  #check(): Promise<void> {
    this.#checking ??= this.#read().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  async #read(): Promise<void> {
    const { storage, environment } = this.#options;
    const { filter: _, ...everything } = this.#scope;
    const [changes, now] = [this.#changes, environment.now()];
    const seen = await storage.getThread(this.#scope, this.#thread_id);
    if (!seen && (await storage.getThread(everything, this.#thread_id))) this.#hide();
    else if (changes === this.#changes) this.#checked = now;
  }

  #hide(): void {
    this.hidden = true;
    const readers = [...this.readers];
    this.close();
    for (const onHidden of readers) onHidden();
  }

  #wait(): void {
    this.#cancel = this.#options.environment.timer(IDLE_MS, () => {
      // A storage failure says nothing about the thread.
      void this.#check()
        .catch(() => {})
        .then(() => this.readers.size > 0 && this.#wait());
    });
  }

  close(): void {
    this.readers.clear();
    this.#cancel();
    this.#unsubscribe();
  }
}

export function createSights(options: SightOptions): Sights {
  const shared = new Map<string, SharedSight>();

  function open(scope: Scope, thread_id: string, onHidden: () => void): Sight | undefined {
    if (!scope.filter) return undefined;
    const key = JSON.stringify([thread_id, scope.filter]);
    let sight = shared.get(key);
    if (!sight || sight.hidden) {
      sight = new SharedSight(options, scope, thread_id);
      shared.set(key, sight);
    }
    const own = sight;
    const entry = (): void => {
      if (shared.get(key) === own) shared.delete(key);
      onHidden();
    };
    own.readers.add(entry);
    return {
      holds: () => own.holds(),
      close() {
        if (!own.readers.delete(entry) || own.readers.size > 0) return;
        own.close();
        if (shared.get(key) === own) shared.delete(key);
      },
    };
  }

  const readerOf: Sights["reader"] = (scope, thread_id, reader, made = false) => {
    if (!scope.filter) return reader;
    let sight: Sight | undefined;
    let left = false;
    const leave = (): void => {
      left = true;
      sight?.close();
      reader.leave();
    };
    const begin = (): void => {
      if (!left) sight = open(scope, thread_id, () => reader.leave());
    };
    if (made) options.storage.getThread(scope, thread_id).then((thread) => thread && begin(), begin);
    else begin();
    return createReader(async () => {
      try {
        const items = await reader.next();
        if (items.length > 0 && (!sight || (await sight.holds()))) return items;
      } catch (error) {
        leave();
        throw error;
      }
      leave();
      return [];
    }, leave);
  };

  return {
    open,
    reader: readerOf,
    value<Value>(scope: Scope, thread_id: string, value: Promise<Value>, made: boolean, hidden: () => Error) {
      if (!scope.filter) return { value, leave() {} };
      const left = Promise.withResolvers<readonly Value[]>();
      const once = createReader(
        () => Promise.race([value.then((one) => [one]), left.promise]),
        () => left.resolve([]),
      );
      const reader = readerOf(scope, thread_id, once, made);
      const shown = reader.next().then((items) => {
        reader.leave();
        if (items.length === 0) throw hidden();
        return items[0] as Value;
      });
      // After the caller has left, nothing else handles its rejection.
      shown.catch(() => {});
      return { value: shown, leave: () => reader.leave() };
    },
  };
}
