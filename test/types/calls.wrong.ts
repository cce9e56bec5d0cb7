/** Calls of agents that must not compile. Markers are as in agents.wrong.ts. */
import { fromFunctions, type RunFailed } from "greenroom";
import { createApp } from "greenroom/app";
import { client } from "greenroom/client";
import { langgraph } from "greenroom/langgraph";
import { testService } from "greenroom/testing";
import { app, counter, graph, refund } from "./agents.right.ts";

const { service } = app;
const input = { order: "A", cents: 1 };
const pro = { context: { tier: "pro" } } as const;
const remote = client<typeof app>({ apiUrl: "http://127.0.0.1:2024" });
declare const failed: RunFailed;

// W1 an app with an agent that returns a number: is not assignable to type 'AgentError<"An agent returns
createApp({ database: ":memory:", agents: { a: () => 42 } });
// W2 an app with an agent that returns a list: is not assignable to type 'AgentError<"An agent returns
createApp({ database: ":memory:", agents: { a: async () => ["x"] } });
// W3 an app with a file name as agent: Type 'string' is not assignable
createApp({ database: ":memory:", agents: { a: "agent.ts" } });
// W8 an unknown agent: Argument of type '"refnd"' is not assignable to parameter of type '"
service.runs.run("refnd", input, pro);
// W8 the calls of an unknown agent: Argument of type '"refnd"' is not assignable
service.agent("refnd");
// W9 a wrong input: Type 'number' is not assignable to type 'string'
service.runs.run("refund", { order: 7, cents: 1 }, pro);
// W10 an input with a missing member: Property 'cents' is missing
service.runs.run("refund", { order: "A" }, pro);
// W11 no context: Expected 3 arguments, but got 2
service.runs.run("refund", input);
// W11 options without the context: Property 'context' is missing
service.runs.run("refund", input, { thread_id: null });
// W12 a wrong context: Type '"gold"' is not assignable to type '"free" | "pro"
service.runs.run("refund", input, { context: { tier: "gold" } });
// W13 a member that the values do not have: Property 'payed' does not exist
(await service.runs.run("refund", input, pro)).payed;
// W14 a wrong input of a graph: Type 'number' is not assignable to type 'string'
service.runs.run("shipping", { code: 5 });
// W14 no context of a graph that requires one: Expected 3 arguments, but got 2
service.runs.run("refunds", { code: "c" });
// W14 a misspelt member of a required context: 'teir' does not exist
service.runs.run("refunds", { code: "c" }, { context: { tier: "pro", teir: "pro" } });
// W14 a wrong value in the context of a graph: Type '"gold"' is not assignable
service.runs.run("refunds", { code: "c" }, { context: { tier: "gold" } });
// W14 a misspelt member of an optional context: 'carier' does not exist
service.runs.run("shipping", { code: "c" }, { context: { carier: "dhl" } });
// W14 a misspelt member of a client's context: 'teir' does not exist
remote.agent("refunds").start({ code: "c" }, { context: { tier: "pro", teir: "pro" } });
// W15 a wrong answer to a graph: is not assignable to
service.agent("refunds").resume("id", { aproved: true });
// W15 an answer of a wrong type to a graph: is not assignable to
service.agent("refunds").resume("id", "yes");
// W15 a wrong answer of a client to a graph: is not assignable to
remote.agent("refunds").resume("id", { approved: "yes" });
// W15 a member that the question of a graph does not have: Property 'qestion' does not exist
(await service.agent("refunds").state("id")).interrupts[0]?.value.qestion;
// W15 a wrong answer: Argument of type '"maybe"' is not assignable to parameter of type
service.agent("review").resume("id", "maybe");
// W12 a wrong context of an answer: Type '"gold"' is not assignable to type '"free" | "pro"
service.agent("refund").resume("id", true, { context: { tier: "gold" } });
// W16 an unknown stream mode: Type '"token"' is not assignable
service.agent("review").stream({}, { stream_mode: "token" });
// W17 data without a check of the mode: Property 'paid' does not exist
for await (const frame of service.agent("refund").stream(input, { ...pro, stream_mode: ["values", "custom"] }))
  frame.data.paid;
// W26 an unknown agent of a client: Argument of type '"refnd"' is not assignable
remote.agent("refnd");
// W27 a wrong input of a client: Type 'string' is not assignable to type 'number'
remote.agent("refund").run({ order: "A", cents: "1" }, pro);
// W31 interrupts of a run that failed: Property 'interrupts' does not exist
if (failed.outcome.status === "error") failed.outcome.interrupts;
// W32 a status that an outcome does not have: have no overlap
failed.outcome.status === "done";
// W8 an unknown agent of a test service: Argument of type '"refnd"' is not assignable
(await testService({ agents: { counter, refund } })).service.agent("refnd");
// W8 a misspelt option of a call: 'thread' does not exist
service.runs.run("counter", {}, { thread: "x" });
// W1 a function that returns a number, as an executor: is not assignable to type 'AgentError<"An agent returns
fromFunctions({ a: () => 42 });
// W35 a misspelt setting beside a function, as an executor: Unknown setting: max_atempts
fromFunctions({ a: { agent: () => "x", max_atempts: 1 } });
// W35 a misspelt setting beside a typed agent: Unknown setting: max_atempts
fromFunctions({ a: { agent: refund, max_atempts: 1 } });
// W35 a misspelt member of a setting: 'model_may_anwser' does not exist
fromFunctions({ a: { agent: () => "x", mcp: { model_may_anwser: true } } });
// W37 a misspelt setting beside a graph, as an executor: Unknown setting: timeout
langgraph({ a: { graph, timeout: 1 } });
// W37 a setting of functions beside a graph: Unknown setting: strict
langgraph({ a: { graph, strict: true } });
// W37 a misspelt option of the executor: 'reslove' does not exist
langgraph({ graph }, { reslove: async () => ({}) });
