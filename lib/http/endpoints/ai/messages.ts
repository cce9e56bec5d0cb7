/** Builds UI messages of the AI SDK from the state of a thread and the answers of its runs. */
import { getMessages } from "../../../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { RunEventMapper } from "../run-events.ts";
import { toContentText } from "../states.ts";
import { type AiVersion, type PendingInterrupt, toFileChunk, type UIMessageChunk } from "./chunk-parts.ts";
import { type AnsweredInterrupt, UIMessageMapper } from "./chunks.ts";
import { buildParts } from "./message-parts.ts";

/** A message as the AI SDK stores it. */
export interface UIMessage {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly metadata?: Json;
  readonly parts: readonly JsonObject[];
}

/** The position at which a run resumed: after the message `after` of the state. */
export interface AnswerPoint {
  readonly message_id: string;
  /** Null: the thread had no messages. */
  readonly after: string | null;
  /** All interrupts that were pending. */
  readonly questions: readonly AnsweredInterrupt[];
  /** The tool calls of that message at the interrupt: middleware removes those that a rejection skips. */
  readonly calls?: Json;
  /** The message whose text was the resume value. The graph gets only the value, so the state does not have the message. */
  readonly user?: UIMessage;
}

/** The input of `toUIMessages` beside the state. */
export interface MessageOptions {
  /** The answers in the order of their runs. */
  readonly answers?: readonly AnswerPoint[];
  /** True if a run of the thread is active: tool calls without an output are not ended. */
  readonly active?: boolean;
  /** Metadata by message id. */
  readonly metadata?: ReadonlyMap<string, JsonObject>;
}

/** A message of the state, and the page's message that responds to it. */
export interface ChatTurnMessages {
  readonly user: UIMessage | null;
  readonly message_id: string;
  readonly chunks: UIMessageChunk[];
  readonly mapper: UIMessageMapper;
}

/** Returns the id of the message that responds to a user message: the same for every run of the turn. */
export const createReplyId = (user_id: string): string => `reply-${user_id}`;

const isHumanMessage = (message: JsonObject): boolean => message.type === "human";

/**
 * Returns the turns of a list of messages, with the answers after each; `interrupts` are pending after it. Ignores messages
 * without an id. The last turn stays open if a run is active.
 */
export function buildTurns(
  messages: readonly Json[],
  interrupts: readonly PendingInterrupt[],
  { answers = [], active = false, version = 7 }: MessageOptions & { readonly version?: AiVersion },
): ChatTurnMessages[] {
  const builder = new TurnBuilder(answers, version);
  builder.addAnswers(null);
  for (const message of messages) {
    if (!isObject(message) || typeof message.id !== "string") continue;
    builder.addMessage(message, message.id);
    builder.addAnswers(message.id);
  }
  builder.end(interrupts, active);
  return builder.turns;
}

class TurnBuilder {
  readonly turns: ChatTurnMessages[] = [];
  readonly #answers: readonly AnswerPoint[];
  readonly #version: AiVersion;
  #events = new RunEventMapper();

  constructor(answers: readonly AnswerPoint[], version: AiVersion) {
    this.#answers = answers;
    this.#version = version;
  }

  /**
   * Adds a message: one of the user starts a turn, AI and tool messages add chunks to the last turn, or to a new one if
   * there is none. Takes the tool calls from an answer after this message if that has stored them. Ignores other types.
   */
  addMessage(message: JsonObject, id: string): void {
    if (isHumanMessage(message)) this.#startTurn(createReplyId(id), toUserMessage(message));
    if (message.type !== "ai" && message.type !== "tool") return;
    const turn = this.turns.at(-1) ?? this.#startTurn(createReplyId(id), null);
    const calls = this.#answers.findLast(({ after }) => after === id)?.calls;
    const originalMessage = calls === undefined ? message : { ...message, tool_calls: calls };
    for (const event of this.#events.mapWholeMessage(originalMessage)) turn.chunks.push(...turn.mapper.map(event));
  }

  /**
   * Adds the answers that runs got after this message; null: before the first one. An answer that was a text of the user starts a
   * turn.
   */
  addAnswers(after: string | null): void {
    for (const point of this.#answers.filter((answer) => answer.after === after)) {
      const turn = this.turns.at(-1) ?? this.#startTurn(point.message_id, null);
      addInterrupts(turn, point.questions);
      turn.chunks.push(...turn.mapper.mapAnswers(point.questions));
      if (!point.user) continue;
      const next = this.#startTurn(point.message_id, point.user);
      next.chunks.push(...next.mapper.mapAnswers(point.questions));
    }
  }

  /**
   * Adds the pending interrupts to the last turn, or to a new one if there is none. Closes the last message, unless a
   * run is active.
   */
  end(interrupts: readonly PendingInterrupt[], isActive: boolean): void {
    const last =
      this.turns.at(-1) ?? (interrupts.length > 0 ? this.#startTurn(createReplyId("start"), null) : undefined);
    if (!last) return;
    addInterrupts(last, interrupts);
    if (!isActive) last.chunks.push(...last.mapper.close());
  }

  /** Closes the message of the last turn, and appends and returns a new turn with a mapper of its own. */
  #startTurn(message_id: string, user: UIMessage | null): ChatTurnMessages {
    const last = this.turns.at(-1);
    last?.chunks.push(...last.mapper.close());
    this.#events = new RunEventMapper();
    const turn = { user, message_id, chunks: [], mapper: new UIMessageMapper(this.#version) };
    this.turns.push(turn);
    return turn;
  }
}

/** Appends the chunks of the interrupts to the turn, and then closes its message. Does nothing without interrupts. */
function addInterrupts(turn: ChatTurnMessages, interrupts: readonly PendingInterrupt[]): void {
  for (const { id, value } of interrupts) {
    turn.chunks.push(...turn.mapper.map({ type: "interrupt", namespace: [], id, value }));
  }
  if (interrupts.length > 0) turn.chunks.push(...turn.mapper.close());
}

/**
 * Returns the messages of a thread for the first render of a page: those that `useChat` has after the stream of the last run.
 * `interrupts` are the pending ones of the state.
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
  interrupts: readonly PendingInterrupt[] = [],
  options: MessageOptions = {},
): UIMessage[] {
  const messages = isObject(state.values) ? getMessages(state.values) : [];
  return buildTurns(messages, interrupts, options).flatMap(({ user, message_id, chunks, mapper }) => {
    const runMetadata = options.metadata?.get(message_id);
    const metadata: JsonObject = { ...runMetadata };
    if (mapper.usage !== null) metadata.usage = mapper.usage;
    const reply: UIMessage[] =
      chunks.length > 0 || (runMetadata && options.active)
        ? [
            {
              id: message_id,
              role: "assistant",
              ...(Object.keys(metadata).length > 0 ? { metadata } : {}),
              parts: buildParts(chunks),
            },
          ]
        : [];
    return user ? [user, ...reply] : reply;
  });
}

/** Converts a human message of the state to a message of the page, with texts and files. Leaves out other blocks. */
function toUserMessage({ id, content = "", additional_kwargs }: JsonObject): UIMessage {
  const text: Json[] = typeof content === "string" ? [{ type: "text", text: content }] : [];
  const blocks = Array.isArray(content) ? content : text;
  const parts = blocks.filter(isObject).flatMap((block): JsonObject[] => {
    if (block.type === "text") return [{ type: "text", text: toContentText([block]) }];
    const file = toFileChunk(block);
    const { filename = null } = isObject(block.metadata ?? null) ? (block.metadata as JsonObject) : {};
    return file ? [{ ...file, ...(typeof filename === "string" ? { filename } : {}) }] : [];
  });
  const metadata = isObject(additional_kwargs) ? additional_kwargs.metadata : undefined;
  return { id: String(id), role: "user", ...(metadata === undefined ? {} : { metadata }), parts };
}
