/** Errors that callers can act on, and their codes. */

/** The codes of service errors. Each has one HTTP status (lib/http/respond.ts); a new code does not compile without one. */
export type ErrorCode =
  | "bad_request"
  | "unauthenticated"
  | "forbidden"
  | "not_found"
  | "method_not_allowed"
  | "conflict"
  | "gone"
  | "too_slow"
  | "too_large"
  | "unsupported_type"
  | "wrong_host"
  | "invalid"
  | "too_many"
  | "internal"
  | "upgrade_required"
  | "not_built"
  | "unavailable"
  | "storage_full"
  | "storage_unavailable"
  | "outcome_unknown";

/** An error that the caller can act on. Clients see `message`, never `cause`. */
export class ServiceError extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ServiceError";
    this.code = code;
  }
}

/** For `catch`: null for an error of code `not_found`; throws any other again. */
export function nullIfNotFound(error: unknown): null {
  if (error instanceof ServiceError && error.code === "not_found") return null;
  throw error;
}

/**
 * The error for an unreachable database. `unknown`: the connection was lost during a commit, which may or may not have taken effect.
 * `lost`: its files are damaged or gone.
 */
export function storageLost({
  unknown = false,
  lost = false,
  cause,
}: ErrorOptions & { readonly unknown?: boolean; readonly lost?: boolean } = {}): ServiceError {
  const [code, text]: readonly [ErrorCode, string] = unknown
    ? ["outcome_unknown", "The database was lost during a write: whether it took effect is not known"]
    : ["storage_unavailable", lost ? FILES_LOST : "The database cannot be reached: retry later"];
  return new ServiceError(code, text, { cause });
}

const FILES_LOST =
  "The files of the database were damaged, deleted or replaced while the server used them: stop it and restore a backup";

/** True for errors of an unreachable database. A retry may succeed once the database is back. */
export function isOutage(error: unknown): boolean {
  return error instanceof ServiceError && (error.code === "storage_unavailable" || error.code === "outcome_unknown");
}

/** One problem of a platform API request. */
export interface InputIssue {
  /** The place of the problem: `body` or `query`, then member names and list indexes. */
  readonly loc: readonly (string | number)[];
  readonly msg: string;
  /** A code such as `missing`, `value_error`, `uuid_parsing`, `datetime_parsing`. */
  readonly type: string;
}

/** A platform API request with invalid input. The response lists the issues. */
export class InputError extends ServiceError {
  readonly issues: readonly InputIssue[];
  constructor(issues: readonly InputIssue[]) {
    super("invalid", issues.map(({ loc, msg }) => `${loc.join(".")}: ${msg}`).join("; "));
    this.name = "InputError";
    this.issues = issues;
  }
}

/** An invalid configuration. `problems` lists every problem found; each names its key and the remedy. */
export class ConfigError extends Error {
  readonly problems: readonly string[];
  constructor(problems: readonly string[]) {
    super(problems.length === 1 ? `${problems[0]}` : `${problems.length} problems:\n- ${problems.join("\n- ")}`);
    this.name = "ConfigError";
    this.problems = problems;
  }
}

/**
 * Thrown by a CheckpointHandle after the run was taken over, rolled back or deleted: its writes are refused. Executors must rethrow
 * it; it never becomes the error of a run.
 */
export class LeaseLost extends Error {
  readonly lease_lost = true;
  constructor(run_id: string) {
    super(`Run ${run_id} has lost its lease`);
    this.name = "LeaseLost";
  }
}

/** A graph failed to read a stored state. Errors of the storage itself pass through unchanged. */
export class StateUnreadable extends Error {
  override readonly name = "StateUnreadable";
}
