/** An agent of npm's `langchain` that requires approval for two of its tools and has a subagent. */
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import type { ChatResult } from "@langchain/core/outputs";
import { tool } from "@langchain/core/tools";
import { createAgent, humanInTheLoopMiddleware } from "langchain";
import { z } from "zod";
import { langgraph } from "../../adapters/langgraph/mod.ts";
import { combine, type Executor, fromFunctions } from "../../lib/mod.ts";
import type { Gates } from "../support/graphs.ts";
import { readRequestedTools } from "./requested-tools.ts";

const CALLS: Readonly<Record<string, object>> = {
  pay: { euros: 30, to: "ann", reason: "A parcel that arrived broken" },
  mail: { to: "ann", body: "We have paid." },
  letter: { body: Array.from({ length: 80 }, (_, at) => `This is line ${at} of a long letter.`).join("\n") },
  lookup: { order: "1182" },
  research: { topic: "Rome" },
};

const usage_metadata = { input_tokens: 1200, output_tokens: 34, total_tokens: 1234 };

/** Calls the tools that the person names, then says what they returned. */
class DeskModel extends BaseChatModel {
  _llmType(): string {
    return "fake";
  }

  override bindTools(): this {
    return this;
  }

  async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const { results, tool_calls } = readRequestedTools(messages, CALLS);
    const calls = results.length === 0 && tool_calls.length > 0;
    const text = calls ? "" : `Done: ${results.map(({ content }) => content).join("; ")}`;
    const message = new AIMessage({ content: text, usage_metadata, ...(calls ? { tool_calls } : {}) });
    return { generations: [{ text, message }] };
  }
}

function desk(gates: Gates) {
  const researcher = createAgent({ model: new DeskModel({}), tools: [], name: "researcher" });
  const tools = [
    tool(({ euros }) => `paid ${euros} euros`, {
      name: "pay",
      schema: z.object({ euros: z.number(), to: z.string(), reason: z.string() }),
    }),
    tool(() => "sent", { name: "letter", schema: z.object({ body: z.string() }) }),
    tool(({ body }) => `wrote: ${body}`, { name: "mail", schema: z.object({ to: z.string(), body: z.string() }) }),
    tool(
      async ({ order }, { signal }) => {
        await gates.pass("lookup", signal);
        return `found ${order}`;
      },
      { name: "lookup", schema: z.object({ order: z.string() }) },
    ),
    tool(
      async ({ topic }, { signal }) => {
        const { messages } = await researcher.invoke({ messages: [{ role: "user", content: topic }] });
        await gates.pass("research", signal);
        return `${messages.at(-1)?.content} ${topic}`;
      },
      { name: "research", schema: z.object({ topic: z.string() }) },
    ),
  ];
  const text = { type: "string" };
  const middleware = humanInTheLoopMiddleware({
    interruptOn: {
      pay: true,
      letter: true,
      mail: {
        allowedDecisions: ["approve", "edit", "reject"],
        argsSchema: { type: "object", required: ["to", "body"], properties: { to: text, body: text } },
      },
    },
  });
  return createAgent({
    model: new DeskModel({}),
    tools,
    middleware: [middleware],
    contextSchema: z.object({
      tone: z.string().default("dry"),
      limit: z.number().optional(),
      language: z.string().optional(),
      urgent: z.boolean().optional(),
    }),
  });
}

const SEAT = {
  type: "object",
  required: ["seat", "bags"],
  properties: {
    seat: { type: "string", enum: ["7A", "8B"] },
    bags: { type: "integer", minimum: 0, maximum: 3 },
  },
} as const;

const functions = (gates: Gates) =>
  fromFunctions({
    /** Interrupts for a seat and returns the answer. */
    async *seats({ ask }) {
      const seat = await ask("seat", { question: "Which seat?" }, { schema: SEAT });
      yield `Booked ${JSON.stringify(seat)}.`;
    },
    /** Interrupts for a confirmation. */
    async *confirms({ ask }) {
      const isSure = await ask("sure", { question: "Are you sure?" }, { schema: { type: "boolean" } });
      yield `Sure: ${JSON.stringify(isSure)}.`;
    },
    /** Runs a step, sleeps for a night and runs another step. */
    async *nights({ step, sleep }) {
      await step("evening", () => gates.pass("evening"));
      await sleep("night", "12h");
      await step("morning", () => gates.pass("morning"));
      yield "Good morning.";
    },
  });

export const deskExecutor = (gates: Gates): Executor => combine(langgraph({ desk: desk(gates) }), functions(gates));
