/** What all streams are read from: the newest items of a run or a thread in memory, and behind them pages from the store. */
import { coalesceCalls, createTickBudget, type Environment, type KeepAlive, type TickBudget } from "../environment.ts";
import { SharedTexts } from "./shared-texts.ts";

/** A subscription. Call `next` again only after its answer. */
export interface Reader<Item> extends AsyncIterable<Item> {
  /** Waits until an item is ready. Returns all that are ready, up to a limit; none once the stream has ended or was left. */
  next(): Promise<readonly Item[]>;
  /** Ends the subscription: a waiting `next` returns nothing. */
  leave(): void;
}

const END = { done: true, value: undefined } as const;

/** Not a generator: `return` of a generator waits for the next item. */
export function createReader<Item>(next: Reader<Item>["next"], leave: () => void): Reader<Item> {
  return {
    next,
    leave,
    [Symbol.asyncIterator]() {
      const ready: Item[] = [];
      return {
        async next() {
          if (ready.length === 0) ready.push(...(await next()));
          return ready.length > 0 ? { done: false, value: ready.shift() as Item } : END;
        },
        async return() {
          ready.length = 0;
          leave();
          return END;
        },
      };
    },
  };
}

/** Wakes the readers that wait for a change. Each waits by itself: one that leaves must not wake the others. */
export class Change {
  /** Absent until one waits: hundreds of ended logs are kept. */
  #waiting: Map<object, PromiseWithResolvers<void>> | undefined;

  /** Resolves with the next `notify`, or `wake` of this reader. */
  wait(reader: object): Promise<void> {
    this.#waiting ??= new Map();
    const waiting = this.#waiting.get(reader) ?? Promise.withResolvers<void>();
    this.#waiting.set(reader, waiting);
    return waiting.promise;
  }

  notify(): void {
    if (!this.#waiting) return;
    for (const { resolve } of this.#waiting.values()) resolve();
    this.#waiting.clear();
  }

  /** Wakes one reader. */
  wake(reader: object): void {
    this.#waiting?.get(reader)?.resolve();
    this.#waiting?.delete(reader);
  }
}

/** The size limit of one batch, in characters: a reader holds no more than that. */
const BATCH_SIZE = 64 * 1024;
/** What an item costs in memory beside its text. */
const ITEM_OVERHEAD = 64;
/** How much may be read in one tick of the event loop, in characters, and the fixed costs of a read and an item. */
const READ_PER_TICK = 256 * 1024;
export const READ_COST: number = 4 * 1024;
const STORED_COST = 256;

/** Stores that answer at once must not let the readers of much block the event loop. */
export const readLimit = (environment: Pick<Environment, "defer">): TickBudget =>
  createTickBudget(environment, READ_PER_TICK);

type Item = { readonly data: string | null };

const sizeOf = ({ data }: Item): number => (data?.length ?? 0) + ITEM_OVERHEAD;

export interface Page<Stored> {
  /** By rising place. */
  readonly items: readonly Stored[];
  /** Later items have a higher place; null when the page is empty. */
  readonly read_to: number | null;
}

/** Pages of one log. One read at a time, and calls for the same page share a read that has not begun. */
export class Pages<Stored extends Item> {
  readonly #limit: TickBudget;
  readonly #placeOf: (item: Stored) => number;
  readonly #shared = coalesceCalls((cost) => this.#last.then(() => this.#limit.waitForRoom(cost)));
  readonly #texts = new SharedTexts<Stored & { readonly data: string }>();
  #last: Promise<unknown> = Promise.resolve();

  constructor(limit: TickBudget, placeOf: (item: Stored) => number) {
    this.#limit = limit;
    this.#placeOf = placeOf;
  }

  read<Read extends Pick<Page<Stored>, "items">>(key: string, load: () => Promise<Read>): Promise<Read> {
    const before = this.#last;
    const page = this.#shared(key, READ_COST, async () => {
      const page = await load();
      this.#limit.spend(page.items.reduce((sum, { data }) => sum + STORED_COST + (data?.length ?? 0), 0));
      return { ...page, items: page.items.map((item) => this.#share(item)) };
    });
    this.#last = page.catch(() => {}).then(() => before);
    return page;
  }

  #share(item: Stored): Stored {
    return item.data === null
      ? item
      : this.#texts.share(this.#placeOf(item), item as Stored & { readonly data: string });
  }
}

/** The newest items of a run or a thread, shared by all its readers in this process. */
export abstract class Log<Shown extends Item, Stored extends Item = Shown> {
  /** By rising place. */
  items: Shown[] = [];
  /** All items above this place are in `items`. */
  from = 0;
  /** The highest place so far; 0 before the first. */
  last = 0;
  readers = 0;
  /** The service stops: readers end without an error. */
  closed = false;
  /** Readers may find something new, or have to end. */
  readonly change: Change = new Change();
  protected size = 0;
  readonly #limit: TickBudget;
  #pages: Pages<Stored> | undefined;

  constructor(limit: TickBudget) {
    this.#limit = limit;
  }

  /** Where an item is in the log. */
  abstract placeOf(item: Shown | Stored): number;
  /** The size limit of `items`, in characters. */
  protected abstract get room(): number;
  /**
   * Returns what to wait for before a large batch is shown, if there is no room for it in this tick: many readers get it at the same
   * time, and some make a text of their own from it.
   */
  pace(batch: readonly Shown[]): Promise<void> | undefined {
    const size = batch.reduce((sum, item) => sum + sizeOf(item), 0);
    return size > BATCH_SIZE ? this.#limit.waitForRoom(size) : undefined;
  }

  /** Keeps the process alive while a reader waits for items. */
  get keepAlive(): KeepAlive | undefined {
    return undefined;
  }

  /** Hundreds of ended logs are kept, and few have readers behind their items. */
  get pages(): Pages<Stored> {
    if (!this.#pages) this.#pages = new Pages<Stored>(this.#limit, this.placeOf);
    return this.#pages;
  }

  /** A reader has left. */
  left(): void {
    this.readers--;
  }

  /** Adds an item without waking readers. Above the limit it drops the oldest quarter, but never the newest, which may be large. */
  protected append(item: Shown): void {
    this.items.push(item);
    this.last = this.placeOf(item);
    this.size += sizeOf(item);
    if (this.size <= this.room) return;
    let count = 0;
    for (; count < this.items.length - 1 && this.size > 0.75 * this.room; count++) {
      const oldest = this.items[count] as Shown;
      this.size -= sizeOf(oldest);
      this.from = this.placeOf(oldest);
    }
    this.items = this.items.slice(count);
  }

  /** Items up to this place are not here. */
  protected clear(place: number): void {
    this.items = [];
    this.size = 0;
    this.from = place;
    this.last = place;
  }
}

/** The index of the first item whose place is above this one. */
function indexAfter<Stored>(items: readonly Stored[], place: number, placeOf: (item: Stored) => number): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (placeOf(items[middle] as Stored) > place) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The place of a reader in a log. It reads items that are not in memory from the store. */
export abstract class Cursor<Shown extends Item, Stored extends Item = Shown> {
  /** Of the last item that it has seen. */
  protected place: number;
  protected left = false;
  /** There is something to read. */
  protected attached = true;
  /** It keeps the rest of a page for its next batch. */
  protected keepsPage = true;
  readonly #log: Log<Shown, Stored>;
  #page: readonly Stored[] = [];
  /** Up to where the page goes. */
  #read_to = 0;

  constructor(log: Log<Shown, Stored>, place: number) {
    this.#log = log;
    this.place = place;
    log.readers++;
  }

  /** Up to here it reads from the store. */
  protected get floor(): number {
    return this.#log.from;
  }

  /** Nothing more may be shown. */
  protected isGone(): boolean {
    return false;
  }

  /** The stream has ended: no item follows. */
  protected isAtEnd(): boolean {
    return this.#log.closed;
  }

  /** Sets `attached` once there is something to read; false if it has to wait for a change. */
  protected attach?(): Promise<boolean>;
  /** Something to show that is not in the log. */
  protected notice?(): Shown | undefined;
  /** Reads the page after `place`. */
  protected abstract load(): Promise<Page<Stored>>;
  /** An item as it is shown; null if it is not for this reader. */
  protected abstract show(item: Shown | Stored): Shown | null | Promise<Shown | null>;
  /** Called before something is shown. */
  protected check?(): Promise<unknown> | undefined;

  reader(): Reader<Shown> {
    return createReader(
      () => this.#next(),
      () => this.leave(),
    );
  }

  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the loop of one reader: what it waits for depends on what it has read
  async #next(): Promise<readonly Shown[]> {
    while (!this.left) {
      if (this.isGone()) return this.end();
      const { place } = this;
      try {
        const ready: Shown[] = [];
        const taking = this.attached ? this.#take(ready) : undefined;
        if (taking) await taking;
        if (ready.length > 0) {
          const pacing = this.#log.pace(ready);
          if (pacing) await pacing;
          const checking = this.check?.();
          if (checking) await checking;
          if (!this.left && !this.isGone()) return ready;
        } else if (this.place === place) {
          if (this.isAtEnd()) return this.end();
          await this.#waitForItems();
        }
        // Else this reader gets none of what was taken. More may follow it in the page, or in the log behind the page.
      } catch (error) {
        this.#failWith(error);
      }
    }
    return [];
  }

  /** Waits for a change of the log, or reads the next page. */
  async #waitForItems(): Promise<void> {
    const { change, keepAlive } = this.#log;
    const changed = change.wait(this);
    keepAlive?.acquire();
    try {
      if (this.attached && this.place < this.floor) await this.#read();
      else if (this.attached || !(await this.attach?.())) await changed;
    } finally {
      keepAlive?.release();
    }
  }

  /** Throws the error, unless the reader has left or the service stops. */
  #failWith(error: unknown): void {
    const isExpected = this.left || this.#log.closed;
    if (!this.left) this.close();
    if (!isExpected) throw error;
  }

  /** Takes a batch of the log or of the page. An item that must be read first ends it: then the result resolves once it is taken. */
  #take(ready: Shown[]): Promise<void> | undefined {
    const notice = this.notice?.();
    if (notice) return void ready.push(notice);
    const { items, placeOf } = this.#log;
    const list: readonly (Shown | Stored)[] = this.place < this.floor ? this.#page : items;
    let room = BATCH_SIZE;
    let i = indexAfter(list, this.place, placeOf);
    while (i < list.length && room > 0) {
      const item = list[i++] as Shown | Stored;
      const shown = this.show(item);
      this.place = placeOf(item);
      if (shown instanceof Promise) return shown.then((one) => void (one && ready.push(one)));
      if (!shown) continue;
      ready.push(shown);
      room -= sizeOf(shown);
    }
    // What was taken is not held: it may be large. The rest of a page is read again by a reader that keeps none or has left its place.
    if (list === items || (i < list.length && !this.keepsPage)) {
      this.#page = [];
      this.#read_to = this.place;
    } else this.#page = this.#page.slice(i);
    return undefined;
  }

  async #read(): Promise<void> {
    const { floor } = this;
    if (this.place < this.#read_to) {
      this.place = this.#read_to;
      return;
    }
    const { items, read_to } = await this.load();
    this.#page = items;
    // The log has continued from its floor: nothing below it is still to be stored.
    this.#read_to = read_to ?? Math.max(this.place, floor);
  }

  /** The last items of a reader that does not leave by itself. */
  protected end(): readonly Shown[] {
    this.close();
    return [];
  }

  protected close(): void {
    this.left = true;
    this.#log.left();
  }

  leave(): void {
    if (this.left) return;
    this.close();
    this.#log.change.wake(this);
  }
}
