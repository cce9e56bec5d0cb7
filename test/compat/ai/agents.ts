/** Agents of LangChain and LangGraph whose answers stream, call tools and ask. */
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, AIMessageChunk, type BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";
import { tool } from "@langchain/core/tools";
import { interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { createAgent, humanInTheLoopMiddleware } from "langchain";
import { z } from "zod";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import type { Executor } from "../../../lib/executor/contract.ts";

const CALLS: Readonly<Record<string, { readonly name: string; readonly args: object }>> = {
  refund: { name: "refund", args: { amount: 30 } },
  mail: { name: "mail", args: { to: "ann" } },
  lookup: { name: "lookup", args: { order: "1182" } },
  fails: { name: "fails", args: {} },
  helper: { name: "helper", args: { text: "Deep thought" } },
};

/** Streams tokens, and calls the tools that the input names. Then it streams their results. */
export class TokenModel extends BaseChatModel {
  _llmType(): string {
    return "fake";
  }
  override bindTools(): this {
    return this;
  }
  async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    throw new Error(`not streamed: ${messages.length}`);
  }
  override async *_streamResponseChunks(
    messages: BaseMessage[],
    _options: this["ParsedCallOptions"],
    run?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const last = messages.findLastIndex((message) => message.getType() === "human");
    const lastContent = messages[last]?.content;
    const text = typeof lastContent === "string" ? lastContent : JSON.stringify(lastContent);
    const results = messages.slice(last).filter((message) => message.getType() === "tool");
    const named = text.split(" ").flatMap((word) => CALLS[word] ?? []);
    const usage_metadata = { input_tokens: 10, output_tokens: 2, total_tokens: 12 };
    if (named.length > 0 && results.length === 0) {
      for (const [index, { name, args }] of named.entries()) {
        const id = `call-${messages.length}-${index}`;
        const full = JSON.stringify(args);
        for (const part of [{ name, id, args: full.slice(0, 5) }, { args: full.slice(5) }]) {
          const chunk = piece({ tool_call_chunks: [{ ...part, index, type: "tool_call_chunk" }] });
          yield chunk;
          await run?.handleLLMNewToken("", undefined, undefined, undefined, undefined, { chunk });
        }
      }
      yield piece({ usage_metadata });
      return;
    }
    const answer =
      results.length > 0 ? `Done: ${results.map(({ content }) => content).join("; ")}` : `You said ${text}`;
    for (const token of answer.split(/(?<= )/)) {
      const chunk = piece({ content: token });
      yield chunk;
      await run?.handleLLMNewToken(token, undefined, undefined, undefined, undefined, { chunk });
    }
    yield piece({ usage_metadata });
  }
}

const piece = (fields: object): ChatGenerationChunk => {
  const message = new AIMessageChunk({ content: "", ...fields });
  return new ChatGenerationChunk({ text: String(message.content), message });
};

export const ran: string[] = [];
const tools = [
  tool(
    ({ amount }) => {
      ran.push(`refund ${amount}`);
      return `refunded ${amount}`;
    },
    { name: "refund", schema: z.object({ amount: z.number() }) },
  ),
  tool(({ to }) => `wrote to ${to}`, { name: "mail", schema: z.object({ to: z.string() }) }),
  tool(({ order }) => JSON.stringify({ found: order }), { name: "lookup", schema: z.object({ order: z.string() }) }),
  tool(
    () => {
      throw new Error("no luck");
    },
    { name: "fails", schema: z.object({}) },
  ),
];

export function langchainAgents(): Executor {
  const model = new TokenModel({});
  /** Its tool is an agent. */
  const helped = createAgent({
    model,
    tools: [
      tool(
        async ({ text }: { readonly text: string }) => {
          const { messages } = await plain.invoke({ messages: [{ role: "user", content: text }] });
          return `It says: ${messages.at(-1)?.content}`;
        },
        { name: "helper", schema: z.object({ text: z.string() }) },
      ),
    ],
  });
  const says = (name: string) => async () => ({ messages: [await model.invoke(`${name} has many words`)] });
  const both = new StateGraph(MessagesAnnotation)
    .addNode("one", says("one"))
    .addNode("two", says("two"))
    .addEdge(START, "one")
    .addEdge(START, "two")
    .compile();
  const clerk = createAgent({
    model,
    tools,
    middleware: [
      humanInTheLoopMiddleware({
        interruptOn: { refund: { allowedDecisions: ["approve", "reject"], description: "Money" }, mail: true },
      }),
    ],
  });
  const plain = createAgent({ model, tools });
  const asks = new StateGraph(MessagesAnnotation)
    .addNode("ask", () => {
      const answer = interrupt({ question: "Where to?" });
      return { messages: [new AIMessage(`Going to ${JSON.stringify(answer)}`)] };
    })
    .addEdge(START, "ask")
    .compile();
  const twice = new StateGraph(MessagesAnnotation)
    .addNode("one", () => ({ messages: [new AIMessage(`one ${interrupt("First?")}`)] }))
    .addNode("two", () => ({ messages: [new AIMessage(`two ${interrupt("Second?")}`)] }))
    .addEdge(START, "one")
    .addEdge(START, "two")
    .compile();
  return langgraph({ clerk: clerk.graph, plain: plain.graph, helped: helped.graph, asks, twice, both } as never);
}
