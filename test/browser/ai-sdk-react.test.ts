/** Pages on `useChat` with features that the template does not use. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type AgentFunction, type FunctionJob, fromFunctions } from "../../lib/mod.ts";
import { bundleWithSdk, openBrowser, openHost } from "./browser.ts";
import { openDeployed } from "./deploy.ts";

const agent: AgentFunction = async function* ({ messages }: FunctionJob) {
  const content = messages.at(-1)?.content;
  yield `Message ${messages.length}: ${typeof content === "string" ? content : JSON.stringify(content)}`;
};

describe("a useChat page in Chromium", () => {
  it("sends a file and edits a message, also after a reload", async () => {
    await using host = await openHost(await bundleWithSdk("ai-page.ts"), () => fromFunctions({ agent }), "/api");
    await using principal = await openBrowser();
    const page = await principal.context.newPage();
    const press = async (name: string, text: string): Promise<void> => {
      await page.getByLabel("Message").fill(text);
      await page.getByRole("button", { name }).click();
    };
    const lines = async (wait: string): Promise<string[]> => {
      await page.locator("li").getByText(wait).last().waitFor();
      await page.locator("main.idle").waitFor();
      return await page.locator("li").allTextContents();
    };
    await page.goto(host.origin);
    await page
      .getByLabel("Files")
      .setInputFiles({ name: "a.png", mimeType: "image/png", buffer: Buffer.from([0, 0, 0]) });
    await press("Send", "Look");
    const answerLines = await lines("Message 1");
    assert.match(answerLines[0] as string, /\[data:image\/png;base64,AAAA\]/);
    assert.match(answerLines[1] as string, /"mime_type":"image\/png"/);
    await page.reload();
    assert.deepEqual(await lines("Message 1"), answerLines);
    await press("Edit", "Instead");
    const edited = ["Instead", "Message 1: Instead"];
    assert.deepEqual(await lines("Message 1: Instead"), edited);
    await page.reload();
    assert.deepEqual(await lines("Message 1: Instead"), edited);
  });

  it("without resumingFetch shows a connection error at a deploy, and continues after a reload", async () => {
    await using app = await openDeployed(await bundleWithSdk("ai-page.ts"));
    await using principal = await openBrowser();
    const page = await principal.context.newPage();
    try {
      await page.goto(app.origin);
      await page.getByLabel("Message").fill("Hi");
      await page.getByRole("button", { name: "Send" }).click();
      await page.locator("li").getByText("Half.").waitFor();
      await app.deploy();
      await page.locator("main.error").waitFor();
      await page.reload();
      await page.locator("li").getByText("The rest.").waitFor();
      await page.locator("main.idle").waitFor();
      // The text of the lost attempt is removed.
      assert.deepEqual(await page.locator("li").allTextContents(), ["Hi", "Half. The rest."]);
    } finally {
      await page.close();
    }
  });
});
