import type { DatabaseSync } from "node:sqlite";
import type { SqliteDatabase } from "kysely";

/** What kysely's SqliteDialect asks of a database, on `node:sqlite`. */
export function nodeSqliteShim(database: DatabaseSync): SqliteDatabase {
  return {
    close: () => database.close(),
    prepare(sql) {
      const prepared = database.prepare(sql);
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
