/** The context of one request: what its route's handler reads, and the service it calls. */
import type { AuthEvent } from "../auth/custom.ts";
import type { Principal } from "../auth/principal.ts";
import type { ServiceInternals } from "../service.ts";
import type { Caller } from "../storage/identity.ts";
import type { Visibility } from "../storage/visibility.ts";
import type { Messages } from "./body.ts";
import type { HandlerHost } from "./host.ts";
import type { HeaderCopy } from "./parse/headers.ts";
import { readAssistantId, readId, readSegment, type SentQuery } from "./parse/read.ts";
import type { OpenBodies } from "./sse.ts";

/** What all requests to one handler share. */
/** An OpenAPI document, which says what a handler serves. */
export interface OpenApi {
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly servers: readonly { readonly url: string }[];
  /** Operations by path and method. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> };
}

export interface HandlerState {
  /** The path of the mount, without a slash at the end. */
  readonly base: string;
  readonly bodies: OpenBodies;
  readonly copyHeaders: HeaderCopy;
  readonly messages: Messages;
  /** Errors: forbidden (a page of a foreign origin opens a WebSocket). */
  checkUpgrade(request: Request): void;
  /** The page at `/docs`. */
  readonly docs: ((document: OpenApi) => Response) | undefined;
  /** True for a path of the table whose route group is disabled. */
  hides(path: string): boolean;
  /** The flags of `/info` without the disabled route groups. */
  flags(flags: Readonly<Record<string, boolean>>): Readonly<Record<string, boolean>>;
}

/** `Body` and `Query` are what the schemas of the route give. */
export interface RequestContext<Body = unknown, Query = unknown> {
  readonly request: Request;
  readonly service: ServiceInternals;
  readonly handler: HandlerState;
  readonly host: HandlerHost;
  readonly params: Readonly<Record<string, string | undefined>>;
  /** The query as it was sent, by name. */
  readonly parameters: SentQuery;
  /** The caller of a deployment route; on open and account routes without a user. */
  readonly principal: Principal;
  /** Part of every log record of the request. */
  readonly request_id: string;
  /** The caller of an account route. Errors: as `Access.caller`. */
  caller(): Promise<Caller>;
  /** The body, which can be read once. Errors: too_large, too_slow. */
  bytes(): Promise<Uint8Array>;
  /** The body, checked by the route's schema. Errors: as above, bad_request, invalid. */
  body(): Promise<Body>;
  /** The query, checked by the route's schema. Errors: invalid. */
  query(): Query;
  /** Resolves when the event loop has turned. */
  turn(): Promise<void>;
  /**
   * Calls the host's authorization handler before anything is read or changed. Returns `value` as the handler leaves it, and what
   * the caller may see. Default event: the first of the route. Errors: forbidden, unavailable, internal.
   */
  authorize<Value extends object>(
    value: Value,
    event?: AuthEvent,
  ): Promise<{ readonly value: Value; readonly visibility: Visibility }>;
}

/** Lets other requests run between reading a large body and using it. */
export async function yieldAfter(context: Pick<RequestContext, "turn">, bytes: Uint8Array): Promise<void> {
  if (bytes.length > LARGE_BYTES) await context.turn();
}

const LARGE_BYTES = 128 * 1024;

type Params = Pick<RequestContext, "params">;

export const assistantId = ({ params }: Params): string => readAssistantId(params.assistant_id);
export const threadId = ({ params }: Params): string => readId(params.thread_id, "thread_id");
export const runId = ({ params }: Params): string => readId(params.run_id, "run_id");
export const cronId = ({ params }: Params): string => readId(params.cron_id, "cron_id");
/** Null on the routes of stateless runs. */
export const optionalThreadId = (context: Params): string | null =>
  context.params.thread_id === undefined ? null : threadId(context);
export const segment = ({ params }: Params, field: string): string => readSegment(params[field], field);
export const searchParams = ({ request }: Pick<RequestContext, "request">): URLSearchParams =>
  new URL(request.url).searchParams;
