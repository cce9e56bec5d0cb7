/** One row of the route table, and the context that its handler gets for a request. */

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
import type { WeakTextCache } from "../streams/shared-texts.ts";
import type { BodyBudget } from "./large-bodies.ts";
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
import type { RequestBodyBudget } from "./request-bodies.ts";
import type { ErrorFormat, HeaderValues } from "./respond.ts";

export type Method = "get" | "post" | "put" | "patch" | "delete" | "all";

/**
 * Who may call a route. `open`: every caller. `account`: the handler checks the permissions of the caller's API key. Otherwise the
 * use, which may depend on the request.
 */
export type RouteAccess =
  | "open"
  | "account"
  | AccessLevel
  | ((request: Pick<Request, "method" | "url" | "headers">) => AccessLevel);

/** For routes that pages of every origin may call: the headers of all answers, and of the answer to a preflight request. */
export interface PublicHeaders {
  readonly all: HeaderValues;
  readonly preflight: HeaderValues;
}

/** Routing, authorization, hidden groups, `Retry-After` and the OpenAPI document are derived from these. */
export interface Route extends ErrorFormat {
  readonly method: Method;
  /** `:name` stands for one segment, `:name+` for the remaining path, also an empty one, `*` for anything. */
  readonly path: `/${string}`;
  /** The section of the OpenAPI document. */
  readonly tag: string;
  readonly summary: string;
  /** The `http.disable_*` option that hides it. Absent: none. */
  readonly group?: RouteGroup;
  /** True: these options leave it out, as a disabled group. */
  isDisabled?(options: HttpOptions): boolean;
  /** Default: `read` for GET, else `change`. */
  readonly access?: RouteAccess;
  /** True: also open to clients on this machine where the handler's `open_metrics` is set. */
  readonly open_locally?: boolean;
  /** The events of custom authorization that its calls need. */
  readonly events?: readonly AuthEvent[];
  readonly body?: FieldSchema<unknown>;
  /** True: the body is a list of what `body` describes. */
  readonly list?: boolean;
  readonly query?: FieldSchema<unknown>;
  /** Default: `http.max_body_bytes`. */
  readonly max_body_bytes?: number;
  /** True: a repeated call with the same `Idempotency-Key` has no second effect. */
  readonly idempotency_key?: boolean;
  readonly public_headers?: PublicHeaders;
  /** The schema of the 200 answer: its name in the OpenAPI document, `stream`, `text` or `csv`. Absent: 204 or 202. */
  readonly response?: string;
  /** When it answers 202, and when 204. */
  readonly accepted?: string;
  readonly no_content?: string;
  /** When it answers 101. */
  readonly upgrades?: string;
  /** Request headers that it reads, and headers of its answer. */
  readonly request_headers?: Readonly<Record<string, string>>;
  readonly response_headers?: readonly string[];
  /** Statuses of errors, besides those that follow from access, body and query. */
  readonly errors?: readonly number[];
  /** The `WWW-Authenticate` header of errors 401 and 403. `base_url`: the start of the server's URLs. */
  challenge?(options: ServiceOptions, base_url: string, error: ServiceError): string | undefined;
  /** Absent: not built yet, answers 501. */
  handle?(context: RequestContext): Response | Promise<Response>;
}

/** Rows that are called seldom, or by few deployments. They are loaded with the first request below `path`. */
export interface LazyRoutes {
  readonly path: Route["path"];
  load(): Promise<readonly Route[]>;
}

/** A row as it is written: what its section has in common is left out, and the handler knows what the schemas give. */
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

/** Makes the rows of one section. */
export const createRouteGroup =
  (section: Pick<Route, "tag" | "group" | "access" | keyof ErrorFormat>): DefineRoute =>
  (method, path, definition) => ({ ...section, method, path, ...definition });

/** What all bodies of one handler share; `open` counts them. */
export interface StreamingBodies {
  readonly environment: Environment;
  openCount: number;
  /** What all of them and all WebSockets send, in chunks of 4 KiB. */
  readonly tickBudget: TickBudget;
  /** Large texts that several of them hold: each endpoint makes its own from the frames of a run. */
  sharedTexts?: WeakTextCache<Frame>;
}

/** What all WebSockets of one handler share. */
export interface SocketLimits {
  readonly commands: TickBudget;
  readonly whole: WeightedSemaphore;
}

/** What all requests to one handler share. */
export interface HandlerState {
  /** The path of the mount, without a slash at the end. */
  readonly base: string;
  readonly streamingBodies: StreamingBodies;
  readonly bodyBudget: BodyBudget;
  readonly socketLimits: SocketLimits;
  readonly copyHeaders: CopyHeaders;
  readonly messageParser: MessageParser;
  /** Errors: forbidden (a page of a foreign origin opens a WebSocket). */
  checkUpgrade(request: Request): void;
  /** Serves a page below `/studio`. */
  readonly hasStudio: boolean;
  /** Logs the unknown keys of a body; undefined outside of development. */
  readonly logUnknownKeys:
    | ((route: Pick<Route, "method" | "path">, ...keys: Parameters<OnUnknownKeys>) => void)
    | undefined;
  /** The page at `/docs`. */
  readonly docs: ((document: OpenApi) => Response) | undefined;
  /** True for a path of the table whose route group is disabled. */
  isHiddenPath(path: string): Promise<boolean>;
  /** The flags of `/info` without the disabled route groups. */
  filterFlags(flags: Readonly<Record<string, boolean>>): Readonly<Record<string, boolean>>;
}

/** `Body` and `Query` are what the schemas of the route give. */
export interface RequestContext<Body = unknown, Query = unknown> {
  readonly request: Request;
  /** The service without its nouns; feedback by a token has no caller. */
  readonly service: Omit<ServiceInternals, keyof RequestResources | "directories"> & {
    readonly feedback: Pick<ServiceInternals["feedback"], "token" | "submit">;
    readonly calls: Pick<ServiceInternals["calls"], "deliver">;
  };
  /** The nouns as the caller of the request may use them. */
  readonly resources: RequestResources;
  readonly handler: HandlerState;
  readonly host: HandlerHost;
  /** The large bodies of the request: its responses take from the byte budget of the handler. */
  readonly bodyBudget: RequestBodyBudget;
  readonly params: Readonly<Record<string, string | undefined>>;
  /** The query as it was sent, by name. */
  readonly rawQuery: RawQuery;
  /** The caller of a deployment route; on open and account routes without a user. */
  readonly principal: Principal;
  /** Part of every log record of the request. */
  readonly request_id: string;
  /** The caller of an account route. Errors: as `Access.caller`. */
  accountCaller(): Promise<Caller>;
  /** The body, which can be read once. Errors: too_large, too_slow. */
  bytes(): Promise<Uint8Array>;
  /** The body, checked by the route's schema. Errors: as above, bad_request, invalid. */
  body(): Promise<Body>;
  /** Undefined except where the handler logs the unknown keys of bodies. */
  readonly onUnknownKeys: OnUnknownKeys | undefined;
  /** The query, checked by the route's schema. Errors: invalid. */
  query(): Query;
  /** Resolves in the next tick of the event loop. */
  waitForNextTick(): Promise<void>;
  guard: RequestAuthorizer["guardResponse"];
}

/** Lets other requests run between reading a large body and using it. */
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
/** Null on the routes of stateless runs. */
export const readOptionalThreadId = (context: Params): string | null =>
  context.params.thread_id === undefined ? null : readThreadId(context);
export const readPathSegment = ({ params }: Params, field: string): string => parsePathSegment(params[field], field);
export const getSearchParams = ({ request }: Pick<RequestContext, "request">): URLSearchParams =>
  new URL(request.url).searchParams;

/** The part of a standard WebSocket that the handler uses. */
export interface HostSocket {
  readonly bufferedAmount: number;
  send(text: string): void;
  /** Sends a part of a message; the next one continues it, up to the last. Without it a slow reader costs a large message each. */
  sendPart?(text: string, last: boolean): void;
  close(code?: number, reason?: string): void;
  /** `message` events have `data`. */
  // biome-ignore lint/suspicious/noExplicitAny: the event types of the runtimes have no common parameter.
  addEventListener(type: "message" | "close" | "error", listener: (event: any) => void): void;
}

/** What a host can do for one request. */
export interface HandlerHost {
  /** The address of the connection, such as `192.0.2.1`. Limits per caller use it where requests have no credential. */
  readonly address?: string | null;
  /** Aborts when the client disconnects before the response is complete. Default: the signal of the request. */
  readonly signal?: AbortSignal;
  /**
   * Accepts the request as a WebSocket, as `Deno.upgradeWebSocket` does. `response`: what the handler returns; without it a response
   * of status 101 that the host ignores. Null: the handshake is not valid. Messages of more than `max_bytes` may close the socket.
   */
  upgradeWebSocket?(options: {
    readonly max_bytes: number;
  }): { readonly socket: HostSocket; readonly response?: Response } | null;
}
