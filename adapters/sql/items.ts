/**
 * The verbs on the store's items. Evaluates here what SQL cannot evaluate alike on all databases: conditions, visibility and
 * similarity.
 */
import type { JsonObject } from "../../lib/json.ts";
import {
  type ItemCondition,
  type ItemQuery,
  type ItemRow,
  type ItemStorage,
  matchesConditions,
  maxCosineSimilarity,
  type NewItem,
  type Vector,
} from "../../lib/storage/items.ts";
import type { Page, Scope } from "../../lib/storage/mod.ts";
import { matchesFilter } from "../../lib/storage/visibility.ts";
import { type Database, readAll, readOne } from "./database.ts";
import { isFailedAssertion } from "./errors.ts";
import { namespaceLister, namespaceOf, past, pathOf } from "./namespaces.ts";
import type { Statement } from "./query.ts";
import type { Tables } from "./schema/tables.ts";
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
const STEP = 200;
/** More conditions than these make the statement longer, but not the search faster. */
const NARROWING = 8;

const locksOf = (deployment: string, places: readonly ItemKey[]): string[] =>
  places.map(({ path, key }) => `item ${deployment} ${path} ${key}`);

const toList = (places: readonly ItemKey[]): string => JSON.stringify(places.map(({ path, key }) => [path, key]));

/** Finds the newest first, sorted by the database. */
async function findPage(
  driver: Database,
  scope: Scope,
  query: ItemQuery & Page,
  now: number,
): Promise<readonly Stored[]> {
  const { shape, args, start, conditions } = toCandidates(scope, query, now);
  const { limit, offset } = query;
  return readAll(driver, selectNewestCandidates(shape, { ...args, start, limit, offset }, conditions), toStored);
}

/** Finds the same where this file decides. Null: the page may continue behind the newest rows. */
async function findNewest(
  driver: Database,
  scope: Scope,
  query: ItemQuery & Page,
  now: number,
): Promise<readonly Stored[] | null> {
  const end = query.offset + query.limit;
  if (end > STEP) return null;
  const newest = await findPage(driver, scope, { ...query, limit: STEP, offset: 0 }, now);
  const found = newest.filter((stored) => rankOf(stored, scope, query));
  return newest.length < STEP || found.length >= end ? found.slice(query.offset, end) : null;
}

/** Ranks all matching rows here, because SQL cannot. Keeps only the places of the best rows in memory. */
async function rankAll(driver: Database, scope: Scope, query: ItemQuery & Page, now: number): Promise<readonly Rank[]> {
  const { shape, args, start, conditions } = toCandidates(scope, query, now);
  const best = new Best(query.offset + query.limit);
  for (let after: ItemKey = { path: start, key: "" }; ; ) {
    const position = { after_path: after.path, after_key: after.key, limit: STEP };
    const rows = await driver.read(selectNextCandidates(shape, { ...args, ...position }, conditions));
    for (const row of rows) {
      const rank = rankOf(toStored(row), scope, query);
      if (rank) best.add(rank);
    }
    const last = rows.at(-1);
    if (!last || rows.length < STEP) return best.ranks().slice(query.offset);
    after = last;
  }
}

/** Finds the best rows. */
async function findRanked(
  driver: Database,
  scope: Scope,
  query: ItemQuery & Page,
  now: number,
): Promise<readonly Stored[]> {
  const ranks = await rankAll(driver, scope, query, now);
  const found = new Map<string, Stored>();
  for (let start = 0; start < ranks.length; start += STEP) {
    const places = toList(ranks.slice(start, start + STEP));
    const rows = await driver.read(selectItems({ deployment: scope.deployment, places, now }));
    for (const row of rows) found.set(`${row.path}\0${row.key}`, toStored(row));
  }
  return ranks.flatMap(({ path, key }) => {
    const stored = found.get(`${path}\0${key}`);
    // The row may have changed since.
    const rank = stored && rankOf(stored, scope, query);
    if (!stored || !rank) return [];
    return [query.query_vector ? { ...stored, score: rank.score } : stored];
  });
}

/** Returns statements that fail the batch unless the items are as they are now; null if one is not visible. */
async function assertUnchanged(
  driver: Database,
  scope: Scope,
  places: readonly ItemKey[],
  now: number,
): Promise<Statement<never>[] | null> {
  const { deployment } = scope;
  const assertions: Statement<never>[] = [];
  for (const place of places) {
    const stored = await readOne(driver, selectItem({ deployment, ...place, now }), toStored);
    if (stored && !isVisible(stored.row, scope)) return null;
    assertions.push(assertItem({ deployment, ...place, expected: stored?.text ?? null, now }));
  }
  return assertions;
}

/** The verbs on the store's items. */
export function itemVerbs(driver: Database): ItemStorage {
  async function refresh({ deployment }: Scope, found: readonly Stored[], now: number): Promise<void> {
    const stale = found.filter(({ row }) => row.ttl_ms !== null && (row.expires_at as number) < now + row.ttl_ms);
    if (stale.length === 0) return;
    const places = stale.map(({ path, row }) => ({ path, key: row.key }));
    await driver.batch([refreshItems({ deployment, places: toList(places), now })], locksOf(deployment, places));
  }

  return {
    /**
     * @statements assertUnchanged · deleteItem · upsertItem
     * @guards upserts and deletes. With a filter: read each item · fail the batch unless each item is as seen · write. Retries.
     */
    async putItems(scope, items, now) {
      const { deployment } = scope;
      const writes = items.map((item) => {
        const place = { deployment, path: pathOf(item.namespace), key: item.key };
        return item.value === null ? deleteItem(place) : upsertItem({ ...place, ...toContent(item, now), now });
      });
      const places = items.map(({ namespace, key }) => ({ path: pathOf(namespace), key }));
      for (;;) {
        const assertions = scope.filter ? await assertUnchanged(driver, scope, places, now) : [];
        if (!assertions) return "hidden";
        try {
          await driver.batch([...assertions, ...writes], locksOf(deployment, places));
          return "written";
        } catch (error) {
          if (!isFailedAssertion(error)) throw error;
        }
      }
    },

    /**
     * @statements selectItem · refreshItems
     * @guards Restarts the time to live of the returned item.
     */
    // biome-ignore lint/complexity/useMaxParams: the operation of Storage has these parameters
    async getItem(scope, namespace, key, options, now) {
      const select = selectItem({ deployment: scope.deployment, path: pathOf(namespace), key, now });
      const stored = await readOne(driver, select, toStored);
      if (!stored || !isVisible(stored.row, scope)) return null;
      if (options.refresh) await refresh(scope, [stored], now);
      return stored.row;
    },

    /**
     * @statements findNewest · findPage · findRanked · refreshItems
     * @guards Restarts the time to live of the returned items.
     */
    async searchItems(scope, query, now) {
      if (query.limit === 0) return [];
      const decides = query.query_vector !== undefined || scope.filter !== undefined || query.conditions.length > 0;
      const sorted = query.query_vector ? null : await (decides ? findNewest : findPage)(driver, scope, query, now);
      const found = sorted ?? (await findRanked(driver, scope, query, now));
      if (query.refresh) await refresh(scope, found, now);
      return found.map(({ row, score }) => (score === undefined ? row : { ...row, score }));
    },

    /** @statements namespaceLister */
    listNamespaces: namespaceLister(driver, (scope, item) => isVisible(toStored(item).row, scope)),
  };
}

/** The arguments of a condition. */
type Condition = { text: string; member: string; bound: number };

/** What the statements on the candidates of a search take. All candidates are at the path `start` or behind it. */
function toCandidates({ deployment }: Scope, query: ItemQuery, now: number) {
  const start = pathOf(query.namespace_prefix);
  const narrowing = query.conditions.flatMap(toNarrowing).slice(0, NARROWING);
  const shape: CandidatesShape = {
    prefix: start !== "",
    vectors: query.query_vector !== undefined,
    conditions: narrowing.map(([condition]) => condition),
  };
  return {
    shape,
    args: { deployment, now, end: past(start) },
    start,
    conditions: narrowing.map(([, args]) => args),
  };
}

/** A condition that SQL evaluates alike on all databases, and its arguments: true for every value that meets the condition. */
function toNarrowing([member, operator, operand]: ItemCondition): [Narrowing, Condition][] {
  if (operator === "eq") {
    if (typeof operand === "object" && operand !== null) return [];
    // Values are stored as JSON.stringify writes them.
    return [["equals", { text: `${JSON.stringify(member)}:${JSON.stringify(operand)}`, member, bound: 0 }]];
  }
  if (operator === "ne" || typeof operand !== "number" || !PLAIN.test(member)) return [];
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
const PLAIN = /^[A-Za-z_][A-Za-z0-9_]*$/;

interface Stored {
  readonly path: string;
  readonly row: ItemRow;
  /** The stored text of the value. */
  readonly text: string;
  readonly vectors: string | null;
  readonly score?: number;
}

function toStored(stored: Tables["store_items"]): Stored {
  const { path, key, value, vectors, created_at, updated_at, ttl_ms, expires_at } = stored;
  const about = { created_at, updated_at, ttl_ms, expires_at };
  const item = { namespace: namespaceOf(path), key, value: JSON.parse(value) as JsonObject, ...about };
  return { path, row: item, text: value, vectors };
}

const isVisible = ({ value, namespace, key }: ItemRow, { filter }: Scope): boolean =>
  matchesFilter(filter, { ...value, namespace: [...namespace], key });

function toContent({ value, vectors, ttl_ms }: NewItem, now: number) {
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

/** Null for a row that does not match the query. */
function rankOf({ path, row, vectors }: Stored, scope: Scope, query: ItemQuery): Rank | null {
  const { key, updated_at } = row;
  if (!isVisible(row, scope) || !matchesConditions(row.value, query.conditions)) return null;
  if (!query.query_vector) return { path, key, updated_at, score: 0 };
  const score = maxCosineSimilarity(JSON.parse(vectors ?? "[]") as readonly Vector[], query.query_vector);
  return score === null ? null : { path, key, updated_at, score };
}

/** By similarity, then the newest first, then by place. */
function order(a: Rank, b: Rank): number {
  if (a.score !== b.score) return b.score - a.score;
  if (a.updated_at !== b.updated_at) return b.updated_at - a.updated_at;
  if (a.path !== b.path) return a.path < b.path ? -1 : 1;
  if (a.key === b.key) return 0;
  return a.key < b.key ? -1 : 1;
}

/** Keeps the first `count` ranks in order. */
class Best {
  private readonly count: number;
  private kept: Rank[] = [];

  constructor(count: number) {
    this.count = count;
  }

  add(rank: Rank): void {
    this.kept.push(rank);
    if (this.kept.length >= 2 * this.count + STEP) this.kept = this.ranks();
  }

  ranks(): Rank[] {
    return this.kept.sort(order).slice(0, this.count);
  }
}
