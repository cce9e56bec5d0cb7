/** Tool calls whose arguments a model streams in pieces, in every mode that emits messages. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessageChunk, type BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import type { StreamMode } from "../../../lib/executor/contract.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { testService } from "../../suite/kit.ts";
import { createJob, createThread, run } from "./executor.harness.ts";

const PIECES = ['{"seat":', '"7A"', "}"];
const CALL = { name: "book", args: { seat: "7A" }, id: "call-1", type: "tool_call" };

class Piecewise extends BaseChatModel {
  _llmType(): string {
    return "piecewise";
  }

  async _generate(): Promise<ChatResult> {
    throw new Error("It streams");
  }

  override async *_streamResponseChunks(
    _messages: BaseMessage[],
    _options: this["ParsedCallOptions"],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    for (const [at, args] of PIECES.entries()) {
      const begins = at === 0 ? { name: CALL.name, id: CALL.id } : {};
      const piece = { ...begins, args, index: 0, type: "tool_call_chunk" as const };
      const message = new AIMessageChunk({ content: "", tool_call_chunks: [piece] });
      const chunk = new ChatGenerationChunk({ text: "", message });
      yield chunk;
      await runManager?.handleLLMNewToken("", undefined, undefined, undefined, undefined, { chunk });
    }
  }
}

async function readFrames(mode: StreamMode): Promise<readonly { event: string; data: JsonObject[] }[]> {
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("model", async ({ messages }) => ({ messages: [await new Piecewise({}).invoke(messages)] }))
    .addEdge(START, "model")
    .compile();
  await using at = await testService({ executor: langgraph({ graph }) });
  const input = { messages: [{ role: "user", content: "hi" }] };
  const { frames } = await at.service.runs.stream(null, { assistant_id: "graph", input, stream_mode: mode });
  const all = await Array.fromAsync(frames);
  return all.map(({ event, data }) => ({ event, data: JSON.parse(String(data)) as JsonObject[] }));
}

describe("langgraph: streamed tool calls", () => {
  it("are combined in mode messages", async () => {
    const frames = await readFrames("messages");
    const calls = (kind: string): unknown[] =>
      frames.filter(({ event }) => event === `messages/${kind}`).map(({ data }) => data[0]?.tool_calls);
    const startedCalls = [{ ...CALL, args: {} }];
    assert.deepEqual(calls("partial"), [startedCalls, startedCalls, [CALL]]);
    assert.deepEqual(calls("complete"), [[CALL]]);
  });

  it("are unchanged in mode messages-tuple", async () => {
    const frames = await readFrames("messages-tuple");
    const pieces = frames.flatMap(({ event, data }) =>
      event === "messages" ? ((data[0]?.tool_call_chunks ?? []) as JsonObject[]) : [],
    );
    assert.deepEqual(
      pieces.map(({ args }) => args),
      PIECES,
    );
  });

  it("are unchanged in mode events, and whole at the end", async () => {
    const frames = await readFrames("events");
    const toolEvents = frames
      .filter(({ event }) => event === "events")
      .map(({ data }) => data as unknown as JsonObject);
    const of = (event: string): JsonObject[] =>
      toolEvents.filter((toolEvent) => toolEvent.event === event).map((toolEvent) => toolEvent.data as JsonObject);
    const pieces = of("on_chat_model_stream").map(
      ({ chunk }) => (chunk as JsonObject).tool_call_chunks as JsonObject[],
    );
    assert.deepEqual(
      pieces.map(([piece]) => piece?.args),
      PIECES,
    );
    const [{ output } = {}] = of("on_chat_model_end");
    assert.deepEqual((output as JsonObject).tool_calls, [CALL]);
  });
});

describe("langgraph: tokens", () => {
  it("come before their run ends, also if many runs stream at once", async () => {
    const text = "a word ".repeat(30);
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("model", async ({ messages }) => {
        return { messages: [await new FakeListChatModel({ responses: [text] }).invoke(messages)] };
      })
      .addEdge(START, "model")
      .compile();
    const executor = langgraph({ graph });
    const input = { messages: [{ role: "user", content: "hi" }] };
    const runs = Array.from({ length: 16 }, async () => {
      const job = createJob(createThread(), "graph", { input, modes: ["messages-tuple", "updates"] });
      const { events } = await run(executor, job);
      assert.deepEqual(
        events.slice(-2).map(({ mode }) => mode),
        ["messages", "updates"],
      );
      const tokens = events.filter(({ mode }) => mode === "messages-tuple");
      return tokens.map(({ data }) => (data as JsonObject[])[0]?.content).join("");
    });
    assert.deepEqual(
      await Promise.all(runs),
      runs.map(() => text),
    );
  });
});
