/** Words an error for the terminal. */

type ErrorClass = abstract new (...args: never[]) => Error;

/**
 * Returns the message of an error of one of the classes, which its user can correct, else the stack. Returns a value
 * that is no error as text.
 */
export function describeError(error: unknown, userErrors: readonly ErrorClass[]): string {
  if (!(error instanceof Error)) return String(error);
  const isUserError = userErrors.some((userError) => error instanceof userError);
  return isUserError ? error.message : (error.stack ?? error.message);
}
