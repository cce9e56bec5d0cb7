/** Tokens of LangGraph runs: of calls of models and of messages that nodes write, each once. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { dispatchCustomEvent } from "@langchain/core/callbacks/dispatch";
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, AIMessageChunk, type BaseMessage, type UsageMetadata } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";
import { tool } from "@langchain/core/tools";
import {
  Annotation,
  Command,
  entrypoint,
  interrupt,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import type { JsonObject } from "../../../lib/mod.ts";
import { testService } from "../../suite/kit.ts";

type Graph = Parameters<typeof langgraph>[0][string];

const createUsage = (input_tokens: number, output_tokens: number): UsageMetadata => ({
  input_tokens,
  output_tokens,
  total_tokens: input_tokens + output_tokens,
});

/** Answers with a fixed message, whole or in three chunks of which the last one has the usage. */
class Fake extends BaseChatModel {
  readonly #answer: Partial<AIMessage>;

  constructor(answer: Partial<AIMessage>) {
    super({});
    this.#answer = { content: "one two", ...answer };
  }

  _llmType(): string {
    return "fake";
  }

  async _generate(): Promise<ChatResult> {
    return { generations: [{ text: "one two", message: new AIMessage(this.#answer as AIMessage) }] };
  }

  override async *_streamResponseChunks(
    _messages: BaseMessage[],
    _options: this["ParsedCallOptions"],
    manager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const last = { ...this.#answer, content: "" } as AIMessage;
    const chunks = [{ content: "one " }, { content: "two" }, last].map((fields) => new AIMessageChunk(fields));
    for (const message of chunks) {
      yield new ChatGenerationChunk({ text: message.content as string, message });
      await manager?.handleLLMNewToken(message.content as string);
    }
  }
}

const model = (tokens_in: number, tokens_out: number): Fake =>
  new Fake({ usage_metadata: createUsage(tokens_in, tokens_out) });
const ask =
  (model: Fake) =>
  async ({ messages }: { messages: BaseMessage[] }) => ({ messages: [await model.invoke(messages)] });

/** Creates a graph of a subgraph with one node, and a second node. */
const createNestedGraph = () => {
  const inner = new StateGraph(MessagesAnnotation).addNode("asks", ask(model(100, 10))).addEdge(START, "asks");
  return new StateGraph(MessagesAnnotation)
    .addNode("inner", inner.compile())
    .addNode("second", ask(model(3, 4)))
    .addEdge(START, "inner")
    .addEdge("inner", "second")
    .compile();
};

async function createHost(createGraph: Graph, prices = {}) {
  const kit = await testService({ executor: langgraph({ graph: createGraph }), usage: { prices } });
  const { runs, threads, usage } = kit.service;
  const { thread_id } = await threads.create();
  return {
    thread_id,
    kit,
    async [Symbol.asyncDispose]() {
      await kit[Symbol.asyncDispose]();
    },
    /** Runs the graph, and returns what the run has used. */
    async spent(input: unknown, runOptions: JsonObject = {}): Promise<unknown> {
      const request = { assistant_id: "graph", input: input as JsonObject, ...runOptions };
      const { run, frames } = await runs.stream(thread_id, request);
      for await (const _ of frames);
      return await usage.traceUsage(run.run_id);
    },
  };
}

const HELLO = { messages: [{ type: "human", content: "Hello" }] };

describe("the model usage of a LangGraph run", () => {
  for (const modes of [
    ["values"],
    ["messages-tuple", "updates", "values"],
    ["events", "messages"],
    ["debug", "tasks"],
  ]) {
    it(`is counted once, with that of subgraphs, with the modes ${modes.join(", ")}`, async () => {
      for (const stream_subgraphs of [false, true]) {
        await using host = await createHost(createNestedGraph());
        const runOptions = { stream_mode: modes, stream_subgraphs };
        assert.deepEqual(await host.spent(HELLO, runOptions), { tokens_in: 103, tokens_out: 14, cost_usd: 0 });
        // The messages of the first run are in the state now.
        assert.deepEqual(await host.spent(HELLO, runOptions), { tokens_in: 103, tokens_out: 14, cost_usd: 0 });
      }
    });
  }

  it("includes streamed calls whose chunks a node combines", async () => {
    const createGraph = new StateGraph(MessagesAnnotation)
      .addNode("asks", async ({ messages }) => {
        let whole: AIMessageChunk | undefined;
        for await (const chunk of await model(5, 6).stream(messages)) whole = whole ? whole.concat(chunk) : chunk;
        return new Command({ update: { messages: [whole as AIMessageChunk] } });
      })
      .addEdge(START, "asks")
      .compile();
    await using host = await createHost(createGraph);
    assert.deepEqual(await host.spent(HELLO), { tokens_in: 5, tokens_out: 6, cost_usd: 0 });
    assert.deepEqual(await host.spent(HELLO, { stream_mode: ["messages"] }), {
      tokens_in: 5,
      tokens_out: 6,
      cost_usd: 0,
    });
  });

  it("includes messages that nodes write without a model of LangChain", async () => {
    const createWritingNode = new AIMessage({ content: "By another client", usage_metadata: createUsage(7, 8) });
    const createGraph = new StateGraph(MessagesAnnotation)
      .addNode("writes", () => ({ messages: [createWritingNode] }))
      .addNode("returns", ({ messages }) => ({ messages }))
      .addNode("silent", () => ({}))
      .addEdge(START, "writes")
      .addEdge("writes", "returns")
      .addEdge("returns", "silent")
      .compile();
    await using host = await createHost(createGraph);
    assert.deepEqual(await host.spent(HELLO), { tokens_in: 7, tokens_out: 8, cost_usd: 0 });
  });

  it("includes messages of graphs that nodes call, and of tasks, whatever the node returns", async () => {
    const createWritingNode = () => new AIMessage({ content: "By another client", usage_metadata: createUsage(7, 8) });
    const inner = new StateGraph(MessagesAnnotation)
      .addNode("writes", () => ({ messages: [createWritingNode()] }))
      .addEdge(START, "writes")
      .compile();
    const State = Annotation.Root({ ...MessagesAnnotation.spec, title: Annotation<string> });
    const calling = new StateGraph(State)
      .addNode("calls", async ({ messages }) => ({
        title: (await inner.invoke({ messages })).messages.at(-1)?.text ?? "",
      }))
      .addEdge(START, "calls")
      .compile();
    const writes = task("writes", async () => createWritingNode());
    const flow = entrypoint("flow", async () => {
      const { text } = await writes();
      return { text, answer: interrupt("Go on?") };
    });
    await using first = await createHost(calling);
    assert.deepEqual(await first.spent(HELLO), { tokens_in: 7, tokens_out: 8, cost_usd: 0 });
    await using second = await createHost(flow as unknown as Graph);
    assert.deepEqual(await second.spent(HELLO), { tokens_in: 7, tokens_out: 8, cost_usd: 0 });
    // The result of the task is stored: it is not written again.
    const resumed = await second.spent(undefined, { command: { resume: "yes" } });
    assert.deepEqual(resumed ?? { tokens_in: 0, tokens_out: 0, cost_usd: 0 }, {
      tokens_in: 0,
      tokens_out: 0,
      cost_usd: 0,
    });
  });

  it("does not include messages of the input or of the state", async () => {
    const old = { type: "ai", content: "Earlier", usage_metadata: createUsage(1000, 1000) };
    const createGraph = new StateGraph(MessagesAnnotation)
      .addNode("sends", () => new Command({ goto: [new Send("asks", { messages: [] })] }), { ends: ["asks"] })
      .addNode("asks", ask(model(1, 2)))
      .addNode("returns", ({ messages }) => ({ messages }))
      .addEdge(START, "sends")
      .addEdge("asks", "returns")
      .compile();
    await using host = await createHost(createGraph);
    for (let run = 0; run < 2; run++) {
      assert.deepEqual(await host.spent({ messages: [old] }), { tokens_in: 1, tokens_out: 2, cost_usd: 0 });
    }
  });

  it("includes calls in tools and outside the state", async () => {
    const State = Annotation.Root({ ...MessagesAnnotation.spec, title: Annotation<string> });
    const look = tool(async () => (await model(20, 30).invoke("Hello")).text, { name: "look", description: "Looks" });
    const call = { id: "c1", name: "look", args: {}, type: "tool_call" as const };
    const createGraph = new StateGraph(State)
      .addNode("asks", () => ({ messages: [new AIMessage({ content: "", tool_calls: [call] })] }))
      .addNode("tools", new ToolNode([look]))
      .addNode("titles", async () => ({ title: (await model(1, 1).invoke("Hello")).text }))
      .addEdge(START, "asks")
      .addEdge("asks", "tools")
      .addEdge("tools", "titles")
      .compile();
    await using host = await createHost(createGraph);
    assert.deepEqual(await host.spent(HELLO), { tokens_in: 21, tokens_out: 31, cost_usd: 0 });
  });

  it("includes calls in conditional edges and in tasks; nodes may dispatch their own events", async () => {
    const State = Annotation.Root({ ...MessagesAnnotation.spec, title: Annotation<string> });
    const titles = task("titles", async () => (await model(1, 2).invoke("Hello")).text);
    const createGraph = new StateGraph(State)
      .addNode("first", async (_state, config) => {
        await dispatchCustomEvent("own", { n: 1 }, config);
        return { title: await titles() };
      })
      .addNode("second", () => ({}))
      .addConditionalEdges(START, async () => ((await model(10, 20).invoke("Hello")).text ? "first" : "second"))
      .addConditionalEdges("first", async () => ((await model(100, 200).invoke("Hello")).text ? "second" : "first"))
      .compile();
    const flow = entrypoint("flow", async () => ({ title: await titles() }));
    for (const stream_mode of [["values"], ["events"], ["messages-tuple"]]) {
      await using host = await createHost(createGraph);
      assert.deepEqual(await host.spent(HELLO, { stream_mode }), { tokens_in: 111, tokens_out: 222, cost_usd: 0 });
      await using second = await createHost(flow as unknown as Graph);
      assert.deepEqual(await second.spent(HELLO, { stream_mode }), { tokens_in: 1, tokens_out: 2, cost_usd: 0 });
    }
  });

  it("includes a failed run, and each run of a waiting thread", async () => {
    const failing = new StateGraph(MessagesAnnotation)
      .addNode("asks", ask(model(9, 1)))
      .addNode("fails", async ({ messages }) => {
        await model(1, 1).invoke(messages);
        throw new Error("no");
      })
      .addEdge(START, "asks")
      .addEdge("asks", "fails")
      .compile();
    await using host = await createHost(failing);
    assert.deepEqual(await host.spent(HELLO), { tokens_in: 10, tokens_out: 2, cost_usd: 0 });
    const waiting = new StateGraph(MessagesAnnotation)
      .addNode("asks", ask(model(2, 2)))
      .addNode("waits", () => {
        interrupt("Go on?");
        return {};
      })
      .addNode("last", ask(model(5, 5)))
      .addEdge(START, "asks")
      .addEdge("asks", "waits")
      .addEdge("waits", "last")
      .compile();
    await using second = await createHost(waiting);
    assert.deepEqual(await second.spent(HELLO), { tokens_in: 2, tokens_out: 2, cost_usd: 0 });
    const resumed = await second.spent(undefined, { command: { resume: "yes" } });
    assert.deepEqual(resumed, { tokens_in: 5, tokens_out: 5, cost_usd: 0 });
  });

  it("has the cost that the model reports, or the configured price of its name", async () => {
    const usage = { ...createUsage(10, 20), input_cost: 0.25, output_cost: 0.5 } as UsageMetadata;
    const response_metadata = { model_name: "fake-1" };
    const createGraph = (usage_metadata: UsageMetadata) =>
      new StateGraph(MessagesAnnotation)
        .addNode("asks", ask(new Fake({ usage_metadata, response_metadata })))
        .addEdge(START, "asks")
        .compile();
    const prices = { "fake-1": { tokens_in: 1_000_000, tokens_out: 2_000_000 } };
    const costs = async (usageMetadata: UsageMetadata, from: object, mode: string): Promise<unknown> => {
      await using host = await createHost(createGraph(usageMetadata), from);
      const { cost_usd } = (await host.spent(HELLO, { stream_mode: [mode] })) as { readonly cost_usd: number };
      return cost_usd;
    };
    // LangChain drops costs where it puts chunks together.
    assert.equal(await costs(usage, prices, "values"), 0.75);
    assert.equal(await costs({ ...usage, total_cost: 3 } as UsageMetadata, prices, "values"), 3);
    for (const mode of ["values", "messages"]) {
      assert.equal(await costs(createUsage(10, 20), prices, mode), 50);
      assert.equal(await costs(createUsage(10, 20), { "fake-2": prices["fake-1"] }, mode), 0);
    }
  });

  it("does not fail a run whose model reports wrong counts", async () => {
    for (const wrong of [createUsage(-1, 2), createUsage(0.5, 2), createUsage("3" as unknown as number, 2)]) {
      const createGraph = new StateGraph(MessagesAnnotation)
        .addNode("asks", ask(new Fake({ usage_metadata: wrong })))
        .addEdge(START, "asks")
        .compile();
      await using host = await createHost(createGraph);
      assert.deepEqual(await host.spent(HELLO), { tokens_in: 0, tokens_out: 2, cost_usd: 0 });
    }
  });
});
