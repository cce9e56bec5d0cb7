/** A reader of a log releases the items that it has emitted. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { setImmediate as tick } from "node:timers/promises";
import { createTickBudget } from "../../../lib/environment.ts";
import { LogCursor, type Page, RingLog } from "../../../lib/streams/log.ts";
import { collect } from "../../support/heap.ts";

interface Item {
  readonly position: number;
  readonly data: string;
}

class Ring extends RingLog<Item> {
  override startsAfter = 2;

  getPosition({ position }: Item): number {
    return position;
  }

  protected get maxChars(): number {
    return 1_000_000;
  }
}

class Reading extends LogCursor<Item> {
  page: readonly Item[] = [];

  protected async load(): Promise<Page<Item>> {
    const items = this.page;
    this.page = [];
    return { items, read_to: 2 };
  }

  protected toEmitted(item: Item): Item {
    return item;
  }
}

const large = (position: number): Item => ({ position, data: `${position}`.padEnd(100_000, "x") });

/** This is a function of its own, because the frame of the test would retain its result. */
async function readFirst(cursor: Reading): Promise<readonly WeakRef<Item>[]> {
  cursor.page = [large(1), large(2)];
  const refs = cursor.page.map((item) => new WeakRef(item));
  const [first, ...otherItems] = await cursor.toReader().next();
  assert.deepEqual([first?.position, otherItems], [1, []]);
  return refs;
}

it("a log cursor does not retain the items of a page that it has emitted", async () => {
  const cursor = new Reading(new Ring(createTickBudget({ defer: (call) => void setImmediate(call) }, 1_000_000)), 0);
  const refs = await readFirst(cursor);
  for (let tries = 0; tries < 50 && refs[0]?.deref(); tries++) {
    await tick();
    collect();
  }
  assert.deepEqual(
    refs.map((ref) => ref.deref()?.position),
    [undefined, 2],
  );
  cursor.leave();
});
