/** Statements on the items of the store. */
import { type Expression, type RawBuilder, sql } from "kysely";
import { assertThat } from "../assertions.ts";
import { containsText, jsonRows, mayReachBound } from "../functions.ts";
import { bigint, columns, double, type Operand, orNull, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, query, shapedQuery, shapedRowsQuery } from "../query.ts";
import { storeTables } from "../schema/items.ts";
import type { CoreTables } from "../schema/tables.ts";

const db = createBuilder<CoreTables>();

const stable = { stable: true };

const addressTypes = columns(storeTables.store_items, ["deployment", "path", "key"]);
const contentTypes = columns(storeTables.store_items, ["value", "vectors", "ttl_ms", "expires_at"]);

/** Returns the condition on rows of `store_items` that they have not expired. */
const isAlive = (now: Operand<number>): RawBuilder<boolean> =>
  sql<boolean>`(expires_at is null or expires_at > ${now})`;

/** Selects an item that has not expired. */
export const selectItem = query({ ...addressTypes, now: bigint }, (p) =>
  db
    .selectFrom("store_items")
    .selectAll()
    .where("deployment", "=", p.deployment)
    .where("path", "=", p.path)
    .where("key", "=", p.key)
    .where(isAlive(p.now)),
);

/** Fails the batch unless the item has the value `expected`; null: unless it does not exist. */
export const assertItem = query({ ...addressTypes, expected: orNull(text), now: bigint }, (p) =>
  assertThat(sql`(select value from store_items
      where deployment = ${p.deployment} and path = ${p.path} and key = ${p.key} and ${isAlive(p.now)})
      is not distinct from ${p.expected}`),
);

/** Inserts an item or replaces it. One that has expired counts as new. */
export const upsertItem = query({ ...addressTypes, ...contentTypes, now: bigint }, (p) =>
  db
    .insertInto("store_items")
    .values({
      deployment: p.deployment,
      path: p.path,
      key: p.key,
      value: p.value,
      vectors: p.vectors,
      created_at: p.now,
      updated_at: p.now,
      ttl_ms: p.ttl_ms,
      expires_at: p.expires_at,
    })
    .onConflict((conflict) =>
      conflict.columns(["deployment", "path", "key"]).doUpdateSet({
        value: sql`excluded.value`,
        vectors: sql`excluded.vectors`,
        created_at: sql`case when store_items.expires_at <= excluded.updated_at then excluded.created_at
          else store_items.created_at end`,
        updated_at: sql`excluded.updated_at`,
        ttl_ms: sql`excluded.ttl_ms`,
        expires_at: sql`excluded.expires_at`,
      }),
    ),
);

/** Deletes an item. */
export const deleteItem = query(addressTypes, (p) =>
  db
    .deleteFrom("store_items")
    .where("deployment", "=", p.deployment)
    .where("path", "=", p.path)
    .where("key", "=", p.key),
);

const jsonAddresses = (addresses: Expression<string>): RawBuilder<unknown> =>
  jsonRows(addresses, { path: "text", key: "text" });

/** Restarts the time to live of the items at these places. `places` is a JSON list of [path, key]. */
export const refreshItems = query(
  { deployment: text, places: text, now: bigint },
  (p) =>
    sql<never>`update store_items set expires_at = ${p.now} + ttl_ms where deployment = ${p.deployment}
      and (path, key) in (select path, key from ${jsonAddresses(p.places)} as listed)
      and expires_at > ${p.now} and expires_at < ${p.now} + ttl_ms`,
  stable,
);

/** Deletes expired items, at most `limit`. */
export const deleteExpiredItems = query(
  { deployment: text, now: bigint, limit: bigint },
  (p) =>
    sql<{ key: string }>`delete from store_items where deployment = ${p.deployment} and expires_at <= ${p.now}
    and (path, key) in (select i.path, i.key from store_items i
      where i.deployment = ${p.deployment} and i.expires_at <= ${p.now} order by i.expires_at limit ${p.limit})
    returning key`,
  stable,
);

// ------------------------------------------------------------------ searching

/**
 * The use of a condition on a member to narrow a search. "equals": the stored text contains `text`. Otherwise the number of the member may be
 * at least `bound`, or at most (`below`).
 */
export type Narrowing = "equals" | { readonly below: boolean; readonly null_passes: boolean };

/** Selects the items that are candidates of a search. */
export interface CandidatesShape {
  /** Only items below a prefix of namespaces. */
  readonly prefix: boolean;
  /** Only items that are indexed for semantic search. */
  readonly vectors: boolean;
  readonly conditions: readonly Narrowing[];
}

/** `end`: the first path after those with the prefix. */
const candidateTypes = { deployment: text, now: bigint, end: text, limit: bigint };
/** The arguments of a condition. */
const conditionTypes = { text, member: text, bound: double };

const rows = {
  rowTypes: conditionTypes,
  count: ({ conditions }: CandidatesShape): number => conditions.length,
};

const shapes: readonly CandidatesShape[] = [
  { prefix: false, vectors: false, conditions: [] },
  { prefix: true, vectors: true, conditions: ["equals", { below: true, null_passes: false }] },
  { prefix: true, vectors: false, conditions: [{ below: false, null_passes: true }] },
];

const value = sql<string>`value`;

/**
 * Returns a condition on rows of `store_items` that every match meets, and perhaps other rows: they have not expired, are
 * before the end of the path prefix, and meet the narrowing conditions. It does not test where the prefix starts.
 */
function areCandidates(
  p: ParametersFor<typeof candidateTypes>,
  conditions: readonly ParametersFor<typeof conditionTypes>[],
  shape: CandidatesShape,
): RawBuilder<boolean> {
  /** Returns the condition of one narrowing: that the value contains a text, or that a member may reach a bound. */
  const narrow = (narrowing: Narrowing, index: number): RawBuilder<boolean> => {
    const condition = conditions[index] as (typeof conditions)[number];
    if (narrowing === "equals") return containsText(value, condition.text);
    return mayReachBound(value, condition.member, condition.bound, narrowing);
  };
  const where: RawBuilder<unknown>[] = [sql`deployment = ${p.deployment}`, isAlive(p.now)];
  if (shape.prefix) where.push(sql`path < ${p.end}`);
  if (shape.vectors) where.push(sql`vectors is not null`);
  where.push(...shape.conditions.map(narrow));
  return sql<boolean>`${sql.join(where, sql` and `)}`;
}

/**
 * Selects a page of candidates from the path `start` on, those first that were written last. Sorts places only, not whole items.
 */
export const selectNewestCandidates = shapedRowsQuery(
  { ...rows, types: { ...candidateTypes, start: text, offset: bigint } },
  (p, conditions, shape) =>
    sql<CoreTables["store_items"]>`select * from store_items where deployment = ${p.deployment} and (path, key) in (
      select path, key from store_items where ${areCandidates(p, conditions, shape)} and path >= ${p.start}
      order by updated_at desc, path, key limit ${p.limit} offset ${p.offset})
    order by updated_at desc, path, key`,
  { ...stable, shapes },
);

/** Selects candidates after a place, in the order of their places. No path is empty. */
export const selectNextCandidates = shapedRowsQuery(
  { ...rows, types: { ...candidateTypes, after_path: text, after_key: text } },
  (p, conditions, shape) =>
    sql<CoreTables["store_items"]>`select * from store_items where ${areCandidates(p, conditions, shape)}
      and (path, key) > (${p.after_path}, ${p.after_key}) order by path, key limit ${p.limit}`,
  { ...stable, shapes },
);

/** Selects the items at these places that have not expired. `places` is a JSON list of [path, key]. */
export const selectItems = query(
  { deployment: text, places: text, now: bigint },
  (p) =>
    sql<CoreTables["store_items"]>`select i.* from ${jsonAddresses(p.places)} as listed cross join store_items i
    where i.deployment = ${p.deployment} and i.path = listed.path and i.key = listed.key and ${isAlive(p.now)}`,
  stable,
);

/** Selects distinct paths from `start` on, however many items each has. */
export const selectPaths = shapedQuery(
  (_: { readonly prefix: boolean }) => ({ ...candidateTypes, start: text }),
  (p, { prefix }) => {
    const first = (after: RawBuilder<unknown>): RawBuilder<unknown> => sql`(select i.path from store_items i
    where i.deployment = ${p.deployment} and i.path ${after} ${prefix ? sql`and i.path < ${p.end}` : sql``}
      and ${isAlive(p.now)} order by i.path limit 1)`;
    return sql<{ path: string }>`with recursive paths (path) as (
      select ${first(sql`>= ${p.start}`)} union all select ${first(sql`> p.path`)} from paths p where p.path is not null
    ) select path from paths where path is not null limit ${p.limit}`;
  },
  { ...stable, shapes: [{ prefix: false }, { prefix: true }] },
);
