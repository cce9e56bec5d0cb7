/** Resolves static webhook headers and secrets, whose values can contain environment variables. */
import { isObject } from "../json.ts";

/** A problem of the configuration. `message` never contains the value of an environment variable. */
export interface ConfigProblem {
  /** The option, such as `webhooks.headers.X-Token`. */
  readonly key: string;
  /** The kind of problem, such as `missing_env`. */
  readonly code: string;
  readonly message: string;
}

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

/** Fills in the templates of the headers. Leaves out invalid headers and returns every problem. Default prefix: `DEFAULT_ENV_PREFIX`. */
export function resolveHeaders(
  headers: unknown,
  env_prefix: unknown,
  env: EnvVars,
): { readonly headers: ResolvedHeaders; readonly problems: readonly ConfigProblem[] } {
  const { prefix, problems: prefixProblems } = checkPrefix(env_prefix);
  const problems = [...prefixProblems];
  if (headers === undefined) return { headers: [], problems };
  if (!isObject(headers)) {
    problems.push({
      key: "webhooks.headers",
      code: "invalid_headers",
      message: "must be an object of header names and strings",
    });
    return { headers: [], problems };
  }
  const resolved: [string, string][] = [];
  const names = new Set<string>();
  for (const [name, value] of Object.entries(headers as Readonly<Record<string, unknown>>)) {
    const key = `webhooks.headers.${TOKEN.test(name) ? name : JSON.stringify(name)}`;
    const repeated = names.has(name.toLowerCase());
    names.add(name.toLowerCase());
    const problem = nameProblem(key, name, repeated);
    if (problem) problems.push(problem);
    const outcome = resolveValue(key, value, prefix, env);
    problems.push(...outcome.problems);
    if (!problem && outcome.value !== null) resolved.push([name, outcome.value]);
  }
  return { headers: resolved, problems };
}

/** Checks the prefix of readable variables; null when it is invalid. */
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
 * Replaces every `${{ env.NAME }}` of the text, once, or returns every problem. Names must start with the prefix. With prefix null,
 * whose problem `checkPrefix` reports, no variable is read and the value is null.
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
      const variable = Object.hasOwn(env, name) ? env[name] : undefined;
      if (variable) value += variable;
      else
        problems.push({ key, code: "missing_env", message: `needs the variable ${name}, which is not set or empty` });
    }
  }
  return { value: readable && problems.length === 0 ? value + text.slice(at) : null, problems };
}

/** Strips the white space that `fetch` would strip. */
export const trimmed = (value: string): string => value.replace(EDGES, "");

function nameProblem(key: string, name: string, repeated: boolean): ConfigProblem | null {
  if (!TOKEN.test(name)) return { key, code: "invalid_header_name", message: "is not a valid HTTP header name" };
  if (RESERVED.test(name)) return { key, code: "reserved_header", message: "is set by the service: remove it" };
  if (repeated) return { key, code: "duplicate_header", message: "is a duplicate; names ignore case" };
  return null;
}

function resolveValue(
  key: string,
  value: unknown,
  prefix: string | null,
  env: EnvVars,
): { readonly value: string | null; readonly problems: readonly ConfigProblem[] } {
  if (typeof value !== "string") {
    return { value: null, problems: [{ key, code: "invalid_header_value", message: "must be a string" }] };
  }
  const outcome = resolveTemplate(key, value, prefix, env);
  if (outcome.value === null) return outcome;
  const sent = trimmed(outcome.value);
  if (VALUE.test(sent)) return { value: sent, problems: [] };
  const message = "must not resolve to line breaks, control characters or characters above U+00FF";
  return { value: null, problems: [{ key, code: "invalid_header_value", message }] };
}
