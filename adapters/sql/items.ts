/**
 * The storage operations on the store's items. Evaluates here what SQL cannot evaluate alike on all databases: conditions, visibility and
 * similarity.
 */
import type { JsonObject } from "../../lib/json.ts";
import {
  type ItemCondition,
  type ItemQuery,
  type ItemRow,
  type ItemStorage,
  matchesConditions,
  type NewItem,
  type Vector,
} from "../../lib/storage/items.ts";
import type { Page, Scope } from "../../lib/storage/mod.ts";
import { maxCosineSimilarity } from "../../lib/storage/similarity.ts";
import { matchesFilter } from "../../lib/storage/visibility.ts";
import { type Database, readAll, readOne } from "./database.ts";
import { isFailedAssertion } from "./errors.ts";
import { createNamespaceLister, endOfPrefix, parseNamespace, toPath } from "./namespaces.ts";
import type { Statement } from "./query.ts";
import type { CoreTables } from "./schema/tables.ts";
import {
  assertItem,
  type CandidatesShape,
  deleteItem,
  type Narrowing,
  refreshItems,
  selectItem,
  selectItems,
  selectNewestCandidates,
  selectNextCandidates,
  upsertItem,
} from "./statements/items.ts";

type ItemKey = { path: string; key: string };

/** The number of rows per read, if this file filters them. */
const PAGE_ROWS = 200;
/** The maximum number of conditions in a statement. Others make it longer, but not faster. */
const MAX_NARROWING_CONDITIONS = 8;

const toLockKeys = (deployment: string, addresses: readonly ItemKey[]): string[] =>
  addresses.map(({ path, key }) => `item ${deployment} ${path} ${key}`);

const encodeAddresses = (addresses: readonly ItemKey[]): string =>
  JSON.stringify(addresses.map(({ path, key }) => [path, key]));

/**
 * Reads the page of candidates, last written first. The rows are not filtered any further, so the conditions of the query must
 * be decided by SQL.
 */
async function findPage(
  driver: Database,
  scope: Scope,
  query: ItemQuery & Page,
  now: number,
): Promise<readonly StoredItem[]> {
  const { shape, args, start, conditions } = toCandidates(scope, query, now);
  const { limit, offset } = query;
  return readAll(driver, selectNewestCandidates(shape, { ...args, start, limit, offset }, conditions), toStored);
}

/**
 * Reads the newest `PAGE_ROWS` candidates, filters them here, and returns the page of those that match. Returns null if the
 * page goes beyond these rows or may continue behind them.
 */
async function findNewest(
  driver: Database,
  scope: Scope,
  query: ItemQuery & Page,
  now: number,
): Promise<readonly StoredItem[] | null> {
  const pageEnd = query.offset + query.limit;
  if (pageEnd > PAGE_ROWS) return null;
  const newest = await findPage(driver, scope, { ...query, limit: PAGE_ROWS, offset: 0 }, now);
  const matching = newest.filter((stored) => rankItem(stored, scope, query));
  return newest.length < PAGE_ROWS || matching.length >= pageEnd ? matching.slice(query.offset, pageEnd) : null;
}

/**
 * Reads all candidates, page by page, and ranks here those that match, because SQL cannot. Returns the ranks of the requested
 * page, the best first. Keeps only the best addresses in memory.
 */
async function rankAll(driver: Database, scope: Scope, query: ItemQuery & Page, now: number): Promise<readonly Rank[]> {
  const { shape, args, start, conditions } = toCandidates(scope, query, now);
  const topRanks = new TopRanks(query.offset + query.limit);
  for (let position: ItemKey = { path: start, key: "" }; ; ) {
    const positionArguments = { after_path: position.path, after_key: position.key, limit: PAGE_ROWS };
    const rows = await driver.read(selectNextCandidates(shape, { ...args, ...positionArguments }, conditions));
    for (const row of rows) {
      const rank = rankItem(toStored(row), scope, query);
      if (rank) topRanks.add(rank);
    }
    const lastRow = rows.at(-1);
    if (!lastRow || rows.length < PAGE_ROWS) return topRanks.ranks().slice(query.offset);
    position = lastRow;
  }
}

/**
 * Ranks all matching items and returns those of the page, the best first; with a query vector each has its `score`. Items that
 * have changed meanwhile and do not match any more are missing from the page.
 */
async function findRankedPage(
  driver: Database,
  scope: Scope,
  query: ItemQuery & Page,
  now: number,
): Promise<readonly StoredItem[]> {
  const ranks = await rankAll(driver, scope, query, now);
  const itemsByAddress = new Map<string, StoredItem>();
  for (let start = 0; start < ranks.length; start += PAGE_ROWS) {
    const addresses = encodeAddresses(ranks.slice(start, start + PAGE_ROWS));
    const rows = await driver.read(selectItems({ deployment: scope.deployment, places: addresses, now }));
    for (const row of rows) itemsByAddress.set(`${row.path}\0${row.key}`, toStored(row));
  }
  return ranks.flatMap(({ path, key }) => {
    const stored = itemsByAddress.get(`${path}\0${key}`);
    // The row may have changed since.
    const rank = stored && rankItem(stored, scope, query);
    if (!stored || !rank) return [];
    return [query.query_vector ? { ...stored, score: rank.score } : stored];
  });
}

/**
 * Reads the items and returns a statement for each that fails its batch unless the item is still as read, or still missing.
 * Returns null if one of them is not visible.
 */
async function assertUnchanged(
  driver: Database,
  scope: Scope,
  addresses: readonly ItemKey[],
  now: number,
): Promise<Statement<never>[] | null> {
  const { deployment } = scope;
  const assertions: Statement<never>[] = [];
  for (const address of addresses) {
    const stored = await readOne(driver, selectItem({ deployment, ...address, now }), toStored);
    if (stored && !isVisible(stored.row, scope)) return null;
    assertions.push(assertItem({ deployment, ...address, expected: stored?.text ?? null, now }));
  }
  return assertions;
}

/** Creates the storage operations on the store's items. */
export function createItemStorage(driver: Database): ItemStorage {
  /**
   * Restarts the time to live of the items that have one. Writes nothing if each of them would expire at the same time or
   * later.
   */
  async function refresh({ deployment }: Scope, items: readonly StoredItem[], now: number): Promise<void> {
    const stale = items.filter(({ row }) => row.ttl_ms !== null && (row.expires_at as number) < now + row.ttl_ms);
    if (stale.length === 0) return;
    const addresses = stale.map(({ path, row }) => ({ path, key: row.key }));
    await driver.batch(
      [refreshItems({ deployment, places: encodeAddresses(addresses), now })],
      toLockKeys(deployment, addresses),
    );
  }

  return {
    /**
     * Stores and deletes all items or none. Returns `hidden` if the filter excludes one that exists; tries again if an item
     * changes meanwhile.
     * @statements assertUnchanged · deleteItem · upsertItem
     * @guards upserts and deletes. With a filter: read each item · fail the batch unless each item is as seen · write. Retries.
     */
    async putItems(scope, items, now) {
      const { deployment } = scope;
      const writes = items.map((item) => {
        const address = { deployment, path: toPath(item.namespace), key: item.key };
        return item.value === null ? deleteItem(address) : upsertItem({ ...address, ...toContent(item, now), now });
      });
      const addresses = items.map(({ namespace, key }) => ({ path: toPath(namespace), key }));
      for (;;) {
        const assertions = scope.filter ? await assertUnchanged(driver, scope, addresses, now) : [];
        if (!assertions) return "hidden";
        try {
          await driver.batch([...assertions, ...writes], toLockKeys(deployment, addresses));
          return "written";
        } catch (error) {
          if (!isFailedAssertion(error)) throw error;
        }
      }
    },

    /**
     * Returns an item; null if it does not exist, has expired or is excluded.
     * @statements selectItem · refreshItems
     * @guards Restarts the time to live of the returned item.
     */
    // biome-ignore lint/complexity/useMaxParams: the operation of Storage has these parameters
    async getItem(scope, namespace, key, options, now) {
      const select = selectItem({ deployment: scope.deployment, path: toPath(namespace), key, now });
      const stored = await readOne(driver, select, toStored);
      if (!stored || !isVisible(stored.row, scope)) return null;
      if (options.refresh) await refresh(scope, [stored], now);
      return stored.row;
    },

    /**
     * Returns the items that match, newest or most similar first.
     * @statements findNewest · findPage · findRankedPage · refreshItems
     * @guards Restarts the time to live of the returned items.
     */
    async searchItems(scope, query, now) {
      if (query.limit === 0) return [];
      const needsFilter = query.query_vector !== undefined || scope.filter !== undefined || query.conditions.length > 0;
      const sorted = query.query_vector ? null : await (needsFilter ? findNewest : findPage)(driver, scope, query, now);
      const items = sorted ?? (await findRankedPage(driver, scope, query, now));
      if (query.refresh) await refresh(scope, items, now);
      return items.map(({ row, score }) => (score === undefined ? row : { ...row, score }));
    },

    /** @statements createNamespaceLister */
    listNamespaces: createNamespaceLister(driver, (scope, item) => isVisible(toStored(item).row, scope)),
  };
}

/** The arguments of a condition. */
type Condition = { text: string; member: string; bound: number };

/**
 * Returns the shape and the arguments of a search for items in the namespace `start` and below. At most
 * `MAX_NARROWING_CONDITIONS` conditions are part of it; the items that it finds must be filtered with all of them.
 */
function toCandidates({ deployment }: Scope, query: ItemQuery, now: number) {
  const start = toPath(query.namespace_prefix);
  const narrowing = query.conditions.flatMap(toNarrowing).slice(0, MAX_NARROWING_CONDITIONS);
  const shape: CandidatesShape = {
    prefix: start !== "",
    vectors: query.query_vector !== undefined,
    conditions: narrowing.map(([condition]) => condition),
  };
  return {
    shape,
    args: { deployment, now, end: endOfPrefix(start) },
    start,
    conditions: narrowing.map(([, args]) => args),
  };
}

/**
 * Returns a condition that SQL evaluates alike on all databases, and its arguments: true for every value that meets the
 * condition, and perhaps for others. An empty list if there is none.
 */
function toNarrowing([member, operator, operand]: ItemCondition): [Narrowing, Condition][] {
  if (operator === "eq") {
    if (typeof operand === "object" && operand !== null) return [];
    // Values are stored as JSON.stringify writes them.
    return [["equals", { text: `${JSON.stringify(member)}:${JSON.stringify(operand)}`, member, bound: 0 }]];
  }
  if (operator === "ne" || typeof operand !== "number" || !PLAIN_MEMBER_NAME.test(member)) return [];
  const below = operator === "lt" || operator === "lte";
  // Databases may round the last digit in another way.
  const slack = Math.abs(operand) * 1e-9;
  const bound = below ? operand + slack : operand - slack;
  const null_passes = matchesConditions({ it: null }, [["it", operator, operand]]);
  return Number.isFinite(bound)
    ? [
        [
          { below, null_passes },
          { text: "", member, bound },
        ],
      ]
    : [];
}

/** Names of members that need no escapes in paths. */
const PLAIN_MEMBER_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

interface StoredItem {
  readonly path: string;
  readonly row: ItemRow;
  /** The stored text of the value. */
  readonly text: string;
  readonly vectors: string | null;
  readonly score?: number;
}

/** Converts a row. `text` is the stored JSON text of the value, `vectors` stays text. */
function toStored(stored: CoreTables["store_items"]): StoredItem {
  const { path, key, value, vectors, created_at, updated_at, ttl_ms, expires_at } = stored;
  const times = { created_at, updated_at, ttl_ms, expires_at };
  const item = { namespace: parseNamespace(path), key, value: JSON.parse(value) as JsonObject, ...times };
  return { path, row: item, text: value, vectors };
}

const isVisible = ({ value, namespace, key }: ItemRow, { filter }: Scope): boolean =>
  matchesFilter(filter, { ...value, namespace: [...namespace], key });

/**
 * Returns the columns of an item, with value and vectors as JSON text; it expires `ttl_ms` from `now`. Columns are null without
 * vectors or a time to live.
 */
function toContent(
  { value, vectors, ttl_ms }: NewItem,
  now: number,
): Pick<CoreTables["store_items"], "value" | "vectors" | "ttl_ms" | "expires_at"> {
  return {
    value: JSON.stringify(value),
    vectors: vectors.length === 0 ? null : JSON.stringify(vectors),
    ttl_ms,
    expires_at: ttl_ms === null ? null : now + ttl_ms,
  };
}

interface Rank extends ItemKey {
  readonly score: number;
  readonly updated_at: number;
}

/**
 * Returns the rank of an item, with the score 0 without a query vector. Returns null if it is not visible, does not match, or
 * has no vector to compare.
 */
function rankItem({ path, row, vectors }: StoredItem, scope: Scope, query: ItemQuery): Rank | null {
  const { key, updated_at } = row;
  if (!isVisible(row, scope) || !matchesConditions(row.value, query.conditions)) return null;
  if (!query.query_vector) return { path, key, updated_at, score: 0 };
  const score = maxCosineSimilarity(JSON.parse(vectors ?? "[]") as readonly Vector[], query.query_vector);
  return score === null ? null : { path, key, updated_at, score };
}

/** Compares by similarity, then the newest first, then by address. */
function compareRanks(a: Rank, b: Rank): number {
  if (a.score !== b.score) return b.score - a.score;
  if (a.updated_at !== b.updated_at) return b.updated_at - a.updated_at;
  if (a.path !== b.path) return a.path < b.path ? -1 : 1;
  if (a.key === b.key) return 0;
  return a.key < b.key ? -1 : 1;
}

/** Keeps the first `count` ranks in order. */
class TopRanks {
  readonly #count: number;
  #topRanks: Rank[] = [];

  constructor(count: number) {
    this.#count = count;
  }

  /** Adds a rank. Now and then it sorts the list and drops all but the best `count`, so that it stays short. */
  add(rank: Rank): void {
    this.#topRanks.push(rank);
    if (this.#topRanks.length >= 2 * this.#count + PAGE_ROWS) this.#topRanks = this.ranks();
  }

  ranks(): Rank[] {
    return this.#topRanks.sort(compareRanks).slice(0, this.#count);
  }
}
