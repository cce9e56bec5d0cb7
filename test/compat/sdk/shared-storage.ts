/** The storage that the tests of a group share. */
import type { Storage } from "../../../lib/storage/mod.ts";
import type { Subject } from "./bench.ts";

/**
 * Returns one storage for all tests of a group, opened for the first, and a separate deployment for each: to log in, to migrate and to
 * prepare statements again costs more than most tests. Call `close` after the last.
 */
export function sharedStorage(open: () => Storage): Pick<Subject, "createStorageOptions"> & { close(): Promise<void> } {
  let storage: Storage | undefined;
  let count = 0;
  return {
    createStorageOptions() {
      storage ??= open();
      // A service closes its storage when it stops.
      return { storage: { ...storage, close: async () => {} }, deployment: { name: `test-${++count}` } };
    },
    close: async () => storage?.close(),
  };
}
