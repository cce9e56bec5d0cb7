/** Defines the routes of the store and the schemas of their requests. The limits of items are in lib/store/validation.ts. */
import * as v from "valibot";
import { invalidFieldError, ServiceError } from "../../errors.ts";
import type { Json, JsonObject } from "../../json.ts";
import {
  parseFilter,
  parseIndex,
  parseItemValue,
  parseTtlMinutes,
  validateKey,
  validateLabels,
  validateWritableNamespace,
} from "../../store/validation.ts";
import * as parse from "../parse.ts";
import { jsonResponse, noContentResponse } from "../respond.ts";
import { createRouteGroup, type RequestContext, type Route } from "../route.ts";

const labels = parse.listSchema(v.string("must be a string"));
const key = v.string("must be a string");

interface ItemAddress {
  readonly namespace: readonly string[];
  readonly key: string;
}

interface ItemPut extends ItemAddress {
  readonly value: JsonObject;
  /** The indexed fields. Default: those of the store. */
  readonly index?: false | readonly string[];
  /** The time to live in minutes. Null: never expires. Default: that of the store. */
  readonly ttl?: number | null;
}

interface ItemSearch {
  readonly namespace_prefix: readonly string[];
  readonly filter?: JsonObject;
  readonly limit: number;
  readonly offset: number;
  readonly query?: string;
  readonly refresh_ttl?: boolean;
}

interface NamespaceSearch {
  readonly prefix?: readonly string[];
  readonly suffix?: readonly string[];
  readonly max_depth?: number;
  readonly limit: number;
  readonly offset: number;
}

type ItemPutBody = {
  readonly namespace?: string[];
  readonly key: string;
  readonly value: JsonObject;
  readonly index?: Json;
  readonly ttl?: number;
};

/** PUT /store/items */
export const itemPut: parse.FieldSchema<ItemPutBody> = v.object({
  namespace: v.optional(labels),
  key,
  value: parse.anyObject,
  index: parse.withDescription(
    v.optional(parse.anyJson),
    "Which fields searches compare: a list of paths, or false for none. Default: that of the store",
  ),
  ttl: parse.withDescription(
    v.optional(v.number("must be a number")),
    "In minutes; null: never expires. Absent: the default of the store",
  ),
});

/** DELETE /store/items */
export const itemAddress: parse.FieldSchema<{ readonly namespace: string[]; readonly key: string }> = v.object({
  namespace: labels,
  key,
});

/** POST /store/items/search */
export const itemSearch: parse.FieldSchema<ItemSearch> = v.object({
  namespace_prefix: labels,
  filter: v.optional(parse.anyObject),
  ...parse.pageFields,
  query: v.optional(v.string("must be a string")),
  refresh_ttl: v.optional(parse.flag),
}) as parse.FieldSchema<ItemSearch>;

/** POST /store/namespaces */
export const namespaceSearch: parse.FieldSchema<NamespaceSearch> = v.object({
  prefix: v.optional(labels),
  suffix: v.optional(labels),
  max_depth: v.optional(parse.integer(1, Number.MAX_SAFE_INTEGER)),
  ...parse.pageFields,
  limit: v.optional(parse.integer(1, 1000), 100),
}) as parse.FieldSchema<NamespaceSearch>;

const refreshQuery = v.object({ refresh_ttl: v.optional(parse.flag) });

type BodyContext = Pick<RequestContext, "onUnknownKeys" | "rawQuery">;

const namespaceRequiredError = (): ServiceError => new ServiceError("bad_request", "namespace: is required");

/**
 * Reads and validates an item. A `ttl` of null is kept, because it means that the item never expires; an absent one is omitted.
 * Throws `bad_request` without a namespace, and `invalid` if another member is missing or wrong.
 */
function readItemPut(bytes: Uint8Array, context: BodyContext): ItemPut {
  const { namespace, key, value, index, ttl } = parse.readObject(bytes, itemPut, context);
  if (namespace === undefined) throw namespaceRequiredError();
  parseTtlMinutes(ttl);
  const fields = parseIndex(index);
  const item = {
    namespace: validateWritableNamespace(namespace),
    key: validateKey(key),
    value,
    ...(fields === undefined ? {} : { index: fields }),
  };
  parseItemValue(value);
  if (ttl !== undefined) return { ...item, ttl };
  return hasNullTtl(bytes) ? { ...item, ttl: null } : item;
}

/** Returns true for a `ttl` of null, which differs from an absent one. */
function hasNullTtl(bytes: Uint8Array): boolean {
  const text = new TextDecoder().decode(bytes);
  return /"ttl"\s*:\s*null/.test(text) && (JSON.parse(text) as JsonObject).ttl === null;
}

/**
 * Reads an item address from a query, and `refresh_ttl` if it has that. The namespace is labels joined by dots, several values, or
 * a JSON array; of several keys the last counts. Throws `bad_request` without a namespace, and `invalid` without a key.
 */
function readItemQuery(query: parse.RawQuery): ItemAddress & { readonly refresh_ttl?: boolean } {
  const labelTexts = [query.namespace ?? []].flat().filter((text, _at, all) => text !== "" || all.length > 1);
  if (labelTexts.length === 0) throw namespaceRequiredError();
  const key = [query.key ?? []].flat().at(-1);
  if (key === undefined) throw invalidFieldError("key", "is required");
  const namespace = validateLabels(
    "namespace",
    labelTexts.flatMap((text) => parse.parseJsonList(text) ?? text.split(".")),
    1,
  );
  return { namespace, key: validateKey(key), ...parse.readQuery(query, refreshQuery) };
}

/**
 * Reads an item address from the body, or from the query if the body is empty and the query has a namespace or a key. Throws
 * `invalid`, and `bad_request` for a query without a namespace.
 */
function readItemAddress(bytes: Uint8Array, context: BodyContext): ItemAddress {
  const query = context.rawQuery;
  if (bytes.length === 0 && (query.namespace !== undefined || query.key !== undefined)) {
    const { namespace, key } = readItemQuery(query);
    return { namespace, key };
  }
  const { namespace, key } = parse.readObject(bytes, itemAddress, context);
  return { namespace: validateLabels("namespace", namespace, 1), key: validateKey(key) };
}

/** Parses the search of a body. Throws `invalid` for wrong members, labels and filters. */
function readItemSearch(bytes: Uint8Array, context: BodyContext): ItemSearch {
  const search = parse.readObject(bytes, itemSearch, context);
  validateLabels("namespace_prefix", search.namespace_prefix, 0);
  parseFilter(search.filter);
  return search;
}

/** Parses the search of a body. Throws `invalid` for wrong members and labels. */
function readNamespaceSearch(bytes: Uint8Array, context: BodyContext): NamespaceSearch {
  const search = parse.readObject(bytes, namespaceSearch, context);
  validateLabels("prefix", search.prefix ?? [], 0);
  validateLabels("suffix", search.suffix ?? [], 0);
  return search;
}

const defineRoute = createRouteGroup({ tag: "Store", group: "store" });

export const STORE_ROUTES: readonly Route[] = [
  defineRoute("put", "/store/items", {
    summary: "Write an item",
    events: ["store:put"],
    body: itemPut,
    errors: [507],
    /** Creates or replaces the item and responds 204. */
    async handle(context) {
      const { namespace, key, value, ...options } = readItemPut(await context.bytes(), context);
      await context.resources.store.put(namespace, key, value, options);
      return noContentResponse();
    },
  }),
  defineRoute("get", "/store/items", {
    summary: "Get an item, or null",
    events: ["store:get"],
    response: "OptionalStoreItem",
    errors: [400],
    /**
     * Responds with the item, or with 200 and null without one; 404 if the handlers of the host limit what the caller sees. Restarts
     * the time to live of the item, unless `refresh_ttl` or the options of the store turn that off.
     */
    async handle(context) {
      const { namespace, key, ...options } = readItemQuery(context.rawQuery);
      return jsonResponse(await context.resources.store.get(namespace, key, options));
    },
  }),
  defineRoute("delete", "/store/items", {
    summary: "Delete an item",
    events: ["store:delete"],
    body: itemAddress,
    /** Deletes the item and responds 204, also without one. */
    async handle(context) {
      const { namespace, key } = readItemAddress(await context.bytes(), context);
      await context.resources.store.delete(namespace, key);
      return noContentResponse();
    },
  }),
  defineRoute("post", "/store/items/search", {
    summary: "Search items under a namespace",
    access: "read",
    events: ["store:search"],
    body: itemSearch,
    response: "StoreItems",
    /**
     * Responds with a page of the items below the prefix, last written first, or with a `query` the most similar first. Restarts
     * their time to live, unless `refresh_ttl` or the options of the store turn that off.
     */
    async handle(context) {
      const { namespace_prefix, ...search } = readItemSearch(await context.bytes(), context);
      return jsonResponse({ items: await context.resources.store.search(namespace_prefix, search) });
    },
  }),
  defineRoute("post", "/store/namespaces", {
    summary: "List namespaces",
    access: "read",
    events: ["store:list_namespaces"],
    body: namespaceSearch,
    response: "StoreNamespaces",
    /** Responds with a page of the namespaces that have items, each once; an empty list without matches. */
    async handle(context) {
      const search = readNamespaceSearch(await context.bytes(), context);
      return jsonResponse({ namespaces: await context.resources.store.namespaces(search) });
    },
  }),
];
