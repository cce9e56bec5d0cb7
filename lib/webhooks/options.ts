/** The `webhooks` section of the options, proven as a whole when the service starts. */
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

/** Answers a request to the host application itself, in this process. */
export type Loopback = (request: Request) => Response | Promise<Response>;

/** How names are resolved and requests leave the process. */
export interface WebhookTransport {
  readonly resolve: Resolve;
  readonly send: Send;
}

/** How the ends of runs are told to their `webhook`. An option that is not listed here keeps the service from starting. */
export interface WebhookOptions {
  /**
   * Headers of every delivery. `${{ env.NAME }}` in a value stands for an environment variable, read when the service starts;
   * one that is not set keeps it from starting.
   */
  readonly headers?: Readonly<Record<string, string>>;
  /** Variables that templates may read start so. Default `SERVICE_WEBHOOK_`. */
  readonly env_prefix?: string;
  /** Which URLs runs may name. */
  readonly url?: WebhookUrlOptions;
  /**
   * `whsec_` and base64 of 24 to 64 bytes; templates are allowed. Deliveries are then signed as Standard Webhooks says; by
   * each one of a list, so that a secret can be replaced. Default: not signed.
   */
  readonly signing_secret?: string | readonly string[];
  readonly delivery?: {
    /** How long one attempt may take. Default 15,000. */
    readonly timeout_ms?: number;
    /**
     * The wait after each failure; after the last one the delivery has failed. Default 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and
     * 10 h.
     */
    readonly schedule_ms?: readonly number[];
    /** Requests under way at once in this process. Default 20. */
    readonly concurrency?: number;
  };
  /** Answers webhooks with a relative URL. Without it, runs with one are refused. */
  readonly loopback?: Loopback;
  /** Replaces name resolution and sending, for tests and for runtimes without `node:http`. */
  readonly transport?: WebhookTransport;
}

/** The options as they hold, templates filled in: never logged or shown. */
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

/** What is wrong with a value; none when it is undefined. */
type Check = (value: unknown, key: string) => readonly ConfigProblem[];

/**
 * The settings of a `webhooks` section and of `http.disable_webhooks`, or every problem found in them. Headers and secrets are
 * proven when webhooks are disabled, too. Settings are null when there is a problem.
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
  const given = (webhooks ?? {}) as Readonly<Record<string, unknown>>;
  const { headers, problems: wrong } = resolveHeaders(given.headers, given.env_prefix, env);
  const { secrets, problems: unusable } = proveSecrets(given.signing_secret, given.env_prefix, env);
  const problems = [...section(SECTIONS)(given, "webhooks"), ...wrong, ...unusable, ...disabled];
  if (problems.length > 0) return { settings: null, problems };
  const { url, delivery = {}, loopback, transport } = given as WebhookOptions;
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

/** Headers with text of the environment that any public host may be sent: a run names its webhook itself. */
export function exposedHeaders({ headers }: WebhookOptions, { policy }: WebhookSettings): readonly string[] {
  if (policy.disabled || policy.allowed_domains.length > 0) return [];
  return Object.entries(headers ?? {}).flatMap(([name, value]) => (value.includes("${{") ? [name] : []));
}

/** The bytes of a secret; null when the text is none. */
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

function proveSecrets(
  signing_secret: unknown,
  env_prefix: unknown,
  env: EnvVars,
): { readonly secrets: readonly Uint8Array[]; readonly problems: readonly ConfigProblem[] } {
  if (signing_secret === undefined) return { secrets: [], problems: [] };
  const { prefix } = checkPrefix(env_prefix);
  const list: readonly unknown[] = Array.isArray(signing_secret) ? signing_secret : [signing_secret];
  const secrets: Uint8Array[] = [];
  const problems: ConfigProblem[] = [];
  if (list.length === 0) problems.push(unusable("webhooks.signing_secret"));
  for (const [i, secret] of list.entries()) {
    const key = Array.isArray(signing_secret) ? `webhooks.signing_secret.${i}` : "webhooks.signing_secret";
    if (typeof secret !== "string") {
      problems.push(unusable(key));
      continue;
    }
    const outcome = resolveTemplate(key, secret, prefix, env);
    problems.push(...outcome.problems);
    if (outcome.value === null) continue;
    const bytes = secretBytes(trimmed(outcome.value));
    if (bytes) secrets.push(bytes);
    else problems.push(unusable(key));
  }
  return { secrets, problems };
}

const unusable = (key: string): ConfigProblem => ({
  key,
  code: "invalid_signing_secret",
  message: "must be whsec_ and base64 of 24 to 64 bytes, or a list of such secrets",
});

/** An object of known options. */
function section(checks: Readonly<Record<string, Check>>): Check {
  return (value, key) => {
    if (value === undefined) return [];
    if (!isObject(value)) return [{ key, code: invalid(key), message: "must be an object" }];
    return Object.entries(value).flatMap(([name, inner]) => {
      const at = `${key}.${name}`;
      const check = Object.hasOwn(checks, name) ? checks[name] : undefined;
      return check ? check(inner, at) : [{ key: at, code: "unknown_option", message: "is no option" }];
    });
  };
}

/** A value that holds or does not. */
function rule(holds: (value: unknown) => boolean, message: string): Check {
  return (value, key) => (value === undefined || holds(value) ? [] : [{ key, code: invalid(key), message }]);
}

/** The code of an option, from its name. */
const invalid = (key: string): string => `invalid_${key.split(".").at(-1)}`;

/** A list, each item of which holds. Problems name the item by its number. */
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
/** Proven elsewhere. */
const proven: Check = () => [];

const SECTIONS: Readonly<Record<string, Check>> = {
  headers: proven,
  env_prefix: proven,
  signing_secret: proven,
  url: section({
    allowed_domains: list(
      (entry) => typeof entry === "string" && normalisedDomain(entry) !== null,
      "must be a host, or *. and a host: without scheme, port, path or other stars",
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
    const wrong = section({ resolve: callable, send: callable })(value, key);
    if (wrong.length > 0 || value === undefined) return wrong;
    const { resolve, send } = value as Partial<WebhookTransport>;
    return resolve && send ? [] : [{ key, code: "invalid_transport", message: "must have resolve and send" }];
  },
};
