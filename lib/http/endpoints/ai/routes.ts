/** The routes of the AI SDK's chat transport. */
import { nullIfNotFound } from "../../../errors.ts";
import { readJson } from "../../parse.ts";
import { jsonResponse, noContentResponse } from "../../respond.ts";
import {
  createRouteGroup,
  getSearchParams,
  type RequestContext,
  type Route,
  readAssistantId,
  readPathSegment,
  yieldAfterLargeBody,
} from "../../route.ts";
import { readRunOriginFromHeaders } from "../../run-request.ts";
import { createEventStreamResponse } from "../../sse.ts";
import { type ChatStream, rejoinTurn, startTurn } from "./chat.ts";
import { toUIMessages } from "./messages.ts";
import { chatBody, parseChatRequest, readRunMembers, readVersion } from "./requests.ts";
import { stopTurn } from "./stop.ts";
import { findMessageId, readRunsWithAnswers } from "./turn.ts";

const route = createRouteGroup({ tag: "AI SDK", group: "ai", error_text: true });

const CHAT_PATH = "/ai/:assistant_id/chat";

export const AI_ROUTES: readonly Route[] = [
  route("post", CHAT_PATH, {
    summary: "Send a chat of the AI SDK and stream the answer",
    access: "run",
    events: ["threads:create_run", "threads:read", "assistants:read"],
    body: chatBody,
    response: "stream",
    response_headers: ["x-vercel-ai-ui-message-stream"],
    errors: [400, 404, 409, 413, 503, 507],
    /** Starts or finds the turn of a request and streams its message. */
    async handle(context) {
      const bytes = await context.bytes();
      const chat = parseChatRequest(readJson(bytes));
      await yieldAfterLargeBody(context, bytes);
      const assistant_id = readAssistantId(context);
      const stream = await startTurn(context.resources, chat, {
        assistant_id,
        members: readRunMembers(assistant_id, chat),
        origin: readRunOriginFromHeaders(context, "ai"),
        ...context.service.options.http?.ai,
        ...getReplayOptions(context),
      });
      return createStreamResponse(context, stream);
    },
  }),
  route("get", `${CHAT_PATH}/:chat_id/stream`, {
    summary: "Follow the message that a chat of the AI SDK is getting",
    events: ["threads:read"],
    request_headers: { "Last-Event-ID": "The last event seen: only what follows is sent" },
    response: "stream",
    response_headers: ["x-vercel-ai-ui-message-stream"],
    no_content: "No run to follow",
    /** Streams the message of the newest run; responds 204 if there is nothing to follow. */
    async handle(context) {
      const last_event_id = context.request.headers.get("last-event-id");
      const ai_sdk = readVersion(getSearchParams(context).get("ai_sdk") ?? undefined);
      const options = { ai_sdk, last_event_id, ...getReplayOptions(context) };
      const stream = await rejoinTurn(context.resources, readPathSegment(context, "chat_id"), options);
      return stream ? createStreamResponse(context, stream) : noContentResponse();
    },
  }),
  route("post", `${CHAT_PATH}/:chat_id/stop`, {
    summary: "Cancel the run that answers a chat of the AI SDK",
    access: "run",
    events: ["threads:read", "threads:update"],
    no_content: "The run will stop, or none is active",
    errors: [404, 507],
    /** Stops the active run of the chat and responds 204 after its end. */
    async handle(context) {
      await stopTurn(context.resources, readPathSegment(context, "chat_id"));
      return noContentResponse();
    },
  }),
  route("get", `${CHAT_PATH}/:chat_id`, {
    summary: "The messages of a chat of the AI SDK",
    events: ["threads:read"],
    response: "Chat",
    no_content: "No such chat",
    /** Responds with the messages of a chat and the runs that wrote them; 204 if the thread does not exist. */
    async handle(context) {
      const { resources } = context;
      const id = readPathSegment(context, "chat_id");
      const thread_id = await resources.threads.idOf(id);
      const state = await resources.threads.state(thread_id).catch(nullIfNotFound);
      if (!state) return noContentResponse();
      const { newestRuns, answers } = await readRunsWithAnswers(resources, thread_id);
      const isActive = newestRuns.some(({ status }) => status === "pending" || status === "running");
      const metadata = new Map(
        newestRuns.flatMap((run) => {
          const message_id = findMessageId(run);
          return message_id === null ? [] : [[message_id, { run_id: run.run_id, thread_id }] as const];
        }),
      );
      return jsonResponse({
        id,
        messages: toUIMessages(state, state.interrupts, { answers, active: isActive, metadata }),
      });
    },
  }),
];

/** Returns the clock, and the time for which runs can be replayed if it is configured. */
const getReplayOptions = ({ service: { options, environment } }: RequestContext) => ({
  now: environment.now,
  ...(options.http?.ai?.replay_ms === undefined ? {} : { replay_ms: options.http.ai.replay_ms }),
});

const HEADERS = { "x-vercel-ai-ui-message-stream": "v1" };

/** Creates the event stream of a message, with the ids of its run if there is one. */
function createStreamResponse(context: RequestContext, { run, frames }: ChatStream): Response {
  const ids: Record<string, string> = run ? { run_id: run.run_id, thread_id: run.thread_id } : {};
  return createEventStreamResponse(context, frames, { ids, headers: HEADERS });
}
