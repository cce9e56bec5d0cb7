/** The verbs on crons. */
import type { CronStorage } from "../../lib/cron-storage.ts";
import { ServiceError } from "../../lib/errors.ts";
import type { SqlDriver } from "./driver.ts";

const notBuilt = (): never => {
  throw new ServiceError("not_built", "Crons: not built yet");
};

export function cronVerbs(_driver: SqlDriver): CronStorage {
  return {
    createCron: async () => notBuilt(),
    getCron: async () => notBuilt(),
    searchCrons: async () => notBuilt(),
    countCrons: async () => notBuilt(),
    updateCron: async () => notBuilt(),
    deleteCron: async () => notBuilt(),
    dueCrons: async () => notBuilt(),
    nextCronAt: async () => notBuilt(),
    fireCron: async () => notBuilt(),
    listCronFirings: async () => notBuilt(),
  };
}
