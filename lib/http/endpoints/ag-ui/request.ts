/** Requests of AG-UI's clients: `RunAgentInput`, and what is used of it. */
import { InputError, invalidField } from "../../../errors.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { isStorable } from "../../../validation.ts";
import { fileBlock } from "../states.ts";

/** A message of the user. */
export interface SentMessage {
  readonly id: string;
  readonly content: Json;
}

/** A result of a tool that the page has run. */
export interface SentResult {
  readonly id: string;
  readonly tool_call_id: string;
  readonly content: Json;
}

/** An answer to an interrupt. */
export interface SentAnswer {
  readonly id: string;
  readonly cancelled: boolean;
  readonly payload: Json;
}

/** The body of a request. */
export interface AguiRequest {
  readonly threadId: string;
  readonly runId: string;
  readonly parentRunId: string | undefined;
  readonly protocolVersion: string | undefined;
  /** Of all messages that the client has. */
  readonly ids: readonly string[];
  readonly users: readonly SentMessage[];
  readonly results: readonly SentResult[];
  /** The last message, if the user wrote it. */
  readonly last: SentMessage | null;
  readonly resume: readonly SentAnswer[] | null;
  /** One value for all open interrupts, as older clients send it. */
  readonly resume_all: Json | undefined;
  readonly state: JsonObject;
  readonly tools: readonly JsonObject[];
  readonly context: readonly Json[];
  readonly configurable: JsonObject | undefined;
  readonly props: JsonObject;
}

const wrong = (loc: readonly (string | number)[], msg: string): InputError =>
  new InputError([{ loc, msg, type: "value_error" }]);

const MOST_CHARACTERS = 1_024;

function text(body: JsonObject, field: string): string {
  const value = body[field];
  if (typeof value === "string" && value !== "" && value.length <= MOST_CHARACTERS && isStorable(value)) return value;
  throw invalidField(field, `must be a text of at most ${MOST_CHARACTERS} characters`);
}

const listIn = (body: JsonObject, field: string): readonly Json[] => {
  const value = body[field] ?? [];
  if (Array.isArray(value)) return value;
  throw invalidField(field, "must be a list");
};

const objectIn = (body: JsonObject, field: string): JsonObject => {
  const value = body[field] ?? {};
  if (isObject(value)) return value;
  throw invalidField(field, "must be an object");
};

/** Errors: invalid. */
export function readAgui(body: unknown): AguiRequest {
  if (!isObject(body)) throw invalidField("body", "must be a RunAgentInput");
  const { parentRunId, protocolVersion, resume = null } = body;
  const messages = body.messages;
  if (!Array.isArray(messages)) throw invalidField("messages", "must be a list");
  const users: SentMessage[] = [];
  const results: SentResult[] = [];
  for (const [index, message] of messages.entries()) {
    if (!isObject(message)) throw wrong(["messages", index], "must be an object");
    const { role, id, toolCallId, content = "" } = message;
    if (role !== "user" && role !== "tool") continue;
    if (typeof id !== "string" || id === "") throw wrong(["messages", index, "id"], "must be a text");
    if (role === "user") users.push({ id, content: userContent(content, index) });
    else if (typeof toolCallId === "string") results.push({ id, tool_call_id: toolCallId, content });
    else throw wrong(["messages", index, "toolCallId"], "must be a text");
  }
  const props = objectIn(body, "forwardedProps");
  const { config = null, command = null, ...rest } = props;
  return {
    threadId: text(body, "threadId"),
    runId: text(body, "runId"),
    parentRunId: typeof parentRunId === "string" ? parentRunId : undefined,
    protocolVersion: typeof protocolVersion === "string" ? protocolVersion : undefined,
    ids: messages.flatMap((one) => (isObject(one) && typeof one.id === "string" ? [one.id] : [])),
    users,
    results,
    last: (messages.at(-1) as JsonObject | undefined)?.role === "user" ? (users.at(-1) ?? null) : null,
    resume: resume === null ? null : answersIn(body),
    resume_all: isObject(command) ? command.resume : undefined,
    state: isObject(body.state ?? null) ? (body.state as JsonObject) : {},
    tools: listIn(body, "tools").filter(isObject),
    context: listIn(body, "context"),
    configurable: isObject(config) ? (isObject(config.configurable) ? config.configurable : config) : undefined,
    props: rest,
  };
}

function answersIn(body: JsonObject): SentAnswer[] {
  return listIn(body, "resume").map((one, index) => {
    if (!isObject(one) || typeof one.interruptId !== "string") {
      throw wrong(["resume", index, "interruptId"], "must be a text");
    }
    const { interruptId: id, status, payload = null } = one;
    if (status !== "resolved" && status !== "cancelled") {
      throw wrong(["resume", index, "status"], "must be resolved or cancelled");
    }
    return { id, cancelled: status === "cancelled", payload };
  });
}

/** Errors: invalid. */
function userContent(content: Json, index: number): Json {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw wrong(["messages", index, "content"], "must be a text or a list of parts");
  return content.map((part, at): JsonObject => {
    const place = ["messages", index, "content", at];
    if (!isObject(part)) throw wrong(place, "must be an object");
    if (part.type === "text" && typeof part.text === "string") return { type: "text", text: part.text };
    const { type, value, mimeType } = isObject(part.source ?? null) ? (part.source as JsonObject) : {};
    const mime = typeof mimeType === "string" && mimeType !== "" ? mimeType : FILE_TYPES[String(part.type)];
    if (typeof value !== "string" || mime === undefined) throw wrong(place, "must be text, or a file with a source");
    const url = type === "data" ? `data:${mime};base64,${value}` : value;
    const block = type === "data" || type === "url" ? fileBlock(mime, url) : null;
    if (!block) throw wrong([...place, "source"], "must be data in Base64, or a URL with https");
    return block;
  });
}

const FILE_TYPES: Readonly<Record<string, string>> = {
  image: "image/*",
  audio: "audio/*",
  video: "video/*",
  document: "application/octet-stream",
};
