/** Converts the messages of a state to messages of AG-UI. */
import { getMessages } from "../../../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { toContentText } from "../states.ts";

/**
 * Returns the messages of a state in the form of `MESSAGES_SNAPSHOT`. Omits those without an id and those that AG-UI
 * does not have.
 */
export const toAguiMessages = (values: JsonObject): JsonObject[] =>
  getMessages(values).flatMap((message) =>
    isObject(message) && typeof message.id === "string" ? toAguiMessage(message) : [],
  );

/**
 * Returns the converted message in a list. The list is empty for other types, and for tool messages without a call id.
 * An AI message loses reasoning, and a tool call without an id gets one.
 */
function toAguiMessage({
  id = null,
  type,
  content = "",
  name,
  tool_calls,
  tool_call_id,
  status,
}: JsonObject): JsonObject[] {
  const nameMember = typeof name === "string" ? { name } : {};
  switch (type) {
    case "human":
      return [{ id, role: "user", content: toUserContent(content), ...nameMember } as JsonObject];
    case "system":
      return [{ id, role: "system", content: toContentText(content), ...nameMember } as JsonObject];
    case "tool": {
      const text = toContentText(content);
      const errorMember = status === "error" ? { error: text } : {};
      if (typeof tool_call_id !== "string") return [];
      return [{ id, role: "tool", content: text, toolCallId: tool_call_id, ...errorMember } as JsonObject];
    }
    case "ai": {
      const calls = (Array.isArray(tool_calls) ? tool_calls : []).filter(isObject).map((call, index) => ({
        id: typeof call.id === "string" && call.id !== "" ? call.id : `${id}:${index}`,
        type: "function",
        function: { name: String(call.name), arguments: JSON.stringify(call.args ?? {}) },
      }));
      const text = toAnswerText(content);
      const contentMember = text === "" && calls.length > 0 ? {} : { content: text };
      return [
        {
          id,
          role: "assistant",
          ...contentMember,
          ...(calls.length > 0 ? { toolCalls: calls } : {}),
          ...nameMember,
        } as JsonObject,
      ];
    }
    default:
      return [];
  }
}

/** Returns the text of an AI message without reasoning and tool calls. */
const toAnswerText = (content: Json): string =>
  typeof content === "string"
    ? content
    : toContentText(
        (Array.isArray(content) ? content : []).filter((block) => isObject(block) && block.type === "text"),
      );

/** Returns a text if all blocks are text, else a list of parts. Omits files without data and URL. */
function toUserContent(content: Json): Json {
  const blocks = Array.isArray(content) ? content.filter(isObject) : [];
  if (blocks.every(({ type }) => type === "text")) return toContentText(content);
  return blocks.flatMap((block): JsonObject[] => {
    if (block.type === "text") return [{ type: "text", text: toContentText([block]) }];
    const { type, mime_type, data, url } = block;
    const kind = type === "file" ? "document" : String(type);
    if (typeof data === "string")
      return [{ type: kind, source: { type: "data", value: data, mimeType: mime_type ?? "" } }];
    const mimeMember: JsonObject = typeof mime_type === "string" ? { mimeType: mime_type } : {};
    return typeof url === "string" ? [{ type: kind, source: { type: "url", value: url, ...mimeMember } }] : [];
  });
}
