/**
 * The storage suite on one database and its sessions. A database for each test would cost more than the tests, and so would new sessions,
 * which have no statement prepared: what one test has left is deleted before the next.
 */
import type { SqlDriver, SqlStatement } from "../../adapters/sql/driver.ts";
import { sqlStorage } from "../../adapters/sql/mod.ts";
import type { Storage } from "../../lib/storage.ts";

const plain = (sql: string): SqlStatement => ({ sql, args: [] });

/** What deletes all rows, in whatever order: nothing that refers to a row is left. */
const DELETING: Readonly<Record<SqlDriver["dialect"], (tables: readonly string[]) => string[]>> = {
  postgres: (tables) => [
    "set local session_replication_role = replica",
    `with ${tables.map((name) => `of_${name} as (delete from ${name})`).join(", ")} select 1`,
  ],
  sqlite: (tables) => ["pragma defer_foreign_keys = on", ...tables.map((name) => `delete from ${name}`)],
};
const TABLES: Readonly<Record<SqlDriver["dialect"], string>> = {
  postgres: "select tablename as name from pg_tables where schemaname = 'public'",
  sqlite:
    "select name from sqlite_master where type = 'table' and name not like 'sqlite_%' and name not like 'libsql_%'",
};

export class Emptied {
  readonly #driver: SqlDriver;

  constructor(driver: SqlDriver) {
    this.#driver = driver;
  }

  async open(): Promise<Storage> {
    const { dialect } = this.#driver;
    const tables = (await this.#driver.read(plain(TABLES[dialect]))).map(({ name }) => String(name));
    const filled = tables.filter((name) => name !== "greenroom_schema");
    if (filled.length > 0) await this.#driver.batch(DELETING[dialect](filled).map(plain));
    return sqlStorage({ ...this.#driver, close: async () => {} });
  }

  async close(): Promise<void> {
    await this.#driver.close();
  }
}
