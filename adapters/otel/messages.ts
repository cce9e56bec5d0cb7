/** The content of spans in the form of the conventions: messages with parts. Only for exporters that send content. */
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import type { SpanValue } from "../../lib/storage/spans.ts";

/** The roles of the conventions, by the types of LangChain's messages and the roles of others. */
const ROLES: ReadonlyMap<string, string> = new Map([
  ["human", "user"],
  ["ai", "assistant"],
  ["function", "tool"],
  ["developer", "system"],
]);

const listObjects = (value: Json | undefined): readonly JsonObject[] =>
  Array.isArray(value) ? value.filter(isObject) : [];

const readText = (value: Json | undefined): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;

/** Returns the copied value of a span; undefined for a reference, or if nothing was copied. */
export const readCopy = (value: SpanValue | undefined): Json | undefined =>
  value && "value" in value ? value.value : undefined;

/** Returns a tool call, which LangChain, the AI SDK and OpenAI name differently; null for other objects. */
function toToolCall(call: JsonObject): JsonObject | null {
  const { id, toolCallId, name, toolName, args, input, arguments: parameters } = call;
  const calledName = readText(name) ?? readText(toolName);
  if (calledName === undefined) return null;
  return {
    type: "tool_call",
    id: id ?? toolCallId ?? null,
    name: calledName,
    arguments: args ?? input ?? parameters ?? null,
  };
}

/**
 * Returns a block of a message as a part; what is no object as text. Blocks that the conventions do not name keep their members.
 */
function toPart(block: Json): JsonObject {
  if (!isObject(block)) return { type: "text", content: typeof block === "string" ? block : JSON.stringify(block) };
  const { type, text, reasoning, thinking } = block;
  if (type === "text") return { type: "text", content: text ?? "" };
  if (type === "reasoning" || type === "thinking")
    return { type: "reasoning", content: text ?? reasoning ?? thinking ?? "" };
  if (type === "tool-call" || type === "tool_call" || type === "tool_use") return toToolCall(block) ?? block;
  if (type === "tool-result")
    return { type: "tool_call_response", id: block["toolCallId"] ?? null, response: block["output"] ?? null };
  return typeof type === "string" ? block : { ...block, type: "unknown" };
}

/** Returns the content of a message as parts; none if it is absent, null or empty. */
const toParts = (content: Json | undefined): JsonObject[] => {
  if (content === undefined || content === null || content === "") return [];
  return Array.isArray(content) ? content.map(toPart) : [toPart(content)];
};

/**
 * Returns a message with its role, by its `role`, else its `type`, else `user`, and its parts. Tool calls follow the content, and
 * are not repeated. A message of a tool is one part with its response.
 */
function toMessage(message: JsonObject): JsonObject {
  const { role, type, content, tool_calls, tool_call_id } = message;
  const sentRole = readText(role) ?? readText(type) ?? "user";
  const chatRole = ROLES.get(sentRole) ?? sentRole;
  if (chatRole === "tool" && tool_call_id !== undefined)
    return { role: chatRole, parts: [{ type: "tool_call_response", id: tool_call_id, response: content ?? null }] };
  const calls = listObjects(tool_calls).map(toToolCall).filter(isObject);
  return { role: chatRole, parts: [...toParts(content).filter((part) => !isRepeatedCall(part, calls)), ...calls] };
}

/** Returns true for a block that says what `tool_calls` says, as those of Anthropic's messages. */
const isRepeatedCall = (part: JsonObject, calls: readonly JsonObject[]): boolean =>
  part["type"] === "tool_call" && calls.some(({ id }) => id === part["id"]);

/**
 * Returns the messages in the input of a model: a list of messages itself, or those of its member `messages`. A text, or any
 * other list as its content, is one message of the user. Empty for other values.
 */
function listMessages(value: Json): readonly JsonObject[] {
  if (typeof value === "string") return [{ role: "user", content: value }];
  if (Array.isArray(value)) {
    if (value.length > 0 && value.every((item) => isObject(item) && (item["role"] ?? item["content"]) !== undefined))
      return listObjects(value);
    return value.length > 0 ? [{ role: "user", content: [...value] }] : [];
  }
  return isObject(value) && value["messages"] !== undefined ? listMessages(value["messages"]) : [];
}

/** The input of a model call: instructions that precede the conversation, and its messages. */
export interface ModelInput {
  readonly instructions: readonly JsonObject[];
  readonly messages: readonly JsonObject[];
}

/** Returns the input of a model call. Its instructions are `instructions`, else `system`, then the leading system messages. */
export function toModelInput(value: Json): ModelInput {
  const messages = listMessages(value).map(toMessage);
  const firstOther = messages.findIndex(({ role }) => role !== "system");
  const count = firstOther < 0 ? messages.length : firstOther;
  const own = isObject(value) ? toParts(value["instructions"] ?? value["system"]) : [];
  const leading = messages.slice(0, count).flatMap(({ parts }) => listObjects(parts));
  return { instructions: [...own, ...leading], messages: messages.slice(count) };
}

/**
 * Returns the output of a model call as messages of the assistant. Each has its own finish reason, else the first one, else
 * `stop`. A list of blocks without `content`, as of the AI SDK, is one message.
 */
export function toModelOutput(value: Json, finish_reasons: readonly string[] = []): readonly JsonObject[] {
  const list = Array.isArray(value) ? value : [value];
  // The content of one message, as the AI SDK returns it.
  const isContent = list.length > 0 && list.every((item) => isObject(item) && item["content"] === undefined);
  const messages = isContent ? [{ role: "assistant", content: list }] : list;
  return messages.map((message, index) => {
    const { parts } = isObject(message) ? toMessage(message) : toMessage({ content: message });
    return {
      role: "assistant",
      parts: parts ?? [],
      finish_reason: finish_reasons[index] ?? finish_reasons[0] ?? "stop",
    };
  });
}
