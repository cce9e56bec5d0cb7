import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { Kysely, SqliteDialect } from "kysely";
import { fromKysely } from "../../adapters/kysely.ts";
import { nodeSqlite } from "../../adapters/node-sqlite.ts";
import { sqlStorage } from "../../adapters/sql/mod.ts";
import type { Storage } from "../../lib/storage.ts";
import { storageSuite } from "../suite/storage.ts";
import { nodeSqliteShim } from "./kysely-shim.ts";

const openers: Record<string, () => Storage> = {
  "node:sqlite": () => nodeSqlite(":memory:"),
  "kysely on its SqliteDialect"() {
    const database = new DatabaseSync(":memory:");
    const db = new Kysely({ dialect: new SqliteDialect({ database: nodeSqliteShim(database) }) });
    return hostOwned(fromKysely(db), () => db.destroy());
  },
};

if ("Bun" in globalThis) {
  const { bunSqlite } = await import("../../adapters/bun-sqlite.ts");
  const [{ Database }, { BunSqliteDialect }] = await Promise.all([import("bun:sqlite"), import("kysely-bun-sqlite")]);
  openers["bun:sqlite"] = () => bunSqlite(":memory:");
  openers["kysely on kysely-bun-sqlite"] = () => {
    const database = new Database(":memory:");
    database.run("pragma foreign_keys = on");
    const db = new Kysely({ dialect: new BunSqliteDialect({ database }) });
    return hostOwned(fromKysely(db), () => db.destroy());
  };
}

/** As a host does it: its own connection is closed after the storage. */
function hostOwned(driver: Parameters<typeof sqlStorage>[0], destroy: () => Promise<void>): Storage {
  const storage = sqlStorage(driver);
  return {
    ...storage,
    async close() {
      await storage.close();
      await destroy();
    },
  };
}

for (const [name, open] of Object.entries(openers)) {
  describe(`storage on ${name}`, () => storageSuite({ describe, it }, async () => open()));
}
