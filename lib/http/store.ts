/** The routes of the store. */
import { ServiceError } from "../errors.ts";
import type { Store } from "../store.ts";
import type { Routes } from "./call.ts";

type Name = "put" | "get" | "delete" | "search" | "namespaces";

const notBuilt = async (): Promise<never> => {
  throw new ServiceError("not_built", "The store: not built yet");
};

export function storeRoutes(_store: Store): Routes<Name> {
  return { put: notBuilt, get: notBuilt, delete: notBuilt, search: notBuilt, namespaces: notBuilt };
}
