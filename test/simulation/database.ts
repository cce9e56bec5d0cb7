/** One SQLite database in memory that all simulated processes share, and the drivers they reach it by. */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { SqlDriver, SqlRow, SqlStatement, SqlValue } from "../../adapters/sql/driver.ts";
import { sqlStorage } from "../../adapters/sql/mod.ts";
import type { SqliteConnection } from "../../adapters/sqlite/file.ts";
import { createStatementCache } from "../../adapters/sqlite/statement-cache.ts";
import { sqliteDriver } from "../../adapters/sqlite/writer.ts";

/** The events of the database that a simulation receives. */
export interface Listener {
  /** A statement is about to run. May throw: then it fails, and with `ends` its transaction is undone too. */
  onStatement(statement: SqlStatement): void;
  /** A batch of a group has done its work. */
  onBatch(): void;
  onCommit(): void;
  onRollback(): void;
}

/** The error of a database that has no space left, as `node:sqlite` throws it. */
export function fullError(): Error {
  return Object.assign(new Error("database or disk is full"), { code: "ERR_SQLITE_ERROR", errcode: 13 });
}

export class Database {
  readonly #database = new DatabaseSync(":memory:");
  readonly #statements = createStatementCache<StatementSync>(
    (sql) => this.#database.prepare(sql),
    () => {},
  );
  #tables: readonly string[] = [];
  #inTransaction = false;
  #open = false;

  /** Opens a database with the schema in place. It serves one seed after the other. */
  static async open(): Promise<Database> {
    const database = new Database();
    const driver = sqliteDriver(
      ":memory:",
      () => database.connection({ onStatement() {}, onBatch() {}, onCommit() {}, onRollback() {} }),
      {
        defer: (fn) => fn(),
      },
    );
    await sqlStorage(driver).migrate();
    database.#open = true;
    // Rows that others refer to go last.
    database.#tables = database
      .query("select name from sqlite_master where type = 'table' order by rowid desc")
      .map((row) => String(row.name))
      .filter((name) => name !== "greenroom_versions" && !name.startsWith("sqlite_"));
    return database;
  }

  /** Deletes every row. */
  clear(): void {
    if (this.#inTransaction) this.#end("rollback");
    for (const name of this.#tables) this.query(`delete from ${name}`);
  }

  get tables(): readonly string[] {
    return this.#tables;
  }

  query(sql: string, args: readonly SqlValue[] = []): SqlRow[] {
    const bound = args.map((value) =>
      typeof value === "number" && Number.isSafeInteger(value) ? BigInt(value) : value,
    );
    return this.#statements.get(sql).all(...bound) as SqlRow[];
  }

  #end(how: "commit" | "rollback"): void {
    this.query(how);
    this.#inTransaction = false;
  }

  /** Returns the connection on which the driver of one process runs its statements. */
  connection(listener: Listener): SqliteConnection {
    return {
      run: (statement) => {
        const { sql, args } = statement;
        // Set once for all processes: a pragma makes SQLite compile every statement anew.
        if (this.#open && sql.startsWith("pragma")) return [{ journal_mode: "memory" }];
        if (sql === "begin immediate") {
          this.query(sql);
          this.#inTransaction = true;
          return [];
        }
        if (sql === "commit") {
          this.#end(sql);
          listener.onCommit();
          return [];
        }
        if (sql === "rollback") {
          this.#end(sql);
          listener.onRollback();
          return [];
        }
        if (sql === "release batch") listener.onBatch();
        try {
          listener.onStatement(statement);
        } catch (error) {
          if ((error as { ends?: boolean }).ends && this.#inTransaction) {
            this.#end("rollback");
            listener.onRollback();
          }
          throw error;
        }
        return this.query(sql, args);
      },
      inTransaction: () => this.#inTransaction,
      close() {},
    };
  }
}

/** Runs a batch at once, as a database server does. */
export function runBatch(connection: SqliteConnection, statements: readonly SqlStatement[]): SqlRow[][] {
  connection.run({ sql: "begin immediate", args: [] });
  try {
    const rows = statements.map((statement) => connection.run(statement));
    connection.run({ sql: "commit", args: [] });
    return rows;
  } catch (error) {
    if (connection.inTransaction()) connection.run({ sql: "rollback", args: [] });
    throw error;
  }
}

export type { SqlDriver, SqlRow, SqlStatement };
