/** The routes of the thread event protocol (v2). */
import { ServiceError } from "../../errors.ts";
import { commandCaller, runsOfSocket } from "../command-caller.ts";
import { threadId } from "../context.ts";
import { eventFilter, threadCommand } from "../parse/protocol.ts";
import { errorResponse, json } from "../respond.ts";
import { eventStream } from "../stream-response.ts";
import { openSocket } from "../web-socket.ts";
import { type Route, routesOf } from "./route.ts";

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
      const { visibility } = await context.authorize({ thread_id });
      const reader = context.service.protocol.subscribe(thread_id, filter, visibility);
      return eventStream(context, reader, { thread_id }, {}, { at_once: true });
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
        return errorResponse(error, { upgrade: "websocket" }, true);
      }
      context.handler.checkUpgrade(context.request);
      const { visibility } = await context.authorize({ thread_id }, "threads:read");
      return openSocket(context, thread_id, commandCaller(context, runsOfSocket(context)), visibility);
    },
  }),
];
