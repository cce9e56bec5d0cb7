/** The routes of crons. */
import type { Crons } from "../crons/mod.ts";
import { ServiceError } from "../errors.ts";
import type { Routes } from "./call.ts";

type Name = "create" | "get" | "update" | "delete" | "search" | "count";

const notBuilt = async (): Promise<never> => {
  throw new ServiceError("not_built", "Crons: not built yet");
};

export function cronRoutes(_crons: Crons): Routes<Name> {
  return { create: notBuilt, get: notBuilt, update: notBuilt, delete: notBuilt, search: notBuilt, count: notBuilt };
}
