/** Requests of the AI SDK's chat transport: what is used of them. The rest of the history that clients send is ignored. */
import { invalidField, ServiceError } from "../../../errors.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { RunCreate } from "../../../runs/mod.ts";
import { isStorable } from "../../../validation.ts";
import { readFields } from "../../parse.ts";
import { runCreate } from "../../run-request.ts";
import { fileBlock } from "../states.ts";
import type { AiVersion } from "./chunks.ts";
import type { UIMessage } from "./messages.ts";

/** A message that a person has written. */
export interface UserMessage {
  readonly id: string;
  /** As the graph gets it. */
  readonly content: Json;
  /** The parts that are text. */
  readonly text: string;
  readonly metadata: Json | undefined;
  readonly shown: UIMessage;
  /** The ids of the interrupts that the page shows as open. */
  readonly asked: readonly string[];
}

/** A decision on one action of an approval, by approval id. */
export interface ApprovalResponse {
  readonly approved: boolean;
  readonly reason?: string;
}

/** The body of a POST. */
export interface ChatRequest {
  readonly id: string;
  readonly ai_sdk: AiVersion;
  /** What the request is about. */
  readonly ask:
    | { readonly type: "submit"; readonly user: UserMessage }
    | { readonly type: "regenerate"; readonly user_id: string }
    | {
        readonly type: "answer";
        readonly resume: JsonObject;
        readonly approvals: ReadonlyMap<string, ApprovalResponse>;
      };
  /** Members of the run, not validated. */
  readonly context: Json | undefined;
  readonly configurable: Json | undefined;
  readonly metadata: Json | undefined;
}

const bad = (message: string): ServiceError => new ServiceError("bad_request", message);

/** The longest id of a chat or message, in characters. */
const MOST_CHARACTERS = 1_024;

const isId = (id: Json | undefined): id is string =>
  typeof id === "string" && id !== "" && id.length <= MOST_CHARACTERS && isStorable(id);

/** Errors: bad_request (it is no request of the transport), invalid (its last message). */
export function readChat(body: unknown): ChatRequest {
  if (!isObject(body)) throw bad("The body must be an object, as the AI SDK's chat transport sends it");
  const { id, messages, trigger, messageId = null, resume = null, config = null } = body;
  if (!isId(id)) throw bad("id: must be the id of the chat");
  if (!Array.isArray(messages)) throw bad("messages: must be a list");
  if (trigger !== "submit-message" && trigger !== "regenerate-message") {
    throw bad("trigger: must be submit-message or regenerate-message");
  }
  const list = messages.filter(isObject);
  const last = list.at(-1);
  const named = typeof messageId === "string" ? list.find((message) => message.id === messageId) : undefined;
  const rest = {
    id,
    ai_sdk: readVersion(body.ai_sdk),
    context: body.context,
    metadata: body.metadata,
    configurable: isObject(config) ? config.configurable : undefined,
  };
  if (!last) throw invalidField("messages", "must hold a message");
  if (trigger === "regenerate-message") {
    const user = list.findLast(({ role }) => role === "user");
    if (!isId(user?.id)) throw invalidField("messages", "must hold a user message with an id");
    return { ...rest, ask: { type: "regenerate", user_id: user.id } };
  }
  const target = named?.role === "assistant" ? named : last;
  if (target.role === "assistant") {
    if (resume !== null && !isObject(resume))
      throw invalidField("resume", "must be an object of answers by interrupt id");
    return { ...rest, ask: { type: "answer", resume: resume ?? {}, approvals: approvalsIn(target) } };
  }
  if (last.role !== "user") throw invalidField("messages", "must end with a message of the user or the assistant");
  return { ...rest, ask: { type: "submit", user: readUser(last, openQuestions(list)) } };
}

/** Default 7. Errors: bad_request. */
export function readVersion(sent: Json | undefined): AiVersion {
  const version = Number(sent ?? 7);
  if (version === 5 || version === 6 || version === 7) return version;
  throw bad("ai_sdk: must be 5, 6 or 7");
}

/** The responses in the parts of a message, by approval id. */
function approvalsIn({ parts }: JsonObject): ReadonlyMap<string, ApprovalResponse> {
  const approvals = new Map<string, ApprovalResponse>();
  for (const part of Array.isArray(parts) ? parts : []) {
    const approval = isObject(part) ? part.approval : undefined;
    if (!isObject(approval ?? null)) continue;
    const { id, approved, reason } = approval as JsonObject;
    if (typeof id !== "string" || typeof approved !== "boolean") continue;
    approvals.set(id, { approved, ...(typeof reason === "string" ? { reason } : {}) });
  }
  return approvals;
}

/** The ids of the interrupts that the last message of the assistant shows as open. Pages may send no more than the user's message. */
function openQuestions(messages: readonly JsonObject[]): readonly string[] {
  const { parts = [] } = messages.findLast(({ role }) => role === "assistant") ?? {};
  return (Array.isArray(parts) ? parts : [])
    .filter(isObject)
    .flatMap(({ type, data = null, state, approval = null }) => {
      if (type === "data-interrupt") return isObject(data) && data.open === true ? [String(data.id)] : [];
      // The id of an approval is that of its interrupt, and the number of its action.
      return state === "approval-requested" && isObject(approval) ? [String(approval.id).replace(/:\d+$/, "")] : [];
    });
}

/** Errors: invalid. */
function readUser({ id, parts, metadata }: JsonObject, asked: readonly string[]): UserMessage {
  const place = "messages";
  if (!isId(id)) throw invalidField(place, "the last message needs an id");
  if (!Array.isArray(parts) || parts.length === 0) throw invalidField(place, "the last message is empty");
  const blocks = parts.map((part): JsonObject => {
    if (isObject(part) && part.type === "text" && typeof part.text === "string")
      return { type: "text", text: part.text };
    if (isObject(part) && part.type === "file") return readFile(part);
    throw invalidField(place, "the last message has a part that is neither text nor file");
  });
  const texts = blocks.flatMap(({ type, text }) => (type === "text" ? [text as string] : []));
  const text = texts.join("");
  const isText = texts.length === blocks.length;
  if (isText && text === "") throw invalidField(place, "the last message is empty");
  const content = isText ? text : blocks;
  const about = metadata === undefined || metadata === null ? {} : { metadata };
  const shown: UIMessage = { id, role: "user", ...about, parts: parts as JsonObject[] };
  return { id, content, text, metadata: metadata ?? undefined, shown, asked };
}

/** Errors: invalid. */
function readFile({ mediaType, url, filename }: JsonObject): JsonObject {
  if (typeof mediaType !== "string" || typeof url !== "string") {
    throw invalidField("messages", "a file needs mediaType and url");
  }
  const block = fileBlock(mediaType, url, filename);
  if (block) return block;
  throw invalidField("messages", "the url of a file must start with data:…;base64, or https://");
}

/** Members of the body that go to the run, by its rules. Errors: invalid. */
export function membersOf(assistant_id: string, { context, configurable, metadata }: ChatRequest): Partial<RunCreate> {
  const config: JsonObject = configurable === undefined ? {} : { config: { configurable } };
  const { assistant_id: _, ...members } = readFields({ assistant_id, context, metadata, ...config }, runCreate);
  return members;
}
