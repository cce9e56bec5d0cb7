/** Routes of the host's own, beside those of the API. */

/** What serves them: an object with `fetch`, such as a Hono application, or a function. Without an answer there is nothing at the path. */
export type App =
  | ((request: Request) => AppAnswer)
  // biome-ignore lint/suspicious/noExplicitAny: applications take more than the request.
  | { readonly fetch: (request: Request, ...more: any[]) => AppAnswer };

export type AppAnswer = Response | null | undefined | Promise<Response | null | undefined>;

/** Asks the application, with the request as it came. Rejects when it fails, or answers with something else. */
export async function askApp(app: App, request: Request): Promise<Response | null> {
  const answer = ("fetch" in app ? await app.fetch(request) : await app(request)) ?? null;
  return answer === null ? null : ownResponse(answer);
}

/** What an application answers, with headers that can be set. Throws for something else. */
export function ownResponse(answer: unknown): Response {
  if (isResponse(answer)) return withOwnHeaders(answer);
  throw new TypeError("The application answered with something that is no Response");
}

/** Frameworks bring classes of their own, which pass for those of the runtime. */
const isResponse = (value: unknown): value is Response =>
  typeof value === "object" && value !== null && "headers" in value && "status" in value && "body" in value;

/**
 * The response with headers that can be set: those of redirects and of fetched responses cannot. One that takes over the
 * connection is left alone.
 */
function withOwnHeaders(response: Response): Response {
  if (response.status === 101) return response;
  try {
    response.headers.delete("x-request-id");
    return response;
  } catch {
    const { status, statusText, body } = response;
    return new Response(body, { status, statusText, headers: new Headers(response.headers) });
  }
}
