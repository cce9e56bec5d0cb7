/** Creates single chunks of the AI SDK's UI message stream. */
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { RunEvent } from "../run-events.ts";

/** A chunk, as the AI SDK reads it after `data: `. */
export interface UIMessageChunk {
  readonly type: string;
  readonly [member: string]: Json;
}

/** The version of `ai` that reads the chunks. It fails on unknown types. */
export type AiVersion = 5 | 6 | 7;

/** A pending interrupt. */
export interface PendingInterrupt {
  readonly id: string;
  readonly value: Json;
}

/** The name of a tool call in its chunks. */
interface NamedCall {
  readonly name: string;
  /** True if it was created for an approval that matches no call of the message. */
  readonly isSynthetic?: boolean;
}

/** The graph runs its tools itself. Without this member, clients send finished tools back in a loop. */
export const PROVIDER_EXECUTED: JsonObject = { providerExecuted: true };

const isIdentifier = (name: string): boolean => /^[A-Za-z_$][\w$]*$/.test(name);

/** Creates the last chunk of a message. The usage becomes its metadata unless it is null. */
export const createFinishChunk = (finishReason: string, usage: Json): UIMessageChunk => ({
  ...{ type: "finish", finishReason },
  ...(usage === null ? {} : { messageMetadata: { usage } }),
});

const FINISH_REASONS: Readonly<Record<string, string>> = { length: "length", content_filter: "content-filter" };

export const toFinishReason = (reason: string): string => FINISH_REASONS[reason] ?? "stop";

export const createInterruptChunk = (data: {
  readonly id: string;
  readonly value: Json;
  readonly open: boolean;
  readonly answer?: Json;
}): UIMessageChunk => ({ type: "data-interrupt", id: data.id, data });

/** Returns the id and the name of a tool call. A name that is no identifier makes the call dynamic. */
const createCallMembers = (toolCallId: string, toolName: string): JsonObject => ({
  toolCallId,
  toolName,
  ...(isIdentifier(toolName) ? {} : { dynamic: true }),
});

/** Version 5 finds a dynamic call only by this member. */
const createOutputMembers = ({ name, isSynthetic = false }: NamedCall): JsonObject =>
  isSynthetic || !isIdentifier(name) ? { dynamic: true, ...PROVIDER_EXECUTED } : PROVIDER_EXECUTED;

/** Creates the start of a tool call, which the server executes and whose arguments follow. */
export const createInputStartChunk = (event: Extract<RunEvent, { type: "tool-call-open" }>): UIMessageChunk => ({
  ...{ type: "tool-input-start" },
  ...createCallMembers(event.tool_call_id, event.name),
  ...PROVIDER_EXECUTED,
});

/** Returns the complete arguments of a tool call, or an error with them if they could not be parsed. */
export function createInputChunk(event: Extract<RunEvent, { type: "tool-call-close" }>): UIMessageChunk {
  const call = { ...createCallMembers(event.tool_call_id, event.name), input: event.args };
  if (event.error === null) return { type: "tool-input-available", ...call, ...PROVIDER_EXECUTED };
  return { type: "tool-input-error", ...call, errorText: event.error, ...PROVIDER_EXECUTED };
}

export const createOutputChunk = (toolCallId: string, call: NamedCall, output: Json): UIMessageChunk => ({
  ...{ type: "tool-output-available", toolCallId, output },
  ...createOutputMembers(call),
});

export const createOutputErrorChunk = (toolCallId: string, call: NamedCall, errorText: string): UIMessageChunk => ({
  ...{ type: "tool-output-error", toolCallId, errorText },
  ...createOutputMembers(call),
});

/**
 * Converts data that a graph or function sends to the page: `data-…` objects and `{name, payload}` keep their type, other data
 * becomes a transient `data-custom`.
 */
export function toCustomChunk(data: Json): UIMessageChunk {
  if (isObject(data)) {
    const { type, id, transient, name, payload } = data;
    if (typeof type === "string" && type.startsWith("data-") && data.data !== undefined) {
      return {
        type,
        data: data.data,
        ...(typeof id === "string" ? { id } : {}),
        ...(transient === true ? { transient } : {}),
      };
    }
    if (typeof name === "string" && payload !== undefined) return { type: `data-${name}`, data: payload };
  }
  return { type: "data-custom", data, transient: true };
}

const FILE_TYPES: Readonly<Record<string, string>> = {
  image: "image/*",
  audio: "audio/*",
  video: "video/*",
  file: "application/octet-stream",
};

/** Converts a content block with data or a URL to a part `file`; null for any other block. */
export function toFileChunk({ type, mime_type, data, url }: JsonObject): UIMessageChunk | null {
  const mediaType = typeof mime_type === "string" ? mime_type : FILE_TYPES[String(type)];
  if (mediaType === undefined) return null;
  const source = typeof data === "string" ? `data:${mediaType};base64,${data}` : url;
  return typeof source === "string" ? { type: "file", url: source, mediaType } : null;
}

/** Converts the citations of a text; those without a URL are left out. */
export function toSourceChunks(part: string, { annotations }: JsonObject): UIMessageChunk[] {
  const list = (Array.isArray(annotations) ? annotations : []).filter(isObject);
  return list.flatMap(({ url, title }, index) =>
    typeof url === "string"
      ? [{ type: "source-url", sourceId: `${part}:${index}`, url, ...(typeof title === "string" ? { title } : {}) }]
      : [],
  );
}
