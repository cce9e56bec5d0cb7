/** A SQLite file: opening it, refusing what is damaged, and the lock that says which process executes. */
import { accessSync, constants, existsSync, mkdirSync, realpathSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type { SqlRow, SqlStatement } from "../sql/driver.ts";
import { requireCompleteLog } from "./file-watch.ts";

/** A synchronous connection to a SQLite database. */
export interface SqliteConnection {
  /** Runs one statement to its end; gives [] when it has no rows. */
  run(statement: SqlStatement): SqlRow[];
  inTransaction(): boolean;
  close(): void;
}

/** Returns true for SQLite's error that another connection holds the write lock. */
export function isLocked(error: unknown): boolean {
  // The text is the one thing that all SQLite packages agree on; codes differ and are missing in places.
  return error instanceof Error && error.message.includes("database is locked");
}

/** The time that a batch waits for the write lock of another connection before it fails. */
export const LOCK_WAIT_MS: number = 5_000;

/**
 * Creates the folder of a file, with those above it. Throws if the file exists and may not be read and written, because
 * SQLite would open it without an error.
 */
export function prepareFile(path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  if (existsSync(path)) accessSync(path, constants.R_OK | constants.W_OK);
}

/**
 * Opens and configures the database at `path`, and creates a new one. Waits, inside SQLite, for another process that opens it.
 * Throws an Error that names the path and the remedy when it cannot be used, also when it was lost or cut.
 */
export function openFile(
  path: string,
  connect: (path: string) => SqliteConnection,
  pragmas: readonly string[],
): SqliteConnection {
  if (path !== ":memory:") requireCompleteLog(path);
  let connection: SqliteConnection | undefined;
  const run = (sql: string): SqlRow | undefined => connection?.run({ sql, args: [] })[0];
  try {
    if (path !== ":memory:") requireFileNotLost(path);
    connection = connect(path);
    // Only opening may wait inside SQLite: another process may be creating or recovering the same file.
    run(`pragma busy_timeout = ${LOCK_WAIT_MS}`);
    run("select count(*) from sqlite_schema");
    const mode = run("pragma journal_mode = wal")?.journal_mode;
    if (mode !== "wal" && mode !== "memory") throw new Error(`journal_mode stays ${mode}`);
    for (const sql of pragmas) run(sql);
    const file = run(READ_FILE_SIZE);
    if (mode === "wal" && isTruncated(file) && isLogEmpty(run(MOVE_LOG))) requireCompleteFile(file);
    return connection;
  } catch (error) {
    connection?.close();
    throw unusableDatabaseError(path, error);
  }
}

/** Settings of every connection, whatever package it is of. */
export const SAFE_SETTINGS: readonly string[] = [
  "pragma synchronous = full",
  "pragma foreign_keys = on",
  "pragma trusted_schema = off",
  "pragma cell_size_check = on",
  "pragma journal_size_limit = 67108864",
];

/** Settings of the connections that this package opens. */
export const SETTINGS: readonly string[] = [
  ...SAFE_SETTINGS,
  // Undoing a batch of a group needs its pages as they were: kept in a file, they cost more than the batch.
  "pragma temp_store = memory",
  // Ids are random, so every batch touches pages all over the file.
  "pragma cache_size = -32768",
  // Commits checkpoint by themselves only when the log has grown this long, under a load that never pauses.
  "pragma wal_autocheckpoint = 16000",
];

/** The settings of the write connection. It does not wait for a lock inside SQLite, which would block its thread. */
export const WRITER_SETTINGS: readonly string[] = [...SETTINGS, "pragma busy_timeout = 0"];

/**
 * Refuses a database that was there and whose file is missing or empty: SQLite would delete its log, and start empty. Throws an
 * Error that names what is left of it.
 */
export function requireFileNotLost(path: string): void {
  const file = existsSync(path) ? realpathSync(path) : path;
  const log = `${file}-wal`;
  const lock = toLockPath(file);
  // These first: the first page of a new database is written before there is a log or a lock.
  const hasLog = getFileSize(log) > 0;
  const hasLock = existsSync(lock);
  // SQLite takes a file of one byte for an empty one.
  if (getFileSize(file) > 1) return;
  const fileExists = existsSync(file);
  if (hasLog) throw corruptFileError(`it is ${fileExists ? "empty" : "missing"}, but ${log} exists`);
  if (hasLock && fileExists) throw corruptFileError(`it is empty, but ${lock} exists`);
}

/** Reads the path of the file and its size according to SQLite. Its last pages may still be in the log. */
export const READ_FILE_SIZE =
  "select file, page_count * page_size as bytes, page_size from pragma_database_list, pragma_page_count, pragma_page_size where name = 'main'";

/** Moves the log of a process that was killed into the file. */
export const MOVE_LOG = "pragma wal_checkpoint(passive)";

/**
 * Returns true if the file is shorter than SQLite knows, or ends within a page, whose missing rest SQLite takes for
 * zeros. `file` is the row of `READ_FILE_SIZE`.
 */
export function isTruncated(file: SqlRow | undefined): boolean {
  const size = getFileSize(String(file?.file));
  return size < Number(file?.bytes) || size % Number(file?.page_size) > 0;
}

/** True when nothing is left in the log, as the answer to MOVE_LOG shows. Another process may be using it. */
export function isLogEmpty(checkpoint: SqlRow | undefined): boolean {
  return checkpoint?.busy === 0 && checkpoint.log === checkpoint.checkpointed;
}

/**
 * Throws if the file ends before the size that SQLite knows. `file` is the row of `READ_FILE_SIZE`, read before the log
 * was moved; the size of the file is read now.
 */
export function requireCompleteFile(file: SqlRow | undefined): void {
  if (isTruncated(file))
    throw corruptFileError(`it has ${getFileSize(String(file?.file))} bytes instead of ${file?.bytes}`);
}

/** Creates an error with SQLite's text for a damaged file, by which callers recognize it. */
function corruptFileError(problem: string): Error {
  return new Error(`database disk image is malformed: ${problem}`);
}

/** Creates the error of a database that cannot be used, with the problem and what to do about it. */
export function unusableDatabaseError(path: string, cause: unknown): Error {
  const problem = cause instanceof Error ? cause.message : String(cause);
  return new Error(`Cannot use the database ${path}: ${problem}. ${findRemedy(problem)}`, { cause });
}

/** Returns what to do about a problem of SQLite; the general advice for an unknown one. */
function findRemedy(problem: string): string {
  if (/not a database|malformed|disk image/.test(problem)) {
    return "The file is damaged or belongs to another program: restore it from a backup, or choose another path.";
  }
  if (/locked/.test(problem)) return "Another process keeps the file to itself: end it, or choose another path.";
  if (/journal_mode/.test(problem)) return "Its file system has no shared memory: put the file on a local disk.";
  if (/disk I\/O|full/.test(problem)) return "Make sure that its disk has room and can be read.";
  return "Make sure that the file and its folder exist and that this process may read and write both.";
}

function getFileSize(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** The file whose lock says which process executes what the database at `file` asks for. It is empty. */
export function toLockPath(file: string): string {
  return `${file}.worker`;
}

/**
 * Takes the worker lock of a database, and returns the connection that holds it until it is closed or the process ends,
 * however that happens. Returns undefined if another process holds it; does not wait. Throws if the file of the lock
 * cannot be used. A process that stands still keeps it.
 */
export function acquireWorkerLock(
  database: SqliteConnection,
  connect: (path: string) => SqliteConnection,
): SqliteConnection | undefined {
  const path = toLockPath(String(database.run({ sql: READ_FILE_SIZE, args: [] })[0]?.file));
  let connection: SqliteConnection | undefined;
  try {
    connection = connect(path);
    connection.run({ sql: "pragma busy_timeout = 0", args: [] });
    // SQLite takes the lock, for a transaction that writes nothing and never ends: it knows how on every system. A file lock
    // of our own would be lost as soon as anything in this process closed the same file.
    connection.run({ sql: TAKE_LOCK, args: [] });
    return connection;
  } catch (error) {
    connection?.close();
    if (isLocked(error)) return undefined;
    throw workerLockError(path, error);
  }
}

const TAKE_LOCK = "begin immediate";

/** Returns the error of a lock that cannot be taken or refused. */
export function workerLockError(path: string, cause: unknown): Error {
  const problem = cause instanceof Error ? cause.message : String(cause);
  return new Error(`Cannot lock ${path}: ${problem}. Make sure that it is an empty file that this process may write.`, {
    cause,
  });
}
