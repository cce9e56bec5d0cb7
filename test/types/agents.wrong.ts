/**
 * Agents that must not compile. A program begins at its marker and ends at the next one. The checker requires an error with the
 * text that the marker names, and no error before the first marker.
 */
import { agent, type Check, type FunctionJob, type Message, type MessageLike } from "greenroom";
import type { Agent as AnyAgent } from "greenroom/app";
import { sleep } from "greenroom/steps";
import * as v from "valibot";
import { z } from "zod";
import { graph } from "./agents.right.ts";

declare const job: FunctionJob;
declare function host<Given extends Readonly<Record<string, AnyAgent>>>(
  agents: Given & { [Name in keyof Given]: Check<Given[Name]> },
): void;

// W1 the result of a plain function is a number: is not assignable to type 'AgentError<"An agent returns
host({ a: () => 42 });
// W2 a promise of a list: is not assignable to type 'AgentError<"An agent returns
host({ a: async () => ["x"] });
// W3 a file name is no agent: Type 'string' is not assignable
host({ a: "agent.ts" });
// W4 an update that the state does not have: Type 'string' is not assignable to type 'number'
agent({ state: v.object({ n: v.number() }) }, () => ({ n: "1" }));
// W5 a yielded number: number
agent(async function* () {
  yield 5;
});
// W6 a member that the context does not have: Property 'teir' does not exist
agent({ context: z.object({ tier: z.string() }) }, ({ context }) => context.teir);
// W7 a yielded update with a wrong type: boolean
agent({ state: v.object({ n: v.number() }) }, async function* () {
  yield { n: true };
});
// W7 a yielded update with a misspelt member: m
agent({ state: v.object({ n: v.number() }) }, async function* () {
  yield { m: 1 };
});
// W4 a returned update with a misspelt member: m
agent({ state: v.object({ n: v.number() }) }, () => ({ m: 1 }));
// W21 a step that returns a Map: Property 'get' does not exist
(await job.step("s", () => new Map([["a", 1]]))).get("a");
// W22 a Date that came back as text: Property 'getTime' does not exist on type 'string'
(await job.step("s", () => ({ at: new Date() }))).at.getTime();
// W23 an answer that may be null after a timeout: is possibly 'null'
(await job.ask("q", 1, { schema: v.object({ ok: v.boolean() }), timeout: "7d" })).ok;
// W24 an internal of the job: Property 'checkpoints' does not exist
job.checkpoints;
// W25 a misspelt option: 'timout' does not exist
job.wait("p", { timout: "1d" });
// W36 a span of an unknown kind: Type '"step"' is not assignable to type
job.span("s", () => 1, { kind: "step" });
// W37 an attribute that is no scalar: Type '{ deep: number; }' is not assignable to type
job.span("s", () => 1, { attributes: { nested: { deep: 1 } } });
// W38 a span without work: Expected 2-3 arguments
job.span("s");
// W39 the executor's recorder: Property 'trace' does not exist
job.trace;
// W28 a message of an unknown type: is not assignable to type 'MessageLike'
export const message: MessageLike = { type: "bot", content: "x" };
// W29 members of another message: Property 'tool_calls' does not exist
(null as unknown as Message).tool_calls;
// W29 a member that a message does not list: Property 'custom' does not exist
(null as unknown as Message).custom;
// W33 a misspelt setting of an agent: 'max_atempts' does not exist
agent({ max_atempts: 1 }, () => "x");
// W34 an interrupt of a wrong form: 'text' does not exist
agent({ interrupt: v.object({ question: v.string() }) }, ({ interrupt }) => interrupt({ text: "?" }));
// W34 the value of an ask of a wrong form: 'text' does not exist
agent({ interrupt: v.object({ question: v.string() }) }, async ({ ask }) => {
  await ask("sure", { text: "?" });
});
// W35 a misspelt setting beside a plain function: Unknown setting: max_atempts
host({ a: { agent: () => "x", max_atempts: 1 } });
// W36 a result that is no agent result, of a function with settings: AgentError<"An agent returns
host({ a: { agent: () => true } });
// W37 a misspelt setting beside a graph: Unknown setting: timeout
host({ a: { graph, timeout: 1 } });
// W25 a misspelt unit of a timeout: A duration is milliseconds or a text
job.wait("p", { timeout: "5 mintues" });
// W25 a misspelt unit of the timeout of a question: A duration is milliseconds or a text
job.ask("q", 1, { timeout: "7dd", schema: { type: "string" } });
// W25 a duration without a unit: A duration is milliseconds or a text
job.sleep("s", "30");
// W25 a misspelt last part: A duration is milliseconds or a text
job.sleep("s", "1h 30mins");
// W25 a misspelt unit of the timeout of a step: A duration is milliseconds or a text
job.step("pay", () => 1, { timeout: "30sec" });
// W25 a misspelt unit of the pause of a step: A duration is milliseconds or a text
job.step("pay", () => 1, { retries: 1, backoff: "soon" });
// W25 a duration that is empty: A duration is milliseconds or a text
sleep("s", "");
