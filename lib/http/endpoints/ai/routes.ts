/** The routes of the AI SDK's chat transport. */
import { nullIfNotFound } from "../../../errors.ts";
import { readJson } from "../../parse.ts";
import { empty, json } from "../../respond.ts";
import {
  assistantId,
  type RequestContext,
  type Route,
  routesOf,
  searchParams,
  segment,
  yieldAfter,
} from "../../route.ts";
import { originOfHeaders } from "../../run-request.ts";
import { eventStream } from "../../sse.ts";
import { type ChatStream, resumeTurn, startTurn } from "./chat.ts";
import { toUIMessages } from "./messages.ts";
import { chatBody, parseChatRequest, readRunMembers, readVersion } from "./requests.ts";
import { stopTurn } from "./stop.ts";
import { findMessageId, readAnswers } from "./turn.ts";

const route = routesOf({ tag: "AI SDK", group: "ai", error_text: true });

const CHAT_PATH = "/ai/:assistant_id/chat";

export const AI_ROUTES: readonly Route[] = [
  route("post", CHAT_PATH, {
    summary: "Send a chat of the AI SDK and stream the answer",
    access: "run",
    events: ["threads:create_run", "threads:read", "assistants:read"],
    body: chatBody,
    answer: "stream",
    answer_headers: ["x-vercel-ai-ui-message-stream"],
    errors: [400, 404, 409, 413, 503, 507],
    async handle(context) {
      const bytes = await context.bytes();
      const chat = parseChatRequest(readJson(bytes));
      await yieldAfter(context, bytes);
      const assistant_id = assistantId(context);
      const stream = await startTurn(context.nouns, chat, {
        assistant_id,
        members: readRunMembers(assistant_id, chat),
        origin: originOfHeaders(context),
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
    answer: "stream",
    answer_headers: ["x-vercel-ai-ui-message-stream"],
    no_content: "No run to follow",
    async handle(context) {
      const last_event_id = context.request.headers.get("last-event-id");
      const ai_sdk = readVersion(searchParams(context).get("ai_sdk") ?? undefined);
      const options = { ai_sdk, last_event_id, ...getReplayOptions(context) };
      const stream = await resumeTurn(context.nouns, segment(context, "chat_id"), options);
      return stream ? createStreamResponse(context, stream) : empty();
    },
  }),
  route("post", `${CHAT_PATH}/:chat_id/stop`, {
    summary: "Cancel the run that answers a chat of the AI SDK",
    access: "run",
    events: ["threads:read", "threads:update"],
    no_content: "The run will stop, or none is active",
    errors: [404, 507],
    async handle(context) {
      await stopTurn(context.nouns, segment(context, "chat_id"));
      return empty();
    },
  }),
  route("get", `${CHAT_PATH}/:chat_id`, {
    summary: "The messages of a chat of the AI SDK",
    events: ["threads:read"],
    answer: "Chat",
    no_content: "No such chat",
    async handle(context) {
      const { nouns } = context;
      const id = segment(context, "chat_id");
      const thread_id = await nouns.threads.idOf(id);
      const state = await nouns.threads.state(thread_id).catch(nullIfNotFound);
      if (!state) return empty();
      const { newestRuns, answers } = await readAnswers(nouns, thread_id);
      const isActive = newestRuns.some(({ status }) => status === "pending" || status === "running");
      const metadata = new Map(
        newestRuns.flatMap((run) => {
          const message_id = findMessageId(run);
          return message_id === null ? [] : [[message_id, { run_id: run.run_id, thread_id }] as const];
        }),
      );
      return json({ id, messages: toUIMessages(state, state.interrupts, { answers, active: isActive, metadata }) });
    },
  }),
];

const getReplayOptions = ({ service: { options, environment } }: RequestContext) => ({
  now: environment.now,
  ...(options.http?.ai?.replay_ms === undefined ? {} : { replay_ms: options.http.ai.replay_ms }),
});

const HEADERS = { "x-vercel-ai-ui-message-stream": "v1" };

function createStreamResponse(context: RequestContext, { run, frames }: ChatStream): Response {
  const ids: Record<string, string> = run ? { run_id: run.run_id, thread_id: run.thread_id } : {};
  return eventStream(context, frames, { ids, headers: HEADERS });
}
