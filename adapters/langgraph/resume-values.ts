/**
 * Resume values of interrupts. LangGraph stores an answer beside the interrupt until the step ends, and gives it to the next task that
 * interrupts: after a crash also to a second interrupt of the same task. So the saver notes which run gave an answer and which
 * task took it, and an answer that was taken is not given again.
 */

import type { Command, Job, StoredCheckpoint, StoredWrite } from "../../lib/executor/contract.ts";
import { interruptGone, mismatch } from "../../lib/executor/kwargs.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import {
  answerCounts,
  INTERRUPT,
  idsOf,
  NULL_TASK,
  pendingWrites,
  RESUME,
  RESUME_NOTE_CHANNEL,
  readWrite,
  type Values,
} from "./saver.ts";
import { omitStepInterrupts } from "./step-marks.ts";

export interface ResumeValues {
  /** The part of the job's command that remains; null if the run only continues. */
  readonly command: Command | null;
  /** A task has taken the answer that is addressed to no interrupt. */
  readonly spent: boolean;
}

/** Reads the state that a job starts from, in a first attempt or one that has stored no state yet. */
export async function readResumeValues(job: Job, values: Values): Promise<ResumeValues> {
  const { command, run_id, from, checkpoints, resume_targets } = job;
  const stored = await checkpoints.get(from?.ns === "" ? from : { ns: "" });
  if (resume_targets) await requireTargets(job, stored, values);
  const resume = addressed(command?.resume, job);
  const begun = stored !== null && notes(stored, run_id).length > 0;
  if (job.strict_resume && !begun) requireMatch(resume, stored, values);
  if (!stored) return { command, spent: false };
  const answer = resume === undefined ? undefined : await answersOf(resume, job, stored, values);
  const giver = findAnsweringRun(stored, NULL_TASK);
  // On exit, LangGraph stores inner results first: tasks of subgraphs, then the answer that they took.
  const mayBeTaken = answer !== undefined && (begun || job.durability === "exit");
  const step = giver !== null || mayBeTaken ? await stepOf(checkpoints, stored) : [];
  const spent = giver !== null && isSpent(giver, run_id, step);
  if (!command || answer === undefined) return { command, spent };
  return { command: withResume(command, answer, openPart(answer, step, values, run_id)), spent };
}

/** Throws for an answer that is for none of the open interrupts. */
function requireMatch(resume: Json | undefined, stored: StoredCheckpoint | null, values: Values): void {
  if (resume === undefined) return;
  const wrong = mismatch(resume, stored ? questions(stored, values) : []);
  if (wrong) throw wrong;
}

/** True if a task has taken the answer, or if the run that gave it has ended and no task can take it any more. */
const isSpent = (giver: string, run_id: string, step: readonly StoredCheckpoint[]): boolean =>
  giver !== run_id || step.some((one) => findResumedTasks(one, giver).length > 0);

/** Returns the answers that no task of the step has taken, or null if all are taken. */
function openPart(answer: Json, step: readonly StoredCheckpoint[], values: Values, run_id: string): Json {
  if (!isMap(answer) && !step.some((one) => findResumedTasks(one, run_id).length > 0)) return answer;
  // Includes a task's next interrupt, which is open now: the answer was for the one before.
  const taken = new Set(
    step.flatMap((one) => [...takenBy(one, run_id), ...questions(one, values, findResumedTasks(one, run_id))]),
  );
  const byId: [string, Json][] = isMap(answer)
    ? Object.entries(answer)
    : step.flatMap((one) => questions(one, values)).map((id) => [id, answer]);
  const open = byId.filter(([id]) => !taken.has(id));
  return open.length > 0 ? Object.fromEntries(open) : null;
}

/** Returns the command with the open part of its answer. Null if nothing of the command remains. */
function withResume({ resume: _resume, ...rest }: Command, answer: Json, open: Json): Command | null {
  if (open !== null) return { ...rest, resume: open };
  return answer === null && (rest.update || rest.goto?.length) ? rest : null;
}

/**
 * Refuses answers to interrupts that are not pending any more, or not yet: LangGraph gives an answer to the next interrupt of the
 * task. What an earlier attempt of the run has answered counts as pending. Errors: ResumeRefused.
 */
async function requireTargets(
  { run_id, from, checkpoints, command, resume_targets = [] }: Job,
  root: StoredCheckpoint | null,
  values: Values,
): Promise<void> {
  const isOfSubgraph = from !== null && from.ns !== "";
  const stored = isOfSubgraph ? await checkpoints.get(from) : root;
  const pending = stored ? questions(stored, values) : [];
  const counts = stored ? answerCounts(stored) : new Map<string, number>();
  const isOpen = ({ checkpoint_id, interrupt_id, answered }: (typeof resume_targets)[number]): boolean =>
    stored?.checkpoint_id === checkpoint_id &&
    (interrupt_id === null || (pending.includes(interrupt_id) && (counts.get(interrupt_id) ?? 0) === answered));
  const gone = resume_targets.filter((target) => !isOpen(target));
  const isUnbound = resume_targets.length === 0 && command?.resume !== undefined;
  if (gone.length === 0 && !isUnbound) return;
  const step = stored ? await stepOf(checkpoints, stored) : [];
  const taken = new Set(step.flatMap((one) => takenBy(one, run_id)));
  const lost = gone.filter(({ interrupt_id }) => interrupt_id === null || !taken.has(interrupt_id));
  if (lost.length > 0 || isUnbound) throw interruptGone(lost, pending);
}

/** A plain value addressed to the interrupt that it is bound to: no other task can take it then. */
function addressed(resume: Json | undefined, { resume_targets = [] }: Job): Json | undefined {
  const id = resume_targets[0]?.interrupt_id ?? "";
  const isPlainValue = resume !== undefined && !(isObject(resume) && Object.hasOwn(resume, id));
  return isPlainValue && resume_targets.length === 1 && isInterruptId(id) ? { [id]: resume } : resume;
}

/**
 * The answer in the form that LangGraph recognizes. LangGraph takes `null`, `false`, `0` and `""` as no answer unless they are
 * given by interrupt id, and an object as a map of answers only if all keys look like ids. For callers, an object is a map if one
 * key is the id of an open interrupt.
 */
async function answersOf(
  resume: Json,
  { run_id, checkpoints }: Job,
  stored: StoredCheckpoint,
  values: Values,
): Promise<Json> {
  if (!resume) {
    const [id] = questions(stored, values);
    return id === undefined ? null : { [id]: resume };
  }
  if (!isObject(resume) || isMap(resume)) return resume;
  const byId = Object.entries<Json>(resume).filter(([key]) => isInterruptId(key));
  if (byId.length === 0) return resume;
  const step = await stepOf(checkpoints, stored);
  const found = new Set(step.flatMap((one) => [...questions(one, values), ...answeredBy(one, values, run_id)]));
  return byId.some(([id]) => found.has(id)) ? Object.fromEntries(byId) : resume;
}

/** The ids of the interrupts that an earlier attempt of the run answered: their tasks may have finished since. */
function answeredBy(stored: StoredCheckpoint, values: Values, run_id: string): string[] {
  const tasks = new Set(findResumedTasks(stored, run_id));
  const asked = stored.writes
    .filter(({ channel, task_id }) => channel === INTERRUPT && tasks.has(task_id))
    .flatMap((write) => idsOf(readWrite(write, values)));
  const given = notes(stored, run_id).map(({ task_id }) => task_id);
  return [...asked, ...given.filter(isInterruptId), ...takenBy(stored, run_id)];
}

/** The ids of the open interrupts of a checkpoint that clients see, of these tasks or of all. */
function questions(stored: StoredCheckpoint, values: Values, tasks?: readonly string[]): string[] {
  if (tasks?.length === 0) return [];
  return pendingWrites(stored, values)
    .filter(([task_id, channel]) => channel === INTERRUPT && (!tasks || tasks.includes(task_id)))
    .flatMap(([, , asked]) => idsOf(omitStepInterrupts([asked].flat())));
}

/** The checkpoint, and the checkpoints of subgraphs created since. */
async function stepOf(checkpoints: Job["checkpoints"], stored: StoredCheckpoint): Promise<StoredCheckpoint[]> {
  const found = [stored];
  for await (const other of checkpoints.list({})) {
    if (other.ns === "" && other.checkpoint_id === stored.checkpoint_id) break;
    if (other.ns !== "") found.push(other);
  }
  return found;
}

/**
 * By interrupt id, how many answers its task has consumed by now, here or in a subgraph. More than `answerCounts` says: the answer to the
 * interrupt is among them.
 */
export async function consumedAnswers(
  checkpoints: Job["checkpoints"],
  stored: StoredCheckpoint,
  values: Values,
): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  // The nodes above a subgraph show its interrupts, too; those inside it have consumed the answers.
  const innermostFirst = (await stepOf(checkpoints, stored)).sort((a, b) => depthOf(b) - depthOf(a));
  for (const { writes } of innermostFirst) {
    for (const asked of writes.filter(({ channel }) => channel === INTERRUPT)) {
      const resumes = writes.filter(({ channel, task_id }) => channel === RESUME && task_id === asked.task_id);
      const count = resumes.flatMap((write) => readWrite(write, values)).length;
      for (const id of idsOf(readWrite(asked, values))) if (!counts.has(id)) counts.set(id, count);
    }
  }
  return counts;
}

const depthOf = ({ ns }: StoredCheckpoint): number => (ns === "" ? 0 : ns.split("|").length);

/** The run that gave the answer stored for a task. */
function findAnsweringRun({ writes }: StoredCheckpoint, task_id: string): string | null {
  const note = writes.find((write) => write.channel === RESUME_NOTE_CHANNEL && write.task_id === task_id);
  return note ? noted(note).run_id : null;
}

/** The tasks that took an answer of the run. */
function findResumedTasks(stored: StoredCheckpoint, run_id: string): string[] {
  return notes(stored, run_id)
    .map(({ task_id }) => task_id)
    .filter(isTask);
}

/** The ids of the interrupts whose tasks took an answer of the run. */
function takenBy(stored: StoredCheckpoint, run_id: string): readonly string[] {
  return notes(stored, run_id).flatMap((write) => noted(write).ids);
}

/** The notes about the run's answers. */
function notes({ writes }: StoredCheckpoint, run_id: string): StoredWrite[] {
  return writes.filter((write) => write.channel === RESUME_NOTE_CHANNEL && noted(write).run_id === run_id);
}

/** In notes of earlier releases, the data is only the run's id. */
function noted({ data }: StoredWrite): { readonly run_id: string; readonly ids: readonly string[] } {
  const [run_id, ...ids] = [JSON.parse(data as string) as string | string[]].flat();
  return { run_id: run_id as string, ids };
}

/** Tasks have UUIDs; an answer to one interrupt is stored under the interrupt's id. */
const isTask = (task_id: string): boolean => task_id !== NULL_TASK && !isInterruptId(task_id);

const isInterruptId = (id: string): boolean => /^[0-9a-f]{32}$/.test(id);

/** Resume values by interrupt id, recognized as LangGraph does. */
function isMap(resume: Json | undefined): resume is JsonObject {
  return (
    resume !== undefined &&
    isObject(resume) &&
    Object.keys(resume).length > 0 &&
    Object.keys(resume).every(isInterruptId)
  );
}
