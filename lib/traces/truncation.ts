/** Cuts copied values to a size in bytes, and replaces images and files by their type and size. */
import { isObject, type Json, type JsonObject } from "../json.ts";
import { measureJson, writeStart } from "./copy-value.ts";

/** Returns the number of bytes of a text in UTF-8. */
export function countBytes(text: string): number {
  let bytes = text.length;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    // A pair of surrogates has four bytes: two for each unit.
    if (unit >= 0x80) bytes += unit >= 0x800 && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1;
  }
  return bytes;
}

/** Returns the start of a text that has at most `max_bytes` in UTF-8, cut at a character boundary. */
export function cutText(text: string, max_bytes: number): string {
  if (text.length * 3 <= max_bytes) return text;
  let bytes = 0;
  let index = 0;
  for (; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (unit < 0x80) bytes += 1;
    else if (unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff)) bytes += 2;
    else bytes += 3;
    if (bytes > max_bytes) break;
  }
  // A pair of surrogates is one character.
  const splitsPair = (text.charCodeAt(index) & 0xfc00) === 0xdc00 && (text.charCodeAt(index - 1) & 0xfc00) === 0xd800;
  return text.slice(0, splitsPair ? index - 1 : index);
}

/** Returns true for a message of any notation: an object with a role or a type, and content. */
const isMessage = (json: Json): json is JsonObject =>
  isObject(json) && (typeof json["role"] === "string" || typeof json["type"] === "string") && "content" in json;

/** Returns true for a list of messages that is not empty. */
export const isMessageList = (json: Json | undefined): json is JsonObject[] =>
  Array.isArray(json) && json.length > 0 && json.every(isMessage);

const isSystemMessage = ({ role, type }: JsonObject): boolean => ["system", "developer"].includes(String(role ?? type));

/**
 * Returns a message with only its role and type, and as content a text: so much of its content, or of the JSON of a content that
 * is no text, as fits in `max_bytes` of JSON.
 */
function cutMessage(message: JsonObject, max_bytes: number): JsonObject {
  const { content = "", role, type } = message;
  const head = { ...(role === undefined ? {} : { role }), ...(type === undefined ? {} : { type }) };
  const text = typeof content === "string" ? content : writeStart(content, max_bytes);
  // Escapes make the JSON of a text longer, at most sixfold.
  let room = Math.max(0, max_bytes - measureJson({ ...head, content: "" }));
  let cut = { ...head, content: cutText(text, room) };
  while (room > 0 && measureJson(cut, max_bytes) > max_bytes) {
    room = Math.floor(room / 2);
    cut = { ...head, content: cutText(text, room) };
  }
  return cut;
}

/**
 * Returns a leading system message, cut to half of `max_bytes`, and the newest messages that fit, in their order. The newest one
 * is cut if it does not fit alone. Older ones are left out from the first that does not fit.
 */
function cutMessages(messages: readonly JsonObject[], max_bytes: number): JsonObject[] {
  const [first] = messages;
  const system = first && isSystemMessage(first) ? [cutToSize(first, Math.floor(max_bytes / 2))] : [];
  let room = max_bytes - 2 - system.reduce((sum, message) => sum + measureJson(message) + 1, 0);
  const newest: JsonObject[] = [];
  for (const message of messages.slice(system.length).reverse()) {
    const bytes = measureJson(message, room) + 1;
    if (bytes > room) {
      if (newest.length === 0) newest.unshift(cutMessage(message, room - 1));
      break;
    }
    newest.unshift(message);
    room -= bytes;
  }
  return [...system, ...newest];
}

const cutToSize = (message: JsonObject, max_bytes: number): JsonObject =>
  measureJson(message, max_bytes) <= max_bytes ? message : cutMessage(message, max_bytes);

/**
 * Returns the value with at most about `max_bytes` of JSON: a text is cut, a list of messages keeps the system message and the newest,
 * also in the member `messages` of an object. Of any other value the start of its JSON is kept as text.
 */
export function truncate(json: Json, max_bytes: number): Json {
  if (typeof json === "string") return cutText(json, max_bytes);
  if (isMessageList(json)) return cutMessages(json, max_bytes);
  if (isObject(json) && isMessageList(json["messages"])) {
    const { messages, ...others } = json;
    const room = max_bytes - measureJson(others, max_bytes);
    if (room >= max_bytes / 2) return { ...others, messages: cutMessages(messages as JsonObject[], room) };
  }
  return cutText(writeStart(json, max_bytes), max_bytes);
}

/** A data URL has its type, and base64 looks like it, in so many characters: a regular expression fails on a text of megabytes. */
const MAX_HEAD_CHARS = 1_000;
const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)?(?:;[\w=.+-]+)*?(;base64)?,/;

/** Returns a data URL as `{type, mime, bytes}`, with the type `image` or `file`; null for other texts. */
function describeDataUrl(text: string): JsonObject | null {
  const [prefix, mime = "text/plain", base64] = DATA_URL.exec(text.slice(0, MAX_HEAD_CHARS)) ?? [];
  if (prefix === undefined) return null;
  const length = text.length - prefix.length;
  return {
    type: mime.startsWith("image/") ? "image" : "file",
    mime,
    bytes: base64 ? countBase64(text, length) : length,
  };
}

const countBase64 = (text: string, length: number): number =>
  Math.floor((length * 3) / 4) - (/={1,2}$/.exec(text.slice(-2))?.[0].length ?? 0);

/** Types of content blocks that carry a file. */
const FILE_TYPES: ReadonlySet<unknown> = new Set([
  ...["image", "image_url", "input_image", "audio", "input_audio", "video", "file", "input_file", "document", "media"],
]);
/** Members of a block that have its bytes as base64, or are an object that has them. */
const DATA_MEMBERS = ["data", "base64", "file_data", "image", "image_url", "input_audio", "source", "file", "url"];
const BASE64_START = /^[A-Za-z0-9+/_-]{64,}/;
const BASE64_END = /^[A-Za-z0-9+/_-]*={0,2}$/;

/** Returns true for a text that starts and ends as base64 does, and is not short. */
const isBase64 = (text: string): boolean =>
  BASE64_START.test(text.slice(0, MAX_HEAD_CHARS)) && BASE64_END.test(text.slice(-MAX_HEAD_CHARS));

/** Returns `{type, mime, bytes}` for the file in a content block; null if it is no block of a file, or has only a link. */
function describeBlock(block: JsonObject): JsonObject | null {
  if (!FILE_TYPES.has(block["type"])) return null;
  for (const name of DATA_MEMBERS) {
    const data = block[name];
    let described: JsonObject | null = null;
    if (typeof data === "string") described = describeData(block, name, data);
    else if (isObject(data)) described = describeBlock({ mime: findMime(block), ...data, type: block["type"] as Json });
    if (described) return described;
  }
  return null;
}

/** Returns `{type, mime, bytes}` for a text that is a data URL, or base64 in a member other than `url`; null for other texts. */
function describeData(block: JsonObject, member: string, data: string): JsonObject | null {
  if (member === "url" || !isBase64(data)) return describeDataUrl(data);
  return { type: fileType(block), mime: findMime(block), bytes: countBase64(data, data.length) };
}

const fileType = ({ type }: JsonObject): string => String(type).replace(/^input_|_url$/g, "");

const findMime = (block: JsonObject): Json =>
  block["mime_type"] ?? block["mimeType"] ?? block["mediaType"] ?? block["media_type"] ?? block["mime"] ?? null;

/**
 * Returns the value with `{type, mime, bytes}` in place of data URLs and of blocks with the bytes of a file, at any depth. Links
 * stay.
 */
export function replaceFiles(json: Json): Json {
  if (typeof json === "string") return json.startsWith("data:") ? (describeDataUrl(json) ?? json) : json;
  if (Array.isArray(json)) return json.map(replaceFiles);
  if (!isObject(json)) return json;
  const described = describeBlock(json);
  if (described) return described;
  return Object.fromEntries(Object.entries(json).map(([name, member]) => [name, replaceFiles(member)]));
}
