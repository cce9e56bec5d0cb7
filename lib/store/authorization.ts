/** Calls of the store: a handler may change the address and the value of an item, and the parts of a query. */
import type { AuthorizedCall, Authorizer, InternalResource } from "../auth/authorizer.ts";
import { ServiceError } from "../errors.ts";
import type { StorePut } from "../executor/contract.ts";
import type { Scope } from "../storage/mod.ts";
import { intersectScope } from "../storage/visibility.ts";
import type { Store } from "./mod.ts";

interface Directories {
  readonly store: InternalResource<Store>;
}

type StoreKey = Pick<StorePut, "namespace" | "key">;

/** Authorizes writing the item. */
async function authorizePut(
  { authorize }: Authorizer<"store:put">,
  { namespace, key, value, index, ttl }: StorePut,
): Promise<AuthorizedCall<StorePut>> {
  const item = { namespace, key, value, index: index ?? null, ...(ttl === undefined ? {} : { ttl }) };
  const authorizedCall = await authorize("store:put", item);
  const { index: fields, ...rest } = authorizedCall.value;
  return { ...authorizedCall, value: { ...rest, ...present({ index: fields }) } };
}

const authorizeDelete = (
  { authorize }: Authorizer<"store:delete">,
  { namespace, key }: StoreKey,
): Promise<AuthorizedCall<StoreKey>> => authorize("store:delete", { namespace, key });

export const getItem =
  ({ authorize }: Authorizer<"store:get">, { store }: Directories): Store["get"] =>
  async (namespace, key, options) => {
    const { value, scope } = await authorize("store:get", { namespace, key });
    const item = await store.get(scope, value.namespace, value.key, options);
    // With a filter, a missing item and a hidden one must get the same answer.
    if (!item && scope.filter) throw new ServiceError("not_found", "Item not found");
    return item;
  };

export const putItem =
  (authorizer: Authorizer<"store:put">, { store }: Directories): Store["put"] =>
  async (namespace, key, value, options) => {
    const authorizedCall = await authorizePut(authorizer, { ...options, namespace, key, value });
    const { namespace: _namespace, key: _key, value: _value, ...rest } = authorizedCall.value;
    await store.put(
      authorizedCall.scope,
      authorizedCall.value.namespace,
      authorizedCall.value.key,
      authorizedCall.value.value as typeof value,
      rest,
    );
  };

/** Authorizes each item. The filters of all items apply to each of them. */
export const putItems =
  (authorizer: Authorizer<"store:put" | "store:delete">, { store }: Directories): Store["putMany"] =>
  async (items) => {
    const permitted: StorePut[] = [];
    let scope: Scope | undefined;
    for (const item of items) {
      const authorizedCall = await (item.value === null
        ? authorizeDelete(authorizer, item)
        : authorizePut(authorizer, item));
      permitted.push({ value: item.value, ...authorizedCall.value });
      scope = intersectScope(authorizedCall.scope, scope);
    }
    if (scope) await store.putMany(scope, permitted);
  };

export const searchItems =
  ({ authorize }: Authorizer<"store:search">, { store }: Directories): Store["search"] =>
  async (prefix, { refresh_ttl, ...query } = {}) => {
    const call = { filter: null, query: null, limit: 10, offset: 0, ...query, namespace: prefix };
    const { value, scope } = await authorize("store:search", call);
    const { namespace, filter, query: text, limit, offset } = value;
    return await store.search(scope, namespace, present({ filter, query: text, limit, offset, refresh_ttl }));
  };

export const listNamespaces =
  ({ authorize }: Authorizer<"store:list_namespaces">, { store }: Directories): Store["namespaces"] =>
  async ({ prefix = [], ...query } = {}) => {
    const call = { suffix: null, max_depth: null, limit: 100, offset: 0, ...query, namespace: prefix };
    const { value, scope } = await authorize("store:list_namespaces", call);
    const { namespace, suffix, max_depth, limit, offset } = value;
    return await store.namespaces(scope, present({ prefix: namespace, suffix, max_depth, limit, offset }));
  };

type Present<Fields> = { readonly [Key in keyof Fields]?: NonNullable<Fields[Key]> };

/** The fields that are neither null nor undefined. */
const present = <Fields extends object>(fields: Fields): Present<Fields> =>
  Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== null && value !== undefined),
  ) as Present<Fields>;
