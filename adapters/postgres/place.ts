/** The address of the database, and the texts of its errors, which never contain a password. */
import { ConfigError } from "../../lib/errors.ts";
import { DatabaseUnavailable } from "../sql/driver.ts";
import { faultOf, reasonOf, sqlState } from "./errors.ts";

export interface Address {
  /** Host, port and name. */
  readonly shown: string;
  /** An SQL error unchanged; for others, an error that names the server. */
  explained(error: unknown): unknown;
  /** The ConfigError for wrong options. */
  refused(error: unknown): ConfigError;
  unavailable(error: unknown, unknown?: boolean): DatabaseUnavailable;
  /** Marks an error as one of `direct_url`. */
  ofDirect(error: unknown): unknown;
}

interface Given {
  readonly url?: unknown;
  readonly direct_url?: unknown;
  readonly pool?: unknown;
  readonly pool_size?: unknown;
}

/** Throws ConfigError for invalid options. */
export function addressOf(given: Given): Address {
  if (given.pool !== undefined) {
    if (given.url !== undefined) throw new ConfigError(["postgres: pool: pool and url are both set. Set one of them"]);
    return place({ setting: "pool", shown: "of the pool" }, undefined, []);
  }
  const { pool_size } = given;
  if (pool_size !== undefined && !(Number.isSafeInteger(pool_size) && (pool_size as number) > 0)) {
    throw new ConfigError(["postgres: pool_size: must be a whole number above 0"]);
  }
  const url = urlOf("url", given.url);
  const direct = given.direct_url === undefined ? undefined : urlOf("direct_url", given.direct_url);
  return place(
    { setting: "url", shown: shownOf(url) },
    direct && { setting: "direct_url", shown: shownOf(direct) },
    [url, direct].flatMap((one) => (one ? secretsOf(one) : [])),
  );
}

/** The URL is not shown before it is known to contain no secret. */
function urlOf(setting: string, text: unknown): URL {
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

/** Without user, password and parameters. */
function shownOf({ host, pathname }: URL): string {
  return `${host || "localhost"}${pathname === "/" ? "" : pathname}`;
}

/** Every form in which a client's error might show the password. */
function secretsOf(url: URL): string[] {
  const raw = [url.password, ...url.searchParams.getAll("password"), ...url.searchParams.getAll("sslpassword")];
  return [...new Set(raw.flatMap((text) => [text, decodeURIComponent(url.password)]))].filter((text) => text !== "");
}

interface Named {
  readonly setting: "url" | "direct_url" | "pool";
  readonly shown: string;
}

function place(named: Named, direct: Named | undefined, secrets: readonly string[]): Address {
  const met = new WeakSet<WeakKey>();
  const at = (error: unknown): Named => (direct && met.has(error as WeakKey) ? direct : named);
  const clean = (text: string): string => secrets.reduce((rest, secret) => rest.replaceAll(secret, "***"), text);
  /** The client's error as the cause, unless it contains a secret. */
  const cause = (error: unknown): ErrorOptions =>
    error instanceof Error && clean(`${error.message}${error.stack}`) === `${error.message}${error.stack}`
      ? { cause: error }
      : {};
  return {
    shown: named.shown,
    explained(error) {
      if (sqlState(error) !== "42883" || !/pg_current_xact_id/.test(reasonOf(error))) return error;
      return new ConfigError([`postgres: ${named.setting}: the server is older than PostgreSQL 13`]);
    },
    refused(error) {
      const { setting, shown } = at(error);
      const advice = adviceFor(error, shown, clean(reasonOf(error)));
      return new ConfigError([`postgres: ${setting}: ${advice}`]);
    },
    unavailable(error, unknown = false) {
      const { shown } = at(error);
      const reason = error === null ? "the server no longer knows the transaction" : clean(reasonOf(error));
      const what = unknown
        ? `The connection to the database ${shown} was lost during a commit, and whether it took effect is not known`
        : `The database ${shown} cannot be reached`;
      return new DatabaseUnavailable(`${what} (${reason}).`, { ...cause(error), unknown });
    },
    ofDirect(error) {
      if (error instanceof Error) met.add(error);
      return error;
    },
  };
}

/** Returns what is wrong with a database that refuses its first use, and what to do. */
function adviceFor(error: unknown, shown: string, reason: string): string {
  const fault = faultOf(error);
  if (fault === "read_only")
    return `the database ${shown} takes no writes (${reason}): name the primary, or grant the user write access`;
  if (sqlState(error) === "3D000") return `the server has no such database (${reason}): create it, or name another`;
  return fault === "refused"
    ? `the server ${shown} refuses the user or the password (${reason}): check both`
    : `the database ${shown} cannot be reached (${reason}): check the address and that the server runs`;
}
