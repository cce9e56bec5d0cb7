/** What a hosted function is: its signature, its job and its settings. */
import type { Job } from "../executor/contract.ts";
import type { JsonObject } from "../json.ts";

/** What an agent function receives: the job and the current state. The function gets a copy, which it may change. */
export interface FunctionJob extends Job {
  /** The thread's values with this run's input or `command.update` applied. */
  readonly state: JsonObject;
  /** `state.messages` in wire form (`{type, content, id, …}`); `[]` where there are none. */
  readonly messages: JsonObject[];
  /**
   * Aborts when the run must stop. The reason is `cancelled`, `rolled_back`, `timed_out`, `shutting_down` or `lease_lost`.
   * Pass it to every call that waits: the thread's next run starts when this function returns, or after `abandon_ms`.
   */
  readonly signal: AbortSignal;
  /** Sends JSON data to subscribers of stream mode `custom` at once, even while the function awaits something else. */
  emit(data: unknown): void;
  /** Adds tokens and cost to the usage stored with the run's trace. Values must not be negative; tokens are integers. */
  spend(usage: { readonly tokens_in?: number; readonly tokens_out?: number; readonly cost_usd?: number }): void;
  /**
   * Pauses the run for an answer: `yield job.interrupt(value)`, or return it. The run ends and the thread is interrupted.
   * The run that resumes it calls the function again from its start, with the answer in `command.resume` and the stored state.
   */
  interrupt(value: unknown): object;
}

/**
 * An agent: an async generator function, or a function that returns (a promise of) a string, an object, an async iterable
 * or an object with a `textStream`, such as the result of `streamText` in the AI SDK.
 *
 * Yielded, or items of the iterable:
 * - a string is a token of the reply being written. The tokens become one message of type `ai` at the next object or the end.
 * - a plain object is an update of the state: `messages` are coerced (`role` or `type`, a string is an `ai` message) and merged
 *   by id, every other key replaces its value. The object is copied: later changes to it have no effect.
 * - `job.interrupt(value)` ends the run with an interrupt.
 *
 * A returned string or object counts like a yielded one; `undefined` and `null` are ignored. Any other value, and any value that
 * is not JSON, fails the run. A thrown error is the run's error: updates yielded before it are kept, an unfinished reply is not.
 */
export type AgentFunction = (job: FunctionJob) => unknown;

/** A function with its settings. */
export interface AgentEntry {
  readonly agent: AgentFunction;
  readonly description?: string;
  /** How many attempts a run gets before it ends as `error`. Default 3. */
  readonly max_attempts?: number;
  /** How long one attempt may take before the run ends as `timeout`. Default: the service's `worker.run_timeout_ms`. */
  readonly timeout_ms?: number;
  /**
   * How long a stopped run may ignore its signal before the worker abandons it, in milliseconds, at most `worker.lease_ms`. The
   * thread's next run starts then. Default 1,000 on a SQLite file that only this process executes, else 5,000.
   */
  readonly abandon_ms?: number;
}
