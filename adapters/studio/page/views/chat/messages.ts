/** Reads messages from the state of a thread. */
import { isObject } from "../../parts/json.tsx";

export interface ToolCall {
  readonly id?: string;
  readonly name: string;
  readonly args: unknown;
}

export interface ContentBlock {
  readonly type: string;
  readonly [key: string]: unknown;
}

export interface ChatMessage {
  readonly type: string;
  readonly id?: string;
  readonly name?: string;
  readonly content: string | readonly (ContentBlock | string)[];
  readonly tool_calls?: readonly ToolCall[];
  readonly tool_call_id?: string;
  readonly status?: string;
  readonly additional_kwargs?: Readonly<Record<string, unknown>>;
  readonly response_metadata?: Readonly<Record<string, unknown>>;
  readonly usage_metadata?: {
    readonly input_tokens?: number;
    readonly output_tokens?: number;
    readonly total_tokens?: number;
  };
}

const ROLES: Readonly<Record<string, string>> = { user: "human", assistant: "ai" };

const isMessage = (value: unknown): value is Readonly<Record<string, unknown>> =>
  isObject(value) && "content" in value && typeof (value["type"] ?? value["role"]) === "string";

/** Returns the content as text or blocks. Drops parts that are neither; other values become text. */
function toContent(content: unknown): ChatMessage["content"] {
  if (typeof content === "string") return content;
  if (Array.isArray(content))
    return content.filter((part): part is string | ContentBlock => typeof part === "string" || isObject(part));
  return isObject(content) ? JSON.stringify(content) : String(content ?? "");
}

/**
 * Returns a copy of a stored message that any code may have written: the type in its short form (`human`, `ai`), from
 * `role` if it has no type, the id as text, the content as text or blocks, and only tool calls that are objects.
 */
function toMessage(message: Readonly<Record<string, unknown>>): ChatMessage {
  const { type, role, content, tool_calls, id, ...otherFields } = message;
  const short = String(type ?? role)
    .replace(/MessageChunk$/, "")
    .toLowerCase();
  const calls = Array.isArray(tool_calls) ? tool_calls.filter(isObject) : [];
  return {
    ...otherFields,
    ...(id === null || id === undefined ? {} : { id: String(id) }),
    type: ROLES[short] ?? short,
    content: toContent(content),
    ...(calls.length > 0 ? { tool_calls: calls as unknown as readonly ToolCall[] } : {}),
  };
}

/**
 * Returns member `messages` of a state as messages with valid parts, without elements that are null. Null if it is no
 * list, or if an element is no message.
 */
export function findMessages(values: unknown): readonly ChatMessage[] | null {
  const messages = isObject(values) ? values["messages"] : null;
  const present = Array.isArray(messages) ? messages.filter((message) => message !== null) : null;
  return present?.every(isMessage) ? present.map(toMessage) : null;
}

/**
 * Separates the results of tools from the other messages, by the ids of their calls, because the card of a call shows
 * its result. A result whose call is not among the messages stays a message.
 */
export function separateResults(messages: readonly ChatMessage[]): {
  readonly withoutResults: readonly ChatMessage[];
  readonly results: ReadonlyMap<string, ChatMessage>;
} {
  const callIds = new Set(messages.flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }) => id)));
  const isResult = ({ type, tool_call_id }: ChatMessage): boolean => type === "tool" && callIds.has(tool_call_id);
  return {
    withoutResults: messages.filter((message) => !isResult(message)),
    results: new Map(messages.filter(isResult).map((message) => [message.tool_call_id ?? "", message])),
  };
}

/** Returns the content of a message as blocks. A text, also one in a list, becomes a block of type `text`. */
const getBlocks = ({ content }: ChatMessage): readonly ContentBlock[] =>
  (typeof content === "string" ? [content] : content).map((part) =>
    typeof part === "string" ? { type: "text", text: part } : part,
  );

/** Returns the texts of a message's content without a separator; blocks of other types are ignored. */
export const getText = (message: ChatMessage): string =>
  getBlocks(message)
    .filter(({ type }) => type === "text")
    .map(({ text }) => String(text ?? ""))
    .join("");

/**
 * Returns the reasoning of a model, separated by empty lines: first `additional_kwargs.reasoning_content`, then the
 * text of each content block of type `reasoning` or `thinking`. An empty text if there is none.
 */
export function getReasoning(message: ChatMessage): string {
  const { reasoning_content } = (message.additional_kwargs ?? {}) as { readonly reasoning_content?: unknown };
  const inBlocks = getBlocks(message)
    .filter(({ type }) => type === "reasoning" || type === "thinking")
    .map((block) => String(block["reasoning"] ?? block["thinking"] ?? block["text"] ?? ""));
  return [typeof reasoning_content === "string" ? reasoning_content : "", ...inBlocks].filter(Boolean).join("\n\n");
}

/** Returns the images and files of a message. */
export const getAttachments = (message: ChatMessage): readonly ContentBlock[] =>
  getBlocks(message).filter(({ type }) => /^(?:image|image_url|file|input_file|audio|video|document)$/.test(type));

/**
 * Returns the data URL of an image block, made from its bytes if it has those; PNG without a type. Null for all other
 * blocks and addresses, because another host would learn who reads.
 */
export function findImageUrl(block: ContentBlock): string | null {
  const { image_url, url, data, mime_type, source } = block as Record<string, unknown>;
  const nested = image_url as string | { readonly url?: string } | undefined;
  const inner = source as { readonly data?: string; readonly media_type?: string } | undefined;
  const address = typeof nested === "string" ? nested : (nested?.url ?? (url as string | undefined));
  if (typeof address === "string") return /^data:image\//.test(address) ? address : null;
  const bytes = typeof data === "string" ? data : inner?.data;
  const type = (mime_type as string | undefined) ?? inner?.media_type ?? "image/png";
  return bytes && block.type === "image" ? `data:${type};base64,${bytes}` : null;
}
