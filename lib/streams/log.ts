/**
 * The logs from which all streams are read: the newest items of a run or a thread in memory, and older ones in pages from the
 * storage.
 */
import { coalesceCalls, createTickBudget, type Environment, type KeepAlive, type TickBudget } from "../environment.ts";
import { WeakTextCache } from "./weak-text-cache.ts";

/** A subscription. Call `next` again only after it has resolved. */
export interface Reader<Item> extends AsyncIterable<Item> {
  /** Waits until an item is ready. Returns all that are ready, up to a limit; none once the stream has ended or was left. */
  next(): Promise<readonly Item[]>;
  /** Ends the subscription: a waiting `next` returns nothing. */
  leave(): void;
}

const END = { done: true, value: undefined } as const;

/**
 * Creates a reader. Its iterator ends at the first empty batch, and its `return` leaves at once: it is no generator, because
 * `return` of a generator waits for the next item.
 */
export function createReader<Item>(next: Reader<Item>["next"], leave: () => void): Reader<Item> {
  return {
    next,
    leave,
    /** Returns an iterator over single items, with a buffer of its own. */
    [Symbol.asyncIterator]() {
      const ready: Item[] = [];
      return {
        /** Returns one item. Reads the next batch once the last one is used up, and is done at an empty one. */
        async next() {
          if (ready.length === 0) ready.push(...(await next()));
          return ready.length > 0 ? { done: false, value: ready.shift() as Item } : END;
        },
        /** Drops the items that are ready and leaves at once. */
        async return() {
          ready.length = 0;
          leave();
          return END;
        },
      };
    },
  };
}

/** Wakes the readers that wait for a change. Each waits separately, because one that leaves must not wake the others. */
export class ChangeNotifier {
  /** Created by the first wait, because hundreds of ended logs are retained. */
  #waiting: Map<object, PromiseWithResolvers<void>> | undefined;

  /** Resolves with the next `notify`, or `wake` of this reader. */
  wait(reader: object): Promise<void> {
    this.#waiting ??= new Map();
    const waiting = this.#waiting.get(reader) ?? Promise.withResolvers<void>();
    this.#waiting.set(reader, waiting);
    return waiting.promise;
  }

  /** Wakes all that wait for a change. */
  notify(): void {
    if (!this.#waiting) return;
    for (const { resolve } of this.#waiting.values()) resolve();
    this.#waiting.clear();
  }

  /** Wakes one reader. Does nothing if it does not wait. */
  wake(reader: object): void {
    this.#waiting?.get(reader)?.resolve();
    this.#waiting?.delete(reader);
  }
}

/** The maximum size of one batch, in characters. A reader holds no more than that. */
const MAX_BATCH_CHARS = 64 * 1024;
/** The memory of an item beside its text, in characters. */
const ITEM_OVERHEAD_CHARS = 64;
/** The maximum that is read in one tick of the event loop, in characters, and the fixed costs of a read and an item. */
const MAX_CHARS_PER_TICK = 256 * 1024;
export const COST_PER_READ: number = 4 * 1024;
const COST_PER_STORED_ITEM = 256;

/** Creates the limit that keeps readers of much data from blocking the event loop where the storage responds at once. */
export const createReadLimit = (environment: Pick<Environment, "defer">): TickBudget =>
  createTickBudget(environment, MAX_CHARS_PER_TICK);

type Item = { readonly data: string | null };

const getSize = ({ data }: Item): number => (data?.length ?? 0) + ITEM_OVERHEAD_CHARS;

export interface Page<Stored> {
  /** The items by ascending position. */
  readonly items: readonly Stored[];
  /** The position up to which the page reaches; null when the page is empty. */
  readonly read_to: number | null;
}

/** Reads the pages of one log, one at a time. Calls for a page share a read that has not begun. */
export class PageReader<Stored extends Item> {
  readonly #limit: TickBudget;
  readonly #getPosition: (item: Stored) => number;
  readonly #readShared = coalesceCalls((cost) => this.#last.then(() => this.#limit.waitForRoom(cost)));
  readonly #texts = new WeakTextCache<Stored & { readonly data: string }>();
  #last: Promise<unknown> = Promise.resolve();

  /** `limit` is shared with other logs: a page waits until its tick has room. */
  constructor(limit: TickBudget, getPosition: (item: Stored) => number) {
    this.#limit = limit;
    this.#getPosition = getPosition;
  }

  /**
   * Reads a page at a time per log; calls with an equal key share the read. Readers share large items. The size of a page slows
   * down later reads. Throws what `load` throws.
   */
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

  /** Returns the item, or the equal one that other readers hold already, so that they share a large text. */
  #share(item: Stored): Stored {
    return item.data === null
      ? item
      : this.#texts.share(this.#getPosition(item), item as Stored & { readonly data: string });
  }
}

/** The newest items of a run or a thread, shared by all its readers in this process. */
export abstract class RingLog<Emitted extends Item, Stored extends Item = Emitted> {
  /** The items by ascending position. */
  items: Emitted[] = [];
  /** The position above which all items are in `items`. */
  startsAfter = 0;
  /** The highest position so far; 0 before the first item. */
  last = 0;
  readers = 0;
  /** True if the service stops. Readers then end without an error. */
  isClosed = false;
  /** Notifies readers of new items and of the end. */
  readonly change: ChangeNotifier = new ChangeNotifier();
  protected size = 0;
  readonly #limit: TickBudget;
  #pages: PageReader<Stored> | undefined;

  constructor(limit: TickBudget) {
    this.#limit = limit;
  }

  /** Returns the position of an item in the log. */
  abstract getPosition(item: Emitted | Stored): number;
  /** The maximum size of `items`, in characters. */
  protected abstract get maxChars(): number;
  /**
   * Returns a promise to await before a large batch is emitted; undefined for other batches. It resolves once a tick has room, which
   * it uses: many readers get the batch at the same time, and some create a text from it.
   */
  waitForTick(batch: readonly Emitted[]): Promise<void> | undefined {
    const size = batch.reduce((sum, item) => sum + getSize(item), 0);
    return size > MAX_BATCH_CHARS ? this.#limit.waitForRoom(size) : undefined;
  }

  /** Keeps the process alive while a reader waits for items. */
  get keepAlive(): KeepAlive | undefined {
    return undefined;
  }

  /** The page reader, created on first use, because few ended logs have readers behind their items. */
  get pages(): PageReader<Stored> {
    if (!this.#pages) this.#pages = new PageReader<Stored>(this.#limit, this.getPosition);
    return this.#pages;
  }

  /** Called when a reader has left. */
  onReaderLeft(): void {
    this.readers--;
  }

  /**
   * Adds an item without waking readers. Above the limit it drops the oldest quarter, but never the newest item, which may be
   * large.
   */
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

  /** Drops all items and continues after this position. */
  protected clear(position: number): void {
    this.items = [];
    this.size = 0;
    this.startsAfter = position;
    this.last = position;
  }
}

/** Returns the index of the first item above this position; the length of the list if there is none. */
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

/** The position of a reader in a log. Reads items that are not in memory from the storage. */
export abstract class LogCursor<Emitted extends Item, Stored extends Item = Emitted> {
  /** The position of the last item that was handled. */
  protected position: number;
  protected hasLeft = false;
  /** True if there is something to read. */
  protected isAttached = true;
  /** True if the reader keeps the rest of a page for its next batch. */
  protected keepsPage = true;
  readonly #log: RingLog<Emitted, Stored>;
  #page: readonly Stored[] = [];
  /** The position up to which the page reaches. */
  #readTo = 0;

  /** Counts itself as a reader of the log until it leaves. `position` is that of the last item that the subscriber has. */
  constructor(log: RingLog<Emitted, Stored>, position: number) {
    this.#log = log;
    this.position = position;
    log.readers++;
  }

  /** The position up to which items are read from the storage. */
  protected get floor(): number {
    return this.#log.startsAfter;
  }

  /** Returns true if nothing more may be emitted. */
  protected isRevoked(): boolean {
    return false;
  }

  /** Returns true if the stream has ended. */
  protected isAtEnd(): boolean {
    return this.#log.isClosed;
  }

  /** Sets `isAttached` once there is something to read. Resolves to false if the reader has to wait for a change. */
  protected attach?(): Promise<boolean>;
  /** Returns an item to emit that is not in the log, once; undefined if there is none. May move the position. */
  protected consumeNotice?(): Emitted | undefined;
  /** Reads the page after `position`. */
  protected abstract load(): Promise<Page<Stored>>;
  /** Converts an item to its emitted form; null if this reader does not get it. */
  protected abstract toEmitted(item: Emitted | Stored): Emitted | null | Promise<Emitted | null>;
  /** Called before a batch is emitted. */
  protected checkBeforeEmit?(): Promise<unknown> | undefined;

  /** Returns the cursor as a reader: an async iterable, and `next` for batches. Ending an iteration leaves the log. */
  toReader(): Reader<Emitted> {
    return createReader(
      () => this.#next(),
      () => this.leave(),
    );
  }

  /**
   * Returns the next batch of items; empty at the end or after the reader has left. Waits for items, for a tick with room, and
   * for the check of the reader's access. Throws once if reading fails, and has left then.
   */
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
        // Otherwise this reader gets none of the items. More may follow in the page, or in the log after the page.
      } catch (error) {
        this.#failWith(error);
      }
    }
    return [];
  }

  /** Waits for a change of the log, or reads the next page or attaches the reader. Keeps the process alive meanwhile. */
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

  /** Leaves the log and throws the error, unless the reader had left or the service stops; then returns. */
  #failWith(error: unknown): void {
    const isExpected = this.hasLeft || this.#log.isClosed;
    if (!this.hasLeft) this.leaveLog();
    if (!isExpected) throw error;
  }

  /**
   * Adds a batch from the log or the page to `ready`, and moves the position. An item that must be read first ends the batch, and
   * the result resolves once it was added; otherwise it is undefined.
   */
  #collectBatch(ready: Emitted[]): Promise<void> | undefined {
    const notice = this.consumeNotice?.();
    if (notice) return void ready.push(notice);
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
    // Emitted items are not held, because they may be large. A reader that keeps no pages or has left its position reads the rest
    // of a page again.
    if (list === items || (i < list.length && !this.keepsPage)) {
      this.#page = [];
      this.#readTo = this.position;
    } else this.#page = this.#page.slice(i);
    return undefined;
  }

  /** Moves the position to the end of the last page if it is before that, and reads nothing; else reads the next page. */
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

  /** Leaves the log, because the stream has ended, and returns the last items: none here. */
  protected end(): readonly Emitted[] {
    this.leaveLog();
    return [];
  }

  /** Marks the reader as having left, and counts it out of the log. Does not wake a waiting `next`. Call it once. */
  protected leaveLog(): void {
    this.hasLeft = true;
    this.#log.onReaderLeft();
  }

  /** Stops reading, once, and wakes its own pending read, which then ends. */
  leave(): void {
    if (this.hasLeft) return;
    this.leaveLog();
    this.#log.change.wake(this);
  }
}
