/** The routes of the store. Authorization handlers may change the call; what they leave is checked again. */
import { ServiceError } from "../../errors.ts";
import type { StoreNamespaceSearch, StoreSearch } from "../../executor/contract.ts";
import {
  itemPlace,
  itemPut,
  itemSearch,
  namespaceSearch,
  readItemPlace,
  readItemPut,
  readItemQuery,
  readItemSearch,
  readNamespaceSearch,
} from "../parse/store.ts";
import { empty, json } from "../respond.ts";
import { type Route, routesOf } from "./route.ts";

const route = routesOf({ tag: "Store", group: "store" });

export const STORE_ROUTES: readonly Route[] = [
  route("put", "/store/items", {
    summary: "Write an item",
    events: ["store:put"],
    body: itemPut,
    errors: [507],
    async handle(context) {
      const { value: item, visibility } = await context.authorize(readItemPut(await context.bytes()));
      const { namespace, key, value, index, ttl } = item;
      const options = { ...present({ index }), ...(ttl === undefined ? {} : { ttl }) };
      await context.service.store.put(namespace, key, value, options, visibility);
      return empty();
    },
  }),
  route("get", "/store/items", {
    summary: "Get an item, or null",
    events: ["store:get"],
    answer: "OptionalStoreItem",
    errors: [400],
    async handle(context) {
      const { refresh_ttl, ...place } = readItemQuery(context.parameters);
      const { value, visibility } = await context.authorize(place);
      const item = await context.service.store.get(value.namespace, value.key, present({ refresh_ttl }), visibility);
      // With a filter, a missing item and a hidden one must get the same answer.
      if (!item && visibility.filter) throw new ServiceError("not_found", "Item not found");
      return json(item);
    },
  }),
  route("delete", "/store/items", {
    summary: "Delete an item",
    events: ["store:delete"],
    body: itemPlace,
    async handle(context) {
      const place = readItemPlace(await context.bytes(), context.parameters);
      const { value, visibility } = await context.authorize(place);
      await context.service.store.delete(value.namespace, value.key, visibility);
      return empty();
    },
  }),
  route("post", "/store/items/search", {
    summary: "Search items under a namespace",
    access: "read",
    events: ["store:search"],
    body: itemSearch,
    answer: "StoreItems",
    async handle(context) {
      const { refresh_ttl, namespace_prefix, ...sent } = readItemSearch(await context.bytes());
      const call = { namespace: namespace_prefix, filter: null, query: null, ...sent };
      const { value, visibility } = await context.authorize(call);
      const { namespace, filter, limit, offset, query } = value;
      const search: StoreSearch = present({ filter, limit, offset, query, refresh_ttl });
      return json({ items: await context.service.store.search(namespace, search, visibility) });
    },
  }),
  route("post", "/store/namespaces", {
    summary: "List namespaces",
    access: "read",
    events: ["store:list_namespaces"],
    body: namespaceSearch,
    answer: "StoreNamespaces",
    async handle(context) {
      const { prefix = [], ...sent } = readNamespaceSearch(await context.bytes());
      const call = { namespace: prefix, suffix: null, max_depth: null, ...sent };
      const { value, visibility } = await context.authorize(call);
      const { namespace, suffix, max_depth, limit, offset } = value;
      const search: StoreNamespaceSearch = present({ prefix: namespace, suffix, max_depth, limit, offset });
      return json({ namespaces: await context.service.store.namespaces(search, visibility) });
    },
  }),
];

type Present<Fields> = { readonly [Key in keyof Fields]?: NonNullable<Fields[Key]> };

/** The fields that are neither null nor undefined. */
const present = <Fields extends object>(fields: Fields): Present<Fields> =>
  Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== null && value !== undefined),
  ) as Present<Fields>;
