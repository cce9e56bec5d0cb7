/** Assembles streamed chunks into the events of stream mode `messages`. */
import { grow, parseArguments, plainType, sum } from "../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";

/** One event of stream mode `messages`. */
export interface MessageFrame {
  readonly event: "messages/metadata" | "messages/partial" | "messages/complete";
  /** The namespace of the graph; empty for the root graph. */
  readonly namespace: readonly string[];
  readonly data: Json;
}

/** Derives the events of mode `messages` from those of mode `messages-tuple`. Holds only incomplete messages. */
export interface MessageFrames {
  /**
   * Takes one tuple. A chunk (`…MessageChunk`) yields its message so far, and the first one the metadata before that. A full message
   * is complete. Messages without an id are ignored.
   */
  chunk(message: JsonObject, metadata: JsonObject, namespace?: readonly string[]): MessageFrame[];
  /** Takes a list of complete messages. Completes each one that was streamed in chunks, once, in its namespace. */
  finish(messages: Json | undefined): MessageFrame[];
}

interface GrowingMessage {
  readonly namespace: readonly string[];
  readonly message: JsonObject;
}

export function createMessageFrames(): MessageFrames {
  const growing = new Map<string, GrowingMessage>();
  return {
    chunk(message, metadata, at = []) {
      const { id, type } = message;
      if (typeof id !== "string" || typeof type !== "string") return [];
      const known = growing.get(id);
      const namespace = known?.namespace ?? at;
      if (!type.endsWith("MessageChunk")) {
        growing.delete(id);
        return [{ event: "messages/complete", namespace, data: [message] }];
      }
      const grown = known ? mergeChunk(known.message, message) : { ...message, type: plainType(type) };
      growing.set(id, { namespace, message: grown });
      const partial: MessageFrame = { event: "messages/partial", namespace, data: [shown(grown)] };
      return known ? [partial] : [{ event: "messages/metadata", namespace, data: { [id]: { metadata } } }, partial];
    },
    finish(messages) {
      if (growing.size === 0 || !Array.isArray(messages)) return [];
      const final: MessageFrame[] = [];
      // From the end, because streamed messages are among the newest.
      for (let at = messages.length - 1; at >= 0 && growing.size > 0; at--) {
        const message = messages[at] as Json;
        const known = isObject(message) ? growing.get(message.id as string) : undefined;
        if (!known) continue;
        growing.delete((message as JsonObject).id as string);
        final.unshift({ event: "messages/complete", namespace: known.namespace, data: [message] });
      }
      return final;
    },
  };
}

/** An incomplete message in wire form: tool calls instead of their chunks, with `{}` for incomplete arguments. */
function shown(message: JsonObject): JsonObject {
  const { tool_call_chunks: chunks, ...rest } = message;
  if (!Array.isArray(chunks) || chunks.length === 0) return rest;
  const calls = chunks.filter(isObject).map((call) => ({
    name: call.name ?? "",
    args: parseArguments(call.args ?? "") ?? {},
    id: call.id ?? null,
    type: "tool_call",
  }));
  return { ...rest, tool_calls: calls };
}

function mergeChunk(known: JsonObject, delta: JsonObject): JsonObject {
  const {
    type: _type,
    content = "",
    additional_kwargs,
    response_metadata,
    usage_metadata,
    tool_call_chunks,
    ...rest
  } = delta;
  return {
    ...known,
    ...rest,
    content: mergeContent(known.content ?? "", content),
    additional_kwargs: grow(known.additional_kwargs ?? {}, additional_kwargs ?? {}),
    response_metadata: { ...(known.response_metadata as JsonObject), ...(response_metadata as JsonObject) },
    ...(usage_metadata ? { usage_metadata: sum(known.usage_metadata ?? null, usage_metadata) } : {}),
    ...(tool_call_chunks ? { tool_call_chunks: grow(known.tool_call_chunks ?? [], tool_call_chunks) } : {}),
  };
}

function mergeContent(known: Json, delta: Json): Json {
  if (typeof known === "string" && typeof delta === "string") return known + delta;
  return grow(blocks(known), blocks(delta));
}

function blocks(content: Json): Json {
  if (typeof content !== "string") return content;
  return content === "" ? [] : [{ type: "text", text: content }];
}
