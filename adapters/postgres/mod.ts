/**
 * Postgres with the package `pg`, or with the host's pool. Any number of processes share one database.
 * @module
 */
import type { Storage } from "../../lib/storage/mod.ts";
import type { SqlDriver, SqlRow, SqlStatement } from "../sql/driver.ts";
import { sqlStorage } from "../sql/mod.ts";
import { parseAddress } from "./address.ts";
import {
  createPoolSource,
  createUrlSource,
  type PostgresListener,
  type PostgresPool,
  type SessionSource,
  type Timer,
} from "./connection.ts";
import { classifyError, type ErrorClass, isCommitTableMissing, isPreparedStatementLost } from "./errors.ts";
import { CREATE_COMMIT_TABLE } from "./locks.ts";
import { createPostgresSignals, dispose } from "./signals.ts";
import { bind, getLastResult, toRows } from "./values.ts";
import {
  CommitMarkers,
  createSharedWriter,
  createWithSession,
  createWriter,
  type DriverContext,
  type ServerState,
} from "./writer.ts";

export type * from "../../lib/storage/types.ts";
export type { SqlDriver, SqlRow, SqlStatement, SqlValue } from "../sql/driver.ts";
export type {
  PostgresConnection,
  PostgresListener,
  PostgresNotification,
  PostgresPool,
} from "./connection.ts";
export type { PostgresField, PostgresResult } from "./values.ts";

/** A database by URL. Needs the package `pg`. */
export interface PostgresUrlOptions extends PostgresEnvironment {
  /** `postgres://user:password@host:5432/database`. May be a pooler in transaction mode if `direct_url` is set. */
  readonly url: string;
  /** The same database without a pooler, for the one session that listens for signals. Default: `url`. */
  readonly direct_url?: string;
  /** The maximum number of sessions, without the one that listens; default 10. */
  readonly pool_size?: number;
  /**
   * Keeps statements prepared on their sessions, and sends the statements of a batch, or of several, at once. Default: true
   * without `direct_url`, which means that a pooler may switch sessions.
   */
  readonly prepare?: boolean;
}

/** A database by the host's pool, which stays open when the storage is closed. */
export interface PostgresPoolOptions extends PostgresEnvironment {
  readonly pool: PostgresPool;
  /** Opens a session that listens for signals; closed with the storage. Without it, changes by other processes are found by polling. */
  readonly listen?: () => Promise<PostgresListener>;
  /** The pool is a Pool of `pg` without a pooler behind it: statements are kept prepared. Default false. */
  readonly prepare?: boolean;
}

/** Replaced by simulations; the defaults are the real ones. `Environment` of the core fits. */
export interface PostgresEnvironment {
  /** Calls `fn` once after `ms`; the result cancels it. */
  readonly timer?: (ms: number, fn: () => void) => () => void;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
  /** A number in [0, 1). */
  readonly random?: () => number;
}

/** A database by URL or by pool. */
export type PostgresOptions = PostgresUrlOptions | PostgresPoolOptions;

const MAX_CONFLICT_TRIES = 5;
/** Time limit for a database that does not answer. */
const OUTAGE_TIMEOUT_MS = 5_000;

/**
 * A Storage in a Postgres database (13 or newer), given by options or URL. Throws ConfigError for invalid options. If the database
 * cannot be used, the first call rejects with ConfigError. No error contains a password. If the database becomes unreachable later,
 * calls reject with `DatabaseUnavailable` after five seconds, until it is back.
 *
 * @example
 * ```ts
 * import { postgres } from "greenroom/postgres";
 *
 * const storage = postgres({ url: "postgres://user:password@localhost:5432/agents", pool_size: 20 });
 * ```
 */
export function postgres(options: PostgresOptions | string): Storage {
  return sqlStorage(postgresDriver(options));
}

/**
 * Returns a function that repeats work until it succeeds or waiting cannot help, then throws the error for the caller. A failed
 * try has had no effect. Before the first answer of the server it also checks `direct_url`; it creates the table of commits when
 * it is missing.
 */
function createRetry(
  settings: PostgresOptions,
  context: DriverContext,
): <Result>(work: (tries: number) => Promise<Result>) => Promise<Result> {
  const { address, source, serverState, withSession } = context;
  /**
   * Checks `direct_url` by opening and closing a session, until it has succeeded once: if it is wrong, signals would only come
   * late, without an error.
   */
  const checkDirectUrl = async (): Promise<void> => {
    if (!("direct_url" in settings) || settings.direct_url === undefined || serverState.isDirectUrlChecked) return;
    try {
      dispose(await source.listener?.());
    } catch (error) {
      throw address.markDirectError(error);
    }
    serverState.isDirectUrlChecked = true;
  };

  return async <Result>(work: (tries: number) => Promise<Result>): Promise<Result> => {
    const failures = new FailedTries(context);
    for (let tries = 1; ; tries += 1) {
      try {
        if (!serverState.hasAnswered) await checkDirectUrl();
        if (failures.needsCommitTable) await withSession((session) => session.run({ text: CREATE_COMMIT_TABLE }));
        return await work(tries);
      } catch (error) {
        await failures.add(error, tries);
      }
    }
  };
}

/** The failed tries of one piece of work. */
class FailedTries {
  readonly #context: DriverContext;
  #until: number | undefined;
  #conflicts = 0;
  #needsCommitTable = false;

  constructor(context: DriverContext) {
    this.#context = context;
  }

  /** True once the table of marks was missing. */
  get needsCommitTable(): boolean {
    return this.#needsCommitTable;
  }

  /**
   * Resolves when the next try may start, after a delay if it needs one; a missing table of commits is noted for it
   * instead. Throws the error for the caller if no try can help: that of a statement, ConfigError or
   * DatabaseUnavailable. The loss of a prepared statement ends preparing.
   */
  async add(error: unknown, tries: number): Promise<void> {
    const { address, source } = this.#context;
    if (isCommitTableMissing(error) && !this.#needsCommitTable) {
      this.#needsCommitTable = true;
      return;
    }
    const errorClass = classifyError(error);
    if (errorClass === "statement") throw address.explainError(error);
    if (errorClass === "conflict") return await this.#waitForOthers(error);
    if (isPreparedStatementLost(error)) source.stopPreparing();
    await this.#waitForServer(error, errorClass, tries);
  }

  /**
   * Waits before the next try, because another transaction interfered; longer each time. Throws the error at the last
   * permitted conflict.
   */
  async #waitForOthers(error: unknown): Promise<void> {
    this.#conflicts += 1;
    if (this.#conflicts === MAX_CONFLICT_TRIES) throw error;
    await this.#context.wait(5 * 2 ** this.#conflicts);
  }

  /**
   * Waits before the next try, because the server cannot be reached or does not write. Throws DatabaseUnavailable when it was
   * away too long or the driver closes. At the start, that may be the fault of the options: throws ConfigError, at once if the
   * server has refused them.
   */
  async #waitForServer(error: unknown, errorClass: ErrorClass, tries: number): Promise<void> {
    const { address, serverState, now, wait, isClosing } = this.#context;
    const isStart = errorClass === "read_only" ? !serverState.hasCommitted : !serverState.hasAnswered;
    if (isStart && errorClass !== "connection") throw address.toConfigError(error);
    this.#until ??= now() + OUTAGE_TIMEOUT_MS;
    if (isClosing() || now() >= this.#until)
      throw isStart ? address.toConfigError(error) : address.toUnavailableError(error);
    await wait(Math.min(25 * 2 ** tries, 500));
  }
}

const SELECT_TIME = "select (extract(epoch from clock_timestamp()) * 1000)::bigint as now";

/**
 * Creates the driver of `postgres`, which connects at first use. A batch is one transaction in READ COMMITTED, or
 * shares one with batches of the same tick. With the driver's own pool it takes two round trips, else two plus one per
 * statement. The server ends a transaction that waits five seconds for this process, and the driver runs it again.
 * @example
 * ```ts
 * import { postgresDriver } from "greenroom/postgres";
 * import { sqlStorage } from "greenroom/sql";
 *
 * const storage = sqlStorage(postgresDriver("postgres://localhost/agents"));
 * ```
 */
export function postgresDriver(options: PostgresOptions | string): SqlDriver {
  const settings = typeof options === "string" ? { url: options } : options;
  const { now = Date.now, random = Math.random, timer = startTimer } = settings;
  const address = parseAddress(settings);
  const source = createSource(settings, timer);
  const signals =
    source.listener && createPostgresSignals({ open: source.listener, now, timer: settings.timer ?? startUnrefTimer });
  const activeCalls = new Set<Promise<unknown>>();
  let closing: Promise<void> | undefined;
  const serverState: ServerState = { hasAnswered: false, hasCommitted: false, isDirectUrlChecked: false };
  const commitMarkers = new CommitMarkers(`${random().toString(36).slice(2)}.${random().toString(36).slice(2)}`);

  const wait = (ms: number): Promise<void> => new Promise((resolve) => void timer(ms * (0.5 + random() / 2), resolve));

  const withSession = createWithSession(source, serverState);
  const context: DriverContext = {
    address,
    source,
    serverState,
    commitMarkers,
    now,
    wait,
    withSession,
    isClosing: () => closing !== undefined,
  };
  const retry = createRetry(settings, context);
  const write = createWriter(context);
  const writeShared = source.sendsAtOnce ? createSharedWriter(write) : write;

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

  const read = (statement: SqlStatement): Promise<SqlRow[]> => {
    const bound = bind(statement);
    return trackCall(() =>
      retry(() => withSession(async (session) => toRows(getLastResult(await session.run(bound))))),
    );
  };

  return {
    dialect: "postgres",
    multi_process: true,
    ...(signals ? { signals } : {}),
    async batch(statements, lock_keys) {
      const bound = statements.map(bind);
      return await trackCall(async () =>
        bound.length === 0 ? [] : await retry((tries) => (tries === 1 ? writeShared : write)(bound, lock_keys)),
      );
    },
    read: async (statement) => await read(statement),
    async now() {
      const [row] = await read({ sql: SELECT_TIME, args: [] });
      return Number(row?.now);
    },
    close() {
      closing ??= Promise.allSettled(activeCalls).then(async () => {
        await signals?.close();
        await source.close();
      });
      return closing;
    },
  };
}

/**
 * Creates the source of sessions from a pool or a URL. Statements are prepared if the options say so, by default only for a URL
 * without `direct_url`.
 */
function createSource(settings: PostgresOptions, timer: Timer): SessionSource {
  if ("pool" in settings)
    return createPoolSource(settings.pool, settings.listen, { prepare: settings.prepare ?? false, timer });
  return createUrlSource({
    url: settings.url,
    direct_url: settings.direct_url,
    size: settings.pool_size ?? 10,
    prepare: settings.prepare ?? settings.direct_url === undefined,
    timer,
  });
}

/** Calls `fn` once after `ms`. Returns a function that cancels that. */
function startTimer(ms: number, fn: () => void): () => void {
  const id = setTimeout(fn, ms);
  return () => clearTimeout(id);
}

/** Calls `fn` once after `ms`, and does not keep the process alive. Returns a function that cancels that. */
function startUnrefTimer(ms: number, fn: () => void): () => void {
  const id = setTimeout(fn, ms) as unknown;
  (id as { unref?: () => void }).unref?.();
  return () => clearTimeout(id as number);
}
