/** Tasks: calls that clients poll. What a task is stands in the runs of its thread, so every process knows it, also after a crash. */
import { nullIfNotFound } from "../../../errors.ts";
import type { JsonObject } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import { UUID } from "../../../storage/identity.ts";
import type { RequestContext } from "../../route.ts";
import { type CallState, cancelCall, isActive, isCancelled, LAPSED, readCall, resultOfCall } from "../calls.ts";
import { errorIn } from "../messages.ts";
import { askedOf, inputRequests, replyIn } from "./answers.ts";
import { firstRun } from "./call-state.ts";
import {
  canPoll,
  capabilityMissing,
  type RequestHead,
  RpcError,
  type RpcRequest,
  resultOf,
  TASKS,
} from "./protocol.ts";
import { endedResult } from "./results.ts";
import { type Answer, answerCall, resumeCall, unansweredOf } from "./resume.ts";
import { outputOf } from "./tools.ts";

const absent = (): RpcError => new RpcError("params", "Failed to retrieve task: Task not found");

const POLL_MS = 500;
const SLOW_POLL_MS = 2_000;
const SLOW_AFTER_MS = 30_000;

/** The members that every task has. */
function headOf({ service: { environment } }: RequestContext, { first, newest, thread }: CallState): JsonObject {
  const created = Date.parse(first.created_at);
  const ends = thread.ttl ? Date.parse(thread.ttl.expires_at) : null;
  return {
    taskId: first.run_id,
    createdAt: first.created_at,
    lastUpdatedAt: newest.updated_at,
    ttlMs: ends === null ? null : Math.max(0, ends - created),
    pollIntervalMs: environment.now() - created > SLOW_AFTER_MS ? SLOW_POLL_MS : POLL_MS,
  };
}

/** The call of a task. Errors: one for tasks that are absent, foreign or expired. */
async function taskCall(
  { nouns }: RequestContext,
  request: RequestHead,
  taskId: string | undefined,
): Promise<CallState> {
  if (!canPoll(request)) throw capabilityMissing({ extensions: { [TASKS]: {} } });
  const first = taskId !== undefined && UUID.test(taskId) ? await firstRun(nouns, taskId) : null;
  const call = first && (await readCall(nouns, first).catch(nullIfNotFound));
  if (!call) throw absent();
  return call;
}

/** A task that a call has become. */
export async function shownTask(context: RequestContext, request: RequestHead, first: Run): Promise<JsonObject> {
  const call = await readCall(context.nouns, first);
  return resultOf(request, { resultType: "task", ...headOf(context, call), status: "working" });
}

/** The unanswered questions as requests. Keys never come back in a task: an update that comes twice must not answer a later question. */
function requestsOf(request: RequestHead, call: CallState): ReturnType<typeof askedOf> {
  const { first, newest } = call;
  return askedOf(request, unansweredOf(call), newest.run_id === first.run_id ? "" : `:${newest.run_id}`);
}

/** What a task is now. */
async function stateOf(context: RequestContext, request: RequestHead, call: CallState): Promise<JsonObject> {
  const { newest, open } = call;
  if (isActive(newest)) {
    return { status: "working", statusMessage: newest.status === "pending" ? "queued" : "running" };
  }
  if (isCancelled(call)) return { status: "cancelled" };
  if (open.length > 0) {
    const asked = requestsOf(request, call);
    if (asked.length === 0) {
      // A crash came between the last answer and the run that it starts.
      await resumeCall(context, call);
      return { status: "working", statusMessage: "queued" };
    }
    const requests = inputRequests(asked);
    if (requests) return { status: "input_required", inputRequests: requests };
    return { status: "working", statusMessage: "Waits for a person" };
  }
  const result = await resultOfCall(context.nouns, call);
  const failure = errorIn(result);
  if (failure?.error === LAPSED) return { status: "cancelled", statusMessage: failure.message };
  if (newest.status === "timeout" || failure?.error === "AttemptsExhausted") {
    const text = failure?.message ?? "The run timed out";
    return { status: "failed", error: { code: -32603, message: text }, statusMessage: text };
  }
  const members = await outputOf(context.nouns, call.first.assistant_id).catch(nullIfNotFound);
  return { status: "completed", result: { resultType: "complete", ...endedResult(result, newest, members) } };
}

/** A task as it is now. */
interface TaskNow {
  readonly thread_id: string;
  /** The members that every task has. */
  readonly head: JsonObject;
  readonly state: JsonObject;
}

/** Errors: as `taskCall`. */
export async function readTask(
  context: RequestContext,
  request: RequestHead,
  taskId: string | undefined,
): Promise<TaskNow> {
  const call = await taskCall(context, request, taskId);
  const state = await stateOf(context, request, call);
  return { thread_id: call.first.thread_id, head: headOf(context, call), state };
}

export async function getTask(context: RequestContext, request: RpcRequest<"tasks/get">): Promise<JsonObject> {
  const { head, state } = await readTask(context, request, request.params.taskId);
  return resultOf(request, { ...head, ...state });
}

export async function updateTask(context: RequestContext, request: RpcRequest<"tasks/update">): Promise<JsonObject> {
  const call = await taskCall(context, request, request.params.taskId);
  const sent = request.params.inputResponses;
  const asked = isCancelled(call) ? [] : requestsOf(request, call);
  const fresh = asked.flatMap((one): Answer[] => {
    const reply = replyIn(sent, one);
    return reply?.kind === "resume" ? [[one.interrupt, reply.value]] : [];
  });
  await answerCall(context, call, fresh);
  return resultOf(request, {});
}

/** No effect on a task that has ended. */
export async function cancelTask(context: RequestContext, request: RpcRequest<"tasks/cancel">): Promise<JsonObject> {
  await cancelCall(context.nouns, await taskCall(context, request, request.params.taskId));
  return resultOf(request, {});
}
