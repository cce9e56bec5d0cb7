/** Agents that must compile. Each is a form that the guides show, or that compiled before agents had types. */
import type { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { Annotation, END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import type { Message as SdkMessage } from "@langchain/langgraph-sdk";
import { type LanguageModel, streamText } from "ai";
import { type } from "arktype";
import { expectTypeOf } from "expect-type";
import {
  type Agent,
  type AgentFunction,
  agent,
  type FunctionJob,
  type Json,
  type JsonObject,
  type Message,
  type StepOptions,
  type UpdateOf,
  type WireOf,
} from "greenroom";
import { createApp } from "greenroom/app";
import { traceHandler } from "greenroom/langgraph";
import * as v from "valibot";
import { z } from "zod";

declare const model: LanguageModel;
declare const chatModel: BaseChatModel;

/** R1: schemas of valibot type input, state, context and answers. */
export const refund = agent(
  {
    state: v.object({ order: v.optional(v.string()), paid: v.optional(v.number(), 0) }),
    context: v.object({ tier: v.picklist(["free", "pro"]) }),
    input: v.object({ order: v.string(), cents: v.number() }),
    resume: v.boolean(),
    max_attempts: 1,
  },
  async function* ({ input, state, context, step, ask, wait, sleep }) {
    const order = await step("find", () => ({ id: input.order, at: new Date() }));
    order.at satisfies string;
    const ok = await ask("approve", { order }, { schema: v.boolean(), timeout: "7d" });
    ok satisfies boolean | null;
    if (!ok) return "No.";
    const parcel = await wait("parcel", { schema: v.object({ code: v.string() }) });
    await sleep("cool", "2d");
    yield { order: order.id, paid: state.paid + input.cents };
    yield `${parcel.code} ${context.tier}`;
    return undefined;
  },
);
expectTypeOf<WireOf<typeof refund>>().toEqualTypeOf<{
  input: { order: string; cents: number };
  values: { order?: string | undefined; paid?: number | undefined; messages?: Message[] };
  context: { tier: "free" | "pro" };
  interrupt: Json;
  resume: boolean;
  custom: Json;
}>();

/** R2: schemas of zod. */
export const counter = agent({ state: z.object({ n: z.number().default(0) }) }, ({ state }) => ({ n: state.n + 1 }));

/** R3: schemas of arktype. */
export const ark = agent({ input: type({ city: "string" }) }, async ({ input, signal }) =>
  (await fetch(`https://x/${input.city}`, { signal })).text(),
);

/** R4: forms without types. */
export const plain: AgentFunction = async function* ({ messages, context }) {
  yield `Hello ${context.name ?? "you"} ${messages.length}`;
};
export async function* old({ messages, signal }: FunctionJob): AsyncGenerator<string> {
  signal.throwIfAborted();
  yield String(messages.at(-1)?.content ?? "nothing");
}

/** R5: streams of the AI SDK. */
export const chat = ({ signal }: FunctionJob) => streamText({ model, prompt: "Hi", abortSignal: signal });
export const typedChat = agent(({ signal }) => streamText({ model, prompt: "Hi", abortSignal: signal }));

/** R6: interrupts, answers and custom data. */
export const review = agent(
  {
    interrupt: v.object({ question: v.string() }),
    resume: v.picklist(["yes", "no"]),
    custom: v.object({ percent: v.number() }),
  },
  async function* ({ interrupt, command, emit }) {
    emit({ percent: 10 });
    if (command?.resume === undefined) yield interrupt({ question: "Sure?" });
    return command?.resume === "yes" ? "Done." : "Left.";
  },
);

/** R7: graphs have the types of their state. */
export const graph = new StateGraph(MessagesAnnotation)
  .addNode("reply", () => ({ messages: [{ role: "assistant", content: "Hi" }] }))
  .addEdge(START, "reply")
  .addEdge("reply", END)
  .compile();
const Shipping = Annotation.Root({ code: Annotation<string>, tries: Annotation<number> });
export const shipping = new StateGraph(Shipping, Annotation.Root({ carrier: Annotation<"dhl" | "ups"> }))
  .addNode("ship", async () => ({ code: "x" }))
  .addEdge(START, "ship")
  .compile();
const Topics = z.object({ topic: z.string(), jokes: z.array(z.string()).default([]) });
export const topics = new StateGraph(Topics)
  .addNode("tell", ({ topic }) => ({ jokes: [topic] }))
  .addEdge(START, "tell")
  .compile();
expectTypeOf<WireOf<typeof shipping>["values"]>().toEqualTypeOf<{ code: string; tries: number }>();
expectTypeOf<WireOf<typeof shipping>["context"]["carrier"]>().toEqualTypeOf<"dhl" | "ups" | undefined>();
expectTypeOf<WireOf<typeof graph>["values"]>().toEqualTypeOf<{ messages: Message[] }>();
expectTypeOf<WireOf<typeof topics>["values"]["jokes"]>().toEqualTypeOf<string[]>();
expectTypeOf<WireOf<{ graph: () => typeof shipping }>["values"]["tries"]>().toEqualTypeOf<number>();

/** R7: interrupts and the context that a graph declares. */
interface Question {
  question: string;
  asked: Date;
}
const builder = new StateGraph(Shipping, {
  interrupt: {
    approve: interrupt<Question, { approved: boolean; note?: string }>,
    count: interrupt<"How many?", number>,
  },
  context: z.object({
    tier: z.enum(["free", "pro"]),
    limit: z.number().default(1000),
    note: z.string().optional(),
  }),
  nodes: ["ask"],
});
builder.addNode("ask", (_state, runtime) => {
  const { approved } = runtime.interrupt.approve({ question: "Refund?", asked: new Date(0) });
  return { code: `${approved} ${runtime.context?.tier}` };
});
export const refunds = builder.addEdge(START, "ask").compile();
type RefundsWire = WireOf<typeof refunds>;
type RefundsAnswer = { approved: boolean; note?: string } | number;
expectTypeOf<RefundsWire["interrupt"]>().toEqualTypeOf<{ question: string; asked: string } | "How many?">();
expectTypeOf<RefundsWire["resume"]>().toEqualTypeOf<
  RefundsAnswer | { readonly [interrupt_id: string]: RefundsAnswer }
>();
expectTypeOf<RefundsWire["context"]>().toEqualTypeOf<{
  tier: "free" | "pro";
  limit?: number | undefined;
  note?: string | undefined;
}>();
/** A graph with one declared interrupt, which takes any answer. */
const asking = new StateGraph(Shipping, { interrupt: interrupt<string>, nodes: ["ask"] });
asking.addNode("ask", () => ({}));
export const questions = asking.addEdge(START, "ask").compile();
expectTypeOf<WireOf<typeof questions>["interrupt"]>().toEqualTypeOf<string>();
expectTypeOf<WireOf<typeof questions>["resume"]>().toBeAny();
/** The result of `addNode` of LangGraph has lost the interrupts. The guide says so. */
export const chained = builder.addNode("again", () => ({})).compile();
expectTypeOf<WireOf<typeof chained>["interrupt"]>().toEqualTypeOf<Json>();
expectTypeOf<WireOf<typeof chained>["resume"]>().toBeAny();
expectTypeOf<WireOf<typeof chained>["context"]>().toEqualTypeOf<RefundsWire["context"]>();
/** Graphs that declare none. */
expectTypeOf<WireOf<typeof graph>["interrupt"]>().toEqualTypeOf<Json>();
expectTypeOf<WireOf<typeof graph>["resume"]>().toBeAny();
expectTypeOf<WireOf<typeof graph>["context"][string]>().toBeAny();
expectTypeOf<WireOf<typeof shipping>["context"]>().toEqualTypeOf<{ carrier?: "dhl" | "ups" }>();
const Carrier = Annotation.Root({ carrier: Annotation<string>(), speed: Annotation<number>({ reducer: (_, n) => n }) });
export const called = new StateGraph(Shipping, Carrier)
  .addNode("ship", () => ({}))
  .addEdge(START, "ship")
  .compile();
expectTypeOf<WireOf<typeof called>["context"]>().toEqualTypeOf<{ carrier?: string; speed?: number }>();

/** R8: functions in place, and agents with settings. */
export const app = await createApp({
  database: ":memory:",
  agents: {
    ...{ refund, counter, ark, plain, old, chat, typedChat, review, graph, shipping, topics, refunds, questions },
    async *echo({ messages }) {
      yield `You said ${messages.at(-1)?.content}`;
    },
    hello: () => "Hello",
    nothing() {},
    update: async ({ state }) => ({ n: 1, was: state.n ?? null }),
    unknown: ({ signal }): Promise<unknown> => fetch("x", { signal }),
    entry: { agent: ({ messages }) => `${messages.length}`, max_attempts: 1, strict: true },
    graphEntry: { graph: shipping, timeout_ms: 10 },
    factory: { graph: (config) => (config.context.fast ? shipping : shipping) },
    answersById: { ...review, resume: "by_id" },
    asked: { agent: review, resume: "by_id", max_attempts: 1, strict: true },
  },
});

/** R18: messages are those of the SDK, and JSON. */
declare const message: Message;
message satisfies SdkMessage;
message satisfies JsonObject;
export const render = (shown: Message): string => {
  switch (shown.type) {
    case "ai":
      return `${shown.tool_calls?.length}`;
    case "tool":
      return shown.tool_call_id;
    default:
      return typeof shown.content === "string" ? shown.content : shown.type;
  }
};
const countObjects = (messages: JsonObject[]): number => messages.length;
export const usesOld = ({ messages }: FunctionJob): string =>
  `${countObjects(messages)} ${(messages as { content: string }[]).at(-1)?.content}`;
export const readsUnlistedMember = ({ messages }: FunctionJob) => (messages[0] as JsonObject).custom;

/** R19: durable operations infer their results. */
export async function operations({ ask, wait, step }: FunctionJob): Promise<void> {
  expectTypeOf(await ask("a", 1, { schema: v.boolean() })).toEqualTypeOf<boolean>();
  expectTypeOf(await ask("a", 1, { schema: { type: "boolean" } })).toEqualTypeOf<boolean>();
  expectTypeOf(await ask("a", 1, { schema: { enum: ["x", "y"] }, timeout: "7d" })).toEqualTypeOf<"x" | "y" | null>();
  const parcel = await wait("p", {
    timeout: "1d",
    schema: v.object({ code: v.string() }),
    begin: ({ url }) => fetch(url),
  });
  expectTypeOf(parcel).toEqualTypeOf<{ code: string } | null>();
  expectTypeOf(await wait("p")).toBeAny();
  expectTypeOf(await step("s", async () => ({ id: 1, on: new Date() }))).toEqualTypeOf<{ id: number; on: string }>();
  const texts = (async function* () {
    yield "x";
  })();
  expectTypeOf(await step("t", () => ({ textStream: texts }))).toEqualTypeOf<string>();
  expectTypeOf(await step("v", () => {})).toEqualTypeOf<void>();
}

/** R22: further old forms. */
await createApp({
  database: ":memory:",
  agents: {
    counting: (job: { messages: JsonObject[] }) => String(job.messages.length),
    async spreading({ state }) {
      return { ...state, n: 1 };
    },
    asking: ({ interrupt }) => interrupt({ q: 1 }),
    parsing: async ({ signal }: FunctionJob) => JSON.parse(String(signal.aborted)),
    mixing: async function* () {
      yield "x";
      yield { messages: [{ role: "user", content: "x" }] };
    } satisfies AgentFunction,
  },
});
export const annotated: Agent = agent({ state: v.object({ n: v.number() }) }, async function* () {
  yield "x";
  yield { n: 1 };
  yield { messages: "hi" };
  return;
});
expectTypeOf<UpdateOf<undefined>>().toMatchTypeOf<{ messages?: unknown }>();

/** R23: spans. */
export async function spanning(job: FunctionJob) {
  expectTypeOf(await job.span("a", () => 1)).toEqualTypeOf<number>();
  expectTypeOf(await job.span("b", async () => new Map([["a", 1]]), { kind: "tool" })).toEqualTypeOf<
    Map<string, number>
  >();
  expectTypeOf(
    await job.span("c", () => {}, { attributes: { top_k: 5, cached: true, index: "a" } }),
  ).toEqualTypeOf<void>();
  await chatModel.invoke("Hi", { callbacks: [traceHandler(job)] });
}

/** Durations: numbers, dates, texts of one and of several parts, and texts that are known at run time only. */
declare const job: FunctionJob;
declare const configured: string;
declare const optional: string | undefined;
declare const either: "7d" | number;
for (const until of [1, 2.5, new Date(0)]) await job.sleep("until", until);
await job.sleep("parts", "500ms");
await job.sleep("parts", "1.5h");
await job.sleep("parts", "2 d");
await job.sleep("parts", " 1w 2d 3h 4m 5s 6ms ");
await job.sleep("parts", "1h30m");
await job.sleep("parts", "30m 1h");
await job.sleep("configured", configured);
await job.step("pay", () => 1, { retries: 3, timeout: "30s", backoff: "1m 30s" });
await job.step("pay", () => 1, { timeout: configured, backoff: either });
await job.step<string>("pay", () => "paid", { timeout: "30s" });
expectTypeOf(await job.ask("q", 1, { timeout: configured, schema: { type: "string" } })).toEqualTypeOf<string | null>();
expectTypeOf(await job.ask("q", 1, { timeout: either, schema: { type: "string" } })).toEqualTypeOf<string | null>();
expectTypeOf(await job.wait("p", { timeout: 5, schema: { type: "number" } })).toEqualTypeOf<number | null>();
expectTypeOf(await job.wait("p", { timeout: "1h 30m" })).toBeAny();
await job.wait("p", { ...(optional === undefined ? {} : { timeout: optional }) });
const stepOptions: StepOptions = { retries: 2, timeout: "5m", backoff: configured };
await job.step("options", () => 1, stepOptions);

/** The value of an ask has the type of the agent's interrupts, and any type without a schema of them. */
agent({ interrupt: v.object({ question: v.string() }) }, async ({ ask }) => {
  const ok = await ask("sure", { question: "Sure?" }, { schema: v.boolean(), timeout: "7d" });
  return `${ok satisfies boolean | null}`;
});
await job.ask("any", { anything: new Date(0) });
