/** The methods of A2A that read, list, cancel and follow tasks. */

import { isOver, type Task, type TaskState, taskJson } from "../../../a2a/wire.ts";
import { nullIfNotFound, ServiceError } from "../../../errors.ts";
import type { Json, JsonObject } from "../../../json.ts";
import { UUID } from "../../../storage/identity.ts";
import type { RunStatus } from "../../../storage/mod.ts";
import { ClientGone } from "../../byte-budget.ts";
import { eventStream } from "../../sse.ts";
import { type CallState, cancelCall, isActive, readCall } from "../calls.ts";
import { extensionHeaders, historyOf } from "./options.ts";
import { type Called, RpcError } from "./protocol.ts";
import { restingFrames, taskFrames } from "./stream.ts";
import { callOf, firstRun, type HistoryChoice, readTask } from "./task.ts";
import { waitingFrames } from "./waiting.ts";

/** What a stream and an answer without messages show. */
const NONE: HistoryChoice = { scope: "context", length: 0 };

export async function getTask({ context, request, assistant_id }: Called<"GetTask">): Promise<JsonObject> {
  const history = historyOf(request.params, context.request.headers);
  const call = await callOf(context.nouns, request.params.id, assistant_id);
  return taskJson(await readTask(context.nouns, call, history), request.version);
}

export async function cancelTask({
  context: { nouns },
  request,
  assistant_id,
}: Called<"CancelTask">): Promise<JsonObject> {
  const { id } = request.params;
  const call = await callOf(nouns, id, assistant_id);
  if (!isActive(call.newest) && call.open.length === 0)
    throw new RpcError("cancelable", `Task not cancelable: ${call.first.run_id}`);
  await cancelCall(nouns, call);
  const { run_id: task_id, thread_id } = call.first;
  // No run ends: the end of a run that was cancelled is told by itself.
  if (call.open.length > 0) await nouns.webhooks.tellCancelled({ thread_id, task_id });
  const after = await callOf(nouns, id, assistant_id);
  return taskJson(await readTask(nouns, after, NONE), request.version);
}

/** `SubscribeToTask`: the task as it is, then what follows. */
export async function subscribe({ context, request, assistant_id }: Called<"SubscribeToTask">): Promise<Response> {
  const { nouns } = context;
  const call = await callOf(nouns, request.params.id, assistant_id);
  const { first, newest } = call;
  const opening = await readTask(nouns, call, NONE);
  if (isOver(opening.status)) {
    throw new RpcError("unsupported", `The task ${first.run_id} has ended: there is nothing to subscribe to`);
  }
  const ids = { run_id: newest.run_id, thread_id: newest.thread_id };
  const more = extensionHeaders(context.request.headers);
  if (!isActive(newest)) {
    // The stream of 0.3 ends with a final status, which a question is.
    if (request.version === "0.3") return eventStream(context, restingFrames(request, opening), { ids, headers: more });
    const look = async (): Promise<CallState | null> => await readCall(nouns, first).catch(nullIfNotFound);
    const frames = waitingFrames(context, request, { opening, asked: newest.run_id, look });
    return eventStream(context, frames, { ids, headers: more });
  }
  const stream = await nouns.runs.joinStream(newest.thread_id, newest.run_id);
  return eventStream(context, taskFrames(context, request, stream, { opening }), { ids, headers: more });
}

/** How many runs are searched at once, and how much text of conversations a page reads before it ends early. */
const PART = 5;
const MAX_READ_CHARS = 4 * 1024 * 1024;

/** The statuses of runs that a task of a state may have begun with. A run that asked has ended well. */
const STATUSES: Readonly<Partial<Record<TaskState, readonly RunStatus[]>>> = {
  SUBMITTED: ["pending", "success"],
  WORKING: ["running", "success"],
  INPUT_REQUIRED: ["success"],
  COMPLETED: ["success"],
  FAILED: ["error", "timeout", "success"],
  CANCELED: ["interrupted", "success"],
};

type CalledToList = Called<"ListTasks">;

/**
 * `ListTasks`: the caller's tasks of this agent. Pages follow each other by when their tasks began, newest first; in a page the task whose
 * status changed last is the first one. A page may be short before the end.
 */
export async function listTasks(called: CalledToList): Promise<JsonObject> {
  const { context, request } = called;
  const { status, pageSize, contextId } = request.params;
  const history = historyOf(request.params, context.request.headers, 0);
  const statuses = status === null ? undefined : STATUSES[status];
  // Nothing has such a context, or such a state.
  if ((contextId !== null && !UUID.test(contextId)) || (status !== null && !statuses)) {
    return { tasks: [], nextPageToken: "", pageSize, totalSize: 0 };
  }
  const { found, cursor } = await readPage(called, history, statuses);
  const timeOf = (task: Task): number => Date.parse(task.status.timestamp);
  const tasks = found.sort((a, b) => timeOf(b) - timeOf(a)).map((task): Json => taskJson(task, request.version));
  return { tasks, nextPageToken: cursor ?? "", pageSize, totalSize: tasks.length + (cursor === null ? 0 : 1) };
}

/** Reads the tasks of a page. `cursor`: of the next page; null at the end. */
async function readPage(
  called: CalledToList,
  history: HistoryChoice,
  statuses: readonly RunStatus[] | undefined,
): Promise<{ readonly found: Task[]; readonly cursor: string | null }> {
  const { context, request } = called;
  const found: Task[] = [];
  let cursor = request.params.pageToken;
  let left = request.params.pageSize;
  let read_chars = 0;
  // The tasks of one context share its conversation, which each of them reads: a page of long ones ends early.
  while (left > 0 && read_chars < MAX_READ_CHARS) {
    const { items, next } = await searchRuns(called, statuses, cursor, Math.min(left, PART));
    for (const { run_id } of items.filter(({ metadata, temporary }) => metadata.task_id === undefined && !temporary)) {
      const task = await listedTask(called, run_id, history, (chars) => {
        read_chars += chars;
      });
      if (task) found.push(task);
      await context.tick();
      if (context.large.isGone()) throw new ClientGone();
    }
    if (next === null) return { found, cursor: null };
    left -= items.length;
    cursor = next;
  }
  return { found, cursor };
}

/** Errors: an unknown page. */
async function searchRuns(
  { context: { nouns }, request, assistant_id }: CalledToList,
  statuses: readonly RunStatus[] | undefined,
  cursor: string,
  limit: number,
): ReturnType<Called["context"]["nouns"]["runs"]["search"]> {
  const { contextId } = request.params;
  const query = {
    ...{ assistant_id, metadata: { created_by: "a2a" }, limit },
    ...(contextId === null ? {} : { thread_id: contextId.toLowerCase() }),
    ...(statuses ? { status: statuses } : {}),
    ...(cursor === "" ? {} : { cursor }),
  };
  return await nouns.runs.search(query).catch((error: unknown) => {
    if (error instanceof ServiceError && error.code === "invalid") {
      throw new RpcError("params", "pageToken: is unknown");
    }
    throw error;
  });
}

/** Null for a task that does not fit, or was deleted meanwhile. */
async function listedTask(
  { context: { nouns }, request, assistant_id }: CalledToList,
  run_id: string,
  history: HistoryChoice,
  onRead: (chars: number) => void,
): Promise<Task | null> {
  const { status: state, statusTimestampAfter, includeArtifacts } = request.params;
  const first = await firstRun(nouns, run_id, assistant_id);
  if (!first) return null;
  const { artifacts, ...task } = await readTask(nouns, await readCall(nouns, first), history, onRead);
  const { status } = task;
  if (state !== null && status.state !== state) return null;
  if (Date.parse(status.timestamp) < statusTimestampAfter) return null;
  return includeArtifacts && artifacts ? { ...task, artifacts } : task;
}
