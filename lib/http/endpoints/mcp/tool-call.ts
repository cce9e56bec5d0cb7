/** `tools/call`: a tool call is a durable run on a thread of its own, which can be resumed and found again. */
import type { Environment } from "../../../environment.ts";
import { nullIfNotFound, ServiceError } from "../../../errors.ts";
import type { Interrupt } from "../../../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { DEFAULTS } from "../../../options.ts";
import type { Run, RunCreate, RunOrigin, RunWait } from "../../../runs/mod.ts";
import { UUID } from "../../../storage/identity.ts";
import type { Thread } from "../../../threads/mod.ts";
import type { RequestContext } from "../../route.ts";
import { readRunOriginFromHeaders } from "../../run-request.ts";
import { canModelAnswer } from "../permissions.ts";
import {
  createRequestMetadata,
  createResumeOrigin,
  filterInterrupts,
  isActive,
  isCancelled,
  isNoLongerPending,
  isResumingRun,
  omitKwargs,
  type ProtocolRequestState,
  readInterrupts,
  readProtocolRequest,
  readProtocolResult,
  toExpectedAnswers,
} from "../protocol-requests.ts";
import { checkParamHeaders, findArgumentErrors } from "./arguments.ts";
import {
  createElicitedResult,
  createEndedResult,
  createStoppingResult,
  type ToolCallContext,
  toInterruptResult,
  toResultMeta,
  toWaitingResult,
} from "./call-results.ts";
import { isStopping, StreamingToolResult } from "./elicitation.ts";
import { findInputResponse, keyInputRequests, toInputRequests } from "./input-requests.ts";
import {
  canPoll,
  McpError,
  type McpRequest,
  missingCapabilityError,
  TASKS_EXTENSION,
  toResultMessage,
} from "./protocol.ts";
import { createRequestDigest, requireRunOfState } from "./request-state.ts";
import type { InputResponses } from "./requests.ts";
import { toToolError } from "./results.ts";
import { createRequestKey, readSession } from "./session.ts";
import { createTaskResult } from "./tasks.ts";
import { findTool, readArguments, readToolSignature } from "./tools.ts";

/** A tool call whose run is active. */
export interface PendingToolCall {
  readonly run: Run;
  /** The response message. It never rejects: a failed run becomes a result. */
  readonly response: Promise<JsonObject>;
  /** The requests to the client before the response; null for a client that cannot get requests meanwhile. */
  readonly streamingResult: StreamingToolResult | null;
  /**
   * Ends the wait for the run when the client disconnects, which cancels the run if the protocol says so. Does nothing
   * for a task.
   */
  leave(): void;
}

export const listGraphIds = ({ service }: RequestContext): string[] =>
  service.options.executor.graphs().map(({ graph_id }) => graph_id);

const MINUTE_MS = 60_000;

/** Error codes that become a result of the tool, because the model can act on them. */
const TOOL_ERROR_CODES: ReadonlySet<string> = new Set(["bad_request", "invalid", "not_found", "conflict"]);

/**
 * Starts a tool call, or continues an interrupted one. Returns a message at once if no run is needed, also for errors that the
 * model should see. Throws an McpError for an unknown tool, missing capabilities and a state of another call.
 */
export async function callTool(
  context: RequestContext,
  request: McpRequest<"tools/call">,
): Promise<JsonObject | PendingToolCall> {
  const { name, arguments: args, inputResponses, requestState } = request.params;
  const tool = await findTool(context.resources, listGraphIds(context), name);
  if (!tool) throw new McpError("params", `Unknown tool: ${name}`);
  if (tool.settings.task === "required" && !canPoll(request)) {
    throw missingCapabilityError({ extensions: { [TASKS_EXTENSION]: {} } });
  }
  const { requires } = tool.settings;
  if (
    request.isModern &&
    !Object.keys(requires).every((capability) => isObject(request.capabilities[capability] ?? null))
  ) {
    throw missingCapabilityError(requires);
  }
  const signature = await readToolSignature(context.resources, tool);
  if (request.isModern) checkParamHeaders(context.request.headers, signature, args);
  const session = request.isModern ? null : readSession(context.request.headers);
  const mcp_request = session && (await createRequestKey(context.principal, session, request.id));
  // The thread argument is not part of the digest, so that a call which continues its conversation can be elicited again.
  const { [signature.thread_id]: _, ...agentArguments } = args;
  const digest = await createRequestDigest(context.principal, name, agentArguments);
  // Drops the arguments, which may be large, for the time of the call.
  const { params: _params, method: _method, ...header } = request;
  const toolCall = { context, request: header, tool, signature, digest, mcp_request };
  try {
    // Responses without a request state are ignored: the call starts again.
    if (request.isModern && requestState !== undefined) {
      const { firstRun, interrupted_run_id } = await requireRunOfState(
        context.resources,
        requestState,
        toolCall.digest,
      );
      return await continueToolCall(toolCall, firstRun, { interrupted_run_id, responses: inputResponses });
    }
    return await startToolCall(toolCall, args);
  } catch (error) {
    if (!(error instanceof ServiceError && TOOL_ERROR_CODES.has(error.code))) throw error;
    return toResultMessage(request, toToolError(error.message));
  }
}

const createKeyMetadata = ({ mcp_request }: ToolCallContext): JsonObject =>
  mcp_request === null ? {} : { mcp_request };

/**
 * Creates the request of a run without its input and command. Its metadata name the tool, the call and the first run of
 * the call. A busy thread enqueues it. It streams updates only for a client that wants progress.
 */
const createRunRequest = (toolCall: ToolCallContext, task_id?: string): RunCreate => ({
  assistant_id: toolCall.tool.assistant.assistant_id,
  metadata: {
    ...createRequestMetadata("mcp", task_id),
    ...createKeyMetadata(toolCall),
    mcp_tool: toolCall.tool.name,
    mcp_call: toolCall.digest,
  },
  multitask_strategy: "enqueue",
  stream_mode: toolCall.request.progressToken === undefined ? ["custom"] : ["updates", "custom"],
});

/**
 * Returns the milliseconds after which a call becomes a task: 0 if the tool says `always`, otherwise `task_after_ms` or its default. Null
 * if the tool says `never` or the client cannot poll.
 */
function getTaskDelay({ context, request, tool }: ToolCallContext): number | null {
  const { task } = tool.settings;
  if (!canPoll(request) || task === "never") return null;
  return task === "always" ? 0 : (context.service.options.http?.mcp?.task_after_ms ?? 500);
}

/** Returns true if a disconnect cancels the run: for a modern client, unless the call is a task from its start. */
const cancelsOnDisconnect = (toolCall: ToolCallContext): boolean =>
  toolCall.request.isModern && getTaskDelay(toolCall) !== 0;

/**
 * Starts a run on the named conversation, or on a new thread with an expiry, and returns the pending call. Resumes
 * interrupts if there is a resume value, and joins a call that this one repeats. Arguments that do not fit the schema
 * give a tool error.
 */
async function startToolCall(toolCall: ToolCallContext, args: JsonObject): Promise<JsonObject | PendingToolCall> {
  const { context, tool, signature } = toolCall;
  const { input, thread_id, resume } = readArguments(signature, args);
  const continued = await findConversation(toolCall, thread_id);
  if (resume !== undefined) return await resumeAsModel(toolCall, continued, resume);
  const repeated = continued && (await findRepeatedCall(toolCall, continued.thread_id, input));
  if (repeated) return await repeatToolCall(toolCall, repeated);
  const misfits = findArgumentErrors(tool, signature, args);
  if (misfits) return toResultMessage(toolCall.request, misfits);
  if (continued) await recordRequestKey(toolCall, continued.thread_id);
  const { mcp_ms = DEFAULTS.retention.mcp_ms } = context.service.options.retention ?? {};
  const thread =
    continued ??
    (await context.resources.threads.create({
      metadata: { ...createRequestMetadata("mcp"), ...createKeyMetadata(toolCall), mcp_tool: tool.name },
      ttl: { ttl: mcp_ms / MINUTE_MS },
    }));
  return createPendingToolCall(
    toolCall,
    null,
    await startRun(toolCall, thread.thread_id, { ...createRunRequest(toolCall), input }),
  );
}

/**
 * Starts the run in which a model answers the pending interrupts of a conversation, and records the request on its
 * thread. Returns a tool error if the model may not answer or the value does not fit.
 */
async function resumeAsModel(
  toolCall: ToolCallContext,
  thread: Thread | null,
  resume: Json,
): Promise<JsonObject | PendingToolCall> {
  if (thread) await recordRequestKey(toolCall, thread.thread_id);
  const command = toResumeCommand(toolCall, thread, resume);
  if ("content" in command) return toResultMessage(toolCall.request, command);
  const run = { ...createRunRequest(toolCall), command, strict_resume: true };
  return createPendingToolCall(toolCall, null, await startRun(toolCall, thread?.thread_id ?? "", run));
}

/**
 * Joins the newest run of a call that this request repeats, without a new run. If that run failed and its interrupts
 * are pending again, returns them and how to continue.
 */
async function repeatToolCall(
  toolCall: ToolCallContext,
  { newestRun, firstRun, thread }: ProtocolRequestState,
): Promise<JsonObject | PendingToolCall> {
  // If the resuming run failed, its interrupts are pending again.
  const reopenedInterrupts =
    newestRun.status === "error" ? filterInterrupts(Object.values(thread.interrupts).flat()) : [];
  if (reopenedInterrupts.length > 0) {
    return toResultMessage(
      toolCall.request,
      toWaitingResult(toolCall, reopenedInterrupts, newestRun.thread_id),
      toResultMeta(newestRun),
    );
  }
  return createPendingToolCall(
    toolCall,
    firstRun,
    await toolCall.context.resources.runs.join(newestRun.thread_id, newestRun.run_id),
  );
}

/** The number of runs of a thread that are searched for its newest call. */
const MAX_SEARCHED_RUNS = 20;

/**
 * Returns the newest call of a conversation if it was interrupted, and this request has its arguments or no input, to
 * get its result. Returns null otherwise and for a cancelled call.
 */
async function findRepeatedCall(
  { context: { resources }, digest }: ToolCallContext,
  thread_id: string,
  input: JsonObject,
): Promise<ProtocolRequestState | null> {
  const runs = await resources.runs.list(thread_id, { limit: MAX_SEARCHED_RUNS });
  const firstRun = runs.find((run) => !isResumingRun(run));
  if (!firstRun || (Object.keys(input).length > 0 && firstRun.metadata.mcp_call !== digest)) return null;
  const protocolRequest = await readProtocolRequest(resources, firstRun);
  const wasInterrupted = protocolRequest.newestRun !== protocolRequest.firstRun || protocolRequest.pending.length > 0;
  return wasInterrupted && !isCancelled(protocolRequest) ? protocolRequest : null;
}

/**
 * Stores the key of the last request in the metadata of the thread, so that the request can be cancelled. Does nothing
 * for a request without a key, and if the caller may not update the thread.
 */
async function recordRequestKey(toolCall: ToolCallContext, thread_id: string): Promise<void> {
  if (toolCall.mcp_request === null) return;
  try {
    await toolCall.context.resources.threads.update(thread_id, { metadata: createKeyMetadata(toolCall) });
  } catch (error) {
    // Callers who may run on a thread, but not update it, cannot cancel there.
    if (!(error instanceof ServiceError && error.code === "forbidden")) throw error;
  }
}

const conversationNotFoundError = (id: Json): ServiceError =>
  new ServiceError("thread_not_found", `There is no conversation ${typeof id === "string" ? id : JSON.stringify(id)}`);

/**
 * Returns the thread that the arguments continue. Returns null if `id` is undefined. Throws `thread_not_found` for an
 * id that is no UUID, and for a thread of another agent or caller.
 */
async function findConversation(
  { context: { resources }, tool }: ToolCallContext,
  id: Json | undefined,
): Promise<Thread | null> {
  if (id === undefined) return null;
  if (typeof id !== "string" || !UUID.test(id)) throw conversationNotFoundError(id);
  const thread = await resources.threads.get(id).catch(nullIfNotFound);
  if (!thread) throw conversationNotFoundError(id);
  const { assistant_id = tool.assistant.assistant_id } = thread.metadata;
  if (assistant_id !== tool.assistant.assistant_id) throw conversationNotFoundError(id);
  return thread;
}

/** Returns the command that resumes a conversation with the model's value, or a tool error with the reason why it cannot. */
function toResumeCommand(
  toolCall: ToolCallContext,
  thread: Thread | null,
  resume: Json,
): JsonObject | NonNullable<RunCreate["command"]> {
  const { context, tool, signature } = toolCall;
  const modelMayAnswer = canModelAnswer(context, tool.assistant);
  if (!thread && !modelMayAnswer)
    return toToolError(`Only a person can answer the questions of ${tool.name}. Leave out ${signature.resume}`);
  if (!thread)
    return toToolError(`${signature.resume} needs ${signature.thread_id}: the conversation whose question it answers`);
  const interrupts = filterInterrupts(Object.values(thread.interrupts).flat());
  if (interrupts.length === 0) return toToolError("No question is open in this conversation");
  if (!modelMayAnswer) return toWaitingResult(toolCall, interrupts, thread.thread_id);
  if (interrupts.length === 1) {
    const [{ id } = { id: "" }] = interrupts;
    const isMap = isObject(resume) && Object.keys(resume).length === 1 && Object.hasOwn(resume, id);
    return { resume: isMap ? resume : { [id]: resume }, expected_answers: toExpectedAnswers(interrupts) };
  }
  const ids = interrupts.map(({ id }) => id);
  const isMap = isObject(resume) && ids.every((id) => Object.hasOwn(resume, id));
  if (!isMap)
    return toToolError(
      `${ids.length} questions are open: ${signature.resume} must give an answer to each of ${ids.join(", ")}`,
    );
  const answers = Object.fromEntries(ids.map((id) => [id, resume[id] as Json]));
  return { resume: answers, expected_answers: toExpectedAnswers(interrupts) };
}

/**
 * Creates a run and returns it with the promise of its result, without a wait for that. A disconnect of a modern client
 * cancels the run unless the call is a task from its start. Throws the errors of a new run.
 */
async function startRun(
  toolCall: ToolCallContext,
  thread_id: string,
  run: RunCreate,
  origin: RunOrigin = {},
): Promise<RunWait> {
  const { context } = toolCall;
  const disconnect = cancelsOnDisconnect(toolCall) ? ({ on_disconnect: "cancel" } as const) : {};
  return await context.resources.runs.wait(
    thread_id,
    { ...run, ...disconnect },
    { ...readRunOriginFromHeaders(context, "mcp", { first: toolCall.request.trace }), ...origin },
  );
}

/** The responses of a client to the interrupts of a run. */
interface ResponsesToRun {
  /** The run that raised the interrupts. */
  readonly interrupted_run_id: string;
  readonly responses: InputResponses;
}

/**
 * Continues an interrupted call: resumes it with the responses, joins its active run, returns its result if it has
 * ended, or requests missing responses again. If a response cancels, returns how to continue. If another client resumes
 * first, tries once more.
 */
async function continueToolCall(
  toolCall: ToolCallContext,
  firstRun: Run,
  input: ResponsesToRun,
  canRetry = true,
): Promise<JsonObject | PendingToolCall> {
  const { context, request } = toolCall;
  const { resources } = context;
  const protocolRequest = await readProtocolRequest(resources, firstRun);
  const { newestRun, pending, thread } = protocolRequest;
  if (isActive(newestRun)) {
    const options = cancelsOnDisconnect(toolCall) ? { cancel_on_disconnect: true } : {};
    return createPendingToolCall(
      toolCall,
      firstRun,
      await resources.runs.join(newestRun.thread_id, newestRun.run_id, options),
    );
  }
  if (pending.length === 0)
    return await createEndedResult(toolCall, firstRun, newestRun, await readProtocolResult(resources, protocolRequest));
  // Keys can repeat between runs: a repeated request must not answer the interrupts of a later run.
  if (input.interrupted_run_id !== newestRun.run_id) return toInterruptResult(toolCall, firstRun, newestRun, pending);
  const inputRequests = toInputRequests(request, pending);
  const inputResponses = inputRequests.map((inputRequest) => findInputResponse(input.responses, inputRequest));
  if (inputResponses.some((response) => response?.kind === "cancel")) {
    return toResultMessage(request, toWaitingResult(toolCall, pending, thread.thread_id), toResultMeta(newestRun));
  }
  const values = inputResponses.flatMap((response, index): [string, Json][] =>
    response?.kind === "resume" ? [[pending[index]?.id ?? "", response.value]] : [],
  );
  if (values.length < pending.length) return toInterruptResult(toolCall, firstRun, newestRun, pending);
  const resume = Object.fromEntries(values);
  const command = { resume, expected_answers: toExpectedAnswers(pending) };
  const run = { ...createRunRequest(toolCall, firstRun.run_id), command, strict_resume: true };
  try {
    return createPendingToolCall(
      toolCall,
      firstRun,
      await startRun(toolCall, thread.thread_id, run, createResumeOrigin(newestRun)),
    );
  } catch (error) {
    // Another client resumed first. Continues with its run.
    if (canRetry && isNoLongerPending(error)) return await continueToolCall(toolCall, firstRun, input, false);
    throw error;
  }
}

const noop = (): void => {};

/** Returns true if the client can get all interrupts as requests, also if there are none. */
const canElicitAll = (request: ToolCallContext["request"], interrupts: readonly Interrupt[]): boolean =>
  interrupts.length === 0 || keyInputRequests(toInputRequests(request, interrupts)) !== null;

/**
 * Resolves with the result in a list of one, so that a null result differs from none. Resolves with null after
 * `limit_ms`; without a limit waits for the end. Rejects if the result does.
 */
async function waitForResult(
  environment: Pick<Environment, "timer">,
  runResult: RunWait["result"],
  limit_ms: number | null,
): Promise<readonly [Json] | null> {
  const late = Promise.withResolvers<null>();
  const stop = limit_ms === null ? noop : environment.timer(limit_ms, () => late.resolve(null));
  const result = await Promise.race([runResult.then((value) => [value] as const), late.promise]);
  stop();
  return result;
}

/**
 * Creates the pending tool call of a run, which it waits for or elicits input for in the background. For a client that
 * polls, it can become a task. Its response never rejects: errors become messages, unknown ones are logged.
 */
function createPendingToolCall(toolCall: ToolCallContext, earlierRun: Run | null, wait: RunWait): PendingToolCall {
  const { context, request } = toolCall;
  const { environment } = context.service;
  let { leave: leaveRun } = wait;
  const run = omitKwargs(wait.run);
  const firstRun = earlierRun ? omitKwargs(earlierRun) : run;
  const after_ms = getTaskDelay(toolCall);
  const streamingResult =
    !request.isModern && Object.keys(request.capabilities).length > 0 ? new StreamingToolResult() : null;
  let isTask = false;

  /** Marks the call as a task, so that a disconnect no longer leaves its run, and returns the response that says so. */
  const convertToTask = async (): Promise<JsonObject> => {
    isTask = true;
    return await createTaskResult(context, request, firstRun);
  };

  /**
   * Waits for the run, and returns its response, or null if the client must be elicited first. The call becomes a task
   * if the tool demands it, the run takes too long, the server stops, or a client that polls cannot be elicited.
   */
  async function findResult(runResult: RunWait["result"]): Promise<JsonObject | null> {
    if (after_ms === 0) {
      leaveRun();
      return await convertToTask();
    }
    const result = await waitForResult(environment, runResult, after_ms);
    if (!result) return await convertToTask();
    // The function would retain the run and its result.
    leaveRun = noop;
    const [value] = result;
    if (isStopping(value) && after_ms === null) return createStoppingResult(toolCall, run);
    if (isStopping(value)) return await convertToTask();
    // As a task, the call stays pending until a person answers.
    const interrupts = readInterrupts(value);
    if (streamingResult && interrupts.length > 0) return null;
    if (after_ms !== null && !canElicitAll(request, interrupts)) return await convertToTask();
    return await createEndedResult(
      toolCall,
      firstRun,
      await context.resources.runs.get(run.thread_id, run.run_id),
      value,
    );
  }

  // Elicits outside of `findResult`, so that the values of the run are not retained meanwhile.
  const result = findResult(wait.result).then(
    (earlyResult) => earlyResult ?? createElicitedResult(toolCall, firstRun, streamingResult as StreamingToolResult),
  );
  const response = result.catch((error: unknown): JsonObject => {
    const log = { level: "error", message: "A call of a tool failed", run_id: run.run_id, error } as const;
    if (!(error instanceof ServiceError)) environment.log({ ...log, request_id: context.request_id });
    const message = error instanceof ServiceError ? error.message : "Internal error";
    return { jsonrpc: "2.0", error: { code: -32603, message }, id: request.id };
  });
  return {
    ...{ run, response, streamingResult },
    leave() {
      if (isTask) return;
      leaveRun();
      streamingResult?.leave();
    },
  };
}
