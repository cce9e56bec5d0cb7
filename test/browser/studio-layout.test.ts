import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Locator } from "playwright-core";
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

async function createThreadWithRun(assistant_id: string, content = "hello", options = {}): Promise<string> {
  const { threads, runs } = host.service;
  const { thread_id } = await threads.create();
  await (await runs.wait(thread_id, { assistant_id, input: humanInput(content), ...options })).result;
  return thread_id;
}

interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

const overlap = (first: Box, second: Box): boolean =>
  first.x < second.x + second.width &&
  second.x < first.x + first.width &&
  first.y < second.y + second.height &&
  second.y < first.y + first.height;

async function readBox(part: Locator): Promise<Box> {
  return (await part.boundingBox()) ?? assert.fail(`${part} is not shown`);
}

describe("the studio's layout", () => {
  for (const width of [390, 800, 1280, 1600]) {
    it(`shows notices beside the send buttons, at ${width} px`, () =>
      visit(
        async (visit) => {
          const { page } = visit;
          await visit.open(`threads/${await createThreadWithRun("chat")}`);
          const send = visit.button("Send");
          const notice = page.locator(".notice", { hasText: "Copied link" });
          await page.getByLabel("More actions").click();
          await visit.button("Copy link").click();
          await notice.waitFor();
          for (const text of ["short", "many\nlines\n".repeat(20)]) {
            await page.getByLabel("Message", { exact: true }).fill(text);
            assert.ok(!overlap(await readBox(notice), await readBox(send)));
          }
          // The buttons of an interrupt are tested too.
          await visit.open(`threads/${await createThreadWithRun("clerk", "refund")}`);
          await page.getByLabel("More actions").click();
          await visit.button("Copy link").click();
          for (const name of ["Approve", "Edit", "Reject"])
            assert.ok(!overlap(await readBox(notice), await readBox(visit.button(name, page.locator(".interrupt")))));
        },
        { width },
      ));

    it(`has no overlapping elements while a message is edited, at ${width} px`, () =>
      visit(
        async (visit) => {
          const { page } = visit;
          await visit.open(`threads/${await createThreadWithRun("chat", "A long message to edit. ".repeat(20))}`);
          const message = page.locator(".message.human");
          await message.hover();
          const actions = await readBox(message.locator(".message-actions"));
          assert.ok(!overlap(actions, await readBox(message.locator(".plain"))), "the buttons lie on the text");
          await visit.button("Edit", message).click();
          const parts = message.locator(":is(button, textarea)");
          await message.locator("textarea").waitFor();
          const boxes = await Promise.all((await parts.all()).map(readBox));
          assert.ok(boxes.length >= 3);
          for (const [at, box] of boxes.entries())
            for (const laterBox of boxes.slice(at + 1))
              assert.ok(!overlap(box, laterBox), JSON.stringify([box, laterBox]));
        },
        { width },
      ));
  }

  it("cuts nothing off at 390 px: approvals, forms, sheets and an active run", () =>
    visit(
      async (visit) => {
        const { page } = visit;
        const inSight = async (what: string): Promise<void> => {
          const cut = await page.evaluate(() =>
            [...document.querySelectorAll("button, input, textarea, select, .status, summary, a")]
              .filter((element) => !element.closest(".navigation, .rows, .tool"))
              .filter((element) => {
                const { left, right, width } = element.getBoundingClientRect();
                return width > 0 && (left < 0 || right > innerWidth || element.scrollWidth > element.clientWidth + 1);
              })
              .filter(
                (element) =>
                  getComputedStyle(element).textOverflow !== "ellipsis" &&
                  getComputedStyle(element).display !== "inline",
              )
              .map((element) => element.outerHTML.slice(0, 160)),
          );
          assert.deepEqual(cut, [], what);
        };
        await visit.open(`threads/${await createThreadWithRun("clerk", "refund close")}`);
        await visit.button("Edit").first().waitFor();
        await inSight("an approval");
        await visit.button("Edit", page.locator(".interrupt")).click();
        await inSight("its arguments");
        await visit.button("Back").click();
        await visit.button("Reject", page.locator(".interrupt")).click();
        await inSight("a reason");
        await visit.button("Context").click();
        await page.getByRole("dialog").waitFor();
        await inSight("the context");
        await visit.open(`threads/${await createThreadWithRun("survey")}`);
        await page.getByLabel("bags").waitFor();
        await inSight("a form");
        await visit.newThread("waiting");
        await visit.say("narrow");
        await host.gates.reached("narrow");
        await visit.status("running");
        await inSight("a run");
        await visit.button("Stop").click();
        await visit.status("idle");
        await visit.open(`threads/${visit.thread_id}?tab=state`);
        await visit.button("Edit values").click();
        await page.getByRole("dialog").waitFor();
        await inSight("a state");
      },
      { width: 390 },
    ));
});

describe("the studio's store", () => {
  for (const width of [1440, 390])
    it(`breaks long names of namespaces at ${width} px`, async () => {
      await using longHost = await openStudio();
      const labels = ["n".repeat(120), `${"m".repeat(80)} end`];
      await longHost.service.store.put(labels, "k".repeat(120), { v: 1 });
      await visitStudio(
        longHost,
        async (visit) => {
          const { page } = visit;
          await visit.open("store");
          await page.locator(".namespaces a", { hasText: "mmm" }).waitFor();
          const findWide = (): Promise<readonly string[]> =>
            page.evaluate(() =>
              [...document.querySelectorAll(".namespaces, .detail-pane, .detail-pane *, body")]
                .filter(({ scrollWidth, clientWidth }) => clientWidth > 0 && scrollWidth > clientWidth + 1)
                .filter((element) => getComputedStyle(element).textOverflow !== "ellipsis")
                .map(({ tagName, className }) => `${tagName}.${className}`),
            );
          assert.deepEqual(await findWide(), []);
          await page.locator(".rows a").first().click();
          await page.locator(".facts code", { hasText: "end" }).waitFor();
          assert.deepEqual(await findWide(), []);
        },
        { width },
      );
    });
});

describe("the studio's display of runs", () => {
  it("sends no request that is refused for a new thread", () =>
    visit(async (visit) => {
      await visit.newThread("chat");
      await visit.say("hello");
      await visit.shows("hello", "You said: hello");
      await visit.status("idle");
      await visit.atRest();
      assert.deepEqual(visit.refused, []);
    }));

  it("does not show a stopped thread as waiting", async () => {
    await using emptyHost = await openStudio();
    await visitStudio(emptyHost, async (visit) => {
      const { page } = visit;
      const { threads, runs } = emptyHost.service;
      const { thread_id } = await threads.create();
      const { run_id } = await runs.create(thread_id, { assistant_id: "report", input: { city: "Bergen" } });
      await emptyHost.gates.reached("Bergen");
      await runs.cancel(thread_id, run_id);
      await emptyHost.gates.stopped("Bergen");
      await until(async () => (await threads.get(thread_id)).status === "interrupted");
      await visit.open("threads");
      await page.locator('.rows a .status.interrupted[title="interrupted"]').waitFor();
      await visit.atRest();
      assert.equal(await page.locator(".navigation .badge").count(), 0);
      const waiting = await threads.create();
      await (await runs.wait(waiting.thread_id, { assistant_id: "approval", input: humanInput("book") })).result;
      await page.reload();
      await page.locator(".navigation .badge", { hasText: /^1$/ }).waitFor();
      await page.locator('.rows a .status[title="needs an answer"]').waitFor();
    });
  });

  it("shows the same number of runs with tokens and cost in each view", async () => {
    await using emptyHost = await openStudio();
    await visitStudio(
      emptyHost,
      async (visit) => {
        const { page } = visit;
        const { threads, runs } = emptyHost.service;
        const { thread_id } = await threads.create();
        await (await runs.wait(thread_id, { assistant_id: "spender", input: humanInput("go") })).result;
        // The run has not started, so it has no usage.
        const later = await threads.create();
        await runs.create(later.thread_id, { assistant_id: "spender", input: humanInput("go"), after_seconds: 3600 });
        await visit.open("usage");
        const figures = page.locator(".figures div");
        await page.locator("td.number").waitFor();
        await visit.atRest();
        assert.deepEqual(await figures.allInnerTexts(), [
          "1\nruns",
          "1,200\ntokens in",
          "34\ntokens out",
          "$0.250\ncost",
        ]);
        assert.deepEqual(await page.locator("td.number").allInnerTexts(), ["1"]);
        const totals = ["1,234", "$0.250"];
        const [run] = await runs.list(thread_id);
        for (const path of ["runs?status=success", `threads/${thread_id}?tab=runs`]) {
          await visit.open(path);
          for (const text of totals) await page.locator(".run-table li .cost", { hasText: text }).waitFor();
        }
        await visit.open(`runs/${run?.run_id}`);
        const facts = page.locator(".facts");
        await facts.getByText("1,200 in, 34 out").waitFor();
        await facts.getByText("$0.250").waitFor();
      },
      { width: 1280 },
    );
  });

  it("keeps the time of a tool after its run, a reload and another thread", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.newThread("clerk");
      await visit.say("lookup");
      await visit.status("idle");
      const times = page.locator(".tool.success summary", { hasText: /\d m?s$/ });
      await times.waitFor();
      await visit.say("close");
      await visit.button("Edit", page.locator(".interrupt")).click();
      await visit.button("Run with these arguments").click();
      await visit.status("idle");
      await times.nth(1).waitFor();
      const { thread_id } = visit;
      await page.reload();
      await times.nth(1).waitFor();
      await visit.open(`threads/${await createThreadWithRun("clerk", "lookup")}`);
      await page.locator(".tool.success").waitFor();
      await visit.open(`threads/${thread_id}`);
      await times.nth(1).waitFor();
    }));
});
