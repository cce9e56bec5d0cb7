import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { CamelCasePlugin, Kysely, SqliteDialect } from "kysely";
import { fromKysely } from "../../../adapters/kysely/mod.ts";
import type { SqlDriver, SqlRow, SqlValue } from "../../../adapters/sql/driver.ts";
import { createStatementCache } from "../../../adapters/sqlite/statement-cache.ts";
import type { SqliteOptions } from "../../../adapters/sqlite/writer.ts";
import { until } from "../../support/until.ts";
import { createSqliteOpeners } from "../sqlite/threaded-drivers.ts";
import {
  allItems,
  type Subject as DriverSubject,
  insert,
  type OtherConnection,
  readIds,
  registerDriverSuite,
  table,
  toStatement,
} from "./driver-suite.ts";
import { nodeSqliteShim } from "./kysely-shim.ts";

const onBun = "Bun" in globalThis;

interface Subject {
  readonly name: string;
  open(path: string, options?: SqliteOptions): SqlDriver | Promise<SqlDriver>;
}

/** Drivers that open and configure the file themselves. */
const embedded: Subject[] = Object.entries(await createSqliteOpeners()).map(([name, open]) => ({ name, open }));
const hosted: Subject[] = [
  {
    name: "kysely on its SqliteDialect",
    open: (path, options) =>
      hostOwned(
        new Kysely({
          dialect: new SqliteDialect({ database: nodeSqliteShim(new DatabaseSync(path)) }),
          plugins: [new CamelCasePlugin()],
        }),
        options,
      ),
  },
];
if (onBun) {
  const [{ Database }, { BunSqliteDialect }] = await Promise.all([import("bun:sqlite"), import("kysely-bun-sqlite")]);
  hosted.push({
    name: "kysely on kysely-bun-sqlite",

    open(path, options) {
      const database = new Database(path);
      database.run("pragma foreign_keys = on");
      return hostOwned(new Kysely({ dialect: new BunSqliteDialect({ database }) }), options);
    },
  });
}

/** As a host does it: the instance is closed after the driver. */
// biome-ignore lint/suspicious/noExplicitAny: any host's tables
function hostOwned(db: Kysely<any>, options?: SqliteOptions): SqlDriver {
  const driver = fromKysely(db, { timer: options?.timer });
  return {
    ...driver,
    async close() {
      await driver.close();
      await db.destroy();
    },
  };
}

async function createRival(path: string): Promise<OtherConnection> {
  const database = new DatabaseSync(path);
  database.exec("begin immediate");
  database.exec("insert into item (item_id) values (1)");
  return {
    async end(how) {
      database.exec(how);
      database.close();
    },
  };
}

/** Runs `test` on a fresh file with the table `item`, and clears up. */
async function withFile(
  subject: Subject,
  test: (driver: SqlDriver, path: string) => Promise<void>,
  options?: SqliteOptions,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "greenroom-driver-"));
  const path = join(folder, "a.db");
  try {
    const driver = await subject.open(path, options);
    try {
      await driver.batch([table]);
      await test(driver, path);
    } finally {
      await driver.close();
    }
  } finally {
    await rm(folder, { recursive: true });
  }
}

for (const subject of [...embedded, ...hosted]) {
  describe(`${subject.name}: any driver`, () => {
    const isEmbedded = embedded.includes(subject);
    const use: DriverSubject["use"] = (test, options) =>
      withFile(subject, (driver, path) => test(driver, () => createRival(path)), options);
    registerDriverSuite({ use, binds: isEmbedded, file: true, exclusive: isEmbedded });
  });
}

for (const subject of embedded) {
  describe(`${subject.name}: embedded driver`, () => {
    it("commits the batches of one tick together, 64 at most", async () => {
      const gate = holdableDefer();
      await withFile(
        subject,
        async (driver) => {
          gate.held = true;
          const answered: number[] = [];
          const batches = Array.from({ length: 65 }, (_, i) =>
            driver.batch([insert(i)]).then(() => void answered.push(i)),
          );
          await gate.next();
          await Promise.all(batches.slice(0, 64));
          assert.equal(answered.length, 64);
          assert.equal((await driver.read(allItems)).length, 64);
          await gate.next();
          await Promise.all(batches);
          gate.held = false;
        },
        { defer: gate.defer },
      );
    });

    it("keeps a group of batches below four megabytes", async () => {
      const gate = holdableDefer();
      await withFile(
        subject,
        async (driver) => {
          gate.held = true;
          const big = new Uint8Array(3 * 1024 * 1024);
          const batches = [driver.batch([insert(1, big)]), driver.batch([insert(2, big)])];
          // Its commit, and then its answer: what follows from a large write gets a tick of its own.
          await gate.next();
          await gate.next();
          await batches[0];
          assert.deepEqual(readIds(await driver.read(allItems)), [1]);
          await gate.next();
          await gate.next();
          await Promise.all(batches);
          gate.held = false;
        },
        { defer: gate.defer },
      );
    });

    it("sets the promised durability on every connection", () =>
      withFile(subject, async (driver) => {
        const readPragma = async (name: string): Promise<[SqlValue, SqlValue]> => {
          const read = await driver.read(toStatement(`pragma ${name}`));
          const [written] = await driver.batch([toStatement(`pragma ${name}`)]);
          return [
            Object.values(read[0] as SqlRow)[0] as SqlValue,
            Object.values(written?.[0] as SqlRow)[0] as SqlValue,
          ];
        };
        assert.deepEqual(await readPragma("journal_mode"), ["wal", "wal"]);
        assert.deepEqual(await readPragma("synchronous"), [2, 2]);
        assert.deepEqual(await readPragma("foreign_keys"), [1, 1]);
        assert.deepEqual(await readPragma("trusted_schema"), [0, 0]);
        assert.deepEqual(await readPragma("journal_size_limit"), [67108864, 67108864]);
        assert.equal((await readPragma("busy_timeout"))[1], 0);
      }));

    it("rejects writes outside a batch", () =>
      withFile(subject, async (driver) => {
        await assert.rejects(driver.read(insert(1)), /readonly/);
      }));

    it("checkpoints the log into the database when it is idle", async () => {
      const timers: (() => void)[] = [];
      await withFile(
        subject,
        async (driver, path) => {
          await driver.batch([insert(1)]);
          await driver.batch([insert(2)]);
          const withoutLog = async (): Promise<number> => {
            await copyFile(path, `${path}.copy`);
            const copy = new DatabaseSync(`${path}.copy`);
            const total = copy.prepare("select count(*) as total from sqlite_schema").get()?.total;
            const items = total === 0 ? 0 : copy.prepare("select count(*) as total from item").get()?.total;
            copy.close();
            return Number(items);
          };
          assert.equal(await withoutLog(), 0);
          assert.equal(timers.length, 1);
          timers.shift()?.();
          // A copy of a file that is being written may be malformed.
          await until(async () => (await withoutLog().catch(() => 0)) === 2);
          assert.equal(timers.length, 0);
          await driver.batch([insert(3)]);
          assert.equal(timers.length, 1);
        },
        {
          timer(_ms, fn) {
            timers.push(fn);
            return () => {};
          },
        },
      );
    });

    it("answers waiting batches before it closes", () =>
      withFile(subject, async (driver, path) => {
        void driver.batch([insert(1)]);
        await driver.close();
        const otherDatabase = new DatabaseSync(path);
        assert.equal(otherDatabase.prepare("select count(*) as total from item").get()?.total, 1);
        otherDatabase.close();
      }));

    it("leaves one complete file when it closes", async () => {
      await withFile(subject, async (driver, path) => {
        await driver.batch([insert(1)]);
        assert.ok(existsSync(`${path}-wal`));
        await driver.close();
        assert.ok(!existsSync(`${path}-wal`));
        await driver.close();
      });
    });

    it("opens the first database of a folder, and the same one again", async () => {
      const folder = await mkdtemp(join(tmpdir(), "greenroom-driver-"));
      try {
        const path = join(folder, "deep", "er", "a.db");
        const first = await subject.open(path);
        await first.batch([toStatement("create table item (item_id)"), toStatement("insert into item values (1)")]);
        await first.close();
        const second = await subject.open(path);
        assert.deepEqual(await second.read(allItems), [{ item_id: 1 }]);
        await second.close();
      } finally {
        await rm(folder, { recursive: true });
      }
    });

    it("keeps a :memory: database to itself", async () => {
      const [first, second] = [await subject.open(":memory:"), await subject.open(":memory:")];
      await first.batch([toStatement("create table item (item_id)"), toStatement("insert into item values (1)")]);
      assert.deepEqual(await first.read(allItems), [{ item_id: 1 }]);
      await assert.rejects(second.read(allItems), /no such table/);
      await first.close();
      await second.close();
    });

    it("rejects a file that is no database, and names it", async () => {
      const folder = await mkdtemp(join(tmpdir(), "greenroom-driver-"));
      try {
        const foreign = join(folder, "notes.txt");
        await writeFile(foreign, "not a database ".repeat(500));
        const damaged = join(folder, "damaged.db");
        const database = new DatabaseSync(damaged);
        database.exec("create table item (item_id)");
        database.close();
        const bytes = await readFile(damaged);
        await writeFile(damaged, bytes.fill(0xaa, 100, 4096));
        for (const path of [foreign, damaged]) {
          await assert.rejects(
            async () => await subject.open(path),
            (error: Error) => error.message.includes(path) && /damaged/.test(error.message),
          );
        }
        await mkdir(join(folder, "folder.db"));
        await assert.rejects(
          async () => await subject.open(join(folder, "folder.db")),
          (error: Error) => error.message.includes("folder.db") && /read and write/.test(error.message),
        );
      } finally {
        await rm(folder, { recursive: true });
      }
    });
  });
}

/** A `defer` that works by itself until it is held; from then on the test calls what was deferred. */
function holdableDefer(): {
  held: boolean;
  readonly deferred: (() => void)[];
  readonly defer: (fn: () => void) => void;
  /** Waits for a deferred function and runs it. */
  next(): Promise<void>;
} {
  const gate = {
    held: false,
    deferred: [] as (() => void)[],
    defer(fn: () => void): void {
      if (gate.held) gate.deferred.push(fn);
      else setTimeout(fn, 0);
    },
    async next(): Promise<void> {
      await until(() => gate.deferred.length > 0);
      gate.deferred.shift()?.();
    },
  };
  return gate;
}

describe("fromKysely", () => {
  it("rejects a connection that does not enforce foreign keys", async () => {
    const database = nodeSqliteShim(new DatabaseSync(":memory:", { enableForeignKeyConstraints: false }));
    const driver = hostOwned(new Kysely({ dialect: new SqliteDialect({ database }) }));
    await assert.rejects(driver.batch([toStatement("create table item (item_id)")]), /pragma foreign_keys = on/);
    assert.deepEqual(await driver.read(toStatement("select name from sqlite_schema")), []);
    await driver.close();
  });
});

describe("createStatementCache", () => {
  it("prepares a text once and evicts the least recently used one", () => {
    const events: string[] = [];
    const cache = createStatementCache<string>(
      (sql) => {
        events.push(`+${sql}`);
        return sql;
      },
      (sql) => void events.push(`-${sql}`),
      2,
    );
    for (const sql of ["a", "b", "a", "c", "a", "b"]) assert.equal(cache.get(sql), sql);
    assert.deepEqual(events, ["+a", "+b", "+c", "-b", "+b", "-c"]);
    cache.clear();
    assert.deepEqual(events.slice(6).sort(), ["-a", "-b"]);
  });
});

if (onBun) {
  describe("bunKysely", () => {
    it("reports over the file and cannot write", async () => {
      const { bunKysely } = await import("../../../adapters/kysely/mod.ts");
      await withFile(embedded[0] as Subject, async (driver, path) => {
        await driver.batch([insert(1, "one")]);
        // biome-ignore lint/suspicious/noExplicitAny: a table of this test
        const db = bunKysely(path) as Kysely<any>;
        assert.deepEqual(await db.selectFrom("item").selectAll().execute(), [{ item_id: 1, body: "one" }]);
        await assert.rejects(db.insertInto("item").values({ item_id: 2 }).execute(), /readonly/);
        await db.destroy();
      });
    });
  });
}
