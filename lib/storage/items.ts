/** The storage operations of store items, and the comparison of their values. */
import { type Json, type JsonObject, sameJson } from "../json.ts";
import type { Page, Scope } from "./rows.ts";

/** An item of the store as stored. */
export interface ItemRow {
  readonly namespace: readonly string[];
  readonly key: string;
  readonly value: JsonObject;
  readonly created_at: number;
  readonly updated_at: number;
  /** The time to live after the last write or refresh; null if it never expires. */
  readonly ttl_ms: number | null;
  readonly expires_at: number | null;
}

/** The embedding of one text of an item. All vectors of an index have the same length. */
export type Vector = readonly number[];

/** An item to be stored. */
export interface NewItem {
  readonly namespace: readonly string[];
  readonly key: string;
  readonly value: JsonObject;
  readonly ttl_ms: number | null;
  /** Replaces the vectors of the item. Without vectors, semantic search does not find it. */
  readonly vectors: readonly Vector[];
}

/** Conditions on members of the value, as [path, operator, operand]; all must hold. */
export type ItemCondition = readonly [
  member: string,
  operator: "eq" | "ne" | "gt" | "gte" | "lt" | "lte",
  operand: unknown,
];

/** Filters and page of a search for items. */
export interface ItemQuery {
  readonly namespace_prefix: readonly string[];
  readonly conditions: readonly ItemCondition[];
  /** Only items with vectors, the nearest (by cosine) first. */
  readonly query_vector?: Vector;
  /** True to restart the time to live of the items that it finds. */
  readonly refresh: boolean;
}

/** Filters and page of a search for namespaces. */
export interface NamespaceQuery {
  /** The first labels; `*` matches any label. */
  readonly prefix: readonly string[];
  readonly suffix: readonly string[];
  /** The maximum number of labels; longer namespaces are truncated. */
  readonly max_depth?: number;
}

/**
 * The storage operations of store items. The filter of a scope is applied to `{...value, namespace, key}`. Expired items do not
 * exist for these operations.
 */
export interface ItemStorage {
  /**
   * Writes the items in order, all or none; `value` null deletes. Returns `hidden` and writes nothing if the scope excludes an
   * existing item. Idempotent.
   */
  putItems(
    scope: Scope,
    items: readonly (NewItem | (Pick<NewItem, "namespace" | "key"> & { readonly value: null }))[],
    now: number,
  ): Promise<"written" | "hidden">;
  /** Reads an item. `refresh` restarts its time to live. Returns null if it does not exist or is not visible. */
  getItem(
    scope: Scope,
    namespace: readonly string[],
    key: string,
    options: { readonly refresh: boolean },
    now: number,
  ): Promise<ItemRow | null>;
  /**
   * Reads a page of matching items, last written first, or with `query_vector` the most similar first, each with its `score`.
   * `refresh` restarts their time to live.
   */
  searchItems(
    scope: Scope,
    query: ItemQuery & Page,
    now: number,
  ): Promise<readonly (ItemRow & { readonly score?: number })[]>;
  /**
   * Reads a page of matching namespaces, sorted, each once and cut to `max_depth`. With a filter, only those with a visible
   * item.
   */
  listNamespaces(scope: Scope, query: NamespaceQuery & Page, now: number): Promise<readonly (readonly string[])[]>;
}

/**
 * Returns true if all conditions hold, also without any. As in the stores of LangGraph, an absent member equals nothing, and
 * values are ordered as numbers, so others match no order.
 */
export function matchesConditions(value: JsonObject, conditions: readonly ItemCondition[]): boolean {
  return conditions.every(([member, operator, operand]) => {
    const actual = Object.hasOwn(value, member) ? value[member] : undefined;
    return COMPARATORS[operator](actual, operand as Json);
  });
}

const isEqual = (actual: Json | undefined, operand: Json): boolean => actual !== undefined && sameJson(actual, operand);

const COMPARATORS: Readonly<Record<ItemCondition[1], (actual: Json | undefined, operand: Json) => boolean>> = {
  eq: isEqual,
  ne: (actual, operand) => !isEqual(actual, operand),
  gt: (actual, operand) => toNumber(actual) > toNumber(operand),
  gte: (actual, operand) => toNumber(actual) >= toNumber(operand),
  lt: (actual, operand) => toNumber(actual) < toNumber(operand),
  lte: (actual, operand) => toNumber(actual) <= toNumber(operand),
};

/** Converts a value as JavaScript does; NaN where that throws. */
function toNumber(value: unknown): number {
  try {
    return Number(value);
  } catch {
    return Number.NaN;
  }
}
