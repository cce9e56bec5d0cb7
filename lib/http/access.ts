/** Checks the host name and the origin of requests (CORS), and resolves the access level that a request needs. */

import type { AuthUser } from "../auth/custom.ts";
import { type AccessLevel, type Access as Accounts, anonymousPrincipal, type Principal } from "../auth/principal.ts";
import { ServiceError } from "../errors.ts";
import { type CorsOptions, createOriginPattern } from "../options/http.ts";
import type { Caller } from "../storage/identity.ts";
import type { Route } from "./route.ts";

/** The properties of a request on which the policy depends. */
interface PolicyTarget {
  /** Returns true if pages of every origin may call the path. */
  isPublic(): boolean;
  /** Returns true if the request may change state. */
  isChange(): boolean;
}

const LOOPBACK_HOSTS = new Set(["localhost", "127.0.0.1", "[::1]"]);
const CORS_METHODS = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"];
const SAFE_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);
/** LangSmith's hosted Studio. Browsers let it call a server at a private address only if the preflight response permits it. */
const LANGSMITH_STUDIO_ORIGIN = "https://smith.langchain.com";
const EXPOSED_HEADERS = ["Content-Location", "Location", "Mcp-Session-Id", "X-Pagination-Total", "X-Pagination-Next"];
const DEFAULT_MAX_AGE_S = 600;

const isExposedHeader = (name: string): boolean =>
  EXPOSED_HEADERS.some((exposedName) => exposedName.toLowerCase() === name.toLowerCase());

const readHost = (request: Request): string => (request.headers.get("host") ?? new URL(request.url).host).toLowerCase();

/**
 * Returns the `Origin` header of a request that a page of another origin sent, or the text `"null"` if it has none.
 * Returns null for other requests. `sec-fetch-site` decides if it is present: null for `same-origin` and `none`.
 * Without it, returns null if there is no `Origin`, or if its host is that of `Host` or `x-forwarded-host`.
 */
function findCrossOrigin(request: Request): string | null {
  const { headers } = request;
  const origin = headers.get("origin");
  const fetchSite = headers.get("sec-fetch-site");
  // Browsers send this header on https and localhost. It is more reliable than the host name, which a proxy may change.
  if (fetchSite !== null) return fetchSite === "same-origin" || fetchSite === "none" ? null : (origin ?? "null");
  if (origin === null) return null;
  const hosts = [readHost(request), headers.get("x-forwarded-host")?.split(",")[0]?.trim().toLowerCase()];
  return URL.canParse(origin) && hosts.includes(new URL(origin).host) ? null : origin;
}

/** Returns true for an `Authorization` scheme that browsers send by themselves, as they send cookies. */
const hasBrowserLogin = (headers: Headers): boolean =>
  /^(?:basic|digest|negotiate|ntlm)\b/i.test(headers.get("authorization") ?? "");
const hasAmbientCredentials = (headers: Headers): boolean => headers.has("cookie") || hasBrowserLogin(headers);

/** Returns true if a browser fetches the page before its user follows a link. */
const isPrefetch = (headers: Headers): boolean =>
  ["sec-purpose", "purpose", "x-moz"].some((name) => /\bprefetch\b/i.test(headers.get(name) ?? ""));

/**
 * Returns true if a program or a script of a page sent the request, and not a link, an image, a frame or a prefetch.
 * `sec-fetch-mode` and `sec-fetch-dest` decide if present. Without both, returns true if the user agent is no browser,
 * or if there is an `origin`, `x-api-key` or `authorization` header that no browser login has set.
 */
export function isScriptRequest({ headers }: Pick<Request, "headers">): boolean {
  const mode = headers.get("sec-fetch-mode");
  const destination = headers.get("sec-fetch-dest");
  if (isPrefetch(headers)) return false;
  if (mode !== null || destination !== null) {
    return mode !== "navigate" && mode !== "no-cors" && (destination ?? "empty") === "empty";
  }
  // Over plain HTTP browsers omit `sec-fetch-*`, and no element of a page sends the headers below to its own server.
  const isBrowser = (headers.get("user-agent") ?? "").startsWith("Mozilla/");
  const scriptHeaders = ["origin", "x-api-key", ...(hasBrowserLogin(headers) ? [] : ["authorization"])];
  return !isBrowser || scriptHeaders.some((name) => headers.has(name));
}

/**
 * Returns true for a prefetch, and for a `sec-fetch-dest` other than `empty` and `document` unless `sec-fetch-user`
 * says that the user has followed a link. Returns false without these headers.
 */
export function isSubresourceOrPrefetch({ headers }: Pick<Request, "headers">): boolean {
  const destination = headers.get("sec-fetch-dest") ?? "empty";
  const isUserActivated = headers.get("sec-fetch-user") === "?1";
  return isPrefetch(headers) || !(isUserActivated || destination === "empty" || destination === "document");
}

const credentialsRefusedError = (origin: string): ServiceError =>
  new ServiceError(
    "origin_refused",
    `Origin ${origin} may not send cookies or a login of the browser. Set http.cors.allow_credentials, and name it in http.cors.allow_origins`,
  );

const originRefusedError = (origin: string): ServiceError =>
  new ServiceError("origin_refused", `Origin ${origin} may not call this server. Add it to http.cors.allow_origins`);

/** Returns true for an absent list and for a list with `*`. */
const allowsEverything = (list: readonly string[] | undefined): boolean => list === undefined || list.includes("*");

/** The CORS and host name policy of one handler. */
export class CorsPolicy {
  readonly #hostNames: ReadonlySet<string> | undefined;
  readonly #allowedOrigins: readonly string[];
  readonly #originPattern: RegExp | null;
  readonly #allowsStudio: boolean;
  readonly #allowsCredentials: boolean;
  readonly #allowedMethods: readonly string[];
  /** The value of `Access-Control-Allow-Headers`. Null allows every header. */
  readonly #allowedHeaders: string | null;
  readonly #exposedHeaders: string;
  readonly #maxAgeS: number;

  /**
   * Creates the policy. Without `hosts`, the handler serves every host name, and `cors` lists the origins that may call (default: all).
   * With `hosts`, it serves only these names, and pages may call from loopback origins, from these hosts, and from `cors` (default:
   * none). With `allowsStudio`, LangSmith's hosted Studio may always call.
   */
  constructor(cors: CorsOptions = {}, hosts?: readonly string[], allowsStudio = false) {
    this.#hostNames = hosts && new Set(hosts.map((host) => host.toLowerCase()));
    this.#originPattern = cors.allow_origin_regex === undefined ? null : createOriginPattern(cors.allow_origin_regex);
    this.#allowedOrigins = cors.allow_origins ?? (hosts || this.#originPattern ? [] : ["*"]);
    this.#allowsStudio = allowsStudio;
    this.#allowsCredentials = cors.allow_credentials === true;
    this.#allowedMethods = allowsEverything(cors.allow_methods)
      ? CORS_METHODS
      : (cors.allow_methods ?? []).map((name) => name.toUpperCase());
    this.#allowedHeaders = allowsEverything(cors.allow_headers) ? null : (cors.allow_headers ?? []).join(", ");
    const extraHeaders = (cors.expose_headers ?? []).filter((name) => !isExposedHeader(name));
    this.#exposedHeaders = [...EXPOSED_HEADERS, ...extraHeaders].join(", ");
    this.#maxAgeS = cors.max_age ?? DEFAULT_MAX_AGE_S;
  }

  /**
   * Does nothing without configured host names. Throws `wrong_host` if the `Host` header, with and without its port, is
   * none of them. Throws `origin_refused` if the `Origin` header is not allowed and the request may change state,
   * unless its route is public.
   */
  checkRequest(request: Request, { isPublic, isChange }: PolicyTarget): void {
    const hostNames = this.#hostNames;
    if (!hostNames) return;
    const host = readHost(request);
    if (!hostNames.has(host) && !hostNames.has(host.replace(/:\d+$/, ""))) {
      throw new ServiceError(
        "wrong_host",
        `Host ${host} is not one of this server's names. Add it to the handler's hosts`,
      );
    }
    // Simple cross-site requests come without a preflight, so hiding the response would not prevent their effect.
    const origin = request.headers.get("origin");
    if (origin !== null && !this.#allowsOrigin(origin) && isChange() && !isPublic()) throw originRefusedError(origin);
  }

  /**
   * Does nothing for programs and pages of this server. Throws `origin_refused` for a page of another origin that is
   * not allowed, and for an allowed one that sends cookies or a browser login without `allow_credentials`. Browsers let
   * every page open a WebSocket and send cookies with it.
   */
  checkUpgrade(request: Request): void {
    const origin = findCrossOrigin(request);
    if (origin === null) return;
    if (!this.#allowsOrigin(origin)) throw originRefusedError(origin);
    if (this.#allowsCredentials || !hasAmbientCredentials(request.headers)) return;
    throw credentialsRefusedError(origin);
  }

  /**
   * Throws `origin_refused` if a page of another origin would change state with the cookies or the browser login of its
   * visitor, unless `allow_credentials` is set and the origin is allowed. Does nothing for public routes and for
   * requests without cookies and browser login.
   */
  checkCredentials(request: Request, { isPublic, isChange }: PolicyTarget): void {
    const origin = hasAmbientCredentials(request.headers) ? findCrossOrigin(request) : null;
    if (origin === null || (this.#allowsCredentials && this.#allowsOrigin(origin))) return;
    if (isChange() && !isPublic()) throw credentialsRefusedError(origin);
  }

  /**
   * Returns a 204 with the configured methods, headers and maximum age. Without configured headers, allows those that
   * the preflight requests. LangSmith Studio gets all methods, the requested headers and access to a private network.
   * `addResponseHeaders` adds the origin later.
   */
  createPreflightResponse({ headers: requestHeaders }: Request): Response {
    const isStudio = this.#allowsStudio && requestHeaders.get("origin") === LANGSMITH_STUDIO_ORIGIN;
    const headers = (isStudio ? null : this.#allowedHeaders) ?? requestHeaders.get("access-control-request-headers");
    return new Response(null, {
      status: 204,
      headers: {
        "access-control-allow-methods": (isStudio ? CORS_METHODS : this.#allowedMethods).join(", "),
        ...(isStudio && requestHeaders.get("access-control-request-private-network") === "true"
          ? { "access-control-allow-private-network": "true" }
          : {}),
        ...(headers === null || headers === "" ? {} : { "access-control-allow-headers": headers }),
        "access-control-max-age": String(this.#maxAgeS),
        vary: this.#allowsStudio ? "Origin, Access-Control-Request-Headers" : "Access-Control-Request-Headers",
      },
    });
  }

  /**
   * Adds to `headers` the CORS headers that let an allowed web page read the response. Changes nothing if `headers` has
   * `access-control-allow-origin`. For other pages adds only `vary: Origin`. If all origins are allowed without
   * credentials, sends `*` to everybody.
   */
  addResponseHeaders(request: Request, headers: Headers): void {
    // Public routes set the header themselves, and the host's own routes may.
    if (headers.has("access-control-allow-origin")) return;
    // Browsers refuse `*` for requests with credentials.
    const isOriginEchoed = !this.#allowedOrigins.includes("*") || this.#allowsCredentials;
    if (isOriginEchoed) headers.append("vary", "Origin");
    const origin = request.headers.get("origin");
    if (isOriginEchoed && (origin === null || !this.#allowsOrigin(origin))) return;
    headers.set("access-control-allow-origin", isOriginEchoed && origin !== null ? origin : "*");
    if (this.#allowsCredentials) headers.set("access-control-allow-credentials", "true");
    headers.set("access-control-expose-headers", this.#exposedHeaders);
  }

  /**
   * Returns true for a configured origin (a name, `*` or the pattern), for LangSmith Studio if it is enabled, and, with
   * host names, for pages of these hosts and of this machine.
   */
  #allowsOrigin(origin: string): boolean {
    if (
      this.#allowedOrigins.includes("*") ||
      this.#allowedOrigins.includes(origin) ||
      this.#originPattern?.test(origin)
    )
      return true;
    if (this.#allowsStudio && origin === LANGSMITH_STUDIO_ORIGIN) return true;
    if (!this.#hostNames || !URL.canParse(origin)) return false;
    const { host, hostname } = new URL(origin);
    return LOOPBACK_HOSTS.has(hostname) || this.#hostNames.has(host) || this.#hostNames.has(hostname);
  }
}

/** The authentication of one request. Each function checks the credential on its first call and caches the result. */
export interface Authentication {
  readonly route: Route | undefined;
  readonly access: "open" | "account" | AccessLevel;
  /**
   * Resolves to the caller within its workspace, or to the anonymous principal with `open` or `account` access. Checks
   * the credential on the first call and caches the result. Rejects if the credential is refused.
   */
  principal(): Promise<Principal>;
  /**
   * Resolves to the caller at the level of its account, with any access. Checks the credential on the first call and
   * caches the result. Rejects if the credential is refused.
   */
  accountCaller(): Promise<Caller>;
}

/** The prefix of account routes, whose handlers check the permissions of the caller themselves. */
const ACCOUNT_PATH_PREFIX = "/api/v1/";

/** Headers that proxies add. The client of a request with one of them may be on another machine. */
const PROXY_HEADERS = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];

/** Returns true for a request to a loopback name without proxy headers. By default nginx passes on no host name and adds no such header. */
const isLocalRequest = (request: Request): boolean =>
  LOOPBACK_HOSTS.has(readHost(request).replace(/:\d+$/, "")) &&
  !PROXY_HEADERS.some((name) => request.headers.has(name));

/** Returns the access level of a request whose route defines none. */
export const getDefaultAccessLevel = (method: string): AccessLevel =>
  method === "GET" || method === "HEAD" ? "read" : "change";

/**
 * Returns true for a method that is not safe, and, with any safe method, if one of `routes` is a GET route whose
 * `access` function returns another level than `read` for the request. `routes` are those of its path.
 */
export function mayChangeState(request: Request, routes: readonly Route[]): boolean {
  if (!SAFE_METHODS.has(request.method)) return true;
  return routes.some(({ method, access }) => {
    return method === "get" && typeof access === "function" && access(request) !== "read";
  });
}

interface MatchedRequest {
  /** The path below the mount; empty outside of it. */
  readonly path: string;
  /** The route that serves the request. */
  readonly route: Route | undefined;
  /** The routes of the path, of any method. */
  routes(): readonly Route[];
}

/**
 * Returns the access level of the route; a function is called with the request. A route that is open locally is `open`
 * to this machine if `open_metrics` is set. Without a route for the method, `open` and `account` of the first route of
 * the path apply; for paths without routes, `/` is `open` and account paths are `account`. The method decides for the
 * rest.
 */
export function resolveAccess(
  request: Request,
  { path, route, routes }: MatchedRequest,
  open_metrics = false,
): Authentication["access"] {
  const pathRoute = route ?? routes()[0];
  const access = pathRoute?.access;
  if (pathRoute?.open_locally && open_metrics && isLocalRequest(request)) return "open";
  if (access === "open" || access === "account") return access;
  if (!pathRoute && (path === "" || path === "/")) return "open";
  if (!pathRoute && path.startsWith(ACCOUNT_PATH_PREFIX)) return "account";
  if (!route || access === undefined) return getDefaultAccessLevel(request.method);
  return typeof access === "function" ? access(request) : access;
}

/** A request before authentication. */
export interface UnauthenticatedRequest extends Pick<Authentication, "route" | "access"> {
  readonly request: Request;
  /** The user for whom the host's code calls. */
  readonly user: AuthUser | null;
}

/**
 * Returns the authentication of a request, and checks nothing yet. `principal()` and `accountCaller()` check the
 * credential on their first call and cache the promise, also if it rejects. With `open` or `account` access,
 * `principal()` checks nothing and resolves to the anonymous principal.
 */
export function authenticate(
  accounts: Accounts,
  { request, route, access, user }: UnauthenticatedRequest,
): Authentication {
  let principal: Promise<Principal> | undefined;
  let caller: Promise<Caller> | undefined;
  return {
    route,
    access,
    principal() {
      if (access === "open" || access === "account") return Promise.resolve(anonymousPrincipal);
      principal ??= accounts.principal(request, access, user);
      return principal;
    },
    accountCaller() {
      caller ??= accounts.caller(request, user);
      return caller;
    },
  };
}
