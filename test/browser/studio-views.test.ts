import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { until } from "../support/until.ts";
import { openBrowser, type Principal } from "./browser.ts";
import { openStudio, type StudioHost, type StudioVisit, visitStudio } from "./studio-host.ts";

let principal: Principal | undefined;
before(async () => {
  principal = await openBrowser();
});
after(() => principal?.[Symbol.asyncDispose]());

async function visit(test: (visit: StudioVisit) => Promise<void>): Promise<void> {
  await using host = await openStudio();
  await visitStudio((principal as Principal).context, host, test);
}

interface Seeded {
  readonly waiting: string;
  readonly done: string;
  readonly run: string;
  readonly cron: string;
}

const said = (content: string) => ({ messages: [{ role: "user", content }] });

/** A thread that waits, one that is done, a run, a cron and an item. */
async function seed({ service }: StudioHost): Promise<Seeded> {
  const { threads, runs, crons, store } = service;
  const { thread_id: waiting } = await threads.create();
  await (await runs.wait(waiting, { assistant_id: "approval", input: said("book a seat") })).result;
  const { thread_id: done } = await threads.create({ metadata: { title: "The done one" } });
  const started = await runs.wait(done, { assistant_id: "chat", input: said("hello"), feedback_keys: ["helpful"] });
  await started.result;
  const { cron_id } = await crons.create(null, {
    assistant_id: "chat",
    schedule: "0 8 * * 1-5",
    input: said("good morning"),
  });
  await store.put(["users", "ada"], "likes", { color: "green" });
  const [run] = await runs.list(done);
  return { waiting, done, run: run?.run_id ?? "", cron: cron_id };
}

describe("the studio's views", () => {
  it("show the states of a thread and what changed, fork, and edit", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      const { done } = await seed(host);
      await visit.open(`threads/${done}?tab=state`);
      await visit.button("changes").click();
      await page.locator(".diff .added", { hasText: "You said: hello" }).waitFor();
      const checkpoints = page.locator(".checkpoints a");
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
    }));

  it("answer what waits, and open the next one", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      const { waiting } = await seed(host);
      const second = await host.service.threads.create();
      await (await host.service.runs.wait(second.thread_id, { assistant_id: "approval", input: said("another seat") }))
        .result;
      await visit.open("inbox");
      await page.locator(".rows li").nth(1).waitFor();
      await page.keyboard.press("j");
      await page.locator(".rows a.at").waitFor();
      await page.keyboard.press("Enter");
      await page.waitForURL(new RegExp(waiting));
      await page.getByLabel("Answer", { exact: true }).fill("yes");
      await visit.button("Answer").click();
      await page.waitForURL(new RegExp(second.thread_id));
      await page.getByLabel("Answer", { exact: true }).fill("no");
      await visit.button("Answer").click();
      await page.getByText("Nothing waits for you").waitFor();
    }));

  it("list runs, show one as a time line, and start it again", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      const { run } = await seed(host);
      await visit.open("runs");
      await page.locator(`a[href$="/runs/${run}"]`).click();
      await page.locator(".time-line", { hasText: "execution" }).waitFor();
      await visit.button("output").click();
      await page.locator(".run-body .json").waitFor();
      await visit.button("frames").click();
      await page.locator(".frames li").first().waitFor();
      await visit.button("Run again").click();
      await page.waitForURL((url) => /runs\/[0-9a-f-]{36}/.test(url.pathname) && !url.pathname.includes(run));
      await page.locator(".detail-pane > .head .status", { hasText: "success" }).waitFor();
    }));

  it("edit an assistant, compare its versions, set one active, and draw the graph", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.open("assistants");
      await page.locator(".rows a", { hasText: "chat" }).last().click();
      await page.getByLabel("Description").fill("It repeats");
      await visit.button("Save a new version").click();
      await page.locator(".head", { hasText: "v2" }).waitFor();
      await visit.link("Versions").click();
      await page.locator(".diff", { hasText: "It repeats" }).waitFor();
      await visit.button("Set latest").click();
      await page.locator(".head", { hasText: "v1" }).waitFor();
      await visit.link("Graph").click();
      await page.locator("svg.graph .node").nth(2).waitFor();
      await visit.link("Schemas").click();
      await page.locator(".json", { hasText: "input_schema" }).waitFor();
    }));

  it("create a cron, pause it, run it now, and take back its deletion", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      await visit.open("crons/new");
      await page.getByLabel("Assistant").selectOption({ label: "chat" });
      await page.getByLabel("Schedule").fill("30 9 * * *");
      await page.getByText("every day at 09:30").waitFor();
      await visit.button("Create").click();
      await visit.button("Pause").click();
      await visit.button("Resume").waitFor();
      await visit.button("Run now").click();
      await page.locator(".detail-pane > .head .status", { hasText: "success" }).waitFor();
      await visit.open("crons");
      await page.locator(".rows a").first().click();
      await page.getByText("by hand").waitFor();
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
      await visit.link("ada").click();
      await page.locator(".rows a", { hasText: "likes" }).click();
      await visit.button("Edit").click();
      await page.getByLabel("Value", { exact: true }).fill('{"color": "red"}');
      await visit.button("Save").click();
      await visit.button("Show").click();
      await page.locator(".json", { hasText: "red" }).waitFor();
      assert.deepEqual((await host.service.store.get(["users", "ada"], "likes"))?.value, { color: "red" });
      await visit.button("Delete").click();
      await page.getByText("Item deleted").waitFor();
      await page.waitForFunction(() => !document.querySelector(".notice"));
      assert.equal(await host.service.store.get(["users", "ada"], "likes"), null);
    }));

  it("chart usage and feedback, and revoke a link", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      await seed(host);
      await visit.open("usage");
      await page.locator(".chart canvas").waitFor();
      await visit.open("feedback?tab=links");
      await visit.button("Revoke").click();
      await page.getByText("No links").waitFor();
      await visit.open("server");
      await page.locator(".charts canvas").nth(2).waitFor();
      await visit.button("dark").click();
      assert.equal(await page.evaluate(() => document.documentElement.dataset["theme"]), "dark");
      await visit.button("system").click();
    }));
});

describe("the studio everywhere", () => {
  const places = ({ waiting, done, run, cron }: Seeded): readonly string[] => [
    ...["threads", "threads/new", `threads/${done}`, `threads/${waiting}`, `threads/${done}?tab=state&show=changes`],
    ...[`threads/${done}?tab=runs`, "inbox", `inbox/${waiting}`, "runs", `runs/${run}`, "assistants", "crons"],
    ...["crons/new", `crons/${cron}`, "store", "webhooks", "usage", "feedback", "feedback?tab=links", "server"],
  ];

  for (const [width, dark] of [
    [1400, false],
    [390, true],
  ] as const) {
    it(`is accessible and needs no sideways scrolling at ${width} px`, async () => {
      await using host = await openStudio({ prefix: "/agents" });
      const seeded = await seed(host);
      await visitStudio(
        (principal as Principal).context,
        host,
        async (visit) => {
          const found: string[] = [];
          for (const path of places(seeded)) {
            await visit.open(path);
            await visit.page.waitForFunction(() => !document.querySelector(".skeleton"));
            for (const problem of await visit.accessibility()) found.push(`${path} ${problem}`);
            const isWide = await visit.page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
            if (isWide) found.push(`${path} scrolls sideways`);
          }
          assert.deepEqual(found, []);
        },
        { width, dark },
      );
    });
  }

  it("lists its shortcuts, and follows them", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.open("threads");
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
      await page.keyboard.press("Escape");
      await page.keyboard.press("g");
      await page.keyboard.press("s");
      await page.waitForURL(/studio\/store$/);
      await page.getByPlaceholder("Search items").waitFor();
      // A view listens to its keys once it is painted.
      await until(async () => {
        await page.keyboard.press("/");
        return await page.evaluate(() => document.activeElement?.getAttribute("type") === "search");
      });
    }));
});
