import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Page } from "playwright-core";
import { openStudio, type StudioHost, type StudioVisit, studioVisits } from "./studio-host.ts";
import { humanInput } from "./studio-seed.ts";

const visitStudio = studioVisits();
let host: StudioHost;
before(async () => {
  host = await openStudio();
});
after(() => host?.[Symbol.asyncDispose]());

const visit = (test: (visit: StudioVisit) => Promise<void>): Promise<void> => visitStudio(host, test);

/** Creates a thread whose run has ended or waits. */
async function createThreadWithRun(assistant_id: string, content = "hello"): Promise<string> {
  const { threads, runs } = host.service;
  const { thread_id } = await threads.create();
  await (await runs.wait(thread_id, { assistant_id, input: humanInput(content) })).result;
  return thread_id;
}

/** Makes the server refuse requests to a path. Returns a function that ends this. */
async function refuse(page: Page, path: string): Promise<() => Promise<void>> {
  await page.route(path, (route) =>
    route.request().method() === "GET"
      ? route.fallback()
      : route.fulfill({ status: 500, body: '{"detail":"Out of order"}' }),
  );
  return () => page.unroute(path);
}

const inStore = (namespace: readonly string[]): string => encodeURIComponent(JSON.stringify(namespace));

describe("typed text in the studio", () => {
  it("is kept in a new thread after a reload and another view, with its context", () =>
    visit(async (visit) => {
      const { page } = visit;
      const message = page.getByLabel("Message", { exact: true });
      await visit.newThread("tell");
      await message.fill("half a question");
      await visit.button("Context").click();
      await page.getByLabel("Context", { exact: true }).fill('{"color": "green"');
      await visit.button("Use it").click();
      assert.equal(await page.getByRole("dialog").count(), 1, "what is not JSON is not taken");
      await page.getByLabel("Context", { exact: true }).fill('{"color": "green"}');
      await visit.button("Use it").click();
      await page.reload();
      await visit.button("Context ●").waitFor();
      assert.equal(await message.inputValue(), "half a question");
      await page.locator(".role, .conversation").first().click();
      await page.keyboard.press("g");
      await page.keyboard.press("r");
      await page.waitForURL(/runs$/);
      await page.goBack();
      await message.waitFor();
      assert.equal(await message.inputValue(), "half a question");
      await visit.button("Send").click();
      await visit.status("idle");
      await visit.open("threads/new");
      assert.equal(await message.inputValue(), "");
    }));

  it("is kept in the form of an agent", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.newThread("report");
      const city = page.getByLabel(/^city/);
      await city.fill("Oslo");
      await page.reload();
      await city.waitFor();
      assert.equal(await city.inputValue(), "Oslo");
      await city.press("Control+Enter");
      await page.locator(".json", { hasText: "days in Oslo" }).waitFor();
    }));

  it("is kept in an edited message that is refused", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.open(`threads/${await createThreadWithRun("chat")}`);
      await visit.shows("hello", "You said: hello");
      await visit.button("Edit").waitFor({ state: "attached" });
      await page.keyboard.press("e");
      const box = page.getByLabel("Edit message");
      await box.fill("edited at length");
      const end = await refuse(page, "**/commands");
      await visit.button("Run from here").click();
      await page.locator(".notice", { hasText: "Edit: Out of order" }).waitFor();
      assert.equal(await box.inputValue(), "edited at length");
      await end();
      await visit.button("Run from here").click();
      await visit.shows("edited at length", "You said: edited at length");
    }));

  it("is kept in resume values that are refused, and after a reload", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.open(`threads/${await createThreadWithRun("drinks")}`);
      const answer = page.getByLabel("Answer", { exact: true });
      await answer.fill("a cup of cocoa");
      const end = await refuse(page, "**/commands");
      await visit.button("Answer").click();
      await page.locator(".notice", { hasText: "Answer: Out of order" }).waitFor();
      assert.equal(await answer.inputValue(), "a cup of cocoa");
      await page.reload();
      await answer.waitFor();
      assert.equal(await answer.inputValue(), "a cup of cocoa");
      await end();
      // This sends the resume value and not the message below it.
      await answer.press("Control+Enter");
      await page.getByText("Brewed: a cup of cocoa").waitFor();

      await visit.open(`threads/${await createThreadWithRun("review")}`);
      await visit.button("Edit", page.locator(".interrupt")).click();
      const args = page.getByLabel("Arguments of refund");
      await args.fill('{"euros": 31');
      await visit.button("Run with these arguments").click();
      await page.getByText("Action 1 of 3").waitFor();
      await page.reload();
      await args.waitFor();
      assert.equal(await args.inputValue(), '{"euros": 31');
      await args.fill('{"euros": 31}');
      await visit.button("Run with these arguments").click();
      await page.getByText("Action 2 of 3").waitFor();
    }));

  it("is kept in an edited state until it is saved, while a run ends elsewhere", () =>
    visit(async (visit) => {
      const { page } = visit;
      const thread_id = await createThreadWithRun("chat");
      await visit.open(`threads/${thread_id}?tab=state`);
      await visit.button("Edit values").click();
      const values = page.getByLabel("Values", { exact: true });
      await values.fill('{"messages": "typed"}');
      const steps = await page.locator(".checkpoints a").count();
      const input = humanInput("again");
      await (await host.service.runs.wait(thread_id, { assistant_id: "chat", input })).result;
      await page.waitForFunction((count) => document.querySelectorAll(".checkpoints a").length > count, steps);
      assert.equal(await values.inputValue(), '{"messages": "typed"}');
      await page.keyboard.press("Escape");
      await visit.button("Edit values").click();
      assert.match(await values.inputValue(), /typed/);
      await visit.button("Save as a new checkpoint").click();
      await values.waitFor({ state: "detached" });
      const { values: saved } = await host.service.threads.state(thread_id);
      assert.match(JSON.stringify(saved), /typed/);
    }));

  it("is kept in an assistant's form across tabs and a reload, and can be discarded", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.open("assistants?text=tell");
      await page.locator(".rows a", { hasText: /^tell ?tell/ }).click();
      const description = page.getByLabel("Description");
      await description.fill("It tells");
      await visit.link("Versions").click();
      await visit.link("Settings").click();
      assert.equal(await description.inputValue(), "It tells");
      const summary = page.getByText("Config and metadata");
      await summary.click();
      await page.getByLabel("Metadata", { exact: true }).fill('{"team": ');
      await page.reload();
      await description.waitFor();
      assert.equal(await description.inputValue(), "It tells");
      // The field that blocks the form opens.
      await visit.button("Save a new version").click();
      await page.getByText("Not JSON").waitFor();
      await page.locator(".head", { hasText: "v1" }).waitFor();
      await visit.button("Discard changes").click();
      assert.equal(await description.inputValue(), "");
      assert.match(await page.getByLabel("Metadata", { exact: true }).inputValue(), /created_by/);
      assert.equal(await visit.button("Discard changes").count(), 0);
    }));

  it("is kept in a new cron and in a store item, and is never saved partly", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.open("crons/new");
      await page.getByLabel("Schedule").fill("*/7 * * * *");
      await page.reload();
      await page.getByText("every 7 minutes").waitFor();
      // A second click sends nothing while the first request is active.
      await page.getByLabel("Assistant").selectOption({ label: "chat" });
      const requests: string[] = [];
      await page.route("**/runs/crons", async (route) => {
        requests.push(route.request().method());
        await page.locator(".under-way").waitFor({ state: "attached" });
        await route.continue();
      });
      await visit.button("Create").dblclick();
      await page.getByText("Cron created").waitFor();
      assert.deepEqual(requests, ["POST"]);

      await host.service.store.put(["users"], "new", { n: 1 });
      await visit.open("store");
      await page.locator(".rows a", { hasText: /^new/ }).click();
      await visit.button("Edit").click();
      const value = page.getByLabel("Value", { exact: true });
      await value.fill('{"n": 2');
      await visit.button("Save").click();
      assert.deepEqual((await host.service.store.get(["users"], "new"))?.value, { n: 1 });
      await value.fill('{"n": 2}');
      const end = await refuse(page, "**/store/items");
      await visit.button("Save").click();
      await page.locator(".notice", { hasText: "Save: Out of order" }).waitFor();
      await end();
      await visit.open(`store/new?of=${inStore(["users"])}`);
      await visit.button("Edit").click();
      assert.match(await value.inputValue(), /2/);
      await visit.button("Save").click();
      await page.getByText("Saved", { exact: true }).waitFor();
      assert.deepEqual((await host.service.store.get(["users"], "new"))?.value, { n: 2 });
    }));

  it("is restored if the person enters no key", async () => {
    await using locked = await openStudio();
    await visitStudio(locked, async (visit) => {
      const { page } = visit;
      await visit.newThread("chat");
      await visit.say("one");
      await visit.status("idle");
      let isLocked = true;
      await page.route("**/commands", (route) =>
        isLocked ? route.fulfill({ status: 401, body: '{"detail":"No key"}' }) : route.fallback(),
      );
      const message = page.getByLabel("Message", { exact: true });
      await visit.say("two");
      const prompt = page.getByRole("dialog");
      await visit.button("Close", prompt).click();
      await page.locator(".notice", { hasText: "Send: This server needs a key" }).waitFor();
      assert.equal(await message.inputValue(), "two");
      assert.equal(await prompt.count(), 0);
      isLocked = false;
      await visit.button("Send").click();
      await visit.shows("one", "You said: one", "two", "You said: two");
    });
  });
});
