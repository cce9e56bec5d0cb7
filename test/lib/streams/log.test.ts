/** Readers of a log, where what they read from the store meets what is in memory. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { createTickBudget } from "../../../lib/environment.ts";
import { LogCursor, type Page, RingLog } from "../../../lib/streams/log.ts";

interface Item {
  readonly position: number;
  readonly data: string;
}

const createItem = (position: number): Item => ({ position, data: `${position}` });

class Ring extends RingLog<Item> {
  getPosition({ position }: Item): number {
    return position;
  }

  protected get maxChars(): number {
    return 1_000_000;
  }

  add(...positions: number[]): void {
    this.addAll(positions.map(createItem));
  }

  addAll(items: readonly Item[]): void {
    for (const item of items) this.append(item);
    this.change.notify();
  }
}

/** Reads up to place 2 from the store, and shows what is above `hidden_to`. */
class Reading extends LogCursor<Item> {
  readonly hidden_to: number;
  readonly loaded: () => Page<Item>;

  constructor(ring: Ring, hidden_to: number, loaded: () => Page<Item>) {
    super(ring, 0);
    this.hidden_to = hidden_to;
    this.loaded = loaded;
  }

  protected override get floor(): number {
    return 2;
  }

  protected async load(): Promise<Page<Item>> {
    return this.loaded();
  }

  protected toEmitted(item: Item): Item | null {
    return item.position > this.hidden_to ? item : null;
  }
}

it("a log cursor whose page emits nothing reads the items in memory", {
  timeout: 5_000,
}, async () => {
  const ring = new Ring(createTickBudget({ defer: (call) => void setImmediate(call) }, 1_000_000));
  ring.add(1, 2);
  const reader = new Reading(ring, 4, () => {
    // The items are stored and published while the page is read.
    ring.add(3, 4, 5, 6);
    return { items: [1, 2, 3, 4].map(createItem), read_to: 4 };
  }).toReader();
  const positions = (await reader.next()).map(({ position }) => position);
  assert.deepEqual(positions, [5, 6]);
  reader.leave();
});

/** A reader of large items from a store that is ahead of the log in memory. */
class Behind extends LogCursor<Item> {
  readonly #ring: Ring;
  readonly #stored: readonly Item[];

  constructor(ring: Ring, stored: readonly Item[]) {
    super(ring, 0);
    this.#ring = ring;
    this.#stored = stored;
  }

  protected override get floor(): number {
    return Math.max(2, this.#ring.startsAfter);
  }

  protected async load(): Promise<Page<Item>> {
    const items = this.#stored.filter(({ position }) => position > this.position).slice(0, 6);
    return { items, read_to: items.at(-1)?.position ?? null };
  }

  protected toEmitted(item: Item): Item {
    return item;
  }
}

it("a log cursor that falls behind again reads the rest of its last page", { timeout: 5_000 }, async () => {
  const createLargeItem = (position: number): Item => ({ position, data: `${position}`.padEnd(40_000, "x") });
  const ring = new Ring(createTickBudget({ defer: (call) => void setImmediate(call) }, 10_000_000));
  const stored = Array.from({ length: 60 }, (_, n) => createLargeItem(n + 1));
  ring.addAll(stored.slice(0, 3));
  const reader = new Behind(ring, stored).toReader();
  const readPositions: number[] = [];
  const read = async (): Promise<void> =>
    void readPositions.push(...(await reader.next()).map(({ position }) => position));
  await read();
  await read();
  assert.deepEqual(readPositions, [1, 2, 3]);
  ring.addAll(stored.slice(3));
  assert.ok(ring.startsAfter > 6);
  while (readPositions.length < 57) await read();
  assert.deepEqual(readPositions.slice(0, 10), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  reader.leave();
});
