/** Where sessions come from: a pool of our own on the package `pg`, or the pool of a host. Each has one user at a time and a time limit. */
import { ConfigError } from "../../lib/errors.ts";
import type { Bound, PostgresResult } from "./values.ts";

/** What a host gives: the Pool of `pg` fits, others with a few lines around them. */
export interface PostgresPool {
  connect(): Promise<PostgresConnection>;
}

/** A session of the host's pool. */
export interface PostgresConnection {
  /**
   * Without `values`, `text` may hold several statements: the result is that of the last one, or a list of all. Parameters are $1, $2, …
   * and get text, null or bytes.
   */
  query(text: string, values?: (string | null | Uint8Array)[]): Promise<PostgresResult | PostgresResult[]>;
  /** Gives the connection back; with `true` it is of no use any more and has to be closed. */
  release(broken?: boolean): unknown;
}

/** A session of its own that listens: the Client of `pg` fits, once it is connected. */
export interface PostgresListener {
  query(text: string, values?: string[]): Promise<unknown>;
  /** `notification` brings `{ channel, payload }`; `error` and `end` say that the session is over. */
  on(event: "notification" | "error" | "end", listener: (message: PostgresNotification) => void): unknown;
  /** Closes it. */
  end?(): unknown;
  /** Closes it, where it is of a pool. */
  release?(broken: boolean): unknown;
}

/** A message of `LISTEN`. */
export interface PostgresNotification {
  readonly channel?: string;
  readonly payload?: string | undefined;
}

export type Timer = (ms: number, fn: () => void) => () => void;

/** Runs one statement after the other. */
export interface Session {
  run(statement: { readonly text: string } | Bound, limit_ms?: number): Promise<PostgresResult | PostgresResult[]>;
  /** Statements may be sent before the ones before them were answered. */
  readonly pipelined: boolean;
  /** Gives it back, or closes it when it is `broken`. To be called once. */
  end(broken: boolean): void;
}

/** Where sessions come from. */
export interface Source {
  session(): Promise<Session>;
  /** Undefined where no session can listen. */
  readonly listener: (() => Promise<PostgresListener>) | undefined;
  /** Stops preparing statements. */
  forget(): void;
  close(): Promise<void>;
}

/** How long connecting may take, and one statement, locks and all: the network may lose a connection without a word. */
const CONNECT_MS = 5_000;
const STATEMENT_MS = 60_000;
/** How long a host's pool may take, where others may be waiting. */
const HOST_CONNECT_MS = 10_000;

export interface OwnPool {
  readonly url: string;
  readonly direct_url: string | undefined;
  readonly size: number;
  readonly prepare: boolean;
  readonly timer: Timer;
}

/** Loads `pg` when it is first needed. */
export function ownSource({ url, direct_url, size, prepare, timer }: OwnPool): Source {
  const names = new StatementNames();
  let preparing = prepare;
  let pool: Promise<PgPool> | undefined;
  // The pool's own queue would count the wait for a session as time to connect.
  const turn = turns(size);
  const config = {
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    fallback_application_name: "greenroom",
  };
  const open = async (): Promise<PgPool> => {
    const pg = await loadPg();
    const types = pg.types;
    const made = new pg.Pool({
      ...config,
      connectionString: url,
      max: size,
      idleTimeoutMillis: 30_000,
      allowExitOnIdle: true,
      pipeline: prepare,
      // Of these queries alone: values come as the text that the server sent.
      types: { getTypeParser: (type: number) => (type === 17 ? types.getTypeParser(17) : same) },
    });
    // Of idle connections; the next one who connects gets another.
    made.on("error", () => {});
    holdErrors(made);
    return made;
  };
  return {
    async session() {
      const leave = await turn();
      try {
        pool ??= open();
        const client = await (await pool).connect();
        const { run, end } = sessionOf(client, timer, ({ text, values }) => {
          const name = preparing && values !== undefined ? names.of(text) : undefined;
          return client.query({ text, values, rowMode: "array", ...(name === undefined ? {} : { name }) });
        });
        return {
          run,
          pipelined: preparing && client.pipeline === true,
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
      const client = new Client({ ...config, connectionString: direct_url ?? url });
      client.on("error", () => {});
      await client.connect();
      client.unref?.();
      return client;
    },
    forget() {
      preparing = false;
    },
    async close() {
      await (await pool?.catch(() => undefined))?.end();
    },
  };
}

/** Closes nothing of the host's but the session that listens. */
export function hostSource(
  pool: PostgresPool,
  listen: (() => Promise<PostgresListener>) | undefined,
  options: { readonly prepare: boolean; readonly timer: Timer },
): Source {
  const names = new StatementNames();
  let preparing = options.prepare;
  holdErrors(pool as Partial<PgPool>);
  return {
    async session() {
      const connecting = pool.connect();
      const client = await limited(connecting, HOST_CONNECT_MS, options.timer, "no connection from the pool").catch(
        (error: unknown) => {
          connecting.then((late) => late.release()).catch(() => {});
          throw error;
        },
      );
      const session = sessionOf(client as PgClient, options.timer, ({ text, values }) => {
        const name = preparing && values !== undefined ? names.of(text) : undefined;
        // Only clients of `pg` are said to prepare, and those take an object too.
        if (name !== undefined) return (client as PgClient).query({ text, values, name });
        return values === undefined ? client.query(text) : client.query(text, values);
      });
      return { ...session, pipelined: false };
    },
    listener: listen,
    forget() {
      preparing = false;
    },
    async close() {},
  };
}

const listenedPools = new WeakSet<object>();

/**
 * A new connection of `pg` has no listener for errors until `connect()` has been waited for: a server that stops just then would end
 * the whole process.
 */
function holdErrors(pool: Partial<PgPool>): void {
  if (listenedPools.has(pool)) return;
  listenedPools.add(pool);
  pool.on?.("connect", (client) => void client?.on?.("error", () => {}));
}

/** A connection that is in use. That it is lost while nothing is asked of it is found out by the next statement. */
function sessionOf(
  client: Pick<PgClient, "release" | "on" | "off">,
  timer: Timer,
  query: (statement: Bound | { readonly text: string; readonly values?: undefined }) => Promise<PgResult | PgResult[]>,
): Pick<Session, "run" | "end"> {
  let fault: unknown;
  const lost = (error: unknown): void => {
    fault ??= error;
  };
  client.on?.("error", lost);
  return {
    async run(statement, limit_ms = STATEMENT_MS) {
      try {
        return await limited(query(statement), limit_ms, timer, "no answer");
      } catch (error) {
        // What comes after says only that the client is closed.
        throw fault ?? error;
      }
    },
    end(broken) {
      client.off?.("error", lost);
      const closed = broken || fault !== undefined;
      // A pool takes errors of its idle connections itself; one that leaves it still has to have a listener.
      if (closed) client.on?.("error", () => {});
      try {
        Promise.resolve(client.release(closed)).catch(() => {});
      } catch {
        // Whoever gives it out next will see.
      }
    },
  };
}

/** The work's result, or an error when it takes longer than `ms`. */
export function limited<Result>(work: Promise<Result>, ms: number, timer: Timer, what: string): Promise<Result> {
  return new Promise((resolve, reject) => {
    const cancel = timer(ms, () => reject(new Error(`${what} within ${ms / 1_000} s`)));
    work.finally(cancel).then(resolve, reject);
  });
}

/** Lets `size` in at once; the result of each turn ends it. */
function turns(size: number): () => Promise<() => void> {
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

/** Statements that come again have names, under which each connection keeps them prepared; bounded, as texts may be many. */
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

/** What is used of `pg`, whose types are not everybody's. */
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
  readonly pipeline?: boolean;
  query(query: PgQuery | string, values?: unknown[]): Promise<PgResult | PgResult[]>;
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

interface Pg {
  readonly Pool: new (config: object) => PgPool;
  readonly Client: new (config: object) => PgClient;
  readonly types: { getTypeParser(type: number): (text: string) => unknown };
}

const same = (text: string): string => text;

async function loadPg(): Promise<Pg> {
  try {
    return (await import("pg")).default as unknown as Pg;
  } catch (error) {
    // Deno adds advice of its own below.
    const [problem] = (error as Error).message.split("\n");
    throw new ConfigError([`postgres: the package pg cannot be loaded (${problem}): npm install pg, or give a pool`]);
  }
}
