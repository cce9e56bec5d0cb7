/**
 * Postgres with the package `pg`, or with the host's pool. Any number of processes share one database.
 * @module
 */
import type { Storage } from "../../lib/storage/mod.ts";
import type { SqlDriver, SqlRow, SqlStatement } from "../sql/driver.ts";
import { sqlStorage } from "../sql/mod.ts";
import {
  hostSource,
  ownSource,
  type PostgresListener,
  type PostgresPool,
  type Source,
  type Timer,
} from "./connection.ts";
import { type Fault, faultOf, isForgotten, isMarkless } from "./errors.ts";
import { marksText } from "./locks.ts";
import { addressOf } from "./place.ts";
import { dispose, postgresSignals } from "./signals.ts";
import { bind, lastOf, rowsOf } from "./values.ts";
import { type Context, createSharedWriter, createWriter, Marks, type Seen, sessions } from "./writer.ts";

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

const QUICK_TRIES = 5;
/** Time limit for a database that does not answer. */
const ANSWER_MS = 5_000;

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

/** Repeats work until it succeeds or waiting cannot help. A failed try has had no effect. */
function createRetries(
  given: PostgresOptions,
  context: Context,
): <Result>(work: (tries: number) => Promise<Result>) => Promise<Result> {
  const { place, source, seen, withSession } = context;
  /** Checks `direct_url`: if it is wrong, signals would only come late, without an error. */
  const checkDirect = async (): Promise<void> => {
    if (!("direct_url" in given) || given.direct_url === undefined || seen.direct) return;
    try {
      dispose(await source.listener?.());
    } catch (error) {
      throw place.ofDirect(error);
    }
    seen.direct = true;
  };

  return async <Result>(work: (tries: number) => Promise<Result>): Promise<Result> => {
    const failures = new Failures(context);
    for (let tries = 1; ; tries += 1) {
      try {
        if (!seen.answered) await checkDirect();
        if (failures.needMarks) await withSession((session) => session.run({ text: marksText }));
        return await work(tries);
      } catch (error) {
        await failures.add(error, tries);
      }
    }
  };
}

/** The failed tries of one piece of work. */
class Failures {
  readonly #context: Context;
  #until: number | undefined;
  #conflicts = 0;
  #needMarks = false;

  constructor(context: Context) {
    this.#context = context;
  }

  /** True once the table of marks was missing. */
  get needMarks(): boolean {
    return this.#needMarks;
  }

  /** Resolves when the next try may start. Throws the error for the caller where none can help. */
  async add(error: unknown, tries: number): Promise<void> {
    const { place, source } = this.#context;
    if (isMarkless(error) && !this.#needMarks) {
      this.#needMarks = true;
      return;
    }
    const fault = faultOf(error);
    if (fault === "statement") throw place.explained(error);
    if (fault === "conflict") return await this.#waitForOthers(error);
    if (isForgotten(error)) source.forget();
    await this.#waitForServer(error, fault, tries);
  }

  /** Another transaction interfered. */
  async #waitForOthers(error: unknown): Promise<void> {
    this.#conflicts += 1;
    if (this.#conflicts === QUICK_TRIES) throw error;
    await this.#context.wait(5 * 2 ** this.#conflicts);
  }

  /** The server cannot be reached, or does not write. At the start, that may be the fault of the options. */
  async #waitForServer(error: unknown, fault: Fault, tries: number): Promise<void> {
    const { place, seen, now, wait, isClosing } = this.#context;
    const isStart = fault === "read_only" ? !seen.written : !seen.answered;
    if (isStart && fault !== "connection") throw place.refused(error);
    this.#until ??= now() + ANSWER_MS;
    if (isClosing() || now() >= this.#until) throw isStart ? place.refused(error) : place.unavailable(error);
    await wait(Math.min(25 * 2 ** tries, 500));
  }
}

/**
 * The driver of `postgres`. A batch is one transaction in READ COMMITTED, or shares one with batches that came in the same tick. With
 * the driver's own pool it takes two round trips, else two plus one per statement. The server ends a transaction that waits five seconds for this process, and the driver runs it again.
 *
 * @example
 * ```ts
 * import { postgresDriver } from "greenroom/postgres";
 * import { sqlStorage } from "greenroom/sql";
 *
 * const storage = sqlStorage(postgresDriver("postgres://localhost/agents"));
 * ```
 */
export function postgresDriver(options: PostgresOptions | string): SqlDriver {
  const given = typeof options === "string" ? { url: options } : options;
  const now = given.now ?? Date.now;
  const random = given.random ?? Math.random;
  const timer = given.timer ?? heldTimer;
  const place = addressOf(given);
  const source = sourceOf(given, timer);
  const signals = source.listener && postgresSignals({ open: source.listener, now, timer: given.timer ?? looseTimer });
  const answering = new Set<Promise<unknown>>();
  let closing: Promise<void> | undefined;
  const seen: Seen = { answered: false, written: false, direct: false };
  const marks = new Marks(`${random().toString(36).slice(2)}.${random().toString(36).slice(2)}`);

  const wait = (ms: number): Promise<void> => new Promise((resolve) => void timer(ms * (0.5 + random() / 2), resolve));

  const session = sessions(source, seen);
  const context: Context = {
    place,
    source,
    seen,
    marks,
    now,
    wait,
    withSession: session,
    isClosing: () => closing !== undefined,
  };
  const patiently = createRetries(given, context);
  const write = createWriter(context);
  const writeFirst = source.sendsAtOnce ? createSharedWriter(write) : write;

  const answer = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    if (closing) throw new Error(`The database ${place.shown} is closed.`);
    const answering_now = work();
    answering.add(answering_now);
    try {
      return await answering_now;
    } finally {
      answering.delete(answering_now);
    }
  };

  const read = (statement: SqlStatement): Promise<SqlRow[]> => {
    const bound = bind(statement);
    return answer(() => patiently(() => session(async (session) => rowsOf(lastOf(await session.run(bound))))));
  };

  return {
    dialect: "postgres",
    multi_process: true,
    ...(signals ? { signals } : {}),
    async batch(statements, lock_keys) {
      const bound = statements.map(bind);
      return await answer(async () =>
        bound.length === 0 ? [] : await patiently((tries) => (tries === 1 ? writeFirst : write)(bound, lock_keys)),
      );
    },
    read: async (statement) => await read(statement),
    async now() {
      const [row] = await read({
        sql: "select (extract(epoch from clock_timestamp()) * 1000)::bigint as now",
        args: [],
      });
      return Number(row?.now);
    },
    close() {
      closing ??= Promise.allSettled(answering).then(async () => {
        await signals?.close();
        await source.close();
      });
      return closing;
    },
  };
}

function sourceOf(given: PostgresOptions, timer: Timer): Source {
  if ("pool" in given) return hostSource(given.pool, given.listen, { prepare: given.prepare ?? false, timer });
  return ownSource({
    url: given.url,
    direct_url: given.direct_url,
    size: given.pool_size ?? 10,
    prepare: given.prepare ?? given.direct_url === undefined,
    timer,
  });
}

function heldTimer(ms: number, fn: () => void): () => void {
  const id = setTimeout(fn, ms);
  return () => clearTimeout(id);
}

/** Does not keep the process alive. */
function looseTimer(ms: number, fn: () => void): () => void {
  const id = setTimeout(fn, ms) as unknown;
  (id as { unref?: () => void }).unref?.();
  return () => clearTimeout(id as number);
}
