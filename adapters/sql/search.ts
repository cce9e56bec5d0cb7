/**
 * Searches rows by metadata. Reads the rows of the filter's rarest index entry, newest first, and looks up the other index entries for each
 * row. If index entries express the whole filter, SQL decides. Otherwise the candidates' metadata is read and compared with the filter.
 */
import { contains, type Json, type JsonObject } from "../../lib/json.ts";
import type { Page, SortOptions } from "../../lib/storage/mod.ts";
import { type Filter, matchesFilter } from "../../lib/storage/visibility.ts";
import type { Database } from "./database.ts";
import { createIndexEntries, type IndexEntry } from "./metadata-index.ts";
import type { IndexedKind } from "./statements/metadata-index.ts";
import {
  type ConditionName,
  countEntries,
  countRows,
  isCountable,
  NO_CONDITIONS,
  type SearchShape,
  type SelectRows,
  selectCandidates,
  selectStoredCount,
} from "./statements/search.ts";

/** A search. */
export interface MetadataSearch {
  readonly kind: IndexedKind;
  readonly deployment: string;
  /** The row's metadata must contain this. */
  readonly metadata: JsonObject | undefined;
  /** The caller's authorization filter. */
  readonly filter: Filter | undefined;
  /** Further conditions with their arguments; conditions with undefined do not apply. */
  readonly where: Readonly<Partial<Record<ConditionName, string | undefined>>>;
  /** Index entries that the state of a thread may have. */
  readonly values?: readonly IndexEntry[];
}

/** The page and the order of a search. */
export type PageQuery = Page & SortOptions<string>;

/** The maximum number of index entries in a search. Others make the statement longer, but not faster. */
const MAX_ENTRIES = 8;
/** The offset from which the rows are counted first, because a page after the middle is read from the end. */
const FAR_OFFSET = 200;
/** The maximum number of rows that are counted for each index entry to find the rarest one. */
const MAX_COUNTED_ROWS = 1000;

/** Rows in order. */
interface FoundRows<Row> {
  readonly rows: readonly Row[];
  /** The number of all rows that the search finds. */
  readonly total: number;
}

/**
 * Returns one page of rows in order, and the total number, which others may change between two reads. A `limit` of 0 only
 * counts. If index entries cannot decide which rows match, it reads and compares all candidates here.
 */
export async function searchRows<Row extends { readonly metadata: string }>(
  driver: Database,
  select: SelectRows<Row>,
  search: MetadataSearch,
  page: PageQuery,
): Promise<FoundRows<Row>> {
  const plan = await createPlan(driver, search);
  if (plan.isEmpty) return { rows: [], total: 0 };
  if (!plan.isDecided) return await compareRows(driver, select, plan, page);
  const { limit, offset } = page;
  if (limit === 0) return { rows: [], total: await countMatches(driver, plan) };
  const farTotal = offset < FAR_OFFSET ? null : await countMatches(driver, plan);
  if (farTotal !== null && 2 * offset > farTotal) {
    return { rows: await readFromEnd(driver, select, plan, { ...page, total: farTotal }), total: farTotal };
  }
  const rows = await readPage(driver, select, plan, page);
  // A page that is not full ends the list. A count could differ, because others may write between two reads.
  const isLastPage = rows.length < limit && (rows.length > 0 || offset === 0);
  return { rows, total: farTotal ?? (isLastPage ? offset + rows.length : await countMatches(driver, plan)) };
}

/**
 * Reads the page of the rows that match the index entries and conditions of a plan, in the requested order. Compares nothing
 * here.
 */
const readPage = <Row>(
  driver: Database,
  select: SelectRows<Row>,
  { shape, args, entries }: Plan,
  { sort_by, sort_order, limit, offset }: PageQuery,
): Promise<Row[]> =>
  driver.read(
    select({ ...shape, sort_by, sort_order, listed: false }, { ...args, listed: "", limit, offset }, entries),
  );

/**
 * Reads a page near the end of `total` rows in the opposite order, because the database steps over each row before a page.
 * Returns it in the requested order; empty beyond the end.
 */
async function readFromEnd<Row>(
  driver: Database,
  select: SelectRows<Row>,
  plan: Plan,
  { total, ...page }: PageQuery & { readonly total: number },
): Promise<readonly Row[]> {
  const limit = Math.min(page.limit, total - page.offset);
  if (limit <= 0) return [];
  const sort_order = page.sort_order === "asc" ? "desc" : "asc";
  const offset = total - page.offset - limit;
  return (await readPage(driver, select, plan, { ...page, sort_order, limit, offset })).toReversed();
}

/**
 * Reads all candidates, compares their metadata with the search and its filter here, and returns a page of those that match
 * with their total number. Rows that change meanwhile are missing from the page.
 */
async function compareRows<Row extends { readonly metadata: string }>(
  driver: Database,
  select: SelectRows<Row>,
  { search, shape, args, entries }: Plan,
  { sort_by, sort_order, limit, offset }: PageQuery,
): Promise<FoundRows<Row>> {
  const order = { ...shape, sort_by, sort_order };
  const candidates = await driver.read(selectCandidates(order, args, entries));
  const matching = candidates.filter((row) => matches(search, row));
  const ids = matching.slice(offset, offset + limit).map(({ id }) => id);
  if (ids.length === 0) return { rows: [], total: matching.length };
  // Reads rows by id and checks the filter again, because rows may have changed since.
  const terms = { ...args, listed: JSON.stringify(ids), limit: 0, offset: 0 };
  const rows = await driver.read(select({ ...order, listed: true }, terms, entries));
  return { rows: rows.filter((row) => matches(search, row)), total: matching.length };
}

/** The arguments of an index entry. */
type EntryArguments = { readonly path_hash: number; readonly value_hash: number; readonly exact: string | null };

type SearchArguments = Parameters<typeof countRows>[1];

/** The plan of a search. */
interface Plan {
  readonly search: MetadataSearch;
  readonly shape: SearchShape;
  readonly args: SearchArguments;
  /** The index entries of the rows, the rarest first, then those of states. */
  readonly entries: readonly EntryArguments[];
  /** The index entries express the whole filter, so no metadata is compared. */
  readonly isDecided: boolean;
  /** No row has one of the index entries. */
  readonly isEmpty: boolean;
  /** The number of rows, if known. */
  readonly total: number | null;
}

/**
 * Counts how many rows have each index entry of a search, up to `MAX_COUNTED_ROWS`, and returns how to search: which entries to
 * follow, the rarest first, whether they decide the result (`isDecided`), whether an entry without rows makes it empty, and the
 * total if the counts tell it. At most `MAX_ENTRIES` entries are followed.
 */
async function createPlan(driver: Database, search: MetadataSearch): Promise<Plan> {
  const { metadata = {}, filter = [] } = search;
  const requirements = [metadata, ...filter.map(toRequiredMetadata)];
  const distinctEntries = new Map(
    requirements.flatMap((part) => createIndexEntries(part, MAX_ENTRIES + 1)).map((entry) => [entry.join(), entry]),
  );
  const entries = [...distinctEntries.values()].slice(0, MAX_ENTRIES);
  if (entries.length === 0) {
    return toPlan(search, [], { isDecided: requirements.every((part) => Object.keys(part).length === 0) });
  }
  const isExact =
    distinctEntries.size <= MAX_ENTRIES &&
    entries.every((entry) => entry[2] !== null) &&
    requirements.every(consistsOfEntries);
  const { kind, deployment } = search;
  const select = countEntries(
    { kind, entries: entries.length },
    { deployment, limit: MAX_COUNTED_ROWS },
    entries.map(toEntryArguments),
  );
  const counts = (await driver.read(select)).sort((a, b) => a.found - b.found || a.place - b.place);
  const rarest = counts[0]?.found ?? 0;
  // A index entry stored only as hashes may belong to another text.
  const isDecided = isExact && counts.every(({ hashed }) => hashed === 0);
  const plan = toPlan(
    search,
    counts.map(({ place }) => entries[place] as IndexEntry),
    { isDecided, isEmpty: rarest === 0 },
  );
  const isTotalKnown = isDecided && entries.length === 1 && isCountable(plan.shape) && rarest < MAX_COUNTED_ROWS;
  return isTotalKnown ? { ...plan, total: rarest } : plan;
}

const toEntryArguments = ([path_hash, value_hash, exact]: IndexEntry): EntryArguments => ({
  path_hash,
  value_hash,
  exact,
});

/** Returns the plan of a search with these index entries, without a known total. Conditions that are undefined are left out. */
function toPlan(
  search: MetadataSearch,
  entries: readonly IndexEntry[],
  { isDecided, isEmpty = false }: { readonly isDecided: boolean; readonly isEmpty?: boolean },
): Plan {
  const { kind, deployment, where, values = [] } = search;
  const conditions = (Object.keys(where) as ConditionName[]).flatMap((name) => {
    const value = where[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    search,
    shape: {
      kind,
      entries: entries.length,
      exact: isDecided,
      where: conditions.map(([name]) => name),
      values: values.length,
    },
    args: { ...NO_CONDITIONS, ...Object.fromEntries(conditions), deployment },
    entries: [...entries, ...values].map(toEntryArguments),
    isDecided,
    isEmpty,
    total: null,
  };
}

/**
 * Returns the number of matching rows: the known total of the plan, else on SQLite the counter of all rows if the plan has no
 * condition, else a count.
 */
async function countMatches(driver: Database, { search, shape, args, entries, total }: Plan): Promise<number> {
  if (total !== null) return total;
  const { kind, deployment } = search;
  // On SQLite triggers keep the number of all rows: to count 100,000 takes 3 ms of every search.
  const isStored = driver.dialect === "sqlite" && shape.entries === 0 && isCountable(shape);
  const select = isStored ? selectStoredCount({ deployment, kind }) : countRows(shape, args, entries);
  const [row] = await driver.read(select);
  return row?.total ?? 0;
}

/** A condition of a filter as an object that the metadata must contain. */
const toRequiredMetadata = (condition: Filter[number]): JsonObject =>
  Object.fromEntries([[condition.key, "equals" in condition ? condition.equals : [...condition.contains]]]);

/** Returns true if the metadata of the row contains that of the search and passes its filter. */
const matches = ({ metadata = {}, filter }: MetadataSearch, row: { readonly metadata: string }): boolean => {
  const stored = JSON.parse(row.metadata) as JsonObject;
  return contains(stored, metadata) && matchesFilter(filter, stored);
};

/**
 * Returns true for a filter that a row contains if it has all index entries: no empty objects or lists, and no list item with
 * more than one scalar, which index entries could not tell from two items with one scalar each.
 */
function consistsOfEntries(filter: JsonObject): boolean {
  /**
   * Returns the number of scalars of a value; infinity if it has an empty object or list, or a list with a member of more than one scalar.
   */
  const countScalars = (value: Json): number => {
    if (typeof value !== "object" || value === null) return 1;
    const isList = Array.isArray(value);
    const counts = (isList ? value : Object.values(value)).map(countScalars);
    if (counts.length === 0 || (isList && counts.some((count) => count > 1))) return Number.POSITIVE_INFINITY;
    return counts.reduce((total, count) => total + count, 0);
  };
  return Object.values(filter).every((value) => Number.isFinite(countScalars(value)));
}
