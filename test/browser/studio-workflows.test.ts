import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { until } from "../support/until.ts";
import { openStudio, type StudioHost, type StudioVisit, studioVisits, type VisitOptions } from "./studio-host.ts";
import { humanInput } from "./studio-seed.ts";

const visitStudio = studioVisits();
let host: StudioHost;
before(async () => {
  host = await openStudio();
});
after(() => host?.[Symbol.asyncDispose]());

const visit = (test: (visit: StudioVisit) => Promise<void>, options: VisitOptions = {}): Promise<void> =>
  visitStudio(host, test, options);

async function createThreadWithRun(
  assistant_id: string,
  input: object = humanInput("hello"),
  thread_id?: string,
): Promise<string> {
  const { threads, runs } = host.service;
  const id = thread_id ?? (await threads.create()).thread_id;
  await (await runs.wait(id, { assistant_id, input: input as ReturnType<typeof humanInput> })).result;
  return id;
}

describe("the studio in daily use", () => {
  it("focuses the field in a new thread and after a message, and not after Escape", () =>
    visit(async (visit) => {
      const { page } = visit;
      const isFocused = (): Promise<boolean> =>
        page.getByLabel("Message", { exact: true }).evaluate((box) => box === document.activeElement);
      await visit.open("threads");
      await visit.link("New").click();
      await until(isFocused);
      await visit.choose("chat");
      await visit.say("one");
      await page.waitForURL(/threads\/[0-9a-f-]{36}/);
      await visit.status("idle");
      await until(isFocused);
      await page.keyboard.type("two");
      await visit.button("Send").click();
      await visit.shows("one", "You said: one", "two", "You said: two");
      // Escape would stop an active run.
      await visit.status("idle");
      assert.ok(await isFocused());
      await page.keyboard.press("Escape");
      assert.ok(!(await isFocused()));
      assert.match(page.url(), new RegExp(visit.thread_id));
    }));

  it("closes its menus on Escape, a choice and a click elsewhere", () =>
    visit(
      async (visit) => {
        const { page } = visit;
        const thread_id = await createThreadWithRun("chat");
        await visit.open(`threads/${thread_id}`);
        const open = page.locator("details.menu[open]");
        for (const close of [
          () => page.keyboard.press("Escape"),
          () => visit.button("Copy link").click(),
          () => page.locator(".conversation").click(),
        ]) {
          await page.getByLabel("More actions").click();
          await open.waitFor();
          await close();
          await open.waitFor({ state: "detached" });
          assert.match(page.url(), new RegExp(thread_id));
        }
        const menu = page.locator(".navigation.open");
        for (const close of [() => page.keyboard.press("Escape"), () => page.mouse.click(350, 500)]) {
          await visit.button("Views").click();
          await menu.waitFor();
          await close();
          await menu.waitFor({ state: "detached" });
        }
      },
      { width: 390 },
    ));

  it("shows a new title at once, and not one that was left with Escape", () =>
    visit(async (visit) => {
      const { page } = visit;
      const thread_id = await createThreadWithRun("chat");
      await visit.open(`threads/${thread_id}`);
      const title = page.locator(".detail-pane .title-button");
      const field = page.getByLabel("Title", { exact: true });
      await title.click();
      await field.fill("Never");
      await page.keyboard.press("Escape");
      await title.click();
      await field.fill("Refund");
      await page.keyboard.press("Enter");
      await title.filter({ hasText: "Refund" }).waitFor();
      assert.equal((await host.service.threads.get(thread_id)).metadata["title"], "Refund");
    }));

  it("shows all versions of a message after several edits and regenerations", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.open(`threads/${await createThreadWithRun("chat", humanInput("v1"))}`);
      const versions = page.locator(".branches");
      for (const number of [2, 3]) {
        await visit.button("Edit").click();
        await page.getByLabel("Edit message").fill(`v${number}`);
        await visit.button("Run from here").click();
        await visit.shows(`v${number}`, `You said: v${number}`);
        await versions.filter({ hasText: `${number}/${number}` }).waitFor();
      }
      for (const number of [2, 3]) {
        await visit.button("Regenerate").click();
        await versions
          .filter({ hasText: `${number}/${number}` })
          .nth(number === 3 ? 1 : 0)
          .waitFor();
      }
      for (const text of ["v2", "v1"]) {
        await visit.button("Earlier version").first().click();
        await visit.shows(text, `You said: ${text}`);
      }
    }));

  it("shows long texts in part, and downloads them completely", () =>
    visit(async (visit) => {
      const { page } = visit;
      const text = "long ".repeat(200_000);
      await visit.open(`threads/${await createThreadWithRun("chat", humanInput(text))}`);
      const human = page.locator(".message.human");
      await human.locator(".plain").waitFor();
      assert.equal((await human.locator(".plain").textContent())?.length, 50_000);
      const download = page.waitForEvent("download");
      await visit.button(/download all/, human).click();
      assert.equal(readFileSync(await (await download).path(), "utf8"), text);
    }));

  it("keeps the scroll position: among earlier messages, in a list that changes, and at a linked checkpoint", () =>
    visit(async (visit) => {
      const { page } = visit;
      const messages = Array.from({ length: 200 }, (_, at) => ({
        role: at % 2 ? "assistant" : "user",
        content: `m${at}.`,
      }));
      const thread_id = await createThreadWithRun("chat", { messages });
      for (const number of [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
        await createThreadWithRun("chat", humanInput(`${number}`), thread_id);
      const first = page.locator(".message").first();
      await visit.open(`threads/${thread_id}`);
      const box = page.locator(".conversation");
      await page.locator(".about").last().waitFor();
      await until(() => box.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight < 2));
      await box.evaluate((element) => {
        element.scrollTop = 0;
      });
      const text = await first.locator(":is(.plain, .markdown)").textContent();
      const top = (): Promise<number> =>
        page
          .locator(".message", { hasText: text ?? "" })
          .first()
          .evaluate((element) => element.getBoundingClientRect().top);
      const before = await top();
      await visit.button(/earlier messages/).click();
      await page.waitForFunction(() => document.querySelectorAll(".message").length > 100);
      assert.ok(Math.abs((await top()) - before) < 2, `${before} → ${await top()}`);

      const oldest = (await host.service.threads.history(thread_id, { limit: 100 })).at(-1);
      await visit.open(`threads/${thread_id}?tab=state&checkpoint=${oldest?.checkpoint?.checkpoint_id}`);
      const inSight = (selector: string): Promise<boolean> =>
        page.locator(selector).evaluate((element) => {
          const [bounds, around] = [element, element.closest(".checkpoints") as Element].map((part) =>
            part.getBoundingClientRect(),
          );
          return (
            bounds !== undefined && around !== undefined && bounds.bottom <= around.bottom && bounds.top >= around.top
          );
        });
      await page.locator(".checkpoints a[aria-current]").waitFor();
      await until(() => inSight(".checkpoints a[aria-current]"));

      const [lower, upper] = [
        await createThreadWithRun("chat", humanInput("lower")),
        await createThreadWithRun("chat", humanInput("upper")),
      ];
      await visit.open("threads");
      const at = page.locator(".rows a.at");
      await page.locator(`.rows a[href*="${upper}"]`).waitFor();
      for (const key of ["j", "j"]) await page.keyboard.press(key);
      await at.filter({ hasText: "lower" }).waitFor();
      await createThreadWithRun("chat", humanInput("again"), lower);
      await page.locator(".rows li:first-child", { hasText: "lower" }).waitFor();
      await at.filter({ hasText: "lower" }).waitFor();
    }));

  it("keeps its table of runs when a run is opened minutes later", () =>
    visit(async (visit) => {
      const { page } = visit;
      await createThreadWithRun("chat");
      await page.clock.install();
      await visit.open("runs?since=1");
      await page.locator(".run-table").evaluate((table) => table.setAttribute("data-first", ""));
      await page.clock.fastForward(130_000);
      await page.locator(".rows li a").first().click();
      await page.locator(".time-line").waitFor();
      await page.locator(".run-table[data-first]").waitFor();
    }));

  it("hides deleted rows at once, and shows the times of a cron in its time zone", () =>
    visit(async (visit) => {
      const { page } = visit;
      const { cron_id } = await host.service.crons.create(null, {
        ...{ assistant_id: "chat", schedule: "0 8 3 * *", timezone: "Asia/Tokyo" },
        input: humanInput("good morning"),
      });
      await visit.open(`crons/${cron_id}`);
      await page.locator(".plain-list li").first().waitFor();
      for (const text of await page.locator(".plain-list li").allTextContents()) assert.match(text, /8:00 AM GMT\+9/);
      const row = page.locator(".rows a", { hasText: "on day 3" });
      await visit.button("Delete").click();
      await row.waitFor({ state: "detached" });
      await visit.button("Undo").click();
      await row.waitFor();
    }));

  it("renders what models write: tasks, numbers, other scripts, and an incomplete address", () =>
    visit(
      async (visit) => {
        const { page } = visit;
        const content =
          "- [x] done\n- [ ] open\n\n| n | word |\n|--:|---|\n| 1 | aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa |\n\nשלום עולם.";
        await visit.open(
          `threads/${await createThreadWithRun("chat", {
            messages: [
              { role: "user", content: "x" },
              { role: "assistant", content },
            ],
          })}`,
        );
        const answerMessage = page.locator(".message.ai").first();
        await answerMessage.getByText("☑ done").waitFor();
        await answerMessage.getByText("☐ open").waitFor();
        assert.equal(
          await answerMessage
            .locator("td")
            .first()
            .evaluate((cell) => getComputedStyle(cell).textAlign),
          "right",
        );
        // A long word is not broken letter by letter.
        assert.ok(((await answerMessage.locator("td").nth(1).boundingBox())?.height ?? 99) < 40);
        const gap = await answerMessage.getByText("שלום").evaluate((part) => {
          const range = document.createRange();
          range.selectNodeContents(part);
          return part.getBoundingClientRect().right - range.getBoundingClientRect().right;
        });
        assert.ok(gap < 2, `${gap}`);
        await page.goto(`${host.studio}threads/%E0%A4%A`);
        await page.locator(".list-pane .rows li").first().waitFor({ state: "attached" });
      },
      { width: 390 },
    ));

  it("sends two files with one name", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.newThread("looker");
      const files = ["one", "two"].map((text) => ({
        name: "image.png",
        mimeType: "image/png",
        buffer: Buffer.from(text),
      }));
      await page.locator("input[type=file]").setInputFiles(files);
      await page.locator(".files li").nth(1).waitFor();
      const request = page.waitForRequest("**/commands");
      await visit.button("Send").click();
      const { params } = (await request).postDataJSON();
      const urls = params.input.messages[0].content.map((block: { image_url: { url: string } }) => block.image_url.url);
      assert.deepEqual(
        urls.map((url: string) => Buffer.from(url.split(",")[1] ?? "", "base64").toString()),
        ["one", "two"],
      );
    }));
});
