/**
 * Watches the files of an open SQLite database: what is committed to files that were deleted, replaced or cut is not acknowledged,
 * and a log that was cut while no process had it open is found at the next start.
 */
import {
  closeSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  readSync,
  realpathSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { DatabaseUnavailable } from "../sql/driver.ts";
import { isDamageError, isUnwritableError } from "../sql/errors.ts";

/** A lower bound of the write-ahead log after a commit. It is not flushed, because the log already was. */
interface WalSnapshot {
  /** The database file it was made for: a restored copy is another one. */
  readonly inode: string;
  /** Chosen anew by SQLite whenever it starts the log from its beginning. */
  readonly salts: string;
  readonly bytes: number;
  /** A process found the files damaged while it used them. */
  readonly damaged?: true;
}

/** A log begins with a header: its number, the page size in bytes 8 to 11, its salts in bytes 16 to 23. */
const HEADER_BYTES = 32;
const LOG_MAGIC_NUMBER = 0x377f0682;
/** Each frame is a header, with the log's salts in bytes 8 to 15, and a page. */
const FRAME_HEADER_BYTES = 24;

const toSnapshotPath = (file: string): string => `${file}.mark`;

/** The checks of `FileWatch` that need SQLite. Both return without a result while another process has a lock. */
export interface WatchedDatabase {
  /** Moves the log into the file. Throws where the log, or then the file, lacks what SQLite has written. */
  moveLog(): void;
  /** Reads the first page on a new connection, which has nothing in memory. */
  readHeader(file: string): void;
}

export class FileWatch {
  readonly #path: string;
  readonly #file: string;
  readonly #inode: string;
  readonly #database: WatchedDatabase;
  readonly #header = new Uint8Array(HEADER_BYTES);
  readonly #fields = new DataView(this.#header.buffer);
  #logDescriptor: number | undefined;
  #snapshotDescriptor: number | undefined;
  #writtenText = "";
  // The log as the last commit left it.
  #salts = 0n;
  #logBytes = 0;
  #frameBytes = 0;
  #snapshotStart: string;
  #fileBytes = 0;
  #lostError: DatabaseUnavailable | undefined;
  /** The files were moved or deleted, and not damaged: files that were moved may come back. */
  #areMissing = false;
  #isDamaged = false;

  /** `path` was opened: its file exists. */
  constructor(path: string, database: WatchedDatabase) {
    this.#path = path;
    this.#file = realpathSync(path);
    this.#inode = readFileId(this.#file) ?? "";
    this.#database = database;
    this.#snapshotStart = `{"inode":"${this.#inode}",`;
    // What a killed process has left in the log counts as well.
    this.#logDescriptor = openLog(`${this.#file}-wal`);
    const salts = this.#logDescriptor === undefined ? null : this.#readHeader();
    if (salts !== null) this.#setLog(salts, fstatSync(this.#logDescriptor as number).size);
  }

  /**
   * Call this before SQLite writes. Throws the error of an earlier `confirmCommit` unless the files have come back, and
   * DatabaseUnavailable if the log was cut since.
   */
  requireIntactLog(): void {
    if (this.#lostError && !this.#hasReturned()) throw this.#lostError;
    this.#lostError = undefined;
    this.#areMissing = false;
    if (this.#logDescriptor !== undefined) this.#checkLength(fstatSync(this.#logDescriptor).size);
  }

  /** To be called before SQLite reads: damaged files give wrong rows. */
  requireUndamaged(): void {
    if (this.#isDamaged) throw this.#lostError;
  }

  /**
   * Call this after a commit and before it is acknowledged. Notes the length of the log in the mark. Throws DatabaseUnavailable
   * with `unknown` when the commit went to files that are gone, and when the log was cut.
   */
  confirmCommit(): void {
    this.#logDescriptor ??= openLog(`${this.#file}-wal`);
    const log = this.#logDescriptor === undefined ? undefined : fstatSync(this.#logDescriptor);
    if (readFileId(this.#file) !== this.#inode || log === undefined || log.nlink === 0) {
      this.#recordMissing();
      // The files may come back with this commit, so it must not be repeated as if it had failed.
      throw missingFileError(this.#path, true);
    }
    this.#recordCommit(log.size);
  }

  /**
   * Checks all files, also between commits. Throws DatabaseUnavailable, now and in later calls, if they are not those
   * that SQLite has written, or were cut. May move the log into the file. Other errors of SQLite are thrown and not
   * kept.
   */
  check(): void {
    this.requireIntactLog();
    const [file, log] = [statSync(this.#file, STAT_OPTIONS), statSync(`${this.#file}-wal`, STAT_OPTIONS)];
    const openLogStat =
      this.#logDescriptor === undefined ? undefined : fstatSync(this.#logDescriptor, { bigint: true });
    if (toFileId(file) !== this.#inode || (openLogStat && toFileId(log) !== toFileId(openLogStat)))
      throw this.#recordMissing();
    const bytes = Number(file?.size);
    try {
      this.#database.readHeader(this.#file);
      if (bytes < this.#fileBytes) this.#database.moveLog();
    } catch (error) {
      throw isDamageError(error) ? this.#recordDamage(error) : error;
    }
    this.#fileBytes = bytes;
  }

  /**
   * Returns the error to report for one of SQLite: where the files were cut or replaced, that; else the same error. Checks all
   * files for it.
   */
  toFileError(error: unknown): unknown {
    try {
      this.check();
      return error;
    } catch (fileError) {
      return fileError;
    }
  }

  /**
   * Returns the error to report for a failed write of `bytes` bytes: that of damaged or missing files, or of a full disk, else the
   * same error.
   */
  toWriteError(error: unknown, bytes: number): unknown {
    if (!isUnwritableError(error)) return error;
    const fileError = this.toFileError(error);
    return fileError === error ? explainDiskFull(this.#file, error, bytes) : fileError;
  }

  /**
   * Closes the files of the watch; call this after SQLite has closed its own. Removes the mark if SQLite took the log away and
   * nothing was lost.
   */
  close(): void {
    for (const descriptor of [this.#logDescriptor, this.#snapshotDescriptor])
      if (descriptor !== undefined) closeSync(descriptor);
    this.#logDescriptor = undefined;
    this.#snapshotDescriptor = undefined;
    if (!this.#lostError && !existsSync(`${this.#file}-wal`)) rmSync(toSnapshotPath(this.#file), { force: true });
  }

  /**
   * Throws DatabaseUnavailable if the log was cut. A log gets shorter only when SQLite starts it anew, or after all of it was
   * moved into the file, which is tried here.
   */
  #checkLength(bytes: number): void {
    if (bytes >= this.#logBytes) return;
    if (bytes >= HEADER_BYTES) {
      if (this.#readHeader() === this.#salts) throw this.#recordDamage();
      return;
    }
    try {
      this.#database.moveLog();
    } catch (error) {
      throw this.#recordDamage(error);
    }
  }

  /**
   * Compares the log after a commit with what it was before, and notes it in the mark. Throws DatabaseUnavailable if the log was
   * cut.
   */
  #recordCommit(bytes: number): void {
    const hasGrown = bytes > this.#logBytes;
    // The frame before the old end is still there, so nothing before the new ones was cut off.
    const isContinued =
      hasGrown && this.#logBytes > 0 && this.#readFrameSalts(this.#logBytes - this.#frameBytes) === this.#salts;
    if (!isContinued && !this.#compareHeader(bytes)) return;
    this.#logBytes = bytes;
    this.#writeSnapshot({});
  }

  /**
   * Compares the header of the log with the last one, and takes over that of a new log. Returns false if the mark is still true.
   * Throws DatabaseUnavailable if the log was cut.
   */
  #compareHeader(bytes: number): boolean {
    const salts = this.#readHeader();
    // A commit without changes leaves an empty log empty.
    if (salts === null && bytes < HEADER_BYTES) {
      this.#checkLength(bytes);
      return false;
    }
    if (salts === null) throw this.#recordDamage();
    if (salts !== this.#salts) {
      this.#setLog(salts, bytes);
      return true;
    }
    const hasGrown = bytes > this.#logBytes;
    if (bytes < this.#logBytes || (hasGrown && !this.#hasOnlyOwnFrames(bytes))) throw this.#recordDamage();
    return hasGrown || this.#writtenText === "";
  }

  /** Takes over a new log of this length, whose header `#readHeader` has just read. Writes nothing. */
  #setLog(salts: bigint, bytes: number): void {
    this.#salts = salts;
    this.#snapshotStart = `${JSON.stringify({ inode: this.#inode, salts: formatSalts(salts) }).slice(0, -1)},`;
    this.#logBytes = bytes;
    this.#frameBytes = FRAME_HEADER_BYTES + this.#fields.getUint32(8);
  }

  /** Returns the salts in the header of the log; null if it has no valid header. */
  #readHeader(): bigint | null {
    const read = readSync(this.#logDescriptor as number, this.#header, 0, HEADER_BYTES, 0);
    if (read < HEADER_BYTES || (this.#fields.getUint32(0) & ~1) >>> 0 !== LOG_MAGIC_NUMBER) return null;
    return this.#fields.getBigUint64(16);
  }

  /** Returns the salts of the frame at this position of the log; null if the log ends before. */
  #readFrameSalts(position: number): bigint | null {
    const read = readSync(this.#logDescriptor as number, this.#header, 0, FRAME_HEADER_BYTES, position);
    return read < FRAME_HEADER_BYTES ? null : this.#fields.getBigUint64(8);
  }

  /**
   * Returns true if every frame of the first `bytes` bytes has the salts of this log. A log that was cut, and written
   * on, has a hole.
   */
  #hasOnlyOwnFrames(bytes: number): boolean {
    for (let position = HEADER_BYTES; position < bytes; position += this.#frameBytes) {
      if (this.#readFrameSalts(position) !== this.#salts) return false;
    }
    return true;
  }

  /**
   * Writes the mark of the log to its file, which it opens once. Errors are ignored, because a commit in the log counts
   * without a mark; the next commit tries again.
   */
  #writeSnapshot(flags: Pick<WalSnapshot, "damaged">): void {
    // By hand: it is written at most commits.
    const text = `${this.#snapshotStart}"bytes":${this.#logBytes}${flags.damaged ? ',"damaged":true' : ""}}`;
    try {
      this.#snapshotDescriptor ??= openSync(toSnapshotPath(this.#file), "w");
      const encoded = encoder.encode(text);
      if (text.length < this.#writtenText.length) ftruncateSync(this.#snapshotDescriptor, 0);
      // As bytes: with a text, Deno passes over the position.
      writeSync(this.#snapshotDescriptor, encoded, 0, encoded.length, 0);
      this.#writtenText = text;
    } catch {
      this.#writtenText = "";
    }
  }

  /** Notes that the files are gone, for later calls, and returns the error. */
  #recordMissing(): DatabaseUnavailable {
    this.#areMissing = true;
    return this.#recordLoss(missingFileError(this.#path));
  }

  /**
   * Returns true if the database and its log were missing and are back: the same files that SQLite has open. False if they were never
   * missing.
   */
  #hasReturned(): boolean {
    if (!this.#areMissing || this.#logDescriptor === undefined || readFileId(this.#file) !== this.#inode) return false;
    return readFileId(`${this.#file}-wal`) === toFileId(fstatSync(this.#logDescriptor, { bigint: true }));
  }

  /** Keeps the error for later calls and returns it. */
  #recordLoss(error: DatabaseUnavailable): DatabaseUnavailable {
    this.#lostError = error;
    return error;
  }

  /**
   * Writes into the mark that the log was cut, keeps the error for later calls, and returns it. The next start must
   * know: SQLite moves what is left of the log into the file when it closes it.
   */
  #recordDamage(cause?: unknown): DatabaseUnavailable {
    this.#isDamaged = true;
    this.#writeSnapshot({ damaged: true });
    return this.#recordLoss(damagedFilesError(this.#path, cause));
  }
}

const STAT_OPTIONS = { bigint: true, throwIfNoEntry: false } as const;
const encoder = new TextEncoder();

/**
 * Returns an error that says that the disk is full, if a failed write of `bytes` bytes found no room: SQLite calls a
 * quota, or a limit of file sizes, an I/O error. Tests it with a file beside the database, which it removes. Returns
 * every other error as it is.
 */
export function explainDiskFull(file: string, error: unknown, bytes: number): unknown {
  if (!isUnwritableError(error)) return error;
  const log = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  const problem = findRoomProblem(`${file}.room`, log, bytes);
  return problem === undefined ? error : new Error(`database or disk is full (${problem})`, { cause: error });
}

/**
 * Returns why no more can be written behind this place of a file; undefined where it can, or fails otherwise. Writes the file at
 * `path` and removes it.
 */
function findRoomProblem(path: string, position: number, bytes: number): string | undefined {
  const zeros = new Uint8Array(Math.max(bytes, 64 * 1024));
  try {
    const file = openSync(path, "w");
    try {
      for (let writtenBytes = 0; writtenBytes < zeros.length; )
        writtenBytes += writeSync(file, zeros, writtenBytes, zeros.length - writtenBytes, position + writtenBytes);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    const { message } = error as Error;
    if (DISK_FULL_PATTERN.test(message)) return message;
  } finally {
    rmSync(path, { force: true });
  }
  return undefined;
}

/** Deno gives the system's words alone. */
const DISK_FULL_PATTERN = /EFBIG|ENOSPC|EDQUOT|file too large|no space left|quota exceeded/i;

/**
 * Throws an Error when the log of the database at `path` holds less than its mark says, or the mark says that it was damaged.
 * Call this before SQLite opens it. Does nothing for a new database, and without a mark of this file.
 */
export function requireCompleteLog(path: string): void {
  if (!existsSync(path)) return;
  const file = realpathSync(path);
  const snapshot = readSnapshot(toSnapshotPath(file));
  if (!snapshot || snapshot.inode !== readFileId(file)) return;
  if (snapshot.damaged)
    throw new Error(`Cannot use the database ${path}: ${DAMAGE_PROBLEM}. ${formatRestoreAdvice(file)}`);
  const log = openLog(`${file}-wal`);
  try {
    const header = new Uint8Array(HEADER_BYTES);
    const bytes = log === undefined ? 0 : fstatSync(log).size;
    const read = log === undefined ? 0 : readSync(log, header, 0, HEADER_BYTES, 0);
    // Another process may have started the log anew after the last mark: then nothing is known of it.
    if (read === HEADER_BYTES && formatSalts(new DataView(header.buffer).getBigUint64(16)) !== snapshot.salts) return;
    // The process that closed the database last has moved the whole log into the file, and taken it away. Times may be equal: file
    // systems count in steps of some milliseconds.
    if (bytes === 0 && statSync(file).mtimeMs >= statSync(toSnapshotPath(file)).mtimeMs) return;
    if (bytes < snapshot.bytes) throw truncatedLogError(path, file, bytes, snapshot);
  } finally {
    if (log !== undefined) closeSync(log);
  }
}

/**
 * Returns the error of a log that lacks what its mark promises: it is missing or too short, and what only it held is
 * lost.
 */
function truncatedLogError(path: string, file: string, bytes: number, snapshot: WalSnapshot): Error {
  const fileError = existsSync(`${file}-wal`) ? `has ${bytes} of ${snapshot.bytes} bytes` : "is missing";
  return new Error(
    `Cannot use the database ${path}: it was not closed, and its log ${file}-wal ${fileError}. What only the log held is lost. ` +
      formatRestoreAdvice(file),
  );
}

const formatRestoreAdvice = (file: string): string =>
  `Restore the log, or a backup. To go on without what is lost, delete ${toSnapshotPath(file)}.`;

const DAMAGE_PROBLEM = "its file or its log was cut or overwritten while a process used it";

function damagedFilesError(path: string, cause?: unknown): DatabaseUnavailable {
  const message = `The database ${path} is damaged: ${DAMAGE_PROBLEM}. Stop the process and restore a backup.`;
  return new DatabaseUnavailable(message, { cause, lost: true });
}

function missingFileError(path: string, unknown = false): DatabaseUnavailable {
  return new DatabaseUnavailable(
    `The database ${path} was deleted or replaced while this process used it. Stop the process, restore the file and its log, and start again.`,
    { lost: true, unknown },
  );
}

/** Returns the descriptor of the log; undefined if it cannot be opened. */
function openLog(path: string): number | undefined {
  try {
    return openSync(path, "r");
  } catch {
    return undefined;
  }
}

/** Returns the mark; undefined if there is none, or one that was written only in part. */
function readSnapshot(path: string): WalSnapshot | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as WalSnapshot;
  } catch {
    // There is none, or the machine stopped while it was written.
    return undefined;
  }
}

const toFileId = (stat: { readonly dev: bigint; readonly ino: bigint } | undefined): string | undefined =>
  stat && `${stat.dev}:${stat.ino}`;

const readFileId = (file: string): string | undefined => toFileId(statSync(file, STAT_OPTIONS));

/** Returns the bytes of the salts, separated by dots, as marks have them. */
function formatSalts(salts: bigint): string {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, salts);
  return bytes.join(".");
}
