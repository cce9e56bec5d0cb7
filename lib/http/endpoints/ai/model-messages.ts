/** Converts messages of a thread to input of the AI SDK's models. */
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { toContentText } from "../states.ts";
import { toFileChunk } from "./chunk-parts.ts";

/** A text of a message. */
export interface TextPart {
  type: "text";
  text: string;
}
/** A file of a user message. */
export interface FilePart {
  type: "file";
  data: string;
  mediaType: string;
}
/** A tool call of an assistant message. */
export interface ToolCallPart {
  type: "tool-call";
  toolCallId: string;
  toolName: string;
  input: unknown;
}
/** The result of a tool call. */
export interface ToolResultPart {
  type: "tool-result";
  toolCallId: string;
  toolName: string;
  output: { type: "text"; value: string } | { type: "error-text"; value: string };
}

/** A `ModelMessage` of the AI SDK. */
export type ModelMessage =
  | { role: "system"; content: string }
  | { role: "user"; content: string | (TextPart | FilePart)[] }
  | { role: "assistant"; content: string | (TextPart | ToolCallPart)[] }
  | { role: "tool"; content: ToolResultPart[] };

/**
 * Converts the messages of a thread for `streamText` and `generateText`, with tool calls and their results. Omits tool calls without a
 * result, because models refuse them.
 *
 * @example
 * ```ts
 * import { streamText } from "ai";
 * import type { FunctionJob } from "greenroom";
 * import { toModelMessages } from "greenroom/ai";
 *
 * const agent = ({ messages, signal }: FunctionJob) =>
 *   streamText({ model, messages: toModelMessages(messages), abortSignal: signal });
 * ```
 */
export function toModelMessages(messages: readonly JsonObject[]): ModelMessage[] {
  const names = new Map<Json, string>();
  const answeredCallIds = new Set(messages.map(({ tool_call_id = null }) => tool_call_id));
  return messages.flatMap((message): ModelMessage[] => {
    const { type, content = "", tool_calls, tool_call_id = null } = message;
    switch (type) {
      case "system":
        return [{ role: "system", content: toContentText(content) }];
      case "human":
        return [{ role: "user", content: toUserContent(content) }];
      case "ai": {
        const calls = toToolCallParts(tool_calls).filter(({ toolCallId }) => answeredCallIds.has(toolCallId));
        for (const { toolCallId, toolName } of calls) names.set(toolCallId, toolName);
        return createAssistantMessages(toContentText(content), calls);
      }
      case "tool":
        return toToolMessages(message, names.get(tool_call_id));
      default:
        return [];
    }
  });
}

/** Converts tool calls. Leaves out those without an id. */
function toToolCallParts(tool_calls: Json | undefined): ToolCallPart[] {
  const calls = (Array.isArray(tool_calls) ? tool_calls : []).filter(isObject);
  return calls.flatMap(({ id, name, args = {} }): ToolCallPart[] =>
    typeof id === "string" ? [{ type: "tool-call", toolCallId: id, toolName: String(name), input: args }] : [],
  );
}

/** Returns one message with the text and the tool calls; none if both are empty. */
function createAssistantMessages(text: string, calls: ToolCallPart[]): ModelMessage[] {
  if (calls.length > 0)
    return [{ role: "assistant", content: text === "" ? calls : [{ type: "text", text }, ...calls] }];
  return text === "" ? [] : [{ role: "assistant", content: text }];
}

/**
 * Returns one tool message with the result of a call, as an error text if it failed. Returns an empty list for the
 * result of a tool call that no message has.
 */
function toToolMessages(
  { content = "", tool_call_id, status }: JsonObject,
  toolName: string | undefined,
): ModelMessage[] {
  if (typeof tool_call_id !== "string" || toolName === undefined) return [];
  const kind = status === "error" ? "error-text" : "text";
  const output = { type: kind, value: toContentText(content) } as ToolResultPart["output"];
  return [{ role: "tool", content: [{ type: "tool-result", toolCallId: tool_call_id, toolName, output }] }];
}

/**
 * Returns the content as text if all of its blocks are text, else as parts. Blocks that are neither text nor a file are dropped.
 */
function toUserContent(content: Json): string | (TextPart | FilePart)[] {
  const blocks = Array.isArray(content) ? content.filter(isObject) : [];
  if (blocks.every(({ type }) => type === "text")) return toContentText(content);
  return blocks.flatMap((block): (TextPart | FilePart)[] => {
    if (block.type === "text") return [{ type: "text", text: toContentText([block]) }];
    const file = toFileChunk(block);
    return file ? [{ type: "file", data: String(file.url), mediaType: String(file.mediaType) }] : [];
  });
}
