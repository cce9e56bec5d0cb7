import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { SqliteDatabase } from "kysely";

/** Adapts `node:sqlite` to the interface that kysely's SqliteDialect requires of a database. */
export function nodeSqliteShim(database: DatabaseSync): SqliteDatabase {
  // To prepare one takes longer than most take to run.
  const statements = new Map<string, StatementSync>();
  return {
    close: () => database.close(),
    prepare(sql) {
      const prepared = statements.get(sql) ?? database.prepare(sql);
      statements.set(sql, prepared);
      return {
        // Statements without rows give none; `columns()` is missing in older releases of Node 22.
        reader: true,
        all: (parameters) => prepared.all(...(parameters as never[])),
        run: (parameters) => prepared.run(...(parameters as never[])),
        iterate: (parameters) => prepared.iterate(...(parameters as never[])),
      };
    },
  };
}
