/**
 * Write barriers decide which save takes an item, so that a state is stored together with the frames of it. An example:
 * 1. `open` returns 1: an agent is about to put a state and to emit it.
 * 2. It puts the state, with `positionForState` 1. No save takes it yet.
 * 3. It emits a frame, with `positionForOutput` 1. No save takes it yet.
 * 4. `close(1)`: the agent has emitted the state.
 * 5. The next save takes both.
 */

/**
 * Numbers barriers from 1 in the order in which they open. They close in that order. The position of an item is the number of the
 * barrier that must be closed before a save may take it, or 0 for none.
 */
export class WriteBarrier {
  #opened = 0;
  #closed = 0;
  #waiting: { readonly position: number; readonly resolve: () => void }[] = [];

  /** Opens a barrier and returns its position, for `close`. */
  open(): number {
    return ++this.#opened;
  }

  /** Closes this barrier and all before it, and resolves those that wait for them. */
  close(position: number): void {
    this.#closed = Math.max(this.#closed, position);
    const waiting = this.#waiting;
    // Agents open a barrier for each token.
    if (waiting.length === 0) return;
    this.#waiting = waiting.filter((waiter) => !this.isPassed(waiter.position));
    for (const waiter of waiting) if (this.isPassed(waiter.position)) waiter.resolve();
  }

  /** Closes all barriers, also those that open later, because nothing more is emitted. */
  closeAll(): void {
    this.close(Number.POSITIVE_INFINITY);
  }

  get isOpen(): boolean {
    return this.#opened > this.#closed;
  }

  /** The position of a state that is put now. It waits for the newest barrier, because its output is still to come. */
  get positionForState(): number {
    return this.#opened;
  }

  /**
   * The position of output that is emitted now. It waits for the oldest open barrier, whose save stores all output until it
   * closes.
   */
  get positionForOutput(): number {
    // If none is open, this is the last barrier, which is closed, so that the next save takes the output.
    return Math.min(this.#closed + 1, this.#opened);
  }

  isPassed(position: number): boolean {
    return position <= this.#closed;
  }

  /** Resolves when a save may take an item with this position. */
  async waitUntilPassed(position: number): Promise<void> {
    if (!this.isPassed(position)) await new Promise<void>((resolve) => this.#waiting.push({ position, resolve }));
  }
}

/** Queues items between two saves, in the order of their positions. */
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
    const firstBlocked = this.#queued.findIndex(({ position }) => !this.#barrier.isPassed(position));
    return this.#queued.splice(0, firstBlocked < 0 ? this.#queued.length : firstBlocked).map(({ item }) => item);
  }

  /** Returns true if the oldest entry may be saved; false for an empty queue. */
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
