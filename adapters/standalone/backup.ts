/** `greenroom backup FILE`: a copy of the SQLite file, made while a server may be running on it. */
import { randomUUID } from "node:crypto";
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import process from "node:process";
import type { DatabaseSync } from "node:sqlite";
import { ConfigError } from "../../lib/mod.ts";
import { readArguments } from "./arguments.ts";
import { type OptionValue, readDatabaseOptions } from "./command-options.ts";

/** The result of a backup. */
export interface Backup {
  readonly file: string;
  readonly bytes: number;
  readonly schema_version: number;
}

export interface BackupIo {
  /** Take one line each. Default: standard output and standard error. */
  readonly out?: (line: string) => void;
  readonly err?: (line: string) => void;
  /** The environment variables that may name the database. Default: those of the process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** The usage text of the command. */
export const backupUsage = `greenroom backup FILE
    copy the SQLite database to FILE, also while a server uses it; FILE must not exist

The command also accepts --json, --config FILE, --database FILE and --help.`;

/** The time that another process may lock the source while it creates or recovers it. */
const BUSY_TIMEOUT_MS = 5_000;

/**
 * Copies the database to the file that `args` name, and prints its size and schema version, or its usage with `--help`.
 * Resolves with the exit code: 1 if anything was wrong, with a message; no new file is left then.
 */
export async function runBackup(args: readonly string[], io: BackupIo = {}): Promise<number> {
  const { out = console.log, err = console.error, env = process.env } = io;
  try {
    const { input, json, help } = readArguments(args, { positionals: ["FILE"] });
    if (help) {
      out(backupUsage);
      return 0;
    }
    const file = input.positional("FILE");
    const backup = await copyDatabase(toSqliteFile((await readDatabaseOptions(args, env)).database), file);
    const { bytes, schema_version } = backup;
    out(json ? JSON.stringify(backup, null, 2) : `${file}: ${bytes} bytes, schema version ${schema_version}, whole`);
    return 0;
  } catch (error) {
    err(`greenroom: ${error instanceof ConfigError ? error.message : ((error as Error).stack ?? String(error))}`);
    return 1;
  }
}

/**
 * Copies what is committed in a SQLite file at one moment to a new file, checks the copy, and resolves once it is on
 * disk. The target does not exist if this rejects or the process dies. Servers may read and write meanwhile. Rejects
 * with a ConfigError, also if the target exists.
 */
async function copyDatabase({ value: sourceFile, setting }: OptionValue, targetFile: string): Promise<Backup> {
  const databaseName = `${setting}: ${sourceFile}`;
  if (!existsSync(sourceFile)) throw new ConfigError([`${setting}: there is no file ${sourceFile}`]);
  if (existsSync(targetFile)) throw fileExistsError(targetFile);
  const { DatabaseSync } = await importSqlite();
  const partialFile = join(dirname(targetFile), `.${basename(targetFile)}.${randomUUID().slice(0, 8)}.part`);
  try {
    // SQLite fills an existing empty file. This one is not readable by other users.
    closeSync(openSync(partialFile, "wx", 0o600));
  } catch (error) {
    throw new ConfigError([`FILE: ${targetFile} cannot be written (${(error as Error).message})`]);
  }
  try {
    withDatabase(new DatabaseSync(sourceFile, { readOnly: true }), (source) => {
      source.exec(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`);
      readSchemaVersion(source, databaseName);
      source.prepare("vacuum into ?").run(partialFile);
    });
    const schema_version = withDatabase(new DatabaseSync(partialFile, { readOnly: true }), (copy) => {
      const [integrity] = copy.prepare("pragma integrity_check(1)").all() as { integrity_check?: string }[];
      if (integrity?.integrity_check !== "ok")
        throw new Error(`database disk image is malformed: ${integrity?.integrity_check}`);
      return readSchemaVersion(copy, databaseName);
    });
    chmodSync(partialFile, statSync(sourceFile).mode & 0o777);
    syncToDisk(partialFile, constants.O_RDWR);
    linkIntoPlace(partialFile, targetFile);
    // The name is on the disk as well.
    syncToDisk(dirname(targetFile), constants.O_RDONLY);
    return { file: targetFile, bytes: statSync(targetFile).size, schema_version };
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError([
      `${databaseName} cannot be copied to ${targetFile}: ${(error as Error).message}${suggestRemedy(error)}`,
    ]);
  } finally {
    for (const suffix of ["", "-journal", "-wal", "-shm"]) rmSync(`${partialFile}${suffix}`, { force: true });
  }
}

const fileExistsError = (targetFile: string): ConfigError =>
  new ConfigError([`FILE: ${targetFile} exists. A backup never replaces a file`]);

/** Returns what to do about an error of SQLite, as the end of a sentence; empty for an unknown one. */
function suggestRemedy(error: unknown): string {
  const { message } = error as Error;
  if (/not a database|malformed/.test(message)) return ". It is damaged, or belongs to another program";
  if (/full|disk I\/O/.test(message)) return ". Make sure that the disk has room";
  if (/unable to open/.test(message))
    return ". Make sure that this user may read it, and write to its folder if no server runs";
  return "";
}

/** Returns the result of the work, and closes the database also if it throws. */
function withDatabase<Result>(database: DatabaseSync, work: (database: DatabaseSync) => Result): Result {
  try {
    return work(database);
  } finally {
    database.close();
  }
}

/**
 * Returns the schema version of a database. Throws a ConfigError for a database that Greenroom has not made, because
 * then the wrong file was named.
 */
function readSchemaVersion(database: DatabaseSync, databaseName: string): number {
  const hasTable = (table: string): boolean =>
    database.prepare("select 1 from sqlite_schema where type = 'table' and name = ?").get(table) !== undefined;
  if (!hasTable("greenroom_versions")) throw new ConfigError([`${databaseName} is no database of Greenroom`]);
  return Number(database.prepare("select max(version) as version from greenroom_versions").get()?.version);
}

/** Waits until the file or folder is on disk. */
function syncToDisk(path: string, flags: number): void {
  const fd = openSync(path, flags);
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/**
 * Gives the file its name. Throws a ConfigError if the name was taken meanwhile, which a link refuses. On a file system
 * without links it renames the file.
 */
function linkIntoPlace(partialFile: string, targetFile: string): void {
  try {
    linkSync(partialFile, targetFile);
  } catch (error) {
    if ((error as { code?: unknown }).code === "EEXIST" || existsSync(targetFile)) throw fileExistsError(targetFile);
    // A file system without links.
    renameSync(partialFile, targetFile);
  }
}

/** Loads `node:sqlite`. Throws ConfigError with the runtimes that have it. */
async function importSqlite(): Promise<typeof import("node:sqlite")> {
  return await import("node:sqlite").catch(() => {
    throw new ConfigError([
      `This runtime has no SQLite: use Node 22.13 or newer, or Bun (bunx --bun greenroom backup)`,
    ]);
  });
}

/**
 * Returns the file of a database that is a path or a `file:` URL, without the query. Throws a ConfigError for a
 * database in memory and for other URLs.
 */
function toSqliteFile({ value, setting }: OptionValue): OptionValue {
  if (value === ":memory:") throw new ConfigError([`${setting}: what is in memory alone cannot be copied`]);
  const [, scheme = "", path = ""] = /^([a-z][a-z0-9+.-]+):(.*)$/is.exec(value) ?? [];
  if (scheme === "") return { value, setting };
  if (/^file$/i.test(scheme)) {
    return { value: decodeURI(path.replace(/^\/\/(?=\/)/, "").replace(/[?#].*$/s, "")), setting };
  }
  const tool = /^postgres/i.test(scheme) ? "pg_dump" : "what its server offers";
  throw new ConfigError([`${setting}: only SQLite files are copied; for ${scheme}: databases use ${tool}`]);
}
