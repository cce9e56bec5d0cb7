/** The options of one handler, and their schema. */
import type { AuthUser } from "../auth/custom.ts";
import {
  callable,
  flag,
  listOfStrings,
  type Schema,
  type Section,
  strictSection,
  stringMatching,
  valueMatching,
} from "../validation.ts";
import type { App } from "./host-app.ts";

/** An OpenAPI document of the routes that a handler serves. */
export interface OpenApi {
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly servers: readonly { readonly url: string }[];
  /** Operations by path and method. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** The sections of the document, in their order. */
  readonly tags?: readonly { readonly name: string; readonly description?: string }[];
  /** The parts that operations name. Errors with the same codes share a response, and each code has one example. */
  readonly components: {
    readonly schemas: Readonly<Record<string, unknown>>;
    readonly responses?: Readonly<Record<string, unknown>>;
    readonly examples?: Readonly<Record<string, unknown>>;
  };
}

/** Responds to requests for a page and its assets. `path` is the path below the mount: `/`, `/studio` or `/studio/…`. */
export type Studio = (request: Request, path: string) => Response | Promise<Response>;

/** The options with which a handler serves a service. */
export interface HandlerOptions {
  /** The path under which the handler is mounted, such as `/agents`. Other paths get 404. Default: the root. */
  readonly prefix?: string;
  /**
   * The host names (or name:port) to answer; others get 421. Web pages may call only from loopback origins, from these hosts and
   * from `http.cors.allow_origins`. Set it for servers without authentication, which any web page could reach otherwise.
   */
  readonly hosts?: readonly string[];
  /**
   * `/metrics` needs no key for requests to a loopback name (`localhost`, `127.0.0.1`, `[::1]`) that no proxy forwarded. For servers
   * that listen on a loopback address. Default: false.
   */
  readonly open_metrics?: boolean;
  /**
   * LangSmith's hosted Studio may call from a browser, also a server of a private address. Its requests are authenticated like all
   * others. Default: false.
   */
  readonly langsmith_studio?: boolean;
  /** For servers of developers: logs the unknown keys of request bodies, which are ignored. Default: false. */
  readonly development?: boolean;
  /** The page at `/docs`, such as `docsPage` of `greenroom/docs`. Default: none, which answers 501. */
  readonly docs?: (document: OpenApi) => Response;
  /** Serves a page below `/studio`, such as `studio()` of `greenroom/studio`. Without `app`, `/` leads there. Default: none. */
  readonly studio?: Studio;
  /**
   * The host's own routes: called with the unchanged request for paths below the mount that are not the API's. They check
   * authentication themselves, unless `http.enable_custom_route_auth` is set. The middleware of a Hono application also runs around
   * the API; see `http.middleware_order`.
   */
  readonly app?: App;
  /**
   * The user that the host's own code acts for with this request, such as the user of a run. With custom authentication the request
   * then needs no credential and has that user's permissions. Null: the credential of the request decides.
   */
  readonly acts_for?: (request: Request) => AuthUser | null;
}

export const handlerOptionsSchema: Section = strictSection({
  prefix: stringMatching((path) => /^(?:\/[\w.~-]+)*\/?$/.test(path), "must be a path such as /agents"),
  hosts: listOfStrings(() => true, "host names"),
  open_metrics: flag,
  langsmith_studio: flag,
  development: flag,
  docs: callable,
  studio: callable,
  app: valueMatching(
    (app) => typeof app === "function" || typeof (app as { fetch?: unknown } | null)?.fetch === "function",
    "must be a function, or an object with fetch",
  ),
  acts_for: callable,
} satisfies Record<keyof HandlerOptions, Schema>);
