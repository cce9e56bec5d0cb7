/** Sessions from a pool of the package `pg`, or from the host's pool. Each has one user at a time and a time limit. */
import { ConfigError } from "../../lib/errors.ts";
import { type OnResult, StatementGroup, type Submittable } from "./group.ts";
import type { Bound, PostgresResult } from "./values.ts";

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
type Statement = Bound | { readonly text: string; readonly values?: undefined };

/** Runs one statement after the other. */
export interface Session {
  run(statement: Statement, limit_ms?: number): Promise<PostgresResult | PostgresResult[]>;
  /** Sends all of them at once. Undefined where the client cannot. */
  readonly runAll?: (statements: readonly Bound[], limit_ms?: number) => Promise<PostgresResult[]>;
  /** Gives the session back, or closes it if it is `broken`. Call it once. */
  end(broken: boolean): void;
}

/** A source of sessions. */
export interface Source {
  session(): Promise<Session>;
  /** Its sessions have `runAll`. */
  readonly sendsAtOnce: boolean;
  /** Undefined if no session can listen. */
  readonly listener: (() => Promise<PostgresListener>) | undefined;
  /** Stops preparing statements. */
  forget(): void;
  close(): Promise<void>;
}

/** Time limit for connecting and for what is sent at once, locks included: a network may lose a connection silently. */
const CONNECT_MS = 5_000;
const STATEMENT_MS = 60_000;
/** Time limit for the host's pool, where other users may be waiting. */
const HOST_CONNECT_MS = 10_000;
/** The server finds out within seconds that this machine is gone, also in the middle of what is sent at once. */
const KEEPALIVE = "set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3";

export interface OwnPool {
  readonly url: string;
  readonly direct_url: string | undefined;
  readonly size: number;
  readonly prepare: boolean;
  readonly timer: Timer;
}

const CONNECTION = {
  connectionTimeoutMillis: CONNECT_MS,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
  fallback_application_name: "greenroom",
};

/** A pool of `pg`, and what makes a query whose values arrive as the text that the server sent. */
async function openPool(url: string, size: number): Promise<[PgPool, OpenQuery]> {
  const pg = await loadPg();
  const bytes = pg.types.getTypeParser(17);
  // Only these queries have them: parsers that are set on the package would change the queries of the host too.
  const types = { getTypeParser: (type: number) => (type === 17 ? bytes : same) };
  const pool = new pg.Pool({
    ...CONNECTION,
    connectionString: url,
    max: size,
    idleTimeoutMillis: 30_000,
    allowExitOnIdle: true,
    types,
  });
  // Errors of idle connections. The next query opens another one.
  pool.on("error", () => {});
  holdErrors(pool);
  return [pool, (query, callback) => new pg.Query({ ...query, types, queryMode: "extended" }, callback)];
}

/** Loads `pg` on first use. */
export function ownSource({ url, direct_url, size, prepare, timer }: OwnPool): Source {
  const names = new StatementNames();
  let preparing = prepare;
  let pool: Promise<[PgPool, OpenQuery]> | undefined;
  const keptAlive = new WeakSet<PgClient>();
  // The pool's own queue would count the wait for a session as connection time.
  const acquire = semaphore(size);
  return {
    sendsAtOnce: prepare,
    async session() {
      const leave = await acquire();
      try {
        pool ??= openPool(url, size);
        const [opened, openQuery] = await pool;
        const client = await opened.connect();
        const queryOf = ({ text, values }: Statement): PgQuery => {
          const name = preparing && values !== undefined ? names.of(text) : undefined;
          return { text, values, rowMode: "array", ...(name === undefined ? {} : { name }) };
        };
        const { run, runAll, end } = sessionOf(
          client,
          timer,
          (statement) => client.query(queryOf(statement)),
          (statements) =>
            new Promise((resolve, reject) => {
              const openers = statements.map(queryOf).map((query) => (done: OnResult) => openQuery(query, done));
              client.query(new StatementGroup(openers, (error, results) => (error ? reject(error) : resolve(results))));
            }),
        );
        if (preparing && !keptAlive.has(client)) {
          keptAlive.add(client);
          await Promise.resolve(run({ text: KEEPALIVE })).catch((error: unknown) => {
            end(true);
            throw error;
          });
        }
        return {
          run,
          ...(preparing && runAll ? { runAll } : {}),
          end(broken) {
            end(broken);
            leave();
          },
        };
      } catch (error) {
        leave();
        throw error;
      }
    },
    async listener() {
      const { Client } = await loadPg();
      const client = new Client({ ...CONNECTION, connectionString: direct_url ?? url });
      client.on("error", () => {});
      await client.connect();
      client.unref?.();
      return client;
    },
    forget() {
      preparing = false;
    },
    async close() {
      const [opened] = (await pool?.catch(() => undefined)) ?? [];
      await opened?.end();
    },
  };
}

/** Closes nothing of the host except the session that listens. */
export function hostSource(
  pool: PostgresPool,
  listen: (() => Promise<PostgresListener>) | undefined,
  options: { readonly prepare: boolean; readonly timer: Timer },
): Source {
  const names = new StatementNames();
  let preparing = options.prepare;
  holdErrors(pool as Partial<PgPool>);
  return {
    sendsAtOnce: false,
    async session() {
      const connecting = pool.connect();
      const client = await limited(connecting, HOST_CONNECT_MS, options.timer, "no connection from the pool").catch(
        (error: unknown) => {
          connecting.then((late) => late.release()).catch(() => {});
          throw error;
        },
      );
      return sessionOf(client as PgClient, options.timer, ({ text, values }) => {
        const name = preparing && values !== undefined ? names.of(text) : undefined;
        // Only clients of `pg` prepare statements. They accept an object.
        if (name !== undefined) return (client as PgClient).query({ text, values, name });
        return values === undefined ? client.query(text) : client.query(text, values);
      });
    },
    listener: listen,
    forget() {
      preparing = false;
    },
    async close() {},
  };
}

const listenedPools = new WeakSet<object>();

/** Before `connect()` resolves, a new connection of `pg` has no error listener: a server that stops then would end the whole process. */
function holdErrors(pool: Partial<PgPool>): void {
  if (listenedPools.has(pool)) return;
  listenedPools.add(pool);
  pool.on?.("connect", (client) => void client?.on?.("error", () => {}));
}

/** A connection in use. The next statement reports the loss of an idle connection. */
function sessionOf(
  client: Pick<PgClient, "release" | "on" | "off">,
  timer: Timer,
  query: (statement: Statement) => Promise<PgResult | PgResult[]>,
  queryAll?: (statements: readonly Statement[]) => Promise<PostgresResult[]>,
): Session {
  let fault: unknown;
  const lost = (error: unknown): void => {
    fault ??= error;
  };
  client.on?.("error", lost);
  const answer = async <Result>(work: Promise<Result>, limit_ms = STATEMENT_MS): Promise<Result> => {
    try {
      return await limited(work, limit_ms, timer, "no answer");
    } catch (error) {
      // Later errors say only that the client is closed.
      throw fault ?? error;
    }
  };
  return {
    run: (statement, limit_ms) => answer(query(statement), limit_ms),
    ...(queryAll && { runAll: (statements, limit_ms) => answer(queryAll(statements), limit_ms) }),
    end(broken) {
      client.off?.("error", lost);
      const closed = broken || fault !== undefined;
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

/** The result of the work, or an error after `ms`. */
export function limited<Result>(work: Promise<Result>, ms: number, timer: Timer, what: string): Promise<Result> {
  return new Promise((resolve, reject) => {
    const cancel = timer(ms, () => reject(new Error(`${what} within ${ms / 1_000} s`)));
    work.finally(cancel).then(resolve, reject);
  });
}

/** Lets `size` callers in at once. Call the result to leave. */
function semaphore(size: number): () => Promise<() => void> {
  let free = size;
  const waiting: (() => void)[] = [];
  const leave = (): void => {
    const next = waiting.shift();
    if (next) next();
    else free += 1;
  };
  return async () => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    return leave;
  };
}

/** Names for repeated statements, which each connection then keeps prepared. Limited, because there may be many texts. */
class StatementNames {
  readonly #names = new Map<string, string>();
  #seen = new Set<string>();

  of(text: string): string | undefined {
    const known = this.#names.get(text);
    if (known !== undefined || this.#names.size >= 256) return known;
    if (!this.#seen.has(text)) {
      if (this.#seen.size >= 1_000) this.#seen = new Set();
      this.#seen.add(text);
      return undefined;
    }
    this.#seen.delete(text);
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

const same = (text: string): string => text;

async function loadPg(): Promise<Pg> {
  try {
    return (await import("pg")).default as unknown as Pg;
  } catch (error) {
    // Deno appends its own advice below.
    const [problem] = (error as Error).message.split("\n");
    throw new ConfigError([`postgres: the package pg cannot be loaded (${problem}): npm install pg, or pass a pool`]);
  }
}
