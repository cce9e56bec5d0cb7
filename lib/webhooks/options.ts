/** Validates the `webhooks` section of the options when the service starts, and resolves its headers and secrets. */
import * as v from "valibot";
import type { InputIssue } from "../errors.ts";
import { isObject } from "../json.ts";
import {
  anything,
  callable,
  findIssues,
  flag,
  integerBetween,
  isIntegerBetween,
  type Section,
  strictSection,
  stringMatching,
  UNKNOWN_OPTION,
  valueMatching,
  withDefaults,
} from "../validation.ts";
import {
  createUrlPolicy,
  MAX_URL_LENGTH,
  normalizeDomain,
  type WebhookPolicy,
  type WebhookUrlOptions,
} from "./policy.ts";
import type { ResolveHost, SendRequest } from "./system-transport.ts";

/** Handles a request to the host application in this process. */
export type Loopback = (request: Request) => Response | Promise<Response>;

/** Resolves host names and sends requests. */
export interface WebhookTransport {
  readonly resolve: ResolveHost;
  readonly send: SendRequest;
}

/** Settings of run-completion webhooks. With an unknown option, the service does not start. */
export interface WebhookOptions {
  /**
   * Headers of every delivery. `${{ env.NAME }}` in a value is replaced by an environment variable when the service starts. If the
   * variable is not set, the service does not start.
   */
  readonly headers?: Readonly<Record<string, string>>;
  /** Templates may read only variables with this prefix, or with one of these. Default `SERVICE_WEBHOOK_`. */
  readonly env_prefix?: string | readonly string[];
  /** Restricts the URLs of webhooks. */
  readonly url?: WebhookUrlOptions;
  /**
   * `whsec_` and base64 of 24 to 64 bytes; templates are allowed. Signs deliveries as Standard Webhooks defines; a list signs with
   * each secret, so that secrets can be rotated. Default: unsigned.
   */
  readonly signing_secret?: string | readonly string[];
  /** Attempts of deliveries. */
  readonly delivery?: {
    /** The timeout of one attempt. Default 15,000. */
    readonly timeout_ms?: number;
    /** The wait after each failed attempt; one more failure ends the delivery. Default 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 10 h. */
    readonly schedule_ms?: readonly number[];
    /** The maximum number of concurrent requests in this process. Default 20. */
    readonly concurrency?: number;
  };
  /** Handles webhooks with a relative URL. Without it, runs with such a webhook are refused. */
  readonly loopback?: Loopback;
  /** Replaces name resolution and sending, in tests and on runtimes without `node:http`. */
  readonly transport?: WebhookTransport;
}

/** The validated options with templates filled in. Contains secrets: never log it. */
export interface WebhookSettings {
  readonly policy: WebhookPolicy;
  readonly headers: ResolvedHeaders;
  readonly secrets: readonly Uint8Array[];
  readonly timeout_ms: number;
  readonly schedule_ms: readonly number[];
  readonly concurrency: number;
  readonly loopback: Loopback | null;
  readonly transport: WebhookTransport | null;
}

export const DELIVERY_DEFAULTS: {
  readonly timeout_ms: number;
  readonly schedule_ms: readonly number[];
  readonly concurrency: number;
} = {
  timeout_ms: 15_000,
  schedule_ms: [5_000, 300_000, 1_800_000, 7_200_000, 18_000_000, 36_000_000, 36_000_000],
  concurrency: 20,
};

const WEEK_MS = 7 * 86_400_000;
const MAX_RETRIES = 20;

/** The schema of the section `webhooks`. */
export const webhooksSchema: Section = strictSection({
  // Resolved by other functions, which report their problems.
  headers: anything,
  env_prefix: anything,
  signing_secret: anything,
  url: strictSection({
    allowed_domains: v.array(
      stringMatching(
        (entry) => normalizeDomain(entry) !== null,
        "must be a host or *.host, without scheme, port, path or other wildcards",
      ),
      "must be a list",
    ),
    require_https: flag,
    allowed_ports: v.array(integerBetween(1, 65_535), "must be a list"),
    disable_loopback: flag,
    max_url_length: integerBetween(1, MAX_URL_LENGTH),
    allow_private_network: flag,
  }),
  delivery: strictSection({
    timeout_ms: integerBetween(1, 600_000),
    schedule_ms: valueMatching(
      (list) =>
        Array.isArray(list) &&
        list.length <= MAX_RETRIES &&
        Array.from(list).every((wait) => isIntegerBetween(wait, 0, WEEK_MS)),
      `must be a list of at most ${MAX_RETRIES} whole numbers from 0 to ${WEEK_MS}`,
    ),
    concurrency: integerBetween(1, 1_000),
  }),
  loopback: callable,
  transport: strictSection({ resolve: callable, send: callable }, ["resolve", "send"]),
});
const SCHEMA = strictSection({ webhooks: webhooksSchema, http: strictSection({ disable_webhooks: flag }) });

/**
 * Returns the type of a finding: `unknown_option`, or one with the name of the option, in the singular for lists such as
 * `invalid_allowed_port`.
 */
function toIssueType({ loc, type }: InputIssue): string {
  const name = loc.findLast((part) => typeof part === "string");
  return type === UNKNOWN_OPTION ? type : `invalid_${name}`.replace(/^(invalid_allowed_.*)s$/, "$1");
}

/**
 * Validates a `webhooks` section and `http.disable_webhooks`. Headers and secrets are checked even if webhooks are disabled. Returns
 * every problem; settings are null if there is one.
 */
export function validateWebhooks(
  webhooks: unknown,
  disable_webhooks: unknown,
  env: EnvVars,
): { readonly settings: WebhookSettings | null; readonly problems: readonly InputIssue[] } {
  const issues = findIssues(SCHEMA, { webhooks, http: { disable_webhooks } });
  const problems = issues.map((issue) => ({ ...issue, type: toIssueType(issue) }));
  const report: Report = (loc, type, msg) => void problems.push({ loc, msg, type });
  const input = (isObject(webhooks) ? webhooks : {}) as WebhookOptions;
  const prefixes = readPrefixes(input.env_prefix, report);
  const headers = resolveHeaders(input.headers, prefixes, env, report);
  const secrets = resolveSecrets(input.signing_secret, prefixes, env, report);
  if (problems.length > 0) return { settings: null, problems };
  const { url, delivery, loopback = null, transport = null } = input;
  const policy = createUrlPolicy(url, disable_webhooks === true);
  return {
    settings: { policy, headers, secrets, ...withDefaults(DELIVERY_DEFAULTS, delivery), loopback, transport },
    problems,
  };
}

/**
 * Returns the names of headers with environment variables that any public host could receive, because runs choose the host
 * without `allowed_domains`. Returns none with `allowed_domains` or with webhooks disabled.
 */
export function findExposedHeaders({ headers }: WebhookOptions, { policy }: WebhookSettings): readonly string[] {
  if (policy.disabled || policy.allowed_domains.length > 0) return [];
  return Object.entries(headers ?? {}).flatMap(([name, value]) => (value.includes("${{") ? [name] : []));
}

/** Returns the bytes of a `whsec_` secret, or null for invalid text and fewer than 24 or more than 64 bytes. */
export function decodeSecret(secret: string): Uint8Array | null {
  const encoded = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret)?.[1];
  if (encoded === undefined) return null;
  try {
    const bytes = Uint8Array.from(atob(encoded), (char) => char.charCodeAt(0));
    return bytes.length >= 24 && bytes.length <= 64 ? bytes : null;
  } catch {
    return null;
  }
}

/**
 * Returns the bytes of the secrets, with templates filled in; none without the option. Reports invalid secrets and an empty
 * list, and leaves them out.
 */
function resolveSecrets(input: unknown, prefixes: Prefixes, env: EnvVars, report: Report): readonly Uint8Array[] {
  if (input === undefined) return [];
  const location = ["webhooks", "signing_secret"];
  /** Reports the problem and returns no secrets. */
  const invalid = (loc: InputIssue["loc"]): [] => {
    report(loc, "invalid_signing_secret", "must be whsec_ and base64 of 24 to 64 bytes, or a list of such secrets");
    return [];
  };
  const list: readonly unknown[] = Array.isArray(input) ? Array.from(input) : [input];
  if (list.length === 0) return invalid(location);
  return list.flatMap((secret, i) => {
    const loc = Array.isArray(input) ? [...location, i] : location;
    if (typeof secret !== "string") return invalid(loc);
    const text = resolveTemplate(loc, secret, { prefixes, env, report });
    return text === null ? [] : (decodeSecret(trimEdges(text)) ?? invalid(loc));
  });
}

/** Adds a problem of the configuration. `msg` never contains the value of an environment variable. */
type Report = (loc: InputIssue["loc"], type: string, msg: string) => void;

/** Environment variables by name. */
type EnvVars = Readonly<Record<string, string | undefined>>;

/** The variables that a template may read, and the function that reports its problems. */
interface Variables {
  readonly prefixes: Prefixes;
  readonly env: EnvVars;
  readonly report: Report;
}

/** The headers to send, in the order of the configuration. */
export type ResolvedHeaders = readonly (readonly [name: string, value: string])[];

const DEFAULT_ENV_PREFIX = "SERVICE_WEBHOOK_";

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

/**
 * Returns names and values of the headers, with templates filled in. Reports invalid and repeated headers, and leaves them out.
 */
export function resolveHeaders(headers: unknown, prefixes: Prefixes, env: EnvVars, report: Report): ResolvedHeaders {
  if (headers === undefined) return [];
  if (!isObject(headers)) {
    report(HEADERS, "invalid_headers", "must be an object of header names and strings");
    return [];
  }
  const names = new Set<string>();
  return Object.entries(headers).flatMap(([name, headerValue]): [string, string][] => {
    const loc = [...HEADERS, TOKEN.test(name) ? name : JSON.stringify(name)];
    const isRepeated = names.has(name.toLowerCase());
    names.add(name.toLowerCase());
    const isUsable = isUsableName(loc, name, isRepeated, report);
    const value = resolveValue(loc, headerValue, { prefixes, env, report });
    return isUsable && value !== null ? [[name, value]] : [];
  });
}

/** The prefixes of readable variables; null when one is invalid. */
type Prefixes = readonly string[] | null;

const isPrefix = (value: unknown): value is string => typeof value === "string" && NAME.test(value);

/**
 * Returns the prefixes of variables that templates may read: a default if the option is undefined. Returns null, and reports a
 * problem, if one of them is invalid or the list is empty.
 */
export function readPrefixes(env_prefix: unknown, report: Report): Prefixes {
  if (env_prefix === undefined) return [DEFAULT_ENV_PREFIX];
  const prefixes: readonly unknown[] = Array.isArray(env_prefix) ? env_prefix : [env_prefix];
  if (prefixes.length > 0 && prefixes.every(isPrefix)) return prefixes;
  const msg = "must be the start of a variable name: letters, digits and _, no digit first";
  report(["webhooks", "env_prefix"], "invalid_prefix", msg);
  return null;
}

/**
 * Replaces every `${{ env.NAME }}` of the text; templates in the values of variables stay. Reports a malformed template and a
 * variable that cannot be read, and returns null. With null for the prefixes it returns null for any template, without a
 * report.
 */
function resolveTemplate(loc: InputIssue["loc"], text: string, variables: Variables): string | null {
  const { report } = variables;
  let readable = true;
  let value = "";
  let position = 0;
  for (let start = text.indexOf("${{"); start >= 0; start = text.indexOf("${{", position)) {
    TEMPLATE.lastIndex = start;
    const match = TEMPLATE.exec(text);
    if (!match) {
      report(loc, "invalid_template", `has a template that is not \${{ env.NAME }}`);
      return null;
    }
    const name = match[1] as string;
    value += text.slice(position, start);
    position = start + match[0].length;
    const variable = readVariable(loc, name, variables);
    if (variable === null) readable = false;
    else value += variable;
  }
  return readable ? value + text.slice(position) : null;
}

/**
 * Returns the value of a variable. Reports one that is not set, is empty or has no allowed prefix, and returns null. With null
 * for the prefixes it returns null without a report.
 */
function readVariable(loc: InputIssue["loc"], name: string, { prefixes, env, report }: Variables): string | null {
  if (prefixes === null) return null;
  if (!prefixes.some((prefix) => name.startsWith(prefix))) {
    const msg = `may not read the variable ${name}: its name does not start with ${prefixes.join(" or ")} (webhooks.env_prefix)`;
    report(loc, "env_not_allowed", msg);
    return null;
  }
  const value = Object.hasOwn(env, name) ? env[name] : undefined;
  if (value) return value;
  report(loc, "missing_env", `needs the variable ${name}, which is not set or empty`);
  return null;
}

/** Strips the white space that `fetch` would strip. */
const trimEdges = (value: string): string => value.replace(EDGES, "");

/** Returns true for a valid header name. Reports one that is invalid, reserved or repeated, and returns false. */
function isUsableName(loc: InputIssue["loc"], name: string, isRepeated: boolean, report: Report): boolean {
  if (!TOKEN.test(name)) report(loc, "invalid_header_name", "is not a valid HTTP header name");
  else if (RESERVED.test(name)) report(loc, "reserved_header", "is set by the service: remove it");
  else if (isRepeated) report(loc, "duplicate_header", "is a duplicate; names ignore case");
  else return true;
  return false;
}

/** Returns the value of a header with its templates filled in and trimmed, or null after reporting a problem. */
function resolveValue(loc: InputIssue["loc"], value: unknown, variables: Variables): string | null {
  /** Reports the problem and returns null. */
  const invalid = (msg: string): null => {
    variables.report(loc, "invalid_header_value", msg);
    return null;
  };
  if (typeof value !== "string") return invalid("must be a string");
  const resolved = resolveTemplate(loc, value, variables);
  if (resolved === null) return null;
  const trimmedValue = trimEdges(resolved);
  if (VALUE.test(trimmedValue)) return trimmedValue;
  return invalid("must not resolve to line breaks, control characters or characters above U+00FF");
}
