/** Attempts of runs on functions: the state before the call, the call, and what it yields. */
import type { Environment } from "../environment.ts";
import type { Command, ExecutorEvent, Job, StateEvent } from "../executor/contract.ts";
import type { Coroutine } from "../executor/coroutine.ts";
import { answersById, mismatch } from "../executor/kwargs.ts";
import { applyUpdates, messagesOf } from "../executor/messages.ts";
import { END, START } from "../executor/state-changes.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import { type AgentEntry, Call, RaisedInterrupt, task } from "./call.ts";
import { Driver, Emitted, type FunctionEvent } from "./drive.ts";
import { show, showInterrupts } from "./frames.ts";
import { type ContinuedCall, type DrivenJob, type Head, readHead } from "./head.ts";
import { copyJson } from "./plain.ts";
import type { Steps } from "./steps.ts";
import type { Verbs } from "./verbs.ts";

const LOST_INTERRUPT =
  "interrupt() was called, but its result was not yielded, so the run did not stop: write yield job.interrupt(value)";

/** One attempt of a run on a function. */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the life of one call, in its order
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: the life of one call, in its order
export function* execute(
  { agent, strict = false }: AgentEntry,
  job: Job,
  signal: AbortSignal,
  environment: Environment,
): Coroutine {
  const { uuid, defer } = environment;
  const { run_id, thread_id, graph_id } = job;
  const head = yield* readHead(job);
  signal.throwIfAborted();
  const initial = initialState(job, head, uuid);
  yield* initial.events;
  if (!initial.calls) {
    const { call: paused } = head;
    if (job.resumed && paused) yield import("./open-call.ts").then(({ pauseAgain }) => pauseAgain(job, paused));
    return;
  }
  const call = new Call({ job, values: initial.values, step: initial.step, uuid, asked: head.asked });
  const emitted = new Emitted();
  let steps: Steps | undefined;
  let own = functionJob(job, head, initial.values, signal);
  /** Opens the call that the run continues, or a new one; false if it is gone. */
  const open = async (continued: ContinuedCall | null): Promise<boolean> => {
    const { openCall } = await import("./open-call.ts");
    const stored = job.resumed || initial.events.some(({ type }) => type === "state");
    const opened = await openCall({ job, own, call, head, emitted, signal, strict, environment, continued, stored });
    if (opened) ({ steps, own } = opened);
    return opened !== null;
  };
  const continued = continuedCall(job, head);
  if (continued && !(yield open(continued)) && job.journal?.call_id) {
    // The call that the run was made for has gone on, or has ended.
    yield stateOf(head);
    return;
  }
  let loading: Promise<unknown> | undefined;
  const verb =
    (name: keyof Verbs) =>
    (...args: unknown[]): Promise<unknown> => {
      const use = () => (steps as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>)[name]?.(...args);
      if (!steps) loading ??= open(null);
      const promise = Promise.resolve(loading && !steps ? loading.then(use) : use());
      // A function may be stopped while it does not await this.
      promise.catch(() => {});
      return promise;
    };
  const verbs = { step: verb("step"), sleep: verb("sleep"), wait: verb("wait"), ask: verb("ask") } as unknown as Verbs;
  yield* call.begin();
  try {
    // Tokens come fast: the extra tick of the event loop is needed only while a step is held back.
    const tick = (then: () => void): void => (call.hasOpenStep() ? defer(then) : undefined);
    const driver = new Driver({ agent, job: Object.assign(own, verbs), signal, tick, emitted });
    try {
      for (const item of driver.items()) {
        if (item instanceof Promise) yield item;
        else if (item.kind === "effect") yield* item.run();
        else if (item.value instanceof RaisedInterrupt) {
          call.durable = null;
          return yield* call.pause(item.value);
        } else if (item.kind !== "returned") yield* eventsOf(call, item, steps);
        else {
          if (driver.interrupts)
            environment.log({ level: "warn", message: LOST_INTERRUPT, run_id, thread_id, graph_id });
          if (loading) yield loading.catch(() => {});
          if (steps) yield* steps.finish();
          call.durable = null;
          return yield* call.finish(item.value);
        }
        if (emitted.left) return;
      }
    } finally {
      const closing = driver.close();
      if (closing) yield closing;
    }
  } catch (error) {
    if (!signal.aborted) yield* call.fail(error);
    throw error;
  } finally {
    steps?.close();
    if (emitted.left) job.journal?.abortSuspended();
  }
}

function eventsOf(call: Call, item: FunctionEvent, steps: Steps | undefined): readonly ExecutorEvent[] {
  if (item.kind === "custom") return steps?.isReplaying() ? [] : call.emit(item.data);
  if (item.kind === "usage") return call.spend(item);
  if (item.kind === "yielded") return steps?.skips() ? [] : call.take(item.value);
  return call.commitStep();
}

/** The call of a durable function that the run continues; null where it starts a new one. */
function continuedCall(job: Job, { call, next }: Head): ContinuedCall | null {
  const { journal, command, input, graph_id } = job;
  if (journal?.call_id) return { call_id: journal.call_id };
  const moves = (command?.goto ?? []).length > 0 || (!command && (input ?? null) !== null);
  return call && !moves && !job.resumed && next.includes(graph_id) ? call : null;
}

/** The state once more, with the call that it waits in. */
const stateOf = ({ values, next, tasks, call }: Head): StateEvent => ({
  ...{ type: "state", values, next, tasks },
  ...(call ? { call } : {}),
});

interface InitialState {
  readonly events: readonly ExecutorEvent[];
  readonly values: JsonObject;
  readonly step: number;
  /** False: the run ends without a call of the function. */
  readonly calls: boolean;
}

/** Applies the input or the command of a run to the thread's state. */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one check for each member of a command, and then its effects
function initialState(job: Job, head: Head, uuid: () => string): InitialState {
  const { command, graph_id: name } = job;
  const input = command ? null : (job.input ?? null);
  const breakpoint = job.interrupt_before === "*" || job.interrupt_before.includes(name);

  if (job.resumed && !head.next.includes(START)) {
    // An earlier attempt has applied the input. If it had reached its end too, only the last events are missing.
    const { values, step, next, tasks } = head;
    const frames = show(job, "values", values);
    const stopped = tasks.filter((task) => task.error === null);
    if (next.length > 0 && stopped.length === 0) return { events: frames, values, step, calls: true };
    const interrupts = stopped.flatMap((task) => task.interrupts);
    if (next.length > 0) frames.push(...showInterrupts(job, interrupts));
    return { events: [{ ...stateOf(head), frames }], values, step, calls: false };
  }

  const answer = job.strict_resume ? command?.resume : undefined;
  const wrong = answer === undefined ? null : mismatch(answer, head.interrupt_ids);
  if (wrong) throw wrong;
  const targets = (command?.goto ?? []).map((to) => (typeof to === "string" ? { node: to, input: null } : to));
  const stranger = targets.find((target) => target.node !== name && target.node !== END);
  if (stranger)
    throw new Error(`goto names ${JSON.stringify(stranger.node)}, but the only node is ${JSON.stringify(name)}`);
  const ends = targets.length > 0 && targets.every((target) => target.node === END);

  const changes: JsonObject[] = input === null ? [] : [asUpdate(input)];
  if (command) {
    changes.push(...commandUpdates(command.update ?? null));
    for (const target of targets)
      if (target.node === name && target.input !== null) changes.push(asUpdate(target.input));
  }
  // A copy, because the function receives the job's own objects and may change them.
  const own = changes.map((change) => copyJson(change, "input") as JsonObject);
  const values = applyUpdates(
    head.values,
    own.map((change) => [change, "human"]),
    uuid,
  );

  const goesOn = input === null && head.next.includes(name);
  const stops = !ends && breakpoint && !goesOn && command?.resume === undefined;
  const next = ends ? [] : [name];
  const events: ExecutorEvent[] = [];
  let { step } = head;
  if (input !== null && !job.resumed) {
    events.push({ type: "state", values: head.values, next: [START], tasks: [], source: "input" });
    step++;
  }
  const frames = show(job, "values", values);
  if (changes.length > 0 || ends || stops) {
    const tasks = stops ? [task(uuid(), name)] : [];
    events.push({ type: "state", values, next, tasks, frames });
    step++;
  } else {
    events.push(...frames);
  }
  if (stops) events.push(...showInterrupts(job, []));
  return { events, values, step, calls: !ends && !stops };
}

function asUpdate(input: Json): JsonObject {
  return isObject(input) ? input : { input };
}

function commandUpdates(update: Json): JsonObject[] {
  if (update === null) return [];
  if (isObject(update)) return [update];
  const isPair = (pair: Json): pair is [string, Json] =>
    Array.isArray(pair) && pair.length === 2 && typeof pair[0] === "string";
  if (!Array.isArray(update) || !update.every(isPair)) {
    throw new Error("command.update must be an object or a list of [key, value]");
  }
  return update.map((pair) => Object.fromEntries([pair]));
}

function functionJob(job: Job, head: Head, values: JsonObject, signal: AbortSignal): DrivenJob {
  const state = copyJson(values, "state") as JsonObject;
  const { journal: _journal, resume_targets: _targets, ...own } = job;
  const command = job.command && commandFor(job.command, head.interrupt_ids);
  return Object.assign(own, { command, state, messages: messagesOf(state) as JsonObject[], signal });
}

/** Answers may be a map by interrupt id. A function has one interrupt, so it gets the answer to that one, or none. */
function commandFor(command: Command, ids: readonly string[]): Command {
  const { resume, ...rest } = command;
  const answers = resume === undefined ? null : answersById(resume, new Set(ids));
  if (!answers) return command;
  const id = ids.find((open) => Object.hasOwn(answers, open));
  return id === undefined ? rest : { ...rest, resume: answers[id] as Json };
}
