/** The start of an attempt: the input of the graph, and the resume values for its interrupts. */
import type { Job } from "../../lib/executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { withCommand } from "./command.ts";
import type { Graph } from "./graph.ts";
import type { GraphWaits } from "./graph-waits.ts";
import type { JobSaver } from "./job-saver.ts";
import { type ResumeValues, readResumeValues } from "./resume-values.ts";
import { NULL_TASK, type ValueSerializer } from "./saver.ts";

export const NO_RESUME_VALUES: ResumeValues = { command: null, isAnswerConsumed: false };

/**
 * Returns the resume values of the client together with those of the service; those of the service win for the same interrupt.
 * Null if the durable call that the run was created for has continued without it. Appends ends of waits to the journal. Throws a
 * ResumeError for values that do not fit.
 */
export async function collectResumeValues(
  waits: GraphWaits,
  job: Job,
  values: ValueSerializer,
): Promise<ResumeValues | null> {
  const continued = await waits.continueCall(values);
  if (continued === "gone") return null;
  if (!continued) return job.resumed ? NO_RESUME_VALUES : await readResumeValues(job, values);
  const { command, isAnswerConsumed } = continued.job
    ? await readResumeValues(continued.job, values)
    : NO_RESUME_VALUES;
  if (Object.keys(continued.resume).length === 0) return { command, isAnswerConsumed };
  const clientResume = command?.resume ?? null;
  const resume = { ...(isObject(clientResume) ? clientResume : {}), ...continued.resume };
  return { command: { ...command, resume }, isAnswerConsumed };
}

/**
 * Returns the input of the graph, and the graph that accepts it, which is a copy if a command sends packets. The input
 * is the command if one remains; else null in a later attempt or with a command that is used up, else the job's input
 * or null.
 */
export function toGraphInput(
  graph: Graph,
  job: Job,
  { command }: ResumeValues,
): { readonly graph: Graph; readonly input: unknown } {
  if (command) return withCommand(graph, command);
  return { graph, input: job.resumed || job.command ? null : (job.input ?? null) };
}

/** A graph that may have an open step, and where the attempt starts. */
export interface OpenStep {
  readonly graph: Graph;
  readonly saver: JobSaver;
  readonly job: Job;
  readonly fork: JsonObject;
}

/**
 * Handles a command that goes only to the end while a step is open, because LangGraph would start that step again: stores the
 * command's update and ends the step, without running a node. Returns false, and does nothing, without such a command, in a
 * subgraph, or without a stored state.
 */
export async function finishOpenStep(
  { command }: ResumeValues,
  { graph, saver, job, fork }: OpenStep,
): Promise<boolean> {
  const { goto = [], resume, update } = command ?? {};
  const goesToEnd = goto.length > 0 && goto.every((target) => target === "__end__") && resume === undefined;
  if (!goesToEnd || (job.from && job.from.ns !== "")) return false;
  const config = {
    configurable: { thread_id: job.thread_id, checkpoint_ns: "", ...fork },
    metadata: { ...job.metadata },
  };
  const tuple = await saver.getTuple(config);
  if (!tuple) return false;
  const pairs = Array.isArray(update) ? (update as [string, Json][]) : Object.entries((update ?? {}) as JsonObject);
  // LangGraph stores the writes of a command in this form.
  if (pairs.length > 0) await saver.putWrites(tuple.config, pairs, NULL_TASK);
  await graph.bulkUpdateState(config, [{ updates: [{ values: null, asNode: "__end__" }] }]);
  return true;
}
