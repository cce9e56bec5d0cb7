/** Resolves static webhook headers and secrets, whose values can contain environment variables. */
import type { InputIssue } from "../errors.ts";
import { isObject } from "../json.ts";

/** Adds a problem of the configuration. `msg` never contains the value of an environment variable. */
export type Report = (loc: InputIssue["loc"], type: string, msg: string) => void;

/** Environment variables by name. */
export type EnvVars = Readonly<Record<string, string | undefined>>;

/** The headers to send, in the order of the configuration. */
export type ResolvedHeaders = readonly (readonly [name: string, value: string])[];

export const DEFAULT_ENV_PREFIX = "SERVICE_WEBHOOK_";

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const TEMPLATE = /\$\{\{[ \t]*env\.([A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\}/y;
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const RESERVED =
  /^(?:host|content-length|content-type|transfer-encoding|connection|keep-alive|upgrade|te|trailer|expect|proxy-.*|idempotency-key|webhook-(?:id|timestamp|signature))$/i;
/** A valid header value: tab, and Latin-1 without control characters. `fetch` throws for any other. */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
/** The white space that `fetch` strips from both ends of a value. */
const EDGES = /^[\t\n\r ]+|[\t\n\r ]+$/g;

const HEADERS = ["webhooks", "headers"];

/** Fills in the templates of the headers. Leaves out invalid headers. */
export function resolveHeaders(headers: unknown, prefix: string | null, env: EnvVars, report: Report): ResolvedHeaders {
  if (headers === undefined) return [];
  if (!isObject(headers)) {
    report(HEADERS, "invalid_headers", "must be an object of header names and strings");
    return [];
  }
  const names = new Set<string>();
  return Object.entries(headers).flatMap(([name, given]): [string, string][] => {
    const loc = [...HEADERS, TOKEN.test(name) ? name : JSON.stringify(name)];
    const repeated = names.has(name.toLowerCase());
    names.add(name.toLowerCase());
    const usable = isUsableName(loc, name, repeated, report);
    const value = resolveValue(loc, given, prefix, env, report);
    return usable && value !== null ? [[name, value]] : [];
  });
}

/** The prefix of readable variables; null when it is invalid. */
export function readPrefix(env_prefix: unknown, report: Report): string | null {
  if (env_prefix === undefined) return DEFAULT_ENV_PREFIX;
  if (typeof env_prefix === "string" && NAME.test(env_prefix)) return env_prefix;
  const msg = "must be the start of a variable name: letters, digits and _, no digit first";
  report(["webhooks", "env_prefix"], "invalid_prefix", msg);
  return null;
}

/**
 * Replaces every `${{ env.NAME }}` of the text, once. Names must start with the prefix. Null after a problem, and with prefix null,
 * whose problem `readPrefix` reports: then no variable is read.
 */
export function resolveTemplate(
  loc: InputIssue["loc"],
  text: string,
  prefix: string | null,
  env: EnvVars,
  report: Report,
): string | null {
  let readable = true;
  let value = "";
  let at = 0;
  for (let start = text.indexOf("${{"); start >= 0; start = text.indexOf("${{", at)) {
    TEMPLATE.lastIndex = start;
    const match = TEMPLATE.exec(text);
    if (!match) {
      report(loc, "invalid_template", `has a template that is not \${{ env.NAME }}`);
      return null;
    }
    const name = match[1] as string;
    value += text.slice(at, start);
    at = start + match[0].length;
    const variable = prefix !== null && name.startsWith(prefix) && Object.hasOwn(env, name) ? env[name] : undefined;
    if (variable) {
      value += variable;
      continue;
    }
    readable = false;
    if (prefix === null) continue;
    if (name.startsWith(prefix)) report(loc, "missing_env", `needs the variable ${name}, which is not set or empty`);
    else {
      const msg = `may not read the variable ${name}: its name does not start with ${prefix} (webhooks.env_prefix)`;
      report(loc, "env_not_allowed", msg);
    }
  }
  return readable ? value + text.slice(at) : null;
}

/** Strips the white space that `fetch` would strip. */
export const trimmed = (value: string): string => value.replace(EDGES, "");

function isUsableName(loc: InputIssue["loc"], name: string, repeated: boolean, report: Report): boolean {
  if (!TOKEN.test(name)) report(loc, "invalid_header_name", "is not a valid HTTP header name");
  else if (RESERVED.test(name)) report(loc, "reserved_header", "is set by the service: remove it");
  else if (repeated) report(loc, "duplicate_header", "is a duplicate; names ignore case");
  else return true;
  return false;
}

function resolveValue(
  loc: InputIssue["loc"],
  value: unknown,
  prefix: string | null,
  env: EnvVars,
  report: Report,
): string | null {
  const invalid = (msg: string): null => {
    report(loc, "invalid_header_value", msg);
    return null;
  };
  if (typeof value !== "string") return invalid("must be a string");
  const resolved = resolveTemplate(loc, value, prefix, env, report);
  if (resolved === null) return null;
  const sent = trimmed(resolved);
  if (VALUE.test(sent)) return sent;
  return invalid("must not resolve to line breaks, control characters or characters above U+00FF");
}
