/** Stands in for a model of a provider, such as openai("…"): it needs no key and no network, and repeats what was said. */
import { simulateReadableStream } from "ai";
import { MockLanguageModelV4 } from "ai/test";

export const model = new MockLanguageModelV4({
  async doStream({ prompt }) {
    const content = prompt.at(-1)?.content;
    const said = Array.isArray(content) && content[0]?.type === "text" ? content[0].text : "";
    if (said === "fail") throw new Error("The provider is out of order");
    const reply = `${prompt.map(({ role }) => role).join(", ")}: you said "${said}".`.split(/(?<= )/);
    const words = said === "forever" ? Array<string>(100_000).fill("more ") : reply;
    return {
      stream: simulateReadableStream({
        chunkDelayInMs: 5,
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
