/** UI messages of the AI SDK, made from the state of a thread and the answers that its runs have taken. */
import { messagesOf } from "../../../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { RunEventMapper } from "../run-events.ts";
import { contentText } from "../states.ts";
import { type AiVersion, fileChunk, type OpenInterrupt, type UIMessageChunk } from "./chunk-parts.ts";
import { type Answered, ChunkMapper } from "./chunks.ts";

/** A message as the AI SDK keeps it. */
export interface UIMessage {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly metadata?: Json;
  readonly parts: readonly JsonObject[];
}

/** Where a run took answers: after the message `after` of the state. */
export interface AnswerPoint {
  readonly message_id: string;
  /** Null: the thread had no messages. */
  readonly after: string | null;
  /** All that were open. */
  readonly questions: readonly Answered[];
  /** The calls of that message when it asked: middleware removes those that a rejection skips. */
  readonly calls?: Json;
  /** The message whose text is the answer. The graph gets it as the answer only, so the state does not have it. */
  readonly user?: UIMessage;
}

/** What `toUIMessages` knows beside the state. */
export interface MessageOptions {
  /** In the order of the runs. */
  readonly answers?: readonly AnswerPoint[];
  /** A run of the thread is active: calls without an output are not over. */
  readonly active?: boolean;
  /** By message id. */
  readonly metadata?: ReadonlyMap<string, JsonObject>;
}

/** A message of the state, and the message of the page that answers it. */
export interface Turn {
  readonly user: UIMessage | null;
  readonly message_id: string;
  readonly chunks: UIMessageChunk[];
  readonly mapper: ChunkMapper;
}

/** The id of the message that answers a message: the same for every run of the turn. */
export const replyId = (user_id: string): string => `reply-${user_id}`;

const isHuman = (message: JsonObject): boolean => message.type === "human";

/** The turns of a list of messages; `interrupts` are open after it. */
export function turnsOf(
  messages: readonly Json[],
  interrupts: readonly OpenInterrupt[],
  { answers = [], active = false, version = 7 }: MessageOptions & { readonly version?: AiVersion },
): Turn[] {
  const turns: Turn[] = [];
  let events = new RunEventMapper();

  function begin(message_id: string, user: UIMessage | null): Turn {
    const last = turns.at(-1);
    last?.chunks.push(...last.mapper.close());
    events = new RunEventMapper();
    const turn = { user, message_id, chunks: [], mapper: new ChunkMapper(version) };
    turns.push(turn);
    return turn;
  }

  function ask(turn: Turn, asked: readonly OpenInterrupt[]): void {
    for (const { id, value } of asked) {
      turn.chunks.push(...turn.mapper.take({ type: "question", namespace: [], id, value }));
    }
    if (asked.length > 0) turn.chunks.push(...turn.mapper.close());
  }

  function answered(after: string | null): void {
    for (const point of answers) {
      if (point.after !== after) continue;
      let turn = turns.at(-1) ?? begin(point.message_id, null);
      ask(turn, point.questions);
      if (point.user) {
        turn.chunks.push(...turn.mapper.answer(point.questions));
        turn = begin(point.message_id, point.user);
      }
      turn.chunks.push(...turn.mapper.answer(point.questions));
    }
  }

  answered(null);
  for (const message of messages) {
    if (!isObject(message) || typeof message.id !== "string") continue;
    if (isHuman(message)) begin(replyId(message.id), userMessage(message));
    else if (message.type === "ai" || message.type === "tool") {
      const turn = turns.at(-1) ?? begin(replyId(message.id), null);
      const calls = answers.findLast(({ after }) => after === message.id)?.calls;
      for (const event of events.whole(calls === undefined ? message : { ...message, tool_calls: calls }))
        turn.chunks.push(...turn.mapper.take(event));
    }
    answered(message.id);
  }
  const last = turns.at(-1) ?? (interrupts.length > 0 ? begin(replyId("start"), null) : undefined);
  if (last) {
    ask(last, interrupts);
    if (!active) last.chunks.push(...last.mapper.close());
  }
  return turns;
}

/**
 * The messages of a thread for the first render of a page: what `useChat` has after the stream of its last run. `interrupts`: the
 * open ones of the state.
 *
 * @example
 * ```ts
 * import { toUIMessages } from "greenroom/ai";
 *
 * const state = await service.threads.state(thread_id);
 * const messages = toUIMessages(state, state.interrupts);
 * ```
 */
export function toUIMessages(
  state: { readonly values: Json },
  interrupts: readonly OpenInterrupt[] = [],
  options: MessageOptions = {},
): UIMessage[] {
  const messages = isObject(state.values) ? messagesOf(state.values) : [];
  return turnsOf(messages, interrupts, options).flatMap(({ user, message_id, chunks, mapper }) => {
    const known = options.metadata?.get(message_id);
    const metadata: JsonObject = { ...known };
    if (mapper.usage !== null) metadata.usage = mapper.usage;
    const reply: UIMessage[] =
      chunks.length > 0 || (known && options.active)
        ? [
            {
              id: message_id,
              role: "assistant",
              ...(Object.keys(metadata).length > 0 ? { metadata } : {}),
              parts: partsOf(chunks),
            },
          ]
        : [];
    return user ? [user, ...reply] : reply;
  });
}

/** A human message of the state as a message of the page. */
export function userMessage({ id, content = "", additional_kwargs }: JsonObject): UIMessage {
  const text: Json[] = typeof content === "string" ? [{ type: "text", text: content }] : [];
  const blocks = Array.isArray(content) ? content : text;
  const parts = blocks.filter(isObject).flatMap((block): JsonObject[] => {
    if (block.type === "text") return [{ type: "text", text: contentText([block]) }];
    const file = fileChunk(block);
    const { filename = null } = isObject(block.metadata ?? null) ? (block.metadata as JsonObject) : {};
    return file ? [{ ...file, ...(typeof filename === "string" ? { filename } : {}) }] : [];
  });
  const metadata = isObject(additional_kwargs) ? additional_kwargs.metadata : undefined;
  return { id: String(id), role: "user", ...(metadata === undefined ? {} : { metadata }), parts };
}

/** The parts that the AI SDK makes of the chunks of whole messages. */
export function partsOf(chunks: readonly UIMessageChunk[]): JsonObject[] {
  const parts: JsonObject[] = [];
  const open = new Map<Json, JsonObject>();
  const calls = new Map<Json, JsonObject>();
  const approvals = new Map<Json, JsonObject>();

  function call(chunk: UIMessageChunk, more: JsonObject): void {
    const { toolCallId = null, toolName = null, dynamic } = chunk;
    const known = calls.get(toolCallId);
    if (known) Object.assign(known, more);
    else if (toolName !== null) {
      const type: JsonObject = dynamic === true ? { type: "dynamic-tool", toolName } : { type: `tool-${toolName}` };
      const part = { ...type, toolCallId, providerExecuted: true, ...more };
      calls.set(toolCallId, part);
      parts.push(part);
    }
  }

  for (const { type, ...chunk } of chunks) {
    const { id = null, delta = "", input = null, output = null, errorText = "" } = chunk;
    const named = { type, ...chunk };
    const text = /^(text|reasoning)-(start|delta|end)$/.exec(type);
    if (text?.[2] === "start") {
      const part: JsonObject = { type: text[1] as string, text: "", ...(text[1] === "reasoning" ? { id } : {}) };
      parts.push(part);
      open.set(id, part);
    } else if (text) {
      const part = open.get(id);
      if (part && text[2] === "delta") part.text = `${part.text}${delta}`;
      else if (part) part.state = "done";
    } else if (type === "start-step") parts.push({ type: "step-start" });
    else if (type === "tool-input-start") call(named, { state: "input-streaming" });
    else if (type === "tool-input-available") call(named, { state: "input-available", input });
    else if (type === "tool-input-error") call(named, { state: "output-error", input, errorText });
    else if (type === "tool-output-available") call(named, { state: "output-available", output });
    else if (type === "tool-output-error") call(named, { state: "output-error", errorText });
    else if (type === "tool-output-denied") call(named, { state: "output-denied" });
    else if (type === "tool-approval-request") {
      const { approvalId = null, reason, approvalDescriptor, isAutomatic } = chunk;
      const approval: JsonObject = {
        id: approvalId,
        ...(approvalDescriptor === undefined ? {} : { descriptor: approvalDescriptor }),
        ...(reason === undefined ? {} : { requestReason: reason }),
        ...(isAutomatic === true ? { isAutomatic } : {}),
      };
      approvals.set(approvalId, { approval, toolCallId: chunk.toolCallId ?? null });
      call(named, { state: "approval-requested", approval });
    } else if (type === "tool-approval-response") {
      const { approved = false, reason, approvalId = null } = chunk;
      const known = approvals.get(approvalId);
      if (!known) continue;
      const approval = { ...(known.approval as JsonObject), approved, ...(reason === undefined ? {} : { reason }) };
      call({ type, toolCallId: known.toolCallId ?? null }, { state: "approval-responded", approval });
    } else if (type.startsWith("data-") && chunk.transient !== true) {
      const known = parts.find((part) => id !== null && part.type === type && part.id === id);
      if (known) known.data = chunk.data ?? null;
      else parts.push(named);
    } else if (type === "file" || type === "source-url") parts.push(named);
  }
  return parts;
}
