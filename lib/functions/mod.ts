/** Hosts plain functions as graphs of one node: state, messages, tokens, interrupts and stream modes around what they yield. */
import { systemEnvironment } from "../environment.ts";
import { ConfigError } from "../errors.ts";
import type { Executor, ExecutorEvent, Job } from "../executor/contract.ts";
import type { JsonObject } from "../json.ts";
import { Call, Question } from "./call.ts";
import { END, functionJob, open, readHead, START } from "./opening.ts";
import { produce } from "./produce.ts";

/** What an agent function is given: the job and the state it goes on from. All of it is the function's own copy. */
export interface FunctionJob extends Job {
  /** The thread's values with this run's input or `command.update` applied. */
  readonly state: JsonObject;
  /** `state.messages` in wire form (`{type, content, id, …}`); `[]` where there are none. */
  readonly messages: JsonObject[];
  /**
   * Aborts when the run is to stop, with the reason: `cancelled`, `rolled_back`, `timed_out`, `shutting_down` or `lease_lost`.
   * Pass it to whatever the function waits for: the thread's next run begins when this one has come to rest, which is waited
   * for for as long as `abandon_ms` says.
   */
  readonly signal: AbortSignal;
  /** Shows JSON data to readers of stream mode `custom`, at once, also while the function waits for something else. */
  emit(data: unknown): void;
  /** Adds tokens and cost to what the run is billed for: kept with its trace when it ends. Numbers from 0 on; tokens are whole. */
  spend(usage: { readonly tokens_in?: number; readonly tokens_out?: number; readonly cost_usd?: number }): void;
  /**
   * What to yield (or return) to ask a question: `yield job.interrupt(value)`. The run ends there and the thread is
   * interrupted. The run that answers calls the function again from its start, with `command.resume` set to the answer and
   * the state as it was left.
   */
  interrupt(value: unknown): object;
}

/**
 * An agent: an async generator function, or a function that returns (a promise of) a string, an object, an async iterable
 * or an object with a `textStream`, as `streamText` of the AI SDK gives it.
 *
 * Yielded, or items of the iterable:
 * - a string is a token of the reply being written. The tokens become one message of type `ai` at the next object or the end.
 * - a plain object is an update of the state: `messages` are coerced (`role` or `type`, a string is an `ai` message) and merged
 *   by id, every other key replaces its value. It is copied: what happens to the object afterwards has no effect.
 * - `job.interrupt(value)` ends the run with a question.
 *
 * A returned string or object counts like a yielded one; `undefined` and `null` are nothing. Anything else, and whatever is
 * not JSON, fails the run. A thrown error is the run's error; updates yielded before it stay, an unfinished reply does not.
 */
export type AgentFunction = (job: FunctionJob) => unknown;

/** A function with what is said about it. */
export interface AgentEntry {
  readonly agent: AgentFunction;
  readonly description?: string;
  /** How often a run may be started before it ends as `error`. Default 3. */
  readonly max_attempts?: number;
  /** How long one attempt may take before the run ends as `timeout`. Default: the service's `worker.run_timeout_ms`. */
  readonly timeout_ms?: number;
  /**
   * How long a run that was told to stop may ignore it before it is abandoned, in milliseconds, at most `worker.lease_ms`: the thread's
   * next run begins then. Default 1,000 on a SQLite file that only this process executes, else 5,000.
   */
  readonly abandon_ms?: number;
}

export interface FunctionOptions {
  /** Makes the ids of messages and tasks. */
  readonly uuid?: () => string;
  /** Calls its argument one turn of the event loop later. */
  readonly defer?: (then: () => void) => void;
}

/**
 * An executor of plain functions; each is a graph with one node, both named by its key.
 *
 * - Input that is an object updates the state as a yielded object does, except that a string in `messages` is a `human`
 *   message; any other input becomes the value `input` of the state. Without input and command the function is called on the state as it is.
 * - `command.update` (an object or a list of [key, value]) is applied like input. `goto` takes the function's own name (the
 *   input of a `Send` is applied too) and `__end__`, which ends the run without a call; other names fail the run.
 * - `interrupt_before` stops before the call; a run without input goes on from there. `interrupt_after` has no effect: after
 *   the only node the graph is finished.
 * - A later attempt of a run calls the function again from its start, on the state as it was stored last.
 */
export function fromFunctions(
  agents: Readonly<Record<string, AgentFunction | AgentEntry>>,
  options: FunctionOptions = {},
): Executor {
  const hosted = new Map(
    Object.entries(agents).map(([name, given]): [string, AgentEntry] => [
      name,
      typeof given === "function" ? { agent: given } : given,
    ]),
  );
  const problems = [...hosted].flatMap(([name, { agent }]) => {
    if (typeof agent !== "function") return [`fromFunctions: ${name} must be a function`];
    return name === START || name === END ? [`fromFunctions: ${name} is reserved, choose another name`] : [];
  });
  if (problems.length > 0) throw new ConfigError(problems);
  const outside = { ...systemEnvironment(), ...options };
  return {
    graphs: () =>
      [...hosted].map(([graph_id, { agent: _agent, ...about }]) => ({ ...about, graph_id, checkpoints: "worker" })),
    execute(job, signal) {
      const entry = hosted.get(job.graph_id);
      if (!entry) throw new Error(`No function is named ${job.graph_id}`);
      return execute(entry.agent, job, signal, outside);
    },
  };
}

async function* execute(
  agent: AgentFunction,
  job: Job,
  signal: AbortSignal,
  { uuid, defer }: Required<FunctionOptions>,
): AsyncGenerator<ExecutorEvent> {
  const head = await readHead(job);
  signal.throwIfAborted();
  const opening = open(job, head, uuid);
  yield* opening.events;
  if (!opening.call) return;
  const call = new Call(job, opening.values, opening.step, uuid);
  yield* call.begin();
  try {
    // A turn is only waited for where it would tell something: tokens come fast.
    const turn = (then: () => void): void => (call.rests() ? defer(then) : undefined);
    for await (const item of produce(agent, functionJob(job, head, opening.values, signal), signal, turn)) {
      if (item.kind === "custom") yield* call.show("custom", item.data);
      else if (item.kind === "spent") yield { type: "usage", ...item.usage };
      else if (item.kind === "waiting") yield* call.rest();
      else if (item.value instanceof Question) return yield* call.pause(item.value);
      else if (item.kind === "yielded") yield* call.take(item.value);
      else return yield* call.finish(item.value);
    }
  } catch (error) {
    if (!signal.aborted) yield* call.fail(error);
    throw error;
  }
}
