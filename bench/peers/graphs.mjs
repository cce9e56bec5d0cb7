// The graphs that every server under test hosts. No model, no network.

import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, AIMessageChunk } from "@langchain/core/messages";
import { ChatGenerationChunk } from "@langchain/core/outputs";
import { END, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";

const TOKENS = 200;
const DELAY_MS = 5;

export const echoBuilder = new StateGraph(MessagesAnnotation)
  .addNode("echo", (state) => {
    // The wall clock in the reply lets a client on the same machine see when the node started.
    const at = (performance.timeOrigin + performance.now()).toFixed(3);
    return { messages: [new AIMessage(`echo: ${state.messages.at(-1)?.content ?? ""} |${at}`)] };
  })
  .addEdge(START, "echo")
  .addEdge("echo", END);

class CountingModel extends BaseChatModel {
  constructor(delay_ms) {
    super({});
    this.delay_ms = delay_ms;
  }
  _llmType() {
    return "counting";
  }
  async _generate() {
    const text = Array.from({ length: TOKENS }, (_, i) => `t${i} `).join("");
    return { generations: [{ text, message: new AIMessage(text) }] };
  }
  async *_streamResponseChunks(_messages, _options, runManager) {
    for (let i = 0; i < TOKENS; i++) {
      const text = `t${i} `;
      if (this.delay_ms > 0) await new Promise((resolve) => setTimeout(resolve, this.delay_ms));
      yield new ChatGenerationChunk({ text, message: new AIMessageChunk(text) });
      await runManager?.handleLLMNewToken(text);
    }
  }
}

export const echo = echoBuilder.compile();
const streaming = (model) =>
  new StateGraph(MessagesAnnotation)
    .addNode("llm", async (state) => ({ messages: [await model.invoke(state.messages)] }))
    .addEdge(START, "llm")
    .addEdge("llm", END)
    .compile();
/** 200 tokens, one every 5 ms; and 200 without any pause. */
export const tokens = streaming(new CountingModel(DELAY_MS));
export const burst = streaming(new CountingModel(0));

/** Compiles `echo` with a saver that keeps live references, to measure checkpoints without serialization. */
export function echoWithSaver() {
  const storedValues = [];
  const serde = {
    dumpsTyped: async (value) => ["ref", new Uint8Array(new Uint32Array([storedValues.push(value) - 1]).buffer)],
    loadsTyped: async (_type, bytes) => storedValues[new Uint32Array(bytes.buffer, bytes.byteOffset, 1)[0]],
  };
  return echoBuilder.compile({ checkpointer: new MemorySaver(serde) });
}
