// A chat model that needs no key: it streams what a real one might answer.
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessageChunk, type BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";

function reply(messages: BaseMessage[]): AIMessageChunk[] {
  const last = messages.at(-1);
  const amount = /refund\D*(\d+)/i.exec(last?.text ?? "")?.[1];
  if (last?.type === "human" && amount) {
    const args = JSON.stringify({ amount: Number(amount) });
    const call = { type: "tool_call_chunk" as const, id: `call_${messages.length}`, index: 0, name: "refund", args };
    return [new AIMessageChunk({ content: "", tool_call_chunks: [call] })];
  }
  const text = last?.type === "tool" ? `Done: ${last.text}` : "I can refund money. Try: Please refund 30 euros.";
  return text.split(/(?<= )/).map((content) => new AIMessageChunk({ content }));
}

export class DemoModel extends BaseChatModel {
  _llmType(): string {
    return "demo";
  }

  override async *_streamResponseChunks(messages: BaseMessage[], _: object, run?: CallbackManagerForLLMRun) {
    for (const message of reply(messages)) {
      await new Promise((resolve) => setTimeout(resolve, 30));
      const chunk = new ChatGenerationChunk({ message, text: message.text });
      yield chunk;
      await run?.handleLLMNewToken(chunk.text, undefined, undefined, undefined, undefined, { chunk });
    }
  }

  async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const message = reply(messages).reduce((sum, chunk) => sum.concat(chunk));
    return { generations: [{ message, text: message.text }] };
  }
}
