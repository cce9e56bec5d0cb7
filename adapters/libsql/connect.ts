/** Connects to a libSQL database: checks the options, opens the clients, and explains errors of the server. */
import type { Client, Config, ResultSet, Value } from "@libsql/client";
import { ConfigError } from "../../lib/errors.ts";
import { DatabaseUnavailable, type SqlRow, type SqlValue } from "../sql/driver.ts";
import {
  isLocked,
  isLogEmpty,
  isTruncated,
  MOVE_LOG,
  prepareFile,
  READ_FILE_SIZE,
  requireCompleteFile,
  requireFileNotLost,
  SAFE_SETTINGS,
  unusableDatabaseError,
} from "../sqlite/file.ts";
import { systemTimer } from "../sqlite/writer.ts";

/** The address of a libSQL database, and how to connect to it. */
export interface LibsqlOptions {
  /** `file:agents.db`, `:memory:`, or a server: `libsql:`, `https:`, `http:`, `wss:`, `ws:`. */
  readonly url: string;
  /** The token of the server. */
  readonly authToken?: string;
  /** The server that the file at `url` replicates: batches go to the server, reads to the file. */
  readonly syncUrl?: string;
  /**
   * The maximum delay of a replica's reads after batches of other processes; default 1000. Its own batches are visible at once,
   * and a client that continues a stream here neither loses nor repeats frames that another process has shown it.
   */
  readonly sync_interval_ms?: number;
  /** Calls `fn` once after `ms`; for simulations. */
  readonly timer?: (ms: number, fn: () => void) => () => void;
  /** Milliseconds since 1970; for simulations. */
  readonly now?: () => number;
}

export interface LibsqlClients {
  readonly reading: Client;
  readonly writing: Client;
  readonly isReplica: boolean;
}

interface ServerAddress {
  readonly url: string;
  readonly authToken: string | undefined;
}

/** The address of the database, validated, with a form for messages that contains no secrets. */
export interface LibsqlAddress extends Required<Pick<LibsqlOptions, "sync_interval_ms" | "timer" | "now">> {
  /** Undefined for a server. */
  readonly file: string | undefined;
  /** Undefined without one. */
  readonly server: ServerAddress | undefined;
  readonly isLocal: boolean;
  readonly displayName: string;
  /** The options that an error about the server names. */
  readonly setting: string;
}

/**
 * Checks the options and returns the address: of a server, a local file, or a file that replicates a server. Throws ConfigError
 * for invalid options.
 */
export function parseAddress({ url, authToken, syncUrl, ...options }: LibsqlOptions): LibsqlAddress {
  const file = url === ":memory:" || url.startsWith("file:") ? url : undefined;
  const setting = file === undefined ? "url" : "syncUrl";
  if (file === undefined && syncUrl !== undefined) throw new ConfigError(["libSQL: syncUrl needs a `file:` url."]);
  if (file !== undefined && isInMemory(file) && syncUrl !== undefined) {
    throw new ConfigError(["libSQL: syncUrl needs a `file:` url, not a database in memory."]);
  }
  const remote = file === undefined ? url : syncUrl;
  const server = remote === undefined ? undefined : parseServerAddress(setting, remote, authToken);
  return {
    file,
    server,
    isLocal: server === undefined,
    displayName: server?.url ?? url,
    setting: file === undefined ? setting : "url and syncUrl",
    sync_interval_ms: options.sync_interval_ms ?? 1_000,
    timer: options.timer ?? systemTimer,
    now: options.now ?? Date.now,
  };
}

/**
 * Returns the URL of a server without the token, and the token: `authToken`, else that in the URL, else undefined. Throws
 * ConfigError for another scheme or an invalid URL, for an empty or invalid token, and for a user name or password in the URL.
 * The error names `setting` and shows no text that may be secret.
 */
function parseServerAddress(setting: string, text: string, authToken: string | undefined): ServerAddress {
  if (!/^(?:libsql|https?|wss?):\/\/./.test(text) || !URL.canParse(text)) {
    throw new ConfigError([
      `libSQL: ${setting} must be :memory:, file:…, libsql://…, https://…, http://…, wss://… or ws://…`,
    ]);
  }
  const url = new URL(text);
  if (url.username || url.password) {
    throw new ConfigError([`libSQL: ${setting} contains a user name or password. Pass a token as authToken instead.`]);
  }
  const token = authToken ?? url.searchParams.get("authToken") ?? undefined;
  url.searchParams.delete("authToken");
  // The runtime's own error would show the whole header.
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
    throw new ConfigError(["libSQL: authToken is empty or contains invalid characters."]);
  }
  return { url: url.href, authToken: token };
}

export const isInMemory = (url: string): boolean => /^(?:file:)?:memory:/.test(url);

type LibsqlPackage = typeof import("@libsql/client");
let loadedPackage: LibsqlPackage | undefined;

/** Loads the package on first use, so that bundlers accept programs that use another database and have not installed it. */
export async function loadPackage(): Promise<LibsqlPackage> {
  try {
    loadedPackage ??= await import("@libsql/client");
    return loadedPackage;
  } catch (error) {
    // Deno appends its own advice below.
    const [problem] = (error as Error).message.split("\n");
    throw new ConfigError([
      `libSQL: the package @libsql/client cannot be loaded (${problem}): npm install @libsql/client`,
    ]);
  }
}

/**
 * Opens the clients for reading and writing, and creates the file. Closes all of them if one fails. Throws an Error that names
 * the path and the remedy for a local file that cannot be used, and the error itself if it is locked.
 */
export async function openClients(address: LibsqlAddress): Promise<LibsqlClients> {
  const { createClient } = await loadPackage();
  const openedClients: Client[] = [];
  const connect: Connect = (config) => {
    const client = createClient(config);
    openedClients.push(client);
    return client;
  };
  try {
    const { file, server } = address;
    if (file !== undefined && !isInMemory(file)) {
      const path = toFilePath(file);
      prepareFile(path);
      if (server === undefined) requireFileNotLost(path);
    }
    return await (server === undefined ? openFile(connect, file as string) : openServer(connect, server, file));
  } catch (error) {
    for (const client of openedClients) client.close();
    if (isLocked(error)) throw error;
    throw address.isLocal ? unusableDatabaseError(address.displayName, error) : error;
  }
}

type Connect = (config: Config) => Client;

/**
 * Opens and configures the clients of a local file: one that only reads and one that writes. In memory both are the same. Throws
 * if the file is damaged.
 */
async function openFile(connect: Connect, url: string): Promise<LibsqlClients> {
  // With a second connection, a pragma would apply to one of them only.
  const config = { url, concurrency: 1 };
  const writing = connect(config);
  await configure(writing);
  if (isInMemory(url)) return { reading: writing, writing, isReplica: false };
  await checkFile(writing);
  const reading = connect(config);
  await configure(reading);
  await reading.execute("pragma query_only = on");
  return { reading, writing, isReplica: false };
}

/**
 * Creates the clients of a server, which enforces foreign keys or this rejects. With `replicaUrl`, the client for
 * reading uses that file, a replica; else both are the same client. Does not sync the replica.
 */
async function openServer(
  connect: Connect,
  server: ServerAddress,
  replicaUrl: string | undefined,
): Promise<LibsqlClients> {
  const writing = connect({ ...server, ...(LOOPBACK_PATTERN.test(server.url) && { fetch: fetchUncompressed }) });
  await checkForeignKeys(writing);
  if (replicaUrl === undefined) return { reading: writing, writing, isReplica: false };
  // Batches bypass the replica, which would send each statement separately and block the event loop meanwhile.
  const reading = connect({ url: replicaUrl, syncUrl: server.url, authToken: server.authToken });
  return { reading, writing, isReplica: true };
}

const LOOPBACK_PATTERN = /^http:\/\/(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?=[:/?#]|$)/i;

/**
 * Changes the request to refuse compression and sends it. Compression saves nothing on one machine, and on Node
 * unzipping takes 40 % of the client's time for a statement.
 */
function fetchUncompressed(request: Request): Promise<Response> {
  request.headers.set("accept-encoding", "identity");
  return fetch(request);
}

/** `file:agents.db`, `file:/data/agents.db` and `file:///data/agents.db`, as the client parses them. */
export function toFilePath(url: string): string {
  return decodeURIComponent(url.replace(/^file:(?:\/\/(?:localhost)?(?=\/))?/, "").replace(/[?#].*$/s, ""));
}

/**
 * Sets the pragmas of the connection, which waits for no lock afterwards. Rejects if the file system does not allow
 * WAL.
 */
export async function configure(client: Client): Promise<void> {
  const mode = (await client.execute("pragma journal_mode = wal")).rows[0]?.[0];
  if (mode !== "wal" && mode !== "memory") throw new Error(`journal_mode stays ${mode}`);
  for (const sql of ["pragma busy_timeout = 0", ...SAFE_SETTINGS]) await client.execute(sql);
}

/** Rejects if the file ends before the size that SQLite knows. May move the log into the file first. */
async function checkFile(client: Client): Promise<void> {
  const run = async (sql: string): Promise<SqlRow | undefined> => toRows(await client.execute(sql))[0];
  const file = await run(READ_FILE_SIZE);
  if (isTruncated(file) && isLogEmpty(await run(MOVE_LOG))) requireCompleteFile(file);
}

/**
 * Rejects if the server does not enforce foreign keys, by which the deletion of a thread or an assistant deletes its
 * rows.
 */
async function checkForeignKeys(client: Client): Promise<void> {
  if ((await client.execute("pragma foreign_keys")).rows[0]?.[0] !== 1) {
    throw new Error("it does not enforce foreign keys");
  }
}

export function toRows({ columns, rows }: ResultSet): SqlRow[] {
  return rows.map((row) => Object.fromEntries(columns.map((name, index) => [name, toSqlValue(row[index] as Value)])));
}

function toSqlValue(value: Value): SqlValue {
  return value instanceof ArrayBuffer ? new Uint8Array(value) : (value as SqlValue);
}

/**
 * Returns the error to throw for one of the client. Errors of SQL, options, ranges and local files are returned as they
 * are; a refused or missing token becomes an Error, every other failure of a server DatabaseUnavailable, both with what
 * to check.
 */
export function explainError({ server, displayName, setting }: LibsqlAddress, error: unknown): unknown {
  if (server === undefined || error instanceof RangeError || error instanceof ConfigError) return error;
  const { message, cause } = error as Error;
  const isLibsqlError = loadedPackage !== undefined && error instanceof loadedPackage.LibsqlError;
  const code = isLibsqlError ? error.code : "";
  if (/^AUTH_/.test(code) || /HTTP status 40[13]\b/.test(message)) {
    const problem = server.authToken === undefined ? "needs a token" : "refuses the token";
    return new Error(`The database server ${displayName} ${problem}: check authToken.`, { cause: error });
  }
  if (isLibsqlError && !/^HRANA_|^SERVER_ERROR$/.test(code)) return error;
  const problem = cause instanceof Error && !message.includes(cause.message) ? `${message}: ${cause.message}` : message;
  // Some WebSockets do not report why the server closed them.
  const settingsToCheck = /closed with code/.test(message) ? `${setting} and authToken` : setting;
  return new DatabaseUnavailable(
    `Cannot use the database server ${displayName} (${problem}): check ${settingsToCheck}.`,
    {
      cause: error,
    },
  );
}
