/** Defines the routes of the thread event protocol (v2), the schemas of their requests, and its WebSocket. */
import * as v from "valibot";
import { ServiceError } from "../../errors.ts";
import type { AuthorizedThreadStream } from "../../protocol/authorization.ts";
import type { CommandCaller, EventFilter, ProtocolCommand } from "../../protocol/mod.ts";
import { createSocketSession } from "../../protocol/session.ts";
import { anyObject, type FieldSchema, integer, listSchema, text, validateFields } from "../parse.ts";
import { errorResponse, jsonResponse } from "../respond.ts";
import { createRouteGroup, type RequestContext, type Route, readThreadId } from "../route.ts";
import { readRunOriginFromHeaders, runCreate } from "../run-request.ts";
import { createEventStreamResponse } from "../sse.ts";

/** The maximum numbers of channels and namespaces of a filter and of segments of a namespace. Each event is compared with them. */
const MAX_CHANNELS = 100;
const MAX_NAMESPACES = 1_000;
const MAX_NAMESPACE_SEGMENTS = 100;

const nonNegativeInteger = integer(0, Number.MAX_SAFE_INTEGER);

/** POST /threads/{thread_id}/commands */
export const threadCommand: FieldSchema<ProtocolCommand> = v.object({
  id: nonNegativeInteger,
  method: text,
  params: v.optional(anyObject),
});

/** POST /threads/{thread_id}/stream/events. Unknown channels match nothing. */
export const eventFilter: FieldSchema<EventFilter> = v.object({
  channels: v.pipe(
    listSchema(text),
    v.minLength(1, "must name a channel"),
    v.maxLength(MAX_CHANNELS, `must name at most ${MAX_CHANNELS} channels`),
  ),
  namespaces: v.optional(
    v.pipe(
      listSchema(
        v.pipe(
          listSchema(text),
          v.maxLength(MAX_NAMESPACE_SEGMENTS, `must have at most ${MAX_NAMESPACE_SEGMENTS} segments`),
        ),
      ),
      v.maxLength(MAX_NAMESPACES, `must hold at most ${MAX_NAMESPACES} namespaces`),
    ) as v.GenericSchema<string[][]>,
  ),
  depth: v.optional(nonNegativeInteger),
  since: v.optional(nonNegativeInteger),
});

const defineRoute = createRouteGroup({ tag: "Threads", group: "threads", error_message: true });

const EVENTS_PATH = "/threads/:thread_id/stream/events";

export const PROTOCOL_ROUTES: readonly Route[] = [
  defineRoute("post", "/threads/:thread_id/commands", {
    summary: "Send a command to a thread (event protocol v2)",
    access: "run",
    events: ["threads:create_run", "threads:read", "assistants:read"],
    body: threadCommand,
    response: "CommandAnswer",
    errors: [404, 503, 507],
    /**
     * Executes the command in the body on the thread, and responds with its result, also with 200 and `type: "error"` for a command
     * that is wrong. Other failures get the status of their error, such as 404 for a thread that the caller may not see.
     */
    async handle(context) {
      const thread_id = readThreadId(context);
      const command = await context.body();
      return jsonResponse(await context.resources.protocol.command(thread_id, command, createRunAuthorizer(context)));
    },
  }),
  defineRoute("post", EVENTS_PATH, {
    summary: "Stream the events of a thread that pass a filter (event protocol v2)",
    access: "read",
    events: ["threads:read"],
    body: eventFilter,
    response: "stream",
    /**
     * Streams the events of the thread that the filter in the body selects, the stored ones after `since` first, as server-sent
     * events without an end. A thread that does not exist yet is waited for.
     */
    async handle(context) {
      const thread_id = readThreadId(context);
      const filter = await context.body();
      const reader = await context.resources.protocol.subscribe(thread_id, filter);
      return createEventStreamResponse(context, reader, { ids: { thread_id }, isEndless: true });
    },
  }),
  defineRoute("get", EVENTS_PATH, {
    summary: "Open a WebSocket for commands and events of a thread (event protocol v2)",
    events: ["threads:create_run", "threads:read", "assistants:read"],
    request_headers: { Upgrade: "`websocket`" },
    upgrades: "The connection is a WebSocket from now on",
    errors: [400, 426, 501],
    /**
     * Opens the WebSocket of a thread, which may not exist yet, and responds 101, or 426 to other requests. Responds 400 for an invalid
     * handshake, 501 if the host cannot open one, and 403 for an origin that is not allowed: browsers let every page open one.
     */
    async handle(context) {
      const thread_id = readThreadId(context);
      if (context.request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
        const message = "Open a WebSocket here, or send a POST for server-sent events";
        const error = new ServiceError("upgrade_required", message);
        return errorResponse(error, { upgrade: "websocket" }, { error_message: true });
      }
      context.handler.checkUpgrade(context.request);
      const thread = await context.resources.protocol.open(
        thread_id,
        createRunAuthorizer(context, createSocketRunsReader(context)),
      );
      return openSocket(context, thread_id, thread);
    },
  }),
];

type CallerRuns = RequestContext["resources"]["runs"];

/**
 * Returns a function that authorizes the run of a command. It throws `invalid` for parameters that do not fit a run.
 * `getRuns` returns the runs of the caller; it is called for each command.
 */
const createRunAuthorizer =
  (context: RequestContext, getRuns = async (): Promise<CallerRuns> => context.resources.runs): CommandCaller["run"] =>
  async (thread_id, params) => {
    const { permit } = await getRuns();
    return await permit(
      thread_id,
      validateFields(params, runCreate),
      readRunOriginFromHeaders(context, "thread.command"),
    );
  };

/**
 * Returns a function that returns the runs of the caller of a WebSocket. The socket was opened with access level `read`, so the caller
 * is authenticated again with `run`. The user of custom authentication has the same permissions for both.
 */
const createSocketRunsReader = (context: RequestContext) => async (): Promise<CallerRuns> => {
  const { access, authorizeRequest } = context.service;
  if (context.principal.user) return context.resources.runs;
  const principal = await access.principal(context.request, "run");
  return authorizeRequest(() => principal).resources.runs;
};

/** Creates a response with status 101, which the constructor of a Response refuses. The host ignores it. */
function switchingProtocolsResponse(): Response {
  const response = new Response(null);
  Object.defineProperty(response, "status", { value: 101 });
  return response;
}

/**
 * Opens the WebSocket of a thread and its session, and counts it as an open stream until it closes. Returns the
 * response of the host, or a 101. Throws `not_built` if the host cannot open one, and `bad_request` for an invalid
 * handshake.
 */
function openSocket(context: RequestContext, thread_id: string, thread: AuthorizedThreadStream): Response {
  const { host, handler, service, request_id } = context;
  if (typeof host.upgradeWebSocket !== "function") {
    const message = "This server cannot open WebSockets. Send a POST to this path for server-sent events";
    throw new ServiceError("not_built", message);
  }
  const { max_bytes } = handler.messageParser;
  const upgraded = host.upgradeWebSocket({ max_bytes });
  if (!upgraded) throw new ServiceError("bad_request", "The WebSocket handshake is not valid");
  const { socket, response } = upgraded;
  const session = createSocketSession({
    environment: service.environment,
    sendBudget: handler.streamingBodies.tickBudget,
    ...handler.socketLimits,
    socket,
    thread_id,
    thread,
    max_bytes,
    parse: handler.messageParser.parse,
    readFilter: (params) => validateFields(params, eventFilter),
    ids: { request_id },
  });
  handler.streamingBodies.openCount++;
  let isOpen = true;
  /** Ends the session of the socket and no longer counts it as an open stream. Counts once, however often it is called. */
  const close = (): void => {
    if (isOpen) handler.streamingBodies.openCount--;
    isOpen = false;
    session.onClose();
  };
  socket.addEventListener("message", ({ data }: { readonly data: unknown }) => session.onMessage(data));
  socket.addEventListener("close", close);
  socket.addEventListener("error", close);
  return response ?? switchingProtocolsResponse();
}
