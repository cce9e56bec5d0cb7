/** Decides which pending interrupts a resume value is for. This happens when its run is created, with the state of that time. */
import { ServiceError } from "../errors.ts";
import type { CheckpointRef, Interrupt, InterruptRef } from "../executor/contract.ts";
import { findAmbiguousResume, findResumeMismatch, getAnswerCount, toResumeMap } from "../executor/job-request.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { RunRow } from "../storage/mod.ts";
import type { RunCreate } from "./request.ts";

/** The interrupts or the breakpoint at which a thread waits. */
export interface PendingState {
  readonly checkpoint: CheckpointRef;
  readonly interrupts: readonly Interrupt[];
  /** True if its run stopped at a breakpoint. */
  readonly isBreakpoint: boolean;
  /** The run that has stopped there, if it is known. */
  readonly run_id?: string | undefined;
}

/** A request with the interrupts that its resume value is for. */
export interface BoundResume {
  readonly request: RunCreate;
  readonly resume_targets: readonly InterruptRef[];
  /** The targets that are asks of the durable call that the run continues. */
  readonly asks?: readonly Interrupt[];
  /** The run that waits for the answer, if it is known. The journal has that of an ask. */
  readonly resumed_run_id?: string | undefined;
}

/** Returns the name of an interrupt in its thread. Two interrupts of a task may share it, but only one of them is pending. */
export const toTargetName = ({ interrupt_id, checkpoint_id }: InterruptRef): string =>
  interrupt_id ?? `breakpoint ${checkpoint_id}`;

/**
 * Returns a copy of the request with its resume value limited to pending interrupts, and these as targets; at a breakpoint
 * without resume value and input. Returns null if there is no resume value, no state, or the value is for none of the
 * interrupts, with `strict_resume` also at a breakpoint. Throws `invalid` for an ambiguous or unfitting value, and
 * `no_open_interrupt` (`expected_answers`).
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the checks of one answer, in their order
export function bindResume(request: RunCreate, state: PendingState | null, requiresIds: boolean): BoundResume | null {
  const { resume, expected_answers, ...otherMembers } = request.command ?? {};
  if (resume === undefined || !state) return null;
  const pending = new Map(state.interrupts.map((interrupt) => [interrupt.id, interrupt]));
  const ids = [...pending.keys()];
  const answers = toResumeMap(resume, new Set(ids));
  /**
   * Returns the target of a resume value: a pending interrupt with the number of answers that its task has consumed, or with
   * null a breakpoint.
   */
  const toInterruptRef = (interrupt_id: string | null): InterruptRef => {
    const { ns: checkpoint_ns, checkpoint_id } = state.checkpoint;
    const interrupt = interrupt_id === null ? undefined : pending.get(interrupt_id);
    return { checkpoint_ns, checkpoint_id, interrupt_id, answered: interrupt ? getAnswerCount(interrupt) : 0 };
  };
  if (ids.length === 0) {
    if (!state.isBreakpoint || answers || request.strict_resume) return null;
    const { command: _command, input: _input, ...rest } = request;
    return { request: { ...rest, ...pickUpdateCommand(otherMembers) }, resume_targets: [toInterruptRef(null)] };
  }
  const answeredIds = answers ? ids.filter((id) => Object.hasOwn(answers, id)) : ids;
  if (answeredIds.length === 0) return null;
  if (request.strict_resume) throwProblem(findResumeMismatch(resume, ids));
  else if (!answers) throwProblem(findAmbiguousResume([...ids].sort()));
  if (requiresIds && !answers) {
    const pendingIds = [...ids].sort().join(", ");
    throw new ServiceError(
      "invalid",
      `command.resume: this agent takes answers by interrupt id only; open: ${pendingIds}`,
    );
  }
  requireExpected(expected_answers, pending);
  for (const id of answeredIds)
    requireDecisions(pending.get(id) as Interrupt, answers ? (answers[id] as Json) : resume);
  // The other members name interrupts that are not pending.
  const value = answers ? Object.fromEntries(answeredIds.map((id) => [id, answers[id] as Json])) : resume;
  return {
    request: { ...request, command: { ...otherMembers, resume: value } },
    resume_targets: answeredIds.map(toInterruptRef),
  };
}

function throwProblem(problem: Error | null): void {
  if (problem) throw new ServiceError("invalid", problem.message, { cause: problem });
}

/** Returns a copy of the request whose command has only `update` and `goto`. Returns null if neither is set, and with `strict_resume`. */
export function omitResume(request: RunCreate): RunCreate | null {
  const { resume: _resume, expected_answers: _expected, ...otherMembers } = request.command ?? {};
  const remaining = pickUpdateCommand(otherMembers);
  return remaining.command && !request.strict_resume ? { ...request, ...remaining } : null;
}

/** Returns the command with `update` and `goto` alone, null for one that is not set; an empty object if neither is set. */
const pickUpdateCommand = ({ update, goto }: NonNullable<RunCreate["command"]>): Pick<RunCreate, "command"> => {
  const isUsed = (update ?? null) !== null || [goto ?? []].flat().length > 0;
  return isUsed ? { command: { update: update ?? null, goto: goto ?? null } } : {};
};

/**
 * Throws `no_open_interrupt` unless each expected interrupt is pending and its task has consumed this number of answers.
 * Otherwise the resume value is for an earlier interrupt with the same id, which the client displayed.
 */
function requireExpected(
  expected: NonNullable<RunCreate["command"]>["expected_answers"],
  pending: ReadonlyMap<string, Interrupt>,
): void {
  for (const [id, count] of Object.entries(expected ?? {})) {
    const interrupt = pending.get(id);
    if (interrupt && getAnswerCount(interrupt) === count) continue;
    const now = interrupt ? `its task has consumed ${getAnswerCount(interrupt)} answers` : "it is not open";
    const text = `command.expected_answers: the interrupt ${id} was expected with ${count} answers, but ${now}`;
    throw new ServiceError("no_open_interrupt", text);
  }
}

/**
 * Throws `invalid` if the answer has another number of decisions than the interrupt of LangChain's human-in-the-loop middleware
 * has actions. Accepts other interrupts and answers.
 */
function requireDecisions({ id, value }: Interrupt, answer: Json): void {
  const { actionRequests = null, action_requests = null } = isObject(value) ? value : {};
  const actions = actionRequests ?? action_requests;
  const decisions = isObject(answer) ? answer.decisions : null;
  if (!Array.isArray(actions) || !Array.isArray(decisions) || actions.length === decisions.length) return;
  const names = actions.map((action) => {
    const { name = null, action: legacyName = null } = isObject(action) ? action : {};
    return [name, legacyName].find((text) => typeof text === "string") ?? "an action";
  });
  const text = `decisions: must be a list of ${actions.length}, one for each action: ${names.join(", ")}`;
  throw new ServiceError("invalid", `command.resume of interrupt ${id}: ${text}; it has ${decisions.length}`);
}

/**
 * Returns the first active run that resumes an interrupt which the resume value is for; undefined if there is none. A value
 * that is not a map of interrupt ids is for any interrupt.
 */
export function findAnsweringRun(resume: Json, active: readonly RunRow[]): RunRow | undefined {
  const readTargets = ({ kwargs }: RunRow): readonly JsonObject[] =>
    Array.isArray(kwargs.resume_targets) ? (kwargs.resume_targets as JsonObject[]) : [];
  const ids = new Set(active.flatMap(readTargets).flatMap(({ interrupt_id }) => (interrupt_id as string | null) ?? []));
  const answers = toResumeMap(resume, ids);
  return active.find((run) =>
    readTargets(run).some(({ interrupt_id }) => !answers || Object.hasOwn(answers, String(interrupt_id))),
  );
}

export const interruptAnsweredError = (thread_id: string, run_id: string): ServiceError =>
  new ServiceError(
    "interrupt_already_answered",
    `command.resume: run ${run_id} of thread ${thread_id} answers this interrupt already`,
    { run_id },
  );

export const noPendingInterruptError = (thread_id: string): ServiceError =>
  new ServiceError(
    "no_open_interrupt",
    `command.resume: thread ${thread_id} has no open interrupt that it answers. To continue without an answer, send input: null`,
  );
