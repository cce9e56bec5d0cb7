/** libSQL by `@libsql/client`: a file, memory, a server (sqld, Turso), or a local replica of a server. */
import { accessSync, constants, existsSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import type { Client, ResultSet, Transaction, Value } from "@libsql/client";
import { ConfigError } from "../../lib/errors.ts";
import type { Storage } from "../../lib/storage/mod.ts";
import type { SqlDriver, SqlRow, SqlStatement, SqlValue } from "../sql/driver.ts";
import { sqlStorage } from "../sql/mod.ts";
import {
  checkNotLost,
  checkWhole,
  FILE,
  hasMoved,
  isCut,
  isLocked,
  LOCK_WAIT_MS,
  lockOf,
  MOVE_LOG,
  unlockable,
  unusable,
} from "../sqlite/file.ts";
import { lockDelay, lockedTooLong, systemTimer } from "../sqlite/writer.ts";

/** Where a libSQL database is, and how to reach it. */
export interface LibsqlOptions {
  /** `file:agents.db`, `:memory:`, or a server: `libsql:`, `https:`, `http:`, `wss:`, `ws:`. */
  readonly url: string;
  /** What the server asks for. */
  readonly authToken?: string;
  /** The server of which the file at `url` becomes a replica: batches go to the server, reads to the file. */
  readonly syncUrl?: string;
  /**
   * How far a replica's reads may be behind the batches of other processes; default 1000. Its own are always seen, and readers that
   * come back to a stream after what another process has shown them lose and repeat nothing.
   */
  readonly sync_interval_ms?: number;
  /** Calls `fn` once after `ms`; for a simulation. */
  readonly timer?: (ms: number, fn: () => void) => () => void;
  /** Milliseconds since 1970; for a simulation. */
  readonly now?: () => number;
}

/**
 * A Storage in the libSQL database at `options`, or at the URL alone. A file is created with its folder when missing, and
 * what a verb has answered survives a crash and a power failure; on a server that is the server's promise. On a file one
 * process at a time executes runs, which holds a lock on `<file>.worker`; on a server processes share them. Throws ConfigError
 * for options that cannot be; a database that cannot be used is an Error of the first verb. Neither shows a token.
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
 * The driver below `libsql`. A batch takes one round trip to a server, one after the other. Where text is read only up to U+0000 (files, memory,
 * replicas), such text is refused.
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
  const place = placeOf(typeof options === "string" ? { url: options } : options);
  const { local, timer, now, sync_interval_ms } = place;
  const wait = (ms: number): Promise<void> => new Promise((resolve) => void timer(ms, resolve));
  const answering = new Set<Promise<unknown>>();
  let opening: Promise<Clients> | undefined;
  let closing: Promise<void> | undefined;
  let last: Promise<unknown> = Promise.resolve();
  // Of a replica: how many batches and demands to see those of others there were, and how many of them its file has.
  let written = 0;
  let synced = 0;
  let synced_at = Number.NEGATIVE_INFINITY;
  let syncing: Promise<void> | undefined;
  // Of a file: what asks for the worker's lock, and the transaction that holds it.
  let asking: Client | undefined;
  let lock: Transaction | undefined;
  let locking: Promise<unknown> = Promise.resolve();

  /** Opens at the first call, and again at the next one after that failed. */
  const clients = async (): Promise<Clients> => {
    opening ??= patiently(() => open(place)).catch((error: unknown) => {
      opening = undefined;
      throw error;
    });
    return await opening;
  };

  /** Waiting for another connection's lock inside SQLite would freeze the event loop. */
  const patiently = async <Result>(work: (tries: number) => Promise<Result>): Promise<Result> => {
    let waited_ms = 0;
    for (let tries = 0; ; tries += 1) {
      try {
        return await work(tries);
      } catch (error) {
        if (!isLocked(error)) throw explained(place, error);
        if (waited_ms >= LOCK_WAIT_MS) throw lockedTooLong(`the database ${place.shown}`, error);
        waited_ms += lockDelay(tries);
        await wait(lockDelay(tries));
      }
    }
  };

  const answer = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    if (closing) throw new Error(`The database ${place.shown} is closed.`);
    const answered = work();
    answering.add(answered);
    try {
      return await answered;
    } finally {
      answering.delete(answered);
    }
  };

  const write = async (statements: readonly BoundStatement[]): Promise<SqlRow[][]> => {
    const { writing } = await clients();
    const attempt = async (tries: number): Promise<ResultSet[]> => {
      if (local && tries > 0) await writing.executeMultiple("begin immediate; rollback");
      try {
        return await writing.batch([...statements], "write");
      } catch (error) {
        if (local && isLocked(error)) {
          // The client leaves the refused `begin` unfinished, and that connection could commit nothing more.
          await writing.reconnect();
          await configure(writing);
        }
        throw error;
      }
    };
    try {
      // A batch that met a lock has been rolled back as a whole: it may be sent again.
      return (await patiently(attempt)).map(rowsOf);
    } finally {
      // Also after an error: a lost connection leaves open whether the batch took effect.
      written += 1;
    }
  };

  /**
   * One batch after the other. There is one writer anyway; a server that has many waiting lets them wait for seconds, and
   * a batch that waits for a file's lock keeps its place.
   */
  const inTurn = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    const turn = last.then(work);
    last = turn.catch(() => {});
    return await turn;
  };

  const catchUp = async ({ reading, writing }: Clients): Promise<void> => {
    const [batches, time] = [written, now()];
    // The event loop stands still during sync(), three seconds when the server cannot be reached.
    await patiently(() => writing.execute("select 1"));
    await patiently(() => reading.sync());
    [synced, synced_at] = [batches, time];
  };

  /** Until a replica has every batch that had been answered when it was called, and those of others that are old enough. */
  const fresh = async (opened: Clients): Promise<void> => {
    if (!opened.replica) return;
    if (now() - synced_at >= sync_interval_ms) written += 1;
    const wanted = written;
    while (synced < wanted) {
      syncing ??= catchUp(opened).finally(() => {
        syncing = undefined;
      });
      await syncing;
    }
  };

  const takeLock = async (): Promise<boolean> => {
    const asked = locking.then(exclusive, exclusive);
    locking = asked;
    return await asked;
  };

  const exclusive = async (): Promise<boolean> => {
    const { reading, writing } = await clients();
    // In memory there is one client for both.
    if (reading === writing || lock) return true;
    const path = lockOf(String((await reading.execute(FILE)).rows[0]?.file));
    try {
      const { createClient } = await loadPackage();
      asking ??= createClient({ url: `file:${encodeURI(path).replace(/[?#]/g, encodeURIComponent)}`, concurrency: 1 });
      // Each refused transaction would leave a connection behind; this leaves nothing.
      await asking.executeMultiple("begin immediate; rollback");
      lock = await asking.transaction("write");
      return true;
    } catch (error) {
      if (isLocked(error)) return false;
      throw unlockable(path, error);
    }
  };

  const serverTime = async (): Promise<number> => {
    const { writing } = await clients();
    const [row] = rowsOf(await patiently(() => writing.execute(TIME)));
    return Number(row?.now);
  };

  return {
    dialect: "sqlite",
    ...(local
      ? { acquireWorkerLock: () => answer(takeLock), single_process: !inMemory(place.file ?? "") }
      : { multi_process: true, now: () => answer(serverTime) }),
    async batch(statements) {
      const bound = statements.map((statement) => bind(place, statement));
      return await answer(() => inTurn(() => write(bound)));
    },
    async read(statement) {
      const bound = bind(place, statement);
      return await answer(async () => {
        const opened = await clients();
        await fresh(opened);
        return rowsOf(await patiently(() => opened.reading.execute(bound)));
      });
    },
    ...(place.server &&
      place.file !== undefined && {
        refresh: () => {
          written += 1;
        },
      }),
    close() {
      closing ??= Promise.allSettled(answering).then(async () => {
        const opened = await opening?.catch(() => undefined);
        if (!opened) return;
        // The connection itself ends with its last statement's collection: the file is complete before that.
        if (local) await opened.writing.execute("pragma wal_checkpoint(truncate)").catch(() => {});
        await lock?.rollback();
        for (const client of new Set([opened.reading, opened.writing, asking])) client?.close();
      });
      return closing;
    },
  };
}

const TIME = "select cast(unixepoch('now', 'subsec') * 1000 as integer) as now";

interface Clients {
  readonly reading: Client;
  readonly writing: Client;
  readonly replica: boolean;
}

interface Address {
  readonly url: string;
  readonly authToken: string | undefined;
}

/** Where the database is, proven and without secrets where it is shown. */
interface Place extends Required<Pick<LibsqlOptions, "sync_interval_ms" | "timer" | "now">> {
  /** Undefined for a server. */
  readonly file: string | undefined;
  /** Undefined without one. */
  readonly server: Address | undefined;
  readonly local: boolean;
  readonly shown: string;
  /** The options that an Error about the server names. */
  readonly setting: string;
}

function placeOf({ url, authToken, syncUrl, ...options }: LibsqlOptions): Place {
  const file = url === ":memory:" || url.startsWith("file:") ? url : undefined;
  const setting = file === undefined ? "url" : "syncUrl";
  if (file === undefined && syncUrl !== undefined)
    throw new ConfigError(["libSQL: syncUrl needs a `file:` url beside it."]);
  if (file !== undefined && inMemory(file) && syncUrl !== undefined) {
    throw new ConfigError(["libSQL: a replica is a file; syncUrl cannot go with a url in memory."]);
  }
  const remote = file === undefined ? url : syncUrl;
  const server = remote === undefined ? undefined : addressOf(setting, remote, authToken);
  return {
    file,
    server,
    local: server === undefined,
    shown: server?.url ?? url,
    setting: file === undefined ? setting : "url and syncUrl",
    sync_interval_ms: options.sync_interval_ms ?? 1_000,
    timer: options.timer ?? systemTimer,
    now: options.now ?? Date.now,
  };
}

/** The URL and the token apart. The URL is not shown before it is known to hold no secret. */
function addressOf(setting: string, text: string, authToken: string | undefined): Address {
  if (!/^(?:libsql|https?|wss?):\/\/./.test(text) || !URL.canParse(text)) {
    throw new ConfigError([
      `libSQL: ${setting} is none of :memory:, file:…, libsql://…, https://…, http://…, wss://… and ws://…`,
    ]);
  }
  const url = new URL(text);
  if (url.username || url.password) {
    throw new ConfigError([`libSQL: ${setting} holds a user name or password; give a token as authToken instead.`]);
  }
  const token = authToken ?? url.searchParams.get("authToken") ?? undefined;
  url.searchParams.delete("authToken");
  // The runtime would show the whole header in its own error.
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
    throw new ConfigError(["libSQL: authToken is empty or has characters that no token has."]);
  }
  return { url: url.href, authToken: token };
}

const inMemory = (url: string): boolean => /^(?:file:)?:memory:/.test(url);

type LibsqlPackage = typeof import("@libsql/client");
let loaded: LibsqlPackage | undefined;

/** Loads the package at the first use. Bundlers then accept programs that use another database and do not install it. */
async function loadPackage(): Promise<LibsqlPackage> {
  try {
    loaded ??= await import("@libsql/client");
    return loaded;
  } catch (error) {
    // Deno adds advice of its own below.
    const [problem] = (error as Error).message.split("\n");
    throw new ConfigError([
      `libSQL: the package @libsql/client cannot be loaded (${problem}): npm install @libsql/client`,
    ]);
  }
}

async function open(place: Place): Promise<Clients> {
  const { createClient } = await loadPackage();
  const made: Client[] = [];
  const connect = (...config: Parameters<typeof createClient>): Client => {
    const client = createClient(...config);
    made.push(client);
    return client;
  };
  try {
    const { file, server } = place;
    if (file !== undefined && !inMemory(file)) {
      const path = pathOf(file);
      mkdirSync(dirname(path), { recursive: true });
      // SQLite opens a file that it may not write without saying so.
      if (existsSync(path)) accessSync(path, constants.R_OK | constants.W_OK);
      if (server === undefined) checkNotLost(path);
    }
    if (server === undefined) {
      // A client with a second connection would have pragmas on one of them only.
      const config = { url: file as string, concurrency: 1 };
      const writing = connect(config);
      await configure(writing);
      if (inMemory(config.url)) return { reading: writing, writing, replica: false };
      await proveFile(writing);
      const reading = connect(config);
      await configure(reading);
      await reading.execute("pragma query_only = on");
      return { reading, writing, replica: false };
    }
    const writing = connect({ ...server, ...(LOOPBACK.test(server.url) && { fetch: uncompressed }) });
    await proveForeignKeys(writing);
    if (file === undefined) return { reading: writing, writing, replica: false };
    // Batches do not go through the replica: it sends each statement alone, and the event loop stands still meanwhile.
    const reading = connect({ url: file, syncUrl: server.url, authToken: server.authToken });
    return { reading, writing, replica: true };
  } catch (error) {
    for (const client of made) client.close();
    if (isLocked(error)) throw error;
    throw place.local ? unusable(place.shown, error) : error;
  }
}

const LOOPBACK = /^http:\/\/(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?=[:/?#]|$)/i;

/** Nothing is saved by zipping what comes from this machine: on Node to unzip it takes two fifths of the client's work for a statement. */
function uncompressed(request: Request): Promise<Response> {
  request.headers.set("accept-encoding", "identity");
  return fetch(request);
}

/** `file:agents.db`, `file:/data/agents.db` and `file:///data/agents.db`, as the client reads them. */
function pathOf(url: string): string {
  return decodeURIComponent(url.replace(/^file:(?:\/\/(?:localhost)?(?=\/))?/, "").replace(/[?#].*$/s, ""));
}

async function configure(client: Client): Promise<void> {
  const mode = (await client.execute("pragma journal_mode = wal")).rows[0]?.[0];
  if (mode !== "wal" && mode !== "memory") throw new Error(`journal_mode stays ${mode}`);
  for (const sql of [
    "pragma busy_timeout = 0",
    "pragma synchronous = full",
    "pragma foreign_keys = on",
    "pragma trusted_schema = off",
    "pragma cell_size_check = on",
    "pragma journal_size_limit = 67108864",
  ]) {
    await client.execute(sql);
  }
}

/** Refuses a file that ends too early. */
async function proveFile(client: Client): Promise<void> {
  const run = async (sql: string): Promise<SqlRow | undefined> => rowsOf(await client.execute(sql))[0];
  const file = await run(FILE);
  if (isCut(file) && hasMoved(await run(MOVE_LOG))) checkWhole(file);
}

/** Deleting a thread or an assistant takes its rows along by foreign keys; a server may have been told to ignore them. */
async function proveForeignKeys(client: Client): Promise<void> {
  if ((await client.execute("pragma foreign_keys")).rows[0]?.[0] !== 1) {
    throw new Error("it does not enforce foreign keys");
  }
}

type BoundStatement = { sql: string; args: (bigint | SqlValue)[] };

/** Throws for a value that the client would change on the way, or that would end its connection. */
function bind(place: Place, { sql, args }: SqlStatement): BoundStatement {
  return {
    sql,
    args: args.map((value) => {
      // As a number it would be bound as REAL: 1.0 where a column has no type, and in expressions.
      if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value);
      if (typeof value === "string") {
        if (place.file !== undefined && value.includes("\0")) {
          throw new Error("libSQL cannot read text with U+0000 back from a file or memory: it was not stored.");
        }
        return value.toWellFormed();
      }
      if (value === null || value instanceof Uint8Array || Number.isFinite(value)) return value;
      throw new TypeError(`${typeof value === "number" ? value : `A ${typeof value}`} is not an SqlValue: ${sql}`);
    }),
  };
}

function rowsOf({ columns, rows }: ResultSet): SqlRow[] {
  return rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, sqlValue(row[at] as Value)])));
}

function sqlValue(value: Value): SqlValue {
  return value instanceof ArrayBuffer ? new Uint8Array(value) : (value as SqlValue);
}

/** Errors of SQL as they are; for those of the way to the server, what to look at. */
function explained({ server, shown, setting }: Place, error: unknown): unknown {
  if (server === undefined || error instanceof RangeError || error instanceof ConfigError) return error;
  const { message, cause } = error as Error;
  const known = loaded !== undefined && error instanceof loaded.LibsqlError;
  const code = known ? error.code : "";
  if (/^AUTH_/.test(code) || /HTTP status 40[13]\b/.test(message)) {
    const problem = server.authToken === undefined ? "asks for a token" : "refuses the token";
    return new Error(`The database server ${shown} ${problem}: check authToken.`, { cause: error });
  }
  if (known && !/^HRANA_|^SERVER_ERROR$/.test(code)) return error;
  const problem = cause instanceof Error && !message.includes(cause.message) ? `${message}: ${cause.message}` : message;
  // Some WebSockets do not tell why the server closed them.
  const look = /closed with code/.test(message) ? `${setting} and authToken` : setting;
  return new Error(`Cannot use the database server ${shown} (${problem}): check ${look}.`, { cause: error });
}
