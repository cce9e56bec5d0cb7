/** Values of the configuration that may name environment variables: static headers and secrets. */
import { isObject } from "../json.ts";

/** Something wrong with the configuration. `message` is for people and never holds a value of the environment. */
export interface ConfigProblem {
  /** Where, as `webhooks.headers.X-Token`. */
  readonly key: string;
  /** What, as `missing_env`. */
  readonly code: string;
  readonly message: string;
}

/** The environment's variables by name. */
export type EnvVars = Readonly<Record<string, string | undefined>>;

/** Names and values as they are sent, in the order they were given. */
export type ResolvedHeaders = readonly (readonly [name: string, value: string])[];

export const DEFAULT_ENV_PREFIX = "SERVICE_WEBHOOK_";

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const TEMPLATE = /\$\{\{[ \t]*env\.([A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\}/y;
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const RESERVED =
  /^(?:host|content-length|content-type|transfer-encoding|connection|keep-alive|upgrade|te|trailer|expect|proxy-.*|idempotency-key|webhook-(?:id|timestamp|signature))$/i;
/** Text of a header: tab, and Latin-1 without control characters. The rest would fail at each attempt. */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
/** What `fetch` takes off both ends of a value. */
const EDGES = /^[\t\n\r ]+|[\t\n\r ]+$/g;

/**
 * The headers with their templates filled in, and everything that is wrong with them. What has a problem is left out. A prefix
 * that is undefined is the default one.
 */
export function resolveHeaders(
  headers: unknown,
  env_prefix: unknown,
  env: EnvVars,
): { readonly headers: ResolvedHeaders; readonly problems: readonly ConfigProblem[] } {
  const { prefix, problems: found } = checkPrefix(env_prefix);
  const problems = [...found];
  if (headers === undefined) return { headers: [], problems };
  if (!isObject(headers)) {
    problems.push({
      key: "webhooks.headers",
      code: "invalid_headers",
      message: "must be an object of header names and texts",
    });
    return { headers: [], problems };
  }
  const resolved: [string, string][] = [];
  const seen = new Set<string>();
  for (const [name, value] of Object.entries(headers as Readonly<Record<string, unknown>>)) {
    const key = `webhooks.headers.${TOKEN.test(name) ? name : JSON.stringify(name)}`;
    const repeated = seen.has(name.toLowerCase());
    seen.add(name.toLowerCase());
    const wrong = nameProblem(key, name, repeated);
    if (wrong) problems.push(wrong);
    const outcome = resolveValue(key, value, prefix, env);
    problems.push(...outcome.problems);
    if (!wrong && outcome.value !== null) resolved.push([name, outcome.value]);
  }
  return { headers: resolved, problems };
}

/** The prefix that variables must have; null when what was given is none. */
export function checkPrefix(env_prefix: unknown): {
  readonly prefix: string | null;
  readonly problems: readonly ConfigProblem[];
} {
  if (env_prefix === undefined) return { prefix: DEFAULT_ENV_PREFIX, problems: [] };
  if (typeof env_prefix === "string" && NAME.test(env_prefix)) return { prefix: env_prefix, problems: [] };
  const message = "must be the start of a variable name: letters, digits and _, no digit first";
  return { prefix: null, problems: [{ key: "webhooks.env_prefix", code: "invalid_prefix", message }] };
}

/**
 * The text with every `${{ env.NAME }}` replaced once, or everything that is wrong with it. Names must start with the prefix;
 * without a prefix, which is a problem of its own, no variable is read and the value is null.
 */
export function resolveTemplate(
  key: string,
  text: string,
  prefix: string | null,
  env: EnvVars,
): { readonly value: string | null; readonly problems: readonly ConfigProblem[] } {
  const problems: ConfigProblem[] = [];
  let readable = true;
  let value = "";
  let at = 0;
  for (let start = text.indexOf("${{"); start >= 0; start = text.indexOf("${{", at)) {
    TEMPLATE.lastIndex = start;
    const match = TEMPLATE.exec(text);
    if (!match) {
      const message = `has a template that is not \${{ env.NAME }}`;
      return { value: null, problems: [...problems, { key, code: "invalid_template", message }] };
    }
    const name = match[1] as string;
    value += text.slice(at, start);
    at = start + match[0].length;
    if (prefix === null) readable = false;
    else if (!name.startsWith(prefix)) {
      const message = `may not read the variable ${name}: its name does not start with ${prefix} (webhooks.env_prefix)`;
      problems.push({ key, code: "env_not_allowed", message });
    } else {
      const held = Object.hasOwn(env, name) ? env[name] : undefined;
      if (held) value += held;
      else problems.push({ key, code: "missing_env", message: `the variable ${name} is not set or empty` });
    }
  }
  return { value: readable && problems.length === 0 ? value + text.slice(at) : null, problems };
}

/** A template's text without white space at its ends. */
export const trimmed = (value: string): string => value.replace(EDGES, "");

function nameProblem(key: string, name: string, repeated: boolean): ConfigProblem | null {
  if (!TOKEN.test(name)) return { key, code: "invalid_header_name", message: "is no name of an HTTP header" };
  if (RESERVED.test(name)) return { key, code: "reserved_header", message: "is set by the service itself" };
  if (repeated) return { key, code: "duplicate_header", message: "is given twice; case does not count in names" };
  return null;
}

function resolveValue(
  key: string,
  value: unknown,
  prefix: string | null,
  env: EnvVars,
): { readonly value: string | null; readonly problems: readonly ConfigProblem[] } {
  if (typeof value !== "string") {
    return { value: null, problems: [{ key, code: "invalid_header_value", message: "must be a text" }] };
  }
  const outcome = resolveTemplate(key, value, prefix, env);
  if (outcome.value === null) return outcome;
  const sent = trimmed(outcome.value);
  if (VALUE.test(sent)) return { value: sent, problems: [] };
  const message = "must not contain line breaks, control characters or characters above U+00FF, templates filled in";
  return { value: null, problems: [{ key, code: "invalid_header_value", message }] };
}
