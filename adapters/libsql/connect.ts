/** Connects to a libSQL database: checks the options, opens the clients, and explains errors of the server. */
import type { Client, Config, ResultSet, Value } from "@libsql/client";
import { ConfigError } from "../../lib/errors.ts";
import { DatabaseUnavailable, type SqlRow, type SqlValue } from "../sql/driver.ts";
import {
  checkNotLost,
  checkWhole,
  FILE,
  hasMoved,
  isCut,
  isLocked,
  MOVE_LOG,
  prepareFile,
  SAFE_SETTINGS,
  unusable,
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

export interface Clients {
  readonly reading: Client;
  readonly writing: Client;
  readonly replica: boolean;
}

interface Address {
  readonly url: string;
  readonly authToken: string | undefined;
}

/** The address of the database, validated, with a form for messages that contains no secrets. */
export interface LibsqlAddress extends Required<Pick<LibsqlOptions, "sync_interval_ms" | "timer" | "now">> {
  /** Undefined for a server. */
  readonly file: string | undefined;
  /** Undefined without one. */
  readonly server: Address | undefined;
  readonly local: boolean;
  readonly shown: string;
  /** The options that an error about the server names. */
  readonly setting: string;
}

export function placeOf({ url, authToken, syncUrl, ...options }: LibsqlOptions): LibsqlAddress {
  const file = url === ":memory:" || url.startsWith("file:") ? url : undefined;
  const setting = file === undefined ? "url" : "syncUrl";
  if (file === undefined && syncUrl !== undefined) throw new ConfigError(["libSQL: syncUrl needs a `file:` url."]);
  if (file !== undefined && inMemory(file) && syncUrl !== undefined) {
    throw new ConfigError(["libSQL: syncUrl needs a `file:` url, not a database in memory."]);
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

/** Separates the URL and the token. The URL is not shown before it is known to contain no secret. */
function addressOf(setting: string, text: string, authToken: string | undefined): Address {
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

export const inMemory = (url: string): boolean => /^(?:file:)?:memory:/.test(url);

type LibsqlPackage = typeof import("@libsql/client");
let loaded: LibsqlPackage | undefined;

/** Loads the package on first use, so that bundlers accept programs that use another database and have not installed it. */
export async function loadPackage(): Promise<LibsqlPackage> {
  try {
    loaded ??= await import("@libsql/client");
    return loaded;
  } catch (error) {
    // Deno appends its own advice below.
    const [problem] = (error as Error).message.split("\n");
    throw new ConfigError([
      `libSQL: the package @libsql/client cannot be loaded (${problem}): npm install @libsql/client`,
    ]);
  }
}

export async function open(place: LibsqlAddress): Promise<Clients> {
  const { createClient } = await loadPackage();
  const made: Client[] = [];
  const connect: Connect = (config) => {
    const client = createClient(config);
    made.push(client);
    return client;
  };
  try {
    const { file, server } = place;
    if (file !== undefined && !inMemory(file)) {
      const path = pathOf(file);
      prepareFile(path);
      if (server === undefined) checkNotLost(path);
    }
    return await (server === undefined ? openFile(connect, file as string) : openServer(connect, server, file));
  } catch (error) {
    for (const client of made) client.close();
    if (isLocked(error)) throw error;
    throw place.local ? unusable(place.shown, error) : error;
  }
}

type Connect = (config: Config) => Client;

async function openFile(connect: Connect, url: string): Promise<Clients> {
  // With a second connection, a pragma would apply to one of them only.
  const config = { url, concurrency: 1 };
  const writing = connect(config);
  await configure(writing);
  if (inMemory(url)) return { reading: writing, writing, replica: false };
  await checkFile(writing);
  const reading = connect(config);
  await configure(reading);
  await reading.execute("pragma query_only = on");
  return { reading, writing, replica: false };
}

/** `replica`: the file that is one of the server. */
async function openServer(connect: Connect, server: Address, replica: string | undefined): Promise<Clients> {
  const writing = connect({ ...server, ...(LOOPBACK.test(server.url) && { fetch: uncompressed }) });
  await checkForeignKeys(writing);
  if (replica === undefined) return { reading: writing, writing, replica: false };
  // Batches bypass the replica, which would send each statement separately and block the event loop meanwhile.
  const reading = connect({ url: replica, syncUrl: server.url, authToken: server.authToken });
  return { reading, writing, replica: true };
}

const LOOPBACK = /^http:\/\/(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?=[:/?#]|$)/i;

/** Disables compression. It saves nothing on one machine, and on Node unzipping takes 40 % of the client's time for a statement. */
function uncompressed(request: Request): Promise<Response> {
  request.headers.set("accept-encoding", "identity");
  return fetch(request);
}

/** `file:agents.db`, `file:/data/agents.db` and `file:///data/agents.db`, as the client parses them. */
export function pathOf(url: string): string {
  return decodeURIComponent(url.replace(/^file:(?:\/\/(?:localhost)?(?=\/))?/, "").replace(/[?#].*$/s, ""));
}

export async function configure(client: Client): Promise<void> {
  const mode = (await client.execute("pragma journal_mode = wal")).rows[0]?.[0];
  if (mode !== "wal" && mode !== "memory") throw new Error(`journal_mode stays ${mode}`);
  for (const sql of ["pragma busy_timeout = 0", ...SAFE_SETTINGS]) await client.execute(sql);
}

/** Refuses a truncated file. */
async function checkFile(client: Client): Promise<void> {
  const run = async (sql: string): Promise<SqlRow | undefined> => rowsOf(await client.execute(sql))[0];
  const file = await run(FILE);
  if (isCut(file) && hasMoved(await run(MOVE_LOG))) checkWhole(file);
}

/** Deleting a thread or an assistant deletes its rows by foreign keys, which a server may have disabled. */
async function checkForeignKeys(client: Client): Promise<void> {
  if ((await client.execute("pragma foreign_keys")).rows[0]?.[0] !== 1) {
    throw new Error("it does not enforce foreign keys");
  }
}

export function rowsOf({ columns, rows }: ResultSet): SqlRow[] {
  return rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, sqlValue(row[at] as Value)])));
}

function sqlValue(value: Value): SqlValue {
  return value instanceof ArrayBuffer ? new Uint8Array(value) : (value as SqlValue);
}

/** Returns SQL errors unchanged. For connection errors, adds what to check. */
export function explained({ server, shown, setting }: LibsqlAddress, error: unknown): unknown {
  if (server === undefined || error instanceof RangeError || error instanceof ConfigError) return error;
  const { message, cause } = error as Error;
  const known = loaded !== undefined && error instanceof loaded.LibsqlError;
  const code = known ? error.code : "";
  if (/^AUTH_/.test(code) || /HTTP status 40[13]\b/.test(message)) {
    const problem = server.authToken === undefined ? "needs a token" : "refuses the token";
    return new Error(`The database server ${shown} ${problem}: check authToken.`, { cause: error });
  }
  if (known && !/^HRANA_|^SERVER_ERROR$/.test(code)) return error;
  const problem = cause instanceof Error && !message.includes(cause.message) ? `${message}: ${cause.message}` : message;
  // Some WebSockets do not report why the server closed them.
  const look = /closed with code/.test(message) ? `${setting} and authToken` : setting;
  return new DatabaseUnavailable(`Cannot use the database server ${shown} (${problem}): check ${look}.`, {
    cause: error,
  });
}
