/**
 * The HTTP entry: `createHandler` serves a service by the route table.
 * @module
 */
import { AuthRefusal, type AuthUser } from "../auth/custom.ts";
import { createBudget, type Environment, tickLimit } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import { disabledGroups } from "../options/http.ts";
import { baseUrl } from "../options.ts";
import { type Service, type ServiceInternals, serviceInternals } from "../service.ts";
import { problemsIn } from "../validation.ts";
import { type Authentication, accessOf, authenticate, createCorsPolicy, defaultUse, isChange } from "./access.ts";
import { ClientGone } from "./byte-budget.ts";
import { contextFactory, isRead } from "./context.ts";
import { callerOfApp, middlewareOf, ownResponse } from "./host-app.ts";
import { createLargeBodies } from "./large-bodies.ts";
import { type HandlerOptions, handlerSchema } from "./options.ts";
import { createBodyReader, headerCopy } from "./request.ts";
import { errorResponse, failureResponse, type HeaderValues } from "./respond.ts";
import type { HandlerHost, RequestContext, Route } from "./route.ts";
import { createRouteTable } from "./route-table.ts";
import { ROUTES } from "./routes/mod.ts";
import { unknownKeyLog } from "./unknown-keys.ts";

export type { App, AppAnswer } from "./host-app.ts";
export type { HandlerOptions, OpenApi, Studio } from "./options.ts";
export type { HandlerHost, HostSocket } from "./route.ts";

/** How many chunks streams may send in one tick of the event loop. */
const CHUNKS_PER_TICK = 64;
/** How much all sockets may buffer of messages that their runtime sends whole, in characters. */
const WHOLE_MESSAGES = 64 * 1024 * 1024;

/**
 * A web-standard request handler. It answers every request and never rejects. `host`: what the host can do for the request, such as
 * opening a WebSocket. Other values that servers pass on are ignored.
 */
export type Handler = (request: Request, host?: HandlerHost | object) => Promise<Response>;

/**
 * Serves a service: a handler for `Bun.serve`, `Deno.serve`, a host's own router, or a client's `fetch` in a test.
 *
 * @example
 * ```ts
 * import { createHandler } from "greenroom/server";
 *
 * const handler = createHandler(service, { prefix: "/agents" });
 * const response = await handler(new Request("http://localhost/agents/ok"));
 * ```
 */
export function createHandler(given: Service, options: HandlerOptions = {}): Handler {
  const [problem] = problemsIn(handlerSchema, options);
  if (problem !== undefined) throw new TypeError(`createHandler: ${problem}`);
  const base = (options.prefix ?? "").replace(/\/$/, "");
  const service = serviceInternals(given);
  const { environment, access: accounts } = service;
  const { http = {} } = service.options;
  const cors = createCorsPolicy(http.cors, options.hosts, options.langsmith_studio);
  const disabled = disabledGroups(http);
  const isHidden = (route: Route): boolean =>
    (route.group !== undefined && disabled.has(route.group)) || route.isLeftOut?.(http) === true;
  const table = createRouteTable([...ROUTES, ...studioRoutes(options, base)], base, isHidden);
  const { read, messages } = createBodyReader(environment, http);
  const createContext = contextFactory(service, read, {
    base,
    bodies: { environment, open: 0, limit: tickLimit(environment, CHUNKS_PER_TICK) },
    large: createLargeBodies(environment, http.large_bodies),
    sockets: { commands: tickLimit(environment, 1), whole: createBudget(WHOLE_MESSAGES) },
    docs: options.docs,
    hasStudio: options.studio !== undefined,
    logUnknownKeys: options.development ? unknownKeyLog(environment) : undefined,
    copyHeaders: headerCopy(http.configurable_headers),
    messages,
    checkUpgrade: cors.checkUpgrade,
    async hides(path) {
      await table.load(`${base}${path}`);
      return table.at(`${base}${path}`).length === 0;
    },
    flags: (flags) => Object.fromEntries(Object.entries(flags).map(([name, on]) => [name, on && !disabled.has(name)])),
  });
  const answerNotBuilt = notBuilt(service);
  const callApp = options.app && callerOfApp(options.app);
  const middleware = middlewareOf(options.app, (path) => {
    const message = "http.app: a handler for all methods takes no next, so it is a route and not run as middleware";
    environment.log({ level: "warn", message, path });
  });

  /** The caller of a request. Throws nothing: the credential is checked later. */
  function callerOf(request: Request, pathname: string, route: Route | undefined, user: AuthUser | null) {
    const place = { path: pathBelow(base, pathname) ?? "", route, routes: () => table.at(pathname) };
    return authenticate(request, accounts, route, accessOf(request, place, options.open_metrics), user);
  }

  /** Answers by the route table. `checked`: the caller, where authentication came before the middleware. */
  async function serve(
    request: Request,
    url: URL,
    { request_id, host, user, checked }: RequestOrigin,
  ): Promise<Response> {
    const found = await table.match(request.method, url);
    const route = found?.route;
    // Middleware may send a request to another route than the one that was checked.
    const auth = checked && checked.route === route ? checked : callerOf(request, url.pathname, route, user);

    async function respond(): Promise<Response> {
      if (!found) return await refuse(request, table.at(url.pathname), auth);
      const { handle, public_headers } = found.route;
      // Mail scanners open links with HEAD, which must not submit anything.
      if (public_headers && request.method === "HEAD") {
        return new Response(null, { status: 204, headers: public_headers.all });
      }
      const principal = await auth.principal();
      if (!handle) return answerNotBuilt(found.route);
      const context = createContext(request, { request_id, host }, found, principal, auth);
      const call = (): Response | Promise<Response> => handle(context);
      const name = `${request.method} ${url.pathname}${url.search}`;
      const { large } = context;
      if (isRead(found.route, auth.access)) return await large.answerRead(name, call);
      return await large.answerChange(request.method === "POST" ? null : name, call);
    }

    const base_url = (): string => baseUrl(service.options) ?? new URL(request.url).origin + base;
    const challenge = (error: ServiceError) => route?.challenge?.(service.options, base_url(), error);
    return await settle(environment, request, request_id, respond(), route, challenge);
  }

  /** The host's own answer at a path without a route. */
  async function custom(request: Request, user: AuthUser | null): Promise<Response> {
    if (http.enable_custom_route_auth) await accounts.principal(request, defaultUse(request.method), user);
    const response = (await callApp?.(request)) ?? null;
    if (!response) throw nothingHere();
    return response;
  }

  async function answer(request: Request, request_id: string, host: HandlerHost): Promise<Response> {
    const url = URL.parse(request.url);
    // Bun and Deno pass on what they make of a malformed header.
    if (!url) throw new ServiceError("bad_request", "The Host header is malformed");
    const { pathname } = url;
    const loading = table.load(pathname);
    if (loading) await loading;
    const inside = pathBelow(base, pathname) !== null;
    const isPublic = (): boolean => table.at(pathname)[0]?.public_headers !== undefined;
    const target = { isPublic, isChange: () => isChange(request, table.at(pathname)) };
    cors.check(request, target);
    const app = options.app && inside && table.at(pathname).length === 0 ? options.app : undefined;
    const preflight = request.headers.has("access-control-request-method");
    if (request.method === "OPTIONS" && (preflight || !app) && !isPublic()) return cors.preflight(request);
    const user = options.acts_for?.(request) ?? null;
    if (!app || http.enable_custom_route_auth) cors.checkCookies(request, target);
    if (app) return await custom(request, user);
    if (!middleware || !inside) return await serve(request, url, { request_id, host, user });
    let checked: Authentication | undefined;
    if (http.middleware_order === "auth_first") {
      checked = callerOf(request, pathname, (await table.match(request.method, url))?.route, user);
      await (checked.access === "account" ? checked.caller() : checked.principal());
    }
    const next = async (inner: Request): Promise<Response> => {
      const url = new URL(inner.url);
      await table.load(url.pathname);
      return await serve(inner, url, { request_id, host, user, checked });
    };
    return ownResponse(await middleware(request, next));
  }

  return async (request, host = {}) => {
    const sent = request.headers.get("x-request-id");
    const request_id = sent !== null && /^[\w.:-]{1,128}$/.test(sent) ? sent : environment.uuid();
    const response = await settle(environment, request, request_id, answer(request, request_id, host));
    // The connection is not HTTP any more.
    if (response.status === 101) return response;
    response.headers.set("x-request-id", request_id);
    cors.expose(request, response.headers);
    return response;
  };
}

/** The response, or the answer to its error; to HEAD without the body. */
async function settle(
  environment: Environment,
  request: Request,
  request_id: string,
  answer: Promise<Response>,
  route?: Route,
  challenge?: (error: ServiceError) => string | undefined,
): Promise<Response> {
  const response = await answer.catch((error: unknown) => {
    // Nobody receives it.
    if (error instanceof ClientGone) return new Response(null, { status: 503 });
    const isKnown = error instanceof ServiceError;
    if (!isKnown) {
      environment.log({ level: "error", message: "A request failed", method: request.method, request_id, error });
    }
    const asks = isKnown ? challenge?.(error) : undefined;
    const headers: HeaderValues = asks === undefined ? {} : { "www-authenticate": asks };
    // The host's own authentication chose the status, text and headers.
    if (error instanceof AuthRefusal) {
      return errorResponse(error, { ...headers, ...error.headers }, route, error.status);
    }
    return failureResponse(error, request, { ...headers, ...route?.public_headers?.all }, route);
  });
  if (request.method !== "HEAD" || response.status === 101) return response;
  await response.body?.cancel();
  return new Response(null, { status: response.status, headers: response.headers });
}

/** What belongs to a request, whichever Request object middleware makes of it. */
interface RequestOrigin extends Pick<RequestContext, "request_id" | "host"> {
  readonly user: AuthUser | null;
  readonly checked?: Authentication | undefined;
}

/** The path below the mount; null outside of it. */
const pathBelow = (base: string, pathname: string): string | null =>
  pathname === base || pathname.startsWith(`${base}/`) ? pathname.slice(base.length) : null;

const nothingHere = (): ServiceError => new ServiceError("route_not_found", "There is nothing at this path");

const studioRoutes = ({ studio, app }: HandlerOptions, base: string): Route[] =>
  !studio
    ? []
    : ([...(app ? [] : ["/" as const]), "/studio", "/studio/*"] as const).map((path) => ({
        method: "get",
        path,
        tag: "Server",
        summary: "The studio",
        access: "open",
        handle: ({ request }) => studio(request, pathBelow(base, new URL(request.url).pathname) ?? ""),
      }));

/** The answer of a path that has no route, or none for the method. `routes`: those of the path. */
async function refuse(request: Request, routes: readonly Route[], auth: Authentication): Promise<Response> {
  const { public_headers } = routes[0] ?? {};
  if (public_headers && request.method === "OPTIONS") {
    return new Response(null, { status: 204, headers: public_headers.preflight });
  }
  await auth.principal();
  if (routes.length === 0) throw nothingHere();
  const same = public_headers ? routes.filter((route) => route.public_headers === public_headers) : routes;
  const methods = new Set(same.map(({ method }) => method.toUpperCase()));
  if (methods.has("GET")) methods.add("HEAD");
  if (public_headers) methods.add("OPTIONS");
  const allow = [...methods].join(", ");
  const refusal = new ServiceError("method_not_allowed", `${request.method} is not allowed here: ${allow}`);
  return errorResponse(refusal, { ...public_headers?.all, allow });
}

/** Answers 501. Logs each route once: clients that probe for it do so at every start. */
function notBuilt({ environment }: ServiceInternals): (route: Route) => Response {
  const logged = new Set<Route>();
  return (route) => {
    const { path, summary: what } = route;
    const message = "a route was called that is not built yet";
    if (!logged.has(route)) environment.log({ level: "warn", message, path, what });
    logged.add(route);
    return errorResponse(new ServiceError("not_built", `${what}: not built yet`));
  };
}
