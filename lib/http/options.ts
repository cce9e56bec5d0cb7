/** The options of the HTTP side, and their schema. */
import { anything, flag, isWhole, oneOf, rule, type Section, section, text, texts, whole } from "../validation.ts";
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

const isToken = (text: string): boolean => /^[\w!#$%&'*+.^`|~-]+$/.test(text);
// Not by URL.origin, which is "null" for the schemes of browser extensions and apps.
const isOrigin = (text: string): boolean => /^(?:\*|null|[a-z][a-z0-9+.-]*:\/\/[^\s/?#*@,]+)$/i.test(text);

function isPattern(source: string): boolean {
  try {
    originPattern(source);
    return true;
  } catch {
    return false;
  }
}

const count = rule((value) => isWhole(value, 1, Number.MAX_SAFE_INTEGER), "must be a whole number above 0");
const methods = texts(isToken, "HTTP methods");
const headers = texts(isToken, "header names");
const patterns = texts(isToken, "header names, in which * stands for any characters");

/** The schema of the options. */
export const httpSchema: Section = section({
  // Validated with the webhooks.
  disable_webhooks: anything,
  ...Object.fromEntries(GROUP_OPTIONS.map((name) => [name, flag])),
  enable_custom_route_auth: flag,
  body_timeout_ms: whole(1, 2_147_483_647),
  max_body_bytes: count,
  max_body_values: count,
  middleware_order: oneOf(["middleware_first", "auth_first"]),
  cors: section({
    allow_origins: texts(isOrigin, "origins such as https://app.example, or *; for patterns see allow_origin_regex"),
    allow_origin_regex: text(isPattern, "is not a valid regular expression"),
    allow_methods: methods,
    allow_headers: headers,
    allow_credentials: flag,
    expose_headers: headers,
    max_age: whole(0, 31_536_000),
  }),
  configurable_headers: section({ includes: patterns, excludes: patterns }),
});
