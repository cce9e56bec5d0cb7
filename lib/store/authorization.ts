/** Authorizes the operations of the store. A handler may change the address and the value of an item, and the parts of a query. */
import type { AuthorizedCall, Authorizer, InternalResource } from "../auth/authorizer.ts";
import { ServiceError } from "../errors.ts";
import type { StorePut } from "../executor/contract.ts";
import type { Scope } from "../storage/mod.ts";
import { intersectScope } from "../storage/visibility.ts";
import type { Store } from "./mod.ts";

interface InternalResources {
  readonly store: InternalResource<Store>;
}

type StoreKey = Pick<StorePut, "namespace" | "key">;

/**
 * Authorizes one item to be written. Returns the item with the changes of the handler, which sees null for a missing `index`,
 * and the scope. A null `index` is absent in the result.
 */
async function authorizePutValue(
  { authorize }: Authorizer<"store:put">,
  { namespace, key, value, index, ttl }: StorePut,
): Promise<AuthorizedCall<StorePut>> {
  const item = { namespace, key, value, index: index ?? null, ...(ttl === undefined ? {} : { ttl }) };
  const authorizedCall = await authorize("store:put", item);
  const { index: fields, ...rest } = authorizedCall.value;
  return { ...authorizedCall, value: { ...rest, ...omitNullish({ index: fields }) } };
}

const authorizeDeleteKey = (
  { authorize }: Authorizer<"store:delete">,
  { namespace, key }: StoreKey,
): Promise<AuthorizedCall<StoreKey>> => authorize("store:delete", { namespace, key });

/**
 * Returns `get`, which authorizes the read. A custom handler may change namespace and key. With a filter it throws `not_found`
 * for a missing item, which otherwise gives null, because a missing item and an excluded one must give the same response.
 */
export const authorizeGetItem =
  ({ authorize }: Authorizer<"store:get">, { store }: InternalResources): Store["get"] =>
  async (namespace, key, options) => {
    const { value, scope } = await authorize("store:get", { namespace, key });
    const item = await store.get(scope, value.namespace, value.key, options);
    // With a filter, a missing item and an excluded one must give the same response.
    if (!item && scope.filter) throw new ServiceError("not_found", "Item not found");
    return item;
  };

/** Returns `put`, which authorizes the item and stores it. A custom handler may change the item and its address. */
export const authorizePutItem =
  (authorizer: Authorizer<"store:put">, { store }: InternalResources): Store["put"] =>
  async (namespace, key, value, options) => {
    const authorizedCall = await authorizePutValue(authorizer, { ...options, namespace, key, value });
    const { namespace: _namespace, key: _key, value: _value, ...putOptions } = authorizedCall.value;
    await store.put(
      authorizedCall.scope,
      authorizedCall.value.namespace,
      authorizedCall.value.key,
      authorizedCall.value.value as typeof value,
      putOptions,
    );
  };

/**
 * Returns `putMany`, which authorizes each item, those with the value null as deletions, before it stores any. The filters of
 * all items apply to each of them. Custom handlers may change items. An empty list does nothing.
 */
export const authorizePutItems =
  (authorizer: Authorizer<"store:put" | "store:delete">, { store }: InternalResources): Store["putMany"] =>
  async (items) => {
    const authorizedItems: StorePut[] = [];
    let scope: Scope | undefined;
    for (const item of items) {
      const authorizedCall = await (item.value === null
        ? authorizeDeleteKey(authorizer, item)
        : authorizePutValue(authorizer, item));
      authorizedItems.push({ value: item.value, ...authorizedCall.value });
      scope = intersectScope(authorizedCall.scope, scope);
    }
    if (scope) await store.putMany(scope, authorizedItems);
  };

/**
 * Returns `search`, which authorizes the query. Custom handlers get it with its defaults and may change all but `refresh_ttl`.
 */
export const authorizeSearchItems =
  ({ authorize }: Authorizer<"store:search">, { store }: InternalResources): Store["search"] =>
  async (prefix, { refresh_ttl, ...query } = {}) => {
    const request = { filter: null, query: null, limit: 10, offset: 0, ...query, namespace: prefix };
    const { value, scope } = await authorize("store:search", request);
    const { namespace, filter, query: text, limit, offset } = value;
    return await store.search(scope, namespace, omitNullish({ filter, query: text, limit, offset, refresh_ttl }));
  };

/** Returns `namespaces`, which authorizes the query. Custom handlers get it with its defaults and may change it. */
export const authorizeListNamespaces =
  ({ authorize }: Authorizer<"store:list_namespaces">, { store }: InternalResources): Store["namespaces"] =>
  async ({ prefix = [], ...query } = {}) => {
    const request = { suffix: null, max_depth: null, limit: 100, offset: 0, ...query, namespace: prefix };
    const { value, scope } = await authorize("store:list_namespaces", request);
    const { namespace, suffix, max_depth, limit, offset } = value;
    return await store.namespaces(scope, omitNullish({ prefix: namespace, suffix, max_depth, limit, offset }));
  };

type WithoutNullish<Fields> = { readonly [Key in keyof Fields]?: NonNullable<Fields[Key]> };

/** Returns a copy without members that are null or undefined. */
const omitNullish = <Fields extends object>(fields: Fields): WithoutNullish<Fields> =>
  Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== null && value !== undefined),
  ) as WithoutNullish<Fields>;
