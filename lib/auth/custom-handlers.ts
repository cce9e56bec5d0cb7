/** Calls the host's handlers of custom authentication and checks their results. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { AuthUser } from "../executor/contract.ts";
import { isObject } from "../json.ts";
import { type Filter, NO_FILTER, readFilter } from "../storage/visibility.ts";
import {
  type Auth,
  CREATE_EVENTS,
  type CustomHandlers,
  HandlerRefusal,
  mergeFilter,
  readHandlers,
  type SdkAuth,
} from "./custom.ts";

/** The timeout of a handler. */
const HANDLER_TIMEOUT_MS = 10_000;
/** The maximum nesting depth of the `value` after a handler; request bodies nest less. */
const MAX_VALUE_DEPTH = 100;

const REFUSAL_MESSAGES: Readonly<Record<number, string>> = { 401: "Unauthorized", 403: "Forbidden", 404: "Not found" };
/** Headers that the service sets on the response. */
const FRAMING_HEADERS = new Set([
  "content-type",
  "content-length",
  "content-encoding",
  "transfer-encoding",
  "connection",
]);

/**
 * Creates the calls of the host's handlers, which have a time limit. With `merge_filter_on_create` new resources get the
 * equalities of the handler's filter as metadata.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createCustomHandlers(
  custom: Auth | SdkAuth,
  options: { readonly environment: Pick<Environment, "timer" | "log">; readonly merge_filter_on_create: boolean },
): CustomHandlers {
  const { environment, merge_filter_on_create } = options;

  /** Logs an error of a handler, and returns an `internal` error that does not reveal it. */
  function logHandlerError(handler: string, message: string, error?: unknown): ServiceError {
    environment.log({ level: "error", message, handler, ...(error === undefined ? {} : { error }) });
    return new ServiceError("internal", "Internal server error", { cause: error });
  }

  /** Returns the refusal for a status from 400 to 599; logs anything else and returns `internal`. */
  function toRefusal(handler: string, thrown: unknown): ServiceError {
    const { status, message, headers } = (typeof thrown === "object" && thrown !== null ? thrown : {}) as {
      readonly status?: unknown;
      readonly message?: unknown;
      readonly headers?: unknown;
    };
    if (typeof status !== "number" || !Number.isInteger(status) || status < 400 || status > 599) {
      return logHandlerError(handler, "auth handler failed", thrown ?? new Error("It threw undefined or null"));
    }
    const text = typeof message === "string" && message !== "" ? message : (REFUSAL_MESSAGES[status] ?? "Refused");
    return new HandlerRefusal(status, text, readRefusalHeaders(headers));
  }

  /**
   * Calls a handler and resolves with its result. Rejects with the refusal that it throws, with `internal` for other errors, and
   * with `auth_timeout` after `HANDLER_TIMEOUT_MS`, which does not stop the handler. Logs the latter two.
   */
  function callHandler(handler: string, call: () => unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const cancel = environment.timer(HANDLER_TIMEOUT_MS, () => {
        environment.log({ level: "error", message: "auth handler timed out", handler });
        reject(new ServiceError("auth_timeout", "Authentication timed out: retry later"));
      });
      const result = (async () => call())();
      result.then(resolve, (thrown: unknown) => reject(toRefusal(handler, thrown))).finally(cancel);
    });
  }

  /**
   * Returns the filter of a handler's result: an empty one for undefined, null and true. Throws `forbidden` for false, and
   * `internal`, logged, for other values.
   */
  function readHandlerFilter(handler: string, result: unknown): Filter {
    if (result === undefined || result === null || result === true) return [];
    if (result === false) throw new ServiceError("forbidden", "Forbidden");
    const filter = readFilter(result);
    if (!filter) throw logHandlerError(handler, "auth handler returned neither a boolean, nothing nor a filter");
    return filter;
  }

  return {
    async authenticate(request) {
      const handlers = readHandlers(custom);
      // A body can be read once, and the route reads it.
      const { url, method, headers } = request;
      const result = await callHandler("authenticate", () =>
        handlers?.authenticate(new Request(url, { method, headers })),
      );
      const user = parseUser(result);
      if (!user) throw logHandlerError("authenticate", "auth handler returned no identity");
      return user;
    },
    async authorize(user, event, value) {
      const [resource, action] = event.split(":") as [string, string];
      const { on = {} } = readHandlers(custom) ?? {};
      const name = [event, resource, `*:${action}`, "*"].find((name) => Object.hasOwn(on, name));
      if (name === undefined) return { value, visibility: NO_FILTER };
      // The handler gets a copy: a retry of the call starts from the parsed value again.
      const changed = structuredClone(value) as typeof value & { metadata?: unknown };
      if (CREATE_EVENTS.has(event)) changed.metadata ??= {};
      const { permissions } = user;
      const context = { event, resource, action, value: changed, permissions, user };
      const filter = readHandlerFilter(name, await callHandler(name, () => on[name]?.(context)));
      const merged = merge_filter_on_create ? mergeFilter(event, changed, filter) : changed;
      const { metadata } = merged;
      if (!isPlainJson(merged) || !(metadata === undefined || metadata === null || isObject(metadata))) {
        throw logHandlerError(name, "auth handler left an invalid value");
      }
      return { value: merged, visibility: filter.length > 0 ? { filter } : NO_FILTER };
    },
  };
}

/**
 * Returns the user for graphs and handlers as JSON, with all members of the result and defaults for missing ones. Null without an
 * identity and for what is not JSON.
 */
function parseUser(result: unknown): AuthUser | null {
  const claims = typeof result === "string" ? { identity: result } : result;
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

/**
 * Returns the headers of an object, a list of pairs or `Headers`; `{}` for other values. Omits invalid headers and those that
 * frame the response.
 */
function readRefusalHeaders(input: unknown): Readonly<Record<string, string>> {
  if (typeof input !== "object" || input === null) return {};
  const pairs = Symbol.iterator in input ? [...(input as Iterable<unknown>)] : Object.entries(input);
  const headers = new Headers();
  for (const pair of pairs) {
    const [name, value] = Array.isArray(pair) ? pair : [];
    try {
      if (typeof name === "string" && !FRAMING_HEADERS.has(name.toLowerCase())) headers.append(name, String(value));
    } catch {
      // Not a valid header name or value.
    }
  }
  return Object.fromEntries(headers);
}

/** Returns true for values that survive JSON unchanged; members may be undefined. False for too deep ones. */
function isPlainJson(value: unknown, depth = 0): boolean {
  if (typeof value !== "object" || value === null) {
    return ["string", "boolean", "undefined"].includes(typeof value) || value === null || Number.isFinite(value);
  }
  if (depth > MAX_VALUE_DEPTH) return false;
  const plain = Array.isArray(value) || [null, Object.prototype].includes(Object.getPrototypeOf(value));
  return plain && Object.values(value).every((member) => isPlainJson(member, depth + 1));
}
