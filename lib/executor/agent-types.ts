/** The types of agents as their callers see them, and the checks of what is given as an agent. Types alone. */
// biome-ignore-all lint/suspicious/noExplicitAny: the types match agents of any type
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { Json, JsonObject } from "../json.ts";
import type { AgentSettings } from "./agent-settings.ts";
import type { Message, MessageLike } from "./message-types.ts";

/** A Standard Schema, for example of valibot, zod or arktype. */
export type Schema<Input = any, Output = any> = StandardSchemaV1<Input, Output>;

/** The types of an agent as its callers see them. Values are as the API sends them, before schemas transform them. */
export interface Wire {
  input: any;
  values: any;
  context: any;
  interrupt: any;
  resume: any;
  custom: any;
}

/** The types of an agent that declares none. */
export interface Untyped {
  input: Json;
  values: { messages?: Message[]; [key: string]: unknown };
  context: JsonObject;
  interrupt: Json;
  resume: any;
  custom: Json;
}

/** The types of all agents of a service, by graph id. */
export type Graphs = { readonly [graph_id: string]: Wire };

/** The same types if the graph ids are known; else each id has the types of an agent that declares none. */
export type NamedGraphs<Types extends Graphs> = string extends keyof Types ? Record<string, Untyped> : Types;

/** The intersection of the members of a union. */
export type Intersection<Union> = (Union extends unknown ? (member: Union) => void : never) extends (
  member: infer All,
) => void
  ? All
  : never;

/** The types of all graphs of several executors. */
export type MergedGraphs<Executors extends readonly { readonly "~graphs"?: Graphs }[]> =
  Intersection<NonNullable<Executors[number]["~graphs"]>> extends infer Types extends Graphs ? Simplify<Types> : Graphs;

/** Shows an intersection as one object type in editors. */
export type Simplify<Type> = { [Name in keyof Type]: Type[Name] } & {};

/** An error type in place of a value that JSON cannot keep. */
export interface NotJson<Reason extends string> {
  readonly "~error": Reason;
}

/** The type of a value after it was stored as JSON: a `Date` is a string then, and a `Map` an error type. */
export type AsJson<Type> = 0 extends 1 & Type
  ? Type
  : Type extends string | number | boolean | null | undefined
    ? Type
    : Type extends { toJSON(): infer Converted }
      ? Converted
      : Type extends bigint | symbol | ((...args: never) => unknown)
        ? NotJson<"a step returns JSON: no function, bigint or symbol">
        : Type extends ReadonlyMap<any, any> | ReadonlySet<any>
          ? NotJson<"a step returns JSON: use an array or an object in place of a Map or Set">
          : Type extends readonly (infer Item)[]
            ? AsJson<Item>[]
            : Type extends object
              ? { [Name in keyof Type]: AsJson<Type[Name]> }
              : Type;

/** A message of LangChain's classes. */
export interface MessageClass {
  lc_serializable: boolean;
  content: any;
  _getType(): string;
}

/** The type that a member of the values of a graph has on the wire. */
export type GraphOutput<Type> = 0 extends 1 & Type
  ? Json
  : Type extends MessageClass
    ? Message
    : Type extends Json
      ? Type
      : Type extends readonly (infer Item)[]
        ? GraphOutput<Item>[]
        : Type extends object
          ? AsJson<Type>
          : Type;

/** The type that a member of the input of a graph has on the wire. */
export type GraphInput<Type> = 0 extends 1 & Type
  ? Json
  : [Extract<Type, MessageClass | readonly MessageClass[]>] extends [never]
    ? Type
    : MessageLike | readonly MessageLike[];

/** The input of a graph on the wire. */
export type GraphInputs<Input> = { [Name in keyof Input]: GraphInput<Input[Name]> } & {};
/** The values of a graph on the wire. */
export type GraphOutputs<Output> = { [Name in keyof Output]: GraphOutput<Output[Name]> } & {};

/** The question of a graph on the wire. `Json` if the graph declares none. */
export type GraphQuestion<Value> = unknown extends Value ? Json : [Value] extends [never] ? Json : GraphOutput<Value>;
/** The answers that a graph takes: one, or one for each open interrupt by its id. `any` if the graph declares none. */
export type GraphAnswers<Answer> = unknown extends Answer
  ? any
  : [Answer] extends [never]
    ? any
    : Answer | { readonly [interrupt_id: string]: Answer };

/** The types of a graph as its callers see them. */
export type GraphWire<Input, Output, Context, Interrupt = unknown, Answer = unknown> = {
  input: GraphInputs<Input>;
  values: GraphOutputs<Output>;
  context: Context;
  interrupt: GraphQuestion<Interrupt>;
  resume: GraphAnswers<Answer>;
  custom: Json;
} & {};

/** The value of the interrupts that a graph declares. Unknown if it declares none. */
export type GraphInterrupt<Graph> = Graph extends { isInterrupted(values: any): values is infer Interrupted }
  ? Interrupted extends { __interrupt__: readonly (infer Interrupt)[] }
    ? Interrupt extends { value?: infer Value }
      ? Value
      : unknown
    : unknown
  : unknown;

/** The answer in a command of LangGraph. Never for an input that is no command. */
export type CommandResume<Input> = Input extends object
  ? [keyof Input & symbol] extends [never]
    ? never
    : Input[keyof Input & symbol] extends { lg_name?: "Command"; resume?: infer Answer }
      ? Answer
      : never
  : never;

/** The answer to the interrupts that a graph declares. Unknown if it declares none. */
export type GraphResume<Graph> = Graph extends { stream(input: infer Input, options?: any): any }
  ? CommandResume<Input>
  : unknown;

/** The members of a type that have a name of their own, without its index signatures. */
export type KnownMembers<Type> = {
  [Name in keyof Type as string extends Name
    ? never
    : number extends Name
      ? never
      : symbol extends Name
        ? never
        : Name]: Type[Name];
};

/** The context that the options of a graph's `stream` have. `any` if the graph takes any. */
export type StreamContext<Graph> = Graph extends { stream(input: any, options?: infer Options): any }
  ? NonNullable<Options> extends { context?: infer Context }
    ? Exclude<Context, undefined>
    : any
  : any;

/** The members of a context schema of zod, as callers send them. Those of an `Annotation` are left out: LangGraph does not validate them. */
export type SentContext<Channels> = {
  [Name in keyof Channels as Channels[Name] extends { value: unknown }
    ? never
    : Channels[Name] extends { UpdateType: infer Sent }
      ? [Extract<Sent, { __overwrite__: unknown }>] extends [never]
        ? Name
        : never
      : never]: Channels[Name] extends { UpdateType: infer Sent } ? Sent : never;
};

/** Makes the members optional that may be undefined. */
export type OptionalUndefined<Type> = {
  [Name in keyof Type as undefined extends Type[Name] ? never : Name]: Type[Name];
} & { [Name in keyof Type as undefined extends Type[Name] ? Name : never]?: Type[Name] };

/** The context schema of a graph, as the channels of its members. */
export type ContextChannels<Graph> = Graph extends { builder: { _configSchema?: infer Channels } }
  ? KnownMembers<NonNullable<Channels>>
  : unknown;

/** The context of a graph: the members that its zod schema requires are required, and all others optional. */
export type DeclaredContext<Members, Sent> = Simplify<Partial<Omit<Members, keyof Sent>> & OptionalUndefined<Sent>>;

/** The context that a graph takes. */
export type GraphContext<Graph, Context = StreamContext<Graph>, Members = KnownMembers<Context>> = 0 extends 1 & Context
  ? JsonObject
  : [keyof Members] extends [never]
    ? Simplify<Partial<Context>>
    : DeclaredContext<Members, SentContext<ContextChannels<Graph>>>;

/** The types of what was given as an agent: of `agent()`, or of a LangGraph.js graph. `Untyped` for all others. */
export type WireOf<AgentLike> = AgentLike extends { readonly "~types"?: infer Types }
  ? NonNullable<Types> extends Wire
    ? NonNullable<Types>
    : Untyped
  : AgentLike extends { readonly "~InputType": infer Input; readonly "~OutputType": infer Output }
    ? GraphWire<Input, Output, GraphContext<AgentLike>, GraphInterrupt<AgentLike>, GraphResume<AgentLike>>
    : AgentLike extends { readonly agent: { readonly agent: unknown; readonly "~types"?: infer Types } }
      ? WireOf<{ readonly "~types"?: Types }>
      : AgentLike extends { readonly graph: infer Graph }
        ? Graph extends (...args: any) => infer Result
          ? WireOf<Awaited<Result>>
          : WireOf<Graph>
        : Untyped;

/** The types of all agents of an object, by name. */
export type GraphsOf<Agents> = { [Name in keyof Agents]: WireOf<Agents[Name]> } & {};

/** An error type in place of an agent: its text says what is wrong. */
export interface AgentError<Reason extends string> {
  readonly "~error": Reason;
}

/** What no agent may return. */
export type InvalidResult = number | bigint | boolean | symbol | ((...args: never) => unknown) | readonly unknown[];

/** The members of a definition with settings. */
export type DefinitionKey = keyof AgentSettings | "agent" | "graph" | "strict" | "~types" | "~schemas";

/** The agent itself, or the error type of a result that no agent may have. */
export type CheckResult<Result, AgentLike> =
  unknown extends Awaited<Result>
    ? AgentLike
    : [Extract<Awaited<Result>, InvalidResult>] extends [never]
      ? AgentLike
      : AgentError<"An agent returns a string, a state update, a stream or nothing">;

/** The definition itself, or the error type of a setting that does not exist. */
export type CheckKeys<AgentLike, KnownKey = DefinitionKey, UnknownKey = Exclude<keyof AgentLike, KnownKey>> = [
  UnknownKey,
] extends [never]
  ? AgentLike
  : AgentError<`Unknown setting: ${UnknownKey & string}`>;

/** The agent itself, or an `AgentError` that says what is wrong with it. */
export type Check<AgentLike> = AgentLike extends (job: any) => infer Result
  ? CheckResult<Result, AgentLike>
  : AgentLike extends { readonly "~types"?: Wire } | { readonly nodes: object } | { invoke: unknown }
    ? AgentLike
    : AgentLike extends { readonly agent: (job: any) => infer Result }
      ? CheckResult<Result, CheckKeys<AgentLike>>
      : AgentLike extends { readonly agent: { readonly agent: unknown } }
        ? CheckKeys<AgentLike, keyof AgentSettings | "agent" | "strict">
        : AgentLike extends { readonly graph: unknown }
          ? CheckKeys<AgentLike, keyof AgentSettings | "graph">
          : AgentLike;

/** Agents by name, each as it is or with an `AgentError` in its place. */
export type CheckedAgents<Agents> = Agents & { readonly [Name in keyof Agents]: Check<Agents[Name]> };
