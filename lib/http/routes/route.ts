/** One row of the route table. */
import type { AuthEvent } from "../../auth/custom.ts";
import type { Use } from "../../auth/principal.ts";
import type { RequestContext } from "../context.ts";
import type { RouteGroup } from "../groups.ts";
import type { Fields } from "../parse/pieces.ts";
import type { HeaderValues } from "../respond.ts";

export type Method = "get" | "post" | "put" | "patch" | "delete" | "all";

/**
 * Who may call a route. `open`: everybody. `account`: the handler checks the permissions of the caller's API key. Otherwise what
 * the request is for, which may depend on it.
 */
export type Access = "open" | "account" | Use | ((request: Pick<Request, "method" | "url">) => Use);

/** For routes that pages of every origin may call: the headers of all answers, and of the answer to a preflight request. */
export interface PublicHeaders {
  readonly all: HeaderValues;
  readonly preflight: HeaderValues;
}

/** Routing, authorization, hidden groups, `Retry-After` and the OpenAPI document are derived from these. */
export interface Route {
  readonly method: Method;
  /** `:name` stands for one segment, `:name+` for the rest of the path, `*` for anything. */
  readonly path: `/${string}`;
  /** The section of the OpenAPI document. */
  readonly tag: string;
  readonly summary: string;
  /** The `http.disable_*` option that hides it. Absent: none. */
  readonly group?: RouteGroup;
  /** Default: `read` for GET, else `change`. */
  readonly access?: Access;
  /** True: also open to clients on this machine where the handler's `open_metrics` is set. */
  readonly open_locally?: boolean;
  /** The events of custom authorization; `context.authorize` uses the first by default. */
  readonly events?: readonly AuthEvent[];
  readonly body?: Fields<unknown>;
  /** True: the body is a list of what `body` describes. */
  readonly list?: boolean;
  readonly query?: Fields<unknown>;
  /** Default: `http.max_body_bytes`. */
  readonly max_body_bytes?: number;
  /** True: a repeated call with the same `Idempotency-Key` has no second effect. */
  readonly idempotency_key?: boolean;
  readonly public_headers?: PublicHeaders;
  /** The schema of the 200 answer: its name in the OpenAPI document, `stream`, `text` or `csv`. Absent: 204 or 202. */
  readonly answer?: string;
  /** When it answers 202, and when 204. */
  readonly accepted?: string;
  readonly no_content?: string;
  /** When it answers 101. */
  readonly upgrades?: string;
  /** Request headers that it reads, and headers of its answer. */
  readonly request_headers?: Readonly<Record<string, string>>;
  readonly answer_headers?: readonly string[];
  /** Statuses of errors, besides those that follow from access, body and query. */
  readonly errors?: readonly number[];
  /** True: errors have `message` beside `detail`, as clients of the event protocol read it. */
  readonly error_message?: boolean;
  /** Absent: not built yet, answers 501. */
  handle?(context: RequestContext): Response | Promise<Response>;
}

/** A row as it is written: what its section has in common is left out, and the handler knows what the schemas give. */
interface Row<Body, Query> extends Omit<Route, "method" | "path" | "tag" | "body" | "query" | "handle" | "summary"> {
  readonly summary: string;
  readonly body?: Fields<Body>;
  readonly query?: Fields<Query>;
  handle(context: RequestContext<Body, Query>): Response | Promise<Response>;
}

type AddRoute = <Body = unknown, Query = unknown>(
  method: Exclude<Method, "all">,
  path: Route["path"],
  row: Row<Body, Query>,
) => Route;

/** Makes the rows of one section. */
export const routesOf =
  (section: Pick<Route, "tag" | "group" | "access" | "error_message">): AddRoute =>
  (method, path, row) => ({ ...section, method, path, ...row });
