/**
 * Reads the resume values of interrupts. LangGraph stores a resume value beside the interrupt until the step ends, and
 * gives it to the next task that interrupts: after a crash also to a second interrupt of the same task. So the saver
 * notes which run gave a resume value and which task took it, and a value that was taken is not given again.
 */

import type { Command, Job, StoredCheckpoint, StoredWrite } from "../../lib/executor/contract.ts";
import { createInterruptGoneError, findResumeMismatch } from "../../lib/executor/job-request.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import {
  INTERRUPT,
  NULL_TASK,
  RESUME,
  RESUME_NOTE_CHANNEL,
  readAnswerCounts,
  readInterruptIds,
  readPendingWrites,
  readWrite,
  type ValueSerializer,
} from "./saver.ts";
import { omitWaitInterrupts } from "./wait-interrupts.ts";

export interface ResumeValues {
  /** The part of the job's command that remains; null if the run only continues. */
  readonly command: Command | null;
  /** True if a task has taken the resume value that is addressed to no interrupt. */
  readonly isAnswerConsumed: boolean;
}

/**
 * Reads the resume values of a job in its first attempt, or in one that has stored no state yet, without those that an earlier
 * attempt has consumed. Writes nothing. Throws a ResumeError if strict or bound resume values do not fit.
 */
export async function readResumeValues(job: Job, values: ValueSerializer): Promise<ResumeValues> {
  const { command, run_id, from, checkpoints, resume_targets } = job;
  const stored = await checkpoints.get(from?.ns === "" ? from : { ns: "" });
  if (resume_targets) await requireTargets(job, stored, values);
  const resume = addressToInterrupt(command?.resume, job);
  const hasStarted = stored !== null && findResumeNotes(stored, run_id).length > 0;
  if (job.strict_resume && !hasStarted) requireMatch(resume, stored, values);
  if (!stored) return { command, isAnswerConsumed: false };
  const resumeValue = resume === undefined ? undefined : await normalizeResume(resume, job, stored, values);
  const answeringRun = findAnsweringRun(stored, NULL_TASK);
  // With durability `exit`, LangGraph stores inner results first: tasks of subgraphs, then the resume value that they
  // took.
  const mayBeTaken = resumeValue !== undefined && (hasStarted || job.durability === "exit");
  const step = answeringRun !== null || mayBeTaken ? await readStep(checkpoints, stored) : [];
  const isAnswerConsumed = answeringRun !== null && isConsumed(answeringRun, run_id, step);
  if (!command || resumeValue === undefined) return { command, isAnswerConsumed };
  return {
    command: withResume(command, resumeValue, omitTakenAnswers(resumeValue, step, values, run_id)),
    isAnswerConsumed,
  };
}

/** Throws if a resume value is for none of the pending interrupts. */
function requireMatch(resume: Json | undefined, stored: StoredCheckpoint | null, values: ValueSerializer): void {
  if (resume === undefined) return;
  const mismatchError = findResumeMismatch(resume, stored ? findPendingIds(stored, values) : []);
  if (mismatchError) throw mismatchError;
}

/**
 * Returns true if a task has taken the resume value, or if the run that gave it has ended and no task can take it any
 * more.
 */
const isConsumed = (answeringRun: string, run_id: string, step: readonly StoredCheckpoint[]): boolean =>
  answeringRun !== run_id || step.some((checkpoint) => findResumedTasks(checkpoint, answeringRun).length > 0);

/**
 * Returns the resume values that no task of the step has taken, by interrupt id; null if all are taken. A plain value
 * is returned as it is if the run has resumed no task yet, else it is given to each pending interrupt that has taken
 * none.
 */
function omitTakenAnswers(
  resumeValue: Json,
  step: readonly StoredCheckpoint[],
  values: ValueSerializer,
  run_id: string,
): Json {
  if (!isResumeMap(resumeValue) && !step.some((checkpoint) => findResumedTasks(checkpoint, run_id).length > 0))
    return resumeValue;
  // Includes a task's next interrupt, which is pending now: the resume value was for the one before.
  const takenIds = new Set(
    step.flatMap((checkpoint) => [
      ...findTakenIds(checkpoint, run_id),
      ...findPendingIds(checkpoint, values, findResumedTasks(checkpoint, run_id)),
    ]),
  );
  const byId: [string, Json][] = isResumeMap(resumeValue)
    ? Object.entries(resumeValue)
    : step.flatMap((checkpoint) => findPendingIds(checkpoint, values)).map((id) => [id, resumeValue]);
  const openEntries = byId.filter(([id]) => !takenIds.has(id));
  return openEntries.length > 0 ? Object.fromEntries(openEntries) : null;
}

/**
 * Returns a copy of the command with the remaining resume values. If none remain: null, because the command was applied
 * with them, or the command without `resume` if `resumeValue` is null and it has an update or a `goto`.
 */
function withResume(
  { resume: _resume, ...otherMembers }: Command,
  resumeValue: Json,
  openAnswers: Json,
): Command | null {
  if (openAnswers !== null) return { ...otherMembers, resume: openAnswers };
  return resumeValue === null && (otherMembers.update || otherMembers.goto?.length) ? otherMembers : null;
}

/**
 * Throws a ResumeError for resume values of interrupts that are not pending any more, or not yet: LangGraph would
 * give the value to the next interrupt of the task. An interrupt that an earlier attempt of the run has resumed counts
 * as pending.
 */
async function requireTargets(
  { run_id, from, checkpoints, command, resume_targets = [] }: Job,
  root: StoredCheckpoint | null,
  values: ValueSerializer,
): Promise<void> {
  const isOfSubgraph = from !== null && from.ns !== "";
  const stored = isOfSubgraph ? await checkpoints.get(from) : root;
  const pending = stored ? findPendingIds(stored, values) : [];
  const counts = stored ? readAnswerCounts(stored) : new Map<string, number>();
  const isOpen = ({ checkpoint_id, interrupt_id, answered }: (typeof resume_targets)[number]): boolean =>
    stored?.checkpoint_id === checkpoint_id &&
    (interrupt_id === null || (pending.includes(interrupt_id) && (counts.get(interrupt_id) ?? 0) === answered));
  const missingTargets = resume_targets.filter((target) => !isOpen(target));
  const isUnbound = resume_targets.length === 0 && command?.resume !== undefined;
  if (missingTargets.length === 0 && !isUnbound) return;
  const step = stored ? await readStep(checkpoints, stored) : [];
  const takenIds = new Set(step.flatMap((checkpoint) => findTakenIds(checkpoint, run_id)));
  const lostTargets = missingTargets.filter(({ interrupt_id }) => interrupt_id === null || !takenIds.has(interrupt_id));
  if (lostTargets.length > 0 || isUnbound) throw createInterruptGoneError(lostTargets, pending);
}

/**
 * Returns `{ [id]: resume }` if a plain value is bound to exactly one interrupt with an id, so that no other task can
 * take it. Returns every other value as it is, also a map that has that id already.
 */
function addressToInterrupt(resume: Json | undefined, { resume_targets = [] }: Job): Json | undefined {
  const id = resume_targets[0]?.interrupt_id ?? "";
  const isPlainValue = resume !== undefined && !(isObject(resume) && Object.hasOwn(resume, id));
  return isPlainValue && resume_targets.length === 1 && isInterruptId(id) ? { [id]: resume } : resume;
}

/**
 * Converts a resume value to the form that LangGraph recognizes. LangGraph ignores `null`, `false`, `0` and `""` unless they are
 * given by interrupt id, and takes an object as a map only if all keys look like ids. For callers, an object is a map if one key
 * is the id of a pending interrupt; other keys are then dropped. Null for an empty value if nothing is pending.
 */
async function normalizeResume(
  resume: Json,
  { run_id, checkpoints }: Job,
  stored: StoredCheckpoint,
  values: ValueSerializer,
): Promise<Json> {
  if (!resume) {
    const [id] = findPendingIds(stored, values);
    return id === undefined ? null : { [id]: resume };
  }
  if (!isObject(resume) || isResumeMap(resume)) return resume;
  const byId = Object.entries<Json>(resume).filter(([key]) => isInterruptId(key));
  if (byId.length === 0) return resume;
  const step = await readStep(checkpoints, stored);
  const knownIds = new Set(
    step.flatMap((checkpoint) => [
      ...findPendingIds(checkpoint, values),
      ...findAnsweredIds(checkpoint, values, run_id),
    ]),
  );
  return byId.some(([id]) => knownIds.has(id)) ? Object.fromEntries(byId) : resume;
}

/**
 * Returns the ids of the interrupts that an earlier attempt of the run resumed, which may contain duplicates. Their
 * tasks may have finished since.
 */
function findAnsweredIds(stored: StoredCheckpoint, values: ValueSerializer, run_id: string): string[] {
  const tasks = new Set(findResumedTasks(stored, run_id));
  const interruptIds = stored.writes
    .filter(({ channel, task_id }) => channel === INTERRUPT && tasks.has(task_id))
    .flatMap((write) => readInterruptIds(readWrite(write, values)));
  const noteTaskIds = findResumeNotes(stored, run_id).map(({ task_id }) => task_id);
  return [...interruptIds, ...noteTaskIds.filter(isInterruptId), ...findTakenIds(stored, run_id)];
}

/** Returns the ids of the pending interrupts of a checkpoint that clients see, of these tasks or of all. */
function findPendingIds(stored: StoredCheckpoint, values: ValueSerializer, tasks?: readonly string[]): string[] {
  if (tasks?.length === 0) return [];
  return readPendingWrites(stored, values)
    .filter(([task_id, channel]) => channel === INTERRUPT && (!tasks || tasks.includes(task_id)))
    .flatMap(([, , interrupts]) => readInterruptIds(omitWaitInterrupts([interrupts].flat())));
}

/**
 * Returns `stored`, and after it the newer checkpoints of subgraphs, newest first. Newer checkpoints of the root graph
 * are left out. If `stored` is of a subgraph itself, all checkpoints of subgraphs follow, `stored` among them.
 */
async function readStep(checkpoints: Job["checkpoints"], stored: StoredCheckpoint): Promise<StoredCheckpoint[]> {
  const checkpointsOfStep = [stored];
  for await (const checkpoint of checkpoints.list({})) {
    if (checkpoint.ns === "" && checkpoint.checkpoint_id === stored.checkpoint_id) break;
    if (checkpoint.ns !== "") checkpointsOfStep.push(checkpoint);
  }
  return checkpointsOfStep;
}

/**
 * Returns how many resume values the task of each interrupt has consumed, here or in a subgraph, by interrupt id. If
 * this is more than `readAnswerCounts` returns, the interrupt's own value is among them.
 */
export async function countConsumedAnswers(
  checkpoints: Job["checkpoints"],
  stored: StoredCheckpoint,
  values: ValueSerializer,
): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  // The nodes above a subgraph show its interrupts, too; those inside it have consumed the resume values.
  const innermostFirst = (await readStep(checkpoints, stored)).sort(
    (first, second) => getDepth(second) - getDepth(first),
  );
  for (const { writes } of innermostFirst) {
    for (const interruptWrite of writes.filter(({ channel }) => channel === INTERRUPT)) {
      const resumes = writes.filter(({ channel, task_id }) => channel === RESUME && task_id === interruptWrite.task_id);
      const count = resumes.flatMap((write) => readWrite(write, values)).length;
      for (const id of readInterruptIds(readWrite(interruptWrite, values))) if (!counts.has(id)) counts.set(id, count);
    }
  }
  return counts;
}

const getDepth = ({ ns }: StoredCheckpoint): number => (ns === "" ? 0 : ns.split("|").length);

/** Returns the run that gave the resume value stored for a task, or null. */
function findAnsweringRun({ writes }: StoredCheckpoint, task_id: string): string | null {
  const note = writes.find((write) => write.channel === RESUME_NOTE_CHANNEL && write.task_id === task_id);
  return note ? parseResumeNote(note).run_id : null;
}

/**
 * Returns the ids of the tasks that took a resume value of the run; the run's own value, which no task has taken yet,
 * is left out.
 */
function findResumedTasks(stored: StoredCheckpoint, run_id: string): string[] {
  return findResumeNotes(stored, run_id)
    .map(({ task_id }) => task_id)
    .filter(isTask);
}

/** Returns the ids of the interrupts whose tasks took a resume value of the run. */
function findTakenIds(stored: StoredCheckpoint, run_id: string): readonly string[] {
  return findResumeNotes(stored, run_id).flatMap((write) => parseResumeNote(write).ids);
}

/** Returns the notes about the run's resume values. */
function findResumeNotes({ writes }: StoredCheckpoint, run_id: string): StoredWrite[] {
  return writes.filter((write) => write.channel === RESUME_NOTE_CHANNEL && parseResumeNote(write).run_id === run_id);
}

/** Parses a note. In notes of earlier releases, the data is only the run's id. */
function parseResumeNote({ data }: StoredWrite): { readonly run_id: string; readonly ids: readonly string[] } {
  const [run_id, ...ids] = [JSON.parse(data as string) as string | string[]].flat();
  return { run_id: run_id as string, ids };
}

/** Returns true for the UUID of a task. A resume value of one interrupt is stored under the interrupt's id. */
const isTask = (task_id: string): boolean => task_id !== NULL_TASK && !isInterruptId(task_id);

const isInterruptId = (id: string): boolean => /^[0-9a-f]{32}$/.test(id);

/**
 * Returns true for an object with at least one key in which all keys look like interrupt ids, as LangGraph tests it.
 */
function isResumeMap(resume: Json | undefined): resume is JsonObject {
  return (
    resume !== undefined &&
    isObject(resume) &&
    Object.keys(resume).length > 0 &&
    Object.keys(resume).every(isInterruptId)
  );
}
