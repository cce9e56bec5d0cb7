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

/** What the log held after a commit, at the least. Nothing is flushed for it: the log itself was, before. */
interface Mark {
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
const LOG_NUMBER = 0x377f0682;
/** Each frame is a header, with the log's salts in bytes 8 to 15, and a page. */
const FRAME_HEADER_BYTES = 24;

const markOf = (file: string): string => `${file}.mark`;

/** What `FileWatch` asks SQLite when the files alone do not tell. Both return while another process has a lock. */
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
  readonly #ask: WatchedDatabase;
  readonly #header = new Uint8Array(HEADER_BYTES);
  readonly #fields = new DataView(this.#header.buffer);
  #log: number | undefined;
  #mark: number | undefined;
  #written = "";
  // The log as the last commit left it.
  #salts = 0n;
  #bytes = 0;
  #frame = 0;
  #markStart: string;
  #fileBytes = 0;
  #lost: DatabaseUnavailable | undefined;
  /** The files were moved or deleted, and not damaged: files that were moved may come back. */
  #isAway = false;
  #damaged = false;

  /** `path` was opened: its file exists. */
  constructor(path: string, ask: WatchedDatabase) {
    this.#path = path;
    this.#file = realpathSync(path);
    this.#inode = inodeOf(this.#file) ?? "";
    this.#ask = ask;
    this.#markStart = `{"inode":"${this.#inode}",`;
    // What a killed process has left in the log counts as well.
    this.#log = openLog(`${this.#file}-wal`);
    const salts = this.#log === undefined ? null : this.#readHeader();
    if (salts !== null) this.#setLog(salts, fstatSync(this.#log as number).size);
  }

  /** Call this before SQLite writes. Throws the error of an earlier `confirmCommit`, and if the log was cut since. */
  refuse(): void {
    if (this.#lost && !this.#areBack()) throw this.#lost;
    this.#lost = undefined;
    this.#isAway = false;
    if (this.#log !== undefined) this.#checkLength(fstatSync(this.#log).size);
  }

  /** To be called before SQLite reads: damaged files give wrong rows. */
  refuseRead(): void {
    if (this.#damaged) throw this.#lost;
  }

  /** To be called after a commit and before it is acknowledged. Throws DatabaseUnavailable when it went to files that are gone. */
  confirmCommit(): void {
    this.#log ??= openLog(`${this.#file}-wal`);
    const log = this.#log === undefined ? undefined : fstatSync(this.#log);
    if (inodeOf(this.#file) !== this.#inode || log === undefined || log.nlink === 0) {
      this.#leave();
      // The files may come back with this commit, so it must not be repeated as if it had failed.
      throw gone(this.#path, true);
    }
    this.#note(log.size);
  }

  /** Looks at all files, also between commits. Throws DatabaseUnavailable when they are not those that SQLite has written. */
  check(): void {
    this.refuse();
    const [file, log] = [statSync(this.#file, QUIETLY), statSync(`${this.#file}-wal`, QUIETLY)];
    const open = this.#log === undefined ? undefined : fstatSync(this.#log, { bigint: true });
    if (idOf(file) !== this.#inode || (open && idOf(log) !== idOf(open))) throw this.#leave();
    const bytes = Number(file?.size);
    try {
      this.#ask.readHeader(this.#file);
      if (bytes < this.#fileBytes) this.#ask.moveLog();
    } catch (error) {
      throw isDamageError(error) ? this.#damage(error) : error;
    }
    this.#fileBytes = bytes;
  }

  /** The error to report for one of SQLite: where the files were cut or replaced, that. */
  explain(error: unknown): unknown {
    try {
      this.check();
      return error;
    } catch (found) {
      return found;
    }
  }

  /** The same for a write of so many bytes. */
  explainWrite(error: unknown, bytes: number): unknown {
    if (!isUnwritableError(error)) return error;
    const found = this.explain(error);
    return found === error ? explainRoom(this.#file, error, bytes) : found;
  }

  /** After SQLite has closed its files. A log that it took away needs no mark. */
  close(): void {
    for (const descriptor of [this.#log, this.#mark]) if (descriptor !== undefined) closeSync(descriptor);
    this.#log = undefined;
    this.#mark = undefined;
    if (!this.#lost && !existsSync(`${this.#file}-wal`)) rmSync(markOf(this.#file), { force: true });
  }

  /** A log gets shorter only when SQLite starts it anew, or after all of it was moved into the file. */
  #checkLength(bytes: number): void {
    if (bytes >= this.#bytes) return;
    if (bytes >= HEADER_BYTES) {
      if (this.#readHeader() === this.#salts) throw this.#damage();
      return;
    }
    try {
      this.#ask.moveLog();
    } catch (error) {
      throw this.#damage(error);
    }
  }

  /** Compares the log after a commit with what it was before, and notes it in the mark. */
  #note(bytes: number): void {
    const hasGrown = bytes > this.#bytes;
    // The frame before the old end is still there, so nothing before the new ones was cut off.
    const isContinued = hasGrown && this.#bytes > 0 && this.#saltsAt(this.#bytes - this.#frame) === this.#salts;
    if (!isContinued && !this.#takeHeader(bytes)) return;
    this.#bytes = bytes;
    this.#writeMark({});
  }

  /** Compares the header of the log with the last one. Returns false if the mark is still true. Throws if the log was cut. */
  #takeHeader(bytes: number): boolean {
    const salts = this.#readHeader();
    // A commit without changes leaves an empty log empty.
    if (salts === null && bytes < HEADER_BYTES) {
      this.#checkLength(bytes);
      return false;
    }
    if (salts === null) throw this.#damage();
    if (salts !== this.#salts) {
      this.#setLog(salts, bytes);
      return true;
    }
    const hasGrown = bytes > this.#bytes;
    if (bytes < this.#bytes || (hasGrown && !this.#isWhole(bytes))) throw this.#damage();
    return hasGrown || this.#written === "";
  }

  /** After `readHeader`. */
  #setLog(salts: bigint, bytes: number): void {
    this.#salts = salts;
    this.#markStart = `${JSON.stringify({ inode: this.#inode, salts: saltsOf(salts) }).slice(0, -1)},`;
    this.#bytes = bytes;
    this.#frame = FRAME_HEADER_BYTES + this.#fields.getUint32(8);
  }

  /** The salts in the header; null where there is none. */
  #readHeader(): bigint | null {
    const read = readSync(this.#log as number, this.#header, 0, HEADER_BYTES, 0);
    if (read < HEADER_BYTES || (this.#fields.getUint32(0) & ~1) >>> 0 !== LOG_NUMBER) return null;
    return this.#fields.getBigUint64(16);
  }

  /** The salts of the frame at this place. */
  #saltsAt(place: number): bigint | null {
    const read = readSync(this.#log as number, this.#header, 0, FRAME_HEADER_BYTES, place);
    return read < FRAME_HEADER_BYTES ? null : this.#fields.getBigUint64(8);
  }

  /** True when every frame is of this log. One that was cut, and written on, has a hole. */
  #isWhole(bytes: number): boolean {
    for (let place = HEADER_BYTES; place < bytes; place += this.#frame) {
      if (this.#saltsAt(place) !== this.#salts) return false;
    }
    return true;
  }

  /** A commit that is in the log counts, whether or not its mark can be written. */
  #writeMark(more: Pick<Mark, "damaged">): void {
    // By hand: it is written at most commits.
    const text = `${this.#markStart}"bytes":${this.#bytes}${more.damaged ? ',"damaged":true' : ""}}`;
    try {
      this.#mark ??= openSync(markOf(this.#file), "w");
      const encoded = encoder.encode(text);
      if (text.length < this.#written.length) ftruncateSync(this.#mark, 0);
      // As bytes: with a text, Deno passes over the position.
      writeSync(this.#mark, encoded, 0, encoded.length, 0);
      this.#written = text;
    } catch {
      this.#written = "";
    }
  }

  #leave(): DatabaseUnavailable {
    this.#isAway = true;
    return this.#lose(gone(this.#path));
  }

  /** The files that SQLite has open are at their place again. */
  #areBack(): boolean {
    if (!this.#isAway || this.#log === undefined || inodeOf(this.#file) !== this.#inode) return false;
    return inodeOf(`${this.#file}-wal`) === idOf(fstatSync(this.#log, { bigint: true }));
  }

  #lose(error: DatabaseUnavailable): DatabaseUnavailable {
    this.#lost = error;
    return error;
  }

  /** SQLite moves what is left of the log into the file when it closes it: the next start must know that it was cut. */
  #damage(cause?: unknown): DatabaseUnavailable {
    this.#damaged = true;
    this.#writeMark({ damaged: true });
    return this.#lose(damaged(this.#path, cause));
  }
}

const QUIETLY = { bigint: true, throwIfNoEntry: false } as const;
const encoder = new TextEncoder();

/** The error of a write that found no room: SQLite calls a quota, or a limit of file sizes, an I/O error. Else the same error. */
export function explainRoom(file: string, error: unknown, bytes: number): unknown {
  if (!isUnwritableError(error)) return error;
  const log = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  const problem = problemOfRoom(`${file}.room`, log, bytes);
  return problem === undefined ? error : new Error(`database or disk is full (${problem})`, { cause: error });
}

/** Why no more can be written behind this place of a file; undefined where it can. */
function problemOfRoom(path: string, place: number, bytes: number): string | undefined {
  const room = new Uint8Array(Math.max(bytes, 64 * 1024));
  try {
    const file = openSync(path, "w");
    try {
      for (let done = 0; done < room.length; ) done += writeSync(file, room, done, room.length - done, place + done);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    const { message } = error as Error;
    if (NO_ROOM.test(message)) return message;
  } finally {
    rmSync(path, { force: true });
  }
  return undefined;
}

/** Deno gives the system's words alone. */
const NO_ROOM = /EFBIG|ENOSPC|EDQUOT|file too large|no space left|quota exceeded/i;

/** Throws an Error when the log of the database at `path` holds less than its mark says. To be called before SQLite opens it. */
export function checkLogWhole(path: string): void {
  if (!existsSync(path)) return;
  const file = realpathSync(path);
  const mark = readMark(markOf(file));
  if (!mark || mark.inode !== inodeOf(file)) return;
  if (mark.damaged) throw new Error(`Cannot use the database ${path}: ${DAMAGED}. ${restore(file)}`);
  const log = openLog(`${file}-wal`);
  try {
    const header = new Uint8Array(HEADER_BYTES);
    const bytes = log === undefined ? 0 : fstatSync(log).size;
    const read = log === undefined ? 0 : readSync(log, header, 0, HEADER_BYTES, 0);
    // Another process may have started the log anew after the last mark: then nothing is known of it.
    if (read === HEADER_BYTES && saltsOf(new DataView(header.buffer).getBigUint64(16)) !== mark.salts) return;
    // Whoever closed the database last has moved the whole log into the file, and taken it away. Times may be equal: file
    // systems count in steps of some milliseconds.
    if (bytes === 0 && statSync(file).mtimeMs >= statSync(markOf(file)).mtimeMs) return;
    if (bytes < mark.bytes) throw cut(path, file, bytes, mark);
  } finally {
    if (log !== undefined) closeSync(log);
  }
}

function cut(path: string, file: string, bytes: number, mark: Mark): Error {
  const found = existsSync(`${file}-wal`) ? `has ${bytes} of ${mark.bytes} bytes` : "is missing";
  return new Error(
    `Cannot use the database ${path}: it was not closed, and its log ${file}-wal ${found}. What only the log held is lost. ` +
      restore(file),
  );
}

const restore = (file: string): string =>
  `Restore the log, or a backup. To go on without what is lost, delete ${markOf(file)}.`;

const DAMAGED = "its file or its log was cut or overwritten while a process used it";

function damaged(path: string, cause?: unknown): DatabaseUnavailable {
  const message = `The database ${path} is damaged: ${DAMAGED}. Stop the process and restore a backup.`;
  return new DatabaseUnavailable(message, { cause, lost: true });
}

function gone(path: string, unknown = false): DatabaseUnavailable {
  return new DatabaseUnavailable(
    `The database ${path} was deleted or replaced while this process used it. Stop the process, restore the file and its log, and start again.`,
    { lost: true, unknown },
  );
}

function openLog(path: string): number | undefined {
  try {
    return openSync(path, "r");
  } catch {
    return undefined;
  }
}

function readMark(path: string): Mark | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Mark;
  } catch {
    // There is none, or the machine stopped while it was written.
    return undefined;
  }
}

const idOf = (stat: { readonly dev: bigint; readonly ino: bigint } | undefined): string | undefined =>
  stat && `${stat.dev}:${stat.ino}`;

const inodeOf = (file: string): string | undefined => idOf(statSync(file, QUIETLY));

/** The bytes of the salts, as marks have them. */
function saltsOf(salts: bigint): string {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, salts);
  return bytes.join(".");
}
