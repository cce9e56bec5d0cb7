/** Answers to the questions of a call: kept until all that are open have one, then one run resumes with all of them. */
import type { Interrupt, StreamMode } from "../../../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { RequestContext } from "../../route.ts";
import { originOfHeaders } from "../../run-request.ts";
import { answerOrigin, type CallState, callMetadata, expectedAnswers, isLate } from "../calls.ts";

/** An answer as a value for `resume`. */
export type Answer = readonly [interrupt: Interrupt, value: Json];

/** The thread's note on an answer that waits for the others of its run. A later interrupt may have the same id. */
const NOTE = "mcp_answer_";

type Open = Pick<CallState, "newest" | "open" | "thread">;

function storedAnswer({ newest, thread: { metadata } }: Open, { id }: Interrupt): JsonObject | null {
  const stored = metadata[`${NOTE}${id}`] ?? null;
  return isObject(stored) && stored.run_id === newest.run_id ? stored : null;
}

/** The open questions without an answer. */
export const unansweredOf = (call: Open): readonly Interrupt[] =>
  call.open.filter((interrupt) => !storedAnswer(call, interrupt));

/** Starts the run that answers all questions of a call. A repeated start gives the same run. */
export async function resumeCall(
  { nouns, ...context }: RequestContext,
  call: CallState,
  given: readonly Answer[] = [],
): Promise<void> {
  const { first, newest, open, thread } = call;
  const fresh = new Map(given.map(([{ id }, value]) => [id, value]));
  const answers = open.map((one): [string, Json] => [
    one.id,
    fresh.get(one.id) ?? storedAnswer(call, one)?.value ?? null,
  ]);
  const { mcp_tool = null, mcp_call = null } = first.metadata;
  const run = {
    assistant_id: first.assistant_id,
    metadata: { ...callMetadata("mcp", first.run_id), mcp_tool, mcp_call },
    command: { resume: Object.fromEntries(answers), expected_answers: expectedAnswers(open) },
    strict_resume: true,
    stream_mode: first.kwargs.stream_mode as StreamMode[],
  } as const;
  try {
    const origin = { ...originOfHeaders({ nouns, ...context }), ...answerOrigin(newest) };
    await nouns.runs.create(thread.thread_id, run, origin);
  } catch (error) {
    // Somebody else has answered meanwhile.
    if (!isLate(error)) throw error;
  }
}

/** Takes answers to open questions. Errors: those of a new run. */
export async function answerCall(context: RequestContext, call: CallState, fresh: readonly Answer[]): Promise<void> {
  if (fresh.length === 0) return;
  if (fresh.length === unansweredOf(call).length) return await resumeCall(context, call, fresh);
  const { run_id } = call.newest;
  const notes = fresh.map(([{ id }, value]): [string, Json] => [`${NOTE}${id}`, { run_id, value }]);
  // The row as it is now: another answer may have come at the same time.
  const thread = await context.nouns.threads.update(call.thread.thread_id, { metadata: Object.fromEntries(notes) });
  const now = { ...call, thread };
  if (unansweredOf(now).length === 0) await resumeCall(context, now);
}
