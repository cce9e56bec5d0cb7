/** The verbs on the store's items. */
import { ServiceError } from "../../lib/errors.ts";
import type { ItemStorage } from "../../lib/item-storage.ts";
import type { SqlDriver } from "./driver.ts";

const notBuilt = (): never => {
  throw new ServiceError("not_built", "The store: not built yet");
};

export function itemVerbs(_driver: SqlDriver): ItemStorage {
  return {
    putItems: async () => notBuilt(),
    getItem: async () => notBuilt(),
    searchItems: async () => notBuilt(),
    listNamespaces: async () => notBuilt(),
    sweepItems: async () => notBuilt(),
  };
}
