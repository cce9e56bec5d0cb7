/** Custom authentication and authorization: what the host's handlers take and return. `custom-handlers.ts` calls them. */
import { type ErrorReason, ServiceError } from "../errors.ts";
import type { AuthUser } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import { type Filter, toOwnerMetadata, type Visibility } from "../storage/visibility.ts";
import { callable, findProblems, strictSection } from "../validation.ts";
import type { AuthContext, AuthEvent, AuthHandlers } from "./events.ts";

export type { AuthUser } from "../executor/contract.ts";
export type { AuthContext, AuthEvent, AuthHandlers } from "./events.ts";

/** The host's authentication. An `Auth` object of `@langchain/langgraph-sdk/auth` works, too. */
export interface Auth {
  /**
   * Returns the identity of the sender, or an object with `identity` and further members for the graph. To refuse, it throws an
   * object with `status`, `message` and optional `headers` for the response. The request has no body.
   */
  authenticate(request: Request): Promise<string | AuthClaims> | string | AuthClaims;
  /** Handlers by event, such as `threads:create`; `threads`, `*:create` and `*` handle events without one. */
  readonly on?: AuthHandlers;
}

/** What `authenticate` returns: an identity, and further members for handlers and agents. */
export interface AuthClaims {
  readonly identity: string;
  readonly permissions?: readonly string[];
  readonly display_name?: string;
  readonly is_authenticated?: boolean;
  readonly [extra: string]: Json | readonly string[] | undefined;
}

/** The user as handlers get it: with the members that `authenticate` returns. */
export type AuthUserOf<Claims extends string | AuthClaims> = AuthUser & (Claims extends string ? unknown : Claims);

/**
 * Types custom authentication: the handlers in `on` get the members that `authenticate` returns, in `user`. Returns its argument.
 *
 * @example
 * ```ts
 * import { defineAuth } from "greenroom";
 *
 * export const auth = defineAuth({
 *   authenticate: () => ({ identity: "ann", team: "blue" }),
 *   on: { threads: ({ user }) => ({ team: { $contains: user.team } }) },
 * });
 * ```
 */
export function defineAuth<Claims extends string | AuthClaims>(auth: {
  readonly authenticate: (request: Request) => Claims | Promise<Claims>;
  readonly on?: AuthHandlers<AuthUserOf<Claims>>;
}): Auth {
  // The service calls the handlers with the user that `authenticate` has returned.
  return auth as unknown as Auth;
}

/** An `Auth` object of `@langchain/langgraph-sdk/auth`. */
export interface SdkAuth {
  readonly "~handlerCache": {
    // The SDK types each handler by its event; these types have no common parameter.
    // biome-ignore lint/suspicious/noExplicitAny: see above
    readonly authenticate?: (request: any) => unknown;
    // biome-ignore lint/suspicious/noExplicitAny: see above
    readonly callbacks?: Readonly<Record<string, (context: any) => unknown>>;
  };
}

/** Returns the user that the host's code acts for. Throws a TypeError that names the member it cannot use. */
export function requireUser(caller: { readonly user: AuthUser }): AuthUser {
  const user: unknown = caller?.user;
  const { identity, permissions }: Partial<AuthUser> = isObject(user) ? user : {};
  const userError = (problem: string): TypeError => new TypeError(`service.as: ${problem}`);
  if (typeof identity !== "string" || identity === "") {
    throw userError("user.identity must be a string that names the user");
  }
  if (!Array.isArray(permissions) || permissions.some((name) => typeof name !== "string")) {
    throw userError("user.permissions must be a list of strings; [] gives no permission");
  }
  return user as unknown as AuthUser;
}

/** Thrown when a handler of the host refuses the request; carries the handler's response. */
export class HandlerRefusal extends ServiceError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  override readonly reason: ErrorReason;
  constructor(status: number, message: string, headers: Readonly<Record<string, string>>) {
    super(status === 401 ? "unauthenticated" : "forbidden", message);
    // Callers of `service.as` see this name: it stays.
    this.name = "AuthRefusal";
    // A host that says 404 hides what there is.
    this.reason = status === 404 ? "not_found" : this.code;
    this.status = status;
    this.headers = headers;
  }
}

/** Calls the host's handlers for routes. */
export interface CustomHandlers {
  /**
   * Returns the user of a request, whose body the handler does not get. Throws the refusal, `auth_timeout`, or `internal`,
   * logged, without an identity.
   */
  authenticate(request: Request): Promise<AuthUser>;
  /**
   * Calls the most specific handler of the event with a copy of the value. Returns the value with its changes and the filter;
   * both unchanged without a handler. Throws the refusal, `auth_timeout`, and `internal`, logged, for a value that is no longer
   * JSON.
   */
  authorize<Value extends object>(
    user: AuthUser,
    event: AuthEvent,
    value: Value,
  ): Promise<{ readonly value: Value; readonly visibility: Visibility }>;
}

/** Events that create something with metadata. */
export const CREATE_EVENTS: ReadonlySet<AuthEvent> = new Set([
  "threads:create",
  "threads:create_run",
  "assistants:create",
  "crons:create",
]);

/** The argument of a handler, for code that calls handlers of all events. */
interface HandlerContext extends Pick<AuthContext, "event" | "permissions" | "user"> {
  readonly resource: string;
  readonly action: string;
  readonly value: object;
}

interface Handlers {
  readonly authenticate: (request: Request) => unknown;
  readonly on: Readonly<Record<string, (context: HandlerContext) => unknown>>;
}

/**
 * Returns the handlers of an `auth.custom` object, or undefined for any other object. Call it for each request, because the host
 * may add handlers later.
 */
export function readHandlers(custom: unknown): Handlers | undefined {
  if (!isObject(custom)) return undefined;
  const { "~handlerCache": handlerCache, authenticate, on } = custom as Partial<SdkAuth & Auth>;
  if (typeof handlerCache === "object" && handlerCache !== null) {
    return typeof handlerCache.authenticate === "function"
      ? { authenticate: handlerCache.authenticate, on: handlerCache.callbacks ?? {} }
      : undefined;
  }
  if (typeof authenticate !== "function") return undefined;
  return {
    authenticate: (request) => (custom as unknown as Auth).authenticate(request),
    on: (on ?? {}) as unknown as Handlers["on"],
  };
}

const CRUD_ACTIONS: readonly string[] = ["create", "read", "update", "delete", "search"];
const RESOURCE_ACTIONS: Readonly<Record<string, readonly string[]>> = {
  threads: [...CRUD_ACTIONS, "create_run"],
  assistants: CRUD_ACTIONS,
  crons: CRUD_ACTIONS,
  store: ["put", "get", "search", "list_namespaces", "delete"],
};

/** Handlers for unknown events would guard nothing. */
const HANDLERS_SCHEMA = strictSection(
  Object.fromEntries(
    [...Object.entries(RESOURCE_ACTIONS), ["*", Object.values(RESOURCE_ACTIONS).flat()] as const].flatMap(
      ([resource, actions]) =>
        [resource, ...actions.map((action) => `${resource}:${action}`)].map((name) => [name, callable]),
    ),
  ),
  [],
  "there is no such event (use names such as threads:create)",
);

/**
 * Returns the problems of `auth.custom`, each as one line: handlers of unknown events, or no `authenticate`. Empty if there are
 * none.
 */
export function findAuthProblems(custom: unknown): readonly string[] {
  const handlers = readHandlers(custom);
  if (handlers) return findProblems(HANDLERS_SCHEMA, handlers.on, "auth", "custom", "on");
  return [
    "auth.custom: must have a function authenticate, or be an Auth object of @langchain/langgraph-sdk/auth with one",
  ];
}

/** Returns the value of a create event with the equalities of the filter as metadata, and other values unchanged. */
export function mergeFilter<Value extends { readonly metadata?: unknown }>(
  event: AuthEvent,
  value: Value,
  filter: Filter,
): Value {
  if (!CREATE_EVENTS.has(event)) return value;
  return { ...value, metadata: { ...(value.metadata as JsonObject | null), ...toOwnerMetadata(filter) } };
}
