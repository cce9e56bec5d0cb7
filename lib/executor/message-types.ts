/**
 * The types of messages in the wire form of LangChain. They are type aliases and no interfaces, so that each message is
 * a `JsonObject`.
 */
import type { Json, JsonObject } from "../json.ts";

/** A content block with text. */
export type TextBlock = { type: "text"; text: string };
/** A content block with the URL of an image, also a `data:` URL. */
export type ImageBlock = {
  type: "image_url";
  image_url: string | { url: string; detail?: "auto" | "low" | "high" };
};
/** A block of the content of a message. */
export type ContentBlock = TextBlock | ImageBlock;

/** The members of each message. */
export type MessageMembers = {
  content: string | ContentBlock[];
  id?: string;
  name?: string;
  additional_kwargs?: JsonObject;
  response_metadata?: JsonObject;
};

/** A call of a tool, which a model requests in an `ai` message. */
export type ToolCall = { name: string; args: JsonObject; id?: string; type?: "tool_call" };
/** A call of a tool whose arguments are not JSON. */
export type InvalidToolCall = {
  name?: string;
  args?: string;
  id?: string;
  error?: string;
  type?: "invalid_tool_call";
};
/** The tokens of a model call. */
export type UsageMetadata = { input_tokens: number; output_tokens: number; total_tokens: number };

/** A message of a person. */
export type HumanMessage = MessageMembers & { type: "human" };
/** A message of a model or an agent. */
export type AIMessage = MessageMembers & {
  type: "ai";
  tool_calls?: ToolCall[];
  invalid_tool_calls?: InvalidToolCall[];
  usage_metadata?: UsageMetadata;
};
/** An instruction to the model. */
export type SystemMessage = MessageMembers & { type: "system" };
/** The result of a tool call. */
export type ToolMessage = MessageMembers & {
  type: "tool";
  tool_call_id: string;
  status?: "error" | "success";
  artifact?: Json;
};
/** The removal of the message with this id. */
export type RemoveMessage = MessageMembers & { type: "remove"; id: string };

/**
 * A stored message, in the wire form of LangChain. Narrow it by `type`.
 *
 * @example
 * ```ts
 * import type { Message } from "greenroom";
 *
 * const countCalls = (message: Message): number => (message.type === "ai" ? (message.tool_calls ?? []).length : 0);
 * ```
 */
export type Message = HumanMessage | AIMessage | SystemMessage | ToolMessage | RemoveMessage;

/** A message with a role, as OpenAI's API writes it. */
export type RoleMessage = {
  role: "user" | "human" | "assistant" | "ai" | "system" | "developer";
  content: string | ContentBlock[];
  id?: string;
  name?: string;
};
/** The result of a tool call with a role. */
export type ToolRoleMessage = { role: "tool"; content: string | ContentBlock[]; tool_call_id: string; id?: string };

/** A message that a client sends or an agent yields: a text, a message, or `{ role, content }`. */
export type MessageLike = string | Message | RoleMessage | ToolRoleMessage;
/** The `messages` of an input or an update. They are merged into those of the thread by id. */
export type MessagesInput = { messages?: MessageLike | readonly MessageLike[] };

/** A part of a message, in frames of stream mode `messages-tuple`. */
export type MessageChunk = {
  type: "AIMessageChunk";
  content: string;
  id: string;
  tool_call_chunks?: { name?: string; args?: string; id?: string; index?: number }[];
};
