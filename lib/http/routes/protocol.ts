/** The thread event protocol (v2): requests, routes and WebSockets. */
import * as v from "valibot";
import type { Permission } from "../../auth/permission.ts";
import { ServiceError } from "../../errors.ts";
import type { Command, CommandCaller, EventFilter } from "../../protocol/mod.ts";
import { createSession } from "../../protocol/session.ts";
import { anyObject, type Fields, integer, listOf, readFields, text } from "../parse.ts";
import { errorResponse, json } from "../respond.ts";
import { type RequestContext, type Route, routesOf, threadId } from "../route.ts";
import { authorizeNewRun, callerOrigin, runCreate } from "../run-request.ts";
import { eventStream } from "../sse.ts";

/** The most channels and namespaces of a filter, and segments of a namespace: each event is compared with them. */
const MOST_CHANNELS = 100;
const MOST_NAMESPACES = 1_000;
const MOST_SEGMENTS = 100;

const count = integer(0, Number.MAX_SAFE_INTEGER);

/** POST /threads/{thread_id}/commands */
export const threadCommand: Fields<Command> = v.object({
  id: count,
  method: text,
  params: v.optional(anyObject),
});

/** POST /threads/{thread_id}/stream/events. Unknown channels match nothing. */
export const eventFilter: Fields<EventFilter> = v.object({
  channels: v.pipe(
    listOf(text),
    v.minLength(1, "must name a channel"),
    v.maxLength(MOST_CHANNELS, `must name at most ${MOST_CHANNELS} channels`),
  ),
  namespaces: v.optional(
    v.pipe(
      listOf(v.pipe(listOf(text), v.maxLength(MOST_SEGMENTS, `must have at most ${MOST_SEGMENTS} segments`))),
      v.maxLength(MOST_NAMESPACES, `must hold at most ${MOST_NAMESPACES} namespaces`),
    ) as v.GenericSchema<string[][]>,
  ),
  depth: v.optional(count),
  since: v.optional(count),
});

const route = routesOf({ tag: "Threads", group: "threads", error_message: true });

const EVENTS = "/threads/:thread_id/stream/events";

export const PROTOCOL_ROUTES: readonly Route[] = [
  route("post", "/threads/:thread_id/commands", {
    summary: "Send a command to a thread (event protocol v2)",
    access: "run",
    events: ["threads:create_run", "threads:read", "assistants:read"],
    body: threadCommand,
    answer: "CommandAnswer",
    errors: [404, 503, 507],
    async handle(context) {
      const thread_id = threadId(context);
      const command = await context.body();
      return json(await context.service.protocol.command(thread_id, command, commandCaller(context)));
    },
  }),
  route("post", EVENTS, {
    summary: "Stream the events of a thread that pass a filter (event protocol v2)",
    access: "read",
    events: ["threads:read"],
    body: eventFilter,
    answer: "stream",
    async handle(context) {
      const thread_id = threadId(context);
      const filter = await context.body();
      const permission = await context.authorize({ thread_id });
      const reader = context.service.protocol.subscribe(thread_id, filter, permission.visibility);
      return eventStream(context, reader, { thread_id }, {}, { endless: true });
    },
  }),
  route("get", EVENTS, {
    summary: "Open a WebSocket for commands and events of a thread (event protocol v2)",
    events: ["threads:create_run", "threads:read", "assistants:read"],
    request_headers: { Upgrade: "`websocket`" },
    upgrades: "The connection is a WebSocket from now on",
    errors: [400, 426, 501],
    async handle(context) {
      const thread_id = threadId(context);
      if (context.request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
        const message = "Open a WebSocket here, or send a POST for server-sent events";
        const error = new ServiceError("upgrade_required", message);
        return errorResponse(error, { upgrade: "websocket" }, { error_message: true });
      }
      context.handler.checkUpgrade(context.request);
      const permission = await context.authorize({ thread_id }, "threads:read");
      return openSocket(context, thread_id, callerOfSocket(context, permission), permission);
    },
  }),
];

/** `contextOfRuns`: gives the context of a run that is created. */
const commandCaller = (
  context: RequestContext,
  contextOfRuns = async (): Promise<RequestContext> => context,
): CommandCaller => ({
  async read(thread_id) {
    return (await context.authorize({ thread_id }, "threads:read")).visibility;
  },
  async run(thread_id, sent) {
    const running = await contextOfRuns();
    const [request, authorized] = await authorizeNewRun(running, thread_id, readFields(sent, runCreate));
    return { request, origin: { ...callerOrigin(running), ...authorized } };
  },
});

/** The caller of a WebSocket, whose permission to read the session asks for before each command. */
const callerOfSocket = (context: RequestContext, { scope: visibility }: Permission): CommandCaller => ({
  ...commandCaller(context, runsOfSocket(context)),
  read: async () => visibility,
});

/**
 * For a WebSocket, which was opened with the permission to read: its caller may run less, and on fewer threads. The user of custom
 * authentication has no other permission.
 */
const runsOfSocket = (context: RequestContext) => async (): Promise<RequestContext> => {
  const { access } = context.service;
  if (context.principal.user) return context;
  const principal = await access.principal(context.request, "run");
  return {
    ...context,
    principal,
    async authorize(value, event = "threads:create_run") {
      const { value: left, visibility } = await access.authorize(principal, event, value);
      return { value: left, visibility, scope: { deployment: "", ...visibility } };
    },
  };
};

/** Browsers and proxies answer 101 themselves; the constructor of a Response refuses the status. */
function switched(): Response {
  const response = new Response(null);
  Object.defineProperty(response, "status", { value: 101 });
  return response;
}

/** Opens the WebSocket of a thread. Errors: not_built (the host cannot), bad_request (no valid handshake). */
function openSocket(
  context: RequestContext,
  thread_id: string,
  caller: CommandCaller,
  permission: Permission,
): Response {
  const { host, handler, service, request_id } = context;
  if (typeof host.upgradeWebSocket !== "function") {
    const message = "This server cannot open WebSockets. Send a POST to this path for server-sent events";
    throw new ServiceError("not_built", message);
  }
  const { max_bytes } = handler.messages;
  const upgraded = host.upgradeWebSocket({ max_bytes });
  if (!upgraded) throw new ServiceError("bad_request", "The WebSocket handshake is not valid");
  const { socket, response } = upgraded;
  const session = createSession({
    environment: service.environment,
    limit: handler.bodies.limit,
    ...handler.sockets,
    protocol: service.protocol,
    socket,
    thread_id,
    caller,
    permission,
    max_bytes,
    parse: handler.messages.parse,
    readFilter: (params) => readFields(params, eventFilter),
    ids: { request_id },
  });
  handler.bodies.open++;
  let open = true;
  const close = (): void => {
    if (open) handler.bodies.open--;
    open = false;
    session.onClose();
  };
  socket.addEventListener("message", ({ data }: { readonly data: unknown }) => session.onMessage(data));
  socket.addEventListener("close", close);
  socket.addEventListener("error", close);
  return response ?? switched();
}
