/** The stored events of threads as they are sent, read for many readers at once. */
import type { Environment, TickBudget } from "../environment.ts";
import type { Json } from "../json.ts";
import type { EventStorage, Scope, Storage, StoredThreadEvent } from "../storage/mod.ts";
import { type Page, type Pages, READ_COST } from "./log.ts";
import type { Passes, SentEvent } from "./protocol.ts";
import { LARGE, SharedTexts } from "./shared-texts.ts";
import { serializeEvent } from "./thread-event.ts";

type EventQuery = Parameters<EventStorage["readEvents"]>[2];

export interface SentEventOptions {
  readonly storage: Storage;
  readonly environment: Environment;
  /** The values at a checkpoint; undefined if it is gone. */
  values(
    thread_id: string,
    checkpoint: { readonly checkpoint_ns: string; readonly checkpoint_id: string },
  ): Promise<Json | undefined>;
}

/** The fixed cost of an event, in characters. */
const EVENT_COST = 256;
/** How much of the values that were read last is kept, in characters. */
const KEPT_VALUES = 4 * 1024 * 1024;

interface ValuesRead {
  readonly event: Promise<SentEvent | null>;
  /** 0 while it is under way. */
  size: number;
}

/** Makes stored events those that are sent. Readers that replay a thread at the same time share what is read. */
export class SentEvents {
  readonly #options: SentEventOptions;
  /** The oldest first. */
  readonly #values = new Map<string, ValuesRead>();
  readonly #limit: TickBudget;
  readonly #sent = new SharedTexts<SentEvent>();
  #size = 0;

  constructor(options: SentEventOptions, limit: TickBudget) {
    this.#options = options;
    this.#limit = limit;
  }

  /** A page of stored events; `pages`: those of the thread. */
  page(
    pages: Pages<StoredThreadEvent>,
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

  /** The event as it is sent; null if it does not pass, or its values can no longer be read. */
  of(thread_id: string, event: StoredThreadEvent, passes?: Passes): SentEvent | Promise<SentEvent | null> | null {
    if (passes?.(event.method, event.namespace, event.name) === false) return null;
    if (event.data !== null) return this.#make(thread_id, event, event.data);
    const key = `${event.run_id} ${event.seq}`;
    const alive = this.#sent.get(key);
    if (alive) return alive;
    const known = this.#values.get(key);
    const read = known ?? { event: this.#read(thread_id, event, key), size: 0 };
    this.#values.delete(key);
    this.#values.set(key, read);
    return read.event;
  }

  #make(thread_id: string, event: StoredThreadEvent, data: string): SentEvent {
    if (data.length < LARGE) return serializeEvent(event, data);
    // A `seq` is never used twice, but a rollback shortens the end of its run.
    const key = `${thread_id} ${event.seq} ${data.length}`;
    return this.#sent.get(key) ?? this.#sent.share(key, serializeEvent(event, data));
  }

  async #read(thread_id: string, event: StoredThreadEvent, key: string): Promise<SentEvent | null> {
    const { checkpoint_id = "", namespace } = event;
    try {
      await this.#limit.waitForRoom(READ_COST);
      const found = await this.#options.values(thread_id, { checkpoint_ns: namespace.join("|"), checkpoint_id });
      const sent = found === undefined ? null : this.#sent.share(key, serializeEvent(event, JSON.stringify(found)));
      if (sent) this.#keep(key, EVENT_COST + sent.data.length);
      else this.#drop(key);
      return sent;
    } catch (error) {
      this.#drop(key);
      throw error;
    }
  }

  #keep(key: string, size: number): void {
    this.#limit.spend(size);
    const read = this.#values.get(key);
    if (!read) return;
    this.#size += size - read.size;
    read.size = size;
    for (const [oldest] of this.#values) {
      if (this.#size <= KEPT_VALUES) break;
      this.#drop(oldest);
    }
  }

  #drop(key: string): void {
    this.#size -= this.#values.get(key)?.size ?? 0;
    this.#values.delete(key);
  }

  clear(): void {
    this.#values.clear();
    this.#sent.clear();
    this.#size = 0;
  }
}
