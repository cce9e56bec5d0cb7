/**
 * A driver on the host's Kysely instance, and a typed Kysely on Greenroom's tables for reports.
 * @module
 */
import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  Kysely,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from "kysely";
import type { SqlDriver, SqlRow, SqlStatement, SqlValue } from "../sql/driver.ts";
import type { Tables } from "../sql/schema/mod.ts";
import { isLocked, LOCK_WAIT_MS } from "../sqlite/file.ts";
import { getLockDelay, lockTimeoutError, systemTimer } from "../sqlite/writer.ts";

export type * from "../../lib/storage/types.ts";
export type { SqlDriver, SqlRow, SqlStatement, SqlValue } from "../sql/driver.ts";
export type { Tables } from "../sql/schema/mod.ts";

/** Options of `fromKysely`. */
export interface KyselyOptions {
  /** The database behind `db`; default "sqlite". */
  readonly dialect?: "sqlite" | "postgres";
  /** Calls `fn` once after `ms`; for simulations. */
  readonly timer?: (ms: number, fn: () => void) => () => void;
}

/**
 * A driver on the host's Kysely instance, for `sqlStorage(fromKysely(db))`. The host opens, configures and closes the
 * connection. On SQLite it must set `foreign_keys = on`, without which batches are refused. It should set `journal_mode = wal`
 * and `synchronous = full`, because these settings decide how durable a batch is. On SQLite, batches and reads run one at a
 * time.
 *
 * @example
 * ```ts
 * import { fromKysely } from "greenroom/kysely";
 * import { sqlStorage } from "greenroom/sql";
 * import type { Kysely } from "kysely";
 *
 * const storageIn = (db: Kysely<object>) => sqlStorage(fromKysely(db));
 * ```
 */
// biome-ignore lint/suspicious/noExplicitAny: the host's own tables do not matter here
export function fromKysely(db: Kysely<any>, options: KyselyOptions = {}): SqlDriver {
  const dialect = options.dialect ?? "sqlite";
  const timer = options.timer ?? systemTimer;
  const wait = (ms: number): Promise<void> => new Promise((resolve) => void timer(ms, resolve));
  let closed = false;
  let last: Promise<unknown> = Promise.resolve();

  /**
   * Runs the work and settles as it does. On Postgres callers run in parallel; on SQLite one after another, because its
   * dialects share one connection and not all of them guard it. Rejects once the driver is closed.
   */
  const serialize = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    if (closed) throw new Error("The driver is closed.");
    if (dialect === "postgres") return await work();
    const done = last.then(work);
    last = done.catch(() => {});
    return await done;
  };

  /** On SQLite, Kysely's own transactions begin deferred: of two that read first, one cannot write. */
  const BEGIN_SQL = dialect === "sqlite" ? "begin immediate" : "begin isolation level read committed";

  /** Runs the statements on one connection in a transaction and returns their rows. Rolls back and throws if one fails. */
  const runTransaction = (statements: readonly SqlStatement[]): Promise<SqlRow[][]> =>
    db.connection().execute(async (connection) => {
      if (dialect === "sqlite") await checkForeignKeys(connection);
      await connection.executeQuery(CompiledQuery.raw(BEGIN_SQL));
      try {
        const results: SqlRow[][] = [];
        for (const statement of statements) results.push(await run(connection, statement));
        await connection.executeQuery(CompiledQuery.raw("commit"));
        return results;
      } catch (error) {
        // After a full disk, SQLite has ended the transaction itself, and there is nothing to roll back.
        await connection.executeQuery(CompiledQuery.raw("rollback")).catch(() => {});
        throw error;
      }
    });

  /**
   * Runs the statements in a transaction and resolves with their rows. While an SQLite database is locked, tries again
   * for `LOCK_WAIT_MS` of waiting; then rejects. Other errors reject at once.
   */
  const batch = async (statements: readonly SqlStatement[]): Promise<SqlRow[][]> => {
    let waited_ms = 0;
    for (let tries = 0; ; tries += 1) {
      try {
        return await runTransaction(statements);
      } catch (error) {
        if (dialect !== "sqlite" || !isLocked(error)) throw error;
        if (waited_ms >= LOCK_WAIT_MS) throw lockTimeoutError("the database", error);
        waited_ms += getLockDelay(tries);
        await wait(getLockDelay(tries));
      }
    }
  };

  return {
    dialect,
    batch: (statements) => serialize(() => batch(statements)),
    read: (statement) => serialize(() => run(db, statement)),
    /**
     * Makes later calls reject. Resolves when the queued calls have settled, on Postgres at once. The host closes its
     * connection itself.
     */
    async close() {
      closed = true;
      await last;
    },
  };
}

/**
 * Creates a typed, read-only Kysely on the tables of the SQLite file at `path`, for reports on Bun. Needs the package
 * kysely-bun-sqlite. The first query opens the file, which must exist; `destroy()` closes it.
 *
 * @example
 * ```ts
 * import { bunKysely } from "greenroom/kysely";
 *
 * const storage = bunKysely("agents.db");
 * ```
 */
export function bunKysely(path: string): Kysely<Tables> {
  return new Kysely<Tables>({
    dialect: {
      createAdapter: () => new SqliteAdapter(),
      createDriver: () => createBunDriver(path),
      createIntrospector: (db) => new SqliteIntrospector(db),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    } satisfies Dialect,
  });
}

/**
 * Creates the driver of kysely-bun-sqlite, which the first query loads, because `fromKysely` must also load without
 * `bun:sqlite`. It reads only. Before `init`, only `destroy` may be called, and does nothing.
 */
function createBunDriver(path: string): Driver {
  let driver: Driver;
  return {
    /** Opens the file for reading; it must exist. Imports the packages, and rejects without them. */
    async init() {
      const [{ Database }, { BunSqliteDialect }] = await Promise.all([
        import("bun:sqlite"),
        import("kysely-bun-sqlite"),
      ]);
      // Not read-only: if no other process has the log open, a reader must be able to recover it.
      const database = new Database(path, { readwrite: true, create: false });
      database.run("pragma busy_timeout = 5000");
      database.run("pragma query_only = on");
      driver = new BunSqliteDialect({ database }).createDriver();
      await driver.init();
    },
    acquireConnection: () => driver.acquireConnection(),
    beginTransaction: (connection, settings) => driver.beginTransaction(connection, settings),
    commitTransaction: (connection) => driver.commitTransaction(connection),
    rollbackTransaction: (connection) => driver.rollbackTransaction(connection),
    releaseConnection: (connection: DatabaseConnection) => driver.releaseConnection(connection),
    async destroy() {
      await driver?.destroy();
    },
  };
}

/**
 * Rejects if the connection does not enforce foreign keys, which SQLite ignores by default. The deletion of a thread or
 * an assistant deletes its rows by them.
 */
// biome-ignore lint/suspicious/noExplicitAny: as above
async function checkForeignKeys(db: Kysely<any>): Promise<void> {
  const [row] = await run(db, { sql: "pragma foreign_keys", args: [] });
  if (row?.foreign_keys !== 1) {
    throw new Error(
      "The kysely instance does not enforce foreign keys: run `pragma foreign_keys = on` on its connection.",
    );
  }
}

// Plugins of the host would rename Greenroom's columns.
// biome-ignore lint/suspicious/noExplicitAny: as above
async function run(db: Kysely<any>, { sql, args }: SqlStatement): Promise<SqlRow[]> {
  const { rows } = await db.withoutPlugins().executeQuery<Record<string, unknown>>(CompiledQuery.raw(sql, [...args]));
  return rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, toSqlValue(value)])));
}

/**
 * Converts what dialects return for blobs and large integers: an ArrayBuffer to a Uint8Array and a bigint to a number,
 * which may lose digits. Returns other values as they are, without a check.
 */
function toSqlValue(value: unknown): SqlValue {
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (typeof value === "bigint") return Number(value);
  return value as SqlValue;
}
