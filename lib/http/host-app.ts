/** Calls the application of the host for paths without a route, and runs its Hono middleware around the API. */

/** The host's application: an object with `fetch`, such as a Hono application, or a function. No response means 404. */
export type App =
  | ((request: Request) => AppResponse)
  // biome-ignore lint/suspicious/noExplicitAny: applications take more than the request.
  | { readonly fetch: (request: Request, ...extraArguments: any[]) => AppResponse };

/** The result of the host's application. */
export type AppResponse = Response | null | undefined | Promise<Response | null | undefined>;

/**
 * Returns a function that calls the application, and resolves to its response with mutable headers, or to null if there
 * is none. It rejects if the application fails or returns a value that is no Response. The first call fixes the routes
 * of a Hono application.
 */
export function createAppCaller(app: App): (request: Request) => Promise<Response | null> {
  let call: ((request: Request) => AppResponse) | undefined;
  return async (request) => {
    // The host may add routes until the first request.
    call ??= createRequestFunction(app);
    const response = (await call(request)) ?? null;
    return response === null ? null : toMutableResponse(response);
  };
}

/**
 * Returns the application if it is a function, else its `fetch`. Copies a Hono application, so that later routes of it
 * have no effect and missing paths get 404.
 */
function createRequestFunction(app: App): (request: Request) => AppResponse {
  if (typeof app === "function") return app;
  return isHono(app) ? withNotFoundStatus(app) : (request) => app.fetch(request);
}

/**
 * Returns the response with mutable headers: the same object if they are mutable or its status is 101, else a copy with
 * the same body. Removes `x-request-id` if they are mutable. Throws a TypeError for a value that is no Response.
 */
export function toMutableResponse(response: unknown): Response {
  if (isResponse(response)) return withMutableHeaders(response);
  throw new TypeError("http.app returned a value that is no Response: return a Response, or nothing for 404");
}

/** Checks the shape, because frameworks have Response classes of their own. */
const isResponse = (value: unknown): value is Response =>
  typeof value === "object" && value !== null && "headers" in value && "status" in value && "body" in value;

/**
 * Returns the response itself if its headers are mutable, without `x-request-id`. Returns a copy with the same body if
 * they are not, as those of redirects and of fetched responses. A 101 stays unchanged, because it takes over the
 * connection.
 */
function withMutableHeaders(response: Response): Response {
  if (response.status === 101) return response;
  try {
    response.headers.delete("x-request-id");
    return response;
  } catch {
    const { status, statusText, body } = response;
    return new Response(body, { status, statusText, headers: new Headers(response.headers) });
  }
}

/**
 * Returns the `fetch` of a copy of the application that responds with 404 where a `notFound` handler sets no status.
 * Hono responds with 200 there. The application itself stays unchanged. If it cannot be copied, returns its own
 * `fetch`.
 */
function withNotFoundStatus(app: Hono): (request: Request) => AppResponse {
  const copy = copyApp(app);
  if (!copy) return (request) => app.fetch(request);
  const { router } = app;
  /** Returns the response of the app for a missing path, with status 404 if the app gave it 200. */
  async function handleMissing(context: Context): Promise<Response> {
    const response = await context.notFound();
    if (response.status !== 200) return response;
    return new Response(response.body, { status: 404, headers: response.headers });
  }
  const route = { basePath: "/", path: "*", method: "ALL", handler: handleMissing };
  copy.router = {
    name: "greenroom",
    add: () => {},
    /** Adds the handler of missing paths after those that match. */
    match(method, path) {
      const [handlers, ...params] = router.match(method, path);
      return [[...handlers, [[handleMissing, route], {}]], ...params];
    },
  };
  return (request) => copy.fetch(request);
}

/**
 * Copies an application, with its private handlers, by the `basePath` of Hono itself: overrides of subclasses are not called.
 * Returns null if no class of the application has that method.
 */
function copyApp(app: Hono): Hono | null {
  let basePath: Hono["basePath"] | undefined;
  for (let type = Object.getPrototypeOf(app); type !== null; type = Object.getPrototypeOf(type)) {
    if (Object.hasOwn(type, "basePath")) ({ basePath } = type as Hono);
  }
  return basePath?.call(app, "/") ?? null;
}

/** Responds to a request. `next` is the handler inside the middleware, which may pass it a new request. */
type RequestMiddleware = (request: Request, next: NextHandler) => Promise<Response>;
type NextHandler = (request: Request) => Promise<Response>;

interface HonoRoute {
  readonly path: string;
  readonly method: string;
  readonly handler: Middleware & { readonly [COMPOSED_HANDLER]?: Middleware };
}
type Middleware = (context: Context, next: () => Promise<void>) => unknown;

interface Context {
  readonly req: { readonly raw: Request; arrayBuffer(): Promise<ArrayBuffer> };
  readonly env: { readonly [NEXT_HANDLER]: NextHandler };
  newResponse(body: ReadableStream<Uint8Array> | null, response: Response): Response;
  notFound(): Response | Promise<Response>;
}

interface HonoRouter {
  readonly name: string;
  add(method: string, path: string, handler: unknown): void;
  /** Returns the handlers in order, each with its route and its parameters, followed by the values of the parameters. */
  match(method: string, path: string): [handlers: unknown[], ...params: unknown[]];
}

interface Hono {
  router: HonoRouter;
  readonly routes: readonly HonoRoute[];
  readonly getPath: unknown;
  readonly errorHandler?: unknown;
  readonly constructor: new (options: { readonly getPath: unknown }) => Hono;
  use(path: string, handler: Middleware): unknown;
  all(path: string, handler: Middleware): unknown;
  onError(handler: unknown): unknown;
  basePath(path: string): Hono;
  readonly fetch: (request: Request, env?: Context["env"]) => Response | Promise<Response>;
}

const NEXT_HANDLER: unique symbol = Symbol("greenroom.inner");
/** The property in which Hono stores a wrapped handler if a sub-application has an error handler. */
const COMPOSED_HANDLER = "__COMPOSED_HANDLER";

/**
 * Returns the middleware of a Hono application, or null for other applications. Middleware may be added until the first
 * request. At that request, calls `onRoute` with the path of each handler for all methods that takes no `next`: it is a
 * route, perhaps meant as middleware, and is not run here.
 */
export function createAppMiddleware(app: App | undefined, onRoute: (path: string) => void): RequestMiddleware | null {
  if (typeof app !== "object" || !isHono(app)) return null;
  let middlewareApp: Hono | undefined;
  return async (request, next) => {
    middlewareApp ??= createMiddlewareApp(app, onRoute);
    return await middlewareApp.fetch(request, { [NEXT_HANDLER]: next });
  };
}

// Several members are checked, because other frameworks have `routes` and `use` as well.
const isHono = (app: object): app is Hono => {
  const { routes, router, use, onError } = app as Partial<Hono> & { readonly router?: { readonly match?: unknown } };
  return (
    Array.isArray(routes) &&
    [use, onError, router?.match].every((method) => typeof method === "function") &&
    "notFound" in app &&
    "basePath" in app
  );
};

/**
 * Creates an application with the handlers of `app` for all methods that take a `next`, and with its error handler. It
 * ends in the `next` of the request, whose response gets the headers that middleware has set. Calls `onRoute` with the
 * path of a handler that takes no `next`, and omits it.
 */
function createMiddlewareApp(app: Hono, onRoute: (path: string) => void): Hono {
  const middlewareApp = new app.constructor({ getPath: app.getPath });
  for (const { path, handler } of app.routes.filter(({ method }) => method === "ALL")) {
    if (acceptsNext(handler)) middlewareApp.use(path, handler);
    else onRoute(path);
  }
  middlewareApp.all("*", async (context) => {
    const response = await context.env[NEXT_HANDLER](await toReadableRequest(context.req));
    // `newResponse` adds the headers that middleware has set before.
    return response.status === 101 ? response : context.newResponse(response.body, response);
  });
  if (typeof app.errorHandler === "function") middlewareApp.onError(app.errorHandler);
  return middlewareApp;
}

/** Returns true if a handler takes `next`. As in Hono, a handler for all methods that takes none is a route. */
const acceptsNext = (handler: HonoRoute["handler"]): boolean => (handler[COMPOSED_HANDLER] ?? handler).length > 1;

/**
 * Returns the request itself if its body is unread. If middleware has read the body through Hono, returns a new request
 * with the same method, headers, signal and body.
 */
async function toReadableRequest(req: Context["req"]): Promise<Request> {
  if (!req.raw.bodyUsed) return req.raw;
  const { url, method, headers, signal } = req.raw;
  return new Request(url, { method, headers, signal, body: await req.arrayBuffer() });
}
