/** Subscribers read a stream in batches. A host that iterates gets one item after the other. */

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

/** Wakes the readers that wait for a change. */
export class Change {
  #next: PromiseWithResolvers<void> | undefined;

  /** Resolves with the next `notify`. */
  wait(): Promise<void> {
    this.#next ??= Promise.withResolvers<void>();
    return this.#next.promise;
  }

  notify(): void {
    this.#next?.resolve();
    this.#next = undefined;
  }
}

/** The index of the first item whose place is above `cursor`. Places rise. */
export function indexAfter<Item>(items: readonly Item[], cursor: number, placeOf: (item: Item) => number): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (placeOf(items[middle] as Item) > cursor) high = middle;
    else low = middle + 1;
  }
  return low;
}
