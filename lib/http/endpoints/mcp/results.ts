/** Converts the output of an agent to the result of a tool. */

import { describeInterrupt } from "../../../executor/approvals.ts";
import type { Interrupt } from "../../../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import { findError, isNonEmptyString, toContentBlocks } from "../messages.ts";

/** Block types of MCP, which agents may return as they are. */
const MCP_BLOCK_TYPES: ReadonlySet<Json | undefined> = new Set(["resource", "resource_link"]);

/**
 * Converts a content block to content of MCP; a block of MCP stays as it is. Returns null for an empty text, a file
 * without data and URL, and other blocks, such as reasoning and tool calls.
 */
function toMcpContent(block: JsonObject): JsonObject | null {
  const { type, mime_type, data, url, text } = block;
  if (MCP_BLOCK_TYPES.has(type)) return block;
  if (type === "text") return isNonEmptyString(text) ? { type: "text", text } : null;
  if (!["image", "audio", "video", "file"].includes(String(type))) return null;
  const mimeType = isNonEmptyString(mime_type) ? mime_type : "application/octet-stream";
  if (isNonEmptyString(data)) {
    if (type === "image" || type === "audio") return { type, data, mimeType };
    return { type: "resource", resource: { uri: `file:///${type}`, mimeType, blob: data } };
  }
  if (!isNonEmptyString(url)) return null;
  return { type: "resource_link", uri: url, name: url.split("/").at(-1) || url, mimeType };
}

/** Returns the content of the last AI message that has any after the last human message; an empty list without one. */
function findLastReply(messages: Json | undefined): JsonObject[] {
  const list = Array.isArray(messages) ? messages.filter(isObject) : [];
  const turn = list.slice(list.findLastIndex(({ type }) => type === "human") + 1);
  for (const message of turn.filter(({ type }) => type === "ai").reverse()) {
    const content = toContentBlocks(message)
      .map(toMcpContent)
      .filter((block) => block !== null);
    if (content.length > 0) return content;
  }
  return [];
}

/**
 * Converts the final values to a result: the last reply as content, or the output as JSON without one, and the members of the
 * output other than `messages` as structured content, if there are any. The output is the values without `__interrupt__`, limited
 * to `members`; null means all. The reply may come from `messages` that are no member of the output.
 */
function toToolResult(values: Json, members: ReadonlySet<string> | null): JsonObject {
  const { __interrupt__: _, ...state } = isObject(values) ? values : {};
  const output = Object.fromEntries(Object.entries(state).filter(([name]) => members?.has(name) ?? true));
  const { messages, ...structured } = output;
  const content = findLastReply(messages ?? state.messages);
  const text = JSON.stringify(isObject(values) ? output : values);
  return {
    content: content.length > 0 ? content : [{ type: "text", text }],
    ...(Object.keys(structured).length > 0 ? { structuredContent: structured } : {}),
  };
}

export const toToolError = (text: string): JsonObject => ({ content: [{ type: "text", text }], isError: true });

/** Converts the result of a run without pending interrupts. A failed or cancelled run gives a tool error. */
export function toRunResult(
  result: Json,
  { status }: Pick<Run, "status">,
  members: ReadonlySet<string> | null,
): JsonObject {
  const error = findError(result);
  if (error) return toToolError(error.message);
  if (status === "interrupted") return toToolError("The call was cancelled");
  return toToolResult(result, members);
}

/** An interrupted call, and who may answer it. */
export interface WaitingToolCall {
  readonly tool: string;
  readonly thread_id: string;
  /** The names of the two arguments that every tool has. */
  readonly names: { readonly thread_id: string; readonly resume: string };
  readonly model_may_answer: boolean;
  /** The URL at which a person can answer; null if there is none. */
  readonly answer_url: string | null;
}

/**
 * Creates a tool error for an interrupted call whose client cannot elicit input: the interrupts, and how the model or a person
 * can continue.
 */
export function createWaitingResult(toolCall: WaitingToolCall, interrupts: readonly Interrupt[]): JsonObject {
  const { tool, thread_id, names, answer_url } = toolCall;
  const questionLines = interrupts.map(({ id, value }) => {
    const url = isObject(value) && isNonEmptyString(value.url) ? ` ${value.url}` : "";
    return `${interrupts.length > 1 ? `${id}: ` : ""}${describeInterrupt(value)}${url}`;
  });
  const prompt = `The agent asks: ${questionLines.join("\n")}`;
  if (toolCall.model_may_answer) {
    const resume = interrupts.length > 1 ? `{${interrupts.map(({ id }) => `"${id}": …`).join(", ")}}` : "…";
    return toToolError(
      `${prompt} To answer, call ${tool} again with {"${names.thread_id}": "${thread_id}", "${names.resume}": ${resume}}.`,
    );
  }
  const location = answer_url === null ? "" : `, at ${answer_url}`;
  return toToolError(
    `${prompt} Only a person can answer${location}. Tell your user that the conversation ${thread_id} waits for an answer. ` +
      `Afterwards, call ${tool} again with the same arguments and "${names.thread_id}": "${thread_id}" to get the result.`,
  );
}
