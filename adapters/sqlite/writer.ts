/**
 * The SqlDriver of an embedded SQLite database: one writer connection behind a queue whose batches share commits, and one
 * connection for reads. It knows no SQLite package: bun.ts and node.ts each bring a SqliteConnection.
 */
import { type SqlDriver, type SqlRow, type SqlStatement, sizeOf } from "../sql/driver.ts";
import {
  checkWhole,
  FILE,
  hasMoved,
  isLocked,
  LOCK_WAIT_MS,
  MOVE_LOG,
  openFile,
  type SqliteConnection,
  takeWorkerLock,
} from "./file.ts";
import { FileWatch, type WatchedDatabase } from "./file-watch.ts";

/** What a simulation replaces; the defaults are the real ones. `Environment` of the core fits. */
export interface SqliteOptions {
  /** Calls `fn` in a later macrotask: batches that arrive until then share a commit. */
  readonly defer?: (fn: () => void) => void;
  /** Calls `fn` once after `ms`; the result cancels it. */
  readonly timer?: (ms: number, fn: () => void) => () => void;
}

const MAX_BATCHES = 64;
const MAX_BYTES = 4 * 1024 * 1024;
const LARGE_BYTES = 1024 * 1024;
const CHECKPOINT_AFTER_MS = 500;

/**
 * Opens the database at `path` (`:memory:` for one that lives as long as the driver) with the connections that `connect`
 * makes. Throws an Error that names the path and the remedy when it cannot be used.
 */
export function sqliteDriver(
  path: string,
  connect: (path: string) => SqliteConnection,
  options: SqliteOptions = {},
): SqlDriver {
  const inMemory = path === ":memory:";
  const writing = openFile(path, connect, ["pragma busy_timeout = 0"]);
  let reading = writing;
  if (!inMemory) {
    try {
      reading = openFile(path, connect, ["pragma query_only = on"]);
    } catch (error) {
      writing.close();
      throw error;
    }
  }
  const watch = inMemory ? undefined : new FileWatch(path, watched(writing, connect));
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
      sizeOf(statement);
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
      closed ??= writer.drain().then(() => {
        if (reading !== writing) reading.close();
        writing.close();
        watch?.close();
        // Last: the next holder of the lock must find no work of this process under way.
        lock?.close();
      });
      return closed;
    },
  };
}

function watched(writing: SqliteConnection, connect: (path: string) => SqliteConnection): WatchedDatabase {
  const unlessLocked = (work: () => void): void => {
    try {
      work();
    } catch (error) {
      if (!isLocked(error)) throw error;
    }
  };
  const row = (sql: string): SqlRow | undefined => writing.run({ sql, args: [] })[0];
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

/** The queue before the writer connection. A group runs within one macrotask, so nothing ever sees it half done. */
class Writer {
  readonly #path: string;
  readonly #connection: SqliteConnection;
  /** Undefined in memory, where there is no log to move either. */
  readonly #watch: FileWatch | undefined;
  readonly #defer: (fn: () => void) => void;
  readonly #timer: (ms: number, fn: () => void) => () => void;
  #queue: Batch[] = [];
  #scheduled = false;
  #lockTries = 0;
  #cancelCheckpoint: (() => void) | undefined;

  constructor(path: string, connection: SqliteConnection, watch: FileWatch | undefined, options: SqliteOptions) {
    this.#path = path;
    this.#connection = connection;
    this.#watch = watch;
    this.#defer = options.defer ?? systemDefer;
    this.#timer = options.timer ?? systemTimer;
  }

  batch(statements: readonly SqlStatement[]): Promise<SqlRow[][]> {
    const bytes = statements.reduce((sum, statement) => sum + sizeOf(statement), 0);
    return new Promise((resolve, reject) => {
      this.#queue.push({ statements, bytes, resolve, reject, ungrouped: false, waited_ms: 0 });
      this.#schedule();
    });
  }

  /** Resolves when every batch has been answered; no checkpoint is due after that. */
  async drain(): Promise<void> {
    if (this.#queue.length > 0) await this.batch([]).catch(() => {});
    this.#cancelCheckpoint?.();
    this.#cancelCheckpoint = undefined;
  }

  #schedule(): void {
    if (this.#scheduled || this.#queue.length === 0) return;
    this.#scheduled = true;
    this.#defer(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    const group = this.#takeGroup();
    try {
      this.#watch?.refuse();
      const answers = this.#commit(group);
      this.#watch?.confirmCommit();
      const settle = (): void => {
        for (const answer of answers) answer();
      };
      // The callers of a large write take long too: other calls go first.
      if (group.some(({ bytes }) => bytes > LARGE_BYTES)) this.#defer(settle);
      else settle();
      this.#lockTries = 0;
      this.#checkpointLater();
    } catch (error) {
      // Nothing of the group was committed.
      if (isLocked(error)) {
        this.#queue.unshift(...group);
        this.#waitForLock(error);
        return;
      }
      const [only] = group;
      if (only && group.length === 1) only.reject(this.#watch?.explainWrite(error, only.bytes) ?? error);
      else {
        for (const batch of group) batch.ungrouped = true;
        this.#queue.unshift(...group);
      }
    }
    this.#schedule();
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

  /** Commits the group and gives what to tell each caller. Throws when nothing of it was committed. */
  #commit(group: readonly Batch[]): (() => void)[] {
    this.#exec("begin immediate");
    try {
      const answers = group.map((batch) => (group.length === 1 ? this.#run(batch) : this.#runInSavepoint(batch)));
      this.#exec("commit");
      return answers;
    } catch (error) {
      if (this.#connection.inTransaction()) this.#exec("rollback");
      throw error;
    }
  }

  #run(batch: Batch): () => void {
    const rows = batch.statements.map((statement) => this.#connection.run(statement));
    return () => batch.resolve(rows);
  }

  #runInSavepoint(batch: Batch): () => void {
    this.#exec("savepoint batch");
    try {
      const answer = this.#run(batch);
      this.#exec("release batch");
      return answer;
    } catch (error) {
      // A full disk or an I/O error ends the transaction, with what the other batches wrote in it.
      if (!this.#connection.inTransaction()) throw error;
      this.#exec("rollback to batch");
      this.#exec("release batch");
      return () => batch.reject(error);
    }
  }

  /** Tries again later: waiting inside SQLite would freeze the event loop. */
  #waitForLock(error: unknown): void {
    const waited = this.#queue;
    this.#queue = waited.filter((batch) => batch.waited_ms < LOCK_WAIT_MS);
    for (const batch of waited) {
      if (batch.waited_ms >= LOCK_WAIT_MS) batch.reject(lockedTooLong(`the database ${this.#path}`, error));
    }
    if (this.#queue.length === 0) return;
    const delay = lockDelay(this.#lockTries);
    this.#lockTries += 1;
    for (const batch of this.#queue) batch.waited_ms += delay;
    this.#scheduled = true;
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
        this.#exec(MOVE_LOG);
      } catch {
        // The log keeps everything that was committed; the checkpoint after the next commit tries again.
      }
    });
  }

  #exec(sql: string): void {
    this.#connection.run({ sql, args: [] });
  }
}
