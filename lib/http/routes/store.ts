/** The routes of the store. Authorization handlers may change what is asked: what they leave is used, and proven again. */
import { ServiceError } from "../../errors.ts";
import type { StoreNamespaceSearch, StoreSearch } from "../../executor/contract.ts";
import type { Store } from "../../store/mod.ts";
import type { Routes } from "../context.ts";
import * as parse from "../parse/store.ts";
import { empty, json } from "../respond.ts";

type Name = "put" | "get" | "delete" | "search" | "namespaces";

export function storeRoutes(store: Store): Routes<Name> {
  return {
    async put(call) {
      const { value: left, visibility } = await call.authorize("store:put", parse.readItemPut(await call.bytes()));
      const { namespace, key, value, index, ttl } = left;
      const options = { ...given({ index }), ...(ttl === undefined ? {} : { ttl }) };
      await store.put(namespace, key, value, options, visibility);
      return empty();
    },
    async get(call) {
      const { refresh_ttl, ...place } = parse.readItemQuery(call.query);
      const { value, visibility } = await call.authorize("store:get", place);
      const item = await store.get(value.namespace, value.key, given({ refresh_ttl }), visibility);
      // Where something may be hidden, the answer must not tell whether something is.
      if (!item && visibility.filter) throw new ServiceError("not_found", "Item not found");
      return json(item);
    },
    async delete(call) {
      const { value, visibility } = await call.authorize(
        "store:delete",
        parse.readItemPlace(await call.bytes(), call.query),
      );
      await store.delete(value.namespace, value.key, visibility);
      return empty();
    },
    async search(call) {
      const { refresh_ttl, namespace_prefix, ...sent } = parse.readItemSearch(await call.bytes());
      const asked = { namespace: namespace_prefix, filter: null, query: null, ...sent };
      const { value, visibility } = await call.authorize("store:search", asked);
      const { namespace, filter, limit, offset, query } = value;
      const search: StoreSearch = given({ filter, limit, offset, query, refresh_ttl });
      return json({ items: await store.search(namespace, search, visibility) });
    },
    async namespaces(call) {
      const { prefix = [], ...sent } = parse.readNamespaceSearch(await call.bytes());
      const asked = { namespace: prefix, suffix: null, max_depth: null, ...sent };
      const { value, visibility } = await call.authorize("store:list_namespaces", asked);
      const { namespace, suffix, max_depth, limit, offset } = value;
      const search: StoreNamespaceSearch = given({ prefix: namespace, suffix, max_depth, limit, offset });
      return json({ namespaces: await store.namespaces(search, visibility) });
    },
  };
}

type Given<Fields> = { readonly [Key in keyof Fields]?: NonNullable<Fields[Key]> };

/** Without what is null or undefined. */
const given = <Fields extends object>(fields: Fields): Given<Fields> =>
  Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== null && value !== undefined),
  ) as Given<Fields>;
