/** `traceHandler`: what LangChain runs in a function, as spans and as usage. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createAgent } from "langchain";
import { traceHandler } from "../../../adapters/langgraph/mod.ts";
import { type AgentFunction, fromFunctions } from "../../../lib/mod.ts";
import { testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { recordSpans } from "../../support/span-recording.ts";
import { CALL_TOKENS, TimedModel } from "../../support/timed-model.ts";

keepAlive();

const model = new TimedModel("large", [], () => ({ text: "Yes." }));
const helper = createAgent({ name: "helper", model, tools: [] });

const agent: AgentFunction = async (job) => {
  const callbacks = [traceHandler(job)];
  await model.invoke("Hi", { callbacks });
  await job.span("part", () => model.invoke("Hi", { callbacks }));
  await job.step("step", async () => (await model.invoke("Hi", { callbacks })).text);
  await helper.invoke({ messages: [] }, { callbacks });
};

describe("traceHandler", () => {
  it("records models and graphs under the span or the step that calls them", async () => {
    const { executor, attempts } = recordSpans(fromFunctions({ agent }));
    await using kit = await testService({ executor });
    await (await kit.service.runs.wait(null, { assistant_id: "agent", input: {} })).result;
    assert.deepEqual(attempts[0]?.describe(), [
      "model large",
      "custom part",
      "custom part > model large",
      "step > model large",
      "agent helper",
      "agent helper > node model_request",
      "agent helper > node model_request > model large",
    ]);
    const { provider, params } = attempts[0]?.list("model")[0] ?? {};
    assert.deepEqual({ provider, params }, { provider: "openai", params: { temperature: 0.2 } });
  });

  it("reports the tokens as usage, once each", async () => {
    const { executor, attempts } = recordSpans(fromFunctions({ agent }));
    await using kit = await testService({ executor });
    const { thread_id } = await kit.service.threads.create();
    const { run_id } = await kit.service.runs.create(thread_id, { assistant_id: "agent", input: {} });
    await (await kit.service.runs.join(thread_id, run_id)).result;
    const { tokens_in, tokens_out } = (await kit.service.usage.traceUsage(run_id)) ?? {};
    assert.deepEqual([tokens_in, tokens_out], [4 * CALL_TOKENS.in, 4 * CALL_TOKENS.out]);
    const spent = attempts[0]?.spans.reduce((sum, { result }) => sum + (result?.tokens?.in ?? 0), 0);
    assert.equal(spent, tokens_in);
  });

  it("reports usage although no trace is recorded", async () => {
    const { execute, ...executor } = fromFunctions({ agent });
    const untraced = {
      ...executor,
      execute: ({ trace: _trace, ...job }: Parameters<typeof execute>[0], ...rest: [AbortSignal, never]) =>
        execute(job, ...rest),
    };
    await using kit = await testService({ executor: untraced as never });
    const { thread_id } = await kit.service.threads.create();
    const { run_id } = await kit.service.runs.create(thread_id, { assistant_id: "agent", input: {} });
    await (await kit.service.runs.join(thread_id, run_id)).result;
    const { tokens_in } = (await kit.service.usage.traceUsage(run_id)) ?? {};
    assert.equal(tokens_in, 4 * CALL_TOKENS.in);
  });

  it("throws a TypeError for an object that is no job of a function", () => {
    assert.throws(() => traceHandler({} as never), /the argument is no job of a function/);
  });
});
