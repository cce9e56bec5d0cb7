/**
 * Watches the files of an open SQLite database: what is committed to a file that was deleted or replaced is not acknowledged,
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

/** What the log held after a commit, at the least. Nothing is flushed for it: the log itself was, before. */
interface Mark {
  /** The database file it was made for: a restored copy is another one. */
  readonly inode: string;
  /** Chosen anew by SQLite whenever it starts the log from its beginning. */
  readonly salts: string;
  readonly bytes: number;
}

/** A log's header; its salts are bytes 16 to 23. */
const HEADER_BYTES = 32;

const markOf = (file: string): string => `${file}.mark`;

export class FileWatch {
  readonly #path: string;
  readonly #file: string;
  readonly #inode: string;
  readonly #header = new Uint8Array(HEADER_BYTES);
  #log: number | undefined;
  #mark: number | undefined;
  #written = "";
  #gone = false;

  /** `path` was opened: its file exists. */
  constructor(path: string) {
    this.#path = path;
    this.#file = realpathSync(path);
    this.#inode = inodeOf(this.#file) ?? "";
  }

  /** To be called before a transaction: throws what `prove` has thrown. */
  refuse(): void {
    if (this.#gone) throw gone(this.#path);
  }

  /** To be called after a commit and before it is acknowledged. Throws DatabaseUnavailable when it went to files that are gone. */
  prove(): void {
    this.#log ??= openLog(`${this.#file}-wal`);
    const log = this.#log === undefined ? undefined : fstatSync(this.#log);
    if (inodeOf(this.#file) !== this.#inode || log === undefined || log.nlink === 0) {
      this.#gone = true;
      throw gone(this.#path);
    }
    this.#note(this.#log as number, log.size);
  }

  /** After SQLite has closed its files. A log that it took away needs no mark. */
  close(): void {
    for (const descriptor of [this.#log, this.#mark]) if (descriptor !== undefined) closeSync(descriptor);
    this.#log = undefined;
    this.#mark = undefined;
    if (!existsSync(`${this.#file}-wal`)) rmSync(markOf(this.#file), { force: true });
  }

  #note(log: number, bytes: number): void {
    readSync(log, this.#header, 0, HEADER_BYTES, 0);
    const mark: Mark = { inode: this.#inode, salts: saltsIn(this.#header), bytes };
    const text = JSON.stringify(mark);
    if (text === this.#written) return;
    this.#mark ??= openSync(markOf(this.#file), "w");
    const encoded = new TextEncoder().encode(text);
    if (text.length < this.#written.length) ftruncateSync(this.#mark, 0);
    // As bytes: with a text, Deno passes over the position.
    writeSync(this.#mark, encoded, 0, encoded.length, 0);
    this.#written = text;
  }
}

/** Throws an Error when the log of the database at `path` holds less than its mark says. To be called before SQLite opens it. */
export function checkLogWhole(path: string): void {
  if (!existsSync(path)) return;
  const file = realpathSync(path);
  const mark = readMark(markOf(file));
  if (!mark || mark.inode !== inodeOf(file)) return;
  const log = openLog(`${file}-wal`);
  try {
    const header = new Uint8Array(HEADER_BYTES);
    const bytes = log === undefined ? 0 : fstatSync(log).size;
    const read = log === undefined ? 0 : readSync(log, header, 0, HEADER_BYTES, 0);
    // Another process may have started the log anew after the last mark: then nothing is known of it.
    if (read === HEADER_BYTES && saltsIn(header) !== mark.salts) return;
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
      `Restore the log, or a backup. To go on without what is lost, delete ${markOf(file)}.`,
  );
}

function gone(path: string): DatabaseUnavailable {
  return new DatabaseUnavailable(
    `The database ${path} was deleted or replaced while this process used it. Stop the process, restore the file and its log, and start again.`,
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

function inodeOf(file: string): string | undefined {
  const stat = statSync(file, { bigint: true, throwIfNoEntry: false });
  return stat && `${stat.dev}:${stat.ino}`;
}

const saltsIn = (header: Uint8Array): string => [...header.subarray(16, 24)].join(".");
