/** Frames and events are stored many to a row, in the order of their numbers. */

/** A row is closed once it is this long, so that what is read or deleted at once stays small. */
const MIN_CHUNK_CHARS = 64 * 1024;
/** A part of a list that becomes a row, with the size of its texts. */
type Chunk<Item> = { readonly part: readonly Item[]; readonly from: number; readonly size: number };

/**
 * Splits a list, in its order, into the parts that become rows: a part ends with the item with which its data reaches
 * `MIN_CHUNK_CHARS`, the last one with the list. `from` is the index of its first item, `size` the characters of its data.
 */
export function splitIntoChunks<Item extends { readonly data: string | null }>(items: readonly Item[]): Chunk<Item>[] {
  const chunks: Chunk<Item>[] = [];
  for (let from = 0; from < items.length; ) {
    let [to, size] = [from, 0];
    while (to < items.length && size < MIN_CHUNK_CHARS) size += items[to++]?.data?.length ?? 0;
    chunks.push({ part: items.slice(from, to), from, size });
    from = to;
  }
  return chunks;
}
