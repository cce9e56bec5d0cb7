/** The stored events of threads as they are sent, read for many readers at once. */
import { type Environment, sharedCalls, type TickLimit, tickLimit } from "../environment.ts";
import type { Json } from "../json.ts";
import type { EventPage, EventStorage, Scope, Storage, StoredThreadEvent } from "../storage/mod.ts";
import type { Passes, SentEvent } from "./protocol.ts";
import { LARGE, SharedTexts } from "./shared-texts.ts";

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

const idOf = ({ seq, run_id, method, namespace }: StoredThreadEvent): string =>
  method === "lifecycle" && namespace.length === 0 ? `synth:${run_id}:${seq}` : String(seq);

/** The event as it is sent. `data`: as JSON. */
export function sentOf(event: StoredThreadEvent, data: string, id: string = idOf(event)): SentEvent {
  const { seq, method, namespace, name } = event;
  return { seq, id, event: method, namespace, name, data: `${headOf(event, id)}${data}${TAIL}` };
}

/** The envelope before the data of an event, and after it. */
function headOf(event: StoredThreadEvent, id: string = idOf(event)): string {
  const { seq, method, namespace, timestamp, node } = event;
  const where = `"namespace":${JSON.stringify(namespace)},"timestamp":${timestamp}`;
  const params = `{${where}${node === undefined ? "" : `,"node":${JSON.stringify(node)}`},"data":`;
  return `{"type":"event","event_id":"${id}","seq":${seq},"method":"${method}","params":${params}`;
}
const TAIL = "}}";

/** Compares without another copy of the text. */
function isSame(sent: SentEvent, event: StoredThreadEvent, data: string): boolean {
  const head = headOf(event);
  const length = head.length + data.length + TAIL.length;
  return sent.data.length === length && sent.data.startsWith(head) && sent.data.startsWith(data, head.length);
}

/** How much may be read in one tick of the event loop, in characters; and what a read and an event cost as such. */
const READ_PER_TICK = 256 * 1024;
const READ_COST = 4 * 1024;
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
  readonly #limit: TickLimit;
  readonly #pages: ReturnType<typeof sharedCalls>;
  readonly #stored = new SharedTexts<StoredThreadEvent & { readonly data: string }>();
  readonly #sent = new SharedTexts<SentEvent>();
  /** What large stored events were made, while they are alive. */
  readonly #made = new WeakMap<StoredThreadEvent, SentEvent>();
  #size = 0;
  #readers = 0;

  constructor(options: SentEventOptions) {
    this.#options = options;
    this.#limit = tickLimit(options.environment, READ_PER_TICK);
    this.#pages = sharedCalls(this.#limit.room);
  }

  page(scope: Scope, thread_id: string, query: EventQuery): Promise<EventPage> {
    const key = JSON.stringify([scope, thread_id, query.after, [...(query.methods ?? [])]]);
    return this.#pages(key, READ_COST, async () => {
      const { events, ...rest } = await this.#options.storage.readEvents(scope, thread_id, query);
      this.#limit.spend(events.reduce((sum, { data }) => sum + EVENT_COST + (data?.length ?? 0), 0));
      return { ...rest, events: events.map((event) => this.#shared(thread_id, event)) };
    });
  }

  #shared(thread_id: string, event: StoredThreadEvent): StoredThreadEvent {
    const { data } = event;
    return data === null ? event : this.#stored.share(`${thread_id} ${event.seq}`, { ...event, data });
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
    if (data.length < LARGE) return sentOf(event, data);
    const key = `${thread_id} ${event.seq}`;
    const known = this.#made.get(event);
    if (known) return known;
    const alive = this.#sent.get(key);
    const made = alive && isSame(alive, event, data) ? alive : this.#sent.share(key, sentOf(event, data));
    this.#made.set(event, made);
    return made;
  }

  async #read(thread_id: string, event: StoredThreadEvent, key: string): Promise<SentEvent | null> {
    const { checkpoint_id = "", namespace } = event;
    try {
      await this.#limit.room(READ_COST);
      const found = await this.#options.values(thread_id, { checkpoint_ns: namespace.join("|"), checkpoint_id });
      const sent = found === undefined ? null : this.#sent.share(key, sentOf(event, JSON.stringify(found)));
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

  enter(): void {
    this.#readers++;
  }

  /** With its last reader, what was read is forgotten. */
  leave(): void {
    if (--this.#readers > 0) return;
    this.#values.clear();
    this.#stored.clear();
    this.#sent.clear();
    this.#size = 0;
  }
}
