/** The middleware of a host's Hono application, run around the routes of the API. Uses only the public members of Hono instances. */
import type { App } from "./custom-routes.ts";

/** Answers a request; `inner` is what the middleware wraps. Middleware may pass it a new request. */
export type Around = (request: Request, inner: Inner) => Promise<Response>;
type Inner = (request: Request) => Promise<Response>;

interface Route {
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
  readonly routes: readonly Route[];
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
const takesNext = (handler: Route["handler"]): boolean => (handler[COMPOSED] ?? handler).length > 1;

/** The request with its body, even if middleware has read the body through Hono. */
async function unread(req: Context["req"]): Promise<Request> {
  if (!req.raw.bodyUsed) return req.raw;
  const { url, method, headers, signal } = req.raw;
  return new Request(url, { method, headers, signal, body: await req.arrayBuffer() });
}
