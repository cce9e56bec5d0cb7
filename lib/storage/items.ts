/** The storage verbs of the store's items, and how their values and vectors are compared. */
import { type Json, type JsonObject, sameJson } from "../json.ts";
import type { Page, Scope } from "./rows.ts";

/** An item of the store as stored. */
export interface ItemRow {
  readonly namespace: readonly string[];
  readonly key: string;
  readonly value: JsonObject;
  readonly created_at: number;
  readonly updated_at: number;
  /** How long it lives after it was last written or refreshed; null: for good. */
  readonly ttl_ms: number | null;
  readonly expires_at: number | null;
}

/** What is searched by meaning: one vector per text that was embedded, all of the same length. */
export type Vector = readonly number[];

/** An item to be stored. */
export interface NewItem {
  readonly namespace: readonly string[];
  readonly key: string;
  readonly value: JsonObject;
  readonly ttl_ms: number | null;
  /** Replaces those of the item; empty: it is not found by meaning. */
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
  /** What was found lives on from `now`. */
  readonly refresh: boolean;
}

/** Filters and page of a search for namespaces. */
export interface NamespaceQuery {
  /** Labels; `*` stands for any one. */
  readonly prefix: readonly string[];
  readonly suffix: readonly string[];
  /** Longer namespaces are cut to so many labels. */
  readonly max_depth?: number;
}

/** A scope's filter is applied to `{...value, namespace, key}`. Expired items do not exist for these verbs. */
export interface ItemStorage {
  /**
   * Writes the items in order, all or none; `value` null deletes. Guard: the scope permits the items that exist; `hidden` says that it
   * does not and nothing was written. Idempotent.
   */
  putItems(
    scope: Scope,
    items: readonly (NewItem | (Pick<NewItem, "namespace" | "key"> & { readonly value: null }))[],
    now: number,
  ): Promise<"written" | "hidden">;
  /** Reads an item, with `refresh` restarting its TTL. Null when it does not exist or is not visible. */
  getItem(
    scope: Scope,
    namespace: readonly string[],
    key: string,
    options: { readonly refresh: boolean },
    now: number,
  ): Promise<ItemRow | null>;
  /** Reads matching items, most recently written first; with `near` the nearest first, each with its `score`. */
  searchItems(
    scope: Scope,
    query: ItemQuery & Page,
    now: number,
  ): Promise<readonly (ItemRow & { readonly score?: number })[]>;
  /** Reads matching namespaces, in order. */
  listNamespaces(scope: Scope, query: NamespaceQuery & Page, now: number): Promise<readonly (readonly string[])[]>;
}

/**
 * True where all conditions hold, as in LangGraph's stores: a member that is not there equals nothing, order is that of numbers,
 * and what is no number has none.
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

function toNumber(value: unknown): number {
  try {
    return Number(value);
  } catch {
    return Number.NaN;
  }
}

/** How near the nearest of the vectors is: its cosine, from -1 to 1. Null where none can be compared. */
export function maxCosineSimilarity(vectors: readonly Vector[], query_vector: Vector): number | null {
  const norm = vectorNorm(query_vector);
  let highest: number | null = null;
  for (const vector of vectors) {
    // Made for another index.
    if (vector.length !== query_vector.length) continue;
    const normProduct = norm * vectorNorm(vector);
    const dot = vector.reduce((sum, number, index) => sum + number * (query_vector[index] as number), 0);
    const ratio = dot / normProduct;
    const cosine = Number.isFinite(ratio) ? Math.min(1, Math.max(-1, ratio)) : 0;
    if (highest === null || cosine > highest) highest = cosine;
  }
  return highest;
}

const vectorNorm = (vector: Vector): number => Math.sqrt(vector.reduce((sum, number) => sum + number * number, 0));
