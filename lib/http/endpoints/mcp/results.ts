/** What an agent has said, as the result of a tool. */

import type { Interrupt } from "../../../executor/contract.ts";
import { questionText } from "../../../executor/questions.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import { blocksOf, errorIn, isText } from "../messages.ts";

/** Blocks of MCP, which agents may send as they are. */
const OWN: ReadonlySet<Json | undefined> = new Set(["resource", "resource_link"]);

/** A block of a message as content of a result; null for reasoning, calls of tools and other blocks. */
function contentOf(block: JsonObject): JsonObject | null {
  const { type, mime_type, data, url, text } = block;
  if (OWN.has(type)) return block;
  if (type === "text") return isText(text) ? { type: "text", text } : null;
  if (!["image", "audio", "video", "file"].includes(String(type))) return null;
  const mimeType = isText(mime_type) ? mime_type : "application/octet-stream";
  if (isText(data)) {
    if (type === "image" || type === "audio") return { type, data, mimeType };
    return { type: "resource", resource: { uri: `file:///${type}`, mimeType, blob: data } };
  }
  if (!isText(url)) return null;
  return { type: "resource_link", uri: url, name: url.split("/").at(-1) || url, mimeType };
}

/** The last reply in a list of messages: an AI message with content after the last message of a person. */
function replyIn(messages: Json | undefined): JsonObject[] {
  const list = Array.isArray(messages) ? messages.filter(isObject) : [];
  const turn = list.slice(list.findLastIndex(({ type }) => type === "human") + 1);
  for (const message of turn.filter(({ type }) => type === "ai").reverse()) {
    const known = blocksOf(message)
      .map(contentOf)
      .filter((one) => one !== null);
    if (known.length > 0) return known;
  }
  return [];
}

/** The final values as a result. `members`: those of the output; null for all. */
function toolResult(values: Json, members: ReadonlySet<string> | null): JsonObject {
  const { __interrupt__: _, ...state } = isObject(values) ? values : {};
  const output = Object.fromEntries(Object.entries(state).filter(([name]) => members?.has(name) ?? true));
  const { messages, ...rest } = output;
  const content = replyIn(messages ?? state.messages);
  const text = JSON.stringify(isObject(values) ? output : values);
  return {
    content: content.length > 0 ? content : [{ type: "text", text }],
    ...(Object.keys(rest).length > 0 ? { structuredContent: rest } : {}),
  };
}

export const failure = (text: string): JsonObject => ({ content: [{ type: "text", text }], isError: true });

/** The result of a call that has ended without a question. */
export function endedResult(
  result: Json,
  { status }: Pick<Run, "status">,
  members: ReadonlySet<string> | null,
): JsonObject {
  const error = errorIn(result);
  if (error) return failure(error.message);
  if (status === "interrupted") return failure("The call was cancelled");
  return toolResult(result, members);
}

/** Where an interrupted call waits, and who may answer. */
export interface WaitingCall {
  readonly tool: string;
  readonly thread_id: string;
  /** The names of the two arguments of every tool. */
  readonly names: { readonly thread_id: string; readonly resume: string };
  readonly model_may_answer: boolean;
  /** The address at which a person can answer; null if the server does not know one. */
  readonly answer_url: string | null;
}

/** The result of an interrupted call whose client cannot ask its user: the interrupts, and how to continue. */
export function waitingResult(call: WaitingCall, open: readonly Interrupt[]): JsonObject {
  const { tool, thread_id, names, answer_url } = call;
  const questions = open.map(({ id, value }) => {
    const url = isObject(value) && isText(value.url) ? ` ${value.url}` : "";
    return `${open.length > 1 ? `${id}: ` : ""}${questionText(value)}${url}`;
  });
  const asks = `The agent asks: ${questions.join("\n")}`;
  if (call.model_may_answer) {
    const resume = open.length > 1 ? `{${open.map(({ id }) => `"${id}": …`).join(", ")}}` : "…";
    return failure(
      `${asks} To answer, call ${tool} again with {"${names.thread_id}": "${thread_id}", "${names.resume}": ${resume}}.`,
    );
  }
  const place = answer_url === null ? "" : `, at ${answer_url}`;
  return failure(
    `${asks} Only a person can answer${place}. Tell your user that the conversation ${thread_id} waits for an answer. ` +
      `Afterwards, call ${tool} again with the same arguments and "${names.thread_id}": "${thread_id}" to get the result.`,
  );
}
