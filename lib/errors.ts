/** Errors that callers can act on, and their codes. */

/** The HTTP status of each code. */
export const STATUS = {
  bad_request: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  too_slow: 408,
  conflict: 409,
  // Not 5xx: clients repeat a call after 5xx, and it could take effect twice.
  outcome_unknown: 409,
  gone: 410,
  too_large: 413,
  unsupported_type: 415,
  wrong_host: 421,
  invalid: 422,
  upgrade_required: 426,
  too_many: 429,
  internal: 500,
  not_built: 501,
  unavailable: 503,
  storage_unavailable: 503,
  storage_full: 507,
} as const;

/** The codes of service errors. Each has one HTTP status. */
export type ErrorCode = keyof typeof STATUS;

/** The code of each reason that says more than a code. scripts/errors.ts has the meaning and the remedy of all. */
export const REASONS = {
  api_key_missing: "unauthenticated",
  api_key_invalid: "unauthenticated",
  origin_refused: "forbidden",
  permission_missing: "forbidden",
  static_accounts: "forbidden",
  workspace_forbidden: "forbidden",
  assistant_not_found: "not_found",
  checkpoint_not_found: "not_found",
  graph_not_found: "not_found",
  route_not_found: "not_found",
  run_not_found: "not_found",
  thread_not_found: "not_found",
  trace_not_found: "not_found",
  event_not_awaited: "not_found",
  usage_disabled: "not_found",
  already_exists: "conflict",
  event_answered: "conflict",
  call_ended: "gone",
  event_misfit: "invalid",
  default_assistant: "conflict",
  delivery_active: "conflict",
  idempotent_run_gone: "conflict",
  interrupt_already_answered: "conflict",
  limit_reached: "conflict",
  no_open_interrupt: "conflict",
  run_active: "conflict",
  submission_key_reused: "conflict",
  thread_busy: "conflict",
  idempotency_key_reused: "invalid",
  public_base_url_missing: "invalid",
  search_not_configured: "invalid",
  webhook_refused: "invalid",
  auth_timeout: "unavailable",
  server_busy: "unavailable",
  server_stopping: "unavailable",
  storage_damaged: "storage_unavailable",
} as const;

/** Why a call failed: a code, or a more exact reason. */
export type ErrorReason = ErrorCode | keyof typeof REASONS;

/** An error that the caller can act on. Clients see `message`, and `reason` as `code`; never `cause`. */
export class ServiceError extends Error {
  readonly code: ErrorCode;
  /** Stable. The same as `code`, or more exact. */
  readonly reason: ErrorReason;
  /** The run that resumes the interrupt, with `interrupt_already_answered`. */
  readonly run_id?: string;
  constructor(reason: ErrorReason, message: string, options?: ErrorOptions & { readonly run_id?: string }) {
    super(message, options);
    this.name = "ServiceError";
    if (options?.run_id !== undefined) this.run_id = options.run_id;
    this.code = (REASONS as Partial<Record<ErrorReason, ErrorCode>>)[reason] ?? (reason as ErrorCode);
    this.reason = reason;
  }
}

/** Returns the error for an id that names nothing, or nothing that the caller may see. `hint` is the end of its message. */
export const notFoundError = (
  resource: "assistant" | "graph" | "run" | "thread",
  id: string,
  hint = "",
): ServiceError =>
  new ServiceError(
    `${resource}_not_found`,
    `${resource.charAt(0).toUpperCase()}${resource.slice(1)} ${id} not found${hint}`,
  );

/** Returns null for an error with the code `not_found`, and rethrows any other. For use as a `catch` handler. */
export function nullIfNotFound(error: unknown): null {
  if (error instanceof ServiceError && error.code === "not_found") return null;
  throw error;
}

/**
 * Returns the error for an unreachable database. With `unknown` the connection was lost during a commit, which may have taken
 * effect (`outcome_unknown`); else with `lost` its files are damaged or gone (`storage_damaged`); else `storage_unavailable`.
 */
export function toStorageError(cause: { readonly unknown?: boolean; readonly lost?: boolean } = {}): ServiceError {
  if (cause.unknown) return new ServiceError("outcome_unknown", OUTCOME_UNKNOWN, { cause });
  if (cause.lost) return new ServiceError("storage_damaged", FILES_LOST, { cause });
  return new ServiceError("storage_unavailable", "The database cannot be reached: retry later", { cause });
}

const OUTCOME_UNKNOWN = "The database was lost during a write: whether it took effect is not known";
const FILES_LOST =
  "The files of the database were damaged, deleted or replaced while the server used them: stop it and restore a backup";

/** True for errors of an unreachable database. A retry may succeed once the database is back. */
export function isOutage(error: unknown): boolean {
  return error instanceof ServiceError && (error.code === "storage_unavailable" || error.code === "outcome_unknown");
}

/** A problem of a request. */
export interface InputIssue {
  /** The place of the problem: member names and list indexes; in requests to the platform API `body` or `query` before them. */
  readonly loc: readonly (string | number)[];
  readonly msg: string;
  /** A code such as `missing`, `value_error`, `uuid_parsing`, `datetime_parsing`. */
  readonly type: string;
}

/** A request with invalid input. */
export class InputError extends ServiceError {
  readonly issues: readonly InputIssue[];
  constructor(issues: readonly InputIssue[]) {
    super("invalid", issues.map(({ loc, msg }) => `${loc.join(".")}: ${msg}`).join("; "));
    this.name = "InputError";
    this.issues = issues;
  }
}

/** A request with values that do not fit the schemas of its agent, or with unknown members of a query. Every route lists the issues. */
export class SchemaMismatch extends InputError {}

/** The error of a field, or of an option of a call. */
export const invalidFieldError = (field: string, msg: string): InputError =>
  new InputError([{ loc: [field], msg, type: "value_error" }]);

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
export class StateReadError extends Error {
  override readonly name = "StateUnreadable";
}
