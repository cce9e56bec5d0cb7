import type { StoreHandle } from "../../lib/executor/contract.ts";

const never = async (): Promise<never> => {
  throw new Error("this job has no store");
};

/** For jobs that remember nothing. */
export const noStore: StoreHandle = {
  get: never,
  put: never,
  putMany: never,
  delete: never,
  search: never,
  namespaces: never,
};
