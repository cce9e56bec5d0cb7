/** The template ai-chat in Chromium: `useChat` of the AI SDK, with agents that wait, interrupt and fail. */
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { type LanguageModel, streamText } from "ai";
import type { Page } from "playwright-core";
import { toModelMessages } from "../../lib/http/endpoints/ai/mod.ts";
import { type AgentFunction, type Executor, type FunctionJob, fromFunctions } from "../../lib/mod.ts";
import { langchainAgents } from "../compat/ai/agents.ts";
import { bundleWithSdk, openBrowser, openHost } from "./browser.ts";
import { openDeployed } from "./deploy.ts";

// As a variable: the types of the template resolve in a generated project only.
const source: string = "../../templates/ai-chat/src/model.ts";
let script: string;
before(async () => {
  script = await bundleWithSdk("../../templates/ai-chat/web/main.tsx");
});

/** Creates an agent that continues when the test opens its gate. */
function gated() {
  const gate = Promise.withResolvers<void>();
  let runs = 0;
  const agent: AgentFunction = async function* ({ messages, signal }: FunctionJob) {
    runs++;
    const lastText = messages.at(-1)?.content;
    if (lastText === "Fail") throw new Error("no model");
    yield `Half of ${lastText}. `;
    const aborted = new Promise((_, failed) => signal.addEventListener("abort", () => failed(signal.reason)));
    await Promise.race([gate.promise, aborted]);
    yield "The rest.";
  };
  return { agent, open: gate.resolve, runs: () => runs };
}

/** Runs LangChain's agent with an approval as the agent of the page. */
function clerk(): Executor {
  const all = langchainAgents();
  return {
    ...all,
    graphs: () => [{ ...all.graphs().find(({ graph_id }) => graph_id === "clerk"), graph_id: "agent" }],
    execute: (job, ...restArgs) => all.execute({ ...job, graph_id: "clerk" }, ...restArgs),
    state: () => all.state?.("clerk") ?? null,
  };
}

class Chat {
  readonly page: Page;
  readonly errors: string[] = [];
  constructor(page: Page) {
    this.page = page;
    page.on("pageerror", (error) => this.errors.push(error.message));
  }
  async say(text: string): Promise<void> {
    await this.page.getByLabel("Message").fill(text);
    await this.page.getByLabel("Message").press("Enter");
  }
  press(name: string): Promise<void> {
    return this.page.getByRole("button", { name }).first().click();
  }
  sees(text: string): Promise<void> {
    return this.page.locator("li").getByText(text).last().waitFor();
  }
  idle(): Promise<void> {
    return this.page.locator("main.idle").waitFor();
  }
  lines(): Promise<string[]> {
    return this.page.locator("li").allTextContents();
  }
}

describe("the template ai-chat in Chromium", () => {
  it("chats, also after a reload, and regenerates an answer", async () => {
    const { model } = (await import(source)) as { model: LanguageModel };
    const agent: AgentFunction = ({ messages, signal }) =>
      streamText({ model, messages: toModelMessages(messages), abortSignal: signal });
    await using host = await openHost(script, () => fromFunctions({ agent }), "/api");
    await using principal = await openBrowser();
    const chat = new Chat(await principal.context.newPage());
    await chat.page.goto(host.origin);
    for (const text of ["Hello", "Still there?"]) {
      await chat.say(text);
      await chat.sees(`You said "${text}".`);
      await chat.idle();
      await chat.page.reload();
      await chat.sees(`You said "${text}".`);
    }
    await chat.idle();
    await chat.press("Again");
    await chat.idle();
    const all = ["Hello", 'You said "Hello".', "Still there?", 'You said "Still there?".'];
    await chat.sees(all[3] as string);
    assert.deepEqual(await chat.lines(), all);
    assert.equal(await chat.page.getByRole("alert").count(), 0);
    assert.deepEqual(chat.errors, []);
  });

  it("continues after a reload in the middle, in two tabs", async () => {
    const { agent, open, runs } = gated();
    await using host = await openHost(script, () => fromFunctions({ agent }), "/api");
    await using principal = await openBrowser();
    const chat = new Chat(await principal.context.newPage());
    await chat.page.goto(host.origin);
    await chat.say("it");
    await chat.sees("Half of it.");
    await chat.page.reload();
    await chat.sees("Half of it.");
    const secondChat = new Chat(await principal.context.newPage());
    await secondChat.page.goto(chat.page.url());
    await secondChat.sees("Half of it.");
    open();
    for (const tab of [chat, secondChat]) {
      await tab.sees("The rest.");
      await tab.idle();
      assert.deepEqual(await tab.lines(), ["it", "Half of it. The rest."]);
    }
    assert.equal(runs(), 1);
  });

  it("stops a run, and shows an error", async () => {
    const { agent } = gated();
    await using host = await openHost(script, () => fromFunctions({ agent }), "/api");
    await using principal = await openBrowser();
    const chat = new Chat(await principal.context.newPage());
    await chat.page.goto(host.origin);
    await chat.say("it");
    await chat.sees("Half of it.");
    await chat.press("Stop");
    await chat.idle();
    const [thread] = (await host.service.threads.search()).items;
    const [run] = await host.service.runs.list(thread?.thread_id as string);
    await (await host.service.runs.join(thread?.thread_id as string, run?.run_id as string)).result;
    assert.equal((await host.service.runs.list(thread?.thread_id as string))[0]?.status, "interrupted");
    await chat.say("Fail");
    await chat.page.getByRole("alert").getByText("no model").waitFor();
  });

  it("shows approvals, two at once, and a tool that needs none", async () => {
    await using host = await openHost(script, clerk, "/api");
    await using principal = await openBrowser();
    const chat = new Chat(await principal.context.newPage());
    await chat.page.goto(host.origin);
    await chat.say("refund lookup mail");
    await chat.page.getByRole("button", { name: "Approve" }).nth(1).waitFor();
    await chat.press("Approve");
    await chat.page.reload();
    await chat.page.getByRole("button", { name: "Approve" }).nth(1).waitFor();
    await chat.press("Approve");
    await chat.page.getByRole("button", { name: "Approve" }).nth(1).waitFor({ state: "detached" });
    await chat.press("Approve");
    await chat.sees("refunded 30");
    await chat.idle();
    await chat.say("refund");
    await chat.press("Reject");
    await chat.sees("output-denied");
    await chat.idle();
    const lines = await chat.lines();
    await chat.page.reload();
    await chat.sees("output-denied");
    await chat.idle();
    assert.deepEqual(await chat.lines(), lines);
    assert.equal(await chat.page.getByRole("alert").count(), 0);
  });

  it("hides a deploy in the middle of an answer", async () => {
    await using app = await openDeployed(script);
    await using principal = await openBrowser();
    const chat = new Chat(await principal.context.newPage());
    try {
      await chat.page.goto(app.origin);
      await chat.say("Hi");
      await chat.sees("Half.");
      await app.deploy();
      await chat.sees("The rest.");
      await chat.idle();
      assert.deepEqual(await chat.lines(), ["Hi", "Half. The rest."]);
      assert.equal(await chat.page.getByRole("alert").count(), 0);
    } finally {
      await chat.page.close();
    }
  });
});
