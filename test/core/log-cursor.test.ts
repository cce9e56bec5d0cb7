/** Readers of a log, where what they read from the store meets what is in memory. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { tickLimit } from "../../lib/environment.ts";
import { Cursor, Log, type Page } from "../../lib/streams/log.ts";

interface Item {
  readonly place: number;
  readonly data: string;
}

const itemAt = (place: number): Item => ({ place, data: `${place}` });

class Ring extends Log<Item> {
  placeOf({ place }: Item): number {
    return place;
  }

  protected get room(): number {
    return 1_000_000;
  }

  add(...places: number[]): void {
    for (const place of places) this.append(itemAt(place));
    this.change.notify();
  }
}

/** Reads up to place 2 from the store, and shows what is above `hidden_to`. */
class Reading extends Cursor<Item> {
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

  protected show(item: Item): Item | null {
    return item.place > this.hidden_to ? item : null;
  }
}

it("a page of which nothing is shown does not keep its reader from what is in memory already", {
  timeout: 5_000,
}, async () => {
  const ring = new Ring(tickLimit({ defer: (call) => void setImmediate(call) }, 1_000_000));
  ring.add(1, 2);
  const reader = new Reading(ring, 4, () => {
    // Stored and announced while the page is read.
    ring.add(3, 4, 5, 6);
    return { items: [1, 2, 3, 4].map(itemAt), read_to: 4 };
  }).reader();
  const places = (await reader.next()).map(({ place }) => place);
  assert.deepEqual(places, [5, 6]);
  reader.leave();
});
