/** The interface by which executors and agents use the store. */
import type { JsonObject } from "../json.ts";

/** An item of the store. Times are ISO 8601, UTC. */
export interface StoreItem {
  readonly namespace: readonly string[];
  readonly key: string;
  readonly value: JsonObject;
  readonly created_at: string;
  readonly updated_at: string;
}

/** Filters and page of a search in the store. */
export interface StoreSearch {
  /** Conditions on members of the value: a value, or `{$eq, $ne, $gt, $gte, $lt, $lte}`. */
  readonly filter?: JsonObject;
  /** The text of a semantic search. Requires `store.index`. */
  readonly query?: string;
  /** The maximum number of items. Default 10. */
  readonly limit?: number;
  readonly offset?: number;
  readonly refresh_ttl?: boolean;
}

/** Filters and page of a search for namespaces. */
export interface StoreNamespaceSearch {
  /** The first labels; `*` matches any one label. */
  readonly prefix?: readonly string[];
  readonly suffix?: readonly string[];
  readonly max_depth?: number;
  /** The maximum number of namespaces. Default 100. */
  readonly limit?: number;
  readonly offset?: number;
}

/** A write: the arguments of `put`, or of `delete` with the value null. */
export interface StorePut {
  readonly namespace: readonly string[];
  readonly key: string;
  readonly value: JsonObject | null;
  readonly index?: false | readonly string[];
  readonly ttl?: number | null;
}

/**
 * The items of a deployment in namespaces, which all its threads share. Throws `invalid` for a namespace, key or value out of
 * bounds.
 */
export interface StoreHandle {
  /** Returns an item, or null if it does not exist. */
  get(
    namespace: readonly string[],
    key: string,
    options?: { readonly refresh_ttl?: boolean },
  ): Promise<StoreItem | null>;
  /**
   * Writes an item. `index` false excludes it from semantic search, a list includes only these fields. `ttl` is in minutes, null
   * for no expiry.
   */
  put(
    namespace: readonly string[],
    key: string,
    value: JsonObject,
    options?: { readonly index?: false | readonly string[]; readonly ttl?: number | null },
  ): Promise<void>;
  /** Writes all items in order, or none. */
  putMany(items: readonly StorePut[]): Promise<void>;
  /** Deletes an item. A missing item is no error. */
  delete(namespace: readonly string[], key: string): Promise<void>;
  search(
    namespace_prefix: readonly string[],
    query?: StoreSearch,
  ): Promise<readonly (StoreItem & { readonly score?: number })[]>;
  namespaces(query?: StoreNamespaceSearch): Promise<readonly (readonly string[])[]>;
}
