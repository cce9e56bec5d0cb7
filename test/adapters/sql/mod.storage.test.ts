import assert from "node:assert/strict";
import { mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, describe, it } from "node:test";
import { Kysely, SqliteDialect } from "kysely";
import { fromKysely } from "../../../adapters/kysely/mod.ts";
import { sqlStorage } from "../../../adapters/sql/mod.ts";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { ConfigError } from "../../../lib/errors.ts";
import type { Storage } from "../../../lib/storage/mod.ts";
import { storageSuite } from "../../suite/storage.ts";
import { all, brief, onNode, whole, wholeOnNode } from "./efforts.ts";
import { Emptied } from "./emptied-database.ts";
import { nodeSqliteShim } from "./kysely-shim.ts";

const opened: Record<string, () => Storage> = { "node:sqlite": () => nodeSqlite(":memory:") };

/** A host's own connections, which it closes itself. */
const hosts: Record<string, () => Kysely<unknown>> = {};

// Kysely's own dialect on `node:sqlite` is the same code on every runtime: `npm test` runs it on Node.
if (onNode || all) {
  hosts["kysely on its SqliteDialect"] = () => {
    const database = new DatabaseSync(":memory:");
    database.exec("pragma foreign_keys = on");
    return new Kysely({ dialect: new SqliteDialect({ database: nodeSqliteShim(database) }) });
  };
}

if ("Bun" in globalThis) {
  const { bunSqlite } = await import("../../../adapters/sqlite/bun.ts");
  const [{ Database }, { BunSqliteDialect }] = await Promise.all([import("bun:sqlite"), import("kysely-bun-sqlite")]);
  opened["bun:sqlite"] = () => bunSqlite(":memory:");
  hosts["kysely on kysely-bun-sqlite"] = () => {
    const database = new Database(":memory:");
    database.run("pragma foreign_keys = on");
    return new Kysely({ dialect: new BunSqliteDialect({ database }) });
  };
}

for (const [name, open] of Object.entries(opened)) {
  const effort = name === "node:sqlite" ? wholeOnNode : whole;
  describe(`storage on ${name}`, () => storageSuite(effort, async () => open()));
}

for (const [name, host] of Object.entries(hosts)) {
  describe(`storage on ${name}`, () => {
    const db = host();
    const database = new Emptied(fromKysely(db));
    after(async () => {
      await database.close();
      await db.destroy();
    });
    storageSuite(brief, () => database.open());
  });
}

describe("migrate rejects", () => {
  /** Runs `prepare` on a new file, then expects the migration to end with a ConfigError of this text. */
  const assertRefused = async (message: RegExp, prepare: (path: string) => Promise<void> | void): Promise<void> => {
    const folder = await mkdtemp(join(tmpdir(), "greenroom-"));
    const path = join(folder, "agents.db");
    try {
      await prepare(path);
      const database = new DatabaseSync(path);
      database.exec("pragma foreign_keys = on");
      const db = new Kysely({ dialect: new SqliteDialect({ database: nodeSqliteShim(database) }) });
      const storage = sqlStorage(fromKysely(db));
      try {
        await assert.rejects(storage.migrate(), (error: unknown) => {
          assert.ok(error instanceof ConfigError, String(error));
          assert.match(error.message, message);
          return true;
        });
      } finally {
        await storage.close();
        await db.destroy();
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  };
  const createMigratedFile = async (path: string): Promise<void> => {
    const storage = nodeSqlite(path);
    await storage.migrate();
    await storage.close();
  };
  const change = (path: string, sql: string): void => {
    const database = new DatabaseSync(path);
    database.exec(sql);
    database.close();
  };

  it("a database of a newer version, naming both", () =>
    assertRefused(/schema version 99, .* up to \d+;/, async (path) => {
      await createMigratedFile(path);
      change(path, "insert into greenroom_versions (version) values (99)");
    }));

  it("a database without a record of versions", () =>
    assertRefused(/tables named .*threads.* that Greenroom did not create/, async (path) => {
      await createMigratedFile(path);
      change(path, "alter table greenroom_versions rename to greenroom_schema");
    }));

  it("tables of the same names that another program made", () =>
    assertRefused(/tables named runs, threads|tables named threads, runs/, (path) => {
      change(path, "create table threads (id integer); create table runs (id integer)");
    }));

  it("a database that lost a table", () =>
    assertRefused(/lacks the tables checkpoint_writes;/, async (path) => {
      await createMigratedFile(path);
      change(path, "drop table checkpoint_writes");
    }));

  it("a damaged file", () =>
    assertRefused(/damaged or not a database/, async (path) => {
      await createMigratedFile(path);
      await truncate(path, 5000);
    }));

  it("a file that is no database", () =>
    assertRefused(/damaged or not a database/, (path) => writeFile(path, "name,age\nAda,36\n".repeat(100))));
});

it("several storages migrate one file at once, beside tables of the host", async () => {
  const folder = await mkdtemp(join(tmpdir(), "greenroom-"));
  try {
    const path = join(folder, "agents.db");
    const database = new DatabaseSync(path);
    database.exec("create table invoices (id integer)");
    database.close();
    const storages = [nodeSqlite(path), nodeSqlite(path), nodeSqlite(path)];
    await Promise.all(storages.map((storage) => storage.migrate()));
    const scope = { deployment: "d" };
    const thread = { thread_id: "t", metadata: {}, config: {}, stateless: false };
    assert.equal((await (storages[0] as Storage).createThread(scope, thread, 1)).kind, "created");
    assert.equal((await (storages[2] as Storage).getThread(scope, "t"))?.thread_id, "t");
    await Promise.all(storages.map((storage) => storage.close()));
  } finally {
    await rm(folder, { recursive: true });
  }
});

it("keeps no index entry of metadata that was deleted or rejected", async () => {
  const folder = await mkdtemp(join(tmpdir(), "greenroom-"));
  try {
    const path = join(folder, "agents.db");
    const storage = nodeSqlite(path);
    await storage.migrate();
    const scope = { deployment: "d" };
    const readIndexEntries = (): unknown => {
      const database = new DatabaseSync(path);
      const row = database.prepare("select count(*) as count from labels").get();
      database.close();
      return row?.count;
    };
    const thread = { thread_id: "t", metadata: { a: 1, b: 2, c: 3 }, config: {}, stateless: false };
    await storage.createThread(scope, thread, 1);
    await storage.createThread(scope, { ...thread, metadata: { x: 1, y: 2 } }, 2);
    assert.equal(readIndexEntries(), 3);
    await storage.updateThread(scope, "t", () => ({ metadata: { b: 2, c: 4 } }), 3);
    assert.equal(readIndexEntries(), 2);
    await storage.deleteThread(scope, "t");
    assert.equal(readIndexEntries(), 0);
    await storage.close();
  } finally {
    await rm(folder, { recursive: true });
  }
});
