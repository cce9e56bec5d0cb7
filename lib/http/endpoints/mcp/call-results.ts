/** The results of tool calls: what ended, what waits for its client, and what outlives the server. */
import type { Interrupt } from "../../../executor/contract.ts";
import type { Json, JsonObject } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import type { RequestContext } from "../../route.ts";
import { canModelAnswer, findAnswerUrl } from "../permissions.ts";
import { isCancelled, readInterrupts, readProtocolResult } from "../protocol-requests.ts";
import { elicitUntilDone, type StreamingToolResult } from "./elicitation.ts";
import { keyInputRequests, toInputRequests } from "./input-requests.ts";
import { type McpRequestHeader, toResultMessage } from "./protocol.ts";
import { createRequestState } from "./request-state.ts";
import { createWaitingResult, toRunResult, toToolError } from "./results.ts";
import type { Tool, ToolSignature } from "./tools.ts";

/** A request for a tool and the state of its execution. */
export interface ToolCallContext {
  readonly context: RequestContext;
  readonly request: McpRequestHeader;
  readonly tool: Tool;
  readonly signature: ToolSignature;
  readonly digest: string;
  /** Names the request of a session, so that it can be cancelled; null without a session. */
  readonly mcp_request: string | null;
}

/**
 * Creates the result for a client that cannot elicit input from its user: the pending interrupts, and how the model or
 * a person can answer them.
 */
export function toWaitingResult(
  { context, tool, signature }: ToolCallContext,
  interrupts: readonly Interrupt[],
  thread_id: string,
): JsonObject {
  const answer_url = findAnswerUrl(context, thread_id);
  const model_may_answer = canModelAnswer(context, tool.assistant);
  return createWaitingResult(
    { tool: tool.name, thread_id, names: signature, model_may_answer, answer_url },
    interrupts,
  );
}

/**
 * Returns the response for pending interrupts: requests to a modern client that can handle all of them, if it made this
 * very call, else how to continue.
 */
export function toInterruptResult(
  toolCall: ToolCallContext,
  firstRun: Run,
  newestRun: Run,
  interrupts: readonly Interrupt[],
): JsonObject {
  const { request, digest } = toolCall;
  // A response must repeat the arguments of the call.
  const canAnswer = request.isModern && firstRun.metadata.mcp_call === digest;
  const requests = canAnswer ? keyInputRequests(toInputRequests(request, interrupts)) : null;
  if (!requests)
    return toResultMessage(
      request,
      toWaitingResult(toolCall, interrupts, newestRun.thread_id),
      toResultMeta(newestRun),
    );
  const requestState = createRequestState(firstRun, newestRun);
  return toResultMessage(
    request,
    { resultType: "input_required", requestState, inputRequests: requests },
    toResultMeta(newestRun),
  );
}

/** Returns the ids of the run under the names that they have in `_meta`. */
export const toResultMeta = ({ thread_id, run_id }: Run): JsonObject => ({
  "greenroom/thread_id": thread_id,
  "greenroom/run_id": run_id,
});

/**
 * Creates the response once the newest run of a call has ended: its pending interrupts if `result` has some, else the
 * result of the tool.
 */
export async function createEndedResult(
  toolCall: ToolCallContext,
  firstRun: Run,
  newestRun: Run,
  result: Json,
): Promise<JsonObject> {
  const { request, signature } = toolCall;
  const interrupts = readInterrupts(result);
  if (interrupts.length > 0) return toInterruptResult(toolCall, firstRun, newestRun, interrupts);
  return toResultMessage(request, toRunResult(result, newestRun, signature.output), toResultMeta(newestRun));
}

/**
 * Elicits input on the open response until the call is done, and returns its response: the result of the tool, a tool
 * error if it was cancelled or the server stops, or how to continue if it still waits.
 */
export async function createElicitedResult(
  toolCall: ToolCallContext,
  firstRun: Run,
  streamingResult: StreamingToolResult,
): Promise<JsonObject> {
  const { context, request } = toolCall;
  const protocolRequest = await elicitUntilDone(context, request, firstRun, streamingResult);
  if (!protocolRequest) return createStoppingResult(toolCall, firstRun);
  const { newestRun } = protocolRequest;
  if (isCancelled(protocolRequest))
    return toResultMessage(request, toToolError("The call was cancelled"), toResultMeta(newestRun));
  if (protocolRequest.pending.length > 0)
    return toResultMessage(
      request,
      toWaitingResult(toolCall, protocolRequest.pending, newestRun.thread_id),
      toResultMeta(newestRun),
    );
  return await createEndedResult(
    toolCall,
    firstRun,
    newestRun,
    await readProtocolResult(context.resources, protocolRequest),
  );
}

/** Returns the response with a tool error that says that the server is stopping and where the result will be. */
export function createStoppingResult({ request }: ToolCallContext, run: Run): JsonObject {
  const text = `The server is stopping. The run goes on, and its result will be in the conversation ${run.thread_id}`;
  return toResultMessage(request, toToolError(text), toResultMeta(run));
}
