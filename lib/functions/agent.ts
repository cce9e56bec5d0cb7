/** Types a function agent by the schemas of its state, context, input, interrupts, answers and custom data. */
// biome-ignore-all lint/suspicious/noExplicitAny: the types match schemas of any type
import type { AgentSchemas } from "../executor/agent-schemas.ts";
import type { AgentSettings } from "../executor/agent-settings.ts";
import type { Schema, Simplify, Untyped, Wire } from "../executor/agent-types.ts";
import type { Message } from "../executor/message-types.ts";
import { AGENT_SETTING_NAMES, assertKnownOptions, isStandardSchema } from "../executor/option-names.ts";
import type { Json, JsonObject } from "../json.ts";
import type { AgentFunction, AgentResult, FunctionJob, UpdateOf } from "./function-job.ts";

/** A function with its settings. */
export interface AgentDefinition extends AgentSettings {
  readonly agent: AgentFunction;
  /** If true, a durable call fails when its journal has another order of operations. Default false. */
  readonly strict?: boolean;
  /** The schemas that `agent()` was given. */
  readonly "~schemas"?: AgentSchemas;
}

/** An agent of `agent()` with further settings, which replace its own. */
export interface AgentWithSettings extends AgentSettings {
  readonly agent: AgentDefinition;
  /** If true, a durable call fails when its journal has another order of operations. Default: that of the agent. */
  readonly strict?: boolean;
}

/** Returns the agent with the settings that stand beside it in place of its own. Returns other definitions unchanged. */
export function mergeSettings(definition: AgentDefinition | AgentWithSettings): AgentDefinition {
  const { agent: inner, ...settings } = definition;
  return typeof inner === "object" && typeof inner?.agent === "function"
    ? { ...inner, ...settings }
    : (definition as AgentDefinition);
}

/** An agent with its types. Give it to `createApp`, `fromFunctions` or `testService`. */
export interface Agent<Types extends Wire = Wire> extends AgentDefinition {
  /** Has no value: it carries the types. */
  readonly "~types"?: Types;
}

/**
 * The schemas and settings of an agent. Each schema is a Standard Schema, for example of valibot, zod or arktype. Values that
 * do not fit are refused at run time.
 */
export interface AgentOptions<State, Context, Input, Interrupt, Answer, Custom> extends Omit<AgentSettings, "resume"> {
  /** The thread's values without `messages`, which Greenroom owns. */
  readonly state?: State;
  /** The context of the assistant and the run, merged. */
  readonly context?: Context;
  /** The input of a run. It is an argument then: only its `messages` go into the state. */
  readonly input?: Input;
  /** The argument of `interrupt()`, and the value of an `ask`. */
  readonly interrupt?: Interrupt;
  /**
   * The answers to `interrupt()`, and to an `ask` without a `schema`: `command.resume`. An answer to an `ask` with a `schema` is
   * validated by that alone; typed calls take it if `resume` is a union that includes it, or is left out. The setting `by_id` may stand here in place of a schema; for both, write
   * `{ ...agent({ resume: schema }, run), resume: "by_id" }`.
   */
  readonly resume?: Answer | "by_id";
  /** The argument of `emit()`. */
  readonly custom?: Custom;
  /** If true, a durable call fails when its journal has another order of operations. Default false. */
  readonly strict?: boolean;
  /** False to store updates without validating them by `state`. Default true. */
  readonly validate_state?: boolean;
}

/** The input type of a schema; the second type without one. */
export type InputType<Declared, Otherwise> = Declared extends Schema<infer Input, any> ? Input : Otherwise;
/** The output type of a schema; the second type without one. */
export type OutputType<Declared, Otherwise> = Declared extends Schema<any, infer Output> ? Output : Otherwise;
/** Values with the messages of a thread. */
export type WithMessages<Values> = Simplify<Omit<Values, "messages"> & { messages?: Message[] }>;

/** The types of the job of an agent with these schemas. */
export type JobOf<State, Context, Input, Interrupt, Answer, Custom> = {
  input: Input extends undefined ? UpdateOf<State> | undefined : OutputType<Input, never>;
  state: State extends Schema<any, infer Values> ? WithMessages<Values> : JsonObject;
  context: OutputType<Context, JsonObject>;
  interrupt: InputType<Interrupt, unknown>;
  resume: OutputType<Answer, any>;
  custom: InputType<Custom, unknown>;
};

/** The types of an agent with these schemas as its callers see them. */
export type WireFor<State, Context, Input, Interrupt, Answer, Custom> = {
  input: Input extends undefined ? UpdateOf<State> : InputType<Input, never>;
  values: State extends Schema<infer Values, any> ? WithMessages<Values> : Untyped["values"];
  context: InputType<Context, JsonObject>;
  interrupt: InputType<Interrupt, Json>;
  resume: InputType<Answer, any>;
  custom: InputType<Custom, Json>;
} & {};

/**
 * Types a function agent. With options, the schemas give the types of the job, of updates and of calls; without, only what the
 * function yields and returns is checked. The result is an agent with settings, as `createApp`, `fromFunctions`,
 * `testService` and `greenroom.json` take it.
 *
 * @example
 * ```ts
 * import { agent } from "greenroom";
 * import * as v from "valibot";
 *
 * export const refund = agent(
 *   {
 *     input: v.object({ order: v.string(), cents: v.number() }),
 *     state: v.object({ paid: v.optional(v.number(), 0) }),
 *     max_attempts: 1,
 *   },
 *   ({ input, state }) => ({ paid: state.paid + input.cents }),
 * );
 * ```
 */
export function agent<Result extends AgentResult<UpdateOf<undefined>>>(
  run: (job: FunctionJob) => Result | Promise<Result>,
): Agent<Untyped>;
export function agent<
  State extends Schema | undefined = undefined,
  Context extends Schema | undefined = undefined,
  Input extends Schema | undefined = undefined,
  Interrupt extends Schema | undefined = undefined,
  Answer extends Schema | undefined = undefined,
  Custom extends Schema | undefined = undefined,
>(
  options: AgentOptions<State, Context, Input, Interrupt, Answer, Custom>,
  run: (
    job: FunctionJob<JobOf<State, Context, Input, Interrupt, Answer, Custom>>,
  ) => AgentResult<UpdateOf<State>> | Promise<AgentResult<UpdateOf<State>>>,
): Agent<WireFor<State, Context, Input, Interrupt, Answer, Custom>>;
/**
 * Returns the definition of an agent without calling its function. A function alone gives `{ agent }`. With options, the schemas
 * and `validate_state` go into `~schemas`, and the other options stand beside `agent`. Throws a TypeError for a missing function,
 * unknown options, schemas that are no Standard Schema, and a `validate_state` that is no boolean.
 */
export function agent(optionsOrRun: object, runWithOptions?: unknown): AgentDefinition {
  const hasOptions = typeof optionsOrRun !== "function";
  const run = hasOptions ? runWithOptions : optionsOrRun;
  if (typeof run !== "function") throw new TypeError("agent: the function is missing. Write agent(options, function)");
  if (!hasOptions) return { agent: run as AgentFunction };
  const options = optionsOrRun as Readonly<Record<string, unknown>>;
  assertKnownOptions(options, OPTION_NAMES, "agent");
  const declared = Object.entries(options).filter(([name, value]) => isSchemaOption(name, value));
  for (const [name, value] of declared) if (!isStandardSchema(value)) throw new TypeError(describeSchemaProblem(name));
  const { validate_state } = options;
  if (validate_state !== undefined && typeof validate_state !== "boolean")
    throw new TypeError("agent: validate_state must be true or false");
  const settings = Object.entries(options).filter(
    ([name, value]) => name !== "validate_state" && !isSchemaOption(name, value),
  );
  return {
    ...Object.fromEntries(settings),
    agent: run as AgentFunction,
    "~schemas": { ...Object.fromEntries(declared), ...(validate_state === undefined ? {} : { validate_state }) },
  };
}

const SCHEMA_NAMES: readonly string[] = ["state", "context", "input", "interrupt", "resume", "custom"];
const OPTION_NAMES: readonly string[] = [...SCHEMA_NAMES, ...AGENT_SETTING_NAMES, "strict", "validate_state"];

const isSchemaOption = (name: string, value: unknown): boolean =>
  SCHEMA_NAMES.includes(name) && value !== undefined && !(name === "resume" && value === "by_id");

const describeSchemaProblem = (name: string): string =>
  `agent: ${name} must be a Standard Schema, for example of valibot, zod or arktype${name === "resume" ? ', or "by_id"' : ""}`;
