/** Finds the route of a request. itty-router matches paths and reads their parameters. */
import { IttyRouter, type IttyRouterType } from "itty-router";
import { findDisabledGroups, type HttpOptions } from "../options/http.ts";
import type { RawQuery } from "./parse.ts";
import type { RequestContext, Route } from "./route.ts";
import { LAZY_ROUTES } from "./routes/mod.ts";

/** The route of a request, with the values of its path and query. */
export interface MatchedRoute {
  readonly route: Route;
  readonly params: RequestContext["params"];
  /** The query. A name that occurs twice has a list of values. */
  readonly rawQuery: RawQuery;
}

export interface RouteTable {
  /**
   * Imports the lazy routes of this path and adds them to the table. Returns undefined, and no promise, if all are
   * loaded.
   */
  load(pathname: string): Promise<void> | undefined;
  /**
   * Returns the route of a request with the parameters of its path and its raw query. Returns undefined if there is
   * none or it is hidden. HEAD is routed as GET. Call `load` before.
   */
  matchRequest(method: string, url: URL): Promise<MatchedRoute | undefined>;
  /** Returns the routes of a path for all methods, or none if the path belongs to a hidden route. */
  findRoutes(pathname: string): readonly Route[];
}

/** A request to a router, which adds `params`. */
interface RouterRequest {
  readonly method: string;
  readonly url: string;
  readonly params?: RequestContext["params"];
}

type Router = IttyRouterType<RouterRequest, unknown[], Omit<MatchedRoute, "rawQuery"> | "hidden">;

/** Returns a function that returns true for the routes which the HTTP options of a service disable. */
export function isDisabledBy(http: HttpOptions): (route: Route) => boolean {
  const disabled = findDisabledGroups(http);
  return (route) => (route.group !== undefined && disabled.has(route.group)) || route.isDisabled?.(http) === true;
}

/** The pattern of `:name+`. It also matches an empty path: a link without its token must not reach the list of tokens. */
const REMAINING_PATH_PATTERN = "(?<$1>[^]{0,})";

/**
 * Creates the table of the routes below `base`. Requests to hidden routes find no route, and no other route responds at
 * their paths. Some groups of routes are imported by `load` when a path needs them.
 */
export function createRouteTable(
  routes: readonly Route[],
  base: string,
  isHidden: (route: Route) => boolean,
): RouteTable {
  // One router for each first segment of a path: one for all routes takes three times as long to find a thread.
  const routers = new Map<string, { readonly router: Router; readonly routes: Route[] }>();
  const unloadedGroups = new Set(LAZY_ROUTES);

  /** Adds routes to the router of their first segment. A hidden route still matches its path, for all methods. */
  function addRoutes(newRoutes: readonly Route[]): void {
    for (const route of newRoutes) {
      const segment = getFirstSegment(route.path);
      const entry = routers.get(segment) ?? { router: IttyRouter({ base }) as Router, routes: [] };
      routers.set(segment, entry);
      entry.routes.push(route);
      const path = route.path.replace(/:(\w+)\+$/, REMAINING_PATH_PATTERN);
      // A hidden route still matches its path for all methods, so that no other route responds there.
      if (isHidden(route)) entry.router.all(path, () => "hidden");
      else entry.router[route.method](path, ({ params = {} }) => ({ route, params }));
    }
  }

  const findRouter = (pathname: string) =>
    routers.get(getFirstSegment(pathname.slice(pathname.startsWith(base) ? base.length : 0)));

  addRoutes(routes);
  return {
    load(pathname) {
      for (const group of unloadedGroups) {
        if (!pathname.startsWith(base + group.path)) continue;
        return group.load().then((loaded) => {
          // Another request may have added these routes meanwhile.
          if (unloadedGroups.delete(group)) addRoutes(loaded);
        });
      }
      return undefined;
    },
    async matchRequest(method, { href, pathname, searchParams }) {
      const routed = { method: method === "HEAD" ? "GET" : method, url: href };
      const match = await findRouter(pathname)?.router.fetch(routed);
      return !match || match === "hidden" ? undefined : { ...match, rawQuery: toRawQuery(searchParams) };
    },
    findRoutes(pathname) {
      const { router, routes: candidates = [] } = findRouter(pathname) ?? {};
      // itty-router keeps its routes in the order in which they were added, each with the pattern of its path.
      const matching = candidates.filter((_, index) => router?.routes[index]?.[1].test(pathname));
      return matching[0] && isHidden(matching[0]) ? [] : matching.filter((route) => !isHidden(route));
    },
  };
}

/** Returns the first segment of a path. The path of every route begins with one. */
const getFirstSegment = (path: string): string => path.slice(1, `${path}/`.indexOf("/", 1));

/**
 * Reads the query into an object without a prototype; repeated names give a list. itty-router would lose the first value of
 * `?a=&a=1`.
 */
function toRawQuery(query: URLSearchParams): RawQuery {
  const values: Record<string, string | string[]> = Object.create(null);
  for (const [name, value] of query) {
    const previousValue = values[name];
    values[name] = previousValue === undefined ? value : [previousValue, value].flat();
  }
  return values;
}
