/** Classifies errors of Postgres and of connections to it, from any client. */
import { ConfigError } from "../../lib/errors.ts";
import { DatabaseUnavailable } from "../sql/driver.ts";

/**
 * `conflict`: another transaction interfered. `connection`: the session is lost. `refused`: the server accepts no session with
 * these settings. `read_only`: it accepts no writes. In all of these nothing was committed, unless COMMIT failed. `statement`:
 * every other error.
 */
export type ErrorClass = "conflict" | "connection" | "refused" | "read_only" | "statement";

/**
 * Returns what an error says about the next step: retry at once (`conflict`), with a new connection (`connection`), or not
 * (`statement`); wrong credentials or database (`refused`), or a server that does not write (`read_only`).
 */
export function classifyError(error: unknown): ErrorClass {
  if (error instanceof ConfigError || error instanceof DatabaseUnavailable) return "statement";
  const state = findSqlState(error);
  const { message = "", severity } = error as { message?: string; severity?: unknown };
  if (state === undefined) return classifyClientError(error, message);
  if (/^(?:40001|40P01|23505)$/.test(state)) return "conflict";
  if (/^(?:28|3D000)/.test(state)) return "refused";
  if (state === "25006" || /during recovery/.test(message)) return "read_only";
  if (isPreparedStatementLost(error) || /cached plan must not change/.test(message)) return "connection";
  if (severity === "FATAL" || severity === "PANIC") return "connection";
  return /^(?:08(?!P01)|57P0|25P0[34]|53300)/.test(state) ? "connection" : "statement";
}

/**
 * Classifies an error that the server has not sent: a TypeError or RangeError is one of the statement, an error of the
 * login is `refused`, and every other one is of the connection.
 */
function classifyClientError(error: unknown, message: string): ErrorClass {
  if (error instanceof TypeError || error instanceof RangeError) return "statement";
  return /\bSASL\b|password must be/.test(message) ? "refused" : "connection";
}

/** True if the server has lost a prepared statement, or has it already: a pooler shares the sessions. */
export function isPreparedStatementLost(error: unknown): boolean {
  return /^(?:26000|42P05)$/.test(findSqlState(error) ?? "");
}

/** True if the table of marks is missing: the first commit in this database. */
export function isCommitTableMissing(error: unknown): boolean {
  return findSqlState(error) === "42P01" && /greenroom_commits/.test(formatReason(error));
}

/** Returns the five characters of SQLSTATE; undefined for errors from elsewhere. Bun.SQL has them in `errno`. */
export function findSqlState(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { code, errno } = error as { code?: unknown; errno?: unknown };
  // EPIPE also has five of these characters, but no digit.
  return [code, errno].find(
    (value): value is string => typeof value === "string" && /^(?=.*\d)[0-9A-Z]{5}$/.test(value),
  );
}

/**
 * Returns why the database cannot be reached, as text for users: the message of the error, else its code, because an
 * error of several addresses has no message.
 */
export function formatReason(error: unknown): string {
  const { message = "", code } = error as { message?: string; code?: unknown };
  // After several addresses failed, only the code has information.
  return message || (typeof code === "string" ? code : String(error));
}
