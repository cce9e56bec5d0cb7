/** The spans of calls of the AI SDK in functions: of returned streams, with and without its channel, and of all other calls. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { embed, generateText, isStepCount, simulateReadableStream, streamText, tool } from "ai";
import { MockEmbeddingModelV4, MockLanguageModelV4 } from "ai/test";
import { stepCountIs as stepCountIs6, streamText as streamText6, tool as tool6 } from "ai-6";
import { MockLanguageModelV3 } from "ai-6/test";
import { z } from "zod";
import { type AgentFunction, fromFunctions } from "../../../lib/mod.ts";
import { testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { recordSpans, type SpanRecording } from "../../support/span-recording.ts";

keepAlive();

const MARKER = "not kept";
const TOKENS = { in: 10, out: 2, cache_read: 3, reasoning: 1 };
const usage = {
  inputTokens: { total: 10, noCache: 7, cacheRead: 3, cacheWrite: undefined },
  outputTokens: { total: 2, text: 1, reasoning: 1 },
};

interface Times {
  readonly started: number;
  ended: number;
}

/** Calls a tool, and then says what it has. Keeps the times of its calls. */
function createModel(times: Times[] = []) {
  const reply = (prompt: readonly { readonly role: string }[]) =>
    prompt.at(-1)?.role === "user"
      ? {
          part: { type: "tool-call" as const, toolCallId: "c1", toolName: "weather", input: '{"city":"Ulm"}' },
          finishReason: { unified: "tool-calls" as const, raw: "tool_use" },
        }
      : { part: null, finishReason: { unified: "stop" as const, raw: "end" } };
  return {
    modelId: "large",
    provider: "openai.responses",
    async doGenerate({ prompt }: { prompt: readonly { readonly role: string }[] }) {
      const call = { started: performance.now(), ended: 0 };
      times.push(call);
      await new Promise((resolve) => setImmediate(resolve));
      const { part, finishReason } = reply(prompt);
      call.ended = performance.now();
      const content = part ? [part] : [{ type: "text" as const, text: "It is warm." }];
      return { content, finishReason, usage, warnings: [], response: { id: "r1", modelId: "large-1" } };
    },
    async doStream({ prompt }: { prompt: readonly { readonly role: string }[] }) {
      times.push({ started: performance.now(), ended: 0 });
      const { part, finishReason } = reply(prompt);
      return {
        stream: simulateReadableStream({
          chunks: [
            { type: "response-metadata" as const, id: "r1", modelId: "large-1" },
            { type: "text-start" as const, id: "1" },
            { type: "text-delta" as const, id: "1", delta: "It is warm." },
            { type: "text-end" as const, id: "1" },
            ...(part ? [part] : []),
            { type: "finish" as const, finishReason, usage },
          ],
        }),
      };
    },
  };
}

const weather = tool({ inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => `warm in ${city}` });
const broken = tool({
  inputSchema: z.object({ city: z.string() }),
  execute: (): string => {
    throw new RangeError("no luck");
  },
});

async function record(agent: AgentFunction): Promise<{ trace: SpanRecording; tokens: number }> {
  const { executor, attempts } = recordSpans(fromFunctions({ agent }));
  await using kit = await testService({ executor });
  const { thread_id } = await kit.service.threads.create();
  const { run_id } = await kit.service.runs.create(thread_id, { assistant_id: "agent", input: {} });
  await (await kit.service.runs.join(thread_id, run_id)).result;
  const spent = await kit.service.usage.traceUsage(run_id);
  return { trace: attempts[0] as SpanRecording, tokens: spent?.tokens_in ?? 0 };
}

const settings = {
  prompt: "Is it warm?",
  stopWhen: isStepCount(3),
  temperature: 0.2,
  headers: { authorization: MARKER },
};
const AGENT_SPANS = ["model large", "model large", "tool weather"];

describe("The spans of the AI SDK", () => {
  it("are those of models and tools for a returned stream, with the tokens of the run", async () => {
    const times: Times[] = [];
    const model = new MockLanguageModelV4(createModel(times));
    const { trace, tokens } = await record(() => streamText({ ...settings, model, tools: { weather } }));
    assert.deepEqual(trace.describe().sort(), AGENT_SPANS);
    const [first, last] = trace.list("model");
    const weatherSpan = trace.only("weather");
    assert.deepEqual(first?.result?.tokens, TOKENS);
    assert.equal(tokens, 2 * TOKENS.in);
    assert.equal(first?.provider, "openai");
    assert.deepEqual(first?.params, { temperature: 0.2, tools: ["weather"] });
    assert.deepEqual(first?.result?.finish_reasons, ["tool-calls"]);
    assert.deepEqual([last?.result?.response_id, last?.result?.response_model], ["r1", "large-1"]);
    assert.equal(weatherSpan.tool_call_id, "c1");
    assert.deepEqual([weatherSpan.inputCopy, weatherSpan.outputCopy], [{ city: "Ulm" }, "warm in Ulm"]);
    for (const span of [first, last]) assert.ok((span?.result?.first_token_ms ?? -1) >= 0, "the first token");
    // The tool runs between the two calls.
    assert.ok((first?.started ?? Number.NaN) <= (times[0]?.started ?? 0));
    assert.ok((times[0]?.started ?? Number.NaN) <= weatherSpan.started);
    assert.ok((weatherSpan.ended ?? Number.NaN) <= (last?.started ?? 0));
    assert.ok((last?.started ?? Number.NaN) <= (times[1]?.started ?? 0));
    assert.ok(!JSON.stringify(trace.spans).includes(MARKER));
  });

  it("come from the parts of a stream that has no channel", async () => {
    const model = new MockLanguageModelV3(createModel() as never);
    const inputSchema = z.object({ city: z.string() });
    const weather6 = tool6({ inputSchema, execute: async ({ city }) => `warm in ${city}` });
    const { trace, tokens } = await record(() =>
      streamText6({ model, prompt: "Is it warm?", stopWhen: stepCountIs6(3), tools: { weather: weather6 } }),
    );
    assert.deepEqual(trace.describe().sort(), ["model model", "model model", "tool weather"]);
    const sum = trace.list("model").reduce((total, { result }) => total + (result?.tokens?.in ?? 0), 0);
    assert.equal(sum, tokens);
    for (const { firstToken, started, ended = 0 } of trace.list("model"))
      assert.ok(started <= (firstToken ?? 0) && (firstToken ?? Number.NaN) <= ended);
  });

  it("lie under the span or the step that calls a model, with the times of the call", async () => {
    const times: Times[] = [];
    const model = new MockLanguageModelV4(createModel(times));
    const call = () => generateText({ ...settings, model, tools: { weather } });
    const { trace } = await record(async ({ span, step }) => {
      await call();
      await span("part", call);
      await step("step", async () => (await call()).text);
    });
    assert.deepEqual(
      trace.describe(),
      ["", "custom part > ", "step > "].flatMap((path) => [
        ...(path.startsWith("custom") ? ["custom part"] : []),
        ...[`${path}model large`, `${path}tool weather`, `${path}model large`],
      ]),
    );
    for (const [index, span] of trace.list("model").entries()) {
      const { started, ended } = times[index] as Times;
      assert.ok(span.started <= started && ended <= (span.ended ?? 0));
      assert.deepEqual(span.result?.tokens, TOKENS);
      assert.match(JSON.stringify(span.inputCopy), /Is it warm/);
    }
    assert.ok(!JSON.stringify(trace.spans).includes(MARKER));
  });

  it("end with the stream of a call whose result is not returned", async () => {
    const model = new MockLanguageModelV4(createModel());
    const { trace } = await record(async function* () {
      yield* streamText({ ...settings, model, tools: { weather } }).textStream;
    });
    assert.deepEqual(trace.describe().sort(), AGENT_SPANS);
  });

  it("lie under the step that returns a stream", async () => {
    const model = new MockLanguageModelV4(createModel());
    const { trace, tokens } = await record(async ({ step }) => {
      await step("step", () => streamText({ ...settings, model, tools: { weather } }));
    });
    assert.deepEqual(
      trace.describe().sort(),
      AGENT_SPANS.map((line) => `step > ${line}`),
    );
    assert.equal(
      trace.list("model").reduce((sum, { result }) => sum + (result?.tokens?.in ?? 0), 0),
      tokens,
    );
  });

  it("keep the error of a tool and of a model", async () => {
    const model = new MockLanguageModelV4(createModel());
    const failing = new MockLanguageModelV4({
      modelId: "failing",
      doGenerate: () => Promise.reject(new RangeError("no")),
    });
    const { trace } = await record(async () => {
      await generateText({ ...settings, model, tools: { weather: broken } });
      await generateText({ model: failing, prompt: "Hi", maxRetries: 0 }).catch(() => {});
    });
    const errors = trace.spans.map(({ name, result }) => [
      name,
      result?.status,
      (result?.error as Error | undefined)?.name,
    ]);
    assert.deepEqual(errors, [
      ["large", "ok", undefined],
      ["weather", "error", "RangeError"],
      ["large", "ok", undefined],
      ["failing", "error", "RangeError"],
    ]);
  });

  it("have no copy of inputs that a call does not record", async () => {
    const model = new MockLanguageModelV4(createModel());
    const { trace } = await record(async () => {
      await generateText({ ...settings, model, tools: { weather }, telemetry: { recordInputs: false } });
    });
    assert.deepEqual(
      trace.spans.map(({ name, input }) => [name, input]),
      [
        ["large", undefined],
        ["weather", undefined],
        ["large", undefined],
      ],
    );
  });

  it("have the operation and tokens of embeddings", async () => {
    const model = new MockEmbeddingModelV4({
      modelId: "small",
      provider: "openai.embedding",
      doEmbed: async () => ({ embeddings: [[0, 1]], usage: { tokens: 4 }, warnings: [] }),
    });
    const { trace } = await record(async () => void (await embed({ model, value: "owls" })));
    const { kind, operation, provider, result } = trace.only("small");
    assert.deepEqual(
      { kind, operation, provider, tokens: result?.tokens },
      { kind: "model", operation: "embeddings", provider: "openai", tokens: { in: 4 } },
    );
  });

  it("are recorded in no run for calls outside of runs", async () => {
    const model = new MockLanguageModelV4(createModel());
    const { trace } = await record(() => "Hi");
    await generateText({ ...settings, model, tools: { weather } });
    assert.deepEqual(trace.describe(), []);
  });
});
