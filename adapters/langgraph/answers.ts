/**
 * Answers to interrupts. LangGraph keeps an answer beside the question until the step is over, and gives it to whichever task
 * asks next: to a task's second question too, where the run that answered the first died before its end. The saver notes
 * which run gave an answer and which task has taken it; what was taken is not given again.
 */

import { mismatch } from "../../lib/executor/answers.ts";
import type { Command, Job, StoredCheckpoint, StoredWrite } from "../../lib/executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { ANSWERED, INTERRUPT, idsOf, NULL_TASK, pendingWrites, readWrite, type Values } from "./saver.ts";

export interface Answers {
  /** What is left to do of the job's command; null where the run is just to go on. */
  readonly command: Command | null;
  /** The answer that is kept for whoever asks first has been taken. */
  readonly spent: boolean;
}

/** Looks at the state that a job begins with, in a first attempt or one that has stored no state of its own. */
export async function openAnswers(job: Job, values: Values): Promise<Answers> {
  const { command, run_id, from, checkpoints } = job;
  const stored = await checkpoints.get(from?.ns === "" ? from : { ns: "" });
  const resume = command?.resume;
  const begun = stored?.writes.some((write) => write.channel === ANSWERED && noted(write).run_id === run_id) ?? false;
  if (job.strict_resume && resume !== undefined && !begun) {
    const wrong = mismatch(resume, stored ? questions(stored, values) : []);
    if (wrong) throw wrong;
  }
  const given = resume !== undefined && stored ? await answersOf(resume, job, stored, values) : resume;
  if (!stored) return { command, spent: false };
  const giver = runOf(stored, NULL_TASK);
  // What is stored on exit is stored from the inside out: tasks of subgraphs first, then the answer that they have taken.
  const again = begun || job.durability === "exit";
  const step = giver !== null || (given !== undefined && again) ? await stepOf(checkpoints, stored) : [];
  const spent = giver !== null && step.some((one) => takers(one, giver).length > 0);
  if (!command || given === undefined) return { command, spent };

  let left: Json = given;
  if (isMap(given) || step.some((one) => takers(one, run_id).length > 0)) {
    // A task's next question too, which is open now: the answer was for the one before.
    const taken = new Set(
      step.flatMap((one) => [...takenBy(one, run_id), ...questions(one, values, takers(one, run_id))]),
    );
    const open: [string, Json][] = isMap(given)
      ? Object.entries(given)
      : step.flatMap((one) => questions(one, values)).map((id) => [id, given]);
    const answers = open.filter(([id]) => !taken.has(id));
    left = answers.length > 0 ? Object.fromEntries(answers) : null;
  }
  const { resume: _resume, ...rest } = command;
  if (left !== null) return { command: { ...rest, resume: left }, spent };
  return { command: given === null && (rest.update || rest.goto?.length) ? rest : null, spent };
}

/**
 * The answer as LangGraph takes it for what it is. It takes `null`, `false`, `0` and `""` for no answer unless they are given to an
 * interrupt by its id, and an object for a map of answers only when all of its keys look like ids; for callers it is one as soon as
 * a key is the id of an interrupt that the run found open.
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

/** The ids of the interrupts that an earlier attempt of a run has answered: the tasks that asked may have finished since. */
function answeredBy(stored: StoredCheckpoint, values: Values, run_id: string): string[] {
  const tasks = new Set(takers(stored, run_id));
  const asked = stored.writes
    .filter(({ channel, task_id }) => channel === INTERRUPT && tasks.has(task_id))
    .flatMap((write) => idsOf(readWrite(write, values)));
  const given = notes(stored, run_id).map(({ task_id }) => task_id);
  return [...asked, ...given.filter(isInterruptId), ...takenBy(stored, run_id)];
}

/** The ids of the interrupts that are open on a checkpoint, of these tasks or of all. */
function questions(stored: StoredCheckpoint, values: Values, tasks?: readonly string[]): string[] {
  if (tasks?.length === 0) return [];
  return pendingWrites(stored, values)
    .filter(([task_id, channel]) => channel === INTERRUPT && (!tasks || tasks.includes(task_id)))
    .flatMap(([, , asked]) => idsOf(asked));
}

/** The checkpoint, and those of subgraphs that were made since. */
async function stepOf(checkpoints: Job["checkpoints"], stored: StoredCheckpoint): Promise<StoredCheckpoint[]> {
  const found = [stored];
  for await (const other of checkpoints.list({})) {
    if (other.ns === "" && other.checkpoint_id === stored.checkpoint_id) break;
    if (other.ns !== "") found.push(other);
  }
  return found;
}

/** The run that gave the answer kept for a task. */
function runOf({ writes }: StoredCheckpoint, task_id: string): string | null {
  const note = writes.find((write) => write.channel === ANSWERED && write.task_id === task_id);
  return note ? noted(note).run_id : null;
}

/** The tasks that have taken an answer of a run. */
function takers(stored: StoredCheckpoint, run_id: string): string[] {
  return notes(stored, run_id)
    .map(({ task_id }) => task_id)
    .filter(isTask);
}

/** The ids of the interrupts for which tasks have taken an answer of a run. */
function takenBy(stored: StoredCheckpoint, run_id: string): readonly string[] {
  return notes(stored, run_id).flatMap((write) => noted(write).ids);
}

/** What is noted of a run's answers. */
function notes({ writes }: StoredCheckpoint, run_id: string): StoredWrite[] {
  return writes.filter((write) => write.channel === ANSWERED && noted(write).run_id === run_id);
}

/** Notes of earlier releases are the run's id alone. */
function noted({ data }: StoredWrite): { readonly run_id: string; readonly ids: readonly string[] } {
  const [run_id, ...ids] = [JSON.parse(data as string) as string | string[]].flat();
  return { run_id: run_id as string, ids };
}

/** Tasks have UUIDs; what is kept for an interrupt has the interrupt's id. */
const isTask = (task_id: string): boolean => task_id !== NULL_TASK && !isInterruptId(task_id);

const isInterruptId = (id: string): boolean => /^[0-9a-f]{32}$/.test(id);

/** Answers by interrupt id, told apart as LangGraph does. */
function isMap(resume: Json | undefined): resume is JsonObject {
  return (
    resume !== undefined &&
    isObject(resume) &&
    Object.keys(resume).length > 0 &&
    Object.keys(resume).every(isInterruptId)
  );
}
