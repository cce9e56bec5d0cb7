/** The studio shows the steps of durable functions and their waits, and sends events. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fromFunctions } from "../../lib/mod.ts";
import { openStudio, studioVisits } from "./studio-host.ts";
import { humanInput } from "./studio-seed.ts";

const visit = studioVisits();

const executor = fromFunctions({
  async *parcels({ step, wait }) {
    await step("find order", () => ({ order: "A-1", total: 40 }));
    await step(
      "label",
      ({ attempt }) => {
        if (attempt === 1) throw new Error("no paper");
        return "printed";
      },
      { retries: 1, backoff: 1 },
    );
    await step("weigh", () => {
      throw new Error("no scale");
    }).catch(() => {});
    const parcel = await wait(["parcel", 7]);
    yield `Shipped as ${(parcel as { code: string }).code}.`;
  },
  async *sleeper({ sleep }) {
    await sleep("night", "12h");
    yield "Morning.";
  },
  async *asker({ ask, sleep }) {
    await Promise.all([ask("approve", { question: "Refund?" }), sleep("cool off", "2d")]);
    yield "Done.";
  },
  async *both({ ask, sleep }) {
    void sleep("cool off", "30d");
    const [first, second] = await Promise.all([ask("first", "First?"), ask("second", "Second?")]);
    yield `${first} ${second}`;
  },
});

describe("the studio's view of durable functions", () => {
  it("shows the steps of a run, and sends the external event that it waits for", async () => {
    await using host = await openStudio({ executor });
    const { threads, runs } = host.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "parcels", input: humanInput("ship it") });
    await visit(host, async (visit) => {
      const { page } = visit;
      await visit.open(`runs/${run_id}`);
      const steps = page.getByLabel("Steps", { exact: true }).locator("li");
      await steps
        .filter({ hasText: "label · 2 tries" })
        .or(steps.filter({ hasText: "2 tries" }))
        .waitFor();
      await steps.filter({ hasText: "waits for" }).waitFor();
      await steps.filter({ hasText: "find order" }).locator("summary").click();
      await steps.filter({ hasText: "A-1" }).waitFor();
      await steps.filter({ hasText: "weigh" }).locator("summary").click();
      await page.getByText("no scale").waitFor();
      await page.locator(".time-line", { hasText: "find order" }).waitFor();
      await visit.open("threads");
      await page.locator(".rows li", { hasText: "waits for parcel 7" }).waitFor();
      await visit.open(`runs/${run_id}`);
      await page.getByLabel(/^Event/).fill('{ "code": "RX-7" }');
      await visit.button("Send the event").click();
      await page.getByText("Event sent").waitFor();
      await page.locator(".detail-pane .status.success").first().waitFor();
      const { values } = await threads.state(thread_id);
      assert.match(JSON.stringify(values), /Shipped as RX-7/);
    });
  });

  it("shows when a sleeping thread wakes, also beside a pending interrupt", async () => {
    await using host = await openStudio({ executor });
    const { threads, runs } = host.service;
    for (const assistant_id of ["sleeper", "asker"]) {
      const { thread_id } = await threads.create();
      await runs.create(thread_id, { assistant_id, input: humanInput(assistant_id) });
    }
    await visit(host, async (visit) => {
      const { page } = visit;
      await visit.open("threads");
      await page.locator(".rows li", { hasText: "sleeps until" }).waitFor();
      await visit.open("inbox");
      await page.locator(".rows li", { hasText: "sleeps until" }).waitFor();
    });
  });

  it("lists two pending asks in the inbox, and answers them in either order", async () => {
    await using host = await openStudio({ executor });
    const { threads, runs } = host.service;
    await visit(host, async (visit) => {
      const { page } = visit;
      for (const order of [
        ["First?", "Second?"],
        ["Second?", "First?"],
      ] as const) {
        const { thread_id } = await threads.create();
        await (await runs.wait(thread_id, { assistant_id: "both", input: humanInput("both") })).result;
        await visit.open("inbox");
        await page.locator(".rows li", { hasText: "2 questions" }).waitFor();
        await visit.open(`inbox/${thread_id}`);
        for (const question of order) {
          const card = page.locator(".interrupt", { hasText: question });
          await card.getByLabel("Answer", { exact: true }).fill(`${question}!`);
          await visit.button("Answer", card).click();
        }
        await page.getByText("Answered", { exact: true }).first().waitFor();
        await visit.open(`threads/${thread_id}`);
        await visit.status("idle");
        assert.match(JSON.stringify((await threads.state(thread_id)).values), /First\?! Second\?!/);
      }
    });
  });
});
