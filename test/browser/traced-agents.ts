/** Agents whose traces the studio shows: one with a subagent, one of the AI SDK, one with parallel nodes, and functions. */
import { tool } from "@langchain/core/tools";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { generateText, isStepCount, tool as sdkTool } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { createAgent } from "langchain";
import { z } from "zod";
import { langgraph } from "../../adapters/langgraph/mod.ts";
import { combine, type Executor, fromFunctions } from "../../lib/mod.ts";
import type { Gates } from "../support/graphs.ts";
import { hasToolResult, TimedModel } from "../support/timed-model.ts";

/** Creates a graph of two nodes at once, each of which waits at its gate. */
const fork = (gates: Gates) =>
  new StateGraph(MessagesAnnotation)
    .addNode("short", async (_, { signal }) => gates.pass("short", signal).then(() => ({})))
    .addNode("long", async (_, { signal }) => gates.pass("long", signal).then(() => ({})))
    .addEdge(START, "short")
    .addEdge(START, "long")
    .compile();

/** An agent that lets a subagent answer by a tool `task`, as those of `deepagents` do. */
function planner() {
  const researcher = createAgent({
    name: "researcher",
    model: new TimedModel("small", [], () => ({ text: "It is often warm." })),
    tools: [],
  });
  const task = tool(
    async ({ description }) => {
      const { messages } = await researcher.invoke({ messages: [{ role: "user", content: description }] });
      return String(messages.at(-1)?.content);
    },
    { name: "task", schema: z.object({ description: z.string(), subagent_type: z.string() }) },
  );
  const args = { description: "Is it warm in Ulm?", subagent_type: "researcher" };
  const model = new TimedModel("large", [], (messages) =>
    hasToolResult(messages) ? { text: "Yes it is." } : { calls: { c1: { name: "task", args } } },
  );
  return createAgent({ model, tools: [task] });
}

const SDK_USAGE = {
  inputTokens: { total: 10, noCache: 7, cacheRead: 3, cacheWrite: undefined },
  outputTokens: { total: 2, text: 1, reasoning: 1 },
};

/** A model of the AI SDK that calls a tool, and then says what it has. */
const createSdkModel = (): MockLanguageModelV4 =>
  new MockLanguageModelV4({
    modelId: "sdk-large",
    provider: "openai",
    doGenerate: async ({ prompt }) => {
      const isFirst = prompt.at(-1)?.role === "user";
      return {
        content: isFirst
          ? [{ type: "tool-call", toolCallId: "c1", toolName: "weather", input: '{"city":"Ulm"}' }]
          : [{ type: "text", text: "It is warm." }],
        finishReason: { unified: isFirst ? "tool-calls" : "stop", raw: undefined },
        usage: SDK_USAGE,
        warnings: [],
      };
    },
  });

const weather = sdkTool({
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `warm in ${city}`,
});

/** The number of spans of the function `busy`. */
export const BUSY_SPANS = 2_100;
/** A text that would run as a script if the page took it for HTML. */
export const HOSTILE = '<img src=x onerror="globalThis.isBroken = true">';

const functions = (gates: Gates): Executor =>
  fromFunctions({
    async *sdk({ messages }) {
      const { text } = await generateText({
        ...{ model: createSdkModel(), tools: { weather }, stopWhen: isStepCount(3) },
        prompt: String(messages.at(-1)?.content),
      });
      yield text;
    },
    async *failing({ span }) {
      await span("read", () => "an order", { kind: "tool" });
      await span("pay", () => Promise.reject(new RangeError("no such account")), { kind: "tool" });
      yield "Paid.";
    },
    /** Waits at the gate of each of its spans. */
    async *live({ span }) {
      await span("first", () => gates.pass("first"), { kind: "tool" });
      await span("second", () => gates.pass("second"), { kind: "tool" });
      yield "Done.";
    },
    async *busy({ span }) {
      for (let count = 0; count < BUSY_SPANS; count += 1) await span(`part ${count}`, () => count);
      yield "Done.";
    },
    async *hostile({ span }) {
      await span(HOSTILE, () => HOSTILE, { kind: "tool", attributes: { text: HOSTILE } });
      yield "Done.";
    },
    /** Waits at a gate, in an attempt that is lost if the process is. */
    async *fragile({ span }) {
      await span("call", () => gates.pass("fragile"), { kind: "tool" });
      yield "Done.";
    },
  });

export const tracedExecutor = (gates: Gates): Executor =>
  combine(langgraph({ fork: fork(gates), planner: planner() }), functions(gates));
