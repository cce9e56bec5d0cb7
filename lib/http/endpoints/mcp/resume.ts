/** Stores resume values of a call until all pending interrupts have one, then starts one run that resumes with all of them. */
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

/** An interrupt with its resume value. */
export type ResumeEntry = readonly [interrupt: Interrupt, value: Json];

/** The prefix of a metadata key of the thread that holds a resume value until the others arrive. A later interrupt may have the same id. */
const STORED_VALUE_PREFIX = "mcp_answer_";

type PendingRequest = Pick<ProtocolRequestState, "newestRun" | "pending" | "thread">;

/**
 * Returns the object with the run and the value that an earlier call has stored for the interrupt. Returns null if
 * there is none or it belongs to an older run.
 */
function findStoredValue({ newestRun, thread: { metadata } }: PendingRequest, { id }: Interrupt): JsonObject | null {
  const stored = metadata[`${STORED_VALUE_PREFIX}${id}`] ?? null;
  return isObject(stored) && stored.run_id === newestRun.run_id ? stored : null;
}

/** Returns the pending interrupts without a resume value. */
export const listUnanswered = (protocolRequest: PendingRequest): readonly Interrupt[] =>
  protocolRequest.pending.filter((interrupt) => !findStoredValue(protocolRequest, interrupt));

/**
 * Starts the run that resumes all interrupts of a call, those without a value with null. A repeated start gets the same run; does
 * nothing if another client has resumed meanwhile. Throws the errors of a new run.
 */
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
    const origin = { ...readRunOriginFromHeaders({ resources, ...context }, "mcp"), ...createResumeOrigin(newestRun) };
    await resources.runs.create(thread.thread_id, run, origin);
  } catch (error) {
    // Another client has resumed meanwhile.
    if (!isNoLongerPending(error)) throw error;
  }
}

/**
 * Adds resume values. Starts the run that resumes the call once each interrupt has one; until then stores them in the
 * metadata of the thread. Does nothing without entries. Throws the errors of a new run.
 */
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
  // Uses the updated row, which includes concurrent responses.
  const thread = await context.resources.threads.update(protocolRequest.thread.thread_id, {
    metadata: Object.fromEntries(notes),
  });
  const updated = { ...protocolRequest, thread };
  if (listUnanswered(updated).length === 0) await resumeProtocolRequest(context, updated);
}
