/** Validates a new run by the schemas of its agent, and its answers by those of their asks. */
import { type InputIssue, SchemaMismatch } from "../errors.ts";
import { type AgentSchemas, parseBySchema, toInputIssues } from "../executor/agent-schemas.ts";
import type { Schema } from "../executor/agent-types.ts";
import type { Interrupt } from "../executor/contract.ts";
import { listInterruptIds, mergeContext, toGotoList, toResumeMap } from "../executor/job-request.ts";
import { parseRecordedState } from "../executor/recorded-states.ts";
import { findSchemaMismatches } from "../executor/schema-check.ts";
import type { Json } from "../json.ts";
import type { Scope, Storage } from "../storage/mod.ts";
import { type ResolvedRun, toResolvedJob } from "./plan.ts";
import type { BoundResume } from "./resume.ts";

/** A value of a request with its schema and its location. */
interface CheckedValue {
  readonly schema: Schema;
  readonly value: Json | undefined;
  readonly loc: readonly string[];
}

/** The storage of checkpoints, and the deployment whose checkpoints to read. */
interface CheckpointDatabase {
  readonly storage: Pick<Storage, "getCheckpoint">;
  readonly scope: Scope;
}

/**
 * Validates input, merged context and answers, and returns the same run, without the values that the schemas may have parsed.
 * Throws `SchemaMismatch` with all issues, and an error without details if a schema throws. Input is not validated with a
 * command, nor if it is missing on a thread with a state, from which the run continues. Context is not validated if the run
 * continues a durable call, which keeps the context of its start. May read the checkpoint from which the run starts.
 */
export async function validateRun(
  schemas: AgentSchemas,
  resolved: ResolvedRun,
  database: CheckpointDatabase,
): Promise<ResolvedRun> {
  const { config, context, command, input } = toResolvedJob(resolved);
  const checks: CheckedValue[] = [];
  const continuesState = input === undefined && resolved.thread !== null && resolved.thread.head !== null;
  if (schemas.input && !command && !continuesState)
    checks.push({ schema: schemas.input, value: input, loc: ["input"] });
  if (schemas.context && !(await continuesCall(resolved, input, database)))
    checks.push({ schema: schemas.context, value: mergeContext({ config, context }).context, loc: ["context"] });
  if (schemas.resume && command?.resume !== undefined)
    checks.push(...listAnswers(schemas.resume, command.resume, resolved));
  const issues: InputIssue[] = [];
  for (const { schema, value, loc } of checks) {
    const result = await parseBySchema(schema, value, loc.join("."));
    if (result.issues) issues.push(...toInputIssues(["body", ...loc], result.issues));
  }
  if (issues.length > 0) throw new SchemaMismatch(issues);
  return resolved;
}

/**
 * Resolves to true if the run continues a durable call: because a wait of it is due, or because the run has no `goto` and either
 * answers an ask or has no input where a call waits. Only in the last case reads the checkpoint from which the run starts. An active
 * run of the thread moves on from it, unless the new run interrupts that.
 */
async function continuesCall(
  { origin, asks = [], request, assistant, thread, start_checkpoint }: ResolvedRun,
  input: Json | undefined,
  { storage, scope }: CheckpointDatabase,
): Promise<boolean> {
  if (origin.call_id !== undefined) return true;
  const { command, multitask_strategy } = request;
  if (toGotoList(command?.goto).length > 0) return false;
  if (asks.length > 0) return true;
  if (!thread?.head || input !== undefined) return false;
  if (thread.status === "busy" && multitask_strategy !== "interrupt") return false;
  const at = start_checkpoint ?? { ns: "", checkpoint_id: thread.head };
  const checkpoint = await storage.getCheckpoint(scope, thread.thread_id, at);
  const state = checkpoint && parseRecordedState(checkpoint);
  return state?.call !== undefined && state.next.includes(assistant.graph_id);
}

/**
 * Returns the answers of a resume value with their paths: those of a map of interrupt ids, else the value as one answer. Leaves out
 * answers to asks that have declared a schema, which alone validates them.
 */
function listAnswers(schema: Schema, resume: Json, { resume_targets, asks = [] }: ResolvedRun): CheckedValue[] {
  const loc = ["command", "resume"];
  const ids = listInterruptIds(resume_targets);
  const hasOwnSchema = (id: string): boolean =>
    asks.some((ask) => ask.id === id && ask["response_schema"] !== undefined);
  const answers = toResumeMap(resume, new Set(ids));
  if (!answers) return ids.length > 0 && ids.every(hasOwnSchema) ? [] : [{ schema, value: resume, loc }];
  return Object.entries(answers)
    .filter(([id]) => !hasOwnSchema(id))
    .map(([id, value]) => ({ schema, value, loc: [...loc, id] }));
}

/** The maximum number of mismatches that a refusal lists. */
const MAX_LISTED_MISMATCHES = 20;

/**
 * Throws `SchemaMismatch`, with mismatches of all answers, if one does not fit the JSON Schema that its `ask` has declared.
 * Answers for other interrupts, and interrupts without a schema, are ignored.
 */
export function requireAnswersFit({ request, resume_targets }: BoundResume, interrupts: readonly Interrupt[]): void {
  const resume = request.command?.resume;
  if (resume === undefined) return;
  const ids = new Set(listInterruptIds(resume_targets));
  const answers = toResumeMap(resume, ids);
  const mismatches = interrupts.flatMap(({ id, response_schema = null }) => {
    const answer = answers ? answers[id] : resume;
    if (!ids.has(id) || answer === undefined) return [];
    const loc = ["body", "command", "resume", ...(answers ? [id] : [])];
    const messages = findSchemaMismatches(response_schema, answer, "value", MAX_LISTED_MISMATCHES);
    return messages.map((msg) => ({ loc, msg, type: "value_error" }));
  });
  if (mismatches.length > 0) throw new SchemaMismatch(mismatches);
}
