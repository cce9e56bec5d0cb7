/**
 * Chats of the AI SDK for hosts with their own routes: maps a run to chunks for `useChat` and a thread to its messages, and creates the
 * run of a request. The handler of `greenroom/server` serves them at `/ai/{assistant_id}/chat`.
 * @module
 */
import type { Json } from "../../../json.ts";
import type { Frame, Run, RunCreate } from "../../../runs/mod.ts";
import { incompleteStreamError, RUN_EVENT_OPTIONS, RunEventMapper } from "../run-events.ts";
import { type ChatSettings, startTurn } from "./chat.ts";
import { type AiVersion, type PendingInterrupt, type UIMessageChunk, UIMessageMapper } from "./chunks.ts";
import { buildTurns } from "./messages.ts";
import { parseChatRequest, readRunMembers } from "./requests.ts";
import type { ChatResources } from "./turn.ts";

export type * from "../../../types.ts";
export type { ChatSettings } from "./chat.ts";
export type { AiVersion, AnsweredInterrupt, PendingInterrupt, UIMessageChunk } from "./chunks.ts";
export { type AnswerPoint, type MessageOptions, toUIMessages, type UIMessage } from "./messages.ts";
export {
  type FilePart,
  type ModelMessage,
  type TextPart,
  type ToolCallPart,
  type ToolResultPart,
  toModelMessages,
} from "./model-messages.ts";
export type { ChatResources } from "./turn.ts";

/** The members of a run whose frames `toUIMessageStream` reads. */
export const CHAT_RUN: Pick<RunCreate, "stream_mode" | "stream_subgraphs" | "stream_resumable"> = RUN_EVENT_OPTIONS;

/** The first chunks of a stream. */
export interface UIMessageStreamOptions {
  /** The id of the message. It must be the same in every replay, or pages show the message twice. */
  readonly messageId: string;
  readonly messageMetadata?: Json;
  /** The version of `ai` of the page. Default 7. */
  readonly version?: AiVersion;
  /** Messages of the state from earlier runs of the turn. They are emitted first. */
  readonly before?: readonly Json[];
  /** Such messages for a page that already has them. Only the results of their tool calls are emitted. */
  readonly calls?: readonly Json[];
  /** The interrupts that were pending after these messages. */
  readonly questions?: readonly PendingInterrupt[];
}

/**
 * Maps all frames of a run with the members of `CHAT_RUN` to chunks for `useChat`. The first chunk is `start`, then
 * those of the last turn in `before` if it is given. Throws if the frames stop before the end of the run, as when the
 * service stops: break the connection then, because an end would look complete.
 *
 * @example
 * ```ts
 * import { CHAT_RUN, toUIMessageStream } from "greenroom/ai";
 *
 * const input = { messages: [{ role: "user", content: "Hi" }] };
 * const { frames } = await service.runs.stream(thread_id, { assistant_id: "agent", input, ...CHAT_RUN });
 * for await (const chunk of toUIMessageStream(frames, { messageId: "reply-1" })) console.log(chunk.type);
 * ```
 */
export async function* toUIMessageStream(
  frames: AsyncIterable<Frame>,
  { messageId, messageMetadata, version = 7, before, calls, questions = [] }: UIMessageStreamOptions,
): AsyncGenerator<UIMessageChunk> {
  yield { type: "start", messageId, ...(messageMetadata === undefined ? {} : { messageMetadata }) };
  const turn = buildTurns(before ?? calls ?? [], questions, { active: true, version }).at(-1);
  if (turn && before) yield* turn.chunks;
  const mapper = turn?.mapper ?? new UIMessageMapper(version);
  const events = new RunEventMapper();
  for await (const frame of frames) {
    for (const event of events.map(frame)) yield* mapper.map(event);
    if (frame.event === "end") return;
  }
  throw incompleteStreamError();
}

/** The run and the response of a turn. */
export interface ChatTurn {
  /** Null: the message was complete, and no run of the chat wrote it last. */
  readonly run: Run | null;
  /** The body of the response: `data: {chunk}` for each chunk. It fails if the service stops. */
  readonly stream: ReadableStream<Uint8Array>;
}

/** The headers of a response with the stream of a turn. */
export const CHAT_HEADERS: Readonly<Record<string, string>> = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache",
  "x-vercel-ai-ui-message-stream": "v1",
  "x-accel-buffering": "no",
};

/**
 * Starts or finds the turn of a request of the AI SDK's chat transport, as `POST /ai/{assistant_id}/chat` does. `resources` is the
 * service, or `service.as` for one user. `body` is the parsed body. Throws `bad_request`, `invalid`, `not_found`, `conflict`, and the
 * errors of a new run: respond with their text, because pages show the whole body of an error.
 *
 * @example
 * ```ts
 * import { CHAT_HEADERS, chatRequest } from "greenroom/ai";
 *
 * async function answer(request: Request): Promise<Response> {
 *   const { stream } = await chatRequest(service, "agent", await request.json());
 *   return new Response(stream, { headers: CHAT_HEADERS });
 * }
 * ```
 */
export async function chatRequest(
  resources: ChatResources,
  assistant_id: string,
  body: unknown,
  settings: ChatSettings = {},
): Promise<ChatTurn> {
  const chat = parseChatRequest(body);
  const members = readRunMembers(assistant_id, chat);
  const { run, frames } = await startTurn(resources, chat, { ...settings, assistant_id, members });
  const encoder = new TextEncoder();
  const stream = new ReadableStream<Uint8Array>(
    {
      /**
       * Enqueues the next chunks as server-sent events, and closes after the last. Throws if the frames stop before.
       */
      async pull(controller) {
        const ready = await frames.next();
        if (ready.length === 0) throw incompleteStreamError();
        const text = ready.map(({ id, data }) => `${id === null ? "" : `id: ${id}\n`}data: ${data}\n\n`);
        controller.enqueue(encoder.encode(text.join("")));
        if (ready.at(-1)?.last) controller.close();
      },
      cancel: frames.leave,
    },
    { highWaterMark: 0 },
  );
  return { run, stream };
}
