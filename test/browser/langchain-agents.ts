/** Agents of npm's `langchain` that require approval before they call tools. */
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import type { ChatResult } from "@langchain/core/outputs";
import { tool } from "@langchain/core/tools";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { createAgent, humanInTheLoopMiddleware } from "langchain";
import { z } from "zod";
import type { langgraph } from "../../adapters/langgraph/mod.ts";
import { readRequestedTools } from "./requested-tools.ts";

const CALLS: Readonly<Record<string, object>> = {
  refund: { euros: 30 },
  mail: { to: "ann" },
  close: { order: "1182" },
  lookup: { order: "1182" },
};

/** Calls the tools that the person names, then returns their results as text. */
class ClerkModel extends BaseChatModel {
  _llmType(): string {
    return "fake";
  }

  override bindTools(): this {
    return this;
  }

  async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const { results, tool_calls } = readRequestedTools(messages, CALLS);
    const usage_metadata = { input_tokens: 1200, output_tokens: 34, total_tokens: 1234 };
    const text = `Done: ${results.map(({ content }) => content).join("; ")}`;
    const message =
      results.length > 0
        ? new AIMessage({ content: text, usage_metadata })
        : new AIMessage({ content: "", tool_calls });
    return { generations: [{ text: results.length > 0 ? text : "", message }] };
  }
}

const tools = [
  tool(({ euros }) => `refunded ${euros} euros`, { name: "refund", schema: z.object({ euros: z.number() }) }),
  tool(({ to }) => `wrote to ${to}`, { name: "mail", schema: z.object({ to: z.string() }) }),
  tool(({ order }) => `closed ${order}`, { name: "close", schema: z.object({ order: z.string() }) }),
  tool(({ order }) => `found ${order}`, { name: "lookup", schema: z.object({ order: z.string() }) }),
];

export function langchainAgents(): Parameters<typeof langgraph>[0] {
  const clerk = createAgent({
    model: new ClerkModel({}),
    tools,
    middleware: [
      humanInTheLoopMiddleware({
        interruptOn: {
          refund: true,
          mail: { allowedDecisions: ["approve", "reject"], description: "Writes a **mail**." },
          close: {
            allowedDecisions: ["edit"],
            argsSchema: { type: "object", required: ["order"], properties: { order: { type: "string" } } },
          },
          lookup: false,
        },
      }),
    ],
  });
  const state = Annotation.Root({ first: Annotation<string>, second: Annotation<string> });
  const asks = (name: keyof typeof state.State, content: string) => async () => {
    const { messages } = await clerk.graph.invoke({ messages: [{ role: "user", content }] });
    return { [name]: String(messages.at(-1)?.content) };
  };
  const clerks = new StateGraph(state)
    .addNode("one", asks("first", "refund"))
    .addNode("two", asks("second", "mail"))
    .addEdge(START, "one")
    .addEdge(START, "two")
    .addEdge("one", END)
    .addEdge("two", END)
    .compile();
  return { clerk, clerks };
}
