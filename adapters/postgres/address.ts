/** The address of the database, and the texts of its errors, which never contain a password. */
import { ConfigError } from "../../lib/errors.ts";
import { DatabaseUnavailable } from "../sql/driver.ts";
import { classifyError, findSqlState, formatReason } from "./errors.ts";

export interface PostgresAddress {
  /** Host, port and name. */
  readonly displayName: string;
  /** An SQL error unchanged; for others, an error that names the server. */
  explainError(error: unknown): unknown;
  /** The ConfigError for wrong options. */
  toConfigError(error: unknown): ConfigError;
  toUnavailableError(error: unknown, unknown?: boolean): DatabaseUnavailable;
  /** Marks an error as one of `direct_url`. */
  markDirectError(error: unknown): unknown;
}

interface AddressInput {
  readonly url?: unknown;
  readonly direct_url?: unknown;
  readonly pool?: unknown;
  readonly pool_size?: unknown;
}

/** Checks the options and returns what messages may say about the server. Throws ConfigError for invalid options. */
export function parseAddress(input: AddressInput): PostgresAddress {
  if (input.pool !== undefined) {
    if (input.url !== undefined) throw new ConfigError(["postgres: pool: pool and url are both set. Set one of them"]);
    return createAddress({ setting: "pool", displayName: "of the pool" }, undefined, []);
  }
  const { pool_size } = input;
  if (pool_size !== undefined && !(Number.isSafeInteger(pool_size) && (pool_size as number) > 0)) {
    throw new ConfigError(["postgres: pool_size: must be a whole number above 0"]);
  }
  const url = parseUrl("url", input.url);
  const direct = input.direct_url === undefined ? undefined : parseUrl("direct_url", input.direct_url);
  return createAddress(
    { setting: "url", displayName: formatDisplayName(url) },
    direct && { setting: "direct_url", displayName: formatDisplayName(direct) },
    [url, direct].flatMap((serverUrl) => (serverUrl ? listSecrets(serverUrl) : [])),
  );
}

/**
 * Parses a URL of Postgres. Throws ConfigError for another form and for invalid escapes. The error does not contain the text,
 * because it may have a secret in an unexpected place.
 */
function parseUrl(setting: string, text: unknown): URL {
  if (typeof text !== "string" || !/^postgres(?:ql)?:\/\//i.test(text) || !URL.canParse(text)) {
    throw new ConfigError([`postgres: ${setting}: not of the form postgres://user:password@host:port/database`]);
  }
  const url = new URL(text);
  try {
    for (const part of [url.username, url.password, url.pathname]) decodeURIComponent(part);
  } catch {
    throw new ConfigError([`postgres: ${setting}: write % as %25, unless it starts an escape`]);
  }
  return url;
}

/** Formats host and path of a URL, without user, password and parameters. */
function formatDisplayName({ host, pathname }: URL): string {
  return `${host || "localhost"}${pathname === "/" ? "" : pathname}`;
}

/**
 * Returns every form in which an error of the client might show a password of the URL: as written and decoded, without
 * empty texts.
 */
function listSecrets(url: URL): string[] {
  const raw = [url.password, ...url.searchParams.getAll("password"), ...url.searchParams.getAll("sslpassword")];
  return [...new Set(raw.flatMap((text) => [text, decodeURIComponent(url.password)]))].filter((text) => text !== "");
}

interface NamedServer {
  readonly setting: "url" | "direct_url" | "pool";
  readonly displayName: string;
}

/**
 * Creates what turns errors of the client into those of the service. They name the server, or the direct one for errors marked
 * so, and contain no secret: the client's error is their cause only if it has none.
 */
function createAddress(
  server: NamedServer,
  direct: NamedServer | undefined,
  secrets: readonly string[],
): PostgresAddress {
  const directErrors = new WeakSet<WeakKey>();
  const findServer = (error: unknown): NamedServer => (direct && directErrors.has(error as WeakKey) ? direct : server);
  const removeSecrets = (text: string): string =>
    secrets.reduce((cleaned, secret) => cleaned.replaceAll(secret, "***"), text);
  /** Returns the client's error as the cause; nothing if it contains a secret. */
  const cause = (error: unknown): ErrorOptions =>
    error instanceof Error && removeSecrets(`${error.message}${error.stack}`) === `${error.message}${error.stack}`
      ? { cause: error }
      : {};
  return {
    displayName: server.displayName,
    /** Returns a ConfigError for a function that servers before PostgreSQL 13 lack; every other error as it is. */
    explainError(error) {
      if (findSqlState(error) !== "42883" || !/pg_current_xact_id/.test(formatReason(error))) return error;
      return new ConfigError([`postgres: ${server.setting}: the server is older than PostgreSQL 13`]);
    },
    toConfigError(error) {
      const { setting, displayName } = findServer(error);
      const advice = findAdvice(error, displayName, removeSecrets(formatReason(error)));
      return new ConfigError([`postgres: ${setting}: ${advice}`]);
    },
    /**
     * Returns the error of a server that cannot be reached, without secrets. With `unknown`, it says that a commit may
     * have taken effect. A null error means that the server no longer knows the transaction.
     */
    toUnavailableError(error, unknown = false) {
      const { displayName } = findServer(error);
      const reason = error === null ? "the server no longer knows the transaction" : removeSecrets(formatReason(error));
      const problem = unknown
        ? `The connection to the database ${displayName} was lost during a commit, and whether it took effect is not known`
        : `The database ${displayName} cannot be reached`;
      return new DatabaseUnavailable(`${problem} (${reason}).`, { ...cause(error), unknown });
    },
    markDirectError(error) {
      if (error instanceof Error) directErrors.add(error);
      return error;
    },
  };
}

/** Returns what is wrong with a database that refuses its first use, and what to do. */
function findAdvice(error: unknown, displayName: string, reason: string): string {
  const errorClass = classifyError(error);
  if (errorClass === "read_only")
    return `the database ${displayName} takes no writes (${reason}): name the primary, or grant the user write access`;
  if (findSqlState(error) === "3D000") return `the server has no such database (${reason}): create it, or name another`;
  return errorClass === "refused"
    ? `the server ${displayName} refuses the user or the password (${reason}): check both`
    : `the database ${displayName} cannot be reached (${reason}): check the address and that the server runs`;
}
