/**
 * The connections of each SQLite package. The functions use nothing but their arguments: writer-thread.ts passes their text to a
 * thread, where nothing else of this program exists.
 */
import type { Statement } from "bun:sqlite";
import type { StatementSync } from "node:sqlite";
import type { SqlRow, SqlValue } from "../sql/driver.ts";
import type { SqliteConnection } from "./file.ts";
import type { createStatementCache } from "./statement-cache.ts";

/**
 * Opens a connection with `node:sqlite`; creates the file if it is missing. Refuses text with U+0000 where the runtime cannot
 * read it back.
 */
export function openNode(
  { DatabaseSync: Database }: Pick<typeof import("node:sqlite"), "DatabaseSync">,
  createCache: typeof createStatementCache,
  path: string,
): SqliteConnection {
  const database = new Database(path);
  const statements = createCache<StatementSync>((sql) => database.prepare(sql));
  let isTextTruncated: boolean | undefined;
  /** Returns true if this runtime reads text only up to U+0000. Tries it in a database in memory. */
  const truncatesText = (): boolean => {
    const memory = new Database(":memory:");
    const row = memory.prepare("select char(97, 0, 98) as text").get();
    memory.close();
    return row?.text !== "a\0b";
  };
  /**
   * Returns the value as it is bound: an integer as a bigint, every other one as it is. Throws for text with U+0000
   * where it cannot be read back.
   */
  const bind = (value: SqlValue): SqlValue | bigint => {
    // As a number it would be bound as REAL: 1.0 where a column has no type, and in expressions.
    if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value);
    if (typeof value === "string" && value.includes("\0")) {
      isTextTruncated ??= truncatesText();
      if (isTextTruncated)
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
    /** Returns true if a transaction is open, by trying to begin one, which it then rolls back. */
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

/** Opens a connection with `bun:sqlite`; creates the file if it is missing. */
export function openBun(
  { Database }: Pick<typeof import("bun:sqlite"), "Database">,
  createCache: typeof createStatementCache,
  path: string,
): SqliteConnection {
  const database = new Database(path, { create: true, readwrite: true });
  const statements = createCache<Statement>(
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
