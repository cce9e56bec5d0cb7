/** Who may call: the host names of the server, the origins of web pages (CORS), and the caller of a request by the class of its route. */

import type { AuthUser } from "../auth/custom.ts";
import { type AccessLevel, type Access as Accounts, anonymousPrincipal, type Principal } from "../auth/principal.ts";
import { ServiceError } from "../errors.ts";
import { type CorsOptions, createOriginPattern } from "../options/http.ts";
import type { Caller } from "../storage/identity.ts";
import type { Route } from "./route.ts";

/** What a request is for, as far as the policy needs it. */
interface Target {
  /** Every page may call this path. */
  isPublic(): boolean;
  /** The request may change something. */
  isChange(): boolean;
}

const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);
const METHODS = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"];
const READS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);
/** LangSmith's hosted Studio. Browsers let it call servers of private addresses only where these permit it. */
const STUDIO = "https://smith.langchain.com";
const EXPOSED = ["Content-Location", "Location", "Mcp-Session-Id", "X-Pagination-Total", "X-Pagination-Next"];
const MAX_AGE_S = 600;

const isExposed = (name: string): boolean => EXPOSED.some((ours) => ours.toLowerCase() === name.toLowerCase());

const hostOf = (request: Request): string => (request.headers.get("host") ?? new URL(request.url).host).toLowerCase();

/** The origin of the page that sends a request. Null: a page of this server, or no page. */
function foreignOrigin(request: Request): string | null {
  const { headers } = request;
  const origin = headers.get("origin");
  const site = headers.get("sec-fetch-site");
  // Browsers say it on https and localhost. It counts more than the host, whose name a proxy may change.
  if (site !== null) return site === "same-origin" || site === "none" ? null : (origin ?? "null");
  if (origin === null) return null;
  const hosts = [hostOf(request), headers.get("x-forwarded-host")?.split(",")[0]?.trim().toLowerCase()];
  return URL.canParse(origin) && hosts.includes(new URL(origin).host) ? null : origin;
}

/** True for a login of the browser, which it sends by itself, as cookies. */
const hasLogin = (headers: Headers): boolean =>
  /^(?:basic|digest|negotiate|ntlm)\b/i.test(headers.get("authorization") ?? "");
const hasAmbient = (headers: Headers): boolean => headers.has("cookie") || hasLogin(headers);

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
  const named = ["origin", "x-api-key", ...(hasLogin(headers) ? [] : ["authorization"])];
  return !isBrowser || named.some((name) => headers.has(name));
}

/** True where a browser loads a part of a page, or looks ahead: its user has not followed a link. */
export function isSubresourceOrPrefetch({ headers }: Pick<Request, "headers">): boolean {
  const destination = headers.get("sec-fetch-dest") ?? "empty";
  const clicked = headers.get("sec-fetch-user") === "?1";
  return isPrefetch(headers) || !(clicked || destination === "empty" || destination === "document");
}

const noCookies = (origin: string): ServiceError =>
  new ServiceError(
    "origin_refused",
    `Origin ${origin} may not send cookies or a login of the browser. Set http.cors.allow_credentials, and name it in http.cors.allow_origins`,
  );

const foreign = (origin: string): ServiceError =>
  new ServiceError("origin_refused", `Origin ${origin} may not call this server. Add it to http.cors.allow_origins`);

/** Whether the list includes everything. */
const isAny = (list: readonly string[] | undefined): boolean => list === undefined || list.includes("*");

/** CORS and the host check, made from one configuration. */
export class CorsPolicy {
  readonly #names: ReadonlySet<string> | undefined;
  readonly #origins: readonly string[];
  readonly #pattern: RegExp | null;
  readonly #studio: boolean;
  readonly #credentials: boolean;
  readonly #methods: readonly string[];
  /** Null: every header. */
  readonly #allowedHeaders: string | null;
  readonly #exposedHeaders: string;
  readonly #maxAgeS: number;

  /**
   * Without `hosts`, every host name is answered, and `cors` (default: every origin) says which pages may call. With `hosts`, only
   * those names are answered, and pages may call from loopback origins, from these hosts, and from `cors` (default: none).
   * `studio`: LangSmith's hosted Studio may call in any case.
   */
  constructor(cors: CorsOptions = {}, hosts?: readonly string[], studio = false) {
    this.#names = hosts && new Set(hosts.map((host) => host.toLowerCase()));
    this.#pattern = cors.allow_origin_regex === undefined ? null : createOriginPattern(cors.allow_origin_regex);
    this.#origins = cors.allow_origins ?? (hosts || this.#pattern ? [] : ["*"]);
    this.#studio = studio;
    this.#credentials = cors.allow_credentials === true;
    this.#methods = isAny(cors.allow_methods) ? METHODS : (cors.allow_methods ?? []).map((name) => name.toUpperCase());
    this.#allowedHeaders = isAny(cors.allow_headers) ? null : (cors.allow_headers ?? []).join(", ");
    const added = (cors.expose_headers ?? []).filter((name) => !isExposed(name));
    this.#exposedHeaders = [...EXPOSED, ...added].join(", ");
    this.#maxAgeS = cors.max_age ?? MAX_AGE_S;
  }

  /** Errors: wrong_host; forbidden (a page of a foreign origin would change something). */
  check(request: Request, { isPublic, isChange }: Target): void {
    const names = this.#names;
    if (!names) return;
    const host = hostOf(request);
    if (!names.has(host) && !names.has(host.replace(/:\d+$/, ""))) {
      throw new ServiceError(
        "wrong_host",
        `Host ${host} is not one of this server's names. Add it to the handler's hosts`,
      );
    }
    // Simple cross-site requests come without a preflight, so hiding the answer would not prevent their effect.
    const origin = request.headers.get("origin");
    if (origin !== null && !this.#permits(origin) && isChange() && !isPublic()) throw foreign(origin);
  }

  /**
   * Errors: forbidden. Browsers let every page open a WebSocket, and send cookies with it: a page of a foreign origin needs the same
   * permission as for a request with credentials.
   */
  checkUpgrade(request: Request): void {
    const origin = foreignOrigin(request);
    if (origin === null) return;
    if (!this.#permits(origin)) throw foreign(origin);
    if (this.#credentials || !hasAmbient(request.headers)) return;
    throw noCookies(origin);
  }

  /** Errors: forbidden (a page of another origin would change something with the cookies, or the browser's login, of its visitor). */
  checkCookies(request: Request, { isPublic, isChange }: Target): void {
    const origin = hasAmbient(request.headers) ? foreignOrigin(request) : null;
    if (origin === null || (this.#credentials && this.#permits(origin))) return;
    if (isChange() && !isPublic()) throw noCookies(origin);
  }

  /** Returns the answer to a preflight request. */
  preflight({ headers: asks }: Request): Response {
    const isStudio = this.#studio && asks.get("origin") === STUDIO;
    const headers = (isStudio ? null : this.#allowedHeaders) ?? asks.get("access-control-request-headers");
    return new Response(null, {
      status: 204,
      headers: {
        "access-control-allow-methods": (isStudio ? METHODS : this.#methods).join(", "),
        ...(isStudio && asks.get("access-control-request-private-network") === "true"
          ? { "access-control-allow-private-network": "true" }
          : {}),
        ...(headers === null || headers === "" ? {} : { "access-control-allow-headers": headers }),
        "access-control-max-age": String(this.#maxAgeS),
        vary: this.#studio ? "Origin, Access-Control-Request-Headers" : "Access-Control-Request-Headers",
      },
    });
  }

  /** Adds the headers that let a permitted web page read the answer. */
  expose(request: Request, headers: Headers): void {
    // Set already for public routes, and perhaps by the host's own routes.
    if (headers.has("access-control-allow-origin")) return;
    // Browsers refuse `*` for requests with credentials.
    const isNamed = !this.#origins.includes("*") || this.#credentials;
    if (isNamed) headers.append("vary", "Origin");
    const origin = request.headers.get("origin");
    if (isNamed && (origin === null || !this.#permits(origin))) return;
    headers.set("access-control-allow-origin", isNamed && origin !== null ? origin : "*");
    if (this.#credentials) headers.set("access-control-allow-credentials", "true");
    headers.set("access-control-expose-headers", this.#exposedHeaders);
  }

  #permits(origin: string): boolean {
    if (this.#origins.includes("*") || this.#origins.includes(origin) || this.#pattern?.test(origin)) return true;
    if (this.#studio && origin === STUDIO) return true;
    if (!this.#names || !URL.canParse(origin)) return false;
    const { host, hostname } = new URL(origin);
    return LOOPBACK.has(hostname) || this.#names.has(host) || this.#names.has(hostname);
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
const ACCOUNT_PATHS = "/api/v1/";

/** With one of these headers a proxy passed the request on: the client may be on another machine. */
const FORWARDED = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];

/** True for a request from this machine: nginx adds no header by default, but passes the name of its host on. */
const isLocal = (request: Request): boolean =>
  LOOPBACK.has(hostOf(request).replace(/:\d+$/, "")) && !FORWARDED.some((name) => request.headers.has(name));

/** What a request is for, where no route says it. */
export const getDefaultAccessLevel = (method: string): AccessLevel =>
  method === "GET" || method === "HEAD" ? "read" : "change";

/** True for a request that may change something. `routes`: those of its path. */
export function mayChangeState(request: Request, routes: readonly Route[]): boolean {
  if (!READS.has(request.method)) return true;
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
  const row = route ?? routes()[0];
  const access = row?.access;
  if (row?.open_locally && open_metrics && isLocal(request)) return "open";
  if (access === "open" || access === "account") return access;
  if (!row && (path === "" || path === "/")) return "open";
  if (!row && path.startsWith(ACCOUNT_PATHS)) return "account";
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
