/**
 * libSQL by `@libsql/client`: a file, memory, a server (sqld, Turso), or a local replica of a server.
 * @module
 */
import type { Client, ResultSet, Transaction } from "@libsql/client";
import type { Storage } from "../../lib/storage/mod.ts";
import {
  DatabaseUnavailable,
  measureStatement,
  type SqlDriver,
  type SqlRow,
  type SqlStatement,
  type SqlValue,
} from "../sql/driver.ts";
import { sqlStorage } from "../sql/mod.ts";
import { isLocked, LOCK_WAIT_MS, READ_FILE_SIZE, toLockPath, workerLockError } from "../sqlite/file.ts";
import { explainDiskFull } from "../sqlite/file-watch.ts";
import { getLockDelay, lockTimeoutError } from "../sqlite/writer.ts";
import {
  configure,
  explainError,
  isInMemory,
  type LibsqlAddress,
  type LibsqlClients,
  type LibsqlOptions,
  loadPackage,
  openClients,
  parseAddress,
  toFilePath,
  toRows,
} from "./connect.ts";

export type * from "../../lib/storage/types.ts";
export type { SqlDriver, SqlRow, SqlStatement, SqlValue } from "../sql/driver.ts";
export type { LibsqlOptions } from "./connect.ts";

/** The error texts of Node and Bun for a failed connection. Deno also uses them for a request that it has sent once before. */
const NOT_SENT_PATTERN = /ECONNREFUSED|ConnectionRefused|Unable to connect/;

/**
 * A Storage in a libSQL database, given by options or URL. Creates a missing file and its folder. Completed calls survive a
 * crash and a power failure; with a server, the server decides that. With a file, one process at a time executes runs and holds
 * a lock on `<file>.worker`; with a server, processes share the runs. Throws ConfigError for invalid options. If the database
 * cannot be used, the first call rejects. No error contains a token.
 *
 * @example
 * ```ts
 * import { libsql } from "greenroom/libsql";
 *
 * const storage = libsql({ url: "libsql://agents.example.com", authToken: "…" });
 * ```
 */
export function libsql(options: LibsqlOptions | string): Storage {
  return sqlStorage(libsqlDriver(options));
}

/**
 * Creates the driver of `libsql`, which connects at first use. A batch takes one round trip to a server, and batches
 * run one at a time. Files, memory and replicas read text only up to U+0000, so the driver refuses such text there.
 * Throws ConfigError for invalid options.
 *
 * @example
 * ```ts
 * import { libsqlDriver } from "greenroom/libsql";
 * import { sqlStorage } from "greenroom/sql";
 *
 * const storage = sqlStorage(libsqlDriver("file:agents.db"));
 * ```
 */
export function libsqlDriver(options: LibsqlOptions | string): SqlDriver {
  const address = parseAddress(typeof options === "string" ? { url: options } : options);
  const { isLocal } = address;
  const retry = createLockRetry(address);
  const replica = createReplica(address, retry);
  const activeCalls = new Set<Promise<unknown>>();
  let opening: Promise<LibsqlClients> | undefined;
  let closing: Promise<void> | undefined;

  /** Opens the clients at the first call and shares them. After a failure, the next call opens again. */
  const clients = async (): Promise<LibsqlClients> => {
    opening ??= retry(() => openClients(address)).catch((error: unknown) => {
      opening = undefined;
      // The message names what to check, which an outage later does not need.
      throw error instanceof DatabaseUnavailable ? new Error(error.message, { cause: error.cause }) : error;
    });
    return await opening;
  };

  const workerLock = createWorkerLock(clients);

  /** Runs the work and keeps it in the set that `close` waits for. Throws once the driver is closed. */
  const trackCall = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    if (closing) throw new Error(`The database ${address.displayName} is closed.`);
    const call = work();
    activeCalls.add(call);
    try {
      return await call;
    } finally {
      activeCalls.delete(call);
    }
  };

  const write = createWriter(address, clients, retry, replica.written);
  const serialize = createQueue();

  /** Resolves with the time of the server in milliseconds. */
  const readServerTime = async (): Promise<number> => {
    const { writing } = await clients();
    const [row] = toRows(await retry(() => writing.execute(SELECT_TIME)));
    return Number(row?.now);
  };

  return {
    dialect: "sqlite",
    ...(isLocal
      ? { acquireWorkerLock: () => trackCall(workerLock.acquireLock), single_process: !isInMemory(address.file ?? "") }
      : { multi_process: true, now: () => trackCall(readServerTime) }),
    async batch(statements) {
      const bound = statements.map((statement) => bind(address, statement));
      try {
        return await trackCall(() => serialize(() => write(bound)));
      } catch (error) {
        throw toBatchError(address, error, statements);
      }
    },
    async read(statement) {
      const bound = bind(address, statement);
      return await trackCall(async () => {
        const openedClients = await clients();
        await replica.caughtUp(openedClients);
        return toRows(await retry(() => openedClients.reading.execute(bound)));
      });
    },
    ...(address.server &&
      address.file !== undefined && {
        refresh: replica.written,
      }),
    close() {
      closing ??= Promise.allSettled(activeCalls).then(async () => {
        const openedClients = await opening?.catch(() => undefined);
        if (openedClients) await closeClients(openedClients, isLocal, workerLock.release);
      });
      return closing;
    },
  };
}

type Retry = <Result>(work: (tries: number) => Promise<Result>) => Promise<Result>;

/**
 * Returns the error to report for a batch that failed: that the disk is full, if a local file has no room for the
 * batch; else the same error.
 */
function toBatchError({ isLocal, file }: LibsqlAddress, error: unknown, statements: readonly SqlStatement[]): unknown {
  if (!isLocal || file === undefined || isInMemory(file)) return error;
  const bytes = statements.reduce((sum, statement) => sum + measureStatement(statement), 0);
  return explainDiskFull(toFilePath(file), error, bytes);
}

/**
 * Moves the log into the file, where it is local, releases the worker lock, and closes the clients. Errors of the first are
 * ignored.
 */
async function closeClients(
  { reading, writing }: LibsqlClients,
  isLocal: boolean,
  releaseLock: () => Promise<void>,
): Promise<void> {
  // The connection closes only when its last statement is garbage-collected. The file must be complete before that.
  if (isLocal) await writing.execute("pragma wal_checkpoint(truncate)").catch(() => {});
  await releaseLock();
  for (const client of new Set([reading, writing])) client.close();
}

/**
 * Returns a function that writes a batch in one request and transaction, and again while the database is locked. If the
 * connection fails, it rejects with DatabaseUnavailable, with `unknown` unless nothing was sent. Calls `onAnswer` after
 * each batch, also a failed one.
 */
function createWriter(
  { isLocal }: LibsqlAddress,
  clients: () => Promise<LibsqlClients>,
  retry: Retry,
  onAnswer: () => void,
): (statements: readonly BoundStatement[]) => Promise<SqlRow[][]> {
  /**
   * Runs the batch in a transaction and resolves with its results. If a local file is locked, also opens a new
   * connection, because the old one could commit nothing more, and rejects.
   */
  async function tryBatch(writing: Client, statements: readonly BoundStatement[], tries: number): Promise<ResultSet[]> {
    if (isLocal && tries > 0) await writing.executeMultiple("begin immediate; rollback");
    try {
      return await writing.batch([...statements], "write");
    } catch (error) {
      if (isLocal && isLocked(error)) {
        // The client leaves the refused `begin` open, and that connection could commit nothing more.
        await writing.reconnect();
        await configure(writing);
      }
      throw error;
    }
  }

  return async (statements) => {
    const { writing } = await clients();
    try {
      // A batch that found a lock was rolled back as a whole, so it can be sent again.
      return (await retry((tries) => tryBatch(writing, statements, tries))).map(toRows);
    } catch (error) {
      if (!(error instanceof DatabaseUnavailable) || NOT_SENT_PATTERN.test(error.message)) throw error;
      // One request has the whole batch, and may still arrive: no read tells whether it takes effect.
      throw new DatabaseUnavailable(error.message, { cause: error.cause, unknown: true });
    } finally {
      onAnswer();
    }
  };
}

/**
 * Returns a function that runs work one after another, in the order of the calls, and settles as the work does. The
 * database has one writer anyway: many waiting batches would delay a server by seconds, and one that waits for the lock
 * of a file must keep its position.
 */
function createQueue(): <Result>(work: () => Promise<Result>) => Promise<Result> {
  let last: Promise<unknown> = Promise.resolve();
  return async (work) => {
    const done = last.then(work);
    last = done.catch(() => {});
    return await done;
  };
}

/**
 * Returns a function that repeats work while the database is locked, with growing delays, because SQLite's own wait
 * would block the event loop. Rejects after `LOCK_WAIT_MS` of waiting, and at once with other errors, which it
 * explains. `work` gets the number of earlier tries.
 */
function createLockRetry(address: LibsqlAddress): Retry {
  const wait = (ms: number): Promise<void> => new Promise((resolve) => void address.timer(ms, resolve));
  return async (work) => {
    let waited_ms = 0;
    for (let tries = 0; ; tries += 1) {
      try {
        return await work(tries);
      } catch (error) {
        if (!isLocked(error)) throw explainError(address, error);
        if (waited_ms >= LOCK_WAIT_MS) throw lockTimeoutError(`the database ${address.displayName}`, error);
        waited_ms += getLockDelay(tries);
        await wait(getLockDelay(tries));
      }
    }
  };
}

/**
 * Creates what keeps the reads of a replica as fresh as the batches answered before them. `written` records a batch or
 * a change elsewhere; `caughtUp` waits until the replica has what was recorded before.
 */
function createReplica(
  { now, sync_interval_ms }: LibsqlAddress,
  retry: Retry,
): { written(): void; caughtUp(openedClients: LibsqlClients): Promise<void> } {
  // `written`: batches sent so far, plus requests to load those of other processes. `synced`: how many of them the file has.
  let written = 0;
  let synced = 0;
  let synced_at = Number.NEGATIVE_INFINITY;
  let syncing: Promise<void> | undefined;

  /**
   * Updates the replica from the server, which blocks the event loop, and records which batches it has now. First
   * checks that the server can be reached, because the update would block for seconds; rejects if it cannot.
   */
  const syncReplica = async ({ reading, writing }: LibsqlClients): Promise<void> => {
    const [batches, time] = [written, now()];
    // sync() blocks the event loop, for three seconds if the server cannot be reached.
    await retry(() => writing.execute("select 1"));
    await retry(() => reading.sync());
    [synced, synced_at] = [batches, time];
  };

  /**
   * Resolves when the replica has every batch answered before this call, and, once per sync interval, what other
   * processes have written. Callers share an update that runs. Resolves at once without a replica; rejects if an update
   * fails.
   */
  const caughtUp = async (openedClients: LibsqlClients): Promise<void> => {
    if (!openedClients.isReplica) return;
    if (now() - synced_at >= sync_interval_ms) written += 1;
    const requiredBatches = written;
    while (synced < requiredBatches) {
      syncing ??= syncReplica(openedClients).finally(() => {
        syncing = undefined;
      });
      await syncing;
    }
  };

  return {
    written: () => {
      written += 1;
    },
    caughtUp,
  };
}

/**
 * Creates the worker lock of a file: an open write transaction on `<file>.worker`, which is taken only when
 * `acquireLock` is called.
 */
function createWorkerLock(clients: () => Promise<LibsqlClients>): {
  acquireLock(): Promise<boolean>;
  release(): Promise<void>;
} {
  let lockClient: Client | undefined;
  let lock: Transaction | undefined;
  let locking: Promise<unknown> = Promise.resolve();

  /** Takes the worker lock; calls run one after another. Returns false if another process holds it. */
  const acquireLock = async (): Promise<boolean> => {
    const acquisition = locking.then(acquire, acquire);
    locking = acquisition;
    return await acquisition;
  };

  /**
   * Returns true if the lock is held now, also if it was before, and always in memory. Returns false if another process holds it;
   * does not wait. Throws if the file of the lock cannot be used.
   */
  const acquire = async (): Promise<boolean> => {
    const { reading, writing } = await clients();
    // In memory, one client reads and writes.
    if (reading === writing || lock) return true;
    const path = toLockPath(String((await reading.execute(READ_FILE_SIZE)).rows[0]?.file));
    try {
      const { createClient } = await loadPackage();
      lockClient ??= createClient({
        url: `file:${encodeURI(path).replace(/[?#]/g, encodeURIComponent)}`,
        concurrency: 1,
      });
      // A refused transaction would leave a connection behind; this does not.
      await lockClient.executeMultiple("begin immediate; rollback");
      lock = await lockClient.transaction("write");
      return true;
    } catch (error) {
      if (isLocked(error)) return false;
      throw workerLockError(path, error);
    }
  };

  return {
    acquireLock,
    /** Releases the lock and closes its connection. */
    async release() {
      await lock?.rollback();
      lockClient?.close();
    },
  };
}

const SELECT_TIME = "select cast(unixepoch('now', 'subsec') * 1000 as integer) as now";

type BoundStatement = { sql: string; args: (bigint | SqlValue)[] };

/**
 * Returns the statement as the client sends it: integers as bigint, invalid UTF-16 replaced. Throws a TypeError for
 * what is no SqlValue, and an Error for text with U+0000 in a file, memory or replica, which could not read it back.
 */
function bind(address: LibsqlAddress, { sql, args }: SqlStatement): BoundStatement {
  return {
    sql,
    args: args.map((value) => {
      // A number would be bound as REAL: 1.0 in expressions and in columns without a type.
      if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value);
      if (typeof value === "string") {
        if (address.file !== undefined && value.includes("\0")) {
          throw new Error("libSQL cannot read text with U+0000 from a file or memory, so nothing was stored.");
        }
        return value.toWellFormed();
      }
      if (value === null || value instanceof Uint8Array || Number.isFinite(value)) return value;
      throw new TypeError(`${typeof value === "number" ? value : `A ${typeof value}`} is not an SqlValue: ${sql}`);
    }),
  };
}
