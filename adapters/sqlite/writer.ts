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
import { commitGroup, type GroupResult } from "./commit.ts";
import {
  acquireWorkerLock,
  isLocked,
  isLogEmpty,
  LOCK_WAIT_MS,
  MOVE_LOG,
  openFile,
  READ_FILE_SIZE,
  requireCompleteFile,
  SETTINGS,
  type SqliteConnection,
  WRITER_SETTINGS,
} from "./file.ts";
import { FileWatch, type WatchedDatabase } from "./file-watch.ts";
import type { WriterThread } from "./writer-thread.ts";

/** The place of commits: `inline` on the event loop, in a `thread`, or `auto`: in a thread once commits have been slow. */
export type SqliteWriter = "auto" | "inline" | "thread";

/** The options of a SQLite driver. */
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

const MAX_GROUP_BATCHES = 64;
const MAX_GROUP_BYTES = 4 * 1024 * 1024;
const LARGE_WRITE_BYTES = 1024 * 1024;
const CHECKPOINT_DELAY_MS = 500;
/** A commit that takes this long is slow. Where they take less, a thread costs a run more time than it saves: 0.25 ms of CPU. */
const SLOW_COMMIT_MS = 2;
/** The time that each batch of the group may add, because its pages take time on every disk. */
const SLOW_COMMIT_MS_PER_BATCH = 0.05;
/** The surplus of slow commits over others that starts the thread. */
const SLOW_COMMIT_MARGIN = 16;

/**
 * Opens the database at `path` (`:memory:` for one that lives as long as the driver) with the connections that `connect` makes,
 * at once and blocking. Throws ConfigError for an unknown `writer`, and an Error that names the path and the remedy when it
 * cannot be used. `close` waits for all batches and then releases the worker lock.
 */
export function sqliteDriver(
  path: string,
  connect: (path: string) => SqliteConnection,
  options: SqliteOptions = {},
): SqlDriver {
  if (!["auto", "inline", "thread"].includes(options.writer ?? "auto"))
    throw new ConfigError(["sqlite: writer: must be auto, inline or thread"]);
  const inMemory = path === ":memory:";
  const writeConnection = openFile(path, connect, WRITER_SETTINGS);
  let readConnection = writeConnection;
  if (!inMemory) {
    try {
      readConnection = openFile(path, connect, [...SETTINGS, "pragma query_only = on"]);
    } catch (error) {
      writeConnection.close();
      throw error;
    }
  }
  const watch = inMemory ? undefined : new FileWatch(path, createWatchedDatabase(readConnection, connect));
  const writer = new SqliteBatchWriter(path, writeConnection, watch, options);
  let lock: SqliteConnection | undefined;
  let closing: Promise<void> | undefined;
  const requireOpen = (): void => {
    if (closing) throw new Error(`The database ${path} is closed.`);
  };
  return {
    dialect: "sqlite",
    single_process: !inMemory,
    async batch(statements) {
      requireOpen();
      return await writer.batch(statements);
    },
    async read(statement) {
      requireOpen();
      measureStatement(statement);
      watch?.requireUndamaged();
      try {
        return readConnection.run(statement);
      } catch (error) {
        throw watch?.toFileError(error) ?? error;
      }
    },
    ...(watch && {
      async check() {
        requireOpen();
        watch.check();
      },
    }),
    /**
     * Resolves with true if this driver holds the worker lock, now or already before, and always in memory. Resolves
     * with false if another process holds it; does not wait.
     */
    async acquireWorkerLock() {
      requireOpen();
      if (inMemory) return true;
      lock ??= acquireWorkerLock(readConnection, connect);
      return lock !== undefined;
    },
    /**
     * Waits for all batches, then closes the connections and releases the worker lock; later calls of the driver throw.
     * Returns the same promise each time.
     */
    close() {
      closing ??= writer.drain().then(async () => {
        if (readConnection !== writeConnection) readConnection.close();
        await writer.close();
        watch?.close();
        // Last: the next holder of the lock must find no work of this process under way.
        lock?.close();
      });
      return closing;
    },
  };
}

/**
 * Creates what the watch does with the database, by a connection that refuses changes: it may still move the log. Both ignore a
 * locked database, and throw if the file is damaged or cut.
 */
function createWatchedDatabase(
  readConnection: SqliteConnection,
  connect: (path: string) => SqliteConnection,
): WatchedDatabase {
  /** Runs the work and drops the error that the database is locked. */
  const ignoreLocked = (work: () => void): void => {
    try {
      work();
    } catch (error) {
      if (!isLocked(error)) throw error;
    }
  };
  const readRow = (sql: string): SqlRow | undefined => readConnection.run({ sql, args: [] })[0];
  return {
    moveLog: () =>
      ignoreLocked(() => {
        const file = readRow(READ_FILE_SIZE);
        if (isLogEmpty(readRow(MOVE_LOG))) requireCompleteFile(file);
      }),
    readHeader: (file) =>
      ignoreLocked(() => {
        const connection = connect(file);
        try {
          connection.run({ sql: "pragma schema_version", args: [] });
        } finally {
          connection.close();
        }
      }),
  };
}

/** Returns the delay in milliseconds before the next try for the write lock. */
export function getLockDelay(tries: number): number {
  return [1, 2, 5, 10][tries] ?? 20;
}

/** Creates the error of a batch that has waited for the write lock up to the limit. */
export function lockTimeoutError(database: string, cause: unknown): Error {
  return new Error(`Another connection has held the write lock of ${database} for ${LOCK_WAIT_MS / 1000} s.`, {
    cause,
  });
}

/** Calls `fn` once after `ms`. Returns a function that cancels that. */
export function systemTimer(ms: number, fn: () => void): () => void {
  const id = setTimeout(fn, ms);
  return () => clearTimeout(id);
}

const readMonotonicTime = (): number => performance.now();
const immediate = (globalThis as { setImmediate?: (fn: () => void) => unknown }).setImmediate;
const systemDefer: (fn: () => void) => void = immediate ? (fn) => void immediate(fn) : (fn) => void setTimeout(fn, 0);

interface QueuedBatch {
  readonly statements: readonly SqlStatement[];
  readonly bytes: number;
  readonly resolve: (rows: SqlRow[][]) => void;
  readonly reject: (error: unknown) => void;
  /** Its group was lost: it gets a commit of its own, and no third try. */
  runs_alone: boolean;
  /** The time that it has waited for the write lock of another connection. */
  waited_ms: number;
}

/**
 * The queue before the writer connection, which commits one group after another. On the event loop a group runs within one
 * macrotask, so nothing ever sees it half done.
 */
class SqliteBatchWriter {
  readonly #path: string;
  readonly #connection: SqliteConnection;
  /** Undefined in memory, where there is no log to move either. */
  readonly #watch: FileWatch | undefined;
  readonly #defer: (fn: () => void) => void;
  readonly #timer: (ms: number, fn: () => void) => () => void;
  /** Undefined where commits stay on the event loop. */
  #startThread: (() => Promise<WriterThread>) | undefined;
  #queue: QueuedBatch[] = [];
  /** A flush is due, or under way in the thread. */
  #scheduled = false;
  #lockTries = 0;
  #cancelCheckpoint: (() => void) | undefined;
  #slowCommitsLeft = SLOW_COMMIT_MARGIN;
  #starting: Promise<void> | undefined;
  #thread: WriterThread | undefined;

  /** Starts the thread at once if the options say `thread`. Until it runs, commits use `connection`, which the thread replaces. */
  constructor(path: string, connection: SqliteConnection, watch: FileWatch | undefined, options: SqliteOptions) {
    const { writer = "auto", thread, defer, timer } = options;
    this.#path = path;
    this.#connection = connection;
    this.#watch = watch;
    this.#defer = defer ?? systemDefer;
    this.#timer = timer ?? systemTimer;
    if (thread && writer !== "inline") this.#startThread = () => thread(path);
    if (writer === "thread") this.#recordSlowCommits(SLOW_COMMIT_MARGIN);
  }

  /**
   * Queues a batch, which shares a transaction with others of the same tick. Resolves with its rows once it is committed and
   * confirmed. Rejects with the error of SQLite, without an effect, or with DatabaseUnavailable. Throws at once for statements
   * that are too large or have invalid values.
   */
  batch(statements: readonly SqlStatement[]): Promise<SqlRow[][]> {
    const bytes = statements.reduce((sum, statement) => sum + measureStatement(statement), 0);
    return new Promise((resolve, reject) => {
      this.#queue.push({ statements, bytes, resolve, reject, runs_alone: false, waited_ms: 0 });
      this.#schedule();
    });
  }

  /**
   * Resolves when every queued batch has settled, and a thread that is starting has started or failed. Cancels the next
   * checkpoint.
   */
  async drain(): Promise<void> {
    if (this.#scheduled) await this.batch([]).catch(() => {});
    this.#cancelCheckpoint?.();
    this.#cancelCheckpoint = undefined;
    await this.#starting;
  }

  /** Closes the connection, or the thread with its connection. Call it after `drain`. */
  async close(): Promise<void> {
    if (this.#thread) await this.#thread.close();
    else this.#connection.close();
  }

  /** Schedules the next group, unless one is scheduled or no batch waits. */
  #schedule(): void {
    if (this.#scheduled || this.#queue.length === 0) return;
    this.#scheduled = true;
    this.#defer(() => this.#flush());
  }

  /**
   * Takes the next group of batches from the queue and commits it, here or in the thread; then settles it and schedules the next
   * one. Does not check whether a commit is under way: call it only when the last one has ended. Without queued batches it commits
   * an empty group. Commits that are slow too often start the thread.
   */
  #flush(): void {
    const group = this.#takeGroup();
    const batches = group.map(({ statements }) => statements);
    const thread = this.#thread;
    this.#attempt(group, () => {
      this.#watch?.requireIntactLog();
      if (!thread) {
        const committed = commitGroup(this.#connection, batches, readMonotonicTime);
        this.#recordSlowCommits(
          committed.commit_ms >= SLOW_COMMIT_MS + SLOW_COMMIT_MS_PER_BATCH * group.length ? 1 : -1,
        );
        return this.#settle(group, committed);
      }
      thread.commit(batches).then(
        (committed) => this.#attempt(group, () => this.#settle(group, committed)),
        (error) =>
          this.#attempt(group, () => {
            throw error;
          }),
      );
      return false;
    });
  }

  /**
   * Runs `work`, which returns false while the group is under way and throws when nothing of the group was committed. Then
   * schedules the next group. A locked database puts the group back in the queue; other errors reject the group or run it again.
   */
  #attempt(group: readonly QueuedBatch[], work: () => boolean): void {
    try {
      if (!work()) return;
      this.#lockTries = 0;
      this.#scheduleCheckpoint();
    } catch (error) {
      if (isLocked(error)) {
        this.#queue.unshift(...group);
        this.#waitForLock(error);
        return;
      }
      this.#rejectOrRetry(group, error);
    }
    this.#scheduled = false;
    this.#schedule();
  }

  /**
   * Rejects the only batch of a group, or queues several again to run one by one, because the error may be of one of them. If the
   * effect is unknown, all are rejected.
   */
  #rejectOrRetry(group: readonly QueuedBatch[], error: unknown): void {
    const [only] = group;
    if (only && group.length === 1) only.reject(this.#watch?.toWriteError(error, only.bytes) ?? error);
    else if (error instanceof DatabaseUnavailable && error.unknown) for (const batch of group) batch.reject(error);
    else {
      for (const batch of group) batch.runs_alone = true;
      this.#queue.unshift(...group);
    }
  }

  /**
   * Settles each batch of a group with its rows or error, later if one is large, and returns true. Throws, and settles
   * none, if the commit went to files that are gone or cut.
   */
  #settle(group: readonly QueuedBatch[], { results }: GroupResult): true {
    this.#watch?.confirmCommit();
    const settle = (): void => {
      for (const [i, { resolve, reject }] of group.entries()) {
        const result = results[i] as (typeof results)[number];
        if ("error" in result) reject(result.error);
        else resolve(result.rows);
      }
    };
    // The callers of a large write take long too: other calls go first.
    if (group.some(({ bytes }) => bytes > LARGE_WRITE_BYTES)) this.#defer(settle);
    else settle();
    return true;
  }

  /**
   * Counts slow commits and fast ones against each other, and starts the thread, once, when too many were slow. The
   * thread then replaces the connection. Until it is there, commits stay on the event loop; if it cannot be started, a
   * warning is printed and they stay there.
   */
  #recordSlowCommits(commits: number): void {
    if (!this.#startThread) return;
    this.#slowCommitsLeft = Math.min(SLOW_COMMIT_MARGIN, this.#slowCommitsLeft - commits);
    if (this.#slowCommitsLeft > 0) return;
    this.#starting = this.#startThread().then(
      (thread) => {
        this.#thread = thread;
        // It is idle: a group on it runs within one macrotask.
        this.#connection.close();
      },
      (error: Error) => {
        const reason = error.cause ?? error;
        console.warn(
          `greenroom: commits to ${this.#path} stay on the event loop, no thread could be started: ${reason}`,
        );
      },
    );
    this.#startThread = undefined;
  }

  /**
   * Removes and returns the batches of the next transaction: as many as its limits allow, at least one, and one that runs alone
   * by itself.
   */
  #takeGroup(): QueuedBatch[] {
    let bytes = 0;
    let count = 0;
    for (const batch of this.#queue) {
      bytes += batch.bytes;
      if (count > 0 && (batch.runs_alone || count === MAX_GROUP_BATCHES || bytes > MAX_GROUP_BYTES)) break;
      count += 1;
      if (batch.runs_alone) break;
    }
    return this.#queue.splice(0, count);
  }

  /**
   * Schedules the next try after a growing delay: waiting inside SQLite would freeze the event loop. Rejects batches
   * that have waited too long; if no others are left, schedules nothing.
   */
  #waitForLock(error: unknown): void {
    const waiting = this.#queue;
    this.#queue = waiting.filter((batch) => batch.waited_ms < LOCK_WAIT_MS);
    for (const batch of waiting) {
      if (batch.waited_ms >= LOCK_WAIT_MS) batch.reject(lockTimeoutError(`the database ${this.#path}`, error));
    }
    if (this.#queue.length === 0) {
      this.#scheduled = false;
      return;
    }
    const delay = getLockDelay(this.#lockTries);
    this.#lockTries += 1;
    for (const batch of this.#queue) batch.waited_ms += delay;
    this.#timer(delay, () => this.#flush());
  }

  /**
   * Schedules a checkpoint, unless one is due: it moves the log into the database between requests, so that commits do not have
   * to. It is put off while batches wait, and its errors are ignored.
   */
  #scheduleCheckpoint(): void {
    if (!this.#watch || this.#cancelCheckpoint) return;
    this.#cancelCheckpoint = this.#timer(CHECKPOINT_DELAY_MS, () => {
      this.#cancelCheckpoint = undefined;
      if (this.#queue.length > 0) return this.#scheduleCheckpoint();
      try {
        this.#watch?.requireIntactLog();
        // The log keeps everything that was committed: after a failure, the checkpoint after the next commit tries again.
        if (this.#thread) this.#thread.run(MOVE_LOG).catch(() => {});
        else this.#connection.run({ sql: MOVE_LOG, args: [] });
      } catch {}
    });
  }
}
