/** Requests of the store's routes. The limits of items are in lib/store/bounds.ts. */
import * as v from "valibot";
import { ServiceError } from "../../errors.ts";
import type { Json, JsonObject } from "../../json.ts";
import { checkHome, checkIndex, checkKey, checkLabels, checkTtl, checkValue } from "../../store/bounds.ts";
import { conditionsOf } from "../../store/conditions.ts";
import { anyObject, type Fields, flag, integer, json, listOf, page } from "./pieces.ts";
import { readObject, readQuery, type SentQuery } from "./read.ts";

const labels = listOf(v.string("must be a string"));
const key = v.string("must be a string");

export interface ItemPlace {
  readonly namespace: readonly string[];
  readonly key: string;
}

export interface ItemPut extends ItemPlace {
  readonly value: JsonObject;
  /** Null: the default of the store. */
  readonly index: false | readonly string[] | null;
  /** Minutes; null: never expires. Absent: the default of the store. */
  readonly ttl?: number | null;
}

export interface ItemSearch {
  readonly namespace_prefix: readonly string[];
  readonly filter?: JsonObject;
  readonly limit: number;
  readonly offset: number;
  readonly query?: string;
  readonly refresh_ttl?: boolean;
}

export interface NamespaceSearch {
  readonly prefix?: readonly string[];
  readonly suffix?: readonly string[];
  readonly max_depth?: number;
  readonly limit: number;
  readonly offset: number;
}

type Sent = {
  readonly namespace?: string[];
  readonly key: string;
  readonly value: JsonObject;
  readonly index?: Json;
  readonly ttl?: number;
};

/** PUT /store/items */
export const itemPut: Fields<Sent> = v.object({
  namespace: v.optional(labels),
  key,
  value: anyObject,
  index: v.optional(json),
  ttl: v.optional(v.number("must be a number")),
});

/** DELETE /store/items */
export const itemPlace: Fields<{ readonly namespace: string[]; readonly key: string }> = v.object({
  namespace: labels,
  key,
});

/** POST /store/items/search */
export const itemSearch: Fields<ItemSearch> = v.object({
  namespace_prefix: labels,
  filter: v.optional(anyObject),
  ...page,
  query: v.optional(v.string("must be a string")),
  refresh_ttl: v.optional(flag),
}) as Fields<ItemSearch>;

/** POST /store/namespaces */
export const namespaceSearch: Fields<NamespaceSearch> = v.object({
  prefix: v.optional(labels),
  suffix: v.optional(labels),
  max_depth: v.optional(integer(1, Number.MAX_SAFE_INTEGER)),
  ...page,
  limit: v.optional(integer(1, 1000), 100),
}) as Fields<NamespaceSearch>;

const readQueryFlag: Fields<{ readonly refresh_ttl?: boolean }> = v.object({
  refresh_ttl: v.optional(flag),
}) as Fields<{ readonly refresh_ttl?: boolean }>;

const noNamespace = (): ServiceError => new ServiceError("bad_request", "namespace: is required");

export function readItemPut(bytes: Uint8Array): ItemPut {
  const { namespace, key, value, index, ttl } = readObject(bytes, itemPut);
  if (namespace === undefined) throw noNamespace();
  checkTtl(ttl);
  const item = { namespace: checkHome(namespace), key: checkKey(key), value, index: checkIndex(index) ?? null };
  checkValue(value);
  if (ttl !== undefined) return { ...item, ttl };
  return hasNullTtl(bytes) ? { ...item, ttl: null } : item;
}

/** True for a `ttl` of null, which differs from an absent one. */
function hasNullTtl(bytes: Uint8Array): boolean {
  const text = new TextDecoder().decode(bytes);
  return /"ttl"\s*:\s*null/.test(text) && (JSON.parse(text) as JsonObject).ttl === null;
}

/** The item that a query names: labels joined by dots, as several values, or as a JSON array. */
export function readItemQuery(query: SentQuery): ItemPlace & { readonly refresh_ttl?: boolean } {
  const sent = [query.namespace ?? []].flat().filter((text, _at, all) => text !== "" || all.length > 1);
  if (sent.length === 0) throw noNamespace();
  const key = [query.key ?? []].flat().at(-1);
  if (key === undefined) throw new ServiceError("invalid", "key: is required");
  const namespace = checkLabels("namespace", sent.flatMap(labelsIn), 1);
  return { namespace, key: checkKey(key), ...readQuery(query, readQueryFlag) };
}

function labelsIn(sent: string): readonly unknown[] {
  if (sent.startsWith("[")) {
    try {
      const list: unknown = JSON.parse(sent);
      if (Array.isArray(list)) return list;
    } catch {
      // Not a JSON array: a label that starts with a bracket.
    }
  }
  return sent.split(".");
}

/** The item to delete, from the body, or from the query if there is no body. */
export function readItemPlace(bytes: Uint8Array, query: SentQuery): ItemPlace {
  if (bytes.length === 0 && (query.namespace !== undefined || query.key !== undefined)) {
    const { namespace, key } = readItemQuery(query);
    return { namespace, key };
  }
  const { namespace, key } = readObject(bytes, itemPlace);
  return { namespace: checkLabels("namespace", namespace, 1), key: checkKey(key) };
}

export function readItemSearch(bytes: Uint8Array): ItemSearch {
  const search = readObject(bytes, itemSearch);
  checkLabels("namespace_prefix", search.namespace_prefix, 0);
  conditionsOf(search.filter);
  return search;
}

export function readNamespaceSearch(bytes: Uint8Array): NamespaceSearch {
  const search = readObject(bytes, namespaceSearch);
  checkLabels("prefix", search.prefix ?? [], 0);
  checkLabels("suffix", search.suffix ?? [], 0);
  return search;
}
