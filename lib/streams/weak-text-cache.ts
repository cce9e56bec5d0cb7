/** One copy of each large text for all readers that hold it. */

/** Smaller texts are not worth the bookkeeping, in characters. */
export const LARGE_TEXT_CHARS: number = 64 * 1024;

/** Holds nothing itself: an item lives as long as a reader has it, and a text as long as its item. */
export class WeakTextCache<Item extends { readonly data: string }> {
  readonly #items = new Map<string | number, WeakRef<Item>>();

  /** What a reader still holds. */
  get(key: string | number): Item | undefined {
    return this.#items.get(key)?.deref();
  }

  /** The item that readers hold already if it has the same text, else this one. */
  share(key: string | number, item: Item): Item {
    if (item.data.length < LARGE_TEXT_CHARS) return item;
    const shared = this.get(key);
    if (shared?.data === item.data) return shared;
    for (const [oldKey, reference] of this.#items) if (!reference.deref()) this.#items.delete(oldKey);
    this.#items.set(key, new WeakRef<Item>(item));
    return item;
  }

  clear(): void {
    this.#items.clear();
  }
}
