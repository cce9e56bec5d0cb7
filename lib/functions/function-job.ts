/** The argument of an agent function, and what the function may yield and return. */
// biome-ignore-all lint/suspicious/noExplicitAny: an agent without types takes any answer
import type { Schema, Simplify } from "../executor/agent-types.ts";
import type { AuthUser, ModelUsage, RunConfig, StoreHandle } from "../executor/contract.ts";
import type { Message, MessagesInput } from "../executor/message-types.ts";
import type { Json, JsonObject } from "../json.ts";
import type { DurableOperations } from "./operations.ts";

/** The types of an agent as its function sees them: values are as the schemas of the agent parse them. */
export interface JobTypes {
  input: any;
  state: any;
  context: any;
  interrupt: any;
  resume: any;
  custom: any;
}

/** The types of a job of an agent that declares none. */
export interface UntypedJob {
  input: Json | undefined;
  state: JsonObject;
  context: JsonObject;
  interrupt: unknown;
  resume: any;
  custom: unknown;
}

/** The result of `job.interrupt(value)`. Yield or return it: that ends the run until it is resumed. */
export interface Interrupted {
  readonly "~interrupt": true;
}

/** The kind and the attributes of a span. */
export interface SpanOptions {
  /** What the span is. Default `custom`. */
  readonly kind?: "custom" | "model" | "tool" | "retriever";
  /** Facts about the work, at most 32 and 4 KiB. Stored only with `traces.content: "all"`. */
  readonly attributes?: { readonly [name: string]: string | number | boolean };
}

/**
 * The argument of an agent function: the run, a copy of the state that the function may change, and methods. `agent()`
 * gives it the types of the agent's schemas.
 *
 * @example
 * ```ts
 * import type { FunctionJob } from "greenroom";
 *
 * export async function* greet({ context, messages }: FunctionJob) {
 *   yield `Hello ${context.name ?? "you"}, message ${messages.length}`;
 * }
 * ```
 */
export interface FunctionJob<Types extends JobTypes = UntypedJob> extends DurableOperations<Types["interrupt"]> {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  readonly graph_id: string;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** True if the run is stateless. Its thread is deleted after the run. */
  readonly stateless: boolean;
  /** The input; undefined to continue from the state. */
  readonly input: Types["input"];
  /** The command that replaces the input of the run. Null without one. */
  readonly command: { readonly resume?: Types["resume"]; readonly update?: Json } | null;
  /** The thread's values after the input or the `command.update` of this run. */
  readonly state: Types["state"];
  /** `state.messages` in wire form (`{type, content, id, …}`). `[]` if there are none. */
  readonly messages: Message[];
  /** The context of the assistant and the run, merged. */
  readonly context: Types["context"];
  readonly config: RunConfig;
  readonly metadata: JsonObject;
  /** The user from custom authentication; also in `config.configurable` as `langgraph_auth_user`. */
  readonly user: AuthUser | null;
  /** The store that all threads share. */
  readonly store: StoreHandle;
  /**
   * Aborts when the run must stop. The reason is `cancelled`, `rolled_back`, `timed_out`, `shutting_down`, `lease_lost`, or
   * `suspended` when the run waits: see `sleep`.
   * Pass it to every call that waits: the thread's next run starts when this function returns, or after `abandon_ms`.
   */
  readonly signal: AbortSignal;
  /** Sends JSON data to subscribers of stream mode `custom` at once, even while the function awaits something else. */
  emit(data: Types["custom"]): void;
  /** Adds tokens and cost to the usage stored with the run's trace. Values must not be negative; tokens are integers. */
  spend(usage: ModelUsage): void;
  /**
   * Calls `work` and records it as a span in the trace of the run, with its times, its error and the tokens that it spends. Returns
   * the result of `work`, or throws its error. Spans that `work` starts lie in this one. If no traces are recorded, `work` is only
   * called. Throws a TypeError for wrong arguments.
   *
   * @example
   * ```ts
   * import type { FunctionJob } from "greenroom";
   *
   * export const search = async ({ span, signal }: FunctionJob) => {
   *   const load = () => fetch("https://example.com/search", { signal });
   *   const response = await span("search", load, { kind: "retriever", attributes: { top_k: 5 } });
   *   return await response.text();
   * };
   * ```
   */
  span<Returned>(name: string, work: () => Returned, options?: SpanOptions): Promise<Awaited<Returned>>;
  /**
   * The W3C trace context of the span in which it is read: of the innermost `span()` or step, else of the attempt. Send it as the header
   * `traceparent`, and another service continues the trace of this run. Undefined if no traces are recorded.
   *
   * @example
   * ```ts
   * import type { FunctionJob } from "greenroom";
   *
   * export const load = async (job: FunctionJob) => {
   *   const headers = new Headers();
   *   if (job.traceparent !== undefined) headers.set("traceparent", job.traceparent);
   *   const response = await fetch("https://example.com/items", { headers, signal: job.signal });
   *   return await response.text();
   * };
   * ```
   */
  readonly traceparent: string | undefined;
  /**
   * Pauses the run until a client resumes it: `yield job.interrupt(value)`, or return it. The run ends and the thread
   * is interrupted. The run that resumes it calls the function again from its start, with the resume value in
   * `command.resume` and the stored state.
   */
  interrupt(value: Types["interrupt"]): Interrupted;
}

/** What an agent yields: a token, an update of the state, or an interrupt. */
export type Yielded<Update> = string | Update | Interrupted;

/** What an agent returns: a value as it yields them, a stream of such values, or nothing. */
export type AgentResult<Update> =
  | Yielded<Update>
  | AsyncIterable<Yielded<Update>>
  | { readonly textStream: AsyncIterable<string> }
  | null
  | undefined
  // biome-ignore lint/suspicious/noConfusingVoidType: a function that returns nothing is an agent
  | void;

/** An update of a state with this schema: some of its members, and messages. */
export type UpdateOf<State> =
  State extends Schema<infer Input, any>
    ? Simplify<Partial<Omit<Input, "messages">> & MessagesInput>
    : MessagesInput & { [key: string]: unknown };

/**
 * An agent: an async generator function, or a function that returns (a promise of) a string, an object, an async iterable
 * or an object with a `textStream`. Of the result of `streamText` in the AI SDK, text, calls of tools and their results become
 * messages, tokens count as usage, and errors of the model fail the run.
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
