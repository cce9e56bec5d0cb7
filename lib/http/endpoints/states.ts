/** The states of a thread, as the endpoints of chats need them: messages, and the checkpoints that a turn begins again from. */
import { ServiceError } from "../../errors.ts";
import type { ThreadState } from "../../executor/contract.ts";
import { messagesOf } from "../../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../../json.ts";
import type { CallerNouns } from "../../service/nouns.ts";

type Threads = Pick<CallerNouns, "threads">;

/** Most states that are looked at for the one before a message. */
const MOST_STATES = 200;
const STATES_AT_ONCE = 20;

const isHuman = (message: Json | undefined): message is JsonObject =>
  isObject(message ?? null) && (message as JsonObject).type === "human";

/** The messages of a state. */
export const stateMessages = ({ values }: Pick<ThreadState, "values">): Json[] =>
  isObject(values) ? messagesOf(values) : [];

/** The id of the last human message; null without one. */
export function lastHuman(messages: readonly Json[]): string | null {
  const last = messages.findLast(isHuman);
  return typeof last?.id === "string" ? last.id : null;
}

/** The place of a human message; −1 if there is none with this id. */
export const placeOf = (messages: readonly Json[], id: string): number =>
  messages.findLastIndex((message) => isHuman(message) && message.id === id);

/** The text of a message's content. */
export function contentText(content: Json): string {
  if (typeof content === "string") return content;
  const texts = (Array.isArray(content) ? content : []).flatMap((block) =>
    isObject(block) && typeof block.text === "string" ? [block.text] : [],
  );
  const isEmpty = Array.isArray(content) && content.length === 0;
  return texts.length > 0 || isEmpty ? texts.join("") : JSON.stringify(content);
}

/** Whether a message of the state says the same. The graph may have given its content another form. */
export function hasContent({ content = "" }: JsonObject, sent: Json): boolean {
  const files = (value: Json): number =>
    Array.isArray(value) ? value.filter((block) => isObject(block) && block.type !== "text").length : 0;
  const text = (value: Json): string =>
    Array.isArray(value) && value.length === files(value) ? "" : contentText(value);
  return text(content) === text(sent) && files(content) === files(sent);
}

/** The checkpoint from which the answer to a message is made again. Errors: conflict. */
export async function checkpointToRegenerate(nouns: Threads, thread_id: string, user_id: string): Promise<string> {
  const from = await findState(nouns, thread_id, (state) => {
    const last = stateMessages(state).at(-1);
    return state.next.length > 0 && isHuman(last) && last.id === user_id;
  });
  if (from !== null) return from;
  throw new ServiceError("conflict", "There is nothing to regenerate: no state of the chat ends with this message");
}

/** The newest checkpoint before a message of the state. Errors: conflict. */
export async function checkpointBefore(
  nouns: Threads,
  thread_id: string,
  messages: readonly Json[],
  place: number,
): Promise<string> {
  const idAt = (list: readonly Json[], at: number): Json | undefined => (list[at] as JsonObject | undefined)?.id;
  const last = place === 0 ? undefined : idAt(messages, place - 1);
  const from = await findState(nouns, thread_id, (state) => {
    const before = stateMessages(state);
    return before.length === place && (place === 0 || idAt(before, place - 1) === last);
  });
  if (from !== null) return from;
  throw new ServiceError("conflict", "The message cannot be edited: no state before it is kept");
}

/** The id of the newest checkpoint that fits; null if none does. */
async function findState(
  { threads }: Threads,
  thread_id: string,
  fits: (state: ThreadState) => boolean,
): Promise<string | null> {
  let before: string | undefined;
  for (let seen = 0; seen < MOST_STATES; seen += STATES_AT_ONCE) {
    const page = { limit: STATES_AT_ONCE, ...(before === undefined ? {} : { before }) };
    const states = await threads.history(thread_id, page);
    const found = states.find(fits);
    if (found?.checkpoint) return found.checkpoint.checkpoint_id;
    before = states.at(-1)?.checkpoint?.checkpoint_id;
    if (states.length < STATES_AT_ONCE || before === undefined) return null;
  }
  return null;
}

const KINDS: ReadonlySet<string> = new Set(["image", "audio", "video"]);

/** A file as a block that LangChain's providers read. `source`: its content or its address, with `source_type`. */
export function blockOfFile(mime_type: string, source: JsonObject, filename?: Json): JsonObject {
  const [kind = ""] = mime_type.split("/");
  const named: JsonObject = typeof filename === "string" && filename !== "" ? { metadata: { filename } } : {};
  return { type: KINDS.has(kind) ? kind : "file", mime_type, ...named, ...source };
}

/** The block of a file at `url`: `data:…;base64,` or `https:`. Null for other addresses. */
export function fileBlock(mime_type: string, url: string, filename?: Json): JsonObject | null {
  const inline = /^data:([^;,]*);base64,/.exec(url);
  if (inline) return blockOfFile(mime_type, { source_type: "base64", data: url.slice(inline[0].length) }, filename);
  return /^https:\/\//i.test(url) ? blockOfFile(mime_type, { source_type: "url", url }, filename) : null;
}

/** The SHA-256 of a text, in hexadecimal. */
export async function sha256(text: string): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * A thread of another caller is as an absent one. For `catch` of a call that would create the thread. `absent`: the error of an absent
 * thread; default: thread_not_found.
 */
export function hideForeign(error: unknown, absent?: Error): never {
  if (error instanceof ServiceError && error.reason === "already_exists") {
    throw absent ?? new ServiceError("thread_not_found", "Not found", { cause: error });
  }
  throw error;
}
