import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { testAccounts } from "../suite/kit.ts";
import { openStudio, type StudioVisit, studioVisits } from "./studio-host.ts";

const visitStudio = studioVisits();

/** Opens a new service and a new page. */
async function visit(test: (visit: StudioVisit) => Promise<void>): Promise<void> {
  await using host = await openStudio();
  await visitStudio(host, test);
}

describe("the studio's chat", () => {
  it("streams tokens, and shows the conversation after a reload and the thread in the list", () =>
    visit(async (visit) => {
      const { gates } = visit.host;
      await visit.newThread("gated-chat");
      await visit.say("hello there");
      await gates.reached("token 1");
      await visit.shows("hello there", "You ");
      await visit.status("running");
      gates.open("token 1");
      await gates.reached("token 2");
      await visit.shows("hello there", "You said: ");
      gates.open("token 2", "token 3", "token 4");
      await visit.status("idle");
      await visit.shows("hello there", "You said: hello there");
      await visit.page.reload();
      await visit.shows("hello there", "You said: hello there");
      await visit.page.locator(".list-pane .rows", { hasText: "hello there" }).waitFor();
    }));

  it("stops a run, and resumes an active one after a reload", () =>
    visit(async (visit) => {
      const { gates, service } = visit.host;
      await visit.newThread("gated-chat");
      await visit.say("hello");
      await gates.reached("token 1");
      await visit.shows("hello", "You ");
      await visit.page.reload();
      await visit.shows("hello", "You ");
      await visit.button("Stop").click();
      assert.equal(await gates.stopped("token 1"), "cancelled");
      await visit.status("idle");
      assert.equal((await service.runs.list(visit.thread_id))[0]?.status, "interrupted");
      gates.open("token 1", "token 2", "token 3");
    }));

  it("edits a message, regenerates an answer, and switches between the versions", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.newThread("chat");
      await visit.say("one");
      await visit.status("idle");
      await visit.say("two");
      await visit.shows("one", "You said: one", "two", "You said: two");
      await visit.status("idle");
      const message = (at: number) => page.locator(".message").nth(at);
      await message(2).hover();
      assert.equal(await visit.copied(visit.button("Copy", message(2))), "two");
      await visit.button("Edit", message(2)).click();
      await visit.button("Cancel").click();
      assert.equal(await page.getByLabel("Edit message").count(), 0);
      await visit.button("Edit", message(2)).click();
      await page.getByLabel("Edit message").fill("three");
      await visit.button("Run from here").click();
      await visit.shows("one", "You said: one", "three", "You said: three");
      await visit.status("idle");
      await page.getByText("2/2").waitFor();
      await visit.button("Earlier version").click();
      await visit.shows("one", "You said: one", "two", "You said: two");
      await visit.button("Later version").click();
      await visit.shows("one", "You said: one", "three", "You said: three");
      await message(3).hover();
      await visit.button("Regenerate", message(3)).click();
      await message(3).getByText("2/2").waitFor();
      await visit.shows("one", "You said: one", "three", "You said: three");
    }));

  it("shows an interrupt with its tool call, and continues with the answer", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.newThread("approval");
      await visit.say("book a seat");
      await page.locator(".interrupt", { hasText: "Book seat 7A?" }).waitFor();
      await visit.status("needs an answer");
      await page.getByLabel("Answer", { exact: true }).fill("yes");
      await visit.button("Answer").click();
      await visit.status("idle");
      assert.equal(await page.locator(".interrupt").count(), 0);
      await page.locator(".tool.success", { hasText: "book" }).locator("summary").click();
      await page.locator(".tool", { hasText: "seat 7A is booked" }).waitFor();
    }));

  it("renders no script, no javascript: link and no remote image", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.newThread("tokens");
      await visit.say(
        "<script>alert(1)</script> [link](javascript:alert(1)) <img src=x onerror=alert(1)> ![pixel](https://example.com/pixel.png) ![broken](http://[) ![own](/threads/t/runs/r/join?cancel_on_disconnect=true) ![dot](data:image/gif;base64,R0lGODlhAQABAAAAACw=) **bold**\n\n```js\nlet a = 1;\n```",
      );
      const answer = page.locator(".message.ai .markdown");
      await answer.locator("strong", { hasText: "bold" }).waitFor();
      await visit.status("idle");
      assert.equal(await answer.locator("script, [onerror], a[href^='javascript']").count(), 0);
      assert.match((await answer.textContent()) ?? "", /\[image: pixel\] \[image: broken\] \[image: own\]/);
      assert.deepEqual(
        await answer.locator("img").evaluateAll((all) => all.map((image) => image.getAttribute("alt"))),
        ["dot"],
      );
      assert.equal(await visit.copied(visit.button("Copy", answer)), "let a = 1;");
      await visit.say(`Deep:\n\n${">".repeat(9_000)} deep`);
      await page.locator(".message.ai .plain", { hasText: "> deep" }).waitFor();
      await visit.status("idle");
      await visit.say(`${"_a".repeat(20_000)} long`);
      await page.locator(".message.ai .plain", { hasText: "_a long" }).waitFor();
      await visit.status("idle");
    }));

  it("draws once per frame while tokens arrive, and scrolls with them only if the reader is at the end", () =>
    visit(async (visit) => {
      const { page } = visit;
      interface Counts {
        frames: number;
        draws: number;
      }
      const words = Array.from({ length: 600 }, (_, at) => `word${at}`).join(" ");
      const input = { messages: [{ role: "user", content: words }] };
      const box = page.locator(".conversation");
      const readScroll = () =>
        box.evaluate((element) => [element.scrollTop, element.scrollHeight - element.clientHeight] as const);
      await visit.newThread("tokens");
      await page.evaluate(() => {
        const counted: Counts = { frames: 0, draws: 0 };
        Object.assign(globalThis, { counted });
        const watched = { subtree: true, childList: true, characterData: true };
        new MutationObserver(() => counted.draws++).observe(document.body, watched);
        const frame = (): void => {
          counted.frames++;
          requestAnimationFrame(frame);
        };
        requestAnimationFrame(frame);
      });
      await visit.say(words);
      await visit.status("idle");
      await visit.shows(words, `You said: ${words}`);
      const counts = await page.evaluate(() => (globalThis as unknown as { counted: Counts }).counted);
      assert.ok(counts.draws < counts.frames + 50, JSON.stringify(counts));
      const [top, end] = await readScroll();
      assert.ok(end > 0 && end - top < 2, `${top} of ${end}`);
      await box.evaluate((element) => element.scrollTo(0, 0));
      await visit.host.service.runs.create(visit.thread_id, { assistant_id: "tokens", input });
      await visit.shows(words, `You said: ${words}`, words, `You said: ${words}`);
      assert.equal((await readScroll())[0], 0);
    }));

  it("shows why a run failed, and that a thread was deleted", () =>
    visit(async (visit) => {
      await visit.newThread("failing");
      await visit.say("hi");
      await visit.page.getByRole("alert").filter({ hasText: "boom happened" }).waitFor();
      await visit.host.service.threads.delete(visit.thread_id);
      await visit.page.reload();
      await visit.page.getByText("This thread does not exist").waitFor();
    }));

  it("keeps typed text after a reload", () =>
    visit(async (visit) => {
      const { thread_id } = await visit.host.service.threads.create();
      await visit.open(`threads/${thread_id}`);
      await visit.page.locator(".assistant-bar select").selectOption({ label: "chat" });
      await visit.page.getByLabel("Message", { exact: true }).fill("half a thou");
      await visit.page.reload();
      assert.equal(await visit.page.getByLabel("Message", { exact: true }).inputValue(), "half a thou");
    }));
});

describe("the studio's key prompt", () => {
  it("prompts for a key, shows when it is wrong, returns to the page, and keeps the key in this tab", async () => {
    const { identity, keys } = testAccounts({ keys: { ann: {} } });
    await using host = await openStudio({ identity, auth: { mode: "api_key" } });
    await visitStudio(host, async (visit) => {
      const { page } = visit;
      await visit.open("threads");
      const field = page.getByLabel("API key");
      await field.fill("gr_wrong");
      await visit.button("Continue").click();
      await page.getByText("did not accept the key").waitFor();
      await field.fill(keys["ann"] ?? "");
      await visit.button("Continue").click();
      await page.getByText("No threads yet").waitFor();
      await page.reload();
      await page.getByText("No threads yet").waitFor();
      assert.equal(await page.evaluate(() => JSON.stringify(localStorage)), "{}");
    });
  });
});
