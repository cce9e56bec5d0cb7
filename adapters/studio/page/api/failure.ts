/** What went wrong with a call, in words for the person who reads the page. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly status: number;
  /** 0: the server did not answer. */
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

interface Issue {
  readonly loc?: readonly unknown[];
  readonly msg?: string;
}

/** The text of an error answer: `{detail}` with a text or a list of issues, `{message}`, or the body as it is. */
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

/** The text of any error. */
export function formatError(error: unknown): string {
  if (error instanceof Error) return error.message;
  return typeof error === "string" ? error : JSON.stringify(error);
}

export const isMissing = (error: unknown): boolean => error instanceof Failure && error.status === 404;
