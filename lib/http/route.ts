/** Defines a route, and the context that its handler receives for a request. */

import type { RequestAuthorizer } from "../auth/authorizer.ts";
import type { AuthEvent } from "../auth/custom.ts";
import type { AccessLevel, Principal } from "../auth/principal.ts";
import type { Environment, TickBudget, WeightedSemaphore } from "../environment.ts";
import type { ServiceError } from "../errors.ts";
import type { HttpOptions, RouteGroup } from "../options/http.ts";
import type { ServiceOptions } from "../options.ts";
import type { RequestResources } from "../service/resources.ts";
import type { ServiceInternals } from "../service.ts";
import type { Caller } from "../storage/identity.ts";
import type { Frame } from "../streams/frames.ts";
import type { WeakTextCache } from "../streams/weak-text-cache.ts";
import type { BodyBudget } from "./body-budget.ts";
import type { OpenApi } from "./options.ts";
import {
  type FieldSchema,
  type OnUnknownKeys,
  parseAssistantId,
  parsePathSegment,
  parseUuid,
  type RawQuery,
} from "./parse.ts";
import type { CopyHeaders, MessageParser } from "./request.ts";
import type { RequestBodyBudget } from "./request-body-budget.ts";
import type { ErrorFormat, HeaderValues } from "./respond.ts";

export type Method = "get" | "post" | "put" | "patch" | "delete" | "all";

/**
 * The access that a route requires. `open`: none. `account`: the handler checks the permissions of the caller's API key. Otherwise the
 * access level, which may depend on the request.
 */
export type RouteAccess =
  | "open"
  | "account"
  | AccessLevel
  | ((request: Pick<Request, "method" | "url" | "headers">) => AccessLevel);

/** The headers of a route that pages of every origin may call: for all responses, and for the response to a preflight request. */
export interface PublicHeaders {
  readonly all: HeaderValues;
  readonly preflight: HeaderValues;
}

/** A route. Routing, authorization, hidden groups, `Retry-After` and the OpenAPI document are derived from it. */
export interface Route extends ErrorFormat {
  readonly method: Method;
  /** The path. `:name` matches one segment, `:name+` the remaining path, which may be empty, and `*` any text. */
  readonly path: `/${string}`;
  /** The section of the OpenAPI document. */
  readonly tag: string;
  readonly summary: string;
  /** The group of the `http.disable_*` option that hides the route. */
  readonly group?: RouteGroup;
  /** Returns true if these options hide the route, as a disabled group. */
  isDisabled?(options: HttpOptions): boolean;
  /** Default: `read` for GET, else `change`. */
  readonly access?: RouteAccess;
  /** True: clients on this machine need no credential if the handler has `open_metrics`. */
  readonly open_locally?: boolean;
  /** The events of custom authorization for which the operations of the handler call the host. */
  readonly events?: readonly AuthEvent[];
  readonly body?: FieldSchema<unknown>;
  /** True: the body is a list whose items have the schema `body`. */
  readonly list?: boolean;
  readonly query?: FieldSchema<unknown>;
  /** True: members of the query that the schema does not have are refused with 422. Set for the routes of Greenroom's own API. */
  readonly strict_query?: boolean;
  /** The maximum size of the body. Default: `http.max_body_bytes`. */
  readonly max_body_bytes?: number;
  /** True: a repeated call with the same `Idempotency-Key` has no second effect. */
  readonly idempotency_key?: boolean;
  readonly public_headers?: PublicHeaders;
  /** The schema of the 200 response: its name in the OpenAPI document, `stream`, `text`, `html` or `csv`. Absent: 204 or 202. */
  readonly response?: string;
  /** The descriptions of the responses 202 and 204 in the OpenAPI document. */
  readonly accepted?: string;
  readonly no_content?: string;
  /** The description of the response 101. Set for routes that open a WebSocket. */
  readonly upgrades?: string;
  /** The descriptions of the request headers that the handler reads, and the names of the headers of its response. */
  readonly request_headers?: Readonly<Record<string, string>>;
  readonly response_headers?: readonly string[];
  /** The statuses of errors, in addition to those that follow from access, body and query. */
  readonly errors?: readonly number[];
  /** Returns the `WWW-Authenticate` header of errors 401 and 403. `base_url` is the URL of the mount. */
  challenge?(options: ServiceOptions, base_url: string, error: ServiceError): string | undefined;
  /** Responds to a request. Absent: the route responds with 501. */
  handle?(context: RequestContext): Response | Promise<Response>;
}

/** Routes that are loaded with the first request below `path`. */
export interface LazyRoutes {
  readonly path: Route["path"];
  load(): Promise<readonly Route[]>;
}

/** A route definition in its group, which defines the common members. The types of the handler follow from the schemas. */
interface RouteDefinition<Body, Query>
  extends Omit<Route, "method" | "path" | "tag" | "body" | "query" | "handle" | "summary"> {
  readonly summary: string;
  readonly body?: FieldSchema<Body>;
  readonly query?: FieldSchema<Query>;
  handle(context: RequestContext<Body, Query>): Response | Promise<Response>;
}

type DefineRoute = <Body = unknown, Query = unknown>(
  method: Exclude<Method, "all">,
  path: Route["path"],
  definition: RouteDefinition<Body, Query>,
) => Route;

/** Returns a function that defines the routes of one group. */
export const createRouteGroup =
  (section: Pick<Route, "tag" | "group" | "access" | "strict_query" | keyof ErrorFormat>): DefineRoute =>
  (method, path, definition) => ({ ...section, method, path, ...definition });

/** The state that all streaming bodies of one handler share. `openCount` is their number. */
export interface StreamingBodies {
  readonly environment: Environment;
  openCount: number;
  /** The budget of chunks of 4 KiB that all bodies and WebSockets send in one tick. */
  readonly tickBudget: TickBudget;
  /** The large texts that several bodies share, because each endpoint creates texts of its own from the frames of a run. */
  sharedTexts?: WeakTextCache<Frame>;
}

/** The limits that all WebSockets of one handler share. */
export interface SocketLimits {
  readonly commandBudget: TickBudget;
  readonly largeMessageBudget: WeightedSemaphore;
}

/** The state that all requests to one handler share. */
export interface HandlerState {
  /** The path of the mount, without a trailing slash. */
  readonly base: string;
  readonly streamingBodies: StreamingBodies;
  readonly bodyBudget: BodyBudget;
  readonly socketLimits: SocketLimits;
  readonly copyHeaders: CopyHeaders;
  readonly messageParser: MessageParser;
  /** Throws `origin_refused` if a page of an origin that is not allowed opens a WebSocket. */
  checkUpgrade(request: Request): void;
  /** True if the handler serves a page below `/studio`. */
  readonly hasStudio: boolean;
  /** Logs the unknown keys of a body. Undefined outside of development. */
  readonly logUnknownKeys:
    | ((route: Pick<Route, "method" | "path">, ...keys: Parameters<OnUnknownKeys>) => void)
    | undefined;
  /** Creates the page at `/docs`. */
  readonly docs: ((document: OpenApi) => Response) | undefined;
  /**
   * Resolves to true if the handler has no route at `path`, which is relative to its prefix, or if the routes there are
   * disabled.
   */
  isHiddenPath(path: string): Promise<boolean>;
  /** Returns the flags of `/info`, with false for disabled route groups. */
  filterFlags(flags: Readonly<Record<string, boolean>>): Readonly<Record<string, boolean>>;
}

/** The context of one request. `Body` and `Query` are the outputs of the schemas of the route. */
export interface RequestContext<Body = unknown, Query = unknown> {
  readonly request: Request;
  /** The service without its resources, except those for requests that have no caller: feedback and events by a token. */
  readonly service: Omit<ServiceInternals, keyof RequestResources | "internalResources"> & {
    readonly feedback: Pick<ServiceInternals["feedback"], "token" | "submit">;
    readonly calls: Pick<ServiceInternals["calls"], "deliver">;
  };
  /** The resources of the caller. Each call is authorized. */
  readonly resources: RequestResources;
  readonly handler: HandlerState;
  readonly host: HandlerHost;
  /** Reserves bytes for the large bodies of the request in the budget of the handler. */
  readonly bodyBudget: RequestBodyBudget;
  readonly params: Readonly<Record<string, string | undefined>>;
  /** The unvalidated query by name. */
  readonly rawQuery: RawQuery;
  /** The caller of a deployment route. On open and account routes it is the anonymous principal. */
  readonly principal: Principal;
  /** The method and the path of the route, such as `POST /threads/{thread_id}/runs`. */
  readonly route: string;
  /** The id of the request in log records. */
  readonly request_id: string;
  /** Resolves the caller of an account route. Throws as `Access.caller`. */
  accountCaller(): Promise<Caller>;
  /** Reads the body. It can be read once. Throws `too_large` and `too_slow`. */
  bytes(): Promise<Uint8Array>;
  /** Reads the body and validates it by the route's schema. Throws `too_large`, `too_slow`, `bad_request` and `invalid`. */
  body(): Promise<Body>;
  /** Logs the unknown keys of a body. Undefined outside of development. */
  readonly onUnknownKeys: OnUnknownKeys | undefined;
  /** Validates the query by the route's schema. Throws `invalid`. */
  query(): Query;
  /** Resolves in the next tick of the event loop. */
  waitForNextTick(): Promise<void>;
  guard: RequestAuthorizer["guardResponse"];
}

/** Waits for the next tick after a large body was parsed, so that other requests can run. */
export async function yieldAfterLargeBody(
  context: Pick<RequestContext, "waitForNextTick">,
  bytes: Uint8Array,
): Promise<void> {
  if (bytes.length > YIELD_BYTES) await context.waitForNextTick();
}

const YIELD_BYTES = 128 * 1024;

type Params = Pick<RequestContext, "params">;

export const readAssistantId = ({ params }: Params): string => parseAssistantId(params.assistant_id);
export const readThreadId = ({ params }: Params): string => parseUuid(params.thread_id, "thread_id");
export const readRunId = ({ params }: Params): string => parseUuid(params.run_id, "run_id");
export const readCronId = ({ params }: Params): string => parseUuid(params.cron_id, "cron_id");
/** Reads the thread id of the path. Returns null on the routes of stateless runs. */
export const readOptionalThreadId = (context: Params): string | null =>
  context.params.thread_id === undefined ? null : readThreadId(context);
export const readPathSegment = ({ params }: Params, field: string): string => parsePathSegment(params[field], field);
export const getSearchParams = ({ request }: Pick<RequestContext, "request">): URLSearchParams =>
  new URL(request.url).searchParams;

/** The part of a standard WebSocket that the handler uses. */
export interface HostSocket {
  readonly bufferedAmount: number;
  send(text: string): void;
  /** Sends a part of a message. Without this function each slow reader costs a large message. */
  sendPart?(text: string, last: boolean): void;
  close(code?: number, reason?: string): void;
  /** Adds a listener. `message` events have `data`. */
  // biome-ignore lint/suspicious/noExplicitAny: the event types of the runtimes have no common parameter.
  addEventListener(type: "message" | "close" | "error", listener: (event: any) => void): void;
}

/** The functions of a host for one request. */
export interface HandlerHost {
  /** The address of the connection, such as `192.0.2.1`. Limits per caller use it where requests have no credential. */
  readonly address?: string | null;
  /** Aborts when the client disconnects before the response is complete. Default: the signal of the request. */
  readonly signal?: AbortSignal;
  /**
   * Accepts the request as a WebSocket, as `Deno.upgradeWebSocket` does. The handler returns `response`, or without it a response of
   * status 101 that the host ignores. Null: the handshake is not valid. Messages of more than `max_bytes` may close the socket.
   */
  upgradeWebSocket?(options: {
    readonly max_bytes: number;
  }): { readonly socket: HostSocket; readonly response?: Response } | null;
}
