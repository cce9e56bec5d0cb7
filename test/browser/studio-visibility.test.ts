/** Each part of the studio that a task needs is visible: the buttons of an approval, the wake time of a run, the controls of a state. */
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
  gates.open("lookup", "research", "evening");
  host = await openStudio({ gates, executor: deskExecutor(gates) });
});
after(() => host?.[Symbol.asyncDispose]());

async function createThreadWithRun(content: string, assistant_id = "desk"): Promise<string> {
  const { threads, runs } = host.service;
  const { thread_id } = await threads.create();
  await (await runs.wait(thread_id, { assistant_id, input: humanInput(content) })).result;
  return thread_id;
}

/** Returns the elements that are covered or partly outside the screen after scrolling them into view. */
const outOfSight = (elements: Locator, scroll: boolean): Promise<readonly string[]> =>
  elements.evaluateAll(
    (nodes, scrolls) =>
      nodes.flatMap((node) => {
        // Scrolls up and down only: users do not look for controls beside the screen.
        if (scrolls) node.scrollIntoView({ block: "nearest" });
        for (let box = node.parentElement; scrolls && box; box = box.parentElement) box.scrollLeft = 0;
        const { left, right, top, bottom } = node.getBoundingClientRect();
        const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
        const isOnScreen = left >= 0 && top >= 0 && right <= innerWidth + 0.5 && bottom <= innerHeight + 0.5;
        return isOnScreen && hit && (node.contains(hit) || hit.contains(node)) ? [] : [node.outerHTML.slice(0, 200)];
      }),
    scroll,
  );

const controls = ({ page }: StudioVisit, within: string): Locator =>
  page.locator(`${within} :is(a, button, select, summary, textarea, input):visible`);

for (const width of [1440, 390]) {
  const visit = (test: (visit: StudioVisit) => Promise<void>): Promise<void> => visitStudio(host, test, { width });

  describe(`visible parts of the studio at ${width} px`, () => {
    for (const [name, path, box] of [
      ["chat", "threads", ".conversation"],
      ["inbox", "inbox", ".detail-pane .scroll"],
    ] as const) {
      it(`include the buttons of an approval in the ${name}, with its arguments printed once`, () =>
        visit(async (visit) => {
          const { page } = visit;
          const thread_id = await createThreadWithRun("letter pay");
          await visit.open(`${path}/${thread_id}`);
          const approve = visit.button("Approve");
          await approve.waitFor();
          await visit.atRest();
          assert.deepEqual(await outOfSight(approve, false), [], "at first");
          const scrolled = page.locator(box);
          for (const top of [0, 1e6]) {
            await scrolled.evaluate((node, to) => node.scrollTo(0, to), top);
            assert.deepEqual(await outOfSight(approve, false), [], `scrolled to ${top}`);
          }
          await approve.click();
          await page.getByText("Action 2 of 2").waitFor();
          assert.deepEqual(await outOfSight(approve, false), [], "of the next action");
          const reason = scrolled.getByText(/A parcel that arrived broken/).and(page.locator(":visible"));
          assert.deepEqual(await reason.allTextContents(), ['"A parcel that arrived broken"']);
        }));
    }

    it("include the wake time of a sleeping run", () =>
      visit(async (visit) => {
        const { page } = visit;
        const { threads, runs } = host.service;
        const { thread_id } = await threads.create();
        const { run_id } = await runs.create(thread_id, { assistant_id: "nights", input: humanInput("sleep") });
        await visit.open(`threads/${thread_id}`);
        await page.locator(".conversation", { hasText: /sleeps until \w/ }).waitFor();
        await until(async () => (await runs.list(thread_id))[0]?.status === "pending");
        await visit.open(`runs/${run_id}`);
        await page.locator(".facts", { hasText: /sleeps until \w/ }).waitFor();
        await visit.open(`threads/${thread_id}?tab=runs`);
        await page.locator(".run-table li", { hasText: /sleeps until \w/ }).waitFor();
        await visit.open(`threads/${thread_id}`);
        await visit.button("Stop").click();
        await visit.status("idle");
      }));

    it("include every control of a state", () =>
      visit(async (visit) => {
        const thread_id = await createThreadWithRun("lookup research");
        for (const part of ["values", "changes", "tasks", "metadata"]) {
          await visit.open(`threads/${thread_id}?tab=state&show=${part}`);
          await visit.atRest();
          assert.deepEqual(await outOfSight(controls(visit, ".states"), true), [], part);
        }
        await visit.button("Edit values").click();
        assert.deepEqual(await outOfSight(controls(visit, "dialog"), true), []);
      }));

    it("include the end of each id, which differs", () =>
      visit(async (visit) => {
        const { page } = visit;
        const thread_id = await createThreadWithRun("hello");
        await visit.open(`threads/${thread_id}?tab=state`);
        await visit.atRest();
        const id = page.locator(".states .id");
        const [checkpoint = ""] = ((await id.getAttribute("title")) ?? "").split(" ");
        assert.equal(await id.textContent(), `…${checkpoint.slice(-8)}`);
        await visit.open("runs");
        await page.locator(".run-table .thread", { hasText: thread_id.slice(-8) }).waitFor({ state: "attached" });
      }));

    it("include search results for a filter text without an equals sign", () =>
      visit(async (visit) => {
        const { page } = visit;
        await host.service.threads.create({ metadata: { title: `Invoice of Ann ${width}`, team: "a" } });
        await host.service.threads.create({ metadata: { title: `Parcel of Ann ${width}`, team: "b" } });
        const rows = page.locator(".rows li .title");
        const shows = (...titles: string[]) =>
          until(async () => JSON.stringify((await rows.allTextContents()).sort()) === JSON.stringify(titles));
        await visit.open("threads");
        const filter = page.getByLabel(/key = value/);
        await filter.fill(`ann ${width}`);
        await shows(`Invoice of Ann ${width}`, `Parcel of Ann ${width}`);
        await page.getByLabel("Search titles").fill("invoice");
        await shows(`Invoice of Ann ${width}`);
        await filter.fill("team = b");
        await page.getByLabel("Search titles").fill(`${width}`);
        await shows(`Parcel of Ann ${width}`);

        await host.service.store.put(["notes", `${width}`], "likes", { color: "green" });
        await host.service.store.put(["notes", `${width}`], "hates", { color: "red" });
        await visit.open(`store?namespace=${encodeURIComponent(JSON.stringify(["notes", `${width}`]))}`);
        await page.locator(".rows li", { hasText: "hates" }).waitFor();
        await page.getByLabel(/key = value/).fill("green");
        await page.locator(".rows li", { hasText: "hates" }).waitFor({ state: "detached" });
        await page.locator(".rows li", { hasText: "likes" }).waitFor();
      }));
  });
}
