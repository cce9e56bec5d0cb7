/**
 * SQLite by `node:sqlite`, on Node (22.13 or newer), Deno and Bun.
 * @module
 */
import { DatabaseSync } from "node:sqlite";
import type { Storage } from "../../lib/storage/mod.ts";
import type { SqlDriver } from "../sql/driver.ts";
import { sqlStorage } from "../sql/mod.ts";
import { openNode } from "./connections.ts";
import { prepareFile, type SqliteConnection } from "./file.ts";
import { createStatementCache } from "./statement-cache.ts";
import { type SqliteOptions, sqliteDriver } from "./writer.ts";
import { startThread } from "./writer-thread.ts";

export type * from "../../lib/storage/types.ts";
export type { SqlDriver, SqlRow, SqlStatement, SqlValue } from "../sql/driver.ts";
export type { BatchResult, GroupResult } from "./commit.ts";
export type { SqliteOptions, SqliteWriter } from "./writer.ts";
export type { WriterThread } from "./writer-thread.ts";

/**
 * A Storage in the SQLite file at `path`, which is created with its folder when missing; `:memory:` lives as long as the
 * storage. What a verb has answered survives a crash and a power failure. One process at a time executes runs on it: that is
 * what the lock on the empty file `<path>.worker` says. Throws an Error that names the path and the remedy when the file
 * cannot be used, is cut off, or is empty beside its log.
 *
 * @example
 * ```ts
 * import { createService, fromFunctions } from "greenroom";
 * import { nodeSqlite } from "greenroom/node-sqlite";
 *
 * const service = await createService({
 *   storage: nodeSqlite("agents.db"),
 *   executor: fromFunctions({ echo: ({ messages }) => `Message ${messages.length}` }),
 * });
 * ```
 */
export function nodeSqlite(path: string, options?: SqliteOptions): Storage {
  return sqlStorage(nodeSqliteDriver(path, options));
}

/**
 * Opens the database with `node:sqlite`: the driver below `nodeSqlite`. Where `node:sqlite` reads text only up to U+0000 (Deno,
 * older Node 22), such text is refused. Throws like `sqliteDriver`.
 * @example
 * ```ts
 * import { nodeSqliteDriver } from "greenroom/node-sqlite";
 * import { sqlStorage } from "greenroom/sql";
 *
 * const storage = sqlStorage(nodeSqliteDriver("agents.db"));
 * ```
 */
export function nodeSqliteDriver(path: string, options?: SqliteOptions): SqlDriver {
  return sqliteDriver(path, connect, {
    ...(path !== ":memory:" && { thread: (file) => startThread("node:sqlite", openNode, file) }),
    ...options,
  });
}

/** Opens a connection. Prepares the file first, unless it is in memory. */
function connect(path: string): SqliteConnection {
  if (path !== ":memory:") prepareFile(path);
  return openNode({ DatabaseSync }, createStatementCache, path);
}
