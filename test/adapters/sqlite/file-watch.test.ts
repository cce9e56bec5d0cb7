/** Files of a database that vanish under a server, and logs that are cut while it is down. */
import assert from "node:assert/strict";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, it } from "node:test";
import {
  DatabaseUnavailable,
  type SqlDriver,
  type SqlRow,
  type SqlStatement,
  type SqlValue,
  sqlStorage,
} from "../../../adapters/sql/mod.ts";
import type { SqliteConnection } from "../../../adapters/sqlite/file.ts";
import { sqliteDriver } from "../../../adapters/sqlite/writer.ts";
import { createSqliteOpeners } from "./threaded-drivers.ts";

type Open = (path: string) => SqlDriver;
const openers: Record<string, Open> = Object.fromEntries(
  Object.entries(await createSqliteOpeners()).map(([name, open]) => [
    name,
    (path) => open(path, { timer: () => () => {} }),
  ]),
);

const statement = (sql: string, ...args: SqlValue[]): SqlStatement => ({ sql, args });
const table = statement("create table item (body text)");
const insertItem = statement("insert into item (body) values (?)", "x".repeat(20_000));
const count = statement("select count(*) as n from item");

for (const [name, open] of Object.entries(openers)) {
  describe(`${name}: the files of a database`, () => {
    let folder = "";
    let path = "";
    let drivers: SqlDriver[] = [];
    beforeEach(() => {
      folder = mkdtempSync(join(tmpdir(), "greenroom-files-"));
      path = join(folder, "a.db");
      drivers = [];
    });
    afterEach(async () => {
      for (const driver of drivers) await driver.close().catch(() => {});
      rmSync(folder, { recursive: true, force: true });
    });
    const openDriver = (at = path): SqlDriver => {
      const driver = open(at);
      drivers.push(driver);
      return driver;
    };

    /** The files as a process leaves them that is killed now. */
    async function killServer(items: number): Promise<string> {
      const driver = openDriver();
      await driver.batch([table]);
      for (let n = 0; n < items; n += 1) await driver.batch([insertItem]);
      const files = ["", "-wal", ".mark"].map((end) => [path + end, readFileSync(path + end)] as const);
      await driver.close();
      drivers = [];
      // In place: the mark names the file's inode.
      for (const [file, bytes] of files) writeFileSync(file, bytes);
      // The log was written after the file.
      utimesSync(path, 1, 1);
      return `${path}-wal`;
    }

    for (const [what, change] of [
      ["deleted", () => rmSync(path)],
      [
        "replaced",
        () => {
          rmSync(path);
          writeFileSync(path, "");
        },
      ],
      ["moved away", () => renameSync(path, `${path}.old`)],
    ] as const) {
      it(`${what} under a running server: no later write is acknowledged, and writes fail until a restart`, async () => {
        const driver = openDriver();
        const storage = sqlStorage(driver);
        await storage.migrate();
        await storage.probe(1);
        change();
        for (let n = 0; n < 3; n += 1) {
          await assert.rejects(driver.batch([statement("select 1")]), DatabaseUnavailable);
          await assert.rejects(storage.probe(2), { code: "storage_unavailable" });
        }
        const [first, second] = await Promise.allSettled([driver.batch([insertItem]), driver.batch([insertItem])]);
        assert.deepEqual([first?.status, second?.status], ["rejected", "rejected"]);
      });
    }

    /** Writes until the log has been started anew and holds less than it once did. */
    async function restartLog(driver: SqlDriver): Promise<void> {
      for (let n = 0; n < 20; n += 1) await driver.batch([insertItem]);
      const checkpoint = new DatabaseSync(path);
      checkpoint.exec("pragma wal_checkpoint(passive)");
      for (let n = 0; n < 6; n += 1) await driver.batch([insertItem]);
      checkpoint.close();
    }

    const halve = (file: string): void => truncateSync(file, Math.floor(statSync(file).size / 2));

    for (const [which, prepare] of [
      ["that grows", async (driver) => driver.batch([insertItem])],
      ["that was started anew", restartLog],
    ] as readonly (readonly [string, (driver: SqlDriver) => Promise<unknown>])[]) {
      for (const [when, cut] of [
        [
          "between two commits",
          async (driver, next) => {
            halve(`${path}-wal`);
            await driver.batch([next]);
          },
        ],
        ["in the middle of a commit", async (driver, next) => driver.batch([next, statement("select 'cut now'")])],
      ] as readonly (readonly [string, (driver: SqlDriver, next: SqlStatement) => Promise<unknown>])[]) {
        for (const size of [10, 20_000, 400_000]) {
          it(`with a log ${which} cut ${when} of ${size} bytes: neither that write nor a later one is acknowledged`, async () => {
            const createCut = (file: string): SqliteConnection => {
              const database = new DatabaseSync(file);
              return {
                run({ sql, args }) {
                  if (sql.includes("cut now")) halve(`${path}-wal`);
                  return database.prepare(sql).all(...args) as SqlRow[];
                },
                inTransaction: () => database.isTransaction ?? false,
                close: () => database.close(),
              };
            };
            const driver = sqliteDriver(path, createCut, { timer: () => () => {} });
            drivers.push(driver);
            await driver.batch([table, ...Array.from({ length: 6 }, () => insertItem)]);
            await prepare(driver);
            const next = statement("insert into item (body) values (?)", "y".repeat(size));
            await assert.rejects(cut(driver, next), { name: "DatabaseUnavailable", lost: true });
            const storage = sqlStorage(driver);
            await assert.rejects(driver.batch([insertItem]), /is damaged: its file or its log was cut/);
            await assert.rejects(storage.probe(2), { code: "storage_unavailable", message: /restore a backup/ });
            await assert.rejects(storage.check?.() ?? Promise.resolve(), { code: "storage_unavailable" });
            await driver.close();
            assert.throws(() => openDriver(), /cut or overwritten while a process used it\. .*delete .*\.mark\.$/);
          });
        }
      }
    }

    for (const [what, damage] of [
      ["with its log cut", () => halve(`${path}-wal`)],
      ["with its log emptied", () => truncateSync(`${path}-wal`, 0)],
      [
        "with its log replaced",
        () => {
          renameSync(`${path}-wal`, `${path}-old`);
          cpSync(`${path}-old`, `${path}-wal`);
        },
      ],
      ["deleted", () => rmSync(path)],
    ] as const) {
      it(`${what} under a server that writes nothing: a check of the files finds it`, async () => {
        const driver = openDriver();
        await driver.batch([table, insertItem, insertItem]);
        await driver.batch([insertItem]);
        const storage = sqlStorage(driver);
        await storage.check?.();
        damage();
        await assert.rejects(storage.check?.() ?? Promise.resolve(), { code: "storage_unavailable" });
        await assert.rejects(driver.batch([insertItem]), DatabaseUnavailable);
      });
    }

    for (const [what, damage] of [
      ["overwritten", (file: string) => writeFileSync(file, new Uint8Array(100).fill(7), { flag: "r+" })],
      ["cut", (file: string) => truncateSync(file, 4096)],
    ] as const) {
      it(`whose database file is ${what} under a server: a check of the files finds it`, async () => {
        const driver = openDriver();
        await driver.batch([table, ...Array.from({ length: 9 }, () => insertItem)]);
        // All is in the file, and the log begins anew.
        const otherDatabase = new DatabaseSync(path);
        otherDatabase.exec("pragma wal_checkpoint(truncate)");
        otherDatabase.close();
        const storage = sqlStorage(driver);
        await storage.check?.();
        damage(path);
        await assert.rejects(storage.check?.() ?? Promise.resolve(), { code: "storage_unavailable" });
      });
    }

    it("shortened by other programs without a loss are no damage", async () => {
      const driver = openDriver();
      const storage = sqlStorage(driver);
      await driver.batch([table, ...Array.from({ length: 50 }, () => insertItem)]);
      const otherDatabase = new DatabaseSync(path);
      for (const work of [
        "pragma wal_checkpoint(truncate)",
        "delete from item",
        "vacuum",
        "pragma wal_checkpoint(restart)",
      ]) {
        otherDatabase.exec(work);
        await storage.check?.();
        await driver.batch([insertItem]);
        await storage.check?.();
        await driver.batch([insertItem, insertItem]);
      }
      otherDatabase.exec("pragma wal_checkpoint(truncate)");
      await storage.check?.();
      otherDatabase.close();
      assert.deepEqual(await driver.read(count), [{ n: 9 }]);
      await driver.close();
      assert.deepEqual(await openDriver().read(count), [{ n: 9 }]);
    });

    it("with an empty log: commits without changes are acknowledged", async () => {
      const first = openDriver();
      await first.batch([table]);
      await first.close();
      const driver = openDriver();
      await driver.batch([statement("update item set body = ''")]);
      const otherDatabase = new DatabaseSync(path);
      await driver.batch([insertItem]);
      otherDatabase.exec("pragma wal_checkpoint(truncate)");
      otherDatabase.close();
      await driver.batch([statement("delete from item where body = ''")]);
      await sqlStorage(driver).check?.();
    });

    it("are not read after damage", async () => {
      const driver = openDriver();
      await driver.batch([table, insertItem]);
      assert.deepEqual(await driver.read(count), [{ n: 1 }]);
      halve(`${path}-wal`);
      await assert.rejects(sqlStorage(driver).check?.() ?? Promise.resolve(), { code: "storage_unavailable" });
      await assert.rejects(driver.read(count), DatabaseUnavailable);
    });

    it("fail a read after a cut: the error names the files, and not the error of SQLite", async () => {
      const driver = openDriver();
      await driver.batch([table]);
      for (let n = 0; n < 20; n += 1) await driver.batch([insertItem]);
      truncateSync(`${path}-wal`, 4096);
      await assert.rejects(driver.read(statement("select sum(length(body)) as n from item")), DatabaseUnavailable);
    });

    it("whose marker cannot be written: a commit is acknowledged, once", async () => {
      const driver = openDriver();
      mkdirSync(`${path}.mark`);
      await driver.batch([table]);
      await Promise.all([driver.batch([insertItem]), driver.batch([insertItem]), driver.batch([insertItem])]);
      assert.deepEqual(await driver.read(count), [{ n: 3 }]);
      rmdirSync(`${path}.mark`);
    });

    it("with the log deleted under a server: no later write is acknowledged", async () => {
      const driver = openDriver();
      await driver.batch([table]);
      rmSync(`${path}-wal`);
      await assert.rejects(driver.batch([insertItem]), /was deleted or replaced while this process used it/);
    });

    it("of a killed process are whole: the next process continues", async () => {
      await killServer(5);
      assert.deepEqual(await openDriver().read(count), [{ n: 5 }]);
    });

    for (const [what, cut] of [
      ["cut in half", (log: string) => truncateSync(log, Math.floor(statSync(log).size / 2))],
      ["emptied", (log: string) => truncateSync(log, 0)],
      ["deleted", (log: string) => rmSync(log)],
    ] as const) {
      it(`with the log ${what} while the server was down: the start is refused, and deleting the marker allows it`, async () => {
        cut(await killServer(5));
        assert.throws(
          () => openDriver(),
          /it was not closed, and its log .*-wal (?:has \d+ of \d+ bytes|is missing)\. .*delete .*\.mark\.$/,
        );
        rmSync(`${path}.mark`);
        assert.ok(Number((await openDriver().read(statement("select count(*) as n from sqlite_schema")))[0]?.n) >= 0);
      });
    }

    it("checkpointed by another program: the server continues", async () => {
      rmSync(await killServer(5));
      utimesSync(path, Date.now() / 1000 + 10, Date.now() / 1000 + 10);
      await openDriver().read(statement("select 1"));
    });

    it("of a copy in their place are not compared with the marker", async () => {
      rmSync(await killServer(5));
      cpSync(path, `${path}.copy`);
      renameSync(`${path}.copy`, path);
      await openDriver().read(statement("select 1"));
    });

    it("leave no marker after a clean stop, but do while another process has them open", async () => {
      const [first, second] = [openDriver(), openDriver()];
      await first.batch([table]);
      await second.batch([insertItem]);
      await first.close();
      assert.ok(existsSync(`${path}.mark`));
      await second.close();
      assert.ok(!existsSync(`${path}.mark`));
    });
  });
}
