/**
 * What went wrong, as a closed list. Each code has one HTTP status (lib/http/respond.ts): a new code does not compile
 * until it has one.
 */
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
  | "not_built"
  | "unavailable"
  | "storage_full"
  | "storage_unavailable"
  | "outcome_unknown";

/** An error the caller can act on. `message` is shown to clients; `cause` never is. */
export class ServiceError extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ServiceError";
    this.code = code;
  }
}

/** The store cannot be reached. `unknown`: it went away while a write was committed, and nobody can tell whether that took effect. */
export function storageLost({
  unknown = false,
  cause,
}: ErrorOptions & { readonly unknown?: boolean } = {}): ServiceError {
  const [code, text]: readonly [ErrorCode, string] = unknown
    ? ["outcome_unknown", "The database was lost while this was stored: whether it took effect is not known"]
    : ["storage_unavailable", "The database cannot be reached at the moment"];
  return new ServiceError(code, text, { cause });
}

/** True for the error of a store that cannot be reached: what has failed with it may succeed later, by itself. */
export function isOutage(error: unknown): boolean {
  return error instanceof ServiceError && (error.code === "storage_unavailable" || error.code === "outcome_unknown");
}

/** One thing that is wrong with a request of the platform API. */
export interface InputIssue {
  /** Where: `body` or `query`, then member names and list indexes. */
  readonly loc: readonly (string | number)[];
  readonly msg: string;
  /** A code such as `missing`, `value_error`, `uuid_parsing`, `datetime_parsing`. */
  readonly type: string;
}

/** A request of the platform API that cannot be read; the answer lists the issues. */
export class InputError extends ServiceError {
  readonly issues: readonly InputIssue[];
  constructor(issues: readonly InputIssue[]) {
    super("invalid", issues.map(({ loc, msg }) => `${loc.join(".")}: ${msg}`).join("; "));
    this.name = "InputError";
    this.issues = issues;
  }
}

/** The configuration cannot work. `problems` lists everything that was found, each naming its key and the remedy. */
export class ConfigError extends Error {
  readonly problems: readonly string[];
  constructor(problems: readonly string[]) {
    super(problems.length === 1 ? `${problems[0]}` : `${problems.length} problems:\n- ${problems.join("\n- ")}`);
    this.name = "ConfigError";
    this.problems = problems;
  }
}

/**
 * Thrown by a CheckpointHandle when the run was taken over, rolled back or deleted: nothing it writes counts any more.
 * Executors let it pass; it never becomes a run's error.
 */
export class LeaseLost extends Error {
  readonly lease_lost = true;
  constructor(run_id: string) {
    super(`Run ${run_id} is no longer executed here`);
    this.name = "LeaseLost";
  }
}

/** A graph failed to read a stored state. Errors of the storage itself pass through unchanged. */
export class StateUnreadable extends Error {
  override readonly name = "StateUnreadable";
}
