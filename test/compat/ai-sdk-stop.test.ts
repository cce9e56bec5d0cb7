/** Chats of the AI SDK that were stopped: what was written stays, on the page and for the model. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessageChunk, type BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import type { UIMessage } from "ai";
import { createAgent } from "langchain";
import { langgraph } from "../../adapters/langgraph/mod.ts";
import type { Executor } from "../../lib/executor/contract.ts";
import { type FunctionJob, fromFunctions } from "../../lib/mod.ts";
import { testService } from "../suite/mod.ts";
import { until } from "../support/until.ts";
import { openChat, plain } from "./ai/chat.ts";

const HALF = "The first half. ";

/** The texts of the messages that the model or function received in each turn. */
type Prompts = string[][];

/** Waits for the end of a turn's signal. */
const aborted = (signal: AbortSignal | undefined): Promise<never> =>
  new Promise((_resolve, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));

/** In its first turn it streams a half and goes no further; later it answers whole. */
class HalfModel extends BaseChatModel {
  readonly prompts: Prompts;
  constructor(prompts: Prompts) {
    super({});
    this.prompts = prompts;
  }
  _llmType(): string {
    return "half";
  }
  override bindTools(): this {
    return this;
  }
  async _generate(): Promise<ChatResult> {
    throw new Error("It must stream");
  }
  override async *_streamResponseChunks(
    messages: BaseMessage[],
    options: this["ParsedCallOptions"],
    run?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    this.prompts.push(messages.map(({ content }) => String(content)));
    const isFirst = this.prompts.length === 1;
    const text = isFirst ? HALF : "Whole.";
    const chunk = new ChatGenerationChunk({ text, message: new AIMessageChunk({ content: text }) });
    yield chunk;
    await run?.handleLLMNewToken(text, undefined, undefined, undefined, undefined, { chunk });
    if (isFirst) await aborted(options.signal);
  }
}

const asExecutor = (graph: unknown): Executor => langgraph({ agent: graph as Parameters<typeof langgraph>[0][string] });

const AGENTS: Readonly<Record<string, (prompts: Prompts) => Executor>> = {
  "a function": (prompts) =>
    fromFunctions({
      async *agent({ messages, signal }: FunctionJob) {
        prompts.push(messages.map(({ content }) => String(content)));
        yield prompts.length === 1 ? HALF : "Whole.";
        if (prompts.length === 1) await aborted(signal);
      },
    }),
  "an agent of LangChain": (prompts) => asExecutor(createAgent({ model: new HalfModel(prompts), tools: [] })),
  "a graph with a subgraph": (prompts) => {
    const model = new HalfModel(prompts);
    const inner = new StateGraph(MessagesAnnotation)
      .addNode("writer", async ({ messages }, config) => ({ messages: [await model.invoke(messages, config)] }))
      .addEdge(START, "writer")
      .compile();
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("desk", inner)
      .addNode("after", () => ({}))
      .addEdge(START, "desk")
      .addEdge("desk", "after");
    return asExecutor(graph.compile());
  },
};

const readTexts = (messages: readonly UIMessage[]): string[] =>
  messages.map(({ parts }) => parts.map((part) => (part.type === "text" ? part.text : "")).join(""));

describe("a stopped chat", () => {
  for (const [name, executorOf] of Object.entries(AGENTS)) {
    it(`keeps the text that ${name} has written: after a reload, and for the next turn`, async () => {
      const prompts: Prompts = [];
      await using test = await testService({ executor: executorOf(prompts) });
      const load = async (): Promise<UIMessage[]> => {
        const response = await test.fetch("http://localhost/ai/agent/chat/c");
        return ((await response.json()) as { messages: UIMessage[] }).messages;
      };
      const stop = async (): Promise<number> =>
        (await test.fetch("http://localhost/ai/agent/chat/c/stop", { method: "POST" })).status;
      const chat = openChat({ id: "c", fetch: test.fetch });
      const pendingSend = chat.sendMessage({ text: "Hi" });
      await until(() => JSON.stringify(chat.messages).includes("half"));
      assert.equal(await stop(), 204);
      await pendingSend;
      await chat.stop();
      assert.deepEqual([chat.status, readTexts(chat.messages)], ["ready", ["Hi", HALF]]);

      const loaded = await load();
      assert.deepEqual(plain(loaded), plain(chat.messages));
      const thread = await test.service.threads.get(await test.service.threads.idOf("c"));
      assert.equal(thread.status, "idle");
      assert.equal(await stop(), 204, "it changes nothing more");
      assert.deepEqual(await load(), loaded);

      const reloaded = openChat({ id: "c", fetch: test.fetch, messages: loaded });
      await reloaded.sendMessage({ text: "Go on" });
      assert.deepEqual(prompts.at(-1), ["Hi", HALF, "Go on"]);
      assert.deepEqual(readTexts(reloaded.messages), ["Hi", HALF, "Go on", "Whole."]);
      assert.deepEqual(readTexts(await load()), ["Hi", HALF, "Go on", "Whole."]);
    });
  }

  it("regenerates and edits as any other chat", async () => {
    const prompts: Prompts = [];
    await using test = await testService({ executor: (AGENTS["a function"] as (typeof AGENTS)[string])(prompts) });
    const chat = openChat({ id: "c", fetch: test.fetch });
    const pendingSend = chat.sendMessage({ text: "Hi" });
    await until(() => JSON.stringify(chat.messages).includes("half"));
    await test.fetch("http://localhost/ai/agent/chat/c/stop", { method: "POST" });
    await pendingSend;
    await chat.regenerate();
    assert.deepEqual([prompts.at(-1), readTexts(chat.messages)], [["Hi"], ["Hi", "Whole."]]);
  });
});
