/** What all streams are read from: the newest items of a run or a thread in memory, and behind them pages from the store. */
import { coalesceCalls, createTickBudget, type Environment, type KeepAlive, type TickBudget } from "../environment.ts";
import { WeakTextCache } from "./weak-text-cache.ts";

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
export class ChangeNotifier {
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
const MAX_BATCH_CHARS = 64 * 1024;
/** What an item costs in memory beside its text. */
const ITEM_OVERHEAD_CHARS = 64;
/** How much may be read in one tick of the event loop, in characters, and the fixed costs of a read and an item. */
const MAX_CHARS_PER_TICK = 256 * 1024;
export const COST_PER_READ: number = 4 * 1024;
const COST_PER_STORED_ITEM = 256;

/** Stores that answer at once must not let the readers of much block the event loop. */
export const createReadLimit = (environment: Pick<Environment, "defer">): TickBudget =>
  createTickBudget(environment, MAX_CHARS_PER_TICK);

type Item = { readonly data: string | null };

const getSize = ({ data }: Item): number => (data?.length ?? 0) + ITEM_OVERHEAD_CHARS;

export interface Page<Stored> {
  /** By rising place. */
  readonly items: readonly Stored[];
  /** Later items have a higher place; null when the page is empty. */
  readonly read_to: number | null;
}

/** Pages of one log. One read at a time, and calls for the same page share a read that has not begun. */
export class PageReader<Stored extends Item> {
  readonly #limit: TickBudget;
  readonly #getPosition: (item: Stored) => number;
  readonly #readShared = coalesceCalls((cost) => this.#last.then(() => this.#limit.waitForRoom(cost)));
  readonly #texts = new WeakTextCache<Stored & { readonly data: string }>();
  #last: Promise<unknown> = Promise.resolve();

  constructor(limit: TickBudget, getPosition: (item: Stored) => number) {
    this.#limit = limit;
    this.#getPosition = getPosition;
  }

  read<Read extends Pick<Page<Stored>, "items">>(key: string, load: () => Promise<Read>): Promise<Read> {
    const before = this.#last;
    const page = this.#readShared(key, COST_PER_READ, async () => {
      const page = await load();
      this.#limit.spend(page.items.reduce((sum, { data }) => sum + COST_PER_STORED_ITEM + (data?.length ?? 0), 0));
      return { ...page, items: page.items.map((item) => this.#share(item)) };
    });
    this.#last = page.catch(() => {}).then(() => before);
    return page;
  }

  #share(item: Stored): Stored {
    return item.data === null
      ? item
      : this.#texts.share(this.#getPosition(item), item as Stored & { readonly data: string });
  }
}

/** The newest items of a run or a thread, shared by all its readers in this process. */
export abstract class RingLog<Emitted extends Item, Stored extends Item = Emitted> {
  /** By rising place. */
  items: Emitted[] = [];
  /** All items above this place are in `items`. */
  startsAfter = 0;
  /** The highest place so far; 0 before the first. */
  last = 0;
  readers = 0;
  /** The service stops: readers end without an error. */
  isClosed = false;
  /** Readers may find something new, or have to end. */
  readonly change: ChangeNotifier = new ChangeNotifier();
  protected size = 0;
  readonly #limit: TickBudget;
  #pages: PageReader<Stored> | undefined;

  constructor(limit: TickBudget) {
    this.#limit = limit;
  }

  /** Where an item is in the log. */
  abstract getPosition(item: Emitted | Stored): number;
  /** The size limit of `items`, in characters. */
  protected abstract get maxChars(): number;
  /**
   * Returns what to wait for before a large batch is shown, if there is no room for it in this tick: many readers get it at the same
   * time, and some make a text of their own from it.
   */
  waitForTick(batch: readonly Emitted[]): Promise<void> | undefined {
    const size = batch.reduce((sum, item) => sum + getSize(item), 0);
    return size > MAX_BATCH_CHARS ? this.#limit.waitForRoom(size) : undefined;
  }

  /** Keeps the process alive while a reader waits for items. */
  get keepAlive(): KeepAlive | undefined {
    return undefined;
  }

  /** Hundreds of ended logs are kept, and few have readers behind their items. */
  get pages(): PageReader<Stored> {
    if (!this.#pages) this.#pages = new PageReader<Stored>(this.#limit, this.getPosition);
    return this.#pages;
  }

  /** A reader has left. */
  onReaderLeft(): void {
    this.readers--;
  }

  /** Adds an item without waking readers. Above the limit it drops the oldest quarter, but never the newest, which may be large. */
  protected append(item: Emitted): void {
    this.items.push(item);
    this.last = this.getPosition(item);
    this.size += getSize(item);
    if (this.size <= this.maxChars) return;
    let count = 0;
    for (; count < this.items.length - 1 && this.size > 0.75 * this.maxChars; count++) {
      const oldest = this.items[count] as Emitted;
      this.size -= getSize(oldest);
      this.startsAfter = this.getPosition(oldest);
    }
    this.items = this.items.slice(count);
  }

  /** Items up to this place are not here. */
  protected clear(position: number): void {
    this.items = [];
    this.size = 0;
    this.startsAfter = position;
    this.last = position;
  }
}

/** The index of the first item whose place is above this one. */
function findIndexAfter<Stored>(
  items: readonly Stored[],
  position: number,
  getPosition: (item: Stored) => number,
): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (getPosition(items[middle] as Stored) > position) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The place of a reader in a log. It reads items that are not in memory from the store. */
export abstract class LogCursor<Emitted extends Item, Stored extends Item = Emitted> {
  /** Of the last item that it has seen. */
  protected position: number;
  protected hasLeft = false;
  /** There is something to read. */
  protected isAttached = true;
  /** It keeps the rest of a page for its next batch. */
  protected keepsPage = true;
  readonly #log: RingLog<Emitted, Stored>;
  #page: readonly Stored[] = [];
  /** Up to where the page goes. */
  #readTo = 0;

  constructor(log: RingLog<Emitted, Stored>, position: number) {
    this.#log = log;
    this.position = position;
    log.readers++;
  }

  /** Up to here it reads from the store. */
  protected get floor(): number {
    return this.#log.startsAfter;
  }

  /** Nothing more may be shown. */
  protected isRevoked(): boolean {
    return false;
  }

  /** The stream has ended: no item follows. */
  protected isAtEnd(): boolean {
    return this.#log.isClosed;
  }

  /** Sets `attached` once there is something to read; false if it has to wait for a change. */
  protected attach?(): Promise<boolean>;
  /** Something to show that is not in the log. */
  protected takeNotice?(): Emitted | undefined;
  /** Reads the page after `place`. */
  protected abstract load(): Promise<Page<Stored>>;
  /** An item as it is shown; null if it is not for this reader. */
  protected abstract toEmitted(item: Emitted | Stored): Emitted | null | Promise<Emitted | null>;
  /** Called before something is shown. */
  protected checkBeforeEmit?(): Promise<unknown> | undefined;

  toReader(): Reader<Emitted> {
    return createReader(
      () => this.#next(),
      () => this.leave(),
    );
  }

  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the loop of one reader: what it waits for depends on what it has read
  async #next(): Promise<readonly Emitted[]> {
    while (!this.hasLeft) {
      if (this.isRevoked()) return this.end();
      const { position } = this;
      try {
        const ready: Emitted[] = [];
        const collecting = this.isAttached ? this.#collectBatch(ready) : undefined;
        if (collecting) await collecting;
        if (ready.length > 0) {
          const pacing = this.#log.waitForTick(ready);
          if (pacing) await pacing;
          const checking = this.checkBeforeEmit?.();
          if (checking) await checking;
          if (!this.hasLeft && !this.isRevoked()) return ready;
        } else if (this.position === position) {
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
      if (this.isAttached && this.position < this.floor) await this.#read();
      else if (this.isAttached || !(await this.attach?.())) await changed;
    } finally {
      keepAlive?.release();
    }
  }

  /** Throws the error, unless the reader has left or the service stops. */
  #failWith(error: unknown): void {
    const isExpected = this.hasLeft || this.#log.isClosed;
    if (!this.hasLeft) this.close();
    if (!isExpected) throw error;
  }

  /** Takes a batch of the log or of the page. An item that must be read first ends it: then the result resolves once it is taken. */
  #collectBatch(ready: Emitted[]): Promise<void> | undefined {
    const takeNotice = this.takeNotice?.();
    if (takeNotice) return void ready.push(takeNotice);
    const { items, getPosition } = this.#log;
    const list: readonly (Emitted | Stored)[] = this.position < this.floor ? this.#page : items;
    let maxChars = MAX_BATCH_CHARS;
    let i = findIndexAfter(list, this.position, getPosition);
    while (i < list.length && maxChars > 0) {
      const item = list[i++] as Emitted | Stored;
      const emitted = this.toEmitted(item);
      this.position = getPosition(item);
      if (emitted instanceof Promise) return emitted.then((item) => void (item && ready.push(item)));
      if (!emitted) continue;
      ready.push(emitted);
      maxChars -= getSize(emitted);
    }
    // What was taken is not held: it may be large. The rest of a page is read again by a reader that keeps none or has left its place.
    if (list === items || (i < list.length && !this.keepsPage)) {
      this.#page = [];
      this.#readTo = this.position;
    } else this.#page = this.#page.slice(i);
    return undefined;
  }

  async #read(): Promise<void> {
    const { floor } = this;
    if (this.position < this.#readTo) {
      this.position = this.#readTo;
      return;
    }
    const { items, read_to } = await this.load();
    this.#page = items;
    // The log has continued from its floor: nothing below it is still to be stored.
    this.#readTo = read_to ?? Math.max(this.position, floor);
  }

  /** The last items of a reader that does not leave by itself. */
  protected end(): readonly Emitted[] {
    this.close();
    return [];
  }

  protected close(): void {
    this.hasLeft = true;
    this.#log.onReaderLeft();
  }

  leave(): void {
    if (this.hasLeft) return;
    this.close();
    this.#log.change.wake(this);
  }
}
