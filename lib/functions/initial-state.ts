/** The state that a run starts from, with its input or command applied. */

import { answersById, mismatch } from "../executor/answers.ts";
import type { Command, ExecutorEvent, Interrupt, Job, Payload, StoredCheckpoint, Task } from "../executor/contract.ts";
import { applyUpdates, messagesOf } from "../executor/messages.ts";
import { valuesOf } from "../executor/recorded-state.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { FunctionJob } from "./agent.ts";
import { show, showInterrupts, task } from "./call.ts";
import { copyJson } from "./copy.ts";

/** The names that graphs reserve for their entry and their exit. */
export const START = "__start__";
export const END = "__end__";

export interface Head {
  readonly values: JsonObject;
  readonly next: readonly string[];
  readonly tasks: readonly Task[];
  /** The number of this state; −2 without one, so that the first state gets −1. */
  readonly step: number;
  /** The interrupts that were open when the run started, in its first attempt. */
  readonly interrupts: readonly Interrupt[];
}

export async function readHead(job: Job): Promise<Head> {
  const { checkpoints, resumed, from } = job;
  // In a later attempt the newest state is this run's own, not the one it forked from.
  const stored = await checkpoints.get(resumed || !from ? { ns: "" } : from);
  if (!stored) {
    if (from && !resumed) throw new Error(`There is no checkpoint ${from.checkpoint_id}`);
    return { values: {}, next: [], tasks: [], step: -2, interrupts: [] };
  }
  let first: StoredCheckpoint | null = stored;
  if (resumed && isObject(job.command?.resume ?? null)) {
    while (first?.run_id === job.run_id)
      first = first.parent_id === null ? null : await checkpoints.get({ ns: "", checkpoint_id: first.parent_id });
  }
  const { next, tasks, whole } = rest(stored);
  const values = valuesOf(stored, whole, read);
  return {
    values: isObject(values) ? values : foreign(),
    next,
    tasks,
    step: typeof stored.metadata.step === "number" ? stored.metadata.step : -2,
    interrupts: first ? rest(first).tasks.flatMap((pending) => pending.interrupts) : [],
  };
}

function rest({ payload }: StoredCheckpoint): Pick<Head, "next" | "tasks"> & { readonly whole: boolean } {
  const { next = foreign(), tasks = [], whole = false } = read(payload) as unknown as Partial<ReturnType<typeof rest>>;
  return { next, tasks, whole };
}

function read({ type, data }: Payload): Json {
  return type === "json" && typeof data === "string" ? (JSON.parse(data) as Json) : foreign();
}

function foreign(): never {
  throw new Error("The thread's state was written by another kind of graph");
}

interface InitialState {
  readonly events: readonly ExecutorEvent[];
  readonly values: JsonObject;
  readonly step: number;
  /** False: the run ends without a call of the function. */
  readonly calls: boolean;
}

/** Applies the input or the command of a run to the thread's state. */
export function initialState(job: Job, head: Head, uuid: () => string): InitialState {
  const { command, graph_id: name } = job;
  const input = command ? null : (job.input ?? null);
  const breakpoint = job.interrupt_before === "*" || job.interrupt_before.includes(name);

  if (job.resumed && !head.next.includes(START)) {
    // An earlier attempt has applied the input. If it had reached its end too, only the last events are missing.
    const { values, step, next, tasks } = head;
    const shows = show(job, "values", values);
    const stopped = tasks.filter((task) => task.error === null);
    if (next.length > 0 && stopped.length === 0) return { events: shows, values, step, calls: true };
    const interrupts = stopped.flatMap((task) => task.interrupts);
    if (next.length > 0) shows.push(...showInterrupts(job, interrupts));
    return { events: [{ type: "state", values, next, tasks, shows }], values, step, calls: false };
  }

  const answer = job.strict_resume ? command?.resume : undefined;
  const open = head.interrupts.map(({ id }) => id);
  const wrong = answer === undefined ? null : mismatch(answer, open);
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
  const shows = show(job, "values", values);
  if (changes.length > 0 || ends || stops) {
    const tasks = stops ? [task(uuid(), name)] : [];
    events.push({ type: "state", values, next, tasks, shows });
    step++;
  } else {
    events.push(...shows);
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

export function functionJob(
  job: Job,
  head: Head,
  values: JsonObject,
  signal: AbortSignal,
): Omit<FunctionJob, "emit" | "interrupt" | "spend"> {
  const state = copyJson(values, "state") as JsonObject;
  const { command } = job;
  return {
    ...job,
    command: command && commandFor(command, head.interrupts),
    state,
    messages: messagesOf(state) as JsonObject[],
    signal,
  };
}

/** Answers may be a map by interrupt id. A function has one interrupt, so it gets the answer to that one, or none. */
function commandFor(command: Command, interrupts: readonly Interrupt[]): Command {
  const { resume, ...rest } = command;
  const ids = interrupts.map(({ id }) => id);
  const answers = resume === undefined ? null : answersById(resume, new Set(ids));
  if (!answers) return command;
  const id = ids.find((open) => Object.hasOwn(answers, open));
  return id === undefined ? rest : { ...rest, resume: answers[id] as Json };
}
