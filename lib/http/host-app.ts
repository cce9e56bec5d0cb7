/** The application of the host: its own routes beside those of the API, and its Hono middleware, run around them. */

/** An object with `fetch`, such as a Hono application, or a function. No answer means 404. */
export type App =
  | ((request: Request) => AppResponse)
  // biome-ignore lint/suspicious/noExplicitAny: applications take more than the request.
  | { readonly fetch: (request: Request, ...extraArguments: any[]) => AppResponse };

/** What a host's application answers. */
export type AppResponse = Response | null | undefined | Promise<Response | null | undefined>;

/** A function that calls the application. It rejects when the application fails, or returns something that is no Response. */
export function createAppCaller(app: App): (request: Request) => Promise<Response | null> {
  let call: ((request: Request) => AppResponse) | undefined;
  return async (request) => {
    // Routes may be added until the first request.
    call ??= toAppFunction(app);
    const response = (await call(request)) ?? null;
    return response === null ? null : toMutableResponse(response);
  };
}

function toAppFunction(app: App): (request: Request) => AppResponse {
  if (typeof app === "function") return app;
  return isHono(app) ? withNotFoundStatus(app) : (request) => app.fetch(request);
}

/** The application's response, with headers that can be set. Throws a TypeError for anything else. */
export function toMutableResponse(response: unknown): Response {
  if (isResponse(response)) return withMutableHeaders(response);
  throw new TypeError("http.app returned a value that is no Response: return a Response, or nothing for 404");
}

/** By shape, because frameworks bring Response classes that are not the runtime's. */
const isResponse = (value: unknown): value is Response =>
  typeof value === "object" && value !== null && "headers" in value && "status" in value && "body" in value;

/**
 * The response with headers that can be set: those of redirects and of fetched responses are immutable. A 101 stays as it is,
 * because it takes over the connection.
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
 * Hono answers 200 where a `notFound` handler names no status. This is the `fetch` of a copy of the application that answers 404 there. The
 * application itself stays as it is.
 */
function withNotFoundStatus(app: Hono): (request: Request) => AppResponse {
  const copy = copyApp(app);
  if (!copy) return (request) => app.fetch(request);
  const { router } = app;
  async function handleMissing(context: Context): Promise<Response> {
    const response = await context.notFound();
    if (response.status !== 200) return response;
    return new Response(response.body, { status: 404, headers: response.headers });
  }
  const route = { basePath: "/", path: "*", method: "ALL", handler: handleMissing };
  copy.router = {
    name: "greenroom",
    add: () => {},
    match(method, path) {
      const [handlers, ...params] = router.match(method, path);
      return [[...handlers, [[handleMissing, route], {}]], ...params];
    },
  };
  return (request) => copy.fetch(request);
}

/** `basePath` of Hono's own class copies an application with its private handlers; subclasses may copy in another way. */
function copyApp(app: Hono): Hono | null {
  let basePath: Hono["basePath"] | undefined;
  for (let type = Object.getPrototypeOf(app); type !== null; type = Object.getPrototypeOf(type)) {
    if (Object.hasOwn(type, "basePath")) ({ basePath } = type as Hono);
  }
  return basePath?.call(app, "/") ?? null;
}

/** Answers a request; `inner` is what the middleware wraps. Middleware may pass it a new request. */
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
  /** Handlers in their order, each with its route and its parameters; then what the parameters refer to. */
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
/** Hono keeps a wrapped handler here, where a sub-application has an error handler. */
const COMPOSED_HANDLER = "__COMPOSED_HANDLER";

/**
 * Null for other applications. Middleware may be added until the first request. `onRoute` gets the path of each handler for all
 * methods that takes no `next`: it is a route, though it may have been meant as middleware.
 */
export function createAppMiddleware(app: App | undefined, onRoute: (path: string) => void): RequestMiddleware | null {
  if (typeof app !== "object" || !isHono(app)) return null;
  let middlewareApp: Hono | undefined;
  return async (request, next) => {
    middlewareApp ??= createMiddlewareApp(app, onRoute);
    return await middlewareApp.fetch(request, { [NEXT_HANDLER]: next });
  };
}

// Several members, because other frameworks have `routes` and `use` as well.
const isHono = (app: object): app is Hono => {
  const { routes, router, use, onError } = app as Partial<Hono> & { readonly router?: { readonly match?: unknown } };
  return (
    Array.isArray(routes) &&
    [use, onError, router?.match].every((method) => typeof method === "function") &&
    "notFound" in app &&
    "basePath" in app
  );
};

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

/** As Hono decides it: a handler for all methods that takes no `next` is a route. */
const acceptsNext = (handler: HonoRoute["handler"]): boolean => (handler[COMPOSED_HANDLER] ?? handler).length > 1;

/** The request with its body, even if middleware has read the body through Hono. */
async function toReadableRequest(req: Context["req"]): Promise<Request> {
  if (!req.raw.bodyUsed) return req.raw;
  const { url, method, headers, signal } = req.raw;
  return new Request(url, { method, headers, signal, body: await req.arrayBuffer() });
}
