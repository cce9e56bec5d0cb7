/** The store: JSON items under namespaces, shared by all threads of a deployment. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { StoreHandle, StoreItem, StoreNamespaceSearch, StorePut, StoreSearch } from "../executor/contract.ts";
import type { JsonObject } from "../json.ts";
import type { ItemRow, NewItem, Vector } from "../storage/items.ts";
import type { Scope, Storage } from "../storage/mod.ts";
import { permits, type Visibility, withVisibility } from "../storage/visibility.ts";
import {
  checkHome,
  checkIndex,
  checkKey,
  checkLabels,
  checkText,
  checkTtl,
  checkValue,
  checkWhole,
  invalid,
  MAX_LIMIT,
} from "./bounds.ts";
import { conditionsOf } from "./conditions.ts";
import { embed, type StoreIndex, textsAt } from "./embedding.ts";

export type { StoreIndex } from "./embedding.ts";

/** The lifetime of items without a `ttl`. */
export interface StoreTtl {
  /** In minutes. Default: items never expire. */
  readonly default_ttl?: number;
  /** Reading an item restarts its lifetime. Default true. */
  readonly refresh_on_read?: boolean;
  /** How often the rows of expired items are deleted. Reads skip them at once. Default 5. */
  readonly sweep_interval_minutes?: number;
}

export interface StoreOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly index?: StoreIndex;
  readonly ttl?: StoreTtl;
}

/** `StoreHandle` for callers with a visibility filter. Errors: invalid; forbidden (the new or the replaced item is not visible). */
export interface Store extends StoreHandle {
  get(
    namespace: readonly string[],
    key: string,
    options?: { readonly refresh_ttl?: boolean },
    visibility?: Visibility,
  ): Promise<StoreItem | null>;
  put(
    namespace: readonly string[],
    key: string,
    value: JsonObject,
    options?: { readonly index?: false | readonly string[]; readonly ttl?: number | null },
    visibility?: Visibility,
  ): Promise<void>;
  putMany(items: readonly StorePut[], visibility?: Visibility): Promise<void>;
  delete(namespace: readonly string[], key: string, visibility?: Visibility): Promise<void>;
  search(
    namespace_prefix: readonly string[],
    query?: StoreSearch,
    visibility?: Visibility,
  ): Promise<readonly (StoreItem & { readonly score?: number })[]>;
  namespaces(query?: StoreNamespaceSearch, visibility?: Visibility): Promise<readonly (readonly string[])[]>;
}

type Write = NewItem | (Pick<NewItem, "namespace" | "key"> & { readonly value: null });

const PAGES: readonly [number, number] = [1, MAX_LIMIT];
const OFFSETS: readonly [number, number] = [0, Number.MAX_SAFE_INTEGER];

export function createStore({ storage, scope, environment, index, ttl = {} }: StoreOptions): Store {
  const defaultTtl = checkTtl(ttl.default_ttl) ?? null;
  const refreshes = (refresh: boolean | null | undefined): boolean => refresh ?? ttl.refresh_on_read ?? true;

  /** The texts of a new item to embed. */
  function textsOf(item: StorePut, value: JsonObject): readonly string[] {
    const fields = checkIndex(item.index) ?? index?.fields ?? ["$"];
    return index && fields !== false ? fields.flatMap((field) => textsAt(value, field)) : [];
  }

  async function putMany(items: readonly StorePut[], visibility?: Visibility): Promise<void> {
    const checked = items.map((item) => {
      if (item.value === null) {
        const namespace = checkLabels("namespace", item.namespace, 1);
        return { namespace, key: checkKey(item.key), value: null, texts: [] };
      }
      const [namespace, key, value] = [checkHome(item.namespace), checkKey(item.key), checkValue(item.value)];
      const ttl_ms = checkTtl(item.ttl);
      if (!permits(visibility?.filter, { ...value, namespace: [...namespace], key })) throw outOfReach();
      const texts = textsOf(item, value);
      return { namespace, key, value, ttl_ms: ttl_ms === undefined ? defaultTtl : ttl_ms, texts };
    });
    const vectors = index
      ? await embed(
          index,
          checked.flatMap(({ texts }) => texts),
        )
      : [];
    let used = 0;
    const writes = checked.map(({ texts, ...write }): Write => {
      if (write.value === null) return write;
      const itemVectors: readonly Vector[] = vectors.slice(used, used + texts.length);
      used += texts.length;
      return { ...write, vectors: itemVectors };
    });
    if (writes.length === 0) return;
    const outcome = await storage.putItems(withVisibility(scope, visibility), writes, environment.now());
    // To the caller, a hidden item does not exist: deleting it changes nothing and is no error.
    if (outcome === "hidden" && writes.some(({ value }) => value !== null)) throw outOfReach();
  }

  /** The query as a vector; undefined without a query. */
  async function embedQuery(query: string | undefined): Promise<Vector | undefined> {
    if (query === undefined || query === "") return undefined;
    if (!index) throw new ServiceError("invalid", "Semantic search is not configured");
    return (await embed(index, [query]))[0];
  }

  return {
    async get(namespace, key, options = {}, visibility) {
      const labels = checkLabels("namespace", namespace, 1);
      const refresh = refreshes(options.refresh_ttl);
      const row = await storage.getItem(
        withVisibility(scope, visibility),
        labels,
        checkKey(key),
        { refresh },
        environment.now(),
      );
      return row && toItem(row);
    },
    async put(namespace, key, value, options = {}, visibility) {
      if (value === null) throw invalid("value", "must be an object");
      await putMany([{ ...options, namespace, key, value }], visibility);
    },
    putMany,
    delete: (namespace, key, visibility) => putMany([{ namespace, key, value: null }], visibility),
    async search(namespace_prefix, query = {}, visibility) {
      const prefix = checkLabels("namespace_prefix", namespace_prefix, 0);
      const conditions = conditionsOf(query.filter);
      const limit = checkWhole("limit", query.limit, PAGES, 10);
      const offset = checkWhole("offset", query.offset, OFFSETS, 0);
      const vector = await embedQuery(checkText("query", query.query));
      const refresh = refreshes(query.refresh_ttl);
      const filter = { namespace_prefix: prefix, conditions, refresh, limit, offset };
      const rows = await storage.searchItems(
        withVisibility(scope, visibility),
        vector ? { ...filter, near: vector } : filter,
        environment.now(),
      );
      return rows.map((row) => (row.score === undefined ? toItem(row) : { ...toItem(row), score: row.score }));
    },
    async namespaces(query = {}, visibility) {
      const prefix = checkLabels("prefix", query.prefix ?? [], 0);
      const suffix = checkLabels("suffix", query.suffix ?? [], 0);
      const max_depth = checkWhole("max_depth", query.max_depth, [1, Number.MAX_SAFE_INTEGER], undefined);
      const limit = checkWhole("limit", query.limit, PAGES, 100);
      const offset = checkWhole("offset", query.offset, OFFSETS, 0);
      const filter = { prefix, suffix, limit, offset, ...(max_depth === undefined ? {} : { max_depth }) };
      return await storage.listNamespaces(withVisibility(scope, visibility), filter, environment.now());
    },
  };
}

const outOfReach = (): ServiceError => new ServiceError("forbidden", "This item may not be put");

function toItem({ namespace, key, value, created_at, updated_at }: ItemRow): StoreItem {
  return {
    namespace,
    key,
    value,
    created_at: new Date(created_at).toISOString(),
    updated_at: new Date(updated_at).toISOString(),
  };
}
