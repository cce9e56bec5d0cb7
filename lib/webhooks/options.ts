/** Validates the `webhooks` section of the options when the service starts. */
import { isObject } from "../json.ts";
import {
  type ConfigProblem,
  checkPrefix,
  type EnvVars,
  type ResolvedHeaders,
  resolveHeaders,
  resolveTemplate,
  trimmed,
} from "./headers.ts";
import { MAX_URL_LENGTH, normalisedDomain, policyOf, type WebhookPolicy, type WebhookUrlOptions } from "./policy.ts";
import type { Resolve, Send } from "./send.ts";

/** Handles a request to the host application in this process. */
export type Loopback = (request: Request) => Response | Promise<Response>;

/** Resolves host names and sends requests. */
export interface WebhookTransport {
  readonly resolve: Resolve;
  readonly send: Send;
}

/** Settings of run-completion webhooks. With an unknown option, the service does not start. */
export interface WebhookOptions {
  /**
   * Headers of every delivery. `${{ env.NAME }}` in a value is replaced by an environment variable when the service starts. If the
   * variable is not set, the service does not start.
   */
  readonly headers?: Readonly<Record<string, string>>;
  /** The prefix of variables that templates may read. Default `SERVICE_WEBHOOK_`. */
  readonly env_prefix?: string;
  /** Restricts the URLs of webhooks. */
  readonly url?: WebhookUrlOptions;
  /**
   * `whsec_` and base64 of 24 to 64 bytes; templates are allowed. Signs deliveries as Standard Webhooks defines; a list signs with
   * each secret, so that secrets can be rotated. Default: unsigned.
   */
  readonly signing_secret?: string | readonly string[];
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
const MAX_WAITS = 20;

/** Returns the problems of a value; none for undefined. */
type Check = (value: unknown, key: string) => readonly ConfigProblem[];

/**
 * Validates a `webhooks` section and `http.disable_webhooks`. Headers and secrets are checked even if webhooks are disabled. Returns
 * every problem; settings are null if there is one.
 */
export function checkWebhooks(
  webhooks: unknown,
  disable_webhooks: unknown,
  env: EnvVars,
): { readonly settings: WebhookSettings | null; readonly problems: readonly ConfigProblem[] } {
  const disabled = flag(disable_webhooks, "http.disable_webhooks");
  if (webhooks !== undefined && !isObject(webhooks)) {
    const problem = { key: "webhooks", code: "invalid_webhooks", message: "must be an object" };
    return { settings: null, problems: [problem, ...disabled] };
  }
  const input = (webhooks ?? {}) as Readonly<Record<string, unknown>>;
  const { headers, problems: ofHeaders } = resolveHeaders(input.headers, input.env_prefix, env);
  const { secrets, problems: ofSecrets } = checkSecrets(input.signing_secret, input.env_prefix, env);
  const problems = [...section(SECTIONS)(input, "webhooks"), ...ofHeaders, ...ofSecrets, ...disabled];
  if (problems.length > 0) return { settings: null, problems };
  const { url, delivery = {}, loopback, transport } = input as WebhookOptions;
  return {
    settings: {
      policy: policyOf(url, disable_webhooks === true),
      headers,
      secrets,
      timeout_ms: delivery.timeout_ms ?? DELIVERY_DEFAULTS.timeout_ms,
      schedule_ms: delivery.schedule_ms ?? DELIVERY_DEFAULTS.schedule_ms,
      concurrency: delivery.concurrency ?? DELIVERY_DEFAULTS.concurrency,
      loopback: loopback ?? null,
      transport: transport ?? null,
    },
    problems,
  };
}

/** Headers with environment variables that any public host could receive: without `allowed_domains`, runs choose the host. */
export function exposedHeaders({ headers }: WebhookOptions, { policy }: WebhookSettings): readonly string[] {
  if (policy.disabled || policy.allowed_domains.length > 0) return [];
  return Object.entries(headers ?? {}).flatMap(([name, value]) => (value.includes("${{") ? [name] : []));
}

/** The bytes of a `whsec_` secret; null for invalid text. */
export function secretBytes(secret: string): Uint8Array | null {
  const encoded = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret)?.[1];
  if (encoded === undefined) return null;
  try {
    const bytes = Uint8Array.from(atob(encoded), (char) => char.charCodeAt(0));
    return bytes.length >= 24 && bytes.length <= 64 ? bytes : null;
  } catch {
    return null;
  }
}

function checkSecrets(
  signing_secret: unknown,
  env_prefix: unknown,
  env: EnvVars,
): { readonly secrets: readonly Uint8Array[]; readonly problems: readonly ConfigProblem[] } {
  if (signing_secret === undefined) return { secrets: [], problems: [] };
  const { prefix } = checkPrefix(env_prefix);
  const list: readonly unknown[] = Array.isArray(signing_secret) ? signing_secret : [signing_secret];
  const secrets: Uint8Array[] = [];
  const problems: ConfigProblem[] = [];
  if (list.length === 0) problems.push(invalidSecret("webhooks.signing_secret"));
  for (const [i, secret] of list.entries()) {
    const key = Array.isArray(signing_secret) ? `webhooks.signing_secret.${i}` : "webhooks.signing_secret";
    if (typeof secret !== "string") {
      problems.push(invalidSecret(key));
      continue;
    }
    const outcome = resolveTemplate(key, secret, prefix, env);
    problems.push(...outcome.problems);
    if (outcome.value === null) continue;
    const bytes = secretBytes(trimmed(outcome.value));
    if (bytes) secrets.push(bytes);
    else problems.push(invalidSecret(key));
  }
  return { secrets, problems };
}

const invalidSecret = (key: string): ConfigProblem => ({
  key,
  code: "invalid_signing_secret",
  message: "must be whsec_ and base64 of 24 to 64 bytes, or a list of such secrets",
});

/** Checks an object of known options. */
function section(checks: Readonly<Record<string, Check>>): Check {
  return (value, key) => {
    if (value === undefined) return [];
    if (!isObject(value)) return [{ key, code: invalid(key), message: "must be an object" }];
    return Object.entries(value).flatMap(([name, inner]) => {
      const at = `${key}.${name}`;
      const check = Object.hasOwn(checks, name) ? checks[name] : undefined;
      return check ? check(inner, at) : [{ key: at, code: "unknown_option", message: "is an unknown option" }];
    });
  };
}

/** Checks a value by a predicate. */
function rule(holds: (value: unknown) => boolean, message: string): Check {
  return (value, key) => (value === undefined || holds(value) ? [] : [{ key, code: invalid(key), message }]);
}

/** The problem code of an option, made from its name. */
const invalid = (key: string): string => `invalid_${key.split(".").at(-1)}`;

/** Checks each item of a list. Problems name the index of the item. */
function list(holds: (item: unknown) => boolean, message: string, code: string): Check {
  return (value, key) => {
    if (value === undefined) return [];
    if (!Array.isArray(value)) return [{ key, code, message: "must be a list" }];
    return Array.from(value).flatMap((item, i) => (holds(item) ? [] : [{ key: `${key}.${i}`, code, message }]));
  };
}

const whole =
  (min: number, max: number) =>
  (value: unknown): boolean =>
    Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
const count = (min: number, max: number): Check =>
  rule(whole(min, max), `must be a whole number from ${min} to ${max}`);
const flag: Check = rule((value) => typeof value === "boolean", "must be true or false");
const callable: Check = rule((value) => typeof value === "function", "must be a function");
/** For options that `checkWebhooks` validates by other functions. */
const unchecked: Check = () => [];

const SECTIONS: Readonly<Record<string, Check>> = {
  headers: unchecked,
  env_prefix: unchecked,
  signing_secret: unchecked,
  url: section({
    allowed_domains: list(
      (entry) => typeof entry === "string" && normalisedDomain(entry) !== null,
      "must be a host or *.host, without scheme, port, path or other wildcards",
      "invalid_allowed_domain",
    ),
    require_https: flag,
    allowed_ports: list(whole(1, 65_535), "must be a whole number from 1 to 65535", "invalid_allowed_port"),
    disable_loopback: flag,
    max_url_length: count(1, MAX_URL_LENGTH),
    allow_private_network: flag,
  }),
  delivery: section({
    timeout_ms: count(1, 600_000),
    schedule_ms: rule(
      (value) => Array.isArray(value) && value.length <= MAX_WAITS && Array.from(value).every(whole(0, WEEK_MS)),
      `must be a list of at most ${MAX_WAITS} whole numbers from 0 to ${WEEK_MS}`,
    ),
    concurrency: count(1, 1_000),
  }),
  loopback: callable,
  transport: (value, key) => {
    const problems = section({ resolve: callable, send: callable })(value, key);
    if (problems.length > 0 || value === undefined) return problems;
    const { resolve, send } = value as Partial<WebhookTransport>;
    return resolve && send
      ? []
      : [{ key, code: "invalid_transport", message: "must have the functions resolve and send" }];
  },
};
