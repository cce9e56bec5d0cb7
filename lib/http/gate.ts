/** Which hosts a handler answers as, and which web pages may call it. */
import { ServiceError } from "../errors.ts";

/** Both checks, made from one configuration. */
export interface Gate {
  /**
   * Throws when the request came under a foreign host name, or would change something for a foreign web page. `from_anywhere`:
   * any page may call.
   */
  admit(request: Request, from_anywhere?: boolean): void;
  /** The answer to a browser's question before its request. */
  preflight(request: Request): Response;
  /** Adds what lets an admitted web page read the answer. */
  expose(request: Request, headers: Headers): void;
}

const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);
const METHODS = "GET, HEAD, PUT, POST, DELETE, PATCH, OPTIONS";
const EXPOSED = "Content-Location, Location, X-Pagination-Total, X-Pagination-Next";

/**
 * Without `hosts` every host name is answered and `allow_origins` (default: all) names the web pages. With `hosts` only those
 * names are answered, and the pages are those of loopback origins, of these hosts and of `allow_origins` (default: none).
 */
export function createGate(allow_origins: readonly string[] | undefined, hosts?: readonly string[]): Gate {
  const origins = allow_origins ?? (hosts ? [] : ["*"]);
  const any = origins.includes("*");
  const names = hosts && new Set(hosts.map((host) => host.toLowerCase()));

  const permits = (origin: string): boolean => {
    if (any || origins.includes(origin)) return true;
    if (!names || !URL.canParse(origin)) return false;
    const { host, hostname } = new URL(origin);
    return LOOPBACK.has(hostname) || names.has(host) || names.has(hostname);
  };

  return {
    admit(request, from_anywhere = false) {
      if (!names) return;
      const host = (request.headers.get("host") ?? new URL(request.url).host).toLowerCase();
      if (!names.has(host) && !names.has(host.replace(/:\d+$/, ""))) {
        throw new ServiceError("wrong_host", "This server does not answer under this host name");
      }
      // Simple cross-site requests come without a preflight: hiding the answer would not stop what they do.
      const origin = request.headers.get("origin");
      const changes = !["GET", "HEAD", "OPTIONS"].includes(request.method);
      if (origin !== null && changes && !from_anywhere && !permits(origin)) {
        throw new ServiceError("forbidden", "This origin may not call this server; see http.cors.allow_origins");
      }
    },
    preflight(request) {
      const headers = request.headers.get("access-control-request-headers");
      return new Response(null, {
        status: 204,
        headers: {
          "access-control-allow-methods": METHODS,
          ...(headers === null ? {} : { "access-control-allow-headers": headers }),
          "access-control-max-age": "600",
          vary: "Access-Control-Request-Headers",
        },
      });
    },
    expose(request, headers) {
      // Some answers are for any page.
      if (headers.get("access-control-allow-origin") === "*") return;
      if (!any) headers.append("vary", "Origin");
      const origin = request.headers.get("origin");
      const admitted = any ? "*" : origin !== null && permits(origin) ? origin : null;
      if (admitted === null) return;
      headers.set("access-control-allow-origin", admitted);
      headers.set("access-control-expose-headers", EXPOSED);
    },
  };
}
