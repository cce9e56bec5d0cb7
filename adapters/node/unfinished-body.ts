/** Requests whose body does not end: Bun and Deno would keep such a connection open after the answer. */

/** The time that the rest of a request may take to arrive after its response. */
export const UNREAD_BODY_TIMEOUT_MS = 1_000;

/** The statuses of answers to a body that took too long, or was too large. */
const UNREAD_STATUSES = new Set([408, 413]);

/**
 * Resolves with true if the body of an answered request has not arrived. Reads and drops a body that was not read, for
 * a limited time, and then cancels it. If the handler has read it, only the status of the response decides. False
 * without a body and for a client that has gone.
 */
export async function hasUnfinishedBody(request: Request, response: Response): Promise<boolean> {
  if (request.bodyUsed) return UNREAD_STATUSES.has(response.status);
  const reader = request.body?.getReader();
  if (!reader) return false;
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    reader.cancel().catch(() => {});
  }, UNREAD_BODY_TIMEOUT_MS);
  try {
    while (!(await reader.read()).done);
  } catch {
    // The client has gone.
  }
  clearTimeout(timer);
  return isLate;
}

/** The body of `cutShort` fails with it. */
export class UnfinishedBodyError extends Error {}

/** When the body of an answer fails: Deno keeps the connection if it does so at once. */
const BODY_ERROR_DELAY_MS = 500;

/**
 * Reads the response to its end and returns one with the same content that fails after it: Deno closes the connection for nothing
 * else, and ignores the header `connection`. The client gets the whole text first.
 */
export async function failAfterBody(response: Response): Promise<Response> {
  const bytes = new Uint8Array(await response.arrayBuffer());
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(bytes);
      setTimeout(() => controller.error(new UnfinishedBodyError("The request has not arrived")), BODY_ERROR_DELAY_MS);
    },
  });
  const headers = new Headers(response.headers);
  headers.delete("content-length");
  return new Response(body, { status: response.status, headers });
}

/** Answers that go on without end. */
export const isEventStream = ({ headers }: Response): boolean =>
  headers.get("content-type")?.startsWith("text/event-stream") === true;
