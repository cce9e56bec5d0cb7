/** What a task is now: the state of its newest run, the messages of its context, and its answer. */
import { askedParts, statusMessage } from "../../../a2a/status.ts";
import type { Message, Part, Status, Task, TaskState } from "../../../a2a/wire.ts";
import { nullIfNotFound } from "../../../errors.ts";
import { messagesOf } from "../../../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import type { RequestNouns } from "../../../service/nouns.ts";
import { UUID } from "../../../storage/identity.ts";
import { type CallState, isAnswer, isCancelled, LAPSED, readCall, resultOfCall } from "../calls.ts";
import { blocksOf, errorIn, isText } from "../messages.ts";
import { noTask } from "./protocol.ts";

export type TaskNouns = Pick<RequestNouns, "runs" | "threads">;

/** Which messages are shown with a task. */
export interface HistoryChoice {
  /** `task`: only those since its own message. */
  readonly scope: "context" | "task";
  readonly length: number;
}

/** A run that began a task of this assistant. Every run of a thread of A2A has the thread's metadata; one that resumes begins none. */
const beginsTask = ({ metadata, assistant_id, ...run }: Run, assistant: string): boolean =>
  metadata.created_by === "a2a" && metadata.task_id === undefined && !isAnswer(run) && assistant_id === assistant;

/** The run that began a task; null for one that is absent, of another caller or of another agent. */
export async function firstRun({ runs }: TaskNouns, id: string | null, assistant: string): Promise<Run | null> {
  if (id === null || !UUID.test(id)) return null;
  const run = await runs.get(null, id).catch(nullIfNotFound);
  return run && beginsTask(run, assistant) ? run : null;
}

/** Errors: one for all tasks that the caller cannot see. */
export async function callOf(nouns: TaskNouns, id: string | null, assistant: string): Promise<CallState> {
  const first = await firstRun(nouns, id, assistant);
  const call = first && (await readCall(nouns, first).catch(nullIfNotFound));
  if (!call) throw noTask(id);
  return call;
}

const isFile = (type: Json | undefined): boolean => ["image", "audio", "video", "file"].includes(String(type));

/** A block of a message as a part; null for reasoning, calls of tools and other blocks. */
function partOf({ type, text, data, url, mime_type }: JsonObject, filename: Json | undefined): Part | null {
  if (type === "text") return isText(text) ? { text } : null;
  if (!isFile(type)) return null;
  const about: JsonObject = {
    ...(isText(mime_type) ? { mediaType: mime_type } : {}),
    ...(isText(filename) ? { filename } : {}),
  };
  if (isText(data)) return { raw: data, ...about };
  return isText(url) ? { url, ...about } : null;
}

function partsOf(message: JsonObject): Part[] {
  const blocks = blocksOf(message);
  // Blocks of all providers have no names of files: those are in the content, in the same order.
  const content = Array.isArray(message.content) ? message.content.filter(isObject) : [];
  const files = content.filter(({ type }) => isFile(type));
  const isSame = files.length === blocks.filter(({ type }) => isFile(type)).length;
  const names = isSame ? files.map(({ metadata = null }) => (isObject(metadata) ? metadata.filename : undefined)) : [];
  return blocks
    .map((block) => partOf(block, isFile(block.type) ? names.shift() : undefined))
    .filter((part) => part !== null);
}

/** The message that began a task. */
function ownMessage({ kwargs: { input = null } }: Run): JsonObject | null {
  const message = isObject(input) ? (messagesOf(input).at(-1) ?? null) : null;
  return isObject(message) ? message : null;
}

const ROLES: Readonly<Record<string, Message["role"]>> = { human: "USER", ai: "AGENT" };

/** The messages of a task's context, and where those of the task begin. */
interface Conversation {
  readonly messages: readonly JsonObject[];
  readonly from: number;
}

function conversationOf(first: Run, values: Json): Conversation {
  const messages = (isObject(values) ? messagesOf(values) : []).filter(isObject);
  const own = ownMessage(first);
  const at = own ? messages.findIndex(({ id }) => id === own.id) : -1;
  if (at >= 0 || !own) return { messages, from: Math.max(0, at) };
  // A queued run has not added its message yet.
  return { messages: [...messages, own], from: messages.length };
}

function historyOf(first: Run, { messages, from }: Conversation, { scope, length }: HistoryChoice): Message[] {
  const { run_id, thread_id } = first;
  const next = messages.findIndex(({ type }, at) => at > from && type === "human");
  const end = scope === "task" && next > 0 ? next : messages.length;
  const start = scope === "task" ? from : 0;
  const isOfTask = (at: number): boolean => at >= from && (next < 0 || at < next);
  const history: Message[] = [];
  for (let at = end - 1; at >= start && history.length < length; at--) {
    const ids = { contextId: thread_id, ...(isOfTask(at) ? { taskId: run_id } : {}) };
    const message = messageOf(messages[at] as JsonObject, `${thread_id}-${at}`, ids);
    if (message) history.push(message);
  }
  return history.reverse();
}

/** A message of the thread for clients; null where they see nothing of it. `otherwise`: its id, if it has none. */
function messageOf(message: JsonObject, otherwise: string, ids: Pick<Message, "contextId" | "taskId">): Message | null {
  const role = ROLES[String(message.type)];
  const parts = role ? partsOf(message) : [];
  if (!role || parts.length === 0) return null;
  return { messageId: isText(message.id) ? message.id : otherwise, ...ids, role, parts };
}

/** The parts of the last reply to the message that began the task. */
function replyOf({ messages, from }: Conversation): Part[] {
  for (let at = messages.length - 1; at >= from; at--) {
    const message = messages[at] as JsonObject;
    const parts = message.type === "ai" ? partsOf(message) : [];
    if (parts.length > 0) return parts;
  }
  return [];
}

/** How a task stands. `said`: the parts of the status's message. */
interface Standing {
  readonly state: TaskState;
  readonly values: Json;
  readonly said?: readonly Part[];
}

async function standingOf(nouns: TaskNouns, call: CallState): Promise<Standing> {
  const { newest, thread, open } = call;
  const { values } = thread;
  if (newest.status === "pending") return { state: "SUBMITTED", values };
  if (newest.status === "running") return { state: "WORKING", values };
  if (isCancelled(call)) return { state: "CANCELED", values };
  if (open.length > 0) return { state: "INPUT_REQUIRED", values, said: askedParts(open) };
  const result = await resultOfCall(nouns, call);
  const failure = errorIn(result);
  if (failure) {
    const said = [{ text: failure.message }];
    return { state: failure.error === LAPSED ? "CANCELED" : "FAILED", values, said };
  }
  if (newest.status !== "success")
    return { state: "FAILED", values, said: [{ text: `The run has ended: ${newest.status}` }] };
  return { state: "COMPLETED", values: result };
}

export const ARTIFACT = { artifactId: "response", name: "Assistant Response" };

/** The length of the contents of messages. */
const contentChars = (messages: readonly JsonObject[]): number =>
  messages.reduce((sum, { content = "" }) => sum + (isText(content) ? content : JSON.stringify(content)).length, 0);

/** Reads a task. Calls `onRead` with the length of the conversation that it has read. */
export async function readTask(
  nouns: TaskNouns,
  call: CallState,
  history: HistoryChoice,
  onRead: (chars: number) => void = () => {},
): Promise<Task> {
  const { first, newest } = call;
  const { state, values, said } = await standingOf(nouns, call);
  const conversation = conversationOf(first, values);
  onRead(contentChars(conversation.messages));
  const parts = state === "COMPLETED" ? replyOf(conversation) : [];
  const status: Status = {
    ...{ state, timestamp: newest.updated_at },
    ...(said ? { message: statusMessage(first.run_id, first.thread_id, newest.run_id, said) } : {}),
  };
  return {
    ...{ id: first.run_id, contextId: first.thread_id, status },
    ...(parts.length > 0 ? { artifacts: [{ ...ARTIFACT, parts }] } : {}),
    ...(history.length > 0 ? { history: historyOf(first, conversation, history) } : {}),
  };
}
