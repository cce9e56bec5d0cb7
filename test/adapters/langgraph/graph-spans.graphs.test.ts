/** The spans of graphs that fail, retry, ask, stop, contain other graphs, or are functional. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AIMessage } from "@langchain/core/messages";
import { BaseRetriever } from "@langchain/core/retrievers";
import { RunnableLambda } from "@langchain/core/runnables";
import { tool } from "@langchain/core/tools";
import { Command, entrypoint, interrupt, MessagesAnnotation, START, StateGraph, task } from "@langchain/langgraph";
import { RemoteGraph } from "@langchain/langgraph/remote";
import { Client } from "@langchain/langgraph-sdk";
import { generateText } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { createAgent, humanInTheLoopMiddleware } from "langchain";
import { z } from "zod";
import { testService } from "../../suite/kit.ts";
import { CALL_TOKENS, hasToolResult, type TimedCall, TimedModel } from "../../support/timed-model.ts";
import { createThread } from "./executor.harness.ts";
import { createMeeting, FOLLOWED, type Graph, QUESTION, record } from "./graph-spans.harness.ts";

const model = new TimedModel("large", [], () => ({ text: "Yes." }));
const SDK_TOKENS = { total: 3, noCache: 3, cacheRead: 0, cacheWrite: 0 };
type State = typeof MessagesAnnotation.State;

/** Creates a graph of one node. */
const createGraph = (name: string, node: Parameters<StateGraph<typeof MessagesAnnotation>["addNode"]>[1]): Graph =>
  new StateGraph(MessagesAnnotation)
    .addNode(name, node as () => object)
    .addEdge(START, name as typeof START)
    .compile() as Graph;

const answer = async ({ messages }: State): Promise<object> => ({ messages: [await model.invoke(messages)] });

describe("The spans of a graph", () => {
  for (const [way, changes] of Object.entries(FOLLOWED)) {
    it(`lie under the graphs that contain their nodes if ${way}`, async () => {
      const chain = RunnableLambda.from((messages: State["messages"]) => messages).pipe(model);
      const inner = new StateGraph(MessagesAnnotation)
        .addNode("draft", async ({ messages }) => ({ messages: [await chain.invoke(messages)] }))
        .addEdge(START, "draft")
        .compile({ name: "writer" });
      const graph = new StateGraph(MessagesAnnotation)
        .addNode("inside", inner)
        .addNode("called", async (state) => await inner.invoke(state))
        .addEdge(START, "inside")
        .addEdge("inside", "called")
        .compile();
      const { trace } = await record(graph, changes);
      assert.deepEqual(trace.describe(), [
        "node inside",
        "node inside > agent writer",
        "node inside > agent writer > node draft",
        "node inside > agent writer > node draft > model large",
        "node called",
        "node called > agent writer",
        "node called > agent writer > node draft",
        "node called > agent writer > node draft > model large",
      ]);
    });

    it(`have none for conditional edges, whose models lie under their node, if ${way}`, async () => {
      async function route({ messages }: State): Promise<string> {
        await model.invoke(messages);
        return "__end__";
      }
      const graph = new StateGraph(MessagesAnnotation)
        .addNode("route", () => ({}))
        .addEdge(START, "route")
        .addConditionalEdges("route", route, ["__end__"])
        .compile();
      assert.deepEqual((await record(graph, changes)).trace.describe(), ["node route", "node route > model large"]);
    });

    it(`have one for each task of a functional graph if ${way}`, async () => {
      const work = task("work", async (text: string) => (await model.invoke(text)).content);
      const graph = entrypoint("main", async (text: string) => [await work(text), await work(text)]);
      const { trace, error } = await record(graph as unknown as Graph, { input: "Hi", ...changes });
      assert.equal(error, undefined);
      assert.deepEqual(trace.describe(), [
        "node main",
        "node main > node work",
        "node main > node work > model large",
        "node main > node work",
        "node main > node work > model large",
      ]);
    });

    it(`have one for each try of a node if ${way}`, async () => {
      const calls: TimedCall[] = [];
      const flaky = new TimedModel("flaky", calls, () => {
        if (calls.length < 2) throw new RangeError("too busy");
        return { text: "Yes." };
      });
      flaky.caller.call = (call, ...args) => call(...args);
      const graph = new StateGraph(MessagesAnnotation)
        .addNode("model", async ({ messages }) => ({ messages: [await flaky.invoke(messages)] }), {
          retryPolicy: { initialInterval: 1, jitter: false, logWarning: false },
        })
        .addEdge(START, "model")
        .compile();
      const { trace } = await record(graph, changes);
      assert.deepEqual(trace.describe(), [
        "node model, error",
        "node model > model flaky, error",
        "node model, try 2",
        "node model > model flaky",
      ]);
      const [first, , second, call] = trace.spans;
      assert.ok((first?.ended ?? Number.NaN) <= (second?.started ?? 0));
      assert.equal(call?.parent_id, second?.span_id);
      assert.equal((first?.result?.error as Error | undefined)?.name, "RangeError");
    });
  }

  it("end with an error if their work throws, also if a tool's error is handled", async () => {
    const calls = tool(() => Promise.reject(new RangeError("no luck")), { name: "draw", schema: z.object({}) });
    const agent = createAgent({
      model: new TimedModel("large", [], (messages) =>
        hasToolResult(messages) ? { text: "Pity." } : { calls: { c1: { name: "draw", args: {} } } },
      ),
      tools: [calls],
    });
    const { trace, error } = await record(agent);
    assert.equal(error, undefined);
    const { status, error: cause } = trace.only("draw").result ?? {};
    assert.deepEqual([status, (cause as Error | undefined)?.name], ["error", "RangeError"]);
    assert.equal(trace.list("tools")[0]?.result?.status, "ok");
    const failing = await record(createGraph("fail", () => Promise.reject(new TypeError("no"))));
    assert.deepEqual(failing.trace.describe(), ["node fail, error"]);
    assert.equal((failing.error as Error).name, "TypeError");
  });

  it("are interrupted, without an error, where the graph asks", async () => {
    const ask = tool(() => String(interrupt("Really?")), { name: "ask", schema: z.object({}) });
    const agent = createAgent({
      model: new TimedModel("large", [], () => ({ calls: { c1: { name: "ask", args: {} } } })),
      tools: [ask],
    });
    const { trace, error } = await record(agent);
    assert.equal(error, undefined);
    assert.deepEqual(trace.describe(), [
      "node model_request",
      "node model_request > model large",
      "node tools, interrupted",
      "node tools > tool ask, interrupted",
    ]);
    assert.deepEqual(
      trace.spans.filter(({ result }) => result?.error !== undefined),
      [],
    );
  });

  it("are interrupted up to the root if a subagent of a tool waits for an approval, and start again after it", async () => {
    const clerk = createAgent({
      name: "clerk",
      model: new TimedModel("small", [], (messages) =>
        hasToolResult(messages) ? { text: "Refunded." } : { calls: { c2: { name: "refund", args: {} } } },
      ),
      tools: [tool(() => "paid", { name: "refund", schema: z.object({}) })],
      middleware: [humanInTheLoopMiddleware({ interruptOn: { refund: true } })],
    });
    const delegate = tool(async () => String((await clerk.invoke(QUESTION)).messages.at(-1)?.content), {
      name: "delegate",
      schema: z.object({}),
    });
    const agent = createAgent({
      model: new TimedModel("large", [], (messages) =>
        hasToolResult(messages) ? { text: "Done." } : { calls: { c1: { name: "delegate", args: {} } } },
      ),
      tools: [delegate],
    });
    const thread = createThread();
    const asked = await record(agent, {}, { thread });
    const path = "node tools > tool delegate > agent clerk";
    assert.deepEqual(asked.trace.describe().slice(2), [
      "node tools, interrupted",
      "node tools > tool delegate, interrupted",
      `${path}, interrupted`,
      `${path} > node model_request`,
      `${path} > node model_request > model small`,
      `${path} > node HumanInTheLoopMiddleware.after_model, interrupted`,
    ]);
    const command = { resume: { decisions: [{ type: "approve" }] } };
    const answered = await record(agent, { input: undefined, command }, { thread });
    assert.equal(answered.error, undefined);
    assert.deepEqual(answered.trace.describe(), [
      "node tools",
      "node tools > tool delegate",
      path,
      `${path} > node HumanInTheLoopMiddleware.after_model`,
      `${path} > node tools`,
      `${path} > node tools > tool refund`,
      `${path} > node model_request`,
      `${path} > node model_request > model small`,
      `${path} > node HumanInTheLoopMiddleware.after_model`,
      "node model_request",
      "node model_request > model large",
    ]);
  });

  it("are no failures if a node sends a command to the graph above", async () => {
    const inner = new StateGraph(MessagesAnnotation)
      .addNode("leave", () => new Command({ goto: "after", graph: Command.PARENT }))
      .addEdge(START, "leave")
      .compile();
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("inside", inner, { ends: ["after"] })
      .addNode("after", () => ({}))
      .addEdge(START, "inside")
      .compile();
    assert.deepEqual((await record(graph)).trace.describe(), [
      "node inside",
      "node inside > agent inside",
      "node inside > agent inside > node leave",
      "node after",
    ]);
  });

  it("are interrupted if the run is stopped, or another node of the step has failed", async () => {
    const stop = new AbortController();
    const untilAbort = (signal: AbortSignal | undefined): Promise<never> =>
      new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
    const wait = async (_: State, { signal }: { signal?: AbortSignal }): Promise<object> => {
      const waiting = untilAbort(signal);
      stop.abort(new Error("cancelled"));
      return waiting;
    };
    const stopped = await record(createGraph("wait", wait as () => Promise<object>), {}, { signal: stop.signal });
    assert.deepEqual(stopped.trace.describe(), ["node wait, interrupted"]);

    const meet = createMeeting(2);
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("fail", () => meet().then(() => Promise.reject(new RangeError("no"))))
      .addNode("wait", async (_, { signal }) => {
        const waiting = untilAbort(signal);
        await meet();
        return await waiting;
      })
      .addEdge(START, "fail")
      .addEdge(START, "wait")
      .compile();
    assert.deepEqual((await record(graph)).trace.describe().sort(), ["node fail, error", "node wait, interrupted"]);
  });

  it("have the tokens of messages that a node has written without a model, and count no message twice", async () => {
    const usage_metadata = { input_tokens: 5, output_tokens: 1, total_tokens: 6 };
    const written = new AIMessage({ id: "m1", content: "Cached", usage_metadata });
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("write", () => ({ messages: [written] }))
      .addNode("model", answer)
      .addNode("repeat", ({ messages }) => ({ messages }))
      .addEdge(START, "write")
      .addEdge("write", "model")
      .addEdge("model", "repeat")
      .compile();
    const { trace, events } = await record(graph);
    assert.deepEqual(
      trace.spans.map(({ kind, name, result }) => [kind, name, result?.tokens]),
      [
        ["node", "write", { in: 5, out: 1 }],
        ["node", "model", undefined],
        ["model", "large", CALL_TOKENS],
        ["node", "repeat", undefined],
      ],
    );
    const usage = events.flatMap((event) => (event.type === "usage" ? [event.tokens_in] : []));
    assert.deepEqual(usage, [5, CALL_TOKENS.in]);
  });

  it("have retrievers with their query and documents", async () => {
    class Shelf extends BaseRetriever {
      lc_namespace = ["test"];
      override async _getRelevantDocuments(query: string) {
        return [{ pageContent: `About ${query}`, metadata: {} }];
      }
    }
    const graph = createGraph("read", async () => {
      await new Shelf().withConfig({ runName: "shelf" }).invoke("owls");
      return {};
    });
    const { trace } = await record(graph);
    assert.deepEqual(trace.describe(), ["node read", "node read > retriever shelf"]);
    const { inputCopy, outputCopy } = trace.only("shelf");
    assert.equal(inputCopy, "owls");
    assert.match(JSON.stringify(outputCopy), /About owls/);
  });

  it("have the calls of the AI SDK under the node, the task or the tool that makes them", async () => {
    const sdkModel = new MockLanguageModelV4({
      modelId: "sdk",
      doGenerate: async () => ({
        content: [{ type: "text", text: "Yes." }],
        finishReason: { unified: "stop", raw: undefined },
        usage: { inputTokens: SDK_TOKENS, outputTokens: { total: 1, text: 1, reasoning: 0 } },
        warnings: [],
      }),
    });
    const ask = async (): Promise<string> => (await generateText({ model: sdkModel, prompt: "Hi" })).text;
    const node = await record(createGraph("node", () => ask().then(() => ({}))));
    assert.deepEqual(node.trace.describe(), ["node node", "node node > model sdk"]);
    const work = task("work", ask);
    const main = entrypoint("main", async () => [await work(), await work()]);
    assert.deepEqual((await record(main as unknown as Graph)).trace.describe().slice(1, 3), [
      "node main > node work",
      "node main > node work > model sdk",
    ]);
    const agent = createAgent({
      model: new TimedModel("large", [], (messages) =>
        hasToolResult(messages) ? { text: "Yes." } : { calls: { c1: { name: "ask", args: {} } } },
      ),
      tools: [tool(ask, { name: "ask", schema: z.object({}) })],
    });
    for (const changes of Object.values(FOLLOWED)) {
      const { trace } = await record(agent, changes);
      assert.deepEqual(trace.path(trace.only("sdk")), ["node tools", "tool ask", "model sdk"]);
    }
  });

  it("have an agent for a graph of another server that is a node", async () => {
    await using other = await testService({ agents: { echo: () => "Hello" } });
    const client = new Client({ apiUrl: "http://greenroom", callerOptions: { fetch: other.fetch } });
    const graph = createGraph("far", new RemoteGraph({ graphId: "echo", client }) as never);
    const { trace, error } = await record(graph);
    assert.equal(error, undefined);
    assert.deepEqual(trace.describe(), ["node far", "node far > agent echo"]);
    assert.match(JSON.stringify(trace.only("far").outputCopy), /Hello/);
  });
});
