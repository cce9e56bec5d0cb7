/** Sessions from a pool of the package `pg`, or from the host's pool. Each has one user at a time and a time limit. */
import { ConfigError } from "../../lib/errors.ts";
import { type OnResult, StatementGroup, type Submittable } from "./group.ts";
import type { BoundStatement, PostgresResult } from "./values.ts";

/** The host's pool: a Pool of `pg`, or a small wrapper of another pool. */
export interface PostgresPool {
  connect(): Promise<PostgresConnection>;
}

/** A session of the host's pool. */
export interface PostgresConnection {
  /**
   * Without `values`, `text` may contain several statements: the result is that of the last one, or a list of all. Parameters are
   * $1, $2, … and receive text, null or bytes.
   */
  query(text: string, values?: (string | null | Uint8Array)[]): Promise<PostgresResult | PostgresResult[]>;
  /** Gives the connection back. `true`: it is broken and must be closed. */
  release(broken?: boolean): unknown;
}

/** A separate session that listens: a connected Client of `pg`. */
export interface PostgresListener {
  query(text: string, values?: string[]): Promise<unknown>;
  /** `notification` delivers `{ channel, payload }`; `error` and `end` mean that the session has ended. */
  on(event: "notification" | "error" | "end", listener: (message: PostgresNotification) => void): unknown;
  /** Closes it. */
  end?(): unknown;
  /** Closes a session that belongs to a pool. */
  release?(broken: boolean): unknown;
}

/** A message of `LISTEN`. */
export interface PostgresNotification {
  readonly channel?: string;
  readonly payload?: string | undefined;
}

export type Timer = (ms: number, fn: () => void) => () => void;

/** A text without values may hold several statements. */
type SessionStatement = BoundStatement | { readonly text: string; readonly values?: undefined };

/** Runs one statement after the other. */
export interface PostgresSession {
  run(statement: SessionStatement, limit_ms?: number): Promise<PostgresResult | PostgresResult[]>;
  /** Sends all of them at once. Undefined where the client cannot. */
  readonly runAll?: (statements: readonly BoundStatement[], limit_ms?: number) => Promise<PostgresResult[]>;
  /** Gives the session back, or closes it if it is `broken`. Call it once. */
  end(broken: boolean): void;
}

/** A source of sessions. */
export interface SessionSource {
  session(): Promise<PostgresSession>;
  /** Its sessions have `runAll`. */
  readonly sendsAtOnce: boolean;
  /** Undefined if no session can listen. */
  readonly listener: (() => Promise<PostgresListener>) | undefined;
  /** Stops preparing statements. */
  stopPreparing(): void;
  close(): Promise<void>;
}

/** Time limit for connecting and for what is sent at once, locks included: a network may lose a connection silently. */
const CONNECT_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 60_000;
/** Time limit for the host's pool, where other users may be waiting. */
const HOST_CONNECT_TIMEOUT_MS = 10_000;
/** The server finds out within seconds that this machine is gone, also in the middle of what is sent at once. */
const SET_KEEPALIVE = "set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3";

export interface UrlSourceOptions {
  readonly url: string;
  readonly direct_url: string | undefined;
  readonly size: number;
  readonly prepare: boolean;
  readonly timer: Timer;
}

const CONNECTION_OPTIONS = {
  connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
  fallback_application_name: "greenroom",
};

/**
 * Creates a pool of `pg`, and a function that makes a query whose values arrive as the text that the server sent. Connects to
 * nothing yet. Errors of idle connections are ignored, because the next query opens another one. Throws ConfigError without `pg`.
 */
async function openPool(url: string, size: number): Promise<[PgPool, OpenQuery]> {
  const pg = await loadPg();
  const bytes = pg.types.getTypeParser(17);
  // Only these queries have them: parsers that are set on the package would change the queries of the host too.
  const types = { getTypeParser: (type: number) => (type === 17 ? bytes : keepText) };
  const pool = new pg.Pool({
    ...CONNECTION_OPTIONS,
    connectionString: url,
    max: size,
    idleTimeoutMillis: 30_000,
    allowExitOnIdle: true,
    types,
  });
  // Errors of idle connections. The next query opens another one.
  pool.on("error", () => {});
  ignoreConnectionErrors(pool);
  return [pool, (query, callback) => new pg.Query({ ...query, types, queryMode: "extended" }, callback)];
}

/**
 * Creates the source of sessions for a URL. `pg` is loaded at the first session. At most `size` sessions are open; more callers
 * wait without a limit. A session must be ended, and a broken one is closed. The first use of a connection sets its keepalive, if
 * statements are prepared.
 */
export function createUrlSource({ url, direct_url, size, prepare, timer }: UrlSourceOptions): SessionSource {
  const names = new StatementNames();
  let preparing = prepare;
  let pool: Promise<[PgPool, OpenQuery]> | undefined;
  const clientsWithKeepalive = new WeakSet<PgClient>();
  // The pool's own queue would count the wait for a session as connection time.
  const acquire = createSemaphore(size);
  return {
    sendsAtOnce: prepare,
    async session() {
      const releaseSlot = await acquire();
      try {
        pool ??= openPool(url, size);
        const [openedPool, openQuery] = await pool;
        const client = await openedPool.connect();
        /** Returns the query, with a name to prepare it under if the text was used before. */
        const toQuery = ({ text, values }: SessionStatement): PgQuery => {
          const name = preparing && values !== undefined ? names.findName(text) : undefined;
          return { text, values, rowMode: "array", ...(name === undefined ? {} : { name }) };
        };
        const { run, runAll, end } = createSession(
          client,
          timer,
          (statement) => client.query(toQuery(statement)),
          (statements) =>
            new Promise((resolve, reject) => {
              const openers = statements.map(toQuery).map((query) => (done: OnResult) => openQuery(query, done));
              client.query(new StatementGroup(openers, (error, results) => (error ? reject(error) : resolve(results))));
            }),
        );
        if (preparing && !clientsWithKeepalive.has(client)) {
          clientsWithKeepalive.add(client);
          await Promise.resolve(run({ text: SET_KEEPALIVE })).catch((error: unknown) => {
            end(true);
            throw error;
          });
        }
        return {
          run,
          ...(preparing && runAll ? { runAll } : {}),
          end(broken) {
            end(broken);
            releaseSlot();
          },
        };
      } catch (error) {
        releaseSlot();
        throw error;
      }
    },
    async listener() {
      const { Client } = await loadPg();
      const client = new Client({ ...CONNECTION_OPTIONS, connectionString: direct_url ?? url });
      client.on("error", () => {});
      await client.connect();
      client.unref?.();
      return client;
    },
    stopPreparing() {
      preparing = false;
    },
    async close() {
      const [openedPool] = (await pool?.catch(() => undefined)) ?? [];
      await openedPool?.end();
    },
  };
}

/**
 * Creates the source of sessions from the host's pool. A session that takes too long rejects, and is returned to the pool when it
 * comes. Closes nothing of the host except the session that listens. Adds a listener for errors to the pool.
 */
export function createPoolSource(
  pool: PostgresPool,
  listen: (() => Promise<PostgresListener>) | undefined,
  options: { readonly prepare: boolean; readonly timer: Timer },
): SessionSource {
  const names = new StatementNames();
  let preparing = options.prepare;
  ignoreConnectionErrors(pool as Partial<PgPool>);
  return {
    sendsAtOnce: false,
    async session() {
      const connecting = pool.connect();
      const client = await withTimeLimit(
        connecting,
        HOST_CONNECT_TIMEOUT_MS,
        options.timer,
        "no connection from the pool",
      ).catch((error: unknown) => {
        connecting.then((connection) => connection.release()).catch(() => {});
        throw error;
      });
      return createSession(client as PgClient, options.timer, ({ text, values }) => {
        const name = preparing && values !== undefined ? names.findName(text) : undefined;
        // Only clients of `pg` prepare statements. They accept an object.
        if (name !== undefined) return (client as PgClient).query({ text, values, name });
        return values === undefined ? client.query(text) : client.query(text, values);
      });
    },
    listener: listen,
    stopPreparing() {
      preparing = false;
    },
    async close() {},
  };
}

const listenedPools = new WeakSet<object>();

/**
 * Adds a listener for errors to each new connection of the pool, once per pool. A new connection of `pg` has none
 * before `connect()` resolves, so a server that stops then would end the process.
 */
function ignoreConnectionErrors(pool: Partial<PgPool>): void {
  if (listenedPools.has(pool)) return;
  listenedPools.add(pool);
  pool.on?.("connect", (client) => void client?.on?.("error", () => {}));
}

/**
 * Wraps a connection in use. Each statement has a time limit and rejects after it; the statement itself goes on. After the loss
 * of an idle connection, the next statement rejects with that error. `end` gives the connection back, or closes it if it is
 * broken or lost.
 */
function createSession(
  client: Pick<PgClient, "release" | "on" | "off">,
  timer: Timer,
  query: (statement: SessionStatement) => Promise<PgResult | PgResult[]>,
  queryAll?: (statements: readonly SessionStatement[]) => Promise<PostgresResult[]>,
): PostgresSession {
  let lossError: unknown;
  const recordLoss = (error: unknown): void => {
    lossError ??= error;
  };
  client.on?.("error", recordLoss);
  /** Rejects after the limit. After the loss of the connection, rejects with the error of the loss. */
  const limitTime = async <Result>(work: Promise<Result>, limit_ms = STATEMENT_TIMEOUT_MS): Promise<Result> => {
    try {
      return await withTimeLimit(work, limit_ms, timer, "no answer");
    } catch (error) {
      // Later errors say only that the client is closed.
      throw lossError ?? error;
    }
  };
  return {
    run: (statement, limit_ms) => limitTime(query(statement), limit_ms),
    ...(queryAll && { runAll: (statements, limit_ms) => limitTime(queryAll(statements), limit_ms) }),
    end(broken) {
      client.off?.("error", recordLoss);
      const closed = broken || lossError !== undefined;
      // A pool handles errors of its idle connections. A closed connection still needs a listener.
      if (closed) client.on?.("error", () => {});
      try {
        Promise.resolve(client.release(closed)).catch(() => {});
      } catch {
        // The next user of the connection gets the error.
      }
    },
  };
}

/** Settles as `work`, or rejects after `ms` with an error that starts with `problem`. The work itself goes on. */
export function withTimeLimit<Result>(
  work: Promise<Result>,
  ms: number,
  timer: Timer,
  problem: string,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const cancel = timer(ms, () => reject(new Error(`${problem} within ${ms / 1_000} s`)));
    work.finally(cancel).then(resolve, reject);
  });
}

/**
 * Returns a function that resolves for `size` callers at once; the others wait in order. It resolves with a function
 * that lets the next caller in, which must be called once.
 */
function createSemaphore(size: number): () => Promise<() => void> {
  let freeSlots = size;
  const waiting: (() => void)[] = [];
  /** Lets the first waiting caller in, or frees the slot. */
  const releaseSlot = (): void => {
    const next = waiting.shift();
    if (next) next();
    else freeSlots += 1;
  };
  return async () => {
    if (freeSlots > 0) freeSlots -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    return releaseSlot;
  };
}

/** Names for repeated statements, which each connection then keeps prepared. Limited, because there may be many texts. */
class StatementNames {
  readonly #names = new Map<string, string>();
  #usedOnce = new Set<string>();

  /**
   * Returns the name under which to prepare a statement. Undefined at its first use, and for new statements after 256 names.
   * Remembers the text.
   */
  findName(text: string): string | undefined {
    const existing = this.#names.get(text);
    if (existing !== undefined || this.#names.size >= 256) return existing;
    if (!this.#usedOnce.has(text)) {
      if (this.#usedOnce.size >= 1_000) this.#usedOnce = new Set();
      this.#usedOnce.add(text);
      return undefined;
    }
    this.#usedOnce.delete(text);
    const name = `greenroom_${this.#names.size + 1}`;
    this.#names.set(text, name);
    return name;
  }
}

/** The parts of `pg` that are used here. Not every program has its types. */
interface PgResult extends PostgresResult {
  readonly command?: string;
}

interface PgQuery {
  readonly text: string;
  readonly values?: unknown[] | undefined;
  readonly name?: string;
  readonly rowMode?: "array";
}

interface PgClient extends PostgresListener {
  query(query: PgQuery | string, values?: unknown[]): Promise<PgResult | PgResult[]>;
  query(query: Submittable): unknown;
  on(event: string, listener: (value: never) => void): unknown;
  off(event: string, listener: (value: never) => void): unknown;
  release(broken?: boolean): unknown;
  connect(): Promise<unknown>;
  end(): Promise<unknown>;
  unref?(): void;
}

interface PgPool {
  connect(): Promise<PgClient>;
  on(event: "error" | "connect", listener: (value?: PgClient) => void): unknown;
  end(): Promise<unknown>;
}

type OpenQuery = (query: PgQuery, callback: OnResult) => Submittable;

interface Pg {
  readonly Query: new (query: object, callback: OnResult) => Submittable;
  readonly Pool: new (config: object) => PgPool;
  readonly Client: new (config: object) => PgClient;
  readonly types: { getTypeParser(type: number): (text: string) => unknown };
}

const keepText = (text: string): string => text;

/** Loads `pg`. Throws ConfigError with what to install if it cannot be loaded. */
async function loadPg(): Promise<Pg> {
  try {
    return (await import("pg")).default as unknown as Pg;
  } catch (error) {
    // Deno appends its own advice below.
    const [problem] = (error as Error).message.split("\n");
    throw new ConfigError([`postgres: the package pg cannot be loaded (${problem}): npm install pg, or pass a pool`]);
  }
}
