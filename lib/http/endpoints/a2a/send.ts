/** Messages of clients: each begins a task, which is a durable run on the thread of its context, or answers what a task asks. */

import { type Task, taskJson } from "../../../a2a/wire.ts";
import { uuidV7 } from "../../../environment.ts";
import { nullIfNotFound, ServiceError } from "../../../errors.ts";
import { isApproval } from "../../../executor/questions.ts";
import type { Json, JsonObject } from "../../../json.ts";
import type { Run, RunCreate, RunOrigin } from "../../../runs/mod.ts";
import { readFields } from "../../parse.ts";
import { json } from "../../respond.ts";
import { waitResponse } from "../../result-body.ts";
import { originOfHeaders, runCreate } from "../../run-request.ts";
import { eventStream } from "../../sse.ts";
import { answerOrigin, callMetadata, expectedAnswers, isActive, isCancelled, isLate, readCall } from "../calls.ts";
import { answerUrl, mayCallerApprove } from "../permissions.ts";
import { EVENT_RUN } from "../run-events.ts";
import { hideForeign } from "../states.ts";
import { answersTo, inputOf } from "./message.ts";
import { extensionHeaders, historyOf } from "./options.ts";
import { type Called, errorMessage, RpcError, resultMessage } from "./protocol.ts";
import { pushOf, requirePush } from "./push.ts";
import type { SentMessage } from "./requests.ts";
import { taskFrames } from "./stream.ts";
import { callOf, type HistoryChoice, readTask } from "./task.ts";

/** The run that a message asks for. `first`: that of the task it continues. */
interface Wanted {
  readonly thread_id: string;
  readonly run: RunCreate;
  readonly origin: RunOrigin;
  readonly first: Run | null;
}

const noContext = (id: string): RpcError => new RpcError("params", `There is no context ${id}`);

/** Members of metadata that say what a run is to the server. */
const OWN = ["created_by", "task_id", "task_cancelled", "graph_id", "assistant_id"];

async function begin({ context, assistant_id }: CalledToSend, sent: SentMessage): Promise<Wanted> {
  const { contextId } = sent;
  const thread = contextId === null ? null : await context.nouns.threads.get(contextId).catch(nullIfNotFound);
  const owner = thread?.metadata.assistant_id ?? assistant_id;
  if (contextId !== null && owner !== assistant_id) throw noContext(contextId);
  const metadata = Object.fromEntries(Object.entries(sent.metadata).filter(([name]) => !OWN.includes(name)));
  const run: RunCreate = {
    ...{ assistant_id, input: inputOf(sent), if_not_exists: "create" },
    metadata: { ...metadata, ...callMetadata("a2a") },
  };
  return { thread_id: contextId ?? uuidV7(context.service.environment), run, origin: {}, first: null };
}

/** Errors: a task that does not wait for an answer, or whose answer must be a person's. */
async function goOn(called: CalledToSend, sent: SentMessage): Promise<Wanted> {
  const { context, assistant_id } = called;
  const call = await callOf(context.nouns, sent.taskId, assistant_id);
  const { first, newest, open } = call;
  if (sent.contextId !== null && sent.contextId !== first.thread_id) {
    throw new RpcError("task", `Task not found: ${first.run_id}`);
  }
  if (open.length === 0 || isCancelled(call)) {
    const state = isActive(newest) ? "is working" : "has ended";
    throw new RpcError("unsupported", `The task ${state}: send the message without a taskId to begin another one`);
  }
  if (open.some(({ value }) => isApproval(value)) && !mayCallerApprove(context, called)) {
    const url = answerUrl(context, first.thread_id);
    const place = url === null ? `in the conversation ${first.thread_id}` : `at ${url}`;
    const then = `Get the task ${first.run_id} afterwards, or subscribe to it`;
    throw new RpcError("unsupported", `Only a person can approve this, ${place}. ${then}`);
  }
  const run: RunCreate = {
    ...{ assistant_id, strict_resume: true },
    command: { resume: answersTo(open, sent), expected_answers: expectedAnswers(open) },
    metadata: callMetadata("a2a", first.run_id),
  };
  return { thread_id: first.thread_id, run, origin: answerOrigin(newest, ` ${sent.messageId}`), first };
}

/** The task as it is now. */
async function taskNow({ context: { nouns } }: CalledToSend, begun: Run, history: HistoryChoice): Promise<Task> {
  const first = await nouns.runs.get(begun.thread_id, begun.run_id);
  return await readTask(nouns, await readCall(nouns, first), history);
}

/** The task as a stream begins with it, even if its run has ended by now. */
function openingOf(
  first: Run,
  { created_at }: Run,
  { messageId, parts }: SentMessage,
  { length }: HistoryChoice,
): Task {
  const ids = { taskId: first.run_id, contextId: first.thread_id };
  return {
    ...{ id: ids.taskId, contextId: ids.contextId, status: { state: "SUBMITTED", timestamp: created_at } },
    ...(length > 0 ? { history: [{ messageId, ...ids, role: "USER", parts }] } : {}),
  };
}

/** Two messages in one context wait for each other, as a client expects of a conversation. */
function requestOf({ run }: Wanted, isStreamed: boolean): RunCreate {
  const streamed = isStreamed
    ? { ...EVENT_RUN, stream_mode: [...EVENT_RUN.stream_mode] }
    : { stream_mode: ["custom" as const] };
  return readFields({ ...run, ...streamed, multitask_strategy: "enqueue" }, runCreate);
}

type CalledToSend = Called<"SendMessage" | "SendStreamingMessage">;

/** `SendMessage`, `SendStreamingMessage`. */
export async function sendMessage(called: CalledToSend): Promise<Response> {
  const { context, request } = called;
  const { nouns } = context;
  const { headers } = context.request;
  const isStream = request.method === "SendStreamingMessage";
  const { message: sent, configuration: asked } = request.params;
  const history = historyOf(asked, headers);
  if (isStream && history.scope === "task") {
    throw new RpcError("params", "historyScope task is not available with streaming");
  }
  const config = asked.taskPushNotificationConfig ?? asked.pushNotificationConfig ?? null;
  if (config) requirePush(context.service);
  const push = config && pushOf(config, request.version, context.service.environment.uuid());
  const wanted = sent.taskId === null ? await begin(called, sent) : await goOn(called, sent);
  const { thread_id, first } = wanted;
  const task = first ? { task_id: first.run_id } : {};
  const origin: RunOrigin = {
    ...originOfHeaders(context),
    ...wanted.origin,
    ...(push ? { push: { ...push, ...task } } : {}),
  };
  const hide = (error: unknown): never => {
    if (isLate(error)) throw new RpcError("unsupported", "The task's question is already answered");
    return hideForeign(error, noContext(thread_id));
  };
  const more = extensionHeaders(headers);

  if (isStream) {
    const stream = await nouns.runs.stream(thread_id, requestOf(wanted, true), origin).catch(hide);
    const opening = openingOf(first ?? stream.run, stream.run, sent, history);
    const frames = taskFrames(context, request, stream, { opening });
    return eventStream(context, frames, { ids: { run_id: stream.run.run_id, thread_id }, headers: more });
  }

  const show = (task: Task): JsonObject => {
    const shown = taskJson(task, request.version);
    return resultMessage(request, request.version === "1.0" ? { task: shown } : shown);
  };
  const waits = asked.returnImmediately !== true && asked.blocking !== false;
  if (!waits) {
    const run = await nouns.runs.create(thread_id, requestOf(wanted, true), origin).catch(hide);
    return json(show(await taskNow(called, first ?? run, history)), more);
  }
  const wait = await nouns.runs.wait(thread_id, requestOf(wanted, false), origin).catch(hide);
  const result = answerOf(called, wait.result, async () => show(await taskNow(called, first ?? wait.run, history)));
  return waitResponse(context, { run: wait.run, result, leave: wait.leave }, more);
}

/** The answer once a run has ended; it never rejects. */
async function answerOf(
  { context, request }: CalledToSend,
  ended: Promise<Json>,
  show: () => Promise<JsonObject>,
): Promise<JsonObject> {
  try {
    await ended;
    return await show();
  } catch (error) {
    const isKnown = error instanceof ServiceError;
    const { environment } = context.service;
    if (!isKnown) {
      const message = "A message of A2A was not answered";
      environment.log({ level: "error", message, request_id: context.request_id, error });
    }
    return errorMessage(request, new RpcError("internal", isKnown ? error.message : "Internal error"));
  }
}
