/**
 * The SqlDriver of an embedded SQLite database: one writer connection behind a queue whose batches share commits, and one
 * connection for reads. It knows no SQLite package: bun.ts and node.ts each bring a SqliteConnection.
 */
import { ConfigError } from "../../lib/errors.ts";
import {
  DatabaseUnavailable,
  measureStatement,
  type SqlDriver,
  type SqlRow,
  type SqlStatement,
} from "../sql/driver.ts";
import { type Committed, commitGroup } from "./commit.ts";
import {
  checkWhole,
  FILE,
  hasMoved,
  isLocked,
  LOCK_WAIT_MS,
  MOVE_LOG,
  openFile,
  SETTINGS,
  type SqliteConnection,
  takeWorkerLock,
  WRITER_SETTINGS,
} from "./file.ts";
import { FileWatch, type WatchedDatabase } from "./file-watch.ts";
import type { WriterThread } from "./thread.ts";

/** Where commits are made: `inline`, on the event loop; in a `thread`; `auto`, in a thread once commits have been slow. */
export type SqliteWriter = "auto" | "inline" | "thread";

export interface SqliteOptions {
  /**
   * Default `auto`. A thread costs memory and a little time for each commit, but a slow disk does not stop the event loop. Where
   * it cannot be started, commits stay on the event loop, with one warning. A database in memory has no thread.
   */
  readonly writer?: SqliteWriter;
  /** Starts the thread. Without it, commits stay on the event loop. */
  readonly thread?: (path: string) => Promise<WriterThread>;
  /** Calls `fn` in a later macrotask: batches that arrive until then share a commit. */
  readonly defer?: (fn: () => void) => void;
  /** Calls `fn` once after `ms`; the result cancels it. */
  readonly timer?: (ms: number, fn: () => void) => () => void;
}

const MAX_BATCHES = 64;
const MAX_BYTES = 4 * 1024 * 1024;
const LARGE_BYTES = 1024 * 1024;
const CHECKPOINT_AFTER_MS = 500;
/** A commit that takes this long is slow. Where they take less, a thread costs a run more time than it saves: 0.25 ms of CPU. */
const SLOW_MS = 2;
/** What each batch of the group may add, because its pages take time on every disk. */
const SLOW_MS_PER_BATCH = 0.05;
/** So many more slow commits than others prove that the disk is slow. */
const SLOW_COMMITS = 16;

/**
 * Opens the database at `path` (`:memory:` for one that lives as long as the driver) with the connections that `connect`
 * makes. Throws an Error that names the path and the remedy when it cannot be used.
 */
export function sqliteDriver(
  path: string,
  connect: (path: string) => SqliteConnection,
  options: SqliteOptions = {},
): SqlDriver {
  if (!["auto", "inline", "thread"].includes(options.writer ?? "auto"))
    throw new ConfigError(["sqlite: writer: must be auto, inline or thread"]);
  const inMemory = path === ":memory:";
  const writing = openFile(path, connect, WRITER_SETTINGS);
  let reading = writing;
  if (!inMemory) {
    try {
      reading = openFile(path, connect, [...SETTINGS, "pragma query_only = on"]);
    } catch (error) {
      writing.close();
      throw error;
    }
  }
  const watch = inMemory ? undefined : new FileWatch(path, watched(reading, connect));
  const writer = new Writer(path, writing, watch, options);
  let lock: SqliteConnection | undefined;
  let closed: Promise<void> | undefined;
  const refuseClosed = (): void => {
    if (closed) throw new Error(`The database ${path} is closed.`);
  };
  return {
    dialect: "sqlite",
    single_process: !inMemory,
    async batch(statements) {
      refuseClosed();
      return await writer.batch(statements);
    },
    async read(statement) {
      refuseClosed();
      measureStatement(statement);
      watch?.refuseRead();
      try {
        return reading.run(statement);
      } catch (error) {
        throw watch?.explain(error) ?? error;
      }
    },
    ...(watch && {
      async check() {
        refuseClosed();
        watch.check();
      },
    }),
    async acquireWorkerLock() {
      refuseClosed();
      if (inMemory) return true;
      lock ??= takeWorkerLock(reading, connect);
      return lock !== undefined;
    },
    close() {
      closed ??= writer.drain().then(async () => {
        if (reading !== writing) reading.close();
        await writer.close();
        watch?.close();
        // Last: the next holder of the lock must find no work of this process under way.
        lock?.close();
      });
      return closed;
    },
  };
}

/** A connection that refuses changes may still move the log. */
function watched(reading: SqliteConnection, connect: (path: string) => SqliteConnection): WatchedDatabase {
  const unlessLocked = (work: () => void): void => {
    try {
      work();
    } catch (error) {
      if (!isLocked(error)) throw error;
    }
  };
  const row = (sql: string): SqlRow | undefined => reading.run({ sql, args: [] })[0];
  return {
    moveLog: () =>
      unlessLocked(() => {
        const file = row(FILE);
        if (hasMoved(row(MOVE_LOG))) checkWhole(file);
      }),
    readHeader: (file) =>
      unlessLocked(() => {
        const connection = connect(file);
        try {
          connection.run({ sql: "pragma schema_version", args: [] });
        } finally {
          connection.close();
        }
      }),
  };
}

/** How long to wait before the next try for the write lock. */
export function lockDelay(tries: number): number {
  return [1, 2, 5, 10][tries] ?? 20;
}

/** The error of a batch that waited for the write lock long enough. */
export function lockedTooLong(database: string, cause: unknown): Error {
  return new Error(`Another connection has held the write lock of ${database} for ${LOCK_WAIT_MS / 1000} s.`, {
    cause,
  });
}

/** Calls `fn` once after `ms`; the result cancels it. */
export function systemTimer(ms: number, fn: () => void): () => void {
  const id = setTimeout(fn, ms);
  return () => clearTimeout(id);
}

const milliseconds = (): number => performance.now();
const immediate = (globalThis as { setImmediate?: (fn: () => void) => unknown }).setImmediate;
const systemDefer: (fn: () => void) => void = immediate ? (fn) => void immediate(fn) : (fn) => void setTimeout(fn, 0);

interface Batch {
  readonly statements: readonly SqlStatement[];
  readonly bytes: number;
  readonly resolve: (rows: SqlRow[][]) => void;
  readonly reject: (error: unknown) => void;
  /** Its group was lost: it gets a commit of its own, and no third try. */
  ungrouped: boolean;
  /** How long it has waited for another connection's write lock. */
  waited_ms: number;
}

/**
 * The queue before the writer connection, which commits one group after another. On the event loop a group runs within one
 * macrotask, so nothing ever sees it half done.
 */
class Writer {
  readonly #path: string;
  readonly #connection: SqliteConnection;
  /** Undefined in memory, where there is no log to move either. */
  readonly #watch: FileWatch | undefined;
  readonly #defer: (fn: () => void) => void;
  readonly #timer: (ms: number, fn: () => void) => () => void;
  /** Undefined where commits stay on the event loop. */
  #startThread: (() => Promise<WriterThread>) | undefined;
  #queue: Batch[] = [];
  /** A flush is due, or under way in the thread. */
  #scheduled = false;
  #lockTries = 0;
  #cancelCheckpoint: (() => void) | undefined;
  #slow_left = SLOW_COMMITS;
  #starting: Promise<void> | undefined;
  #thread: WriterThread | undefined;

  constructor(path: string, connection: SqliteConnection, watch: FileWatch | undefined, options: SqliteOptions) {
    const { writer = "auto", thread, defer, timer } = options;
    this.#path = path;
    this.#connection = connection;
    this.#watch = watch;
    this.#defer = defer ?? systemDefer;
    this.#timer = timer ?? systemTimer;
    if (thread && writer !== "inline") this.#startThread = () => thread(path);
    if (writer === "thread") this.#noteSlow(SLOW_COMMITS);
  }

  batch(statements: readonly SqlStatement[]): Promise<SqlRow[][]> {
    const bytes = statements.reduce((sum, statement) => sum + measureStatement(statement), 0);
    return new Promise((resolve, reject) => {
      this.#queue.push({ statements, bytes, resolve, reject, ungrouped: false, waited_ms: 0 });
      this.#schedule();
    });
  }

  /** Resolves when every batch has been answered; no checkpoint is due after that. */
  async drain(): Promise<void> {
    if (this.#scheduled) await this.batch([]).catch(() => {});
    this.#cancelCheckpoint?.();
    this.#cancelCheckpoint = undefined;
    await this.#starting;
  }

  /** After `drain`. */
  async close(): Promise<void> {
    if (this.#thread) await this.#thread.close();
    else this.#connection.close();
  }

  #schedule(): void {
    if (this.#scheduled || this.#queue.length === 0) return;
    this.#scheduled = true;
    this.#defer(() => this.#flush());
  }

  #flush(): void {
    const group = this.#takeGroup();
    const batches = group.map(({ statements }) => statements);
    const thread = this.#thread;
    this.#attempt(group, () => {
      this.#watch?.refuse();
      if (!thread) {
        const committed = commitGroup(this.#connection, batches, milliseconds);
        this.#noteSlow(committed.commit_ms >= SLOW_MS + SLOW_MS_PER_BATCH * group.length ? 1 : -1);
        return this.#answer(group, committed);
      }
      thread.commit(batches).then(
        (committed) => this.#attempt(group, () => this.#answer(group, committed)),
        (error) =>
          this.#attempt(group, () => {
            throw error;
          }),
      );
      return false;
    });
  }

  /** `work` gives false while the group is under way. Throws when nothing of the group was committed. */
  #attempt(group: readonly Batch[], work: () => boolean): void {
    try {
      if (!work()) return;
      this.#lockTries = 0;
      this.#checkpointLater();
    } catch (error) {
      if (isLocked(error)) {
        this.#queue.unshift(...group);
        this.#waitForLock(error);
        return;
      }
      this.#fail(group, error);
    }
    this.#scheduled = false;
    this.#schedule();
  }

  /** Rejects the only batch of a group, or runs several again one by one: the error may be of one of them. */
  #fail(group: readonly Batch[], error: unknown): void {
    const [only] = group;
    if (only && group.length === 1) only.reject(this.#watch?.explainWrite(error, only.bytes) ?? error);
    else if (error instanceof DatabaseUnavailable && error.unknown) for (const batch of group) batch.reject(error);
    else {
      for (const batch of group) batch.ungrouped = true;
      this.#queue.unshift(...group);
    }
  }

  /** Tells each caller what became of its batch. */
  #answer(group: readonly Batch[], { outcomes }: Committed): true {
    this.#watch?.confirmCommit();
    const settle = (): void => {
      for (const [i, { resolve, reject }] of group.entries()) {
        const outcome = outcomes[i] as (typeof outcomes)[number];
        if ("error" in outcome) reject(outcome.error);
        else resolve(outcome.rows);
      }
    };
    // The callers of a large write take long too: other calls go first.
    if (group.some(({ bytes }) => bytes > LARGE_BYTES)) this.#defer(settle);
    else settle();
    return true;
  }

  /** Starts the thread when commits were too slow too often. Until it is there, commits stay on the event loop. */
  #noteSlow(commits: number): void {
    if (!this.#startThread) return;
    this.#slow_left = Math.min(SLOW_COMMITS, this.#slow_left - commits);
    if (this.#slow_left > 0) return;
    this.#starting = this.#startThread().then(
      (thread) => {
        this.#thread = thread;
        // It is idle: a group on it runs within one macrotask.
        this.#connection.close();
      },
      (error: Error) => {
        const why = error.cause ?? error;
        console.warn(`greenroom: commits to ${this.#path} stay on the event loop, no thread could be started: ${why}`);
      },
    );
    this.#startThread = undefined;
  }

  #takeGroup(): Batch[] {
    let bytes = 0;
    let count = 0;
    for (const batch of this.#queue) {
      bytes += batch.bytes;
      if (count > 0 && (batch.ungrouped || count === MAX_BATCHES || bytes > MAX_BYTES)) break;
      count += 1;
      if (batch.ungrouped) break;
    }
    return this.#queue.splice(0, count);
  }

  /** Tries again later: waiting inside SQLite would freeze the event loop. */
  #waitForLock(error: unknown): void {
    const waited = this.#queue;
    this.#queue = waited.filter((batch) => batch.waited_ms < LOCK_WAIT_MS);
    for (const batch of waited) {
      if (batch.waited_ms >= LOCK_WAIT_MS) batch.reject(lockedTooLong(`the database ${this.#path}`, error));
    }
    if (this.#queue.length === 0) {
      this.#scheduled = false;
      return;
    }
    const delay = lockDelay(this.#lockTries);
    this.#lockTries += 1;
    for (const batch of this.#queue) batch.waited_ms += delay;
    this.#timer(delay, () => this.#flush());
  }

  /** Moves the log into the database between requests, so that commits do not have to. */
  #checkpointLater(): void {
    if (!this.#watch || this.#cancelCheckpoint) return;
    this.#cancelCheckpoint = this.#timer(CHECKPOINT_AFTER_MS, () => {
      this.#cancelCheckpoint = undefined;
      if (this.#queue.length > 0) return this.#checkpointLater();
      try {
        this.#watch?.refuse();
        // The log keeps everything that was committed: after a failure, the checkpoint after the next commit tries again.
        if (this.#thread) this.#thread.run(MOVE_LOG).catch(() => {});
        else this.#connection.run({ sql: MOVE_LOG, args: [] });
      } catch {}
    });
  }
}
