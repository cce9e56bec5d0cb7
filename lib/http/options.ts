/** The options of the HTTP side, and their checks. */
import { type CorsOptions, originPattern } from "./cors.ts";
import { type DisabledGroups, GROUP_OPTIONS } from "./groups.ts";
import type { HeaderChoice } from "./parse/headers.ts";

/** The HTTP options of a service. */
export interface HttpOptions extends DisabledGroups {
  /** True: webhooks of runs are accepted unchecked and never sent. */
  readonly disable_webhooks?: boolean;
  readonly cors?: CorsOptions;
  /** Request headers that runs see in `config.configurable`. Credentials are never included. Default: `x-*` and `user-agent`. */
  readonly configurable_headers?: HeaderChoice;
  /**
   * How long a request's body may take to arrive before the request gets 408. Each KiB that has arrived adds a second. Default
   * 30000.
   */
  readonly body_timeout_ms?: number;
  /** True: the host's own routes need the authentication of the API. Default false: they check it themselves. */
  readonly enable_custom_route_auth?: boolean;
  /**
   * Larger bodies get 413. Other requests wait while a body is stored: on a file about 12 ms per MiB. Default 8,388,608 (8 MiB).
   */
  readonly max_body_bytes?: number;
  /**
   * Bodies with more values (members of objects and items of lists, at any depth) get 413, because reading them delays other
   * requests. Default 20,000.
   */
  readonly max_body_values?: number;
  /**
   * What runs first at the routes of the API: the middleware of the host's application (`middleware_first`, the default), or
   * authentication (`auth_first`).
   */
  readonly middleware_order?: "middleware_first" | "auth_first";
}

/** The problem with a value, as text; false when there is none. */
type Check = (value: unknown) => string | false;

const flag: Check = (value) => typeof value !== "boolean" && "must be true or false";
const listOf =
  (fits: (item: string) => boolean, what: string): Check =>
  (value) =>
    !(Array.isArray(value) && value.every((item) => typeof item === "string" && fits(item))) &&
    `must be a list of ${what}`;

const isToken = (text: string): boolean => /^[\w!#$%&'*+.^`|~-]+$/.test(text);
// Not by URL.origin, which is "null" for the schemes of browser extensions and apps.
const isOrigin = (text: string): boolean => /^(?:\*|null|[a-z][a-z0-9+.-]*:\/\/[^\s/?#*@,]+)$/i.test(text);

const pattern: Check = (value) => {
  if (typeof value !== "string") return "must be a regular expression, as a string";
  try {
    originPattern(value);
    return false;
  } catch {
    return "is not a valid regular expression";
  }
};

const count: Check = (value) =>
  !(Number.isSafeInteger(value) && (value as number) >= 1) && "must be a whole number above 0";

/** One check for each of the options. */
export const httpChecks: Readonly<Record<string, Check | Readonly<Record<string, Check>>>> = {
  // Checked with the webhooks.
  disable_webhooks: () => false,
  ...Object.fromEntries(GROUP_OPTIONS.map((name) => [name, flag])),
  enable_custom_route_auth: flag,
  body_timeout_ms: (value) =>
    !(Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 2_147_483_647) &&
    "must be a whole number of milliseconds from 1 to 2147483647",
  max_body_bytes: count,
  max_body_values: count,
  middleware_order: (value) =>
    !["middleware_first", "auth_first"].includes(value as string) && "must be one of middleware_first, auth_first",
  cors: {
    allow_origins: listOf(isOrigin, "origins such as https://app.example, or *; for patterns see allow_origin_regex"),
    allow_origin_regex: pattern,
    allow_methods: listOf(isToken, "HTTP methods"),
    allow_headers: listOf(isToken, "header names"),
    allow_credentials: flag,
    expose_headers: listOf(isToken, "header names"),
    max_age: (value) =>
      !(Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 31_536_000) &&
      "must be a whole number of seconds from 0 to 31536000",
  },
  configurable_headers: {
    includes: listOf(isToken, "header names, in which * stands for any characters"),
    excludes: listOf(isToken, "header names, in which * stands for any characters"),
  },
};
