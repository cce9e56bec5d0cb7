/** The store as executors and agents use it. */
import type { JsonObject } from "../json.ts";

/** One item of the store. Times are ISO 8601, UTC. */
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
  /** Semantic search. Needs `store.index`. */
  readonly query?: string;
  /** Default 10. */
  readonly limit?: number;
  readonly offset?: number;
  readonly refresh_ttl?: boolean;
}

/** Filters and page of a search for namespaces. */
export interface StoreNamespaceSearch {
  /** Labels; `*` matches any one label. */
  readonly prefix?: readonly string[];
  readonly suffix?: readonly string[];
  readonly max_depth?: number;
  /** Default 100. */
  readonly limit?: number;
  readonly offset?: number;
}

/** One write: as `put`, or with the value null as `delete`. */
export interface StorePut {
  readonly namespace: readonly string[];
  readonly key: string;
  readonly value: JsonObject | null;
  readonly index?: false | readonly string[];
  readonly ttl?: number | null;
}

/** Items in namespaces, shared by all threads of a deployment. Errors: invalid (a namespace, key or value out of bounds). */
export interface StoreHandle {
  /** Null if the item does not exist. */
  get(
    namespace: readonly string[],
    key: string,
    options?: { readonly refresh_ttl?: boolean },
  ): Promise<StoreItem | null>;
  /** `index` false: no semantic search; a list: only these fields. `ttl` in minutes; null: no expiry. */
  put(
    namespace: readonly string[],
    key: string,
    value: JsonObject,
    options?: { readonly index?: false | readonly string[]; readonly ttl?: number | null },
  ): Promise<void>;
  /** Writes all items in order, or none. */
  putMany(items: readonly StorePut[]): Promise<void>;
  /** Deleting a missing item is no error. */
  delete(namespace: readonly string[], key: string): Promise<void>;
  search(
    namespace_prefix: readonly string[],
    query?: StoreSearch,
  ): Promise<readonly (StoreItem & { readonly score?: number })[]>;
  namespaces(query?: StoreNamespaceSearch): Promise<readonly (readonly string[])[]>;
}
