/** Who may call: the host names of the server, the origins of web pages (CORS), and the caller of a request by the class of its route. */

import type { AuthUser } from "../auth/custom.ts";
import { type AccessLevel, type Access as Accounts, anonymousPrincipal, type Principal } from "../auth/principal.ts";
import { ServiceError } from "../errors.ts";
import { type CorsOptions, createOriginPattern } from "../options/http.ts";
import type { Caller } from "../storage/identity.ts";
import type { Route } from "./route.ts";

/** What a request is for, as far as the policy needs it. */
interface PolicyTarget {
  /** Every page may call this path. */
  isPublic(): boolean;
  /** The request may change something. */
  isChange(): boolean;
}

const LOOPBACK_HOSTS = new Set(["localhost", "127.0.0.1", "[::1]"]);
const CORS_METHODS = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"];
const SAFE_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);
/** LangSmith's hosted Studio. Browsers let it call servers of private addresses only where these permit it. */
const LANGSMITH_STUDIO_ORIGIN = "https://smith.langchain.com";
const EXPOSED_HEADERS = ["Content-Location", "Location", "Mcp-Session-Id", "X-Pagination-Total", "X-Pagination-Next"];
const DEFAULT_MAX_AGE_S = 600;

const isExposedHeader = (name: string): boolean =>
  EXPOSED_HEADERS.some((exposedName) => exposedName.toLowerCase() === name.toLowerCase());

const readHost = (request: Request): string => (request.headers.get("host") ?? new URL(request.url).host).toLowerCase();

/** The origin of the page that sends a request. Null: a page of this server, or no page. */
function findCrossOrigin(request: Request): string | null {
  const { headers } = request;
  const origin = headers.get("origin");
  const fetchSite = headers.get("sec-fetch-site");
  // Browsers say it on https and localhost. It counts more than the host, whose name a proxy may change.
  if (fetchSite !== null) return fetchSite === "same-origin" || fetchSite === "none" ? null : (origin ?? "null");
  if (origin === null) return null;
  const hosts = [readHost(request), headers.get("x-forwarded-host")?.split(",")[0]?.trim().toLowerCase()];
  return URL.canParse(origin) && hosts.includes(new URL(origin).host) ? null : origin;
}

/** True for a login of the browser, which it sends by itself, as cookies. */
const hasBrowserLogin = (headers: Headers): boolean =>
  /^(?:basic|digest|negotiate|ntlm)\b/i.test(headers.get("authorization") ?? "");
const hasAmbientCredentials = (headers: Headers): boolean => headers.has("cookie") || hasBrowserLogin(headers);

/** True for what a browser fetches in case its user follows a link. */
const isPrefetch = (headers: Headers): boolean =>
  ["sec-purpose", "purpose", "x-moz"].some((name) => /\bprefetch\b/i.test(headers.get(name) ?? ""));

/** True where a program or a script sends a request. A page's links, images and frames must change nothing, so cannot do so by GET. */
export function isScriptRequest({ headers }: Pick<Request, "headers">): boolean {
  const mode = headers.get("sec-fetch-mode");
  const destination = headers.get("sec-fetch-dest");
  if (isPrefetch(headers)) return false;
  if (mode !== null || destination !== null) {
    return mode !== "navigate" && mode !== "no-cors" && (destination ?? "empty") === "empty";
  }
  // Over plain HTTP browsers do not say it, and no element of a page sends these headers to its own server.
  const isBrowser = (headers.get("user-agent") ?? "").startsWith("Mozilla/");
  const scriptHeaders = ["origin", "x-api-key", ...(hasBrowserLogin(headers) ? [] : ["authorization"])];
  return !isBrowser || scriptHeaders.some((name) => headers.has(name));
}

/** True where a browser loads a part of a page, or looks ahead: its user has not followed a link. */
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

/** Whether the list includes everything. */
const allowsEverything = (list: readonly string[] | undefined): boolean => list === undefined || list.includes("*");

/** CORS and the host check, made from one configuration. */
export class CorsPolicy {
  readonly #hostNames: ReadonlySet<string> | undefined;
  readonly #allowedOrigins: readonly string[];
  readonly #originPattern: RegExp | null;
  readonly #allowsStudio: boolean;
  readonly #allowsCredentials: boolean;
  readonly #allowedMethods: readonly string[];
  /** Null: every header. */
  readonly #allowedHeaders: string | null;
  readonly #exposedHeaders: string;
  readonly #maxAgeS: number;

  /**
   * Without `hosts`, every host name is answered, and `cors` (default: every origin) says which pages may call. With `hosts`, only
   * those names are answered, and pages may call from loopback origins, from these hosts, and from `cors` (default: none).
   * `studio`: LangSmith's hosted Studio may call in any case.
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

  /** Errors: wrong_host; forbidden (a page of a foreign origin would change something). */
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
    // Simple cross-site requests come without a preflight, so hiding the answer would not prevent their effect.
    const origin = request.headers.get("origin");
    if (origin !== null && !this.#allowsOrigin(origin) && isChange() && !isPublic()) throw originRefusedError(origin);
  }

  /**
   * Errors: forbidden. Browsers let every page open a WebSocket, and send cookies with it: a page of a foreign origin needs the same
   * permission as for a request with credentials.
   */
  checkUpgrade(request: Request): void {
    const origin = findCrossOrigin(request);
    if (origin === null) return;
    if (!this.#allowsOrigin(origin)) throw originRefusedError(origin);
    if (this.#allowsCredentials || !hasAmbientCredentials(request.headers)) return;
    throw credentialsRefusedError(origin);
  }

  /** Errors: forbidden (a page of another origin would change something with the cookies, or the browser's login, of its visitor). */
  checkCredentials(request: Request, { isPublic, isChange }: PolicyTarget): void {
    const origin = hasAmbientCredentials(request.headers) ? findCrossOrigin(request) : null;
    if (origin === null || (this.#allowsCredentials && this.#allowsOrigin(origin))) return;
    if (isChange() && !isPublic()) throw credentialsRefusedError(origin);
  }

  /** Returns the answer to a preflight request. */
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

  /** Adds the headers that let a permitted web page read the answer. */
  addResponseHeaders(request: Request, headers: Headers): void {
    // Set already for public routes, and perhaps by the host's own routes.
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

/** The caller of one request. The credential is checked when it is first needed, and once. */
export interface Authentication {
  readonly route: Route | undefined;
  readonly access: "open" | "account" | AccessLevel;
  principal(): Promise<Principal>;
  accountCaller(): Promise<Caller>;
}

/** Their handlers check the caller's permissions themselves. */
const ACCOUNT_PATH_PREFIX = "/api/v1/";

/** With one of these headers a proxy passed the request on: the client may be on another machine. */
const PROXY_HEADERS = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];

/** True for a request from this machine: nginx adds no header by default, but passes the name of its host on. */
const isLocalRequest = (request: Request): boolean =>
  LOOPBACK_HOSTS.has(readHost(request).replace(/:\d+$/, "")) &&
  !PROXY_HEADERS.some((name) => request.headers.has(name));

/** What a request is for, where no route says it. */
export const getDefaultAccessLevel = (method: string): AccessLevel =>
  method === "GET" || method === "HEAD" ? "read" : "change";

/** True for a request that may change something. `routes`: those of its path. */
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

/** Where no route serves the request, the answer is 404 or 405: it gives away no more than a route of the path would. */
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

/** A request whose caller is not known yet. */
export interface UnauthenticatedRequest extends Pick<Authentication, "route" | "access"> {
  readonly request: Request;
  /** Whom the host's own code acts for. */
  readonly user: AuthUser | null;
}

/** Returns the caller of a request. Checks nothing yet. */
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
