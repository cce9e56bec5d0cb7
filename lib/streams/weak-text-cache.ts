/** Shares one copy of each large text among all readers that hold it. */

/** The length below which texts are not shared. */
export const LARGE_TEXT_CHARS: number = 64 * 1024;

/** Caches items by weak references: an item lives as long as a reader holds it, and a text as long as its item. */
export class WeakTextCache<Item extends { readonly data: string }> {
  readonly #items = new Map<string | number, WeakRef<Item>>();

  /** Returns an item that a reader still holds; undefined if none does. */
  get(key: string | number): Item | undefined {
    return this.#items.get(key)?.deref();
  }

  /**
   * Returns the item that readers already hold if it has the same text, else `item`, which it then shares. Short texts are not
   * shared. An entry does not keep its item in memory.
   */
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
