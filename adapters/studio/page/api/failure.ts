/** The error of a failed call, with a message for the person who reads the page. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly status: number;
  /** The HTTP status; 0 if the server did not respond. */
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

interface Issue {
  readonly loc?: readonly unknown[];
  readonly msg?: string;
}

/**
 * Returns the message of an error response: its `detail` if that is a text, else its `message`, else the issues of a `detail` that
 * is a list as one text (`path: message; …`), else a body of less than 300 characters as it is, else a text with the status.
 */
export function readErrorMessage(status: number, body: string): string {
  try {
    const { detail, message } = JSON.parse(body) as { detail?: unknown; message?: unknown };
    if (typeof detail === "string") return detail;
    if (typeof message === "string") return message;
    if (Array.isArray(detail)) {
      return (detail as Issue[])
        .map(({ loc = [], msg }) => `${loc.slice(1).join(".") || "request"}: ${msg}`)
        .join("; ");
    }
  } catch {
    // No JSON: a proxy's page, for example.
  }
  return body.length > 0 && body.length < 300 ? body : `The server answered ${status}`;
}

/** Returns the message of an error, a text as it is, or the JSON of another value. */
export function formatError(error: unknown): string {
  if (error instanceof Error) return error.message;
  return typeof error === "string" ? error : JSON.stringify(error);
}

export const isForbidden = (error: unknown): boolean => error instanceof Failure && error.status === 403;
export const isMissing = (error: unknown): boolean => error instanceof Failure && error.status === 404;
