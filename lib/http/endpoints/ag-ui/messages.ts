/** Messages of AG-UI, made from the messages of a state. */
import { messagesOf } from "../../../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { contentText } from "../states.ts";

/** The messages of a state, as `MESSAGES_SNAPSHOT` has them. */
export const shownMessages = (values: JsonObject): JsonObject[] =>
  messagesOf(values).flatMap((message) => (isObject(message) && typeof message.id === "string" ? shown(message) : []));

function shown({ id = null, type, content = "", name, tool_calls, tool_call_id, status }: JsonObject): JsonObject[] {
  const named = typeof name === "string" ? { name } : {};
  switch (type) {
    case "human":
      return [{ id, role: "user", content: userContent(content), ...named } as JsonObject];
    case "system":
      return [{ id, role: "system", content: contentText(content), ...named } as JsonObject];
    case "tool": {
      const text = contentText(content);
      const failed = status === "error" ? { error: text } : {};
      if (typeof tool_call_id !== "string") return [];
      return [{ id, role: "tool", content: text, toolCallId: tool_call_id, ...failed } as JsonObject];
    }
    case "ai": {
      const calls = (Array.isArray(tool_calls) ? tool_calls : []).filter(isObject).map((call, index) => ({
        id: typeof call.id === "string" && call.id !== "" ? call.id : `${id}:${index}`,
        type: "function",
        function: { name: String(call.name), arguments: JSON.stringify(call.args ?? {}) },
      }));
      const text = textOf(content);
      const said = text === "" && calls.length > 0 ? {} : { content: text };
      return [
        { id, role: "assistant", ...said, ...(calls.length > 0 ? { toolCalls: calls } : {}), ...named } as JsonObject,
      ];
    }
    default:
      return [];
  }
}

/** The text of an answer, without reasoning and tool calls. */
const textOf = (content: Json): string =>
  typeof content === "string"
    ? content
    : contentText((Array.isArray(content) ? content : []).filter((block) => isObject(block) && block.type === "text"));

/** Text, or parts if the message has files. */
function userContent(content: Json): Json {
  const blocks = Array.isArray(content) ? content.filter(isObject) : [];
  if (blocks.every(({ type }) => type === "text")) return contentText(content);
  return blocks.flatMap((block): JsonObject[] => {
    if (block.type === "text") return [{ type: "text", text: contentText([block]) }];
    const { type, mime_type, data, url } = block;
    const kind = type === "file" ? "document" : String(type);
    if (typeof data === "string")
      return [{ type: kind, source: { type: "data", value: data, mimeType: mime_type ?? "" } }];
    const mime: JsonObject = typeof mime_type === "string" ? { mimeType: mime_type } : {};
    return typeof url === "string" ? [{ type: kind, source: { type: "url", value: url, ...mime } }] : [];
  });
}
