/** Logs the unknown keys of request bodies for developers. Requests ignore such keys. */
import type { Environment } from "../environment.ts";
import { suggestName } from "../validation.ts";
import type { HandlerState } from "./route.ts";

/** The keys that clients of LangGraph send and only LangGraph's servers use. */
const IGNORED_CLIENT_KEYS: ReadonlySet<string> = new Set(["langsmith_tracer"]);
/** The maximum number of different warnings. Each is logged once. */
const MAX_WARNINGS = 1_000;

/**
 * Returns a function that logs a warning about unknown keys, with suggestions. Logs the same keys of a route only once,
 * because a client sends them with each request. Logs nothing for keys of known clients, and nothing more after
 * `MAX_WARNINGS`.
 */
export function createUnknownKeyLog(
  environment: Pick<Environment, "log">,
): NonNullable<HandlerState["logUnknownKeys"]> {
  const logged = new Set<string>();
  return ({ method, path }, keys, allowed) => {
    const hints = keys
      .filter((key) => !IGNORED_CLIENT_KEYS.has(key))
      .map((key) => `${key}${suggestName(key, allowed).replace(/^; (.*)$/, " ($1)")}`);
    const warning = `${method} ${path} ${hints}`;
    if (hints.length === 0 || logged.has(warning) || logged.size >= MAX_WARNINGS) return;
    logged.add(warning);
    const message = "a request body has unknown keys, which are ignored";
    environment.log({ level: "warn", message, method: method.toUpperCase(), path, keys: hints.join(", ") });
  };
}
