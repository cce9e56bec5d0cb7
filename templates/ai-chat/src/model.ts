import { simulateReadableStream } from "ai";
import { MockLanguageModelV4 } from "ai/test";

/**
 * Stands in for a model and needs no key. For a real one, install its package (npm install @ai-sdk/openai), put its key
 * into .env, and replace this file by:
 *
 *   import { openai } from "@ai-sdk/openai";
 *   export const model = openai("gpt-5-mini");
 */
export const model = new MockLanguageModelV4({
  async doStream({ prompt }) {
    const content = prompt.at(-1)?.content;
    const said = Array.isArray(content) && content[0]?.type === "text" ? content[0].text : "";
    const words = `You said "${said}".`.split(/(?<= )/);
    return {
      stream: simulateReadableStream({
        chunks: [
          { type: "text-start", id: "1" },
          ...words.map((delta) => ({ type: "text-delta" as const, id: "1", delta })),
          { type: "text-end", id: "1" },
          {
            type: "finish",
            finishReason: { unified: "stop", raw: undefined },
            usage: {
              inputTokens: { total: prompt.length, noCache: prompt.length, cacheRead: 0, cacheWrite: 0 },
              outputTokens: { total: words.length, text: words.length, reasoning: 0 },
            },
          },
        ],
      }),
    };
  },
});
