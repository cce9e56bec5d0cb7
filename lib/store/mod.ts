/** The store: JSON items under namespaces, shared by all threads of a deployment, with semantic search. */
import type { InternalResource } from "../auth/authorizer.ts";
import type { Environment } from "../environment.ts";
import { invalidFieldError, ServiceError } from "../errors.ts";
import type { StoreHandle, StoreItem, StorePut } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import { formatIsoTime } from "../rfc3339.ts";
import type { ItemRow, NewItem, Vector } from "../storage/items.ts";
import type { Scope, Storage } from "../storage/mod.ts";
import { matchesFilter } from "../storage/visibility.ts";
import {
  MAX_LIMIT,
  parseFilter,
  parseIndex,
  parseItemValue,
  parseTtlMinutes,
  validateInteger,
  validateKey,
  validateLabels,
  validateText,
  validateWritableNamespace,
} from "./validation.ts";

/** The lifetime of items without a `ttl`. */
export interface StoreTtl {
  /** The lifetime in minutes. Default: items never expire. */
  readonly default_ttl?: number;
  /** True if reading an item restarts its lifetime. Default true. */
  readonly refresh_on_read?: boolean;
  /** The interval at which the rows of expired items are deleted. Reads skip them at once. Default 5. */
  readonly sweep_interval_minutes?: number;
}

interface StoreOptions {
  readonly storage: Storage;
  readonly environment: Environment;
  readonly index?: StoreIndex;
  readonly ttl?: StoreTtl;
}

/**
 * The store of a service. Its methods throw `invalid`; with `as` they throw `forbidden` if the handler's filter does not permit the new or
 * the replaced item, and `get` throws `not_found` for a missing item if there is a filter.
 */
export type Store = StoreHandle;

type ItemWrite = NewItem | (Pick<NewItem, "namespace" | "key"> & { readonly value: null });

const LIMIT_RANGE: readonly [number, number] = [1, MAX_LIMIT];
const OFFSET_RANGE: readonly [number, number] = [0, Number.MAX_SAFE_INTEGER];

/** Creates the internal resource of store items, with semantic search if there is an `index`. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createStore({ storage, environment, index, ttl = {} }: StoreOptions): InternalResource<Store> {
  const defaultTtl = parseTtlMinutes(ttl.default_ttl) ?? null;
  const shouldRefresh = (refresh: boolean | null | undefined): boolean => refresh ?? ttl.refresh_on_read ?? true;

  /**
   * Returns the texts of a new item to embed: at the paths of its `index`, else of the store's, else the whole value. Returns
   * none without an index of the store or with `index: false`. Throws `invalid` for a wrong `index`.
   */
  function collectItemTexts(item: StorePut, value: JsonObject): readonly string[] {
    const fields = parseIndex(item.index) ?? index?.fields ?? ["$"];
    return index && fields !== false ? fields.flatMap((field) => readTextsAtPath(value, field)) : [];
  }

  /**
   * Validates, embeds and stores all items or none; a null value deletes. Throws `invalid`, and `forbidden` for items that the
   * filter excludes, but not for deletions of these. An empty list does nothing.
   */
  async function putMany(scope: Scope, items: readonly StorePut[]): Promise<void> {
    const validItems = items.map((item) => {
      if (item.value === null) {
        const namespace = validateLabels("namespace", item.namespace, 1);
        return { namespace, key: validateKey(item.key), value: null, texts: [] };
      }
      const [namespace, key, value] = [
        validateWritableNamespace(item.namespace),
        validateKey(item.key),
        parseItemValue(item.value),
      ];
      const ttl_ms = parseTtlMinutes(item.ttl);
      if (!matchesFilter(scope.filter, { ...value, namespace: [...namespace], key })) throw forbiddenItemError();
      const texts = collectItemTexts(item, value);
      return { namespace, key, value, ttl_ms: ttl_ms === undefined ? defaultTtl : ttl_ms, texts };
    });
    const vectors = index
      ? await embed(
          index,
          validItems.flatMap(({ texts }) => texts),
        )
      : [];
    let usedVectors = 0;
    const writes = validItems.map(({ texts, ...write }): ItemWrite => {
      if (write.value === null) return write;
      const itemVectors: readonly Vector[] = vectors.slice(usedVectors, usedVectors + texts.length);
      usedVectors += texts.length;
      return { ...write, vectors: itemVectors };
    });
    if (writes.length === 0) return;
    const result = await storage.putItems(scope, writes, environment.now());
    // To the caller, an excluded item does not exist: deleting it changes nothing and is no error.
    if (result === "hidden" && writes.some(({ value }) => value !== null)) throw forbiddenItemError();
  }

  /**
   * Returns the query as a vector; undefined without a query and for an empty one. Throws `search_not_configured` without an
   * index, and what `embed` throws.
   */
  async function embedQuery(query: string | undefined): Promise<Vector | undefined> {
    if (query === undefined || query === "") return undefined;
    if (!index) throw new ServiceError("search_not_configured", "Semantic search is not configured");
    return (await embed(index, [query]))[0];
  }

  return {
    /**
     * Returns an item, or null if it does not exist or is not visible. Restarts its time to live, unless the options or the
     * store turn that off. Throws `invalid`.
     */
    async get(scope, namespace, key, options = {}) {
      const labels = validateLabels("namespace", namespace, 1);
      const refresh = shouldRefresh(options.refresh_ttl);
      const row = await storage.getItem(scope, labels, validateKey(key), { refresh }, environment.now());
      return row && toItem(row);
    },
    /** Stores or replaces one item, as `putMany` does. Throws `invalid` for the value null, which would delete. */
    // biome-ignore lint/complexity/useMaxParams: the public operation has these parameters, behind the scope of its caller
    async put(scope, namespace, key, value, options = {}) {
      if (value === null) throw invalidFieldError("value", "must be an object");
      await putMany(scope, [{ ...options, namespace, key, value }]);
    },
    putMany,
    delete: (scope, namespace, key) => putMany(scope, [{ namespace, key, value: null }]),
    /**
     * Returns a page of items (10 by default), last written first, or with a text in the query the most similar first, with
     * their scores. Restarts their time to live, unless the query or the store turn that off. Throws `invalid` or
     * `search_not_configured`.
     */
    async search(scope, namespace_prefix, query = {}) {
      const prefix = validateLabels("namespace_prefix", namespace_prefix, 0);
      const conditions = parseFilter(query.filter);
      const limit = validateInteger("limit", query.limit, LIMIT_RANGE, 10);
      const offset = validateInteger("offset", query.offset, OFFSET_RANGE, 0);
      const vector = await embedQuery(validateText("query", query.query));
      const refresh = shouldRefresh(query.refresh_ttl);
      const filter = { namespace_prefix: prefix, conditions, refresh, limit, offset };
      const rows = await storage.searchItems(
        scope,
        vector ? { ...filter, query_vector: vector } : filter,
        environment.now(),
      );
      return rows.map((row) => (row.score === undefined ? toItem(row) : { ...toItem(row), score: row.score }));
    },
    /**
     * Returns the namespaces that have items, in order, 100 by default, each once and cut to `max_depth`; empty if none match.
     * Throws `invalid`.
     */
    async namespaces(scope, query = {}) {
      const prefix = validateLabels("prefix", query.prefix ?? [], 0);
      const suffix = validateLabels("suffix", query.suffix ?? [], 0);
      const max_depth = validateInteger("max_depth", query.max_depth, [1, Number.MAX_SAFE_INTEGER], undefined);
      const limit = validateInteger("limit", query.limit, LIMIT_RANGE, 100);
      const offset = validateInteger("offset", query.offset, OFFSET_RANGE, 0);
      const filter = { prefix, suffix, limit, offset, ...(max_depth === undefined ? {} : { max_depth }) };
      return await storage.listNamespaces(scope, filter, environment.now());
    },
  };
}

const forbiddenItemError = (): ServiceError => new ServiceError("forbidden", "This item may not be put");

function toItem({ namespace, key, value, created_at, updated_at }: ItemRow): StoreItem {
  return {
    namespace,
    key,
    value,
    created_at: formatIsoTime(created_at),
    updated_at: formatIsoTime(updated_at),
  };
}

/** Semantic search: embeds items when they are stored and queries when they are searched. */
export interface StoreIndex {
  /** The length of each vector. */
  readonly dims: number;
  /** Returns one vector per text, in the same order. */
  embed(texts: readonly string[]): Promise<readonly (readonly number[])[]>;
  /** Paths into the value to embed, such as `title` or `chapters[*].text`; `$` is the whole value. Default `["$"]`. */
  readonly fields?: readonly string[];
}

/**
 * Returns the texts at a path in LangGraph's syntax: `a.b`, `list[0]`, `list[-1]`, `list[*].text`, `*` for all members,
 * `{a,b.c}` for several, `$` or an empty path for the whole value. Lists and objects become JSON, numbers and booleans text. A
 * path to null or a missing value has no text.
 */
export function readTextsAtPath(value: JsonObject, path: string): readonly string[] {
  if (path === "" || path === "$") return [jsonText(value)];
  return collectTexts(value, splitPath(path));
}

/** Splits a path into names, `[...]` and `{...}`. */
const splitPath = (path: string): readonly string[] => path.match(/\[[^\]]*\]?|\{[^}]*\}?|[^.[{]+/g) ?? [];

/**
 * Returns the texts at the steps of a path: members, `[index]`, `[*]`, `*` and `{a,b}`. Returns an empty list if the path leads
 * nowhere.
 */
function collectTexts(value: Json | undefined, steps: readonly string[]): readonly string[] {
  const [step, ...nextSteps] = steps;
  if (step === undefined) return toTexts(value);
  if (step.startsWith("[")) {
    if (!Array.isArray(value)) return [];
    const index = step.replace(/^\[|\]$/g, "");
    if (index === "*") return value.flatMap((item) => collectTexts(item, nextSteps));
    const item = /^-?\d+$/.test(index) ? value.at(Number(index)) : undefined;
    return collectTexts(item, nextSteps);
  }
  if (step.startsWith("{")) {
    const fields = step.replace(/^\{|\}$/g, "").split(",");
    return fields.flatMap((field) => collectTexts(value, [...splitPath(field.trim()), ...nextSteps]));
  }
  if (step === "*") {
    const members = isObject(value) || Array.isArray(value) ? Object.values(value) : [];
    return members.flatMap((member) => collectTexts(member, nextSteps));
  }
  return isObject(value) && Object.hasOwn(value, step) ? collectTexts(value[step], nextSteps) : [];
}

/**
 * Returns a list with the text of a value to embed, which is JSON for an object or a list; an empty list for null and
 * undefined.
 */
function toTexts(value: Json | undefined): readonly string[] {
  if (value === undefined || value === null) return [];
  return [typeof value === "object" ? jsonText(value) : String(value)];
}

const jsonText = (value: Json): string => JSON.stringify(value, null, 2);

/**
 * Returns a vector for each text, in order. Embeds equal texts once, and calls no embedder without texts. Throws if the
 * embedder does not return one valid vector per text.
 */
async function embed(index: StoreIndex, texts: readonly string[]): Promise<readonly Vector[]> {
  const unique = [...new Set(texts)];
  if (unique.length === 0) return [];
  const embeddings: unknown = await index.embed(unique);
  if (!Array.isArray(embeddings) || embeddings.length !== unique.length) {
    throw new Error(`store.index.embed: must return a list of ${unique.length} vectors for ${unique.length} texts`);
  }
  const vectors = new Map(unique.map((text, position) => [text, validateVector(embeddings[position], index.dims)]));
  return texts.map((text) => vectors.get(text) as Vector);
}

/**
 * Returns a vector of the embedder as a new list. Throws an Error if it is no list or typed array of the length `dims`, or has
 * a number that is not finite.
 */
function validateVector(value: unknown, dims: number): Vector {
  const vector = Array.isArray(value) || ArrayBuffer.isView(value) ? Array.from(value as ArrayLike<unknown>) : [];
  if (vector.length !== dims) throw new Error(`store.index.embed: must return vectors of length ${dims}`);
  if (!vector.every((number) => Number.isFinite(number))) {
    throw new Error("store.index.embed: must return vectors of finite numbers");
  }
  return vector as Vector;
}
