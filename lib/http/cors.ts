/** CORS and the host check: the host names a handler answers under, and the origins of web pages that may call it. */
import { ServiceError } from "../errors.ts";

/** CORS and the host check, made from one configuration. */
export interface CorsPolicy {
  /** Errors: wrong_host; forbidden (a page of a foreign origin would change something). `isPublic`: every page may call this path. */
  check(request: Request, isPublic: () => boolean): void;
  /**
   * Errors: forbidden. Browsers let every page open a WebSocket, and send cookies with it: a page of a foreign origin needs the same
   * permission as for a request with credentials.
   */
  checkUpgrade(request: Request): void;
  /** The answer to a preflight request. */
  preflight(request: Request): Response;
  /** Adds the headers that let a permitted web page read the answer. */
  expose(request: Request, headers: Headers): void;
}

/** Which web pages may call, and what they may send and read. */
export interface CorsOptions {
  /** Origins that browsers may call from; `*` for any. Default `["*"]`; none beside `allow_origin_regex`. */
  readonly allow_origins?: readonly string[];
  /** A regular expression for more origins. It must match the whole origin. */
  readonly allow_origin_regex?: string;
  /** Default, and `*`: all methods of the server. */
  readonly allow_methods?: readonly string[];
  /** Default, and `*`: every header that a page requests. */
  readonly allow_headers?: readonly string[];
  /** Whether pages may send cookies and other credentials. Default false. */
  readonly allow_credentials?: boolean;
  /** More response headers that pages may read. Those that clients of this API need are always included. */
  readonly expose_headers?: readonly string[];
  /** How many seconds browsers cache the answer to a preflight request. Default 600. */
  readonly max_age?: number;
}

const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);
const METHODS = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"];
/** LangSmith's hosted Studio. Browsers let it call servers of private addresses only where these permit it. */
const STUDIO = "https://smith.langchain.com";
const EXPOSED = ["Content-Location", "Location", "X-Pagination-Total", "X-Pagination-Next"];
const MAX_AGE_S = 600;

/** `allow_origin_regex` as an expression that matches whole origins. Throws a SyntaxError. */
export const originPattern = (source: string): RegExp => {
  // Compiled alone first, so that the source cannot close the group around it.
  new RegExp(source);
  return new RegExp(`^(?:${source})$`);
};

const isExposed = (name: string): boolean => EXPOSED.some((ours) => ours.toLowerCase() === name.toLowerCase());

/** Whether the list includes everything. */
const isAny = (list: readonly string[] | undefined): boolean => list === undefined || list.includes("*");

/**
 * Without `hosts`, every host name is answered, and `cors` (default: every origin) says which pages may call. With `hosts`, only
 * those names are answered, and pages may call from loopback origins, from these hosts, and from `cors` (default: none).
 * `studio`: LangSmith's hosted Studio may call in any case.
 */
export function createCorsPolicy(cors: CorsOptions = {}, hosts?: readonly string[], studio = false): CorsPolicy {
  const pattern = cors.allow_origin_regex === undefined ? null : originPattern(cors.allow_origin_regex);
  const origins = cors.allow_origins ?? (hosts || pattern ? [] : ["*"]);
  const any = origins.includes("*");
  const credentials = cors.allow_credentials === true;
  const names = hosts && new Set(hosts.map((host) => host.toLowerCase()));
  const methods = isAny(cors.allow_methods) ? METHODS : (cors.allow_methods ?? []).map((name) => name.toUpperCase());
  const allowed = isAny(cors.allow_headers) ? null : (cors.allow_headers ?? []).join(", ");
  const more = (cors.expose_headers ?? []).filter((name) => !isExposed(name));
  const exposed = [...EXPOSED, ...more].join(", ");

  const permits = (origin: string): boolean => {
    if (any || origins.includes(origin) || pattern?.test(origin) || (studio && origin === STUDIO)) return true;
    if (!names || !URL.canParse(origin)) return false;
    const { host, hostname } = new URL(origin);
    return LOOPBACK.has(hostname) || names.has(host) || names.has(hostname);
  };

  return {
    check(request, isPublic) {
      if (!names) return;
      const host = (request.headers.get("host") ?? new URL(request.url).host).toLowerCase();
      if (!names.has(host) && !names.has(host.replace(/:\d+$/, ""))) {
        throw new ServiceError(
          "wrong_host",
          `Host ${host} is not one of this server's names. Add it to the handler's hosts`,
        );
      }
      // Simple cross-site requests come without a preflight, so hiding the answer would not prevent their effect.
      const origin = request.headers.get("origin");
      const changes = !["GET", "HEAD", "OPTIONS"].includes(request.method);
      if (origin !== null && changes && !permits(origin) && !isPublic()) {
        throw new ServiceError(
          "forbidden",
          `Origin ${origin} may not call this server. Add it to http.cors.allow_origins`,
        );
      }
    },
    checkUpgrade(request) {
      const origin = request.headers.get("origin");
      if (origin === null) return;
      const host = (request.headers.get("host") ?? new URL(request.url).host).toLowerCase();
      if (URL.canParse(origin) && new URL(origin).host === host) return;
      if (!permits(origin)) {
        throw new ServiceError(
          "forbidden",
          `Origin ${origin} may not call this server. Add it to http.cors.allow_origins`,
        );
      }
      if (credentials || !request.headers.has("cookie")) return;
      const message = `Origin ${origin} may not send cookies. Set http.cors.allow_credentials`;
      throw new ServiceError("forbidden", message);
    },
    preflight(request) {
      const asks = request.headers;
      const isStudio = studio && asks.get("origin") === STUDIO;
      const headers = (isStudio ? null : allowed) ?? asks.get("access-control-request-headers");
      return new Response(null, {
        status: 204,
        headers: {
          "access-control-allow-methods": (isStudio ? METHODS : methods).join(", "),
          ...(isStudio && asks.get("access-control-request-private-network") === "true"
            ? { "access-control-allow-private-network": "true" }
            : {}),
          ...(headers === null || headers === "" ? {} : { "access-control-allow-headers": headers }),
          "access-control-max-age": String(cors.max_age ?? MAX_AGE_S),
          vary: studio ? "Origin, Access-Control-Request-Headers" : "Access-Control-Request-Headers",
        },
      });
    },
    expose(request, headers) {
      // Set already for public routes, and perhaps by the host's own routes.
      if (headers.has("access-control-allow-origin")) return;
      // Browsers refuse `*` for requests with credentials.
      const named = !any || credentials;
      if (named) headers.append("vary", "Origin");
      const origin = request.headers.get("origin");
      const permitted = !named ? "*" : origin !== null && permits(origin) ? origin : null;
      if (permitted === null) return;
      headers.set("access-control-allow-origin", permitted);
      if (credentials) headers.set("access-control-allow-credentials", "true");
      headers.set("access-control-expose-headers", exposed);
    },
  };
}
