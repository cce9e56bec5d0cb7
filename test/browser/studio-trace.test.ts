/** The studio shows the trace of a run: its spans as a tree, with times, tokens, errors and gaps, also while it is active. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type TestClock, testClock } from "../suite/kit.ts";
import { catchWebhooks } from "../suite/webhook-catcher.ts";
import { advanceUntil, createFaultyStorage, kill } from "../support/faulty.ts";
import { createGates, type Gates } from "../support/graphs.ts";
import { until } from "../support/until.ts";
import { deskExecutor } from "./desk-agent.ts";
import { formatSpanRows, readSpanRows, type SpanRow, spanRow } from "./span-rows.ts";
import { openStudio, type StudioHost, type StudioVisit, studioVisits } from "./studio-host.ts";
import { humanInput } from "./studio-seed.ts";
import { BUSY_SPANS, HOSTILE, tracedExecutor } from "./traced-agents.ts";

const visitStudio = studioVisits();
type Options = Parameters<typeof openStudio>[0];

interface TracedHost extends AsyncDisposable {
  readonly host: StudioHost;
  readonly gates: Gates;
}

async function openTraced(options: Options = {}, executor = tracedExecutor): Promise<TracedHost> {
  const gates = createGates();
  const host = await openStudio({ gates, executor: executor(gates), ...options });
  return { host, gates, [Symbol.asyncDispose]: () => host[Symbol.asyncDispose]() };
}

/** Runs an agent to its end, and returns the id of the run. Nobody follows it. */
async function run({ service }: StudioHost, assistant_id: string, content = "hello", isStateless = false) {
  const thread_id = isStateless ? null : (await service.threads.create()).thread_id;
  const waited = await service.runs.wait(thread_id, { assistant_id, input: humanInput(content) });
  await waited.result.catch(() => {});
  return waited.run.run_id;
}

/** Opens a run and returns the rows of its trace once there is one with the label. */
async function openRun(visit: StudioVisit, run_id: string, label: string): Promise<readonly SpanRow[]> {
  await visit.open(`runs/${run_id}`);
  await spanRow(visit.page, label).first().waitFor();
  return await readSpanRows(visit.page);
}

interface TimedHost extends TracedHost {
  readonly clock: TestClock;
}

async function openTimed(executor = tracedExecutor, options: Options = {}): Promise<TimedHost> {
  const clock = testClock();
  const traced = await openTraced({ environment: clock, ...options }, executor);
  return { ...traced, clock };
}

/** Waits until a run has ended. */
const ended = ({ host, clock }: TimedHost, run_id: string, step_ms = 20): Promise<void> =>
  until(async () => {
    await clock.advance(step_ms);
    return (await host.service.runs.inspect(run_id)).ended_at !== null;
  });

const SIZES = [
  [1440, false],
  [390, true],
] as const;

for (const [width, dark] of SIZES) {
  const visit = (host: StudioHost, test: (visit: StudioVisit) => Promise<void>): Promise<void> =>
    visitStudio(host, test, { width, dark });

  describe(`the trace of a run in the studio at ${width} px`, () => {
    it("shows a tree of an agent with two parallel tools, of which one asks a subagent", async () => {
      await using traced = await openTraced({}, deskExecutor);
      traced.gates.open("lookup", "research");
      const run_id = await run(traced.host, "desk", "lookup research");
      await visit(traced.host, async (visit) => {
        const rows = await openRun(visit, run_id, "agent researcher");
        assert.deepEqual(formatSpanRows(rows).slice(0, 5), [
          "queue",
          "attempt 1",
          "  node model_request",
          "    model DeskModel",
          "  node HumanInTheLoopMiddleware.after_model",
        ]);
        const tools = rows.filter(({ label }) => label.startsWith("tool "));
        assert.deepEqual(tools.map(({ label, level }) => [label, level]).sort(), [
          ["tool lookup", 3],
          ["tool research", 3],
        ]);
        const path = rows.slice(rows.findIndex(({ label }) => label === "tool research")).slice(0, 4);
        assert.deepEqual(formatSpanRows(path), [
          "    tool research",
          "      agent researcher",
          "        node model_request",
          "          model DeskModel",
        ]);
        // Three calls of models with 1,234 tokens each, one of them by the subagent.
        assert.equal(rows.find(({ label }) => label === "attempt 1")?.tokens, "3,702");
        assert.equal(rows.find(({ label }) => label === "tool research")?.tokens, "1,234");
        assert.deepEqual(await visit.accessibility(), []);
      });
    });

    it("shows where an agent waits for an approval, and that the next run goes on from there", async () => {
      await using traced = await openTraced({}, deskExecutor);
      const { service } = traced.host;
      const run_id = await run(traced.host, "desk", "pay");
      const { thread_id } = await service.runs.inspect(run_id);
      const command = { resume: { decisions: [{ type: "approve" }] } };
      const answer = await service.runs.wait(thread_id, { assistant_id: "desk", command });
      await answer.result;
      await visit(traced.host, async (visit) => {
        const label = "node HumanInTheLoopMiddleware.after_model";
        const firstRows = await openRun(visit, run_id, label);
        assert.equal(firstRows.find((row) => row.label === label)?.state, "interrupted");
        assert.ok(!firstRows.some((row) => row.label === "tool pay"));
        assert.ok((await openRun(visit, answer.run.run_id, "tool pay")).every(({ state }) => state === ""));
      });
    });

    it("shows a subagent below the tool task that calls it, with its tokens", async () => {
      await using traced = await openTraced();
      const run_id = await run(traced.host, "planner");
      await visit(traced.host, async (visit) => {
        const rows = await openRun(visit, run_id, "model small");
        const from = rows.findIndex(({ label }) => label === "tool task");
        const [tool, agent] = rows.slice(from);
        const small = rows.find(({ label }) => label === "model small");
        assert.deepEqual([tool?.level, agent?.label, agent?.level], [3, "agent researcher", 4]);
        assert.equal(small?.level, 6);
        assert.equal(small?.tokens, "12");
      });
    });

    it("marks the first token of a streamed call of a model", async () => {
      await using traced = await openTraced();
      const { runs, threads } = traced.host.service;
      const { thread_id } = await threads.create();
      const streamed = await runs.stream(thread_id, {
        ...{ assistant_id: "planner", input: humanInput("go"), stream_mode: ["messages-tuple"] },
      });
      for await (const _ of streamed.frames);
      await visit(traced.host, async (visit) => {
        const rows = await openRun(visit, streamed.run.run_id, "model large");
        const streamedRows = rows.filter(({ notes }) => /first token (?:< 1|\d+) ms/.test(notes));
        assert.ok(
          streamedRows.some(({ label }) => label === "model large"),
          JSON.stringify(rows),
        );
        assert.equal(await visit.page.locator(".first-token").count(), streamedRows.length);
      });
    });

    it("shows the calls of the AI SDK, with the details of a call", async () => {
      await using traced = await openTraced({ traces: { content: "all" } });
      const run_id = await run(traced.host, "sdk", "Is it warm?");
      await visit(traced.host, async (visit) => {
        const { page } = visit;
        const rows = await openRun(visit, run_id, "tool weather");
        assert.deepEqual(formatSpanRows(rows).slice(1), [
          "attempt 1",
          "  model sdk-large",
          "  tool weather",
          "  model sdk-large",
        ]);
        await spanRow(page, "model sdk-large").first().click();
        const details = page.locator(".span-details");
        await details.getByText("10 in, 2 out, 3 read from the cache, 1 for reasoning").waitFor();
        await details.getByText("tool-calls").first().waitFor();
        await details.locator(".json", { hasText: "Is it warm?" }).first().waitFor();
        assert.deepEqual(await visit.accessibility(), []);
        await spanRow(page, "model sdk-large").first().click();
        await details.waitFor({ state: "detached" });
      });
    });

    it("shows which span of a failed run failed, and its error", async () => {
      await using traced = await openTraced({ traces: { content: "all" } });
      const run_id = await run(traced.host, "failing");
      await visit(traced.host, async (visit) => {
        const { page } = visit;
        const rows = await openRun(visit, run_id, "tool pay");
        assert.deepEqual(formatSpanRows(rows).slice(1), ["attempt 1, error", "  tool read", "  tool pay, error"]);
        assert.equal(rows.at(-1)?.notes, "RangeError");
        await spanRow(page, "tool pay").click();
        await page.locator(".span-details .problem", { hasText: "RangeError no such account" }).waitFor();
        assert.deepEqual(await visit.accessibility(), []);
        // The address has the span.
        await page.reload();
        await page.locator(".span-details .problem").waitFor();
      });
    });

    it("takes names, attributes and values as text", async () => {
      await using traced = await openTraced({ traces: { content: "all" } });
      const run_id = await run(traced.host, "hostile");
      await visit(traced.host, async (visit) => {
        const { page } = visit;
        await openRun(visit, run_id, HOSTILE);
        await spanRow(page, HOSTILE).click();
        await page.locator(".span-details dd", { hasText: HOSTILE }).waitFor();
        await visit.atRest();
        assert.equal(await page.locator(".run-body img").count(), 0);
        assert.equal(await page.evaluate(() => Reflect.get(globalThis, "isBroken")), undefined);
      });
    });

    it("shows rows of an active run while it executes", async () => {
      await using traced = await openTraced();
      const { host, gates } = traced;
      const { thread_id } = await host.service.threads.create();
      const { run_id } = await host.service.runs.create(thread_id, { assistant_id: "live", input: humanInput("go") });
      await gates.reached("first");
      await visit(host, async (visit) => {
        const { page } = visit;
        const rows = await openRun(visit, run_id, "tool first");
        assert.deepEqual(formatSpanRows(rows), ["queue", "attempt 1, running", "  tool first, running"]);
        gates.open("first");
        await spanRow(page, "tool second").waitFor();
        assert.deepEqual(formatSpanRows(await readSpanRows(page)).slice(1), [
          "attempt 1, running",
          "  tool first",
          "  tool second, running",
        ]);
        gates.open("second");
        await page.locator(".span-row .state").first().waitFor({ state: "detached" });
        assert.deepEqual(formatSpanRows(await readSpanRows(page)).slice(1), [
          ...["attempt 1", "  tool first", "  tool second"],
        ]);
        await page.locator(".detail-pane > .head .status.success").waitFor();
        assert.deepEqual(visit.refused, []);
      });
    });

    it("moves, folds and opens rows by keyboard", async () => {
      // By the clock of the test no commit is slow, so that there are no further rows.
      await using timed = await openTimed(deskExecutor);
      const { host } = timed;
      timed.gates.open("research");
      const { thread_id } = await host.service.threads.create();
      const input = humanInput("research");
      const { run_id } = await host.service.runs.create(thread_id, { assistant_id: "desk", input });
      await ended(timed, run_id, 1);
      await visit(host, async (visit) => {
        const { page } = visit;
        const all = await openRun(visit, run_id, "agent researcher");
        const focused = (): Promise<string | undefined> =>
          page.evaluate(() => document.activeElement?.querySelector(".label")?.textContent?.trim());
        await spanRow(page, "queue").focus();
        const press = async (...keys: readonly string[]): Promise<void> => {
          for (const key of keys) await page.keyboard.press(key);
        };
        await press("ArrowDown");
        assert.equal(await focused(), "attempt 1");
        await press("ArrowLeft");
        assert.deepEqual(formatSpanRows(await readSpanRows(page)), ["queue", "attempt 1"]);
        await press("ArrowRight", "ArrowRight");
        assert.equal(await focused(), "node model_request");
        // From a leaf to the row above it, which then folds.
        await press("End", "ArrowUp", "ArrowLeft", "ArrowLeft");
        assert.equal((await readSpanRows(page)).length, all.length - 1);
        await press("ArrowUp", "Home");
        assert.equal(await focused(), "queue");
        await press("ArrowDown", "Enter");
        await page.locator(".span-details").waitFor();
        assert.match(page.url(), /[?&]span=[0-9a-f]{16}/);
        // The Tab key leads into the details and not over all rows.
        await press("Enter");
        await page.locator(".span-details").waitFor({ state: "detached" });
        await press("Tab");
        assert.equal(await page.locator(".span-row:focus").count(), 0);
        await visit.button(/^Fold attempt/).click();
        assert.deepEqual(formatSpanRows(await readSpanRows(page)), ["queue", "attempt 1"]);
        await visit.button(/^Unfold attempt/).click();
        await spanRow(page, "agent researcher").waitFor();
      });
    });

    it("says how many spans were left out, and shows the others in parts", async () => {
      await using traced = await openTraced();
      const run_id = await run(traced.host, "busy");
      await visit(traced.host, async (visit) => {
        const { page } = visit;
        await openRun(visit, run_id, "custom part 0");
        const count = (): Promise<number> => page.locator(".span-row").count();
        assert.equal(await count(), 300);
        await page.getByText(/^More spans than a trace keeps: .*\d+ custom.* are left out\.$/).waitFor();
        await visit.button(/^Show more of 2,\d{3} spans$/).click();
        await until(async () => (await count()) === 600);
        assert.ok(BUSY_SPANS > 2_000);
      });
    });

    it("links a node to the state after it, and a model call to the checkpoint that has its messages", async () => {
      await using traced = await openTraced();
      const run_id = await run(traced.host, "planner");
      const { thread_id } = await traced.host.service.runs.inspect(run_id);
      await visit(traced.host, async (visit) => {
        const { page } = visit;
        for (const [label, link] of [
          ["node tools", "State after this step"],
          ["model large", "In the checkpoint"],
        ] as const) {
          await openRun(visit, run_id, label);
          await spanRow(page, label).first().click();
          await visit.link(link).click();
          await page.waitForURL(new RegExp(`threads/${thread_id}\\?tab=state&checkpoint=`));
          await page.locator(".checkpoints [aria-current]").waitFor();
        }
      });
    });
  });
}

const findRow = (rows: readonly SpanRow[], label: string): SpanRow =>
  rows.find((row) => row.label === label) ?? assert.fail(`${label} is not in ${formatSpanRows(rows).join("\n")}`);

describe("the times of a trace in the studio", () => {
  for (const [way, isStateless] of [
    ["on a thread", false],
    ["without a thread", true],
  ] as const) {
    it(`are those of each node, of a run ${way} that nobody follows: 440 ms beside 3.86 s`, async () => {
      await using timed = await openTimed();
      const { host, clock, gates } = timed;
      const { runs, threads, traces } = host.service;
      const thread_id = isStateless ? null : (await threads.create()).thread_id;
      const { run: created } = await runs.wait(thread_id, { assistant_id: "fork", input: humanInput("go") });
      const { run_id } = created;
      await Promise.all([gates.reached("short"), gates.reached("long")]);
      await clock.advance(440);
      const passed = async (node: string): Promise<void> => {
        gates.open(node);
        await until(async () =>
          (await traces.get(null, run_id)).spans.some(({ name, status }) => name === node && status === "ok"),
        );
      };
      await passed("short");
      await clock.advance(3420);
      await passed("long");
      await ended(timed, run_id);
      await visitStudio(
        host,
        async (visit) => {
          const rows = await openRun(visit, run_id, "node short");
          const [short, long] = [findRow(rows, "node short"), findRow(rows, "node long")];
          assert.deepEqual([short.time, long.time], ["440 ms", "3.86 s"]);
          assert.ok(Math.abs(short.width / long.width - 440 / 3860) < 0.02, `${short.width} of ${long.width}`);
        },
        { width: 1440 },
      );
    });
  }

  it("have a gap of fixed width, with its length, for the sleep of a durable function", async () => {
    await using timed = await openTimed(deskExecutor);
    const { host, clock, gates } = timed;
    const { thread_id } = await host.service.threads.create();
    const { run_id } = await host.service.runs.create(thread_id, { assistant_id: "nights", input: humanInput("go") });
    await gates.reached("evening");
    await clock.advance(3000);
    gates.open("evening");
    await clock.advance("12h");
    await gates.reached("morning");
    await clock.advance(1000);
    gates.open("morning");
    await ended(timed, run_id);
    for (const [width] of SIZES)
      await visitStudio(
        host,
        async (visit) => {
          const { page } = visit;
          const rows = await openRun(visit, run_id, "step morning");
          assert.match(findRow(rows, "sleep night").time, /^12 h/);
          const [evening, morning] = [findRow(rows, "step evening"), findRow(rows, "step morning")];
          const ratio = Number.parseFloat(morning.time) / Number.parseFloat(evening.time);
          assert.ok(Math.abs(morning.width / evening.width - ratio) < 0.02, JSON.stringify([evening, morning]));
          const gap = page.locator(".span-head .gap");
          assert.equal(await gap.count(), 1);
          assert.equal(await gap.textContent(), "12 h");
          assert.equal((await gap.boundingBox())?.width, 56);
          await page.getByText(/^Not to scale: suspended (?:11 h 59|12 h 0) min\.$/).waitFor();
          assert.deepEqual(
            rows.filter(({ label }) => label === "attempt 1").map(({ notes }) => notes.startsWith("resumed")),
            [false, true],
          );
          assert.deepEqual(await visit.accessibility(), []);
        },
        { width },
      );
  });

  it("begin before the run that answers a question, with a link to the run that asked", async () => {
    await using timed = await openTimed(deskExecutor);
    const { host, clock } = timed;
    const { runs, threads } = host.service;
    const { thread_id } = await threads.create();
    const { run_id: first_id } = await runs.create(thread_id, { assistant_id: "seats", input: humanInput("book") });
    await ended(timed, first_id);
    await clock.advance("2h");
    const { tasks } = await threads.state(thread_id);
    const [interrupt] = tasks.flatMap(({ interrupts }) => interrupts);
    const command = { resume: { [String(interrupt?.id)]: { seat: "7A", bags: 1 } } };
    const { run_id } = await runs.create(thread_id, { assistant_id: "seats", command });
    await ended(timed, run_id);
    await visitStudio(host, async (visit) => {
      const { page } = visit;
      const ask = findRow(await openRun(visit, run_id, "ask seat"), "ask seat");
      assert.match(ask.notes, /^began (?:2 h 0|1 h 59) min before this run$/);
      assert.equal(ask.start, 0);
      await spanRow(page, "ask seat").click();
      await visit.link(/^…/, page.locator(".span-details")).click();
      await page.waitForURL(new RegExp(`runs/${first_id}`));
      await spanRow(page, "ask seat").waitFor();
    });
  });

  it("have a row for each try of the webhook, after the end of the run", async () => {
    await using catcher = await catchWebhooks();
    await using traced = await openTraced({ webhooks: catcher.webhooks });
    const { runs } = traced.host.service;
    const waited = await runs.wait(null, {
      ...{ assistant_id: "sdk", input: humanInput("Is it warm?"), webhook: catcher.url },
    });
    await waited.result;
    await catcher.next();
    await visitStudio(traced.host, async (visit) => {
      const rows = await openRun(visit, waited.run.run_id, "webhook");
      assert.match(rows.at(-1)?.label ?? "", /^webhook (?:127\.0\.0\.1|localhost)/);
      assert.equal(rows.at(-1)?.notes, "204");
    });
  });

  it("grow while a run sleeps, and end when it goes on", async () => {
    await using timed = await openTimed(deskExecutor);
    const { host, clock, gates } = timed;
    gates.open("evening", "morning");
    const { thread_id } = await host.service.threads.create();
    const { run_id } = await host.service.runs.create(thread_id, { assistant_id: "nights", input: humanInput("go") });
    await clock.advance("1h");
    await visitStudio(host, async (visit) => {
      const { page } = visit;
      const rows = await openRun(visit, run_id, "sleep night");
      assert.equal(findRow(rows, "sleep night").state, "waiting");
      await page.getByText(/^Not to scale: suspended (?:1 h|59 min|60 min)/).waitFor();
      await clock.advance("12h");
      await ended(timed, run_id);
      await spanRow(page, "step morning").waitFor();
      await page.getByText(/^Not to scale: suspended (?:11 h 59|12 h 0) min, queued \d/).waitFor();
    });
  });

  it("are those of the attempt that was lost, and of the next one", async () => {
    const clock = testClock();
    const gates = createGates();
    const first = createFaultyStorage();
    const second = first.share();
    /** Opens a studio whose clock is moved while it stops. */
    const open = async (storage: typeof first.storage): Promise<StudioHost> => {
      const host = await openStudio({ gates, executor: tracedExecutor(gates), storage, environment: clock });
      const stop = async (): Promise<void> => {
        let isStopped = false;
        void host[Symbol.asyncDispose]().then(() => {
          isStopped = true;
        });
        await advanceUntil(clock, () => isStopped);
      };
      return { ...host, [Symbol.asyncDispose]: stop };
    };
    await using killed = await open(first.storage);
    const { thread_id } = await killed.service.threads.create();
    const { run_id } = await killed.service.runs.create(thread_id, {
      ...{ assistant_id: "fragile", input: humanInput("go") },
    });
    await gates.reached("fragile");
    await clock.advance(8_000);
    kill(first);
    await using host = await open(second.storage);
    await advanceUntil(clock, async () => (await host.service.runs.inspect(run_id)).claims > 1);
    gates.open("fragile");
    await advanceUntil(clock, async () => (await host.service.runs.inspect(run_id)).ended_at !== null);
    await visitStudio(host, async (visit) => {
      const rows = await openRun(visit, run_id, "attempt 2");
      assert.deepEqual(
        formatSpanRows(rows).filter((row) => !row.includes("queue")),
        ["attempt 1, lost", "  tool call, lost", "attempt 2", "  tool call"],
      );
      await visit.page.getByText(/^Not to scale: queued /).waitFor();
    });
  });
});

describe("a run without a trace in the studio", () => {
  it("says so, and shows what its checkpoints tell, with links to them", async () => {
    for (const traces of [{ record: "none" }, { record: { sample: 0, failed: true } }] as const) {
      await using traced = await openTraced({ traces }, deskExecutor);
      const run_id = await run(traced.host, "desk", "hello");
      await visitStudio(traced.host, async (visit) => {
        const { page } = visit;
        await visit.open(`runs/${run_id}`);
        const line = page.locator(".time-line li", { hasText: "model_request" });
        await line.waitFor();
        const reason = traces.record === "none" ? "This run has no trace" : "The spans of this run were not kept";
        await page.getByText(reason).waitFor();
        await page.getByText("Its times are taken from checkpoints and events.").waitFor();
        assert.deepEqual(await visit.accessibility(), []);
        await line.locator("a").click();
        await page.waitForURL(/checkpoint=/);
      });
    }
  });

  it("shows the calls that its events tell if a client follows them", async () => {
    await using traced = await openTraced({ traces: { record: "none" } }, deskExecutor);
    const { host, gates } = traced;
    await visitStudio(host, async (visit) => {
      const { page } = visit;
      await visit.newThread("desk");
      await visit.say("lookup");
      await gates.reached("lookup");
      gates.open("lookup");
      await visit.status("idle");
      await visit.link("Run", page.locator(".message.ai").last()).click();
      const lines = page.locator(".time-line li .line-label");
      await lines.filter({ hasText: "lookup" }).waitFor();
      await until(async () => (await lines.allTextContents()).filter((label) => label === "model call").length === 2);
    });
  });

  it("says so once its trace is deleted", async () => {
    await using traced = await openTraced();
    const run_id = await run(traced.host, "failing");
    await traced.host.service.traces.delete(null, run_id);
    await visitStudio(traced.host, async (visit) => {
      await visit.open(`runs/${run_id}`);
      await visit.page.getByText("This run has no trace").waitFor();
    });
  });
});

describe("a stateless run in the studio", () => {
  it("has its trace after it was deleted; an unknown run has none", async () => {
    await using traced = await openTraced({ retention: { stateless_ms: 0 } });
    const { host } = traced;
    const run_id = await run(host, "failing", "hello", true);
    await until(async () => (await host.service.runs.search({})).items.length === 0);
    await visitStudio(host, async (visit) => {
      const rows = await openRun(visit, run_id, "tool pay");
      assert.deepEqual(formatSpanRows(rows).slice(1), ["attempt 1, error", "  tool read", "  tool pay, error"]);
      await visit.page.getByText("The run was deleted. This is its trace.").waitFor();
      await visit.link("failing", visit.page.locator(".run-body")).click();
      await visit.page.waitForURL(/assistants\//);
      await visit.open("runs/019a2f6e-5c11-7a40-9d3e-4b8f21c7e605");
      await visit.page.locator(".problem", { hasText: "Not found" }).waitFor();
    });
  });
});
