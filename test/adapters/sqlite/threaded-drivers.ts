/** SQLite drivers whose batches are all committed in a thread. */
import type { SqlDriver } from "../../../adapters/sql/driver.ts";
import { openBun, openNode } from "../../../adapters/sqlite/connections.ts";
import type { SqliteOptions } from "../../../adapters/sqlite/writer.ts";
import { startThread, type WriterThread } from "../../../adapters/sqlite/writer-thread.ts";

export type OpenSqlite = (path: string, options?: SqliteOptions) => SqlDriver;

/** Starts a writer's thread with this package. */
export const openThread = (name: string, path: string): Promise<WriterThread> =>
  name === "bun:sqlite" ? startThread(name, openBun, path) : startThread(name, openNode, path);

/** Wraps a driver so that its batches wait for the writer thread. */
export function createThreadedDriver(name: string, open: OpenSqlite): OpenSqlite {
  return (path, options) => {
    const started = Promise.withResolvers<void>();
    let writes = path === ":memory:";
    let alive: ReturnType<typeof setInterval> | undefined;
    const begin = (): void => {
      clearInterval(alive);
      writes = true;
      started.resolve();
    };
    const fail = (error: unknown): void => {
      clearInterval(alive);
      started.reject(error);
    };
    const thread = async (file: string): Promise<WriterThread> => {
      const thread = openThread(name, file);
      // The driver takes it in a microtask after this one.
      thread.then(() => setImmediate(begin), fail);
      return await thread;
    };
    const driver = open(path, writes ? { ...options } : { ...options, writer: "thread", thread });
    // A start alone keeps no process alive.
    if (!writes) alive = setInterval(() => {}, 1_000);
    // An unhandled rejection would end the process before a test reports the reason.
    started.promise.catch(() => {});
    return {
      ...driver,
      async batch(statements) {
        if (!writes) await started.promise;
        return await driver.batch(statements);
      },
    };
  };
}

/** Returns the drivers of this runtime, each with commits on the event loop and in a thread. */
export async function createSqliteOpeners(): Promise<Record<string, OpenSqlite>> {
  const { nodeSqliteDriver } = await import("../../../adapters/sqlite/node.ts");
  const openers: Record<string, OpenSqlite> = { "node:sqlite": nodeSqliteDriver };
  if ("Bun" in globalThis) openers["bun:sqlite"] = (await import("../../../adapters/sqlite/bun.ts")).bunSqliteDriver;
  const inThread = Object.entries(openers).map(([name, open]) => [
    `${name} in a thread`,
    createThreadedDriver(name, open),
  ]);
  return { ...openers, ...Object.fromEntries(inThread) };
}
