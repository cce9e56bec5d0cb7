/** Calls the host's handlers of custom authentication and checks their results. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { AuthUser } from "../executor/contract.ts";
import { isObject, type JsonObject } from "../json.ts";
import { EVERYTHING, type Filter, readFilter } from "../storage/visibility.ts";
import { type Auth, AuthRefusal, CREATING, type Guard, handlersOf, mergeFilter, type SdkAuth } from "./custom.ts";

/** The timeout of a handler. */
const TIMEOUT_MS = 10_000;
/** The maximum nesting depth of the `value` after a handler; request bodies nest less. */
const MAX_DEPTH = 100;

const REFUSALS: Readonly<Record<number, string>> = { 401: "Unauthorized", 403: "Forbidden", 404: "Not found" };
/** Headers that the service sets on the response. */
const FRAMING = new Set(["content-type", "content-length", "content-encoding", "transfer-encoding", "connection"]);

/** `merge_filter_on_create`: new resources get the equalities of the handler's filter as metadata. */
export function createGuard(
  custom: Auth | SdkAuth,
  options: { readonly environment: Pick<Environment, "timer" | "log">; readonly merge_filter_on_create: boolean },
): Guard {
  const { environment, merge_filter_on_create } = options;

  /** Logs an error of the host's code. The response does not contain it. */
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
