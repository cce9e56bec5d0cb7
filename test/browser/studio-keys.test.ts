/** Typed text and decisions in the studio are never lost or undone, on a desktop and on a phone. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Locator } from "playwright-core";
import { createGates } from "../support/graphs.ts";
import { until } from "../support/until.ts";
import { deskExecutor } from "./desk-agent.ts";
import { openStudio, type StudioHost, type StudioVisit, studioVisits } from "./studio-host.ts";
import { humanInput } from "./studio-seed.ts";

const visitStudio = studioVisits();
const gates = createGates();
let host: StudioHost;
before(async () => {
  host = await openStudio({ gates, executor: deskExecutor(gates) });
});
after(() => host?.[Symbol.asyncDispose]());

/** Creates a thread whose run has ended or waits. */
async function waiting(content: string, assistant_id = "desk"): Promise<string> {
  const { threads, runs } = host.service;
  const { thread_id } = await threads.create();
  await (await runs.wait(thread_id, { assistant_id, input: humanInput(content) })).result;
  return thread_id;
}

const isIdle = (thread_id: string): Promise<void> =>
  until(async () => (await host.service.threads.get(thread_id)).status === "idle");

/** The pages on which an interrupt is answered. */
const PLACES = { chat: "threads", inbox: "inbox" } as const;

const LONG = "Dear Ann, we are sorry that the parcel arrived broken. Regards, the desk";

/** Types key by key, and fails if the focus or the element changes. */
async function type(visit: StudioVisit, field: Locator, text: string): Promise<void> {
  await field.fill("");
  await field.focus();
  const element = await field.elementHandle();
  await visit.page.keyboard.type(text);
  assert.equal(await element?.evaluate((node) => node === document.activeElement), true, "the field lost the focus");
  assert.equal(await field.inputValue(), text);
}

for (const width of [1440, 390]) {
  const visit = (test: (visit: StudioVisit) => Promise<void>): Promise<void> => visitStudio(host, test, { width });

  describe(`fields and keyboard shortcuts of the studio at ${width} px`, () => {
    it("keep the field of a form while its text grows, and delete nothing", () =>
      visit(async (visit) => {
        const thread_id = await waiting("mail");
        await visit.open(`threads/${thread_id}`);
        const card = visit.page.locator(".interrupt");
        await visit.button("Edit", card).click();
        await type(visit, card.getByLabel("body"), LONG);
        await visit.button("Run with these arguments", card).click();
        await visit.status("idle");
        await visit.page.getByText(`Done: wrote: ${LONG}`).waitFor();
      }));

    it("show no field before the studio knows which one the agent needs", () =>
      visit(async (visit) => {
        const { page } = visit;
        const response = Promise.withResolvers<void>();
        await page.route("**/schemas", async (route) => {
          await response.promise;
          await route.continue();
        });
        await visit.newThread("desk");
        const message = page.getByLabel("Message", { exact: true });
        assert.equal(await message.count(), 0);
        response.resolve();
        await type(visit, message, LONG);
      }));

    it("have no shortcuts in a dialog and in a field", () =>
      visit(async (visit) => {
        const { page } = visit;
        const thread_id = await waiting("pay");
        await visit.open(`threads/${thread_id}`);
        await page.locator(".interrupt").waitFor();
        await visit.button("Context").click();
        const sheet = page.getByRole("dialog", { name: "Context of the next runs" });
        // Text takes no focus, so the keys reach the page.
        await sheet.locator("p").first().click();
        for (const key of ["D", "a", "?", "g", "r"]) await page.keyboard.press(key);
        assert.equal(await page.getByRole("dialog").count(), 1);
        assert.match(page.url(), new RegExp(thread_id));
        await visit.button("Close", sheet).click();
        assert.equal((await host.service.threads.get(thread_id)).status, "interrupted");

        // The form has every kind of field.
        await visit.open("assistants?text=desk");
        await page.locator(".rows a", { hasText: /^desk/ }).click();
        await page.getByLabel("urgent").focus();
        for (const key of ["g", "r", "?"]) await page.keyboard.press(key);
        assert.match(page.url(), /assistants\//);
        assert.equal(await page.getByRole("dialog").count(), 0);
      }));

    it("start the context sheet from the assistant's context, and send the changes", () =>
      visit(async (visit) => {
        const { page } = visit;
        const name = `polite ${width}`;
        const contexts: unknown[] = [];
        page.on("request", (request) => {
          if (request.url().endsWith("/commands")) contexts.push(request.postDataJSON().params.context);
        });
        await host.service.assistants.create({ graph_id: "desk", name, context: { tone: "polite", limit: 50 } });
        await visit.newThread(name);
        await visit.button("Context").click();
        const sheet = page.getByRole("dialog", { name: "Context of the next runs" });
        assert.equal(await sheet.getByLabel("tone").inputValue(), "polite");
        assert.equal(await sheet.getByLabel("limit").inputValue(), "50");
        await visit.button("Use it", sheet).click();
        assert.equal(await visit.button("Context ●").count(), 0, "nothing was changed");

        await visit.button("Context").click();
        await sheet.getByLabel("limit").fill("80");
        await visit.button("Use it", sheet).click();
        await visit.say("hello");
        await visit.status("idle");

        await visit.button("Context ●").click();
        assert.equal(await sheet.getByLabel("tone").inputValue(), "polite");
        assert.equal(await sheet.getByLabel("limit").inputValue(), "80");
        await visit.button("Clear", sheet).click();
        await visit.say("again");
        await visit.shows("hello", "Done:", "again", "Done:");
        await visit.status("idle");
        assert.deepEqual(contexts, [{ limit: 80 }, undefined]);
      }));

    for (const [name, path] of Object.entries(PLACES)) {
      it(`show the form of an ask in the ${name}, and why an answer is invalid`, () =>
        visit(async (visit) => {
          const { page } = visit;
          const card = page.locator(".interrupt");
          const seats = await waiting("book", "seats");
          await visit.open(`${path}/${seats}`);
          assert.equal(await card.getByLabel("bags").inputValue(), "0");
          await card.getByLabel("seat").selectOption("8B");
          await visit.button("JSON", card).click();
          await card.getByLabel("Answer", { exact: true }).fill('{"seat": "9C", "bags": 7}');
          await visit.button("Answer", card).click();
          await card
            .getByRole("alert")
            .filter({ hasText: 'answer.seat must be one of "7A", "8B"; answer.bags' })
            .waitFor();
          await visit.button("Form", card).click();
          await card.getByLabel("seat").selectOption("8B");
          await card.getByLabel("bags").fill("2");
          await visit.button("Answer", card).click();
          await isIdle(seats);
          await visit.open(`threads/${seats}`);
          await visit.shows("book", 'Booked {"seat":"8B","bags":2}.');

          const confirms = await waiting("go", "confirms");
          await visit.open(`${path}/${confirms}`);
          await card.getByRole("checkbox", { name: "Answer" }).check();
          await visit.button("Answer", card).click();
          await isIdle(confirms);
          await visit.open(`threads/${confirms}`);
          await visit.shows("go", "Sure: true.");
        }));
    }

    for (const [name, path] of Object.entries(PLACES)) {
      it(`show in the ${name} that another resume value came first`, () =>
        visit(async (visit) => {
          const { page } = visit;
          const thread_id = await waiting("pay");
          await visit.open(`${path}/${thread_id}`);
          // Another resume value is stored while this one is on its way.
          await page.route("**/commands", async (route) => {
            const resume = { decisions: [{ type: "reject", message: "No" }] };
            await (await host.service.runs.wait(thread_id, { assistant_id: "desk", command: { resume } })).result;
            await route.continue();
          });
          await visit.button("Approve").click();
          await page.locator(".notice.failed", { hasText: "Answer: another answer came first" }).waitFor();
          if (name === "inbox") await page.getByText("It is not waiting any more").waitFor();
          else await page.locator(".interrupt").waitFor({ state: "detached" });
          await visit.open(`threads/${thread_id}`);
          await visit.shows("pay", "Done: No");
          await visit.status("idle");
        }));
    }

    it("confirm before a key deletes a thread", () =>
      visit(async (visit) => {
        const { page } = visit;
        const thread_id = await waiting("hello");
        await visit.open(`threads/${thread_id}`);
        await visit.shows("hello", "Done:");
        const dialog = page.getByRole("dialog", { name: "Delete this thread?" });
        // The page has a sentence beside the field. The space key presses the focused element.
        for (const key of ["D", "e", "a", "r", " "]) await page.keyboard.press(key);
        assert.equal(await dialog.count(), 0);
        await page.keyboard.press("D");
        await visit.button("Cancel", dialog).click();
        assert.match(page.url(), new RegExp(thread_id));
        assert.equal(await page.getByText("Thread deleted").count(), 0);
        await page.keyboard.press("D");
        await visit.button("Delete", dialog).click();
        await page.getByText("Thread deleted").waitFor();
        // Newer notices replace each other, not the one that can undo.
        const otherThread = await waiting("hello");
        await page.locator(`.rows a[href*="${otherThread}"]`).click();
        await page.getByLabel(/^Copy thread id/).evaluate((button) => {
          for (let count = 0; count < 5; count += 1) (button as HTMLElement).click();
        });
        await page.locator(".notice", { hasText: "Copied" }).nth(2).waitFor();
        assert.equal(await page.locator(".notice").count(), 4);
        await visit.button("Undo").click();
        await host.service.threads.get(thread_id);
      }));
  });
}
