/**
 * SQLite by `bun:sqlite`, on Bun.
 * @module
 */
import process from "node:process";
import type { Storage } from "../../lib/storage/mod.ts";
import type { SqlDriver } from "../sql/driver.ts";
import { sqlStorage } from "../sql/mod.ts";
import { openBun } from "./connections.ts";
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
 * import { bunSqlite } from "greenroom/bun-sqlite";
 *
 * const service = await createService({
 *   storage: bunSqlite("agents.db"),
 *   executor: fromFunctions({ echo: ({ messages }) => `Message ${messages.length}` }),
 * });
 * ```
 */
export function bunSqlite(path: string, options?: SqliteOptions): Storage {
  return sqlStorage(bunSqliteDriver(path, options));
}

/**
 * Opens the database with `bun:sqlite`: the driver below `bunSqlite`. Throws like `sqliteDriver`.
 * @example
 * ```ts
 * import { bunSqliteDriver } from "greenroom/bun-sqlite";
 * import { sqlStorage } from "greenroom/sql";
 *
 * const storage = sqlStorage(bunSqliteDriver("agents.db"));
 * ```
 */
export function bunSqliteDriver(path: string, options?: SqliteOptions): SqlDriver {
  return sqliteDriver(path, connect, {
    ...(path !== ":memory:" && { thread: (file) => startThread("bun:sqlite", openBun, file) }),
    ...options,
  });
}

/** Loads `bun:sqlite` without an import, because some bundlers would reject programs that also run on Node. */
function loadSqlite(): typeof import("bun:sqlite") {
  const sqlite = process.getBuiltinModule?.("bun:sqlite") as typeof import("bun:sqlite") | undefined;
  if (!sqlite) throw new Error("bun:sqlite exists on Bun only. Use greenroom/node-sqlite.");
  return sqlite;
}

/** Opens a connection. Prepares the file first, unless it is in memory. */
function connect(path: string): SqliteConnection {
  if (path !== ":memory:") prepareFile(path);
  return openBun(loadSqlite(), createStatementCache, path);
}
