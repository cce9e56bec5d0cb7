/** Tells refused runs from those that may exist. */

/** The HTTP statuses of errors that refuse a run before it is created. */
const REFUSALS: readonly unknown[] = [400, 403, 404, 409, 413, 422];

/**
 * Returns true if an error with this HTTP status and code says that a new run was not created. After `outcome_unknown`, which has
 * status 409 too, the run may exist.
 */
export const isRefusal = (status: unknown, code: unknown): boolean =>
  REFUSALS.includes(status) && code !== "outcome_unknown";
