/** Reads the states of a thread for chats: messages, and the checkpoints from which a turn can run again. */
import { ServiceError } from "../../errors.ts";
import type { ThreadState } from "../../executor/contract.ts";
import { getMessages } from "../../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../../json.ts";
import type { Resources } from "../../service/resources.ts";

type ThreadResources = Pick<Resources, "threads">;

/** The maximum number of states that are searched for the one before a message. */
const MAX_SCANNED_STATES = 200;
const STATES_PAGE_SIZE = 20;

const isHumanMessage = (message: Json | undefined): message is JsonObject =>
  isObject(message ?? null) && (message as JsonObject).type === "human";

export const getStateMessages = ({ values }: Pick<ThreadState, "values">): Json[] =>
  isObject(values) ? getMessages(values) : [];

/** Returns the id of the last human message. Returns null if there is none or it has no id. */
export function findLastHumanMessageId(messages: readonly Json[]): string | null {
  const last = messages.findLast(isHumanMessage);
  return typeof last?.id === "string" ? last.id : null;
}

/** Returns the index of a human message; −1 if there is none with this id. */
export const findMessageIndex = (messages: readonly Json[], id: string): number =>
  messages.findLastIndex((message) => isHumanMessage(message) && message.id === id);

/**
 * Returns the texts of a message's content, joined without a separator. Content without any text becomes JSON, an empty
 * list an empty text.
 */
export function toContentText(content: Json): string {
  if (typeof content === "string") return content;
  const texts = (Array.isArray(content) ? content : []).flatMap((block) =>
    isObject(block) && typeof block.text === "string" ? [block.text] : [],
  );
  const isEmpty = Array.isArray(content) && content.length === 0;
  return texts.length > 0 || isEmpty ? texts.join("") : JSON.stringify(content);
}

/**
 * Returns true if a message of the state has the same text and the same number of files. The graph may have changed the
 * form of its content.
 */
export function hasSameContent({ content = "" }: JsonObject, sentContent: Json): boolean {
  const countFiles = (value: Json): number =>
    Array.isArray(value) ? value.filter((block) => isObject(block) && block.type !== "text").length : 0;
  const toTextOnly = (value: Json): string =>
    Array.isArray(value) && value.length === countFiles(value) ? "" : toContentText(value);
  return toTextOnly(content) === toTextOnly(sentContent) && countFiles(content) === countFiles(sentContent);
}

/**
 * Returns the newest checkpoint that ends with the message and still has tasks to run, from which its response runs
 * again. Throws `conflict` if none of the newest states is one.
 */
export async function requireRegenerationCheckpoint(
  resources: ThreadResources,
  thread_id: string,
  user_id: string,
): Promise<string> {
  const from = await findCheckpointId(resources, thread_id, (state) => {
    const last = getStateMessages(state).at(-1);
    return state.next.length > 0 && isHumanMessage(last) && last.id === user_id;
  });
  if (from !== null) return from;
  throw new ServiceError("conflict", "There is nothing to regenerate: no state of the chat ends with this message");
}

/**
 * Returns the newest checkpoint that ends right before a message of the state. Throws `conflict` if none of the newest states
 * does.
 */
export async function requireCheckpointBefore(
  resources: ThreadResources,
  thread_id: string,
  messages: readonly Json[],
  index: number,
): Promise<string> {
  const getIdAt = (list: readonly Json[], position: number): Json | undefined =>
    (list[position] as JsonObject | undefined)?.id;
  const last = index === 0 ? undefined : getIdAt(messages, index - 1);
  const from = await findCheckpointId(resources, thread_id, (state) => {
    const before = getStateMessages(state);
    return before.length === index && (index === 0 || getIdAt(before, index - 1) === last);
  });
  if (from !== null) return from;
  throw new ServiceError("conflict", "The message cannot be edited: no state before it is kept");
}

/** Returns the id of the newest checkpoint that matches; null if none of the newest `MAX_SCANNED_STATES` does. */
async function findCheckpointId(
  { threads }: ThreadResources,
  thread_id: string,
  matches: (state: ThreadState) => boolean,
): Promise<string | null> {
  let before: string | undefined;
  for (let scanned = 0; scanned < MAX_SCANNED_STATES; scanned += STATES_PAGE_SIZE) {
    const page = { limit: STATES_PAGE_SIZE, ...(before === undefined ? {} : { before }) };
    const states = await threads.history(thread_id, page);
    const match = states.find(matches);
    if (match?.checkpoint) return match.checkpoint.checkpoint_id;
    before = states.at(-1)?.checkpoint?.checkpoint_id;
    if (states.length < STATES_PAGE_SIZE || before === undefined) return null;
  }
  return null;
}

const MEDIA_KINDS: ReadonlySet<string> = new Set(["image", "audio", "video"]);

/**
 * Creates a block that LangChain's providers read. Its type is the first part of the MIME type, or `file` for an
 * unknown one. `source` is the content or URL, with `source_type`. An empty file name is omitted.
 */
export function createFileBlock(mime_type: string, source: JsonObject, filename?: Json): JsonObject {
  const [kind = ""] = mime_type.split("/");
  const nameMember: JsonObject = typeof filename === "string" && filename !== "" ? { metadata: { filename } } : {};
  return { type: MEDIA_KINDS.has(kind) ? kind : "file", mime_type, ...nameMember, ...source };
}

/** Converts a URL to a file block: `data:…;base64,` or `https:`. Returns null for other URLs. */
export function toFileBlock(mime_type: string, url: string, filename?: Json): JsonObject | null {
  const inline = /^data:([^;,]*);base64,/.exec(url);
  if (inline) return createFileBlock(mime_type, { source_type: "base64", data: url.slice(inline[0].length) }, filename);
  return /^https:\/\//i.test(url) ? createFileBlock(mime_type, { source_type: "url", url }, filename) : null;
}

/** Returns the SHA-256 of a text, in hexadecimal. */
export async function hashSha256(text: string): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Converts the error that a new thread already exists, but is hidden from the caller: throws `notFoundError`, default `thread_not_found`.
 * Rethrows other errors.
 */
export function rethrowAsNotFound(error: unknown, notFoundError?: Error): never {
  if (error instanceof ServiceError && error.reason === "already_exists") {
    throw notFoundError ?? new ServiceError("thread_not_found", "Not found", { cause: error });
  }
  throw error;
}
