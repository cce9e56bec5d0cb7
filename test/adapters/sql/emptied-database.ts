/**
 * The storage suite on one database and its sessions. A database for each test would cost more than the tests, and so would new sessions,
 * which have no statement prepared: what one test has left is deleted before the next.
 */
import type { SqlDriver, SqlStatement } from "../../../adapters/sql/driver.ts";
import { sqlStorage } from "../../../adapters/sql/mod.ts";
import type { Storage } from "../../../lib/storage/mod.ts";

const plain = (sql: string): SqlStatement => ({ sql, args: [] });

/** The statements that delete all rows of these tables in any order. They leave no row that refers to another one. */
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
const findFilledTables = (tables: readonly string[]): string =>
  tables.map((name) => `select '${name}' as name where exists (select 1 from ${name})`).join(" union all ");

export class Emptied {
  readonly #driver: SqlDriver;
  // Those that are there once it is migrated.
  #tables: readonly string[] = [];

  constructor(driver: SqlDriver) {
    this.#driver = driver;
  }

  async open(): Promise<Storage> {
    const { dialect } = this.#driver;
    const names = async (sql: string): Promise<string[]> =>
      (await this.#driver.read(plain(sql))).map(({ name }) => String(name));
    if (this.#tables.length === 0) {
      this.#tables = (await names(TABLES[dialect])).filter((name) => name !== "greenroom_versions");
    }
    // Most tests leave rows in few of them.
    const filledTables = this.#tables.length > 0 ? await names(findFilledTables(this.#tables)) : [];
    if (filledTables.length > 0) await this.#driver.batch(DELETING[dialect](filledTables).map(plain));
    const storage = sqlStorage({ ...this.#driver, close: async () => {} });
    if (this.#tables.length === 0) return storage;
    // Each test migrates its storage first: what has nothing to do any more is left out once, not tested each time.
    let left_out = false;
    const migrate = async (): Promise<void> => {
      if (left_out) return await storage.migrate();
      left_out = true;
    };
    return { ...storage, migrate };
  }

  async close(): Promise<void> {
    await this.#driver.close();
  }
}
