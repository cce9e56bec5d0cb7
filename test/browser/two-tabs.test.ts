/** Two tabs of the stock `useStream` answer the same interrupt at once. One resume value is accepted, and none reaches the next interrupt. */
import assert from "node:assert/strict";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import type { Response } from "playwright-core";
import { langgraph } from "../../adapters/langgraph/mod.ts";
import type { Gates } from "../support/graphs.ts";
import { until } from "../support/until.ts";
import { bundlePage, bundleWithSdk, type Host, openBrowser, openHost, type Principal } from "./browser.ts";
import { Visit } from "./visit.ts";

const TRIES = process.env.GREENROOM_TEST_ALL === "1" ? 50 : 3;

/** The requests that resume: a command, or a run with a resume value. */
const ANSWER = /\/(?:commands|runs\/stream)$/;

/** The times at which the second tab answers. */
const TIMES = ["together", "while the first answer is used", "when the next question is open"] as const;
type Time = (typeof TIMES)[number];

/** A refused command says so in its response body. */
async function isAccepted(waiting: Promise<Response>): Promise<boolean> {
  const response = await waiting;
  if (response.status() !== 200) return false;
  return response.url().endsWith("/commands") ? (await response.json()).type === "success" : true;
}

/** The payments by thread id. */
const payments = new Map<string, string[]>();

/** Pays twice, each time after an approval. */
function payer(gates: Gates) {
  const State = Annotation.Root({ thread: Annotation<string> });
  const pays =
    (amount: string, gate?: string) =>
    async (_: typeof State.State, { configurable }: { configurable?: Record<string, unknown> }) => {
      const thread = String(configurable?.["thread_id"]);
      if (gate) await gates.pass(`${gate} ${thread}`);
      const answer = interrupt({ question: `Pay ${amount}?` });
      payments.set(thread, [...(payments.get(thread) ?? []), `${amount}: ${answer}`]);
      return { thread };
    };
  return new StateGraph(State)
    .addNode("small", pays("10 EUR"))
    .addNode("large", pays("9,999 EUR", "large"))
    .addEdge(START, "small")
    .addEdge("small", "large")
    .addEdge("large", END)
    .compile();
}

const PAGES: Readonly<Record<string, () => string | Promise<string>>> = {
  "@langchain/react, by id": () => bundleWithSdk("react-page.ts", "langgraph-sdk-1-15"),
  "@langchain/langgraph-sdk/react, a plain value": bundlePage,
};

for (const [name, bundle] of Object.entries(PAGES)) {
  describe(`two tabs of useStream of ${name}`, () => {
    let host: Host;
    let principal: Principal;
    before(async () => {
      host = await openHost(await bundle(), (gates) => langgraph({ payer: payer(gates) }));
      principal = await openBrowser();
    });
    after(async () => {
      await principal?.[Symbol.asyncDispose]();
      await host?.[Symbol.asyncDispose]();
    });

    async function openTab(thread_id: string): Promise<Visit> {
      const tab = new Visit(await principal.context.newPage());
      await tab.page.goto(`${host.origin}/?assistant=payer&thread=${thread_id}`);
      await tab.page.getByText("Pay 10 EUR?").waitFor();
      return tab;
    }

    /** Waits until the next interrupt of a thread is pending. */
    const rests = (thread_id: string): Promise<void> =>
      until(async () => {
        const { status } = await host.service.threads.get(thread_id);
        const active = (await host.service.runs.list(thread_id)).filter((run) => /pending|running/.test(run.status));
        return status === "interrupted" && active.length === 0;
      });

    /** Answers in both tabs, the second one at the given time. Returns for each tab whether its resume value was accepted. */
    async function answer(thread_id: string, tabs: readonly [Visit, Visit], time: Time): Promise<readonly boolean[]> {
      const [first, second] = tabs;
      const sentRequests = tabs.map(() => Promise.withResolvers<void>());
      const firstResponse = first.page.waitForResponse(ANSWER);
      for (const [index, { page }] of tabs.entries())
        await page.route(ANSWER, async (route) => {
          sentRequests[index]?.resolve();
          await Promise.all(sentRequests.map(({ promise }) => promise));
          if (page === second.page && time !== "together") await firstResponse;
          if (page === second.page && time === "when the next question is open") {
            host.gates.open(`large ${thread_id}`);
            await rests(thread_id);
          }
          await route.continue();
        });
      const responses = tabs.map(({ page }) => page.waitForResponse(ANSWER));
      await Promise.all(tabs.map(({ page }) => page.locator("#yes").click()));
      const accepted = await Promise.all(responses.map(isAccepted));
      await Promise.all(tabs.map(({ page }) => page.unroute(ANSWER)));
      host.gates.open(`large ${thread_id}`);
      await rests(thread_id);
      return accepted;
    }

    it(`accept one resume value for each interrupt, ${TRIES} times`, async () => {
      for (let attempt = 1; attempt <= TRIES; attempt += 1) {
        const { threads, runs } = host.service;
        const { thread_id } = await threads.create();
        await (await runs.wait(thread_id, { assistant_id: "payer", input: { thread: thread_id } })).result;
        const tabs: [Visit, Visit] = [await openTab(thread_id), await openTab(thread_id)];
        try {
          const time = TIMES[attempt % TIMES.length] as Time;
          const accepted = await answer(thread_id, tabs, time);
          assert.equal(accepted.filter(Boolean).length, 1, `${time}: ${accepted}`);
          assert.deepEqual(payments.get(thread_id), ["10 EUR: yes"], time);
          // Both tabs show the next interrupt, and one of them answers it.
          const [first, second] = tabs;
          await Promise.all(tabs.map(({ page }) => page.reload()));
          await second.page.getByText("Pay 9,999 EUR?").waitFor();
          await first.page.locator("#yes").click();
          await until(async () => (await threads.get(thread_id)).status === "idle");
          assert.deepEqual(payments.get(thread_id), ["10 EUR: yes", "9,999 EUR: yes"]);
        } finally {
          await Promise.all(tabs.map(({ page }) => page.close()));
        }
      }
    });
  });
}
