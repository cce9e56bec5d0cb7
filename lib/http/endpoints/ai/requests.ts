/** The schema of the AI SDK's chat requests. It ignores most of the history that clients send. */
import * as v from "valibot";
import { InputError, type InputIssue, invalidFieldError, ServiceError } from "../../../errors.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { RunCreate } from "../../../runs/mod.ts";
import { anyJson, type FieldSchema, name, validateFields, withDescription } from "../../parse.ts";
import { runCreate } from "../../run-request.ts";
import { anyList, type InputSchema, lenient, parseInput, tryParseInput } from "../fields.ts";
import { toFileBlock } from "../states.ts";
import type { AiVersion } from "./chunks.ts";
import type { UIMessage } from "./messages.ts";

/** A message that the user wrote. */
export interface UserMessage {
  readonly id: string;
  /** The content that the graph gets. */
  readonly content: Json;
  /** The text parts, joined. */
  readonly text: string;
  readonly metadata: Json | undefined;
  readonly uiMessage: UIMessage;
  /** The ids of the interrupts that the page shows as pending. */
  readonly shown_interrupt_ids: readonly string[];
}

/** A decision on one action of an approval. */
export interface ApprovalResponse {
  readonly approved: boolean;
  readonly reason?: string;
}

/** The action that a request starts. */
type ChatAction =
  | { readonly type: "submit"; readonly user: UserMessage }
  | { readonly type: "regenerate"; readonly user_id: string }
  | {
      readonly type: "answer";
      readonly resume: JsonObject;
      readonly approvals: ReadonlyMap<string, ApprovalResponse>;
    };

/** The body of a POST. */
export interface ChatRequest {
  readonly id: string;
  readonly ai_sdk: AiVersion;
  readonly action: ChatAction;
  /** Members of the run, not validated. */
  readonly assistant_version: Json | undefined;
  readonly context: Json | undefined;
  readonly configurable: Json | undefined;
  readonly metadata: Json | undefined;
}

/** A message of the history, with the members that select the action. */
interface ListedMessage {
  readonly id: string | undefined;
  readonly role: string | undefined;
  readonly parts: Json[] | undefined;
  readonly metadata?: Json;
}

interface ChatBody extends Omit<ChatRequest, "action" | "configurable"> {
  readonly messages: readonly ListedMessage[];
  readonly trigger: "submit-message" | "regenerate-message";
  readonly messageId: string | undefined;
  readonly resume?: Json;
  readonly config: { readonly configurable?: Json } | undefined;
}

const string = v.string("must be a text");

const listedMessage = v.object(
  { id: lenient(name), role: lenient(v.string()), parts: lenient(anyList), metadata: v.optional(anyJson) },
  "must be an object",
);

const version: InputSchema<AiVersion> = v.pipe(
  withDescription(v.nullish(v.picklist([5, 6, 7, "5", "6", "7"], "must be 5, 6 or 7"), 7), "The version of `ai`"),
  v.transform((input) => Number(input) as AiVersion),
);

/** The body that the chat transport sends. */
export const chatBody: FieldSchema<ChatBody> = v.object({
  id: withDescription(name, "The id of the chat: a UUID, or any text"),
  messages: withDescription(
    v.array(listedMessage, "must be a list"),
    "Of these only the last message of the user, and approvals in that of the assistant, are used",
  ),
  trigger: v.picklist(["submit-message", "regenerate-message"], "must be submit-message or regenerate-message"),
  messageId: lenient(string),
  resume: withDescription(v.optional(anyJson), "Answers by interrupt id"),
  ai_sdk: version,
  assistant_version: withDescription(v.optional(anyJson), "The version of the assistant. Default: the active one"),
  context: withDescription(v.optional(anyJson), "The context of the run"),
  config: withDescription(lenient(v.object({ configurable: v.optional(anyJson) })), "`configurable` goes to the run"),
  metadata: withDescription(v.optional(anyJson), "The metadata of the run"),
}) as unknown as FieldSchema<ChatBody>;

const part = v.variant(
  "type",
  [
    v.object({ type: v.literal("text"), text: string }),
    v.pipe(
      v.object({ type: v.literal("file"), mediaType: string, url: string, filename: lenient(string) }),
      v.rawTransform(
        ({ dataset: { value }, addIssue, NEVER }): { readonly type: "file"; readonly file: JsonObject } => {
          const file = toFileBlock(value.mediaType, value.url, value.filename);
          if (file) return { type: "file", file };
          addIssue({ message: "must be a file whose url starts with data:…;base64, or https://" });
          return NEVER;
        },
      ),
    ),
  ],
  "must be text or file",
);

/** The strict form of a message that the user wrote. */
const userMessage = v.object({
  id: name,
  parts: v.pipe(v.array(part, "must be a list"), v.nonEmpty("must not be empty")),
});

/** A part with the response to an approval. */
const respondedPart = v.object({
  approval: v.object({ id: v.string(), approved: v.boolean(), reason: lenient(v.string()) }),
});

/** A part with a pending interrupt. */
const pendingPart = v.union([
  v.object({ type: v.literal("data-interrupt"), data: v.object({ open: v.literal(true), id: v.string() }) }),
  v.object({ state: v.literal("approval-requested"), approval: v.object({ id: v.string() }) }),
]);

/** Returns the parsed parts that match the schema. */
const filterParts = <Part>(schema: InputSchema<Part>, { parts = [] }: Pick<ListedMessage, "parts">): Part[] =>
  parts.flatMap((part) => tryParseInput(schema, part) ?? []);

const badRequestError = ({ loc, msg }: InputIssue): ServiceError =>
  new ServiceError("bad_request", `${loc.join(".")}: ${msg}`);

/** Parses the body. Throws `bad_request` for another body, and `invalid` for its last message. */
export function parseChatRequest(body: unknown): ChatRequest {
  const chat = parseInput(chatBody, body, badRequestError);
  const { id, ai_sdk, assistant_version, context, metadata, config } = chat;
  const { configurable } = config ?? {};
  return { id, ai_sdk, assistant_version, context, metadata, configurable, action: readAction(chat) };
}

/**
 * Returns what a request asks for: to regenerate the last reply, to answer the interrupts of an assistant message, or to submit
 * the last message. Throws `invalid`.
 */
function readAction({ messages, trigger, messageId, resume = null }: ChatBody): ChatAction {
  const last = messages.at(-1);
  if (!last) throw invalidFieldError("messages", "must hold a message");
  if (trigger === "regenerate-message") {
    const user_id = messages.findLast(({ role }) => role === "user")?.id;
    if (user_id === undefined) throw invalidFieldError("messages", "must hold a user message with an id");
    return { type: "regenerate", user_id };
  }
  const namedMessage = messageId === undefined ? undefined : messages.find(({ id }) => id === messageId);
  const target = namedMessage?.role === "assistant" ? namedMessage : last;
  if (target.role === "assistant") {
    if (resume !== null && !isObject(resume))
      throw invalidFieldError("resume", "must be an object of answers by interrupt id");
    return { type: "answer", resume: resume ?? {}, approvals: readApprovals(target) };
  }
  if (last.role !== "user") throw invalidFieldError("messages", "must end with a message of the user or the assistant");
  return { type: "submit", user: readUserMessage(messages) };
}

/** Parses the version; default 7. Throws `bad_request`. */
export const readVersion = (ai_sdk: string | undefined): AiVersion =>
  parseInput(v.object({ ai_sdk: version }), { ai_sdk }, badRequestError).ai_sdk;

/** Returns the approval responses in the parts of a message, by approval id. Ignores requests without a response. */
const readApprovals = (message: ListedMessage): ReadonlyMap<string, ApprovalResponse> =>
  new Map(
    filterParts(respondedPart, message).map(({ approval: { id, approved, reason } }) => [
      id,
      { approved, ...(reason === undefined ? {} : { reason }) },
    ]),
  );

/**
 * Returns the ids of the interrupts that the last message of the assistant shows as pending. Empty if the page sends only the user's
 * message.
 */
function readShownInterruptIds(messages: readonly ListedMessage[]): readonly string[] {
  const last = messages.findLast(({ role }) => role === "assistant");
  return filterParts(pendingPart, last ?? { parts: [] }).map((part) =>
    // The id of an approval is `<interrupt id>:<index of the action>`.
    "data" in part ? part.data.id : part.approval.id.replace(/:\d+$/, ""),
  );
}

/**
 * Parses the last message and adds the ids of the interrupts that the page shows. Its content is a text if all parts
 * are text, else a list of parts. Throws an InputError for an empty text and other parts.
 */
function readUserMessage(messages: readonly ListedMessage[]): UserMessage {
  const last = messages.at(-1);
  const location = ["messages", messages.length - 1];
  const { id, parts } = parseInput(
    userMessage,
    last,
    ({ loc, ...finding }) => new InputError([{ ...finding, loc: [...location, ...loc] }]),
  );
  const texts = parts.flatMap((part) => (part.type === "text" ? [part.text] : []));
  const text = texts.join("");
  const isText = texts.length === parts.length;
  if (isText && text === "") throw new InputError([{ loc: location, msg: "is empty", type: "value_error" }]);
  const content = isText ? text : parts.map((part) => (part.type === "file" ? part.file : part));
  const metadata = last?.metadata ?? undefined;
  const uiMessage: UIMessage = {
    ...{ id, role: "user" },
    ...(metadata === undefined ? {} : { metadata }),
    parts: last?.parts as JsonObject[],
  };
  return { id, content, text, metadata, uiMessage, shown_interrupt_ids: readShownInterruptIds(messages) };
}

/** Returns the members of the body that belong to the run, validated, without the assistant. Throws `invalid`. */
export function readRunMembers(
  assistant_id: string,
  { assistant_version, context, configurable, metadata }: ChatRequest,
): Partial<RunCreate> {
  const config: JsonObject = configurable === undefined ? {} : { config: { configurable } };
  const request = { assistant_id, assistant_version, context, metadata, ...config };
  const { assistant_id: _, ...members } = validateFields(request, runCreate);
  return members;
}
