/** The host's own routes, beside those of the API. */

/** An object with `fetch`, such as a Hono application, or a function. No answer means 404. */
export type App =
  | ((request: Request) => AppAnswer)
  // biome-ignore lint/suspicious/noExplicitAny: applications take more than the request.
  | { readonly fetch: (request: Request, ...more: any[]) => AppAnswer };

/** What a host's application answers. */
export type AppAnswer = Response | null | undefined | Promise<Response | null | undefined>;

/** Calls the application. Rejects when it fails, or returns something that is no Response. */
export async function askApp(app: App, request: Request): Promise<Response | null> {
  const answer = ("fetch" in app ? await app.fetch(request) : await app(request)) ?? null;
  return answer === null ? null : ownResponse(answer);
}

/** The application's response, with headers that can be set. Throws a TypeError for anything else. */
export function ownResponse(answer: unknown): Response {
  if (isResponse(answer)) return withOwnHeaders(answer);
  throw new TypeError("http.app returned a value that is no Response: return a Response, or nothing for 404");
}

/** By shape, because frameworks bring Response classes that are not the runtime's. */
const isResponse = (value: unknown): value is Response =>
  typeof value === "object" && value !== null && "headers" in value && "status" in value && "body" in value;

/**
 * The response with headers that can be set: those of redirects and of fetched responses are immutable. A 101 stays as it is,
 * because it takes over the connection.
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
