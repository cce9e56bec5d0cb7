/** Frames and events are stored many to a row, in the order of their ids: how lists become rows, and how rows are read in pages. */
import { scalar } from "../dialect.ts";
import { type RawBuilder, sql } from "../template.ts";

/** A row is closed once it is this long, so that what is read or deleted at once stays small. */
const CHUNK_SIZE = 64 * 1024;
/** A page has at most this many rows, and ends with the row that reaches this many characters. */
export const PAGE_ROWS = 64;
export const PAGE_SIZE = 1_000_000;

/** A part of a list that becomes a row, with the size of its texts. */
type Chunk<Item> = { readonly part: readonly Item[]; readonly from: number; readonly size: number };

export function chunksOf<Item extends { readonly data: string | null }>(items: readonly Item[]): Chunk<Item>[] {
  const chunks: Chunk<Item>[] = [];
  for (let from = 0; from < items.length; ) {
    let [to, size] = [from, 0];
    while (to < items.length && size < CHUNK_SIZE) size += items[to++]?.data?.length ?? 0;
    chunks.push({ part: items.slice(from, to), from, size });
    from = to;
  }
  return chunks;
}

/** A page of rows with ids above `after`, from the one that may hold both. `rows`: those of one log; `more`: other conditions. */
export function pageAfter(
  [table, first, last]: readonly [table: string, first: string, last: string],
  after: number,
  rows: RawBuilder<unknown>,
  more: RawBuilder<unknown> = sql``,
): RawBuilder<unknown> {
  const [from, id, end] = [sql.table(table), sql.ref(first), sql.ref(last)];
  const wanted = sql`${rows} and ${end} > ${scalar(after)} and ${id} >= coalesce((select max(${id}) from ${from}
    where ${rows} and ${id} <= ${scalar(after)}), 0)${more}`;
  return sql`${wanted} and ${id} <= (select max(${id}) from (select ${id}, sum(size) over (order by ${id}) - size as before
    from (select ${id}, size from ${from} where ${wanted} order by ${id} limit ${scalar(PAGE_ROWS)}) as sizes) as sums
    where before < ${scalar(PAGE_SIZE)})`;
}
