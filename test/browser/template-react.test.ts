import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type AgentFunction, fromFunctions } from "../../lib/mod.ts";
import { bundleTemplate, openBrowser, openHost } from "./browser.ts";

// As a variable: the types of the template resolve in a generated project only.
const source: string = "../../templates/react/src/agent.ts";

describe("the template react in Chromium", () => {
  it("chats, also after a reload", async () => {
    const script = await bundleTemplate();
    const { agent } = (await import(source)) as { agent: AgentFunction };
    await using host = await openHost(script, () => fromFunctions({ agent }), "/api");
    await using principal = await openBrowser();
    const page = await principal.context.newPage();
    const errors: string[] = [];
    page.on("pageerror", (error) => errors.push(error.message));
    const message = page.getByLabel("Message");
    const lines = page.locator("li");
    await page.goto(host.origin);
    for (const text of ["Hello", "Still there?"]) {
      await message.fill(text);
      await message.press("Enter");
      await lines.getByText(`you said "${text}".`).waitFor();
      await page.getByRole("button", { name: "Send" }).waitFor();
      await page.reload();
      await lines.getByText(`you said "${text}".`).waitFor();
    }
    const all = ["Hello", 'Message 1: you said "Hello".', "Still there?", 'Message 3: you said "Still there?".'];
    assert.deepEqual(await lines.allTextContents(), all);
    assert.equal(await page.getByRole("alert").count(), 0);
    assert.deepEqual(errors, []);
  });

  it("removes the text of a stopped run", async () => {
    const agent: AgentFunction = async function* ({ messages, signal }) {
      const wait = messages.at(-1)?.content === "Wait";
      yield wait ? "Half of " : "All of it";
      if (wait) await new Promise((_, failed) => signal.addEventListener("abort", () => failed(signal.reason)));
    };
    await using host = await openHost(await bundleTemplate(), () => fromFunctions({ agent }), "/api");
    await using principal = await openBrowser();
    const page = await principal.context.newPage();
    const lines = page.locator("li");
    const send = async (text: string): Promise<void> => {
      await page.getByLabel("Message").fill(text);
      await page.getByLabel("Message").press("Enter");
    };
    await page.goto(host.origin);
    await send("Wait");
    await lines.getByText("Half of").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("button", { name: "Send" }).waitFor();
    await send("Go on");
    await lines.getByText("All of it").waitFor();
    await lines.getByText("Half of").waitFor({ state: "detached", timeout: 5000 });
    assert.deepEqual(await lines.allTextContents(), ["Wait", "Go on", "All of it"]);
  });
});
