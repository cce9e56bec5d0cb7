/** Reads tasks: the state of the newest run, the messages of the context, and the response. */

import type { A2aMessage, A2aPart, A2aTask, A2aTaskState, A2aTaskStatus } from "../../../a2a/json.ts";
import { createStatusMessage, toInterruptParts } from "../../../a2a/status.ts";
import { nullIfNotFound } from "../../../errors.ts";
import { getMessages } from "../../../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import type { RequestResources } from "../../../service/resources.ts";
import { UUID } from "../../../storage/identity.ts";
import { findError, isNonEmptyString, toContentBlocks } from "../messages.ts";
import {
  isCancelled,
  isResumingRun,
  type ProtocolRequestState,
  readProtocolRequest,
  readProtocolResult,
  UNANSWERED_ERROR,
} from "../protocol-requests.ts";
import { taskNotFoundError } from "./protocol.ts";

export type TaskResources = Pick<RequestResources, "runs" | "threads">;

/** The messages that a task shows. */
export interface HistoryChoice {
  /** `task` selects the messages since the one that started the task. */
  readonly scope: "context" | "task";
  readonly length: number;
}

/**
 * Returns true for a run that started a task of this assistant. All runs of the thread inherit its metadata, so runs that resume are
 * excluded.
 */
const startsTask = ({ metadata, assistant_id, ...run }: Run, assistant: string): boolean =>
  metadata.created_by === "a2a" && metadata.task_id === undefined && !isResumingRun(run) && assistant_id === assistant;

/** Returns the run that started a task; null if it is absent, of another caller or of another agent. */
export async function findFirstRun({ runs }: TaskResources, id: string | null, assistant: string): Promise<Run | null> {
  if (id === null || !UUID.test(id)) return null;
  const run = await runs.get(null, id).catch(nullIfNotFound);
  return run && startsTask(run, assistant) ? run : null;
}

/** Reads the state of a task. Throws one A2aError for all tasks that are absent or hidden from the caller. */
export async function requireTask(
  resources: TaskResources,
  id: string | null,
  assistant: string,
): Promise<ProtocolRequestState> {
  const firstRun = await findFirstRun(resources, id, assistant);
  const protocolRequest = firstRun && (await readProtocolRequest(resources, firstRun).catch(nullIfNotFound));
  if (!protocolRequest) throw taskNotFoundError(id);
  return protocolRequest;
}

const isFile = (type: Json | undefined): boolean => ["image", "audio", "video", "file"].includes(String(type));

/**
 * Converts a text or file block to a part. Returns null for an empty text, a file without data and URL, and other
 * blocks, such as reasoning and tool calls.
 */
function toPart({ type, text, data, url, mime_type }: JsonObject, filename: Json | undefined): A2aPart | null {
  if (type === "text") return isNonEmptyString(text) ? { text } : null;
  if (!isFile(type)) return null;
  const fileMembers: JsonObject = {
    ...(isNonEmptyString(mime_type) ? { mediaType: mime_type } : {}),
    ...(isNonEmptyString(filename) ? { filename } : {}),
  };
  if (isNonEmptyString(data)) return { raw: data, ...fileMembers };
  return isNonEmptyString(url) ? { url, ...fileMembers } : null;
}

/**
 * Converts the content of a message to parts. File names are taken from the content if it has as many files as there are blocks.
 */
function toParts(message: JsonObject): A2aPart[] {
  const blocks = toContentBlocks(message);
  // Content blocks have no file names. These are in the message's content, in the same order.
  const content = Array.isArray(message.content) ? message.content.filter(isObject) : [];
  const files = content.filter(({ type }) => isFile(type));
  const isSame = files.length === blocks.filter(({ type }) => isFile(type)).length;
  const names = isSame ? files.map(({ metadata = null }) => (isObject(metadata) ? metadata.filename : undefined)) : [];
  return blocks
    .map((block) => toPart(block, isFile(block.type) ? names.shift() : undefined))
    .filter((part) => part !== null);
}

/** Returns the last message in the input of the run, which started the task. Returns null if there is none. */
function findInputMessage({ kwargs: { input = null } }: Run): JsonObject | null {
  const message = isObject(input) ? (getMessages(input).at(-1) ?? null) : null;
  return isObject(message) ? message : null;
}

const ROLES: Readonly<Record<string, A2aMessage["role"]>> = { human: "USER", ai: "AGENT" };

/** The messages of a task's context, and the index of the task's first message. */
interface Conversation {
  readonly messages: readonly JsonObject[];
  readonly from: number;
}

/**
 * Returns the messages of the task's context, and the index of the message that started the task, 0 if it is unknown.
 * Appends the message of a queued run, which the state does not have yet.
 */
function readConversation(firstRun: Run, values: Json): Conversation {
  const messages = (isObject(values) ? getMessages(values) : []).filter(isObject);
  const inputMessage = findInputMessage(firstRun);
  const index = inputMessage ? messages.findIndex(({ id }) => id === inputMessage.id) : -1;
  if (index >= 0 || !inputMessage) return { messages, from: Math.max(0, index) };
  // A queued run has not added its message yet.
  return { messages: [...messages, inputMessage], from: messages.length };
}

/**
 * Returns the newest visible messages, at most `length`, oldest first: of the whole context, or with scope `task` from
 * the one that started the task up to the next human message. Only messages of the task have its id.
 */
function createHistory(
  firstRun: Run,
  { messages, from }: Conversation,
  { scope, length }: HistoryChoice,
): A2aMessage[] {
  const { run_id, thread_id } = firstRun;
  const next = messages.findIndex(({ type }, index) => index > from && type === "human");
  const end = scope === "task" && next > 0 ? next : messages.length;
  const start = scope === "task" ? from : 0;
  const isOfTask = (index: number): boolean => index >= from && (next < 0 || index < next);
  const history: A2aMessage[] = [];
  for (let index = end - 1; index >= start && history.length < length; index--) {
    const ids = { contextId: thread_id, ...(isOfTask(index) ? { taskId: run_id } : {}) };
    const message = toMessage(messages[index] as JsonObject, `${thread_id}-${index}`, ids);
    if (message) history.push(message);
  }
  return history.reverse();
}

/**
 * Converts a message of the thread. Returns null if it has no visible parts or its type has no role. `fallbackId` is
 * used for a message without an id.
 */
function toMessage(
  message: JsonObject,
  fallbackId: string,
  ids: Pick<A2aMessage, "contextId" | "taskId">,
): A2aMessage | null {
  const role = ROLES[String(message.type)];
  const parts = role ? toParts(message) : [];
  if (!role || parts.length === 0) return null;
  return { messageId: isNonEmptyString(message.id) ? message.id : fallbackId, ...ids, role, parts };
}

/**
 * Returns the parts of the last AI message with visible parts, from the message that started the task on. Returns an
 * empty list without one.
 */
function findReply({ messages, from }: Conversation): A2aPart[] {
  for (let index = messages.length - 1; index >= from; index--) {
    const message = messages[index] as JsonObject;
    const parts = message.type === "ai" ? toParts(message) : [];
    if (parts.length > 0) return parts;
  }
  return [];
}

/** The state of a task, with the parts of its status message. */
interface TaskStatusSummary {
  readonly state: A2aTaskState;
  readonly values: Json;
  readonly messageParts?: readonly A2aPart[];
}

/**
 * Returns the state of the task, by its newest run and its pending interrupts. Adds the values of the thread, or of the
 * run's result once completed. A status message has the parts of the interrupts or the text of the failure.
 */
async function summarizeTaskStatus(
  resources: TaskResources,
  protocolRequest: ProtocolRequestState,
): Promise<TaskStatusSummary> {
  const { newestRun, thread, pending } = protocolRequest;
  const { values } = thread;
  if (newestRun.status === "pending") return { state: "SUBMITTED", values };
  if (newestRun.status === "running") return { state: "WORKING", values };
  if (isCancelled(protocolRequest)) return { state: "CANCELED", values };
  if (pending.length > 0) return { state: "INPUT_REQUIRED", values, messageParts: toInterruptParts(pending) };
  const result = await readProtocolResult(resources, protocolRequest);
  const failure = findError(result);
  if (failure) {
    const messageParts = [{ text: failure.message }];
    return { state: failure.error === UNANSWERED_ERROR ? "CANCELED" : "FAILED", values, messageParts };
  }
  if (newestRun.status !== "success")
    return { state: "FAILED", values, messageParts: [{ text: `The run has ended: ${newestRun.status}` }] };
  return { state: "COMPLETED", values: result };
}

export const ARTIFACT = { artifactId: "response", name: "Assistant Response" };

/** Returns the length of the contents of all messages, of their JSON unless they are text. */
const contentChars = (messages: readonly JsonObject[]): number =>
  messages.reduce(
    (sum, { content = "" }) => sum + (isNonEmptyString(content) ? content : JSON.stringify(content)).length,
    0,
  );

/**
 * Reads a task with its status, at the time of the newest run's last change, its history unless the length is 0, and,
 * once completed, the reply as its artifact. Calls `onRead` with the length of the conversation in characters.
 */
export async function readTask(
  resources: TaskResources,
  protocolRequest: ProtocolRequestState,
  history: HistoryChoice,
  onRead: (chars: number) => void = () => {},
): Promise<A2aTask> {
  const { firstRun, newestRun } = protocolRequest;
  const { state, values, messageParts } = await summarizeTaskStatus(resources, protocolRequest);
  const conversation = readConversation(firstRun, values);
  onRead(contentChars(conversation.messages));
  const parts = state === "COMPLETED" ? findReply(conversation) : [];
  const status: A2aTaskStatus = {
    ...{ state, timestamp: newestRun.updated_at },
    ...(messageParts
      ? { message: createStatusMessage(firstRun.run_id, firstRun.thread_id, newestRun.run_id, messageParts) }
      : {}),
  };
  return {
    ...{ id: firstRun.run_id, contextId: firstRun.thread_id, status },
    ...(parts.length > 0 ? { artifacts: [{ ...ARTIFACT, parts }] } : {}),
    ...(history.length > 0 ? { history: createHistory(firstRun, conversation, history) } : {}),
  };
}
