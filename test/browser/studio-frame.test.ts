import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { until } from "../support/until.ts";
import { openStudio, type StudioHost, type StudioVisit, studioVisits, type VisitOptions } from "./studio-host.ts";

const visitStudio = studioVisits();
let host: StudioHost;
before(async () => {
  host = await openStudio();
});
after(() => host?.[Symbol.asyncDispose]());

const visit = (test: (visit: StudioVisit) => Promise<void>, options: VisitOptions = {}, at = host): Promise<void> =>
  visitStudio(at, test, options);

const VIEWS = ["Threads", "Inbox", "Runs", "Assistants", "Crons", "Store", "Webhooks", "Usage", "Feedback", "Server"];

describe("the studio's frame", () => {
  it("links to each view and back to the threads", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.open("threads");
      for (const name of VIEWS) {
        await page.getByRole("navigation", { name: "Views" }).getByText(name, { exact: true }).click();
        await page.locator("main h1", { hasText: name }).waitFor();
        assert.ok(new URL(page.url()).pathname.endsWith(`/studio/${name.toLowerCase()}`));
      }
      await visit.link("Greenroom").click();
      await page.waitForURL(/threads$/);
    }));

  it("shows one pane on a phone, with the views in a menu and a back button", () =>
    visit(
      async (visit) => {
        const { page } = visit;
        const { thread_id } = await host.service.threads.create({ metadata: { title: "On the phone" } });
        await visit.open("runs");
        const threads = page.getByRole("link", { name: "Threads" });
        assert.equal(await threads.isVisible(), false);
        await visit.button("Views").click();
        await threads.click();
        await threads.waitFor({ state: "hidden" });
        await page.locator(".rows a", { hasText: "On the phone" }).click();
        await page.locator(".list-pane").waitFor({ state: "hidden" });
        await visit.link("Back to the list").click();
        await page.locator(".rows a", { hasText: "On the phone" }).waitFor();
        const run = await host.service.runs.create(thread_id, { assistant_id: "agent", input: {} });
        await visit.open(`runs/${run.run_id}`);
        await visit.link("Back to the list").click();
        await page.locator(".run-table").waitFor();
      },
      { width: 390 },
    ));

  it("shows an error with a reload button at an address that does not exist", () =>
    visit(async (visit) => {
      const { page } = visit;
      await page.goto(`${host.studio}nowhere`);
      await page.getByText("There is no such view").waitFor();
      const loading = page.waitForEvent("load");
      await visit.button("Reload the page").click();
      await loading;
    }));

  it("retries failed requests, and closes its notices and its help", () =>
    visit(async (visit) => {
      const { page } = visit;
      let isBroken = true;
      await page.route("**/greenroom/webhooks?*", (route) =>
        isBroken ? route.fulfill({ status: 500, body: '{"detail":"Out of order"}' }) : route.continue(),
      );
      await visit.open("webhooks");
      await page.getByRole("alert").filter({ hasText: "Out of order" }).waitFor();
      isBroken = false;
      await visit.button("Try again").click();
      await page.getByText("No deliveries yet").waitFor();
      const { thread_id } = await host.service.threads.create();
      await visit.open(`threads/${thread_id}`);
      assert.equal(await visit.copied(visit.button(/^Copy thread id/)), thread_id);
      await page.route("**/copy", (route) => route.fulfill({ status: 500, body: '{"detail":"Out of order"}' }));
      await page.getByLabel("More actions").click();
      await visit.button("Copy thread").click();
      const notice = page.locator(".notice", { hasText: "Copy: Out of order" });
      await visit.button("Close", notice).click();
      await notice.waitFor({ state: "detached" });
      await page.keyboard.press("?");
      const help = page.getByRole("dialog", { name: "Keyboard" });
      await visit.button("Close", help).click();
      await help.waitFor({ state: "detached" });
    }));

  it("accepts a key in the server view, uses it, and forgets it", async () => {
    const used: string[] = [];
    await visit(async (visit) => {
      const { page } = visit;
      page.on("request", (request) => used.push(request.headers()["x-api-key"] ?? ""));
      await visit.open("server");
      await visit.button("Use a key").click();
      await page.getByLabel("API key").fill("gr_any");
      await visit.button("Continue").click();
      await until(() => used.at(-1) === "gr_any");
      await visit.button("Forget the key").click();
      await visit.button("Use a key").waitFor();
      await until(() => used.at(-1) === "");
      assert.equal(await page.evaluate(() => sessionStorage.length), 0);
    }, {});
  });
});

describe("the studio's threads", () => {
  it("can be started in three places, and are found by text and metadata", async () => {
    await using empty = await openStudio();
    await visit(
      async (visit) => {
        const { page } = visit;
        for (const name of ["Start one", "New", "start one"]) {
          await visit.open("threads");
          await visit.link(name).click();
          await page.waitForURL(/threads\/new/);
        }
        const { thread_id } = await empty.service.threads.create({ metadata: { title: "Refund", order: 1182 } });
        await empty.service.threads.create({ metadata: { title: "Weather" } });
        const rows = page.locator(".rows li");
        await visit.open("threads");
        await rows.nth(1).waitFor();
        await page.getByLabel("key = value").fill("order = 1182");
        await page.waitForFunction(() => document.querySelectorAll(".rows li").length === 1);
        await page.getByLabel("key = value").fill("");
        await rows.nth(1).waitFor();
        await page.getByLabel("Search titles").fill("refu");
        await page.waitForFunction(() => document.querySelectorAll(".rows li").length === 1);
        await rows.locator("a").click();
        await page.getByLabel("More actions").click();
        assert.match(await visit.copied(visit.button("Copy link")), new RegExp(`/studio/threads/${thread_id}`));
      },
      {},
      empty,
    );
  });

  it("pass a context to their next runs", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.newThread("tell");
      await visit.button("Context").click();
      await page.getByLabel("Context", { exact: true }).fill('{"color": "green"}');
      await visit.button("Use it").click();
      await visit.button("Context ●").waitFor();
      await visit.say("hi");
      await visit.status("idle");
      await visit.button("Raw JSON").click();
      await page.locator(".json", { hasText: 'context: { color }color: "green"' }).waitFor();
      await visit.button("Context ●").click();
      await visit.button("Clear").click();
      await visit.button("Context").waitFor();
    }));
});
