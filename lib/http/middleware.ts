/** The middleware of a host's Hono application, run around the answers of the API. Of Hono only what its instances show is used. */
import type { App } from "./custom-routes.ts";

/** Answers a request; `inner` is what the middleware stands around. It may be called with a request of their own making. */
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
/** Where Hono keeps a handler that it has wrapped for an error handler of a part. */
const COMPOSED = "__COMPOSED_HANDLER";

/**
 * Null for an application of another kind. Middleware may be added until the first request. `passedOver` is told the paths of what
 * may have been meant as middleware, and takes no `next`.
 */
export function middlewareOf(app: App | undefined, passedOver: (path: string) => void): Around | null {
  if (typeof app !== "object" || !isHono(app)) return null;
  let layers: Hono | undefined;
  return async (request, inner) => {
    layers ??= layersOf(app, passedOver);
    return await layers.fetch(request, { [INNER]: inner });
  };
}

// Other frameworks have routes and `use` as well.
const isHono = (app: object): app is Hono => {
  const { routes, router, use, onError } = app as Partial<Hono> & { readonly router?: { readonly match?: unknown } };
  return (
    Array.isArray(routes) &&
    [use, onError, router?.match].every((one) => typeof one === "function") &&
    "notFound" in app &&
    "basePath" in app
  );
};

function layersOf(app: Hono, passedOver: (path: string) => void): Hono {
  const layers = new app.constructor({ getPath: app.getPath });
  for (const { path, handler } of app.routes.filter(({ method }) => method === "ALL")) {
    if (takesNext(handler)) layers.use(path, handler);
    else passedOver(path);
  }
  layers.all("*", async (context) => {
    const answer = await context.env[INNER](await unread(context.req));
    // So it gets the headers that middleware has set before.
    return answer.status === 101 ? answer : context.newResponse(answer.body, answer);
  });
  if (typeof app.errorHandler === "function") layers.onError(app.errorHandler);
  return layers;
}

/** Whatever else is there for all methods is a route, as Hono sees it too: the API has the path. */
const takesNext = (handler: Route["handler"]): boolean => (handler[COMPOSED] ?? handler).length > 1;

/** The request with its body, also where middleware has read that through Hono. */
async function unread(req: Context["req"]): Promise<Request> {
  if (!req.raw.bodyUsed) return req.raw;
  const { url, method, headers, signal } = req.raw;
  return new Request(url, { method, headers, signal, body: await req.arrayBuffer() });
}
