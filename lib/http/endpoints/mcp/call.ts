/** `tools/call`: a call is a durable run on a thread of its own, which can be answered and found again. */
import type { Environment } from "../../../environment.ts";
import { nullIfNotFound, ServiceError } from "../../../errors.ts";
import type { Interrupt } from "../../../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { DEFAULTS } from "../../../options.ts";
import type { Run, RunCreate, RunOrigin, RunWait } from "../../../runs/mod.ts";
import { UUID } from "../../../storage/identity.ts";
import type { RequestContext } from "../../route.ts";
import { originOfHeaders } from "../../run-request.ts";
import {
  answerOrigin,
  type CallState,
  callMetadata,
  expectedAnswers,
  isActive,
  isAnswer,
  isCancelled,
  isLate,
  questionsIn,
  questionsOf,
  readCall,
  resultOfCall,
  withoutRequest,
} from "../calls.ts";
import { answerUrl, mayModelAnswer } from "../permissions.ts";
import { askedOf, inputRequests, replyIn } from "./answers.ts";
import { checkArguments, checkParamHeaders } from "./arguments.ts";
import { callDigest, callOfState, stateOfCall } from "./call-state.ts";
import { askOpenly, isStopping, OpenAnswer } from "./elicit.ts";
import {
  canPoll,
  capabilityMissing,
  type RequestHead,
  RpcError,
  type RpcRequest,
  resultOf,
  TASKS,
} from "./protocol.ts";
import type { SentAnswers } from "./requests.ts";
import { endedResult, failure, waitingResult } from "./results.ts";
import { readSession, requestKey } from "./session.ts";
import { shownTask } from "./tasks.ts";
import { argumentsOf, findTool, readArguments, type Tool, type ToolArguments } from "./tools.ts";

/** A call whose result is not known yet. */
export interface OpenCall {
  readonly run: Run;
  /** The answer to the request; never rejects for a failed run. */
  readonly answer: Promise<JsonObject>;
  /** What is sent before it; null for a client that cannot be asked meanwhile. */
  readonly open: OpenAnswer | null;
  /** The client has hung up. */
  leave(): void;
}

/** A request for a tool, with what belongs to it. */
interface Called {
  readonly context: RequestContext;
  readonly request: RequestHead;
  readonly tool: Tool;
  readonly args: ToolArguments;
  readonly digest: string;
  /** Names the request of a session, so that it can be cancelled. */
  readonly mcp_request: string | null;
}

export const graphsOf = ({ service }: RequestContext): string[] =>
  service.options.executor.graphs().map(({ graph_id }) => graph_id);

const MINUTE_MS = 60_000;

/** Errors that the model can act on become the result of the call. */
const SAID: ReadonlySet<string> = new Set(["bad_request", "invalid", "not_found", "conflict"]);

/** Begins a call, or goes on with an interrupted one. The answer where no run is needed. */
export async function callTool(
  context: RequestContext,
  request: RpcRequest<"tools/call">,
): Promise<JsonObject | OpenCall> {
  const { name, arguments: given, inputResponses, requestState } = request.params;
  const tool = await findTool(context.nouns, graphsOf(context), name);
  if (!tool) throw new RpcError("params", `Unknown tool: ${name}`);
  if (tool.settings.task === "required" && !canPoll(request)) {
    throw capabilityMissing({ extensions: { [TASKS]: {} } });
  }
  const { requires } = tool.settings;
  if (request.isModern && !Object.keys(requires).every((one) => isObject(request.capabilities[one] ?? null))) {
    throw capabilityMissing(requires);
  }
  const args = await argumentsOf(context.nouns, tool);
  if (request.isModern) checkParamHeaders(context.request.headers, args, given);
  const session = request.isModern ? null : readSession(context.request.headers);
  const mcp_request = session && (await requestKey(context.principal, session, request.id));
  // A call that continues its conversation is the same call: its client can be asked again.
  const { [args.thread_id]: _, ...own } = given;
  const digest = await callDigest(context.principal, name, own);
  // An open call keeps no arguments: they may be large.
  const { params: _params, method: _method, ...head } = request;
  const called = { context, request: head, tool, args, digest, mcp_request };
  try {
    // Answers without the state of their call belong to none: it begins anew.
    if (request.isModern && requestState !== undefined) {
      const { first, asked } = await callOfState(context.nouns, requestState, called.digest);
      return await goOn(called, first, { asked_by: asked, answers: inputResponses });
    }
    return await begin(called, given);
  } catch (error) {
    if (!(error instanceof ServiceError && SAID.has(error.code))) throw error;
    return resultOf(request, failure(error.message));
  }
}

const keyOf = ({ mcp_request }: Called): JsonObject => (mcp_request === null ? {} : { mcp_request });

/** The run's request without what it starts from. */
const requestOfRun = (called: Called, task_id?: string): RunCreate => ({
  assistant_id: called.tool.assistant.assistant_id,
  metadata: {
    ...callMetadata("mcp", task_id),
    ...keyOf(called),
    mcp_tool: called.tool.name,
    mcp_call: called.digest,
  },
  multitask_strategy: "enqueue",
  stream_mode: called.request.progressToken === undefined ? ["custom"] : ["updates", "custom"],
});

/** How long a call may take before it becomes a task; null where it never does. */
function taskAfter({ context, request, tool }: Called): number | null {
  const { task } = tool.settings;
  if (!canPoll(request) || task === "never") return null;
  return task === "always" ? 0 : (context.service.options.http?.mcp?.task_after_ms ?? 500);
}

/** A client that hangs up cancels its request, but no task. */
const cancels = (called: Called): boolean => called.request.isModern && taskAfter(called) !== 0;

async function begin(called: Called, given: JsonObject): Promise<JsonObject | OpenCall> {
  const { context, tool, args } = called;
  const { input, thread_id, resume } = readArguments(args, given);
  const continued = await conversationOf(called, thread_id);
  if (resume !== undefined) return await answerAsModel(called, continued, resume);
  const repeated = continued && (await repeatedCall(called, continued.thread_id, input));
  if (repeated) return await repeat(called, repeated);
  const misfits = checkArguments(tool, args, given);
  if (misfits) return resultOf(called.request, misfits);
  if (continued) await nameRequest(called, continued.thread_id);
  const { mcp_ms = DEFAULTS.retention.mcp_ms } = context.service.options.retention ?? {};
  const thread =
    continued ??
    (await context.nouns.threads.create({
      metadata: { ...callMetadata("mcp"), ...keyOf(called), mcp_tool: tool.name },
      ttl: { ttl: mcp_ms / MINUTE_MS },
    }));
  return follow(called, null, await start(called, thread.thread_id, { ...requestOfRun(called), input }));
}

/** The run in which a model answers the open questions of a conversation. */
async function answerAsModel(
  called: Called,
  thread: Awaited<ReturnType<typeof conversationOf>>,
  resume: Json,
): Promise<JsonObject | OpenCall> {
  if (thread) await nameRequest(called, thread.thread_id);
  const command = answered(called, thread, resume);
  if ("content" in command) return resultOf(called.request, command);
  const run = { ...requestOfRun(called), command, strict_resume: true };
  return follow(called, null, await start(called, thread?.thread_id ?? "", run));
}

/** The outcome of a call that was interrupted, for a request that repeats it. */
async function repeat(called: Called, { newest, first, thread }: CallState): Promise<JsonObject | OpenCall> {
  // The run that answered has failed: its interrupts are open again.
  const reopened = newest.status === "error" ? questionsOf(Object.values(thread.interrupts).flat()) : [];
  if (reopened.length > 0) {
    return resultOf(called.request, waiting(called, reopened, newest.thread_id), idsOf(newest));
  }
  return follow(called, first, await called.context.nouns.runs.join(newest.thread_id, newest.run_id));
}

/** How many runs of a thread are searched for its newest call. */
const NEWEST = 20;

/** The newest call of a conversation, if it was interrupted and this request repeats it to get its result; else null. */
async function repeatedCall(
  { context: { nouns }, digest }: Called,
  thread_id: string,
  input: JsonObject,
): Promise<CallState | null> {
  const runs = await nouns.runs.list(thread_id, { limit: NEWEST });
  const first = runs.find((run) => !isAnswer(run));
  if (!first || (Object.keys(input).length > 0 && first.metadata.mcp_call !== digest)) return null;
  const call = await readCall(nouns, first);
  const wasInterrupted = call.newest !== call.first || call.open.length > 0;
  return wasInterrupted && !isCancelled(call) ? call : null;
}

/** The thread names the last request on it: that one can be cancelled. */
async function nameRequest(called: Called, thread_id: string): Promise<void> {
  if (called.mcp_request === null) return;
  try {
    await called.context.nouns.threads.update(thread_id, { metadata: keyOf(called) });
  } catch (error) {
    // Callers who may run on a thread, but not change it, cannot cancel there either.
    if (!(error instanceof ServiceError && error.code === "forbidden")) throw error;
  }
}

const noConversation = (id: Json): ServiceError =>
  new ServiceError("thread_not_found", `There is no conversation ${typeof id === "string" ? id : JSON.stringify(id)}`);

/** The thread that the arguments continue: one of this agent. Errors: not_found, the same for a foreign one. */
async function conversationOf({ context: { nouns }, tool }: Called, id: Json | undefined) {
  if (id === undefined) return null;
  if (typeof id !== "string" || !UUID.test(id)) throw noConversation(id);
  const thread = await nouns.threads.get(id).catch(nullIfNotFound);
  if (!thread) throw noConversation(id);
  const { assistant_id = tool.assistant.assistant_id } = thread.metadata;
  if (assistant_id !== tool.assistant.assistant_id) throw noConversation(id);
  return thread;
}

/** The answer that a model gives to the open questions, or why it may not. */
function answered(
  called: Called,
  thread: Awaited<ReturnType<typeof conversationOf>>,
  resume: Json,
): JsonObject | NonNullable<RunCreate["command"]> {
  const { context, tool, args } = called;
  const modelMayAnswer = mayModelAnswer(context, tool.assistant);
  if (!thread && !modelMayAnswer)
    return failure(`Only a person can answer the questions of ${tool.name}. Leave out ${args.resume}`);
  if (!thread) return failure(`${args.resume} needs ${args.thread_id}: the conversation whose question it answers`);
  const open = questionsOf(Object.values(thread.interrupts).flat());
  if (open.length === 0) return failure("No question is open in this conversation");
  if (!modelMayAnswer) return waiting(called, open, thread.thread_id);
  if (open.length === 1) {
    const [{ id } = { id: "" }] = open;
    const isMap = isObject(resume) && Object.keys(resume).length === 1 && Object.hasOwn(resume, id);
    return { resume: isMap ? resume : { [id]: resume }, expected_answers: expectedAnswers(open) };
  }
  const ids = open.map(({ id }) => id);
  const isMap = isObject(resume) && ids.every((id) => Object.hasOwn(resume, id));
  if (!isMap)
    return failure(`${ids.length} questions are open: ${args.resume} must give an answer to each of ${ids.join(", ")}`);
  const answers = Object.fromEntries(ids.map((id) => [id, resume[id] as Json]));
  return { resume: answers, expected_answers: expectedAnswers(open) };
}

/** The result for a client that cannot ask its user. */
function waiting({ context, tool, args }: Called, open: readonly Interrupt[], thread_id: string): JsonObject {
  const answer_url = answerUrl(context, thread_id);
  const model_may_answer = mayModelAnswer(context, tool.assistant);
  return waitingResult({ tool: tool.name, thread_id, names: args, model_may_answer, answer_url }, open);
}

async function start(called: Called, thread_id: string, run: RunCreate, origin: RunOrigin = {}): Promise<RunWait> {
  const { context } = called;
  const disconnect = cancels(called) ? ({ on_disconnect: "cancel" } as const) : {};
  return await context.nouns.runs.wait(
    thread_id,
    { ...run, ...disconnect },
    { ...originOfHeaders(context), ...origin },
  );
}

/** Answers of a client to the questions of a run. */
interface AnswersOfRun {
  /** The run that asked. */
  readonly asked_by: string;
  readonly answers: SentAnswers;
}

/** Goes on with a call that was interrupted: answers what is open, follows what runs, or repeats the result. */
async function goOn(called: Called, first: Run, sent: AnswersOfRun, again = true): Promise<JsonObject | OpenCall> {
  const { context, request } = called;
  const { nouns } = context;
  const call = await readCall(nouns, first);
  const { newest, open, thread } = call;
  if (isActive(newest)) {
    const options = cancels(called) ? { cancel_on_disconnect: true } : {};
    return follow(called, first, await nouns.runs.join(newest.thread_id, newest.run_id, options));
  }
  if (open.length === 0) return await outcome(called, first, newest, await resultOfCall(nouns, call));
  // Answers to earlier questions may have the same keys: a request that is sent again must not answer the next ones.
  if (sent.asked_by !== newest.run_id) return asks(called, first, newest, open);
  const asked = askedOf(request, open);
  const replies = asked.map((one) => replyIn(sent.answers, one));
  if (replies.some((reply) => reply?.kind === "cancel")) {
    return resultOf(request, waiting(called, open, thread.thread_id), idsOf(newest));
  }
  const values = replies.flatMap((reply, at): [string, Json][] =>
    reply?.kind === "resume" ? [[open[at]?.id ?? "", reply.value]] : [],
  );
  if (values.length < open.length) return asks(called, first, newest, open);
  const resume = Object.fromEntries(values);
  const command = { resume, expected_answers: expectedAnswers(open) };
  const run = { ...requestOfRun(called, first.run_id), command, strict_resume: true };
  try {
    return follow(called, first, await start(called, thread.thread_id, run, answerOrigin(newest)));
  } catch (error) {
    // Somebody else has answered meanwhile: the client gets the outcome of that answer.
    if (again && isLate(error)) return await goOn(called, first, sent, false);
    throw error;
  }
}

/** The questions for the client, or how to continue where it cannot be asked. */
function asks(called: Called, first: Run, newest: Run, open: readonly Interrupt[]): JsonObject {
  const { request, digest } = called;
  // An answer must come with the arguments of the call.
  const canAnswer = request.isModern && first.metadata.mcp_call === digest;
  const requests = canAnswer ? inputRequests(askedOf(request, open)) : null;
  if (!requests) return resultOf(request, waiting(called, open, newest.thread_id), idsOf(newest));
  const requestState = stateOfCall(first, newest);
  return resultOf(request, { resultType: "input_required", requestState, inputRequests: requests }, idsOf(newest));
}

const idsOf = ({ thread_id, run_id }: Run): JsonObject => ({
  "greenroom/thread_id": thread_id,
  "greenroom/run_id": run_id,
});

/** The answer once the newest run of a call has ended. */
async function outcome(called: Called, first: Run, newest: Run, result: Json): Promise<JsonObject> {
  const { request, args } = called;
  const open = questionsIn(result);
  if (open.length > 0) return asks(called, first, newest, open);
  return resultOf(request, endedResult(result, newest, args.output), idsOf(newest));
}

/** The answer of a call whose client was asked on its connection. */
async function openOutcome(called: Called, first: Run, open: OpenAnswer): Promise<JsonObject> {
  const { context, request } = called;
  const call = await askOpenly(context, request, first, open);
  if (!call) return stopping(called, first);
  const { newest } = call;
  if (isCancelled(call)) return resultOf(request, failure("The call was cancelled"), idsOf(newest));
  if (call.open.length > 0) return resultOf(request, waiting(called, call.open, newest.thread_id), idsOf(newest));
  return await outcome(called, first, newest, await resultOfCall(context.nouns, call));
}

function stopping({ request }: Called, run: Run): JsonObject {
  const text = `The server is stopping. The run goes on, and its result will be in the conversation ${run.thread_id}`;
  return resultOf(request, failure(text), idsOf(run));
}

const nothing = (): void => {};

/** True if the client can be asked all of these questions, also where there is none. */
const canAsk = (request: Called["request"], questions: readonly Interrupt[]): boolean =>
  questions.length === 0 || inputRequests(askedOf(request, questions)) !== null;

/** The result of a run, in a list; null if it takes longer. Without a limit (null) it is waited for. */
async function resultWithin(
  environment: Pick<Environment, "timer">,
  ended: RunWait["result"],
  limit_ms: number | null,
): Promise<readonly [Json] | null> {
  const late = Promise.withResolvers<null>();
  const stop = limit_ms === null ? nothing : environment.timer(limit_ms, () => late.resolve(null));
  const result = await Promise.race([ended.then((value) => [value] as const), late.promise]);
  stop();
  return result;
}

/** Waits for a run of a call; for a client that polls, not longer than `task_after_ms`. */
function follow(called: Called, first: Run | null, wait: RunWait): OpenCall {
  const { context, request } = called;
  const { environment } = context.service;
  let { leave } = wait;
  const run = withoutRequest(wait.run);
  const begun = first ? withoutRequest(first) : run;
  const after_ms = taskAfter(called);
  const open = !request.isModern && Object.keys(request.capabilities).length > 0 ? new OpenAnswer() : null;
  let isTask = false;

  const asTask = async (): Promise<JsonObject> => {
    isTask = true;
    return await shownTask(context, request, begun);
  };

  /** Null: the client is asked on its answer. */
  async function answer(ended: RunWait["result"]): Promise<JsonObject | null> {
    if (after_ms === 0) {
      leave();
      return await asTask();
    }
    const result = await resultWithin(environment, ended, after_ms);
    if (!result) return await asTask();
    // It holds the run and its result.
    leave = nothing;
    const [value] = result;
    if (isStopping(value) && after_ms === null) return stopping(called, run);
    if (isStopping(value)) return await asTask();
    // A person can answer while the client polls.
    const questions = questionsIn(value);
    if (open && questions.length > 0) return null;
    if (after_ms !== null && !canAsk(request, questions)) return await asTask();
    return await outcome(called, begun, await context.nouns.runs.get(run.thread_id, run.run_id), value);
  }

  // The questions come after it, so that the values of the run are not kept meanwhile.
  const known = answer(wait.result).then((one) => one ?? openOutcome(called, begun, open as OpenAnswer));
  const answered = known.catch((error: unknown): JsonObject => {
    const log = { level: "error", message: "A call of a tool failed", run_id: run.run_id, error } as const;
    if (!(error instanceof ServiceError)) environment.log({ ...log, request_id: context.request_id });
    const message = error instanceof ServiceError ? error.message : "Internal error";
    return { jsonrpc: "2.0", error: { code: -32603, message }, id: request.id };
  });
  return {
    ...{ run, answer: answered, open },
    leave() {
      if (isTask) return;
      leave();
      open?.leave();
    },
  };
}
