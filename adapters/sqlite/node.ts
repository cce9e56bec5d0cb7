/**
 * SQLite by `node:sqlite`, on Node (22.13 or newer), Deno and Bun.
 * @module
 */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { Storage } from "../../lib/storage/mod.ts";
import type { SqlDriver, SqlRow, SqlValue } from "../sql/driver.ts";
import { sqlStorage } from "../sql/mod.ts";
import { prepareFile, type SqliteConnection } from "./file.ts";
import { StatementCache } from "./statement-cache.ts";
import { type SqliteOptions, sqliteDriver } from "./writer.ts";

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
 * The driver below `nodeSqlite`. Where `node:sqlite` reads text only up to U+0000 (Deno, older Node 22), it is refused.
 *
 * @example
 * ```ts
 * import { nodeSqliteDriver } from "greenroom/node-sqlite";
 * import { sqlStorage } from "greenroom/sql";
 *
 * const storage = sqlStorage(nodeSqliteDriver("agents.db"));
 * ```
 */
export function nodeSqliteDriver(path: string, options?: SqliteOptions): SqlDriver {
  return sqliteDriver(path, connect, options);
}

function connect(path: string): SqliteConnection {
  if (path !== ":memory:") prepareFile(path);
  cutsText ??= textIsCut();
  const database = new DatabaseSync(path);
  const statements = new StatementCache<StatementSync>((sql) => database.prepare(sql));
  const bind = (value: SqlValue): SqlValue | bigint => {
    // As a number it would be bound as REAL: 1.0 where a column has no type, and in expressions.
    if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value);
    if (cutsText && typeof value === "string" && value.includes("\0")) {
      throw new Error("node:sqlite of this runtime cannot read text with U+0000 back: it was not stored.");
    }
    return value;
  };

  return {
    // Rows come without a prototype; callers get plain objects.
    run: ({ sql, args }) =>
      statements
        .get(sql)
        .all(...args.map(bind))
        .map((row) => ({ ...row }) as SqlRow),
    inTransaction() {
      // `isTransaction` is missing in older releases of Node 22.
      try {
        database.exec("begin");
      } catch {
        return true;
      }
      database.exec("rollback");
      return false;
    },
    close() {
      statements.clear();
      database.close();
    },
  };
}

let cutsText: boolean | undefined;

function textIsCut(): boolean {
  const database = new DatabaseSync(":memory:");
  const row = database.prepare("select char(97, 0, 98) as text").get();
  database.close();
  return row?.text !== "a\0b";
}
