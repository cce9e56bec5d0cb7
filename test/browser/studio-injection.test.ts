import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { openStudio, type StudioHost, studioVisits } from "./studio-host.ts";

const visitStudio = studioVisits();
let host: StudioHost;
before(async () => {
  host = await openStudio();
});
after(() => host?.[Symbol.asyncDispose]());

/** Creates a thread with these messages. */
async function createThreadWithMessages(messages: readonly unknown[]): Promise<string> {
  const { thread_id } = await host.service.threads.create({ metadata: { graph_id: "caller" } });
  const values = { messages } as never;
  await host.service.threads.updateState(thread_id, { values, as_node: "model" });
  return thread_id;
}

const filled = (text: string, length = 49_000): string => text.repeat(Math.ceil(length / text.length)).slice(0, length);

/** Markdown that could keep the parser, the sanitizer or the layout busy for seconds. */
const HOSTILE: Readonly<Record<string, string>> = {
  deletions: filled("~a~~\n"),
  emphasis: filled("*_"),
  "crossed emphasis": filled("**a*\n"),
  brackets: filled("[a](*"),
  stars: filled("****\n"),
  rules: filled("---\n"),
  "a long word": filled("a"),
  gaps: `a${filled(" ")}b`,
  "nested lists": `${filled("* ")}x`,
  "nested quotes": filled(">"),
  "a list of nothing": filled("-\n"),
  "a wide table": `|${"a|".repeat(500)}\n|${"-|".repeat(500)}\n${filled("|\n")}`,
  tables: filled("|a|\n|-|\n\n"),
  tags: filled("<ul><li>"),
  links: `<div>${filled("<a href=#><div>")}`,
};

describe("the studio's chat with hostile messages", () => {
  it("shows Markdown as text if it would take too long", () =>
    visitStudio(host, async (visit) => {
      for (const [name, text] of Object.entries(HOSTILE)) {
        await visit.open(`threads/${await createThreadWithMessages([{ type: "ai", content: text, id: "m" }])}`);
        const answerText = visit.page.locator(".message.ai .plain");
        await answerText.waitFor().catch((error: Error) => assert.fail(`${name}: ${error.message}`));
        assert.equal(await answerText.textContent(), text.slice(0, 50_000), name);
      }
    }));

  it("shows long Markdown of people and models", () =>
    visitStudio(host, async (visit) => {
      const { page } = visit;
      const texts = {
        strong: filled("Some **bold** text, a [link](http://a.b) and `code`, *more* of it.\n\n", 45_000),
        td: `|a|b|c|d|\n|-|-|-|-|\n${filled("| one | two | three | four |\n", 20_000)}`,
        li: filled("- an item with `code` and a [link](http://a.b)\n", 20_000),
        "pre code": `\`\`\`ts\n${filled("const a = [b](c) ** d_e_f;\n", 45_000)}\n\`\`\``,
      };
      for (const [tag, text] of Object.entries(texts)) {
        await visit.open(`threads/${await createThreadWithMessages([{ type: "ai", content: text, id: "m" }])}`);
        await page.locator(`.markdown ${tag}`).first().waitFor();
      }
    }));

  it("excludes elements that are not part of a message", () =>
    visitStudio(host, async (visit) => {
      const { page } = visit;
      const nothing = { additional_kwargs: null, response_metadata: null, usage_metadata: null, tool_calls: null };
      const messages = [
        null,
        { type: "human", content: "one", id: "1" },
        { type: "ai", content: [null, "two", { type: "text", text: null }, 7, { text: "x" }], id: "2", ...nothing },
        { type: "ai", content: null, id: "3", tool_calls: [null, { id: "c", name: "weather", args: null }] },
        { type: "tool", content: [null], id: "4", tool_call_id: "c" },
        { role: "assistant", content: { five: 5 }, id: null },
        {
          type: "ai",
          content: [
            { type: "image", source: null, metadata: null },
            { type: "image_url", image_url: null },
          ],
        },
      ];
      // The server refuses some of these. Other servers and older states have them.
      const thread_id = await createThreadWithMessages([{ type: "human", content: "one", id: "1" }]);
      await page.route(/\/state(?:\?|$)/, async (route) => {
        const response = await route.fetch();
        const state = await response.json();
        await route.fulfill({ response, json: { ...state, values: { messages } } });
      });
      await visit.open(`threads/${thread_id}`);
      await visit.shows("one", "two", '{"five":5}');
      await page.locator(".tool", { hasText: "weather" }).locator("summary").click();
      assert.deepEqual(await page.locator(".message").count(), 5);
    }));
});
