/** Tasks: calls that clients poll. What a task is stands in the runs of its thread, so every process knows it, also after a crash. */
import { nullIfNotFound, ServiceError } from "../../../errors.ts";
import type { Interrupt } from "../../../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import { UUID } from "../../../storage/identity.ts";
import type { Thread } from "../../../threads/mod.ts";
import type { RequestContext } from "../../route.ts";
import { originOfHeaders } from "../../run-request.ts";
import {
  answerOrigin,
  type CallState,
  callMetadata,
  cancelCall,
  isActive,
  isCancelled,
  LAPSED,
  readCall,
  resultOfCall,
} from "../calls.ts";
import { errorIn } from "../messages.ts";
import { askedOf, inputRequests, readResponses, replyOf } from "./answers.ts";
import { firstRun } from "./call-state.ts";
import { canPoll, capabilityMissing, RpcError, type RpcRequest, resultOf, TASKS } from "./protocol.ts";
import { endedResult } from "./results.ts";
import { outputOf } from "./tools.ts";

const absent = (): RpcError => new RpcError("params", "Failed to retrieve task: Task not found");

/** The thread's note on an answer that waits for the others of its question. */
const ANSWER = "mcp_answer_";
const storedAnswer = ({ metadata }: Pick<Thread, "metadata">, { id }: Interrupt): JsonObject | null => {
  const stored = metadata[`${ANSWER}${id}`] ?? null;
  return isObject(stored) ? stored : null;
};

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
async function taskCall({ nouns }: RequestContext, request: RpcRequest): Promise<CallState> {
  const { taskId } = request.params;
  if (!canPoll(request)) throw capabilityMissing({ extensions: { [TASKS]: {} } });
  const first = typeof taskId === "string" && UUID.test(taskId) ? await firstRun(nouns, taskId) : null;
  const call = first && (await readCall(nouns, first).catch(nullIfNotFound));
  if (!call) throw absent();
  return call;
}

/** A task that a call has become. */
export async function shownTask(context: RequestContext, request: RpcRequest, first: Run): Promise<JsonObject> {
  const call = await readCall(context.nouns, first);
  return resultOf(request, { resultType: "task", ...headOf(context, call), status: "working" });
}

/** What a task is now. */
async function stateOf(context: RequestContext, request: RpcRequest, call: CallState): Promise<JsonObject> {
  const { newest, open, thread } = call;
  if (isActive(newest)) {
    return { status: "working", statusMessage: newest.status === "pending" ? "queued" : "running" };
  }
  if (isCancelled(call)) return { status: "cancelled" };
  if (open.length > 0) {
    const unanswered = open.filter((one) => !storedAnswer(thread, one));
    // A crash came between the last answer and the run that it starts.
    if (unanswered.length === 0) return await resume(context, call, thread);
    const requests = inputRequests(askedOf(request, unanswered));
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

/** Starts the run that answers all questions of a task. A repeated start gives the same run. */
async function resume({ nouns, ...context }: RequestContext, call: CallState, thread: Thread): Promise<JsonObject> {
  const { open, newest } = call;
  const answers = open.map((one): [string, Json] => [one.id, storedAnswer(thread, one)?.value ?? null]);
  const { mcp_tool = null, mcp_call = null } = call.first.metadata;
  const run = {
    assistant_id: call.first.assistant_id,
    metadata: { ...callMetadata("mcp", call.first.run_id), mcp_tool, mcp_call },
    command: { resume: Object.fromEntries(answers) },
    strict_resume: true,
    stream_mode: ["custom"],
  } as const;
  try {
    const origin = { ...originOfHeaders({ nouns, ...context }), ...answerOrigin(newest) };
    await nouns.runs.create(thread.thread_id, run, origin);
  } catch (error) {
    // Somebody else has answered meanwhile.
    if (!(error instanceof ServiceError && error.code === "invalid")) throw error;
  }
  return { status: "working", statusMessage: "queued" };
}

export async function getTask(context: RequestContext, request: RpcRequest): Promise<JsonObject> {
  const call = await taskCall(context, request);
  const state = await stateOf(context, request, call);
  return resultOf(request, { ...headOf(context, call), ...state });
}

/** Keeps answers until all open questions have one, then starts one run with all of them. */
export async function updateTask(context: RequestContext, request: RpcRequest): Promise<JsonObject> {
  const call = await taskCall(context, request);
  const sent = readResponses(request.params.inputResponses);
  const open = isCancelled(call) ? [] : call.open.filter((one) => !storedAnswer(call.thread, one));
  const fresh = askedOf(request, open).flatMap(({ key, interrupt }): [string, Json][] => {
    const reply = isObject(sent[key]) ? replyOf(interrupt, sent[key]) : null;
    return reply?.kind === "resume" ? [[`${ANSWER}${interrupt.id}`, { value: reply.value }]] : [];
  });
  if (fresh.length > 0) {
    // The row as it is now: another answer may have come at the same time.
    const thread = await context.nouns.threads.update(call.thread.thread_id, { metadata: Object.fromEntries(fresh) });
    if (call.open.every((one) => storedAnswer(thread, one))) await resume(context, call, thread);
  }
  return resultOf(request, {});
}

/** No effect on a task that has ended. */
export async function cancelTask(context: RequestContext, request: RpcRequest): Promise<JsonObject> {
  await cancelCall(context.nouns, await taskCall(context, request));
  return resultOf(request, {});
}
