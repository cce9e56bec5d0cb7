/** The studio shows the times of a run: of its nodes, its waits and a regenerated answer. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type TestClock, testClock } from "../suite/kit.ts";
import { createGates, type Gates } from "../support/graphs.ts";
import { until } from "../support/until.ts";
import { deskExecutor } from "./desk-agent.ts";
import { readSpanRows, type SpanRow, spanRow } from "./span-rows.ts";
import { openStudio, type StudioHost, type StudioVisit, studioVisits } from "./studio-host.ts";
import { humanInput } from "./studio-seed.ts";

const visitStudio = studioVisits();

interface TimedHost extends AsyncDisposable {
  readonly host: StudioHost;
  readonly clock: TestClock;
  readonly gates: Gates;
}

/** Opens a studio whose server has a manual clock. */
async function openTimed(): Promise<TimedHost> {
  const gates = createGates();
  const clock = testClock();
  const host = await openStudio({ gates, executor: deskExecutor(gates), environment: clock });
  return { host, clock, gates, [Symbol.asyncDispose]: () => host[Symbol.asyncDispose]() };
}

/** Starts a run as the chat does, with all events recorded. */
async function start({ origin, service }: StudioHost, assistant_id: string, text: string) {
  const { thread_id } = await service.threads.create();
  const params = { assistant_id, input: humanInput(text) };
  const response = await fetch(`${origin}/threads/${thread_id}/commands`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ id: 1, method: "run.start", params }),
  });
  const { result } = (await response.json()) as { readonly result: { readonly run_id: string } };
  return result.run_id;
}

/** Waits until a run has ended or is interrupted. */
const ended = ({ host, clock }: TimedHost, run_id: string): Promise<void> =>
  until(async () => {
    await clock.advance(20);
    return (await host.service.runs.inspect(run_id)).ended_at !== null;
  });

/** Reads the rows of a run's trace once it has `count` of them with the label. */
async function bars({ page }: StudioVisit, label: string, count = 1): Promise<readonly SpanRow[]> {
  await spanRow(page, label)
    .nth(count - 1)
    .waitFor();
  return await readSpanRows(page);
}

const readWidths = (shownBars: readonly SpanRow[], label: RegExp): readonly number[] =>
  shownBars.filter((bar) => label.test(bar.label)).map(({ width }) => 100 * width);

for (const width of [1440, 390]) {
  const visit = (host: StudioHost, test: (visit: StudioVisit) => Promise<void>): Promise<void> =>
    visitStudio(host, test, { width });

  describe(`times of a run in the studio at ${width} px`, () => {
    it("show the duration of two parallel nodes", async () => {
      await using timed = await openTimed();
      const { host, clock, gates } = timed;
      const run_id = await start(host, "desk", "lookup research");
      await gates.reached("research");
      gates.open("lookup");
      await clock.advance("3s");
      gates.open("research");
      await ended(timed, run_id);
      await visit(host, async (visit) => {
        await visit.open(`runs/${run_id}`);
        const shownBars = await bars(visit, "model DeskModel", 3);
        const [short = 0, long = 0] = [...readWidths(shownBars, /^node tools$/)].sort((a, b) => a - b);
        assert.ok(short < long / 2, `${short} % and ${long} %`);
        // Three model calls: two of the agent and one of its subagent.
        const models = readWidths(shownBars, /^model DeskModel$/);
        assert.equal(models.length, 3);
        assert.ok(
          models.every((model) => model < long / 2),
          models.join(),
        );
      });
    });

    it("shorten a sleep of twelve hours", async () => {
      await using timed = await openTimed();
      const { host, clock, gates } = timed;
      const run_id = await start(host, "nights", "sleep");
      await gates.reached("evening");
      await clock.advance(3000);
      gates.open("evening");
      await clock.advance("12h");
      await gates.reached("morning");
      await clock.advance(3000);
      gates.open("morning");
      await ended(timed, run_id);
      await visit(host, async (visit) => {
        await visit.open(`runs/${run_id}`);
        const shownBars = await bars(visit, "step morning");
        for (const label of [/evening/, /morning/]) {
          const [step = 0] = readWidths(shownBars, label);
          assert.ok(step > 20, JSON.stringify(shownBars));
        }
        const [sleep = 0] = readWidths(shownBars, /sleep night/);
        assert.ok(sleep < 25, JSON.stringify(shownBars));
        assert.match(shownBars.find(({ label }) => label === "sleep night")?.time ?? "", /12 h/);
        assert.ok(
          readWidths(shownBars, /^attempt/).every((attempt) => attempt < 60),
          JSON.stringify(shownBars),
        );
      });
    });

    it("end the time line of a run with the run, although its interrupt is pending", async () => {
      await using timed = await openTimed();
      const { host, clock } = timed;
      const run_id = await start(host, "seats", "book");
      await ended(timed, run_id);
      await clock.advance("3d");
      await visit(host, async (visit) => {
        await visit.open(`runs/${run_id}`);
        const shownBars = await bars(visit, "ask seat");
        const [attempt = 0] = readWidths(shownBars, /^attempt/);
        assert.ok(attempt > 50, JSON.stringify(shownBars));
      });
    });

    it("show the tokens and the run of a regenerated answer, and not those of the one before", async () => {
      await using host = await openStudio({ executor: deskExecutor(createGates()) });
      await visit(host, async (visit) => {
        const { page } = visit;
        await visit.newThread("desk");
        await visit.say("hello");
        await visit.shows("hello", "Done:");
        const about = page.locator(".message.ai .about");
        await about.filter({ hasText: "1,200 in, 34 out" }).waitFor();
        await visit.button("Regenerate").click();
        await page.getByText("2/2").waitFor();
        await visit.status("idle");
        await visit.atRest();
        const { items } = await host.service.runs.search({ thread_id: visit.thread_id });
        assert.equal(items.length, 2);
        assert.match((await about.textContent()) ?? "", /^1,200 in, 34 out/);
        const [newest] = items;
        assert.match((await about.locator("a").getAttribute("href")) ?? "", new RegExp(newest?.run_id ?? "-"));
        const { duration_ms = 0 } = newest ?? {};
        const time = Number(duration_ms) < 1000 ? `${Math.round(Number(duration_ms))} ms` : " s";
        assert.ok((await about.textContent())?.includes(time), time);
        await visit.button("Earlier version").click();
        await page.getByText("1/2").waitFor();
        await visit.atRest();
        assert.match((await about.textContent()) ?? "", /^1,200 in, 34 out/);
      });
    });
  });
}
