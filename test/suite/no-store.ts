import type { StoreHandle } from "../../lib/executor/contract.ts";

const never = async (): Promise<never> => {
  throw new Error("this job has no store");
};

/** A store for jobs that must not use one: every call throws. */
export const noStore: StoreHandle = {
  get: never,
  put: never,
  putMany: never,
  delete: never,
  search: never,
  namespaces: never,
};
