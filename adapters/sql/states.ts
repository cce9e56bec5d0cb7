/** The verbs that change states without a run: updates, copies, pruning. */
import { ServiceError } from "../../lib/errors.ts";
import type { Storage } from "../../lib/storage.ts";
import type { SqlDriver } from "./driver.ts";

const notBuilt = (): never => {
  throw new ServiceError("not_built", "Changing states: not built yet");
};

export function stateVerbs(
  _driver: SqlDriver,
): Pick<Storage, "writeState" | "annotateCheckpoint" | "copyThread" | "pruneThreads" | "expireThreads"> {
  return {
    writeState: async () => notBuilt(),
    annotateCheckpoint: async () => notBuilt(),
    copyThread: async () => notBuilt(),
    pruneThreads: async () => notBuilt(),
    expireThreads: async () => [],
  };
}
