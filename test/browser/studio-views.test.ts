import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { until } from "../support/until.ts";
import { openStudio, type StudioVisit, studioVisits } from "./studio-host.ts";
import { humanInput, seed } from "./studio-seed.ts";

const visitStudio = studioVisits();

async function visit(test: (visit: StudioVisit) => Promise<void>): Promise<void> {
  await using host = await openStudio();
  await visitStudio(host, test);
}

describe("the studio's views", () => {
  it("show the states and changes of a thread, fork it and edit it", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      const { done } = await seed(host);
      await visit.open(`threads/${done}`);
      await page.locator(".message.ai").hover();
      await visit.button("State", page.locator(".message.ai")).click();
      const checkpoints = page.locator(".checkpoints a");
      await page.locator(".checkpoints a[aria-current]", { hasText: "model" }).waitFor();
      const { messages } = JSON.parse(await visit.copied(visit.button("Copy JSON")));
      assert.equal(messages.length, 2);
      const list = visit.button(/^messages/);
      await list.click();
      assert.equal(await list.getAttribute("aria-expanded"), "false");
      await visit.button("changes").click();
      await page.locator(".diff .added", { hasText: "You said: hello" }).waitFor();
      const before = await checkpoints.count();
      await checkpoints.nth(1).click();
      await page.waitForURL(/checkpoint=/);
      await visit.button("Fork from here").click();
      await page.waitForFunction((n) => document.querySelectorAll(".checkpoints a").length === n + 1, before);
      await visit.button("Edit values").click();
      await page.getByLabel("Values").fill('{"messages": [{"role": "user", "content": "edited"}]}');
      await visit.button("Save as a new checkpoint").click();
      await page.waitForFunction((n) => document.querySelectorAll(".checkpoints a").length === n + 2, before);
      await visit.button("values").click();
      await page.locator(".json", { hasText: "Copy JSON" }).waitFor();
      await checkpoints.filter({ hasText: "→ model" }).last().click();
      await visit.button("Replay").click();
      await until(async () => (await host.service.runs.list(done)).length === 2);
      await visit.status("idle");
      await visit.shows("hello", "You said: hello");
      await visit.link("State").click();
      await visit.link("Run", page.locator(".detail-pane")).click();
      await page.waitForURL(/\/runs\//);
    }));

  it("read a long history in pages", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      const { threads, runs } = host.service;
      const { thread_id } = await threads.create();
      for (let at = 0; at < 40; at += 1)
        await (await runs.wait(thread_id, { assistant_id: "chat", input: humanInput(`${at}`) })).result;
      const requestedPages: number[] = [];
      page.on("request", (request) => {
        if (request.url().endsWith("/history")) requestedPages.push(request.postDataJSON().limit);
      });
      const showsCheckpoints = async (count: number): Promise<void> => {
        await visit.link("State").click();
        await page.waitForFunction((n) => document.querySelectorAll(".checkpoints a").length === n, count);
      };
      await visit.open(`threads/${thread_id}`);
      await showsCheckpoints(120);
      await visit.link("Chat").click();
      await visit.say("one more");
      await page.getByText("You said: one more").waitFor();
      await visit.status("idle");
      await showsCheckpoints(123);
      assert.equal(requestedPages.shift(), 1000);
      assert.deepEqual([...new Set(requestedPages)], [100]);
    }));

  it("answer an interrupt, and open the next one", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      const { waiting } = await seed(host);
      const second = await host.service.threads.create();
      await (
        await host.service.runs.wait(second.thread_id, { assistant_id: "approval", input: humanInput("another seat") })
      ).result;
      await visit.open("inbox");
      await page.locator(".rows li").nth(1).waitFor();
      // The view reacts at once, because it listens.
      for (const key of ["j", "j", "k", "Enter"]) await page.keyboard.press(key);
      await page.waitForURL(new RegExp(waiting));
      await page.getByLabel("Answer", { exact: true }).fill("yes");
      await visit.button("Answer").click();
      await page.waitForURL(new RegExp(second.thread_id));
      await visit.link("open the thread").click();
      await visit.status("needs an answer");
      // The interrupt was answered a moment ago: this thread no longer waits, and another one does.
      await visit.open(`inbox/${waiting}`);
      await page.getByText("It is not waiting any more").waitFor();
      await visit.link("Next").click();
      await page.getByLabel("Answer", { exact: true }).fill("no");
      await visit.button("Answer").click();
      await page.getByText("Nothing waits for you").waitFor();
    }));

  it("list runs, show one as a time line, and rerun it", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      const { run, done } = await seed(host);
      await visit.open(`runs?thread=${done}`);
      const rows = page.locator(".rows li");
      await rows.first().waitFor();
      assert.equal(await rows.count(), 1);
      await visit.button(/^thread /).click();
      await rows.nth(1).waitFor();
      await visit.button(/^‖? ?interrupted/).click();
      await page.getByText("No run matches").waitFor();
      await visit.button(/^‖? ?interrupted/).click();
      const opened = page.locator(`.rows a[href*="/runs/${run}"]`);
      await opened.click();
      await visit.link("Close").click();
      await page.locator(".detail-pane").waitFor({ state: "detached" });
      await opened.click();
      await page.locator(".span-row", { hasText: /attempt 1.*by [0-9a-f]{8}/ }).waitFor();
      assert.equal(await visit.copied(visit.button(/^Copy run id/)), run);
      const curl = await visit.copied(visit.button("Copy curl"));
      assert.ok(curl.startsWith(`curl -N ${host.origin}/threads/${done}/runs/stream `), curl);
      assert.deepEqual(JSON.parse(/ -d '(.*)'$/.exec(curl)?.[1] ?? "").input, humanInput("hello"));
      await visit.button("output").click();
      await page.locator(".run-body .json").waitFor();
      await visit.button("frames").click();
      await page.locator(".frames button").first().click();
      await page.locator(".frames .json", { hasText: run }).waitFor();
      const leads = async (name: string, to: RegExp): Promise<void> => {
        await visit.link(name, page.locator(".run-body")).click();
        await page.waitForURL(to);
        await visit.open(`runs/${run}`);
      };
      await leads("Thread", new RegExp(`threads/${done}$`));
      await leads("Checkpoint", new RegExp(`threads/${done}\\?tab=state&checkpoint=`));
      await leads("chat", /assistants\//);
      await page.locator(".span-row", { hasText: "node model" }).click();
      await visit.link("State after this step").click();
      await page.waitForURL(/checkpoint=/);
      await visit.open(`runs/${run}`);
      await visit.button("Run again").click();
      await page.waitForURL((url) => /runs\/[0-9a-f-]{36}/.test(url.pathname) && !url.pathname.includes(run));
      await page.locator(".detail-pane > .head .status", { hasText: "success" }).waitFor();
    }));

  it("cancel a run, and roll another one back", () =>
    visit(async (visit) => {
      const { page } = visit;
      const { gates, service } = visit.host;
      const start = async (text: string): Promise<string> => {
        const { thread_id } = await service.threads.create();
        const { run_id } = await service.runs.create(thread_id, { assistant_id: "waiting", input: humanInput(text) });
        await gates.reached(text);
        await visit.open(`runs/${run_id}`);
        return thread_id;
      };
      const cancelled = await start("cancel");
      await visit.button("Cancel").click();
      await page.getByText("Cancelled", { exact: true }).waitFor();
      await page.locator(".detail-pane > .head .status", { hasText: "interrupted" }).waitFor();
      assert.equal((await service.runs.list(cancelled))[0]?.status, "interrupted");
      const undone = await start("roll back");
      await visit.button("Roll back").click();
      await page.waitForURL(/runs$/);
      await until(async () => (await service.runs.list(undone)).length === 0);
    }));

  it("edit an assistant, compare its versions, activate one, and draw the graph", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.open("assistants");
      const names = page.locator(".rows .text span:first-child");
      await names.first().waitFor();
      const toolNames = await names.allTextContents();
      assert.deepEqual(toolNames, toolNames.toSorted());
      await page.locator(".rows a", { hasText: /^chat ?chat/ }).click();
      await page.getByLabel("Description").fill("It repeats");
      await page.getByText("Config and metadata").click();
      await page.getByLabel("Metadata", { exact: true }).fill('{"team": "ops"}');
      await visit.button("Save a new version").click();
      await page.locator(".head", { hasText: "v2" }).waitFor();
      await visit.link("Versions").click();
      await page.locator(".diff", { hasText: "It repeats" }).waitFor();
      // The second version inherits its metadata, so its author is unknown.
      assert.deepEqual(await page.locator("tbody td:nth-child(3)").allTextContents(), ["", "system"]);
      await visit.button("Set latest").click();
      await page.locator(".head", { hasText: "v1" }).waitFor();
      await visit.link("Graph").click();
      await page.locator("svg.graph .node").nth(2).waitFor();
      await page.getByText("Edges as a list").click();
      await page.getByText("start → model").waitFor();
      await visit.link("Schemas").click();
      await page.locator(".json", { hasText: "input_schema" }).waitFor();
      await visit.button("Copy").click();
      await page.getByRole("heading", { name: "chat copy" }).waitFor();
      await visit.link("Try").click();
      await page.waitForURL(/threads\/new\?with=/);
      await visit.say("hi");
      await visit.shows("hi", "You said: hi");
      await page.goBack();
      await visit.button("Delete").click();
      await page.locator(".rows a", { hasText: "chat copy" }).waitFor({ state: "detached" });
      // Leaving the page deletes at once.
      await page.goto("about:blank");
      await visit.open("assistants");
      await page.locator(".rows a", { hasText: "chat" }).first().waitFor();
      assert.equal(await page.locator(".rows a", { hasText: "chat copy" }).count(), 0);
    }));

  it("create a cron, pause it, run it now, and undo its deletion", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      await visit.open("crons");
      await visit.link("New").click();
      await page.getByLabel("Assistant").selectOption({ label: "chat" });
      await page.getByLabel("Schedule").fill("30 9 * * *");
      await page.getByText("At 09:30").waitFor();
      await visit.button("Create").click();
      await visit.button("Pause").click();
      await visit.button("Resume").waitFor();
      await visit.button("Run now").click();
      await page.locator(".detail-pane > .head .status", { hasText: "success" }).waitFor();
      await visit.link("cron", page.locator(".facts")).click();
      await page.getByText("by hand").waitFor();
      await page.locator(".table-box").getByRole("link").click();
      await page.waitForURL(/\/runs\/[0-9a-f-]{36}/);
      await page.goBack();
      await visit.link("Runs", page.locator(".detail-pane")).click();
      await page.locator(".rows li").waitFor();
      await visit.button(/^cron /).click();
      await page.waitForURL((url) => !url.searchParams.has("cron"));
      const { thread_id } = await host.service.threads.create();
      const nightly = { assistant_id: "chat", schedule: "0 3 * * *", input: humanInput("night") };
      const { cron_id } = await host.service.crons.create(thread_id, nightly);
      await visit.open(`crons/${cron_id}`);
      await page.locator(".facts").getByRole("link").click();
      await page.waitForURL(new RegExp(thread_id));
      await host.service.crons.delete(cron_id);
      await visit.open("crons");
      await page.locator(".rows a").first().click();
      await visit.button("Delete").click();
      await visit.button("Undo").click();
      await visit.button("Resume").waitFor();
      assert.equal((await host.service.crons.search({})).items.length, 1);
    }));

  it("put, edit and delete an item", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      await seed(host);
      await visit.open("store");
      await visit.link("Put").click();
      await page.getByLabel("Namespace", { exact: true }).fill('["notes"]');
      await page.getByLabel("Key", { exact: true }).fill("first");
      await page.getByLabel("Value", { exact: true }).fill('{"text": "hello"}');
      await visit.button("Save").click();
      await until(async () => (await host.service.store.get(["notes"], "first")) !== null);
      await visit.link("ada").click();
      await page.waitForFunction(() => document.querySelectorAll(".rows li").length === 1);
      await visit.link("all namespaces").click();
      await page.locator(".rows a", { hasText: "first" }).waitFor();
      await page.locator(".rows a", { hasText: "likes" }).click();
      await visit.button("Edit").click();
      await page.getByLabel("Value", { exact: true }).fill('{"color": "red"}');
      await visit.button("Save").click();
      await visit.button("Show").click();
      await page.locator(".json", { hasText: "red" }).waitFor();
      assert.deepEqual((await host.service.store.get(["users", "ada"], "likes"))?.value, { color: "red" });
      await visit.button("Delete").click();
      await page.getByText("Item deleted").waitFor();
      // Leaving the page deletes at once.
      await page.goto("about:blank");
      await until(async () => (await host.service.store.get(["users", "ada"], "likes")) === null);
    }));

  it("create, copy, use and revoke a feedback link, and show the feedback", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      const { run } = await seed(host);
      await visit.open("feedback?tab=links");
      await page.getByLabel("Run id").fill(run);
      await page.getByLabel("Feedback key").fill("stars");
      const created = await visit.copied(visit.button("Create a link"));
      const row = page.locator("tbody tr", { hasText: "stars" });
      const url = await visit.copied(visit.button("Copy", row));
      assert.equal(url, created);
      const init = { method: "POST", headers: { "content-type": "application/json" } };
      const answer = await fetch(url, { ...init, body: JSON.stringify({ score: 5, comment: "good" }) });
      assert.equal(answer.status, 200);
      await visit.button("Revoke", row).click();
      await row.waitFor({ state: "detached" });
      assert.equal((await fetch(url, { ...init, body: "{}" })).status, 404);
      await page.locator("tbody").getByRole("link").click();
      await page.waitForURL(new RegExp(run));
      await visit.open("feedback?tab=records");
      await page.locator("tbody tr", { hasText: "good" }).waitFor();
      await visit.link("stars").click();
      await visit.button("stars ✕").click();
      await page.waitForURL((url) => !url.searchParams.has("key"));
      await page.locator("tbody a", { hasText: run.slice(-8) }).click();
      await page.waitForURL(new RegExp(run));
    }));

  it("show more feedback links than a page", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      const feedback_keys = Array.from({ length: 50 }, (_, at) => `key ${at}`);
      for (const keys of [feedback_keys, feedback_keys, ["last"]]) {
        const { thread_id } = await host.service.threads.create();
        await host.service.runs.create(thread_id, {
          assistant_id: "chat",
          input: humanInput("hi"),
          feedback_keys: keys,
        });
      }
      await visit.open("feedback?tab=links");
      await page.locator("tbody tr").nth(99).waitFor();
      await visit.button("More").click();
      await page.locator("tbody tr").nth(100).waitFor();
    }));

  it("show the server, and switch the theme", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      await visit.open("server");
      await page.locator(".charts canvas").nth(2).waitFor();
      assert.match(await visit.copied(visit.button("Copy")), new RegExp(`apiUrl: "${host.origin}"`));
      await visit.button("dark").click();
      assert.equal(await page.evaluate(() => document.documentElement.dataset["theme"]), "dark");
      await visit.button("system").click();
      assert.equal(await page.evaluate(() => document.documentElement.dataset["theme"]), undefined);
      const opening = page.waitForEvent("popup");
      await visit.link("OpenAPI").click();
      const opened = await opening;
      assert.equal(opened.url(), `${host.origin}/openapi.json`);
      await opened.close();
    }));
});
