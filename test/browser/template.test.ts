import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type AgentFunction, fromFunctions } from "../../lib/mod.ts";
import { bundleWithSdk, openBrowser, openHost } from "./browser.ts";

const web = "../../templates/react/web/main.tsx";
// As a variable: the types of the template resolve in a generated project only.
const source: string = "../../templates/react/src/agent.ts";

describe("the template react in Chromium", () => {
  it("chats, also after a reload", async () => {
    const script = await bundleWithSdk(web);
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
});
