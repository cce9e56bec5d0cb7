/** Agents that are made with the AI SDK: what `streamText` says becomes messages, tokens and failed runs. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isStepCount, simulateReadableStream, streamText, tool } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { stepCountIs, streamText as streamText5 } from "ai-5";
import { MockLanguageModelV2 } from "ai-5/test";
import { stepCountIs as stepCountIs6, streamText as streamText6 } from "ai-6";
import { MockLanguageModelV3 } from "ai-6/test";
import { z } from "zod";
import { toModelMessages } from "../../../lib/http/endpoints/ai/mod.ts";
import type { JsonObject } from "../../../lib/json.ts";
import type { FunctionJob } from "../../../lib/mod.ts";
import { openChat, plain } from "../../compat/ai/chat.ts";
import { testService } from "../../suite/mod.ts";

const usage = {
  inputTokens: { total: 3, noCache: 3, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 2, text: 2, reasoning: 0 },
};
const prompts: { readonly role: string }[][] = [];

/** Calls two tools, of which one fails, and then says what it has. */
const model = new MockLanguageModelV4({
  async doStream({ prompt }) {
    prompts.push([...prompt]);
    const isFirst = prompt.at(-1)?.role === "user";
    const call = (toolCallId: string, toolName: string) =>
      ({ type: "tool-call", toolCallId, toolName, input: '{"q":"a"}' }) as const;
    const text = isFirst ? ["Let me ", "look."] : ["Found."];
    return {
      stream: simulateReadableStream({
        chunks: [
          { type: "text-start" as const, id: "1" },
          ...text.map((delta) => ({ type: "text-delta" as const, id: "1", delta })),
          { type: "text-end" as const, id: "1" },
          ...(isFirst ? [call(`c${prompts.length}`, "search"), call(`d${prompts.length}`, "broken")] : []),
          {
            type: "finish" as const,
            finishReason: { unified: isFirst ? ("tool-calls" as const) : ("stop" as const), raw: undefined },
            usage,
          },
        ],
      }),
    };
  },
});

const inputSchema = z.object({ q: z.string() });
const tools = {
  search: tool({ description: "Search", inputSchema, execute: ({ q }) => ({ found: q }) }),
  broken: tool({
    description: "Fails",
    inputSchema,
    execute: (): string => {
      throw new Error("no luck");
    },
  }),
};

const agents = {
  agent: ({ messages, signal }: FunctionJob) =>
    streamText({
      ...{ model, tools, stopWhen: isStepCount(5), abortSignal: signal, onError() {} },
      messages: toModelMessages(messages),
    }),
  old: ({ messages }: FunctionJob) =>
    streamText5({
      model: new MockLanguageModelV2({
        doStream: async () => ({
          stream: simulateReadableStream({
            chunks: [
              { type: "text-start" as const, id: "1" },
              { type: "text-delta" as const, id: "1", delta: "Old." },
              { type: "text-end" as const, id: "1" },
              {
                ...{ type: "finish" as const, finishReason: "stop" as const },
                usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
              },
            ],
          }),
        }),
      }),
      stopWhen: stepCountIs(2),
      messages: toModelMessages(messages),
    }),
  old6: ({ messages }: FunctionJob) =>
    streamText6({
      model: new MockLanguageModelV3({
        doStream: async () => ({
          stream: simulateReadableStream({
            chunks: [
              { type: "text-start" as const, id: "1" },
              { type: "text-delta" as const, id: "1", delta: "Old." },
              { type: "text-end" as const, id: "1" },
              {
                ...{ type: "finish" as const, finishReason: { unified: "stop" as const, raw: undefined } },
                usage: {
                  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
                  outputTokens: { total: 1, text: 1, reasoning: 0 },
                },
              },
            ],
          }),
        }),
      }),
      stopWhen: stepCountIs6(2),
      messages: toModelMessages(messages),
    }),
  fails: ({ messages }: FunctionJob) =>
    streamText({
      ...{ messages: toModelMessages(messages), maxRetries: 0, onError() {} },
      model: new MockLanguageModelV4({ doStream: () => Promise.reject(new Error("no model")) }),
    }),
};

describe("an agent of the AI SDK", () => {
  it("stores calls of tools and their results as messages, and tokens as usage", async () => {
    await using test = await testService({ agents });
    const { thread_id } = await test.service.threads.create();
    const input = { messages: [{ role: "user", content: "Hi" }] };
    const { run, result } = await test.service.runs.wait(thread_id, { assistant_id: "agent", input });
    const { messages } = (await result) as { readonly messages: JsonObject[] };
    const brief = messages.map(({ type, content, tool_calls, tool_call_id, status, usage_metadata }) =>
      plain({ type, content, tool_calls, tool_call_id, status, usage_metadata }),
    );
    const usage_metadata = { input_tokens: 3, output_tokens: 2, total_tokens: 5 };
    const call = (id: string, name: string): JsonObject => ({ type: "tool_call", id, name, args: { q: "a" } });
    assert.deepEqual(brief, [
      { type: "human", content: "Hi" },
      { type: "ai", content: "Let me look.", tool_calls: [call("c1", "search"), call("d1", "broken")], usage_metadata },
      { type: "tool", content: '{"found":"a"}', tool_call_id: "c1", status: "success" },
      { type: "tool", content: "no luck", tool_call_id: "d1", status: "error" },
      { type: "ai", content: "Found.", usage_metadata },
    ]);
    const spent = await test.service.usage.traceUsage(run.run_id);
    assert.deepEqual([spent?.tokens_in, spent?.tokens_out], [6, 4]);

    await (await test.service.runs.wait(thread_id, { assistant_id: "agent", input })).result;
    const roles = prompts[2]?.map(({ role }) => role);
    assert.deepEqual(roles, ["user", "assistant", "tool", "assistant", "user"]);
  });

  it("streams the same chunks live and in a replay", async () => {
    await using test = await testService({ agents });
    const options = { id: "c", fetch: test.fetch };
    const chat = openChat(options);
    await chat.sendMessage({ text: "Hi" });
    assert.equal(chat.error, undefined);
    const again = openChat({ ...options, messages: plain(chat.messages.slice(0, 1)) });
    await again.resumeStream();
    assert.deepEqual(plain(again.messages), plain(chat.messages));
    const answer = await test.fetch("http://localhost/ai/agent/chat/c");
    const { messages } = (await answer.json()) as { readonly messages: unknown };
    assert.deepEqual(messages, plain(chat.messages));
    assert.match(JSON.stringify(messages), /"output":{"found":"a"}/);
  });

  for (const [version, agent] of [
    [5, "old"],
    [6, "old6"],
  ] as const) {
    it(`of version ${version} streams and reports its tokens`, async () => {
      await using test = await testService({ agents });
      const chat = openChat({ id: "c", agent, fetch: test.fetch });
      await chat.sendMessage({ text: "Hi" });
      assert.match(JSON.stringify(chat.messages), /Old\./);
      const { result } = await test.service.runs.wait(null, { assistant_id: agent, input: { messages: "Hi" } });
      const { messages } = (await result) as { readonly messages: JsonObject[] };
      assert.deepEqual(messages.at(-1)?.usage_metadata, { input_tokens: 1, output_tokens: 1, total_tokens: 2 });
    });
  }

  it("fails the run with the error of its model", async () => {
    await using test = await testService({ agents });
    const input = { messages: [{ role: "user", content: "Hi" }] };
    const { result } = await test.service.runs.wait(null, { assistant_id: "fails", input });
    assert.deepEqual(((await result) as JsonObject).__error__, { error: "Error", message: "no model" });
  });
});
