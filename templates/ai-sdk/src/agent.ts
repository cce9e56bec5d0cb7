import { type ModelMessage, streamText } from "ai";
import type { FunctionJob } from "greenroom";
import { model } from "./model.ts";

const ROLES: Readonly<Record<string, string>> = { human: "user", ai: "assistant" };

/** Streams the model's reply. `messages` has the whole thread, which is the model's memory. */
export async function* agent({ messages, signal, spend }: FunctionJob): AsyncGenerator<string> {
  const prompt = messages.map(({ type, content }) => ({ role: ROLES[String(type)], content }) as ModelMessage);
  const reply = streamText({ model, messages: prompt, abortSignal: signal, onError() {} });
  for await (const part of reply.fullStream) {
    if (part.type === "text-delta") yield part.text;
    if (part.type === "error") throw part.error;
    if (part.type !== "finish") continue;
    const { inputTokens = 0, outputTokens = 0 } = part.totalUsage;
    spend({ tokens_in: inputTokens, tokens_out: outputTokens });
  }
}
