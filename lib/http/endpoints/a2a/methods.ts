/** The methods of A2A that read, list, cancel and follow tasks. */

import { type A2aTask, type A2aTaskState, isTerminal, toTaskJson } from "../../../a2a/json.ts";
import { nullIfNotFound, ServiceError } from "../../../errors.ts";
import type { Json, JsonObject } from "../../../json.ts";
import { UUID } from "../../../storage/identity.ts";
import type { RunStatus } from "../../../storage/mod.ts";
import { ClientDisconnectedError } from "../../byte-budget.ts";
import { createEventStreamResponse } from "../../sse.ts";
import {
  cancelProtocolRequest,
  isActive,
  type ProtocolRequestState,
  readProtocolRequest,
} from "../protocol-requests.ts";
import { createExtensionHeaders, readHistoryChoice } from "./options.ts";
import { A2aError, type A2aRequestContext } from "./protocol.ts";
import { createSingleTaskFrame, createTaskFrames } from "./stream.ts";
import { findFirstRun, type HistoryChoice, readTask, requireTask } from "./task.ts";
import { createInputRequiredFrames } from "./waiting.ts";

const NO_HISTORY: HistoryChoice = { scope: "context", length: 0 };

/**
 * Handles `GetTask`: returns the task as JSON, without waiting for it. Throws `not_found` for an unknown task or one of
 * another assistant, and an A2aError for an invalid history length.
 */
export async function getTask({ context, request, assistant_id }: A2aRequestContext<"GetTask">): Promise<JsonObject> {
  const history = readHistoryChoice(request.params, context.request.headers);
  const protocolRequest = await requireTask(context.resources, request.params.id, assistant_id);
  return toTaskJson(await readTask(context.resources, protocolRequest, history), request.version);
}

/**
 * Handles `CancelTask`: stops the active run of the task, waits for its end, and returns the task as it is then. A task
 * that waits for input sends its push notification here. Throws an A2aError for a task that has ended or is not the
 * caller's.
 */
export async function cancelTask({
  context: { resources },
  request,
  assistant_id,
}: A2aRequestContext<"CancelTask">): Promise<JsonObject> {
  const { id } = request.params;
  const protocolRequest = await requireTask(resources, id, assistant_id);
  if (!isActive(protocolRequest.newestRun) && protocolRequest.pending.length === 0)
    throw new A2aError("cancelable", `Task not cancelable: ${protocolRequest.firstRun.run_id}`);
  await cancelProtocolRequest(resources, protocolRequest);
  const { run_id: task_id, thread_id } = protocolRequest.firstRun;
  // Without an active run, no run completion sends the notification.
  if (protocolRequest.pending.length > 0) await resources.webhooks.notifyCancelled({ thread_id, task_id });
  const cancelledRequest = await requireTask(resources, id, assistant_id);
  return toTaskJson(await readTask(resources, cancelledRequest, NO_HISTORY), request.version);
}

/**
 * Handles `SubscribeToTask`: streams the task, then its updates, also those of the run that resumes it (in version 1.0). Throws
 * an A2aError for a task that has ended or does not exist.
 */
export async function subscribeToTask({
  context,
  request,
  assistant_id,
}: A2aRequestContext<"SubscribeToTask">): Promise<Response> {
  const { resources } = context;
  const protocolRequest = await requireTask(resources, request.params.id, assistant_id);
  const { firstRun, newestRun } = protocolRequest;
  const initialTask = await readTask(resources, protocolRequest, NO_HISTORY);
  if (isTerminal(initialTask.status)) {
    throw new A2aError("unsupported", `The task ${firstRun.run_id} has ended: there is nothing to subscribe to`);
  }
  const ids = { run_id: newestRun.run_id, thread_id: newestRun.thread_id };
  const extraHeaders = createExtensionHeaders(context.request.headers);
  if (!isActive(newestRun)) {
    // In 0.3, a stream ends with a final status, and INPUT_REQUIRED is one.
    if (request.version === "0.3")
      return createEventStreamResponse(context, createSingleTaskFrame(request, initialTask), {
        ids,
        headers: extraHeaders,
      });
    const readCurrent = async (): Promise<ProtocolRequestState | null> =>
      await readProtocolRequest(resources, firstRun).catch(nullIfNotFound);
    const frames = createInputRequiredFrames(context, request, {
      initialTask,
      interrupted_run_id: newestRun.run_id,
      readCurrent,
    });
    return createEventStreamResponse(context, frames, { ids, headers: extraHeaders });
  }
  const stream = await resources.runs.joinStream(newestRun.thread_id, newestRun.run_id);
  return createEventStreamResponse(context, createTaskFrames(context, request, stream, { initialTask }), {
    ids,
    headers: extraHeaders,
  });
}

/** The number of runs in one search, and the length of conversations after which a page ends early. */
const SEARCH_BATCH_SIZE = 5;
const MAX_READ_CHARS = 4 * 1024 * 1024;

/** The run statuses with which a task of a state can have started. A run that raised an interrupt has status `success`. */
const RUN_STATUSES_BY_STATE: Readonly<Partial<Record<A2aTaskState, readonly RunStatus[]>>> = {
  SUBMITTED: ["pending", "success"],
  WORKING: ["running", "success"],
  INPUT_REQUIRED: ["success"],
  COMPLETED: ["success"],
  FAILED: ["error", "timeout", "success"],
  CANCELED: ["interrupted", "success"],
};

type ListTasksContext = A2aRequestContext<"ListTasks">;

/**
 * Handles `ListTasks`: lists the caller's tasks of this agent, newest start first; those of a page by the time of their
 * statuses. A page can be shorter than `pageSize` before the end. `totalSize` counts the page, and one more if others
 * follow. An unknown context or state gives an empty page.
 */
export async function listTasks(requestContext: ListTasksContext): Promise<JsonObject> {
  const { context, request } = requestContext;
  const { status, pageSize, contextId } = request.params;
  const history = readHistoryChoice(request.params, context.request.headers, 0);
  const statuses = status === null ? undefined : RUN_STATUSES_BY_STATE[status];
  // No task has such a context or state.
  if ((contextId !== null && !UUID.test(contextId)) || (status !== null && !statuses)) {
    return { tasks: [], nextPageToken: "", pageSize, totalSize: 0 };
  }
  const { foundTasks, cursor } = await readPage(requestContext, history, statuses);
  const getStatusTime = (task: A2aTask): number => Date.parse(task.status.timestamp);
  const tasks = foundTasks
    .sort((a, b) => getStatusTime(b) - getStatusTime(a))
    .map((task): Json => toTaskJson(task, request.version));
  return { tasks, nextPageToken: cursor ?? "", pageSize, totalSize: tasks.length + (cursor === null ? 0 : 1) };
}

/**
 * Reads up to `pageSize` runs after the page token, and returns the matching tasks among them, in that order. A page
 * with long conversations ends early. `cursor` is that of the next page, or null at the end. Throws
 * ClientDisconnectedError.
 */
async function readPage(
  requestContext: ListTasksContext,
  history: HistoryChoice,
  statuses: readonly RunStatus[] | undefined,
): Promise<{ readonly foundTasks: A2aTask[]; readonly cursor: string | null }> {
  const { context, request } = requestContext;
  const foundTasks: A2aTask[] = [];
  let cursor = request.params.pageToken;
  let remaining = request.params.pageSize;
  let read_chars = 0;
  // Each task reads the whole conversation of its context, so a page with long conversations ends early.
  while (remaining > 0 && read_chars < MAX_READ_CHARS) {
    const { items, next } = await searchRuns(requestContext, statuses, cursor, Math.min(remaining, SEARCH_BATCH_SIZE));
    for (const { run_id } of items.filter(({ metadata, temporary }) => metadata.task_id === undefined && !temporary)) {
      const task = await readListedTask(requestContext, run_id, history, (chars) => {
        read_chars += chars;
      });
      if (task) foundTasks.push(task);
      await context.waitForNextTick();
      if (context.bodyBudget.isRequestEnded()) throw new ClientDisconnectedError();
    }
    if (next === null) return { foundTasks, cursor: null };
    remaining -= items.length;
    cursor = next;
  }
  return { foundTasks, cursor };
}

/**
 * Searches the newest runs that A2A has created for this agent, with the given statuses and the context of the request.
 * Throws an A2aError for an unknown page token.
 */
async function searchRuns(
  { context: { resources }, request, assistant_id }: ListTasksContext,
  statuses: readonly RunStatus[] | undefined,
  cursor: string,
  limit: number,
): ReturnType<A2aRequestContext["context"]["resources"]["runs"]["search"]> {
  const { contextId } = request.params;
  const query = {
    ...{ assistant_id, metadata: { created_by: "a2a" }, limit },
    ...(contextId === null ? {} : { thread_id: contextId.toLowerCase() }),
    ...(statuses ? { status: statuses } : {}),
    ...(cursor === "" ? {} : { cursor }),
  };
  return await resources.runs.search(query).catch((error: unknown) => {
    if (error instanceof ServiceError && error.code === "invalid") {
      throw new A2aError("params", "pageToken: is unknown");
    }
    throw error;
  });
}

/**
 * Reads a task of a list, with artifacts only if the request asks for them. Returns null if it does not match the state
 * and the time of the request, was deleted, or the run did not start a task. `onRead` gets the length of its
 * conversation.
 */
async function readListedTask(
  { context: { resources }, request, assistant_id }: ListTasksContext,
  run_id: string,
  history: HistoryChoice,
  onRead: (chars: number) => void,
): Promise<A2aTask | null> {
  const { status: state, statusTimestampAfter, includeArtifacts } = request.params;
  const firstRun = await findFirstRun(resources, run_id, assistant_id);
  if (!firstRun) return null;
  const { artifacts, ...task } = await readTask(
    resources,
    await readProtocolRequest(resources, firstRun),
    history,
    onRead,
  );
  const { status } = task;
  if (state !== null && status.state !== state) return null;
  if (Date.parse(status.timestamp) < statusTimestampAfter) return null;
  return includeArtifacts && artifacts ? { ...task, artifacts } : task;
}
