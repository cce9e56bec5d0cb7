/** Reads and serializes the stored events of threads for many readers at once. */
import type { Environment, TickBudget } from "../environment.ts";
import type { Json } from "../json.ts";
import type { EventStorage, Scope, Storage, StoredThreadEvent } from "../storage/mod.ts";
import type { EventPredicate, SerializedEvent } from "./event-filter.ts";
import { COST_PER_READ, type Page, type PageReader } from "./log.ts";
import { serializeEvent } from "./thread-event.ts";
import { LARGE_TEXT_CHARS, WeakTextCache } from "./weak-text-cache.ts";

type EventQuery = Parameters<EventStorage["readEvents"]>[2];

export interface EventSerializerOptions {
  readonly storage: Storage;
  readonly environment: Environment;
  /** Reads the values at a checkpoint; undefined if it was deleted. */
  readValues(
    thread_id: string,
    checkpoint: { readonly checkpoint_ns: string; readonly checkpoint_id: string },
  ): Promise<Json | undefined>;
}

/** The fixed cost of an event, in characters. */
const COST_PER_EVENT = 256;
/** The maximum size of cached values, in characters. */
const MAX_CACHED_VALUES_CHARS = 4 * 1024 * 1024;

interface ValuesEntry {
  readonly event: Promise<SerializedEvent | null>;
  /** The size in characters; 0 while the values are being read. */
  size: number;
}

/** Serializes stored events. Readers that replay a thread at the same time share what is read. */
export class EventSerializer {
  readonly #options: EventSerializerOptions;
  /** The values that were read last, oldest first. */
  readonly #values = new Map<string, ValuesEntry>();
  readonly #limit: TickBudget;
  readonly #serialized = new WeakTextCache<SerializedEvent>();
  #size = 0;

  constructor(options: EventSerializerOptions, limit: TickBudget) {
    this.#options = options;
    this.#limit = limit;
  }

  /**
   * Reads a page of stored events. Concurrent equal reads share one, and large events are shared with other readers. `pages` are
   * those of the thread.
   */
  readPage(
    pages: PageReader<StoredThreadEvent>,
    scope: Scope,
    thread_id: string,
    query: EventQuery,
  ): Promise<Page<StoredThreadEvent> & { readonly has_more: boolean }> {
    const key = JSON.stringify([scope, query.after, [...(query.methods ?? [])]]);
    return pages.read(key, async () => {
      const { events, ...page } = await this.#options.storage.readEvents(scope, thread_id, query);
      return { ...page, items: events };
    });
  }

  /**
   * Serializes an event. Returns null if it is not included, or if its values can no longer be read. Values that only a
   * checkpoint has are read from there (throws what that throws) and cached, so that readers share them.
   */
  serialize(
    thread_id: string,
    event: StoredThreadEvent,
    isIncluded?: EventPredicate,
  ): SerializedEvent | Promise<SerializedEvent | null> | null {
    if (isIncluded?.(event.method, event.namespace, event.name) === false) return null;
    if (event.data !== null) return this.#serializeData(thread_id, event, event.data);
    const key = `${event.run_id} ${event.seq}`;
    const shared = this.#serialized.get(key);
    if (shared) return shared;
    const pending = this.#values.get(key);
    const entry = pending ?? { event: this.#serializeValues(thread_id, event, key), size: 0 };
    this.#values.delete(key);
    this.#values.set(key, entry);
    return entry.event;
  }

  /** Serializes an event with its data. Readers share large events. */
  #serializeData(thread_id: string, event: StoredThreadEvent, data: string): SerializedEvent {
    if (data.length < LARGE_TEXT_CHARS) return serializeEvent(event, data);
    // A `seq` is never used twice, but a rollback shortens the end of its run.
    const key = `${thread_id} ${event.seq} ${data.length}`;
    return this.#serialized.get(key) ?? this.#serialized.share(key, serializeEvent(event, data));
  }

  /**
   * Reads the values of an event from its checkpoint, serializes it and caches the result. Returns null if the checkpoint is
   * gone; that and an error leave no cache entry.
   */
  async #serializeValues(thread_id: string, event: StoredThreadEvent, key: string): Promise<SerializedEvent | null> {
    const { checkpoint_id = "", namespace } = event;
    try {
      await this.#limit.waitForRoom(COST_PER_READ);
      const values = await this.#options.readValues(thread_id, { checkpoint_ns: namespace.join("|"), checkpoint_id });
      const serialized =
        values === undefined ? null : this.#serialized.share(key, serializeEvent(event, JSON.stringify(values)));
      if (serialized) this.#cache(key, COST_PER_EVENT + serialized.data.length);
      else this.#drop(key);
      return serialized;
    } catch (error) {
      this.#drop(key);
      throw error;
    }
  }

  /**
   * Counts the size of a cached event, and drops the entries that were not used for longest above the limit. Slows later reads
   * down.
   */
  #cache(key: string, size: number): void {
    this.#limit.spend(size);
    const entry = this.#values.get(key);
    if (!entry) return;
    this.#size += size - entry.size;
    entry.size = size;
    for (const [oldest] of this.#values) {
      if (this.#size <= MAX_CACHED_VALUES_CHARS) break;
      this.#drop(oldest);
    }
  }

  /** Removes a value from the cache and subtracts its size. */
  #drop(key: string): void {
    this.#size -= this.#values.get(key)?.size ?? 0;
    this.#values.delete(key);
  }

  /** Forgets all cached values and serialized events. */
  clear(): void {
    this.#values.clear();
    this.#serialized.clear();
    this.#size = 0;
  }
}
