/** The store as one caller may use it. */
import type { Binding, Directory, Permit } from "../auth/binding.ts";
import { ServiceError } from "../errors.ts";
import type { StorePut } from "../executor/contract.ts";
import type { Scope } from "../storage/mod.ts";
import { narrowed } from "../storage/visibility.ts";
import type { Store } from "./mod.ts";

type StoreKey = Pick<StorePut, "namespace" | "key">;

export function bindStore(store: Directory<Store>, { authorize }: Binding): Store {
  const deletion = ({ namespace, key }: StoreKey): Promise<Permit<StoreKey>> =>
    authorize("store:delete", { namespace, key });

  async function write({ namespace, key, value, index, ttl }: StorePut): Promise<Permit<StorePut>> {
    const item = { namespace, key, value, index: index ?? null, ...(ttl === undefined ? {} : { ttl }) };
    const permit = await authorize("store:put", item);
    const { index: fields, ...rest } = permit.value;
    return { ...permit, value: { ...rest, ...present({ index: fields }) } };
  }

  return {
    async get(namespace, key, options) {
      const { value, scope } = await authorize("store:get", { namespace, key });
      const item = await store.get(scope, value.namespace, value.key, options);
      // With a filter, a missing item and a hidden one must get the same answer.
      if (!item && scope.filter) throw new ServiceError("not_found", "Item not found");
      return item;
    },
    async put(namespace, key, value, options) {
      const permit = await write({ ...options, namespace, key, value });
      const { namespace: _namespace, key: _key, value: _value, ...rest } = permit.value;
      await store.put(permit.scope, permit.value.namespace, permit.value.key, permit.value.value as typeof value, rest);
    },
    async putMany(items) {
      const permitted: StorePut[] = [];
      let scope: Scope | undefined;
      for (const item of items) {
        const permit = await (item.value === null ? deletion(item) : write(item));
        permitted.push({ value: item.value, ...permit.value });
        // The filters of all items apply to each of them.
        scope = narrowed(permit.scope, scope);
      }
      if (scope) await store.putMany(scope, permitted);
    },
    async delete(namespace, key) {
      const { value, scope } = await deletion({ namespace, key });
      await store.delete(scope, value.namespace, value.key);
    },
    async search(prefix, { refresh_ttl, ...query } = {}) {
      const call = { filter: null, query: null, limit: 10, offset: 0, ...query, namespace: prefix };
      const { value, scope } = await authorize("store:search", call);
      const { namespace, filter, query: text, limit, offset } = value;
      const search = present({ filter, query: text, limit, offset, refresh_ttl });
      return await store.search(scope, namespace, search);
    },
    async namespaces({ prefix = [], ...query } = {}) {
      const call = { suffix: null, max_depth: null, limit: 100, offset: 0, ...query, namespace: prefix };
      const { value, scope } = await authorize("store:list_namespaces", call);
      const { namespace, suffix, max_depth, limit, offset } = value;
      return await store.namespaces(scope, present({ prefix: namespace, suffix, max_depth, limit, offset }));
    },
  };
}

type Present<Fields> = { readonly [Key in keyof Fields]?: NonNullable<Fields[Key]> };

/** The fields that are neither null nor undefined. */
const present = <Fields extends object>(fields: Fields): Present<Fields> =>
  Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== null && value !== undefined),
  ) as Present<Fields>;
