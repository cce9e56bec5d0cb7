/** The message of a client: what of it is the run's input, and what answers a question. */

import type { Part } from "../../../a2a/wire.ts";
import type { Interrupt } from "../../../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { UUID } from "../../../storage/identity.ts";
import { isText } from "../messages.ts";
import { blockOfFile } from "../states.ts";
import { noTask, RpcError } from "./protocol.ts";

/** A message that was checked. */
export interface SentMessage {
  readonly messageId: string;
  readonly contextId: string | null;
  readonly taskId: string | null;
  readonly parts: readonly Part[];
  readonly text: string;
  /** Texts and files as LangChain's blocks. */
  readonly blocks: readonly JsonObject[];
  /** The members of all data parts. */
  readonly data: JsonObject;
  readonly metadata: JsonObject;
}

const wrong = (place: string, problem: string): RpcError => new RpcError("params", `${place}: ${problem}`);

function fileOf({ raw, url, mediaType, filename }: JsonObject, place: string): JsonObject {
  const mime = isText(mediaType) ? mediaType : "application/octet-stream";
  if (isText(raw)) return blockOfFile(mime, { source_type: "base64", data: raw }, filename);
  if (isText(url) && /^https?:\/\//i.test(url)) return blockOfFile(mime, { source_type: "url", url }, filename);
  throw wrong(place, "a file needs raw (base64), or url of http or https");
}

/** A part of either family in the form of 1.0. Errors: one for kinds that are not known. */
function modernPart(part: Json, place: string): Part {
  if (!isObject(part)) throw wrong(place, "must be an object");
  const { kind, file = null } = part;
  if (kind === "file" && isObject(file)) {
    const { bytes, uri, mimeType, name } = file;
    const about = { ...(isText(mimeType) ? { mediaType: mimeType } : {}), ...(isText(name) ? { filename: name } : {}) };
    return isText(bytes) ? { raw: bytes, ...about } : { url: uri ?? "", ...about };
  }
  const member = ["text", "data", "raw", "url"].find((one) => part[one] !== undefined && part[one] !== null);
  if (member !== undefined && (kind === undefined || kind === member)) return part;
  throw new RpcError("content", `${place}: must have text, data, raw or url`);
}

/** Reads `params.message`. Errors: what does not fit, with its place. */
export function readMessage({ message = null, metadata = null }: JsonObject): SentMessage {
  if (!isObject(message)) throw wrong("message", "is required");
  const { messageId, contextId = null, taskId = null, role, parts, metadata: own = null } = message;
  if (!isText(messageId) || messageId.length > 255)
    throw wrong("message.messageId", "must be a text, 1 to 255 characters");
  if (role !== "ROLE_USER" && role !== "user") throw wrong("message.role", "must be ROLE_USER (in 0.3: user)");
  if (!Array.isArray(parts) || parts.length === 0) throw wrong("message.parts", "must be a list of at least one part");
  const [context, task] = [contextId || null, taskId || null];
  if (context !== null && (typeof context !== "string" || !UUID.test(context))) {
    throw new RpcError("params", "Failed to create run: Invalid thread ID");
  }
  if (task !== null && (typeof task !== "string" || !UUID.test(task))) throw noTask(task);
  const blocks: JsonObject[] = [];
  const [texts, known]: [string[], Part[]] = [[], []];
  const data: [string, Json][] = [];
  for (const [at, sent] of parts.entries()) {
    const place = `message.parts.${at}`;
    const part = modernPart(sent, place);
    known.push(part);
    if (isObject(part.data ?? null)) data.push(...Object.entries(part.data as JsonObject));
    else if ((part.data ?? null) !== null) throw wrong(place, "data must be an object");
    else if (typeof part.text === "string") {
      texts.push(part.text);
      blocks.push({ type: "text", text: part.text });
    } else blocks.push(fileOf(part, place));
  }
  return {
    messageId,
    contextId: context?.toLowerCase() ?? null,
    taskId: task?.toLowerCase() ?? null,
    text: texts.join("\n"),
    ...{ parts: known, blocks, data: Object.fromEntries(data) },
    metadata: { ...(isObject(metadata) ? metadata : {}), ...(isObject(own) ? own : {}) },
  };
}

/** A mode such as `image` or `image/*` stands for all types of its kind. */
const fits = (mode: string, type: string): boolean =>
  mode === type || mode === "*/*" || (/^[^/*]+(\/\*)?$/.test(mode) && type.startsWith(`${mode.split("/")[0]}/`));

/** Errors: a part says that it has a type which the agent does not take. */
export function checkModes({ parts }: SentMessage, modes: readonly string[]): void {
  for (const [at, { mediaType }] of parts.entries()) {
    if (!isText(mediaType) || modes.length === 0) continue;
    const type = (mediaType.split(";")[0] as string).trim().toLowerCase();
    if (modes.some((mode) => fits(mode.toLowerCase(), type))) continue;
    throw new RpcError("content", `message.parts.${at}: the agent takes ${modes.join(", ")}`);
  }
}

/** The input of a run. The message is that of the client; data parts cannot replace it. */
export function inputOf({ messageId: id, blocks, data }: SentMessage): JsonObject {
  const [only] = blocks;
  const isLoneText = blocks.length === 1 && only?.type === "text";
  // An agent that reads no members must see the data too.
  const content = isLoneText ? (only.text as string) : blocks.length === 0 ? JSON.stringify(data) : [...blocks];
  return { ...data, messages: [{ type: "human", content, id }] };
}

/** The answers by id of their question. Errors: some question has none. */
export function answersTo(open: readonly Interrupt[], { text, data }: SentMessage): JsonObject {
  const { resume } = data;
  const ids = open.map(({ id }) => id);
  if (Array.isArray(resume) && resume.length > 0 && resume.every((one) => isObject(one) && "value" in one)) {
    const given = (resume as JsonObject[]).map(({ id, value = null }): [string, Json] => [String(id), value]);
    const answers = Object.fromEntries(given);
    if (given.length === ids.length && ids.every((id) => Object.hasOwn(answers, id))) return answers;
  } else if (ids.length === 1 && (text !== "" || Object.keys(data).length > 0)) {
    return { [ids[0] as string]: resume ?? (Object.keys(data).length > 0 ? data : text) };
  }
  const each = ids.map((id) => `{"id": "${id}", "value": …}`).join(", ");
  throw wrong("message.parts", `the task waits for ${ids.length} answers: send a data part {"resume": [${each}]}`);
}
