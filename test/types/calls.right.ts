/** Calls of agents that must compile, in process and over HTTP. */
import { Client } from "@langchain/langgraph-sdk";
import { expectTypeOf } from "expect-type";
import {
  agent,
  combine,
  createService,
  type Executor,
  fromFunctions,
  type GraphsOf,
  type Json,
  type JsonObject,
  type Message,
  type Outcome,
  RunFailed,
  type Service,
  type WireOf,
} from "greenroom";
import { type Agents, type AnyAgent, type App, createApp } from "greenroom/app";
import { client } from "greenroom/client";
import { langgraph } from "greenroom/langgraph";
import { nodeSqlite } from "greenroom/node-sqlite";
import { testService } from "greenroom/testing";
import * as v from "valibot";
import { app, counter, graph, refund, shipping } from "./agents.right.ts";

const { service } = app;
const pro = { context: { tier: "pro" } } as const;

/** R9: run by id. */
const values = await service.runs.run("refund", { order: "A-1", cents: 5 }, { context: { tier: "pro" } });
expectTypeOf(values).toEqualTypeOf<{
  order?: string | undefined;
  paid?: number | undefined;
  messages?: Message[];
}>();
(await service.runs.run("echo", { messages: "Hi" })).messages?.at(-1)?.content;
(await service.runs.run("counter", {})).n satisfies number | undefined;

/** R10: values of graphs. */
expectTypeOf(await service.runs.run("shipping", { code: "c" })).toEqualTypeOf<{ code: string; tries: number }>();
const chatted = await service.runs.run("graph", { messages: [{ role: "user", content: "Hi" }] });
expectTypeOf(chatted.messages).toEqualTypeOf<Message[]>();
expectTypeOf((await service.runs.run("topics", { topic: "t" })).jokes).toEqualTypeOf<string[]>();
expectTypeOf((await service.runs.run("factory", { code: "c" })).tries).toEqualTypeOf<number>();

/** R10: interrupts and the context of graphs, in process and over HTTP. */
for (const refunds of [
  service.agent("refunds"),
  client<typeof app>({ apiUrl: "http://127.0.0.1:2024" }).agent("refunds"),
]) {
  const waitingOutcome = await (await refunds.start({ code: "c" }, { context: { tier: "pro" } })).outcome();
  if (waitingOutcome.status === "waiting") {
    const question = waitingOutcome.interrupts[0]?.value;
    expectTypeOf(question).toEqualTypeOf<{ question: string; asked: string } | "How many?" | undefined>();
    await refunds.resume(waitingOutcome.thread_id, { approved: true }, { context: { tier: "pro" } });
    await refunds.resume(waitingOutcome.thread_id, 3);
    await refunds.resume(waitingOutcome.thread_id, { "3f": { approved: false, note: "No." }, "4e": 5 });
  }
}
await service.agent("questions").resume("id", { any: "answer" });
await service.runs.run("refunds", { code: "c" }, { assistant_id: "0f0f0f0f-1111-4222-8333-444444444444" });
await service.runs.run("shipping", { code: "c" }, { context: { carrier: "dhl" } });
await service.runs.run("graph", { messages: "Hi" }, { context: { anything: new Date(0) } });

/** R11: frames. */
const frames = service
  .agent("refund")
  .stream({ order: "A", cents: 1 }, { ...pro, stream_mode: ["values", "messages-tuple"] });
for await (const frame of frames) {
  if (frame.mode === "values") frame.data.paid satisfies number | undefined;
  else frame.data[0].content;
}
for await (const { data } of service.agent("review").stream({}, { stream_mode: "custom" }))
  data.percent satisfies number;
for await (const { data } of service.agent("counter").stream({})) data.n satisfies number | undefined;
(await frames.run).run_id satisfies string;

/** R12: outcomes, answers and failures. */
const outcome = await (await service.agent("review").start({ messages: "go" })).outcome();
if (outcome.status === "waiting") {
  outcome.interrupts[0]?.value.question satisfies string | undefined;
  const next = await service.agent("review").resume(outcome.thread_id, "yes");
  if (next.status === "error") next.error.message;
  if (next.status === "cancelled") next.reason satisfies string | null;
}
expectTypeOf(service.agent("asked")).toEqualTypeOf(service.agent("review"));
const hostedOnce = fromFunctions({ once: { agent: refund, max_attempts: 1 } });
expectTypeOf<NonNullable<(typeof hostedOnce)["~graphs"]>["once"]>().toEqualTypeOf<WireOf<typeof refund>>();
const both = agent(
  { resume: v.union([v.picklist(["yes", "no"]), v.object({ cents: v.number() })]) },
  async ({ ask, interrupt, command }) => {
    if (command?.resume === undefined) return interrupt("Sure?");
    const { cents } = await ask("amount", "How much?", { schema: v.object({ cents: v.number() }) });
    return { cents };
  },
);
declare const answered: App<GraphsOf<{ both: typeof both }>>;
await answered.service.agent("both").resume("id", "yes");
await answered.service.agent("both").resume("id", { cents: 5 });
await service.agent("refund").resume("id", true, pro);
await service.agent("refund").resume("id", true, { assistant_id: "0f0f0f0f-1111-4222-8333-444444444444", context: {} });
await service.agent("refund").resume("id", true, { metadata: { by: "ann" } });
try {
  await service.runs.run("hello", {});
} catch (error) {
  if (error instanceof RunFailed && error.outcome.status === "timeout") error.outcome.run_id;
  if (error instanceof RunFailed && error.outcome.status === "waiting") error.outcome.interrupts[0]?.id;
}
expectTypeOf<Extract<Outcome, { status: "error" | "timeout" }>["error"]["message"]>().toEqualTypeOf<string>();

/** R13: old calls. */
const { result } = await service.runs.wait(null, {
  assistant_id: "greeter",
  input: { messages: [{ role: "user", content: "Hi" }] },
  context: { name: "Ann" },
});
(await result) as { messages: { content: string }[] };
const stream = await service.runs.stream(null, { assistant_id: "support", input: {}, stream_mode: "updates" });
for await (const { event, data } of stream.frames) if (event === "messages") JSON.parse(data)[0].content;

/** R14: the client. */
const remote = client<typeof app>({ apiUrl: "http://127.0.0.1:2024" });
(await remote.agent("refund").run({ order: "A", cents: 2 }, pro)).paid satisfies number | undefined;
(await remote.sdk.threads.create()).thread_id;
const agents = client<{ refund: typeof refund; ship: typeof shipping }>(
  new Client({ apiUrl: "http://127.0.0.1:2024" }),
);
(await agents.agent("ship").state("id")).values.code satisfies string;
expectTypeOf(await remote.agent("refund").run({ order: "A", cents: 2 }, pro)).toEqualTypeOf(values);

/** R20: an app of any agents. */
export const anyApp: App = app;
export const anyService: Service = service;
const byName: Agents = { a: () => "x" };
const dynamic = await createApp({ database: ":memory:", agents: byName });
(await dynamic.service.runs.run("whatever", { messages: "Hi" })).messages;
const given = await createApp({ database: ":memory:", agents: {} as Record<string, AnyAgent> });
expectTypeOf((await given.service.runs.run("whatever", {})).messages).toEqualTypeOf<Message[] | undefined>();

/** R21: an assistant may have the context. */
await service.runs.run("refund", { order: "A", cents: 1 }, { assistant_id: "0f0f0f0f-1111-4222-8333-444444444444" });

/** Executors, services and the test kit have the same types. */
const executor = combine(
  fromFunctions({ counter, refund, plain: () => "x" }),
  langgraph({ graph, shipping, made: () => shipping, slow: { graph: shipping, timeout_ms: 10 } }),
);
const combined = await createService({ storage: nodeSqlite(":memory:"), executor });
expectTypeOf(await combined.runs.run("counter", {})).toEqualTypeOf<{ n?: number | undefined; messages?: Message[] }>();
expectTypeOf((await combined.runs.run("made", { code: "c" })).tries).toEqualTypeOf<number>();
expectTypeOf((await combined.runs.run("slow", { code: "c" })).code).toEqualTypeOf<string>();
expectTypeOf((await combined.runs.run("plain", {})).messages).toEqualTypeOf<Message[] | undefined>();
const anyExecutor: Executor = executor;
const untyped = await createService({ storage: nodeSqlite(":memory:"), executor: anyExecutor });
(await untyped.runs.run("whatever", { any: "input" })).anything satisfies unknown;
await using test = await testService({ agents: { counter, refund, echo: ({ messages }) => `${messages.length}` } });
expectTypeOf(await test.service.runs.run("refund", { order: "A", cents: 1 }, pro)).toEqualTypeOf(values);
await using hosted = await testService({ executor });
expectTypeOf((await hosted.service.runs.run("made", { code: "c" })).tries).toEqualTypeOf<number>();
await using bare = await testService({ agents: byName });
(await bare.service.runs.run("a", {})).messages;

/** A caller of custom authentication has the same calls. */
const user = { identity: "ann", permissions: [], display_name: "Ann", is_authenticated: true };
(await service.as({ user }).runs.run("counter", {})).n satisfies number | undefined;

/** The types of an agent without any. */
expectTypeOf(service.agent("hello").run).parameter(0).toEqualTypeOf<Json>();
expectTypeOf(service.agent("hello").run).parameter(1).toExtend<{ readonly context?: JsonObject } | undefined>();
