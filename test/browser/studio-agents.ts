/** Agents that interrupt, reason, call tools and give long answers, for the tests of the studio. */
import { AIMessage, type BaseMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { END, MessagesAnnotation, Send, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { z } from "zod";
import { langgraph } from "../../adapters/langgraph/mod.ts";
import { type AgentFunction, combine, type Executor, fromFunctions, type JsonObject } from "../../lib/mod.ts";
import { FakeChatModel, type Gates, testExecutor } from "../support/graphs.ts";
import { langchainAgents } from "./langchain-agents.ts";

const says = (content: unknown): JsonObject => ({ messages: [{ role: "assistant", content: content as string }] });

const ANY = ["approve", "edit", "reject", "respond"];
const action = (name: string, args: JsonObject): JsonObject => ({ name, args, description: `Runs **${name}**.` });

const SURVEY: JsonObject = {
  type: "object",
  required: ["seat"],
  properties: {
    seat: { type: "string", enum: ["7A", "8B"], default: "7A" },
    bags: { type: "integer", minimum: 0 },
    name: { type: "string", title: "Passenger" },
    window: { type: "boolean" },
  },
};

const functions: Readonly<Record<string, AgentFunction>> = {
  async *review(job) {
    if (job.command?.resume === undefined) {
      yield job.interrupt({
        action_requests: [action("refund", { euros: 30 }), action("mail", { to: "ann" }), action("close", {})],
        review_configs: ["refund", "mail", "close"].map((action_name) => ({ action_name, allowed_decisions: ANY })),
      });
    }
    yield says(`Decided: ${JSON.stringify(job.command?.resume)}`);
  },
  async *survey(job) {
    if (job.command?.resume === undefined) yield job.interrupt({ question: "Which seat?", response_schema: SURVEY });
    yield says(`Booked: ${JSON.stringify(job.command?.resume)}`);
  },
  async *drinks(job) {
    if (job.command?.resume === undefined)
      yield job.interrupt({ question: "Tea or coffee?", answers: ["tea", "coffee"] });
    yield says(`Brewed: ${job.command?.resume}`);
  },
  async *spender({ spend }) {
    spend({ tokens_in: 1200, tokens_out: 34, cost_usd: 0.25 });
    yield says("Spent");
  },
  /** Interrupts with the text of the message. */
  async *asks(job) {
    if (job.command?.resume === undefined) yield job.interrupt(JSON.parse(String(job.messages.at(-1)?.content)));
    yield says(`Asked: ${job.command?.resume}`);
  },
  async *thinker() {
    yield says([
      { type: "reasoning", reasoning: "Rain is likely, so an umbrella helps." },
      { type: "text", text: "Take an umbrella." },
    ]);
  },
  async *large({ messages }) {
    yield { blob: "x".repeat(5 * 1024 * 1024), ...says(`Kept ${messages.length}`) };
  },
  async *looker({ messages }) {
    const { content } = messages.at(-1) as { readonly content: unknown };
    const blocks = Array.isArray(content) ? (content as readonly JsonObject[]) : [];
    yield says(`Saw: ${blocks.map(({ type }) => type).join(", ")}`);
  },
  /** Streams 60 words per second for bench/studio.ts, as many as the message names. */
  async *steady({ messages }) {
    const words = Number(messages.at(-1)?.content);
    const start = performance.now();
    for (let at = 0; at < words; at += 1) {
      await new Promise((resolve) => setTimeout(resolve, Math.max(1, start + (at * 1000) / 60 - performance.now())));
      yield at % 12 === 11 ? `**word ${at}**.\n\n` : `word ${at} `;
    }
  },
};

function graphs(gates: Gates): Parameters<typeof langgraph>[0] {
  const report = new StateGraph(
    z.object({ city: z.string().default("Rome"), days: z.number().int().optional(), done: z.string().optional() }),
  )
    .addNode("write", async ({ city, days }, { signal }) => {
      if (city === "Bergen") await gates.pass("Bergen", signal);
      return { done: `${days ?? 1} days in ${city}` };
    })
    .addEdge(START, "write")
    .addEdge("write", END)
    .compile();

  const weather = tool(
    async ({ city }: { city: string }, { signal }) => {
      await gates.pass("weather", signal);
      return `Sunny in ${city}`;
    },
    { name: "weather", description: "The weather", schema: z.object({ city: z.string() }) },
  );
  const call = { name: "weather", args: { city: "Rome" }, id: "call-weather" };
  const model = new FakeChatModel((messages) =>
    messages.at(-1)?.getType() === "tool"
      ? { text: `It is so: ${messages.at(-1)?.content}` }
      : { text: "Let me look.", call },
  );
  const asksModel = async ({ messages }: typeof MessagesAnnotation.State) => ({
    messages: [await model.invoke(messages)],
  });
  const caller = new StateGraph(MessagesAnnotation)
    .addNode("model", asksModel)
    .addNode("tools", new ToolNode([weather]))
    .addEdge(START, "model")
    .addConditionalEdges("model", ({ messages }) => ((messages.at(-1) as AIMessage).tool_calls?.length ? "tools" : END))
    .addEdge("tools", "model")
    .compile();

  const expert = new FakeChatModel(
    () => ({ text: "Rome is warm in May." }),
    (token, signal) => gates.pass(`expert ${token}`, signal),
  );
  const research = new StateGraph(MessagesAnnotation)
    .addNode("expert", async ({ messages }) => ({ messages: [await expert.invoke(messages)] }))
    .addEdge(START, "expert")
    .addEdge("expert", END)
    .compile();
  const experts = new StateGraph(MessagesAnnotation)
    .addNode("research", research)
    .addEdge(START, "research")
    .addEdge("research", END)
    .compile();

  // As agents of LangChain have it: each tool call is a task, and a subagent has its name in the metadata.
  const task = { name: "task", args: { topic: "Rome" }, id: "call-task", type: "tool_call" as const };
  const researcher = research.withConfig({ metadata: { lc_agent_name: "researcher" } });
  const hasTool = (messages: readonly BaseMessage[]): boolean => messages.at(-1)?.getType() === "tool";
  const manager = new StateGraph(MessagesAnnotation)
    .addNode("model", ({ messages }) => ({
      messages: [hasTool(messages) ? new AIMessage("So it is.") : new AIMessage({ content: "", tool_calls: [task] })],
    }))
    .addNode("tools", async ({ messages }, config) => {
      const { messages: results } = await researcher.invoke({ messages: messages.slice(0, 1) }, config);
      return { messages: [new ToolMessage({ content: results.at(-1)?.content ?? "", tool_call_id: task.id })] };
    })
    .addEdge(START, "model")
    .addEdge("tools", "model")
    .addConditionalEdges("model", (state) =>
      (state.messages.at(-1) as AIMessage).tool_calls?.length
        ? [new Send("tools", { ...state, tool_call: task })]
        : END,
    )
    .compile();
  return { report, caller, experts, manager };
}

export const studioExecutor = (gates: Gates): Executor =>
  combine(testExecutor(gates), fromFunctions(functions), langgraph({ ...graphs(gates), ...langchainAgents() }));
