/** The application of the host: its own routes beside those of the API, and its Hono middleware, run around them. */

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

/** Answers a request; `inner` is what the middleware wraps. Middleware may pass it a new request. */
type Around = (request: Request, inner: Inner) => Promise<Response>;
type Inner = (request: Request) => Promise<Response>;

interface HonoRoute {
  readonly path: string;
  readonly method: string;
  readonly handler: Middleware & { readonly [COMPOSED]?: Middleware };
}
type Middleware = (context: Context, next: () => Promise<void>) => unknown;

interface Context {
  readonly req: { readonly raw: Request; arrayBuffer(): Promise<ArrayBuffer> };
  readonly env: { readonly [INNER]: Inner };
  newResponse(body: ReadableStream<Uint8Array> | null, response: Response): Response;
}

interface Hono {
  readonly routes: readonly HonoRoute[];
  readonly getPath: unknown;
  readonly errorHandler?: unknown;
  readonly constructor: new (options: { readonly getPath: unknown }) => Hono;
  use(path: string, handler: Middleware): unknown;
  all(path: string, handler: Middleware): unknown;
  onError(handler: unknown): unknown;
  readonly fetch: (request: Request, env: Context["env"]) => Response | Promise<Response>;
}

const INNER: unique symbol = Symbol("greenroom.inner");
/** Hono keeps a wrapped handler here, where a sub-application has an error handler. */
const COMPOSED = "__COMPOSED_HANDLER";

/**
 * Null for other applications. Middleware may be added until the first request. `onRoute` gets the path of each handler for all
 * methods that takes no `next`: it is a route, though it may have been meant as middleware.
 */
export function middlewareOf(app: App | undefined, onRoute: (path: string) => void): Around | null {
  if (typeof app !== "object" || !isHono(app)) return null;
  let layers: Hono | undefined;
  return async (request, inner) => {
    layers ??= layersOf(app, onRoute);
    return await layers.fetch(request, { [INNER]: inner });
  };
}

// Several members, because other frameworks have `routes` and `use` as well.
const isHono = (app: object): app is Hono => {
  const { routes, router, use, onError } = app as Partial<Hono> & { readonly router?: { readonly match?: unknown } };
  return (
    Array.isArray(routes) &&
    [use, onError, router?.match].every((one) => typeof one === "function") &&
    "notFound" in app &&
    "basePath" in app
  );
};

function layersOf(app: Hono, onRoute: (path: string) => void): Hono {
  const layers = new app.constructor({ getPath: app.getPath });
  for (const { path, handler } of app.routes.filter(({ method }) => method === "ALL")) {
    if (takesNext(handler)) layers.use(path, handler);
    else onRoute(path);
  }
  layers.all("*", async (context) => {
    const answer = await context.env[INNER](await unread(context.req));
    // `newResponse` adds the headers that middleware has set before.
    return answer.status === 101 ? answer : context.newResponse(answer.body, answer);
  });
  if (typeof app.errorHandler === "function") layers.onError(app.errorHandler);
  return layers;
}

/** As Hono decides it: a handler for all methods that takes no `next` is a route. */
const takesNext = (handler: HonoRoute["handler"]): boolean => (handler[COMPOSED] ?? handler).length > 1;

/** The request with its body, even if middleware has read the body through Hono. */
async function unread(req: Context["req"]): Promise<Request> {
  if (!req.raw.bodyUsed) return req.raw;
  const { url, method, headers, signal } = req.raw;
  return new Request(url, { method, headers, signal, body: await req.arrayBuffer() });
}
