/** SQLite by `bun:sqlite`, on Bun. */
import { Database, type Statement } from "bun:sqlite";
import { accessSync, constants, existsSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import type { Storage } from "../../lib/storage/mod.ts";
import type { SqlDriver, SqlRow } from "../sql/driver.ts";
import { sqlStorage } from "../sql/mod.ts";
import { StatementCache } from "./statement-cache.ts";
import { type SqliteConnection, type SqliteOptions, sqliteDriver } from "./writer.ts";

/**
 * A Storage in the SQLite file at `path`, which is created with its folder when missing; `:memory:` lives as long as the
 * storage. What a verb has answered survives a crash and a power failure. One process at a time executes runs on it: that is
 * what the lock on the empty file `<path>.worker` says. Throws an Error that names the path and the remedy when the file
 * cannot be used, is cut off, or is empty beside its log.
 */
export function bunSqlite(path: string, options?: SqliteOptions): Storage {
  return sqlStorage(bunSqliteDriver(path, options));
}

/** The driver below `bunSqlite`. */
export function bunSqliteDriver(path: string, options?: SqliteOptions): SqlDriver {
  return sqliteDriver(path, connect, options);
}

function connect(path: string): SqliteConnection {
  if (path !== ":memory:") mkdirSync(dirname(path), { recursive: true });
  // SQLite opens a file that it may not write without saying so.
  if (existsSync(path)) accessSync(path, constants.R_OK | constants.W_OK);
  const database = new Database(path, { create: true, readwrite: true });
  const statements = new StatementCache<Statement>(
    (sql) => database.prepare(sql),
    (statement) => statement.finalize(),
  );
  return {
    // One array: spread parameters would let an object through as a bag of names.
    run: ({ sql, args }) => statements.get(sql).all(args as never) as SqlRow[],
    inTransaction: () => database.inTransaction,
    close() {
      statements.clear();
      database.close();
    },
  };
}
