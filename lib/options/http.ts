/** The HTTP options of a service, and their schema. */
import {
  anything,
  flag,
  integerBetween,
  isIntegerBetween,
  listOfStrings,
  type Section,
  strictSection,
  stringEnum,
  stringMatching,
  valueMatching,
} from "../validation.ts";

export const ROUTE_GROUPS = [
  "crons",
  "runs",
  "threads",
  "assistants",
  "store",
  "meta",
  "ui",
  "mcp",
  "ai",
  "ag_ui",
  "a2a",
  "operations",
] as const;

/** A group of routes that a host may disable. */
export type RouteGroup = (typeof ROUTE_GROUPS)[number];

/** The options that disable groups, as `disable_threads`. */
export type DisabledGroups = { readonly [Group in RouteGroup as `disable_${Group}`]?: boolean };

/** All of these options. */
export const GROUP_OPTIONS: readonly `disable_${RouteGroup}`[] = ROUTE_GROUPS.map(
  (group) => `disable_${group}` as const,
);

/** The groups that these options disable. */
export const findDisabledGroups = (options: DisabledGroups): ReadonlySet<string> =>
  new Set(ROUTE_GROUPS.filter((group) => options[`disable_${group}`] === true));

/** The request headers that runs see: names and patterns with `*`, case-insensitive. */
export interface HeaderChoice {
  /** Headers to copy. Default: `x-*` and `user-agent`. */
  readonly includes?: readonly string[];
  /** Headers to leave out of these. */
  readonly excludes?: readonly string[];
}

/** The web pages that may call the API, and what they may send and read. */
export interface CorsOptions {
  /** Origins that browsers may call from; `*` for any. Default `["*"]`; none beside `allow_origin_regex`. */
  readonly allow_origins?: readonly string[];
  /** A regular expression for more origins. It must match the whole origin. */
  readonly allow_origin_regex?: string;
  /** Default, and `*`: all methods of the server. */
  readonly allow_methods?: readonly string[];
  /** Default, and `*`: every header that a page requests. */
  readonly allow_headers?: readonly string[];
  /** True to let pages send cookies and other credentials. Default false. */
  readonly allow_credentials?: boolean;
  /** Additional response headers that pages may read. Those that clients of this API need are always included. */
  readonly expose_headers?: readonly string[];
  /** The time in seconds for which browsers cache the response to a preflight request. Default 600. */
  readonly max_age?: number;
}

/** The agents as tools of an MCP server, at `/mcp`. */
export interface McpOptions {
  /** The time that a client which polls tasks waits for the result of a call before it gets a task. Default 500. */
  readonly task_after_ms?: number;
  /** False: tools do not show the arguments `thread_id` and `resume`. Both are accepted as if they did. Default true. */
  readonly resume_arguments?: boolean;
  /** The largest number of messages in a batch. Default 50. */
  readonly max_batch?: number;
  /**
   * The metadata of RFC 9728, which names the authorization servers, served at `/.well-known/oauth-protected-resource`. Default:
   * none.
   */
  readonly protected_resource?: {
    /** The URL of the endpoint. */
    readonly resource: string;
    /** The URLs of the authorization servers. */
    readonly authorization_servers: readonly string[];
    /** The scopes that clients may request. */
    readonly scopes_supported?: readonly string[];
  };
}

/** Limits of request and response bodies above 1 MiB, which share a byte budget of the server. */
export interface LargeBodyOptions {
  /** The bytes that all of them may hold at the same time. Others wait. Default 67,108,864 (64 MiB). */
  readonly budget_bytes?: number;
  /** The part of the budget that one credential may hold; without authentication, one address. Above 0, at most 1. Default 0.25. */
  readonly caller_share?: number;
  /** The time that a request waits for the budget, before it gets 503. Default 10000. */
  readonly wait_ms?: number;
  /** A reader that takes no byte of a large response for so long is disconnected. Default 15000. */
  readonly stalled_ms?: number;
}

/** The HTTP options of a service. */
export interface HttpOptions extends DisabledGroups {
  /** True: webhooks of runs are accepted unchecked and never sent. */
  readonly disable_webhooks?: boolean;
  /** The web pages that may call the API. */
  readonly cors?: CorsOptions;
  /** The endpoint for the AI SDK. */
  readonly ai?: {
    /** The time after its end in which a run is streamed again to a page that reconnects. Default 300000. */
    readonly replay_ms?: number;
    /** The output of agents that run as tools: only their result, or also their messages before it. Default `hidden`. */
    readonly subagents?: "hidden" | "preliminary";
  };
  /** The endpoint for AG-UI. */
  readonly ag_ui?: {
    /** The effect of a client disconnect on its run. Default `cancel`: clients stop a run in no other way. */
    readonly on_disconnect?: "cancel" | "continue";
    /** `read`: the state that clients send is ignored. Default `write`. */
    readonly state?: "read" | "write";
    /** True: clients before 1.0 get interrupts as `CUSTOM` `on_interrupt`, too. Default false. */
    readonly legacy_interrupts?: boolean;
  };
  /** Request headers that runs see in `config.configurable`. Credentials are never included. Default: `x-*` and `user-agent`. */
  readonly configurable_headers?: HeaderChoice;
  /**
   * The time that a request body may take to arrive before the request gets 408. Each KiB that has arrived adds a second. Default
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
  /** The memory that large requests and responses may use. */
  readonly large_bodies?: LargeBodyOptions;
  /**
   * The order at the routes of the API: first the middleware of the host's application (`middleware_first`, the default), or first
   * authentication (`auth_first`).
   */
  readonly middleware_order?: "middleware_first" | "auth_first";
  /** The agents as tools of an MCP server. */
  readonly mcp?: McpOptions;
}

/**
 * Returns `allow_origin_regex` as an expression that matches whole origins. Throws a SyntaxError for a text that is no
 * expression.
 */
export const createOriginPattern = (source: string): RegExp => {
  // Compiled alone first, so that the source cannot close the group around it.
  new RegExp(source);
  return new RegExp(`^(?:${source})$`);
};

const isToken = (text: string): boolean => /^[\w!#$%&'*+.^`|~-]+$/.test(text);
// Not by URL.origin, which is "null" for the schemes of browser extensions and apps.
const isOrigin = (text: string): boolean => /^(?:\*|null|[a-z][a-z0-9+.-]*:\/\/[^\s/?#*@,]+)$/i.test(text);

function isPattern(source: string): boolean {
  try {
    createOriginPattern(source);
    return true;
  } catch {
    return false;
  }
}

const isUrlList = (list: unknown): boolean =>
  Array.isArray(list) && list.length > 0 && list.every((url) => typeof url === "string" && URL.canParse(url));
const count = valueMatching(
  (value) => isIntegerBetween(value, 1, Number.MAX_SAFE_INTEGER),
  "must be a whole number above 0",
);
const MIN_BUDGET_BYTES = 1024 * 1024;
const methods = listOfStrings(isToken, "HTTP methods");
const headers = listOfStrings(isToken, "header names");
const patterns = listOfStrings(isToken, "header names, in which * stands for any characters");

/** The schema of the options. */
export const httpSchema: Section = strictSection({
  // Validated with the webhooks.
  disable_webhooks: anything,
  ...Object.fromEntries(GROUP_OPTIONS.map((name) => [name, flag])),
  enable_custom_route_auth: flag,
  body_timeout_ms: integerBetween(1, 2_147_483_647),
  max_body_bytes: count,
  max_body_values: count,
  large_bodies: strictSection({
    budget_bytes: valueMatching(
      (value) => isIntegerBetween(value, MIN_BUDGET_BYTES, Number.MAX_SAFE_INTEGER),
      `must be a whole number, at least ${MIN_BUDGET_BYTES}`,
    ),
    caller_share: valueMatching(
      (value) => typeof value === "number" && value > 0 && value <= 1,
      "must be a number above 0, at most 1",
    ),
    wait_ms: integerBetween(0, 2_147_483_647),
    stalled_ms: integerBetween(1, 2_147_483_647),
  }),
  middleware_order: stringEnum(["middleware_first", "auth_first"]),
  ag_ui: strictSection({
    on_disconnect: stringEnum(["cancel", "continue"]),
    state: stringEnum(["read", "write"]),
    legacy_interrupts: flag,
  }),
  ai: strictSection({ replay_ms: integerBetween(0, 2_147_483_647), subagents: stringEnum(["hidden", "preliminary"]) }),
  cors: strictSection({
    allow_origins: listOfStrings(
      isOrigin,
      "origins such as https://app.example, or *; for patterns see allow_origin_regex",
    ),
    allow_origin_regex: stringMatching(isPattern, "is not a valid regular expression"),
    allow_methods: methods,
    allow_headers: headers,
    allow_credentials: flag,
    expose_headers: headers,
    max_age: integerBetween(0, 31_536_000),
  }),
  configurable_headers: strictSection({ includes: patterns, excludes: patterns }),
  mcp: strictSection({
    task_after_ms: integerBetween(0, 2_147_483_647),
    resume_arguments: flag,
    max_batch: count,
    protected_resource: strictSection(
      {
        resource: stringMatching((url) => URL.canParse(url), "must be a URL"),
        authorization_servers: valueMatching(isUrlList, "must be a list of at least one URL"),
        scopes_supported: listOfStrings((scope) => scope !== "", "scopes"),
      },
      ["resource", "authorization_servers"],
    ),
  }),
});
