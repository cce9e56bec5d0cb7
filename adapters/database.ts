/** Opens the database that a URL or a path names, with the driver for it. Only that driver is loaded. */
import { ConfigError } from "../lib/mod.ts";
import type { Storage } from "../lib/storage/types.ts";
import type { SqlDriver } from "./sql/driver.ts";
import type { SqliteOptions, SqliteWriter } from "./sqlite/writer.ts";

export type { SqliteWriter } from "./sqlite/writer.ts";

/** A database by its URL, with what does not belong into the URL. */
export interface DatabaseOptions {
  /** A SQLite file, `:memory:`, a libSQL URL (`file:`, `libsql:`, `https:`, `http:`, `wss:`, `ws:`) or a `postgres:` URL. */
  readonly url: string;
  /** The token of a libSQL server. */
  readonly auth_token?: string;
  /** The Postgres database without a pooler in front, for the one session that listens to signals. Default: `url`. */
  readonly direct_url?: string;
  /** The thread that commits to a SQLite file: `auto`, `inline` or `thread`. See `SqliteOptions.writer`. */
  readonly writer?: SqliteWriter;
}

/** The names of the options in errors. */
export type DatabaseNames = Readonly<Record<keyof DatabaseOptions, string>>;

/** True for URLs that `@libsql/client` opens. */
export const isLibsql = (url: string): boolean => /^(?:file|libsql|https?|wss?):/i.test(url);

/** True for URLs that `pg` opens. */
export const isPostgres = (url: string): boolean => /^postgres(?:ql)?:/i.test(url);

/** Returns a problem for a URL whose scheme has no driver, or undefined. */
export function findUrlProblem(url: string): string | undefined {
  const scheme = /^([a-z][a-z0-9+.-]+):/i.exec(url)?.[1];
  if (!scheme || isLibsql(url) || isPostgres(url)) return undefined;
  return `no driver for ${scheme}: databases. Use a file path, :memory:, a libSQL or a postgres: URL`;
}

/**
 * Opens the database, migrates it and resolves with the storage. Closes it if that fails. Rejects with a ConfigError,
 * under the names of the caller, for what the user can correct: all that fails while it opens; later errors are passed
 * on.
 */
export async function openDatabase(options: DatabaseOptions, names: DatabaseNames): Promise<Storage> {
  /** Returns the message with the caller's names in place of the options that drivers name. */
  const withOptionNames = (message: string): string =>
    message
      .replace(/^postgres: direct_url:/, `${names.direct_url}:`)
      .replace(/^postgres: url:|^libSQL: url\b/, `${names.url}:`)
      .replace(/^sqlite: writer:/, `${names.writer}:`)
      .replace(/^libSQL: authToken/, `${names.auth_token}:`)
      .replace(/: check url\.$/, ": check the address and that the server runs.")
      .replace(/\bauthToken\b/, names.auth_token);
  let driver: SqlDriver | undefined;
  let opened = false;
  try {
    driver = await openDriver(options, names.url);
    await driver.read({ sql: "select 1", args: [] });
    opened = true;
    const storage = (await import("./sql/mod.ts")).sqlStorage(driver);
    await storage.migrate();
    return storage;
  } catch (error) {
    await driver?.close().catch(() => {});
    if (error instanceof ConfigError) throw new ConfigError(error.problems.map(withOptionNames));
    // The user can correct what fails while opening. Later errors are faults and keep their stack.
    throw opened ? error : new ConfigError([`${names.url}: ${withOptionNames((error as Error).message)}`]);
  }
}

/**
 * Creates the driver that the URL names; every other text is the path of a SQLite file. Imports its module, so it
 * rejects if that is missing. Options of other drivers are ignored.
 */
async function openDriver(options: DatabaseOptions, name: string): Promise<SqlDriver> {
  const { url, auth_token, direct_url, writer } = options;
  if (isLibsql(url)) {
    const { libsqlDriver } = await import("./libsql/mod.ts");
    return libsqlDriver({ url, ...(auth_token ? { authToken: auth_token } : {}) });
  }
  if (isPostgres(url)) {
    const { postgresDriver } = await import("./postgres/mod.ts");
    return postgresDriver({ url, ...(direct_url ? { direct_url } : {}) });
  }
  return (await sqliteDriver(name))(url, writer === undefined ? {} : { writer });
}

/**
 * Resolves with the SQLite driver of this runtime: `bun:sqlite` on Bun, `node:sqlite` on Node and Deno. Rejects with a
 * ConfigError that begins with `name` on a Node without SQLite.
 */
export async function sqliteDriver(name: string): Promise<(path: string, options?: SqliteOptions) => SqlDriver> {
  if ("Bun" in globalThis) return (await import("./sqlite/bun.ts")).bunSqliteDriver;
  const { nodeSqliteDriver } = await import("./sqlite/node.ts").catch((error: unknown) => {
    if ((error as { code?: unknown }).code !== "ERR_UNKNOWN_BUILTIN_MODULE") throw error;
    throw new ConfigError([`${name}: this Node has no SQLite. Use Node 22.13 or newer, Bun or Deno`]);
  });
  return nodeSqliteDriver;
}
