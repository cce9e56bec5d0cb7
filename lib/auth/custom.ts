/** Custom authentication and authorization: calls the host's handlers and checks their results. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { AuthUser } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import { EVERYTHING, equalitiesOf, type Filter, readFilter, type Visibility } from "../storage/visibility.ts";
import { callable, problemsIn, section } from "../validation.ts";

export type { AuthUser } from "../executor/contract.ts";

/** The actions that handlers authorize. */
export type AuthEvent =
  | `threads:${"create" | "read" | "update" | "delete" | "search" | "create_run"}`
  | `assistants:${"create" | "read" | "update" | "delete" | "search"}`
  | `crons:${"create" | "read" | "update" | "delete" | "search"}`
  | `store:${"put" | "get" | "search" | "list_namespaces" | "delete"}`;

/** The ids, fields and filters of a call. Only the members that the service changes itself are typed. */
type AuthValue = JsonObject & { metadata?: JsonObject; namespace?: string[] };

/** The argument of a handler. Its changes to `value` take effect. */
export interface AuthContext {
  readonly event: AuthEvent;
  readonly resource: string;
  readonly action: string;
  readonly value: AuthValue;
  readonly permissions: readonly string[];
  readonly user: AuthUser;
}

/**
 * Undefined, null or true: allowed. False: forbidden. An object: a filter on metadata, such as `{owner: "ann"}` or
 * `{team: {$contains: "a"}}`.
 */
type AuthAnswer = undefined | null | boolean | JsonObject;

// biome-ignore lint/suspicious/noConfusingVoidType: a handler that only changes `value` returns nothing.
type AuthHandler = (context: AuthContext) => AuthAnswer | void | Promise<AuthAnswer | void>;

/** The host's authentication. An `Auth` object of `@langchain/langgraph-sdk/auth` works, too. */
export interface Auth {
  /**
   * Returns the identity of the sender, or an object with `identity` and further members for the graph. To refuse, it throws an
   * object with `status`, `message` and optional `headers` for the response. The request has no body.
   */
  authenticate(request: Request): Promise<string | AuthClaims> | string | AuthClaims;
  /** Handlers by event, such as `threads:create`; `threads`, `*:create` and `*` handle events without one. */
  readonly on?: Readonly<Record<string, AuthHandler>>;
}

export interface AuthClaims {
  readonly identity: string;
  readonly permissions?: readonly string[];
  readonly display_name?: string;
  readonly is_authenticated?: boolean;
  readonly [extra: string]: Json | readonly string[] | undefined;
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

/** Thrown when a handler of the host refuses the request; carries the handler's response. */
export class AuthRefusal extends ServiceError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  constructor(status: number, message: string, headers: Readonly<Record<string, string>>) {
    super(status === 401 ? "unauthenticated" : "forbidden", message);
    this.name = "AuthRefusal";
    this.status = status;
    this.headers = headers;
  }
}

/** Calls the host's handlers for routes. */
export interface Guard {
  /** Errors: AuthRefusal, unavailable (the handler timed out), internal (the handler failed). */
  authenticate(request: Request): Promise<AuthUser>;
  /** Returns `value` with the handler's changes, and the visibility filter of the call. Errors: as above, and forbidden. */
  authorize<Value extends object>(
    user: AuthUser,
    event: AuthEvent,
    value: Value,
  ): Promise<{ readonly value: Value; readonly visibility: Visibility }>;
}

/** The timeout of a handler. */
const TIMEOUT_MS = 10_000;
/** The maximum nesting depth of the `value` after a handler; request bodies nest less. */
const MAX_DEPTH = 100;

/** Events that create something with metadata. */
const CREATING: ReadonlySet<AuthEvent> = new Set([
  "threads:create",
  "threads:create_run",
  "assistants:create",
  "crons:create",
]);

const REFUSALS: Readonly<Record<number, string>> = { 401: "Unauthorized", 403: "Forbidden", 404: "Not found" };
/** Headers that the service sets on the response. */
const FRAMING = new Set(["content-type", "content-length", "content-encoding", "transfer-encoding", "connection"]);

interface Handlers {
  readonly authenticate: (request: Request) => unknown;
  readonly on: Readonly<Record<string, (context: AuthContext) => unknown>>;
}

/** Undefined for any other object. Read at each call, because the host may add handlers later. */
function handlersOf(custom: unknown): Handlers | undefined {
  if (!isObject(custom)) return undefined;
  const { "~handlerCache": cache, authenticate, on } = custom as Partial<SdkAuth & Auth>;
  if (typeof cache === "object" && cache !== null) {
    return typeof cache.authenticate === "function"
      ? { authenticate: cache.authenticate, on: cache.callbacks ?? {} }
      : undefined;
  }
  if (typeof authenticate !== "function") return undefined;
  return { authenticate: (request) => (custom as unknown as Auth).authenticate(request), on: on ?? {} };
}

const CRUD: readonly string[] = ["create", "read", "update", "delete", "search"];
const RESOURCES: Readonly<Record<string, readonly string[]>> = {
  threads: [...CRUD, "create_run"],
  assistants: CRUD,
  crons: CRUD,
  store: ["put", "get", "search", "list_namespaces", "delete"],
};

/** Handlers for unknown events would guard nothing. */
const HANDLERS = section(
  Object.fromEntries(
    [...Object.entries(RESOURCES), ["*", Object.values(RESOURCES).flat()] as const].flatMap(([resource, actions]) =>
      [resource, ...actions.map((action) => `${resource}:${action}`)].map((name) => [name, callable]),
    ),
  ),
  [],
  "there is no such event (use names such as threads:create)",
);

/** The problems of `auth.custom`. */
export function problemsOfAuth(custom: unknown): readonly string[] {
  const handlers = handlersOf(custom);
  if (handlers) return problemsIn(HANDLERS, handlers.on, "auth", "custom", "on");
  return [
    "auth.custom: must have a function authenticate, or be an Auth object of @langchain/langgraph-sdk/auth with one",
  ];
}

/** `merge_filter_on_create`: new resources get the equalities of the handler's filter as metadata. */
export function createGuard(
  custom: Auth | SdkAuth,
  options: { readonly environment: Pick<Environment, "timer" | "log">; readonly merge_filter_on_create: boolean },
): Guard {
  const { environment, merge_filter_on_create } = options;

  /** Logs an error of the host's code. The response reveals nothing of it. */
  function failed(handler: string, message: string, error?: unknown): ServiceError {
    environment.log({ level: "error", message, handler, ...(error === undefined ? {} : { error }) });
    return new ServiceError("internal", "Internal server error", { cause: error });
  }

  function refusal(handler: string, thrown: unknown): ServiceError {
    const { status, message, headers } = (typeof thrown === "object" && thrown !== null ? thrown : {}) as {
      readonly status?: unknown;
      readonly message?: unknown;
      readonly headers?: unknown;
    };
    if (typeof status !== "number" || !Number.isInteger(status) || status < 400 || status > 599) {
      return failed(handler, "auth handler failed", thrown ?? new Error("It threw undefined or null"));
    }
    const text = typeof message === "string" && message !== "" ? message : (REFUSALS[status] ?? "Refused");
    return new AuthRefusal(status, text, headersOf(headers));
  }

  function callHandler(handler: string, call: () => unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const cancel = environment.timer(TIMEOUT_MS, () => {
        environment.log({ level: "error", message: "auth handler timed out", handler });
        reject(new ServiceError("auth_timeout", "Authentication timed out: retry later"));
      });
      const answer = (async () => call())();
      answer.then(resolve, (thrown: unknown) => reject(refusal(handler, thrown))).finally(cancel);
    });
  }

  function filterOf(handler: string, answer: unknown): Filter {
    if (answer === undefined || answer === null || answer === true) return [];
    if (answer === false) throw new ServiceError("forbidden", "Forbidden");
    const filter = readFilter(answer);
    if (!filter) throw failed(handler, "auth handler returned neither a boolean, nothing nor a filter");
    return filter;
  }

  return {
    async authenticate(request) {
      const handlers = handlersOf(custom);
      // A body can be read once, and the route reads it.
      const { url, method, headers } = request;
      const answer = await callHandler("authenticate", () =>
        handlers?.authenticate(new Request(url, { method, headers })),
      );
      const user = userOf(answer);
      if (!user) throw failed("authenticate", "auth handler returned no identity");
      return user;
    },
    async authorize(user, event, value) {
      const [resource, action] = event.split(":") as [string, string];
      const { on = {} } = handlersOf(custom) ?? {};
      const name = [event, resource, `*:${action}`, "*"].find((name) => Object.hasOwn(on, name));
      if (name === undefined) return { value, visibility: EVERYTHING };
      // The handler gets a copy: a retry of the call starts from the parsed value again.
      const changed = structuredClone(value) as typeof value & { metadata?: unknown };
      if (CREATING.has(event)) changed.metadata ??= {};
      const { permissions } = user;
      const context = { event, resource, action, value: changed as unknown as JsonObject, permissions, user };
      const filter = filterOf(name, await callHandler(name, () => on[name]?.(context)));
      const merged = merge_filter_on_create ? mergeFilter(event, changed, filter) : changed;
      const { metadata } = merged;
      if (!isPlainJson(merged) || !(metadata === undefined || metadata === null || isObject(metadata))) {
        throw failed(name, "auth handler left an invalid value");
      }
      return { value: merged, visibility: filter.length > 0 ? { filter } : EVERYTHING };
    },
  };
}

/** What an event creates gets the equalities of the filter as metadata. */
export function mergeFilter<Value extends { readonly metadata?: unknown }>(
  event: AuthEvent,
  value: Value,
  filter: Filter,
): Value {
  if (!CREATING.has(event)) return value;
  return { ...value, metadata: { ...(value.metadata as JsonObject | null), ...equalitiesOf(filter) } };
}

/** The user for graphs and handlers: JSON, with all members of the answer. Null without an identity. */
function userOf(answer: unknown): AuthUser | null {
  const claims = typeof answer === "string" ? { identity: answer } : answer;
  if (!isObject(claims) || typeof claims.identity !== "string") return null;
  const { identity, permissions, display_name, is_authenticated } = claims;
  let extras: unknown;
  try {
    extras = JSON.parse(JSON.stringify(claims));
  } catch {
    return null;
  }
  return {
    ...(isObject(extras) ? extras : {}),
    identity,
    permissions: Array.isArray(permissions) ? permissions.filter((name) => typeof name === "string") : [],
    display_name: typeof display_name === "string" ? display_name : identity,
    is_authenticated: typeof is_authenticated === "boolean" ? is_authenticated : true,
  };
}

/** Reads an object, a list of pairs or `Headers`. Leaves out headers that a response cannot have. */
function headersOf(input: unknown): Readonly<Record<string, string>> {
  if (typeof input !== "object" || input === null) return {};
  const pairs = Symbol.iterator in input ? [...(input as Iterable<unknown>)] : Object.entries(input);
  const shown = new Headers();
  for (const pair of pairs) {
    const [name, value] = Array.isArray(pair) ? pair : [];
    try {
      if (typeof name === "string" && !FRAMING.has(name.toLowerCase())) shown.append(name, String(value));
    } catch {
      // Not a valid header name or value.
    }
  }
  return Object.fromEntries(shown);
}

/** True for values that survive JSON unchanged; members may be undefined. */
function isPlainJson(value: unknown, depth = 0): boolean {
  if (typeof value !== "object" || value === null) {
    return ["string", "boolean", "undefined"].includes(typeof value) || value === null || Number.isFinite(value);
  }
  if (depth > MAX_DEPTH) return false;
  const plain = Array.isArray(value) || [null, Object.prototype].includes(Object.getPrototypeOf(value));
  return plain && Object.values(value).every((member) => isPlainJson(member, depth + 1));
}
