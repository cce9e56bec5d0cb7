/** Reads the content of messages in wire form, whatever provider it comes from, as blocks of the thread event protocol. */
import { isObject, type Json, type JsonObject } from "../json.ts";

/**
 * The content of a message or of one chunk of it: blocks of type `text`, `reasoning`, `tool_call`, `tool_call_chunk`,
 * `invalid_tool_call`, `image`, `audio`, `video` or `file`. Others keep the provider's form. In chunks, `index` says which block continues.
 */
export function standardBlocks(message: JsonObject): JsonObject[] {
  const { content = "" } = message;
  const kwargs = isObject(message.additional_kwargs) ? message.additional_kwargs : {};
  const calls = toolCalls(message);
  // Most chunks are nothing but text.
  if (typeof content === "string" && calls.length === 0 && Object.keys(kwargs).length === 0) {
    return [{ type: "text", text: content }];
  }
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : objects(content);
  const shown = calls.length > 0 ? parts.filter((part) => !isToolPart(part)) : parts;
  const blocks = shown.map(standardBlock);
  const reasoned = blocks.some(({ type }) => type === "reasoning");
  return [...(reasoned ? [] : reasoningIn(kwargs)), ...blocks, ...calls, ...mediaIn(kwargs)];
}

const objects = (value: Json | undefined): JsonObject[] => (Array.isArray(value) ? value.filter(isObject) : []);

/** Chunks have their calls twice: read so far, and as text. Providers repeat them in the content. */
function toolCalls(message: JsonObject): JsonObject[] {
  const chunks = objects(message.tool_call_chunks);
  if (chunks.length > 0) return chunks.map((chunk) => ({ ...chunk, type: "tool_call_chunk" }));
  return [
    ...objects(message.tool_calls).map((call) => ({ ...call, type: "tool_call" })),
    ...objects(message.invalid_tool_calls).map((call) => ({ ...call, type: "invalid_tool_call" })),
  ];
}

const TOOL_PARTS: ReadonlySet<Json | undefined> = new Set([
  "tool_use",
  "input_json_delta",
  "tool_call",
  "tool_call_chunk",
  "invalid_tool_call",
  "functionCall",
  "function_call",
]);

const isToolPart = ({ type }: JsonObject): boolean => TOOL_PARTS.has(type);

function standardBlock(part: JsonObject): JsonObject {
  switch (part.type) {
    case "text":
      return part.thought === true ? reasoning(part.text, part) : part;
    case "output_text":
      return { ...part, type: "text" };
    case "reasoning":
      return typeof part.reasoning === "string" ? part : reasoning(summaryOf(part), part);
    case "thinking":
      return reasoning(part.thinking ?? part.text, part);
    case "reasoning_content":
      return reasoning(isObject(part.reasoningText) ? part.reasoningText.text : part.reasoningText, part);
    case "tool_use": {
      const { id = null, name = null, input = {} } = part;
      return { type: "tool_call", id, name, args: input };
    }
    default:
      return media(part) ?? part;
  }
}

function reasoning(text: Json | undefined, part: JsonObject): JsonObject {
  const { index, id, signature } = isObject(part.reasoningText) ? { ...part, ...part.reasoningText } : part;
  const named = Object.entries({ index, id, signature }).filter(([, value]) => value !== undefined);
  return { type: "reasoning", reasoning: typeof text === "string" ? text : "", ...Object.fromEntries(named) };
}

const summaryOf = ({ summary }: JsonObject): string =>
  objects(summary)
    .map(({ text }) => (typeof text === "string" ? text : ""))
    .join("");

/** DeepSeek and others give a text, Groq too, OpenAI's Responses a list of summaries. */
function reasoningIn({ reasoning_content, reasoning: given }: JsonObject): JsonObject[] {
  const text = isObject(given) ? summaryOf(given) : (given ?? reasoning_content);
  if (typeof text !== "string" || text === "") return [];
  return [reasoning(text, isObject(given) && typeof given.id === "string" ? { id: given.id } : {})];
}

const MEDIA: Readonly<Record<string, string>> = {
  image: "image",
  image_url: "image",
  audio: "audio",
  input_audio: "audio",
  video: "video",
  file: "file",
  document: "file",
  inlineData: "",
  fileData: "",
};

/** Null for other blocks. What it holds is beside its type, or in a member of that name or `source`. */
function media(part: JsonObject): JsonObject | null {
  const type = String(part.type);
  if (!Object.hasOwn(MEDIA, type)) return null;
  const inner = [part[type], part.source].find((value) => value !== undefined && isObject(value)) as JsonObject;
  const from: JsonObject = { ...part, ...inner };
  const format = typeof from.format === "string" ? `${MEDIA[type]}/${from.format}` : undefined;
  const mime = from.mime_type ?? from.mimeType ?? from.media_type ?? format;
  const url = typeof part[type] === "string" ? part[type] : from.url;
  const [, inlined, base64] = (typeof url === "string" && /^data:([^;,]+);base64,(.*)$/s.exec(url)) || [];
  const file_id = from.file_id ?? from.fileId ?? from.fileUri ?? (part.source_type === "id" ? part.id : undefined);
  const data = base64 ?? from.data ?? from.file_data ?? from.bytes;
  const where = { data, url: base64 === undefined ? url : undefined, file_id };
  if (Object.values(where).every((value) => typeof value !== "string")) return null;
  const kind = MEDIA[type] || /^(?:image|audio|video)(?=\/)/.exec(String(mime))?.[0] || "file";
  const members = { index: part.index, id: part.id, mime_type: inlined ?? mime, ...where };
  return {
    type: kind,
    ...Object.fromEntries(Object.entries(members).filter((entry): entry is [string, Json] => entry[1] !== undefined)),
  };
}

/** OpenAI's spoken answers and generated images. */
function mediaIn({ audio, tool_outputs }: JsonObject): JsonObject[] {
  const blocks = objects(tool_outputs)
    .filter(({ type, result }) => type === "image_generation_call" && typeof result === "string")
    .map(({ id = null, result = null, output_format = "png" }) => ({
      type: "image",
      id,
      mime_type: `image/${output_format}`,
      data: result,
    }));
  if (!audio || !isObject(audio)) return blocks;
  const { id, data, transcript, format = "wav" } = audio;
  if (typeof data !== "string" && typeof transcript !== "string") return blocks;
  const mime_type = format === "pcm16" ? "audio/pcm" : `audio/${format}`;
  const named = Object.entries({ id, data, transcript }).filter((entry): entry is [string, Json] => Boolean(entry[1]));
  return [...blocks, { type: "audio", index: "audio", mime_type, ...Object.fromEntries(named) }];
}
