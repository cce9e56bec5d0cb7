/** Answers to the questions of a call: kept until all that are open have one, then one run resumes with all of them. */
import type { Interrupt, StreamMode } from "../../../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { RequestContext } from "../../route.ts";
import { readRunOriginFromHeaders } from "../../run-request.ts";
import {
  createRequestMetadata,
  createResumeOrigin,
  isNoLongerPending,
  type ProtocolRequestState,
  toExpectedAnswers,
} from "../protocol-requests.ts";

/** An answer as a value for `resume`. */
export type ResumeEntry = readonly [interrupt: Interrupt, value: Json];

/** The thread's note on an answer that waits for the others of its run. A later interrupt may have the same id. */
const STORED_VALUE_PREFIX = "mcp_answer_";

type PendingRequest = Pick<ProtocolRequestState, "newestRun" | "pending" | "thread">;

function findStoredValue({ newestRun, thread: { metadata } }: PendingRequest, { id }: Interrupt): JsonObject | null {
  const stored = metadata[`${STORED_VALUE_PREFIX}${id}`] ?? null;
  return isObject(stored) && stored.run_id === newestRun.run_id ? stored : null;
}

/** The open questions without an answer. */
export const listUnanswered = (protocolRequest: PendingRequest): readonly Interrupt[] =>
  protocolRequest.pending.filter((interrupt) => !findStoredValue(protocolRequest, interrupt));

/** Starts the run that answers all questions of a call. A repeated start gives the same run. */
export async function resumeProtocolRequest(
  { resources, ...context }: RequestContext,
  protocolRequest: ProtocolRequestState,
  newEntries: readonly ResumeEntry[] = [],
): Promise<void> {
  const { firstRun, newestRun, pending, thread } = protocolRequest;
  const newValues = new Map(newEntries.map(([{ id }, value]) => [id, value]));
  const resumeValues = pending.map((interrupt): [string, Json] => [
    interrupt.id,
    newValues.get(interrupt.id) ?? findStoredValue(protocolRequest, interrupt)?.value ?? null,
  ]);
  const { mcp_tool = null, mcp_call = null } = firstRun.metadata;
  const run = {
    assistant_id: firstRun.assistant_id,
    metadata: { ...createRequestMetadata("mcp", firstRun.run_id), mcp_tool, mcp_call },
    command: { resume: Object.fromEntries(resumeValues), expected_answers: toExpectedAnswers(pending) },
    strict_resume: true,
    stream_mode: firstRun.kwargs.stream_mode as StreamMode[],
  } as const;
  try {
    const origin = { ...readRunOriginFromHeaders({ resources, ...context }), ...createResumeOrigin(newestRun) };
    await resources.runs.create(thread.thread_id, run, origin);
  } catch (error) {
    // Somebody else has answered meanwhile.
    if (!isNoLongerPending(error)) throw error;
  }
}

/** Takes answers to open questions. Errors: those of a new run. */
export async function addResumeEntries(
  context: RequestContext,
  protocolRequest: ProtocolRequestState,
  newEntries: readonly ResumeEntry[],
): Promise<void> {
  if (newEntries.length === 0) return;
  if (newEntries.length === listUnanswered(protocolRequest).length)
    return await resumeProtocolRequest(context, protocolRequest, newEntries);
  const { run_id } = protocolRequest.newestRun;
  const notes = newEntries.map(([{ id }, value]): [string, Json] => [`${STORED_VALUE_PREFIX}${id}`, { run_id, value }]);
  // The row as it is now: another answer may have come at the same time.
  const thread = await context.resources.threads.update(protocolRequest.thread.thread_id, {
    metadata: Object.fromEntries(notes),
  });
  const updated = { ...protocolRequest, thread };
  if (listUnanswered(updated).length === 0) await resumeProtocolRequest(context, updated);
}
