/** Write barriers decide which save takes an item, so that a state is stored together with the frames that show it. */

/**
 * Barriers are numbered from 1 in the order in which they open, and they close in that order. The position of an item is the number
 * of the barrier that must be closed before a save may take it; 0: none.
 */
export class WriteBarrier {
  #opened = 0;
  #closed = 0;
  #waiting: { readonly position: number; readonly resolve: () => void }[] = [];

  /** Opens a barrier and returns its position, for `close`. */
  open(): number {
    return ++this.#opened;
  }

  close(position: number): void {
    this.#closed = Math.max(this.#closed, position);
    const waiting = this.#waiting;
    // There is a barrier for each token.
    if (waiting.length === 0) return;
    this.#waiting = waiting.filter((waiter) => !this.isPassed(waiter.position));
    for (const waiter of waiting) if (this.isPassed(waiter.position)) waiter.resolve();
  }

  /** Closes all barriers, also those that open later: nothing more is emitted. */
  closeAll(): void {
    this.close(Number.POSITIVE_INFINITY);
  }

  get isOpen(): boolean {
    return this.#opened > this.#closed;
  }

  /** The position of what output that is still to come shows: it waits for the newest barrier. */
  get newest(): number {
    return this.#opened;
  }

  /** The position of output: it waits for the oldest open barrier, whose save stores all that was emitted until it closes. */
  get oldest(): number {
    return Math.min(this.#closed + 1, this.#opened);
  }

  isPassed(position: number): boolean {
    return position <= this.#closed;
  }

  /** Resolves when a save may take an item with this position. */
  async passed(position: number): Promise<void> {
    if (!this.isPassed(position)) await new Promise<void>((resolve) => this.#waiting.push({ position, resolve }));
  }
}

/** Items between two saves, in the order in which they were added, which is also the order of their positions. */
export class BarrierQueue<Item> {
  readonly #barrier: WriteBarrier;
  readonly #queued: { readonly item: Item; readonly position: number }[] = [];

  constructor(barrier: WriteBarrier) {
    this.#barrier = barrier;
  }

  add(item: Item, position: number): void {
    this.#queued.push({ item, position });
  }

  /** Removes and returns the items that a save may take. */
  drain(): Item[] {
    const held = this.#queued.findIndex(({ position }) => !this.#barrier.isPassed(position));
    return this.#queued.splice(0, held < 0 ? this.#queued.length : held).map(({ item }) => item);
  }

  /** A save may take at least one item. */
  hasReady(): boolean {
    const [oldest] = this.#queued;
    return oldest !== undefined && this.#barrier.isPassed(oldest.position);
  }

  get length(): number {
    return this.#queued.length;
  }

  items(): Item[] {
    return this.#queued.map(({ item }) => item);
  }
}
