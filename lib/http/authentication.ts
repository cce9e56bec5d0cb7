/** Authentication of one request, by the access class of its route. */
import type { AuthUser } from "../auth/custom.ts";
import { type Access as Accounts, type Principal, type Use, unauthenticated } from "../auth/principal.ts";
import type { Caller } from "../storage/identity.ts";
import type { Route } from "./routes/mod.ts";

/** The caller of one request. The credential is checked when it is first needed, and once. */
export interface Authentication {
  readonly route: Route | undefined;
  readonly access: "open" | "account" | Use;
  principal(): Promise<Principal>;
  caller(): Promise<Caller>;
}

/** Their handlers check the caller's permissions themselves. */
const ACCOUNT_PATHS = "/api/v1/";

/** With one of these headers a proxy passed the request on: the client may be on another machine. */
const FORWARDED = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];

const isLocal = ({ headers }: Request): boolean => !FORWARDED.some((name) => headers.has(name));

/** What a request is for, where no route says it. */
export const defaultUse = (method: string): Use => (method === "GET" || method === "HEAD" ? "read" : "change");

export interface RequestPlace {
  /** The path below the mount; empty outside of it. */
  readonly path: string;
  /** The route that serves the request. */
  readonly route: Route | undefined;
  /** The routes of the path, of any method. */
  routes(): readonly Route[];
}

/** Where no route serves the request, the answer is 404 or 405: it gives away no more than a route of the path would. */
export function accessOf(
  request: Request,
  { path, route, routes }: RequestPlace,
  open_metrics = false,
): Authentication["access"] {
  const row = route ?? routes()[0];
  const access = row?.access;
  if (row?.open_locally && open_metrics && isLocal(request)) return "open";
  if (access === "open" || access === "account") return access;
  if (!row && (path === "" || path === "/")) return "open";
  if (!row && path.startsWith(ACCOUNT_PATHS)) return "account";
  if (!route || access === undefined) return defaultUse(request.method);
  return typeof access === "function" ? access(request) : access;
}

/** `user`: whom the host's own code acts for. */
export function authenticate(
  request: Request,
  accounts: Accounts,
  route: Route | undefined,
  access: Authentication["access"],
  user: AuthUser | null,
): Authentication {
  let principal: Promise<Principal> | undefined;
  let caller: Promise<Caller> | undefined;
  return {
    route,
    access,
    principal() {
      if (access === "open" || access === "account") return Promise.resolve(unauthenticated);
      principal ??= accounts.principal(request, access, user);
      return principal;
    },
    caller() {
      caller ??= accounts.caller(request, user);
      return caller;
    },
  };
}
