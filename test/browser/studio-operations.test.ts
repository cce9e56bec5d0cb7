import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { catchWebhooks } from "../suite/webhook-catcher.ts";
import { openStudio, studioVisits } from "./studio-host.ts";
import { humanInput } from "./studio-seed.ts";

const visit = studioVisits();

describe("the studio's list of threads", () => {
  it("renames, copies and deletes a thread, and undoes the deletion", async () => {
    await using host = await openStudio();
    const { threads } = host.service;
    await threads.create({ metadata: { title: "Refund" } });
    await visit(host, async (visit) => {
      const { page } = visit;
      const rows = page.locator(".list-pane .rows li");
      const menu = async (name: string): Promise<void> => {
        await page.getByLabel("More actions").click();
        await visit.button(name).click();
      };
      await visit.open("threads");
      await rows.filter({ hasText: "Refund" }).locator("a").click();
      await visit.button("Refund").click();
      await page.getByLabel("Title", { exact: true }).fill("Refund for order 1182");
      await page.keyboard.press("Enter");
      await rows.filter({ hasText: "Refund for order 1182" }).waitFor();
      await menu("Copy thread");
      await page.getByText("Thread copied").waitFor();
      await rows.nth(1).waitFor();
      const copied = visit.thread_id;
      await menu("Delete");
      await page.waitForFunction(() => document.querySelectorAll(".list-pane .rows li").length === 1);
      await visit.button("Undo").click();
      await rows.nth(1).waitFor();
      assert.ok(await threads.get(copied));
      await visit.open(`threads/${copied}`);
      await menu("Delete");
      await page.getByText("Thread deleted").waitFor();
      // Leaving the page deletes at once.
      await page.goto("about:blank");
      await visit.open("threads");
      await page.waitForFunction(() => document.querySelectorAll(".list-pane .rows li").length === 1);
      await page.getByLabel("Status").selectOption({ label: "error" });
      await page.getByText("No thread matches").waitFor();
      await visit.button("Clear the filters").click();
      await rows.first().waitFor();
    });
  });
});

describe("the studio's webhooks and usage", () => {
  it("show the attempts of a delivery, and send it again", async () => {
    await using catcher = await catchWebhooks();
    await using host = await openStudio({ webhooks: catcher.webhooks });
    catcher.fail(1, 500);
    const { thread_id } = await host.service.threads.create();
    await host.service.runs.create(thread_id, { assistant_id: "chat", input: humanInput("hi"), webhook: catcher.url });
    await catcher.next();
    await catcher.next();
    await visit(host, async (visit) => {
      const { page } = visit;
      await visit.open("webhooks");
      await page.locator(".rows a", { hasText: "2 attempts" }).click();
      const attempts = page.locator(".attempts li");
      await attempts.filter({ hasText: "500" }).waitFor();
      await attempts.filter({ hasText: "204" }).waitFor();
      await visit.button("Send again").click();
      await catcher.next();
      await attempts.nth(2).waitFor();
      await page.getByLabel("State").selectOption({ label: "failed" });
      await page.getByText("No delivery matches").waitFor();
      await visit.link("Run", page.locator(".detail-pane")).click();
      await page.waitForURL(/\/runs\//);
      await visit.link("Webhook").click();
      await attempts.nth(2).waitFor();
    });
  });

  it("download usage as CSV", async () => {
    await using host = await openStudio();
    const { thread_id } = await host.service.threads.create();
    await (await host.service.runs.wait(thread_id, { assistant_id: "chat", input: humanInput("hi") })).result;
    await visit(host, async (visit) => {
      await visit.open("usage");
      await visit.page.locator(".chart canvas").waitFor();
      const downloading = visit.page.waitForEvent("download");
      await visit.button("CSV").click();
      const download = await downloading;
      assert.match(download.suggestedFilename(), /^usage-.*\.csv$/);
      assert.ok(readFileSync(await download.path(), "utf8").split("\n").length > 1);
    });
  });
});

describe("the studio and a key that expires", () => {
  it("prompts again, and keeps the page and the typed text", async () => {
    const valid = new Set(["first"]);
    const authenticate = (request: Request): string => {
      const token = request.headers.get("authorization")?.replace("Bearer ", "") ?? "";
      if (!valid.has(token)) throw Object.assign(new Error("The token has expired"), { status: 401 });
      return "ann";
    };
    await using host = await openStudio({ auth: { mode: "custom", custom: { authenticate } } });
    await visit(host, async (visit) => {
      const { page } = visit;
      const give = async (token: string): Promise<void> => {
        await page.getByLabel("Bearer token").fill(token);
        await visit.button("Continue").click();
      };
      await visit.open("threads/new");
      await visit.button("Use a bearer token").click();
      await give("first");
      await visit.choose("chat");
      await visit.say("one");
      await visit.shows("one", "You said: one");
      await visit.status("idle");
      await page.getByLabel("Message", { exact: true }).fill("half a thought");
      valid.clear();
      valid.add("second");
      await page.getByText("did not accept").waitFor();
      if ((await page.getByLabel("Bearer token").count()) === 0) await visit.button("Use a bearer token").click();
      await give("second");
      await visit.shows("one", "You said: one");
      assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "half a thought");
      await visit.button("Send").click();
      await visit.shows("one", "You said: one", "half a thought", "You said: half a thought");
    });
  });
});
