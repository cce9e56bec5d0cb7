/** Handles messages of clients: each starts a task, which is a durable run on the thread of its context, or resumes one. */

import { type A2aTask, toTaskJson } from "../../../a2a/json.ts";
import { uuidV7 } from "../../../environment.ts";
import { nullIfNotFound, ServiceError } from "../../../errors.ts";
import { isApproval } from "../../../executor/approvals.ts";
import type { Json, JsonObject } from "../../../json.ts";
import type { Run, RunCreate, RunOrigin } from "../../../runs/mod.ts";
import { validateFields } from "../../parse.ts";
import { jsonResponse } from "../../respond.ts";
import { readRunOriginFromHeaders, runCreate } from "../../run-request.ts";
import { createEventStreamResponse } from "../../sse.ts";
import { createWaitResponse } from "../../wait-response.ts";
import { canCallerApprove, findAnswerUrl } from "../permissions.ts";
import {
  createRequestMetadata,
  createResumeOrigin,
  isActive,
  isCancelled,
  isNoLongerPending,
  readProtocolRequest,
  toExpectedAnswers,
} from "../protocol-requests.ts";
import { RUN_EVENT_OPTIONS } from "../run-events.ts";
import { rethrowAsNotFound } from "../states.ts";
import { toResumeValues, toRunInput } from "./message.ts";
import { createExtensionHeaders, readHistoryChoice } from "./options.ts";
import { A2aError, type A2aRequestContext, toErrorMessage, toResultMessage } from "./protocol.ts";
import { requirePushNotifications, toPushRequest } from "./push.ts";
import type { A2aUserMessage } from "./requests.ts";
import { createTaskFrames } from "./stream.ts";
import { type HistoryChoice, readTask, requireTask } from "./task.ts";

/** The run of a message. `firstRun` is that of the task it continues; null for a new task. */
interface PlannedRun {
  readonly thread_id: string;
  readonly run: RunCreate;
  readonly origin: RunOrigin;
  readonly firstRun: Run | null;
}

const contextNotFoundError = (id: string): A2aError => new A2aError("params", `There is no context ${id}`);

/** Members of the metadata that the server sets itself. */
const RESERVED_METADATA = ["created_by", "task_id", "task_cancelled", "graph_id", "assistant_id"];

/**
 * Plans the first run of a task, on the thread of its context, which may not exist yet, or on a new one. Creates
 * nothing. Drops reserved metadata of the message. Throws an A2aError if the context belongs to another assistant.
 */
async function planNewTask({ context, assistant_id }: SendContext, message: A2aUserMessage): Promise<PlannedRun> {
  const { contextId } = message;
  const thread = contextId === null ? null : await context.resources.threads.get(contextId).catch(nullIfNotFound);
  const owner = thread?.metadata.assistant_id ?? assistant_id;
  if (contextId !== null && owner !== assistant_id) throw contextNotFoundError(contextId);
  const metadata = Object.fromEntries(
    Object.entries(message.metadata).filter(([name]) => !RESERVED_METADATA.includes(name)),
  );
  const run: RunCreate = {
    ...{ assistant_id, input: toRunInput(message), if_not_exists: "create" },
    metadata: { ...metadata, ...createRequestMetadata("a2a") },
  };
  return { thread_id: contextId ?? uuidV7(context.service.environment), run, origin: {}, firstRun: null };
}

/**
 * Plans the run that resumes a task with the values in the message. Creates nothing. Throws an A2aError if the context
 * is another one, the task has no pending interrupt, or it has one that only a person can answer.
 */
async function planContinuation(requestContext: SendContext, message: A2aUserMessage): Promise<PlannedRun> {
  const { context, assistant_id } = requestContext;
  const protocolRequest = await requireTask(context.resources, message.taskId, assistant_id);
  const { firstRun, newestRun, pending } = protocolRequest;
  if (message.contextId !== null && message.contextId !== firstRun.thread_id) {
    throw new A2aError("task", `Task not found: ${firstRun.run_id}`);
  }
  if (pending.length === 0 || isCancelled(protocolRequest)) {
    const state = isActive(newestRun) ? "is working" : "has ended";
    throw new A2aError("unsupported", `The task ${state}: send the message without a taskId to begin another one`);
  }
  if (pending.some(({ value }) => isApproval(value)) && !canCallerApprove(context, requestContext)) {
    const url = findAnswerUrl(context, firstRun.thread_id);
    const location = url === null ? `in the conversation ${firstRun.thread_id}` : `at ${url}`;
    const nextStep = `Get the task ${firstRun.run_id} afterwards, or subscribe to it`;
    throw new A2aError("unsupported", `Only a person can approve this, ${location}. ${nextStep}`);
  }
  const run: RunCreate = {
    ...{ assistant_id, strict_resume: true },
    command: { resume: toResumeValues(pending, message), expected_answers: toExpectedAnswers(pending) },
    metadata: createRequestMetadata("a2a", firstRun.run_id),
  };
  return {
    thread_id: firstRun.thread_id,
    run,
    origin: createResumeOrigin(newestRun, ` ${message.messageId}`),
    firstRun,
  };
}

/** Reads the run again, and returns its task as it is now, not as it was when it started. */
async function readCurrentTask(
  { context: { resources } }: SendContext,
  startedRun: Run,
  history: HistoryChoice,
): Promise<A2aTask> {
  const firstRun = await resources.runs.get(startedRun.thread_id, startedRun.run_id);
  return await readTask(resources, await readProtocolRequest(resources, firstRun), history);
}

/**
 * Creates the first event of a stream: the task as submitted when the second run was created, even if that run has
 * already ended. Its history is the message, or absent if the history length is 0.
 */
function createInitialTask(
  firstRun: Run,
  { created_at }: Run,
  { messageId, parts }: A2aUserMessage,
  { length }: HistoryChoice,
): A2aTask {
  const ids = { taskId: firstRun.run_id, contextId: firstRun.thread_id };
  return {
    ...{ id: ids.taskId, contextId: ids.contextId, status: { state: "SUBMITTED", timestamp: created_at } },
    ...(length > 0 ? { history: [{ messageId, ...ids, role: "USER", parts }] } : {}),
  };
}

/**
 * Validates and returns the request of the run, which streams only custom events unless `isStreamed`. Messages in one
 * context are enqueued, as a client expects of a conversation. Throws `invalid`.
 */
function toRunRequest({ run }: PlannedRun, isStreamed: boolean): RunCreate {
  const streamOptions = isStreamed
    ? { ...RUN_EVENT_OPTIONS, stream_mode: [...RUN_EVENT_OPTIONS.stream_mode] }
    : { stream_mode: ["custom" as const] };
  return validateFields({ ...run, ...streamOptions, multitask_strategy: "enqueue" }, runCreate);
}

type SendContext = A2aRequestContext<"SendMessage" | "SendStreamingMessage">;

/**
 * Handles `SendMessage` and `SendStreamingMessage`: creates the run of a task, or resumes one. Responds with a stream,
 * with the task after the run has ended, or with the task at once if the configuration asks for that. Throws an
 * A2aError.
 */
export async function sendMessage(requestContext: SendContext): Promise<Response> {
  const { context, request } = requestContext;
  const { resources } = context;
  const { headers } = context.request;
  const isStream = request.method === "SendStreamingMessage";
  const { message, configuration } = request.params;
  const history = readHistoryChoice(configuration, headers);
  if (isStream && history.scope === "task") {
    throw new A2aError("params", "historyScope task is not available with streaming");
  }
  const pushConfig = configuration.taskPushNotificationConfig ?? configuration.pushNotificationConfig ?? null;
  if (pushConfig) requirePushNotifications(context.service);
  const push = pushConfig && toPushRequest(pushConfig, request.version, context.service.environment.uuid());
  const plannedRun =
    message.taskId === null
      ? await planNewTask(requestContext, message)
      : await planContinuation(requestContext, message);
  const { thread_id, firstRun } = plannedRun;
  const taskMembers = firstRun ? { task_id: firstRun.run_id } : {};
  const origin: RunOrigin = {
    ...readRunOriginFromHeaders(context, "a2a", { last: message.metadata ?? {} }),
    ...plannedRun.origin,
    ...(push ? { push: { ...push, ...taskMembers } } : {}),
  };
  /** Throws an A2aError if the interrupts are no longer pending or the context is not found, else the error itself. */
  const rethrow = (error: unknown): never => {
    if (isNoLongerPending(error)) throw new A2aError("unsupported", "The task's question is already answered");
    return rethrowAsNotFound(error, contextNotFoundError(thread_id));
  };
  const extraHeaders = createExtensionHeaders(headers);

  if (isStream) {
    const stream = await resources.runs.stream(thread_id, toRunRequest(plannedRun, true), origin).catch(rethrow);
    const initialTask = createInitialTask(firstRun ?? stream.run, stream.run, message, history);
    const frames = createTaskFrames(context, request, stream, { initialTask });
    return createEventStreamResponse(context, frames, {
      ids: { run_id: stream.run.run_id, thread_id },
      headers: extraHeaders,
    });
  }

  /** Returns the JSON-RPC response with the task; version 1.0 has it in the member `task`. */
  const toTaskMessage = (task: A2aTask): JsonObject => {
    const taskJson = toTaskJson(task, request.version);
    return toResultMessage(request, request.version === "1.0" ? { task: taskJson } : taskJson);
  };
  const isBlocking = configuration.returnImmediately !== true && configuration.blocking !== false;
  if (!isBlocking) {
    const run = await resources.runs.create(thread_id, toRunRequest(plannedRun, true), origin).catch(rethrow);
    return jsonResponse(toTaskMessage(await readCurrentTask(requestContext, firstRun ?? run, history)), extraHeaders);
  }
  const wait = await resources.runs.wait(thread_id, toRunRequest(plannedRun, false), origin).catch(rethrow);
  const result = createResultMessage(requestContext, wait.result, async () =>
    toTaskMessage(await readCurrentTask(requestContext, firstRun ?? wait.run, history)),
  );
  return createWaitResponse(context, { run: wait.run, result, leave: wait.leave }, extraHeaders);
}

/** Waits for the run and returns the response message. Never rejects: errors become JSON-RPC errors, unknown ones are logged. */
async function createResultMessage(
  { context, request }: SendContext,
  runEnd: Promise<Json>,
  createTaskMessage: () => Promise<JsonObject>,
): Promise<JsonObject> {
  try {
    await runEnd;
    return await createTaskMessage();
  } catch (error) {
    const isServiceError = error instanceof ServiceError;
    const { environment } = context.service;
    if (!isServiceError) {
      const logMessage = "A message of A2A was not answered";
      environment.log({ level: "error", message: logMessage, request_id: context.request_id, error });
    }
    return toErrorMessage(request, new A2aError("internal", isServiceError ? error.message : "Internal error"));
  }
}
