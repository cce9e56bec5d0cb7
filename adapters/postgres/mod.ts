/**
 * Postgres with the package `pg`, or with the host's pool. Any number of processes share one database.
 * @module
 */
import type { Storage } from "../../lib/storage/mod.ts";
import type { SqlDriver, SqlRow, SqlStatement } from "../sql/driver.ts";
import { sqlStorage } from "../sql/mod.ts";
import { hostSource, ownSource, type PostgresListener, type PostgresPool, type Session } from "./connection.ts";
import { type Fault, faultOf, isForgotten, isMarkless } from "./errors.ts";
import { beginText, commitText, type Mark, markStatement, marksText, outcomeText, tokenText } from "./locks.ts";
import { addressOf } from "./place.ts";
import { dispose, postgresSignals } from "./signals.ts";
import { type Bound, bind, lastOf, rowsOf } from "./values.ts";

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
   * Keeps statements prepared on their sessions, and sends the statements of a batch without waiting for each answer. Default:
   * true without `direct_url`, which means that a pooler may switch sessions.
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
/** Time limit for a database that does not answer, and for the outcome of a commit. */
const ANSWER_MS = 5_000;
const OUTCOME_MS = 15_000;
/** Batches without lock keys may take long: a migration step can read a whole table. */
const LONG_BATCH_MS = 15 * 60_000;

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

/** What this driver knows of the server. Before the first answer and the first commit, an error means wrong options. */
interface Seen {
  answered: boolean;
  written: boolean;
  /** The `direct_url` has worked. */
  direct: boolean;
}

type WithSession = <Result>(work: (session: Session) => Promise<Result>) => Promise<Result>;

interface Context {
  readonly given: PostgresOptions;
  readonly place: ReturnType<typeof addressOf>;
  readonly source: ReturnType<typeof hostSource>;
  readonly seen: Seen;
  readonly marks: Marks;
  readonly withSession: WithSession;
  now(): number;
  wait(ms: number): Promise<void>;
  isClosing(): boolean;
}

function sessions(source: ReturnType<typeof hostSource>, seen: Seen): WithSession {
  return async (work) => {
    const session = await source.session();
    try {
      const result = await work(session);
      seen.answered = true;
      session.end(false);
      return result;
    } catch (error) {
      await giveUp(session, error);
      throw error;
    }
  };
}

/** Repeats work until it succeeds or waiting cannot help. A failed try has had no effect. */
function createRetries({
  given,
  place,
  source,
  seen,
  now,
  wait,
  withSession,
  isClosing,
}: Context): <Result>(work: () => Promise<Result>) => Promise<Result> {
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

  return async <Result>(work: () => Promise<Result>): Promise<Result> => {
    let until: number | undefined;
    let conflicts = 0;
    let markless = false;
    for (let tries = 1; ; tries += 1) {
      try {
        if (!seen.answered) await checkDirect();
        if (markless) await withSession((session) => session.run({ text: marksText }));
        return await work();
      } catch (error) {
        const fault = faultOf(error);
        if (isMarkless(error) && !markless) {
          markless = true;
          continue;
        }
        if (fault === "statement") throw place.explained(error);
        if (fault === "conflict") {
          conflicts += 1;
          if (conflicts === QUICK_TRIES) throw error;
          await wait(5 * 2 ** conflicts);
          continue;
        }
        if (isForgotten(error)) source.forget();
        const start = fault === "read_only" ? !seen.written : !seen.answered;
        if (start && fault !== "connection") throw place.refused(error);
        until ??= now() + ANSWER_MS;
        if (isClosing() || now() >= until) throw start ? place.refused(error) : place.unavailable(error);
        await wait(Math.min(25 * 2 ** tries, 500));
      }
    }
  };
}

function createWriter({
  place,
  source,
  seen,
  marks,
  now,
  wait,
  withSession,
}: Context): (statements: readonly Bound[], lock_keys: readonly string[] | undefined) => Promise<SqlRow[][]> {
  /** Whether a transaction committed whose COMMIT was not answered. Waits until the server has ended it. */
  const tookEffect = async (mark: Mark): Promise<boolean> => {
    const until = now() + OUTCOME_MS;
    for (let tries = 1; ; tries += 1) {
      const token = await withSession(async (session) => {
        await session.run({ text: outcomeText(mark) });
        const [row] = rowsOf(lastOf(await session.run({ text: tokenText(mark) })));
        await session.run({ text: "rollback" });
        return row?.token ?? null;
      }).catch((error: unknown) => {
        if (faultOf(error) === "statement" || now() >= until) throw place.unavailable(error, true);
      });
      if (token !== undefined) return token === mark.token;
      await wait(Math.min(25 * 2 ** tries, 500));
    }
  };

  return async (statements: readonly Bound[], lock_keys: readonly string[] | undefined): Promise<SqlRow[][]> => {
    const session = await source.session();
    const mark = marks.take();
    const limit_ms = lock_keys === undefined ? LONG_BATCH_MS : undefined;
    let results: SqlRow[][];
    try {
      const texts = [{ text: beginText(lock_keys, mark) }, ...statements];
      const answers = session.pipelined
        ? allOf(texts.map((text) => session.run(text, limit_ms)))
        : inOrder(texts, (text) => session.run(text, limit_ms));
      results = (await answers).slice(1).map((result) => rowsOf(lastOf(result)));
      seen.answered = true;
    } catch (error) {
      if (!(await giveUp(session, error))) marks.giveBack(mark);
      throw error;
    }
    try {
      // If the mark cannot be written, COMMIT rolls back.
      const commit = session.pipelined ? [markStatement(mark), { text: "commit" }] : [{ text: commitText(mark) }];
      await allOf(commit.map((statement) => session.run(statement)));
    } catch (error) {
      await giveUp(session, error);
      if (!isOver(faultOf(error)) || !(await tookEffect(mark))) throw error;
      seen.written = true;
      return results;
    }
    seen.written = true;
    session.end(false);
    marks.giveBack(mark);
    return results;
  };
}

/**
 * The driver of `postgres`. A batch is one transaction in READ COMMITTED. With the driver's own pool it takes two round trips, else
 * two plus one per statement. The server ends a transaction that waits five seconds for this process, and the driver runs it again.
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
  const source =
    "pool" in given
      ? hostSource(given.pool, given.listen, { prepare: given.prepare ?? false, timer })
      : ownSource({
          url: given.url,
          direct_url: given.direct_url,
          size: given.pool_size ?? 10,
          prepare: given.prepare ?? given.direct_url === undefined,
          timer,
        });
  const signals = source.listener && postgresSignals({ open: source.listener, now, timer: given.timer ?? looseTimer });
  const answering = new Set<Promise<unknown>>();
  let closing: Promise<void> | undefined;
  const seen: Seen = { answered: false, written: false, direct: false };
  const marks = new Marks(`${random().toString(36).slice(2)}.${random().toString(36).slice(2)}`);

  const wait = (ms: number): Promise<void> => new Promise((resolve) => void timer(ms * (0.5 + random() / 2), resolve));

  const session = sessions(source, seen);
  const context: Context = {
    given,
    place,
    source,
    seen,
    marks,
    now,
    wait,
    withSession: session,
    isClosing: () => closing !== undefined,
  };
  const patiently = createRetries(context);
  const write = createWriter(context);

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
      return await answer(async () => (bound.length === 0 ? [] : await patiently(() => write(bound, lock_keys))));
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

/** The session cannot be used after this fault. */
const isOver = (fault: Fault): boolean => fault !== "statement" && fault !== "conflict";

/** Ends a failed session. True if the server must end it, and perhaps its transaction. */
async function giveUp(session: Session, error: unknown): Promise<boolean> {
  const over =
    isOver(faultOf(error)) ||
    (await session.run({ text: "rollback" }).then(
      () => false,
      () => true,
    ));
  session.end(over);
  return over;
}

/** The slots of one driver; no other driver uses them. */
class Marks {
  readonly #driver: string;
  #made = 0;
  #tokens = 0;
  readonly #free: string[] = [];

  constructor(driver: string) {
    this.#driver = driver;
  }

  take(): Mark {
    this.#tokens += 1;
    const slot = this.#free.pop() ?? `${this.#driver}.${this.#made++}`;
    return { slot, token: this.#tokens };
  }

  /** Not after an unknown outcome: the next transaction in the slot would wait for this one. */
  giveBack({ slot }: Mark): void {
    this.#free.push(slot);
  }
}

async function inOrder<Item, Result>(items: readonly Item[], work: (item: Item) => Promise<Result>): Promise<Result[]> {
  const results: Result[] = [];
  for (const item of items) results.push(await work(item));
  return results;
}

/** Throws the first error in order: later errors say only that the transaction has failed. */
async function allOf<Result>(works: readonly Promise<Result>[]): Promise<Result[]> {
  const results = await Promise.allSettled(works);
  return results.map((result) => {
    if (result.status === "rejected") throw result.reason;
    return result.value;
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
