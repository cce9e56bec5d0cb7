/** Creates the events of stream mode `messages` by assembling messages from their chunks. */
import { isObject, type Json, type JsonObject } from "../json.ts";
import { addNumbers, mergePart } from "./message-merge.ts";
import { parseArguments, toMessageType } from "./messages.ts";

export interface MessageFrame {
  readonly event: "messages/metadata" | "messages/partial" | "messages/complete";
  /** The namespace of the graph; empty for the root graph. */
  readonly namespace: readonly string[];
  readonly data: Json;
}

/** Derives the events of mode `messages` from those of mode `messages-tuple`. Holds only incomplete messages. */
export class MessageFrames {
  readonly #incomplete = new Map<string, { readonly namespace: readonly string[]; readonly message: JsonObject }>();

  /**
   * Adds one tuple. A chunk (`…MessageChunk`) returns the message so far, preceded by its metadata for the first chunk. A whole
   * message is complete, and later chunks with its id start a new one. Messages without an id are ignored.
   */
  addMessage(message: JsonObject, metadata: JsonObject, eventNamespace: readonly string[] = []): MessageFrame[] {
    const { id, type } = message;
    if (typeof id !== "string" || typeof type !== "string") return [];
    const started = this.#incomplete.get(id);
    const namespace = started?.namespace ?? eventNamespace;
    if (!type.endsWith("MessageChunk")) {
      this.#incomplete.delete(id);
      return [{ event: "messages/complete", namespace, data: [message] }];
    }
    const merged = started ? mergeChunk(started.message, message) : { ...message, type: toMessageType(type) };
    this.#incomplete.set(id, { namespace, message: merged });
    const partial: MessageFrame = { event: "messages/partial", namespace, data: [toWireMessage(merged)] };
    return started ? [partial] : [{ event: "messages/metadata", namespace, data: { [id]: { metadata } } }, partial];
  }

  /**
   * Completes the messages of the list that were streamed in chunks, each once and in its namespace, and returns their frames in
   * the order of the list.
   */
  finish(messages: Json | undefined): MessageFrame[] {
    const incomplete = this.#incomplete;
    if (incomplete.size === 0 || !Array.isArray(messages)) return [];
    const final: MessageFrame[] = [];
    // From the end, because streamed messages are among the newest.
    for (let index = messages.length - 1; index >= 0 && incomplete.size > 0; index--) {
      const message = messages[index] as Json;
      const started = isObject(message) ? incomplete.get(message.id as string) : undefined;
      if (!started) continue;
      incomplete.delete((message as JsonObject).id as string);
      final.unshift({ event: "messages/complete", namespace: started.namespace, data: [message] });
    }
    return final;
  }
}

/** Converts an incomplete message to wire form: tool calls instead of their chunks, with `{}` for incomplete arguments. */
function toWireMessage(message: JsonObject): JsonObject {
  const { tool_call_chunks: chunks, ...members } = message;
  if (!Array.isArray(chunks) || chunks.length === 0) return members;
  const calls = chunks.filter(isObject).map((call) => ({
    name: call.name ?? "",
    args: parseArguments(call.args ?? "") ?? {},
    id: call.id ?? null,
    type: "tool_call",
  }));
  return { ...members, tool_calls: calls };
}

/**
 * Merges a chunk into the message: content and calls are appended, usage is added up, other members are replaced. The type stays.
 */
function mergeChunk(message: JsonObject, delta: JsonObject): JsonObject {
  const {
    type: _type,
    content = "",
    additional_kwargs,
    response_metadata,
    usage_metadata,
    tool_call_chunks,
    ...members
  } = delta;
  return {
    ...message,
    ...members,
    content: mergeContent(message.content ?? "", content),
    additional_kwargs: mergePart(message.additional_kwargs ?? {}, additional_kwargs ?? {}),
    response_metadata: { ...(message.response_metadata as JsonObject), ...(response_metadata as JsonObject) },
    ...(usage_metadata ? { usage_metadata: addNumbers(message.usage_metadata ?? null, usage_metadata) } : {}),
    ...(tool_call_chunks ? { tool_call_chunks: mergePart(message.tool_call_chunks ?? [], tool_call_chunks) } : {}),
  };
}

/**
 * Returns the content with that of the next chunk appended: two texts as one text, else lists of blocks, with a text as one
 * block.
 */
function mergeContent(content: Json, delta: Json): Json {
  if (typeof content === "string" && typeof delta === "string") return content + delta;
  return mergePart(toBlocks(content), toBlocks(delta));
}

/** Returns text as a list of blocks, empty for an empty text; other content as it is. */
function toBlocks(content: Json): Json {
  if (typeof content !== "string") return content;
  return content === "" ? [] : [{ type: "text", text: content }];
}
