/** Files of a database that vanish under a server, and logs that are cut while it is down. */
import assert from "node:assert/strict";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import {
  DatabaseUnavailable,
  type SqlDriver,
  type SqlStatement,
  type SqlValue,
  sqlStorage,
} from "../../adapters/sql/mod.ts";
import { nodeSqliteDriver } from "../../adapters/sqlite/node.ts";

type Open = (path: string) => SqlDriver;
const openers: Record<string, Open> = { "node:sqlite": (path) => nodeSqliteDriver(path, { timer: () => () => {} }) };
if ("Bun" in globalThis) {
  const { bunSqliteDriver } = await import("../../adapters/sqlite/bun.ts");
  openers["bun:sqlite"] = (path) => bunSqliteDriver(path, { timer: () => () => {} });
}

const statement = (sql: string, ...args: SqlValue[]): SqlStatement => ({ sql, args });
const table = statement("create table item (body text)");
const item = statement("insert into item (body) values (?)", "x".repeat(20_000));
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
    const opened = (at = path): SqlDriver => {
      const driver = open(at);
      drivers.push(driver);
      return driver;
    };

    /** The files as a process leaves them that is killed now. */
    async function killed(items: number): Promise<string> {
      const driver = opened();
      await driver.batch([table]);
      for (let n = 0; n < items; n += 1) await driver.batch([item]);
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
      it(`${what} under a server: nothing more is acknowledged, and writes fail for good`, async () => {
        const driver = opened();
        const storage = sqlStorage(driver);
        await storage.migrate();
        await storage.probe(1);
        change();
        for (let n = 0; n < 3; n += 1) {
          await assert.rejects(driver.batch([statement("select 1")]), DatabaseUnavailable);
          await assert.rejects(storage.probe(2), { code: "storage_unavailable" });
        }
        const [one, two] = await Promise.allSettled([driver.batch([item]), driver.batch([item])]);
        assert.deepEqual([one?.status, two?.status], ["rejected", "rejected"]);
      });
    }

    it("with the log deleted under a server: nothing more is acknowledged", async () => {
      const driver = opened();
      await driver.batch([table]);
      rmSync(`${path}-wal`);
      await assert.rejects(driver.batch([item]), /was deleted or replaced while this process used it/);
    });

    it("of a killed process are whole: it goes on", async () => {
      await killed(5);
      assert.deepEqual(await opened().read(count), [{ n: 5 }]);
    });

    for (const [what, cut] of [
      ["cut in half", (log: string) => truncateSync(log, Math.floor(statSync(log).size / 2))],
      ["emptied", (log: string) => truncateSync(log, 0)],
      ["deleted", (log: string) => rmSync(log)],
    ] as const) {
      it(`with the log ${what} while it was down: the start is refused, and deleting the mark allows it`, async () => {
        cut(await killed(5));
        assert.throws(
          () => opened(),
          /it was not closed, and its log .*-wal (?:has \d+ of \d+ bytes|is missing)\. .*delete .*\.mark\.$/,
        );
        rmSync(`${path}.mark`);
        assert.ok(Number((await opened().read(statement("select count(*) as n from sqlite_schema")))[0]?.n) >= 0);
      });
    }

    it("moved into the file by another program: it goes on", async () => {
      rmSync(await killed(5));
      utimesSync(path, Date.now() / 1000 + 10, Date.now() / 1000 + 10);
      await opened().read(statement("select 1"));
    });

    it("of a copy in their place are not held against the mark", async () => {
      rmSync(await killed(5));
      cpSync(path, `${path}.copy`);
      renameSync(`${path}.copy`, path);
      await opened().read(statement("select 1"));
    });

    it("leave no mark after a clean stop, but while another process has them open", async () => {
      const [one, two] = [opened(), opened()];
      await one.batch([table]);
      await two.batch([item]);
      await one.close();
      assert.ok(existsSync(`${path}.mark`));
      await two.close();
      assert.ok(!existsSync(`${path}.mark`));
    });
  });
}
