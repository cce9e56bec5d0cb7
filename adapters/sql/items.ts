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
  meets,
  type NewItem,
  nearness,
  type Vector,
} from "../../lib/storage/items.ts";
import type { Page, Scope } from "../../lib/storage/mod.ts";
import { permits } from "../../lib/storage/visibility.ts";
import { holds, mayReach } from "./dialect.ts";
import type { SqlRow } from "./driver.ts";
import { alive, namespaceLister, namespaceOf, past, pathOf } from "./namespaces.ts";
import type { Tables } from "./schema/tables.ts";
import { type Database, prepared, preparedRows, readAll, readOne, type Statement, statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

type ItemKey = { path: string; key: string };
type Key = ItemKey & { deployment: string };

/** The number of rows per read, if this file filters them. */
const STEP = 200;
/** More conditions than these make the statement longer, but not the search faster. */
const NARROWING = 8;

/** The row at a place. */
const isAt = (p: Key): RawBuilder<boolean> =>
  sql<boolean>`deployment = ${p.deployment} and path = ${p.path} and key = ${p.key}`;

const getItem = prepared<Key & { now: number }>(
  (p) => sql`select * from store_items where ${isAt(p)} and ${alive(p.now)}`,
);

// When earlier reads decide whether a batch may write, the batch sets a mark, removes it if a row has changed since, and writes
// only while it exists. A namespace never has an empty path, and the batch removes the mark at its end.
const MARK: ItemKey = { path: "", key: "" };

const setMark = prepared<Key>(
  (p) =>
    sql`insert into store_items (deployment, path, key, value, vectors, created_at, updated_at, ttl_ms, expires_at)
    values (${p.deployment}, ${p.path}, ${p.key}, '{}', null, 0, 0, 0, 0) on conflict do nothing`,
);

const dropMarkUnless = prepared<Key & { mark_path: string; mark_key: string; seen: string | null; now: number }>(
  (p) =>
    sql`delete from store_items where ${isAt({ deployment: p.deployment, path: p.mark_path, key: p.mark_key })}
    and (select i.value from store_items i where i.deployment = ${p.deployment} and i.path = ${p.path}
      and i.key = ${p.key} and (i.expires_at is null or i.expires_at > ${p.now})) is distinct from ${p.seen}`,
);

const dropMark = prepared<Key>((p) => sql`delete from store_items where ${isAt(p)} returning key`);

const placesOf = (deployment: string, places: readonly ItemKey[]): string[] =>
  places.map(({ path, key }) => `item ${deployment} ${path} ${key}`);

const among = (places: readonly ItemKey[]): RawBuilder<boolean> =>
  sql<boolean>`(path, key) in (values ${sql.join(places.map(({ path, key }) => sql`(${path}, ${key})`))})`;

type Guard = { free: number; mark_path: string; mark_key: string };

const unguarded: Guard = { free: 1, mark_path: MARK.path, mark_key: MARK.key };
const guarded: Guard = { ...unguarded, free: 0 };

const allowed = (p: Guard & Key): RawBuilder<boolean> =>
  sql<boolean>`(${p.free} = 1 or exists (select 1 from store_items m where m.deployment = ${p.deployment}
    and m.path = ${p.mark_path} and m.key = ${p.mark_key}))`;

type Content = { value: string; vectors: string | null; ttl_ms: number | null; expires_at: number | null };

const putItem = prepared<Key & Content & Guard & { now: number }>(
  (p) =>
    sql`insert into store_items (deployment, path, key, value, vectors, created_at, updated_at, ttl_ms, expires_at)
    select ${p.deployment}, ${p.path}, ${p.key}, ${p.value}, ${p.vectors}, ${p.now}, ${p.now}, ${p.ttl_ms}, ${p.expires_at}
    where ${allowed(p)}
    on conflict (deployment, path, key) do update set value = excluded.value, vectors = excluded.vectors,
      created_at = case when store_items.expires_at <= excluded.updated_at then excluded.created_at
        else store_items.created_at end,
      updated_at = excluded.updated_at, ttl_ms = excluded.ttl_ms, expires_at = excluded.expires_at`,
);

const deleteItem = prepared<Key & Guard>((p) => sql`delete from store_items where ${isAt(p)} and ${allowed(p)}`);

const refreshItems = preparedRows<{ deployment: string; now: number }, ItemKey>(
  (p, rows) =>
    sql`update store_items set expires_at = ${p.now} + ttl_ms where deployment = ${p.deployment} and ${among(rows)}
    and expires_at > ${p.now} and expires_at < ${p.now} + ttl_ms`,
);

/** Deletes expired items. */
export const sweepItems: (args: { deployment: string; now: number; limit: number }) => Statement = prepared(
  (p) =>
    sql`delete from store_items where deployment = ${p.deployment} and expires_at <= ${p.now}
    and (path, key) in (select i.path, i.key from store_items i
      where i.deployment = ${p.deployment} and i.expires_at <= ${p.now} order by i.expires_at limit ${p.limit})
    returning key`,
);

/** The newest first, sorted by the database. */
async function findPage(
  driver: Database,
  scope: Scope,
  query: ItemQuery & Page,
  now: number,
): Promise<readonly Stored[]> {
  // Sorts places only, not whole items.
  const places = sql`select path, key from store_items where ${candidates(scope, query, now)}
    order by updated_at desc, path, key limit ${query.limit} offset ${query.offset}`;
  const select = sql`select * from store_items where deployment = ${scope.deployment} and (path, key) in (${places})
    order by updated_at desc, path, key`;
  return readAll(driver, statement(select), toStored);
}

/** The same where this file decides. Null: the page may continue behind the newest rows. */
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
async function findRanked(
  driver: Database,
  scope: Scope,
  query: ItemQuery & Page,
  now: number,
): Promise<readonly Stored[]> {
  const best = new Best(query.offset + query.limit);
  for (let after: ItemKey = MARK; ; ) {
    const select = sql`select * from store_items where ${candidates(scope, query, now)}
      and (path, key) > (${after.path}, ${after.key}) order by path, key limit ${STEP}`;
    const rows = await driver.read(statement(select));
    for (const row of rows) {
      const rank = rankOf(toStored(row), scope, query);
      if (rank) best.add(rank);
    }
    const last = rows.at(-1);
    if (!last || rows.length < STEP) break;
    after = { path: last.path as string, key: last.key as string };
  }
  const places = best.ranks().slice(query.offset);
  const found = new Map<string, Stored>();
  for (let start = 0; start < places.length; start += STEP) {
    const part = places.slice(start, start + STEP);
    const select = sql`select * from store_items where deployment = ${scope.deployment} and ${among(part)}
      and ${alive(now)}`;
    for (const row of await driver.read(statement(select))) found.set(`${row.path}\0${row.key}`, toStored(row));
  }
  return places.flatMap(({ path, key }) => {
    const stored = found.get(`${path}\0${key}`);
    // The row may have changed since.
    const rank = stored && rankOf(stored, scope, query);
    if (!stored || !rank) return [];
    return [query.near ? { ...stored, score: rank.score } : stored];
  });
}

/** The verbs on the store's items. */
export function itemVerbs(driver: Database): ItemStorage {
  const find = ({ deployment }: Scope, place: ItemKey, now: number): Promise<Stored | null> =>
    readOne(driver, getItem({ deployment, ...place, now }), toStored);

  async function refresh({ deployment }: Scope, found: readonly Stored[], now: number): Promise<void> {
    const stale = found.filter(({ row }) => row.ttl_ms !== null && (row.expires_at as number) < now + row.ttl_ms);
    if (stale.length === 0) return;
    const places = stale.map(({ path, row }) => ({ path, key: row.key }));
    await driver.batch(refreshItems({ deployment, now }, places), placesOf(deployment, places));
  }

  return {
    /**
     * @statements writes · deleteItem · putItem · getItem · dropMarkUnless · setMark · dropMark
     * @guards without a filter, upserts and deletes. With a filter: read each item · set a mark row · remove the mark
     *   unless each item is as seen · write while marked · remove the mark; its rows decide the outcome. Retries.
     */
    async putItems(scope, items, now) {
      const { deployment } = scope;
      const writes = (guard: Guard): Statement[] =>
        items.map((item) => {
          const place = { deployment, path: pathOf(item.namespace), key: item.key };
          if (item.value === null) return deleteItem({ ...place, ...guard });
          return putItem({ ...place, ...toContent(item, now), ...guard, now });
        });
      const places = items.map(({ namespace, key }) => ({ path: pathOf(namespace), key }));
      const lock_keys = placesOf(deployment, places);
      if (!scope.filter) {
        await driver.batch(writes(unguarded), lock_keys);
        return "written";
      }
      const mark = { mark_path: MARK.path, mark_key: MARK.key };
      for (;;) {
        const seen: Statement[] = [];
        for (const { namespace, key } of items) {
          const place = { path: pathOf(namespace), key };
          const stored = await find(scope, place, now);
          if (stored && !visible(stored.row, scope)) return "hidden";
          seen.push(dropMarkUnless({ deployment, ...place, ...mark, seen: stored?.text ?? null, now }));
        }
        const results = await driver.batch(
          [setMark({ deployment, ...MARK }), ...seen, ...writes(guarded), dropMark({ deployment, ...MARK })],
          [...lock_keys, ...placesOf(deployment, [MARK])],
        );
        if (results.at(-1)?.length === 1) return "written";
      }
    },

    /**
     * @statements getItem · refreshItems
     * @guards Restarts the time to live of the returned item.
     */
    async getItem(scope, namespace, key, options, now) {
      const stored = await find(scope, { path: pathOf(namespace), key }, now);
      if (!stored || !visible(stored.row, scope)) return null;
      if (options.refresh) await refresh(scope, [stored], now);
      return stored.row;
    },

    /**
     * @statements statement · refreshItems
     * @guards Restarts the time to live of the returned items.
     */
    async searchItems(scope, query, now) {
      if (query.limit === 0) return [];
      const decides = query.near !== undefined || scope.filter !== undefined || query.conditions.length > 0;
      const sorted = query.near ? null : await (decides ? findNewest : findPage)(driver, scope, query, now);
      const found = sorted ?? (await findRanked(driver, scope, query, now));
      if (query.refresh) await refresh(scope, found, now);
      return found.map(({ row, score }) => (score === undefined ? row : { ...row, score }));
    },

    /** @statements namespaceLister */
    listNamespaces: namespaceLister(driver, (scope, row) => visible(toStored(row).row, scope)),
  };
}

/** A condition on rows that all matches meet. */
function candidates({ deployment }: Scope, query: ItemQuery, now: number): RawBuilder<boolean> {
  const where: RawBuilder<unknown>[] = [sql`deployment = ${deployment}`, alive(now)];
  const prefix = pathOf(query.namespace_prefix);
  if (prefix !== "") where.push(sql`path >= ${prefix} and path < ${past(prefix)}`);
  if (query.near) where.push(sql`vectors is not null`);
  where.push(...query.conditions.flatMap(narrowing).slice(0, NARROWING));
  return sql`${sql.join(where, sql` and `)}`;
}

/** Conditions that SQL evaluates alike on all databases: true for every value that meets the condition. */
function narrowing([member, operator, operand]: ItemCondition): RawBuilder<boolean>[] {
  const value = sql<string>`value`;
  if (operator === "eq") {
    if (typeof operand === "object" && operand !== null) return [];
    // Values are stored as JSON.stringify writes them.
    return [holds(value, `${JSON.stringify(member)}:${JSON.stringify(operand)}`)];
  }
  if (operator === "ne" || typeof operand !== "number" || !PLAIN.test(member)) return [];
  const below = operator === "lt" || operator === "lte";
  // Databases may round the last digit in another way.
  const slack = Math.abs(operand) * 1e-9;
  const bound = below ? operand + slack : operand - slack;
  return Number.isFinite(bound)
    ? [mayReach(value, member, { bound, below, null_passes: meets({ it: null }, [["it", operator, operand]]) })]
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

function toStored(row: SqlRow): Stored {
  const { path, key, value, vectors, created_at, updated_at, ttl_ms, expires_at } =
    row as unknown as Tables["store_items"];
  const about = { created_at, updated_at, ttl_ms, expires_at };
  const item = { namespace: namespaceOf(path), key, value: JSON.parse(value) as JsonObject, ...about };
  return { path, row: item, text: value, vectors };
}

const visible = ({ value, namespace, key }: ItemRow, { filter }: Scope): boolean =>
  permits(filter, { ...value, namespace: [...namespace], key });

function toContent({ value, vectors, ttl_ms }: NewItem, now: number): Content {
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
  if (!visible(row, scope) || !meets(row.value, query.conditions)) return null;
  if (!query.near) return { path, key, updated_at, score: 0 };
  const score = nearness(JSON.parse(vectors ?? "[]") as readonly Vector[], query.near);
  return score === null ? null : { path, key, updated_at, score };
}

/** By similarity, then the newest first, then by place. */
function order(a: Rank, b: Rank): number {
  if (a.score !== b.score) return b.score - a.score;
  if (a.updated_at !== b.updated_at) return b.updated_at - a.updated_at;
  if (a.path !== b.path) return a.path < b.path ? -1 : 1;
  return a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
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
