/** The store: items under namespaces, shared by all threads of a deployment. */
import type { Ambient } from "./ambient.ts";
import { ServiceError } from "./errors.ts";
import type { StoreHandle, StoreItem, StoreNamespaceSearch, StoreSearch } from "./executor.ts";
import type { Reach } from "./filter.ts";
import type { JsonObject } from "./json.ts";
import type { Scope, Storage } from "./storage.ts";

/** What finds items by meaning. */
export interface StoreIndex {
  /** Length of each vector. */
  readonly dims: number;
  /** One vector per text. */
  embed(texts: readonly string[]): Promise<readonly (readonly number[])[]>;
  /** Paths into the value that are embedded, as `title` or `chapters[*].text`; `$` is the whole value. Default `["$"]`. */
  readonly fields?: readonly string[];
}

/** How long items live that say nothing themselves; in minutes. */
export interface StoreTtl {
  /** Default: for good. */
  readonly default_ttl?: number;
  /** Reading an item lets it live on. Default true. */
  readonly refresh_on_read?: boolean;
}

export interface StoreOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly ambient: Ambient;
  readonly index?: StoreIndex;
  readonly ttl?: StoreTtl;
}

/** As `StoreHandle`, for callers with a reach. Errors: invalid; forbidden (a put over an item out of reach). */
export interface Store extends StoreHandle {
  get(
    namespace: readonly string[],
    key: string,
    options?: { readonly refresh_ttl?: boolean },
    reach?: Reach,
  ): Promise<StoreItem | null>;
  put(
    namespace: readonly string[],
    key: string,
    value: JsonObject,
    options?: { readonly index?: false | readonly string[]; readonly ttl?: number | null },
    reach?: Reach,
  ): Promise<void>;
  delete(namespace: readonly string[], key: string, reach?: Reach): Promise<void>;
  search(
    namespace_prefix: readonly string[],
    query?: StoreSearch,
    reach?: Reach,
  ): Promise<readonly (StoreItem & { readonly score?: number })[]>;
  namespaces(query?: StoreNamespaceSearch, reach?: Reach): Promise<readonly (readonly string[])[]>;
}

const notBuilt = (): never => {
  throw new ServiceError("not_built", "The store: not built yet");
};

export function createStore(_options: StoreOptions): Store {
  return {
    get: async () => notBuilt(),
    put: async () => notBuilt(),
    delete: async () => notBuilt(),
    search: async () => notBuilt(),
    namespaces: async () => notBuilt(),
  };
}
