/** Custom authentication and authorization: the host's own handlers, and what their answers mean. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { AuthUser } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import { EVERYTHING, equalitiesOf, type Filter, readFilter, type Visibility } from "../storage/visibility.ts";

export type { AuthUser } from "../executor/contract.ts";

/** What a handler is asked about. */
export type AuthEvent =
  | `threads:${"create" | "read" | "update" | "delete" | "search" | "create_run"}`
  | `assistants:${"create" | "read" | "update" | "delete" | "search"}`
  | `crons:${"create" | "read" | "update" | "delete" | "search"}`
  | `store:${"put" | "get" | "search" | "list_namespaces" | "delete"}`;

/** What a call is about to do: its ids, fields and filters. Only the members that custom authentication changes are named here. */
export type AuthValue = JsonObject & { metadata?: JsonObject; namespace?: string[] };

/** What a handler is called with. Changes that it makes to `value` take effect. */
export interface AuthContext {
  readonly event: AuthEvent;
  readonly resource: string;
  readonly action: string;
  readonly value: AuthValue;
  readonly permissions: readonly string[];
  readonly user: AuthUser;
}

/** Nothing or true: allowed. False: forbidden. An object: only what its metadata says so, as `{owner: "ann"}` or `{team: {$contains: "a"}}`. */
export type AuthAnswer = undefined | null | boolean | JsonObject;

// biome-ignore lint/suspicious/noConfusingVoidType: a handler that only changes `value` returns nothing.
export type AuthHandler = (context: AuthContext) => AuthAnswer | void | Promise<AuthAnswer | void>;

/** A host's authentication. An `Auth` object of `@langchain/langgraph-sdk/auth` serves as well. */
export interface Auth {
  /**
   * Who sends this request: an identity, or an object with one and whatever else the graph is to know. To refuse it, throws an
   * object with `status` (and `headers`); its message is the answer's. The request comes without its body, which is the route's.
   */
  authenticate(request: Request): Promise<string | AuthClaims> | string | AuthClaims;
  /** By event, as `threads:create`; `threads`, `*:create` and `*` for those without a handler of their own. */
  readonly on?: Readonly<Record<string, AuthHandler>>;
}

export interface AuthClaims {
  readonly identity: string;
  readonly permissions?: readonly string[];
  readonly display_name?: string;
  readonly is_authenticated?: boolean;
  readonly [extra: string]: Json | readonly string[] | undefined;
}

/** An `Auth` object of `@langchain/langgraph-sdk/auth`, as it is. */
export interface SdkAuth {
  readonly "~handlerCache": {
    // The SDK types each handler by its event: all that they have in common is that they are called.
    // biome-ignore lint/suspicious/noExplicitAny: see above
    readonly authenticate?: (request: any) => unknown;
    // biome-ignore lint/suspicious/noExplicitAny: see above
    readonly callbacks?: Readonly<Record<string, (context: any) => unknown>>;
  };
}

/** A request that the host's handlers refuse: the answer is theirs. */
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

/** The host's handlers, as routes ask them. */
export interface Guard {
  /** Errors: AuthRefusal; unavailable (no answer in time); internal. */
  authenticate(request: Request): Promise<AuthUser>;
  /** `value` as the handler leaves it, and how far the call reaches. Errors as above, and forbidden. */
  authorize<Value extends object>(
    user: AuthUser,
    event: AuthEvent,
    value: Value,
  ): Promise<{ readonly value: Value; readonly visibility: Visibility }>;
}

/** How long a handler may take. */
const PATIENCE_MS = 10_000;
/** What handlers leave may nest so deep; bodies nest less. */
const DEEPEST = 100;

/** Events that make something which has metadata. */
const CREATING: ReadonlySet<AuthEvent> = new Set([
  "threads:create",
  "threads:create_run",
  "assistants:create",
  "crons:create",
]);

const REFUSALS: Readonly<Record<number, string>> = { 401: "Unauthorized", 403: "Forbidden", 404: "Not found" };
/** Headers that belong to the answer's own form. */
const FRAMING = new Set(["content-type", "content-length", "content-encoding", "transfer-encoding", "connection"]);

interface Handlers {
  readonly authenticate: (request: Request) => unknown;
  readonly on: Readonly<Record<string, (context: AuthContext) => unknown>>;
}

/** Undefined where it is no authentication of either kind. Asked again at each call: handlers may be added later. */
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

const RESOURCES: Readonly<Record<string, readonly string[]>> = {
  threads: ["create", "read", "update", "delete", "search", "create_run"],
  assistants: ["create", "read", "update", "delete", "search"],
  crons: ["create", "read", "update", "delete", "search"],
  store: ["put", "get", "search", "list_namespaces", "delete"],
};

function isEventName(name: string): boolean {
  const [resource = "", action, ...rest] = name.split(":");
  if (rest.length > 0) return false;
  if (resource === "*") return action === undefined || Object.values(RESOURCES).flat().includes(action);
  const actions = Object.hasOwn(RESOURCES, resource) ? RESOURCES[resource] : undefined;
  return actions !== undefined && (action === undefined || actions.includes(action));
}

/** What is wrong with `auth.custom`: a handler under a wrong name would guard nothing. */
export function problemsOfAuth(custom: unknown): readonly string[] {
  const handlers = handlersOf(custom);
  if (!handlers) {
    return [
      "auth.custom: must have a function authenticate, or be an Auth object of @langchain/langgraph-sdk/auth with one",
    ];
  }
  if (!isObject(handlers.on)) return ["auth.custom.on: must be an object of functions by event"];
  return Object.entries(handlers.on as Readonly<Record<string, unknown>>).flatMap(([name, handler]) => {
    if (!isEventName(name)) return [`auth.custom.on.${name}: there is no such event; names are as threads:create`];
    return typeof handler === "function" ? [] : [`auth.custom.on.${name}: must be a function`];
  });
}

/** The guard of a deployment with custom authentication. `merge_filter_on_create`: what is made gets a filter's equalities as metadata. */
export function createGuard(
  custom: Auth | SdkAuth,
  options: { readonly environment: Pick<Environment, "timer" | "log">; readonly merge_filter_on_create: boolean },
): Guard {
  const { environment, merge_filter_on_create } = options;

  /** For the log alone: callers learn nothing of what the host's code has to say. */
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
      return failed(handler, "A handler of custom authentication failed", thrown ?? new Error("It threw nothing"));
    }
    const text = typeof message === "string" && message !== "" ? message : (REFUSALS[status] ?? "Refused");
    return new AuthRefusal(status, text, headersOf(headers));
  }

  function asked(handler: string, ask: () => unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const cancel = environment.timer(PATIENCE_MS, () => {
        environment.log({ level: "error", message: "A handler of custom authentication does not answer", handler });
        reject(new ServiceError("unavailable", "Authentication does not answer"));
      });
      const answer = (async () => ask())();
      answer.then(resolve, (thrown: unknown) => reject(refusal(handler, thrown))).finally(cancel);
    });
  }

  function filterOf(handler: string, answer: unknown): Filter {
    if (answer === undefined || answer === null || answer === true) return [];
    if (answer === false) throw new ServiceError("forbidden", "Forbidden");
    const filter = readFilter(answer);
    if (!filter)
      throw failed(handler, "A handler of custom authentication gave neither true, false, nothing nor a filter");
    return filter;
  }

  return {
    async authenticate(request) {
      const handlers = handlersOf(custom);
      // A body can be read once, and the route reads it.
      const { url, method, headers } = request;
      const answer = await asked("authenticate", () => handlers?.authenticate(new Request(url, { method, headers })));
      const user = userOf(answer);
      if (!user) throw failed("authenticate", "Custom authentication gave no identity");
      return user;
    },
    async authorize(user, event, value) {
      const [resource, action] = event.split(":") as [string, string];
      const { on = {} } = handlersOf(custom) ?? {};
      const name = [event, resource, `*:${action}`, "*"].find((name) => Object.hasOwn(on, name));
      if (name === undefined) return { value, visibility: EVERYTHING };
      // Theirs alone: what was parsed is used again where a call is tried again.
      const left = structuredClone(value) as typeof value & { metadata?: unknown };
      if (CREATING.has(event)) left.metadata ??= {};
      const { permissions } = user;
      const context = { event, resource, action, value: left as unknown as JsonObject, permissions, user };
      const filter = filterOf(name, await asked(name, () => on[name]?.(context)));
      if (merge_filter_on_create && CREATING.has(event) && filter.length > 0) {
        left.metadata = { ...(left.metadata as JsonObject | null), ...equalitiesOf(filter) };
      }
      const { metadata } = left;
      if (!isPlainJson(left) || !(metadata === undefined || metadata === null || isObject(metadata))) {
        throw failed(name, "A handler of custom authentication left a value that cannot be used");
      }
      return { value: left, visibility: filter.length > 0 ? { filter } : EVERYTHING };
    },
  };
}

/** The user as graphs and handlers see them: JSON, with every extra that was given. */
function userOf(answer: unknown): AuthUser | null {
  const given = typeof answer === "string" ? { identity: answer } : answer;
  if (!isObject(given) || typeof given.identity !== "string") return null;
  const { identity, permissions, display_name, is_authenticated } = given;
  let extras: unknown;
  try {
    extras = JSON.parse(JSON.stringify(given));
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

/** As an object, a list of pairs or `Headers`; those that no answer can carry are left out. */
function headersOf(given: unknown): Readonly<Record<string, string>> {
  if (typeof given !== "object" || given === null) return {};
  const pairs = Symbol.iterator in given ? [...(given as Iterable<unknown>)] : Object.entries(given);
  const shown = new Headers();
  for (const pair of pairs) {
    const [name, value] = Array.isArray(pair) ? pair : [];
    try {
      if (typeof name === "string" && !FRAMING.has(name.toLowerCase())) shown.append(name, String(value));
    } catch {
      // Not a header's name, or no text that a header can have.
    }
  }
  return Object.fromEntries(shown);
}

/** True for what JSON can write as it is; members may be undefined. */
function isPlainJson(value: unknown, depth = 0): boolean {
  if (typeof value !== "object" || value === null) {
    return ["string", "boolean", "undefined"].includes(typeof value) || value === null || Number.isFinite(value);
  }
  if (depth > DEEPEST) return false;
  const plain = Array.isArray(value) || [null, Object.prototype].includes(Object.getPrototypeOf(value));
  return plain && Object.values(value).every((member) => isPlainJson(member, depth + 1));
}
