/** Words an error for the terminal. */

type ErrorClass = abstract new (...args: never[]) => Error;

/** Returns the message of an error that its user can correct, which is of one of the classes, and the stack of any other. */
export function describeError(error: unknown, userErrors: readonly ErrorClass[]): string {
  if (!(error instanceof Error)) return String(error);
  const isUserError = userErrors.some((userError) => error instanceof userError);
  return isUserError ? error.message : (error.stack ?? error.message);
}
