/** Validates the `webhooks` section of the options when the service starts. */
import * as v from "valibot";
import type { InputIssue } from "../errors.ts";
import { isObject } from "../json.ts";
import {
  anything,
  callable,
  findings,
  flag,
  isWhole,
  rule,
  section,
  text,
  UNKNOWN,
  whole,
  withDefaults,
} from "../validation.ts";
import {
  type EnvVars,
  type Report,
  type ResolvedHeaders,
  readPrefix,
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

const WEBHOOKS = section({
  // Resolved by other functions, which report their problems.
  headers: anything,
  env_prefix: anything,
  signing_secret: anything,
  url: section({
    allowed_domains: v.array(
      text(
        (entry) => normalisedDomain(entry) !== null,
        "must be a host or *.host, without scheme, port, path or other wildcards",
      ),
      "must be a list",
    ),
    require_https: flag,
    allowed_ports: v.array(whole(1, 65_535), "must be a list"),
    disable_loopback: flag,
    max_url_length: whole(1, MAX_URL_LENGTH),
    allow_private_network: flag,
  }),
  delivery: section({
    timeout_ms: whole(1, 600_000),
    schedule_ms: rule(
      (list) =>
        Array.isArray(list) && list.length <= MAX_WAITS && Array.from(list).every((wait) => isWhole(wait, 0, WEEK_MS)),
      `must be a list of at most ${MAX_WAITS} whole numbers from 0 to ${WEEK_MS}`,
    ),
    concurrency: whole(1, 1_000),
  }),
  loopback: callable,
  transport: section({ resolve: callable, send: callable }, ["resolve", "send"]),
});
const SCHEMA = section({ webhooks: WEBHOOKS, http: section({ disable_webhooks: flag }) });

/** The type of a finding: unknown_option, or made from the name of the option, such as invalid_allowed_port. */
function typeOf({ loc, type }: InputIssue): string {
  const name = loc.findLast((part) => typeof part === "string");
  return type === UNKNOWN ? type : `invalid_${name}`.replace(/^(invalid_allowed_.*)s$/, "$1");
}

/**
 * Validates a `webhooks` section and `http.disable_webhooks`. Headers and secrets are checked even if webhooks are disabled. Returns
 * every problem; settings are null if there is one.
 */
export function checkWebhooks(
  webhooks: unknown,
  disable_webhooks: unknown,
  env: EnvVars,
): { readonly settings: WebhookSettings | null; readonly problems: readonly InputIssue[] } {
  const found = findings(SCHEMA, { webhooks, http: { disable_webhooks } });
  const problems = found.map((issue) => ({ ...issue, type: typeOf(issue) }));
  const report: Report = (loc, type, msg) => void problems.push({ loc, msg, type });
  const input = (isObject(webhooks) ? webhooks : {}) as WebhookOptions;
  const prefix = readPrefix(input.env_prefix, report);
  const headers = resolveHeaders(input.headers, prefix, env, report);
  const secrets = resolveSecrets(input.signing_secret, prefix, env, report);
  if (problems.length > 0) return { settings: null, problems };
  const { url, delivery, loopback = null, transport = null } = input;
  const policy = policyOf(url, disable_webhooks === true);
  return {
    settings: { policy, headers, secrets, ...withDefaults(DELIVERY_DEFAULTS, delivery), loopback, transport },
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

function resolveSecrets(sent: unknown, prefix: string | null, env: EnvVars, report: Report): readonly Uint8Array[] {
  if (sent === undefined) return [];
  const place = ["webhooks", "signing_secret"];
  const invalid = (loc: InputIssue["loc"]): [] => {
    report(loc, "invalid_signing_secret", "must be whsec_ and base64 of 24 to 64 bytes, or a list of such secrets");
    return [];
  };
  const list: readonly unknown[] = Array.isArray(sent) ? Array.from(sent) : [sent];
  if (list.length === 0) return invalid(place);
  return list.flatMap((secret, i) => {
    const loc = Array.isArray(sent) ? [...place, i] : place;
    if (typeof secret !== "string") return invalid(loc);
    const text = resolveTemplate(loc, secret, prefix, env, report);
    return text === null ? [] : (secretBytes(trimmed(text)) ?? invalid(loc));
  });
}
