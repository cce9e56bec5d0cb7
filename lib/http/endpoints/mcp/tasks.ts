/** Tasks: tool calls that clients poll. The state is read from the runs of the thread, so every process has it, also after a crash. */
import { nullIfNotFound } from "../../../errors.ts";
import type { JsonObject } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import { UUID } from "../../../storage/identity.ts";
import type { RequestContext } from "../../route.ts";
import { findError } from "../messages.ts";
import {
  cancelProtocolRequest,
  isActive,
  isCancelled,
  type ProtocolRequestState,
  readProtocolRequest,
  readProtocolResult,
  UNANSWERED_ERROR,
} from "../protocol-requests.ts";
import { findInputResponse, keyInputRequests, toInputRequests } from "./input-requests.ts";
import {
  canPoll,
  McpError,
  type McpRequest,
  type McpRequestHeader,
  missingCapabilityError,
  TASKS_EXTENSION,
  toResultMessage,
} from "./protocol.ts";
import { findFirstRun } from "./request-state.ts";
import { toRunResult } from "./results.ts";
import { addResumeEntries, listUnanswered, type ResumeEntry, resumeProtocolRequest } from "./resume.ts";
import { readOutputMembers } from "./tools.ts";

const taskNotFoundError = (): McpError => new McpError("params", "Failed to retrieve task: Task not found");

const POLL_MS = 500;
const SLOW_POLL_MS = 2_000;
const SLOW_AFTER_MS = 30_000;

/**
 * Returns the members that every task has, whatever its state. `ttlMs` is the time from its creation to the expiry of
 * its thread, or null. A task that is old is to be polled less often.
 */
function toTaskHeader(
  { service: { environment } }: RequestContext,
  { firstRun, newestRun, thread }: ProtocolRequestState,
): JsonObject {
  const createdMs = Date.parse(firstRun.created_at);
  const expiryMs = thread.ttl ? Date.parse(thread.ttl.expires_at) : null;
  return {
    taskId: firstRun.run_id,
    createdAt: firstRun.created_at,
    lastUpdatedAt: newestRun.updated_at,
    ttlMs: expiryMs === null ? null : Math.max(0, expiryMs - createdMs),
    pollIntervalMs: environment.now() - createdMs > SLOW_AFTER_MS ? SLOW_POLL_MS : POLL_MS,
  };
}

/**
 * Reads the protocol request of a task. Throws one McpError for tasks that are absent, expired or of another caller, and another
 * for a client that cannot poll.
 */
async function requireTask(
  { resources }: RequestContext,
  request: McpRequestHeader,
  taskId: string | undefined,
): Promise<ProtocolRequestState> {
  if (!canPoll(request)) throw missingCapabilityError({ extensions: { [TASKS_EXTENSION]: {} } });
  const firstRun = taskId !== undefined && UUID.test(taskId) ? await findFirstRun(resources, taskId) : null;
  const protocolRequest = firstRun && (await readProtocolRequest(resources, firstRun).catch(nullIfNotFound));
  if (!protocolRequest) throw taskNotFoundError();
  return protocolRequest;
}

/**
 * Creates the response that a call has become a task, which is always `working`. Reads the task, and changes nothing.
 */
export async function createTaskResult(
  context: RequestContext,
  request: McpRequestHeader,
  firstRun: Run,
): Promise<JsonObject> {
  const protocolRequest = await readProtocolRequest(context.resources, firstRun);
  return toResultMessage(request, { resultType: "task", ...toTaskHeader(context, protocolRequest), status: "working" });
}

/**
 * Converts the unanswered interrupts to requests. Keys are unique within a task, so that a repeated update never answers a later
 * interrupt.
 */
function listInputRequests(
  request: McpRequestHeader,
  protocolRequest: ProtocolRequestState,
): ReturnType<typeof toInputRequests> {
  const { firstRun, newestRun } = protocolRequest;
  return toInputRequests(
    request,
    listUnanswered(protocolRequest),
    newestRun.run_id === firstRun.run_id ? "" : `:${newestRun.run_id}`,
  );
}

/**
 * Reads the state of a task: `working`, `cancelled` (also if the conversation went on without an answer), `input_required` with
 * requests, `completed` with a result, or `failed` after a timeout or too many attempts. A run that failed with an error is
 * `completed`, with `isError` in its result, as the tasks extension requires. It is `working`, too, while only a person can answer.
 * Starts the run that resumes it if a crash prevented that.
 */
async function readTaskState(
  context: RequestContext,
  request: McpRequestHeader,
  protocolRequest: ProtocolRequestState,
): Promise<JsonObject> {
  const { newestRun, pending } = protocolRequest;
  if (isActive(newestRun)) {
    return { status: "working", statusMessage: newestRun.status === "pending" ? "queued" : "running" };
  }
  if (isCancelled(protocolRequest)) return { status: "cancelled" };
  if (pending.length > 0) {
    const inputRequests = listInputRequests(request, protocolRequest);
    if (inputRequests.length === 0) {
      // A crash prevented the run that the last response starts.
      await resumeProtocolRequest(context, protocolRequest);
      return { status: "working", statusMessage: "queued" };
    }
    const requests = keyInputRequests(inputRequests);
    if (requests) return { status: "input_required", inputRequests: requests };
    return { status: "working", statusMessage: "Waits for a person" };
  }
  const result = await readProtocolResult(context.resources, protocolRequest);
  const failure = findError(result);
  if (failure?.error === UNANSWERED_ERROR) return { status: "cancelled", statusMessage: failure.message };
  if (newestRun.status === "timeout" || failure?.error === "AttemptsExhausted") {
    const text = failure?.message ?? "The run timed out";
    return { status: "failed", error: { code: -32603, message: text }, statusMessage: text };
  }
  const members = await readOutputMembers(context.resources, protocolRequest.firstRun.assistant_id).catch(
    nullIfNotFound,
  );
  return { status: "completed", result: { resultType: "complete", ...toRunResult(result, newestRun, members) } };
}

/** A task at one time. */
interface TaskSnapshot {
  readonly thread_id: string;
  /** The members that every task has. */
  readonly header: JsonObject;
  readonly state: JsonObject;
}

/**
 * Reads a task as it is now. Starts the run that resumes it if a crash prevented that. Throws the errors of
 * `requireTask`.
 */
export async function readTask(
  context: RequestContext,
  request: McpRequestHeader,
  taskId: string | undefined,
): Promise<TaskSnapshot> {
  const protocolRequest = await requireTask(context, request, taskId);
  const state = await readTaskState(context, request, protocolRequest);
  return { thread_id: protocolRequest.firstRun.thread_id, header: toTaskHeader(context, protocolRequest), state };
}

/**
 * Handles `tasks/get`: returns the task with its state as it is now, without a wait. Throws an McpError for an unknown
 * task, and for a client that cannot poll.
 */
export async function getTask(context: RequestContext, request: McpRequest<"tasks/get">): Promise<JsonObject> {
  const { header, state } = await readTask(context, request, request.params.taskId);
  return toResultMessage(request, { ...header, ...state });
}

/**
 * Handles `tasks/update`: adds the responses to pending interrupts and starts the run once all have one. Ignores
 * responses to other interrupts and cancelled tasks. Returns an empty result.
 */
export async function updateTask(context: RequestContext, request: McpRequest<"tasks/update">): Promise<JsonObject> {
  const protocolRequest = await requireTask(context, request, request.params.taskId);
  const inputResponses = request.params.inputResponses;
  const inputRequests = isCancelled(protocolRequest) ? [] : listInputRequests(request, protocolRequest);
  const resumeEntries = inputRequests.flatMap((inputRequest): ResumeEntry[] => {
    const response = findInputResponse(inputResponses, inputRequest);
    return response?.kind === "resume" ? [[inputRequest.interrupt, response.value]] : [];
  });
  await addResumeEntries(context, protocolRequest, resumeEntries);
  return toResultMessage(request, {});
}

/**
 * Handles `tasks/cancel`: cancels a task and waits for the end of its run. Does nothing if it has ended. Returns an
 * empty result. Throws an McpError for an unknown task.
 */
export async function cancelTask(context: RequestContext, request: McpRequest<"tasks/cancel">): Promise<JsonObject> {
  await cancelProtocolRequest(context.resources, await requireTask(context, request, request.params.taskId));
  return toResultMessage(request, {});
}
