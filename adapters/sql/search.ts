/**
 * Searches rows by metadata. Reads the rows of the filter's rarest label, newest first, and looks up the other labels for each
 * row. If labels express the whole filter, SQL decides. Otherwise the candidates' metadata is read and compared with the filter.
 */
import { contains, type Json, type JsonObject } from "../../lib/json.ts";
import type { Page, SortOptions } from "../../lib/storage/mod.ts";
import { type Filter, matchesFilter } from "../../lib/storage/visibility.ts";
import type { Database } from "./database.ts";
import { type Label, labelsOf } from "./labels.ts";
import type { LabelKind } from "./statements/labels.ts";
import {
  type ConditionName,
  countLabels,
  countRows,
  isCountable,
  NO_CONDITIONS,
  type SearchShape,
  type SelectRows,
  selectCandidates,
  selectStoredCount,
} from "./statements/search.ts";

/** A search. */
export interface Search {
  readonly kind: LabelKind;
  readonly deployment: string;
  /** The row's metadata must contain this. */
  readonly metadata: JsonObject | undefined;
  /** The caller's authorization filter. */
  readonly filter: Filter | undefined;
  /** Further conditions with their arguments; conditions with undefined do not apply. */
  readonly where: Readonly<Partial<Record<ConditionName, string | undefined>>>;
  /** Labels that the state of a thread may have. */
  readonly values?: readonly Label[];
}

/** How to read rows. */
export type Reading = Page & SortOptions<string>;

/** More labels make the statement longer, but not the search faster. */
const LABELS = 8;
/** From this offset on, the rows are counted first: a page behind the middle is read from the end. */
const FAR = 200;
/** How many rows of a label are counted to find the rarest one. */
const COUNTED = 1000;

/** Rows in order. */
interface FoundRows<Row> {
  readonly rows: readonly Row[];
  /** The number of all rows that the search finds. */
  readonly total: number;
}

/** Finds one page of rows in order, and the total number. */
export async function findRows<Row extends { readonly metadata: string }>(
  driver: Database,
  select: SelectRows<Row>,
  search: Search,
  reading: Reading,
): Promise<FoundRows<Row>> {
  const plan = await planOf(driver, search);
  if (plan.none) return { rows: [], total: 0 };
  if (!plan.decided) return await compareRows(driver, select, plan, reading);
  const { limit, offset } = reading;
  if (limit === 0) return { rows: [], total: await count(driver, plan) };
  const far = offset < FAR ? null : await count(driver, plan);
  if (far !== null && 2 * offset > far) {
    return { rows: await readFromEnd(driver, select, plan, { ...reading, total: far }), total: far };
  }
  const rows = await readPage(driver, select, plan, reading);
  // A page that is not full ends the list. A count could differ, because others may write between two reads.
  const ends = rows.length < limit && (rows.length > 0 || offset === 0);
  return { rows, total: far ?? (ends ? offset + rows.length : await count(driver, plan)) };
}

const readPage = <Row>(
  driver: Database,
  select: SelectRows<Row>,
  { shape, args, labels }: Plan,
  { sort_by, sort_order, limit, offset }: Reading,
): Promise<Row[]> =>
  driver.read(select({ ...shape, sort_by, sort_order, listed: false }, { ...args, listed: "", limit, offset }, labels));

/** Reads a page among `total` rows in the opposite order: the database steps over each row before a page. */
async function readFromEnd<Row>(
  driver: Database,
  select: SelectRows<Row>,
  plan: Plan,
  { total, ...reading }: Reading & { readonly total: number },
): Promise<readonly Row[]> {
  const limit = Math.min(reading.limit, total - reading.offset);
  if (limit <= 0) return [];
  const sort_order = reading.sort_order === "asc" ? "desc" : "asc";
  const offset = total - reading.offset - limit;
  return (await readPage(driver, select, plan, { ...reading, sort_order, limit, offset })).toReversed();
}

/** Compares the metadata of all candidates with the filter. */
async function compareRows<Row extends { readonly metadata: string }>(
  driver: Database,
  select: SelectRows<Row>,
  { search, shape, args, labels }: Plan,
  { sort_by, sort_order, limit, offset }: Reading,
): Promise<FoundRows<Row>> {
  const order = { ...shape, sort_by, sort_order };
  const candidates = await driver.read(selectCandidates(order, args, labels));
  const found = candidates.filter((row) => matches(search, row));
  const ids = found.slice(offset, offset + limit).map(({ id }) => id);
  if (ids.length === 0) return { rows: [], total: found.length };
  // Reads rows by id and checks the filter again, because rows may have changed since.
  const terms = { ...args, listed: JSON.stringify(ids), limit: 0, offset: 0 };
  const rows = await driver.read(select({ ...order, listed: true }, terms, labels));
  return { rows: rows.filter((row) => matches(search, row)), total: found.length };
}

/** The arguments of a label. */
type LabelArguments = { readonly path_hash: number; readonly value_hash: number; readonly exact: string | null };

type SearchArguments = Parameters<typeof countRows>[1];

/** The plan of a search. */
interface Plan {
  readonly search: Search;
  readonly shape: SearchShape;
  readonly args: SearchArguments;
  /** The labels of the rows, the rarest first, then those of states. */
  readonly labels: readonly LabelArguments[];
  /** The labels express the whole filter, so no metadata is compared. */
  readonly decided: boolean;
  /** No row has one of the labels. */
  readonly none: boolean;
  /** The number of rows, if known. */
  readonly total: number | null;
}

async function planOf(driver: Database, search: Search): Promise<Plan> {
  const { metadata = {}, filter = [] } = search;
  const asked = [metadata, ...filter.map(partOf)];
  const known = new Map(asked.flatMap((part) => labelsOf(part, LABELS + 1)).map((label) => [label.join(), label]));
  const labels = [...known.values()].slice(0, LABELS);
  if (labels.length === 0) {
    return toPlan(search, [], { decided: asked.every((part) => Object.keys(part).length === 0) });
  }
  const exact = known.size <= LABELS && labels.every((label) => label[2] !== null) && asked.every(isMadeOfLabels);
  const { kind, deployment } = search;
  const select = countLabels({ kind, labels: labels.length }, { deployment, limit: COUNTED }, labels.map(toArguments));
  const counts = (await driver.read(select)).sort((a, b) => a.found - b.found || a.place - b.place);
  const rarest = counts[0]?.found ?? 0;
  // A label stored only as hashes may belong to another text.
  const decided = exact && counts.every(({ hashed }) => hashed === 0);
  const plan = toPlan(
    search,
    counts.map(({ place }) => labels[place] as Label),
    { decided, none: rarest === 0 },
  );
  const isKnown = decided && labels.length === 1 && isCountable(plan.shape) && rarest < COUNTED;
  return isKnown ? { ...plan, total: rarest } : plan;
}

const toArguments = ([path_hash, value_hash, exact]: Label): LabelArguments => ({ path_hash, value_hash, exact });

function toPlan(
  search: Search,
  labels: readonly Label[],
  { decided, none = false }: { readonly decided: boolean; readonly none?: boolean },
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
      labels: labels.length,
      exact: decided,
      where: conditions.map(([name]) => name),
      values: values.length,
    },
    args: { ...NO_CONDITIONS, ...Object.fromEntries(conditions), deployment },
    labels: [...labels, ...values].map(toArguments),
    decided,
    none,
    total: null,
  };
}

async function count(driver: Database, { search, shape, args, labels, total }: Plan): Promise<number> {
  if (total !== null) return total;
  const { kind, deployment } = search;
  // On SQLite triggers keep the number of all rows: to count 100,000 takes 3 ms of every search.
  const isStored = driver.dialect === "sqlite" && shape.labels === 0 && isCountable(shape);
  const select = isStored ? selectStoredCount({ deployment, kind }) : countRows(shape, args, labels);
  const [row] = await driver.read(select);
  return row?.total ?? 0;
}

/** A condition of a filter as an object that the metadata must contain. */
const partOf = (condition: Filter[number]): JsonObject =>
  Object.fromEntries([[condition.key, "equals" in condition ? condition.equals : [...condition.contains]]]);

const matches = ({ metadata = {}, filter }: Search, row: { readonly metadata: string }): boolean => {
  const stored = JSON.parse(row.metadata) as JsonObject;
  return contains(stored, metadata) && matchesFilter(filter, stored);
};

/**
 * True for a filter that a row contains if it has all labels: no empty objects or lists, and no list item with more than one
 * scalar, which labels could not tell from two items with one scalar each.
 */
function isMadeOfLabels(filter: JsonObject): boolean {
  const scalars = (value: Json): number => {
    if (typeof value !== "object" || value === null) return 1;
    const listed = Array.isArray(value);
    const inner = (listed ? value : Object.values(value)).map(scalars);
    if (inner.length === 0 || (listed && inner.some((one) => one > 1))) return Number.POSITIVE_INFINITY;
    return inner.reduce((total, one) => total + one, 0);
  };
  return Object.values(filter).every((value) => Number.isFinite(scalars(value)));
}
