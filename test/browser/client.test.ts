import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { fromFunctions } from "../../lib/mod.ts";
import { bundleWithSdk, openBrowser, openHost, type Principal } from "./browser.ts";

const createExecutor = () =>
  fromFunctions({
    echo: ({ messages }) => `You said ${messages.at(-1)?.content}`,
    review: ({ command, interrupt }) =>
      command?.resume === undefined ? interrupt({ question: "Sure?" }) : { answer: command.resume },
    fails() {
      throw new TypeError("Boom");
    },
  });

describe("greenroom/client in Chromium", () => {
  let principal: Principal | undefined;
  before(async () => {
    principal = await openBrowser();
  });
  after(() => principal?.[Symbol.asyncDispose]());

  it("runs, streams, starts and resumes agents, and throws RunFailed and errors of HTTP", async () => {
    assert.ok(principal);
    await using host = await openHost(await bundleWithSdk("./client-page.ts"), createExecutor);
    const page = await principal.context.newPage();
    const errors: string[] = [];
    page.on("pageerror", (error) => errors.push(error.message));
    await page.goto(host.origin);
    await page.locator("#root").filter({ hasText: "{" }).waitFor();
    assert.deepEqual(errors, []);
    assert.deepEqual(JSON.parse((await page.locator("#root").textContent()) ?? ""), {
      text: "You said Hi",
      modes: ["values", "messages-tuple", "values"],
      streamed: "success",
      waits: ["waiting", { question: "Sure?" }],
      answer: "yes",
      failure: { name: "RunFailed", status: "error" },
      refusal: { status: 404 },
    });
    await page.close();
  });
});
