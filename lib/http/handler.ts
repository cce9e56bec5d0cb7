/**
 * The HTTP entry: `createHandler` serves a service by the route table.
 * @module
 */
import { type AuthUser, HandlerRefusal } from "../auth/custom.ts";
import { createSemaphore, createTickBudget, type Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import { findDisabledGroups, type HttpOptions } from "../options/http.ts";
import { getPublicBaseUrl } from "../options.ts";
import { type Service, type ServiceInternals, serviceInternals } from "../service.ts";
import { findProblems } from "../validation.ts";
import {
  type Authentication,
  authenticate,
  CorsPolicy,
  getDefaultAccessLevel,
  mayChangeState,
  resolveAccess,
} from "./access.ts";
import { createBodyBudget } from "./body-budget.ts";
import { ClientDisconnectedError } from "./byte-budget.ts";
import { type CreateContext, createContextFactory, isReadOnly, requireKnownQuery } from "./context.ts";
import { createAppCaller, createAppMiddleware, toMutableResponse } from "./host-app.ts";
import { type HandlerOptions, handlerOptionsSchema } from "./options.ts";
import { createBodyReader, createHeaderCopier } from "./request.ts";
import { errorResponse, failureResponse, type HeaderValues } from "./respond.ts";
import type { HandlerHost, HandlerState, RequestContext, Route } from "./route.ts";
import { createRouteTable, isDisabledBy, type MatchedRoute, type RouteTable } from "./route-table.ts";
import { ROUTES } from "./routes/mod.ts";
import { createUnknownKeyLog } from "./unknown-keys.ts";

export type * from "../types.ts";
export type { App, AppResponse } from "./host-app.ts";
export type { HandlerOptions, OpenApi, Studio } from "./options.ts";
export type { HandlerHost, HostSocket } from "./route.ts";

/** The maximum number of chunks that all streams send in one tick of the event loop. */
const MAX_CHUNKS_PER_TICK = 64;
/** The maximum size of the buffered messages of all sockets whose runtime sends messages whole. */
const MAX_BUFFERED_MESSAGE_CHARS = 64 * 1024 * 1024;

/**
 * A web-standard request handler. It responds to every request and never rejects. `host` has functions of the host for the request,
 * such as opening a WebSocket. Other values that servers pass are ignored.
 */
export type Handler = (request: Request, host?: HandlerHost | object) => Promise<Response>;

/**
 * Returns a handler for `Bun.serve`, `Deno.serve`, a host's own router, or a client's `fetch` in a test. It never
 * rejects: errors become responses. Each response gets CORS headers and `x-request-id`, which is that of the request if
 * valid, else a new UUID. Throws a TypeError for options that are not valid.
 *
 * @example
 * ```ts
 * import { createHandler } from "greenroom/server";
 *
 * const handler = createHandler(service, { prefix: "/agents" });
 * const response = await handler(new Request("http://localhost/agents/ok"));
 * ```
 */
export function createHandler(service: Service, options: HandlerOptions = {}): Handler {
  const [problem] = findProblems(handlerOptionsSchema, options);
  if (problem !== undefined) throw new TypeError(`createHandler: ${problem}`);
  const mount = createMount(serviceInternals(service), options);
  const { environment } = mount.service;
  return async (request, host = {}) => {
    const headerValue = request.headers.get("x-request-id");
    const request_id = headerValue !== null && /^[\w.:-]{1,128}$/.test(headerValue) ? headerValue : environment.uuid();
    const response = await toResponse(
      environment,
      { request, request_id },
      handleRequest(mount, request, request_id, host),
    );
    // After a 101 the connection is a WebSocket, whose response takes no headers.
    if (response.status === 101) return response;
    response.headers.set("x-request-id", request_id);
    mount.cors.addResponseHeaders(request, response.headers);
    return response;
  };
}

/** A service with the options of the handler that serves it. */
interface Mount {
  /** The path of the mount, without a trailing slash. */
  readonly base: string;
  readonly service: ServiceInternals;
  readonly options: HandlerOptions;
  readonly http: HttpOptions;
  readonly cors: CorsPolicy;
  readonly table: RouteTable;
  readonly createContext: CreateContext;
  readonly respondNotBuilt: (route: Route) => Response;
  readonly callApp: ReturnType<typeof createAppCaller> | undefined;
  readonly middleware: ReturnType<typeof createAppMiddleware>;
}

/**
 * Creates the parts of a handler: CORS policy, route table without disabled routes, body reader, and the middleware of the host's
 * application.
 */
function createMount(service: ServiceInternals, options: HandlerOptions): Mount {
  const { environment } = service;
  const { http = {} } = service.options;
  const base = (options.prefix ?? "").replace(/\/$/, "");
  const cors = new CorsPolicy(http.cors, options.hosts, options.langsmith_studio);
  const disabled = findDisabledGroups(http);
  const table = createRouteTable([...ROUTES, ...createStudioRoutes(options, base)], base, isDisabledBy(http));
  const { read, messages: messageParser } = createBodyReader(environment, http);
  const state = createHandlerState(environment, http, options, { base, table, disabled, messageParser, cors });
  const middleware = createAppMiddleware(options.app, (path) => {
    const message = "http.app: a handler for all methods takes no next, so it is a route and not run as middleware";
    environment.log({ level: "warn", message, path });
  });
  return {
    ...{ base, service, options, http, cors, table, middleware },
    createContext: createContextFactory(service, read, state),
    respondNotBuilt: createNotBuiltResponder(service),
    callApp: options.app && createAppCaller(options.app),
  };
}

interface HandlerParts extends Pick<HandlerState, "base" | "messageParser"> {
  readonly table: RouteTable;
  readonly disabled: ReadonlySet<string>;
  readonly cors: CorsPolicy;
}

/** Creates what all requests of a handler share: budgets, limits of sockets, and functions that depend on the options. */
function createHandlerState(
  environment: Environment,
  http: HttpOptions,
  options: HandlerOptions,
  { base, table, disabled, messageParser, cors }: HandlerParts,
): HandlerState {
  return {
    base,
    streamingBodies: { environment, openCount: 0, tickBudget: createTickBudget(environment, MAX_CHUNKS_PER_TICK) },
    bodyBudget: createBodyBudget(environment, http.large_bodies),
    socketLimits: {
      commandBudget: createTickBudget(environment, 1),
      largeMessageBudget: createSemaphore(MAX_BUFFERED_MESSAGE_CHARS),
    },
    docs: options.docs,
    hasStudio: options.studio !== undefined,
    logUnknownKeys: options.development ? createUnknownKeyLog(environment) : undefined,
    copyHeaders: createHeaderCopier(http.configurable_headers),
    messageParser,
    checkUpgrade: (request) => cors.checkUpgrade(request),
    async isHiddenPath(path) {
      await table.load(`${base}${path}`);
      return table.findRoutes(`${base}${path}`).length === 0;
    },
    filterFlags: (flags) =>
      Object.fromEntries(Object.entries(flags).map(([name, isEnabled]) => [name, isEnabled && !disabled.has(name)])),
  };
}

/**
 * Responds from the route table, through the middleware of the host's application if it has some, or from the
 * application at a path below the prefix without a route. Checks host, origin and credentials first; paths of the
 * application need `enable_custom_route_auth` for the last. Answers preflights. Rejects if the request is refused.
 */
async function handleRequest(mount: Mount, request: Request, request_id: string, host: HandlerHost): Promise<Response> {
  const { base, options, http, cors, table, middleware } = mount;
  const url = URL.parse(request.url);
  // On Bun and Deno a malformed Host header leads to a malformed URL.
  if (!url) throw new ServiceError("bad_request", "The Host header is malformed");
  const { pathname } = url;
  const loading = table.load(pathname);
  if (loading) await loading;
  const isInside = stripPrefix(base, pathname) !== null;
  const isPublic = (): boolean => table.findRoutes(pathname)[0]?.public_headers !== undefined;
  const target = { isPublic, isChange: () => mayChangeState(request, table.findRoutes(pathname)) };
  cors.checkRequest(request, target);
  const isForApp = options.app !== undefined && isInside && table.findRoutes(pathname).length === 0;
  const isPreflight = request.headers.has("access-control-request-method");
  if (request.method === "OPTIONS" && (isPreflight || !isForApp) && !isPublic())
    return cors.createPreflightResponse(request);
  const user = options.acts_for?.(request) ?? null;
  if (!isForApp || http.enable_custom_route_auth) cors.checkCredentials(request, target);
  if (isForApp) return await respondFromApp(mount, request, user);
  const incoming = { request, url, origin: { request_id, host, user } };
  if (!middleware || !isInside) return await respondFromRoutes(mount, incoming);
  return await respondInMiddleware(mount, middleware, incoming);
}

/**
 * Returns the response of the host's application. Authenticates before that if `http.enable_custom_route_auth` is set.
 * Throws `route_not_found` if the application returns no response.
 */
async function respondFromApp(
  { service, http, callApp }: Mount,
  request: Request,
  user: AuthUser | null,
): Promise<Response> {
  if (http.enable_custom_route_auth)
    await service.access.principal(request, getDefaultAccessLevel(request.method), user);
  const response = (await callApp?.(request)) ?? null;
  if (!response) throw routeNotFoundError();
  return response;
}

/**
 * Returns the response of the host's middleware, with mutable headers. Its `next` responds from the route table. With
 * `auth_first`, authenticates before the middleware, and rejects without a call of it if that fails.
 */
async function respondInMiddleware(
  mount: Mount,
  middleware: NonNullable<Mount["middleware"]>,
  incoming: IncomingRequest,
): Promise<Response> {
  const { table, http } = mount;
  const { request, url, origin } = incoming;
  let authentication: Authentication | undefined;
  if (http.middleware_order === "auth_first") {
    const route = (await table.matchRequest(request.method, url))?.route;
    authentication = createAuthentication(mount, incoming, route);
    await (authentication.access === "account" ? authentication.accountCaller() : authentication.principal());
  }
  /**
   * Responds from the route table to the request that the middleware passes on, which may be for another route. The authentication
   * of the outer request is kept for the same route. Resolves to an error response if no route matches or a handler throws.
   */
  const next = async (innerRequest: Request): Promise<Response> => {
    const url = new URL(innerRequest.url);
    await table.load(url.pathname);
    return await respondFromRoutes(mount, { request: innerRequest, url, origin: { ...origin, authentication } });
  };
  return toMutableResponse(await middleware(request, next));
}

/**
 * Responds by the route table. Converts errors to responses in the format of the route, with its challenge. Reuses the
 * authentication that preceded the middleware if the route is still the same; otherwise authenticates anew.
 */
async function respondFromRoutes(mount: Mount, incoming: IncomingRequest): Promise<Response> {
  const { base, service, table } = mount;
  const { request, url, origin } = incoming;
  const { request_id, authentication } = origin;
  const match = await table.matchRequest(request.method, url);
  const route = match?.route;
  // Middleware may forward a request to a route other than the authenticated one.
  const auth =
    authentication && authentication.route === route ? authentication : createAuthentication(mount, incoming, route);
  const response = match
    ? callRoute(mount, incoming, match, auth)
    : respondToUnmatched(request, table.findRoutes(url.pathname), auth);
  const base_url = (): string => getPublicBaseUrl(service.options) ?? new URL(request.url).origin + base;
  const challenge = (error: ServiceError) => route?.challenge?.(service.options, base_url(), error);
  return await toResponse(service.environment, { request, request_id }, response, { route, challenge });
}

/**
 * Authenticates, and calls the handler of the route within the budget of bodies; 501 for a route that is not built. HEAD on a
 * public route is answered without a call.
 */
async function callRoute(
  { createContext, respondNotBuilt }: Mount,
  { request, url, origin: { request_id, host } }: IncomingRequest,
  match: MatchedRoute,
  auth: Authentication,
): Promise<Response> {
  const { handle, public_headers } = match.route;
  // Mail scanners open links with HEAD, which must not submit anything.
  if (public_headers && request.method === "HEAD") {
    return new Response(null, { status: 204, headers: public_headers.all });
  }
  const principal = await auth.principal();
  if (match.route.strict_query) await requireKnownQuery(match, auth);
  if (!handle) return respondNotBuilt(match.route);
  const context = createContext({ request, request_id, host, principal, auth }, match);
  const call = (): Response | Promise<Response> => handle(context);
  const name = `${request.method} ${url.pathname}${url.search}`;
  const { bodyBudget } = context;
  if (isReadOnly(match.route, auth.access)) return await bodyBudget.respondToRead(name, call);
  return await bodyBudget.respondToChange(request.method === "POST" ? null : name, call);
}

/** Creates the authentication of a request. Throws nothing, because the credential is checked later. */
function createAuthentication(
  { base, service, options, table }: Mount,
  { request, url: { pathname }, origin: { user } }: IncomingRequest,
  route: Route | undefined,
): Authentication {
  const matched = { path: stripPrefix(base, pathname) ?? "", route, routes: () => table.findRoutes(pathname) };
  const access = resolveAccess(request, matched, options.open_metrics);
  return authenticate(service.access, { request, route, access, user });
}

/**
 * Returns the response, or the response to its error, without a body for HEAD. Logs an error that is not a ServiceError. Never
 * rejects; a disconnected client gets 503.
 */
async function toResponse(
  environment: Environment,
  { request, request_id }: Pick<RequestContext, "request" | "request_id">,
  pendingResponse: Promise<Response>,
  { route, challenge }: ResponseContext = {},
): Promise<Response> {
  const response = await pendingResponse.catch((error: unknown) => {
    // The client has disconnected.
    if (error instanceof ClientDisconnectedError) return new Response(null, { status: 503 });
    const isServiceError = error instanceof ServiceError;
    if (!isServiceError) {
      environment.log({ level: "error", message: "A request failed", method: request.method, request_id, error });
    }
    const challengeHeader = isServiceError ? challenge?.(error) : undefined;
    const headers: HeaderValues = challengeHeader === undefined ? {} : { "www-authenticate": challengeHeader };
    // The authentication of the host sets the status, text and headers.
    if (error instanceof HandlerRefusal) {
      return errorResponse(error, { ...headers, ...error.headers }, route, error.status);
    }
    return failureResponse(error, request, { ...headers, ...route?.public_headers?.all }, route);
  });
  if (request.method !== "HEAD" || response.status === 101) return response;
  await response.body?.cancel();
  return new Response(null, { status: response.status, headers: response.headers });
}

/** The route of a response, and a function that returns the `WWW-Authenticate` header of an error. */
interface ResponseContext {
  readonly route?: Route | undefined;
  readonly challenge?: (error: ServiceError) => string | undefined;
}

/** A request as it was received or as middleware forwarded it. */
interface IncomingRequest {
  readonly request: Request;
  readonly url: URL;
  readonly origin: RequestOrigin;
}

/** The parts of a request that stay when middleware forwards another Request object. */
interface RequestOrigin extends Pick<RequestContext, "request_id" | "host"> {
  readonly user: AuthUser | null;
  /** Set if authentication preceded the middleware. */
  readonly authentication?: Authentication | undefined;
}

/** Returns the path below the mount, or null outside of it. */
const stripPrefix = (base: string, pathname: string): string | null =>
  pathname === base || pathname.startsWith(`${base}/`) ? pathname.slice(base.length) : null;

const routeNotFoundError = (): ServiceError => new ServiceError("route_not_found", "There is nothing at this path");

/**
 * Returns the open GET routes `/`, `/studio` and `/studio/*`, which call the studio with the path below the prefix.
 * Returns none without a studio. With an application of the host, `/` is not one of them.
 */
const createStudioRoutes = ({ studio, app }: HandlerOptions, base: string): Route[] =>
  !studio
    ? []
    : ([...(app ? [] : ["/" as const]), "/studio", "/studio/*"] as const).map((path) => ({
        method: "get",
        path,
        tag: "Server",
        summary: "The studio",
        access: "open",
        handle: ({ request }) => studio(request, stripPrefix(base, new URL(request.url).pathname) ?? ""),
      }));

/**
 * Authenticates the caller, then throws `route_not_found` if the path has no `routes`, or responds 405 with their
 * methods in `allow`. Responds to OPTIONS on a public route with 204 and its preflight headers, without authentication.
 */
async function respondToUnmatched(request: Request, routes: readonly Route[], auth: Authentication): Promise<Response> {
  const { public_headers } = routes[0] ?? {};
  if (public_headers && request.method === "OPTIONS") {
    return new Response(null, { status: 204, headers: public_headers.preflight });
  }
  await auth.principal();
  if (routes.length === 0) throw routeNotFoundError();
  const publicRoutes = public_headers ? routes.filter((route) => route.public_headers === public_headers) : routes;
  const methods = new Set(publicRoutes.map(({ method }) => method.toUpperCase()));
  if (methods.has("GET")) methods.add("HEAD");
  if (public_headers) methods.add("OPTIONS");
  const allow = [...methods].join(", ");
  const error = new ServiceError("method_not_allowed", `${request.method} is not allowed here: ${allow}`);
  return errorResponse(error, { ...public_headers?.all, allow });
}

/** Returns a function that responds with 501. It logs each route once, because some clients probe for routes at every start. */
function createNotBuiltResponder({ environment }: ServiceInternals): (route: Route) => Response {
  const logged = new Set<Route>();
  return (route) => {
    const { path, summary: routeSummary } = route;
    const message = "a route was called that is not built yet";
    if (!logged.has(route)) environment.log({ level: "warn", message, path, what: routeSummary });
    logged.add(route);
    return errorResponse(new ServiceError("not_built", `${routeSummary}: not built yet`));
  };
}
