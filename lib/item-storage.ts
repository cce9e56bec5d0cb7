/** The storage verbs of the store's items. As those of `Storage`, each is atomic by itself; times are milliseconds since 1970. */
import type { JsonObject } from "./json.ts";
import type { Page, Scope } from "./storage.ts";

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

export interface ItemQuery {
  readonly namespace_prefix: readonly string[];
  readonly conditions: readonly ItemCondition[];
  /** Only items with vectors, the nearest (by cosine) first. */
  readonly near?: Vector;
  /** What was found lives on from `now`. */
  readonly refresh: boolean;
}

export interface NamespaceQuery {
  /** Labels; `*` stands for any one. */
  readonly prefix: readonly string[];
  readonly suffix: readonly string[];
  /** Longer namespaces are cut to so many labels. */
  readonly max_depth?: number;
}

/** A scope's filter is held against `{...value, namespace, key}`. Expired items are not there. */
export interface ItemStorage {
  /** In their order; `value` null deletes. All of them, or none. `hidden`: an item is there that the scope does not permit; nothing was written. */
  putItems(
    scope: Scope,
    items: readonly (NewItem | (Pick<NewItem, "namespace" | "key"> & { readonly value: null }))[],
    now: number,
  ): Promise<"written" | "hidden">;
  getItem(
    scope: Scope,
    namespace: readonly string[],
    key: string,
    options: { readonly refresh: boolean },
    now: number,
  ): Promise<ItemRow | null>;
  /** Newest written first; with `near` the nearest first, each with its `score`. */
  searchItems(
    scope: Scope,
    query: ItemQuery & Page,
    now: number,
  ): Promise<readonly (ItemRow & { readonly score?: number })[]>;
  /** In order. */
  listNamespaces(scope: Scope, query: NamespaceQuery & Page, now: number): Promise<readonly (readonly string[])[]>;
  /** Deletes what has expired. Gives the number of items: call again while it is not 0. */
  sweepItems(scope: Scope, now: number, limit: number): Promise<number>;
}
