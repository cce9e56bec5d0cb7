/** What an error of Postgres, or of the way to it, means for the batch that met it. Errors of any client are read. */
import { ConfigError } from "../../lib/errors.ts";
import { DatabaseUnavailable } from "../sql/driver.ts";

/**
 * `conflict`: another transaction came between. `connection`: the session is gone. `refused`: the server takes no session with
 * these settings. `read_only`: it takes no writes. In all of these nothing was committed, unless it was COMMIT that failed.
 * `statement`: everything else.
 */
export type Fault = "conflict" | "connection" | "refused" | "read_only" | "statement";

export function faultOf(error: unknown): Fault {
  if (error instanceof ConfigError || error instanceof DatabaseUnavailable) return "statement";
  const state = sqlState(error);
  const { message = "", severity } = error as { message?: string; severity?: unknown };
  if (state === undefined) {
    if (error instanceof TypeError || error instanceof RangeError) return "statement";
    return /\bSASL\b|password must be/.test(message) ? "refused" : "connection";
  }
  if (/^(?:40001|40P01|23505)$/.test(state)) return "conflict";
  if (/^(?:28|3D000)/.test(state)) return "refused";
  if (state === "25006" || /during recovery/.test(message)) return "read_only";
  if (isForgotten(error) || /cached plan must not change/.test(message)) return "connection";
  if (severity === "FATAL" || severity === "PANIC") return "connection";
  return /^(?:08(?!P01)|57P0|25P0[34]|53300)/.test(state) ? "connection" : "statement";
}

/** True where the server does not know a prepared statement any more, or knows it already: something in front of it shares sessions. */
export function isForgotten(error: unknown): boolean {
  return /^(?:26000|42P05)$/.test(sqlState(error) ?? "");
}

/** True where the table of marks is missing: nobody has committed here before. */
export function isMarkless(error: unknown): boolean {
  return sqlState(error) === "42P01" && /greenroom_commits/.test(reasonOf(error));
}

/** The five characters of SQLSTATE; undefined for errors that are not the server's. Bun.SQL has them in `errno`. */
export function sqlState(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { code, errno } = error as { code?: unknown; errno?: unknown };
  // EPIPE has five of these characters too, but no digit.
  return [code, errno].find(
    (value): value is string => typeof value === "string" && /^(?=.*\d)[0-9A-Z]{5}$/.test(value),
  );
}

/** Why the way to the database does not work, in words that a user may read. */
export function reasonOf(error: unknown): string {
  const { message = "", code } = error as { message?: string; code?: unknown };
  // Where several addresses were tried, only the code says anything.
  return message || (typeof code === "string" ? code : String(error));
}
